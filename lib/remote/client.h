/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's side of a session, private to lib/remote.
 */
#ifndef SGPU_REMOTE_CLIENT_H
#define SGPU_REMOTE_CLIENT_H

#include <sgpu/session.h>
#include <sgpu/seal.h>

#include "remote/carrier.h"

enum {
	SGPU_REMOTE_CHUNKS = 64, /* most chunks in one piece of data */
	SGPU_REMOTE_PIECE = SGPU_REMOTE_CHUNKS * SGPU_CHUNK,
	SGPU_REMOTE_SEALED = SGPU_REMOTE_CHUNKS * SGPU_SEALED_CHUNK,
};

_Static_assert((int)SGPU_REMOTE_BUFFERS_MAX == SGPU_GROUP_BUFFERS - 2 &&
		       (int)SGPU_REMOTE_JOBS_MAX == (int)SGPU_GROUP_OBJECTS &&
		       (int)SGPU_REMOTE_RANGES_MAX == (int)SGPU_MODULE_RANGES_MAX,
	       "what the header promises");

/* Most chunks that one key seals. */
#define SGPU_REMOTE_KEY_CHUNKS (UINT64_C(1) << 30)

/* The keys for one direction: to the device, or from it. */
struct sgpu_remote_direction {
	struct sgpu_sealed_keys keys;
	struct sgpu_aead *aead; /* NULL: there is no key yet */
	uint32_t object;
	uint64_t next;
};

/* A piece that the next group copies out. */
struct sgpu_remote_piece {
	uint8_t *data;
	uint64_t first, size, sealed, at; /* at: its offset in the area */
};

struct sgpu_remote {
	struct sgpu_carrier *carrier;
	int owned[3]; /* descriptors to close with the session, or -1 */
	struct sgpu_group_client *client;
	uint64_t sizes[SGPU_GROUP_BUFFERS]; /* by buffer; 0: it does not exist */
	bool jobs[SGPU_GROUP_OBJECTS];
	struct sgpu_remote_direction *directions; /* secret memory: to the device, and from it */
	uint64_t key_chunks;			  /* SGPU_REMOTE_KEY_CHUNKS; less in tests */
	uint8_t *sealed; /* SGPU_REMOTE_SEALED bytes, allocated at the first copy */
	/* of the next group: */
	int pending;	    /* items */
	uint64_t area_used; /* bytes */
	struct sgpu_remote_piece pieces[SGPU_GROUP_ITEMS];
	int piece_count;
};

/* Takes over the carrier, even if this fails. */
SGPU_MUST_CHECK int sgpu_remote_open_carrier(struct sgpu_carrier *carrier,
					     const struct sgpu_key *owner,
					     const struct sgpu_key *runner,
					     struct sgpu_remote **remote, struct sgpu_error *error);
/* Adds an item to the next group. Sends a full group first; errors may be of its items. */
SGPU_MUST_CHECK int sgpu_remote_add(struct sgpu_remote *remote, const struct sgpu_item *item,
				    struct sgpu_error *error);
/* Sends the next group, and waits for the answer. */
SGPU_MUST_CHECK int sgpu_remote_flush(struct sgpu_remote *remote, struct sgpu_error *error);

/* As sgpu_remote_copy_out, but only adds items to groups. */
SGPU_MUST_CHECK int sgpu_remote_seal_out(struct sgpu_remote *remote, uint8_t *data, uint32_t buffer,
					 uint64_t offset, uint64_t size, struct sgpu_error *error);

#endif
