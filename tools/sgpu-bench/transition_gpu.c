/* SPDX-License-Identifier: Apache-2.0
 *
 * From the host to a GPU and back: a launch, a launch of a graph, waiting, and words that the
 * stream itself writes or waits for. Every sample is one of these.
 */
#include <string.h>

#include "bare.h"
#include "made.h"
#include "memory.h"
#include "transition.h"

enum { ELEMENTS = 256, BYTES = ELEMENTS * 4, LINE = 64 };
/* A GPU that answers, answers sooner. */
#define PATIENCE_NS ((uint64_t)1000000000)

struct gpu {
	struct sgpu_bench *bench;
	struct sgpu_stream *stream;
	struct bare *bare;   /* adds vectors of 1 and 2 */
	float sum[ELEMENTS]; /* what comes out */
	struct sgpu_recording *recording;
	volatile uint32_t *words; /* what the host writes, and in another line what the GPU does */
	uint32_t turn;
	struct sgpu_task task;
};

/* ---- launches ---- */
static int clear_sum(void *argument, struct sgpu_error *error)
{
	struct gpu *g = argument;

	g->task = (struct sgpu_task){ .untimed = true };
	return bare_prepare(g->bare, error);
}

static int verify_sum(void *argument, struct sgpu_error *error)
{
	struct gpu *g = argument;
	int rc = bench_finish(g->stream, SGPU_OK, &g->task, 1, "launch", error);

	return rc ? rc : bare_verify(g->bare, error);
}

static int launch_on(struct sgpu_stream *stream, void *argument, struct sgpu_error *error)
{
	struct gpu *g = argument;

	return sgpu_bench_launch(g->bench, stream, &g->bare->call, &g->task, error);
}

/* What runs on is waited for before the result is verified. */
static int launch(void *argument, struct sgpu_error *error)
{
	return launch_on(((struct gpu *)argument)->stream, argument, error);
}

static int launch_and_wait(void *argument, struct sgpu_error *error)
{
	int rc = launch(argument, error);

	return rc == SGPU_OK ? sgpu_stream_sync(((struct gpu *)argument)->stream, error) : rc;
}

static int graph_and_wait(void *argument, struct sgpu_error *error)
{
	struct gpu *g = argument;
	int rc = sgpu_recording_launch(g->stream, g->recording, &g->task);

	return rc == SGPU_OK ? sgpu_stream_sync(g->stream, error)
			     : sgpu_fail(error, rc, "%s", sgpu_strerror(rc));
}

static int synchronize(void *argument, struct sgpu_error *error)
{
	return sgpu_device_synchronize(((struct gpu *)argument)->bench->device, error);
}

/* ---- words ---- */
static int refuse_word(int rc, struct sgpu_error *error)
{
	return sgpu_fail(error, rc,
			 "no stream of this device writes words of the host or waits for them: %s",
			 sgpu_strerror(rc));
}

static int see_word(struct gpu *g, struct sgpu_error *error)
{
	const uint64_t begin = sgpu_now_ns();

	while (g->words[LINE / 4] != g->turn) {
		if (sgpu_now_ns() - begin > PATIENCE_NS) {
			return sgpu_fail(error, SGPU_EDEVICE, "the GPU did not write a word");
		}
	}
	return SGPU_OK;
}

static int write_word(void *argument, struct sgpu_error *error)
{
	struct gpu *g = argument;
	int rc = sgpu_stream_write_word(g->stream, &g->words[LINE / 4], ++g->turn);

	return rc == SGPU_OK ? see_word(g, error) : refuse_word(rc, error);
}

/* The stream waits for the host's word already, when that is written. */
static int enqueue_answer(void *argument, struct sgpu_error *error)
{
	struct gpu *g = argument;
	int rc = sgpu_stream_sync(g->stream, error);

	if (rc == SGPU_OK &&
	    (rc = sgpu_stream_wait_word(g->stream, &g->words[0], ++g->turn)) == SGPU_OK) {
		rc = sgpu_stream_write_word(g->stream, &g->words[LINE / 4], g->turn);
	}
	return rc == SGPU_OK ? rc : refuse_word(rc, error);
}

static int ask(void *argument, struct sgpu_error *error)
{
	struct gpu *g = argument;

	g->words[0] = g->turn;
	return see_word(g, error);
}

/* ---- all of it ---- */
BENCH_ENDING(end_recording, struct sgpu_recording, sgpu_recording_free)

static int open_gpu(struct gpu *g, struct sgpu_error *error)
{
	void *words = NULL;
	int rc = bare_new(g->bench, "vector_add", BYTES, &g->bare, error);

	rc = rc ? rc : sgpu_bench_new_pinned(g->bench, 2 * LINE, &words, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	g->stream = g->bare->stream;
	g->words = words;
	memset(words, 0, 2 * LINE);
	g->bare->wanted = g->sum;
	for (int i = 0; i < ELEMENTS; i++) {
		g->bare->host[0][i] = 1;
		g->bare->host[1][i] = 2;
		g->sum[i] = 3;
	}
	rc = sgpu_device_record(g->bench->device, launch_on, g, &g->recording, error);
	return rc ? rc
		  : sgpu_bench_keep(g->bench, end_recording, (uintptr_t)g->recording, 0, error);
}

int bench_transition_gpu(struct sgpu_bench *bench, struct sgpu_error *error)
{
	static const struct sgpu_bench_variant variants[] = {
		{ .name = "launch", .prepare = clear_sum, .work = launch, .verify = verify_sum },
		{ .name = "launch and wait",
		  .prepare = clear_sum,
		  .work = launch_and_wait,
		  .verify = verify_sum },
		{ .name = "graph launch and wait",
		  .prepare = clear_sum,
		  .work = graph_and_wait,
		  .verify = verify_sum },
		{ .name = "synchronise, idle", .work = synchronize },
		{ .name = "stream writes a word", .work = write_word },
		{ .name = "word to the stream and back", .prepare = enqueue_answer, .work = ask },
	};
	const struct sgpu_bench_point point = { .parameters = { { "what", "gpu", 0 } } };
	const size_t mark = sgpu_bench_mark(bench);
	struct gpu g = { .bench = bench };
	int rc = SGPU_OK;

	if (strcmp(bench->info.selector, "cpu") == 0) {
		sgpu_bench_waive(bench, &point, NULL, "no GPU: the device is '%s'",
				 bench->info.selector);
		return SGPU_OK;
	}
	rc = open_gpu(&g, error);
	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(variants); i++) {
		struct sgpu_bench_variant variant = variants[i];

		variant.argument = &g;
		rc = sgpu_bench_measure(bench, &point, &variant, 1, error);
		rc = rc == SGPU_EUNAVAILABLE ? SGPU_OK : rc; /* which was told */
	}
	if (g.words) {
		g.words[0] = g.turn; /* nothing waits any more */
	}
	sgpu_bench_release(bench, mark);
	return rc;
}
