/* SPDX-License-Identifier: Apache-2.0
 *
 * CH_MEASURE of the case channel: the measure of a channel's memory, beside that of plain memory of
 * the device.
 */
#include <string.h>

#include "cases.h"
#include "setup.h"

enum { SEED = 11, SPARE_PAGES = 4 };

struct digested {
	struct sgpu_bench *bench;
	struct bench_channel *channel;
	struct sgpu_stream *stream;
	sgpu_devptr plain;
	uint64_t size, va;
	uint8_t expected[SGPU_DIGEST_SIZE], digest[SGPU_DIGEST_SIZE];
};

static int measure_plain(void *argument, struct sgpu_error *error)
{
	struct digested *d = argument;
	struct sgpu_task task = { 0 };
	int rc;

	memset(d->digest, 0, sizeof(d->digest));
	rc = sgpu_device_measure(d->stream, d->plain, d->size, NULL, d->digest, &task);
	return bench_finish(d->stream, rc, &task, 1, "measure", error);
}

/* Not timed is the owner's part: what travels is masked. */
static int run_channel(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct digested *d = argument;
	struct bench_channel *channel = d->channel;
	struct sgpu_measurement measured = { 0 };
	int rc;

	channel->spent_ns[SGPU_CH_MEASURE] = 0;
	rc = sgpu_allocator_measure(channel->allocator, channel->number, d->va, d->size, false,
				    &measured, error);
	rc = rc ? rc : sgpu_session_measurement(channel->session, &measured, error);
	memcpy(d->digest, measured.digest, sizeof(d->digest));
	*ns = channel->spent_ns[SGPU_CH_MEASURE];
	return rc;
}

static int verify(void *argument, struct sgpu_error *error)
{
	const struct digested *d = argument;

	return memcmp(d->digest, d->expected, sizeof(d->digest)) == 0
		       ? SGPU_OK
		       : sgpu_fail(error, SGPU_EDIFFERS, "the digest is not that of the bytes");
}

/* The same bytes into plain memory and into the channel's. */
static int fill(struct digested *d, struct sgpu_error *error)
{
	const struct bench_channel *channel = d->channel;
	void *pattern = NULL;
	sgpu_devptr base = 0;
	uint64_t space;
	int rc = sgpu_bench_new_pinned(d->bench, d->size, &pattern, error);

	rc = rc ? rc
		: sgpu_processor_space(channel->processor, channel->number, &base, &space, error);
	if (rc == SGPU_OK) {
		rc = sgpu_processor_enter(channel->processor, channel->number, NULL, 0, error);
	}
	if (rc == SGPU_OK) {
		sgpu_processor_leave(channel->processor);
		sgpu_bench_fill(pattern, d->size, SEED);
		sgpu_measure_pages(pattern, d->size, NULL, d->expected);
		rc = bench_to_device(d->stream, d->plain, pattern, d->size, error);
	}
	return rc ? rc : bench_to_device(d->stream, base + d->va, pattern, d->size, error);
}

static int measure(void *argument, uint64_t size, struct sgpu_error *error)
{
	struct digested *d = argument;
	const struct sgpu_bench_variant variants[] = {
		{ .name = "plain", .work = measure_plain, .verify = verify, .argument = d },
		{ .name = "channel", .run = run_channel, .verify = verify, .argument = d },
	};
	const struct sgpu_bench_point point = { .parameters = { { "command", "CH_MEASURE", 0 },
								{ "size_bytes", NULL, size } },
						.bytes = size };
	struct sgpu_pages_info pages;
	uint64_t mapped;
	int rc = sgpu_device_pages(d->bench->device, &pages, error);

	d->size = size;
	rc = rc ? rc
		: bench_new_channel(d->bench, size / pages.big + SPARE_PAGES + 1, &d->channel,
				    error);
	if (rc == SGPU_OK) {
		rc = sgpu_allocator_map(d->channel->allocator, d->channel->number, size, &d->va,
					&mapped, NULL, NULL, error);
	}
	rc = rc ? rc : sgpu_bench_new_device_memory(d->bench, size, &d->plain, error);
	rc = rc ? rc : sgpu_bench_new_stream(d->bench, d->bench->device, &d->stream, error);
	rc = rc ? rc : fill(d, error);
	return rc ? rc : sgpu_bench_measure(d->bench, &point, variants, 2, error);
}

int bench_measure_channel(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const struct bench_need need = { .host = 1, .device = 2 };
	struct digested d = { .bench = bench };

	return bench_sweep(bench, (uint64_t)64 << 10, (uint64_t)1 << 30, need, measure, &d, error);
}
