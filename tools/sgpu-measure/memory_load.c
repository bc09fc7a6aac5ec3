/* SPDX-License-Identifier: Apache-2.0
 *
 * Data into a secure context: plain ones through a secure copy, sealed ones as they are, to be opened on the device.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>
#include <sgpu/io.h>

#include "memory.h"

enum { PIECE = 4 << 20, GROUP = 256 /* chunks */ };

int memory_read_file(struct memory_feed *feed, void *to, size_t size, struct sgpu_error *error)
{
	size_t got = 0;
	const int code = sgpu_pread(feed->fd, feed->name, to, size, feed->at, &got, error);

	feed->at += got;
	return code || got == size ? code : sgpu_fail(error, SGPU_EINVALID, "'%s' ends before its size", feed->name);
}

int memory_read_bytes(struct memory_feed *feed, void *to, size_t size, struct sgpu_error *error)
{
	(void)error;
	memcpy(to, feed->data, size);
	feed->data += size;
	return 0;
}

int memory_read_member(struct memory_feed *feed, void *to, size_t size, struct sgpu_error *error)
{
	return sgpu_tar_read(feed->tar, to, size, error);
}

/* ---- plain ---- */
static int copy_pieces(struct memory_task *task, struct memory_feed *feed, uint64_t size, sgpu_devptr memory,
		       struct sgpu_kt128 *hash, uint8_t *piece, struct sgpu_error *error)
{
	int code = 0;

	for (uint64_t done = 0; !code && done < size;) {
		const size_t part = size - done < PIECE ? (size_t)(size - done) : PIECE;
		code = feed->read(feed, piece, part, error);
		if (!code && hash) {
			sgpu_kt128_update(hash, piece, part);
		}
		if (!code) {
			code = sgpu_secure_memcpy(task->context, piece, memory + done, part, SGPU_SECURE_TO_DEVICE, error);
		}
		done += part;
	}
	return code;
}

static int compare_hash(struct sgpu_kt128 *hash, const uint8_t *kt128, const char *name, struct sgpu_error *error)
{
	uint8_t digest[SGPU_KT128_SIZE];

	sgpu_kt128_finish(hash, NULL, 0, digest, sizeof(digest));
	if (!sgpu_equal(digest, kt128, sizeof(digest))) {
		return sgpu_fail(error, SGPU_EAUTH, "'%s' is not what the batch says: its kt128 differs", name);
	}
	return SGPU_OK;
}

int memory_load(struct memory_task *task, struct memory_feed *feed, uint64_t size, const uint8_t *kt128,
		sgpu_devptr *memory, struct sgpu_error *error)
{
	struct sgpu_kt128 *hash = NULL;
	uint8_t *piece = malloc(PIECE);
	int code = piece ? 0 : sgpu_fail_nomem(error);

	*memory = 0;
	if (!code && kt128) {
		code = sgpu_kt128_create(&hash, error);
	}
	if (!code) {
		code = sgpu_secure_malloc(task->context, size, memory, error);
	}
	if (!code) {
		code = copy_pieces(task, feed, size, *memory, hash, piece, error);
	}
	if (!code && kt128) {
		code = compare_hash(hash, kt128, feed->name, error);
	}
	if (code && *memory) {
		sgpu_secure_free(task->context, memory);
	}
	sgpu_kt128_free(&hash);
	sgpu_free_wiped(&piece, PIECE);
	return code;
}

/* ---- sealed ---- */
struct opening {
	struct sgpu_device *device;
	struct sgpu_stream *stream;
	struct sgpu_device_key *key;
	sgpu_devptr sealed; /* a group */
	uint8_t *group;
};

/* One group of chunks: to the device as it is, and opened there. */
static int open_group(struct opening *opening, const char *name, uint64_t first, bool last, size_t size, sgpu_devptr to,
		      struct sgpu_error *error)
{
	struct sgpu_task copied = { 0 }, opened = { 0 };
	int code = sgpu_copy_in(opening->stream, opening->sealed, opening->group, size, &copied);

	if (!code) {
		code = sgpu_device_open_chunks(opening->stream, opening->key, first, last, opening->sealed, size, to,
					       &opened);
	}
	const int waited = sgpu_stream_sync(opening->stream, error);
	if (copied.code || opened.code) {
		const struct sgpu_task *failed = copied.code ? &copied : &opened;
		if (failed->code == SGPU_EAUTH) {
			return sgpu_fail(error, SGPU_EAUTH, "'%s' does not verify at chunk %llu", name,
					 (unsigned long long)failed->bad_chunk);
		}
		return sgpu_fail(error, failed->code, "%s", failed->error.text);
	}
	return code && !waited ? sgpu_fail(error, code, "the device took no work") : waited;
}

static int open_groups(struct opening *opening, struct memory_feed *feed, uint64_t sealed_size, sgpu_devptr to,
		       struct sgpu_error *error)
{
	const uint64_t group = (uint64_t)GROUP * SGPU_SEALED_CHUNK;
	int code = 0;

	for (uint64_t done = 0; !code && done < sealed_size; done += group) {
		const uint64_t left = sealed_size - done;
		const size_t part = (size_t)(left < group ? left : group);
		const uint64_t first = done / SGPU_SEALED_CHUNK;
		code = feed->read(feed, opening->group, part, error);
		if (!code) {
			code = open_group(opening, feed->name, first, part == left, part, to + first * SGPU_CHUNK, error);
		}
	}
	return code;
}

static int begin(struct opening *opening, struct memory_task *task, const struct sgpu_sealed_keys *keys,
		 struct sgpu_error *error)
{
	const uint64_t group = (uint64_t)GROUP * SGPU_SEALED_CHUNK;
	int code;

	opening->device = sgpu_secure_device(task->context);
	opening->group = malloc(group);
	code = opening->group ? sgpu_stream_create(opening->device, &opening->stream, error) : sgpu_fail_nomem(error);
	if (!code) {
		code = sgpu_device_alloc(opening->device, group, &opening->sealed, error);
	}
	return code ? code : sgpu_device_key_load(opening->stream, keys, &opening->key, error);
}

static void end(struct opening *opening)
{
	sgpu_device_key_free(&opening->key);
	if (opening->sealed) {
		sgpu_device_free(opening->device, &opening->sealed, (uint64_t)GROUP * SGPU_SEALED_CHUNK);
	}
	sgpu_stream_free(&opening->stream);
	free(opening->group); /* ciphertext */
}

int memory_load_sealed(struct memory_task *task, struct memory_feed *feed, uint64_t sealed_size,
		       const uint8_t key[SGPU_KEY_SIZE], const void *context, size_t context_size, sgpu_devptr *memory,
		       uint64_t *size, struct sgpu_error *error)
{
	struct opening opening = { 0 };
	uint8_t header[SGPU_SEALED_HEADER];
	struct sgpu_sealed_keys keys;
	int code;

	*memory = 0;
	if (!sgpu_sealed_plaintext_size(sealed_size, size)) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s' has a length that no sealed data have", feed->name);
	}
	code = feed->read(feed, header, sizeof(header), error);
	if (!code) {
		code = sgpu_sealed_keys_open(key, context, context_size, header, &keys, error);
	}
	if (!code) {
		code = begin(&opening, task, &keys, error);
		sgpu_wipe(&keys, sizeof(keys));
	}
	if (!code) {
		code = sgpu_secure_malloc(task->context, *size, memory, error);
	}
	if (!code) {
		code = open_groups(&opening, feed, sealed_size - sizeof(header), *memory, error);
	}
	end(&opening);
	if (code && *memory) {
		sgpu_secure_free(task->context, memory);
	}
	return code;
}
