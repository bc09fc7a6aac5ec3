/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading and writing batches piece by piece, and the replay record.
 */
#ifndef SGPU_BATCH_BATCH_H
#define SGPU_BATCH_BATCH_H

#include <sgpu/batch.h>

enum { SGPU_TAR_BLOCK = 512 };

/* ---- tar ---- */
/* Skips the rest of the current member and moves to the next, whose name lives until the next call.
 * *member is NULL at the end of the archive, after two zero blocks and at most 1 MiB of further
 * zeros. Errors: SGPU_EINVALID (a bad header, an archive cut short), SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_tar_next(struct sgpu_tar_reader *reader, const char **member,
				  uint64_t *size, struct sgpu_error *error);
/* For bulk reads: the caller reads exactly the member's payload, then calls sgpu_tar_consumed. */
int sgpu_tar_fd(struct sgpu_tar_reader *reader);
void sgpu_tar_consumed(struct sgpu_tar_reader *reader, uint64_t bytes);
SGPU_MUST_CHECK int sgpu_tar_padding(int fd, const char *name, uint64_t size,
				     struct sgpu_error *error);

/* ---- whole segments in memory ----
 * `sealed` has the bytes of sgpu_sealed_size(). Errors of open, after which `plaintext` is wiped:
 * SGPU_EKEY, SGPU_EAUTH (another length, too). */
