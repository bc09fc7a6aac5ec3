/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of graphs: random ones against sums made here, with buffers that change hands and inputs
 * that fail; both values of an INPUT_OUTPUT segment, sizes that are only known afterwards, regions,
 * and memory that does not suffice. On the device that $SGPU_TEST_DEVICE names.
 */

#include "stage/stage.h"
#include "fake_gpu.h"
#include "stage/region.h"
#include "sealed.h"

enum { VALUES_MAX = 120, ELEMENTS = 5000 };

/* A value is an input, or the sum of two others. */
struct graph {
	int inputs, values;
	int a[VALUES_MAX], b[VALUES_MAX];
	bool read[VALUES_MAX], leaves[VALUES_MAX];
	float scale[VALUES_MAX]; /* every element of value v is scale[v] * (1 + its index modulo 7)
				  */
};

static int few(int rounds)
{
	return is_short() ? rounds / 5 : rounds;
}

static uint32_t random_state = 3;
static int random_below(int limit)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (int)((random_state >> 8) % (uint32_t)limit);
}

static void make_graph(struct graph *g, int operations, int window)
{
	memset(g, 0, sizeof(*g));
	g->inputs = 2 + random_below(3);
	for (g->values = 0; g->values < g->inputs; g->values++) {
		g->scale[g->values] = (float)(1 + random_below(3));
	}
	for (int i = 0; i < operations; i++) {
		int v = g->values++, from = v > window ? v - window : 0;

		g->a[v] = i < g->inputs ? i : from + random_below(v - from);
		g->b[v] = from + random_below(v - from);
		while (g->scale[g->a[v]] + g->scale[g->b[v]] > 100000) { /* sums stay exact */
			g->a[v] = random_below(g->inputs);
			g->b[v] = random_below(g->inputs);
		}
		g->scale[v] = g->scale[g->a[v]] + g->scale[g->b[v]];
		g->read[g->a[v]] = g->read[g->b[v]] = true;
	}
	for (int v = g->inputs; v < g->values; v++) {
		g->leaves[v] = !g->read[v] || random_below(4) == 0;
	}
}

static char *graph_text(const struct graph *g)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	fprintf(out, "{\"version\":1,\"manifest_id\":\"graph\",\"segments\":[");
	for (int v = 0; v < g->values; v++) {
		fprintf(out, "%s{\"segment_id\":\"v%d\",", v ? "," : "", v);
		if (v < g->inputs || g->leaves[v]) {
			fprintf(out, "\"data_location_client\":\"v%d\",", v);
		}
		fprintf(out,
			"\"sensitivity_level\":\"LOW\",\"direction\":\"%s\",\"data_type_info\":"
			"{\"dtype\":\"f32\",\"shape\":[%d]}}",
			v < g->inputs  ? "INPUT"
			: g->leaves[v] ? "OUTPUT"
				       : "INTERMEDIATE",
			ELEMENTS);
	}
	fprintf(out, "],\"operations\":[");
	for (int v = g->inputs; v < g->values; v++) {
		fprintf(out,
			"%s{\"gpu_operation_id\":\"O%d\",\"kernel\":\"vector_add\",\"arguments\":"
			"{\"a\":\"v%d\",\"b\":\"v%d\",\"output\":\"v%d\"}}",
			v > g->inputs ? "," : "", v, g->a[v], g->b[v], v);
	}
	fprintf(out, "]}");
	fclose(out);
	return text;
}

/* ---- batches of LOW segments, without key ---- */
struct payload {
	const char *id;
	const void *data;
	uint64_t size;
	struct sgpu_location location; /* of an output, or of an input that does not travel */
	bool input;
	bool damaged;
};

static struct sgpu_batch *plain_batch(char *manifest, const struct payload *payloads, int count)
{
	struct sgpu_batch *batch = batch_of(manifest);

	for (int i = 0; i < count; i++) {
		struct sgpu_batch_segment *s = &batch->segments[i];

		if (payloads[i].input &&
		    batch_set_payload(batch, i, payloads[i].data, payloads[i].size, &error)) {
			abort();
		}
		s->size = payloads[i].size;
		s->location = payloads[i].location.kind == SGPU_LOCATION_NONE
				      ? s->location
				      : payloads[i].location;
		s->kt128[0] ^= payloads[i].damaged;
	}
	return batch;
}

static uint64_t plain_deadline_ns;

