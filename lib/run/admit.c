/* SPDX-License-Identifier: Apache-2.0
 *
 * Admission: everything that can be refused before the first payload is. First what the container says, and where
 * owners are named whether one of them has signed it; then the manifest in it, since that is where it stands what is
 * HIGH; then what the policy forbids, whether a key opens it and
 * whether it is authentic; only then sizes, plan and memory. Nothing is fetched or run before all of it has passed.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "run/run.h"

static const struct sgpu_segment *segment_of(const struct sgpu_run *run, int in_batch)
{
	return &run->manifest->segments[run->to_manifest[in_batch]];
}

/* Which segment of the manifest each of the batch is. They usually stand in the same order. */
static int match_segments(struct sgpu_run *run, struct sgpu_error *error)
{
	run->to_manifest = calloc((size_t)run->batch->segment_count + 1, sizeof(*run->to_manifest));
	run->segments = calloc((size_t)run->manifest->segment_count + 1, sizeof(*run->segments));
	run->operations = calloc((size_t)run->manifest->operation_count + 1, sizeof(*run->operations));
	if (!run->to_manifest || !run->segments || !run->operations) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; i < run->manifest->segment_count; i++) {
		run->segments[i].in_batch = -1;
	}
	for (int i = 0; i < run->batch->segment_count; i++) {
		int segment = sgpu_manifest_segment(run->manifest, run->batch->segments[i].id);

		if (segment < 0 || run->segments[segment].in_batch >= 0) {
			return sgpu_fail(error, SGPU_EINVALID, "segment '%s' is not one of the manifest's",
					 run->batch->segments[i].id);
		}
		run->to_manifest[i] = segment;
		run->segments[segment].in_batch = i;
	}
	for (int i = 0; i < run->manifest->segment_count; i++) {
		if (run->segments[i].in_batch < 0 && run->manifest->segments[i].direction != SGPU_INTERMEDIATE) {
			return sgpu_fail(error, SGPU_EINVALID, "the batch lacks segment '%s'",
					 run->manifest->segments[i].id);
		}
	}
	return SGPU_OK;
}

static int check_input(const struct sgpu_batch_segment *in_batch, bool high, struct sgpu_error *error)
{
	if (in_batch->masking == SGPU_MASKING_AES_GCM && !in_batch->sealed) {
		sgpu_fail(error, SGPU_EPOLICY, "segment '%s' is %s and not sealed", in_batch->id,
			  high ? "HIGH" : "to be masked");
		return sgpu_hint(error, "pass the batch through 'sgpu-seal seal' first");
	}
	if (in_batch->location.kind == SGPU_LOCATION_NONE) {
		return sgpu_fail(error, SGPU_EINVALID, "segment '%s' is an input and has no location", in_batch->id);
	}
	if (in_batch->masking == SGPU_MASKING_NONE && !in_batch->has_kt128) {
		return sgpu_fail(error, SGPU_EINVALID, "segment '%s' is not sealed and has no kt128", in_batch->id);
	}
	return SGPU_OK;
}

static bool has_module(const struct sgpu_run *run)
{
	for (int i = 0; i < run->manifest->operation_count; i++) {
		if (run->manifest->operations[i].module) {
			return true;
		}
	}
	return false;
}

/* A module is code: it is run where that is allowed, and in a sealed batch. Who wrote that is known where there are owners;
 * anywhere else it may be anyone who can submit, since anybody can seal to a public key. */
static int check_modules(const struct sgpu_run *run, struct sgpu_error *error)
{
	if (!has_module(run)) {
		return SGPU_OK;
	}
	if (!run->options.allow_modules) {
		sgpu_fail(error, SGPU_EPOLICY, "the batch has a module, and modules are not allowed here");
		return sgpu_hint(error, "'sgpu-run --allow-modules' runs them");
	}
	if (!run->batch->has_mac) {
		sgpu_fail(error, SGPU_EPOLICY, "the batch has a module and no MAC");
		return sgpu_hint(error, "pass the batch through 'sgpu-seal seal' first");
	}
	return SGPU_OK;
}

