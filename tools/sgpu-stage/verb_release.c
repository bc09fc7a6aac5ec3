/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-stage release: overwrites and removes regions.
 */
#include <stdio.h>

#include <sgpu/stage.h>

#include "verbs.h"

enum { ALL = CLI_LONG };

const struct cli_option release_options[] = {
	CLI_COMMON,
	{ "all", ALL, NULL, "all regions of this user" },
	{ NULL, 0, NULL, NULL },
};

/* Goes on after a failure; the first one decides the status. */
static int release(const char *id, int *released)
{
	struct sgpu_error error = { 0 };

	if (sgpu_region_release(id, &error) < 0) {
		return cli_error(&error);
	}
	cli_detail("region %s released", id);
	++*released;
	return 0;
}

static int release_all(int *released)
{
	struct sgpu_region *list = NULL;
	struct sgpu_error error = { 0 };
	int count = 0, i, status = 0, one;

	if (sgpu_region_list(&list, &count, &error) < 0) {
		return cli_error(&error);
	}
	for (i = 0; i < count; i++) {
		one = release(list[i].id, released);
		status = status ? status : one;
	}
	sgpu_region_list_free(&list, count);
	return status;
}

int verb_release(int argc, char **argv)
{
	const char *value;
	bool all = false;
	int first = argc, key, i, one, status = 0, released = 0;

	while ((key = cli_next(argc, argv, &value, &first)) != 0) {
		if (key != ALL) {
			return 2;
		}
		all = true;
	}
	if (all && first < argc) {
		return cli_usage("--all takes no region beside it");
	}
	if (!all && first == argc) {
		return cli_usage("name a region, or --all");
	}
	if (all) {
		status = release_all(&released);
	}
	for (i = first; i < argc; i++) {
		one = release(argv[i], &released);
		status = status ? status : one;
	}
	if (cli_json) {
		printf("{\"released\":%d}\n", released);
	}
	return status;
}
