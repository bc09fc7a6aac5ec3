/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal open: the outputs, opened or verified, and shown only when all of them are good.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "cli.h"
#include "opening.h"

enum { SYNCED_ONE_BY_ONE = 8 };

/* A file without a name, for what must be verified before a pipe may have it. */
static int open_spool(struct sgpu_error *error)
{
	const char *folder = getenv("TMPDIR");
	if (!folder || !*folder) {
		folder = "/tmp";
	}
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0) {
		char path[4096];
		if (snprintf(path, sizeof(path), "%s/sgpu-XXXXXX", folder) < (int)sizeof(path)) {
			fd = mkostemp(path, O_CLOEXEC);
		}
		if (fd >= 0) {
			unlink(path);
		}
	}
	return fd < 0 ? sgpu_fail_errno(error, "cannot make a temporary file in '%s'", folder) : fd;
}

/* A LOW output is bound by its digest, which is known to match only at its end. */
static int write_low(struct opening *opening, struct seal_feed *feed, const struct sgpu_batch_segment *s,
		     struct sgpu_output *output, struct sgpu_error *error)
{
	if (output->regular) {
		return seal_copy(feed, s->actual_size, output->fd, output->path, s->kt128, &opening->meter, error);
	}
	const int spool = open_spool(error);
	if (spool < 0) {
		return spool;
	}
	int code = seal_copy(feed, s->actual_size, spool, "temporary file", s->kt128, &opening->meter, error);
	if (!code) {
		struct seal_meter ignored = opening->meter;
		struct seal_feed verified = { .fd = spool, .name = "temporary file" };
		code = seal_copy(&verified, s->actual_size, output->fd, output->path, NULL, &ignored, error);
	}
	close(spool);
	return code;
}

static int write_high(struct opening *opening, struct seal_feed *feed, const struct sgpu_batch_segment *s,
		      struct sgpu_output *output, struct sgpu_error *error)
{
	struct seal_secret secret;
	int code = sgpu_batch_segment_key(opening->response, opening->batch_key, s->id,
					  opening->response->response_id, secret.key, secret.context, &secret.context_size, error);
	if (!code) {
		code = open_payload(feed, s->sealed_size, &secret, output->fd, output->path, output->regular,
				    &opening->meter, error);
	}
	sgpu_wipe(&secret, sizeof(secret));
	if (code == SGPU_EKEY) {
		/* Key and context follow from an index that has verified. */
		code = sgpu_fail(error, SGPU_EAUTH, "output '%s' was altered, or is not of this response", s->id);
	}
	return code;
}

/* Where a redirected file ends now, if what is written to it goes behind its end; else -1. */
static off_t end_of_redirection(const struct sgpu_output *output)
{
	struct stat status;
	if (output->regular || fstat(output->fd, &status) || !S_ISREG(status.st_mode)) {
		return -1;
	}
	const bool appends = fcntl(output->fd, F_GETFL) & O_APPEND;
	return appends || lseek(output->fd, 0, SEEK_CUR) == status.st_size ? status.st_size : -1;
}

/* What a failure leaves in such a file is taken back. */
static void take_back(const struct sgpu_output *output, off_t end)
{
	if (end >= 0) {
		(void)!ftruncate(output->fd, end);
	}
}

/* Many files go to the disk by one sync of the file system: a sync of each would take longer than all the rest. */
static bool sync_at_once(const struct opening *opening)
{
	int waiting = 0;
	for (int i = 0; i < opening->response->segment_count; i++) {
		waiting += opening->targets[i].written;
	}
	return waiting > SYNCED_ONE_BY_ONE;
}

static bool is_on(const struct stat *root, int fd)
{
	struct stat status;
	return fstat(fd, &status) == 0 && status.st_dev == root->st_dev;
}

