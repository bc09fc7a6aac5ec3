/* SPDX-License-Identifier: Apache-2.0
 *
 * Admission refuses what can be refused before the first payload arrives. After seal.json,
 * everything is authenticated before it is parsed: seal.json's form, the batch key, the MAC, the
 * owners' signatures; the index by its digest; the manifest by its digest, and whether both agree;
 * what the policy forbids, sizes, plan; where payloads lie. Last, the batch is recorded; no payload
 * is read before. Which outputs may be LOW was decided when the manifest was parsed
 * (lib/manifest/flow.c).
 */
#include "crypto/crypto.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/io.h"
#include "run/private.h"
#include "stage/stage.h"

/* ---- prepared jobs ---- */
struct sgpu_prepared *sgpu_prepared_create(struct sgpu_manifest **manifest)
{
	struct sgpu_prepared *p = calloc(1, sizeof(*p));

	if (!p) {
		sgpu_manifest_free(manifest);
		return NULL;
	}
	atomic_init(&p->references, 1);
	p->manifest = *manifest;
	*manifest = NULL;
	return p;
}

void sgpu_prepared_drop(struct sgpu_prepared **prepared)
{
	struct sgpu_prepared *p = *prepared;

	*prepared = NULL;
	if (p && atomic_fetch_sub(&p->references, 1) == 1) {
		sgpu_plan_free(&p->plan);
		sgpu_manifest_free(&p->manifest);
		free(p);
	}
}

void sgpu_prepared_table_clear(struct sgpu_prepared_table *table)
{
	for (int i = 0; i < SGPU_PREPARED_MAX; i++) {
		sgpu_prepared_drop(&table->jobs[i]);
	}
	pthread_mutex_destroy(&table->mutex);
}

/* The mutex is held. */
static struct sgpu_prepared *find_job(const struct sgpu_prepared_table *table,
				      const uint8_t *sha256)
{
	for (int i = 0; i < SGPU_PREPARED_MAX && table->jobs[i]; i++) {
		if (memcmp(table->jobs[i]->manifest->sha256, sha256, SGPU_SHA256_SIZE) == 0) {
			return table->jobs[i];
		}
	}
	return NULL;
}

struct sgpu_prepared *sgpu_prepared_find(struct sgpu_prepared_table *table,
					 const uint8_t sha256[SGPU_SHA256_SIZE])
{
	struct sgpu_prepared *found;

	pthread_mutex_lock(&table->mutex);
	found = find_job(table, sha256);
	if (found) {
		atomic_fetch_add(&found->references, 1);
	}
	pthread_mutex_unlock(&table->mutex);
	return found;
}

void sgpu_prepared_keep(struct sgpu_prepared_table *table, struct sgpu_prepared *prepared)
{
	struct sgpu_prepared *forgotten = NULL;
	bool keep = prepared->manifest->canonical_size <= SGPU_PREPARED_TEXT_MAX;

	for (int i = 0; i < prepared->manifest->segment_count; i++) {
		keep &= !prepared->manifest->segments[i].size_of_file;
	}
	if (!keep) {
		return;
	}
	pthread_mutex_lock(&table->mutex);
	if (!find_job(table, prepared->manifest->sha256)) {
		struct sgpu_prepared **place = &table->jobs[table->kept++ % SGPU_PREPARED_MAX];

		forgotten = *place;
		atomic_fetch_add(&prepared->references, 1);
		*place = prepared;
	}
	pthread_mutex_unlock(&table->mutex);
	sgpu_prepared_drop(&forgotten);
}

/* Maps the batch's segments to the manifest's: the reader has checked that each occurs once. */
static int fill_in(struct sgpu_job *job, struct sgpu_error *error)
{
	const struct sgpu_manifest *m = job->prepared->manifest;

	job->manifest = m;
	job->to_manifest = calloc((size_t)job->batch->segment_count + 1, sizeof(*job->to_manifest));
	job->in_batch = calloc((size_t)m->segment_count + 1, sizeof(*job->in_batch));
	if (!job->to_manifest || !job->in_batch) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; i < m->segment_count; i++) {
		job->in_batch[i] = -1;
	}
	for (int i = 0; i < job->batch->segment_count; i++) {
		const int segment = sgpu_manifest_segment(m, job->batch->segments[i].id);

		job->to_manifest[i] = segment;
		job->in_batch[segment] = i;
	}
	return sgpu_random(job->response_id, sizeof(job->response_id), error);
}

/* A module is code: it runs only where allowed, and from a sealed batch. Its author is a named
 * owner or, if none is named, anyone who can submit, since anybody can seal to a public key. */