/* Runs and leaves the response in *answer, whose payloads the caller reads from *out. */
static int run_plain(char *manifest, const struct payload *payloads, int count, int *out)
{
	struct sgpu_batch *batch = plain_batch(manifest, payloads, count);
	const void **data = calloc((size_t)batch->segment_count + 1, sizeof(*data));
	int in = memfd_create("batch", MFD_CLOEXEC), rc;

	for (int i = 0; data && i < count; i++) {
		data[i] = payloads[i].data;
	}
	write_payloads(batch, data, in);
	free(data);
	sgpu_batch_free(&batch);
	lseek(in, 0, SEEK_SET);
	*out = memfd_create("response", MFD_CLOEXEC);
	rc = run_with(NULL, in, *out, plain_deadline_ns, NULL);
	lseek(*out, 0, SEEK_SET);
	close(in);
	return rc;
}

/* Calls `check` with each output of the response: data is NULL for one that failed. */
typedef void (*output_fn)(void *argument, const struct sgpu_batch_segment *segment,
			  const void *data);

static void each_output(int out, output_fn check, void *argument)
{
	struct sgpu_tar_reader *tar = NULL;
	struct sgpu_batch *batch = NULL;
	int index = 0;

	REQUIRE(sgpu_tar_open(out, "response", &tar, &error) == SGPU_OK);
	REQUIRE(sgpu_batch_read(tar, SGPU_READ_RESPONSE, &batch, &error) == SGPU_OK);
	for (int i = 0; i < batch->segment_count; i++) {
		if (batch->segments[i].location.kind != SGPU_LOCATION_INLINE) {
			check(argument, &batch->segments[i], NULL);
		}
	}
	while (sgpu_batch_next_payload(tar, batch, &index, &error) == SGPU_OK && index >= 0) {
		uint64_t size = sgpu_batch_payload_size(batch, index);
		void *data = malloc(size + 1);

		CHECK(sgpu_tar_read(tar, data, size, &error) == SGPU_OK);
		check(argument, &batch->segments[index], data);
		free(data);
	}
	CHECK(index == -1);
	sgpu_batch_free(&batch);
	sgpu_tar_close(&tar);
	close(out);
}

/* ---- random graphs ---- */
struct expected {
	const struct graph *graph;
	bool bad[VALUES_MAX];
	int seen;
};

static void check_value(void *argument, const struct sgpu_batch_segment *segment, const void *data)
{
	struct expected *expected = argument;
	int v = atoi(segment->id + 1);
	const float *f = data;

	expected->seen++;
	CHECK((segment->status == SGPU_OK) == !expected->bad[v]);
	CHECK((data != NULL) == !expected->bad[v]);
	if (expected->bad[v]) {
		REQUIRE(segment->status == SGPU_EAUTH);
		CHECK(strstr(segment->error_text, "segment 'v0' failed") != NULL);
	}
	for (int i = 0; f && i < ELEMENTS; i++) {
		if (f[i] != expected->graph->scale[v] * (float)(1 + i % 7)) {
			printf("# v%d[%d] is %g\n", v, i, (double)f[i]);
			CHECK(false);
			return;
		}
	}
}

static void run_graph(const struct graph *g, bool damaged)
{
	static float data[4][ELEMENTS];
	static char ids[VALUES_MAX][16];
	struct payload payloads[VALUES_MAX] = { 0 };
	struct expected expected = { .graph = g };
	int count = 0, outputs = 0, out;

	for (int v = 0; v < g->values; v++) {
		snprintf(ids[v], sizeof(ids[v]), "v%d", v);
		if (v < g->inputs) {
			for (int i = 0; i < ELEMENTS; i++) {
				data[v][i] = g->scale[v] * (float)(1 + i % 7);
			}
			expected.bad[v] = damaged && v == 0;
			payloads[count++] = (struct payload){ .id = ids[v],
							      .data = data[v],
							      .size = sizeof(data[v]),
							      .input = true,
							      .damaged = expected.bad[v] };
			continue;
		}
		expected.bad[v] = expected.bad[g->a[v]] || expected.bad[g->b[v]];
		if (g->leaves[v]) {
			payloads[count++] =
				(struct payload){ .id = ids[v], .size = sizeof(data[0]) };
			outputs++;
		}
	}
	CHECK(run_plain(graph_text(g), payloads, count, &out) ==
	      (damaged ? SGPU_ESEGMENTS : SGPU_OK));
	each_output(out, check_value, &expected);
	CHECK(expected.seen == outputs);
}

