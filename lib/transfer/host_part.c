/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of a move on the host: how one begins and ends, and how its chunk runs are read and
 * transformed.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/io.h"
#include "crypto/kt128.h"
#include "transfer/host.h"

/* ---- KangarooTwelve of data whose chunk runs come in any order ----
 * Each worker computes the leaves of its run. The kernel gives the list of leaves its pages as they
 * are written, since the stated size is not trusted. */
struct host_digest {
	uint64_t size;
	uint64_t leaves;		 /* whole chunks after the first */
	uint8_t first[SGPU_KT128_CHUNK]; /* the first chunk, which the final node hashes itself */
	uint8_t rest[SGPU_KT128_CHUNK];	 /* bytes after the last whole chunk */
	uint8_t *values;		 /* of the leaves */
};

_Static_assert(HOST_RUN_PLAIN % SGPU_KT128_CHUNK == 0, "a chunk run has whole leaves");

static int digest_create(uint64_t size, struct host_digest **digest, struct sgpu_error *error)
{
	const uint64_t chunks = size / SGPU_KT128_CHUNK;
	struct host_digest *d = *digest = calloc(1, sizeof(*d));

	if (!d) {
		return sgpu_fail_nomem(error);
	}
	d->size = size;
	d->leaves = chunks - (chunks > 0);
	d->values = mmap(NULL, (d->leaves + 1) * SGPU_KT128_VALUE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return d->values != MAP_FAILED ? 0 : sgpu_fail_nomem(error);
}

static void digest_add(struct host_digest *digest, uint64_t position, const uint8_t *data,
		       size_t size)
{
	size_t whole = size / SGPU_KT128_CHUNK, rest = size % SGPU_KT128_CHUNK;
	uint64_t chunk = position / SGPU_KT128_CHUNK;

	if (rest) {
		memcpy(digest->rest, data + size - rest, rest);
	}
	if (whole && chunk == 0) {
		memcpy(digest->first, data, SGPU_KT128_CHUNK);
		data += SGPU_KT128_CHUNK;
		whole--;
		chunk++;
	}
	if (whole) {
		sgpu_kt128_leaves(data, whole, digest->values + (chunk - 1) * SGPU_KT128_VALUE);
	}
}

static void digest_finish(struct host_digest *digest, uint8_t out[SGPU_KT128_SIZE])
{
	struct sgpu_kt128 state = { 0 };

	if (digest->size >= SGPU_KT128_CHUNK) {
		sgpu_kt128_update(&state, digest->first, sizeof(digest->first));
		(void)sgpu_kt128_at_leaf(&state);
		sgpu_kt128_take(&state, digest->values, digest->leaves);
	}
	sgpu_kt128_update(&state, digest->rest, (size_t)(digest->size % SGPU_KT128_CHUNK));
	sgpu_kt128_finish(&state, NULL, 0, out, SGPU_KT128_SIZE);
	sgpu_wipe(&state, sizeof(state));
}

static void digest_free(struct host_digest **digest)
{
	if (*digest) {
		if ((*digest)->values != MAP_FAILED) {
			munmap((*digest)->values, ((*digest)->leaves + 1) * SGPU_KT128_VALUE);
		}
		sgpu_free_wiped(digest, sizeof(**digest));
	}
}

static size_t full_run(const struct host_part *part)
{
	return part->part->action == SGPU_HOST_OPEN ? HOST_RUN_SEALED : HOST_RUN_PLAIN;
}

static int ended_early(const struct sgpu_host_part *part, uint64_t at, struct sgpu_error *error)
{
	if (!part->source.ordered) {
		return sgpu_fail(error, SGPU_ESYSTEM, "'%s' changed while it was read", part->name);
	}
	if (part->action == SGPU_HOST_COPY) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s' is cut short", part->name);
	}
	return sgpu_fail(error, part->action == SGPU_HOST_OPEN ? SGPU_EAUTH : SGPU_ESYSTEM,
			 "'%s' ends after %llu of %llu bytes", part->name, (unsigned long long)at,
			 (unsigned long long)part->size);
}

