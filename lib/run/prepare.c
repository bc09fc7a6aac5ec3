/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs that are prepared before their first batch: the checks of a manifest that need no batch.
 */
#include <inttypes.h>
#include <string.h>

#include <sgpu/base.h>

#include "run/prepared.h"
#include "run/runner.h"

/* What a device of the plan needs, at most. Batches begin on different devices: any may have to have it. */
static uint64_t largest_share(const struct sgpu_plan *plan)
{
	uint64_t most = 0;

	for (int device = 0; device < plan->device_count; device++) {
		uint64_t bytes = 0;

		for (int i = 0; i < plan->buffer_count; i++) {
			bytes += plan->buffers[i].device == device ? plan->buffers[i].size : 0;
		}
		most = bytes > most ? bytes : most;
	}
	return most;
}

/* A batch of it would only fail. */
static int check_device(const struct sgpu_runner *runner, int device, const struct sgpu_prepared *prepared,
			struct sgpu_error *error)
{
	const struct sgpu_manifest *m = prepared->manifest;
	const uint64_t bytes = largest_share(prepared->plan);
	struct sgpu_device_info info;
	char kind[sizeof(info.selector)];
	int rc = sgpu_device_get_info(runner->devices[device].device, &info, error);

	if (rc < 0) {
		return rc;
	}
	memcpy(kind, info.selector, sizeof(kind));
	kind[strcspn(kind, ":")] = '\0';
	for (int i = 0; info.opens_on_device && i < m->operation_count; i++) {
		if (!m->operations[i].module && !sgpu_device_kind_op(kind, m->operations[i].kernel)) {
			return sgpu_fail(error, SGPU_EINVALID, "operation '%s': device '%s' has no '%s'", m->operations[i].id,
					 info.selector, m->operations[i].kernel);
		}
	}
	if (bytes > info.memory_total) {
		return sgpu_fail(error, SGPU_EINVALID, "the job takes %" PRIu64 " bytes of device memory, and device '%s' has %"
				 PRIu64, bytes, info.selector, (uint64_t)info.memory_total);
	}
	return SGPU_OK;
}

int sgpu_runner_prepare(struct sgpu_runner *runner, const char *text, size_t size, const char *name,
			struct sgpu_prepared_job *job, struct sgpu_error *error)
{
	struct sgpu_diagnostics diagnostics = { 0 };
	struct sgpu_manifest *manifest = NULL;
	struct sgpu_prepared *prepared = NULL;
	int rc = sgpu_ops_load_manifest(text, size, name, &manifest, &diagnostics, error);

	sgpu_diagnostics_clear(&diagnostics);
	if (rc < 0) {
		return rc;
	}
	prepared = sgpu_prepared_create(&manifest);
	if (!prepared) {
		return sgpu_fail_nomem(error);
	}
	rc = sgpu_prepared_plan(prepared, &runner->traits, error);
	if (rc < 0) {
		goto out;
	}
	for (int i = 0; rc == SGPU_OK && i < runner->device_count; i++) {
		rc = check_device(runner, i, prepared, error);
	}
	if (rc < 0) {
		goto out;
	}
	rc = sgpu_prepared_pin(runner->prepared, prepared, error);
	if (rc < 0) {
		goto out;
	}
	*job = (struct sgpu_prepared_job){ .pinned = true, .operations = prepared->manifest->operation_count,
					   .streams = prepared->plan->stream_count, .device_bytes = prepared->plan->bytes };
	memcpy(job->sha256, prepared->manifest->sha256, sizeof(job->sha256));
out:
	sgpu_prepared_drop(&prepared);
	return rc;
}

int sgpu_runner_forget(struct sgpu_runner *runner, const uint8_t sha256[SGPU_SHA256_SIZE], struct sgpu_error *error)
{
	return sgpu_prepared_forget(runner->prepared, sha256) ? SGPU_OK :
	       sgpu_fail(error, SGPU_EINVALID, "no job of that digest is kept");
}

int sgpu_runner_list_prepared(struct sgpu_runner *runner, struct sgpu_prepared_job jobs[SGPU_PREPARED_MAX])
{
	return sgpu_prepared_list(runner->prepared, jobs);
}
