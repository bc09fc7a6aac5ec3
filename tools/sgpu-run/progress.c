/* SPDX-License-Identifier: Apache-2.0
 *
 * How far a run is: a line on a terminal, and one on SIGUSR1. A thread reads the signal from a
 * descriptor, so that printing needs no care for what a handler may do. The same thread sees when a
 * run does not end that was told to: a GPU gives up on its kernels in a few seconds, but a call of
 * its driver may wait for a kernel that never ends; and a module on the CPU device is not to be
 * stopped at all.
 */
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli.h"
#include "report.h"
#include "worker.h"

static pthread_t thread;
static bool started;
static int signal_fd = -1, end_fd = -1;
static const struct sgpu_run *shown;
static void (*when_stuck)(void);

uint64_t report_bytes_in_all(const struct sgpu_run *run)
{
	struct sgpu_run_progress p;
	const struct sgpu_batch *batch;
	uint64_t sum = 0;

	sgpu_run_get_progress(run, &p);
	batch = p.operations ? sgpu_run_get_batch(run) : NULL;
	for (int i = 0; batch && i < batch->segment_count; i++) {
		sum += batch->segments[i].input ? sgpu_batch_payload_size(batch, i) : 0;
	}
	return sum;
}

enum { WHOLE = 1 << 20 };

/* How much is done of WHOLE: a third of the way is bytes, one is operations, and one the response.
 * 0 before the batch's head has come. */
static uint64_t share_done(const struct sgpu_run_progress *p, uint64_t all)
{
	if (!p->operations) {
		return 0;
	}
	const double bytes = all ? (double)p->bytes_in / (double)all : 1;
	const double operations =
		(double)(p->operations_done + p->operations_failed) / p->operations;

	return (uint64_t)((bytes + operations) / 3 * WHOLE);
}

void report_progress_print(const struct sgpu_run_progress *p, uint64_t all)
{
	const uint64_t ns = cli_progress_left(p->elapsed_ns, share_done(p, all), WHOLE);
	char line[512], left[64] = "";
	int size;

	if (ns && cli_json) {
		snprintf(left, sizeof(left), ",\"left_ns\":%" PRIu64, ns);
	} else if (ns) {
		snprintf(left, sizeof(left), ", about %.1f s left", (double)ns / 1e9);
	}
	size = cli_json ? snprintf(line, sizeof(line),
				   "{\"progress\":{\"operations_done\":%d,\"operations_failed\":%d,"
				   "\"operations\":%d,"
				   "\"bytes_in\":%" PRIu64 ",\"bytes_in_all\":%" PRIu64
				   ",\"bytes_out\":%" PRIu64 ",\"elapsed_ns\":%" PRIu64 "%s}}\n",
				   p->operations_done, p->operations_failed, p->operations,
				   p->bytes_in, all, p->bytes_out, p->elapsed_ns, left)
			: snprintf(line, sizeof(line),
				   "sgpu-run: %d operations done, %d failed, %d in all; %" PRIu64
				   " of %" PRIu64 " bytes in, %" PRIu64 " bytes out; %.1f s%s\n",
				   p->operations_done, p->operations_failed, p->operations,
				   p->bytes_in, all, p->bytes_out, (double)p->elapsed_ns / 1e9,
				   left);
	if (size > 0) {
		cli_progress_pause();
		(void)!write(cli_error_fd, line, (size_t)size);
	}
}

void report_progress_show(const struct sgpu_run_progress *p, uint64_t all)
{
	const uint64_t done = share_done(p, all);
	char line[160], left[32] = "";

	if (!p->operations || !cli_progress_due()) {
		return;
	}
	const uint64_t ns = cli_progress_left(p->elapsed_ns, done, WHOLE);

	if (ns) {
		snprintf(left, sizeof(left), ", %.0f s left", (double)ns / 1e9);
	}
	snprintf(line, sizeof(line),
		 "running: %3.0f %%, %d of %d operations, %.0f of %.0f MiB in%s",
		 100.0 * (double)done / WHOLE, p->operations_done + p->operations_failed,
		 p->operations, (double)p->bytes_in / (1 << 20), (double)all / (1 << 20), left);
	cli_progress_line(line);
}

static void *wait_for_signal(void *argument)
{
	struct signalfd_siginfo signal;
	struct pollfd fds[2] = { { .fd = signal_fd, .events = POLLIN },
				 { .fd = end_fd, .events = POLLIN } };

	(void)argument;
	const int wait_ms = isatty(cli_error_fd) && !cli_quiet && !cli_json ? 100
			    : when_stuck				    ? 1000
									    : -1;

	while (poll(fds, 2, wait_ms) >= 0 && !fds[1].revents) {
		struct sgpu_run_progress p;

		sgpu_run_get_progress(shown, &p);
		if (when_stuck && p.stopping_ns > WORKER_STUCK_NS) {
			when_stuck();
		}
		report_progress_show(&p, report_bytes_in_all(shown));
		if (fds[0].revents &&
		    read(signal_fd, &signal, sizeof(signal)) == (ssize_t)sizeof(signal)) {
			report_progress_print(&p, report_bytes_in_all(shown));
		}
	}
	return NULL;
}

/* The caller has blocked SIGUSR1 in every thread. Without descriptors or thread there is no
 * progress to see, which is no reason not to run. */
void report_progress_begin(const struct sgpu_run *run, void (*give_up)(void))
{
	sigset_t all, old, usr1;

	shown = run;
	when_stuck = give_up;
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	signal_fd = signalfd(-1, &usr1, SFD_CLOEXEC | SFD_NONBLOCK);
	end_fd = eventfd(0, EFD_CLOEXEC);
	if (signal_fd < 0 || end_fd < 0) {
		return;
	}
	cli_progress_begin("running", 0);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	started = pthread_create(&thread, NULL, wait_for_signal, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void report_progress_end(void)
{
	if (started && eventfd_write(end_fd, 1) == 0) {
		pthread_join(thread, NULL);
	}
	cli_progress_end();
	started = false;
	sgpu_close(signal_fd);
	sgpu_close(end_fd);
	signal_fd = end_fd = -1;
}