SGPU_MUST_CHECK int sgpu_seal_memory(const uint8_t key[SGPU_KEY_SIZE], const void *context,
				     size_t context_size, const void *plaintext, size_t size,
				     uint8_t *sealed, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_open_memory(const uint8_t key[SGPU_KEY_SIZE], const void *context,
				     size_t context_size, const uint8_t *sealed, size_t sealed_size,
				     void *plaintext, struct sgpu_error *error);

/* ---- the header of a file that is sealed to a public key (sealed.c) ---- */
enum { SGPU_SEALED_TO = 128 };
/* Draws the key that the file is then sealed with. Errors: SGPU_EINVALID: of low order. */
SGPU_MUST_CHECK int sgpu_sealed_to_make(const struct sgpu_key *recipient,
					uint8_t key[SGPU_KEY_SIZE], uint8_t header[SGPU_SEALED_TO],
					struct sgpu_error *error);
/* Whether data begin with such a header; `kid` is then the recipient's. Verifies nothing. */
bool sgpu_sealed_to_kid(const uint8_t *data, size_t size, char kid[SGPU_KID_SIZE + 1]);
/* Opens a header. Errors: SGPU_EKEY: it is none, or for another key; SGPU_EAUTH. */
SGPU_MUST_CHECK int sgpu_sealed_to_open(const struct sgpu_key *key, const uint8_t *data,
					size_t size, uint8_t file_key[SGPU_KEY_SIZE],
					struct sgpu_error *error);

/* ---- batches ---- */
/* sgpu_batch_read in two steps, so that the first can be authenticated before the second:
 * seal.json; then what it names by a digest, and the locations. `find`, or NULL, returns a parsed
 * manifest with this hash, which must outlive the batch, or NULL. `fetch` gets the text, from
 * malloc, of one that is not in the stream. */
struct sgpu_manifest_source {
	const struct sgpu_manifest *(*find)(void *argument, const uint8_t sha256[SGPU_SHA256_SIZE]);
	int (*fetch)(void *argument, char **text, size_t *size, struct sgpu_error *error);
	void *argument;
};
SGPU_MUST_CHECK int sgpu_batch_read_seal(struct sgpu_tar_reader *reader, unsigned what,
					 struct sgpu_batch **batch, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_batch_read_rest(struct sgpu_tar_reader *reader, struct sgpu_batch *batch,
					 const struct sgpu_manifest_source *source,
					 struct sgpu_error *error);
/* The bytes of a segment's payload once it is masked, as the index says. */
static inline uint64_t sgpu_segment_masked_size(const struct sgpu_batch_segment *s)
{
	uint64_t size = s->size;

	if (s->masking == SGPU_MASKING_AES_GCM) {
		(void)sgpu_sealed_size(size, &size); /* no larger one passes the index */
	}
	return size;
}

const json_t *sgpu_batch_recipient(const struct sgpu_batch *batch, const char *kid);
/* Makes the note anew. files: by segment of the manifest, what is to be said of its file's format,
 * borrowed, or NULL; or NULL for all. */
SGPU_MUST_CHECK int sgpu_batch_make_note(struct sgpu_batch *batch,
					 const struct sgpu_manifest *manifest, json_t *const *files,
					 struct sgpu_error *error);
/* *head: from malloc. seal_alone: without what follows seal.json. */
SGPU_MUST_CHECK int sgpu_batch_head(struct sgpu_batch *batch, bool seal_alone, uint8_t **head,
				    size_t *size, struct sgpu_error *error);
/* Writes the head. The caller then writes each inline payload, in order, after its header and
 * before its padding, and calls sgpu_tar_end. */
SGPU_MUST_CHECK int sgpu_batch_write_head(int fd, const char *name, struct sgpu_batch *batch,
					  bool seal_alone, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_batch_payload_header(const struct sgpu_batch *batch, int segment,
					      uint8_t block[SGPU_TAR_BLOCK],
					      struct sgpu_error *error);
/* Computes the identity of a batch: SHA-256 of "sgpu v2 batch" || 0x00 || batch_id || counter (8
 * bytes, big endian) || index_sha256. Neither a rewrap nor another signer changes it. */
SGPU_MUST_CHECK int sgpu_batch_identity(const struct sgpu_batch *batch,
					uint8_t identity[SGPU_SHA256_SIZE],
					struct sgpu_error *error);
/* Requires that an owner has signed the batch, and that each owner's signature verifies. owners:
 * thumbprints of keys. kid receives that of the first who signed. If no signature names an owner's
 * key, nothing is hashed. Errors: SGPU_EPOLICY: no owner has signed; SGPU_EAUTH: an owner's
 * signature is bad. */
SGPU_MUST_CHECK int sgpu_batch_owner(const struct sgpu_batch *batch, const char *const *owners,
				     int owner_count, char kid[SGPU_KID_SIZE + 1],
				     struct sgpu_error *error);

/* ---- the replay record of the batches that were taken, so that each is taken once ----
 * Its directory can be shared by several processes and outlives them. */
enum {
	SGPU_REPLAY_WINDOW_DAYS =
		7, /* the default age up to which batches are taken and their records kept */
	SGPU_REPLAY_AHEAD_SECONDS = 5 * 60, /* how far a batch's clock may be ahead */
};

struct sgpu_replay;

/* directory: of this user alone, made (0700) if missing; NULL: batches are refused for their time
 * alone. Errors: SGPU_EPOLICY for another user's directory, SGPU_ESYSTEM, also for another
 * version's record. */
SGPU_MUST_CHECK int sgpu_replay_create(const char *directory, uint64_t window_us,
				       struct sgpu_replay **replay, struct sgpu_error *error);
void sgpu_replay_free(struct sgpu_replay **replay);

/* Takes and records a batch, whose signature and MAC must have verified: otherwise an attacker
 * could mark an owner's batch as taken. identity: from sgpu_batch_identity(), of this counter.
 * counter and now_us: microseconds since 1970. After 0 the record is on the disk, so no crash lets
 * a batch run twice. After an error the batch is not recorded and can be sent again. If the process
 * or the machine fails during this call, the batch may be recorded without having run. Errors:
 * SGPU_ETAKEN: taken before, or older than the window; SGPU_EPOLICY: sealed in the future;
 * SGPU_ENOSPACE, SGPU_ESYSTEM: it cannot be recorded. */
SGPU_MUST_CHECK int sgpu_replay_take(struct sgpu_replay *replay,
				     const uint8_t identity[SGPU_SHA256_SIZE], uint64_t counter,
				     uint64_t now_us, struct sgpu_error *error);

#endif
