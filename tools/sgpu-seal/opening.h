/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal open, between its files: which outputs are wanted and where they go, and the opening
 * itself.
 */
#ifndef SGPU_SEAL_OPENING_H
#define SGPU_SEAL_OPENING_H

#include "cli.h"
#include "leases.h"
#include "parts.h"

/* One output of the response. */
struct opening_target {
	bool wanted;
	char *path;   /* below the folder, without dots; NULL for the one that goes to out_path */
	bool written; /* verified and in `output`, which waits to be committed */
	struct sgpu_output output;
};

struct opening {
	struct seal_keys keys;
	const char *folder;	/* -C, or NULL */
	const char *out_path;	/* -o */
	bool force;		/* --force */
	bool named;		/* --allow-named-temporary */
	struct cli_list only;	/* --only */
	const char *batch_path; /* --batch, or NULL */
	const char *in_name;
	struct sgpu_tar_reader *reader;
	struct sgpu_batch *response;
	bool has_key;
	uint8_t batch_key[SGPU_KEY_SIZE];
	struct opening_target *targets;	    /* by segment */
	struct sgpu_output out;		    /* at out_path, until its target takes it */
	struct sgpu_output_directory below; /* of -C */
	struct open_leases leases;	    /* where outputs are */
	int pending_max;		    /* how many outputs may wait to be committed */
	int spool; /* where a LOW output for a pipe is until it has verified, or -1 */
	struct seal_meter meter;
	uint64_t bytes_in, bytes_out;
	int opened, failed;
};

/* Opens what the outputs go to, so that a place that cannot be is known before the response comes.
 */
SGPU_MUST_CHECK int opening_prepare(struct opening *opening, struct sgpu_error *error);
/* Unwraps the key and verifies the MAC, also against the batch that was sent. */
SGPU_MUST_CHECK int opening_authenticate(struct opening *opening, struct sgpu_error *error);
/* Decides which outputs are wanted and where they go. */
SGPU_MUST_CHECK int opening_choose(struct opening *opening, struct sgpu_error *error);
/* An output at a target's path below the folder, to which no link on the way leads. */
SGPU_MUST_CHECK int opening_below(const struct opening *opening, int i, mode_t mode,
				  struct sgpu_output *output, struct sgpu_error *error);
/* Opens the place of one output. */
SGPU_MUST_CHECK int opening_target_open(struct opening *opening, int i, struct sgpu_error *error);
/* Opens all that is wanted, reads the archive to its end, and only then lets the outputs appear. */
SGPU_MUST_CHECK int opening_write(struct opening *opening, struct sgpu_error *error);
void opening_clear(struct opening *opening);

#endif
