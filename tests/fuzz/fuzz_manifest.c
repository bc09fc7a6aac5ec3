/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the manifest: parser, graph, information flow, the check against the operations, and the
 * places of diagnostics.
 */
#include <stdint.h>
#include <stdlib.h>

#include "ops/ops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_module(const struct sgpu_operation *operation)
{
	const struct sgpu_module_call *module = operation->module;
	uint64_t threads = 1;

	if (!module->function || module->segment < 0 ||
	    module->param_count > SGPU_MODULE_PARAMS_MAX) {
		abort();
	}
	for (int i = 0; i < 3; i++) {
		threads *= module->block[i];
		if (!module->grid[i] || !module->block[i] || threads > SGPU_MODULE_BLOCK_MAX) {
			abort();
		}
	}
	for (int i = 0; i < module->param_count; i++) {
		const struct sgpu_module_param *param = &module->params[i];
		bool value = param->kind == SGPU_MODULE_VALUE;

		if ((param->size != 4 && param->size != 8) || value != (param->argument < 0) ||
		    param->argument >= operation->arg_count) {
			abort();
		}
	}
}

/* What the rest of the library relies on once there are no diagnostics. */
static void check_promises(const struct sgpu_manifest *manifest)
{
	if (!manifest->order || !manifest->canonical || !manifest->id) {
		abort();
	}
	for (int i = 0; i < manifest->operation_count; i++) {
		const struct sgpu_operation *operation = &manifest->operations[i];
		struct sgpu_op_call call;

		for (int k = 0; k < operation->arg_count; k++) {
			if (operation->args[k].segment < 0) {
				abort();
			}
		}
		if (sgpu_ops_prepare(manifest, i, &call, NULL)) {
			abort();
		}
		if (operation->module) {
			check_module(operation);
		}
	}
	for (int i = 0; i < manifest->segment_count; i++) {
		const struct sgpu_segment *segment = &manifest->segments[i];
		uint64_t bytes;

		if (!sgpu_type_bytes(&segment->type, &bytes) || segment->type.dtype == SGPU_NONE ||
		    (segment->high_flow && segment->sensitivity == SGPU_LOW) ||
		    (segment->direction != SGPU_INPUT && segment->writer < 0)) {
			abort();
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sgpu_manifest *manifest = NULL;
	struct sgpu_diagnostics diagnostics = { 0 };
	int code = sgpu_manifest_parse((const char *)data, size, SGPU_MANIFEST_INSIDE, &manifest,
				       &diagnostics, NULL);

	if (!code) {
		code = sgpu_ops_check(manifest, &diagnostics, NULL);
	}
	if (!code && !diagnostics.count) {
		check_promises(manifest);
	}
	sgpu_diagnostics_locate(&diagnostics, (const char *)data, size);
	sgpu_diagnostics_clear(&diagnostics);
	sgpu_manifest_free(&manifest);
	return 0;
}
