/* SPDX-License-Identifier: Apache-2.0
 *
 * Seals, opens or copies many payloads together.
 */
#include <stdlib.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "parts.h"

int seal_moves_create(struct seal_moves *moves, int payloads, struct sgpu_tar_reader *reader,
		      void *owner, const struct sgpu_output *out, struct sgpu_error *error)
{
	moves->reader = reader;
	moves->owner = owner;
	if (out) {
		sgpu_descriptor_from_fd(out->fd, out->path, &moves->out);
	}
	moves->parts = calloc(2 * (size_t)payloads + 1, sizeof(*moves->parts));
	moves->payloads = calloc((size_t)payloads + 1, sizeof(*moves->payloads));
	moves->blocks = calloc((size_t)payloads + 1, sizeof(*moves->blocks));
	return moves->parts && moves->payloads && moves->blocks ? 0 : sgpu_fail_nomem(error);
}

void seal_moves_clear(struct seal_moves *moves)
{
	sgpu_descriptor_close(&moves->out);
	free(moves->parts);
	free(moves->payloads);
	free(moves->blocks);
	*moves = (struct seal_moves)SEAL_MOVES_INIT;
}

static void end_payload(void *context)
{
	struct seal_payload *payload = context;

	sgpu_source_close(&payload->region);
	seal_array_close(&payload->array);
	sgpu_descriptor_close(&payload->out);
	sgpu_wipe(&payload->secret, sizeof(payload->secret));
}

void seal_moves_add(struct seal_moves *moves, enum sgpu_host_action action, int segment,
		    uint64_t size, const char *name, seal_prepare *prepare)
{
	struct seal_payload *payload = &moves->payloads[moves->payload_count++];

	*payload = (struct seal_payload){ .moves = moves,
					  .segment = segment,
					  .region = { .fd = -1 },
					  .out = { .fd = -1, .pipe = -1 } };
	moves->parts[moves->count++] = (struct sgpu_host_part){
		.action = action,
		.name = name,
		.size = size,
		.prepare = prepare,
		.argument = payload,
		.source = { .close = end_payload, .context = payload },
	};
}

int seal_moves_member(struct seal_moves *moves, const struct sgpu_batch *batch,
		      enum sgpu_host_action action, int segment, seal_prepare *prepare,
		      struct sgpu_error *error)
{
	const struct sgpu_batch_segment *s = &batch->segments[segment];
	const uint64_t size = sgpu_batch_payload_size(batch, segment);
	uint8_t *block = moves->blocks[moves->payload_count];
	const size_t padding = (size_t)(-moves->at % SGPU_TAR_BLOCK);
	const int rc = sgpu_batch_payload_header(batch, segment, block + padding, error);

	moves->parts[moves->count++] = (struct sgpu_host_part){
		.action = SGPU_HOST_COPY,
		.name = "a header",
		.size = padding + SGPU_TAR_BLOCK,
		.source.memory = block,
		.sink = sgpu_endpoint_of(&moves->out),
		.to = moves->at,
	};
	moves->at += padding + SGPU_TAR_BLOCK;
	seal_moves_add(moves, action, segment, action == SGPU_HOST_SEAL ? s->size : size, s->id,
		       prepare);
	struct sgpu_host_part *part = &moves->parts[moves->count - 1];
	part->sink = sgpu_endpoint_of(&moves->out);
	part->to = moves->at;
	moves->at += size;
	return rc;
}

static void read_from(struct seal_payload *payload, struct sgpu_host_part *part)
{
	part->source = sgpu_endpoint_of(&payload->in);
	part->source.close = end_payload; /* the context is `in`, the payload's first member */
}

void seal_payload_from_archive(struct seal_payload *payload, struct sgpu_host_part *part)
{
	struct sgpu_tar_reader *reader = payload->moves->reader;

	sgpu_descriptor_from_fd(sgpu_tar_fd(reader), part->name, &payload->in);
	read_from(payload, part);
	/* Called in advance: the payload is read before anything else in the archive. */
	sgpu_tar_consumed(reader, part->size);
}

void seal_payload_from_source(struct seal_payload *payload, struct sgpu_host_part *part)
{
	payload->in = (struct sgpu_descriptor){ .fd = payload->region.fd,
						.name = payload->region.name,
						.positioned = true,
						.offset = payload->region.offset,
						.pipe = -1 };
	part->name = payload->region.name;
	read_from(payload, part);
}

int seal_payload_from(struct seal_payload *payload, struct sgpu_host_part *part,
		      const struct sgpu_location *location, struct sgpu_error *error)
{
	const int rc = sgpu_source_open(location, part->size, &payload->region, error);

	if (!rc) {
		seal_payload_from_source(payload, part);
	}
	return rc;
}

int seal_payload_key(struct seal_payload *payload, struct sgpu_host_part *part,
		     const struct sgpu_batch *batch, const uint8_t batch_key[SGPU_KEY_SIZE],
		     struct sgpu_error *error)
{
	struct seal_secret *secret = &payload->secret;

	part->key = secret->key;
	part->context = secret->context;
	const int rc =
		sgpu_batch_segment_key(batch, batch_key, batch->segments[payload->segment].id,
				       batch->response ? batch->response_id : NULL, secret->key,
				       secret->context, &secret->context_size, error);
	part->context_size = secret->context_size;
	return rc;
}

static void progress(void *argument, uint64_t bytes)
{
	const struct seal_meter *meter = argument;

	cli_progress(NULL, meter->done + bytes);
}

/* Returns rc, or another error if the payload fails to verify because the archive is cut short
 * within it: after a payload, a whole archive has more bytes. */
static int blame_archive(const struct seal_payload *payload, const char *name, int rc,
			 struct sgpu_error *error)
{
	uint8_t byte = 0;
	size_t got = 1;

	if (payload->region.fd >= 0 || payload->in.positioned || rc != SGPU_EAUTH ||
	    sgpu_read(payload->in.fd, name, &byte, 1, &got, NULL) || got) {
		return rc;
	}
	return sgpu_fail(error, SGPU_EINVALID, "'%s' is cut short", name);
}

int seal_moves_run(struct seal_moves *moves, struct seal_meter *meter,
		   const struct seal_payload **failed, struct sgpu_error *error)
{
	struct sgpu_host_move move = { .parts = moves->parts,
				       .count = moves->count,
				       .jobs = meter->jobs,
				       .progress = progress,
				       .progress_argument = meter };
	int rc = sgpu_host_move(&move, error);

	for (size_t i = 0; i < moves->count; i++) {
		meter->done += moves->parts[i].argument ? moves->parts[i].bytes_in : 0;
	}
	*failed = move.failed ? move.failed->argument : NULL;
	if (rc && *failed && (*failed)->in.name) {
		rc = blame_archive(*failed, move.failed->name, rc, error);
	}
	if (!rc && moves->out.positioned &&
	    lseek(moves->out.fd, (off_t)(moves->out.offset + moves->at), SEEK_SET) < 0) {
		rc = sgpu_fail_errno(error, "cannot seek in '%s'", moves->out.name);
	}
	return rc;
}
