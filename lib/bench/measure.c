/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of the variants of a point, taken in turns.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/io.h"
#include "bench/bench.h"

enum {
	SAMPLES_ENOUGH = 1000,
	SAMPLES_MIN = 5,
	SAMPLES_MIN_LONG = 3 /* also with `quick` */
};
static const uint64_t time_standard = 300000000, time_quick = 100000000;
/* After this many samples and this many ns, sampling may stop when the medians' intervals are
 * narrow. */
enum { SAMPLES_SETTLED = 30 };
static const uint64_t time_settled = 100000000;
static const double half_width_settled = 0.005;
/* So many bytes at most are verified after every sample; checking more takes longer than
 * measuring. */
static const uint64_t verify_always = (uint64_t)64 << 20;

enum series { NS, CPU_NS, RATIO, SERIES };

struct measurement {
	struct sgpu_bench *bench;
	const struct sgpu_bench_point *point;
	const struct sgpu_bench_variant *variants; /* of the caller */
	int count;
	uint64_t rounds, limit;
	uint64_t next_look;  /* at the medians, in rounds */
	const char *stopped; /* why sampling stopped, or NULL */
	double *samples;     /* `limit` of each series, and room to sort one */
};

static double *series_of(const struct measurement *m, int variant, enum series series)
{
	return m->samples + (uint64_t)(variant * SERIES + (int)series) * m->limit;
}

static uint64_t cpu_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int take_sample(struct measurement *m, int v, bool verify, struct sgpu_error *error)
{
	const struct sgpu_bench_variant *variant = &m->variants[v];
	struct sgpu_bench *bench = m->bench;
	uint64_t begin, cpu_begin;
	int rc = SGPU_OK;

	if (sgpu_io_interrupted()) {
		return sgpu_fail(error, SGPU_ECANCELED, "interrupted");
	}
	bench->variant = v;
	if (variant->prepare) {
		rc = variant->prepare(variant->argument, error);
	}
	bench->ns = bench->cpu_ns = 0;
	cpu_begin = cpu_now_ns();
	begin = sgpu_now_ns();
	rc = rc ? rc : variant->work(variant->argument, error);
	bench->ns = bench->ns ? bench->ns : sgpu_now_ns() - begin;
	bench->cpu_ns = bench->cpu_ns ? bench->cpu_ns : cpu_now_ns() - cpu_begin;
	series_of(m, v, CPU_NS)[m->rounds] = (double)bench->cpu_ns;
	/* 1 ns if the time is below the clock's step. */
	series_of(m, v, NS)[m->rounds] = bench->ns ? (double)bench->ns : 1;
	if (rc == SGPU_OK && verify && variant->verify) {
		rc = variant->verify(variant->argument, error);
	}
	return rc;
}

/* Every other round is in reverse order. *failed: the variant that failed. */
static int take_round(struct measurement *m, bool verify, int *failed, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < m->count; i++) {
		*failed = m->rounds % 2 ? m->count - 1 - i : i;
		rc = take_sample(m, *failed, verify, error);
	}
	for (int v = 0; rc == SGPU_OK && v < m->count; v++) {
		series_of(m, v, RATIO)[m->rounds] =
			series_of(m, v, NS)[m->rounds] / series_of(m, 0, NS)[m->rounds];
	}
	return rc;
}

static struct sgpu_bench_statistics summarise(struct measurement *m, int variant,
					      enum series series)
{
	double *sorted = series_of(m, m->count, 0);

	memcpy(sorted, series_of(m, variant, series), m->rounds * sizeof(*sorted));
	return sgpu_bench_summarise(sorted, m->rounds);
}

/* The more samples, the rarer the checks, which sort them. */
static bool is_settled(struct measurement *m, uint64_t elapsed_ns)
{
	if (m->rounds < SAMPLES_SETTLED || m->rounds < m->next_look || elapsed_ns < time_settled) {
		return false;
	}
	m->next_look = m->rounds + m->rounds / 8;
	for (int v = 0; v < m->count; v++) {
		const struct sgpu_bench_statistics s = summarise(m, v, NS);

		if (s.high - s.low > 2 * half_width_settled * s.median) {
			return false;
		}
	}
	return true;
}

static const char *stops_by(struct measurement *m, uint64_t elapsed_ns, uint64_t round_ns)
{
	const struct sgpu_bench_options *o = &m->bench->options;
	uint64_t least, time_ns = (o->time_ns ? o->time_ns
				   : o->quick ? time_quick
					      : time_standard) *
				  (uint64_t)m->count;

	if (m->rounds + 1 >= m->limit) {
		return "count";
	}
	/* Of samples that exceed the time by far, fewer suffice. */
	least = o->quick || elapsed_ns > 3 * time_ns ? SAMPLES_MIN_LONG : SAMPLES_MIN;
	if (o->samples || m->rounds + 1 < least) {
		return NULL;
	}
	return elapsed_ns + round_ns >= time_ns ? "time"
	       : is_settled(m, elapsed_ns)	? "deviation"
						: NULL;
}

