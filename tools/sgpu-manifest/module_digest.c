/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparing and filling in the digests of modules.
 */
#include "base/json.h"
#include "manifest_tool.h"

#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "cli.h"

/* Of one segment's image, read once however many operations use it. */
struct image {
	bool measured, there;
	char digest[SGPU_BASE64URL_MAX(32)];
};

static bool has_file(const struct sgpu_segment *segment)
{
	return segment->location && strcmp(segment->location, "-") != 0;
}

static int measure(const struct payload_folder *folder, const struct sgpu_segment *segment,
		   struct image *image, struct sgpu_error *error)
{
	uint8_t digest[32];
	int code = has_file(segment) && !image->measured
			   ? payload_measure(folder, segment, digest, error)
			   : SGPU_OK;

	if (has_file(segment) && !image->measured && !code) {
		sgpu_base64url_encode(digest, sizeof(digest), image->digest);
		image->there = true;
	}
	image->measured = true;
	return code;
}

static int compare(const struct sgpu_operation *operation, const struct sgpu_segment *segment,
		   const struct image *image)
{
	char stated[SGPU_BASE64URL_MAX(32)];

	sgpu_base64url_encode(operation->module->digest, 32, stated);
	if (!image->there || strcmp(stated, image->digest) == 0) {
		return 0;
	}
	return cli_fail(SGPU_EDIFFERS,
			"operation '%s': module_digest is '%s', but that of '%s' is '%s'",
			operation->id, stated, segment->location, image->digest);
}

int module_digests_compare(const struct document *document, const struct payload_folder *folder)
{
	const struct sgpu_manifest *manifest = document->manifest;
	struct image *images = calloc((size_t)manifest->segment_count, sizeof(*images));
	int status = images ? 0 : cli_fail(SGPU_ENOMEM, "out of memory");

	for (int i = 0; images && i < manifest->operation_count; i++) {
		const struct sgpu_operation *operation = &manifest->operations[i];
		const struct sgpu_module_call *module = operation->module;
		struct sgpu_error error = { 0 };
		int differs;

		if (!module || !module->has_digest) {
			continue;
		}
		if (measure(folder, &manifest->segments[module->segment], &images[module->segment],
			    &error)) {
			cli_detail("%s: not compared with module_digest: %s", document->name,
				   error.text);
		}
		differs = compare(operation, &manifest->segments[module->segment],
				  &images[module->segment]);
		status = status ? status : differs;
	}
	free(images);
	return status;
}

/* The digests into the document's JSON; *added counts those that were absent. */
static int fill(const struct sgpu_manifest *manifest, const struct payload_folder *folder,
		struct image *images, int *added)
{
	json_t *operations = json_object_get(manifest->json, "operations");
	int status = 0;

	for (int i = 0; i < manifest->operation_count; i++) {
		const struct sgpu_operation *operation = &manifest->operations[i];
		const struct sgpu_segment *segment;
		struct sgpu_error error = { 0 };
		struct image *image;
		int failed = 0;

		if (!operation->module) {
			continue;
		}
		segment = &manifest->segments[operation->module->segment];
		image = &images[operation->module->segment];
		if (measure(folder, segment, image, &error)) {
			failed = cli_error(&error);
		} else if (operation->module->has_digest) {
			failed = compare(operation, segment, image);
		} else if (!has_file(segment)) {
			cli_warning("operation '%s': no file to take a module_digest from, and no "
				    "runner takes a module "
				    "without one",
				    operation->id);
		} else if (image->there) {
			json_object_set_new(json_array_get(operations, (size_t)i), "module_digest",
					    json_string(image->digest));
			++*added;
		}
		status = status ? status : failed;
	}
	return status;
}

int module_digests_fill(struct document *document, const struct payload_folder *folder,
			unsigned options)
{
	struct image *images = calloc((size_t)document->manifest->segment_count, sizeof(*images));
	struct sgpu_error error = { 0 };
	struct document filled;
	char *text = NULL;
	size_t size = 0;
	int added = 0, status;

	status = images ? fill(document->manifest, folder, images, &added)
			: cli_fail(SGPU_ENOMEM, "out of memory");
	free(images);
	if (status || !added) {
		return status;
	}
	if (sgpu_json_canonical(document->manifest->json, &text, &size, &error)) {
		return cli_error(&error);
	}
	status = document_check(text, size, document->name, options, &filled);
	free(text);
	filled.path = document->path;
	document_free(document);
	*document = filled;
	return status;
}
