/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds payloads, checks their sizes and hashes them. Of HIGH data only the files' properties and
 * headers are read here, but all of a module's image, whose digest is compared with the manifest's
 * or added to it.
 */
#include "base/io.h"
#include "crypto/crypto.h"
#include "stage/stage.h"
#include "manifest_tool.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

int payload_folder_open(const char *manifest_path, struct payload_folder *folder,
			struct sgpu_error *error)
{
	char *text = folder_of(manifest_path);

	folder->spool = -1;
	if (!text) {
		return sgpu_fail_nomem(error);
	}
	folder->path = realpath(text, NULL);
	if (!folder->path) {
		sgpu_fail_errno(error, "cannot find the directory '%s'", text);
	}
	free(text);
	return folder->path ? SGPU_OK : SGPU_ESYSTEM;
}

void payload_folder_close(struct payload_folder *folder)
{
	sgpu_close(folder->spool);
	folder->spool = -1;
	free(folder->path);
	folder->path = NULL;
}

/* All paths are below "/"; after another folder follows a slash: /database is not below /data. */
static bool is_below(const char *folder, const char *path)
{
	size_t length = strlen(folder);

	return strcmp(folder, "/") == 0 ||
	       (strncmp(folder, path, length) == 0 && path[length] == '/');
}

/* Follows a location's links; it must then be below the folder unless allow_outside is set. */
static int resolve(const struct payload_folder *folder, const struct sgpu_segment *segment,
		   char **path, struct sgpu_error *error)
{
	char *joined = NULL;
	bool absolute = *segment->location == '/';

	if (asprintf(&joined, "%s%s%s", absolute ? "" : folder->path, absolute ? "" : "/",
		     segment->location) < 0) {
		return sgpu_fail_nomem(error);
	}
	*path = realpath(joined, NULL);
	free(joined);
	if (!*path) {
		return sgpu_fail_errno(error, "segment '%s': cannot open '%s'", segment->id,
				       segment->location);
	}
	if (!folder->allow_outside && !is_below(folder->path, *path)) {
		sgpu_fail(error, SGPU_EPOLICY,
			  "segment '%s': '%s' leads outside the manifest's directory, to '%s'",
			  segment->id, segment->location, *path);
		sgpu_hint(error, "--allow-outside permits it");
		free(*path);
		*path = NULL;
		return SGPU_EPOLICY;
	}
	return SGPU_OK;
}

/* Without an offset, the whole file is the payload; with one, a part of it. */
static int check_size(const struct sgpu_segment *segment, uint64_t wanted, uint64_t size,
		      struct sgpu_error *error)
{
	char type[SGPU_TYPE_TEXT_MAX];

	sgpu_type_text(&segment->type, type);
	if (!segment->has_offset && size != wanted) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "segment '%s': '%s' has %" PRIu64 " bytes, %s needs %" PRIu64,
				 segment->id, segment->location, size, type, wanted);
	}
	if (segment->has_offset && (segment->offset > size || size - segment->offset < wanted)) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "segment '%s': '%s' has %" PRIu64 " bytes, %s at offset %" PRIu64
				 " needs %" PRIu64,
				 segment->id, segment->location, size, type, segment->offset,
				 segment->offset + wanted);
	}
	return SGPU_OK;
}

