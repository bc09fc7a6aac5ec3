/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame of the bench: samples in turns, outcomes, the gate.
 */
#include <math.h>
#include <stdint.h>
#include <unistd.h>

#include <bench/bench.h>

#include "unit.h"

static struct sgpu_error error;

static bool near(double a, double b)
{
	return fabs(a - b) <= 1e-9 * fmax(1, fabs(b));
}

/* ---- cases made up here ---- */
struct notes {
	json_t *records[16];
	int count;
};

static struct notes notes;
static char order[256]; /* which variants ran */
static int prepared, verified, set_up, torn_down;
static int fail_verify_at, run_code, setup_code;
static uint64_t point_bytes;
static struct sgpu_bench *made_bench;

static void note(void *argument, const json_t *record)
{
	struct notes *n = argument;

	if (n->count < 16) {
		n->records[n->count++] = json_deep_copy(record);
	}
}

/* Of a record that was noted. */
static double number(int record, const char *key)
{
	return sgpu_bench_number(notes.records[record], key);
}

static bool is(int record, const char *key, const char *text)
{
	return strcmp(sgpu_bench_text(notes.records[record], key), text) == 0;
}

static int made_prepare(void *argument, struct sgpu_error *e)
{
	(void)argument;
	(void)e;
	prepared++;
	return SGPU_OK;
}

/* Variant "a" takes 100, 101, ... ns, variant "b" twice that. */
static int made_work(void *argument, struct sgpu_error *e)
{
	const char *name = argument;
	size_t length = strlen(order);

	CHECK(made_bench->ns == 0);
	made_bench->ns = (name[0] == 'a' ? 100 : 200) + (name[0] == 'a' ? 1 : 2) * (length / 2);
	made_bench->cpu_ns = name[0] == 'b' ? 777 : 0;
	if (length + 1 < sizeof(order)) {
		order[length] = name[0];
		order[length + 1] = '\0';
	}
	return run_code ? sgpu_fail(e, run_code, "made to end with %d", run_code) : SGPU_OK;
}

static int made_verify(void *argument, struct sgpu_error *e)
{
	(void)argument;
	verified++;
	return verified == fail_verify_at ? sgpu_fail(e, SGPU_EDIFFERS, "made to differ") : SGPU_OK;
}

/* Things are ended last first, each once. */
static void end_made(struct sgpu_bench *bench, uintptr_t what, uint64_t size)
{
	CHECK(bench == made_bench && what == (uintptr_t)&set_up && size == (uint64_t)--set_up);
	torn_down += set_up == 0;
}

static int made_case(struct sgpu_bench *bench, struct sgpu_error *e)
{
	char a[] = "a", b[] = "b";
	const struct sgpu_bench_variant variants[] = {
		{ .name = "a",
		  .prepare = made_prepare,
		  .work = made_work,
		  .verify = made_verify,
		  .argument = a },
		{ .name = "b",
		  .prepare = made_prepare,
		  .work = made_work,
		  .verify = made_verify,
		  .argument = b },
	};
	static const struct sgpu_bench_goal goals[] = { { 0, 0 }, { 0.5, 10 } };
	const struct sgpu_bench_point point = {
		.parameters = { { "direction", "up", 0 }, { "size_bytes", NULL, 4096 } },
		.bytes = point_bytes,
		.operations = 4,
		.goals = goals,
	};

	made_bench = bench;
	CHECK(bench->options.jobs > 0);
	for (int i = 0; i < 100; i++) {
		const void *const mark = bench->kept;

		CHECK(sgpu_bench_keep(bench, end_made, (uintptr_t)&set_up, (uint64_t)set_up++, e) ==
		      SGPU_OK);
		if (i % 2) {
			sgpu_bench_release(bench, mark);
		}
	}
	CHECK(set_up == 50);
	if (setup_code) { /* not by sgpu_fail: what is returned counts */
		snprintf(e->text, sizeof(e->text), "made to lack");
		return setup_code;
	}
	return sgpu_bench_measure(bench, &point, variants, 2, e);
}

static const struct sgpu_bench_case made = {
	.name = "made",
	.help = "made up",
	.unit = SGPU_BENCH_BYTES_PER_SECOND,
	.run = made_case,
};

static void reset(void)
{
	while (notes.count) {
		json_decref(notes.records[--notes.count]);
	}
	order[0] = '\0';
	prepared = verified = set_up = torn_down = fail_verify_at = run_code = setup_code = 0;
	point_bytes = 1000;
}

static int run_made(const struct sgpu_bench_case *row, uint64_t samples,
		    enum sgpu_bench_status *status)
{
	const struct sgpu_bench_options options = { .samples = samples };

	return sgpu_bench_run(row, &options, NULL, note, &notes, status, &error);
}

