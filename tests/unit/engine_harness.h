/* SPDX-License-Identifier: Apache-2.0
 *
 * For the tests of the transfer engine: an engine on the device, which may look like a GPU, and
 * transfers whose ends can be looked at.
 */
#ifndef ENGINE_HARNESS_H
#define ENGINE_HARNESS_H

#include <pthread.h>
#include <signal.h>

#include "crypto/crypto.h"
#include "transfer/engine.h"
#include "transfer/transfer.h"

#include "fake_gpu.h"

enum {
	C = SGPU_CHUNK,
	S = SGPU_SEALED_CHUNK,
	/* Enough to be registered. A checker has several bytes for each. */
	CHUNKS = UNIT_SANITIZED ? 270 : 400,
	LARGEST = CHUNKS * C + 77,
	ROOM = LARGEST + 2 * C + 500 * SGPU_TAG_SIZE
};

/* One staging buffer of each size, so that transfers wait for each other as soon as they can. */
static const struct sgpu_engine_config scarce = { .workers = 3,
						  .staged_run = 8 * C,
						  .pinned_max = 1,
						  .direct_count = 1,
						  .direct_run = 32 * C,
						  .last_run = 2 * C };
static const struct sgpu_engine_config several = { .workers = 4,
						   .staged_run = 16 * C,
						   .pinned_max = 100 * C,
						   .direct_run = 64 * C,
						   .last_run = 4 * C };

static struct sgpu_engine *engine;
static struct sgpu_stream *stream, *copies;
static struct sgpu_sealed_keys keys;
static struct sgpu_device_key *key;
static struct sgpu_aead *aead;
/* Of the thread that runs the tests. */
static uint8_t plaintext[ROOM], scratch[ROOM];
static bool looks_like_gpu;

static inline bool set_up(const struct sgpu_engine_config *config)
{
	static const uint8_t secret[SGPU_KEY_SIZE] = { 4, 4 };
	/* Workers of the CPU device are the engine's as well. */
	struct sgpu_device_config jobs = { .jobs = config ? config->workers : 2 };

	fake.fails = NULL;
	fake.no_host_memory = false;
	fake.pins = fake.registers = true;
	atomic_store(&fake.lent_most, 0);
	if (sgpu_device_open(device_name(), &jobs, &device, &error) != SGPU_OK) {
		return false;
	}
	if (looks_like_gpu) {
		make_fake_gpu();
	}
	return sgpu_engine_create(device, config, &engine, &error) == SGPU_OK &&
	       sgpu_stream_create(device, &stream, &error) == SGPU_OK &&
	       sgpu_stream_create(device, &copies, &error) == SGPU_OK &&
	       sgpu_sealed_keys_new(secret, "", 0, &keys, &error) == SGPU_OK &&
	       sgpu_aead_create(NULL, keys.key, &aead, &error) == SGPU_OK &&
	       sgpu_device_key_load(stream, &keys, &key, &error) == SGPU_OK;
}

static inline void tear_down(void)
{
	fake.fails = NULL;
	for (int i = 0; engine && i < SGPU_STAGING_CLASSES; i++) {
		CHECK(engine->staging[i].filled == 0);
	}
	sgpu_engine_free(&engine);
	sgpu_device_key_free(&key);
	sgpu_aead_free(&aead);
	sgpu_stream_free(&stream);
	sgpu_stream_free(&copies);
	if (looks_like_gpu) {
		CHECK(fake_is_clean());
		unmake_fake_gpu();
	}
	sgpu_device_close(&device);
}

/* ---- one transfer of a test ---- */
enum kind { MEMORY, REGISTERED, FILE_IN_MEMORY, READ, KINDS };

struct move {
	struct sgpu_transfer_request request;
	struct sgpu_transfer *transfer;
	struct sgpu_transfer_result result;
	bool ended;
	sgpu_devptr memory;
	uint64_t plain, bytes; /* plaintext, and as it travels */
	uint8_t *host;
	int file;
	/* what its source or sink does */
	uint64_t fails_at; /* position; UINT64_MAX: nowhere */
	int pipe[2];	   /* ordered */
	atomic_int calls, closed;
	atomic_uint_fast64_t moved;
	uint64_t spans[SGPU_STEPS];
};