/* The names in a folder, when the next output goes to another one; -1 ends. */
static void sync_names(int *last, struct stat *last_status, int folder)
{
	struct stat status = { 0 };
	if (folder >= 0 && *last >= 0 && fstat(folder, &status) == 0 && status.st_dev == last_status->st_dev &&
	    status.st_ino == last_status->st_ino) {
		return;
	}
	if (*last >= 0) {
		(void)!fsync(*last); /* a file system that cannot is no reason to fail */
		close(*last);
	}
	*last = folder < 0 ? -1 : fcntl(folder, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (*last >= 0 && fstat(*last, last_status)) {
		close(*last);
		*last = -1;
	}
}

static int commit_one(struct opening *opening, int i, struct sgpu_error *error)
{
	struct opening_target *target = &opening->targets[i];
	struct sgpu_error fault = { 0 };
	const int code = sgpu_output_commit(&target->output, &fault);
	if (code) {
		(void)sgpu_fail(error, code, "output '%s': %s", opening->response->segments[i].id, fault.text);
		return target->output.is_new ? sgpu_hint(error, "--force replaces files that exist") : code;
	}
	target->written = false;
	opening->opened++;
	return 0;
}

static int commit(struct opening *opening, struct sgpu_error *error)
{
	struct stat root, last_status;
	int last = -1, code = 0;
	const bool at_once = opening->folder && sync_at_once(opening) && fstat(opening->below.folder.fd, &root) == 0;
	if (at_once && syncfs(opening->below.folder.fd)) {
		return sgpu_fail_errno(error, "cannot write to '%s'", opening->folder);
	}
	for (int i = 0; !code && i < opening->response->segment_count; i++) {
		struct sgpu_output *output = &opening->targets[i].output;
		if (!opening->targets[i].written) {
			continue;
		}
		output->unsynced = at_once && is_on(&root, output->fd);
		if (output->unsynced) {
			sync_names(&last, &last_status, output->folder);
		}
		code = commit_one(opening, i, error);
	}
	sync_names(&last, &last_status, -1);
	opening->pending = code ? opening->pending : 0;
	return code;
}

/* For one more output that waits. */
static int make_room(struct opening *opening, struct sgpu_error *error)
{
	const int code = opening->pending >= opening->pending_max ? commit(opening, error) : 0;
	opening->pending += !code;
	return code;
}

static int write_target(struct opening *opening, struct seal_feed *feed, int i, struct sgpu_error *error)
{
	const struct sgpu_batch_segment *s = &opening->response->segments[i];
	struct sgpu_output *output = &opening->targets[i].output;
	int code = opening->targets[i].path ? make_room(opening, error) : 0;
	code = code ? code : opening_target_open(opening, i, error);
	if (code) {
		return code;
	}
	const off_t end = end_of_redirection(output);
	code = s->masking == SGPU_MASKING_AES_GCM ? write_high(opening, feed, s, output, error)
						  : write_low(opening, feed, s, output, error);
	if (code) {
		take_back(output, end);
		return code;
	}
	opening->targets[i].written = true;
	opening->bytes_in += sgpu_batch_payload_size(opening->response, i);
	opening->bytes_out += s->actual_size;
	return 0;
}

static int write_from_archive(struct opening *opening, int i, struct sgpu_error *error)
{
	int segment = -1;
	int code = sgpu_batch_next_payload(opening->reader, opening->response, &segment, error);
	if (!code && segment != i) {
		code = sgpu_fail(error, SGPU_EINVALID, "'%s': a payload is not where it belongs", opening->in_name);
	}
	if (code || !opening->targets[i].wanted) {
		return code;
	}
	struct seal_feed feed = { .reader = opening->reader, .name = opening->response->segments[i].id };
	return write_target(opening, &feed, i, error);
}

/* From a staged region. Never from a file: whoever made the response could have named one of the owner's. */
static int write_from_region(struct opening *opening, int i, struct sgpu_error *error)
{
	const struct sgpu_batch_segment *s = &opening->response->segments[i];
	struct sgpu_source source;
	if (s->location.kind != SGPU_LOCATION_REGION) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s': output '%s' is in a file, which no response may refer to",
				 opening->in_name, s->id);
	}
	int code = sgpu_source_open(&s->location, sgpu_batch_payload_size(opening->response, i), false, &source, error);
	if (code) {
		return code;
	}
	struct seal_feed feed = { .fd = source.fd, .offset = source.offset, .name = source.name };
	code = write_target(opening, &feed, i, error);
	sgpu_source_close(&source);
	return code;
}

static int write_segment(struct opening *opening, int i, struct sgpu_error *error)
{
	const struct sgpu_batch_segment *s = &opening->response->segments[i];
	if (s->location.kind == SGPU_LOCATION_INLINE) {
		return write_from_archive(opening, i, error);
	}
	if (!opening->targets[i].wanted) {
		return 0;
	}
	if (s->status != SGPU_OK) {
		opening->failed++;
		return 0;
	}
	return write_from_region(opening, i, error);
}

int opening_write(struct opening *opening, struct sgpu_error *error)
{
	const struct sgpu_batch *response = opening->response;
	int code = 0, segment = -1;
	for (int i = 0; !code && i < response->segment_count; i++) {
		code = write_segment(opening, i, error);
	}
	if (!code) {
		code = sgpu_batch_next_payload(opening->reader, response, &segment, error);
	}
	return code ? code : commit(opening, error);
}

void opening_clear(struct opening *opening)
{
	/* The last one first, so that a folder is empty when its maker is closed. */
	for (int i = opening->targets ? opening->response->segment_count : 0; i-- > 0;) {
		sgpu_output_close(&opening->targets[i].output);
		free(opening->targets[i].path);
	}
	free(opening->targets);
	free(opening->only.items);
	sgpu_output_close(&opening->out);
	sgpu_output_folder_close(&opening->below.folder, opening->opened > 0);
	sgpu_tar_close(&opening->reader);
	sgpu_batch_free(&opening->response);
	sgpu_wipe(opening->batch_key, sizeof(opening->batch_key));
	seal_keys_clear(&opening->keys);
}
