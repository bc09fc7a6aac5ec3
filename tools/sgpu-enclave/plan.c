/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan of a batch, for --plan: what would run where and in which memory. Nothing is
 * authenticated, since only the head is read and no key is asked for.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include <sgpu/batch.h>

#include "base/io.h"
#include "batch/batch.h"
#include "cli.h"
#include "enclave.h"

struct planned {
	struct sgpu_batch *batch;
	struct sgpu_manifest *manifest;
	struct sgpu_plan *plan;
};

/* ---- the tenants of a buffer: what it holds, one after the other ---- */
static void add_tenant(json_t *buffers, int buffer, const char *kind, const char *id)
{
	json_t *tenants = json_object_get(json_array_get(buffers, (size_t)buffer), "tenants");

	json_array_append_new(tenants, json_pack("{s:s, s:s}", "kind", kind, "id", id));
}

static void add_moves(const struct planned *p, int segment, json_t *buffers)
{
	for (int i = p->plan->first_move[segment]; i >= 0; i = p->plan->moves[i].next) {
		add_tenant(buffers, p->plan->moves[i].to_buffer, "moved",
			   p->manifest->segments[segment].id);
	}
}

static void add_tenants(const struct planned *p, json_t *buffers)
{
	const struct sgpu_manifest *m = p->manifest;

	for (int i = 0; i < m->segment_count; i++) {
		if (p->plan->in_buffer[i] >= 0) {
			add_tenant(buffers, p->plan->in_buffer[i], "arrives", m->segments[i].id);
			add_moves(p, i, buffers);
		}
	}
	for (int i = 0; i < m->operation_count; i++) {
		const struct sgpu_operation *op = &m->operations[m->order[i]];

		for (int k = 0; k < op->arg_count; k++) {
			if (op->args[k].output) {
				add_tenant(buffers, p->plan->out_buffer[op->args[k].segment],
					   "written", m->segments[op->args[k].segment].id);
				if (p->plan->in_buffer[op->args[k].segment] < 0) {
					add_moves(p, op->args[k].segment, buffers);
				}
			}
		}
		if (p->plan->scratch_buffer[m->order[i]] >= 0) {
			add_tenant(buffers, p->plan->scratch_buffer[m->order[i]], "scratch",
				   op->id);
		}
	}
}

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
		json_array_append_new(
			list, json_pack("{s:s, s:s, s:i, s:i, s:o}", "gpu_operation_id", op->id,
					"kernel", op->kernel, "device", p->plan->device[index],
					"stream", p->plan->stream[index], "after", after));
	}
	return list;
}

static uint64_t bytes_of(const struct planned *p, int segment)
{
	uint64_t bytes = 0;

	return sgpu_type_bytes(&p->manifest->segments[segment].type, &bytes) ? bytes : 0;
}

static json_t *moves_json(const struct planned *p)
{
	json_t *list = json_array();

	for (int i = 0; i < p->plan->move_count; i++) {
		const struct sgpu_plan_move *move = &p->plan->moves[i];

		json_array_append_new(list, json_pack("{s:s, s:i, s:i, s:I}", "segment_id",
						      p->manifest->segments[move->segment].id,
						      "from", move->from, "to", move->to, "bytes",
						      (json_int_t)bytes_of(p, move->segment)));
	}
	return list;
}

static json_t *buffers_json(const struct planned *p)
{
	json_t *buffers = json_array();

	for (int i = 0; i < p->plan->buffer_count; i++) {
		json_array_append_new(buffers, json_pack("{s:I, s:i, s:o}", "size",
							 (json_int_t)p->plan->buffers[i].size,
							 "device", p->plan->buffers[i].device,
							 "tenants", json_array()));
	}
	add_tenants(p, buffers);
	return buffers;
}

static void print_buffers(FILE *out, const struct planned *p)
{
	json_t *buffers = buffers_json(p), *buffer, *tenant;
	size_t i, k;

	json_array_foreach (buffers, i, buffer) {
		fprintf(out, "%6zu %16" PRIu64 "  ", i, p->plan->buffers[i].size);
		json_array_foreach (json_object_get(buffer, "tenants"), k, tenant) {
			const char kind = *json_string_value(json_object_get(tenant, "kind"));

			fprintf(out, "%s%s", k ? ", then " : "", kind == 's' ? "scratch of " : "");
			cli_print_text(out, json_string_value(json_object_get(tenant, "id")));
			fputs(kind == 'a' ? " (arrives)" : kind == 'm' ? " (moved)" : "", out);
		}
		fputc('\n', out);
	}
	json_decref(buffers);
}

