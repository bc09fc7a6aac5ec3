/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's side of a session: opens and closes it, collects items in groups until a result is
 * needed, keeps the handles of buffers and jobs, and copies.
 *
 * A session's data are sealed here, put into the area and opened on the device, or the other way
 * round. Plaintext is only here and in the device's memory, even if it would fit into a group: a
 * worker would have to copy it over the bus.
 *
 * Each direction has a key, made here and sent in a sealed group, and a running number of chunks. A
 * copy takes the next numbers, and the item that opens or seals its chunks names them in a sealed
 * group, which both sides trust and which is carried out once. Therefore:
 *
 *   - No number is used twice with a key. On the way in, only this file seals, with `next`, which
 *     only grows. On the way out, the device seals as items tell it to, and no two items have the
 *     same number. A failed copy has used up its numbers.
 *   - For each number, only one piece of ciphertext verifies. An older piece, or one of another
 *     copy or direction, has another number or key.
 *   - The item also has the piece's size, and `last`: whether the piece ends with a chunk that is
 *     not whole. So a piece that was cut does not verify.
 *
 * A key is replaced long before GCM's limit of 2^32 messages. The new key has another handle, so no
 * item can mean the old key.
 *
 * Others may write to the area at any time. For its tag, AES-GCM may read back the ciphertext that
 * it wrote: whoever changed it in between would get a tag that verifies. So data are sealed in
 * private memory before they are copied to the area, and copied from it, once, before they are
 * opened.
 */
#include <stdlib.h>

#include "base/io.h"
#include "crypto/crypto.h"
#include "remote/client.h"

/* Bytes. The alignment of pieces in the area, for devices that copy them before they open them. */
enum { AREA_STEP = 256 };

_Static_assert(SGPU_AREA_SIZE % AREA_STEP == 0,
	       "what is used of the area is never more than there is");

enum { IN, OUT, DIRECTIONS };

_Static_assert((int)SGPU_REMOTE_SEALED <= (int)SGPU_AREA_SIZE, "a piece fits into the area");

static const char custom[] = "sgpu remote copy v2";

int sgpu_remote_open_carrier(struct sgpu_carrier *carrier, const struct sgpu_key *owner,
			     const struct sgpu_key *runner, struct sgpu_remote **remote,
			     struct sgpu_error *error)
{
	struct sgpu_remote *r = calloc(1, sizeof(*r));
	int rc;

	*remote = NULL;
	if (!r) {
		carrier->calls->close(carrier);
		return sgpu_fail_nomem(error);
	}
	r->carrier = carrier;
	r->owned[0] = r->owned[1] = r->owned[2] = -1;
	r->key_chunks = SGPU_REMOTE_KEY_CHUNKS;
	r->directions = sgpu_secret_alloc(DIRECTIONS * sizeof(*r->directions));
	rc = r->directions ? sgpu_group_client_open(owner, runner, carrier->calls->exchange,
						    carrier, &r->client, error)
			   : sgpu_fail_nomem(error);
	if (rc < 0) {
		sgpu_remote_close(&r);
	}
	*remote = r;
	return rc;
}

int sgpu_remote_open(const struct sgpu_remote_config *config, struct sgpu_remote **remote,
		     struct sgpu_error *error)
{
	struct sgpu_carrier *carrier = NULL;
	const int rc = sgpu_carrier_pipe(config->in, config->out, &carrier, error);

	*remote = NULL;
	if (rc < 0) {
		return rc;
	}
	return sgpu_remote_open_carrier(carrier, config->owner, config->runner, remote, error);
}

void sgpu_remote_close(struct sgpu_remote **remote)
{
	struct sgpu_remote *r = remote ? *remote : NULL;

	if (!r) {
		return;
	}
	sgpu_group_client_close(&r->client);
	r->carrier->calls->close(r->carrier);
	if (r->directions) {
		for (int i = 0; i < DIRECTIONS; i++) {
			sgpu_aead_free(&r->directions[i].aead);
		}
		sgpu_secret_free(r->directions, DIRECTIONS * sizeof(*r->directions));
	}
	for (int i = 0; i < 3; i++) {
		sgpu_close(r->owned[i]);
	}
	free(r->sealed);
	free(r);
	*remote = NULL;
}

