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

enum { LINE_MAX_LENGTH = 256 };

static struct {
	pthread_mutex_t lock;
	bool terminal, active, plain; /* plain: no escapes */
	size_t shown;		      /* columns of the line that is shown now */
	uint64_t last_ns;
} line = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Of the step that runs; end_ns: the last estimate of its end. */
static struct {
	const char *label;
	uint64_t total, begin_ns, end_ns;
} state;

/* Locks the terminal, so that of several processes that share it, as in a pipeline, only one draws
 * on it. The lock ends with the process. Returns false if another process holds it. */
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
	const uint64_t now = sgpu_now_ns();

	pthread_mutex_lock(&line.lock);
	line.terminal = isatty(cli_error_fd);
	line.active = !cli_quiet && !cli_json && line.terminal;
	line.plain = !terminal || !*terminal || !strcmp(terminal, "dumb");
	line.shown = 0;
	line.last_ns = now;
	state.label = label;
	state.total = total_bytes;
	state.begin_ns = now;
	state.end_ns = 0;
	pthread_mutex_unlock(&line.lock);
}

/* Erases the line, and goes back to the first column. */
static void erase(void)
{
	char blanks[LINE_MAX_LENGTH + 2];

	if (!line.plain) {
		(void)!write(cli_error_fd, "\r\033[K", 4);
	} else {
		memset(blanks, ' ', sizeof(blanks));
		blanks[0] = blanks[line.shown + 1] = '\r';
		(void)!write(cli_error_fd, blanks, line.shown + 2);
	}
	line.shown = 0;
}

bool cli_progress_due(void)
{
	bool due = false;

	pthread_mutex_lock(&line.lock);
	const uint64_t now = line.active ? sgpu_now_ns() : 0;
	if (line.active && now - line.last_ns >= 100000000) {
		line.last_ns = now;
		due = lock_terminal(F_SETLK, F_WRLCK);
	}
	pthread_mutex_unlock(&line.lock);
	return due;
}

void cli_progress_line(const char *text)
{
	const size_t size = strnlen(text, LINE_MAX_LENGTH);

	pthread_mutex_lock(&line.lock);
	if (line.active) {
		if (line.shown) {
			erase();
		}
		(void)!write(cli_error_fd, text, size);
		line.shown = size;
	}
	pthread_mutex_unlock(&line.lock);
}

uint64_t cli_progress_left(uint64_t elapsed_ns, uint64_t done, uint64_t total)
{
	const uint64_t now = sgpu_now_ns(), before = state.end_ns;
	uint64_t end = done && total > done ? now + (uint64_t)((double)elapsed_ns / (double)done *
							       (double)(total - done))
					    : before;

	end = before > now && before < end ? before : end;
	state.end_ns = end;
	return end > now ? end - now : 0;
}

void cli_progress(void *unused, uint64_t bytes)
{
	(void)unused;
	if (!cli_progress_due()) {
		return;
	}
	const uint64_t total = state.total, elapsed = sgpu_now_ns() - state.begin_ns;
	const double mib = (double)bytes / (1 << 20), seconds = (double)elapsed / 1e9;
	char text[LINE_MAX_LENGTH], share[16] = "", left[32] = "";

	if (total && bytes <= total) {
		snprintf(share, sizeof(share), " %3.0f %%,", 100.0 * (double)bytes / (double)total);
		snprintf(left, sizeof(left), ", %.0f s left",
			 (double)cli_progress_left(elapsed, bytes, total) / 1e9);
	}
	snprintf(text, sizeof(text), "%s:%s %.0f MiB, %.0f MiB/s%s", state.label, share, mib,
		 seconds > 0 ? mib / seconds : 0.0, left);
	cli_progress_line(text);
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
