/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves on the host alone.
 *
 * Each worker claims the next chunk run, reads it, opens, seals or copies it, and delivers it.
 * Chunk runs are claimed in order, across parts, so no worker waits for the end of a part.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "crypto/kt128.h"
#include "transfer/transfer.h"

enum {
	/* A chunk run, read and sealed, fits the second-level cache of a core. */
	RUN_CHUNKS = 16,
	RUN_PLAIN = RUN_CHUNKS * SGPU_CHUNK,
	RUN_SEALED = RUN_CHUNKS * SGPU_SEALED_CHUNK,
	BESIDE = 4,  /* parts that are moved at the same time */
	WRITERS = 2, /* of a file: the kernel lets one write at a time, and the other is ready */
	ALIGNMENT = 4096 /* of buffers */
};

struct run {
	struct sgpu_host_part *part;
	uint64_t index; /* within its part */
	uint64_t turn;	/* order of writing to an ordered sink */
	size_t size;	/* as read */
	uint8_t *data;	/* as read: the worker's buffer, or the sink's memory */
	bool last;	/* the last of its part */
	const uint8_t *result;
	size_t result_size;
	uint64_t bad; /* the bad chunk of an SGPU_EAUTH, else SGPU_SIZE_UNKNOWN */
};

struct move {
	struct sgpu_host_move *request;
	pthread_mutex_t writing[BESIDE * WRITERS];

	/* Held by the worker that claims a chunk run, and reads it if its source is ordered. */
	pthread_mutex_t claiming;
	struct sgpu_host_part *first; /* the first part with unclaimed chunk runs */
	uint64_t turns;		      /* the next number */

	pthread_mutex_t lock; /* guards what follows, and a part's `runs` and `ended` */
	pthread_cond_t turn_came;
	uint64_t turn;	   /* the turn that may write to an ordered sink */
	uint64_t bytes_in; /* of all parts, without headers */
	/* The lowest failed chunk run of the lowest failed part, since the error must not depend on
	 * timing; if none has failed, the part after the last. */
	struct sgpu_host_part *failed_part;
	uint64_t failed_index;
	uint64_t bad_chunk;
	struct sgpu_error error;
};

struct worker {
	struct move *move;
	const struct sgpu_host_part *aead_of;
	struct sgpu_aead *aead;
	uint8_t *in, *out; /* one buffer */
};

/* ---- KangarooTwelve of data whose chunk runs come in any order ----
 * Each worker computes its run's leaves. The list of leaves gets pages as they are written: the
 * stated size is not trusted. */
struct sgpu_host_digest {
	struct sgpu_kt128 state; /* has the first chunk, which the final node hashes itself */
	uint64_t leaves;	 /* whole chunks after the first */
	uint8_t *values;	 /* of the leaves */
	size_t values_size;
	size_t rest_size;
	uint8_t rest[SGPU_KT128_CHUNK]; /* bytes after the last whole chunk */
};

_Static_assert(RUN_PLAIN % SGPU_KT128_CHUNK == 0, "a chunk run has whole leaves");

