/* SPDX-License-Identifier: Apache-2.0
 *
 * A session's data are sealed here, put into the area and opened on the device, or the other way
 * round. Plaintext is only here and in the device's memory, even if it would fit into a group: a
 * worker would have to copy it over the bus.
 *
 * Each direction has a key, made here and sent in a sealed group, and a running number of chunks. A
 * copy takes the next numbers, and the item that opens or seals its chunks names them in a sealed
 * group. Both sides trust that group, and it is carried out only once. Therefore:
 *
 *   - No number is used twice with a key. On the way in, only this file seals, with `next`, which
 *     only grows. On the way out, the device seals as items tell it to, and no two items have the
 *     same number. A copy that failed has used up its numbers.
 *   - For each number, only one piece of ciphertext verifies. An older piece in its place, one of
 *     another copy, or one of the other direction has another number or another key.
 *   - The item also has the piece's size, and `last`: whether the piece ends with a chunk that is
 *     not whole. So a piece that was cut does not verify.
 *
 * A key is replaced long before GCM's limit of 2^32 messages. The new key has another handle, so
 * that no item can mean the old key.
 *
 * Others may write to the area at any time. AES-GCM computes its tag over the ciphertext that it
 * has written, and may read it from memory again: whoever changed it in between would get a tag
 * that verifies. So data are sealed in private memory before they are copied to the area, and
 * copied from it, once, before they are opened.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "crypto/crypto.h"
#include "remote/client.h"

enum { IN, OUT, DIRECTIONS };

_Static_assert((int)SGPU_REMOTE_SEALED <= (int)SGPU_AREA_SIZE, "a piece fits into the area");

static const char custom[] = "sgpu remote copy v2";

/* ---- keys ---- */
static int send_key(struct sgpu_remote *r, const struct sgpu_sealed_keys *keys, uint32_t object,
		    struct sgpu_error *error)
{
	const struct sgpu_item load = { .kind = SGPU_ITEM_KEY_LOAD,
					.object = object,
					.tail = (const uint8_t *)keys,
					.tail_size = sizeof(*keys) };
	int rc = sgpu_remote_add(r, &load, error);

	return rc < 0 ? rc : sgpu_remote_flush(r, error);
}

/* Sends a new key in a group of its own, to know whether the worker has it. The old key is freed
 * after its last use. */
static int new_key(struct sgpu_remote *r, struct sgpu_remote_direction *d, struct sgpu_error *error)
{
	const uint32_t before = d->object,
		       object = d->aead ? (before + DIRECTIONS) % (2 * DIRECTIONS)
					: (uint32_t)(d - r->directions);
	const struct sgpu_item free_before = { .kind = SGPU_ITEM_KEY_FREE, .object = before };
	const bool had_one = d->aead != NULL;
	uint8_t key[SGPU_KEY_SIZE];
	int rc = sgpu_remote_flush(r, error);

	if (rc < 0) {
		return rc;
	}
	sgpu_aead_free(&d->aead);
	rc = sgpu_random(key, sizeof(key), error);
	rc = rc ? rc : sgpu_sealed_keys_new(key, custom, sizeof(custom) - 1, &d->keys, error);
	sgpu_wipe(key, sizeof(key));
	rc = rc ? rc : send_key(r, &d->keys, object, error);
	rc = rc ? rc : sgpu_aead_create(NULL, d->keys.key, &d->aead, error);
	if (rc < 0) {
		r->key_chunks = 0; /* it is not known which keys the worker has now */
		return rc;
	}
	d->object = object;
	d->next = 0;
	return had_one ? sgpu_remote_add(r, &free_before, error) : SGPU_OK;
}

void sgpu_remote_forget_keys(struct sgpu_remote *remote)
{
	for (int i = 0; i < DIRECTIONS; i++) {
		sgpu_aead_free(&remote->directions[i].aead);
	}
}

/* ---- pieces ---- */
static uint64_t count_chunks(uint64_t size)
{
	return (size + SGPU_CHUNK - 1) / SGPU_CHUNK;
}

static bool is_cut(const struct sgpu_remote_piece *p)
{
	return p->size % SGPU_CHUNK != 0;
}

/* Takes the next piece of the `left` bytes: numbers its chunks, and reserves room in the area and
 * the group. */
static int begin_piece(struct sgpu_remote *r, int direction, uint64_t left,
		       struct sgpu_remote_piece *p, struct sgpu_error *error)
{
	struct sgpu_remote_direction *d = &r->directions[direction];
	int rc;

