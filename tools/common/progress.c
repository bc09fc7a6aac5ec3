/* SPDX-License-Identifier: Apache-2.0
 *
 * A progress line on a terminal, at most ten times a second.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "cli.h"
#include "cli_private.h"

static struct {
	pthread_mutex_t lock;
	bool active, shown;
	const char *label;
	uint64_t total, begin_ns, last_ns;
} line = { .lock = PTHREAD_MUTEX_INITIALIZER };

void cli_progress_begin(const char *label, uint64_t total_bytes)
{
	pthread_mutex_lock(&line.lock);
	line.active = !cli_quiet && isatty(STDERR_FILENO);
	line.shown = false;
	line.label = label;
	line.total = total_bytes;
	line.begin_ns = line.last_ns = sgpu_now_ns();
	pthread_mutex_unlock(&line.lock);
}

static void show(uint64_t bytes, uint64_t now)
{
	double seconds = (double)(now - line.begin_ns) / 1e9;
	double mib = (double)bytes / (1 << 20);
	char share[16] = "";

	if (line.total) {
		snprintf(share, sizeof(share), " %3.0f %%", 100.0 * (double)bytes / (double)line.total);
	}
	dprintf(STDERR_FILENO, "\r\033[K%s:%s %.0f MiB, %.0f MiB/s", line.label, share, mib,
		seconds > 0 ? mib / seconds : 0.0);
	line.shown = true;
}

void cli_progress(void *unused, uint64_t bytes)
{
	(void)unused;
	pthread_mutex_lock(&line.lock);
	uint64_t now = line.active ? sgpu_now_ns() : 0;
	if (line.active && now - line.last_ns >= 100000000) {
		line.last_ns = now;
		show(bytes, now);
	}
	pthread_mutex_unlock(&line.lock);
}

void cli_progress_pause(void)
{
	pthread_mutex_lock(&line.lock);
	if (line.shown) {
		(void)!write(STDERR_FILENO, "\r\033[K", 4);
		line.shown = false;
	}
	pthread_mutex_unlock(&line.lock);
}

void cli_progress_end(void)
{
	cli_progress_pause();
	pthread_mutex_lock(&line.lock);
	line.active = false;
	pthread_mutex_unlock(&line.lock);
}
