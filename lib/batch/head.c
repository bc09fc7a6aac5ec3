/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and writes the first two members of a batch or a response, index and manifest, which must
 * agree.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "crypto/crypto.h"
#include "index.h"
#include "tar.h"

static const char *index_name(bool response)
{
	return response ? "response.json" : "batch.json";
}

/* Reads the rest of the current member into memory that grows as bytes arrive: the size in the
 * header is not trusted. */
static int read_text(struct sgpu_tar_reader *reader, uint64_t size, char **text,
		     struct sgpu_error *error)
{
	uint64_t got = 0;
	char *data = malloc(1);
	int rc = data ? 0 : sgpu_fail_nomem(error);
	while (!rc && got < size) {
		const uint64_t wanted = got ? 2 * got : 1 << 16;
		const uint64_t next = wanted < size ? wanted : size;
		char *grown = realloc(data, (size_t)next + 1);
		if (!grown) {
			rc = sgpu_fail_nomem(error);
			break;
		}
		data = grown;
		rc = sgpu_tar_read(reader, data + got, (size_t)(next - got), error);
		got = next;
	}
	if (rc) {
		free(data);
		return rc;
	}
	data[size] = '\0';
	*text = data;
	return 0;
}

static int read_index(struct sgpu_tar_reader *reader, bool response, uint64_t size,
		      struct sgpu_batch **batch, struct sgpu_error *error)
{
	char *text = NULL;
	if (size > SGPU_INDEX_SIZE_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s': %s is larger than %d bytes",
				 reader->name, index_name(response), SGPU_INDEX_SIZE_MAX);
	}
	int rc = read_text(reader, size, &text, error);
	rc = rc ? rc : sgpu_batch_parse(text, (size_t)size, response, batch, error);
	free(text);
	return rc;
}

static int read_manifest(struct sgpu_tar_reader *reader, struct sgpu_batch *batch,
			 struct sgpu_error *error)
{
	const char *member = NULL;
	uint64_t size = 0;
	int rc = sgpu_tar_next(reader, &member, &size, error);
	if (rc) {
		return rc;
	}
	if (!member || strcmp(member, "manifest.json") || size > SGPU_MANIFEST_SIZE_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s': manifest.json does not follow %s",
				 reader->name, index_name(batch->response));
	}
	rc = read_text(reader, size, &batch->manifest_text, error);
	if (!rc) {
		batch->manifest_size = (size_t)size;
	}
	return rc;
}

static bool belongs(const struct sgpu_segment *wanted, bool response)
{
	return response ? sgpu_segment_is_output(wanted) : wanted->direction != SGPU_INTERMEDIATE;
}

/* Checks the rules that need the manifest: which segments come with a payload, and their
 * masking. */
static int check_segment(const struct sgpu_batch *batch, const struct sgpu_batch_segment *s,
			 const struct sgpu_segment *wanted, struct sgpu_error *error)
{
	const bool high = wanted->sensitivity == SGPU_HIGH;
	if (high && s->masking == SGPU_MASKING_NONE) {
		return sgpu_segment_fail(s, SGPU_EPOLICY, " is HIGH and MASKING_NONE", error);
	}
	if (!high && s->masking != SGPU_MASKING_NONE) {
		return sgpu_segment_fail(s, SGPU_EINVALID, " is LOW and not MASKING_NONE", error);
	}
	if (batch->response) {
		return 0;
	}
	const enum sgpu_location_kind kind = s->location.kind;
	if (!sgpu_segment_is_input(wanted)) {
		if (s->sealed || s->has_kt128 ||
		    (kind != SGPU_LOCATION_NONE && kind != SGPU_LOCATION_REGION)) {
			return sgpu_segment_fail(s, SGPU_EINVALID,
						 " is an OUTPUT and has a payload", error);
		}
		return 0;
	}
	if (kind == SGPU_LOCATION_NONE) {
		return sgpu_segment_fail(s, SGPU_EINVALID, " is an input and has no location",
					 error);
	}
	if (!high && !s->has_kt128) {
		return sgpu_segment_fail(s, SGPU_EINVALID, " has a payload and no kt128", error);
	}
	if (high && batch->has_mac && !s->sealed) {
		return sgpu_segment_fail(s, SGPU_EPOLICY,
					 " is HIGH and not sealed, in a sealed batch", error);
	}
	return 0;
}

