/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a checked manifest from text, and the calls of its operations from a checked manifest.
 */
#include <stdio.h>
#include <string.h>

#include "ops_private.h"

static int first_diagnostic(const struct sgpu_diagnostics *diagnostics, const char *name,
			    struct sgpu_error *error)
{
	const struct sgpu_diagnostic *diagnostic = &diagnostics->list[0];

	char place[32] = "";

	if (diagnostic->line > 0) {
		snprintf(place, sizeof(place), ":%d:%d", diagnostic->line, diagnostic->column);
	}
	sgpu_fail(error, SGPU_EINVALID, "%s%s: %s%s%s", name, place, diagnostic->pointer,
		  *diagnostic->pointer ? ": " : "", diagnostic->text);
	if (diagnostic->hint) {
		sgpu_hint(error, "%s", diagnostic->hint);
	}
	return SGPU_EINVALID;
}

int sgpu_ops_load_manifest(const char *text, size_t size, const char *name, unsigned options,
			   struct sgpu_manifest **manifest, struct sgpu_diagnostics *diagnostics,
			   struct sgpu_error *error)
{
	struct sgpu_manifest *parsed = NULL;
	int rc;

	*manifest = NULL;
	rc = sgpu_manifest_parse(text, size, options, &parsed, diagnostics, error);
	rc = rc ? rc : sgpu_ops_check(parsed, diagnostics, error);
	if (rc == 0 && diagnostics->count) {
		sgpu_diagnostics_locate(diagnostics, text, size);
	}
	if ((rc == 0 || rc == SGPU_EINVALID) && diagnostics->count) {
		rc = first_diagnostic(diagnostics, name, error);
	}
	if (rc == 0) {
		*manifest = parsed;
		parsed = NULL;
	}
	sgpu_manifest_free(&parsed);
	return rc;
}

/* Reads the parameters of a call whose types are set. Kernels trust these types: false unless they
 * are what the operation itself infers. */
static bool read_params_and_infer(const struct sgpu_operation *operation, struct sgpu_op_call *call)
{
	struct sgpu_diagnostics diagnostics = { 0 };
	struct sgpu_ops_checker checker = { .report = { .diagnostic = sgpu_ops_on_diagnostic },
					    .reader = { .diagnostics = &diagnostics },
					    .operation = operation };
	struct sgpu_op_call inferred;

	sgpu_ops_check_params(&checker, call);
	inferred = *call;
	for (int i = 0; call->op->args[i].name; i++) {
		if (sgpu_op_is_output(&call->op->args[i])) {
			inferred.type[i].dtype = SGPU_NONE;
		}
	}
	if (!checker.failed) {
		call->op->infer(&inferred, &checker.report);
	}
	for (int i = 0; call->op->args[i].name; i++) {
		checker.failed |=
			call->present[i] && !sgpu_type_equal(&inferred.type[i], &call->type[i]);
	}
	sgpu_diagnostics_clear(&diagnostics);
	return !checker.failed;
}

int sgpu_ops_prepare(const struct sgpu_manifest *manifest, int operation, struct sgpu_op_call *call,
		     struct sgpu_error *error)
{
	const struct sgpu_operation *op;

	memset(call, 0, sizeof(*call));
	if (operation < 0 || operation >= manifest->operation_count) {
		return sgpu_fail(error, SGPU_EUSAGE, "the manifest has no operation %d", operation);
	}
	op = &manifest->operations[operation];
	call->op = op->module ? &sgpu_op_module : sgpu_op_find(op->kernel);
	if (!call->op) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s' is not an operation",
				 op->kernel ? op->kernel : "");
	}
	for (int i = 0; i < op->arg_count; i++) {
		const struct sgpu_argument *arg = &op->args[i];
		int index = op->module ? i : sgpu_op_arg(call->op, arg->name);

		if (index < 0 || arg->segment < 0 ||
		    manifest->segments[arg->segment].type.dtype == SGPU_NONE) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "argument '%s' of '%s' was not checked", arg->name,
					 op->id);
		}
		call->type[index] = manifest->segments[arg->segment].type;
		call->present[index] = true;
	}
	if (!op->module && !read_params_and_infer(op, call)) {
		return sgpu_fail(error, SGPU_EINVALID, "operation '%s' was not checked", op->id);
	}
	return 0;
}

int sgpu_op_enqueue(struct sgpu_stream *stream, sgpu_launch_fn function, void *argument,
		    const struct sgpu_op_call *call, struct sgpu_task *task)
{
	struct sgpu_device_range ranges[SGPU_ARGUMENTS_MAX + 1];
	int count = 0;

	for (int i = 0; i < SGPU_ARGUMENTS_MAX; i++) {
		struct sgpu_device_range *range = &ranges[count];

		range->address = (sgpu_devptr)(uintptr_t)call->data[i];
		count += call->data[i] && sgpu_type_bytes(&call->type[i], &range->size) &&
			 range->size > 0;
	}
	if (call->scratch) {
		ranges[count++] = (struct sgpu_device_range){ (sgpu_devptr)(uintptr_t)call->scratch,
							      call->op->scratch(call) };
	}
	return sgpu_device_launch_on(stream, function, argument, ranges, count, task);
}
