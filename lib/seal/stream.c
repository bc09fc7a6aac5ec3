/* SPDX-License-Identifier: Apache-2.0
 *
 * Sealing and opening from descriptor to descriptor: sizes, headers, and what is checked before and after.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <sgpu/io.h>
#include <sgpu/seal.h>
#include <sgpu/sniff.h>

#include "seal/transfer.h"

/* Regular files whose size says nothing about what a reader gets. */
static bool made_on_reading(int fd)
{
	static const long magics[] = {
		PROC_SUPER_MAGIC, SYSFS_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
		SECURITYFS_MAGIC,
	};
	struct statfs system;

	if (fstatfs(fd, &system)) {
		return true;
	}
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(magics); i++) {
		if ((long)system.f_type == magics[i]) {
			return true;
		}
	}
	return false;
}

void sgpu_seal_end_from_fd(int fd, const char *name, struct sgpu_seal_end *end)
{
	struct stat status;
	int flags = fcntl(fd, F_GETFL);
	off_t position = lseek(fd, 0, SEEK_CUR);

	memset(end, 0, sizeof(*end));
	end->fd = fd;
	end->name = name;
	/* The kernel appends to a file opened so, whatever offset a write names. */
	bool appends = (flags & O_APPEND) && (flags & O_ACCMODE) != O_RDONLY;
	if (flags < 0 || appends || position < 0 || fstat(fd, &status) || !S_ISREG(status.st_mode) ||
	    made_on_reading(fd)) {
		return;
	}
	end->positioned = true;
	end->offset = (uint64_t)position;
}

/* Bytes from the offset to the end of a positioned input. */
static int rest_of_file(const struct sgpu_seal_end *in, uint64_t *size, struct sgpu_error *error)
{
	struct stat status;

	if (fstat(in->fd, &status)) {
		return sgpu_fail_errno(error, "cannot read '%s'", in->name);
	}
	*size = (uint64_t)status.st_size > in->offset ? (uint64_t)status.st_size - in->offset : 0;
	return 0;
}

/* Fixes the input's size where it can be known. *from_file: it is that of the file, to be compared at the end. */
static int find_size(const struct sgpu_seal_job *job, struct sgpu_transfer *transfer, uint64_t *size,
		     bool *from_file, struct sgpu_error *error)
{
	uint8_t probe;
	size_t got = 0;

	*size = job->size;
	*from_file = false;
	if (job->size != SGPU_SIZE_UNKNOWN || !job->in.positioned) {
		return 0;
	}
	int code = rest_of_file(&job->in, size, error);
	if (code) {
		return code;
	}
	*from_file = true;
	if (*size) {
		return 0;
	}
	/* Some file systems give no size for files that hold something. */
	code = sgpu_pread(job->in.fd, job->in.name, &probe, 1, job->in.offset, &got, error);
	if (!code && got) {
		*from_file = false;
		*size = SGPU_SIZE_UNKNOWN;
		transfer->in.positioned = false;
		if (lseek(job->in.fd, (off_t)job->in.offset, SEEK_SET) < 0) {
			return sgpu_fail_errno(error, "cannot read '%s'", job->in.name);
		}
	}
	sgpu_wipe(&probe, 1);
	return code;
}

/* What both directions need once `in_size`, the bytes behind the header, is known. */
static void prepare(struct sgpu_transfer *transfer)
{
	const struct sgpu_seal_job *job = transfer->job;
	uint64_t group = transfer->opening ? SGPU_GROUP_SEALED : SGPU_GROUP_PLAIN;

	transfer->jobs = job->jobs ? job->jobs : sgpu_cpu_count();
	if (transfer->jobs > SGPU_POOL_JOBS_MAX) {
		transfer->jobs = SGPU_POOL_JOBS_MAX;
	}
	if (transfer->in_size != SGPU_SIZE_UNKNOWN) {
		transfer->groups = transfer->in_size / group + 1;
		if (transfer->groups < transfer->jobs) {
			transfer->jobs = (unsigned)transfer->groups;
		}
	}
}

static int put_header(struct sgpu_transfer *transfer, struct sgpu_error *error)
{
	struct sgpu_seal_end *out = &transfer->out;
	uint8_t header[SGPU_SEALED_HEADER];

	sgpu_sealed_header(&transfer->keys, header);
	int code = out->positioned ? sgpu_pwrite(out->fd, out->name, header, sizeof(header), out->offset, error)
				   : sgpu_write(out->fd, out->name, header, sizeof(header), error);
	out->offset += sizeof(header);
	transfer->bytes_out = sizeof(header);
	return code;
}

static int get_header(struct sgpu_transfer *transfer, uint8_t header[SGPU_SEALED_HEADER], struct sgpu_error *error)
{
	struct sgpu_seal_end *in = &transfer->in;
	size_t got = 0;
	int code = in->positioned ? sgpu_pread(in->fd, in->name, header, SGPU_SEALED_HEADER, in->offset, &got, error)
				  : sgpu_read(in->fd, in->name, header, SGPU_SEALED_HEADER, &got, error);

	if (!code && got == 0 && !in->positioned) {
		return sgpu_fail_sniffed(error, in->name, header, got, "sealed data");
	}
	if (!code && got < SGPU_SEALED_HEADER) {
		code = sgpu_fail(error, SGPU_EAUTH, "'%s' has %zu bytes, too few to be sealed data", in->name, got);
	}
	in->offset += SGPU_SEALED_HEADER;
	transfer->bytes_in = SGPU_SEALED_HEADER;
	return code;
}

