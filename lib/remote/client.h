/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's side of a session, private to lib/remote.
 */
#ifndef SGPU_REMOTE_CLIENT_H
#define SGPU_REMOTE_CLIENT_H

#include <sgpu/remote.h>

#include "channel/group.h"

enum {
	SGPU_REMOTE_STAGING = SGPU_GROUP_BUFFERS - 1, /* the buffer that sealed data pass through on the device */
	SGPU_REMOTE_CHUNKS = 64,                      /* in one piece of bulk data */
	SGPU_REMOTE_PIECE = SGPU_REMOTE_CHUNKS * SGPU_CHUNK,
	SGPU_REMOTE_SEALED = SGPU_REMOTE_CHUNKS * SGPU_SEALED_CHUNK,
};

_Static_assert(SGPU_REMOTE_BUFFERS_MAX == SGPU_REMOTE_STAGING - 1 && (int)SGPU_REMOTE_JOBS_MAX == (int)SGPU_GROUP_OBJECTS &&
		       (int)SGPU_REMOTE_RANGES_MAX == (int)SGPU_MODULE_RANGES_MAX, "what the header promises");

struct sgpu_remote {
	struct sgpu_pipe pipe;
	struct sgpu_group_client *client;
	int pending;                   /* items of the next group */
	uint64_t sizes[SGPU_GROUP_BUFFERS]; /* by handle; 0: free */
	bool jobs[SGPU_GROUP_OBJECTS];
	uint8_t *sealed;               /* SGPU_REMOTE_SEALED bytes, once bulk data were copied */
	struct sgpu_item_result results[SGPU_GROUP_ITEMS];
};

/* session.c: adds an item to the next group, and sends that first if it is full. Errors: those of what was sent. */
SGPU_MUST_CHECK int sgpu_remote_add(struct sgpu_remote *remote, const struct sgpu_item *item, struct sgpu_error *error);
/* Sends what is pending and waits for its end. */
SGPU_MUST_CHECK int sgpu_remote_flush(struct sgpu_remote *remote, struct sgpu_error *error);

/* bulk.c: data that do not fit into groups. */
SGPU_MUST_CHECK int sgpu_remote_bulk_in(struct sgpu_remote *remote, uint32_t buffer, uint64_t offset, const uint8_t *data,
					uint64_t size, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_remote_bulk_out(struct sgpu_remote *remote, uint8_t *data, uint32_t buffer, uint64_t offset,
					 uint64_t size, struct sgpu_error *error);

#endif