static inline uint64_t sealed_bytes(uint64_t size)
{
	return size + (size / C + 1) * SGPU_TAG_SIZE;
}

static inline void note_span(void *argument, const struct sgpu_transfer_span *span)
{
	struct move *move = argument;

	CHECK(span->end_ns >= span->begin_ns);
	move->spans[span->step] += span->bytes;
}

static inline int read_some(void *context, uint64_t position, void *data, size_t size,
			    struct sgpu_error *why)
{
	struct move *move = context;

	atomic_fetch_add(&move->calls, 1);
	atomic_fetch_add(&move->moved, size);
	if (position <= move->fails_at && move->fails_at < position + size) {
		return sgpu_fail(why, SGPU_ESYSTEM, "made to fail at %llu",
				 (unsigned long long)move->fails_at);
	}
	memcpy(data, move->host + position, size);
	return SGPU_OK;
}

static inline int write_some(void *context, uint64_t position, const void *data, size_t size,
			     struct sgpu_error *why)
{
	struct move *move = context;

	atomic_fetch_add(&move->calls, 1);
	atomic_fetch_add(&move->moved, size);
	if (position <= move->fails_at && move->fails_at < position + size) {
		return sgpu_fail(why, SGPU_ESYSTEM, "no space left at %llu",
				 (unsigned long long)move->fails_at);
	}
	memcpy(move->host + position, data, size);
	return SGPU_OK;
}

static inline void note_close(void *context)
{
	struct move *move = context;

	atomic_fetch_add(&move->closed, 1);
}

static inline bool all(const uint8_t *data, uint64_t size, uint8_t value)
{
	return size == 0 || (data[0] == value && memcmp(data, data + 1, size - 1) == 0);
}

static inline void to_device(sgpu_devptr memory, const void *from, uint64_t size)
{
	CHECK(sgpu_copy_in(stream, memory, from, size, NULL) == SGPU_OK);
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK);
}

static inline void from_device(void *to, sgpu_devptr memory, uint64_t size)
{
	CHECK(sgpu_copy_out(stream, to, memory, size, NULL) == SGPU_OK);
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK);
}

/* A transfer of `size` bytes of plaintext; what there was before in its destination is 0xee. */
static inline void make_move(struct move *move, enum sgpu_transfer_direction direction,
			     enum kind kind, bool sealed, uint64_t size)
{
	struct sgpu_transfer_request *request = &move->request;
	bool in = direction == SGPU_TRANSFER_IN;
	void *host = NULL;

	memset(move, 0, sizeof(*move));
	move->plain = size;
	move->bytes = sealed ? sealed_bytes(size) : size;
	move->fails_at = UINT64_MAX;
	move->file = -1;
	move->pipe[0] = move->pipe[1] = -1;
	CHECK(sgpu_device_alloc(device, size + C, &move->memory, &error) == SGPU_OK);
	CHECK(sgpu_host_alloc(device, move->bytes + C, &host, &error) == SGPU_OK);
	move->host = host;
	memset(scratch, 0xee, size + C);
	to_device(move->memory, in ? scratch : plaintext, size + C);
	memset(move->host, 0xee, move->bytes + C);
	if (in && sealed) {
		CHECK(sgpu_seal_chunks(aead, &keys, 0, true, plaintext, size, move->host) ==
		      SGPU_OK);
	} else if (in) {
		memcpy(move->host, plaintext, size);
	}
	*request = (struct sgpu_transfer_request){
		.direction = direction,
		.key = sealed ? key : NULL,
		.last = true,
		.memory = move->memory,
		.size = in ? move->bytes : size,
		.copy = copies,
		.crypt = stream,
		.span = note_span,
		.argument = move,
	};
	if (kind == FILE_IN_MEMORY) {
		move->file = memfd_create("move", MFD_CLOEXEC);
		CHECK(ftruncate(move->file, 4096 + (off_t)move->bytes) == 0);
		CHECK(!in ||
		      pwrite(move->file, move->host, move->bytes, 4096) == (ssize_t)move->bytes);
		CHECK(sgpu_endpoint_in_file(engine, move->file, "move", 4096, false, &request->end,
					    &error) == SGPU_OK);
	} else if (kind == READ) {
		request->end = (struct sgpu_endpoint){
			.read = read_some, .write = write_some, .close = note_close, .context = move
		};
	} else {
		request->end = (struct sgpu_endpoint){ .memory = move->host,
						       .registered = kind == REGISTERED };
	}
}

