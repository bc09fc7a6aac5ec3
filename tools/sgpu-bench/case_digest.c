/* SPDX-License-Identifier: Apache-2.0
 *
 * digest, measure: KangarooTwelve of device memory in place, as one tree (digest) or a tree per
 * page (measure); on a GPU also the CPU's digest. Also the points of CH_MEASURE of the case
 * channel.
 */
#include <string.h>

#include "crypto/crypto.h"
#include "device/backend.h"
#include "cases.h"

enum { SEED = 7, SPARE_PAGES = 4 };
static const struct bench_sizes plain_sizes = { BENCH_SWEEP(64 << 10, 1 << 30), 1, 1, 0 },
				channel_sizes = { BENCH_SWEEP(64 << 10, 1 << 30), 1, 2, 0 };

struct digest {
	struct sgpu_bench *bench;
	struct sgpu_pool *pool; /* of the CPU */
	void *pattern;		/* contents of `memory`, on the host */
	sgpu_devptr memory;
	uint64_t size;
	bool pages; /* measures pages; else one digest */
	struct bench_channel *channel;
	uint64_t va; /* of the channel's memory */
	struct sgpu_task task;
	uint8_t digest[SGPU_KT128_SIZE], expected[SGPU_KT128_SIZE];
};

static int enqueue(void *argument, struct sgpu_error *error)
{
	struct digest *d = argument;
	const struct sgpu_work work = { .kind = d->pages ? SGPU_WORK_MEASURE : SGPU_WORK_DIGEST,
					.in = d->memory,
					.to = d->digest,
					.size = d->size,
					.task = &d->task };
	int rc;

	memset(d->digest, 0, sizeof(d->digest));
	rc = sgpu_enqueue(d->bench->stream, &work, 1);
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "cannot digest: %s", sgpu_strerror(rc));
}

static int digest_on_device(void *argument, struct sgpu_error *error)
{
	struct digest *d = argument;

	return sgpu_bench_enqueue(d->bench, &d->bench->stream, 1, enqueue, d, &d->task, 1, error);
}

/* The host's clock times a measure, which the CPU finishes after the device's task. */
static int measure_on_device(void *argument, struct sgpu_error *error)
{
	struct digest *d = argument;
	int rc;

	d->task = (struct sgpu_task){ 0 };
	rc = enqueue(d, error);
	rc = rc ? rc : sgpu_stream_sync(d->bench->stream, error);
	return rc ? rc : sgpu_bench_tasks(&d->task, 1, error);
}

static int digest_on_cpu(void *argument, struct sgpu_error *error)
{
	struct digest *d = argument;
	int rc;

	sgpu_pool_enter(d->pool);
	rc = d->pages ? sgpu_measure_pages_shared(d->pool, d->pattern, d->size, NULL, d->digest,
						  error)
		      : sgpu_kt128_shared(d->pool, d->pattern, d->size, NULL, 0, d->digest,
					  sizeof(d->digest), error);
	sgpu_pool_leave(d->pool);
	return rc;
}

static int verify(void *argument, struct sgpu_error *error)
{
	const struct digest *d = argument;

	return memcmp(d->digest, d->expected, sizeof(d->digest)) == 0
		       ? SGPU_OK
		       : sgpu_fail(error, SGPU_EDIFFERS, "the digest is not that of the CPU");
}

static int make(struct digest *d, uint64_t size, struct sgpu_error *error)
{
	int rc = sgpu_bench_new_pinned(d->bench, size, &d->pattern, error);

	d->size = size;
	rc = rc ? rc : sgpu_bench_new_device_memory(d->bench, size, &d->memory, error);
	if (rc == SGPU_OK) {
		sgpu_bench_fill(d->pattern, size, SEED);
		rc = bench_to_device(d->bench->stream, d->memory, d->pattern, size, error);
	}
	rc = rc ? rc : digest_on_cpu(d, error);
	memcpy(d->expected, d->digest, sizeof(d->expected));
	return rc;
}

