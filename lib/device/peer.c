/* SPDX-License-Identifier: Apache-2.0
 *
 * Sealed copies between two devices. A copy is cut into chunk runs, which go through a ring of
 * slots:
 *
 *   first device    seal run 0 | seal run 1 | seal run 2 | ...
 *   second device              | open run 0 | open run 1 | ...
 *
 * The host enqueues both steps of a run together; the opening waits on the second device for an
 * event of the first. A slot is reused once its opening was checked, so that a failure stops later
 * runs.
 *
 * No nonce is used twice with a key. A key is made from fresh random bytes for one struct sgpu_peer
 * and loaded into its two devices alone; one only seals with the key, the other only opens. A
 * chunk's nonce is its number. sgpu_peer.next, the lowest unused number, only grows, under the
 * lock, even if the run that uses the numbers fails. Before a copy that would exceed key_chunks, a
 * new key starts at 0. Each number is opened once, so a chunk that is withheld, replayed or swapped
 * does not verify.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <device/backend.h>

#include "crypto/crypto.h"

enum { SLOTS = 8, STREAMS = 3, CHUNKS_A_UNIT = 8 };
/* The default for key_chunks: as many as the longest sealed segment, of 4 PiB, has. */
#define KEY_CHUNKS ((uint64_t)1 << 38)

enum step { STEP_SEAL, STEP_LEAVE, STEP_ARRIVE, STEP_OPEN, STEPS };

struct slot {
	/* ciphertext on the first device, unless the path is STORED */
	sgpu_devptr leaving;
	sgpu_devptr arriving;		   /* ciphertext on the second device */
	void *host;			   /* ciphertext, for the path HOST */
	struct sgpu_event *moved, *opened; /* of the run that is under way, or NULL */
	struct sgpu_task tasks[STEPS];
};

struct sgpu_peer {
	struct sgpu_device *from, *to;
	struct sgpu_peer_config config;
	uint64_t slot_size; /* sealed bytes */
	struct sgpu_stream *seal[STREAMS], *open[STREAMS];
	struct slot slots[SLOTS];
	pthread_mutex_t lock; /* held by the one copy under way; guards the members below */
	struct sgpu_device_key *seal_key, *open_key; /* the same key on both devices */
	uint64_t next; /* the lowest chunk number not yet used with the key */
};

struct run {
	uint64_t number, at, size, sealed_size;
	bool last; /* its last chunk is not full */
};

/* ---- opening ---- */
/* A run has enough chunks to keep all multiprocessors busy with several warps each, or is the CPU
 * device's `piece`. */
static int choose_run(struct sgpu_peer *peer, struct sgpu_error *error)
{
	struct sgpu_device_info info;
	uint64_t run = peer->config.run;
	int rc = sgpu_device_get_info(peer->to, &info, error);

	if (rc == SGPU_OK && run == 0) {
		run = info.opens_on_device
			      ? (uint64_t)info.compute_units * CHUNKS_A_UNIT * SGPU_CHUNK
			      : info.piece;
	}
	run = run / SGPU_CHUNK * SGPU_CHUNK;
	peer->config.run = run ? run : SGPU_CHUNK;
	peer->config.key_chunks = peer->config.key_chunks ? peer->config.key_chunks : KEY_CHUNKS;
	peer->slot_size = sgpu_run_sealed_size(peer->config.run, false);
	return rc;
}

static int make_slot(struct sgpu_peer *peer, struct slot *slot, struct sgpu_error *error)
{
	const enum sgpu_peer_path path = peer->config.path;
	int rc = path == SGPU_PEER_HOST
			 ? sgpu_device_alloc(peer->to, peer->slot_size, &slot->arriving, error)
			 : sgpu_shared_alloc(peer->to, peer->from, peer->slot_size, &slot->arriving,
					     error);

	if (rc == SGPU_OK && path == SGPU_PEER_HOST) {
		rc = sgpu_device_alloc(peer->from, peer->slot_size, &slot->leaving, error);
	}
	if (rc == SGPU_OK && path == SGPU_PEER_HOST) {
		rc = sgpu_host_alloc(peer->from, peer->slot_size, &slot->host, error);
	}
	return rc;
}

