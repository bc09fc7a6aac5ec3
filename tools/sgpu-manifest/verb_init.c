/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest init: writes a manifest for operations and files that the command line names.
 */
#include "draft.h"

const struct cli_option init_options[] = {
	{ "map", 0, "EXPRESSION", "compute this for each element of the files that it names",
	  CLI_TAKE(draft_take_map) },
	{ "then", 0, "OPERATION", "one more operation, which reads what the one before wrote",
	  CLI_TAKE(draft_take_then) },
	{ "output", 'o', "[NAME=]FILE", "the file of an output: .nii .nii.gz .npy .npz, else raw",
	  CLI_TAKE(draft_take_output) },
	{ "low", 0, "NAME", "this argument of the operation before is LOW; may be repeated",
	  CLI_TAKE(draft_take_low) },
	{ "like", 0, "NAME", "the input whose geometry and units outputs have",
	  CLI_TEXT(struct draft_request, like) },
	{ "cast", 0, "DTYPE", "cast to this type where no cast keeps every value",
	  CLI_TAKE(draft_take_cast) },
	{ "id", 0, "ID", "the manifest_id (default: the operation's name)",
	  CLI_TEXT(struct draft_request, id) },
	{ "max-size", 0, "SIZE", "most bytes that a compressed file may hold",
	  CLI_SIZE(struct draft_request, size_max, 1, UINT64_MAX) },
	{ "", 0, NULL, NULL, CLI_TAKE(draft_take_word) },
	CLI_END,
};

int verb_init(int argc, char **argv)
{
	struct draft_request request = { 0 };
	json_t *manifest = NULL;
	char **arguments;
	int status = cli_read(argc, argv, &request, &arguments);

	status = status ? status : draft_make(&request, &manifest);
	status = status ? status : json_write(NULL, json_incref(manifest));
	json_decref(manifest);
	draft_clear(&request);
	return status;
}