UNIT_TEST(random_graphs_compute_what_they_should)
{
	for (int round = 0; round < few(60) && !unit_bad; round++) {
		struct graph g;

		make_graph(&g, 5 + random_below(100), 2 + random_below(30));
		run_graph(&g, false);
	}
}

UNIT_TEST(a_bad_input_fails_exactly_what_depends_on_it)
{
	for (int round = 0; round < few(40) && !unit_bad; round++) {
		struct graph g;

		make_graph(&g, 5 + random_below(60), 2 + random_below(10));
		run_graph(&g, true);
	}
}

UNIT_TEST(graphs_compute_the_same_on_a_device_that_copies_beside_the_rest)
{
	if (strcmp(device_name(), "cpu") != 0) {
		SKIP("the device is what it is");
	}
	make_fake_gpu();
	for (int round = 0; round < few(20) && !unit_bad; round++) {
		struct graph g;

		make_graph(&g, 5 + random_below(100), 2 + random_below(60));
		run_graph(&g, round % 2 == 1);
		CHECK(fake_is_clean());
	}
	unmake_fake_gpu();
}

/* ---- special segments ---- */
static void check_in_out(void *argument, const struct sgpu_batch_segment *segment, const void *data)
{
	const float *f = data;

	(void)argument;
	REQUIRE(f != NULL);
	CHECK(f[1] == (strcmp(segment->id, "x") == 0 ? 6.0f : 3.0f));
}

UNIT_TEST(an_input_output_segment_is_read_as_it_arrived)
{
	static const float x[2] = { 2, 3 };
	struct payload payloads[] = { { .id = "x", .data = x, .size = 8, .input = true },
				      { .id = "y", .size = 8 } };
	int out;

	CHECK(run_plain(strdup("{\"version\":1,\"manifest_id\":\"io\",\"segments\":["
			       "{\"segment_id\":\"x\",\"data_location_client\":\"x\",\"sensitivity_"
			       "level\":\"LOW\","
			       "\"direction\":\"INPUT_OUTPUT\",\"data_type_info\":{\"dtype\":"
			       "\"f32\",\"shape\":[2]}},"
			       "{\"segment_id\":\"y\",\"data_location_client\":\"y\",\"sensitivity_"
			       "level\":\"LOW\","
			       "\"direction\":\"OUTPUT\",\"data_type_info\":{\"dtype\":\"f32\","
			       "\"shape\":[2]}}],"
			       "\"operations\":["
			       "{\"gpu_operation_id\":\"TWICE\",\"kernel\":\"vector_add\","
			       "\"arguments\":"
			       "{\"a\":\"x\",\"b\":\"x\",\"output\":\"x\"}},"
			       "{\"gpu_operation_id\":\"COPY\",\"kernel\":\"copy\",\"arguments\":"
			       "{\"input\":\"x\",\"output\":\"y\"}}]}"),
			payloads, 2, &out) == SGPU_OK);
	each_output(out, check_in_out, NULL);
}

static void check_indices(void *argument, const struct sgpu_batch_segment *segment,
			  const void *data)
{
	const int32_t *index = data;

	(void)argument;
	REQUIRE(index != NULL);
	CHECK(segment->size == 3 * sizeof(*index));
	CHECK(index[0] == 1 && index[1] == 3 && index[2] == 4);
}

UNIT_TEST(an_output_of_unknown_size_carries_what_there_is)
{
	static const float x[6] = { 0, 5, 1, 6, 7, 0 };
	struct payload payloads[] = { { .id = "x", .data = x, .size = sizeof(x), .input = true },
				      { .id = "y", .size = 6 * sizeof(int32_t) } };
	int out;

	CHECK(run_plain(strdup("{\"version\":1,\"manifest_id\":\"some\",\"segments\":["
			       "{\"segment_id\":\"x\",\"data_location_client\":\"x\",\"sensitivity_"
			       "level\":\"LOW\","
			       "\"direction\":\"INPUT\",\"data_type_info\":{\"dtype\":\"f32\","
			       "\"shape\":[6]}},"
			       "{\"segment_id\":\"y\",\"data_location_client\":\"y\",\"sensitivity_"
			       "level\":\"LOW\","
			       "\"direction\":\"OUTPUT\"}],\"operations\":["
			       "{\"gpu_operation_id\":\"FIND\",\"kernel\":\"threshold\",\"params\":"
			       "{\"low\":4,\"high\":8,\"mode\":\"indices\"},\"arguments\":"
			       "{\"input\":\"x\",\"output\":\"y\"}}]}"),
			payloads, 2, &out) == SGPU_OK);
	each_output(out, check_indices, NULL);
}

