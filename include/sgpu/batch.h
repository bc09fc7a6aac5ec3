/* SPDX-License-Identifier: Apache-2.0
 *
 * The batch and the response, sgpu-batch(5): a strict ustar stream of seal.json, which
 * authenticates, the index (batch.json or response.json), a batch's manifest.json, the owner's note
 * if there is one, locations.json if payloads lie elsewhere, then segments/<segment_id> for each
 * payload in the stream, in the order of the index. Hashes, MAC and signatures are over bytes as
 * they lie in the stream.
 */
#ifndef SGPU_BATCH_H
#define SGPU_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sgpu/keys.h>
#include <sgpu/manifest.h>
#include <sgpu/seal.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	SGPU_BATCH_VERSION = 2,
	SGPU_BATCH_ID_SIZE = 16,
	SGPU_BATCH_ID_TEXT = 22, /* characters of an id in base64url */
	SGPU_RESPONSE_ID_SIZE = 16,
	SGPU_SEAL_JSON_MAX = 256 << 10,	   /* bytes of seal.json */
	SGPU_INDEX_SIZE_MAX = 64 << 20,	   /* bytes of batch.json, response.json, locations.json */
	SGPU_NOTE_MAX = 1 << 20,	   /* bytes of the owner's note before it is sealed */
	SGPU_INDEX_FRAME_MAX = 64 << 10,   /* bytes of each of these without its array */
	SGPU_INDEX_SEGMENT_MAX = 32 << 10, /* bytes of an entry of the array */
	SGPU_RECIPIENTS_MAX = 256,
	SGPU_SIGNATURES_MAX = 8,
	SGPU_FILE_PATH_MAX = 4096, /* bytes of a FILE location's path */
	SGPU_REGION_ID_TEXT = 32,  /* hex digits of the id of a region or a lease */
};

/* ---- tar: strict POSIX ustar with base-256 sizes and only regular files ---- */
struct sgpu_tar_reader;
/* Reads an archive in order, from fd's position to the end of the file. `name` is for messages.
 * sgpu_tar_close does not close fd. */
SGPU_MUST_CHECK int sgpu_tar_open(int fd, const char *name, struct sgpu_tar_reader **reader,
				  struct sgpu_error *error);
void sgpu_tar_close(struct sgpu_tar_reader **reader);
/* Reads exactly `size` bytes of the current member. Errors: SGPU_EINVALID if the member or the
 * archive ends first. */
SGPU_MUST_CHECK int sgpu_tar_read(struct sgpu_tar_reader *reader, void *data, size_t size,
				  struct sgpu_error *error);

SGPU_MUST_CHECK int sgpu_tar_end(int fd, const char *name, struct sgpu_error *error);

/* ---- the index ---- */
enum sgpu_masking { SGPU_MASKING_NONE, SGPU_MASKING_AES_GCM };
/* SGPU_LOCATION_NONE: no payload travels (an output of a batch, a failed segment of a response).
 * SGPU_LOCATION_FILE: only in batches, so that a response cannot make its reader open files. */
enum sgpu_location_kind {
	SGPU_LOCATION_NONE,
	SGPU_LOCATION_INLINE,
	SGPU_LOCATION_FILE,
	SGPU_LOCATION_REGION,
	SGPU_LOCATION_LEASE
};

struct sgpu_location {
	enum sgpu_location_kind kind;
	char *file;  /* FILE: a path */
	char *array; /* FILE, HIGH, in a packed batch: the payload is the elements of an array in
			any format; the member of an .npz, or ""; NULL: the bytes from `offset` */
	char region[SGPU_REGION_ID_TEXT + 1]; /* REGION, LEASE: its id */
	uint64_t offset;		      /* FILE, REGION, LEASE: bytes */
};