static void free_slots(struct sgpu_peer *peer)
{
	for (int i = 0; i < SLOTS; i++) {
		struct slot *slot = &peer->slots[i];

		sgpu_host_free(peer->from, &slot->host, peer->slot_size);
		sgpu_device_free(peer->from, &slot->leaving, peer->slot_size);
		if (peer->config.path == SGPU_PEER_HOST) {
			sgpu_device_free(peer->to, &slot->arriving, peer->slot_size);
		} else {
			sgpu_shared_free(peer->to, peer->from, &slot->arriving);
		}
	}
}

static int make_slots(struct sgpu_peer *peer, struct sgpu_error *error)
{
	const bool choose = peer->config.path == SGPU_PEER_AUTO;
	int rc = SGPU_OK;

	peer->config.path = choose ? SGPU_PEER_STORED : peer->config.path;
	for (int i = 0; rc == SGPU_OK && i < SLOTS; i++) {
		rc = make_slot(peer, &peer->slots[i], error);
		if (rc == SGPU_EUNAVAILABLE && choose && i == 0) {
			peer->config.path = SGPU_PEER_HOST;
			rc = make_slot(peer, &peer->slots[i], error);
		}
	}
	return rc;
}

int sgpu_peer_open(struct sgpu_device *from, struct sgpu_device *to,
		   const struct sgpu_peer_config *config, struct sgpu_peer **peer,
		   struct sgpu_error *error)
{
	struct sgpu_peer *new;
	int rc;

	*peer = NULL;
	if (from == to) {
		return sgpu_fail(error, SGPU_EUSAGE, "a copy between devices is between two");
	}
	new = calloc(1, sizeof(*new));
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	new->from = from;
	new->to = to;
	new->config = config ? *config : (struct sgpu_peer_config){ .path = SGPU_PEER_AUTO };
	pthread_mutex_init(&new->lock, NULL);
	rc = choose_run(new, error);
	if (rc == SGPU_OK) {
		rc = make_slots(new, error);
	}
	for (int i = 0; rc == SGPU_OK && i < STREAMS; i++) {
		rc = sgpu_stream_create(from, &new->seal[i], error);
		if (rc == SGPU_OK) {
			rc = sgpu_stream_create(to, &new->open[i], error);
		}
	}
	if (rc < 0) {
		sgpu_peer_close(&new);
		return rc;
	}
	*peer = new;
	return SGPU_OK;
}

void sgpu_peer_close(struct sgpu_peer **peer)
{
	struct sgpu_peer *p = peer ? *peer : NULL;

	if (!p) {
		return;
	}
	for (int i = 0; i < STREAMS; i++) {
		sgpu_stream_free(&p->seal[i]);
		sgpu_stream_free(&p->open[i]);
	}
	sgpu_device_key_free(&p->seal_key);
	sgpu_device_key_free(&p->open_key);
	free_slots(p);
	pthread_mutex_destroy(&p->lock);
	free(p);
	*peer = NULL;
}

