/* SPDX-License-Identifier: Apache-2.0
 *
 * CH_MEASURE of the case channel: the measure of a channel's memory, beside that of plain memory of the device.
 */
#include <string.h>

#include <sgpu/channel.h>

#include "cases.h"
#include "memory.h"

enum { SEED = 11, SPARE_PAGES = 4 };

/* ---- a channel ---- */
static int send(void *processor, const struct sgpu_command *command, struct sgpu_reply *reply)
{
	return sgpu_processor_command(processor, command, reply);
}

int bench_channel_open(struct bench_channel *channel, const struct sgpu_pager *pager,
		       const struct sgpu_processor_config *config, struct sgpu_error *error)
{
	struct sgpu_grant grant = { 0 };
	struct sgpu_key owner;
	int rc = sgpu_key_generate(SGPU_KEY_X25519, &owner, error);

	rc = rc ? rc : sgpu_processor_create(pager, config, &channel->processor, error);
	if (rc == SGPU_OK) {
		rc = sgpu_allocator_create(&pager->info, config, send, channel->processor, &channel->allocator, error);
	}
	rc = rc ? rc : sgpu_allocator_channel(channel->allocator, owner.public_half, &grant, error);
	rc = rc ? rc : sgpu_session_open(&owner, &grant, &channel->session, error);
	channel->number = grant.channel;
	sgpu_key_clear(&owner);
	return rc;
}

void bench_channel_close(struct bench_channel *channel)
{
	sgpu_session_close(&channel->session);
	sgpu_allocator_free(&channel->allocator);
	sgpu_processor_free(&channel->processor);
}

/* ---- its measure ---- */
struct digested {
	struct sgpu_bench *bench;
	struct bench_channel channel;
	struct sgpu_stream *stream;
	sgpu_devptr plain;
	uint64_t size, va;
	struct sgpu_task task;
	uint8_t expected[SGPU_DIGEST_SIZE], digest[SGPU_DIGEST_SIZE];
};

static int run_plain(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct digested *d = argument;
	uint64_t begin = sgpu_now_ns();
	int rc;

	memset(&d->task, 0, sizeof(d->task));
	memset(d->digest, 0, sizeof(d->digest));
	rc = sgpu_device_measure(d->stream, d->plain, d->size, NULL, d->digest, &d->task);
	rc = bench_finish(d->stream, rc, &d->task, 1, "measure", error);
	*ns = sgpu_now_ns() - begin;
	return rc;
}

static int run_channel(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct digested *d = argument;
	const struct sgpu_command command = { .op = SGPU_CH_MEASURE, .channel = d->channel.number,
					      .measure = { .va = d->va, .size = d->size } };
	struct sgpu_reply reply;
	uint64_t begin = sgpu_now_ns();

	memset(d->digest, 0, sizeof(d->digest));
	(void)sgpu_processor_command(d->channel.processor, &command, &reply);
	*ns = sgpu_now_ns() - begin;
	if (reply.refusal != SGPU_REFUSED_NOT) {
		return sgpu_fail(error, SGPU_EDIFFERS, "CH_MEASURE was refused: %s", reply.error.text);
	}
	/* The owner's part: what travels is masked. */
	if (sgpu_session_measurement(d->channel.session, &reply.measurement, error) < 0) {
		return SGPU_EDIFFERS;
	}
	memcpy(d->digest, reply.measurement.digest, sizeof(d->digest));
	return SGPU_OK;
}

static int verify(void *argument, struct sgpu_error *error)
{
	struct digested *d = argument;

	return memcmp(d->digest, d->expected, sizeof(d->digest)) == 0 ? SGPU_OK :
	       sgpu_fail(error, SGPU_EDIFFERS, "the digest is not that of the bytes");
}

/* The same bytes into plain memory and into the channel's. */
static int fill(struct digested *d, struct sgpu_error *error)
{
	const struct bench_channel *channel = &d->channel;
	void *pattern = NULL;
	sgpu_devptr base = 0;
	uint64_t space;
	int rc = sgpu_bench_new_pinned(d->bench, d->size, &pattern, error);

	rc = rc ? rc : sgpu_processor_space(channel->processor, channel->number, &base, &space, error);
	rc = rc ? rc : sgpu_processor_activate(channel->processor, channel->number, error);
	if (rc == SGPU_OK) {
		sgpu_bench_fill(pattern, d->size, SEED);
		sgpu_measure_pages(pattern, d->size, NULL, d->expected);
		rc = bench_to_device(d->stream, d->plain, pattern, d->size, error);
	}
	return rc ? rc : bench_to_device(d->stream, base + d->va, pattern, d->size, error);
}

static int set_up(struct digested *d, const struct sgpu_pager *pager, struct sgpu_error *error)
{
	uint32_t per_big = (uint32_t)(pager->info.big / pager->info.small);
	uint64_t big_pages = d->size / pager->info.big + SPARE_PAGES + 1, mapped;
	const struct sgpu_processor_config config = { .frames = (uint32_t)(big_pages * per_big), .unprotected = per_big,
						      .hidden = 1 };
	int rc = bench_channel_open(&d->channel, pager, &config, error);

	if (rc == SGPU_OK) {
		rc = sgpu_allocator_map(d->channel.allocator, d->channel.number, d->size, &d->va, &mapped, NULL, NULL, error);
	}
	rc = rc ? rc : sgpu_bench_new_device_memory(d->bench, d->size, &d->plain, error);
	rc = rc ? rc : sgpu_bench_new_stream(d->bench, d->bench->device, &d->stream, error);
	return rc ? rc : fill(d, error);
}

static int measure(struct sgpu_bench *bench, const struct sgpu_pager *pager, uint64_t size, struct sgpu_error *error)
{
	struct digested d = { .bench = bench, .size = size };
	const struct sgpu_bench_variant variants[] = {
		{ .name = "plain", .run = run_plain, .verify = verify, .argument = &d },
		{ .name = "channel", .run = run_channel, .verify = verify, .argument = &d },
	};
	const struct sgpu_bench_point point = { .parameters = { { "command", "CH_MEASURE", 0 },
								{ "size_bytes", NULL, size } },
						.bytes = size };
	const size_t mark = sgpu_bench_mark(bench);
	int rc;

	if (sgpu_bench_fits(bench, size, 2 * size + (SPARE_PAGES + 1) * pager->info.big, error) != SGPU_OK) {
		sgpu_bench_waive(bench, &point, NULL, "%s", error->text);
		return SGPU_OK;
	}
	rc = set_up(&d, pager, error);
	rc = rc ? rc : sgpu_bench_measure(bench, &point, variants, 2, error);
	sgpu_bench_release(bench, mark);
	bench_channel_close(&d.channel);
	return rc;
}

int bench_measure_channel(struct sgpu_bench *bench, const struct sgpu_pager *pager, struct sgpu_error *error)
{
	struct sgpu_pager used = *pager;
	uint64_t sizes[SGPU_BENCH_SIZES_MAX];
	int count = sgpu_bench_sizes(bench, (uint64_t)64 << 10, (uint64_t)1 << 30, sizes), rc = SGPU_OK;

	used.info.fresh = false; /* others had it before */
	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = measure(bench, &used, sizes[i], error);
	}
	return rc;
}