static int check_modules(struct sgpu_job *job, struct sgpu_error *error)
{
	for (int i = 0; i < job->manifest->operation_count; i++) {
		job->has_module |= job->manifest->operations[i].module != NULL;
	}
	if (!job->has_module) {
		return SGPU_OK;
	}
	if (!job->options->allow_modules) {
		sgpu_fail(error, SGPU_EPOLICY,
			  "the batch has a module, and modules are not allowed here");
		return sgpu_hint(error, "'sgpu-run --allow-modules' runs them");
	}
	if (!job->batch->has_mac) {
		sgpu_fail(error, SGPU_EPOLICY, "the batch has a module and no MAC");
		return sgpu_hint(error, "pass the batch through 'sgpu-seal seal' first");
	}
	return SGPU_OK;
}

/* A digest guessed right reveals a file's content, so only authenticated batches may name files. */
static int check_file(const struct sgpu_job *job, const struct sgpu_batch_segment *in_batch,
		      struct sgpu_error *error)
{
	if (sgpu_files_count(job->options->files) == 0) {
		sgpu_fail(error, SGPU_EPOLICY,
			  "segment '%s' is in a file, and this runner fetches from none",
			  in_batch->id);
		return sgpu_hint(error, "'sgpu-stage load --files' brings payloads in files along");
	}
	if (!job->batch->has_mac) {
		sgpu_fail(error, SGPU_EPOLICY,
			  "segment '%s' is in a file, and the batch has no MAC", in_batch->id);
		return sgpu_hint(
			error,
			"pass the batch through 'sgpu-seal seal' or 'sgpu-stage load' first");
	}
	return SGPU_OK;
}

/* Checks where an input is, or where a result goes. */
static int check_region(const struct sgpu_job *job, const struct sgpu_batch_segment *in_batch,
			const struct sgpu_location *location, uint64_t size, bool result,
			struct sgpu_error *error)
{
	struct sgpu_error fault = { 0 };
	int rc;

	if (job->options->refuse_regions) {
		return sgpu_fail(error, SGPU_EPOLICY, "segment '%s' is in a region, and %s",
				 in_batch->id, job->options->refuse_regions);
	}
	if (result && job->manifest->all_or_nothing) {
		return sgpu_fail(error, SGPU_EPOLICY,
				 "segment '%s' is to be left in a region, and the manifest's "
				 "on_failure is 'all'",
				 in_batch->id);
	}
	rc = sgpu_region_check(location, size, result, &fault);
	if (rc == SGPU_OK) {
		return rc;
	}
	/* A region that is gone is a fault of the batch, not of this machine. */
	sgpu_fail(error, rc == SGPU_EUNAVAILABLE ? SGPU_EPOLICY : rc, "segment '%s': %s",
		  in_batch->id, fault.text);
	return sgpu_hint(error, "%s", fault.hint);
}

enum { RESULT_LINE = 64 }; /* results that follow each other begin at multiples of this */

static bool wants_place(const struct sgpu_job *job, int in_batch)
{
	return sgpu_segment_is_output(&job->manifest->segments[job->to_manifest[in_batch]]) &&
	       !job->batch->segments[in_batch].place;
}

bool sgpu_results_size(const struct sgpu_job *job, uint64_t each, uint64_t *sum)
{
	*sum = 0;
	for (int i = 0; i < job->batch->segment_count; i++) {
		if (!wants_place(job, i)) {
			continue;
		}
		if (!sgpu_add_u64(*sum, sgpu_segment_masked_size(&job->batch->segments[i]), sum) ||
		    !sgpu_add_u64(*sum, each + RESULT_LINE - 1, sum)) {
			return false;
		}
		*sum -= *sum % RESULT_LINE;
	}
	return true;
}

/* Gives each result without a place one within the `left` bytes at `next`. */
static int place_results(const struct sgpu_job *job, struct sgpu_location next, uint64_t left,
			 struct sgpu_error *error)
{
	uint64_t step;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < job->batch->segment_count; i++) {
		struct sgpu_batch_segment *segment = &job->batch->segments[i];
		const uint64_t size = sgpu_segment_masked_size(segment);

		if (!wants_place(job, i)) {
			continue;
		}
		if (size > left) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "segment '%s': its result may have %llu bytes, and %llu "
					 "are left of '%s'",
					 segment->id, (unsigned long long)size,
					 (unsigned long long)left, job->options->results);
		}
		rc = sgpu_segment_place(segment, &next, error);
		step = sgpu_min_u64((size + RESULT_LINE - 1) / RESULT_LINE * RESULT_LINE, left);
		next.offset += step;
		left -= step;
	}
	return rc;
}

