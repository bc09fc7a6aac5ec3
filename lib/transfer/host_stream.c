/* SPDX-License-Identifier: Apache-2.0
 *
 * Sealing and opening one file or pipe: its size, and what is checked before and after.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "transfer/transfer.h"

/* Bytes from the offset to the end of a positioned input. */
static int rest_of_file(const struct sgpu_descriptor *in, uint64_t *size, struct sgpu_error *error)
{
	struct stat status;

	if (fstat(in->fd, &status)) {
		return sgpu_fail_errno(error, "cannot read '%s'", in->name);
	}
	*size = (uint64_t)status.st_size > in->offset ? (uint64_t)status.st_size - in->offset : 0;
	return 0;
}

/* Fixes the size where it can be known. *from_file: it is that of the file, to be compared at the
 * end. */
static int find_size(struct sgpu_descriptor *in, uint64_t *size, bool *from_file,
		     struct sgpu_error *error)
{
	uint8_t probe;
	size_t got = 0;

	*from_file = false;
	if (*size != SGPU_SIZE_UNKNOWN || !in->positioned) {
		return 0;
	}
	int code = rest_of_file(in, size, error);
	if (code) {
		return code;
	}
	*from_file = true;
	if (*size) {
		return 0;
	}
	/* Some file systems give no size for files that hold something. */
	code = sgpu_pread(in->fd, in->name, &probe, 1, in->offset, &got, error);
	if (!code && got) {
		*from_file = false;
		*size = SGPU_SIZE_UNKNOWN;
		in->positioned = false;
		code = lseek(in->fd, (off_t)in->offset, SEEK_SET) < 0
			       ? sgpu_fail_errno(error, "cannot read '%s'", in->name)
			       : 0;
	}
	sgpu_wipe(&probe, 1);
	return code;
}

/* The file must still have the size that was believed; holes at the end must become a part of the
 * output. */
static int check_ends(struct sgpu_seal_job *job, bool from_file, uint64_t size,
		      struct sgpu_error *error)
{
	struct stat status;
	uint64_t now = 0, end = job->out.offset + job->bytes_out;

	if (from_file) {
		int code = rest_of_file(&job->in, &now, error);
		if (code) {
			return code;
		}
		if (now != size) {
			(void)sgpu_fail(error, SGPU_ESYSTEM, "'%s' changed while it was read",
					job->in.name);
			(void)sgpu_hint(error, "use a copy of it, or read it through a pipe");
			return SGPU_ESYSTEM;
		}
	}
	if (job->out.sparse && job->out.positioned &&
	    (fstat(job->out.fd, &status) ||
	     ((uint64_t)status.st_size < end && ftruncate(job->out.fd, (off_t)end)))) {
		return sgpu_fail_write(error, job->out.name);
	}
	return 0;
}

static int move_stream(struct sgpu_seal_job *job, enum sgpu_host_action action,
		       struct sgpu_error *error)
{
	struct sgpu_descriptor in = job->in, out = job->out;
	uint64_t size = job->size;
	bool from_file = false;

	job->bytes_in = job->bytes_out = 0;
	job->bad_chunk = SGPU_SIZE_UNKNOWN;
	int code = find_size(&in, &size, &from_file, error);
	if (code) {
		return code;
	}
	struct sgpu_host_part part = { .action = action,
				       .name = in.name,
				       .size = size,
				       .key = job->key,
				       .context = job->context,
				       .context_size = job->context_size,
				       .source = sgpu_source_from_descriptor(&in),
				       .sink = sgpu_sink_to_descriptor(&out) };
	struct sgpu_host_move move = { .parts = &part,
				       .count = 1,
				       .jobs = job->jobs,
				       .progress = job->progress,
				       .progress_argument = job->progress_argument };
	code = sgpu_host_move(&move, error);
	sgpu_descriptor_close(&out);
	job->bytes_in = part.bytes_in;
	job->bytes_out = part.bytes_out;
	job->bad_chunk = move.bad_chunk;
	code = code ? code : check_ends(job, from_file, size, error);
	if (!code) {
		job->in.offset += in.positioned ? part.bytes_in : 0;
		job->out.offset += out.positioned ? part.bytes_out : 0;
	}
	return code;
}

int sgpu_seal_stream(struct sgpu_seal_job *job, struct sgpu_error *error)
{
	return move_stream(job, SGPU_HOST_SEAL, error);
}

int sgpu_open_stream(struct sgpu_seal_job *job, struct sgpu_error *error)
{
	return move_stream(job, SGPU_HOST_OPEN, error);
}
