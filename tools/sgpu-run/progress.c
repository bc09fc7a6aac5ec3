/* SPDX-License-Identifier: Apache-2.0
 *
 * SIGUSR1 prints one line: a thread waits for the signal, so that printing needs no care for what a handler may do.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#include "cli.h"
#include "report.h"

static pthread_t thread;
static bool started;
static const struct sgpu_run *shown;

static void print_line(void)
{
	struct sgpu_run_progress p;
	char line[512];
	int size;

	sgpu_run_get_progress(shown, &p);
	size = snprintf(line, sizeof(line), cli_json ?
			"{\"progress\":{\"operations_done\":%d,\"operations_failed\":%d,\"operations\":%d,"
			"\"bytes_in\":%" PRIu64 ",\"bytes_out\":%" PRIu64 ",\"elapsed_ns\":%" PRIu64 "}}\n" :
			"sgpu-run: %d operations done, %d failed, %d in all; %" PRIu64 " bytes in, %" PRIu64
			" bytes out; %" PRIu64 " ns\n",
			p.operations_done, p.operations_failed, p.operations, p.bytes_in, p.bytes_out, p.elapsed_ns);
	if (size > 0) {
		fwrite(line, 1, (size_t)size, stderr);
	}
}

static void *wait_for_signal(void *argument)
{
	sigset_t set;
	int number;

	(void)argument;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	for (;;) {
		if (sigwait(&set, &number) == 0) {
			pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
			print_line();
			pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
		}
	}
	return NULL;
}

void report_progress_begin(const struct sgpu_run *run)
{
	sigset_t all, old;

	shown = run;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	started = pthread_create(&thread, NULL, wait_for_signal, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void report_progress_end(void)
{
	if (started) {
		pthread_cancel(thread);
		pthread_join(thread, NULL);
		started = false;
	}
}
