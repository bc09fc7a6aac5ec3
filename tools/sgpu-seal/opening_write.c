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

/* From the file in which it has verified. */
static int copy_verified(const struct opening *opening, uint64_t size,
			 const struct sgpu_output *output, struct sgpu_error *error)
{
	struct sgpu_descriptor in, out;

	sgpu_descriptor_from_fd(opening->spool, "temporary file", &in);
	sgpu_descriptor_from_fd(output->fd, output->path, &out);
	in.offset = 0;
	out.positioned = false;
	struct sgpu_host_part part = { .action = SGPU_HOST_COPY,
				       .name = in.name,
				       .size = size,
				       .source = sgpu_source_from_descriptor(&in),
				       .sink = sgpu_sink_to_descriptor(&out) };
	struct sgpu_host_move move = { .parts = &part, .count = 1, .jobs = opening->meter.jobs };
	const int code = sgpu_host_move(&move, error);
	sgpu_descriptor_close(&out);
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
static void take_back(int fd, off_t end)
{
	if (end >= 0) {
		(void)!ftruncate(fd, end);
	}
}

/* Many files go to the disk by one sync of the file system: a sync of each would take longer than
 * all the rest. */
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
	if (folder >= 0 && *last >= 0 && fstat(folder, &status) == 0 &&
	    status.st_dev == last_status->st_dev && status.st_ino == last_status->st_ino) {
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
		(void)sgpu_fail(error, code, "output '%s': %s", opening->response->segments[i].id,
				fault.text);
		return target->output.is_new ? sgpu_hint(error, "--force replaces files that exist")
					     : code;
	}
	target->written = false;
	opening->opened++;
	return 0;
}

static int commit(struct opening *opening, struct sgpu_error *error)
{
	struct stat root, last_status;
	int last = -1, code = 0;
	const bool at_once =
		opening->folder && sync_at_once(opening) && fstat(opening->below.fd, &root) == 0;
	if (at_once && syncfs(opening->below.fd)) {
		return sgpu_fail_errno(error, "cannot write to '%s'", opening->folder);
	}
	for (int i = 0; !code && i < opening->response->segment_count; i++) {
		struct sgpu_output *output = &opening->targets[i].output;
		if (!opening->targets[i].written) {
			continue;
		}
		output->unsynced = at_once && is_on(&root, output->fd);
		if (output->unsynced) {
			sync_names(&last, &last_status, output->directory);
		}
		code = commit_one(opening, i, error);
	}
	sync_names(&last, &last_status, -1);
	return code;
}

/* Inline payloads that nobody wants are passed over. */
static int find_in_archive(struct opening *opening, int i, struct sgpu_error *error)
{
	int segment = -1, code;
	do {
		code = sgpu_batch_next_payload(opening->reader, opening->response, &segment, error);
	} while (!code && segment >= 0 && segment < i);
	if (!code && segment != i) {
		code = sgpu_fail(error, SGPU_EINVALID, "'%s': a payload is not where it belongs",
				 opening->in_name);
	}
	return code;
}

/* Where the part's bytes go. What is written elsewhere than to a new file stays even if a later
 * chunk fails: then it must be a prefix, without gaps. */
static int prepare_sink(struct opening *opening, struct seal_payload *payload,
			struct sgpu_host_part *part, struct sgpu_error *error)
{
	const struct sgpu_batch_segment *s = &opening->response->segments[payload->segment];
	const struct sgpu_output *output = &opening->targets[payload->segment].output;
	uint64_t size = 0;

	if (part->action == SGPU_HOST_COPY && !output->regular) {
		/* It is bound by its digest, which is known to match only at its end. */
		const int code = cli_temporary_file(&opening->spool, error);
		if (code) {
			return code;
		}
		sgpu_descriptor_from_fd(opening->spool, "temporary file", &payload->out);
	} else {
		sgpu_descriptor_from_fd(output->fd, output->path, &payload->out);
		payload->out.positioned = payload->out.positioned && output->regular;
	}
	part->sink = sgpu_sink_to_descriptor(&payload->out);
	if (part->action == SGPU_HOST_OPEN && payload->out.positioned) {
		payload->out.sparse = true;
		if (sgpu_sealed_plaintext_size(s->sealed_size, &size) &&
		    ftruncate(output->fd, (off_t)size)) {
			return sgpu_fail_errno(error, "cannot write '%s'", output->path);
		}
	}
	return 0;
}

static int prepare_output(void *argument, struct sgpu_host_part *part, struct sgpu_error *error)
{
	struct seal_payload *payload = argument;
	struct opening *opening = payload->moves->owner;
	const struct sgpu_batch_segment *s = &opening->response->segments[payload->segment];
	struct seal_secret *secret = &payload->secret;
	int code;

	if (s->location.kind == SGPU_LOCATION_INLINE) {
		code = find_in_archive(opening, payload->segment, error);
		if (!code) {
			seal_payload_from_archive(payload, part);
		}
	} else if (s->location.kind == SGPU_LOCATION_LEASE) {
		open_leases_source(&opening->leases, opening->response, payload->segment,
				   &payload->region);
		seal_payload_from_source(payload, part);
		code = 0;
	} else {
		code = seal_payload_from(payload, part, &s->location, error);
	}
	code = code ? code : opening_target_open(opening, payload->segment, error);
	code = code ? code : prepare_sink(opening, payload, part, error);
	if (!code && part->action == SGPU_HOST_OPEN) {
		code = sgpu_batch_segment_key(opening->response, opening->batch_key, s->id,
					      opening->response->response_id, secret->key,
					      secret->context, &secret->context_size, error);
		part->key = secret->key;
		part->context = secret->context;
		part->context_size = secret->context_size;
	}
	return code;
}

