/* SPDX-License-Identifier: Apache-2.0
 *
 * digest, measure: KangarooTwelve of device memory where it lies, in one tree or in one a page, and on a GPU next to
 * it the CPU's.
 */
#include <string.h>

#include "cases.h"

enum { SEED = 7 };

/* The same memory on a device: the one that is measured, or the CPU beside it. */
struct side {
	struct sgpu_bench *bench;
	struct sgpu_device *device;
	bool pages;                /* the measure */
	struct sgpu_stream *stream;
	sgpu_devptr memory;
	uint64_t size;
	const uint8_t *expected;   /* NULL until it is known */
	struct sgpu_task task;
	uint8_t digest[SGPU_DIGEST_SIZE];
};

static int enqueue(void *argument, struct sgpu_error *error)
{
	struct side *s = argument;
	int rc;

	memset(&s->task, 0, sizeof(s->task));
	if (s->pages) {
		rc = sgpu_device_measure(s->stream, s->memory, s->size, NULL, s->digest, &s->task);
	} else {
		rc = sgpu_device_digest(s->stream, s->memory, s->size, "sgpu bench", 10, s->digest, &s->task);
	}
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "cannot digest: %s", sgpu_strerror(rc));
}

static int run_side(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct side *s = argument;
	uint64_t begin = sgpu_now_ns();
	int rc;

	memset(s->digest, 0, sizeof(s->digest));
	if (s->device == s->bench->device && !s->pages) {
		rc = sgpu_bench_enqueue(s->bench, &s->stream, 1, enqueue, s, error);
	} else {
		rc = enqueue(s, error);
		rc = rc == SGPU_OK ? sgpu_stream_sync(s->stream, error) : rc;
	}
	if (rc == SGPU_OK) {
		rc = sgpu_bench_tasks(&s->task, 1, error);
		/* A measure ends on the processor, after the task's time on the device. */
		*ns = s->pages ? sgpu_now_ns() - begin : sgpu_bench_span(&s->task, 1);
	}
	return rc;
}

static int verify_side(void *argument, struct sgpu_error *error)
{
	struct side *s = argument;

	return memcmp(s->digest, s->expected, sizeof(s->digest)) == 0 ? SGPU_OK :
	       sgpu_fail(error, SGPU_EDIFFERS, "the digest is not that of the CPU device");
}

static void free_side(struct side *s)
{
	if (s->device) {
		sgpu_stream_free(&s->stream);
		sgpu_device_free(s->device, &s->memory, s->size);
	}
}

/* Memory with the pattern; the pattern comes through memory of the device's pool, a piece at a time. */
static int make_side(struct sgpu_bench *bench, struct sgpu_device *device, bool pages, uint64_t size,
		     const void *pattern, struct side *s, struct sgpu_error *error)
{
	struct sgpu_task task = { 0 };
	int rc;

	*s = (struct side){ .bench = bench, .device = device, .pages = pages, .size = size };
	rc = sgpu_stream_create(device, &s->stream, error);
	if (rc == SGPU_OK) {
		rc = sgpu_device_alloc(device, size, &s->memory, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_copy_in(s->stream, s->memory, pattern, size, &task);
		rc = rc == SGPU_OK ? sgpu_stream_sync(s->stream, error) : sgpu_fail(error, rc, "%s", sgpu_strerror(rc));
	}
	return rc == SGPU_OK ? sgpu_bench_tasks(&task, 1, error) : rc;
}

static int measure_sides(struct sgpu_bench *bench, struct side sides[2], uint64_t size, struct sgpu_error *error)
{
	bool two = sides[1].device != NULL;
	uint8_t expected[SGPU_DIGEST_SIZE];
	const struct sgpu_bench_variant variants[] = {
		{ .name = "device", .run = run_side, .verify = verify_side, .argument = &sides[0] },
		{ .name = "CPU", .run = run_side, .verify = verify_side, .argument = &sides[1] },
	};
	const struct sgpu_bench_point point = { .parameters = { { "size_bytes", NULL, size } }, .bytes = size };
	uint64_t ns = 0;
	int rc = run_side(two ? &sides[1] : &sides[0], &ns, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	memcpy(expected, two ? sides[1].digest : sides[0].digest, sizeof(expected));
	sides[0].expected = sides[1].expected = expected;
	return sgpu_bench_measure(bench, &point, variants, two ? 2 : 1, error);
}

static int run_size(struct sgpu_bench *bench, struct sgpu_device *cpu, bool pages, uint64_t size,
		    struct sgpu_error *error)
{
	struct side sides[2] = { { 0 } };
	void *pattern = NULL;
	int rc = sgpu_host_alloc(bench->device, size, &pattern, error);

	if (rc == SGPU_OK) {
		sgpu_bench_fill(pattern, size, SEED);
		rc = make_side(bench, bench->device, pages, size, pattern, &sides[0], error);
	}
	if (rc == SGPU_OK && cpu) {
		rc = make_side(bench, cpu, pages, size, pattern, &sides[1], error);
	}
	sgpu_host_free(bench->device, &pattern, size);
	if (rc == SGPU_OK) {
		rc = measure_sides(bench, sides, size, error);
	}
	free_side(&sides[0]);
	free_side(&sides[1]);
	return rc;
}

/* What a GPU computes is compared with what the CPU device does. */
static int setup(struct sgpu_bench *bench, void **state, struct sgpu_error *error)
{
	const struct sgpu_device_config config = { .jobs = bench->options.jobs };
	struct sgpu_device *cpu = NULL;
	int rc = SGPU_OK;

	if (strcmp(bench->info.selector, "cpu") != 0) {
		rc = sgpu_device_open("cpu", &config, &cpu, error);
	}
	*state = cpu;
	return rc;
}

static int run_sizes(struct sgpu_bench *bench, struct sgpu_device *cpu, bool pages, struct sgpu_error *error)
{
	uint64_t sizes[SGPU_BENCH_SIZES_MAX];
	int count = sgpu_bench_sizes(bench, (uint64_t)64 << 10, (uint64_t)1 << 30, sizes), rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		const struct sgpu_bench_point point = { .parameters = { { "size_bytes", NULL, sizes[i] } } };
		struct sgpu_error lack;

		if (sgpu_bench_fits(bench, 2 * sizes[i], sizes[i], &lack) != SGPU_OK) {
			sgpu_bench_waive(bench, &point, NULL, "%s", lack.text);
		} else {
			rc = run_size(bench, cpu, pages, sizes[i], error);
		}
	}
	return rc;
}

static int run_digests(struct sgpu_bench *bench, void *state, struct sgpu_error *error)
{
	return run_sizes(bench, state, false, error);
}

static int run_measures(struct sgpu_bench *bench, void *state, struct sgpu_error *error)
{
	return run_sizes(bench, state, true, error);
}

static void teardown(struct sgpu_bench *bench, void *state)
{
	struct sgpu_device *cpu = state;

	(void)bench;
	sgpu_device_close(&cpu);
}

const struct sgpu_bench_case case_digest = {
	.name = "digest",
	.help = "KangarooTwelve of device memory where it lies",
	.unit = SGPU_BENCH_BYTES_PER_SECOND,
	.requires = SGPU_BENCH_DEVICE,
	.setup = setup,
	.run = run_digests,
	.teardown = teardown,
};

const struct sgpu_bench_case case_measure = {
	.name = "measure",
	.help = "the measure of device memory where it lies, a digest a page",
	.unit = SGPU_BENCH_BYTES_PER_SECOND,
	.requires = SGPU_BENCH_DEVICE,
	.setup = setup,
	.run = run_measures,
	.teardown = teardown,
};
