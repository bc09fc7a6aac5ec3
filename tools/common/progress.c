/* SPDX-License-Identifier: Apache-2.0
 *
 * The progress of a program: a line on a terminal, at most ten times a second, and a line on
 * SIGUSR1 wherever standard error goes. The signal handler itself writes the second line and may
 * run at any time, so it reads only atomics, and formats only integers and strings, for which the C
 * library neither allocates nor locks.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
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

/* Read by the signal handler. */
static struct {
	_Atomic(const char *) label; /* NULL while none of the verb's long steps runs */
	/* end_ns: the last estimate of the end */
	atomic_uint_least64_t done, total, begin_ns, start_ns, end_ns;
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
	atomic_store(&state.done, 0);
	atomic_store(&state.total, total_bytes);
	atomic_store(&state.begin_ns, now);
	atomic_store(&state.end_ns, 0);
	atomic_store(&state.label, label);
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
	const uint64_t now = sgpu_now_ns(), before = atomic_load(&state.end_ns);
	uint64_t end = done && total > done ? now + (uint64_t)((double)elapsed_ns / (double)done *
							       (double)(total - done))
					    : before;

	end = before > now && before < end ? before : end;
	atomic_store(&state.end_ns, end);
	return end > now ? end - now : 0;
}

void cli_progress(void *unused, uint64_t bytes)
{
	(void)unused;
	atomic_store(&state.done, bytes);
	if (!cli_progress_due()) {
		return;
	}
	const uint64_t total = atomic_load(&state.total),
		       elapsed = sgpu_now_ns() - atomic_load(&state.begin_ns);
	const double mib = (double)bytes / (1 << 20), seconds = (double)elapsed / 1e9;
	char text[LINE_MAX_LENGTH], share[16] = "", left[32] = "";

	if (total && bytes <= total) {
		snprintf(share, sizeof(share), " %3.0f %%,", 100.0 * (double)bytes / (double)total);
		snprintf(left, sizeof(left), ", %.0f s left",
			 (double)cli_progress_left(elapsed, bytes, total) / 1e9);
	}
	snprintf(text, sizeof(text), "%s:%s %.0f MiB, %.0f MiB/s%s", atomic_load(&state.label),
		 share, mib, seconds > 0 ? mib / seconds : 0.0, left);
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
	atomic_store(&state.label, NULL);
	pthread_mutex_unlock(&line.lock);
}

/* ---- SIGUSR1 ---- */
static void on_usr1(int number)
{
	const int saved = errno;
	const char *label = atomic_load(&state.label);
	const uint64_t done = label ? atomic_load(&state.done) : 0,
		       total = label ? atomic_load(&state.total) : 0;
	const uint64_t elapsed =
		sgpu_now_ns() - atomic_load(label ? &state.begin_ns : &state.start_ns);
	const uint64_t left = cli_progress_left(elapsed, done, total);
	char text[LINE_MAX_LENGTH], all[64] = "", rest[64] = "";
	int size;

	(void)number;
	label = label ? label : *cli_verb_name() ? cli_verb_name() : "starting";
	if (total) {
		snprintf(all, sizeof(all), cli_json ? ",\"bytes_in_all\":%" PRIu64 : " of %" PRIu64,
			 total);
	}
	if (left && cli_json) {
		snprintf(rest, sizeof(rest), ",\"left_ns\":%" PRIu64, left);
	} else if (left) {
		snprintf(rest, sizeof(rest), ", about %" PRIu64 ".%d s left", left / 1000000000,
			 (int)(left / 100000000 % 10));
	}
	if (cli_json) {
		size = snprintf(text, sizeof(text),
				"{\"progress\":{\"bytes\":%" PRIu64 "%s,\"elapsed_ns\":%" PRIu64
				",\"label\":\"%s\"%s,\"tool\":\"%s\"}}\n",
				done, all, elapsed, label, rest, cli_tool_name());
	} else {
		char bytes[64] = "";

		if (done || total) {
			snprintf(bytes, sizeof(bytes), "%" PRIu64 "%s bytes, ", done, all);
		}
		size = snprintf(text, sizeof(text), "%s: %s: %s%" PRIu64 ".%d s%s\n",
				cli_tool_name(), label, bytes, elapsed / 1000000000,
				(int)(elapsed / 100000000 % 10), rest);
	}
	(void)!write(cli_error_fd, text,
		     size < LINE_MAX_LENGTH ? (size_t)size : LINE_MAX_LENGTH - 1);
	errno = saved;
}

void cli_progress_on_signal(void)
{
	/* SA_RESTART: blocked system calls continue. */
	struct sigaction action = { .sa_handler = on_usr1, .sa_flags = SA_RESTART };

	atomic_store(&state.start_ns, sgpu_now_ns());
	sigemptyset(&action.sa_mask);
	sigaction(SIGUSR1, &action, NULL);
}