static const char threshold_manifest[] =
	"{\"version\":1,\"manifest_id\":\"some\",\"segments\":["
	"{\"segment_id\":\"x\",\"data_location_client\":\"x\",\"sensitivity_level\":\"LOW\","
	"\"direction\":\"INPUT\",\"data_type_info\":{\"dtype\":\"f32\",\"shape\":[6]}},"
	"{\"segment_id\":\"y\",\"data_location_client\":\"y\",\"sensitivity_level\":\"LOW\","
	"\"direction\":\"OUTPUT\"}],\"operations\":["
	"{\"gpu_operation_id\":\"FIND\",\"kernel\":\"threshold\",\"params\":"
	"{\"low\":4,\"high\":8,\"mode\":\"indices\"},\"arguments\":"
	"{\"input\":\"x\",\"output\":\"y\"}}]}";

static int report_too_much(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	(void)call;
	launch->status[1] = 7;
	return SGPU_OK;
}

static sgpu_op_fn always_report_too_much(const char *name)
{
	(void)name;
	return report_too_much;
}

struct seen {
	int code;
	const char *text;
	int count;
};

static void check_failure(void *argument, const struct sgpu_batch_segment *segment,
			  const void *data)
{
	struct seen *seen = argument;

	seen->count++;
	CHECK(segment->status == seen->code && !data && segment->error_text &&
	      strstr(segment->error_text, seen->text));
}

UNIT_TEST(an_operation_that_reports_more_than_fits_has_no_output)
{
	static const float x[6] = { 0, 5, 1, 6, 7, 0 };
	struct payload payloads[] = { { .id = "x", .data = x, .size = sizeof(x), .input = true },
				      { .id = "y", .size = 6 * sizeof(int32_t) } };
	struct seen seen = { SGPU_EDEVICE, "more elements than there can be", 0 };
	int out;

	if (strcmp(device_name(), "cpu") != 0) {
		SKIP("the device is what it is");
	}
	make_fake_gpu();
	fake.backend.table.op = always_report_too_much;
	CHECK(run_plain(strdup(threshold_manifest), payloads, 2, &out) == SGPU_ESEGMENTS);
	each_output(out, check_failure, &seen);
	CHECK(seen.count == 1);
	unmake_fake_gpu();
}

/* ---- outputs that fail on their way ---- */
static atomic_bool waits_for_stop, began;
static struct sgpu_run *_Atomic late_run;

static void keep_run(struct sgpu_run *run)
{
	atomic_store(&late_run, run);
}

static int fail_copy(struct sgpu_launch *launch, void *argument)
{
	struct sgpu_run_progress progress = { 0 };

	(void)argument;
	atomic_store(&began, true);
	while (atomic_load(&waits_for_stop) && progress.stopping_ns == 0) {
		usleep(1000);
		if (atomic_load(&late_run)) {
			sgpu_run_get_progress(atomic_load(&late_run), &progress);
		}
	}
	return sgpu_fail(launch->error, SGPU_EDEVICE, "made to fail");
}

/* Of the very copies out: their tasks tell of it, nothing else does. */
static int failing_copy_out(struct sgpu_stream *stream, const struct sgpu_work *work)
{
	if (work->kind != SGPU_WORK_COPY_OUT) {
		return fake_enqueue_one(stream, work);
	}
	return fake.real->stream->launch(stream, fail_copy, NULL, NULL, 0,
					 fake_task_new(stream, work->task));
}
FAKE_ENQUEUE(failing_copies_out, failing_copy_out)

static char *copy_manifest(void)
{
	return strdup(
		"{\"version\":1,\"manifest_id\":\"copy\",\"segments\":["
		"{\"segment_id\":\"x\",\"data_location_client\":\"x\",\"sensitivity_level\":"
		"\"LOW\","
		"\"direction\":\"INPUT\",\"data_type_info\":{\"dtype\":\"u8\",\"shape\":[4096]}},"
		"{\"segment_id\":\"y\",\"data_location_client\":\"y\",\"sensitivity_level\":"
		"\"LOW\","
		"\"direction\":\"OUTPUT\"}],\"operations\":["
		"{\"gpu_operation_id\":\"COPY\",\"kernel\":\"copy\",\"arguments\":"
		"{\"input\":\"x\",\"output\":\"y\"}}]}");
}