/* A digest that fits or does not tells what a file holds: so files are for batches alone that have an author. */
static int check_file(const struct sgpu_run *run, const struct sgpu_batch_segment *in_batch, struct sgpu_error *error)
{
	if (sgpu_files_count(run->options.files) == 0) {
		sgpu_fail(error, SGPU_EPOLICY, "segment '%s' is in a file, and this runner fetches from none", in_batch->id);
		return sgpu_hint(error, "'sgpu-stage load --files' brings payloads in files along");
	}
	if (!run->batch->has_mac) {
		sgpu_fail(error, SGPU_EPOLICY, "segment '%s' is in a file, and the batch has no MAC", in_batch->id);
		return sgpu_hint(error, "pass the batch through 'sgpu-seal seal' or 'sgpu-stage load' first");
	}
	return SGPU_OK;
}

/* What the owner's sensitivity demands of the container. */
static int check_policy(struct sgpu_run *run, struct sgpu_error *error)
{
	bool needs_key = false;

	for (int i = 0; i < run->batch->segment_count; i++) {
		const struct sgpu_batch_segment *in_batch = &run->batch->segments[i];
		const struct sgpu_segment *segment = segment_of(run, i);
		bool high = segment->sensitivity == SGPU_HIGH;
		int rc = SGPU_OK;

		if (high && in_batch->masking == SGPU_MASKING_NONE) {
			return sgpu_fail(error, SGPU_EPOLICY, "segment '%s' is HIGH and has MASKING_NONE",
					 in_batch->id);
		}
		if (sgpu_segment_is_input(segment)) {
			rc = check_input(in_batch, high, error);
		}
		if (rc == SGPU_OK && in_batch->location.kind == SGPU_LOCATION_FILE) {
			rc = check_file(run, in_batch, error);
		}
		if (rc != SGPU_OK) {
			return rc;
		}
		needs_key = needs_key || high || in_batch->masking == SGPU_MASKING_AES_GCM;
	}
	if (needs_key && !run->batch->has_mac) {
		sgpu_fail(error, SGPU_EPOLICY, "the batch has HIGH segments and no MAC");
		return sgpu_hint(error, "pass the batch through 'sgpu-seal seal' first");
	}
	return SGPU_OK;
}

static int authenticate(struct sgpu_run *run, struct sgpu_error *error)
{
	int rc;

	if (!run->batch->has_mac) {
		return SGPU_OK;
	}
	if (run->options.key_count == 0) {
		sgpu_fail(error, SGPU_EKEY, "the batch is sealed and there is no key to open it with");
		return sgpu_hint(error, "give the runner's key with -k");
	}
	rc = sgpu_batch_unwrap(run->batch, run->options.keys, run->options.key_count, run->batch_key, error);
	if (rc == SGPU_OK) {
		run->keyed = true;
		rc = sgpu_batch_verify(run->batch, run->batch_key, error);
	}
	return rc;
}

/* The index is authentic, the manifest's types are inferred: they must agree on every size. */
static int check_sizes(struct sgpu_run *run, struct sgpu_error *error)
{
	sgpu_plan_sizes(run->manifest, run->batch);
	for (int i = 0; i < run->batch->segment_count; i++) {
		const struct sgpu_segment *segment = segment_of(run, i);
		uint64_t size = 0, sealed = 0;

		if (segment->type.dtype == SGPU_NONE || !sgpu_type_bytes(&segment->type, &size)) {
			return sgpu_fail(error, SGPU_EINVALID, "the type of segment '%s' is not known", segment->id);
		}
		if (size != run->batch->segments[i].size) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "segment '%s' has %llu bytes in the batch and %llu by the manifest",
					 segment->id, (unsigned long long)run->batch->segments[i].size,
					 (unsigned long long)size);
		}
		if (run->batch->segments[i].sealed && (!sgpu_sealed_size(size, &sealed) ||
						       sealed != run->batch->segments[i].sealed_size)) {
			return sgpu_fail(error, SGPU_EINVALID, "the sealed size of segment '%s' is wrong", segment->id);
		}
		if (sgpu_segment_is_output(segment) && segment->writer < 0) {
			return sgpu_fail(error, SGPU_EINVALID, "no operation writes segment '%s'", segment->id);
		}
	}
	return SGPU_OK;
}