/* After the workers: the file must still have the size that was believed, holes at the end must become one. */
static int complete(struct sgpu_transfer *transfer, bool from_file, uint64_t size, struct sgpu_error *error)
{
	struct sgpu_seal_job *job = transfer->job;
	struct stat status;
	uint64_t now = 0;

	if (from_file) {
		int code = rest_of_file(&job->in, &now, error);
		if (code) {
			return code;
		}
		if (now != size) {
			(void)sgpu_fail(error, SGPU_ESYSTEM, "'%s' changed while it was read", job->in.name);
			(void)sgpu_hint(error, "use a copy of it, or read it through a pipe");
			return SGPU_ESYSTEM;
		}
	}
	if (transfer->opening && job->sparse && job->out.positioned) {
		uint64_t end = job->out.offset + transfer->bytes_out;
		if (fstat(job->out.fd, &status) ||
		    ((uint64_t)status.st_size < end && ftruncate(job->out.fd, (off_t)end))) {
			return sgpu_fail_errno(error, "cannot write '%s'", job->out.name);
		}
	}
	job->in.offset += job->in.positioned ? transfer->bytes_in : 0;
	job->out.offset += job->out.positioned ? transfer->bytes_out : 0;
	return 0;
}

static void begin(struct sgpu_transfer *transfer, struct sgpu_seal_job *job, bool opening)
{
	memset(transfer, 0, sizeof(*transfer));
	transfer->job = job;
	transfer->opening = opening;
	transfer->in = job->in;
	transfer->out = job->out;
	job->bytes_in = job->bytes_out = 0;
	job->bad_chunk = job->bad_offset = SGPU_SIZE_UNKNOWN;
}

static int end(struct sgpu_transfer *transfer, int code)
{
	struct sgpu_seal_job *job = transfer->job;

	job->bytes_in = transfer->bytes_in;
	job->bytes_out = transfer->bytes_out;
	if (job->bad_chunk != SGPU_SIZE_UNKNOWN) {
		job->bad_offset = SGPU_SEALED_HEADER + job->bad_chunk * SGPU_SEALED_CHUNK;
	}
	sgpu_aead_free(&transfer->aead);
	sgpu_wipe(transfer, sizeof(*transfer));
	return code;
}

int sgpu_seal_stream(struct sgpu_seal_job *job, struct sgpu_error *error)
{
	struct sgpu_transfer transfer;
	uint64_t size = 0;
	bool from_file = false;

	begin(&transfer, job, false);
	int code = find_size(job, &transfer, &size, &from_file, error);
	if (!code && size != SGPU_SIZE_UNKNOWN && size > SGPU_SEALED_PLAINTEXT_MAX) {
		code = sgpu_fail(error, SGPU_EINVALID, "'%s' is too large to be sealed", job->in.name);
	}
	if (!code) {
		code = sgpu_sealed_keys_new(job->key, job->context, job->context_size, &transfer.keys, error);
	}
	if (!code) {
		code = sgpu_aead_create(job->provider, transfer.keys.key, &transfer.aead, error);
	}
	if (!code) {
		transfer.in_size = size;
		prepare(&transfer);
		code = put_header(&transfer, error);
	}
	if (!code) {
		code = sgpu_transfer_run(&transfer, error);
	}
	if (!code) {
		code = complete(&transfer, from_file, size, error);
	}
	return end(&transfer, code);
}

int sgpu_open_stream(struct sgpu_seal_job *job, struct sgpu_error *error)
{
	struct sgpu_transfer transfer;
	uint8_t header[SGPU_SEALED_HEADER] = { 0 };
	uint64_t size = 0, plaintext_size;
	bool from_file = false;

	begin(&transfer, job, true);
	int code = find_size(job, &transfer, &size, &from_file, error);
	if (!code && size != SGPU_SIZE_UNKNOWN && !sgpu_sealed_plaintext_size(size, &plaintext_size)) {
		(void)sgpu_fail(error, SGPU_EAUTH, "'%s' has %llu bytes, which sealed data never have", job->in.name,
				(unsigned long long)size);
		code = SGPU_EAUTH;
		(void)sgpu_hint(error, "it was cut short, or it is something else");
	}
	if (!code) {
		code = get_header(&transfer, header, error);
	}
	if (!code) {
		code = sgpu_sealed_keys_open(job->key, job->context, job->context_size, header, &transfer.keys, error);
	}
	if (!code) {
		code = sgpu_aead_create(job->provider, transfer.keys.key, &transfer.aead, error);
	}
	if (!code) {
		transfer.in_size = size == SGPU_SIZE_UNKNOWN ? size : size - SGPU_SEALED_HEADER;
		prepare(&transfer);
		code = sgpu_transfer_run(&transfer, error);
	}
	if (!code) {
		code = complete(&transfer, from_file, size, error);
	}
	return end(&transfer, code);
}
