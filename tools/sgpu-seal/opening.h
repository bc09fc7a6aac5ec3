/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal open, between its files: which outputs are wanted and where they go, and the opening
 * itself.
 */
#ifndef SGPU_SEAL_OPENING_H
#define SGPU_SEAL_OPENING_H

#include "parts.h"
#include "wire.h"

/* Leases of a server of this machine that the response names. */
enum { OPEN_LEASES_MAX = 8 }; /* a response may name so many; a server names one */
struct open_leases {
	const char *socket;
	struct lease_client list[OPEN_LEASES_MAX];
	int count;
	bool read_all; /* all their outputs are wanted */
};

/* One output of the response. */
struct opening_target {
	bool wanted;
	char *path;   /* below the folder, without dots; NULL: the output goes to out_path */
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
	struct sgpu_output_directory below; /* the folder of -C */
	struct open_leases leases;	    /* where outputs are */
	int pending_max;		    /* how many outputs may wait to be committed */
	int spool; /* where a LOW output for a pipe is until it has verified, or -1 */
	struct seal_meter meter;
	uint64_t bytes_in, bytes_out;
	int opened, failed;
};

/* opening_write.c: opens all wanted outputs, reads the archive to its end, and only then lets the
 * outputs appear. */
SGPU_MUST_CHECK int opening_write(struct opening *opening, struct sgpu_error *error);

#endif
