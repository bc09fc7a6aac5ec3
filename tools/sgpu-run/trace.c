/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace: Chrome's trace event format, complete events ("X") in microseconds, a row (tid) for
 * the host, for each stream and for moves between two devices, named by metadata events. Labels are
 * ids, which need no escaping.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <sgpu/io.h>

#include "report.h"

static void print_name(FILE *out, const char *kind, int tid, int device, const char *name,
		       int number)
{
	fprintf(out, "{\"name\":\"%s\",\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"args\":{\"name\":\"",
		kind, tid);
	if (device >= 0) {
		fprintf(out, "device %d, ", device);
	}
	fprintf(out, "%s", name);
	if (number >= 0) {
		fprintf(out, " %d", number);
	}
	fprintf(out, "\"}},\n");
	if (kind[0] == 't') {
		fprintf(out,
			"{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":1,\"tid\":%d,"
			"\"args\":{\"sort_index\":%d}},\n",
			tid, tid);
	}
}

/* Rows without a span stay unnamed: the streams are only made when they are used. */
static void print_rows(FILE *out, const struct sgpu_run *run, const struct sgpu_span *spans,
		       size_t count)
{
	struct sgpu_run_rows rows;
	int total;
	bool *used;

	sgpu_run_get_rows(run, &rows);
	total = rows.operations + rows.inputs + rows.outputs + rows.moves;
	used = calloc((size_t)total + 1, sizeof(*used));
	for (size_t i = 0; used && i < count; i++) {
		used[spans[i].stream + 1] = true;
	}
	print_name(out, "process_name", 0, -1, "sgpu-run", -1);
	print_name(out, "thread_name", 0, -1, "host", -1);
	for (int i = 0; used && i < total; i++) {
		if (used[i + 1]) {
			int number, device;
			const char *name = sgpu_run_row_name(run, i, &number, &device);

			print_name(out, "thread_name", i + 1, device, name, number);
		}
	}
	free(used);
}

static void print_span(FILE *out, const struct sgpu_span *span, uint64_t zero)
{
	uint64_t begin = span->begin_ns - zero, length = span->end_ns - span->begin_ns;
	const char *kind = sgpu_span_name(span->kind);

	fprintf(out, "{\"name\":\"%s %s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":%d,", kind,
		span->label, kind, span->stream + 1);
	fprintf(out, "\"ts\":%" PRIu64 ".%03" PRIu64 ",\"dur\":%" PRIu64 ".%03" PRIu64 ",",
		begin / 1000, begin % 1000, length / 1000, length % 1000);
	fprintf(out, "\"args\":{\"%s\":\"%s\",\"bytes\":%" PRIu64 "}},\n",
		span->kind == SGPU_SPAN_KERNEL ? "operation" : "segment", span->label, span->bytes);
}

static void print_trace(FILE *out, const struct sgpu_run *run)
{
	const struct sgpu_span *spans;
	size_t count;

	sgpu_run_get_spans(run, &spans, &count);
	fprintf(out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
	print_rows(out, run, spans, count);
	for (size_t i = 0; i < count; i++) {
		print_span(out, &spans[i], spans[0].begin_ns);
	}
	/* A last event that needs no comma behind it. */
	fprintf(out, "{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":1,\"args\":{\"sort_"
		     "index\":0}}\n]}\n");
}

int report_trace(const struct sgpu_run *run, const struct sgpu_output *output,
		 struct sgpu_error *error)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	int rc;

	if (!out) {
		return sgpu_fail_nomem(error);
	}
	print_trace(out, run);
	if (fclose(out) != 0) {
		free(text);
		return sgpu_fail_nomem(error);
	}
	rc = sgpu_write(output->fd, output->path, text, size, error);
	free(text);
	return rc;
}
