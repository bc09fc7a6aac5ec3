/* SPDX-License-Identifier: Apache-2.0
 *
 * digest, measure: KangarooTwelve of device memory where it lies, in one tree or in one a page, and on a GPU next to
 * it the CPU's.
 */
#include <string.h>

#include "cases.h"
#include "made.h"
#include "memory.h"

enum { SEED = 7 };
#define SIZE_LEAST ((uint64_t)64 << 10)
#define SIZE_LARGEST ((uint64_t)1 << 30)

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
		rc = rc ? rc : sgpu_stream_sync(s->stream, error);
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

/* Memory with the pattern; the pattern comes through memory of the device's pool, a piece at a time. */
static int make_side(struct side *s, const void *pattern, struct sgpu_error *error)
{
	int rc = sgpu_bench_new_stream(s->bench, s->device, &s->stream, error);

	if (rc == SGPU_OK && s->device == s->bench->device) {
		rc = sgpu_bench_new_device_memory(s->bench, s->size, &s->memory, error);
	} else if (rc == SGPU_OK) {
		rc = sgpu_device_alloc(s->device, s->size, &s->memory, error);
	}
	return rc ? rc : bench_to_device(s->stream, s->memory, pattern, s->size, error);
}

static int measure_sides(struct side sides[2], int count, struct sgpu_error *error)
{
	struct side *judge = &sides[count - 1];
	const struct sgpu_bench_variant variants[] = {
		{ .name = "device", .run = run_side, .verify = verify_side, .argument = &sides[0] },
		{ .name = "CPU", .run = run_side, .verify = verify_side, .argument = &sides[1] },
	};
	const struct sgpu_bench_point point = { .parameters = { { "size_bytes", NULL, judge->size } },
						.bytes = judge->size };
	uint8_t expected[SGPU_DIGEST_SIZE];
	uint64_t ns = 0;
	int rc = run_side(judge, &ns, error);

	memcpy(expected, judge->digest, sizeof(expected));
	sides[0].expected = sides[1].expected = expected;
	return rc ? rc : sgpu_bench_measure(judge->bench, &point, variants, count, error);
}

/* What a GPU computes is compared with what the CPU device does. */
static int measure_size(void *argument, uint64_t size, struct sgpu_error *error)
{
	const struct side *like = argument;
	struct sgpu_bench *bench = like->bench;
	struct side sides[] = { *like, *like };
	const int count = strcmp(bench->info.selector, "cpu") == 0 ? 1 : 2;
	void *pattern = NULL;
	int rc = sgpu_bench_new_pinned(bench, size, &pattern, error);

	if (rc == SGPU_OK) {
		sgpu_bench_fill(pattern, size, SEED);
		rc = count == 2 ? bench_new_device(bench, "cpu", &sides[1].device, error) : SGPU_OK;
	}
	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		sides[i].size = size;
		rc = make_side(&sides[i], pattern, error);
	}
	return rc ? rc : measure_sides(sides, count, error);
}

static int run_sizes(struct sgpu_bench *bench, bool pages, struct sgpu_error *error)
{
	struct side like = { .bench = bench, .device = bench->device, .pages = pages };

	return bench_sweep(bench, SIZE_LEAST, SIZE_LARGEST, (struct bench_need){ 2, 1, 0 }, measure_size, &like, error);
}

static int run_digests(struct sgpu_bench *bench, struct sgpu_error *error)
{
	return run_sizes(bench, false, error);
}

static int run_measures(struct sgpu_bench *bench, struct sgpu_error *error)
{
	return run_sizes(bench, true, error);
}

const struct sgpu_bench_case case_digest = {
	.name = "digest",
	.help = "KangarooTwelve of device memory where it lies",
	.unit = SGPU_BENCH_BYTES_PER_SECOND,
	.requires = SGPU_BENCH_DEVICE,
	.run = run_digests,
};

const struct sgpu_bench_case case_measure = {
	.name = "measure",
	.help = "the measure of device memory where it lies, a digest a page",
	.unit = SGPU_BENCH_BYTES_PER_SECOND,
	.requires = SGPU_BENCH_DEVICE,
	.run = run_measures,
};