static void print_moves(FILE *out, const struct planned *p)
{
	fprintf(out, "\n%-24s %4s %4s %16s\n", "SEGMENT THAT MOVES", "FROM", "TO", "BYTES");
	for (int i = 0; i < p->plan->move_count; i++) {
		const struct sgpu_plan_move *move = &p->plan->moves[i];

		fprintf(out, "%-24s %4d %4d %16" PRIu64 "\n",
			p->manifest->segments[move->segment].id, move->from, move->to,
			bytes_of(p, move->segment));
	}
	fprintf(out, "\n%6s %16s\n", "DEVICE", "BYTES");
	for (int i = 0; i < p->plan->device_count; i++) {
		uint64_t bytes = 0;

		for (int k = 0; k < p->plan->buffer_count; k++) {
			bytes += p->plan->buffers[k].device == i ? p->plan->buffers[k].size : 0;
		}
		fprintf(out, "%6d %16" PRIu64 "\n", i, bytes);
	}
}

/* With several devices, a stream is named by its device and its number there. */
static void print_text(FILE *out, const struct planned *p)
{
	const int devices = p->plan->device_count;

	fprintf(out, "%5s %s%6s  %-24s %-16s %s\n", "ORDER", devices > 1 ? "DEVICE " : "", "STREAM",
		"OPERATION", "KERNEL", "AFTER");
	for (int i = 0; i < p->manifest->operation_count; i++) {
		int index = p->manifest->order[i];
		const struct sgpu_operation *op = &p->manifest->operations[index];

		fprintf(out, "%5d ", i);
		if (devices > 1) {
			fprintf(out, "%6d ", p->plan->device[index]);
		}
		fprintf(out, "%6d  %-24s %-16s%s", p->plan->stream[index] / devices, op->id,
			op->kernel, op->before_count ? " " : "");
		for (int k = 0; k < op->before_count; k++) {
			fprintf(out, "%s%s", k ? ", " : "",
				p->manifest->operations[op->before[k]].id);
		}
		fputc('\n', out);
	}
	fprintf(out, "\n%6s %16s  %s\n", "BUFFER", "BYTES", "WHO LIVES IN IT");
	print_buffers(out, p);
	if (devices > 1) {
		print_moves(out, p);
		fprintf(out,
			"\ndevices: %d, moves: %d, buffers: %d, device memory: %" PRIu64
			" bytes (%" PRIu64 " without reuse)\n",
			devices, p->plan->move_count, p->plan->buffer_count, p->plan->bytes,
			p->plan->bytes_unshared);
		return;
	}
	fprintf(out,
		"\nstreams: %d, buffers: %d, device memory: %" PRIu64 " bytes (%" PRIu64
		" without reuse)\n",
		p->plan->stream_count, p->plan->buffer_count, p->plan->bytes,
		p->plan->bytes_unshared);
}

static int print_plan(const struct planned *p, const char *path, struct sgpu_error *error)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	json_t *object;
	int rc;

	if (!out) {
		return sgpu_fail_nomem(error);
	}
	if (cli_json) {
		object = json_pack("{s:i, s:i, s:o, s:o, s:o, s:I, s:I}", "devices",
				   p->plan->device_count, "streams", p->plan->stream_count,
				   "operations", operations_json(p), "moves", moves_json(p),
				   "buffers", buffers_json(p), "device_memory_bytes",
				   (json_int_t)p->plan->bytes, "device_memory_bytes_unshared",
				   (json_int_t)p->plan->bytes_unshared);
		json_dumpf(object, out, JSON_INDENT(2));
		fputc('\n', out);
		json_decref(object);
	} else {
		print_text(out, p);
	}
	rc = fclose(out) == 0 ? SGPU_OK : sgpu_fail_nomem(error);
	rc = rc ? rc : cli_write_text(path, 0666, text, size, error);
	free(text);
	return rc;
}

static const struct sgpu_manifest *find_none(void *argument, const uint8_t *sha256)
{
	(void)argument;
	(void)sha256;
	return NULL;
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
	const struct sgpu_manifest_source source = { find_none, fetch, &manifest };
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
		rc = sgpu_plan_create(p.manifest, devices, &p.plan, error);
	}
	rc = rc ? rc : print_plan(&p, path, error);
	sgpu_diagnostics_clear(&diagnostics);
	sgpu_tar_close(&tar);
	sgpu_plan_free(&p.plan);
	sgpu_manifest_free(&p.manifest);
	sgpu_batch_free(&p.batch);
	return rc;
}