UNIT_TEST(variants_are_sampled_in_turns)
{
	enum sgpu_bench_status status = SGPU_BENCH_FAILED;
	const json_t *samples, *parameters;

	reset();
	REQUIRE(run_made(&made, 4, &status) == SGPU_OK);
	CHECK(status == SGPU_BENCH_PASSED && notes.count == 2 && set_up == 0 && torn_down == 1);
	CHECK(is(0, "stopped", "count") && number(0, "bytes") == 1000);
	/* A warm-up, then four rounds, every other one reversed. */
	CHECK(strcmp(order, "abab"
			    "baab"
			    "ba") == 0);
	CHECK(prepared == 10 && verified == 10);
	CHECK(is(0, "case", "made") && is(0, "variant", "a") && is(1, "variant", "b"));
	CHECK(number(0, "n") == 4 && number(0, "min_ns") == 101 && number(0, "p95_ns") == 104 &&
	      is(0, "ratio_to", ""));
	CHECK(number(1, "n") == 4 && number(1, "min_ns") == 202 && is(1, "ratio_to", "a"));
	CHECK(near(number(1, "ratio"), 2) && near(number(1, "ratio_p95"), 2));
	CHECK(number(1, "cpu_median_ns") == 777 && number(0, "cpu_median_ns") > 0 &&
	      number(0, "cpu_median_ns") != 777);
	CHECK(number(0, "goal_ns") == 0 && fabs(number(1, "goal_ns") - 102.5 / 2 - 10) < 0.06);
	samples = json_object_get(notes.records[1], "samples_ns");
	CHECK(json_array_size(samples) == 4 &&
	      json_number_value(json_array_get(samples, 0)) == 202 &&
	      json_number_value(json_array_get(samples, 1)) == 204 &&
	      json_number_value(json_array_get(samples, 3)) == 208);
	parameters = json_object_get(notes.records[0], "parameters");
	CHECK(json_object_size(parameters) == 2 &&
	      strcmp(sgpu_bench_text(parameters, "direction"), "up") == 0 &&
	      sgpu_bench_number(parameters, "size_bytes") == 4096);
	CHECK(near(sgpu_bench_value(notes.records[0]), 1000 / 102.5 * 1e9));
}

/* Samples that take 1 ms in truth, and say what the test wants, if anything. */
static uint64_t (*said_ns)(int i);
static int said_count;

static int work_said(void *argument, struct sgpu_error *e)
{
	(void)e;
	usleep(1000);
	if (said_ns) {
		((struct sgpu_bench *)argument)->ns = said_ns(said_count++);
	}
	return SGPU_OK;
}

static int said_case(struct sgpu_bench *bench, struct sgpu_error *e)
{
	const struct sgpu_bench_variant variant = { "v", NULL, work_said, NULL, bench };
	const struct sgpu_bench_point point = { .parameters = { { "size_bytes", NULL, 4096 } },
						.bytes = 4096,
						.operations = 2 };

	return sgpu_bench_measure(bench, &point, &variant, 1, e);
}

static uint64_t steady(int i)
{
	return 10000 + (uint64_t)(i % 7);
}

static uint64_t scattered(int i)
{
	return 10000 + (uint64_t)(i * 7919 % 1009) * 10;
}

static void measure_said(uint64_t (*ns)(int), uint64_t time_ns, uint64_t samples)
{
	const struct sgpu_bench_case row = {
		.name = "said", .help = "", .unit = SGPU_BENCH_NS, .run = said_case
	};
	const struct sgpu_bench_options options = { .samples = samples, .time_ns = time_ns };
	enum sgpu_bench_status status;

	reset();
	said_ns = ns;
	said_count = 0;
	CHECK(sgpu_bench_run(&row, &options, NULL, note, &notes, &status, &error) == SGPU_OK);
	CHECK(status == SGPU_BENCH_PASSED && notes.count == 1);
}

/* Whether the only record has so many samples, and this is why there are no more. */
static bool stopped(const char *why, double least, double most)
{
	return is(0, "stopped", why) && number(0, "n") >= least && number(0, "n") <= most;
}

UNIT_TEST(sampling_stops_for_a_reason_that_is_told)
{
	measure_said(steady, (uint64_t)3600 * 1000000000, 0);
	CHECK(stopped("deviation", 31, 1000));
	CHECK(number(0, "median_high_ns") - number(0, "median_low_ns") <=
	      0.01 * number(0, "median_ns"));
	measure_said(scattered, 150000000, 0);
	CHECK(stopped("time", 5, 150));
	measure_said(scattered, 1, 0); /* and yet so many */
	CHECK(stopped("time", 3, 3));
	measure_said(steady, 0, 150);
	CHECK(stopped("count", 150, 150));
	if (getenv("SGPU_TEST_SMALL")) {
		return;
	}
	measure_said(scattered, (uint64_t)3600 * 1000000000, 0);
	CHECK(stopped("count", 1000, 1000) &&
	      json_array_size(json_object_get(notes.records[0], "samples_ns")) == 1000);
}

