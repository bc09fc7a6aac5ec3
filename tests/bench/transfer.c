/* SPDX-License-Identifier: Apache-2.0
 *
 * How large the chunk runs of transfers should be: `transfer [DEVICE [JOBS]]` tries sizes and
 * prints, one configuration a line, the median time of each copy as a multiple of the plain one's
 * from pinned memory. Before, it prints when each chunk run was sent and when it was on the bus.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <transfer/engine.h>

#include "../unit/fake_backend.h"

enum { ROUNDS = 9, SIZES = 3, KINDS = 3 };
#define KIB ((uint64_t)1024)
#define MIB (1024 * KIB)
static const uint64_t sizes[SIZES] = { 4 * MIB, 64 * MIB, 1024 * MIB };
static const char *const kinds[KINDS] = { "live up", "rest up", "rest down" };

struct bench {
	struct sgpu_device *device;
	struct sgpu_stream *stream;
	struct sgpu_engine *engine;
	struct sgpu_live_key *live;
	struct sgpu_device_key *key;
	struct sgpu_sealed_keys keys;
	sgpu_devptr memory;
	void *pinned, *sealed;
	uint8_t *ordinary;
	uint64_t next;
};

static int asleep; /* the threads, before every copy */

static void must(int code, const struct sgpu_error *error)
{
	if (code != SGPU_OK) {
		fprintf(stderr, "transfer: %s\n",
			error->text[0] ? error->text : sgpu_strerror(code));
		exit(3);
	}
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int copy(struct bench *b, int kind, uint64_t size, struct sgpu_transfer_result *result)
{
	uint64_t sealed_size = size + (size / SGPU_CHUNK + 1) * SGPU_TAG_SIZE;
	struct sgpu_transfer_request request = { .key = b->key, .last = true, .memory = b->memory };

	switch (kind) {
	case 0:
		return sgpu_live_in(b->engine, b->live, b->ordinary, size, b->memory, result);
	case 1:
		request.direction = SGPU_TRANSFER_IN;
		request.size = sealed_size;
		request.source = sgpu_source_from_memory(b->sealed, true);
		break;
	default:
		b->next += size / SGPU_CHUNK + 1;
		request.direction = SGPU_TRANSFER_OUT;
		request.size = size;
		request.sink = sgpu_sink_to_memory(b->sealed, true);
		break;
	}
	request.first = b->next;
	return sgpu_transfer_sync(b->engine, &request, result);
}

/* Nanoseconds; the copy up of what is sealed at rest takes what the copy down has sealed. */
static uint64_t median_of(struct bench *b, int kind, uint64_t size)
{
	uint64_t times[ROUNDS];

	for (int i = -2; i < ROUNDS; i++) {
		struct sgpu_transfer_result result = { 0 };
		struct sgpu_task task = { 0 };
		struct sgpu_error error = { 0 };
		struct timespec pause = { 0, 5000000 };
		uint64_t begin;

		if (asleep) {
			nanosleep(&pause, NULL);
		}
		begin = sgpu_now_ns();
		if (kind < 0) {
			must(sgpu_copy_in(b->stream, b->memory, b->pinned, size, &task),
			     &task.error);
			must(sgpu_stream_sync(b->stream, &error), &error);
		} else {
			must(copy(b, kind, size, &result), &result.error);
		}
		if (i >= 0) {
			times[i] = sgpu_now_ns() - begin;
		}
	}
	qsort(times, ROUNDS, sizeof(times[0]), by_value);
	return times[ROUNDS / 2];
}

static void try(struct bench *b, const struct sgpu_engine_config *config, unsigned set)
{
	struct sgpu_sealed_keys keys;
	struct sgpu_error error = { 0 };
	const uint8_t secret[SGPU_KEY_SIZE] = { 2 };

	must(sgpu_engine_create(b->device, config, &b->engine, &error), &error);
	must(sgpu_sealed_keys_new(secret, "", 0, &keys, &error), &error);
	must(sgpu_live_key_load(b->engine, &keys, &b->live, &error), &error);
	config = &b->engine->config;
	printf("workers %2u  staged %5llu KiB  live %2u  direct %5llu KiB x %u  first %4llu  last "
	       "%4llu KiB |",
	       config->workers, (unsigned long long)(config->staged_run / KIB),
	       config->live_buffers, (unsigned long long)(config->direct_run / KIB),
	       config->direct_count, (unsigned long long)(config->first_run / KIB),
	       (unsigned long long)(config->last_run / KIB));
	for (int kind = KINDS - 1; kind >= 0; kind--) {
		if (!(set >> kind & 1)) {
			continue;
		}
		printf("  %s", kinds[kind]);
		for (int i = 0; i < SIZES; i++) {
			uint64_t plain = median_of(b, -1, sizes[i]);

			/* So that there is something of this size to open. */
			if (kind == 1) {
				must(copy(b, 2, sizes[i], NULL), &error);
			}
			printf(" %.3f", (double)median_of(b, kind, sizes[i]) / (double)plain);
			fflush(stdout);
		}
	}
	printf("\n");
	sgpu_live_key_free(&b->live);
	sgpu_engine_free(&b->engine);
}

static void try_all(struct bench *b, unsigned jobs)
{
	static const uint64_t live[][2] = { { 2048, 8 }, { 4096, 4 }, { 4096, 16 },
					    { 8192, 4 }, { 8192, 8 }, { 16384, 4 } };
	for (asleep = 1; asleep >= 0; asleep--) {
		printf(asleep ? "threads asleep before each copy:\n" : "copies back to back:\n");
		for (size_t i = 0; i < SGPU_ARRAY_LENGTH(live); i++) {
			struct sgpu_engine_config config = { .workers = jobs };

			config.staged_run = live[i][0] * KIB;
			config.live_buffers = (unsigned)live[i][1];
			config.pinned_max = 256 * MIB;
			try(b, &config, 1);
		}
		try(b, &(struct sgpu_engine_config){ .workers = jobs }, 7);
	}
}

/* ---- when what happens ---- */
enum { EVENTS_MAX = 4096 };
static const struct sgpu_device_backend *real;
static struct sgpu_task tasks[EVENTS_MAX];
static struct {
	uint64_t sent, size;
} events[EVENTS_MAX];
static int event_count;

static int traced_copies(struct sgpu_stream *stream, const struct sgpu_work *work,
			 struct sgpu_task *task)
{
	if (work->kind > SGPU_WORK_COPY_OUT) {
		return real->stream->enqueue(stream, work, task);
	}
	events[event_count].sent = sgpu_now_ns();
	events[event_count].size = work->size;
	return real->stream->enqueue(stream, work, &tasks[event_count++]);
}

static void trace(struct bench *b, const struct sgpu_engine_config *config, int kind, uint64_t size)
{
	static struct fake_backend traced;
	struct sgpu_sealed_keys keys;
	struct sgpu_error error = { 0 };
	const uint8_t secret[SGPU_KEY_SIZE] = { 3 };

	must(sgpu_engine_create(b->device, config, &b->engine, &error), &error);
	must(sgpu_sealed_keys_new(secret, "", 0, &keys, &error), &error);
	must(sgpu_live_key_load(b->engine, &keys, &b->live, &error), &error);
	real = sgpu_device_backend_of(b->device);
	fake_backend_copy(&traced, real);
	traced.stream.enqueue = traced_copies;
	for (int i = 0; i < SGPU_ENGINE_ROWS; i++) {
		struct sgpu_stream *stream = NULL;

		must(sgpu_engine_get_stream(b->engine, (enum sgpu_engine_stream)i, &stream, &error),
		     &error);
		fake_backend_give(stream, &traced);
	}
	for (int i = 0; i < 3; i++) {
		struct sgpu_transfer_result result = { 0 };
		struct timespec pause = { 0, 20000000 };

		event_count = 0;
		nanosleep(&pause, NULL);
		must(copy(b, kind, size, &result), &result.error);
		printf("%s, %llu MiB: took %.0f us; sent at, on the bus from, to, in us:\n",
		       kinds[kind], (unsigned long long)(size / MIB),
		       (double)(result.end_ns - result.begin_ns) / 1e3);
		for (int e = 0; e < event_count && e < 40; e++) {
			printf(" %.2fM:%.0f,%.0f,%.0f", (double)events[e].size / 1048576.,
			       (double)(events[e].sent - result.begin_ns) / 1e3,
			       (double)(tasks[e].begin_ns - result.begin_ns) / 1e3,
			       (double)(tasks[e].end_ns - result.begin_ns) / 1e3);
		}
		printf("\n");
	}
	sgpu_live_key_free(&b->live);
	sgpu_engine_free(&b->engine);
}

int main(int argc, char **argv)
{
	const uint64_t room = sizes[SIZES - 1],
		       sealed_room = room + (room / SGPU_CHUNK + 1) * SGPU_TAG_SIZE;
	const uint8_t secret[SGPU_KEY_SIZE] = { 1 };
	struct sgpu_error error = { 0 };
	struct bench b = { 0 };

	must(sgpu_device_open(argc > 1 ? argv[1] : "auto", NULL, &b.device, &error), &error);
	must(sgpu_stream_create(b.device, &b.stream, &error), &error);
	must(sgpu_device_alloc(b.device, room, &b.memory, &error), &error);
	must(sgpu_host_alloc(b.device, room, &b.pinned, &error), &error);
	must(sgpu_host_alloc(b.device, sealed_room, &b.sealed, &error), &error);
	must(sgpu_sealed_keys_new(secret, "", 0, &b.keys, &error), &error);
	must(sgpu_device_key_load(b.stream, &b.keys, &b.key, &error), &error);
	b.ordinary = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b.ordinary == MAP_FAILED) {
		return 3;
	}
	(void)madvise(b.ordinary, room, MADV_HUGEPAGE);
	for (uint64_t i = 0; i < room; i += 8) {
		uint64_t word = (i + 1) * 0x9e3779b97f4a7c15u;

		memcpy(b.ordinary + i, &word, 8);
	}
	memcpy(b.pinned, b.ordinary, room);
	for (int i = 0; i < SIZES; i++) {
		printf("plain, %llu MiB: %.1f us\n", (unsigned long long)(sizes[i] / MIB),
		       (double)median_of(&b, -1, sizes[i]) / 1e3);
	}
	unsigned jobs = argc > 2 ? (unsigned)atoi(argv[2]) : sgpu_cpu_count();
	for (int kind = 0; kind < 1; kind++) {
		struct sgpu_engine_config config = { .workers = jobs };

		trace(&b, &config, kind, sizes[1]);
	}
	try_all(&b, jobs);
	sgpu_device_key_free(&b.key);
	sgpu_stream_free(&b.stream);
	sgpu_host_free(b.device, &b.pinned, room);
	sgpu_host_free(b.device, &b.sealed, sealed_room);
	sgpu_device_free(b.device, &b.memory, room);
	sgpu_device_close(&b.device);
	return 0;
}