/* ---- groups ---- */
static uint64_t count_chunks(uint64_t size)
{
	return (size + SGPU_CHUNK - 1) / SGPU_CHUNK;
}

static bool is_cut(const struct sgpu_remote_piece *p)
{
	return p->size % SGPU_CHUNK != 0;
}

/* Opens the pieces that a group copied. */
static int take_pieces(struct sgpu_remote *remote, struct sgpu_error *error)
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

int sgpu_remote_flush(struct sgpu_remote *remote, struct sgpu_error *error)
{
	int rc;

	if (remote->pending == 0) {
		remote->area_used = 0; /* room may be reserved without an item */
		return SGPU_OK;
	}
	rc = sgpu_group_client_send(remote->client, error);
	rc = rc ? rc : take_pieces(remote, error);
	remote->pending = remote->piece_count = 0;
	remote->area_used = 0;
	return rc;
}

/* Makes room in the next group for an item without a tail, and for `bytes` at *at in the area. */
static int reserve(struct sgpu_remote *remote, uint64_t bytes, uint64_t *at,
		   struct sgpu_error *error)
{
	int rc = SGPU_OK;

	if (bytes > SGPU_AREA_SIZE - remote->area_used ||
	    !sgpu_group_client_has_room(remote->client, 0)) {
		rc = sgpu_remote_flush(remote, error);
	}
	if (rc < 0) {
		return rc;
	}
	*at = remote->area_used;
	remote->area_used += (bytes + AREA_STEP - 1) / AREA_STEP * AREA_STEP;
	return SGPU_OK;
}

int sgpu_remote_add(struct sgpu_remote *remote, const struct sgpu_item *item,
		    struct sgpu_error *error)
{
	int rc = SGPU_OK;

	if (remote->pending > 0 && !sgpu_group_client_has_room(remote->client, item->tail_size)) {
		rc = sgpu_remote_flush(remote, error);
	}
	rc = rc ? rc : sgpu_group_client_add(remote->client, item, error);
	remote->pending += rc == SGPU_OK;
	return rc;
}

/* ---- keys ---- */
/* Sends a new key in a group of its own, to know whether the worker has it. The old key is freed
 * after its last use. */
static int new_key(struct sgpu_remote *r, struct sgpu_remote_direction *d, struct sgpu_error *error)
{
	const uint32_t before = d->object,
		       object = d->aead ? (before + DIRECTIONS) % (2 * DIRECTIONS)
					: (uint32_t)(d - r->directions);
	const struct sgpu_item load = { .kind = SGPU_ITEM_KEY_LOAD,
					.object = object,
					.tail = (const uint8_t *)&d->keys,
					.tail_size = sizeof(d->keys) };
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
	rc = rc ? rc : sgpu_remote_add(r, &load, error);
	rc = rc ? rc : sgpu_remote_flush(r, error);
	rc = rc ? rc : sgpu_aead_create(NULL, d->keys.key, &d->aead, error);
	if (rc < 0) {
		r->key_chunks = 0; /* the worker's keys are not known now */
		return rc;
	}
	d->object = object;
	d->next = 0;
	return had_one ? sgpu_remote_add(r, &free_before, error) : SGPU_OK;
}

/* ---- memory ---- */
static int check_range(const struct sgpu_remote *remote, uint32_t buffer, uint64_t offset,
		       uint64_t size, struct sgpu_error *error)
{
	const uint64_t has =
		buffer > 0 && buffer <= SGPU_REMOTE_BUFFERS_MAX ? remote->sizes[buffer] : 0;

	if (has == 0) {
		return sgpu_fail(error, SGPU_EUSAGE, "the session has no buffer %u",
				 (unsigned)buffer);
	}
	if (offset > has || size > has - offset) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "%llu bytes from %llu are not in buffer %u of %llu bytes",
				 (unsigned long long)size, (unsigned long long)offset,
				 (unsigned)buffer, (unsigned long long)has);
	}
	return SGPU_OK;
}

