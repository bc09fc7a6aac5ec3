/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-stage list and release: list the regions of this user, or overwrite and remove them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "stage/stage.h"
#include "verbs.h"

const struct cli_option list_options[] = { CLI_END };

static json_t *to_json(const struct sgpu_region *region)
{
	const int64_t left = region->expires - time(NULL);
	const bool usable = !region->why[0];
	const char *state = usable	      ? region->keep ? "kept" : "once"
			    : region->expired ? "expired"
					      : "refused";

	return json_pack(
		"{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:b, s:s, s:s, s:o, s:s?}",
		"region", region->id, "path", region->path, "size", (json_int_t)region->size,
		"owner", (json_int_t)region->owner, "maker", (json_int_t)region->maker, "created",
		(json_int_t)region->created, "expires", (json_int_t)region->expires, "expires_in",
		(json_int_t)(left > 0 ? left : 0), "keep", region->keep, "usable", usable,
		"expired", region->expired, "use", sgpu_region_use_name(region->use), "state",
		state, "numa_node",
		region->numa_node < 0 ? json_null() : json_integer(region->numa_node), "why",
		region->why[0] ? region->why : NULL);
}

static int print(const struct sgpu_region *list, int count)
{
	json_t *array = json_array();

	for (int i = 0; i < count; i++) {
		json_array_append_new(array, to_json(&list[i]));
		if (!cli_json && list[i].why[0] && !list[i].expired) {
			cli_note("%s", list[i].why);
		}
	}
	if (cli_json) {
		return cli_print_json(array, stdout, JSON_INDENT(2) | JSON_SORT_KEYS);
	}
	if (count) {
		cli_table(stdout, array, "region size expires_in numa_node use state");
	}
	json_decref(array);
	return 0;
}

int verb_list(int argc, char **argv)
{
	struct sgpu_region *list = NULL;
	struct sgpu_error error = { 0 };
	char **arguments, *folder = NULL;
	int count = 0, status = cli_read(argc, argv, NULL, &arguments);

	if (status) {
		return status;
	}
	if (sgpu_region_list(&list, &count, &error) < 0) {
		return cli_error(&error);
	}
	if (sgpu_stage_directory(&folder, NULL) == SGPU_OK) {
		stage_warn_of_directory(folder);
	}
	free(folder);
	status = print(list, count);
	sgpu_region_list_free(&list, count);
	return status;
}

struct request {
	bool all;
};

const struct cli_option release_options[] = {
	{ "all", 0, NULL, "all regions of this user", CLI_FLAG(struct request, all) },
	CLI_END,
};

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

int verb_release(int argc, char **argv)
{
	struct request request = { 0 };
	struct sgpu_region *list = NULL;
	struct sgpu_error error = { 0 };
	char **regions;
	int count = 0, released = 0, status = cli_read(argc, argv, &request, &regions);

	if (status) {
		return status;
	}
	if (request.all && *regions) {
		return cli_usage("--all takes no region beside it");
	}
	if (!request.all && !*regions) {
		return cli_usage("name a region, or --all");
	}
	if (request.all && sgpu_region_list(&list, &count, &error) < 0) {
		return cli_error(&error);
	}
	/* Continues after a failure; the first one counts. */
	for (int i = 0; request.all ? i < count : regions[i] != NULL; i++) {
		const int one = release(request.all ? list[i].id : regions[i], &released);

		status = status ? status : one;
	}
	sgpu_region_list_free(&list, count);
	if (cli_json) {
		printf("{\"released\":%d}\n", released);
	}
	return status;
}
