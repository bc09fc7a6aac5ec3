/* SPDX-License-Identifier: Apache-2.0
 *
 * wake: from the begin of the call that wakes another process to that one's first instruction,
 * after it has waited for a while; and the processor time of the other process for such an
 * operation, with its wait.
 */
#include <sys/prctl.h>
#include <time.h>

#include <sgpu/io.h>

#include "base/cores.h"
#include "base/spin.h"
#include "cases.h"
#include "made.h"
#include "pair.h"

struct wake {
	struct sgpu_bench *bench;
	struct pair pair;
	uint32_t samples; /* so far: the other process has waited as often */
	uint64_t idle_ns, cpu_ns;
	bool costs, sleeps; /* what is measured; whether this process sleeps while the other one
			       waits */
};

/* Nobody but this process itself gets its own processor time to the moment. */
static void serve(struct pair *pair)
{
	struct timespec cpu;

	do {
		(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
		atomic_store(&pair->words->cpu_ns,
			     (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec);
		atomic_fetch_add(&pair->words->ready, 1);
		if (!pair->way->await(pair, PAIR_THERE)) {
			return;
		}
		atomic_store(&pair->words->woken_ns, sgpu_now_ns());
	} while (pair->way->send(pair, PAIR_BACK));
}

/* Until the other process is about to wait once more. */
static int await_ready(struct wake *w, struct sgpu_error *error)
{
	while (atomic_load(&w->pair.words->ready) <= w->samples) {
		if (sgpu_io_interrupted() || w->pair.is_dead) {
			return w->pair.is_dead ? sgpu_fail(error, SGPU_ESYSTEM,
							   "the other process has died")
					       : sgpu_fail(error, SGPU_ECANCELED, "interrupted");
		}
		sgpu_pause();
	}
	return SGPU_OK;
}

static int idle(void *argument, struct sgpu_error *error)
{
	struct wake *w = argument;
	const int rc = await_ready(w, error);
	const uint64_t end = sgpu_now_ns() + w->idle_ns;
	const struct timespec until = { .tv_sec = (time_t)(end / 1000000000),
					.tv_nsec = (long)(end % 1000000000) };

	w->cpu_ns = atomic_load(&w->pair.words->cpu_ns);
	if (w->sleeps) {
		(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	}
	while (rc == SGPU_OK && sgpu_now_ns() < end) {
		sgpu_pause();
	}
	return rc;
}

static int wake(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct wake *w = argument;
	struct pair_words *words = w->pair.words;
	const uint64_t begin = sgpu_now_ns();
	int rc = pair_trip(&w->pair, error);

	w->samples++;
	rc = rc == SGPU_OK ? await_ready(w, error) : rc;
	*ns = w->costs ? atomic_load(&words->cpu_ns) - w->cpu_ns
		       : atomic_load(&words->woken_ns) - begin;
	*ns += *ns == 0;
	return rc;
}

static int measure_idle(struct wake *w, uint64_t idle_ns, struct sgpu_error *error)
{
	const struct sgpu_bench_variant variant = {
		.name = w->pair.way->name, .prepare = idle, .run = wake, .argument = w
	};
	const struct sgpu_bench_point point = {
		.parameters = { { "what", w->costs ? "processor time" : "latency", 0 },
				{ "partner", w->sleeps ? "idle" : "busy", 0 },
				{ "idle_ns", NULL, idle_ns } }
	};

	w->idle_ns = idle_ns;
	return sgpu_bench_measure(w->bench, &point, &variant, 1, error);
}

/* Latency at every time of idleness, and of the policies of a ring the processor time at some of
 * them. */
static int measure_way(struct wake *w, struct sgpu_error *error)
{
	static const uint64_t idles[] = { 1000, 10000, 100000, 1000000, 10000000, 100000000 };
	const bool is_policy = w->pair.way >= &pair_ways[PAIR_RING_SPIN];
	int rc = SGPU_OK;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(idles); i++) {
		const int modes = is_policy && i % 2 ? 3 : 1;

		for (int mode = 0; rc == SGPU_OK && mode < modes; mode++) {
			w->costs = mode > 0;
			w->sleeps = mode > 1;
			rc = measure_idle(w, idles[i], error);
		}
	}
	return rc;
}

static int run(struct sgpu_bench *bench, struct sgpu_error *error)
{
	int cores[2], rc = SGPU_OK;

	if (sgpu_find_cores(cores) < 2) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "one processor only: who waits would share it with who wakes");
	}
	(void)prctl(
		PR_SET_TIMERSLACK,
		1); /* so that this process does not sleep longer than the other one is to wait */
	for (int way = PAIR_EVENTFD; rc == SGPU_OK && way < PAIR_WAYS; way++) {
		struct wake w = { .bench = bench };

		rc = pair_start(&w.pair, &pair_ways[way], cores, serve, error);
		rc = rc == SGPU_OK ? measure_way(&w, error)
				   : bench_or_waive(bench, NULL, pair_ways[way].name, rc, error);
		pair_end(&w.pair);
	}
	(void)prctl(PR_SET_TIMERSLACK, 0);
	return rc;
}

const struct sgpu_bench_case case_wake = {
	.name = "wake",
	.help = "waking a process that waits, after it was idle for a while; the processor time of "
		"ways to wait",
	.unit = SGPU_BENCH_NS,
	.run = run,
};
