/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of the case session to a worker in another process, over pipes: in sealed groups, in messages that are not sealed,
 * and the same requests as direct calls of a secure context in this process. A request clears 4 KiB.
 */
#include "secure/group.h"

#include "cases.h"
#include "memory.h"

enum { BYTES = 4096, REQUESTS = 64 };

static const struct sgpu_item alloc_item = { .kind = SGPU_ITEM_ALLOC, .size = BYTES };
static const struct sgpu_item clear_item = { .kind = SGPU_ITEM_CLEAR, .size = BYTES };

struct side {
	struct sgpu_pipe pipe;         /* to the worker, another sgpu-bench */
	struct sgpu_group_client *client; /* of the sealed side */
	struct sgpu_device *device;    /* of the direct side */
	struct sgpu_stream *stream;
	sgpu_devptr memory;
	int requests;
};

static int run_direct(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct side *s = argument;
	struct sgpu_task tasks[REQUESTS] = { { 0 } };
	uint64_t begin = sgpu_now_ns();
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < s->requests; i++) {
		rc = sgpu_device_clear(s->stream, s->memory, BYTES, &tasks[i]);
	}
	rc = bench_finish(s->stream, rc, tasks, s->requests, "clear device memory", error);
	*ns = sgpu_now_ns() - begin;
	return rc;
}

static int send_plain(struct side *s, const struct sgpu_item *item, int count, struct sgpu_error *error)
{
	static uint8_t items[SGPU_GROUP_BYTES], answer[SGPU_MESSAGE_MAX];
	size_t size = 0, answer_size = 0;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = sgpu_item_encode(item, items, &size, error);
	}
	rc = rc == SGPU_OK ? sgpu_pipe_exchange(&s->pipe, items, size, answer, &answer_size, error) : rc;
	if (rc == SGPU_OK && answer_size != 4 + (size_t)count * 8) {
		rc = sgpu_fail(error, SGPU_EDIFFERS, "a request over a pipe failed");
	}
	return rc;
}

static int send_sealed(struct side *s, const struct sgpu_item *item, int count, struct sgpu_error *error)
{
	struct sgpu_item_result results[REQUESTS];
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = sgpu_group_client_add(s->client, item, error);
	}
	return rc == SGPU_OK ? sgpu_group_client_send(s->client, results, error) : rc;
}

static int run_plain(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct side *s = argument;

	(void)ns;
	return send_plain(s, &clear_item, s->requests, error);
}

static int run_sealed(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct side *s = argument;

	(void)ns;
	return send_sealed(s, &clear_item, s->requests, error);
}

static int measure(struct sgpu_bench *bench, struct side sides[3], struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		{ .name = "direct call", .run = run_direct, .argument = &sides[0] },
		{ .name = "plain message", .run = run_plain, .argument = &sides[1] },
		{ .name = "sealed group", .run = run_sealed, .argument = &sides[2] },
	};
	int rc = SGPU_OK;

	for (int requests = 1; rc == SGPU_OK && requests <= REQUESTS; requests *= REQUESTS) {
		const struct sgpu_bench_point point = { .parameters = { { "what", "pipe", 0 },
									{ "requests", NULL, (uint64_t)requests } } };

		sides[0].requests = sides[1].requests = sides[2].requests = requests;
		rc = sgpu_bench_measure(bench, &point, variants, 3, error);
	}
	return rc;
}

int bench_session_pipe(struct sgpu_bench *bench, struct sgpu_secure *context, struct sgpu_error *error)
{
	const size_t mark = sgpu_bench_mark(bench);
	struct side sides[3] = { { .device = sgpu_secure_device(context) } };
	struct sgpu_key owner = { 0 };
	int rc = sgpu_key_generate(SGPU_KEY_X25519, &owner, error);

	rc = rc == SGPU_OK ? sgpu_stream_create(sides[0].device, &sides[0].stream, error) : rc;
	rc = rc == SGPU_OK ? sgpu_device_alloc(sides[0].device, BYTES, &sides[0].memory, error) : rc;
	rc = rc == SGPU_OK ? bench_start_pipe(bench, "--serve", "plain", &sides[1].pipe, error) : rc;
	rc = rc == SGPU_OK ? send_plain(&sides[1], &alloc_item, 1, error) : rc;
	rc = rc == SGPU_OK ? bench_start_pipe(bench, "--serve", "sealed", &sides[2].pipe, error) : rc;
	if (rc == SGPU_OK) {
		rc = sgpu_group_client_open(&owner, NULL, sgpu_pipe_exchange, &sides[2].pipe, &sides[2].client, error);
	}
	rc = rc == SGPU_OK ? send_sealed(&sides[2], &alloc_item, 1, error) : rc;
	rc = rc == SGPU_OK ? measure(bench, sides, error) : rc;
	sgpu_group_client_close(&sides[2].client);
	sgpu_bench_release(bench, mark);
	sgpu_stream_free(&sides[0].stream);
	sgpu_device_free(sides[0].device, &sides[0].memory, BYTES);
	sgpu_key_clear(&owner);
	return rc;
}
