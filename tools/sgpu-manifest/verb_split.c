/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest split: writes a manifest's independent parts as manifests, each of which is packed
 * and run by itself.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "manifest_tool.h"

struct split_request {
	const char *directory;
	uint64_t wanted;
	bool outside;
};

const struct cli_option split_options[] = {
	CLI_COMMON,
	{ "shards", 'n', "NUMBER",
	  "at most this many shards, of about as many parts (default: one for each part)",
	  CLI_NUMBER(struct split_request, wanted, 1, SGPU_MANIFEST_OPERATIONS_MAX) },
	{ "directory", 'C', "DIR", "write them there, not into the manifest's directory",
	  CLI_TEXT(struct split_request, directory) },
	OPTION_OUTSIDE(struct split_request),
	CLI_END
};

/* ---- parts, by union-find over the operations ---- */
struct components {
	int *shard; /* per operation: its shard */
	int shard_count;
	int part_count; /* independent parts of the manifest */
};

static int find(int *parent, int i)
{
	while (parent[i] != i) {
		parent[i] = parent[parent[i]];
		i = parent[i];
	}
	return i;
}

/* Joins two parts. The smaller index becomes the root, so that parts are numbered in the order of
 * their first operation. */
static void join(int *parent, int a, int b)
{
	a = find(parent, a);
	b = find(parent, b);
	if (a < b) {
		parent[b] = a;
	} else {
		parent[a] = b;
	}
}

static bool is_single(const struct sgpu_segment *segment)
{
	if (segment->direction == SGPU_INPUT_OUTPUT ||
	    (segment->location && strcmp(segment->location, "-") == 0)) {
		return true;
	}
	for (int i = 0; i < SGPU_DMA_VARS; i++) {
		if (segment->dma_var[i]) {
			return true;
		}
	}
	return false;
}

static void join_all(const struct sgpu_manifest *manifest, int *parent)
{
	for (int i = 0; i < manifest->operation_count; i++) {
		parent[i] = i;
	}
	for (int i = 0; i < manifest->operation_count; i++) {
		for (int k = 0; k < manifest->operations[i].before_count; k++) {
			join(parent, i, manifest->operations[i].before[k]);
		}
	}
	for (int i = 0; i < manifest->segment_count; i++) {
		const struct sgpu_segment *segment = &manifest->segments[i];
		int first = segment->writer >= 0    ? segment->writer
			    : segment->reader_count ? segment->readers[0]
						    : -1;

		for (int k = 0; k < segment->reader_count && is_single(segment); k++) {
			join(parent, first, segment->readers[k]);
		}
	}
}

/* Finds the independent parts and distributes them to shards, in their order. Operations belong to
 * one part if an edge joins them, or if they use a segment that cannot be in two shards: an
 * INPUT_OUTPUT, standard input, or one that names client variables. Makes `wanted` shards (0: any
 * number), but at most one for each part. Returns false when out of memory. */
static bool components_find(const struct sgpu_manifest *manifest, uint64_t wanted,
			    struct components *components)
{
	const size_t count = (size_t)manifest->operation_count + 1;
	int *parent = calloc(count, sizeof(int)), *shard = calloc(count, sizeof(int));
	const bool enough = parent && shard;
	int64_t parts = 0, shards;

	components->shard = shard;
	if (enough) {
		join_all(manifest, parent);
	}
	for (int i = 0; enough && i < manifest->operation_count; i++) {
		const int root = find(parent, i); /* no later than i */

		shard[i] = root == i ? (int)parts++ : shard[root];
	}
	shards = !wanted || wanted > (uint64_t)parts ? parts : (int64_t)wanted;
	for (int i = 0; enough && i < manifest->operation_count; i++) {
		shard[i] = (int)(shard[i] * shards / parts);
	}
	components->part_count = (int)parts;
	components->shard_count = (int)shards;
	free(parent);
	return enough;
}

/* ---- shards ---- */
struct splitter {
	const struct document *document;
	struct components components;
	const char *directory; /* as given, or own */
	char *own;	       /* the manifest's folder as in its path */
	char *from, *to;       /* real paths of the manifest's folder and of the directory */
	json_t *shards;	       /* the manifests of the shards */
	bool outside;
};

/* Removes dependencies on ids outside the shard. They delay nothing; otherwise the ids would be in
 * the shard. */