/* If *got < size, the source has ended. */
static int read_source(const struct host_part *of, uint64_t at, void *data, size_t size,
		       size_t *got, struct sgpu_error *error)
{
	const struct sgpu_host_part *part = of->part;
	const struct sgpu_transfer_source *source = &part->source;

	*got = size;
	if (of->view) {
		memcpy(data, of->view + part->from + at, size);
		return 0;
	}
	return source->read_some
		       ? source->read_some(source->context, part->from + at, data, size, got, error)
		       : source->read(source->context, part->from + at, data, size, error);
}

static int read_header(const struct host_part *of, uint8_t header[SGPU_SEALED_HEADER],
		       struct sgpu_error *error)
{
	const struct sgpu_host_part *part = of->part;
	uint64_t plaintext_size;
	size_t got = 0;

	if (part->size != SGPU_SIZE_UNKNOWN &&
	    !sgpu_sealed_plaintext_size(part->size, &plaintext_size)) {
		(void)sgpu_fail(error, SGPU_EAUTH,
				"'%s' has %llu bytes, which sealed data never have", part->name,
				(unsigned long long)part->size);
		return sgpu_hint(error, "it was cut short, or it is something else");
	}
	int rc = read_source(of, 0, header, SGPU_SEALED_HEADER, &got, error);
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

int sgpu_host_part_begin(struct host_part *part, struct sgpu_error *error)
{
	struct sgpu_host_part *p = part->part;
	uint8_t header[SGPU_SEALED_HEADER] = { 0 };
	const uint64_t size = p->size;
	bool registered = false;

	part->begun = part->open = true;
	p->bytes_in = p->bytes_out = 0;
	int rc = p->prepare ? p->prepare(p->argument, p, error) : 0;
	if (!rc && p->size != size) {
		/* The workers' buffers fit the size stated before. */
		rc = sgpu_fail(error, SGPU_EUSAGE, "the size of '%s' has changed", p->name);
	}
	if (!rc && p->size == SGPU_SIZE_UNKNOWN &&
	    (!p->source.read_some || !p->source.ordered || p->digest)) {
		rc = sgpu_fail(error, SGPU_EUSAGE, "the size of '%s' must be known", p->name);
	}
	part->size = p->size;
	part->view = !rc && !p->source.read && !p->source.read_some
			     ? p->source.view(p->source.context, p->from + p->size, &registered)
			     : NULL;
	if (!rc && p->action == SGPU_HOST_SEAL) {
		if (p->size != SGPU_SIZE_UNKNOWN && p->size > SGPU_SEALED_PLAINTEXT_MAX) {
			rc = sgpu_fail(error, SGPU_EINVALID, "'%s' is too large to be sealed",
				       p->name);
		}
		rc = rc		 ? rc
		     : p->header ? sgpu_sealed_keys_open(p->key, p->context, p->context_size,
							 p->header, &part->keys, error)
				 : sgpu_sealed_keys_new(p->key, p->context, p->context_size,
							&part->keys, error);
	} else if (!rc && p->action == SGPU_HOST_OPEN) {
		rc = read_header(part, header, error);
		rc = rc ? rc
			: sgpu_sealed_keys_open(p->key, p->context, p->context_size, header,
						&part->keys, error);
		part->size -= p->size == SGPU_SIZE_UNKNOWN ? 0 : SGPU_SEALED_HEADER;
	} else if (!rc && p->digest) {
		rc = digest_create(p->size, &part->digest, error);
	}
	if (!rc && p->action != SGPU_HOST_COPY) {
		rc = sgpu_aead_create(NULL, part->keys.key, &part->aead, error);
	}
	/* The last chunk run is never full, so it holds the last chunk. */
	part->runs = p->size == SGPU_SIZE_UNKNOWN ? UINT64_MAX : part->size / full_run(part) + 1;
	return rc;
}

int sgpu_host_part_check(const struct host_part *part, struct sgpu_error *error)
{
	uint8_t digest[SGPU_KT128_SIZE];

	if (!part->digest) {
		return 0;
	}
	digest_finish(part->digest, digest);
	return sgpu_equal(digest, part->part->digest, sizeof(digest))
		       ? 0
		       : sgpu_fail(error, SGPU_EAUTH, "the kt128 of '%s' does not match",
				   part->part->name);
}

void sgpu_host_part_end(struct host_part *part)
{
	struct sgpu_host_part *p = part->part;

	if (!part->open) {
		return;
	}
	part->open = false;
	sgpu_aead_free(&part->aead);
	digest_free(&part->digest);
	sgpu_wipe(&part->keys, sizeof(part->keys));
	if (p->source.close) {
		p->source.close(p->source.context);
	}
	if (p->sink.close) {
		p->sink.close(p->sink.context);
	}
}

int sgpu_host_run_read(struct host_worker *worker, struct host_run *run, struct sgpu_error *error)
{
	struct host_part *part = run->of;
	const struct sgpu_host_part *p = part->part;
	size_t full = full_run(part),
	       wanted = run->last ? (size_t)(part->size - run->index * full) : full;
	uint64_t at = (p->size - part->size) + run->index * full;

	if (p->size == SGPU_SIZE_UNKNOWN) {
		at = run->index * full + (p->action == SGPU_HOST_OPEN ? SGPU_SEALED_HEADER : 0);
	}
	int rc = read_source(part, at, worker->in, wanted, &run->size, error);
	if (rc || run->size == wanted) {
		return rc;
	}
	if (p->size != SGPU_SIZE_UNKNOWN) {
		return ended_early(p, at + run->size, error);
	}
	run->last = true;
	return 0;
}

static int describe_bad_chunk(const struct host_run *run, uint64_t bad, struct sgpu_error *error)
{
	const char *name = run->of->part->name;
	uint64_t offset = SGPU_SEALED_HEADER + bad * SGPU_SEALED_CHUNK;
	size_t rest = run->size - (size_t)(bad - run->index * HOST_RUN_CHUNKS) * SGPU_SEALED_CHUNK;

	if (run->last && rest < SGPU_TAG_SIZE) {
		return sgpu_fail(error, SGPU_EAUTH,
				 "'%s' ends without its end mark, at chunk %llu (offset %llu)",
				 name, (unsigned long long)bad, (unsigned long long)offset);
	}
	return sgpu_fail(error, SGPU_EAUTH,
			 "authentication failed at chunk %llu (offset %llu) of '%s'",
			 (unsigned long long)bad, (unsigned long long)offset, name);
}

static int open_run(struct host_worker *worker, const struct host_run *run, size_t *size,
		    uint64_t *bad, struct sgpu_error *error)
{
	const struct sgpu_sealed_keys *keys = &run->of->keys;
	uint64_t first = run->index * HOST_RUN_CHUNKS;
	int rc = sgpu_open_chunks(worker->aead, keys, first, run->last, worker->in, run->size,
				  worker->out, bad);

	*size = sgpu_opened_size(run->size);
	if (rc != SGPU_EAUTH) {
		*bad = SGPU_SIZE_UNKNOWN;
		return rc ? sgpu_fail(error, rc, "AES-256-GCM failed") : 0;
	}
	/* An ordered sink gets all chunks before the bad one, however they were grouped in runs. */
	size_t good = (size_t)(*bad - first);
	*size = 0;
	if (run->of->part->sink.ordered && good) {
		rc = sgpu_open_chunks(worker->aead, keys, first, false, worker->in,
				      good * SGPU_SEALED_CHUNK, worker->out, NULL);
		if (rc) {
			*bad = SGPU_SIZE_UNKNOWN;
			return sgpu_fail(error, rc, "AES-256-GCM failed");
		}
		*size = good * SGPU_CHUNK;
	}
	return describe_bad_chunk(run, *bad, error);
}

int sgpu_host_run_transform(struct host_worker *worker, const struct host_run *run,
			    const uint8_t **data, size_t *size, uint64_t *bad,
			    struct sgpu_error *error)
{
	struct host_part *part = run->of;

	*bad = SGPU_SIZE_UNKNOWN;
	*data = worker->out;
	switch (part->part->action) {
	case SGPU_HOST_OPEN:
		return open_run(worker, run, size, bad, error);
	case SGPU_HOST_SEAL:
		*size = sgpu_run_sealed_size(run->size, run->last);
		if (sgpu_seal_chunks(worker->aead, &part->keys, run->index * HOST_RUN_CHUNKS,
				     run->last, worker->in, run->size, worker->out)) {
			return sgpu_fail(error, SGPU_ESYSTEM, "AES-256-GCM failed");
		}
		return 0;
	case SGPU_HOST_COPY:
		break;
	}
	*data = worker->in;
	*size = run->size;
	if (part->digest) {
		digest_add(part->digest, run->index * HOST_RUN_PLAIN, worker->in, run->size);
	}
	return 0;
}
