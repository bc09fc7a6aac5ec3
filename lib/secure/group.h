/* SPDX-License-Identifier: Apache-2.0
 *
 * The worker's side of command groups (channel/group.h): a server opens them with the processor and
 * answers them, and a worker carries out their items on a secure context. The sender of a group may
 * use only its own channel, so every handle, size, count and offset is checked.
 */
#ifndef SGPU_SECURE_GROUP_H
#define SGPU_SECURE_GROUP_H

#include "device/device.h"
#include "secure/secure.h"

#include "channel/group.h"

/* Makes and runs jobs: manifests whose operations work on the session's buffers
 * (lib/remote/job.c). */
struct sgpu_group_jobs {
	/* Makes a job of a manifest's text. *bytes: the job's own device memory, at most `most`. */
	int (*load)(struct sgpu_device *device, const char *text, size_t size, uint64_t most,
		    void **job, uint64_t *bytes, struct sgpu_error *error);
	/* Frees a job that has no runs left. */
	void (*free)(void **job);
	/* Enqueues the operations. ranges: one for each INPUT, OUTPUT and INPUT_OUTPUT of the
	 * manifest, in order. *run is set even on failure, since some operations may be
	 * enqueued. */
	int (*start)(void *job, struct sgpu_stream *stream, const struct sgpu_device_range *ranges,
		     int count, void **run, struct sgpu_error *error);
	/* Frees a run whose stream is idle, and returns the code of the first operation that
	 * failed. Accepts NULL. */
	int (*end)(void **run, struct sgpu_error *error);
};

struct sgpu_group_config {
	/* Memory shared with the session, which may change it at any time but cannot shrink it.
	 * Each byte is read once. NULL: no such memory. */
	void *area;
	uint64_t area_size;
	uint64_t memory_limit;		    /* most device memory of the session; 0: no limit */
	const struct sgpu_group_jobs *jobs; /* NULL: none */
	const struct sgpu_session_authority *authority; /* borrowed */
};

/* ---- group_worker.c ---- */
struct sgpu_group_worker;
/* Borrows the context and all that *config points to. One thread at a time. */
SGPU_MUST_CHECK int sgpu_group_worker_create(struct sgpu_secure *context,
					     const struct sgpu_group_config *config,
					     struct sgpu_group_worker **worker,
					     struct sgpu_error *error);
/* Waits for the enqueued work; clears and frees all objects of the session. */
void sgpu_group_worker_free(struct sgpu_group_worker **worker);
/* Carries out the items of an opened group and waits for their end. Carries out nothing of a
 * malformed group, and no item after one that could not be enqueued. The answer begins with a code
 * (4). After SGPU_OK each item's code (4), and the size (4) and text of its error follow; after
 * another code, the size (4) and text of that error. */
void sgpu_group_worker_run(struct sgpu_group_worker *worker, const uint8_t *items, size_t size,
			   uint8_t answer[SGPU_GROUP_BYTES], size_t *answer_size);

/* ---- group_server.c ---- */
struct sgpu_group_server;
SGPU_MUST_CHECK int sgpu_group_server_create(struct sgpu_secure *context,
					     const struct sgpu_group_config *config,
					     struct sgpu_group_server **server,
					     struct sgpu_error *error);
/* Destroys the session's channel, and all objects of the session. */
void sgpu_group_server_free(struct sgpu_group_server **server);
/* Handles a message from the session. The answer to a question is a challenge, the answer to a
 * hello the grant; the answer to a group is its number (8) and the sealed answer. A refused message
 * is answered by zero (8) and an enum sgpu_refusal (1). If the last group comes again, it gets the
 * same answer and is not carried out again. After an error the server is of no use any more. One
 * thread at a time. */
SGPU_MUST_CHECK int sgpu_group_server_handle(struct sgpu_group_server *server,
					     const uint8_t *message, size_t size,
					     uint8_t answer[SGPU_MESSAGE_MAX], size_t *answer_size,
					     struct sgpu_error *error);

#endif
