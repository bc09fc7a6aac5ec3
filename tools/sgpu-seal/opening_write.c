/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal open: opens or verifies the outputs, then commits them.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "opening.h"

enum { SYNCED_ONE_BY_ONE = 8 };

/* ---- leases: other processes of this user may write to a lease at any time, so its contents are
 * copied before they are opened ---- */
static int get_lease(struct opening *opening, const struct sgpu_batch_segment *s, uint64_t size,
		     struct sgpu_error *error)
{
	struct lease_client *client = &opening->lease.client;
	uint64_t end;
	int rc = 0;

	if (client->connection < 0) {
		rc = lease_client_open(opening->lease.socket, opening->response->id,
				       s->location.region, 0, client, error);
	} else if (strcmp(client->lease.id, s->location.region) != 0) {
		rc = sgpu_fail(error, SGPU_EINVALID, "the response names more than one lease");
	}
	if (!rc && (!sgpu_add_u64(s->location.offset, size, &end) || end > client->lease.size)) {
		rc = sgpu_fail(error, SGPU_EINVALID, "output '%s' does not lie in lease '%s'",
			       s->id, client->lease.id);
	}
	return rc;
}

static int find_leased(struct opening *opening, struct sgpu_error *error)
{
	const struct sgpu_batch *response = opening->response;
	int rc = 0;

	opening->lease.read_all = true;
	for (int i = 0; !rc && i < response->segment_count; i++) {
		const struct sgpu_batch_segment *s = &response->segments[i];

		if (s->location.kind != SGPU_LOCATION_LEASE) {
			continue;
		}
		if (opening->targets[i].wanted && s->status == SGPU_OK) {
			rc = get_lease(opening, s, sgpu_batch_payload_size(response, i), error);
		} else {
			opening->lease.read_all = false;
		}
	}
	return rc;
}

/* Opens a target's path below the folder, without following links on the way. */
static int open_below(const struct opening *opening, int i, mode_t mode, struct sgpu_output *output,
		      struct sgpu_error *error)
{
	const char *path = opening->targets[i].path;
	char *shown = NULL;

	if (asprintf(&shown, "%s/%s", opening->folder, path) < 0) {
		return sgpu_fail_nomem(error);
	}
	int rc = sgpu_output_open_beneath(output, opening->below.fd, path, shown, mode,
					  !opening->force, error);
	free(shown);
	return rc;
}

static int open_target(struct opening *opening, int i, struct sgpu_error *error)
{
	struct opening_target *target = &opening->targets[i];
	const bool secret = opening->response->segments[i].masking == SGPU_MASKING_AES_GCM;
	const mode_t mode = secret ? 0600 : 0644;
	int rc = 0;
	if (target->path) {
		rc = open_below(opening, i, mode, &target->output, error);
	} else {
		target->output = opening->out;
		opening->out = (struct sgpu_output)SGPU_OUTPUT_INIT;
		rc = sgpu_output_set_mode(&target->output, mode, error);
	}
	if (!rc && secret && !opening->named && target->output.temporary) {
		rc = seal_refuse_name(target->output.path, error);
	}
	return rc;
}

static int write_format(void *writer, uint64_t position, const void *data, size_t size,
			struct sgpu_error *error)
{
	(void)position; /* it is written in order */
	return sgpu_file_write(writer, data, size, error);
}

/* Returns a redirected file's size if the output is appended to it; else -1. */
static off_t end_of_redirection(const struct sgpu_output *output)
{
	struct stat status;
	if (output->regular || fstat(output->fd, &status) || !S_ISREG(status.st_mode)) {
		return -1;
	}
	const bool appends = fcntl(output->fd, F_GETFL) & O_APPEND;
	return appends || lseek(output->fd, 0, SEEK_CUR) == status.st_size ? status.st_size : -1;
}

static int commit_one(struct opening *opening, int i, struct sgpu_error *error)
{
	struct opening_target *target = &opening->targets[i];
	struct sgpu_error fault = { 0 };
	const int rc = sgpu_output_commit(&target->output, &fault);
	if (rc) {
		(void)sgpu_fail(error, rc, "output '%s': %s", opening->response->segments[i].id,
				fault.text);
		return target->output.is_new ? sgpu_hint(error, "--force replaces files that exist")
					     : rc;
	}
	target->written = false;
	opening->opened++;
	return 0;
}

/* If there are many outputs, one sync of the file system writes their data and another their names,
 * because a sync for each would take longer than all else. */
