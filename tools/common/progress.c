/* SPDX-License-Identifier: Apache-2.0
 *
 * The progress of a program: a line on a terminal, at most ten times a second.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "cli.h"

enum { LINE_SIZE = 160 };

static struct {
	pthread_mutex_t lock;
	bool terminal, active, shown;
	const char *label;
	uint64_t total, begin_ns, last_ns;
} line = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Locks the terminal, so that of several processes, as in a pipeline, only one draws on it. The
 * lock ends with the process; false: another process holds it. */
static bool lock_terminal(int command, short type)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET };

	return fcntl(cli_error_fd, command, &lock) == 0
		       ? command != F_GETLK || lock.l_type == F_UNLCK
		       : errno != EAGAIN && errno != EACCES;
}

void cli_progress_begin(const char *label, uint64_t total_bytes)
{
	const char *terminal = getenv("TERM");

	pthread_mutex_lock(&line.lock);
	line.terminal = isatty(cli_error_fd) && terminal && *terminal && strcmp(terminal, "dumb");
	line.active = !cli_quiet && !cli_json && line.terminal;
	line.shown = false;
	line.label = label;
	line.total = total_bytes;
	line.begin_ns = line.last_ns = sgpu_now_ns();
	pthread_mutex_unlock(&line.lock);
}

static void erase(void)
{
	(void)!write(cli_error_fd, "\r\033[K", 4);
	line.shown = false;
}

void cli_progress(void *total_bytes, uint64_t bytes)
{
	bool due = false;

	pthread_mutex_lock(&line.lock);
	line.total = total_bytes ? *(const uint64_t *)total_bytes : line.total;
	const uint64_t now = line.active ? sgpu_now_ns() : 0;

	if (line.active && now - line.last_ns >= 100000000) {
		line.last_ns = now;
		due = lock_terminal(F_SETLK, F_WRLCK);
	}
	if (due) {
		const double mib = (double)bytes / (1 << 20);
		char text[LINE_SIZE], share[16] = "";

		if (line.total && bytes <= line.total) {
			snprintf(share, sizeof(share), " %3.0f %%,",
				 100.0 * (double)bytes / (double)line.total);
		}
		snprintf(text, sizeof(text), "%s:%s %.0f MiB, %.0f MiB/s", line.label, share, mib,
			 mib / ((double)(now - line.begin_ns) / 1e9));
		if (line.shown) {
			erase();
		}
		(void)!write(cli_error_fd, text, strlen(text));
		line.shown = true;
	}
	pthread_mutex_unlock(&line.lock);
}

void cli_progress_pause(void)
{
	pthread_mutex_lock(&line.lock);
	if (line.shown || (line.terminal && !lock_terminal(F_GETLK, F_WRLCK))) {
		erase();
	}
	pthread_mutex_unlock(&line.lock);
}

void cli_progress_end(void)
{
	cli_progress_pause();
	pthread_mutex_lock(&line.lock);
	if (line.active) {
		(void)lock_terminal(F_SETLK, F_UNLCK);
	}
	line.active = false;
	pthread_mutex_unlock(&line.lock);
}
