/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest pack: writes a batch that refers to the files of its payloads. Everything is
 * checked before the first byte is written.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "batch/batch.h"
#include "manifest_tool.h"

const struct cli_option pack_options[] = {
	{ CLI_ROWS(schema_options) },
	{ CLI_ROWS(check_options) },
	{ "at", 0, "SEGMENT=HANDLE",
	  "where the sealed payload of an input, or the result of an output, goes; may be repeated",
	  CLI_LIST(struct request, at) },
	{ "by-hash", 0, NULL, "leave the manifest out of the batch, which names its hash",
	  CLI_FLAG(struct request, by_hash) },
	{ "manifest-out", 0, "FILE", "with --by-hash: write the manifest there",
	  CLI_TEXT(struct request, manifest_out) },
	CLI_END,
};

/* ---- places: slices of regions that sgpu-stage has pinned ---- */
/* Returns the handle of --at for a segment, else that in the environment's *variable, or NULL. */
static const char *handle_of(const struct cli_list *at, const struct sgpu_segment *segment,
			     const char **variable)
{
	const size_t length = strlen(segment->id);
	const char *name = NULL, *value;

	*variable = NULL;
	for (int i = 0; i < at->count; i++) {
		if (strncmp(at->items[i], segment->id, length) == 0 &&
		    at->items[i][length] == '=') {
			return at->items[i] + length + 1;
		}
	}
	if (segment->direction == SGPU_OUTPUT) {
		name = segment->dma_var[SGPU_DMA_OUTPUT_HOST];
	} else if (segment->direction == SGPU_INPUT) {
		name = segment->dma_var[SGPU_DMA_INPUT_HOST]
			       ? segment->dma_var[SGPU_DMA_INPUT_HOST]
			       : segment->dma_var[SGPU_DMA_INPUT_DEVICE];
	}
	value = name ? getenv(name) : NULL;
	*variable = name;
	return value && *value ? value : NULL;
}

static int place_segment(const struct cli_list *at, const struct sgpu_segment *segment,
			 struct sgpu_batch_segment *entry, struct sgpu_error *error)
{
	const char *variable, *handle = handle_of(at, segment, &variable);
	const uint64_t needed = sgpu_segment_masked_size(entry);
	uint64_t size = 0;
	char where[SGPU_ID_MAX + 32];
	struct sgpu_location place;
	int rc;

	if (!handle) {
		return SGPU_OK;
	}
	snprintf(where, sizeof(where), "the place of segment '%s'", segment->id);
	if (segment->direction == SGPU_INPUT_OUTPUT) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "%s: an INPUT_OUTPUT has a payload and a result, and neither has "
				 "a place",
				 where);
	}
	if (segment->size_of_file) {
		return sgpu_fail(error, SGPU_EUSAGE, "%s: the manifest does not say its size",
				 where);
	}
	rc = sgpu_handle_parse(handle, where, &place, &size, error);
	if (rc == SGPU_EINVALID && variable) { /* its value may be a secret of something else */
		return sgpu_fail(error, rc,
				 "%s: the variable '%s' has no handle, sgpu:ID:OFFSET:SIZE", where,
				 variable);
	}
	rc = rc ? rc : sgpu_segment_place(entry, &place, error);
	return rc || size >= needed
		       ? rc
		       : sgpu_fail(error, SGPU_EINVALID, "%s has %llu bytes, and %llu are needed",
				   where, (unsigned long long)size, (unsigned long long)needed);
}

/* A segment of --at must be one that travels. */
static int check_places(const struct sgpu_manifest *manifest, const struct cli_list *at)
{
	for (int i = 0; i < at->count; i++) {
		const char *end = strchr(at->items[i], '=');
		char *id = end ? strndup(at->items[i], (size_t)(end - at->items[i])) : NULL;
		const int index = id ? sgpu_manifest_segment(manifest, id) : -1;

		free(id);
		if (index < 0 || manifest->segments[index].direction == SGPU_INTERMEDIATE) {
			return cli_usage("--at '%s' is not SEGMENT=HANDLE of an input or output",
					 SGPU_EXCERPT(at->items[i]));
		}
	}
	return 0;
}