static int check_places(struct sgpu_job *job, struct sgpu_error *error)
{
	struct sgpu_location next = { .kind = SGPU_LOCATION_NONE };
	uint64_t left = 0;
	int rc = SGPU_OK;

	if (job->options->results) { /* the slice that the client named */
		rc = sgpu_handle_parse(job->options->results, "the results", &next, &left, error);
		rc = rc ? rc : place_results(job, next, left, error);
	}
	for (int i = 0; rc == SGPU_OK && i < job->batch->segment_count; i++) {
		const struct sgpu_batch_segment *in_batch = &job->batch->segments[i];
		const enum sgpu_location_kind kind = in_batch->location.kind;

		if (kind == SGPU_LOCATION_FILE) {
			rc = check_file(job, in_batch, error);
		} else if (kind == SGPU_LOCATION_REGION) {
			rc = check_region(job, in_batch, &in_batch->location,
					  sgpu_batch_payload_size(job->batch, i), false, error);
		} else if (kind == SGPU_LOCATION_LEASE && !job->options->leases) {
			sgpu_fail(error, SGPU_EPOLICY,
				  "segment '%s' is in a lease, and this runner gives none",
				  in_batch->id);
			rc = sgpu_hint(error, "leases are those of 'sgpu-serve --leases'");
		}
		if (rc == SGPU_OK && in_batch->place) {
			rc = check_region(job, in_batch, in_batch->place,
					  sgpu_segment_masked_size(in_batch), true, error);
		}
	}
	return rc ? rc : sgpu_places_check(job->batch, error);
}

/* Takes the batch's leases, and makes one for its results if the options ask for that. */
static int take_leases(struct sgpu_run *run, struct sgpu_error *error)
{
	const struct sgpu_job *job = &run->job;
	struct sgpu_location at;
	uint64_t total;
	int rc = SGPU_OK;

	if (!job->options->leases) {
		return SGPU_OK; /* check_places has refused a batch that names any */
	}
	run->leases.pool = job->options->leases;
	run->leases.batch_id = job->batch->id;
	for (int i = 0; rc == SGPU_OK && i < job->batch->segment_count; i++) {
		if (job->batch->segments[i].location.kind == SGPU_LOCATION_LEASE) {
			rc = sgpu_leases_take(&run->leases, &job->batch->segments[i],
					      sgpu_batch_payload_size(job->batch, i), error);
		}
	}
	/* Results of which all may have to be withheld wait in the runner's memory. */
	return rc == SGPU_OK && job->options->lease_results && !job->manifest->all_or_nothing &&
			       sgpu_results_size(job, 0, &total) && total > 0 &&
			       total <= SGPU_LEASE_POOL_MAX &&
			       sgpu_leases_results(&run->leases, total, &at)
		       ? place_results(job, at, total, error)
		       : rc;
}

static int authenticate(struct sgpu_job *job, struct sgpu_error *error)
{
	const struct sgpu_run_options *options = job->options;
	int rc = SGPU_OK;

	if (job->batch->packed) {
		sgpu_fail(error, SGPU_EPOLICY,
			  "the batch has HIGH segments and is packed, but not sealed");
		return sgpu_hint(error, "pass the batch through 'sgpu-seal seal' first");
	}
	if (job->batch->has_mac && options->key_count == 0) {
		sgpu_fail(error, SGPU_EKEY,
			  "the batch is sealed and there is no key to open it with");
		return sgpu_hint(error, "give the runner's key with -k");
	}
	if (job->batch->has_mac) {
		rc = sgpu_batch_unwrap(job->batch, options->keys, options->key_count,
				       job->batch_key, error);
		rc = rc ? rc : sgpu_batch_verify(job->batch, job->batch_key, error);
	}
	return rc == SGPU_OK && options->owners
		       ? sgpu_batch_owner(job->batch, options->owners, options->owner_count,
					  job->owner, error)
		       : rc;
}

/* Checks that the index and the manifest's inferred types agree on every size. */
static int check_sizes(struct sgpu_job *job, struct sgpu_error *error)
{
	for (int i = 0; i < job->batch->segment_count; i++) {
		struct sgpu_segment *segment =
			&job->prepared->manifest->segments[job->to_manifest[i]];
		uint64_t size = 0;

		if (segment->size_of_file) { /* then only this batch has the job */
			sgpu_segment_set_size(segment, job->batch->segments[i].size);
		}

		if (segment->type.dtype == SGPU_NONE || !sgpu_type_bytes(&segment->type, &size)) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "the type of segment '%s' is not known", segment->id);
		}
		if (size != job->batch->segments[i].size) {
			return sgpu_fail(
				error, SGPU_EINVALID,
				"segment '%s' has %llu bytes in the batch and %llu by the manifest",
				segment->id, (unsigned long long)job->batch->segments[i].size,
				(unsigned long long)size);
		}
	}
	return SGPU_OK;
}

