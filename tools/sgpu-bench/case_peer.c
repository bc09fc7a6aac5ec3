/* SPDX-License-Identifier: Apache-2.0
 *
 * peer: copies from the device to a second one, plain and sealed, by each path of the ciphertext,
 * in one run. Times are the host's, from the call to its end.
 */
#include <string.h>

#include "ops/ops.h"
#include "cases.h"

enum { SEED = 11, PATHS = 2 };
#define MIB ((uint64_t)1 << 20)
static const struct bench_sizes sizes = { 4 * MIB | 64 * MIB | 1024 * MIB, 4 * MIB, 2, 2,
					  768 * MIB };
static const enum sgpu_peer_path paths[PATHS] = { SGPU_PEER_STORED, SGPU_PEER_HOST };

struct state {
	struct bench_target to;
	struct sgpu_bench *bench;
	struct sgpu_device *second;
	struct sgpu_stream *in; /* of the second device */
	sgpu_devptr from;
	uint64_t size;
	struct sgpu_peer *peers[PATHS]; /* by path: of the second variant, of the third */
};

SGPU_BENCH_ENDING(end_device, struct sgpu_device, sgpu_device_close)
SGPU_BENCH_ENDING(end_peer, struct sgpu_peer, sgpu_peer_close)

static void end_shared(struct sgpu_bench *bench, uintptr_t memory, uint64_t second)
{
	sgpu_shared_free((struct sgpu_device *)(uintptr_t)second, bench->device, &memory);
}

static int copy_plain(void *argument, struct sgpu_error *error)
{
	const struct state *s = argument;
	const struct sgpu_type bytes = { .dtype = SGPU_U8, .rank = 1, .shape = { s->size } };
	struct sgpu_op_call call = {
		.op = sgpu_op_find("copy"),
		.type = { bytes, bytes },
		.data = { (void *)(uintptr_t)s->from, (void *)(uintptr_t)s->to.memory },
	};
	struct sgpu_task task = { 0 };
	const int rc = sgpu_bench_launch(s->bench, s->bench->stream, &call, &task, error);

	return rc ? rc
		  : bench_finish(s->bench->stream, rc, &task, 1, "copy to the second device",
				 error);
}

static int copy_sealed(void *argument, struct sgpu_error *error)
{
	const struct state *s = argument;

	return sgpu_peer_copy(s->peers[s->bench->variant - 1], s->to.memory, s->from, s->size,
			      error);
}

static int measure(struct state *s, struct sgpu_error *error)
{
	const struct sgpu_bench_point point = { .parameters = { { "size_bytes", NULL, s->size } },
						.bytes = s->size };
	const struct sgpu_bench_variant variants[] = {
		{ "plain", bench_clear_target, copy_plain, bench_verify_target, s },
		{ "stored", bench_clear_target, copy_sealed, bench_verify_target, s },
		{ "host", bench_clear_target, copy_sealed, bench_verify_target, s },
	};

	return sgpu_bench_measure(s->bench, &point, variants, 3, error);
}

static int measure_size(void *argument, uint64_t size, struct sgpu_error *error)
{
	struct state *s = argument;
	struct sgpu_bench *bench = s->bench;
	int rc = sgpu_bench_new_device_memory(bench, size, &s->from, error);

	s->size = size;
	s->to = (struct bench_target){ .stream = s->in, .size = size, .seed = SEED };
	rc = rc ? rc : sgpu_shared_alloc(s->second, bench->device, size, &s->to.memory, error);
	rc = rc ? rc
		: sgpu_bench_keep(bench, end_shared, s->to.memory, (uintptr_t)s->second, error);
	rc = rc ? rc : sgpu_bench_new_pinned(bench, size, &s->to.scratch, error);
	if (rc == SGPU_OK) {
		sgpu_bench_fill(s->to.scratch, size, SEED);
		rc = bench_to_device(bench->stream, s->from, s->to.scratch, size, error);
	}
	return rc ? rc : measure(s, error);
}

static int open_all(struct state *s, struct sgpu_error *error)
{
	const struct sgpu_device_config config = { .jobs = s->bench->options.jobs,
						   .timer = s->bench->options.timer };
	const bool is_gpu = s->bench->info.opens_on_device;
	const bool is_first = strcmp(s->bench->info.selector, "cuda:0") == 0;
	/* A second CPU device, or the first GPU with another index. */
	int rc = sgpu_device_open(!is_gpu    ? "cpu"
				  : is_first ? "cuda:1"
					     : "cuda:0",
				  &config, &s->second, error);

	if (rc == SGPU_EUNAVAILABLE && is_gpu) {
		return sgpu_fail(error, rc, "the machine has no second GPU");
	}
	rc = rc ? rc : sgpu_bench_keep(s->bench, end_device, (uintptr_t)s->second, 0, error);
	rc = rc ? rc : sgpu_bench_new_stream(s->bench, s->second, &s->in, error);
	for (int i = 0; rc == SGPU_OK && i < PATHS; i++) {
		const struct sgpu_peer_config peer = { .path = paths[i] };

		rc = sgpu_peer_open(s->bench->device, s->second, &peer, &s->peers[i], error);
		rc = rc ? rc
			: sgpu_bench_keep(s->bench, end_peer, (uintptr_t)s->peers[i], 0, error);
	}
	return rc;
}

int bench_peer(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct state s = { .bench = bench };
	const int rc = open_all(&s, error);

	return rc ? rc : bench_each_size(bench, &sizes, measure_size, &s, error);
}
