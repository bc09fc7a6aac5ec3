/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks a manifest and infers its open types (sgpu_ops_check). An operation with a diagnostic
 * leaves the types of its outputs unknown. Operations that need them are skipped silently, so that
 * one mistake gives one diagnostic.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops_private.h"

static void unknown_kernel(struct sgpu_ops_checker *checker)
{
	const struct sgpu_op *const *table = sgpu_ops();
	const char *names[64] = { NULL }, *hint;
	char text[SGPU_HINT_MAX];

	for (size_t i = 0; table[i] && i + 1 < SGPU_ARRAY_LENGTH(names); i++) {
		names[i] = table[i]->name;
	}
	hint = sgpu_reader_hint(checker->operation->kernel, names, text);
	sgpu_ops_report(checker, "kernel", NULL,
			hint ? hint : "'sgpu-manifest ops' lists the operations",
			"'%s' is not an operation", checker->operation->kernel);
}

/* Finds each argument's segment: -1 if the argument is absent, -2 if it is wrong. Without an
 * output, reports a diagnostic and returns false. */
static bool place_arguments(struct sgpu_ops_checker *checker, struct sgpu_op_call *call,
			    int segment[SGPU_ARGUMENTS_MAX])
{
	const struct sgpu_operation *operation = checker->operation;
	const struct sgpu_op *op = call->op;
	char hint[SGPU_ERROR_HINT_MAX];
	bool any_output = false;

	for (int i = 0; i < SGPU_ARGUMENTS_MAX; i++) {
		segment[i] = -1;
	}
	for (int i = 0; i < operation->arg_count; i++) {
		int index = sgpu_op_arg(op, operation->args[i].name);

		if (index < 0) {
			sgpu_ops_unknown(checker, "arguments", operation->args[i].name,
					 "an argument", &op->args[0].name, sizeof(op->args[0]));
		} else {
			segment[index] =
				operation->args[i].segment < 0 ? -2 : operation->args[i].segment;
			call->present[index] = true;
		}
		any_output |= operation->args[i].output;
	}
	for (int i = 0; op->args[i].name; i++) {
		bool output = sgpu_op_is_output(&op->args[i]);

		/* The parser has reported arguments whose segment it could not find (-2). */
		if (segment[i] != -1 || op->args[i].optional) {
			continue;
		}
		segment[i] = -2;
		if (operation->arguments_given && (!output || any_output)) {
			snprintf(hint, sizeof(hint), "%s: %s", op->args[i].name, op->args[i].help);
			sgpu_ops_report(checker, "arguments", NULL, hint,
					"'%s' needs the argument '%s'", op->name, op->args[i].name);
		}
	}
	return any_output;
}

static void dtypes_text(unsigned dtypes, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (int dtype = SGPU_NONE + 1; dtype < SGPU_DTYPE_COUNT && used < size; dtype++) {
		if (dtypes & SGPU_TYPE_BIT(dtype)) {
			used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "",
						 sgpu_dtype_name((enum sgpu_dtype)dtype));
		}
	}
}

static bool check_input_type(struct sgpu_ops_checker *checker, const struct sgpu_op *op,
			     const struct sgpu_op_argument *arg, const struct sgpu_type *type)
{
	char text[64];

	if (!(arg->dtypes & SGPU_TYPE_BIT(type->dtype))) {
		dtypes_text(arg->dtypes, text, sizeof(text));
		sgpu_ops_report(checker, "arguments", arg->name, NULL, "is %s, but '%s' takes %s",
				sgpu_dtype_name(type->dtype), op->name, text);
		return false;
	}
	if (type->rank < arg->min_rank || type->rank > arg->max_rank) {
		char range[32];

		snprintf(range, sizeof(range),
			 arg->min_rank == arg->max_rank ? "rank %d" : "ranks %d to %d",
			 arg->min_rank, arg->max_rank);
		sgpu_ops_report(checker, "arguments", arg->name,
				type->rank < arg->min_rank
					? "'reshape' adds dimensions of extent 1"
					: "'reshape' joins dimensions, 'slice' takes out items",
				"has rank %d, but '%s' takes %s", type->rank, op->name, range);
		return false;
	}
	return true;
}

static bool take_inputs(struct sgpu_ops_checker *checker, struct sgpu_op_call *call,
			const int segment[SGPU_ARGUMENTS_MAX])
{
	const struct sgpu_op_argument *args = call->op->args;
	bool ready = true;

	for (int i = 0; args[i].name; i++) {
		if (segment[i] == -2) {
			ready = false;
		}
		if (segment[i] < 0 || sgpu_op_is_output(&args[i])) {
			continue;
		}
		if (checker->known[segment[i]]) {
			call->type[i] = checker->manifest->segments[segment[i]].type;
			ready &= check_input_type(checker, call->op, &args[i], &call->type[i]);
		} else if (!args[i].optional ||
			   checker->manifest->segments[segment[i]].type_given ||
			   !sgpu_segment_is_input(&checker->manifest->segments[segment[i]])) {
			checker->missing[segment[i]] = true;
			ready = false;
		}
	}
	return ready;
}

