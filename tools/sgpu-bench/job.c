/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs, and the manifests that they are made from.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/stage.h>

#include "job.h"

static void end_job(struct sgpu_bench *bench, uintptr_t what, uint64_t size)
{
	struct job *job = (struct job *)what;

	(void)bench, (void)size;
	if (job->region[0]) {
		(void)!sgpu_region_release(job->region, NULL);
	}
	close(job->batch_fd);
	close(job->response_fd);
	json_decref(job->segments);
	json_decref(job->operations);
	json_decref(job->inputs);
	sgpu_batch_free(&job->batch);
	sgpu_key_clear(&job->owner);
	sgpu_wipe(job->key, sizeof(job->key));
}

int job_new(struct sgpu_bench *bench, bool sealed, struct job **job, struct sgpu_error *error)
{
	void *memory = NULL;
	int rc = sgpu_bench_new(bench, sizeof(**job), &memory, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	*job = memory;
	**job = (struct job){ .sealed = sealed,
			      .batch_fd = -1,
			      .response_fd = -1,
			      .segments = json_array(),
			      .operations = json_array(),
			      .inputs = json_object() };
	rc = sgpu_bench_keep(bench, end_job, (uintptr_t)memory, 0, error);
	rc = rc ? rc : sgpu_key_generate(SGPU_KEY_OCT, &(*job)->owner, error);
	return rc ? rc : sgpu_random((*job)->key, sizeof((*job)->key), error);
}

/* ---- the manifest ---- */
void job_data(struct job *job, const char *id, const void *data)
{
	json_object_set_new(job->inputs, id, json_integer((json_int_t)(uintptr_t)data));
}

void job_segment(struct job *job, enum job_kind kind, const char *id, struct job_type type,
		 const void *data)
{
	static const char *const directions[] = { "INPUT", "INTERMEDIATE", "OUTPUT" };
	json_t *segment = json_pack("{s:s, s:s, s:s}", "segment_id", id, "sensitivity_level",
				    job->sealed ? "HIGH" : "LOW", "direction", directions[kind]);

	if (kind != JOB_BETWEEN) {
		json_object_set_new(segment, "data_location_client", json_string(id));
		json_object_set_new(segment, "data_type_info",
				    json_pack(type.shape[1] ? "{s:s, s:[I, I]}" : "{s:s, s:[I]}",
					      "dtype", type.dtype, "shape",
					      (json_int_t)type.shape[0],
					      (json_int_t)type.shape[1]));
	}
	json_array_append_new(job->segments, segment);
	if (kind == JOB_INPUT) {
		job_data(job, id, data);
	}
}

void job_operation(struct job *job, const char *id, const char *kernel, json_t *arguments,
		   json_t *params, const char *after)
{
	json_t *operation = json_pack("{s:s, s:s, s:o, s:o*}", "gpu_operation_id", id, "kernel",
				      kernel, "arguments", arguments, "params", params);

	if (after) {
		json_object_set_new(operation, "dependencies", json_pack("[s]", after));
	}
	json_array_append_new(job->operations, operation);
}

void job_copies(struct job *job, int count, uint64_t size, const void *data)
{
	const struct job_type type = { "u8", { size } };
	char in[24], out[24], id[24];

	for (int i = 0; i < count; i++) {
		snprintf(in, sizeof(in), "in%d", i);
		snprintf(out, sizeof(out), "out%d", i);
		snprintf(id, sizeof(id), "OP%d", i);
		job_segment(job, JOB_INPUT, in, type, data);
		job_segment(job, JOB_OUTPUT, out, type, NULL);
		job_operation(job, id, "copy", json_pack("{s:s, s:s}", "input", in, "output", out),
			      NULL, NULL);
	}
}

void job_chains(struct job *job, int chains, int length, struct job_type type, const float *a,
		const float *b, bool in_a_row)
{
	char from[32], to[32], id[32] = "", before[32];

	job_segment(job, JOB_INPUT, "a", type, a);
	job_segment(job, JOB_INPUT, "b", type, b);
	for (int c = 0; c < chains; c++) {
		snprintf(from, sizeof(from), "a");
		for (int i = 0; i < length; i++) {
			memcpy(before, id, sizeof(before));
			snprintf(to, sizeof(to), "x%d_%d", c, i);
			snprintf(id, sizeof(id), "ADD%d_%d", c, i);
			job_segment(job, i < length - 1 ? JOB_BETWEEN : JOB_OUTPUT, to, type, NULL);
			job_operation(
				job, id, "vector_add",
				json_pack("{s:s, s:s, s:s}", "a", from, "b", "b", "output", to),
				NULL, in_a_row && c > 0 && i == 0 ? before : NULL);
			memcpy(from, to, sizeof(from));
		}
	}
}

char *job_manifest(const struct job *job)
{
	json_t *document = json_pack("{s:i, s:s, s:O, s:O}", "version", 1, "manifest_id", "bench",
				     "segments", job->segments, "operations", job->operations);
	char *text = document ? json_dumps(document, JSON_COMPACT) : NULL;

	json_decref(document);
	return text;
}