UNIT_TEST(the_clock_of_the_host_counts_for_work)
{
	measure_said(NULL, 0, 3);
	CHECK(number(0, "min_ns") >= 1000000);
}

UNIT_TEST(large_samples_are_verified_first_and_last)
{
	enum sgpu_bench_status status;

	reset();
	point_bytes = (uint64_t)1 << 30;
	REQUIRE(run_made(&made, 5, &status) == SGPU_OK);
	CHECK(strlen(order) == 12 && verified == 4);
}

UNIT_TEST(a_wrong_result_fails_the_case)
{
	enum sgpu_bench_status status;

	reset();
	fail_verify_at = 6;
	REQUIRE(run_made(&made, 10, &status) == SGPU_OK);
	CHECK(status == SGPU_BENCH_FAILED && notes.count == 1 && torn_down == 1);
	CHECK(is(0, "status", "failed") && is(0, "variant", "a"));
	CHECK(strstr(sgpu_bench_text(notes.records[0], "reason"), "made to differ") != NULL);
	CHECK(sgpu_bench_value(notes.records[0]) == 0);
}

UNIT_TEST(what_is_lacking_waives_and_what_breaks_fails)
{
	static const struct {
		int code;
		enum sgpu_bench_status status;
	} rows[] = {
		{ SGPU_EUNAVAILABLE, SGPU_BENCH_WAIVED },
		{ SGPU_ENOMEM, SGPU_BENCH_WAIVED },
		{ SGPU_EDEVICE, SGPU_BENCH_FAILED },
		{ SGPU_EAUTH, SGPU_BENCH_FAILED },
	};

	for (size_t i = 0; i < 2 * SGPU_ARRAY_LENGTH(rows); i++) {
		enum sgpu_bench_status status;

		reset();
		*(i % 2 ? &run_code : &setup_code) = rows[i / 2].code;
		CHECK(run_made(&made, 3, &status) == SGPU_OK);
		CHECK(status == rows[i / 2].status && notes.count == 1 && torn_down == 1);
		CHECK(is(0, "status", sgpu_bench_statuses[status]) &&
		      strstr(sgpu_bench_text(notes.records[0], "reason"), "made to"));
	}
}

UNIT_TEST(an_interruption_ends_the_run)
{
	enum sgpu_bench_status status;

	reset();
	run_code = SGPU_ECANCELED;
	CHECK(run_made(&made, 3, &status) == SGPU_ECANCELED);
	CHECK(torn_down == 1 && error.code == SGPU_ECANCELED);
}

UNIT_TEST(sizes_that_are_wanted_and_that_fit)
{
	struct sgpu_bench bench = { .options = { .size_min = 65536, .size_max = 4 << 20 } };

	CHECK(!sgpu_bench_wants(&bench, 65535) && sgpu_bench_wants(&bench, 65536));
	CHECK(sgpu_bench_wants(&bench, 4 << 20) && !sgpu_bench_wants(&bench, (4 << 20) + 1));
	bench.options.size_max = 0;
	CHECK(sgpu_bench_wants(&bench, UINT64_MAX));
	CHECK(sgpu_bench_fits(&bench, 1, 0, &error) == SGPU_OK);
	CHECK(sgpu_bench_fits(&bench, (uint64_t)1 << 60, 0, &error) == SGPU_ENOMEM &&
	      strstr(error.text, "MiB"));
	CHECK(sgpu_bench_fits(&bench, UINT64_MAX, UINT64_MAX, &error) == SGPU_ENOMEM);
}

/* ---- the gate ---- */
enum { STREAMS = 3, COPIES = 4, COPY = 4096, GATES = 12, ROUNDS = 8 };

struct gated {
	struct sgpu_device *device;
	struct sgpu_stream *streams[STREAMS];
	struct sgpu_task tasks[STREAMS * COPIES];
	sgpu_devptr memory;
	uint8_t host[COPY];
	bool early; /* a stream had done its first copy when the last one was enqueued */
	bool slow;  /* the work is enqueued only when the gate has opened */
	int times, code;
};

