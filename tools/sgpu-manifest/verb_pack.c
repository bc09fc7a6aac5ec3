/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest pack: a batch whose payloads are references to the files. Everything is checked before a byte is
 * written.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>
#include <sgpu/io.h>

#include "document.h"
#include "module_digest.h"
#include "payload.h"
#include "verbs.h"

struct request {
	const char *output;
	bool outside;
};

const struct cli_option pack_options[] = {
	CLI_COMMON, OPTION_OUTPUT(struct request), OPTION_OUTSIDE(struct request), CLI_END
};

/* Every segment but the INTERMEDIATE ones, in the manifest's order. Each fault of a payload is printed; the status
 * is that of the first. */
static int fill_segments(const struct sgpu_manifest *manifest, struct payload_folder *folder,
			 struct sgpu_batch *batch)
{
	int status = 0;

	for (int i = 0; i < manifest->segment_count; i++) {
		const struct sgpu_segment *segment = &manifest->segments[i];
		struct sgpu_batch_segment *entry = &batch->segments[batch->segment_count];
		struct sgpu_error error = { 0 };

		if (segment->direction == SGPU_INTERMEDIATE) {
			continue;
		}
		batch->segment_count++;
		entry->id = strdup(segment->id);
		entry->masking = segment->sensitivity == SGPU_HIGH ? SGPU_MASKING_AES_GCM : SGPU_MASKING_NONE;
		if (!entry->id || !sgpu_type_bytes(&segment->type, &entry->size)) {
			return cli_fail(SGPU_ENOMEM, "out of memory");
		}
		if (sgpu_segment_is_input(segment) && payload_take(folder, segment, entry, &error)) {
			int failed = cli_error(&error);

			status = status ? status : failed;
		}
	}
	return status;
}

/* Bytes that have to be read and hashed. */
static uint64_t open_bytes(const struct sgpu_manifest *manifest)
{
	uint64_t total = 0, bytes;

	for (int i = 0; i < manifest->segment_count; i++) {
		const struct sgpu_segment *segment = &manifest->segments[i];

		if (sgpu_segment_is_input(segment) && segment->sensitivity == SGPU_LOW &&
		    sgpu_type_bytes(&segment->type, &bytes)) {
			total += bytes;
		}
	}
	return total;
}

static int make_batch(const struct document *document, struct payload_folder *folder, struct sgpu_batch **batch)
{
	const struct sgpu_manifest *manifest = document->manifest;
	struct sgpu_error error = { 0 };
	struct sgpu_batch *b = *batch = calloc(1, sizeof(*b));
	int status;

	if (b) {
		b->segments = calloc((size_t)manifest->segment_count, sizeof(*b->segments));
		b->manifest_text = strdup(manifest->canonical);
		b->manifest_size = manifest->canonical_size;
	}
	if (!b || !b->segments || !b->manifest_text) {
		return cli_fail(SGPU_ENOMEM, "out of memory");
	}
	memcpy(b->manifest_sha256, manifest->sha256, sizeof(b->manifest_sha256));
	if (sgpu_random(b->id, sizeof(b->id), &error)) {
		return cli_error(&error);
	}
	cli_progress_begin("pack", open_bytes(manifest));
	status = fill_segments(manifest, folder, b);
	cli_progress_end();
	return status;
}

static int write_payloads(const struct payload_folder *folder, const struct sgpu_batch *batch, int fd,
			  const char *name, struct sgpu_error *error)
{
	int code = SGPU_OK;

	for (int i = 0; i < batch->segment_count && !code; i++) {
		if (batch->segments[i].location.kind != SGPU_LOCATION_INLINE) {
			continue;
		}
		code = sgpu_batch_payload_begin(fd, name, batch, i, error);
		if (!code) {
			code = payload_copy_spool(folder, batch->segments[i].size, fd, name, error);
		}
		if (!code) {
			code = sgpu_batch_payload_end(fd, name, batch, i, error);
		}
	}
	return code;
}

static int write_batch(const struct payload_folder *folder, const struct sgpu_batch *batch, const char *path)
{
	struct sgpu_output output = SGPU_OUTPUT_INIT;
	struct sgpu_error error = { 0 };
	const char *name = strcmp(path, "-") ? path : "standard output";
	int code = cli_output_take(&output, path, 0666, &error);

	if (!code && !cli_binary_output(output.fd)) {
		sgpu_output_close(&output);
		return 2;
	}
	if (!code) {
		code = sgpu_batch_write_head(output.fd, name, batch, &error);
	}
	if (!code) {
		code = write_payloads(folder, batch, output.fd, name, &error);
	}
	if (!code) {
		code = sgpu_tar_end(output.fd, name, &error);
	}
	if (!code) {
		code = sgpu_output_commit(&output, &error);
	}
	sgpu_output_close(&output);
	return code ? cli_error(&error) : 0;
}

static int pack(struct document *document, const char *output, bool outside)
{
	struct payload_folder folder = { .allow_outside = outside,
					 .output = output,
					 .spool = -1,
					 .standard_input = strcmp(document->path, "-") == 0 };
	struct sgpu_batch *batch = NULL;
	struct sgpu_error error = { 0 };
	int status;

	if (payload_folder_open(document->path, &folder, &error)) {
		return cli_error(&error);
	}
	status = module_digests_fill(document, &folder, outside ? 0 : SGPU_MANIFEST_INSIDE);
	if (!status) {
		status = make_batch(document, &folder, &batch);
	}
	if (!status) {
		status = write_batch(&folder, batch, output ? output : "-");
	}
	sgpu_batch_free(&batch);
	payload_folder_close(&folder);
	return status;
}

int verb_pack(int argc, char **argv)
{
	struct request request = { 0 };
	struct document document;
	char **paths;
	int status = cli_read(argc, argv, &request, &paths);

	if (status) {
		return status;
	}
	if (!output_differs(request.output, paths[0] ? paths[0] : "-")) {
		return 2;
	}
	status = cli_output_prepare(request.output, 0666, false);
	if (status) {
		return status;
	}
	cli_signals(NULL);
	status = document_load(paths[0], request.outside ? 0 : SGPU_MANIFEST_INSIDE, &document);
	if (!status) {
		status = pack(&document, request.output, request.outside);
	}
	document_free(&document);
	return cli_finish(status);
}
