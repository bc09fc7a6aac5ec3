/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and writes the members before the inline payloads, which are in the order of the index.
 * seal.json names the index by its digest, the index the manifest; nothing binds locations.json.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "crypto/crypto.h"
#include "index.h"
#include "tar.h"

/* The memory grows as bytes arrive, since the size in the header is not trusted. */
static int read_text(struct sgpu_tar_reader *reader, uint64_t size, uint64_t most, char **text,
		     struct sgpu_error *error)
{
	if (size > most) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s': %s is larger than %llu bytes",
				 reader->name, reader->member, (unsigned long long)most);
	}
	char *data = NULL;
	size_t got = 0, next = 1 << 16;
	int rc;

	do {
		next = next < size ? next : (size_t)size;
		char *grown = realloc(data, next + 1);
		data = grown ? grown : data;
		rc = grown ? sgpu_tar_read(reader, data + got, next - got, error)
			   : sgpu_fail_nomem(error);
		got = next;
		next *= 2;
	} while (!rc && got < size);
	if (rc) {
		free(data);
		return rc;
	}
	data[size] = '\0';
	*text = data;
	return 0;
}

/* optional: an absent member leaves *text as it is. */
static int read_member(struct sgpu_tar_reader *reader, const char *wanted, bool optional,
		       uint64_t most, char **text, size_t *size, struct sgpu_error *error)
{
	const char *member = NULL;
	uint64_t bytes = 0;
	int rc = sgpu_tar_next(reader, &member, &bytes, error);

	if (!rc && (!member || strcmp(member, wanted) != 0)) {
		reader->again = true;
		return optional ? SGPU_OK
				: sgpu_fail(error, SGPU_EINVALID,
					    "'%s': '%s' stands where %s belongs", reader->name,
					    member ? member : "the end", wanted);
	}
	rc = rc ? rc : read_text(reader, bytes, most, text, error);
	*size = rc ? 0 : (size_t)bytes;
	return rc;
}

/* Compares a member with its digest in `by`, the member before it. */
static int check_digest(const char *text, size_t size, const uint8_t wanted[SGPU_SHA256_SIZE],
			const char *what, const char *by, struct sgpu_error *error)
{
	uint8_t digest[SGPU_SHA256_SIZE];
	const int rc = sgpu_sha256(text, size, digest, error);

	return rc || sgpu_equal(digest, wanted, sizeof(digest))
		       ? rc
		       : sgpu_fail(error, SGPU_EAUTH, "%s is not the one that %s names", what, by);
}

/* Checks by the manifest which segments come with a payload, and how it is protected. */
static int check_by_manifest(const struct sgpu_batch *batch, const struct sgpu_batch_segment *s,
			     const struct sgpu_segment *wanted, struct sgpu_error *error)
{
	const bool high = wanted->sensitivity == SGPU_HIGH;

	if (high && s->masking == SGPU_MASKING_NONE) {
		return sgpu_segment_fail(s, SGPU_EPOLICY, " is HIGH and MASKING_NONE", error);
	}
	if (!high && s->masking != SGPU_MASKING_NONE) {
		return sgpu_segment_fail(s, SGPU_EINVALID, " is LOW and not MASKING_NONE", error);
	}
	if (!sgpu_segment_is_input(wanted)) {
		return s->sealed || s->has_kt128
			       ? sgpu_segment_fail(s, SGPU_EINVALID,
						   " is an OUTPUT and has a payload", error)
			       : 0;
	}
	if (!high && !s->has_kt128) {
		return sgpu_segment_fail(s, SGPU_EINVALID, " has a payload and no kt128", error);
	}
	if (high && s->sealed == batch->packed) {
		return sgpu_segment_fail(s, SGPU_EPOLICY,
					 batch->packed ? " is sealed, in a packed batch"
						       : " is HIGH and not sealed",
					 error);
	}
	return 0;
}

