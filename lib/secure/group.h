/* SPDX-License-Identifier: Apache-2.0
 *
 * The worker's side of command groups (channel/group.h): a server opens them with the processor and
 * answers them, and a worker carries out their items on a secure context. Whoever sends groups may
 * use their own channel and nothing else, so every handle, size, count and offset is checked.
 */
#ifndef SGPU_SECURE_GROUP_H
#define SGPU_SECURE_GROUP_H

#include "device/device.h"
#include "secure/secure.h"

#include "channel/group.h"

/* Makes and runs jobs: manifests whose operations work on the session's buffers
 * (lib/remote/job.c). */
struct sgpu_group_jobs {
	/* Makes a job of a manifest's text, with *bytes of device memory of its own, `most` at
	 * most. */
	int (*load)(struct sgpu_device *device, const char *text, size_t size, uint64_t most,
		    void **job, uint64_t *bytes, struct sgpu_error *error);
	/* Frees a job that has no runs left. */
	void (*free)(void **job);
	/* Enqueues the operations. ranges: one for each INPUT, OUTPUT and INPUT_OUTPUT of the
	 * manifest, in its order. *run is also set when this fails, since some operations may have
	 * been enqueued by then. */
	int (*start)(void *job, struct sgpu_stream *stream, const struct sgpu_device_range *ranges,
		     int count, void **run, struct sgpu_error *error);
	/* Frees the run, when the stream is idle, and returns the code of the first operation that
	 * failed. Accepts NULL. */
	int (*end)(void **run, struct sgpu_error *error);
};

struct sgpu_group_config {
	/* Memory shared with the session, which may change it at any time but not shrink it. It is
	 * read once. NULL: none. */
	void *area;
	uint64_t area_size;
	uint64_t memory_limit;		    /* most bytes of session buffers; 0: the context's */
	const struct sgpu_group_jobs *jobs; /* NULL: none */
	const struct sgpu_key *key; /* private, X25519: quotes of this worker name its public half;
				       borrowed; NULL: there are no quotes */
};

/* ---- group_worker.c ---- */
struct sgpu_group_worker;
/* The context is borrowed, and so is what the config names. One thread at a time. */
SGPU_MUST_CHECK int sgpu_group_worker_create(struct sgpu_secure *context,
					     const struct sgpu_group_config *config,
					     struct sgpu_group_worker **worker,
					     struct sgpu_error *error);
/* Waits for its work; clears and frees all that the session had. */
void sgpu_group_worker_free(struct sgpu_group_worker **worker);
/* Carries out the items of an opened group and waits for their end. Carries out nothing of a
 * malformed group, and nothing behind an item that could not be enqueued. The answer is a code (4).
 * After SGPU_OK there follow, for each item, its code (4), the size (4) and the text of its error;
 * after another code, the size of a text (4), and the text. */
void sgpu_group_worker_run(struct sgpu_group_worker *worker, const uint8_t *items, size_t size,
			   uint8_t answer[SGPU_GROUP_BYTES], size_t *answer_size);

/* ---- group_server.c ---- */
struct sgpu_group_server;
SGPU_MUST_CHECK int sgpu_group_server_create(struct sgpu_secure *context,
					     const struct sgpu_group_config *config,
					     struct sgpu_group_server **server,
					     struct sgpu_error *error);
/* Destroys the session's channel, and all that the session had. */
void sgpu_group_server_free(struct sgpu_group_server **server);
/* Handles a message from outside. The answer is the grant; or, to the hello of a session that is
 * bound to another key, a refusal as below; or the number of the group (8) and its sealed answer;
 * or, when the group was refused, zero (8) and an enum sgpu_refusal (1). If the last group comes
 * again, it is not carried out again and gets the same answer. After an error the server is of no
 * use any more. One thread at a time. */
SGPU_MUST_CHECK int sgpu_group_server_handle(struct sgpu_group_server *server,
					     const uint8_t *message, size_t size,
					     uint8_t answer[SGPU_MESSAGE_MAX], size_t *answer_size,
					     struct sgpu_error *error);

#endif