/* Remembers the file so that no output replaces it: such a batch could never be sealed. */
int payload_open(const struct payload_folder *folder, const struct sgpu_segment *segment,
		 char **path, int *fd, uint64_t *size, struct sgpu_error *error)
{
	struct stat status;
	int rc = resolve(folder, segment, path, error);

	if (rc) {
		return rc;
	}
	*fd = open(*path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (*fd < 0 || fstat(*fd, &status)) {
		return sgpu_fail_errno(error, "segment '%s': cannot open '%s'", segment->id, *path);
	}
	if (!S_ISREG(status.st_mode)) {
		rc = segment->sensitivity == SGPU_HIGH ? SGPU_EPOLICY : SGPU_EINVALID;
		sgpu_fail(error, rc, "segment '%s': '%s' is not a regular file", segment->id,
			  *path);
		return rc;
	}
	cli_remember_file(&status);
	if (segment->size_of_file) {
		*size = (uint64_t)status.st_size;
	}
	return segment->size_of_file || segment->file.format
		       ? SGPU_OK
		       : check_size(segment, *size, (uint64_t)status.st_size, error);
}

static void progress(void *argument, uint64_t bytes)
{
	const struct payload_folder *folder = argument;

	cli_progress(NULL, folder->hashed + bytes);
}

int payload_move(struct payload_folder *folder, struct sgpu_endpoint source,
		 struct sgpu_endpoint sink, const char *name, struct sgpu_batch_segment *entry,
		 struct sgpu_error *error)
{
	struct sgpu_host_part part = { .action = SGPU_HOST_COPY,
				       .name = name,
				       .source = source,
				       .sink = sink,
				       .size = entry->size,
				       .found = entry->kt128 };
	struct sgpu_host_move move = {
		.parts = &part, .count = 1, .progress = progress, .progress_argument = folder
	};
	const int rc = sgpu_host_move(&move, error);

	folder->hashed += entry->size;
	entry->has_kt128 = !rc;
	return rc;
}

int payload_hash(struct payload_folder *folder, int fd, const char *name, uint64_t offset,
		 struct sgpu_batch_segment *entry, struct sgpu_error *error)
{
	struct sgpu_descriptor in = {
		.fd = fd, .name = name, .positioned = true, .offset = offset, .pipe = -1
	};

	return payload_move(folder, sgpu_endpoint_of(&in), (struct sgpu_endpoint){ 0 }, name, entry,
			    error);
}

int payload_spool(struct payload_folder *folder, uint64_t *at, struct sgpu_error *error)
{
	int rc = folder->spool < 0 ? cli_temporary_file(&folder->spool, error) : SGPU_OK;
	const off_t end = rc ? 0 : lseek(folder->spool, 0, SEEK_END);

	*at = (uint64_t)end;
	return rc || end >= 0 ? rc : sgpu_fail_errno(error, "cannot use a temporary file");
}

int payload_take(struct payload_folder *folder, const struct sgpu_segment *segment,
		 struct sgpu_batch_segment *entry, struct sgpu_error *error)
{
	int fd = -1, rc;

	if (!segment->location) {
		sgpu_fail(error, SGPU_EINVALID,
			  "segment '%s' is %s and has no data_location_client", segment->id,
			  sgpu_direction_name(segment->direction));
		return sgpu_hint(error, "a batch needs a file for every input");
	}
	if (segment->file.format) {
		return array_take(folder, segment, entry, error);
	}
	rc = payload_open(folder, segment, &entry->location.file, &fd, &entry->size, error);
	if (!rc && segment->sensitivity == SGPU_LOW) {
		rc = payload_hash(folder, fd, segment->location, segment->offset, entry, error);
	}
	entry->location.kind = SGPU_LOCATION_FILE;
	entry->location.offset = segment->offset;
	sgpu_close(fd);
	return rc;
}

int payload_place(struct sgpu_batch_segment *entry, struct sgpu_error *error)
{
	struct sgpu_source from = { .fd = -1 }, slice = { .fd = -1 };
	struct sgpu_error fault = { 0 };
	int rc = sgpu_source_open(&entry->location, entry->size, &from, &fault);

	rc = rc ? rc : sgpu_slice_open(entry->place, entry->size, &slice, &fault);
	if (!rc && (lseek(from.fd, (off_t)from.offset, SEEK_SET) < 0 ||
		    lseek(slice.fd, (off_t)slice.offset, SEEK_SET) < 0)) {
		rc = sgpu_fail_errno(&fault, "cannot copy '%s' to %s", from.name, slice.name);
	}
	rc = rc ? rc : cli_copy(from.fd, from.name, from.size, slice.fd, slice.name, NULL, &fault);
	sgpu_source_close(&slice);
	sgpu_source_close(&from);
	free(entry->location.file);
	entry->location = *entry->place;
	free(entry->place);
	entry->place = NULL;
	if (rc) {
		sgpu_fail(error, rc, "segment '%s': %s", entry->id, fault.text);
		(void)sgpu_hint(error, "%s", fault.hint);
	}
	return rc;
}

/* Measures the module's image in this segment as sgpu-quote(5) says, even if the image is HIGH,
 * because only its digest tells which code is to run. */
static int measure_image(const struct payload_folder *folder, const struct sgpu_segment *segment,
			 uint8_t digest[32], struct sgpu_error *error)
{
	uint8_t *image = NULL;
	uint64_t size = 0;
	size_t got = 0;
	char *path = NULL;
	int fd = -1, rc;

	(void)sgpu_type_bytes(&segment->type, &size);
	rc = payload_open(folder, segment, &path, &fd, &size, error);
	if (!rc && size > SGPU_MODULE_SIZE_MAX) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "segment '%s': '%s' has %" PRIu64 " bytes, a module has 1 to %d",
			       segment->id, segment->location, size, (int)SGPU_MODULE_SIZE_MAX);
	}
	if (!rc) {
		image = malloc(size + 1);
		rc = image ? sgpu_pread(fd, segment->location, image, size, segment->offset, &got,
					error)
			   : sgpu_fail_nomem(error);
	}
	if (!rc && got < size) {
		rc = sgpu_fail(error, SGPU_ESYSTEM, "'%s' changed while it was read",
			       segment->location);
	}
	if (!rc) {
		sgpu_measure_pages(image, size, NULL, digest);
	}
	sgpu_free_wiped(&image, size); /* code can be as secret as data */
	sgpu_close(fd);
	free(path);
	return rc;
}

