/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest merge: reports on the responses of shards together. Each has its own batch key, so
 * its payloads stay in it.
 */
#include <stdio.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "manifest_tool.h"

const struct cli_option merge_options[] = {
	{ "manifest", 'm', "FILE", "the manifest that was split: all its outputs must be there",
	  CLI_TEXT(struct request, manifest) },
	CLI_END
};

struct merger {
	json_t *segments; /* records, in the order of the responses */
	json_t *ids;	  /* keys are segment ids, values names of their responses */
	json_t *responses;
	json_t *missing; /* ids of outputs that no response has */
	int failed;
};

static int add_segment(struct merger *merger, const struct sgpu_batch_segment *segment,
		       const char *name)
{
	const json_t *other = json_object_get(merger->ids, segment->id);
	json_t *record;

	if (other) {
		return cli_fail(SGPU_EINVALID, "'%s' and '%s' both have the output '%s'",
				json_string_value(other), name, segment->id);
	}
	record = json_pack(
		"{s:s, s:s, s:I, s:s, s:o, s:o*}", "segment_id", segment->id, "status",
		segment->status ? sgpu_error_name(segment->status) : "OK", "bytes",
		(json_int_t)segment->size, "masking_level",
		segment->masking == SGPU_MASKING_NONE ? "MASKING_NONE" : "MASKING_AES_GCM",
		"response", cli_json_text(name), "error", cli_json_text(segment->error_text));
	merger->failed += segment->status != SGPU_OK;
	if (json_object_set_new(merger->ids, segment->id, cli_json_text(name)) ||
	    json_array_append_new(merger->segments, record)) {
		return cli_fail_nomem();
	}
	return 0;
}

/* Reads a response to its end, to detect a truncated one. */
static int add_response(struct merger *merger, const char *path)
{
	struct sgpu_tar_reader *reader = NULL;
	struct sgpu_batch *batch = NULL;
	struct sgpu_error error = { 0 };
	char id[2 * SGPU_BATCH_ID_SIZE + 1], hash[2 * SGPU_SHA256_SIZE + 1];
	const char *name;
	int fd, rc, segment = 0, status = cli_input(path, &name, &fd);

	if (status) {
		return status;
	}
	rc = sgpu_tar_open(fd, name, &reader, &error);
	rc = rc ? rc : sgpu_batch_read(reader, SGPU_READ_RESPONSE, &batch, &error);
	while (!rc && segment >= 0) {
		rc = sgpu_batch_next_payload(reader, batch, &segment, &error);
	}
	status = rc ? cli_error(&error) : 0;
	for (int i = 0; !status && i < batch->segment_count; i++) {
		status = add_segment(merger, &batch->segments[i], name);
	}
	if (!status) {
		sgpu_hex_encode(batch->id, sizeof(batch->id), id);
		sgpu_hex_encode(batch->manifest_sha256, sizeof(batch->manifest_sha256), hash);
		json_array_append_new(merger->responses,
				      json_pack("{s:o, s:s, s:s}", "file", cli_json_text(name),
						"batch_id", id, "manifest_sha256", hash));
	}
	sgpu_tar_close(&reader);
	sgpu_batch_free(&batch);
	if (fd > STDERR_FILENO) {
		close(fd);
	}
	return status;
}

/* Also refuses an output that the manifest lacks. */
static int find_missing(struct merger *merger, const char *path)
{
	struct document document;
	int status = document_load(path, 0, &document);

	for (int i = 0; !status && i < document.manifest->segment_count; i++) {
		const struct sgpu_segment *segment = &document.manifest->segments[i];

		if (sgpu_segment_is_output(segment) && json_object_del(merger->ids, segment->id)) {
			json_array_append_new(merger->missing, json_string(segment->id));
		}
	}
	const char *id = json_object_iter_key(json_object_iter(merger->ids));
	if (!status && id) {
		status = cli_fail(SGPU_EINVALID, "'%s' has the output '%s', which '%s' lacks",
				  cli_text_of(merger->ids, id), id, path);
	}
	document_free(&document);
	return status;
}

static int report(const struct merger *merger)
{
	const int missing = (int)json_array_size(merger->missing);
	json_t *record =
		json_pack("{s:O, s:O, s:O, s:i}", "responses", merger->responses, "segments",
			  merger->segments, "missing", merger->missing, "failed", merger->failed);
	int status = 0;

	if (cli_json) {
		status = json_write(NULL, record);
	} else {
		cli_table(stdout, merger->segments, "segment_id status bytes response error");
		json_object_del(record, "responses");
		json_object_del(record, "segments");
		cli_record(stdout, record);
		json_decref(record);
	}
	if (!status && (merger->failed || missing)) {
		status = cli_fail(SGPU_ESEGMENTS, "%d of %zu outputs failed, %d are missing",
				  merger->failed,
				  json_array_size(merger->segments) + (size_t)missing, missing);
	}
	return status;
}

int verb_merge(int argc, char **argv)
{
	struct request request = { 0 };
	struct merger merger = { .segments = json_array(),
				 .ids = json_object(),
				 .responses = json_array(),
				 .missing = json_array() };
	char **responses;
	int status = cli_read(argc, argv, &request, &responses);

	for (char **response = responses; *response && !status; response++) {
		status = add_response(&merger, *response);
	}
	if (!status && request.manifest) {
		status = find_missing(&merger, request.manifest);
	}
	status = status ? status : report(&merger);
	json_decref(merger.missing);
	json_decref(merger.responses);
	json_decref(merger.ids);
	json_decref(merger.segments);
	return status;
}
