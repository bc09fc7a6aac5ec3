/* SPDX-License-Identifier: Apache-2.0
 *
 * The index as text and as struct sgpu_batch: what its parser, its writer and its MAC share.
 */
#ifndef SGPU_BATCH_INDEX_H
#define SGPU_BATCH_INDEX_H

#include <sgpu/batch.h>

#define SGPU_BATCH_ALG "c2sp.org/chunked-encryption"
#define SGPU_BATCH_AEAD "AEAD_AES_256_GCM"
#define SGPU_KIND_HPKE "hpke"
#define SGPU_KIND_A256KW "a256kw"

enum {
	SGPU_HPKE_CT_SIZE = SGPU_KEY_SIZE + SGPU_TAG_SIZE,
	SGPU_A256KW_CT_SIZE = SGPU_KEY_SIZE + 8,
	SGPU_WHERE_MAX = 64, /* bytes of "response.json: /segments/65535" */
};

/* Returns a new reference; JSON null for SGPU_LOCATION_NONE. size: bytes of the payload. */
json_t *sgpu_location_json(const struct sgpu_location *location, uint64_t size);

/* Fails with "segment 'ID'" and `what`, which begins with a blank or a colon. Returns the code. */
int sgpu_segment_fail(const struct sgpu_batch_segment *s, int code, const char *what,
		      struct sgpu_error *error);

/* ---- list.c ---- */
struct sgpu_list_form {
	const char *where, *key;    /* the file, and its array */
	const char *const *members; /* of the file's object */
	/* called once with the object, whose array is empty, then with each element */
	int (*frame)(void *argument, const json_t *object, size_t count, struct sgpu_error *error);
	int (*entry)(void *argument, const json_t *entry, size_t number, const char *place,
		     struct sgpu_error *error);
};
SGPU_MUST_CHECK int sgpu_list_parse(const struct sgpu_list_form *form, const char *text,
				    size_t size, void *argument, struct sgpu_error *error);
/* Finds the segment of an entry. Entries are in the order of the index, so none is there twice.
 * *segment: that of the entry before, or -1. */
SGPU_MUST_CHECK int sgpu_list_segment(const struct sgpu_batch *batch, const json_t *entry,
				      const char *place, int *segment, struct sgpu_error *error);
/* Returns "batch.json" or "response.json". */
const char *sgpu_index_name(const struct sgpu_batch *batch);

/* ---- seal.json ---- */
/* Parses seal.json into a new batch, which has no segments yet, and checks its form. */
SGPU_MUST_CHECK int sgpu_seal_json_parse(const char *text, size_t size, struct sgpu_batch **batch,
					 struct sgpu_error *error);
/* Makes the texts of the index and of the payload where they are missing. */
SGPU_MUST_CHECK int sgpu_seal_json_freeze(struct sgpu_batch *batch, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_seal_json_text(const struct sgpu_batch *batch, char **text, size_t *size,
					struct sgpu_error *error);

/* ---- batch.json, response.json ---- */
/* Parses the index into a batch whose seal.json was parsed. */
SGPU_MUST_CHECK int sgpu_index_parse(const char *text, size_t size, struct sgpu_batch *batch,
				     struct sgpu_error *error);
/* *text: from malloc. */
SGPU_MUST_CHECK int sgpu_index_text(const struct sgpu_batch *batch, char **text, size_t *size,
				    struct sgpu_error *error);

/* ---- locations.json ---- */
/* Takes the locations into a batch that agrees with its manifest. text NULL: there are none. */
SGPU_MUST_CHECK int sgpu_locations_parse(const char *text, size_t size, struct sgpu_batch *batch,
					 struct sgpu_error *error);
/* *text NULL: all payloads are inline. */
SGPU_MUST_CHECK int sgpu_locations_text(const struct sgpu_batch *batch, char **text, size_t *size,
					struct sgpu_error *error);

#endif