/* A handle names a slice of a region: sgpu:ID:OFFSET:SIZE, without leading zeros. */
enum { SGPU_HANDLE_TEXT = 5 + SGPU_REGION_ID_TEXT + 2 * 21 + 1 };
void sgpu_handle_text(const char *id, uint64_t offset, uint64_t size, char text[SGPU_HANDLE_TEXT]);
/* Parses a handle to a REGION and the size of its slice. `where` is for messages. Errors:
 * SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_handle_parse(const char *text, const char *where,
				      struct sgpu_location *location, uint64_t *size,
				      struct sgpu_error *error);

struct sgpu_batch;
struct sgpu_batch_segment;
/* Sets where a payload goes. Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_segment_place(struct sgpu_batch_segment *segment,
				       const struct sgpu_location *at, struct sgpu_error *error);
/* Refuses a batch of which two segments use the same bytes of a region, one of them to write there.
 * Errors: SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_places_check(const struct sgpu_batch *batch, struct sgpu_error *error);

struct sgpu_batch_segment {
	char *id;
	enum sgpu_masking masking;
	/* There is a sealed_size, and the location holds ciphertext. Before sealing, a segment of
	 * MASKING_AES_GCM has no sealed_size, and its location is the plaintext's file. */
	bool sealed;
	bool has_kt128; /* MASKING_NONE payloads */
	/* the manifest's direction, set by sgpu_batch_read and _create; both for INPUT_OUTPUT */
	bool input, output;
	uint64_t size; /* plaintext bytes; for an output of a batch the maximum */
	uint64_t sealed_size;
	union {
		uint8_t header[SGPU_SEALED_HEADER]; /* sealed, in a batch: the payload's first bytes
						     */
		uint8_t kt128[SGPU_KT128_SIZE];	    /* has_kt128: KangarooTwelve of the payload,
						       without a customisation string */
	};
	struct sgpu_location location; /* of the payload */
	/* REGION: where a payload that is still to be made goes. In a packed batch the sealed
	 * payload of a HIGH input; in any batch the result of an output. */
	struct sgpu_location *place; /* from malloc, or NULL */
	/* responses only */
	int status;	  /* SGPU_OK, or the code of the failure */
	char *error_text; /* or NULL */
};

/* A batch (response false) or a response. All memory belongs to the struct. */
struct sgpu_batch {
	bool response;
	bool packed; /* a batch as sgpu-manifest packs it, which is not sealed and has to be */
	/* ---- in seal.json ---- */
	uint8_t id[SGPU_BATCH_ID_SIZE];
	uint64_t counter; /* batches: grows with each batch of an owner; 0: packed */
	uint8_t response_id[SGPU_RESPONSE_ID_SIZE]; /* responses: random, new for each run */
	uint8_t identity[SGPU_SHA256_SIZE];	    /* responses: that of the batch */
	uint8_t index_sha256[SGPU_SHA256_SIZE];
	json_t *recipients; /* array, or NULL */
	json_t *signatures; /* batches: array of {"protected","signature"}, or NULL */
	bool has_mac;
	uint8_t mac[SGPU_SHA256_SIZE];
	char *payload; /* of seal.json, in base64url: what mac and signatures are over; NULL: not
			  made yet */
	/* ---- in the index ---- */
	char *index_text; /* as it lies in the stream, `index_size` bytes; NULL: not made yet */
	size_t index_size;
	uint8_t manifest_sha256[SGPU_SHA256_SIZE];
	struct sgpu_batch_segment
		*segments; /* batch: every INPUT, INPUT_OUTPUT and OUTPUT; response: every output */
	int segment_count;
	json_t *timings; /* responses: object of nanoseconds by stage, or NULL */
	uint8_t note_sha256[SGPU_SHA256_SIZE]; /* if has_note */
	bool has_note;
	/* ---- manifest.json, only of a batch; NULL if the batch names it by its hash alone ---- */
	char *manifest_text; /* as it lies in the stream */
	size_t manifest_size;
	struct sgpu_manifest *manifest; /* set by sgpu_batch_read(): parsed, but not checked against
					   the operations; NULL if the reader knew it */
	/* ---- the owner's note: sealed if the batch has recipients; or NULL ---- */
	char *note;
	size_t note_size;
};

/* Also accepts a batch that a caller has made from calloc. */
void sgpu_batch_free(struct sgpu_batch **batch);