static int digest_create(uint64_t size, struct sgpu_host_digest **digest, struct sgpu_error *error)
{
	const uint64_t chunks = size / SGPU_KT128_CHUNK;
	struct sgpu_host_digest *d = *digest = calloc(1, sizeof(*d));

	if (!d) {
		return sgpu_fail_nomem(error);
	}
	d->leaves = chunks - (chunks > 0);
	d->values_size = (d->leaves + 1) * SGPU_KT128_VALUE;
	d->values = mmap(NULL, d->values_size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return d->values != MAP_FAILED ? 0 : sgpu_fail_nomem(error);
}

static void digest_add(struct sgpu_host_digest *digest, uint64_t position, const uint8_t *data,
		       size_t size)
{
	size_t whole = size / SGPU_KT128_CHUNK, rest = size % SGPU_KT128_CHUNK;
	uint64_t chunk = position / SGPU_KT128_CHUNK;

	if (rest) {
		memcpy(digest->rest, data + size - rest, rest);
		digest->rest_size = rest;
	}
	if (whole && chunk == 0) {
		sgpu_kt128_update(&digest->state, data, SGPU_KT128_CHUNK);
		data += SGPU_KT128_CHUNK;
		whole--;
		chunk++;
	}
	if (whole) {
		sgpu_kt128_leaves(data, whole, digest->values + (chunk - 1) * SGPU_KT128_VALUE);
	}
}

/* Checks the digest after a part's last run. */
static int check_digest(const struct sgpu_host_part *part, struct sgpu_error *error)
{
	struct sgpu_host_digest *d = part->computed;
	uint8_t digest[SGPU_KT128_SIZE];

	(void)sgpu_kt128_at_leaf(&d->state);
	sgpu_kt128_take(&d->state, d->values, d->leaves);
	sgpu_kt128_update(&d->state, d->rest, d->rest_size);
	sgpu_kt128_finish(&d->state, NULL, 0, digest, sizeof(digest));
	if (part->found) {
		memcpy(part->found, digest, sizeof(digest));
	}
	return !part->digest || sgpu_equal(digest, part->digest, sizeof(digest))
		       ? 0
		       : sgpu_fail(error, SGPU_EAUTH, "the kt128 of '%s' does not match",
				   part->name);
}

static void digest_free(struct sgpu_host_digest **digest)
{
	if (*digest) {
		if ((*digest)->values != MAP_FAILED) {
			munmap((*digest)->values, (*digest)->values_size);
		}
		sgpu_free_wiped(digest, sizeof(**digest));
	}
}

/* ---- failures ---- */
/* Whether a chunk run before this one has failed. The lock is held. */
static bool failed_before(const struct move *move, const struct run *run)
{
	return move->failed_part < run->part ||
	       (move->failed_part == run->part && move->failed_index < run->index);
}

static void fail(struct move *move, const struct run *run, const struct sgpu_error *error)
{
	pthread_mutex_lock(&move->lock);
	if (!failed_before(move, run)) {
		move->failed_part = run->part;
		move->failed_index = run->index;
		move->bad_chunk = run->bad;
		move->error = *error;
	}
	pthread_cond_broadcast(&move->turn_came);
	pthread_mutex_unlock(&move->lock);
}

/* ---- parts ---- */
static size_t header_of(const struct sgpu_host_part *part)
{
	return part->action == SGPU_HOST_OPEN ? SGPU_SEALED_HEADER : 0;
}

static size_t full_run(const struct sgpu_host_part *part)
{
	return part->action == SGPU_HOST_OPEN ? RUN_SEALED : RUN_PLAIN;
}

/* If *got < size, the source has ended. */
static int read_source(const struct sgpu_host_part *part, uint64_t at, void *data, size_t size,
		       size_t *got, struct sgpu_error *error)
{
	const struct sgpu_endpoint *source = &part->source;

	if (source->read_some) {
		return source->read_some(source->context, part->from + at, data, size, got, error);
	}
	memcpy(data, source->memory + part->from + at, size);
	*got = size;
	return 0;
}

static int read_header(const struct sgpu_host_part *part, uint8_t header[SGPU_SEALED_HEADER],
		       struct sgpu_error *error)
{
	uint64_t plaintext_size;
	size_t got = 0;

	if (part->size != SGPU_SIZE_UNKNOWN &&
	    !sgpu_sealed_plaintext_size(part->size, &plaintext_size)) {
		(void)sgpu_fail(error, SGPU_EAUTH,
				"'%s' has %llu bytes, which sealed data never have", part->name,
				(unsigned long long)part->size);
		return sgpu_hint(error, "it was cut short, or it is something else");
	}
	int rc = read_source(part, 0, header, SGPU_SEALED_HEADER, &got, error);
	if (!rc && got == 0 && part->source.ordered) {
		return sgpu_fail_sniffed(error, STDIN_FILENO, part->name, header, got,
					 "sealed data");
	}
	if (!rc && got < SGPU_SEALED_HEADER) {
		return sgpu_fail(error, SGPU_EAUTH, "'%s' has %zu bytes, too few to be sealed data",
				 part->name, got);
	}
	return rc;
}

static int begin_keys(struct sgpu_host_part *part, struct sgpu_error *error)
{
	uint8_t header[SGPU_SEALED_HEADER] = { 0 };
	const uint8_t *known = part->header;
	int rc = 0;

	if (part->action == SGPU_HOST_OPEN) {
		rc = read_header(part, header, error);
		known = header;
	} else if (part->size != SGPU_SIZE_UNKNOWN && part->size > SGPU_SEALED_PLAINTEXT_MAX) {
		rc = sgpu_fail(error, SGPU_EINVALID, "'%s' is too large to be sealed", part->name);
	}
	return rc      ? rc
	       : known ? sgpu_sealed_keys_open(part->key, part->context, part->context_size, known,
					       &part->keys, error)
		       : sgpu_sealed_keys_new(part->key, part->context, part->context_size,
					      &part->keys, error);
}

/* Prepares a part and reads its header. The caller holds the claim. */
static int begin(struct sgpu_host_part *part, struct sgpu_error *error)
{
	const uint64_t size = part->size;

	part->open = true;
	int rc = part->prepare ? part->prepare(part->argument, part, error) : 0;
	if (!rc && (part->size != size || (size == SGPU_SIZE_UNKNOWN && !part->source.ordered))) {
		rc = sgpu_fail(error, SGPU_EUSAGE, "the size of '%s' is not known", part->name);
	}
	if (!rc && part->action != SGPU_HOST_COPY) {
		rc = begin_keys(part, error);
	} else if (!rc && (part->digest || part->found)) {
		rc = digest_create(part->size, &part->computed, error);
	}
	part->bytes_in = header_of(part);
	/* The last chunk run is never full, so it holds the last chunk. */
	part->runs = part->size == SGPU_SIZE_UNKNOWN
			     ? UINT64_MAX
			     : (part->size - header_of(part)) / full_run(part) + 1;
	return rc;
}

/* Closes a part's source and sink, and wipes its keys. Accepts a part that is not open. */
static void end(struct sgpu_host_part *part)
{
	if (!part->open) {
		return;
	}
	part->open = false;
	digest_free(&part->computed);
	sgpu_wipe(&part->keys, sizeof(part->keys));
	if (part->source.close) {
		part->source.close(part->source.context);
	}
	if (part->sink.close) {
		part->sink.close(part->sink.context);
	}
}

/* ---- claims ---- */
/* Whether runs of `part` may be claimed while the first part is unfinished: not if it is ordered or
 * has the same sink, since writers of one file exclude each other. */
static bool is_apart(const struct move *move, const struct sgpu_host_part *part)
{
	return !part->source.ordered && !part->sink.ordered &&
	       (part == move->first || part->sink.context != move->first->sink.context);
}

/* The part that may be claimed from of which the least was claimed; NULL: none is left. Parts
 * before a failed one go on, since their errors take precedence. */
static struct sgpu_host_part *next_part(struct move *move)
{
	struct sgpu_host_part *next, *part, *until;

	pthread_mutex_lock(&move->lock);
	until = move->failed_part;
	pthread_mutex_unlock(&move->lock);
	while (move->first < until && move->first->runs && move->first->next == move->first->runs) {
		move->first++;
	}
	if (move->first >= until) {
		return NULL;
	}
	next = move->first;
	for (part = next + 1; part < until && part < move->first + BESIDE; part++) {
		if (!part[-1].runs || !is_apart(move, part - 1) || !is_apart(move, part)) {
			break;
		}
		next = (!part->runs || part->next < part->runs) && part->next < next->next ? part
											   : next;
	}
	return next;
}

/* Reads the run's bytes. Finds the end of a source of unknown size. */
static int read_run(struct worker *worker, struct run *run, struct sgpu_error *error)
{
	static const int codes[] = { [SGPU_HOST_COPY] = SGPU_EINVALID,
				     [SGPU_HOST_SEAL] = SGPU_ESYSTEM,
				     [SGPU_HOST_OPEN] = SGPU_EAUTH };
	const struct sgpu_host_part *part = run->part;
	const uint64_t at = header_of(part) + run->index * full_run(part);
	const size_t wanted = run->last ? (size_t)(part->size - at) : full_run(part);

	run->data = part->sink.write || !part->sink.memory ? worker->in
							   : part->sink.memory + part->to + at;
	int rc = read_source(part, at, run->data, wanted, &run->size, error);
	if (rc || run->size == wanted) {
		return rc;
	}
	if (part->size == SGPU_SIZE_UNKNOWN) {
		run->last = true;
		return 0;
	}
	if (!part->source.ordered) {
		return sgpu_fail(error, SGPU_ESYSTEM, "'%s' changed while it was read", part->name);
	}
	return sgpu_fail(error, codes[part->action], "'%s' ends after %llu of %llu bytes",
			 part->name, (unsigned long long)(at + run->size),
			 (unsigned long long)part->size);
}

/* Begins the part of the next chunk run, and reads the run if its source is ordered; false: no run
 * is left. The worker holds the claim. */
static bool claim(struct worker *worker, struct run *run, int *rc, struct sgpu_error *error)
{
	struct move *move = worker->move;
	struct sgpu_host_part *part;

	*rc = 0;
	do { /* a part that turns out to be ordered has to wait */
		part = next_part(move);
		/* if no run is left, a signal changes nothing */
		if (!part || sgpu_io_interrupted()) {
			return false;
		}
		*rc = part->runs ? 0 : begin(part, error);
	} while (!*rc && part != move->first && !is_apart(move, part));
	*run = (struct run){ .part = part, .bad = SGPU_SIZE_UNKNOWN };
	if (*rc) {
		return true;
	}
	run->index = part->next++;
	run->last = part->next == part->runs;
	run->turn = part->sink.ordered ? move->turns++ : 0;
	if (part->source.ordered) {
		*rc = read_run(worker, run, error);
		pthread_mutex_lock(&move->lock);
		part->runs = run->last ? part->next : part->runs;
		pthread_mutex_unlock(&move->lock);
	}
	return true;
}

/* ---- chunk runs ---- */
static int fail_bad_chunk(const struct run *run, struct sgpu_error *error)
{
	const char *name = run->part->name;
	const unsigned long long bad = run->bad, at = SGPU_SEALED_HEADER + bad * SGPU_SEALED_CHUNK;
	size_t rest = run->size - (size_t)(bad - run->index * RUN_CHUNKS) * SGPU_SEALED_CHUNK;

	if (run->last && rest < SGPU_TAG_SIZE) {
		return sgpu_fail(error, SGPU_EAUTH,
				 "'%s' ends without its end mark, at chunk %llu (offset %llu)",
				 name, bad, at);
	}
	return sgpu_fail(error, SGPU_EAUTH,
			 "authentication failed at chunk %llu (offset %llu) of '%s'", bad, at,
			 name);
}

static int open_run(struct worker *worker, struct run *run, struct sgpu_error *error)
{
	const struct sgpu_sealed_keys *keys = &run->part->keys;
	uint64_t first = run->index * RUN_CHUNKS;
	int rc = sgpu_open_chunks(worker->aead, keys, first, run->last, worker->in, run->size,
				  worker->out, &run->bad);

	run->result_size = sgpu_opened_size(run->size);
	if (rc == SGPU_EAUTH) {
		const size_t good = run->part->sink.ordered ? (size_t)(run->bad - first) : 0;

		/* An ordered sink gets all chunks before the bad one, whatever run they were in. */
		run->result_size = good * SGPU_CHUNK;
		if (!good || sgpu_open_chunks(worker->aead, keys, first, false, worker->in,
					      good * SGPU_SEALED_CHUNK, worker->out, NULL) == 0) {
			return fail_bad_chunk(run, error);
		}
	}
	run->bad = SGPU_SIZE_UNKNOWN;
	return rc ? sgpu_fail(error, SGPU_ESYSTEM, "AES-256-GCM failed") : 0;
}

static int seal_run(struct worker *worker, struct run *run, struct sgpu_error *error)
{
	const struct sgpu_sealed_keys *keys = &run->part->keys;
	const size_t header = run->index == 0 ? SGPU_SEALED_HEADER : 0;

	memcpy(worker->out, keys->header, header);
	run->result_size = header + sgpu_run_sealed_size(run->size, run->last);
	return sgpu_seal_chunks(worker->aead, keys, run->index * RUN_CHUNKS, run->last, worker->in,
				run->size, worker->out + header)
		       ? sgpu_fail(error, SGPU_ESYSTEM, "AES-256-GCM failed")
		       : 0;
}

/* Opens, seals or copies a run. With SGPU_EAUTH, its result is the chunks before the bad one. */
static int transform(struct worker *worker, struct run *run, struct sgpu_error *error)
{
	const struct sgpu_host_part *part = run->part;
	int rc = 0;

	if (part->action == SGPU_HOST_COPY) {
		run->result = run->data;
		run->result_size = run->size;
		if (part->computed) {
			digest_add(part->computed, run->index * RUN_PLAIN, run->data, run->size);
		}
		return 0;
	}
	run->result = worker->out;
	if (worker->aead_of != part) {
		sgpu_aead_free(&worker->aead);
		rc = sgpu_aead_create(NULL, part->keys.key, &worker->aead, error);
		worker->aead_of = rc ? NULL : part;
	}
	return rc				? rc
	       : part->action == SGPU_HOST_OPEN ? open_run(worker, run, error)
						: seal_run(worker, run, error);
}

static int write_run(const struct run *run, struct sgpu_error *error)
{
	const struct sgpu_host_part *part = run->part;
	uint64_t at = part->to + run->index * RUN_PLAIN;

	if (part->action == SGPU_HOST_SEAL && run->index) {
		at = part->to + SGPU_SEALED_HEADER + run->index * RUN_SEALED;
	}
	return run->result_size && part->sink.write
		       ? part->sink.write(part->sink.context, at, run->result, run->result_size,
					  error)
		       : 0;
}

/* Writes a chunk run's result; for an ordered sink, in its turn. */
static int deliver(struct move *move, const struct run *run, struct sgpu_error *error)
{
	const size_t part = (size_t)(run->part - move->request->parts);
	pthread_mutex_t *writing = &move->writing[part % BESIDE * WRITERS + run->index % WRITERS];
	bool moot = false;

	if (run->part->sink.ordered) {
		pthread_mutex_lock(&move->lock);
		while (move->turn != run->turn && !(moot = failed_before(move, run))) {
			pthread_cond_wait(&move->turn_came, &move->lock);
		}
		pthread_mutex_unlock(&move->lock);
		return moot ? SGPU_ECANCELED : write_run(run, error);
	}
	if (run->part->sink.parallel) {
		return write_run(run, error);
	}
	pthread_mutex_lock(writing);
	int rc = write_run(run, error);
	pthread_mutex_unlock(writing);
	return rc;
}

/* Counts a delivered run. Returns whether all of its part were. */
static bool count(struct move *move, const struct run *run)
{
	struct sgpu_host_part *part = run->part;
	const struct sgpu_host_move *request = move->request;

	pthread_mutex_lock(&move->lock);
	if (part->sink.ordered) {
		move->turn++;
		pthread_cond_broadcast(&move->turn_came);
	}
	part->bytes_in += run->size;
	part->bytes_out += run->result_size;
	move->bytes_in += run->size;
	const bool ended = ++part->ended == part->runs;
	if (request->progress) {
		request->progress(request->progress_argument, move->bytes_in);
	}
	pthread_mutex_unlock(&move->lock);
	return ended;
}

/* Handles one chunk run; false: none is left. */
static bool work(struct worker *worker)
{
	struct move *move = worker->move;
	struct sgpu_error error = { 0 }, late = { 0 };
	struct run run = { 0 };
	int rc = 0, written = 0;

	pthread_mutex_lock(&move->claiming);
	const bool taken = claim(worker, &run, &rc, &error);
	if (rc) { /* before another worker reads from a source that has failed */
		fail(move, &run, &error);
	}
	pthread_mutex_unlock(&move->claiming);
	if (!taken || rc) {
		return taken;
	}
	if (!run.part->source.ordered) {
		rc = read_run(worker, &run, &error);
	}
	rc = rc ? rc : transform(worker, &run, &error);
	if (!rc || run.bad != SGPU_SIZE_UNKNOWN) {
		written = deliver(move, &run, &late);
	}
	if (written) {
		rc = written;
		error = late;
		run.bad = SGPU_SIZE_UNKNOWN;
	}
	if (!rc && count(move, &run)) {
		rc = run.part->computed ? check_digest(run.part, &error) : 0;
		end(run.part);
	}
	if (rc) {
		fail(move, &run, &error);
	}
	return true;
}

static void run_workers(void *argument, uint64_t begin, uint64_t end)
{
	struct worker *workers = argument;

	for (; begin < end; begin++) {
		while (work(&workers[begin])) {
		}
	}
}

/* ---- moves ---- */
/* How many workers are of use; *largest: the size of the largest part, or of a run. */
static unsigned count_workers(const struct sgpu_host_move *m, size_t *largest)
{
	uint64_t runs = 1, most = 0;

	for (size_t i = 0; i < m->count; i++) {
		most = m->parts[i].size > most ? m->parts[i].size : most;
		runs += sgpu_min_u64(m->parts[i].size / RUN_PLAIN, SGPU_POOL_JOBS_MAX);
	}
	*largest = (size_t)sgpu_min_u64(most, RUN_PLAIN);
	runs = sgpu_min_u64(runs, SGPU_POOL_JOBS_MAX);
	/* One thread moves what is small: to count the processors would take longer. */
	return runs == 1 ? 1 : (unsigned)sgpu_min_u64(runs, m->jobs ? m->jobs : sgpu_cpu_count());
}

/* Makes as many workers as there is memory for, and runs them. */
static int move_all(struct move *move, struct sgpu_error *error)
{
	size_t size;
	unsigned jobs = count_workers(move->request, &size), ready = 0;
	struct worker *workers = calloc(jobs, sizeof(*workers));
	struct sgpu_pool *pool = NULL;
	int rc = 0;

	size += SGPU_SEALED_HEADER + (size / SGPU_CHUNK + 1) * SGPU_TAG_SIZE;
	size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	for (; workers && ready < jobs; ready++) {
		struct worker *w = &workers[ready];

		w->move = move;
		w->in = aligned_alloc(ALIGNMENT, 2 * size);
		if (!w->in) {
			break;
		}
		w->out = w->in + size;
	}
	if (ready > 1 && sgpu_pool_create(ready, &pool, NULL) == 0) {
		rc = sgpu_pool_for(pool, ready, 1, 0, run_workers, workers);
	} else if (ready) {
		run_workers(workers, 0, 1);
	} else {
		rc = sgpu_fail_nomem(error);
	}
	sgpu_pool_free(&pool);
	for (unsigned i = 0; i < ready; i++) {
		sgpu_aead_free(&workers[i].aead);
		sgpu_free_wiped(&workers[i].in, 2 * size);
	}
	free(workers);
	return rc;
}

int sgpu_host_move(struct sgpu_host_move *m, struct sgpu_error *error)
{
	struct sgpu_host_part *const end_of_parts = m->parts + m->count;
	struct move move = { .request = m,
			     .first = m->parts,
			     .failed_part = end_of_parts,
			     .claiming = PTHREAD_MUTEX_INITIALIZER,
			     .lock = PTHREAD_MUTEX_INITIALIZER,
			     .turn_came = PTHREAD_COND_INITIALIZER };

	m->failed = NULL;
	m->bad_chunk = SGPU_SIZE_UNKNOWN;
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(move.writing); i++) {
		pthread_mutex_init(&move.writing[i], NULL);
	}
	for (struct sgpu_host_part *part = m->parts; part < end_of_parts; part++) {
		part->bytes_in = part->bytes_out = part->runs = part->next = part->ended = 0;
	}
	int rc = move_all(&move, error);
	for (struct sgpu_host_part *part = m->parts; part < end_of_parts; part++) {
		end(part);
	}
	if (!rc && move.failed_part < end_of_parts) {
		m->failed = move.failed_part;
		m->bad_chunk = move.bad_chunk;
		rc = move.error.code;
		if (error) {
			*error = move.error;
		}
	} else if (!rc && next_part(&move)) {
		rc = sgpu_fail(error, SGPU_ECANCELED, "interrupted");
	}
	return rc;
}