static int check_segments(struct sgpu_batch *batch, const struct sgpu_manifest *manifest,
			  struct sgpu_error *error)
{
	int wanted = 0;
	bool high = false;
	for (int i = 0; i < manifest->segment_count; i++) {
		wanted += belongs(&manifest->segments[i], batch->response);
		high = high || manifest->segments[i].sensitivity == SGPU_HIGH;
	}
	for (int i = 0; i < batch->segment_count; i++) {
		struct sgpu_batch_segment *s = &batch->segments[i];
		const int at = sgpu_manifest_segment(manifest, s->id);
		if (at < 0 || !belongs(&manifest->segments[at], batch->response)) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "segment '%s' is not in the manifest%s", s->id,
					 at < 0 ? "" : ", in this direction");
		}
		const int rc = check_segment(batch, s, &manifest->segments[at], error);
		if (rc) {
			return rc;
		}
		s->input = sgpu_segment_is_input(&manifest->segments[at]);
		s->output = sgpu_segment_is_output(&manifest->segments[at]);
	}
	if (wanted != batch->segment_count) { /* no id is repeated, so some segments of the manifest
						 are missing */
		return sgpu_fail(error, SGPU_EINVALID, "%s has %d segments, the manifest has %d",
				 index_name(batch->response), batch->segment_count, wanted);
	}
	if (batch->response && high && !batch->has_mac) {
		return sgpu_fail(error, SGPU_EPOLICY,
				 "the response of a batch with HIGH segments has no mac");
	}
	return 0;
}

static int check_manifest(struct sgpu_batch *batch, const struct sgpu_manifest *manifest,
			  const struct sgpu_diagnostics *diagnostics, struct sgpu_error *error)
{
	if (diagnostics->count) {
		return sgpu_fail(error, SGPU_EINVALID, "manifest.json: %s: %s",
				 diagnostics->list[0].pointer, diagnostics->list[0].text);
	}
	if (diagnostics->out_of_memory) {
		return sgpu_fail_nomem(error);
	}
	if (!manifest || manifest->canonical_size != batch->manifest_size ||
	    memcmp(manifest->canonical, batch->manifest_text, batch->manifest_size)) {
		return sgpu_fail(error, SGPU_EINVALID, "manifest.json is not in canonical form");
	}
	return check_segments(batch, manifest, error);
}

/* find: finds manifests that were parsed before; NULL: none. */
static int check_head(struct sgpu_batch *batch, sgpu_manifest_find_fn find, void *argument,
		      struct sgpu_error *error)
{
	const struct sgpu_manifest *known;
	struct sgpu_diagnostics diagnostics = { 0 };
	uint8_t digest[SGPU_SHA256_SIZE];
	int rc = sgpu_sha256(batch->manifest_text, batch->manifest_size, digest, error);
	if (rc) {
		return rc;
	}
	if (!sgpu_equal(digest, batch->manifest_sha256, sizeof(digest))) {
		return sgpu_fail(error, SGPU_EAUTH,
				 "manifest.json is not the manifest that %s names",
				 index_name(batch->response));
	}
	known = find ? find(argument, digest) : NULL;
	if (known) {
		return check_segments(batch, known, error);
	}
	rc = sgpu_manifest_parse(batch->manifest_text, batch->manifest_size, &batch->manifest,
				 &diagnostics, error);
	if (!rc || (rc == SGPU_EINVALID && diagnostics.count)) {
		rc = check_manifest(batch, batch->manifest, &diagnostics, error);
	}
	sgpu_diagnostics_clear(&diagnostics);
	return rc;
}

static bool is_staged(const struct sgpu_batch *batch)
{
	for (int i = 0; i < batch->segment_count; i++) {
		if (batch->segments[i].location.kind == SGPU_LOCATION_REGION) {
			return true;
		}
	}
	return false;
}