enum sgpu_batch_read_what {
	SGPU_READ_BATCH = 1, /* a batch */
	SGPU_READ_RESPONSE = 2,
	SGPU_READ_EITHER = SGPU_READ_BATCH | SGPU_READ_RESPONSE
};
/* Reads all before the payloads, as `what` allows. Checks the format, the digests of index and
 * manifest, and that both name the same segments with the same sensitivity and direction. Does not
 * check the manifest against the operations, nor one that the batch names by its hash alone;
 * authenticates nothing, for which sgpu_batch_verify() and sgpu_batch_signed_by() suffice
 * afterwards. Leaves the reader at the first payload. Errors: SGPU_EINVALID, SGPU_ESYSTEM,
 * SGPU_EAUTH (seal.json names another index, or the index another manifest), SGPU_EPOLICY (a HIGH
 * payload is not sealed), SGPU_EREFUSED (a refusal is in the response's place). */
SGPU_MUST_CHECK int sgpu_batch_read(struct sgpu_tar_reader *reader, unsigned what,
				    struct sgpu_batch **batch, struct sgpu_error *error);

/* ---- a refusal ---- */
/* A refusal takes the place of the response to a batch that was not run. Nothing authenticates a
 * refusal, so whoever carries the response can write one. */
#define SGPU_REFUSAL_MEMBER "refusal.json"
struct sgpu_batch_refusal {
	char batch_id[SGPU_BATCH_ID_TEXT + 1]; /* in base64url; "": unknown */
	int code;			       /* a code whose exit status is 4 */
	char text[SGPU_ERROR_TEXT_MAX];
};
SGPU_MUST_CHECK int sgpu_batch_refusal_write(int fd, const char *name,
					     const struct sgpu_batch_refusal *refusal,
					     struct sgpu_error *error);
/* Reads the refusal and the archive's end, after sgpu_batch_read has returned SGPU_EREFUSED.
 * Errors: SGPU_EINVALID (not the form that sgpu_batch_refusal_write writes), SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_batch_refusal_read(struct sgpu_tar_reader *reader,
					    struct sgpu_batch_refusal *refusal,
					    struct sgpu_error *error);

/* ---- payloads ---- */
/* Moves to the next inline payload: *segment is its index in batch->segments, or -1 at the
 * archive's end. Refuses a missing payload, and a member that is unknown, out of order, repeated,
 * not inline, or of another size. */
SGPU_MUST_CHECK int sgpu_batch_next_payload(struct sgpu_tar_reader *reader,
					    const struct sgpu_batch *batch, int *segment,
					    struct sgpu_error *error);
/* Returns the bytes of a segment's payload at its location: sealed_size when sealed, that of an
 * output which is to be sealed, else size. */
uint64_t sgpu_batch_payload_size(const struct sgpu_batch *batch, int segment);
/* Returns the index of a segment by its id, or -1. */
int sgpu_batch_segment(const struct sgpu_batch *batch, const char *id);

/* ---- making a batch ---- */
/* Makes a batch of a checked manifest, with a random id and all segments except INTERMEDIATE ones,
 * in the manifest's order. No payload has a location yet. Errors: SGPU_ENOMEM, SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_batch_create(const struct sgpu_manifest *manifest,
				      struct sgpu_batch **batch, struct sgpu_error *error);
/* Writes a whole batch, of whose head it makes what is missing: the head and the inline payloads.
 * For each payload, write_payload() writes sgpu_batch_payload_size() bytes. */