UNIT_TEST(an_output_whose_copy_fails_is_not_given)
{
	uint8_t x[4096] = { 1 };
	struct payload p[2] = { { .id = "x", .data = x, .size = 4096, .input = true },
				{ .id = "y", .size = 4096 } };
	struct seen seen = { SGPU_EDEVICE, "segment 'y' failed: made to fail", 0 };
	uint64_t after = 200000000;
	int out, rc;

	if (strcmp(device_name(), "cpu") != 0) {
		SKIP("the device is what it is");
	}
	make_fake_gpu();
	fake.backend.stream.enqueue = failing_copies_out;
	CHECK(run_plain(copy_manifest(), p, 2, &out) == SGPU_ESEGMENTS);
	each_output(out, check_failure, &seen);
	/* One that fails because it is late says so. A machine may be too slow to begin with it
	 * before the deadline. */
	seen = (struct seen){ SGPU_ETIMEOUT, "segment 'y' failed: the deadline passed", 0 };
	atomic_store(&waits_for_stop, true);
	submitted = keep_run;
	do {
		atomic_store(&began, false);
		atomic_store(&late_run, NULL);
		plain_deadline_ns = sgpu_now_ns() + after;
		rc = run_plain(copy_manifest(), p, 2, &out);
	} while (was_too_soon(atomic_load(&began) ? rc : SGPU_ETIMEOUT, &after));
	submitted = NULL;
	atomic_store(&waits_for_stop, false);
	plain_deadline_ns = 0;
	CHECK(rc == SGPU_ESEGMENTS);
	each_output(out, check_failure, &seen);
	fake.backend.stream.enqueue = fake_enqueue; /* a context may keep streams of this table */
	CHECK(seen.count == 1);
	unmake_fake_gpu();
}

static void check_copy(void *argument, const struct sgpu_batch_segment *segment, const void *data)
{
	++*(int *)argument;
	CHECK(segment->status == SGPU_OK && data);
}

/* y arrives, and is only written. */
UNIT_TEST(an_input_that_fails_is_told_of_though_nothing_reads_it)
{
	uint8_t x[4096] = { 1 };
	struct payload p[2] = {
		{ .id = "x", .data = x, .size = 4096, .input = true },
		{ .id = "y", .data = x, .size = 4096, .input = true, .damaged = true }
	};
	json_t *json = json_loads("{\"dtype\":\"u8\",\"shape\":[4096]}", 0, NULL), *manifest;
	char *text = copy_manifest();
	int out, seen = 0;

	manifest = json_loads(text, 0, NULL);
	free(text);
	json_object_set_new(json_array_get(json_object_get(manifest, "segments"), 1), "direction",
			    json_string("INPUT_OUTPUT"));
	json_object_set_new(json_array_get(json_object_get(manifest, "segments"), 1),
			    "data_type_info", json);
	text = json_dumps(manifest, 0);
	json_decref(manifest);
	CHECK(run_plain(text, p, 2, &out) == SGPU_ESEGMENTS);
	CHECK(strstr(error.text, "no operation reads it") != NULL);
	each_output(out, check_copy, &seen);
	CHECK(seen == 1);
}

static void make_region(const void *data, bool keep, struct sgpu_region *region)
{
	struct sgpu_region_options options = {
		.use = keep ? SGPU_REGION_INPUTS | SGPU_REGION_RESULTS : SGPU_REGION_INPUTS,
		.numa_node = -1,
		.keep = keep
	};

	if (sgpu_region_create(12288, &options, region, &error) ||
	    sgpu_region_back(region, 0, 12288, &error)) {
		abort();
	}
	memcpy(region->data + 100, data, 4096);
	if (sgpu_region_publish(region, &error)) {
		abort();
	}
}

static void count_regions(void *argument, const struct sgpu_batch_segment *segment,
			  const void *data)
{
	(void)data;
	*(int *)argument +=
		segment->status == SGPU_OK && segment->location.kind == SGPU_LOCATION_REGION;
}

