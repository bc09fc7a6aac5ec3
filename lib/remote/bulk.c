/* SPDX-License-Identifier: Apache-2.0
 *
 * Bulk data of a session: sealed here, put into the shared area, copied to the device and opened there; and back. Each copy
 * has a key of its own, which goes in a sealed group, so that what is in the area is good for one place in one copy.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>
#include <sgpu/io.h>
#include <sgpu/seal.h>

#include "channel/wire.h"
#include "remote/client.h"
#include "remote/frame.h"

_Static_assert(SGPU_REMOTE_SEALED + SGPU_TAG_SIZE <= SGPU_AREA_SIZE, "a piece fits into the area");

static const char custom[] = "sgpu remote copy v1";

/* A copy under way: its key here and there. */
struct copy {
	struct sgpu_remote *remote;
	struct sgpu_sealed_keys keys;
	struct sgpu_aead *aead;
	uint64_t size, done;
};

/* The key's item, with the staging buffer if there is none yet. */
static int begin_copy(struct sgpu_remote *r, struct copy *c, uint64_t size, struct sgpu_error *error)
{
	uint8_t key[SGPU_KEY_SIZE], tail[sizeof(struct sgpu_sealed_keys)], *at = tail;
	const struct sgpu_item alloc = { .kind = SGPU_ITEM_ALLOC, .buffer = SGPU_REMOTE_STAGING, .size = SGPU_REMOTE_SEALED };
	struct sgpu_item load = { .kind = SGPU_ITEM_KEY_LOAD, .tail = tail };
	int rc = SGPU_OK;

	*c = (struct copy){ .remote = r, .size = size };
	if (!r->sealed) {
		r->sealed = malloc(SGPU_REMOTE_SEALED);
		rc = r->sealed ? SGPU_OK : sgpu_fail_nomem(error);
	}
	if (rc == SGPU_OK && r->sizes[SGPU_REMOTE_STAGING] == 0) {
		rc = sgpu_remote_add(r, &alloc, error);
		rc = rc == SGPU_OK ? sgpu_remote_flush(r, error) : rc;
		r->sizes[SGPU_REMOTE_STAGING] = rc == SGPU_OK ? SGPU_REMOTE_SEALED : 0;
	}
	rc = rc == SGPU_OK ? sgpu_random(key, sizeof(key), error) : rc;
	rc = rc == SGPU_OK ? sgpu_sealed_keys_new(key, custom, sizeof(custom) - 1, &c->keys, error) : rc;
	rc = rc == SGPU_OK ? sgpu_aead_create(NULL, c->keys.key, &c->aead, error) : rc;
	if (rc == SGPU_OK) {
		at = sgpu_put_bytes(at, c->keys.salt, sizeof(c->keys.salt));
		at = sgpu_put_bytes(at, c->keys.commitment, sizeof(c->keys.commitment));
		at = sgpu_put_bytes(at, c->keys.key, sizeof(c->keys.key));
		at = sgpu_put_bytes(at, c->keys.base_nonce, sizeof(c->keys.base_nonce));
		load.tail_size = (uint32_t)(at - tail);
		rc = sgpu_remote_add(r, &load, error);
	}
	sgpu_wipe(key, sizeof(key));
	sgpu_wipe(tail, sizeof(tail));
	return rc;
}

/* Also after a failure, in which case the key may not be there. */
static int end_copy(struct copy *c, int rc, struct sgpu_error *error)
{
	const struct sgpu_item item = { .kind = SGPU_ITEM_KEY_FREE };
	int freed = sgpu_remote_add(c->remote, &item, rc == SGPU_OK ? error : NULL);

	if (freed == SGPU_OK && rc != SGPU_OK) {
		freed = sgpu_remote_flush(c->remote, NULL);
	}
	sgpu_aead_free(&c->aead);
	sgpu_wipe(&c->keys, sizeof(c->keys));
	return rc == SGPU_OK ? freed : rc;
}