static int check_segments(struct sgpu_batch *batch, const struct sgpu_manifest *manifest,
			  struct sgpu_error *error)
{
	int wanted = 0;
	bool high = false;
	for (int i = 0; i < manifest->segment_count; i++) {
		wanted += manifest->segments[i].direction != SGPU_INTERMEDIATE;
		high = high || manifest->segments[i].sensitivity == SGPU_HIGH;
	}
	for (int i = 0; i < batch->segment_count; i++) {
		struct sgpu_batch_segment *s = &batch->segments[i];
		const int at = sgpu_manifest_segment(manifest, s->id);
		if (at < 0 || manifest->segments[at].direction == SGPU_INTERMEDIATE) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "segment '%s' is not in the manifest%s", s->id,
					 at < 0 ? "" : ", in this direction");
		}
		const int rc = check_by_manifest(batch, s, &manifest->segments[at], error);
		if (rc) {
			return rc;
		}
		s->input = sgpu_segment_is_input(&manifest->segments[at]);
		s->output = sgpu_segment_is_output(&manifest->segments[at]);
	}
	if (wanted != batch->segment_count) { /* no id is repeated, so some are missing */
		return sgpu_fail(error, SGPU_EINVALID, "%s has %d segments, the manifest has %d",
				 sgpu_index_name(batch), batch->segment_count, wanted);
	}
	if (high && !batch->recipients && !batch->packed) {
		return sgpu_fail(error, SGPU_EPOLICY,
				 "the batch has HIGH segments and no recipients");
	}
	if (batch->packed && !high) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "the batch is packed, and nothing in it has to be sealed");
	}
	return 0;
}

/* Parses the manifest, whose hash is over its text as it lies. */
static int parse_manifest(struct sgpu_batch *batch, struct sgpu_error *error)
{
	struct sgpu_diagnostics diagnostics = { 0 };
	int rc = sgpu_manifest_parse(batch->manifest_text, batch->manifest_size,
				     SGPU_MANIFEST_UNHASHED, &batch->manifest, &diagnostics, error);

	if (batch->manifest) {
		memcpy(batch->manifest->sha256, batch->manifest_sha256, SGPU_SHA256_SIZE);
		batch->manifest->canonical_size = batch->manifest_size;
	}
	if (diagnostics.count && (!rc || rc == SGPU_EINVALID)) {
		rc = sgpu_fail(error, SGPU_EINVALID, "manifest.json: %s: %s",
			       diagnostics.list[0].pointer, diagnostics.list[0].text);
	} else if (!rc && diagnostics.out_of_memory) {
		rc = sgpu_fail_nomem(error);
	}
	sgpu_diagnostics_clear(&diagnostics);
	return rc;
}

/* Without a source, a manifest that is not in the stream is not read: the index and the locations
 * then tell which segments are inputs. */
static int read_manifest(struct sgpu_tar_reader *reader, struct sgpu_batch *batch,
			 const struct sgpu_manifest_source *source, struct sgpu_error *error)
{
	const struct sgpu_manifest *known =
		source && source->find ? source->find(source->argument, batch->manifest_sha256)
				       : NULL;
	int rc = read_member(reader, "manifest.json", true, SGPU_MANIFEST_SIZE_MAX,
			     &batch->manifest_text, &batch->manifest_size, error);

	if (!rc && !batch->manifest_text && source && !known) {
		rc = source->fetch(source->argument, &batch->manifest_text, &batch->manifest_size,
				   error);
	}
	if (!rc && batch->manifest_text) {
		rc = check_digest(batch->manifest_text, batch->manifest_size,
				  batch->manifest_sha256, "the manifest", "batch.json", error);
		rc = rc || known ? rc : parse_manifest(batch, error);
		known = known ? known : batch->manifest;
	}
	if (rc || known) {
		return rc ? rc : check_segments(batch, known, error);
	}
	for (int i = 0; i < batch->segment_count; i++) {
		struct sgpu_batch_segment *s = &batch->segments[i];

		s->input = s->sealed || s->has_kt128;
		s->output = !s->input;
	}
	return 0;
}

static int read_note(struct sgpu_tar_reader *reader, struct sgpu_batch *batch,
		     struct sgpu_error *error)
{
	uint64_t most = SGPU_NOTE_MAX;
	int rc;

	if (!batch->has_note) {
		return 0;
	}
	(void)sgpu_sealed_size(SGPU_NOTE_MAX, &most);
	rc = read_member(reader, "note", false, most, &batch->note, &batch->note_size, error);
	return rc ? rc
		  : check_digest(batch->note, batch->note_size, batch->note_sha256, "the note",
				 sgpu_index_name(batch), error);
}