/* For a diagnostic of a segment, or of its member. */
static struct sgpu_reader *segment_at(struct sgpu_ops_checker *checker, int segment,
				      const char *member)
{
	checker->failed = true;
	snprintf(checker->reader.where, SGPU_WHERE_MAX, "/segments/%d%s", segment, member);
	return &checker->reader;
}

/* Whether the type of a segment, if it is known, is also the one that an operation infers. Memory
 * is taken for one type, and kernels reckon with theirs. */
static bool agrees(struct sgpu_ops_checker *checker, const struct sgpu_op_call *call, int arg,
		   int segment)
{
	const struct sgpu_segment *s = &checker->manifest->segments[segment];
	char known[SGPU_TYPE_TEXT_MAX], inferred[SGPU_TYPE_TEXT_MAX];

	if (!(s->type_stated || checker->known[segment]) ||
	    sgpu_type_equal(&s->type, &call->type[arg])) {
		return true;
	}
	sgpu_type_text(&s->type, known);
	sgpu_type_text(&call->type[arg], inferred);
	sgpu_reader_report(segment_at(checker, segment, s->type_stated ? "/data_type_info" : ""),
			   NULL, NULL, "is %s, but '%s' %s %s", known, call->op->name,
			   sgpu_op_is_output(&call->op->args[arg]) ? "makes" : "takes", inferred);
	return false;
}

static void give_input(struct sgpu_ops_checker *checker, const struct sgpu_op_call *call, int arg,
		       int segment)
{
	if (!agrees(checker, call, arg, segment) || checker->known[segment]) {
		return;
	}
	if (call->type[arg].dtype == SGPU_NONE) {
		checker->missing[segment] = true;
		return;
	}
	checker->manifest->segments[segment].type = call->type[arg];
	checker->known[segment] = true;
}

static void give_output(struct sgpu_ops_checker *checker, const struct sgpu_op_call *call, int arg,
			int segment)
{
	struct sgpu_segment *s = &checker->manifest->segments[segment];
	const struct sgpu_type *type = &call->type[arg];
	char made[SGPU_TYPE_TEXT_MAX];
	uint64_t bytes;

	sgpu_type_text(type, made);
	if (type->dtype == SGPU_NONE || !sgpu_type_bytes(type, &bytes)) {
		sgpu_ops_report(checker, "arguments", call->op->args[arg].name, NULL,
				"would be %s, which is too large", made);
		return;
	}
	if (!agrees(checker, call, arg, segment)) {
		return;
	}
	if (call->op->at_most && call->op->at_most(call)) {
		s->at_most = true;
		/* Readers of a segment that is also an input read the value that came as input. */
		if (s->reader_count && !sgpu_segment_is_input(s)) {
			sgpu_ops_report(checker, "arguments", call->op->args[arg].name, NULL,
					"no operation can read '%s', whose size is only known "
					"after the run",
					s->id);
			return;
		}
	}
	if (!s->type_given) {
		s->type = *type;
	}
	checker->known[segment] = s->type.dtype != SGPU_NONE;
}

void sgpu_ops_on_diagnostic(struct sgpu_op_report *report, const char *argument, const char *param,
			    const char *text)
{
	struct sgpu_ops_checker *checker = (struct sgpu_ops_checker *)report;
	const char *member = argument ? "arguments" : param ? "params" : NULL;

	sgpu_ops_report(checker, member, argument ? argument : param, NULL, "%s", text);
}

/* ---- modules: their kernels are unknown, so nothing can be inferred ---- */
const struct sgpu_op sgpu_op_module = {
	.name = "module",
	.help = "A function of a module that the batch brings",
};

/* Without data_type_info, a module has the size of its file, so the segment must have a file. */
static void check_image(struct sgpu_ops_checker *checker, int index)
{
	struct sgpu_segment *segment = &checker->manifest->segments[index];
	bool piped;

	if (checker->known[index] || segment->type_given || !sgpu_segment_is_input(segment)) {
		return;
	}
	piped = segment->location && strcmp(segment->location, "-") == 0;
	checker->missing[index] |= piped;
	segment->size_of_file |= !piped;
}