/* Prints every error and returns the status of the first. */
static int find_payloads(const struct sgpu_manifest *manifest, struct payload_folder *folder,
			 const struct cli_list *at, struct sgpu_batch *batch)
{
	int status = check_places(manifest, at), next = 0;

	for (int i = 0; i < manifest->segment_count; i++) {
		const struct sgpu_segment *segment = &manifest->segments[i];
		struct sgpu_error error = { 0 };

		if (segment->direction == SGPU_INTERMEDIATE) {
			continue;
		}
		if (place_segment(at, segment, &batch->segments[next], &error) ||
		    (sgpu_segment_is_input(segment) &&
		     payload_take(folder, segment, &batch->segments[next], &error))) {
			int failed = cli_error(&error);

			status = status ? status : failed;
		}
		next++;
	}
	return status;
}

static int write_payload(int fd, const char *name, const struct sgpu_batch *batch, int segment,
			 void *folder, struct sgpu_error *error)
{
	const struct sgpu_batch_segment *s = &batch->segments[segment];
	const int spool = ((struct payload_folder *)folder)->spool;

	return lseek(spool, (off_t)s->location.offset, SEEK_SET) < 0
		       ? sgpu_fail_errno(error, "cannot read a temporary file")
		       : cli_copy(spool, "temporary file", s->size, fd, name, NULL, error);
}

static int pack(struct document *document, const struct request *request)
{
	const char *output = request->output;
	const bool outside = request->outside;
	struct payload_folder folder = { .allow_outside = outside, .spool = -1 };
	const char *name = cli_is_standard(output) ? "standard output" : output;
	struct sgpu_output out = SGPU_OUTPUT_INIT;
	struct sgpu_batch *batch = NULL;
	struct sgpu_error error = { 0 };
	int rc, status;

	if (payload_folder_open(document->path, &folder, &error)) {
		return cli_error(&error);
	}
	status = module_digests_fill(document, &folder, outside ? 0 : SGPU_MANIFEST_INSIDE);
	if (!status && sgpu_batch_create(document->manifest, &batch, &error)) {
		status = cli_error(&error);
	}
	if (!status) {
		cli_progress_begin("pack", 0);
		status = find_payloads(document->manifest, &folder, &request->at, batch);
		cli_progress_end();
	}
	status = status || !array_note(&folder, document->manifest, batch, &error)
			 ? status
			 : cli_error(&error);
	status = status || !sgpu_places_check(batch, &error) ? status : cli_error(&error);
	/* The payloads' files are known only now. */
	if (!status && cli_is_input(output)) {
		status = cli_usage("'%s' is both input and output", name);
	}
	if (!status && request->by_hash) {
		status = text_write(request->manifest_out, batch->manifest_text,
				    batch->manifest_size);
		free(batch->manifest_text);
		batch->manifest_text = NULL;
		batch->manifest_size = 0;
	}
	for (int i = 0; !status && i < batch->segment_count; i++) {
		struct sgpu_batch_segment *s = &batch->segments[i];

		if (s->input && s->masking == SGPU_MASKING_NONE && s->place &&
		    payload_place(s, &error)) {
			status = cli_error(&error);
		}
	}
	if (!status) {
		rc = cli_output_take(&out, output, 0666, false, &error);
		rc = rc ? rc
			: sgpu_batch_write(out.fd, name, batch, write_payload, &folder, &error);
		rc = rc ? rc : sgpu_output_commit(&out, &error);
		status = rc ? cli_error(&error) : 0;
		sgpu_output_close(&out);
	}
	sgpu_batch_free(&batch);
	payload_folder_close(&folder);
	return status;
}

int verb_pack(int argc, char **argv)
{
	struct request request = { 0 };
	const char *output;
	struct document document;
	char **paths;
	int status = cli_read(argc, argv, &request, &paths);

	if (status) {
		return status;
	}
	output = request.output ? request.output : "-";
	if (request.by_hash != (request.manifest_out != NULL)) {
		return cli_usage("--by-hash and --manifest-out, the manifest's file, go together");
	}
	cli_remember_input(paths[0]);
	status = cli_binary_output(output);
	status = status ? status : cli_output_prepare(output, 0666, false);
	status = status ? status : cli_output_prepare(request.manifest_out, 0666, false);
	if (status) {
		return status;
	}
	cli_signals(NULL);
	status = document_load(paths[0], request.outside ? 0 : SGPU_MANIFEST_INSIDE, &document);
	status = status ? status : pack(&document, &request);
	free(request.at.items);
	document_free(&document);
	return cli_finish(status);
}