static int enqueue(void *argument, struct sgpu_error *e)
{
	struct gated *g = argument;
	struct sgpu_event *first[STREAMS] = { NULL };
	int rc = SGPU_OK;

	CHECK(g->tasks[0].end_ns == 0 && g->tasks[STREAMS * COPIES - 1].end_ns == 0);
	g->times++;
	g->early = false;
	for (int i = 0; rc == SGPU_OK && i < STREAMS * COPIES; i++) {
		rc = sgpu_copy_in(g->streams[i % STREAMS], g->memory + (uint64_t)i * COPY, g->host,
				  COPY, &g->tasks[i]);
		if (rc == SGPU_OK && i < STREAMS) {
			rc = sgpu_event_create(g->device, &first[i], e);
			rc = rc == SGPU_OK ? sgpu_event_record(g->streams[i], first[i]) : rc;
		}
	}
	usleep(300); /* for a stream that does not wait; the longest gate lasts longer */
	for (int i = 0; i < STREAMS; i++) {
		bool ended = false;

		rc = rc ? rc : sgpu_event_query(first[i], &ended, e);
		g->early = g->early || ended;
		sgpu_event_free(&first[i]);
	}
	rc = rc == SGPU_OK && g->slow ? sgpu_stream_sync(g->streams[0], e) : rc;
	return rc == SGPU_OK && g->code ? sgpu_fail(e, g->code, "made to fail") : rc;
}

static int enqueue_gated(struct sgpu_bench *bench, struct gated *g, struct sgpu_error *e)
{
	return sgpu_bench_enqueue(bench, g->streams, STREAMS, enqueue, g, g->tasks,
				  STREAMS * COPIES, e);
}

static int gate_case(struct sgpu_bench *bench, struct sgpu_error *e)
{
	struct gated g = { .device = bench->device };
	int rc = sgpu_device_alloc(bench->device, STREAMS * COPIES * COPY, &g.memory, e);

	for (int i = 0; rc == SGPU_OK && i < STREAMS; i++) {
		rc = sgpu_stream_create(bench->device, &g.streams[i], e);
	}
	for (int i = 0; rc == SGPU_OK && i < ROUNDS; i++) {
		g.times = 0;
		rc = enqueue_gated(bench, &g, e);
		/* A machine that is too busy to enqueue within any gate says so. */
		CHECK(rc == SGPU_EUNAVAILABLE ? g.times == GATES : g.times >= 1 && !g.early);
		rc = rc == SGPU_EUNAVAILABLE ? SGPU_OK : rc;
	}
	CHECK(rc == SGPU_OK);
	for (const struct sgpu_task *t = g.tasks; t < g.tasks + STREAMS * COPIES; t++) {
		CHECK(t->end_ns >= t->begin_ns && t->end_ns > 0);
	}
	CHECK(bench->ns > 0);
	g.times = 0;
	g.slow = true;
	CHECK(enqueue_gated(bench, &g, e) == SGPU_EUNAVAILABLE && g.times == GATES);
	g.slow = false;
	g.code = SGPU_EDEVICE;
	CHECK(enqueue_gated(bench, &g, e) == SGPU_EDEVICE);
	g.tasks[5].code = SGPU_EAUTH;
	CHECK(sgpu_bench_tasks(g.tasks, STREAMS * COPIES, e) == SGPU_EAUTH && e->text[0]);
	for (int i = 0; i < STREAMS; i++) {
		sgpu_stream_free(&g.streams[i]);
	}
	sgpu_device_free(bench->device, &g.memory, STREAMS * COPIES * COPY);
	return SGPU_OK;
}

UNIT_TEST(streams_wait_behind_the_gate)
{
	const char *selector = getenv("SGPU_TEST_DEVICE") ? getenv("SGPU_TEST_DEVICE") : "cpu";
	const struct sgpu_bench_case row = {
		.name = "gate", .help = "", .unit = SGPU_BENCH_NS, .run = gate_case
	};
	const struct sgpu_bench_options options = { .samples = 1 };
	struct sgpu_device *device = NULL;
	enum sgpu_bench_status status;
	int rc = sgpu_device_open(selector, NULL, &device, &error);

	if (rc == SGPU_EUNAVAILABLE) {
		SKIP("no device");
	}
	REQUIRE(rc == SGPU_OK);
	reset();
	rc = sgpu_bench_run(&row, &options, device, note, &notes, &status, &error);
	/* It measured nothing, and says so. */
	CHECK(rc == SGPU_OK && status == SGPU_BENCH_WAIVED && notes.count == 1);
	sgpu_device_close(&device);
}

int main(void)
{
	UNIT_RUN(variants_are_sampled_in_turns);
	UNIT_RUN(sampling_stops_for_a_reason_that_is_told);
	UNIT_RUN(the_clock_of_the_host_counts_for_work);
	UNIT_RUN(large_samples_are_verified_first_and_last);
	UNIT_RUN(a_wrong_result_fails_the_case);
	UNIT_RUN(what_is_lacking_waives_and_what_breaks_fails);
	UNIT_RUN(an_interruption_ends_the_run);
	UNIT_RUN(sizes_that_are_wanted_and_that_fit);
	UNIT_RUN(streams_wait_behind_the_gate);
	return unit_done();
}