UNIT_TEST(payloads_come_from_regions_and_go_to_those_that_are_kept)
{
	uint8_t x[4096], y[4096];

	for (size_t i = 0; i < sizeof(x); i++) {
		x[i] = (uint8_t)(i * 5);
	}
	for (int keep = 0; keep < 2; keep++) {
		struct sgpu_region region, again;
		struct sgpu_source source;
		struct payload p[2] = { { .id = "x", .data = x, .size = 4096, .input = true },
					{ .id = "y", .size = 4096 } };
		int out, placed = 0;

		make_region(x, keep, &region);
		p[0].location =
			(struct sgpu_location){ .kind = SGPU_LOCATION_REGION, .offset = 100 };
		memcpy(p[0].location.region, region.id, sizeof(region.id));
		p[1].location = p[0].location;
		p[1].location.offset = 4196; /* right behind it */
		CHECK(run_plain(copy_manifest(), p, 2, &out) == (keep ? SGPU_OK : SGPU_EPOLICY));
		if (keep) {
			size_t got = 0;

			each_output(out, count_regions, &placed);
			CHECK(placed == 1);
			REQUIRE(sgpu_source_open(&p[1].location, 4096, &source, &error) == SGPU_OK);
			CHECK(sgpu_pread(source.fd, "y", y, 4096, source.offset, &got, &error) ==
			      SGPU_OK);
			CHECK(got == 4096 && !memcmp(x, y, 4096));
			sgpu_source_close(&source);
		} else {
			CHECK(strstr(error.text, "is for inputs") && is_empty(out));
			close(out);
		}
		CHECK(sgpu_region_release(region.id, &error) == SGPU_OK);
		CHECK(sgpu_region_open(region.id, false, false, &again, &error) != SGPU_OK);
		sgpu_region_close(&region);
	}
}

UNIT_TEST(a_batch_that_does_not_fit_the_device_is_refused)
{
	struct sgpu_device_config config = { .jobs = 1,
					     .memory_limit = in_secure_context ? 16 << 20 : 6000 };
	struct sgpu_device *whole = device, *small = NULL;
	struct sgpu_secure *context = NULL;
	struct sgpu_device_info info;
	sgpu_devptr rest = 0;
	struct payload p[2] = { { .id = "x", .data = calloc(1, 4096), .size = 4096, .input = true },
				{ .id = "y", .size = 4096 } };
	int out;

	if (in_secure_context && strcmp(device_name(), "cpu") != 0) {
		SKIP("it takes a device whose memory can be limited to a few pages");
	}
	REQUIRE(sgpu_device_open(device_name(), &config, &small, &error) == SGPU_OK);
	device = small;
	if (in_secure_context) {
		REQUIRE(sgpu_secure_create(small, NULL, &context, &error) == SGPU_OK);
		device = sgpu_secure_device(context);
		REQUIRE(sgpu_device_get_info(device, &info, &error) == SGPU_OK);
		CHECK(sgpu_device_alloc(device, info.memory_free - 4096, &rest, &error) == SGPU_OK);
	}
	CHECK(run_plain(copy_manifest(), p, 2, &out) == SGPU_ENOMEM);
	CHECK(is_empty(out));
	CHECK(strstr(error.text, in_secure_context ? "8192" : "8192 bytes of ") != NULL);
	close(out);
	sgpu_secure_destroy(&context);
	sgpu_device_close(&small);
	device = whole;
	free((void *)(uintptr_t)p[0].data);
}

static void all_tests(void)
{
	UNIT_RUN(random_graphs_compute_what_they_should);
	UNIT_RUN(a_bad_input_fails_exactly_what_depends_on_it);
	UNIT_RUN(graphs_compute_the_same_on_a_device_that_copies_beside_the_rest);
	UNIT_RUN(an_input_output_segment_is_read_as_it_arrived);
	UNIT_RUN(an_output_of_unknown_size_carries_what_there_is);
	UNIT_RUN(an_operation_that_reports_more_than_fits_has_no_output);
	UNIT_RUN(an_output_whose_copy_fails_is_not_given);
	UNIT_RUN(an_input_that_fails_is_told_of_though_nothing_reads_it);
	UNIT_RUN(payloads_come_from_regions_and_go_to_those_that_are_kept);
	UNIT_RUN(a_batch_that_does_not_fit_the_device_is_refused);
}

int main(void)
{
	char folder[] = "/tmp/sgpu-test-XXXXXX", stage[64];

	open_device(3);
	if (!mkdtemp(folder) || setenv("XDG_RUNTIME_DIR", folder, 1)) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	run_on_all(NULL, all_tests, NULL);
	sgpu_device_close(&device);
	snprintf(stage, sizeof(stage), "%s/sgpu", folder);
	rmdir(stage);
	rmdir(folder);
	return unit_done();
}