/* ---- a copy; the lock is held ---- */
static int renew_key(struct sgpu_peer *peer, struct sgpu_error *error)
{
	static const char custom[] = "sgpu peer copy v1";
	struct sgpu_sealed_keys keys = { .header = { 0 } };
	uint8_t secret[SGPU_KEY_SIZE];
	int rc;

	sgpu_device_key_free(&peer->seal_key);
	sgpu_device_key_free(&peer->open_key);
	peer->next = 0;
	rc = sgpu_random(secret, sizeof(secret), error);
	if (rc == SGPU_OK) {
		rc = sgpu_sealed_keys_new(secret, custom, sizeof(custom) - 1, &keys, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_device_key_load(peer->seal[0], &keys, &peer->seal_key, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_device_key_load(peer->open[0], &keys, &peer->open_key, error);
	}
	if (rc < 0) {
		sgpu_device_key_free(&peer->seal_key);
	}
	sgpu_wipe(secret, sizeof(secret));
	sgpu_wipe(&keys, sizeof(keys));
	return rc;
}

static int need_key(struct sgpu_peer *peer, uint64_t chunks, struct sgpu_error *error)
{
	if (chunks > peer->config.key_chunks) {
		return sgpu_fail(error, SGPU_EUSAGE, "a copy of more chunks than a key may seal");
	}
	return peer->open_key && chunks <= peer->config.key_chunks - peer->next
		       ? SGPU_OK
		       : renew_key(peer, error);
}

static int first_failure(const struct slot *slot, struct sgpu_error *error)
{
	int i = 0;

	while (i < STEPS && slot->tasks[i].code == SGPU_OK) {
		i++;
	}
	return i < STEPS ? sgpu_fail(error, slot->tasks[i].code, "%s", slot->tasks[i].error.text)
			 : SGPU_OK;
}

static int end_run(struct slot *slot, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	if (slot->moved) {
		rc = sgpu_event_sync(slot->moved, error);
	}
	if (rc == SGPU_OK && slot->opened) {
		rc = sgpu_event_sync(slot->opened, error);
		rc = rc == SGPU_OK ? first_failure(slot, error) : rc;
	}
	sgpu_event_free(&slot->moved);
	sgpu_event_free(&slot->opened);
	return rc;
}

/* Seals the run into the second device's memory or, on the path HOST, into host memory; then
 * records `moved`. */
static int enqueue_seal(struct sgpu_peer *peer, struct slot *slot, const struct run *run,
			sgpu_devptr from)
{
	struct sgpu_stream *stream = peer->seal[run->number % STREAMS];
	const enum sgpu_peer_path path = peer->config.path;
	const sgpu_devptr out = path == SGPU_PEER_STORED ? slot->arriving : slot->leaving;
	int rc = sgpu_device_seal_chunks(stream, peer->seal_key, peer->next, run->last,
					 from + run->at, run->size, out, &slot->tasks[STEP_SEAL]);

	if (rc == SGPU_OK && path == SGPU_PEER_HOST) {
		rc = sgpu_copy_out(stream, slot->host, slot->leaving, run->sealed_size,
				   &slot->tasks[STEP_LEAVE]);
	}
	return rc == SGPU_OK ? sgpu_event_record(stream, slot->moved) : rc;
}

/* Makes the opening wait for the ciphertext. The host waits if `between` is set or the devices
 * cannot wait for each other's events. */
static int hold_back(struct sgpu_peer *peer, struct slot *slot, struct sgpu_stream *stream)
{
	int rc = peer->config.between ? SGPU_EUNAVAILABLE : sgpu_stream_wait(stream, slot->moved);

	return rc == SGPU_EUNAVAILABLE ? sgpu_event_sync(slot->moved, NULL) : rc;
}

static int enqueue_open(struct sgpu_peer *peer, struct slot *slot, const struct run *run,
			uint64_t first, sgpu_devptr to)
{
	struct sgpu_stream *stream = peer->open[run->number % STREAMS];
	int rc = hold_back(peer, slot, stream);

	if (rc == SGPU_OK && peer->config.path == SGPU_PEER_HOST) {
		rc = sgpu_copy_in(stream, slot->arriving, slot->host, run->sealed_size,
				  &slot->tasks[STEP_ARRIVE]);
	}
	if (rc == SGPU_OK && peer->config.between) {
		rc = sgpu_stream_sync(stream, NULL);
		peer->config.between(peer->config.argument, run->number, slot->arriving,
				     run->sealed_size);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_device_open_chunks(stream, peer->open_key, first, run->last,
					     slot->arriving, run->sealed_size, to + run->at,
					     &slot->tasks[STEP_OPEN]);
	}
	return rc == SGPU_OK ? sgpu_event_record(stream, slot->opened) : rc;
}

static int start_run(struct sgpu_peer *peer, struct slot *slot, const struct run *run,
		     sgpu_devptr to, sgpu_devptr from, struct sgpu_error *error)
{
	const uint64_t first = peer->next;
	int rc = sgpu_event_create(peer->from, &slot->moved, error), failed;

	if (rc == SGPU_OK) {
		rc = sgpu_event_create(peer->to, &slot->opened, error);
	}
	if (rc < 0) {
		return rc;
	}
	memset(slot->tasks, 0, sizeof(slot->tasks));
	rc = enqueue_seal(peer, slot, run, from);
	peer->next += run->size / SGPU_CHUNK + run->last;
	if (rc == SGPU_OK) {
		rc = enqueue_open(peer, slot, run, first, to);
	}
	if (rc < 0) { /* wait: enqueued work still writes to the tasks */
		(void)!sgpu_stream_sync(peer->seal[run->number % STREAMS], NULL);
		(void)!sgpu_stream_sync(peer->open[run->number % STREAMS], NULL);
		failed = first_failure(slot, error);
		return failed < 0 ? failed
				  : sgpu_fail(error, rc, "cannot copy between devices: %s",
					      sgpu_strerror(rc));
	}
	return SGPU_OK;
}

static int end_all(struct sgpu_peer *peer, struct sgpu_error *error)
{
	struct sgpu_error later;
	int rc = SGPU_OK, code;

	for (int i = 0; i < SLOTS; i++) {
		code = end_run(&peer->slots[i], rc == SGPU_OK ? error : &later);
		rc = rc == SGPU_OK ? code : rc;
	}
	return rc;
}

/* Checks both ranges before the copy: a failed copy clears `to`, which must then be allocated. */
static int check_ranges(struct sgpu_peer *peer, sgpu_devptr to, sgpu_devptr from, uint64_t size,
			struct sgpu_error *error)
{
	struct sgpu_task task = { .code = SGPU_OK };
	int rc = sgpu_device_check(peer->from, &(struct sgpu_device_range){ from, size }, 1, &task);

	if (rc == SGPU_OK) {
		rc = sgpu_device_check(peer->to, &(struct sgpu_device_range){ to, size }, 1, &task);
	}
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "%s", task.error.text);
}

static int start_runs(struct sgpu_peer *peer, sgpu_devptr to, sgpu_devptr from, uint64_t size,
		      struct sgpu_error *error)
{
	const uint64_t step = peer->config.run;
	struct run run = { .number = 0 };
	int rc = SGPU_OK;

	for (; rc == SGPU_OK && run.at < size; run.at += run.size, run.number++) {
		struct slot *slot = &peer->slots[run.number % SLOTS];

		run.size = size - run.at < step ? size - run.at : step;
		run.last = run.size % SGPU_CHUNK != 0;
		run.sealed_size = sgpu_run_sealed_size(run.size, run.last);
		rc = end_run(slot, error);
		rc = rc == SGPU_OK ? start_run(peer, slot, &run, to, from, error) : rc;
	}
	return rc;
}

/* Even the chunks that verified. */
static void clear_all(struct sgpu_peer *peer, sgpu_devptr to, uint64_t size)
{
	struct sgpu_error ignored;

	for (int i = 0; i < STREAMS; i++) {
		(void)!sgpu_stream_sync(peer->seal[i], &ignored);
		(void)!sgpu_stream_sync(peer->open[i], &ignored);
	}
	/* This may fail on a faulted GPU, whose memory is freed with its CUDA context. */
	if (sgpu_device_clear(peer->open[0], to, size, NULL) == SGPU_OK) {
		(void)!sgpu_stream_sync(peer->open[0], &ignored);
	}
}

int sgpu_peer_copy(struct sgpu_peer *peer, sgpu_devptr to, sgpu_devptr from, uint64_t size,
		   struct sgpu_error *error)
{
	struct sgpu_error later;
	int rc, ended;

	pthread_mutex_lock(&peer->lock);
	rc = check_ranges(peer, to, from, size, error);
	rc = rc == SGPU_OK ? need_key(peer, size / SGPU_CHUNK + (size % SGPU_CHUNK != 0), error)
			   : rc;
	rc = rc == SGPU_OK ? start_runs(peer, to, from, size, error) : rc;
	ended = end_all(peer, rc == SGPU_OK ? error : &later);
	rc = rc == SGPU_OK ? ended : rc;
	if (rc < 0) {
		clear_all(peer, to, size);
	}
	pthread_mutex_unlock(&peer->lock);
	return rc;
}