int sgpu_remote_alloc(struct sgpu_remote *remote, uint64_t size, uint32_t *buffer,
		      struct sgpu_error *error)
{
	struct sgpu_item item = { .kind = SGPU_ITEM_ALLOC, .buffer = 1, .size = size };
	int rc;

	while (item.buffer <= SGPU_REMOTE_BUFFERS_MAX && remote->sizes[item.buffer] > 0) {
		item.buffer++;
	}
	if (size == 0 || item.buffer > SGPU_REMOTE_BUFFERS_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 size == 0 ? "a buffer of no bytes"
					   : "a session has at most %d buffers",
				 SGPU_REMOTE_BUFFERS_MAX);
	}
	rc = sgpu_remote_add(remote, &item, error);
	rc = rc ? rc : sgpu_remote_flush(remote, error);
	if (rc == SGPU_OK) {
		remote->sizes[item.buffer] = size;
		*buffer = item.buffer;
	}
	return rc;
}

/* ---- copies ---- */
/* Takes the next piece of `left` bytes: numbers its chunks, and reserves room in the area and
 * group. */
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
	rc = rc ? rc : reserve(r, p->sealed, &p->at, error);
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
	int rc = check_range(remote, buffer, offset, size, error);

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
	int rc = check_range(remote, buffer, offset, size, error);

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

/* ---- jobs ---- */
int sgpu_remote_load(struct sgpu_remote *remote, const char *manifest, size_t size, uint32_t *job,
		     struct sgpu_error *error)
{
	struct sgpu_item item = { .kind = SGPU_ITEM_JOB_LOAD,
				  .tail = (const uint8_t *)manifest,
				  .tail_size = (uint32_t)size };
	int rc;

	while (item.object < SGPU_GROUP_OBJECTS && remote->jobs[item.object]) {
		item.object++;
	}
	if (size == 0 || size > SGPU_REMOTE_MANIFEST_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "the manifest of a job has 1 to %d bytes, not %zu",
				 SGPU_REMOTE_MANIFEST_MAX, size);
	}
	if (item.object == SGPU_GROUP_OBJECTS) {
		return sgpu_fail(error, SGPU_EUSAGE, "a session has at most %d jobs",
				 SGPU_REMOTE_JOBS_MAX);
	}
	rc = sgpu_remote_add(remote, &item, error);
	rc = rc ? rc : sgpu_remote_flush(remote, error);
	if (rc == SGPU_OK) {
		remote->jobs[item.object] = true;
		*job = item.object + 1;
	}
	return rc;
}

int sgpu_remote_run(struct sgpu_remote *remote, uint32_t job,
		    const struct sgpu_remote_range *ranges, int count, struct sgpu_error *error)
{
	uint8_t tail[SGPU_ITEM_RANGES_MAX];
	struct sgpu_item item = { .kind = SGPU_ITEM_JOB_RUN, .object = job - 1, .tail = tail };
	int rc = SGPU_OK;

	if (job == 0 || job > SGPU_GROUP_OBJECTS || !remote->jobs[job - 1]) {
		return sgpu_fail(error, SGPU_EUSAGE, "the session has no job %u", (unsigned)job);
	}
	if (count < 0 || count > SGPU_MODULE_RANGES_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "a job has at most %d ranges",
				 SGPU_REMOTE_RANGES_MAX);
	}
	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = check_range(remote, ranges[i].buffer, ranges[i].offset, ranges[i].size, error);
	}
	if (rc < 0) {
		return rc;
	}
	item.tail_size = sgpu_item_ranges_encode(ranges, count, tail);
	return sgpu_remote_add(remote, &item, error);
}
