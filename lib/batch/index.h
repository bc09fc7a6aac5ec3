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

/* The member of a location that tells its kind: "inline", "file", "region", "lease". */
extern const char *const sgpu_location_words[SGPU_LOCATION_LEASE + 1];
/* Returns a new reference; JSON null for SGPU_LOCATION_NONE. */
json_t *sgpu_location_json(const struct sgpu_location *location);

/* Fails with "segment 'ID'" and `what`, which begins with a blank or a colon. Returns the code. */
int sgpu_segment_fail(const struct sgpu_batch_segment *s, int code, const char *what,
		      struct sgpu_error *error);

/* Checks the rules that need no manifest, for each index that is read or written. */
SGPU_MUST_CHECK int sgpu_batch_check(const struct sgpu_batch *batch, struct sgpu_error *error);
/* Sorts the segments by id; *by_id comes from malloc. Errors: SGPU_EINVALID if an id is repeated.
 */
SGPU_MUST_CHECK int sgpu_batch_sort(const struct sgpu_batch *batch, int **by_id,
				    struct sgpu_error *error);
/* Makes the canonical text, from malloc: the whole index; for the MAC, without `mac` and locations;
 * for signatures, also without the signatures; for the identity, also without the recipients. */
enum sgpu_index_part {
	SGPU_INDEX_WHOLE,
	SGPU_INDEX_FOR_MAC,
	SGPU_INDEX_FOR_SIGNATURES,
	SGPU_INDEX_FOR_IDENTITY
};
SGPU_MUST_CHECK int sgpu_batch_canonical(const struct sgpu_batch *batch, enum sgpu_index_part part,
					 char **text, size_t *size, struct sgpu_error *error);

/* Checks that the text from which the batch was read is canonical: each index has only one text.
 * Errors: SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_batch_check_form(const struct sgpu_batch *batch, const char *text,
					  size_t size, struct sgpu_error *error);

/* Convert between an index and its text; manifest_text is not used. */
SGPU_MUST_CHECK int sgpu_batch_parse(const char *text, size_t size, bool response,
				     struct sgpu_batch **batch, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_batch_text(const struct sgpu_batch *batch, char **text, size_t *size,
				    struct sgpu_error *error);

#endif
