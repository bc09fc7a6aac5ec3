/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest split: writes a manifest's independent parts as manifests, each of which is packed
 * and run by itself.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "manifest_tool.h"

const struct cli_option split_options[] = {
	{ "shards", 'n', "NUMBER",
	  "at most this many shards, of about as many parts (default: one for each part)",
	  CLI_NUMBER(struct request, shards, 1, SGPU_MANIFEST_OPERATIONS_MAX) },
	{ CLI_ROWS(check_options) },
	CLI_END
};

/* ---- parts, by union-find ---- */
struct splitter {
	const struct document *document;
	int *shard; /* by operation */
	int shard_count;
	int part_count;	 /* independent parts */
	char *directory; /* of the manifest */
	json_t *shards;	 /* the manifests of the shards */
};

static int find(int *parent, int i)
{
	while (parent[i] != i) {
		parent[i] = parent[parent[i]];
		i = parent[i];
	}
	return i;
}

/* The smaller index becomes the root, to number parts in the order of their first operation. */
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
	if (segment->direction == SGPU_INPUT_OUTPUT) {
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
		if (segment->file.like >= 0 && segment->file.format) {
			join(parent, first, manifest->segments[segment->file.like].readers[0]);
		}
	}
}

/* Distributes the independent parts to shards, in their order. Operations belong to one part if an
 * edge joins them, or if they use a segment that cannot be in two shards: an INPUT_OUTPUT, one
 * whose file's geometry is kept, or one that names client variables. Makes `wanted` shards (0: any
 * number), at most one for each part. Returns false when out of memory. */
static bool find_shards(struct splitter *splitter, unsigned wanted)
{
	const struct sgpu_manifest *manifest = splitter->document->manifest;
	const size_t count = (size_t)manifest->operation_count + 1;
	int *parent = calloc(count, sizeof(int)), *shard = calloc(count, sizeof(int));
	const bool enough = parent && shard;
	int64_t parts = 0, shards;

	splitter->shard = shard;
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
	splitter->part_count = (int)parts;
	splitter->shard_count = (int)shards;
	free(parent);
	return enough;
}

static json_t *entry_of(const struct sgpu_manifest *manifest, const char *list, int index)
{
	return json_array_get(json_object_get(manifest->json, list), (size_t)index);
}

static void take_segment(struct splitter *splitter, int index, json_t **ids)
{
	const struct sgpu_manifest *manifest = splitter->document->manifest;
	const struct sgpu_segment *segment = &manifest->segments[index];

	for (int k = -1; k < segment->reader_count; k++) {
		int operation = k < 0 ? segment->writer : segment->readers[k];
		int shard = operation < 0 ? -1 : splitter->shard[operation];
		json_t *entry;

		if (shard < 0 || json_object_get(ids[shard], segment->id)) {
			continue;
		}
		entry = json_deep_copy(entry_of(manifest, "segments", index));
		if (segment->operation >= 0 && splitter->shard[segment->operation] != shard) {
			json_object_del(entry, "gpu_operation_id");
		}
		json_object_set_new(ids[shard], segment->id, json_true());
		json_array_append_new(
			json_object_get(json_array_get(splitter->shards, (size_t)shard),
					"segments"),
			entry);
	}
}

/* Removes dependencies on ids outside the shard. They delay nothing, or the ids would be in it. */
static void filter_shard(json_t *shard, const json_t *ids)
{
	const char *key;
	json_t *list, *entry, *item;
	size_t k, i;

	json_object_foreach (shard, key, list) {
		json_array_foreach (list, k, entry) {
			json_t *kept = json_array();

			json_array_foreach (json_object_get(entry, "dependencies"), i, item) {
				if (json_object_get(ids, json_string_value(item))) {
					json_array_append(kept, item);
				}
			}
			json_object_del(entry, "dependencies");
			if (json_array_size(kept)) {
				json_object_set(entry, "dependencies", kept);
			}
			json_decref(kept);
		}
	}
}

static int make_shards(struct splitter *splitter)
{
	const struct sgpu_manifest *manifest = splitter->document->manifest;
	const int count = splitter->shard_count;
	json_t **ids = calloc((size_t)count + 1, sizeof(json_t *));

	splitter->shards = json_array();
	if (!ids || !splitter->shards) {
		free(ids);
		return cli_fail_nomem();
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
		int shard = splitter->shard[i];
		json_t *list = json_object_get(json_array_get(splitter->shards, (size_t)shard),
					       "operations");

		json_object_set_new(ids[shard], manifest->operations[i].id, json_true());
		json_array_append_new(list, json_deep_copy(entry_of(manifest, "operations", i)));
	}
	for (int i = 0; i < manifest->segment_count; i++) {
		take_segment(splitter, i, ids);
	}
	for (int i = 0; i < count; i++) {
		filter_shard(json_array_get(splitter->shards, (size_t)i), ids[i]);
		json_decref(ids[i]);
	}
	free(ids);
	return 0;
}

/* Writes all shards, as new files, or none if one of them is there. */
static int write_shards(const struct splitter *splitter)
{
	struct cli_list paths = { .items = NULL };
	json_t *shard;
	int status = 0;
	size_t i;

	for (int k = 0; !status && k < splitter->shard_count; k++) {
		char *path = NULL;

		status = asprintf(&path, "%s/shard-%03d.json", splitter->directory, k) >= 0 &&
					 cli_list_add(&paths, path)
				 ? cli_output_prepare(path, 0666, true)
				 : cli_fail_nomem();
	}
	json_array_foreach (splitter->shards, i, shard) {
		status = status ? status : json_write(paths.items[i], json_incref(shard));
		if (status) {
			break;
		}
		printf("%s\n", paths.items[i]);
	}
	for (int k = 0; k < paths.count; k++) { /* all are taken, or none is any more */
		free((char *)(uintptr_t)paths.items[k]);
	}
	free(paths.items);
	return status;
}

static int split(const struct document *document, unsigned wanted)
{
	struct splitter splitter = { .document = document };
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
	splitter.directory = folder_of(document->path);
	status = splitter.directory && find_shards(&splitter, wanted) ? make_shards(&splitter)
								      : cli_fail_nomem();
	status = status ? status : write_shards(&splitter);
	if (!status && wanted > (uint64_t)splitter.part_count) {
		cli_note("there are no more than %d independent parts", splitter.part_count);
	}
	json_decref(splitter.shards);
	free(splitter.directory);
	free(splitter.shard);
	return status;
}

int verb_split(int argc, char **argv)
{
	struct request request = { 0 };
	struct document document;
	char **paths;
	int status = cli_read(argc, argv, &request, &paths);

	if (status) {
		return status;
	}
	status = document_load(paths[0], request.outside ? 0 : SGPU_MANIFEST_INSIDE, &document);
	status = status ? status : split(&document, request.shards);
	document_free(&document);
	return status;
}