/* The next piece: its chunks, its plaintext and sealed bytes. The last one is shorter than a chunk's multiple, or empty. */
struct piece {
	uint64_t first, size, sealed;
	bool last;
};

static struct piece next_piece(const struct copy *c)
{
	const uint64_t left = c->size - c->done;
	struct piece p = { .first = c->done / SGPU_CHUNK, .last = left < SGPU_REMOTE_PIECE };

	p.size = p.last ? left : SGPU_REMOTE_PIECE;
	p.sealed = sgpu_run_sealed_size(p.size, p.last);
	return p;
}

int sgpu_remote_bulk_in(struct sgpu_remote *remote, uint32_t buffer, uint64_t offset, const uint8_t *data, uint64_t size,
			struct sgpu_error *error)
{
	struct piece p = { .last = false };
	struct copy c;
	int rc = begin_copy(remote, &c, size, error);

	while (rc == SGPU_OK && !p.last) {
		p = next_piece(&c);
		const struct sgpu_item items[] = {
			{ .kind = SGPU_ITEM_AREA_IN, .buffer = SGPU_REMOTE_STAGING, .size = p.sealed },
			{ .kind = SGPU_ITEM_OPEN, .first = p.first, .last = p.last, .buffer = SGPU_REMOTE_STAGING, .size = p.sealed,
			  .other = buffer, .other_offset = offset + c.done },
		};

		rc = sgpu_seal_chunks(c.aead, &c.keys, p.first, p.last, data + c.done, (size_t)p.size, remote->sealed);
		rc = rc == SGPU_OK ? sgpu_remote_frame_write(remote->pipe.out, SGPU_FRAME_PUT, 0, p.sealed, error) : rc;
		rc = rc == SGPU_OK ? sgpu_write(remote->pipe.out, "a session", remote->sealed, (size_t)p.sealed, error) : rc;
		for (int i = 0; rc == SGPU_OK && i < 2; i++) {
			rc = sgpu_remote_add(remote, &items[i], error);
		}
		rc = rc == SGPU_OK ? sgpu_remote_flush(remote, error) : rc;
		c.done += p.size;
	}
	return end_copy(&c, rc, error);
}

int sgpu_remote_bulk_out(struct sgpu_remote *remote, uint8_t *data, uint32_t buffer, uint64_t offset, uint64_t size,
			 struct sgpu_error *error)
{
	struct piece p = { .last = false };
	struct copy c;
	int rc = begin_copy(remote, &c, size, error);

	while (rc == SGPU_OK && !p.last) {
		uint64_t bad = 0;

		p = next_piece(&c);
		const struct sgpu_item items[] = {
			{ .kind = SGPU_ITEM_SEAL, .first = p.first, .last = p.last, .buffer = buffer, .offset = offset + c.done,
			  .size = p.size, .other = SGPU_REMOTE_STAGING },
			{ .kind = SGPU_ITEM_AREA_OUT, .buffer = SGPU_REMOTE_STAGING, .size = p.sealed },
		};

		for (int i = 0; rc == SGPU_OK && i < 2; i++) {
			rc = sgpu_remote_add(remote, &items[i], error);
		}
		rc = rc == SGPU_OK ? sgpu_remote_flush(remote, error) : rc;
		rc = rc == SGPU_OK ? sgpu_remote_frame_write(remote->pipe.out, SGPU_FRAME_GET, 0, p.sealed, error) : rc;
		rc = rc == SGPU_OK ? sgpu_remote_frame_bytes(remote->pipe.in, remote->sealed, (size_t)p.sealed, error) : rc;
		if (rc == SGPU_OK && sgpu_open_chunks(c.aead, &c.keys, p.first, p.last, remote->sealed, (size_t)p.sealed,
						      data + c.done, &bad) != SGPU_OK) {
			rc = sgpu_fail(error, SGPU_EAUTH, "chunk %llu of what the worker gave does not verify",
				       (unsigned long long)bad);
		}
		c.done += p.size;
	}
	return end_copy(&c, rc, error);
}
