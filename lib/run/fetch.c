/* SPDX-License-Identifier: Apache-2.0
 *
 * Who brings what: inline payloads come in the order of the tar, those in files and regions on a thread of their
 * own, so that neither waits for the other.
 */
#include "run/inputs.h"

#include "run/transfers.h"

static bool is_input(const struct sgpu_transfers *run, int in_batch)
{
	return sgpu_segment_is_input(&run->job->manifest->segments[run->job->to_manifest[in_batch]]);
}

static bool is_elsewhere(const struct sgpu_transfers *run, int in_batch)
{
	enum sgpu_location_kind kind = run->job->batch->segments[in_batch].location.kind;

	return is_input(run, in_batch) && (kind == SGPU_LOCATION_FILE || kind == SGPU_LOCATION_REGION);
}

static int read_tar(const struct sgpu_load_source *source, uint64_t position, void *data, size_t size,
		    struct sgpu_error *error)
{
	(void)position;
	return sgpu_tar_read(source->tar, data, size, error);
}

int sgpu_inputs_read(struct sgpu_transfers *run, struct sgpu_tar_reader *tar, struct sgpu_error *error)
{
	struct sgpu_load_source source = { .read = read_tar, .fatal = true, .tar = tar };
	int in_batch = -1, rc;

	do {
		rc = sgpu_batch_next_payload(tar, run->job->batch, &in_batch, error);
		if (rc == SGPU_OK && in_batch >= 0) {
			rc = sgpu_load_segment(&run->loaders[0], run->job->to_manifest[in_batch], &source, error);
		}
	} while (rc == SGPU_OK && in_batch >= 0);
	return rc;
}

bool sgpu_inputs_elsewhere(const struct sgpu_transfers *run)
{
	for (int i = 0; i < run->job->batch->segment_count; i++) {
		if (is_elsewhere(run, i)) {
			return true;
		}
	}
	return false;
}

int sgpu_inputs_lease(struct sgpu_run_base *base, const struct sgpu_files *files, struct sgpu_error *error)
{
	const struct sgpu_batch *batch = base->job->batch;
	int rc = sgpu_leases_create(files, &base->leases, error);

	for (int i = 0; rc == SGPU_OK && i < batch->segment_count; i++) {
		struct sgpu_source source = { .fd = -1 };

		/* What cannot be taken is told of when the payload is fetched. */
		if (batch->segments[i].location.kind == SGPU_LOCATION_REGION &&
		    sgpu_leases_source(base->leases, &batch->segments[i].location, 0, false, &source, NULL) == SGPU_OK) {
			sgpu_source_close(&source);
		}
	}
	return rc;
}

static int read_file(const struct sgpu_load_source *source, uint64_t position, void *data, size_t size,
		     struct sgpu_error *error)
{
	return sgpu_move_read(source->movers, source->file, position, data, size, error);
}

static void fetch_one(struct sgpu_transfers *run, int in_batch)
{
	struct sgpu_source file = { .fd = -1 };
	struct sgpu_load_source source = { .read = read_file, .file = &file };
	struct sgpu_error error = { 0 };
	uint64_t size = sgpu_batch_payload_size(run->job->batch, in_batch);
	int segment = run->job->to_manifest[in_batch];
	int rc = atomic_load(&run->base->stop);

	if (rc == SGPU_OK) {
		rc = sgpu_leases_source(run->base->leases, &run->job->batch->segments[in_batch].location, size, false, &file,
					&error);
	}
	if (rc != SGPU_OK) {
		sgpu_load_miss(run, segment, rc, error.text);
		sgpu_source_close(&file);
		return;
	}
	source.movers = sgpu_movers(run, size);
	if (sgpu_load_segment(&run->loaders[1], segment, &source, NULL) != SGPU_OK) {
		sgpu_run_stop(run->base, SGPU_ESYSTEM); /* no failure of a file is fatal, so this does not happen */
	}
	sgpu_source_close(&file);
}

void sgpu_inputs_fetch(struct sgpu_transfers *run)
{
	for (int i = 0; i < run->job->batch->segment_count; i++) {
		if (is_elsewhere(run, i)) {
			fetch_one(run, i);
		}
	}
}

void sgpu_inputs_miss(struct sgpu_transfers *run, bool elsewhere, int code, const char *text)
{
	for (int i = 0; i < run->job->batch->segment_count; i++) {
		int segment = run->job->to_manifest[i];

		if (is_input(run, i) && is_elsewhere(run, i) == elsewhere && !run->segments[segment].loaded) {
			sgpu_load_miss(run, segment, code, text);
		}
	}
}
