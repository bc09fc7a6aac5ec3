/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-stage release: overwrites and removes regions.
 */
#include <stdio.h>

#include "stage/stage.h"
#include "verbs.h"

struct request {
	bool all;
};

const struct cli_option release_options[] = {
	CLI_COMMON,
	{ "all", 0, NULL, "all regions of this user", CLI_FLAG(struct request, all) },
	CLI_END,
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
	struct request request = { 0 };
	char **regions;
	int released = 0, status = cli_read(argc, argv, &request, &regions);

	if (status) {
		return status;
	}
	if (request.all && *regions) {
		return cli_usage("--all takes no region beside it");
	}
	if (!request.all && !*regions) {
		return cli_usage("name a region, or --all");
	}
	if (request.all) {
		status = release_all(&released);
	}
	for (; *regions; regions++) {
		int one = release(*regions, &released);

		status = status ? status : one;
	}
	if (cli_json) {
		printf("{\"released\":%d}\n", released);
	}
	return status;
}
