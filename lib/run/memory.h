/* SPDX-License-Identifier: Apache-2.0
 *
 * The buffers of a plan on its devices.
 */
#ifndef SGPU_RUN_MEMORY_H
#define SGPU_RUN_MEMORY_H

#include <pthread.h>

#include <sgpu/device.h>

#include "run/run.h"

struct sgpu_run_base;
struct sgpu_run_device;

struct sgpu_memory {
	const struct sgpu_run_device *devices;
	const struct sgpu_plan *plan;
	sgpu_devptr *buffers; /* of the plan */
	struct sgpu_memory_share {
		uint64_t bytes; /* of all buffers of the plan on this device */
		uint64_t paged; /* the same, if each begins on a page */
		int count;
		sgpu_devptr together; /* one allocation for all of them; 0: each has its own */
	} shares[SGPU_RUN_DEVICES_MAX];
	uint64_t taken; /* bytes taken from the process's limit */
};

/* Allocates all buffers of base->memory; small buffers of a GPU are one allocation. Errors:
 * SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_memory_create(struct sgpu_run_base *base, struct sgpu_error *error);
/* Clears and frees the memory; no work on it may be pending. Accepts a zeroed struct. */
void sgpu_memory_clear(struct sgpu_memory *memory);

/* The sealed paths between a runner's devices, each with its own key. A path is opened when it is
 * first needed, and kept. */
struct sgpu_links {
	pthread_mutex_t mutex;
	struct sgpu_peer *peers[SGPU_RUN_DEVICES_MAX][SGPU_RUN_DEVICES_MAX];
};

struct sgpu_moves;
struct sgpu_note;

/* Opens the sealed paths (struct sgpu_peer) between the devices that the plan moves segments
 * between. `moved` handles the note of a move that has ended; note->index is the move's number in
 * the plan. */
SGPU_MUST_CHECK int sgpu_moves_create(struct sgpu_run_base *base,
				      void (*moved)(struct sgpu_note *note), void *owner,
				      struct sgpu_moves **moves, struct sgpu_error *error);
/* No move may be under way. Accepts a pointer to NULL. */
void sgpu_moves_free(struct sgpu_moves **moves);

/* On the loop's thread. Start the moves of an arrived input, or of an operation's results, to the
 * devices that read them. From one device to another, moves run one at a time. */
void sgpu_moves_arrived(struct sgpu_moves *moves, int segment);
void sgpu_moves_ran(struct sgpu_moves *moves, int operation);
/* Returns the outcome of a move, and starts the next one between its devices. Must be called once
 * for each move. *text says why it failed, and lives as long as the moves. */
int sgpu_move_end(struct sgpu_moves *moves, int move, const char **text);

#endif
