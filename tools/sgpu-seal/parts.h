/* SPDX-License-Identifier: Apache-2.0
 *
 * What the verbs that work on batches and responses share.
 */
#ifndef SGPU_SEAL_PARTS_H
#define SGPU_SEAL_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include <sgpu/batch.h>
#include <sgpu/io.h>
#include <sgpu/stage.h>
#include <sgpu/transfer.h>

/* ---- keys and options ---- */
struct seal_keys {
	struct sgpu_key *list;
	int count;
	struct sgpu_signing_key *signers; /* those of the owner that can sign */
	int signer_count;
	bool standard_input; /* one of them was read from there */
};
/* What a key is for: to be sealed to; to be sealed to and sign; to open; to open and sign. */
enum seal_use { SEAL_RECIPIENT, SEAL_OWNER, SEAL_READER, SEAL_CHANGER };
/* For the row of an option: returns 0, or the exit status after a message. */
int seal_keys_take(struct seal_keys *keys, const char *path, enum seal_use use);
void seal_keys_clear(struct seal_keys *keys);
/* -j, for a struct with a meter. */
#define SEAL_JOBS(type)                                                                \
	{ "jobs", 'j', "N", "threads; as many as there are processors by default",     \
	  CLI_NUMBER(type, meter.jobs, 1, SGPU_POOL_JOBS_MAX) }
/* As cli_input, and refuses to read both a key and the input from standard input. *status: the exit status. */
int seal_input(const struct seal_keys *keys, const char *path, const char **name, int *status);

/* ---- payloads ---- */
/* Counts bytes over all payloads of a run, for the progress line and the report. */
struct seal_meter {
	uint64_t done;     /* of the payloads before the current one */
	uint64_t begin_ns;
	unsigned jobs;
};

/* Where a payload comes from: the current member of an archive, or a window of a file. */
struct seal_feed {
	struct sgpu_tar_reader *reader; /* or NULL */
	int fd;
	uint64_t offset;
	const char *name;
};

/* Copies `size` bytes to fd, and compares their KT128 digest with `kt128` unless that is NULL: SGPU_EAUTH when it differs,
 * which is known only after the bytes were written. */
SGPU_MUST_CHECK int seal_copy(struct seal_feed *feed, uint64_t size, int fd, const char *name, const uint8_t *kt128,
			      struct seal_meter *meter, struct sgpu_error *error);

/* What a segment is sealed with. Wipe it. */
struct seal_secret {
	uint8_t key[SGPU_KEY_SIZE];
	uint8_t context[SGPU_SEGMENT_CONTEXT_MAX];
	size_t context_size;
};
/* Seals `size` bytes to fd, or opens them; fd's position ends behind what was written. `fresh`: fd is a new regular
 * file that nobody sees yet. */
SGPU_MUST_CHECK int seal_payload(struct seal_feed *feed, uint64_t size, const struct seal_secret *secret, int fd,
				 const char *name, struct seal_meter *meter, struct sgpu_error *error);
SGPU_MUST_CHECK int open_payload(struct seal_feed *feed, uint64_t size, const struct seal_secret *secret, int fd,
				 const char *name, bool fresh, struct seal_meter *meter, struct sgpu_error *error);
/* Copies the payloads that follow in the archive, all of them, unchanged. */
SGPU_MUST_CHECK int seal_pass_through(struct sgpu_tar_reader *reader, const struct sgpu_batch *batch, int fd,
				      const char *name, struct seal_meter *meter, struct sgpu_error *error);

/* ---- outputs below a folder ---- */
struct seal_below {
	struct sgpu_output_folder folder;
	const char *name;
};
/* What can be said about an output before there is one: its path stays below the folder by its text, it is no file that
 * is read, and it exists only if it may be replaced. */
SGPU_MUST_CHECK int seal_below_check(const struct seal_below *below, const char *path, bool replace,
				     struct sgpu_error *error);
/* An output at a relative path that does not leave the folder, neither by its text nor through a link. */
SGPU_MUST_CHECK int seal_below_output(const struct seal_below *below, const char *path, mode_t mode, bool replace,
				      struct sgpu_output *output, struct sgpu_error *error);

/* ---- reports ---- */
/* -v: "sealed 1.0 GiB in 0.31 s, 3.46 GB/s, ipsec-mb (VAES), 2 threads". */
void seal_detail(const char *what, uint64_t bytes, const struct seal_meter *meter);
/* --json: adds the rate's members and prints one line on standard error. Takes the reference; NULL is accepted. */
void seal_record(json_t *record, uint64_t bytes_in, uint64_t bytes_out, const struct seal_meter *meter);
/* The kids of the recipients as a new array. */
json_t *seal_recipient_kids(const struct sgpu_batch *batch);
/* And those of the keys that sign. */
json_t *seal_signer_kids(const struct seal_keys *keys);

#endif
