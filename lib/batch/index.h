/* SPDX-License-Identifier: Apache-2.0
 *
 * The index as text and as struct sgpu_batch: what its parser, its writer and its MAC share.
 */
#ifndef SGPU_BATCH_INDEX_H
#define SGPU_BATCH_INDEX_H

#include <sgpu/batch.h>

#include "base/json.h"

#define SGPU_BATCH_ALG "c2sp.org/chunked-encryption"
#define SGPU_BATCH_AEAD "AEAD_AES_256_GCM"
#define SGPU_KIND_HPKE "hpke"
#define SGPU_KIND_A256KW "a256kw"

enum {
	SGPU_HPKE_CT_SIZE = SGPU_KEY_SIZE + SGPU_TAG_SIZE,
	SGPU_A256KW_CT_SIZE = SGPU_KEY_SIZE + 8,
	SGPU_WHERE_MAX = 64, /* bytes of "response.json: /segments/65535" */
};

/* Return new references. JSON null for SGPU_LOCATION_NONE; size: bytes of the payload. */
json_t *sgpu_location_json(const struct sgpu_location *location, uint64_t size);
json_t *sgpu_segment_json(const struct sgpu_batch_segment *s, bool response);

/* Fails with "segment 'ID'" and `what`, which begins with a blank or a colon. Returns the code. */
int sgpu_segment_fail(const struct sgpu_batch_segment *s, int code, const char *what,
		      struct sgpu_error *error);

/* ---- json.c ---- */
json_t *sgpu_bytes_json(bool there, const uint8_t *data, size_t size);

/* An object with one long array. */
struct sgpu_list {
	const char *where;	       /* the file */
	struct sgpu_json_list entries; /* .key: of the array */
	/* If set, the entries are of its segments, in their order, so that none is there twice. */
	const struct sgpu_batch *batch;
	/* ---- filled in ---- */
	json_t *frame; /* the object, whose array is empty */
	json_t *entry;
	char place[SGPU_WHERE_MAX]; /* of the entry, for messages */
	size_t number;		    /* of the next entry */
	int segment;		    /* of the entry, if `batch` is set */
};
/* Reads the members of the object; `fields` has the array, too. Close the list also after an
 * error. */
SGPU_MUST_CHECK int sgpu_list_open(struct sgpu_list *list, const char *text, size_t size,
				   const struct sgpu_field *fields, size_t count,
				   struct sgpu_error *error);
void sgpu_list_close(struct sgpu_list *list);
/* Moves to the next entry. Returns false at the end, after an error, and if *rc is one already. */
SGPU_MUST_CHECK bool sgpu_list_next(struct sgpu_list *list, int *rc, struct sgpu_error *error);
const char *sgpu_index_name(const struct sgpu_batch *batch);

/* ---- seal.json ---- */
/* Parses seal.json into a new batch without segments, and checks its form. */
SGPU_MUST_CHECK int sgpu_seal_json_parse(const char *text, size_t size, struct sgpu_batch **batch,
					 struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_seal_json_freeze(struct sgpu_batch *batch, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_seal_json_text(const struct sgpu_batch *batch, char **text, size_t *size,
					struct sgpu_error *error);

/* ---- batch.json, response.json ---- */
/* Adds the index to a batch whose seal.json was parsed before. */
SGPU_MUST_CHECK int sgpu_index_parse(const char *text, size_t size, struct sgpu_batch *batch,
				     struct sgpu_error *error);
/* *text: from malloc. */
SGPU_MUST_CHECK int sgpu_index_text(const struct sgpu_batch *batch, char **text, size_t *size,
				    struct sgpu_error *error);

/* ---- locations.json ---- */
/* Takes the locations into a batch that agrees with its manifest. */
SGPU_MUST_CHECK int sgpu_locations_parse(const char *text, size_t size, struct sgpu_batch *batch,
					 struct sgpu_error *error);
/* *text NULL: all payloads are inline. */
SGPU_MUST_CHECK int sgpu_locations_text(const struct sgpu_batch *batch, char **text, size_t *size,
					struct sgpu_error *error);

#endif