/* The digest of a segment's image, read once for all operations that use it. */
struct image {
	bool measured;
	char digest[SGPU_BASE64URL_MAX(32)]; /* "": it is not there */
};

/* Adds missing digests to the document's JSON, their number to *added; see module_digests_fill. */
static int fill_digests(const struct document *document, const struct payload_folder *folder,
			int *added)
{
	const struct sgpu_manifest *manifest = document->manifest;
	json_t *operations = json_object_get(manifest->json, "operations");
	struct image *images = calloc((size_t)manifest->segment_count, sizeof(*images));
	int status = images ? 0 : cli_fail_nomem();

	for (int i = 0; images && i < manifest->operation_count; i++) {
		const struct sgpu_operation *operation = &manifest->operations[i];
		const struct sgpu_module_call *module = operation->module;
		struct sgpu_error error = { 0 };
		int failed = 0;

		if (!module) {
			continue;
		}
		const struct sgpu_segment *segment = &manifest->segments[module->segment];
		struct image *image = &images[module->segment];
		uint8_t digest[32];
		char stated[SGPU_BASE64URL_MAX(32)];

		if (!image->measured && segment->location) {
			image->measured = true;
			if (measure_image(folder, segment, digest, &error)) {
				failed = cli_error(&error);
			} else {
				sgpu_base64url_encode(digest, sizeof(digest), image->digest);
			}
		}
		sgpu_base64url_encode(module->digest, sizeof(module->digest), stated);
		if (module->has_digest && *image->digest && strcmp(stated, image->digest) != 0) {
			failed = cli_fail(SGPU_EDIFFERS,
					  "operation '%s': module_digest is '%s', but that of '%s' "
					  "is '%s'",
					  operation->id, stated, segment->location, image->digest);
		} else if (!module->has_digest && *image->digest) {
			json_object_set_new(json_array_get(operations, (size_t)i), "module_digest",
					    json_string(image->digest));
			++*added;
		} else if (!module->has_digest && !status && !failed) {
			cli_warning("operation '%s': no file to take a module_digest from, and no "
				    "runner takes a module without one",
				    operation->id);
		}
		status = status ? status : failed;
	}
	free(images);
	return status;
}

int module_digests_fill(struct document *document, const struct payload_folder *folder,
			unsigned options)
{
	struct document filled;
	int added = 0, status = fill_digests(document, folder, &added);

	if (status || !added) {
		return status;
	}
	status = document_check(document->manifest->json, document->name, options, &filled);
	filled.path = document->path;
	document_free(document);
	*document = filled;
	return status;
}
