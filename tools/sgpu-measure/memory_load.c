/* SPDX-License-Identifier: Apache-2.0
 *
 * Data into a secure context, by the engine of transfers: sealed ones are opened on the device and
 * LOW ones digested there; others cross the bus sealed, by secure copies.
 */
#include <stdlib.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "memory.h"

enum { PIECE = 4 << 20 };

struct loading {
	struct memory_payload *payload;
	struct sgpu_device_key *key;
};

static int read_payload(void *context, uint64_t position, void *data, size_t size,
			struct sgpu_error *error)
{
	const struct memory_payload *payload = ((struct loading *)context)->payload;
	size_t got = 0;

	if (payload->tar) {
		return sgpu_tar_read(payload->tar, data, size, error);
	}
	const int code = sgpu_pread(payload->fd, payload->name, data, size,
				    payload->offset + position, &got, error);
	return code || got == size ? code
				   : sgpu_fail(error, SGPU_EINVALID, "'%s' ends before its size",
					       payload->name);
}

/* The header stands before the chunks. */
static int load_key(void *argument, struct sgpu_stream *stream,
		    struct sgpu_transfer_request *request, struct sgpu_error *error)
{
	struct loading *loading = argument;
	struct memory_payload *payload = loading->payload;
	uint8_t header[SGPU_SEALED_HEADER];
	struct sgpu_sealed_keys keys;
	int code = read_payload(loading, 0, header, sizeof(header), error);

	payload->offset += sizeof(header);
	if (!code) {
		code = sgpu_sealed_keys_open(payload->key, payload->context, payload->context_size,
					     header, &keys, error);
	}
	if (!code) {
		code = sgpu_device_key_load(stream, &keys, &loading->key, error);
		sgpu_wipe(&keys, sizeof(keys));
	}
	request->key = loading->key;
	return code;
}

static int transfer(struct memory_task *task, struct loading *loading, uint64_t size,
		    sgpu_devptr memory, struct sgpu_error *error)
{
	const struct memory_payload *payload = loading->payload;
	const struct sgpu_transfer_request request = {
		.direction = SGPU_TRANSFER_IN,
		.memory = memory,
		.size = size,
		.last = payload->sealed,
		.prepare = payload->sealed ? load_key : NULL,
		.argument = loading,
		.digested = payload->kt128,
		.expected = payload->kt128,
		.source = { .read = read_payload, .ordered = payload->tar, .context = loading },
	};
	struct sgpu_transfer_result result;
	const int code = sgpu_transfer_sync(task->engine, &request, &result);

	sgpu_device_key_free(&loading->key);
	if (code == SGPU_EAUTH && payload->kt128) {
		return sgpu_fail(error, code, "'%s' is not what the batch says: its kt128 differs",
				 payload->name);
	}
	if (code == SGPU_EAUTH) {
		return sgpu_fail(error, code, "'%s' does not verify at chunk %llu", payload->name,
				 (unsigned long long)result.bad_chunk);
	}
	return code ? sgpu_fail(error, code, "%s", result.error.text) : 0;
}

static int copy_pieces(struct memory_task *task, struct loading *loading, uint64_t size,
		       sgpu_devptr memory, struct sgpu_error *error)
{
	uint8_t *piece = malloc(PIECE);
	int code = piece ? 0 : sgpu_fail_nomem(error);

	for (uint64_t done = 0; !code && done < size; done += PIECE) {
		const size_t part = size - done < PIECE ? (size_t)(size - done) : PIECE;
		code = read_payload(loading, done, piece, part, error);
		if (!code) {
			code = sgpu_secure_memcpy(task->context, piece, memory + done, part,
						  SGPU_SECURE_TO_DEVICE, error);
		}
	}
	sgpu_free_wiped(&piece, PIECE);
	return code;
}

int memory_load(struct memory_task *task, struct memory_payload *payload, sgpu_devptr *memory,
		struct sgpu_error *error)
{
	struct loading loading = { .payload = payload };
	uint64_t size = payload->size;

	*memory = 0;
	if (payload->sealed && !sgpu_sealed_plaintext_size(size, &payload->size)) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s' has a length that no sealed data have",
				 payload->name);
	}
	size -= payload->sealed ? SGPU_SEALED_HEADER : 0;
	struct sgpu_device *device = sgpu_secure_device(task->context);
	int code = sgpu_device_alloc(device, payload->size, memory, error);
	if (!code) {
		code = payload->sealed || payload->kt128
			       ? transfer(task, &loading, size, *memory, error)
			       : copy_pieces(task, &loading, size, *memory, error);
	}
	if (code) {
		sgpu_device_free(device, memory, payload->size);
	}
	return code;
}
