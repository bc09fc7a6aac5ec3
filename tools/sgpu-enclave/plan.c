/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan of a batch, for --plan: what would run where and in which memory. Nothing is
 * authenticated, since only the head is read and no key is asked for.
 */
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include <sgpu/batch.h>

#include "base/io.h"
#include "batch/batch.h"
#include "enclave.h"

struct planned {
	struct sgpu_batch *batch;
	struct sgpu_manifest *manifest;
	struct sgpu_plan *plan;
};

static json_t *operations_json(const struct planned *p)
{
	json_t *list = json_array();

	for (int i = 0; i < p->manifest->operation_count; i++) {
		int index = p->manifest->order[i];
		const struct sgpu_operation *op = &p->manifest->operations[index];
		json_t *after = json_array();

		for (int k = 0; k < op->before_count; k++) {
			json_array_append_new(
				after, json_string(p->manifest->operations[op->before[k]].id));
		}
		json_array_append_new(list,
				      json_pack("{s:s, s:s, s:i, s:i, s:o}", "gpu_operation_id",
						op->id, "kernel", op->kernel, "device",
						p->plan->operations[index].device, "stream",
						p->plan->operations[index].stream, "after", after));
	}
	return list;
}

/* Removes a list from the plan, and prints it. */
static void print_list(FILE *out, json_t *plan, const char *name, const char *columns)
{
	fprintf(out, "%s\n", name);
	cli_table(out, json_object_get(plan, name), columns);
	fputc('\n', out);
	json_object_del(plan, name);
}

static int print_plan(const struct planned *p, const char *path, struct sgpu_error *error)
{
	json_t *moves = json_array(), *buffers = json_array(), *plan;
	char *text = NULL;
	size_t size = 0;
	FILE *out;
	int rc;

	for (int i = 0; i < p->plan->move_count; i++) {
		const struct sgpu_plan_move *move = &p->plan->moves[i];
		const struct sgpu_segment *segment = &p->manifest->segments[move->segment];
		uint64_t bytes = 0;

		(void)!sgpu_type_bytes(&segment->type, &bytes);
		json_array_append_new(moves, json_pack("{s:s, s:i, s:i, s:I}", "segment_id",
						       segment->id, "from", move->from, "to",
						       move->to, "bytes", (json_int_t)bytes));
	}
	for (int i = 0; i < p->plan->buffer_count; i++) {
		json_array_append_new(buffers, json_pack("{s:I, s:i}", "size",
							 (json_int_t)p->plan->buffers[i].size,
							 "device", p->plan->buffers[i].device));
	}
	plan = json_pack("{s:i, s:i, s:o, s:o, s:o, s:I, s:I}", "devices", p->plan->device_count,
			 "streams", p->plan->stream_count, "operations", operations_json(p),
			 "moves", moves, "buffers", buffers, "device_memory_bytes",
			 (json_int_t)p->plan->bytes, "device_memory_bytes_unshared",
			 (json_int_t)p->plan->bytes_unshared);

	if (cli_json) {
		return cli_write_json(path, 0666, plan, error);
	}
	out = open_memstream(&text, &size);
	if (out) {
		print_list(out, plan, "operations", "gpu_operation_id kernel device stream after");
		print_list(out, plan, "buffers", "device size");
		print_list(out, plan, "moves", "segment_id from to bytes");
		cli_record(out, plan);
	}
	json_decref(plan);
	rc = out && fclose(out) == 0 ? SGPU_OK : sgpu_fail_nomem(error);
	rc = rc ? rc : cli_write_text(path, 0666, text, size, error);
	free(text);
	return rc;
}

static int fetch(void *argument, char **text, size_t *size, struct sgpu_error *error)
{
	const int fd = *(int *)argument;

	return fd >= 0 ? sgpu_read_fd(fd, "the manifest", SGPU_MANIFEST_SIZE_MAX, text, size, error)
		       : sgpu_fail(error, SGPU_EMANIFEST,
				   "the batch names its manifest by the hash alone: give it with "
				   "--manifest");
}

int write_plan(int fd, const char *name, int manifest, int devices, const char *path,
	       struct sgpu_error *error)
{
	const struct sgpu_manifest_source source = { NULL, fetch, &manifest };
	struct planned p = { NULL, NULL, NULL };
	struct sgpu_tar_reader *tar = NULL;
	struct sgpu_diagnostics diagnostics = { 0 };
	int rc = sgpu_tar_open(fd, name, &tar, error);

	rc = rc ? rc : sgpu_batch_read_seal(tar, SGPU_READ_BATCH, &p.batch, error);
	rc = rc ? rc : sgpu_batch_read_index(tar, p.batch, error);
	rc = rc ? rc : sgpu_batch_read_rest(tar, p.batch, &source, error);
	rc = rc ? rc
		: sgpu_ops_load_manifest(p.batch->manifest_text, p.batch->manifest_size,
					 "manifest.json", &p.manifest, &diagnostics, error);
	if (rc == SGPU_OK) {
		sgpu_plan_sizes(p.manifest, p.batch);
		rc = sgpu_plan_create(p.manifest, devices, &SGPU_PLAN_COSTS, &p.plan, error);
	}
	rc = rc ? rc : print_plan(&p, path, error);
	sgpu_diagnostics_clear(&diagnostics);
	sgpu_tar_close(&tar);
	sgpu_plan_free(&p.plan);
	sgpu_manifest_free(&p.manifest);
	sgpu_batch_free(&p.batch);
	return rc;
}