static void filter_dependencies(json_t *entry, const json_t *ids)
{
	json_t *kept = json_array(), *item;
	size_t i;

	json_array_foreach (json_object_get(entry, "dependencies"), i, item) {
		if (json_object_get(ids, json_string_value(item))) {
			json_array_append(kept, item);
		}
	}
	if (json_array_size(kept)) {
		json_object_set(entry, "dependencies", kept);
	} else {
		json_object_del(entry, "dependencies");
	}
	json_decref(kept);
}

/* Rewrites an input's location for the folder of the shards, if that is not the manifest's
 * folder. */
static int move_location(struct splitter *splitter, const struct sgpu_segment *segment,
			 json_t *entry)
{
	char *path = NULL, *location;

	if (!segment->location || !sgpu_segment_is_input(segment) ||
	    sgpu_segment_is_output(segment) || strcmp(segment->location, "-") == 0 ||
	    strcmp(splitter->from, splitter->to) == 0) {
		return 0;
	}
	if (*segment->location == '/') {
		path = strdup(segment->location);
	} else if (asprintf(&path, "%s/%s", splitter->from, segment->location) < 0) {
		path = NULL;
	}
	location = path ? file_spec_location(path, splitter->to) : NULL;
	free(path);
	if (!location) {
		return cli_fail(SGPU_ENOMEM, "out of memory");
	}
	splitter->outside |= sgpu_location_outside(location);
	json_object_set_new(entry, "data_location_client", json_string(location));
	free(location);
	return 0;
}

static json_t *entry_of(const struct sgpu_manifest *manifest, const char *list, int index)
{
	return json_array_get(json_object_get(manifest->json, list), (size_t)index);
}

/* Copies a segment into every shard that has its writer or a reader. */
static int take_segment(struct splitter *splitter, int index, json_t **ids)
{
	const struct sgpu_manifest *manifest = splitter->document->manifest;
	const struct sgpu_segment *segment = &manifest->segments[index];
	int status = 0;

	for (int k = -1; k < segment->reader_count && !status; k++) {
		int operation = k < 0 ? segment->writer : segment->readers[k];
		int shard = operation < 0 ? -1 : splitter->components.shard[operation];
		json_t *entry;

		if (shard < 0 || json_object_get(ids[shard], segment->id)) {
			continue;
		}
		entry = json_deep_copy(entry_of(manifest, "segments", index));
		if (segment->operation >= 0 &&
		    splitter->components.shard[segment->operation] != shard) {
			json_object_del(entry, "gpu_operation_id");
		}
		json_object_set_new(ids[shard], segment->id, json_true());
		status = move_location(splitter, segment, entry);
		json_array_append_new(
			json_object_get(json_array_get(splitter->shards, (size_t)shard),
					"segments"),
			entry);
	}
	return status;
}

static void filter_shard(json_t *shard, const json_t *ids)
{
	json_t *entry;
	size_t k;

	json_array_foreach (json_object_get(shard, "segments"), k, entry) {
		filter_dependencies(entry, ids);
	}
	json_array_foreach (json_object_get(shard, "operations"), k, entry) {
		filter_dependencies(entry, ids);
	}
}

static int make_shards(struct splitter *splitter)
{
	const struct sgpu_manifest *manifest = splitter->document->manifest;
	const int count = splitter->components.shard_count;
	/* The ids in each shard. */
	json_t **ids = calloc((size_t)count + 1, sizeof(json_t *));
	int status = 0;

	splitter->shards = json_array();
	if (!ids || !splitter->shards) {
		free(ids);
		return cli_fail(SGPU_ENOMEM, "out of memory");
	}
	for (int i = 0; i < count; i++) {
		char id[SGPU_MANIFEST_ID_MAX + 16];

		snprintf(id, sizeof(id), "%s.%d", manifest->id, i);
		ids[i] = json_object();
		json_array_append_new(splitter->shards,
				      json_pack("{s:i, s:s, s:[], s:[]}", "version",
						(int)SGPU_MANIFEST_VERSION, "manifest_id", id,
						"segments", "operations"));
	}
	for (int i = 0; i < manifest->operation_count; i++) {
		int shard = splitter->components.shard[i];
		json_t *list = json_object_get(json_array_get(splitter->shards, (size_t)shard),
					       "operations");

		json_object_set_new(ids[shard], manifest->operations[i].id, json_true());
		json_array_append_new(list, json_deep_copy(entry_of(manifest, "operations", i)));
	}
	for (int i = 0; i < manifest->segment_count && !status; i++) {
		status = take_segment(splitter, i, ids);
	}
	for (int i = 0; i < count; i++) {
		filter_shard(json_array_get(splitter->shards, (size_t)i), ids[i]);
		json_decref(ids[i]);
	}
	free(ids);
	return status;
}