/* Checks the manifest of a batch for which no job is prepared. */
static int check_manifest(struct sgpu_job *job, struct sgpu_error *error)
{
	struct sgpu_diagnostics found = { 0 };
	int rc = sgpu_ops_check(job->batch->manifest, &found, error);

	if (rc == SGPU_OK && found.count > 0) {
		rc = sgpu_fail(error, SGPU_EINVALID, "manifest.json: %s: %s", found.list[0].pointer,
			       found.list[0].text);
		(void)sgpu_hint(error, "%s", found.list[0].hint ? found.list[0].hint : "");
	}
	sgpu_diagnostics_clear(&found);
	if (rc == SGPU_OK) {
		job->prepared = sgpu_prepared_create(&job->batch->manifest);
		rc = job->prepared ? SGPU_OK : sgpu_fail_nomem(error);
	}
	return rc;
}

static const struct sgpu_manifest *find_manifest(void *argument, const uint8_t *sha256)
{
	struct sgpu_run *run = argument;

	run->job.prepared = sgpu_prepared_find(&run->runner->prepared, sha256);
	return run->job.prepared ? run->job.prepared->manifest : NULL;
}

static int fetch_manifest(void *argument, char **text, size_t *size, struct sgpu_error *error)
{
	const int *fd = ((struct sgpu_run *)argument)->job.options->manifest;

	if (!fd) {
		sgpu_fail(error, SGPU_EMANIFEST,
			  "the batch names its manifest by the hash alone, and this runner does "
			  "not know it");
		return sgpu_hint(error, "'sgpu-run --manifest FILE' gives the one that "
					"'sgpu-manifest pack' wrote");
	}
	return sgpu_read_fd(*fd, "the manifest", SGPU_MANIFEST_SIZE_MAX, text, size, error);
}

int sgpu_admit_once(struct sgpu_job *job, struct sgpu_error *error)
{
	/* several runs may share one replay record */
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	struct timespec now = { 0 };
	uint8_t identity[SGPU_SHA256_SIZE];
	uint64_t now_us;
	int rc;

	if (!job->options->replay) {
		return SGPU_OK;
	}
	if (!job->batch->has_mac && !job->owner[0]) {
		return sgpu_fail(error, SGPU_EPOLICY,
				 "the batch has neither a MAC nor an owner's signature, so it "
				 "cannot be told from another");
	}
	clock_gettime(CLOCK_REALTIME, &now);
	now_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
	rc = sgpu_batch_identity(job->batch, identity, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	pthread_mutex_lock(&mutex);
	rc = sgpu_replay_take(job->options->replay, identity, job->batch->counter, now_us, error);
	pthread_mutex_unlock(&mutex);
	return rc;
}

int sgpu_admit(struct sgpu_run *run, struct sgpu_error *error)
{
	const struct sgpu_manifest_source source = { find_manifest, fetch_manifest, run };
	struct sgpu_job *job = &run->job;
	uint64_t begin = sgpu_now_ns();
	int rc = sgpu_batch_read_seal(run->tar, SGPU_READ_BATCH, &job->batch, error);

	rc = rc ? rc : authenticate(job, error);
	rc = rc ? rc : sgpu_batch_read_rest(run->tar, job->batch, &source, error);
	if (rc == SGPU_OK) {
		free(job->batch->index_text);
		job->batch->index_text = NULL;
	}
	sgpu_trace_add(run, &(struct sgpu_span){ .kind = SGPU_SPAN_READ,
						 .label = "batch.json",
						 .begin_ns = begin,
						 .end_ns = sgpu_now_ns() });
	if (rc == SGPU_OK && !job->prepared) {
		rc = check_manifest(job, error);
	}
	rc = rc ? rc : fill_in(job, error);
	rc = rc ? rc : check_modules(job, error);
	rc = rc ? rc : check_sizes(job, error);
	if (rc == SGPU_OK && !job->prepared->plan) {
		rc = sgpu_plan_create(job->manifest, run->runner->device_count, &run->runner->costs,
				      &job->prepared->plan, error);
		if (rc == SGPU_OK) {
			sgpu_prepared_keep(&run->runner->prepared, job->prepared);
		}
	}
	rc = rc ? rc : check_places(job, error);
	rc = rc ? rc : take_leases(run, error);
	job->plan = rc == SGPU_OK ? job->prepared->plan : NULL;
	return rc;
}

void sgpu_job_clear(struct sgpu_job *job)
{
	sgpu_wipe(job->batch_key, sizeof(job->batch_key));
	free(job->to_manifest);
	free(job->in_batch);
	sgpu_batch_free(&job->batch);
	sgpu_prepared_drop(&job->prepared);
}