typedef int sgpu_batch_payload_writer(int fd, const char *name, const struct sgpu_batch *batch,
				      int segment, void *argument, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_batch_write(int fd, const char *name, struct sgpu_batch *batch,
				     sgpu_batch_payload_writer *write_payload, void *argument,
				     struct sgpu_error *error);

/* Finds where each segment of a response goes, below the owner's directory, by the note: a path
 * without "." and "..", from malloc; by default the segment's id. `paths` has NULL for each segment
 * before; free them also after an error. files: also by segment, a new reference to what the note
 * says of a file's format, an object that is not checked; or NULL. batch_key NULL: nothing is
 * sealed. Errors: SGPU_EAUTH,
 * SGPU_EINVALID, SGPU_EPOLICY (a path leads out of its directory, or two are in each other's
 * way). */
SGPU_MUST_CHECK int sgpu_batch_paths(const struct sgpu_batch *batch, const uint8_t *batch_key,
				     char **paths, json_t **files, struct sgpu_error *error);

/* ---- keys ---- */
/* Adds a recipient that can unwrap the batch key: HPKE for an X25519 key, RFC 3394 for an oct key.
 * An existing recipient stays unchanged. Errors: SGPU_EUSAGE if there are SGPU_RECIPIENTS_MAX. */
SGPU_MUST_CHECK int sgpu_batch_wrap(struct sgpu_batch *batch, const struct sgpu_key *recipient,
				    const uint8_t batch_key[SGPU_KEY_SIZE],
				    struct sgpu_error *error);
/* Unwraps the batch key with the first of the keys that is a recipient. Errors: SGPU_EKEY if none
 * is, SGPU_EAUTH if the wrapped key does not verify. */
SGPU_MUST_CHECK int sgpu_batch_unwrap(const struct sgpu_batch *batch, const struct sgpu_key *keys,
				      int key_count, uint8_t batch_key[SGPU_KEY_SIZE],
				      struct sgpu_error *error);
/* Adds an owner's signature, of the type SGPU_BATCH_TYP, over the payload of seal.json. It covers
 * the index, the recipients and the wrapped keys, and says who sealed the batch, which HPKE does
 * not. Call it after the last change; further changes need sgpu_batch_change(). Errors: SGPU_EUSAGE
 * if there are SGPU_SIGNATURES_MAX. */
#define SGPU_BATCH_TYP "sgpu-batch+jws"
SGPU_MUST_CHECK int sgpu_batch_add_signature(struct sgpu_batch *batch, const struct sgpu_key *key,
					     struct sgpu_error *error);
/* Tells whether the key with the thumbprint `kid` has signed the batch. Errors: SGPU_EAUTH if a
 * signature of this key does not verify; SGPU_EINVALID if one is malformed. */
SGPU_MUST_CHECK int sgpu_batch_signed_by(const struct sgpu_batch *batch, const char *kid, bool *yes,
					 struct sgpu_error *error);
/* Drops what was made of the batch's contents, before a change of what seal.json holds: payload,
 * mac and signatures; `index`: also the text of the index. sgpu_batch_wrap() does the former
 * itself. */
void sgpu_batch_change(struct sgpu_batch *batch, bool index);
/* Make and verify the MAC of the payload of seal.json. Who carries the batch may change only where
 * payloads lie: kt128 or the seal binds the payload itself. */
SGPU_MUST_CHECK int sgpu_batch_sign(struct sgpu_batch *batch,
				    const uint8_t batch_key[SGPU_KEY_SIZE],
				    struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_batch_verify(const struct sgpu_batch *batch,
				      const uint8_t batch_key[SGPU_KEY_SIZE],
				      struct sgpu_error *error);

enum {
	SGPU_SEGMENT_CONTEXT_MAX =
		8 + SGPU_BATCH_ID_SIZE + SGPU_SHA256_SIZE + 1 + SGPU_RESPONSE_ID_SIZE + SGPU_ID_MAX
};
/* Derives the key of a segment from the batch key, and its context. response_id NULL: an input,
 * with the context "sgpu v2" || 0x00 || batch_id || manifest_sha256 || 'i' || segment_id. Otherwise
 * an output of that response, whose context ends in 'o' || response_id || segment_id, so that the
 * output fits into no other response to the same batch. */
SGPU_MUST_CHECK int sgpu_batch_segment_key(const struct sgpu_batch *batch,
					   const uint8_t batch_key[SGPU_KEY_SIZE],
					   const char *segment_id,
					   const uint8_t response_id[SGPU_RESPONSE_ID_SIZE],
					   uint8_t key[SGPU_KEY_SIZE],
					   uint8_t context[SGPU_SEGMENT_CONTEXT_MAX],
					   size_t *context_size, struct sgpu_error *error);

/* Seals the note. Call it once, before the batch is signed. */
SGPU_MUST_CHECK int sgpu_batch_seal_note(struct sgpu_batch *batch,
					 const uint8_t batch_key[SGPU_KEY_SIZE],
					 struct sgpu_error *error);
/* Draws the header of a sealed input's payload, which the index holds, so that every key is known
 * before a payload arrives. The payload has to be sealed under this header, with the keys of
 * sgpu_sealed_keys_open(). */
SGPU_MUST_CHECK int sgpu_batch_draw_header(struct sgpu_batch *batch,
					   const uint8_t batch_key[SGPU_KEY_SIZE], int segment,
					   struct sgpu_error *error);

#ifdef __cplusplus
}
#endif
#endif