/* Payloads are in the stream unless locations.json says otherwise. */
static int check_locations(struct sgpu_batch *batch, struct sgpu_error *error)
{
	for (int i = 0; i < batch->segment_count; i++) {
		struct sgpu_batch_segment *s = &batch->segments[i];

		if (batch->packed && !batch->manifest && s->location.kind == SGPU_LOCATION_FILE) {
			s->input = true;
			s->output = false;
		}
		const bool payload = batch->response ? s->status == SGPU_OK : s->input;
		const enum sgpu_location_kind kind =
			payload && !s->location.kind ? SGPU_LOCATION_INLINE : s->location.kind;

		s->location.kind = kind;
		if (!payload && kind != SGPU_LOCATION_NONE &&
		    (batch->response || kind != SGPU_LOCATION_REGION)) {
			return sgpu_segment_fail(s, SGPU_EINVALID, " has a location and no payload",
						 error);
		}
		if (!payload && kind) { /* the handle of an output is where its result goes */
			if (sgpu_segment_place(s, &s->location, error) != SGPU_OK) {
				return SGPU_ENOMEM;
			}
			s->location = (struct sgpu_location){ .kind = SGPU_LOCATION_NONE };
		}
		if (batch->packed && s->input && s->masking == SGPU_MASKING_AES_GCM &&
		    kind != SGPU_LOCATION_FILE) {
			return sgpu_segment_fail(s, SGPU_EPOLICY,
						 " is HIGH and would travel unsealed", error);
		}
	}
	return 0;
}

static int read_locations(struct sgpu_tar_reader *reader, struct sgpu_batch *batch,
			  struct sgpu_error *error)
{
	char *text = NULL;
	size_t size = 0;
	int rc = read_member(reader, "locations.json", true, SGPU_INDEX_SIZE_MAX, &text, &size,
			     error);

	rc = rc || !text ? rc : sgpu_locations_parse(text, size, batch, error);
	free(text);
	return rc ? rc : check_locations(batch, error);
}

static int fail_other(const struct sgpu_tar_reader *reader, const struct sgpu_batch *batch,
		      unsigned what, struct sgpu_error *error)
{
	const char *wanted = what & SGPU_READ_BATCH ? "batch" : "response";
	const bool refusal = !strcmp(reader->member, SGPU_REFUSAL_MEMBER);
	const int rc = refusal && !(what & SGPU_READ_BATCH) ? SGPU_EREFUSED : SGPU_EINVALID;

	sgpu_fail(error, rc, "'%s' is %s, not a %s", reader->name,
		  batch	    ? batch->response ? "a response" : "a batch"
		  : refusal ? "a refusal"
			    : "another tar archive",
		  wanted);
	return !batch ? rc
		      : sgpu_hint(error, batch->response ? "'sgpu-seal open' takes it"
							 : "'sgpu-run' makes a response of it");
}

int sgpu_batch_read_seal(struct sgpu_tar_reader *reader, unsigned what, struct sgpu_batch **batch,
			 struct sgpu_error *error)
{
	const char *member = NULL;
	char *text = NULL;
	uint64_t size = 0;
	int rc = sgpu_tar_next(reader, &member, &size, error);

	*batch = NULL;
	if (rc) {
		return rc;
	}
	if (!member || strcmp(member, "seal.json") != 0) {
		return fail_other(reader, NULL, what, error);
	}
	rc = read_text(reader, size, SGPU_SEAL_JSON_MAX, &text, error);
	rc = rc ? rc : sgpu_seal_json_parse(text, (size_t)size, batch, error);
	free(text);
	if (!rc && !(what & ((*batch)->response ? SGPU_READ_RESPONSE : SGPU_READ_BATCH))) {
		rc = fail_other(reader, *batch, what, error);
		sgpu_batch_free(batch);
	}
	return rc;
}

int sgpu_batch_read_rest(struct sgpu_tar_reader *reader, struct sgpu_batch *batch,
			 const struct sgpu_manifest_source *source, struct sgpu_error *error)
{
	const char *name = sgpu_index_name(batch);
	int rc = read_member(reader, name, false, SGPU_INDEX_SIZE_MAX, &batch->index_text,
			     &batch->index_size, error);

	rc = rc ? rc
		: check_digest(batch->index_text, batch->index_size, batch->index_sha256, name,
			       "seal.json", error);
	rc = rc ? rc : sgpu_index_parse(batch->index_text, batch->index_size, batch, error);
	rc = rc || batch->response ? rc : read_manifest(reader, batch, source, error);
	rc = rc ? rc : read_note(reader, batch, error);
	rc = rc ? rc : read_locations(reader, batch, error);
	reader->cursor = 0;
	return rc;
}