static int measure_size(void *argument, uint64_t size, struct sgpu_error *error)
{
	struct digest *d = argument;
	const struct sgpu_bench_variant variants[] = {
		{ "device", NULL, d->pages ? measure_on_device : digest_on_device, verify, d },
		{ "CPU", NULL, digest_on_cpu, verify, d },
	};
	const struct sgpu_bench_point point = { .parameters = { { "size_bytes", NULL, size } },
						.bytes = size };
	const bool is_cpu = strcmp(d->bench->info.selector, "cpu") == 0;
	const int rc = make(d, size, error);

	return rc ? rc : sgpu_bench_measure(d->bench, &point, variants, is_cpu ? 1 : 2, error);
}

/* ---- CH_MEASURE: memory of a channel ---- */
/* The owner's part, which unmasks the digest, is not timed. */
static int measure_in_channel(void *argument, struct sgpu_error *error)
{
	struct digest *d = argument;
	struct bench_channel *channel = d->channel;
	struct sgpu_report measured = { 0 };
	int rc;

	channel->spent_ns[SGPU_CH_MEASURE] = 0;
	rc = sgpu_allocator_measure(channel->allocator, channel->number, d->va, d->size, false,
				    &measured, error);
	rc = rc ? rc : sgpu_session_report(channel->session, SGPU_CH_MEASURE, &measured, error);
	memcpy(d->digest, measured.digest, sizeof(d->digest));
	d->bench->ns = channel->spent_ns[SGPU_CH_MEASURE];
	return rc;
}

static int measure_channel_size(void *argument, uint64_t size, struct sgpu_error *error)
{
	struct digest *d = argument;
	const struct sgpu_bench_variant variants[] = {
		{ "plain", NULL, measure_on_device, verify, d },
		{ "channel", NULL, measure_in_channel, verify, d },
	};
	const struct sgpu_bench_point point = { .parameters = { { "command", "CH_MEASURE", 0 },
								{ "size_bytes", NULL, size } },
						.bytes = size };
	struct sgpu_pages_info pages;
	struct bench_channel *c;
	sgpu_devptr base = 0;
	uint64_t ignored;
	int rc = sgpu_device_pages(d->bench->device, &pages, error);

	rc = rc ? rc : make(d, size, error);
	rc = rc ? rc
		: bench_new_channel(d->bench, size / pages.big + SPARE_PAGES + 1, &d->channel,
				    error);
	if (rc != SGPU_OK) {
		return rc;
	}
	c = d->channel;
	rc = sgpu_allocator_map(c->allocator, c->number, size, &d->va, &ignored, error);
	rc = rc ? rc : sgpu_processor_space(c->processor, c->number, &base, error);
	rc = rc ? rc : sgpu_processor_enter(c->processor, c->number, NULL, 0, error);
	if (rc == SGPU_OK) {
		sgpu_processor_leave(c->processor);
		rc = bench_to_device(d->bench->stream, base + d->va, d->pattern, size, error);
	}
	return rc ? rc : sgpu_bench_measure(d->bench, &point, variants, 2, error);
}

SGPU_BENCH_ENDING(end_pool, struct sgpu_pool, sgpu_pool_free)

static int run_sizes(struct sgpu_bench *bench, bool pages, const struct bench_sizes *sizes,
		     bench_size_fn measure, struct sgpu_error *error)
{
	struct digest d = { .bench = bench, .pages = pages };
	int rc = sgpu_pool_create(bench->options.jobs, &d.pool, error);

	rc = rc ? rc : sgpu_bench_keep(bench, end_pool, (uintptr_t)d.pool, 0, error);
	return rc ? rc : bench_each_size(bench, sizes, measure, &d, error);
}

int bench_digest(struct sgpu_bench *bench, struct sgpu_error *error)
{
	return run_sizes(bench, false, &plain_sizes, measure_size, error);
}

int bench_measure(struct sgpu_bench *bench, struct sgpu_error *error)
{
	return run_sizes(bench, true, &plain_sizes, measure_size, error);
}

int bench_channel_measures(struct sgpu_bench *bench, struct sgpu_error *error)
{
	return run_sizes(bench, true, &channel_sizes, measure_channel_size, error);
}
