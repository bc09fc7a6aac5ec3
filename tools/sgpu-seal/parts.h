/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of sgpu-seal.
 */
#ifndef SGPU_SEAL_PARTS_H
#define SGPU_SEAL_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/io.h"
#include "batch/batch.h"
#include "cli.h"
#include "files/files.h"
#include "passphrase.h"
#include "stage/stage.h"
#include "transfer/transfer.h"

CLI_VERB(keygen);
CLI_VERB(pubkey);
CLI_VERB(keyinfo);
CLI_VERB(seal);
CLI_VERB(open);
CLI_VERB(seal_file);
CLI_VERB(open_file);
CLI_VERB(inspect);
CLI_VERB(rewrap);

/* ---- keys and options ---- */
struct seal_keys {
	struct cli_list own, others; /* the files of -k and -r */
	struct sgpu_key list[SGPU_RECIPIENTS_MAX];
	int count;
	/* The owner's keys that can sign; for SEAL_OPENER also public halves. */
	struct sgpu_key signers[SGPU_SIGNATURES_MAX];
	int signer_count;
};
/* What a key does: is a recipient; is one and signs; opens; opens and verifies; opens and signs. */
enum seal_use { SEAL_RECIPIENT, SEAL_OWNER, SEAL_READER, SEAL_OPENER, SEAL_CHANGER };
/* Loads the files of -k for `use`, and of -r as recipients. Returns 0, or the exit status after a
 * message. */
int seal_keys_load(struct seal_keys *keys, enum seal_use use);
void seal_keys_clear(struct seal_keys *keys); /* wipes them */
#define SEAL_JOBS(type)                                                                  \
	{                                                                                \
		"jobs", 'j', "N", "threads; as many as there are processors by default", \
			CLI_NUMBER(type, meter.jobs, 1, SGPU_POOL_JOBS_MAX)              \
	}

/* What the progress line shows. */
struct seal_meter {
	uint64_t done; /* by earlier calls of seal_moves_run */
	unsigned jobs;
};

/* A segment's key and context, wiped when the payload has been moved. */
struct seal_secret {
	uint8_t key[SGPU_KEY_SIZE];
	uint8_t context[SGPU_SEGMENT_CONTEXT_MAX];
	size_t context_size;
};

/* A file with a format that a payload is read from. Zeroed: none. */
struct seal_array {
	struct sgpu_source source;
	int other;
	struct sgpu_file *file;
};

struct seal_payload {
	struct sgpu_descriptor in;  /* the first member: the context of the part's source */
	struct sgpu_descriptor out; /* when opening: this payload's file or temporary file */
	struct sgpu_source region;  /* where the payload is; fd -1: in the archive */
	struct seal_array array;    /* or there */
	struct seal_secret secret;
	struct seal_moves *moves;
	int segment;
};

struct seal_moves {
	struct sgpu_host_part *parts;
	size_t count;
	struct seal_payload *payloads;
	int payload_count;
	uint8_t (*blocks)[2 * SGPU_TAR_BLOCK]; /* padding and header before each payload of `out` */
	struct sgpu_tar_reader *reader;	       /* the archive to read from */
	void *owner;
	struct sgpu_descriptor out; /* the archive to write to, if any */
	uint64_t at;		    /* bytes written there */
};
#define SEAL_MOVES_INIT                        \
	{                                      \
		.out = {.fd = -1, .pipe = -1 } \
	}
/* out: the archive to write to, or NULL. */
SGPU_MUST_CHECK int seal_moves_create(struct seal_moves *moves, int payloads,
				      struct sgpu_tar_reader *reader, void *owner,
				      const struct sgpu_output *out, struct sgpu_error *error);
void seal_moves_clear(struct seal_moves *moves);
/* Gets a payload, and sets its part's source, and its sink unless seal_moves_member did. */
typedef int seal_prepare(void *payload, struct sgpu_host_part *part, struct sgpu_error *error);
void seal_moves_add(struct seal_moves *moves, enum sgpu_host_action action, int segment,
		    uint64_t size, const char *name, seal_prepare *prepare);
/* Adds a payload of `out`, after the padding of the last one and its own header. */
SGPU_MUST_CHECK int seal_moves_member(struct seal_moves *moves, const struct sgpu_batch *batch,
				      enum sgpu_host_action action, int segment,
				      seal_prepare *prepare, struct sgpu_error *error);
/* Make the archive's current member, or the data at a location, the source of a payload. */
void seal_payload_from_archive(struct seal_payload *payload, struct sgpu_host_part *part);
SGPU_MUST_CHECK int seal_payload_from(struct seal_payload *payload, struct sgpu_host_part *part,
				      const struct sgpu_location *location,
				      struct sgpu_error *error);
/* array.c: the same for the elements of an array's file. */
SGPU_MUST_CHECK int seal_payload_from_array(struct seal_payload *payload,
					    struct sgpu_host_part *part,
					    const struct sgpu_location *location,
					    struct sgpu_error *error);
/* Opens the file of a location with an array of `size` bytes; close it also after an error. */
SGPU_MUST_CHECK int seal_array_open(const struct sgpu_location *location, uint64_t size,
				    struct seal_array *array, struct sgpu_error *error);
void seal_array_close(struct seal_array *array);
/* Begins the file of output `id`, of `size` bytes of elements, in the format of the note's object
 * `file`. Errors: SGPU_EINVALID if that is none, and those of sgpu_file_create. */
SGPU_MUST_CHECK int seal_array_create(json_t *file, const char *id, uint64_t size, int fd,
				      const char *name, struct sgpu_file_writer **writer,
				      struct sgpu_error *error);
SGPU_MUST_CHECK int seal_payload_key(struct seal_payload *payload, struct sgpu_host_part *part,
				     const struct sgpu_batch *batch,
				     const uint8_t batch_key[SGPU_KEY_SIZE],
				     struct sgpu_error *error);
/* Makes a part of a payload whose region is open. */
void seal_payload_from_source(struct seal_payload *payload, struct sgpu_host_part *part);
/* Moves all payloads, and leaves the position of `out` after the last. *failed: the error's, or
 * NULL. */
SGPU_MUST_CHECK int seal_moves_run(struct seal_moves *moves, struct seal_meter *meter,
				   const struct seal_payload **failed, struct sgpu_error *error);

/* Fails, since a killed process would leave plaintext in a named file at `place`. */
SGPU_MUST_CHECK int seal_refuse_name(const char *place, struct sgpu_error *error);

/* --json: adds the bytes, and who computed, to `record` and prints it on standard error. Takes over
 * the reference, or NULL. */
void seal_record(json_t *record, uint64_t bytes_in, uint64_t bytes_out);
json_t *seal_recipient_kids(const struct sgpu_batch *batch);

#endif