int sgpu_batch_read(struct sgpu_tar_reader *reader, unsigned what, struct sgpu_batch **batch,
		    struct sgpu_error *error)
{
	int rc = sgpu_batch_read_seal(reader, what, batch, error);

	rc = rc ? rc : sgpu_batch_read_rest(reader, *batch, NULL, error);
	if (rc) {
		sgpu_batch_free(batch);
	}
	return rc;
}

int sgpu_batch_head(struct sgpu_batch *batch, bool seal_alone, uint8_t **head, size_t *size,
		    struct sgpu_error *error)
{
	char *seal = NULL, *locations = NULL;
	size_t seal_size = 0, locations_size = 0;
	int rc = sgpu_seal_json_freeze(batch, error);

	*head = NULL;
	rc = rc ? rc : sgpu_seal_json_text(batch, &seal, &seal_size, error);
	rc = rc ? rc : sgpu_locations_text(batch, &locations, &locations_size, error);
	const struct sgpu_tar_member members[] = {
		{ "seal.json", seal, seal_size },
		{ sgpu_index_name(batch), batch->index_text, batch->index_size },
		{ "manifest.json", batch->manifest_text, batch->manifest_size },
		{ "note", batch->note, batch->note_size },
		{ "locations.json", locations, locations_size },
	};
	rc = rc ? rc
		: sgpu_tar_members(members, seal_alone ? 1 : SGPU_ARRAY_LENGTH(members), head, size,
				   error);
	free(seal);
	free(locations);
	return rc;
}

int sgpu_batch_write_head(int fd, const char *name, struct sgpu_batch *batch, bool seal_alone,
			  struct sgpu_error *error)
{
	uint8_t *head = NULL;
	size_t size = 0;
	int rc = sgpu_batch_head(batch, seal_alone, &head, &size, error);

	rc = rc ? rc : sgpu_write(fd, name, head, size, error);
	free(head);
	return rc;
}

/* ---- payloads ---- */
enum { MEMBER_MAX = 9 + SGPU_ID_MAX + 1 };

static void member_name(const struct sgpu_batch *batch, int segment, char name[MEMBER_MAX])
{
	snprintf(name, MEMBER_MAX, "segments/%.*s", SGPU_ID_MAX, batch->segments[segment].id);
}

int sgpu_batch_next_payload(struct sgpu_tar_reader *reader, const struct sgpu_batch *batch,
			    int *segment, struct sgpu_error *error)
{
	const char *member = NULL;
	uint64_t size = 0;
	*segment = -1;
	int rc = sgpu_tar_next(reader, &member, &size, error);
	if (rc) {
		return rc;
	}
	while (reader->cursor < batch->segment_count &&
	       batch->segments[reader->cursor].location.kind != SGPU_LOCATION_INLINE) {
		reader->cursor++;
	}
	char name[MEMBER_MAX] = "the end";
	uint64_t payload = 0;
	const bool wanted = reader->cursor < batch->segment_count;

	if (wanted) {
		member_name(batch, reader->cursor, name);
		payload = sgpu_batch_payload_size(batch, reader->cursor);
	}
	if (wanted ? !member || strcmp(member, name) != 0 : member != NULL) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s': '%s' stands where '%s' belongs",
				 reader->name, member ? member : "the end", name);
	}
	if (size != payload) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s': '%s' has %llu bytes instead of %llu",
				 reader->name, name, (unsigned long long)size,
				 (unsigned long long)payload);
	}
	if (!wanted) {
		return 0;
	}
	*segment = reader->cursor++;
	return 0;
}

int sgpu_batch_payload_header(const struct sgpu_batch *batch, int segment,
			      uint8_t block[SGPU_TAR_BLOCK], struct sgpu_error *error)
{
	char member[MEMBER_MAX];
	member_name(batch, segment, member);
	return sgpu_tar_header(member, sgpu_batch_payload_size(batch, segment), block, error);
}