static void check_module_output(struct sgpu_ops_checker *checker, int index)
{
	const struct sgpu_segment *segment = &checker->manifest->segments[index];

	if (segment->type_stated) {
		checker->known[index] = true;
	} else if (sgpu_segment_is_input(segment)) {
		checker->missing[index] = true;
	} else if (!segment->type_given) {
		sgpu_reader_report(
			segment_at(checker, index, ""), NULL,
			"\"data_type_info\": {\"dtype\": ..., \"shape\": ...}",
			"'%s' needs data_type_info: what a module writes has no type of its own",
			segment->id ? segment->id : "");
	}
}

static void check_module(struct sgpu_ops_checker *checker)
{
	const struct sgpu_operation *operation = checker->operation;

	for (int i = 0; i < operation->arg_count; i++) {
		int segment = operation->args[i].segment;

		if (segment < 0) {
			continue;
		}
		if (operation->args[i].output) {
			check_module_output(checker, segment);
		} else if (!checker->known[segment]) {
			checker->missing[segment] = true;
		}
	}
	if (operation->module->segment >= 0) {
		check_image(checker, operation->module->segment);
	}
}

static void check_operation(struct sgpu_ops_checker *checker)
{
	struct sgpu_op_call call = { .op = sgpu_op_find(checker->operation->kernel) };
	int segment[SGPU_ARGUMENTS_MAX];
	bool output;

	if (!checker->operation->kernel) {
		return;
	}
	if (checker->operation->module) {
		checker->failed = false;
		check_module(checker);
		return;
	}
	if (!call.op) {
		unknown_kernel(checker);
		return;
	}
	checker->failed = false;
	output = place_arguments(checker, &call, segment);
	sgpu_ops_check_params(checker, &call);
	if (!take_inputs(checker, &call, segment) || !output || checker->failed) {
		return;
	}
	call.op->infer(&call, &checker->report);
	for (int i = 0; call.op->args[i].name && !checker->failed; i++) {
		if (segment[i] >= 0) {
			(sgpu_op_is_output(&call.op->args[i]) ? give_output : give_input)(
				checker, &call, i, segment[i]);
		}
	}
}

static void start_types(struct sgpu_ops_checker *checker)
{
	const struct sgpu_manifest *manifest = checker->manifest;
	uint64_t bytes;

	for (int i = 0; i < manifest->segment_count; i++) {
		const struct sgpu_segment *segment = &manifest->segments[i];

		checker->known[i] = sgpu_segment_is_input(segment) && segment->type_stated &&
				    segment->type.dtype != SGPU_NONE &&
				    sgpu_type_bytes(&segment->type, &bytes);
	}
}

/* Reports inputs whose type is neither stated nor inferred and, without other diagnostics, outputs
 * whose type is unknown. */
static void end_types(struct sgpu_ops_checker *checker)
{
	const struct sgpu_manifest *manifest = checker->manifest;

	for (int i = 0; i < manifest->segment_count; i++) {
		const struct sgpu_segment *segment = &manifest->segments[i];

		if (checker->missing[i] && sgpu_segment_is_input(segment) && !segment->type_given) {
			sgpu_reader_report(segment_at(checker, i, ""), NULL,
					   "\"data_type_info\": {\"dtype\": ..., \"shape\": ...}",
					   "'%s' needs data_type_info",
					   segment->id ? segment->id : "");
		}
	}
	for (int i = 0; i < manifest->segment_count && checker->reader.diagnostics->count == 0;
	     i++) {
		struct sgpu_segment *segment = &manifest->segments[i];

		segment->size_of_file &= !checker->known[i];
		if (segment->size_of_file) {
			sgpu_segment_set_size(segment, 0);
		} else if (!checker->known[i]) {
			sgpu_reader_report(segment_at(checker, i, ""), NULL, NULL,
					   "the type of '%s' is not known",
					   segment->id ? segment->id : "");
		}
	}
}

int sgpu_ops_check(struct sgpu_manifest *manifest, struct sgpu_diagnostics *diagnostics,
		   struct sgpu_error *error)
{
	size_t count = manifest->segment_count > 0 ? (size_t)manifest->segment_count : 1;
	struct sgpu_ops_checker checker = { .report = { .diagnostic = sgpu_ops_on_diagnostic },
					    .reader = { .diagnostics = diagnostics },
					    .manifest = manifest };

	checker.known = calloc(2 * count, sizeof(*checker.known));
	if (!checker.known) {
		return sgpu_fail_nomem(error);
	}
	checker.missing = checker.known + count;
	start_types(&checker);
	for (int i = 0; i < manifest->operation_count; i++) {
		checker.index = manifest->order ? manifest->order[i] : i;
		checker.operation = &manifest->operations[checker.index];
		check_operation(&checker);
	}
	end_types(&checker);
	free(checker.known);
	return diagnostics->out_of_memory ? sgpu_fail_nomem(error) : 0;
}