/* stops_by() is asked before a round, since the last one is always verified. */
static int take_rounds(struct measurement *m, int *failed, struct sgpu_error *error)
{
	uint64_t begin = sgpu_now_ns(), now = begin, length = 0;
	bool always = m->point->bytes <= verify_always;
	int rc = SGPU_OK;

	while (rc == SGPU_OK && !m->stopped) {
		m->stopped = stops_by(m, now - begin, length);
		rc = take_round(m, always || m->stopped, failed, error);
		length = sgpu_now_ns() - now;
		now += length;
		m->rounds++;
	}
	return rc;
}

/* Rounds to `digits` decimal places; an integer if no fraction is left. */
static json_t *number(double value, int digits)
{
	double scale = pow(10, digits), rounded = round(value * scale) / scale;

	return rounded == floor(rounded) && fabs(rounded) < 9e15 ? json_integer((json_int_t)rounded)
								 : json_real(rounded);
}

static void set(json_t *members, const char *key, double value, int digits)
{
	json_object_set_new(members, key, number(value, digits));
}

static void set_times(json_t *members, const struct sgpu_bench_statistics *ns)
{
	set(members, "n", (double)ns->n, 0);
	set(members, "min_ns", ns->min, 1);
	set(members, "median_ns", ns->median, 1);
	set(members, "p90_ns", ns->p90, 1);
	set(members, "p95_ns", ns->p95, 1);
	set(members, "p99_ns", ns->p99, 1);
	set(members, "median_low_ns", ns->low, 1);
	set(members, "median_high_ns", ns->high, 1);
	set(members, "mad_ns", ns->mad, 1);
	set(members, "spread", ns->spread, 4);
}

static void set_ratio(json_t *members, const char *to, const struct sgpu_bench_statistics *ratio)
{
	json_object_set_new(members, "ratio_to", json_string(to));
	set(members, "ratio", ratio->median, 5);
	set(members, "ratio_min", ratio->min, 5);
	set(members, "ratio_p95", ratio->p95, 5);
	set(members, "ratio_mad", ratio->mad, 5);
	set(members, "ratio_low", ratio->low, 5);
	set(members, "ratio_high", ratio->high, 5);
}

/* first: median of the first variant. */
static json_t *members_of(struct measurement *m, int v, double first)
{
	const struct sgpu_bench_point *point = m->point;
	const struct sgpu_bench_statistics ns = summarise(m, v, NS), ratio = summarise(m, v, RATIO);
	const double operations = point->operations ? (double)point->operations : 1,
		     bytes = (double)point->bytes;
	json_t *members = json_object(), *samples = json_array();

	set_times(members, &ns);
	set(members, "cpu_median_ns", summarise(m, v, CPU_NS).median, 1);
	if (point->goals && (point->goals[v].ratio > 0 || point->goals[v].ns > 0)) {
		set(members, "goal_ns", point->goals[v].ratio * first + point->goals[v].ns, 1);
	}
	if (point->bytes) {
		set(members, "bytes", bytes, 0);
		set(members, "bytes_per_second", bytes / ns.median * 1e9, 0);
	}
	set(members, "operations", operations, 0);
	set(members, "operations_per_second", operations / ns.median * 1e9, 3);
	set(members, "ns_per_operation", ns.median / operations, 1);
	if (v > 0) {
		set_ratio(members, m->variants[0].name, &ratio);
	}
	json_object_set_new(members, "stopped", json_string(m->stopped));
	for (uint64_t i = 0; i < m->rounds; i++) {
		json_array_append_new(samples, number(series_of(m, v, NS)[i], 1));
	}
	json_object_set_new(members, "samples_ns", samples);
	return members;
}

int sgpu_bench_measure(struct sgpu_bench *bench, const struct sgpu_bench_point *point,
		       const struct sgpu_bench_variant *variants, int count,
		       struct sgpu_error *error)
{
	const uint64_t asked = bench->options.samples;
	struct measurement m = { .bench = bench,
				 .point = point,
				 .variants = variants,
				 .count = count,
				 .limit = asked ? asked : SAMPLES_ENOUGH };
	int failed = 0, rc;

	m.samples = calloc(m.limit, (size_t)(m.count * SERIES + 1) * sizeof(*m.samples));
	if (!m.samples) {
		return sgpu_fail_nomem(error);
	}
	rc = take_round(&m, true, &failed, error); /* the warm-up */
	rc = rc ? rc : take_rounds(&m, &failed, error);
	if (rc == SGPU_OK) {
		const double first = summarise(&m, 0, NS).median;

		for (int v = 0; v < count; v++) {
			sgpu_bench_give(bench, point, variants[v].name, SGPU_BENCH_PASSED,
					members_of(&m, v, first));
		}
	} else if (rc != SGPU_ECANCELED) {
		error->code = rc;
		bench->told = true;
		sgpu_bench_give_error(bench, point, variants[failed].name, error);
	}
	free(m.samples);
	return rc;
}
