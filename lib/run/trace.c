/* SPDX-License-Identifier: Apache-2.0
 *
 * What was done when: spans for the trace, and their sums for statistics and for the response's timings.
 */
#include <stdlib.h>
#include <string.h>

#include "run/run.h"

const char *sgpu_span_name(enum sgpu_span_kind kind)
{
	static const char *const names[SGPU_SPAN_KINDS] = {
		[SGPU_SPAN_READ] = "read",     [SGPU_SPAN_COPY_IN] = "copy_in",   [SGPU_SPAN_OPEN] = "open",
		[SGPU_SPAN_KERNEL] = "kernel", [SGPU_SPAN_SEAL] = "seal",         [SGPU_SPAN_COPY_OUT] = "copy_out",
		[SGPU_SPAN_WRITE] = "write",
	};

	return (unsigned)kind < SGPU_SPAN_KINDS ? names[kind] : "unknown";
}

/* A trace that memory has no room for is cut short; the sums stay right. */
static void record(struct sgpu_run *run, const struct sgpu_span *span)
{
	if (run->span_count == run->span_capacity) {
		size_t capacity = run->span_capacity ? 2 * run->span_capacity : 256;
		struct sgpu_span *spans = realloc(run->spans, capacity * sizeof(*spans));

		if (!spans) {
			return;
		}
		run->spans = spans;
		run->span_capacity = capacity;
	}
	run->spans[run->span_count++] = *span;
}

void sgpu_span_add(struct sgpu_run *run, enum sgpu_span_kind kind, int row, const char *label, uint64_t begin_ns,
		   uint64_t end_ns, uint64_t bytes)
{
	struct sgpu_span span = { kind, row, label, begin_ns, end_ns, bytes };

	if (end_ns < begin_ns || begin_ns == 0) {
		return; /* it never ran */
	}
	pthread_mutex_lock(&run->span_mutex);
	run->totals[kind].count++;
	run->totals[kind].ns += end_ns - begin_ns;
	run->totals[kind].bytes += bytes;
	if (run->options.spans) {
		record(run, &span);
	}
	pthread_mutex_unlock(&run->span_mutex);
}

static int by_begin(const void *a, const void *b)
{
	const struct sgpu_span *x = a, *y = b;

	if (x->begin_ns != y->begin_ns) {
		return x->begin_ns < y->begin_ns ? -1 : 1;
	}
	return x->stream < y->stream ? -1 : x->stream > y->stream;
}

void sgpu_span_sort(struct sgpu_run *run)
{
	if (run->span_count > 1) {
		qsort(run->spans, run->span_count, sizeof(*run->spans), by_begin);
	}
}

void sgpu_run_get_spans(const struct sgpu_run *run, const struct sgpu_span **spans, size_t *count)
{
	*spans = run->spans;
	*count = run->span_count;
}

void sgpu_run_get_totals(const struct sgpu_run *run, struct sgpu_run_total totals[SGPU_SPAN_KINDS])
{
	memcpy(totals, run->totals, sizeof(run->totals));
}

static bool opens(const struct sgpu_run *run, int row)
{
	for (int i = 0; i < SGPU_RUN_LOADERS; i++) {
		const struct sgpu_run_loader *loader = &run->loaders[i];

		if (loader->apart && row == loader->first_row + loader->copy_count) {
			return true;
		}
	}
	return false;
}

static bool seals(const struct sgpu_run *run, int row)
{
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(run->lanes); i++) {
		if (run->lanes[i].seal_row == row && run->lanes[i].copy_row != row) {
			return true;
		}
	}
	return false;
}

const char *sgpu_run_row_name(const struct sgpu_run *run, int row, int *number)
{
	*number = row;
	if (row < run->rows.operations) {
		return "stream";
	}
	*number -= run->rows.operations;
	if (*number < run->rows.inputs) {
		return opens(run, row) ? "open" : "copy in";
	}
	*number -= run->rows.inputs;
	return seals(run, row) ? "seal" : "copy out";
}