static int commit(struct opening *opening, struct sgpu_error *error)
{
	struct stat root, status;
	int waiting = 0, rc = 0;

	for (int i = 0; i < opening->response->segment_count; i++) {
		waiting += opening->targets[i].written;
	}
	const bool at_once = opening->folder && waiting > SYNCED_ONE_BY_ONE &&
			     fstat(opening->below.fd, &root) == 0;
	if (at_once && syncfs(opening->below.fd)) {
		return sgpu_fail_errno(error, "cannot write to '%s'", opening->folder);
	}
	for (int i = 0; !rc && i < opening->response->segment_count; i++) {
		struct sgpu_output *output = &opening->targets[i].output;
		if (opening->targets[i].written) {
			output->unsynced = at_once && fstat(output->fd, &status) == 0 &&
					   status.st_dev == root.st_dev;
			rc = commit_one(opening, i, error);
		}
	}
	if (at_once) {
		(void)!syncfs(opening->below.fd); /* a failure is ignored: the outputs exist */
	}
	return rc;
}

/* A pipe or redirected file, unlike a new file, keeps its bytes if a later chunk fails, so they
 * must be a prefix of the output, without gaps. */
static int prepare_sink(struct opening *opening, struct seal_payload *payload,
			struct sgpu_host_part *part, struct sgpu_error *error)
{
	const struct sgpu_batch_segment *s = &opening->response->segments[payload->segment];
	struct opening_target *target = &opening->targets[payload->segment];
	const struct sgpu_output *output = &target->output;

