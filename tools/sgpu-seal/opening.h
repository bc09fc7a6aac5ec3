/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface between the files of sgpu-seal open.
 */
#ifndef SGPU_SEAL_OPENING_H
#define SGPU_SEAL_OPENING_H

#include "parts.h"
#include "lease.h"

/* The lease on this machine that the response names. */
struct open_lease {
	const char *socket;
	struct lease_client client;
	bool read_all; /* all outputs in it are wanted */
};

struct opening_target {
	bool wanted;
	char *path;   /* below `folder`, without "." or ".."; NULL: the output goes to out_path */
	json_t *file; /* its format, as the note says; NULL: raw */
	struct sgpu_file_writer *writer; /* while it is written in that format */
	bool written;			 /* verified, in `output`, not yet committed */
	struct sgpu_output output;
};

struct opening {
	struct seal_keys keys;
	const char *folder;   /* -C, or NULL */
	const char *out_path; /* -o */
	bool force;
	bool named; /* --allow-named-temporary */
	struct cli_list only;
	const char *batch_path; /* --batch, or NULL */
	const char *in_name;
	struct sgpu_tar_reader *reader;
	struct sgpu_batch *response;
	bool has_key;
	uint8_t batch_key[SGPU_KEY_SIZE];
	struct opening_target *targets;	    /* by segment */
	struct sgpu_output out;		    /* at out_path, until it is moved into its target */
	struct sgpu_output_directory below; /* the folder of -C */
	struct open_lease lease;
	int spool; /* holds a LOW output for a pipe until it has verified, or -1 */
	struct seal_meter meter;
	uint64_t bytes_in, bytes_out;
	int opened, failed;
};

/* opening_write.c: opens the wanted outputs and commits them after the end of the archive. */
SGPU_MUST_CHECK int opening_write(struct opening *opening, struct sgpu_error *error);

#endif