static int load_manifest(struct sgpu_run *run, struct sgpu_error *error)
{
	struct sgpu_faults faults = { 0 };
	int rc = sgpu_ops_load_manifest(run->batch->manifest_text, run->batch->manifest_size, "manifest.json",
					&run->manifest, &faults, error);

	sgpu_faults_clear(&faults);
	return rc;
}

static int check_memory(struct sgpu_run *run, struct sgpu_error *error)
{
	struct sgpu_device_info info;
	int rc = sgpu_device_get_info(run->device, &info, error);

	if (rc == SGPU_OK && run->plan->bytes > info.memory_free) {
		rc = sgpu_fail(error, SGPU_ENOMEM, "the batch needs %llu bytes of device memory and %llu are free",
			       (unsigned long long)run->plan->bytes, (unsigned long long)info.memory_free);
	}
	return rc;
}

/* The last thing that can refuse a batch, so that none is remembered that could have come again. Whoever was a recipient can
 * leave out one of two owners' signatures and make another MAC: so what is signed is remembered, too, under a name of its
 * own, and not the id of the owner alone. */
static int take_once(struct sgpu_run *run, struct sgpu_error *error)
{
	struct timespec now = { 0 };
	char content[SGPU_KID_SIZE + 1];
	uint64_t now_us;
	int rc;

	if (!run->options.replay) {
		return SGPU_OK;
	}
	if (!run->batch->has_mac) {
		return sgpu_fail(error, SGPU_EPOLICY, "the batch has no MAC, so it cannot be told from another");
	}
	clock_gettime(CLOCK_REALTIME, &now);
	now_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
	rc = sgpu_batch_content(run->batch, content, error);
	if (rc == SGPU_OK) {
		rc = sgpu_replay_take(run->options.replay, content, run->batch->id, run->batch->counter, now_us, error);
	}
	return rc != SGPU_OK ? rc : sgpu_replay_take(run->options.replay, run->owner, run->batch->id, run->batch->counter,
						     now_us, error);
}

int sgpu_run_admit(struct sgpu_run *run, struct sgpu_error *error)
{
	uint64_t begin = sgpu_now_ns();
	int rc = sgpu_batch_read_head(run->tar, false, &run->batch, error);

	sgpu_span_add(run, SGPU_SPAN_READ, -1, "batch.json", begin, sgpu_now_ns(), 0);
	if (rc == SGPU_OK && run->options.owners) {
		rc = sgpu_batch_owner(run->batch, run->options.owners, run->options.owner_count, run->owner, error);
	}
	if (rc == SGPU_OK) {
		rc = load_manifest(run, error);
	}
	if (rc == SGPU_OK) {
		rc = match_segments(run, error);
	}
	if (rc == SGPU_OK) {
		rc = check_policy(run, error);
	}
	if (rc == SGPU_OK) {
		rc = check_modules(run, error);
	}
	if (rc == SGPU_OK) {
		rc = authenticate(run, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_random(run->response_id, sizeof(run->response_id), error);
	}
	if (rc == SGPU_OK) {
		rc = check_sizes(run, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_plan_create(run->manifest, &run->plan, error);
	}
	if (rc == SGPU_OK) {
		rc = check_memory(run, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_run_setup(run, error);
	}
	if (rc == SGPU_OK) {
		rc = take_once(run, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_fetch_take(run, error);
	}
	return rc;
}
