/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-stage: puts payloads where a runner can fetch them. See sgpu-stage(1).
 */
#include <sgpu/base.h>

#include "stage/stage.h"
#include "verbs.h"

static const struct cli_verb verbs[] = {
	{ "load", "[BATCH]", "stage the payloads of a batch", load_options, verb_load },
	{ "pin", "SIZE", "make an empty region, and print its handle", pin_options, verb_pin },
	{ "list", "", "list the staged regions", list_options, verb_list },
	{ "release", "[REGION...]", "overwrite and remove staged regions", release_options,
	  verb_release },
	{ .name = NULL },
};

static const struct cli_tool tool = {
	.name = "sgpu-stage",
	.summary = "put payloads where a runner can fetch them",
	.verbs = verbs,
	.holds_secrets = true,
};

void stage_warn_of_directory(const char *path)
{
	bool in_memory = true;
	uint64_t room;

	if (sgpu_stage_file_system(path, &in_memory, &room, NULL) == SGPU_OK && !in_memory) {
		cli_warning("'%s' is not in memory: LOW payloads are written to it as they are",
			    path);
	}
}

int main(int argc, char **argv)
{
	return cli_main(&tool, argc, argv);
}
