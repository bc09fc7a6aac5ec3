/* SPDX-License-Identifier: Apache-2.0
 *
 * Small things that infer functions and CPU implementations share.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ops_private.h"

enum { COPY_GRAIN = 1 << 20, ROWS_GRAIN = 1 << 18 };

void sgpu_op_diagnose(struct sgpu_op_report *report, const char *argument, const char *param,
		      const char *format, ...)
{
	char text[SGPU_ERROR_TEXT_MAX];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	report->diagnostic(report, argument, param, text);
}

bool sgpu_ops_same_dtype(const struct sgpu_op_call *call, struct sgpu_op_report *report, int first,
			 int second)
{
	if (call->type[first].dtype == call->type[second].dtype) {
		return true;
	}
	sgpu_op_diagnose(report, call->op->args[second].name, NULL, "is %s, but '%s' is %s",
			 sgpu_dtype_name(call->type[second].dtype), call->op->args[first].name,
			 sgpu_dtype_name(call->type[first].dtype));
	return false;
}

bool sgpu_ops_same_extent(const struct sgpu_op_call *call, struct sgpu_op_report *report, int first,
			  int first_axis, int second, int second_axis)
{
	const uint64_t wanted = call->type[first].shape[first_axis],
		       extent = call->type[second].shape[second_axis];

	if (extent != wanted) {
		sgpu_op_diagnose(
			report, call->op->args[second].name, NULL,
			"axis %d has %" PRIu64 " elements, but axis %d of '%s' has %" PRIu64,
			second_axis, extent, first_axis, call->op->args[first].name, wanted);
	}
	return extent == wanted;
}

bool sgpu_ops_must_be(struct sgpu_op_call *call, struct sgpu_op_report *report, int argument,
		      const struct sgpu_type *want)
{
	struct sgpu_type *type = &call->type[argument];
	char is[SGPU_TYPE_TEXT_MAX], wanted[SGPU_TYPE_TEXT_MAX];

	if (call->present[argument] && type->dtype == SGPU_NONE) {
		*type = *want;
	}
	if (!call->present[argument] || sgpu_type_equal(type, want)) {
		return true;
	}
	sgpu_type_text(type, is);
	sgpu_type_text(want, wanted);
	sgpu_op_diagnose(report, call->op->args[argument].name, NULL, "is %s, must be %s", is,
			 wanted);
	return false;
}

void sgpu_ops_infer_same(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	for (int i = 1; call->op->args[i].name; i++) {
		if (sgpu_op_is_output(&call->op->args[i])) {
			call->type[i] = call->type[0];
		} else if (!sgpu_ops_must_be(call, report, i, &call->type[0])) {
			return;
		}
	}
}

struct sgpu_type sgpu_ops_type(enum sgpu_dtype dtype, int rank, const uint64_t *shape)
{
	struct sgpu_type type = { .dtype = dtype, .rank = rank };

	for (int i = 0; i < rank; i++) {
		type.shape[i] = shape[i];
	}
	return type;
}

uint64_t sgpu_ops_extent(const struct sgpu_type *type, int from, int to)
{
	uint64_t extent = 1;

	for (int i = from; i < to; i++) {
		extent *= type->shape[i];
	}
	return extent;
}

uint64_t sgpu_ops_count(const struct sgpu_type *type)
{
	return sgpu_ops_extent(type, 0, type->rank);
}

uint64_t sgpu_ops_parts_scratch(const struct sgpu_op_call *call)
{
	const struct sgpu_type *type = &call->type[0];
	const uint64_t width = type->shape[type->rank - 1];

	return width > SGPU_ROW_PART
		       ? sgpu_ops_extent(type, 0, type->rank - 1) * sgpu_ops_parts(width) * 16
		       : 0;
}

int sgpu_ops_for(struct sgpu_launch *launch, uint64_t count, uint64_t grain,
		 void (*body)(void *argument, uint64_t begin, uint64_t end), void *argument)
{
	int rc = sgpu_pool_for(launch->pool, count, grain, 0, body, argument);

	return rc ? sgpu_fail(launch->error, rc, "stopped on request") : 0;
}

struct moving {
	char *to;
	const char *from;
	const struct sgpu_move_axis *axis;
	uint64_t width, parts; /* of a row: bytes, and parts of COPY_GRAIN */
	size_t size;
};

static void move_rows(void *argument, uint64_t begin, uint64_t end)
{
	const struct moving *job = argument;
	const struct sgpu_move_axis *a = job->axis;

	for (uint64_t item = begin; item < end; item++) {
		uint64_t row = item / job->parts, at = item % job->parts * COPY_GRAIN;
		uint64_t z = row % a[2].extent, y = row / a[2].extent % a[1].extent,
			 x = row / a[2].extent / a[1].extent;

		memcpy(job->to + (x * a[0].to + y * a[1].to + z * a[2].to) * job->size + at,
		       job->from + (x * a[0].from + y * a[1].from + z * a[2].from) * job->size + at,
		       sgpu_ops_min(job->width - at, COPY_GRAIN));
	}
}

int sgpu_ops_move_rows(struct sgpu_launch *launch, void *to, const void *from,
		       const struct sgpu_move *move, size_t size)
{
	const struct sgpu_move_axis *a = move->axis;
	uint64_t width = a[3].extent * size;
	struct moving job = { to, from, a, width, sgpu_ops_ceil(width, COPY_GRAIN), size };

	return sgpu_ops_for(launch, a[0].extent * a[1].extent * a[2].extent * job.parts,
			    sgpu_ops_grain(sgpu_ops_min(width, COPY_GRAIN), ROWS_GRAIN), move_rows,
			    &job);
}

int sgpu_ops_copy_bytes(struct sgpu_launch *launch, void *to, const void *from, uint64_t bytes)
{
	const struct sgpu_move row = { { { 1, 0, 0 }, { 1, 0, 0 }, { 1, 0, 0 }, { bytes, 1, 1 } } };

	return sgpu_ops_move_rows(launch, to, from, &row, 1);
}