/* Adds the outputs from *next on that are wanted, as many as may wait. */
static int add_outputs(struct opening *opening, struct seal_moves *moves, int *next,
		       struct sgpu_error *error)
{
	for (; *next < opening->response->segment_count; ++*next) {
		const struct sgpu_batch_segment *s = &opening->response->segments[*next];
		const bool is_inline = s->location.kind == SGPU_LOCATION_INLINE;
		const bool high = s->masking == SGPU_MASKING_AES_GCM;
		if (!opening->targets[*next].wanted) {
			continue;
		}
		if (!is_inline && s->status != SGPU_OK) {
			opening->failed++;
			continue;
		}
		if (!is_inline && s->location.kind != SGPU_LOCATION_REGION &&
		    s->location.kind != SGPU_LOCATION_LEASE) {
			/* Whoever made the response could have named one of the owner's. */
			return sgpu_fail(
				error, SGPU_EINVALID,
				"'%s': output '%s' is in a file, which no response may refer to",
				opening->in_name, s->id);
		}
		if (moves->payload_count == opening->pending_max) {
			break;
		}
		seal_moves_add(moves, high ? SGPU_HOST_OPEN : SGPU_HOST_COPY, *next,
			       sgpu_batch_payload_size(opening->response, *next), s->id,
			       prepare_output);
		moves->parts[moves->count - 1].digest = high ? NULL : s->kt128;
	}
	return 0;
}

static int move_outputs(struct opening *opening, struct seal_moves *moves, struct sgpu_error *error)
{
	const struct seal_payload *failed = NULL;
	int code = seal_moves_run(moves, &opening->meter, &failed, error);

	if (code == SGPU_EKEY && failed) {
		/* Key and context follow from an index that has verified. */
		code = sgpu_fail(error, SGPU_EAUTH,
				 "output '%s' was altered, or is not of this response",
				 opening->response->segments[failed->segment].id);
	}
	for (int i = 0; !code && i < moves->payload_count; i++) {
		const int segment = moves->payloads[i].segment;
		struct opening_target *target = &opening->targets[segment];
		if (opening->spool >= 0) {
			code = copy_verified(opening, moves->parts[i].size, &target->output, error);
		}
		target->written = !code;
		opening->bytes_in += sgpu_batch_payload_size(opening->response, segment);
		opening->bytes_out += opening->response->segments[segment].actual_size;
	}
	return code;
}

/* A file of an earlier response, in the place of an output that has failed, must not pass for a
 * result of this one. */
static int remove_older(struct opening *opening, int i, struct sgpu_error *error)
{
	struct sgpu_output below = SGPU_OUTPUT_INIT,
			   *output = opening->folder ? &below : &opening->out;
	bool removed = false;
	int code = 0;

	if (opening->folder) {
		code = opening_below(opening, i, 0600, output, error);
	}
	code = code ? code : sgpu_output_remove_older(output, &removed, error);
	if (removed) {
		cli_warning("removed the older '%s': output '%s' has failed", output->path,
			    opening->response->segments[i].id);
	}
	sgpu_output_close(&below);
	return code;
}

static int remove_all_older(struct opening *opening, struct sgpu_error *error)
{
	int code = 0;

	for (int i = 0; !code && opening->force && i < opening->response->segment_count; i++) {
		if (opening->targets[i].wanted &&
		    opening->response->segments[i].status != SGPU_OK) {
			code = remove_older(opening, i, error);
		}
	}
	return code;
}

static bool is_wanted(const void *argument, int segment)
{
	const struct opening *opening = argument;

	return opening->targets[segment].wanted &&
	       opening->response->segments[segment].status == SGPU_OK;
}

int opening_write(struct opening *opening, struct sgpu_error *error)
{
	struct seal_moves moves = SEAL_MOVES_INIT;
	const int place = opening->out.fd;
	const off_t end = opening->folder ? -1 : end_of_redirection(&opening->out);
	int code = seal_moves_create(&moves, opening->response->segment_count, error);
	int next = 0, segment = -1;

	moves.reader = opening->reader;
	moves.owner = opening;
	code = code ? code
		    : open_leases_get(&opening->leases, opening->response, is_wanted, opening,
				      error);
	while (!code && next < opening->response->segment_count) {
		moves.count = 0;
		moves.payload_count = 0;
		code = add_outputs(opening, &moves, &next, error);
		code = code ? code : move_outputs(opening, &moves, error);
		if (!code && next < opening->response->segment_count) {
			code = commit(opening, error);
		}
	}
	if (!code) {
		code = sgpu_batch_next_payload(opening->reader, opening->response, &segment, error);
	}
	while (!code && segment >= 0) {
		code = sgpu_batch_next_payload(opening->reader, opening->response, &segment, error);
	}
	seal_moves_clear(&moves);
	if (code) {
		take_back(place, end);
		return code;
	}
	code = remove_all_older(opening, error);
	code = code ? code : commit(opening, error);
	if (!code) {
		open_leases_release(&opening->leases);
	}
	return code;
}

void opening_clear(struct opening *opening)
{
	/* The last one first, so that a folder is empty when its maker is closed. */
	for (int i = opening->targets ? opening->response->segment_count : 0; i-- > 0;) {
		sgpu_output_close(&opening->targets[i].output);
		free(opening->targets[i].path);
	}
	if (opening->spool >= 0) {
		close(opening->spool);
	}
	open_leases_close(&opening->leases);
	free(opening->targets);
	free(opening->only.items);
	sgpu_output_close(&opening->out);
	sgpu_output_directory_close(&opening->below, opening->opened > 0);
	sgpu_tar_close(&opening->reader);
	sgpu_batch_free(&opening->response);
	sgpu_wipe(opening->batch_key, sizeof(opening->batch_key));
	seal_keys_clear(&opening->keys);
}