/* Fails, and says what the archive is instead of the wanted batch or response. */
static int fail_other(struct sgpu_tar_reader *reader, bool is_batch, bool is_response,
		      uint64_t size, const char *wanted, struct sgpu_error *error)
{
	struct sgpu_batch *batch = NULL;
	struct sgpu_error ignored;
	const bool is_refusal = !strcmp(reader->member, SGPU_REFUSAL_MEMBER);
	const int rc = is_refusal && !strcmp(wanted, "response") ? SGPU_EREFUSED : SGPU_EINVALID;
	const bool staged =
		is_batch && !read_index(reader, false, size, &batch, &ignored) && is_staged(batch);

	sgpu_batch_free(&batch);
	sgpu_fail(error, rc, "'%s' is %s, not a %s", reader->name,
		  staged	? "a staged batch"
		  : is_batch	? "a batch"
		  : is_response ? "a response"
		  : is_refusal	? "a refusal"
				: "another tar archive",
		  wanted);
	if (is_batch) {
		return sgpu_hint(error, "'sgpu-run' makes a response of it");
	}
	return is_response ? sgpu_hint(error, "'sgpu-seal open' takes it") : rc;
}

static int read_first(struct sgpu_tar_reader *reader, unsigned what, struct sgpu_batch **batch,
		      struct sgpu_error *error)
{
	const char *member = NULL;
	uint64_t size = 0;
	*batch = NULL;
	int rc = sgpu_tar_next(reader, &member, &size, error);
	if (rc) {
		return rc;
	}
	const bool is_batch = member && !strcmp(member, index_name(false));
	const bool is_response = member && !strcmp(member, index_name(true));
	if (!(is_batch && what & SGPU_READ_BATCH) && !(is_response && what & SGPU_READ_RESPONSE)) {
		return fail_other(reader, is_batch, is_response, size,
				  what & SGPU_READ_BATCH ? "batch" : "response", error);
	}
	return read_index(reader, is_response, size, batch, error);
}

static int read_parts(struct sgpu_tar_reader *reader, unsigned what, sgpu_manifest_find_fn find,
		      void *argument, struct sgpu_batch **batch, struct sgpu_error *error)
{
	int rc = read_first(reader, what, batch, error);
	if (rc || what & SGPU_READ_INDEX) {
		return rc;
	}
	rc = read_manifest(reader, *batch, error);
	rc = rc ? rc : check_head(*batch, find, argument, error);
	if (rc) {
		sgpu_batch_free(batch);
	}
	reader->cursor = 0;
	return rc;
}

int sgpu_batch_read(struct sgpu_tar_reader *reader, unsigned what, struct sgpu_batch **batch,
		    struct sgpu_error *error)
{
	return read_parts(reader, what, NULL, NULL, batch, error);
}

int sgpu_batch_read_known(struct sgpu_tar_reader *reader, sgpu_manifest_find_fn find,
			  void *argument, struct sgpu_batch **batch, struct sgpu_error *error)
{
	return read_parts(reader, SGPU_READ_BATCH, find, argument, batch, error);
}

static size_t member_size(size_t size)
{
	return SGPU_TAR_BLOCK + (size_t)sgpu_tar_padded(size);
}

/* Writes a member to *at, in zeroed memory, and moves *at past it. */
static int put_member(uint8_t **at, const char *member, const char *text, size_t size,
		      struct sgpu_error *error)
{
	const int rc = sgpu_tar_make_header(member, size, *at, error);
	if (!rc) {
		memcpy(*at + SGPU_TAR_BLOCK, text, size);
		*at += member_size(size);
	}
	return rc;
}

int sgpu_batch_write_head(int fd, const char *name, const struct sgpu_batch *batch,
			  struct sgpu_error *error)
{
	char *text = NULL;
	uint8_t *head = NULL, *end;
	size_t size = 0;
	int rc = sgpu_batch_text(batch, &text, &size, error);
	if (rc) {
		return rc;
	}
	head = end = calloc(1, member_size(size) + member_size(batch->manifest_size));
	if (!head) {
		rc = sgpu_fail_nomem(error);
		goto out;
	}
	rc = put_member(&end, index_name(batch->response), text, size, error);
	rc = rc ? rc
		: put_member(&end, "manifest.json", batch->manifest_text, batch->manifest_size,
			     error);
	rc = rc ? rc : sgpu_write(fd, name, head, (size_t)(end - head), error);
out:
	free(head);
	free(text);
	return rc;
}
