/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest: check, show, shape and pack workload manifests. See sgpu-manifest(1).
 */
#include "manifest_tool.h"

static const struct cli_verb verbs[] = {
	{ "check", "[MANIFEST...]", "report the errors of manifests", check_options, verb_check },
	{ "show", "[MANIFEST]", "show segments, operations and the graph", show_options,
	  verb_show },
	{ "canon", "[MANIFEST]", "write the canonical form", canon_options, verb_canon },
	{ "schema", "", "write the JSON Schema of manifests", schema_options, verb_schema },
	{ "init", "OPERATION [NAME=VALUE | [NAME=]FILE]...",
	  "write a manifest for operations and files", init_options, verb_init },
	{ "pack", "[MANIFEST]", "write the batch of a manifest", pack_options, verb_pack },
	{ "split", "[MANIFEST]", "write manifests of the independent parts", split_options,
	  verb_split },
	{ "merge", "RESPONSE...", "report on the responses of the parts together", merge_options,
	  verb_merge },
	{ "ops", "[OPERATION]", "list the operations, their arguments and parameters", ops_options,
	  verb_ops },
	{ .name = NULL },
};

static const struct cli_tool tool = {
	.name = "sgpu-manifest",
	.summary = "check, show and pack workload manifests",
	.verbs = verbs,
};

int main(int argc, char **argv)
{
	return cli_main(&tool, argc, argv);
}