static inline void free_move(struct move *move)
{
	void *host = move->host;

	sgpu_transfer_free(&move->transfer);
	sgpu_device_free(device, &move->memory, move->plain + C);
	sgpu_host_free(device, &host, move->bytes + C);
	if (move->file >= 0) {
		close(move->file);
	}
	for (int i = 0; i < 2; i++) {
		if (move->pipe[i] >= 0) {
			close(move->pipe[i]);
		}
	}
}

/* What a transfer that went well has left, and nothing beside it. */
static inline void check_move(struct move *move)
{
	uint64_t paths = 0;

	CHECK(move->ended && move->result.code == SGPU_OK && !move->result.error.text[0]);
	CHECK(move->request.end.close != note_close || atomic_load(&move->closed) == 1);
	if (move->request.direction == SGPU_TRANSFER_IN) {
		from_device(scratch, move->memory, move->plain + C);
		CHECK(memcmp(scratch, plaintext, move->plain) == 0 &&
		      all(scratch + move->plain, C, 0xee));
	} else {
		if (move->file >= 0) {
			CHECK(pread(move->file, move->host, move->bytes, 4096) ==
			      (ssize_t)move->bytes);
		}
		if (move->request.key) {
			CHECK(sgpu_open_chunks(aead, &keys, 0, true, move->host, move->bytes,
					       scratch, NULL) == SGPU_OK);
		} else {
			memcpy(scratch, move->host, move->plain);
		}
		CHECK(memcmp(scratch, plaintext, move->plain) == 0 &&
		      all(move->host + move->bytes, C, 0xee));
	}
	for (int i = 0; i < SGPU_PATHS; i++) {
		paths += move->result.bytes[i];
	}
	CHECK(paths == move->bytes && move->result.end_ns >= move->result.begin_ns);
}

/* What one has left that failed: nothing of it. */
static inline void check_failed(struct move *move, int code)
{
	CHECK(move->ended && move->result.code == code && move->result.error.code == code);
	CHECK(move->result.error.text[0]);
	CHECK(move->request.end.close != note_close || atomic_load(&move->closed) == 1);
	if (move->request.direction == SGPU_TRANSFER_IN) {
		from_device(scratch, move->memory, move->plain + C);
		CHECK(all(scratch, move->plain, 0) || all(scratch, move->plain, 0xee));
		CHECK(all(scratch + move->plain, C, 0xee));
	}
}

static inline void start(struct move *move)
{
	CHECK(sgpu_transfer_begin(engine, &move->request, &move->transfer, &error) == SGPU_OK);
}

/* Takes a step. Returns whether the transfer has ended. */
static inline bool advance(struct move *move)
{
	const struct sgpu_transfer_result *result;

	(void)sgpu_transfer_step(move->transfer, false);
	result = sgpu_transfer_end(move->transfer);
	if (result && !move->ended) {
		move->result = *result;
		move->ended = true;
	}
	return move->ended;
}

static inline int finish(struct move *move)
{
	move->result = *sgpu_transfer_wait(move->transfer);
	move->ended = sgpu_transfer_end(move->transfer) != NULL;
	CHECK(move->ended && !sgpu_transfer_step(move->transfer, false));
	return move->result.code;
}

/* Ends all, a step of each in turn. */
static inline void finish_all(struct move *moves, int count)
{
	int left;

	do {
		left = 0;
		for (int i = 0; i < count; i++) {
			left += !advance(&moves[i]);
		}
		sched_yield();
	} while (left > 0);
}

/* Runs the tests on the device, and, if that is the CPU device, on one that looks like a GPU. */
static inline int on_both_devices(void (*tests)(void))
{
	signal(SIGPIPE, SIG_IGN);
	for (uint64_t i = 0; i < ROOM; i++) {
		plaintext[i] = (uint8_t)(7 + i * 11 + i / 253 + i / 16384);
	}
	open_device(2);
	sgpu_device_close(&device);
	tests();
	if (strcmp(device_name(), "cpu") == 0) {
		looks_like_gpu = true;
		tests();
	}
	return unit_done();
}

#endif