	if (!r->sealed && !(r->sealed = malloc(SGPU_REMOTE_SEALED))) {
		return sgpu_fail_nomem(error);
	}
	p->size = left < SGPU_REMOTE_PIECE ? left : SGPU_REMOTE_PIECE;
	p->sealed = p->size + count_chunks(p->size) * SGPU_TAG_SIZE;
	if (r->key_chunks < SGPU_REMOTE_CHUNKS) {
		return sgpu_fail(error, SGPU_EAUTH,
				 "the session has no keys any more for what is copied");
	}
	rc = !d->aead || d->next > r->key_chunks - SGPU_REMOTE_CHUNKS ? new_key(r, d, error)
								      : SGPU_OK;
	rc = rc ? rc : sgpu_remote_reserve(r, p->sealed, &p->at, error);
	if (rc == SGPU_OK) {
		p->first = d->next;
		d->next += count_chunks(p->size);
	}
	return rc;
}

static int add_piece(struct sgpu_remote *r, int direction, const struct sgpu_remote_piece *p,
		     uint32_t buffer, uint64_t offset, struct sgpu_error *error)
{
	const bool in = direction == IN;
	const struct sgpu_item item = { .kind = in ? SGPU_ITEM_OPEN : SGPU_ITEM_SEAL,
					.object = r->directions[direction].object,
					.first = p->first,
					.last = is_cut(p),
					.buffer = buffer,
					.offset = offset,
					.size = in ? p->sealed : p->size,
					.other_offset = p->at };

	return sgpu_remote_add(r, &item, error);
}

int sgpu_remote_copy_in(struct sgpu_remote *remote, uint32_t buffer, uint64_t offset,
			const void *data, uint64_t size, struct sgpu_error *error)
{
	const struct sgpu_remote_direction *d = &remote->directions[IN];
	struct sgpu_remote_piece p = { .size = 0 };
	int rc = sgpu_remote_check(remote, buffer, offset, size, error);

	for (uint64_t done = 0; rc == SGPU_OK && done < size; done += p.size) {
		rc = begin_piece(remote, IN, size - done, &p, error);
		if (rc < 0) {
			return rc;
		}
		rc = sgpu_seal_chunks(d->aead, &d->keys, p.first, is_cut(&p),
				      (const uint8_t *)data + done, (size_t)p.size, remote->sealed);
		if (rc < 0) {
			return sgpu_fail(error, rc, "cannot seal what is copied");
		}
		rc = remote->carrier->calls->put(remote->carrier, p.at, remote->sealed,
						 (size_t)p.sealed, error);
		rc = rc ? rc : add_piece(remote, IN, &p, buffer, offset + done, error);
	}
	return rc;
}

int sgpu_remote_seal_out(struct sgpu_remote *remote, uint8_t *data, uint32_t buffer,
			 uint64_t offset, uint64_t size, struct sgpu_error *error)
{
	struct sgpu_remote_piece p = { .size = 0 };
	int rc = sgpu_remote_check(remote, buffer, offset, size, error);

	for (uint64_t done = 0; rc == SGPU_OK && done < size; done += p.size) {
		rc = begin_piece(remote, OUT, size - done, &p, error);
		if (rc < 0) {
			return rc;
		}
		rc = add_piece(remote, OUT, &p, buffer, offset + done, error);
		p.data = data + done;
		remote->pieces[remote->piece_count] = p;
		remote->piece_count += rc == SGPU_OK;
	}
	return rc;
}

int sgpu_remote_copy_out(struct sgpu_remote *remote, void *data, uint32_t buffer, uint64_t offset,
			 uint64_t size, struct sgpu_error *error)
{
	int rc = sgpu_remote_seal_out(remote, data, buffer, offset, size, error);

	return rc ? rc : sgpu_remote_flush(remote, error);
}

int sgpu_remote_take_pieces(struct sgpu_remote *remote, struct sgpu_error *error)
{
	const struct sgpu_remote_direction *d = &remote->directions[OUT];
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < remote->piece_count; i++) {
		const struct sgpu_remote_piece *p = &remote->pieces[i];
		uint64_t bad = p->first;

		rc = remote->carrier->calls->get(remote->carrier, p->at, remote->sealed,
						 (size_t)p->sealed, error);
		if (rc == SGPU_OK &&
		    sgpu_open_chunks(d->aead, &d->keys, p->first, is_cut(p), remote->sealed,
				     (size_t)p->sealed, p->data, &bad) != SGPU_OK) {
			rc = sgpu_fail(error, SGPU_EAUTH,
				       "chunk %llu of what the worker gave does not verify",
				       (unsigned long long)(bad - p->first));
		}
	}
	return rc;
}