	if (part->action == SGPU_HOST_COPY && !output->regular) {
		/* The digest verifies a copied output at its end; until then, a temporary file has
		 * it. */
		const int rc = cli_temporary_file(&opening->spool, error);
		if (rc) {
			return rc;
		}
		sgpu_descriptor_from_fd(opening->spool, "temporary file", &payload->out);
	} else {
		sgpu_descriptor_from_fd(output->fd, output->path, &payload->out);
		payload->out.positioned = payload->out.positioned && output->regular;
	}
	if (target->file) {
		const int rc = seal_array_create(target->file, s->id, s->size, payload->out.fd,
						 payload->out.name, &target->writer, error);
		part->sink = (struct sgpu_endpoint){ .write = write_format,
						     .ordered = true,
						     .context = target->writer };
		return rc;
	}
	part->sink = sgpu_endpoint_of(&payload->out);
	if (part->action == SGPU_HOST_OPEN && payload->out.positioned) {
		payload->out.sparse = true;
		if (ftruncate(output->fd, (off_t)s->size)) {
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
	int segment = -1, rc;

	if (s->location.kind == SGPU_LOCATION_INLINE) {
		do { /* skips unwanted payloads */
			rc = sgpu_batch_next_payload(opening->reader, opening->response, &segment,
						     error);
		} while (!rc && segment >= 0 && segment < payload->segment);
		if (!rc && segment != payload->segment) {
			rc = sgpu_fail(error, SGPU_EINVALID,
				       "'%s': a payload is not where it belongs", opening->in_name);
		}
		if (!rc) {
			seal_payload_from_archive(payload, part);
		}
	} else if (s->location.kind == SGPU_LOCATION_LEASE) {
		const struct lease_client *client = &opening->lease.client;

		/* the lease still owns the descriptor */
		payload->region =
			(struct sgpu_source){ .fd = client->pool,
					      .offset = client->lease.offset + s->location.offset };
		snprintf(payload->region.name, sizeof(payload->region.name), "lease %s",
			 client->lease.id);
		seal_payload_from_source(payload, part);
		rc = 0;
	} else {
		struct sgpu_error fault = { 0 };

		rc = seal_payload_from(payload, part, &s->location, &fault);
		part->name = s->id;
		if (rc) {
			sgpu_fail(error, rc, "output '%s': %s", s->id, fault.text);
			(void)sgpu_hint(error, "%s", fault.hint);
		}
	}
	rc = rc ? rc : open_target(opening, payload->segment, error);
	rc = rc ? rc : prepare_sink(opening, payload, part, error);
	if (!rc && part->action == SGPU_HOST_OPEN) {
		rc = seal_payload_key(payload, part, opening->response, opening->batch_key, error);
	}
	return rc;
}

static int add_outputs(struct opening *opening, struct seal_moves *moves, struct sgpu_error *error)
{
	for (int i = 0; i < opening->response->segment_count; i++) {
		const struct sgpu_batch_segment *s = &opening->response->segments[i];
		const bool is_inline = s->location.kind == SGPU_LOCATION_INLINE;
		const bool high = s->masking == SGPU_MASKING_AES_GCM;
		if (!opening->targets[i].wanted) {
			continue;
		}
		if (!is_inline && s->status != SGPU_OK) {
			opening->failed++;
			continue;
		}
		if (!is_inline && s->location.kind != SGPU_LOCATION_REGION &&
		    s->location.kind != SGPU_LOCATION_LEASE) {
			/* The author of the response could have named a file of the owner. */
			return sgpu_fail(
				error, SGPU_EINVALID,
				"'%s': output '%s' is in a file, which no response may refer to",
				opening->in_name, s->id);
		}
		seal_moves_add(moves, high ? SGPU_HOST_OPEN : SGPU_HOST_COPY, i,
			       sgpu_batch_payload_size(opening->response, i), s->id,
			       prepare_output);
		moves->parts[moves->count - 1].digest = high ? NULL : s->kt128;
	}
	return 0;
}

static int move_outputs(struct opening *opening, struct seal_moves *moves, struct sgpu_error *error)
{
	const struct seal_payload *failed = NULL;
	int rc = seal_moves_run(moves, &opening->meter, &failed, error);

	if (rc == SGPU_EKEY && failed) {
		/* The key and the context are right: they follow from the verified index. */
		rc = sgpu_fail(error, SGPU_EAUTH,
			       "output '%s' was altered, or is not of this response",
			       opening->response->segments[failed->segment].id);
	}
	for (int i = 0; !rc && i < moves->payload_count; i++) {
		const int segment = moves->payloads[i].segment;
		struct opening_target *target = &opening->targets[segment];
		rc = target->writer ? sgpu_file_end(target->writer, error) : 0;
		sgpu_file_writer_free(&target->writer);
		/* The output, or its whole file, is in the file in which it was verified. */
		if (!rc && opening->spool >= 0) {
			const off_t size = lseek(opening->spool, 0, SEEK_END);

			rc = size < 0 || lseek(opening->spool, 0, SEEK_SET) < 0
				     ? sgpu_fail_errno(error, "cannot read a temporary file")
				     : cli_copy(opening->spool, "temporary file", (uint64_t)size,
						target->output.fd, target->output.path, NULL,
						error);
		}
		target->written = !rc;
		opening->bytes_in += sgpu_batch_payload_size(opening->response, segment);
		opening->bytes_out += opening->response->segments[segment].size;
	}
	return rc;
}

/* An older file at the path of a failed output would be taken for a result of this response. */
static int remove_older(struct opening *opening, int i, struct sgpu_error *error)
{
	struct sgpu_output below = SGPU_OUTPUT_INIT,
			   *output = opening->folder ? &below : &opening->out;
	bool removed = false;
	int rc = 0;

	if (opening->folder) {
		rc = open_below(opening, i, 0600, output, error);
	}
	rc = rc ? rc : sgpu_output_remove_older(output, &removed, error);
	if (removed) {
		cli_warning("removed the older '%s': output '%s' has failed", output->path,
			    opening->response->segments[i].id);
	}
	sgpu_output_close(&below);
	return rc;
}

int opening_write(struct opening *opening, struct sgpu_error *error)
{
	struct seal_moves moves = SEAL_MOVES_INIT;
	const int place = opening->out.fd;
	const off_t end = opening->folder ? -1 : end_of_redirection(&opening->out);
	int rc = seal_moves_create(&moves, opening->response->segment_count, opening->reader,
				   opening, NULL, error);
	struct sgpu_error ignored = { 0 };
	int segment;

	rc = rc ? rc : find_leased(opening, error);
	rc = rc ? rc : add_outputs(opening, &moves, error);
	rc = rc ? rc : move_outputs(opening, &moves, error);
	for (segment = 0; !rc && segment >= 0;) {
		rc = sgpu_batch_next_payload(opening->reader, opening->response, &segment, error);
	}
	seal_moves_clear(&moves);
	if (rc) {
		if (end >= 0) {
			(void)!ftruncate(place, end);
		}
		return rc;
	}
	for (int i = 0; !rc && opening->force && i < opening->response->segment_count; i++) {
		if (opening->targets[i].wanted &&
		    opening->response->segments[i].status != SGPU_OK) {
			rc = remove_older(opening, i, error);
		}
	}
	rc = rc ? rc : commit(opening, error);
	/* Gives the lease back, unless it holds unwanted outputs. */
	if (!rc && opening->lease.read_all && opening->lease.client.connection >= 0 &&
	    lease_client_done(&opening->lease.client, &ignored)) {
		/* it expires by itself */
		cli_detail("a lease was not given back: %s", ignored.text);
	}
	return rc;
}