static char *shard_path(const struct splitter *splitter, size_t i)
{
	char *path = NULL;

	return asprintf(&path, "%s/shard-%03zu.json", splitter->directory, i) < 0 ? NULL : path;
}

/* Writes all shards, as new files, or none. */
static int write_shards(const struct splitter *splitter)
{
	json_t *shard, *list = json_array();
	int status = 0;
	size_t i;

	json_array_foreach (splitter->shards, i, shard) {
		char *path = shard_path(splitter, i);

		status = path ? cli_output_prepare(path, 0666, true)
			      : cli_fail(SGPU_ENOMEM, "out of memory");
		status = status ? status : json_write(path, json_incref(shard));
		if (!status && cli_json) {
			json_array_append_new(
				list, json_pack("{s:o, s:O, s:i}", "file", cli_json_text(path),
						"manifest_id",
						json_object_get(shard, "manifest_id"), "operations",
						(int)json_array_size(
							json_object_get(shard, "operations"))));
		} else if (!status) {
			printf("%s\n", path);
		}
		free(path);
		if (status) {
			break;
		}
	}
	while (status && i-- > 0) {
		char *path = shard_path(splitter, i);
		(void)(path && unlink(path));
		free(path);
	}
	if (status || !cli_json) {
		json_decref(list);
		return status;
	}
	return json_write(NULL, list);
}

static int open_folders(struct splitter *splitter, struct payload_folder *folder)
{
	struct sgpu_error error = { 0 };

	if (payload_folder_open(splitter->document->path, folder, &error)) {
		return cli_error(&error);
	}
	splitter->from = folder->path;
	if (!splitter->directory) {
		splitter->directory = splitter->own = folder_of(splitter->document->path);
	}
	if (!splitter->directory) {
		return cli_fail(SGPU_ENOMEM, "out of memory");
	}
	splitter->to = realpath(splitter->directory, NULL);
	return splitter->to ? 0
			    : cli_fail(SGPU_ESYSTEM, "cannot find the directory '%s': %s",
				       splitter->directory, strerror(errno));
}

static int split(const struct document *document, const char *directory, uint64_t wanted)
{
	struct splitter splitter = { .document = document, .directory = directory };
	struct payload_folder folder = { .spool = -1 };
	int status;

	if (document->manifest->all_or_nothing) {
		return cli_fail(SGPU_EINVALID,
				"on_failure is 'all', which holds within one batch: shards would "
				"fail one by one");
	}
	if (strlen(document->manifest->id) + 6 > SGPU_MANIFEST_ID_MAX) {
		return cli_fail(SGPU_EINVALID, "the manifest_id '%s' is too long to be numbered",
				document->manifest->id);
	}
	status = components_find(document->manifest, wanted, &splitter.components)
			 ? open_folders(&splitter, &folder)
			 : cli_fail(SGPU_ENOMEM, "out of memory");
	status = status ? status : make_shards(&splitter);
	status = status ? status : write_shards(&splitter);
	if (!status && wanted > (uint64_t)splitter.components.part_count) {
		cli_note("there are no more than %d independent parts",
			 splitter.components.part_count);
	}
	if (!status && splitter.outside) {
		cli_warning("inputs are outside '%s': pack the shards with --allow-outside",
			    splitter.directory);
	}
	json_decref(splitter.shards);
	free(splitter.to);
	free(splitter.own);
	payload_folder_close(&folder);
	free(splitter.components.shard);
	return status;
}

int verb_split(int argc, char **argv)
{
	struct split_request request = { 0 };
	struct sgpu_output_directory folder = SGPU_OUTPUT_DIRECTORY_INIT;
	struct sgpu_error error = { 0 };
	struct document document;
	char **paths;
	int status = cli_read(argc, argv, &request, &paths);

	if (status) {
		return status;
	}
	/* Makes the directory before it reads the manifest, so that it fails early. */
	if (request.directory &&
	    sgpu_output_directory_open(&folder, request.directory, 0777, &error)) {
		return cli_error(&error);
	}
	status = document_load(paths[0], request.outside ? 0 : SGPU_MANIFEST_INSIDE, &document);
	status = status ? status : split(&document, request.directory, request.wanted);
	document_free(&document);
	sgpu_output_directory_close(&folder, !status);
	return status;
}
