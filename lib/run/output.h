/* SPDX-License-Identifier: Apache-2.0
 *
 * A payload on its way out, shared by those who enqueue it: the driver and the drain.
 */
#ifndef SGPU_RUN_OUTPUT_H
#define SGPU_RUN_OUTPUT_H

#include "run/run.h"

struct sgpu_run_out_piece {
	uint64_t at, size;            /* plaintext bytes */
	struct sgpu_task seal, copy;
};

struct sgpu_run_leaving {
	int segment;
	struct sgpu_run_node *left;   /* posted when it has left */
	struct sgpu_run_lane *lane;
	bool sealed;
	bool drained;                 /* the drain enqueues it, piece by piece; else the driver all at once */
	enum sgpu_rung rung;
	uint64_t actual;
	int piece_count;
	struct sgpu_run_out_piece *pieces;
	struct sgpu_device_key *key;
	struct sgpu_task digest;      /* not sealed */
	atomic_int ends;              /* callbacks that are still to come, and one until all are enqueued */
	int code;                     /* why the drain could not go on */
	struct sgpu_error error;
	struct sgpu_run_leaving *next; /* in the drain's queue */
};

/* ---- output.c ---- */
/* The header and the key, if it is to be sealed; else its digest is enqueued, on the lane's stream for sealing. */
SGPU_MUST_CHECK int sgpu_result_begin(struct sgpu_run *run, struct sgpu_run_leaving *l, struct sgpu_error *error);
/* Where a piece starts in the payload, and how many bytes it has there. */
uint64_t sgpu_result_offset(const struct sgpu_run_leaving *l, int piece, uint64_t *bytes);
/* Enqueues a piece, to host memory `to`; the copy is the last on the lane's stream for copies. */
SGPU_MUST_CHECK int sgpu_result_send(struct sgpu_run *run, struct sgpu_run_leaving *l, int piece, void *to,
				     struct sgpu_error *error);
/* Waits until nothing of the lane is pending; the outcome of all of it is known then. Errors: SGPU_EDEVICE. */
SGPU_MUST_CHECK int sgpu_result_settle(struct sgpu_run *run, const struct sgpu_run_lane *lane);

/* ---- write_back.c ---- */
/* Hands it to the drain, whose thread is started when it is the first. Its node is posted at the end. */
SGPU_MUST_CHECK int sgpu_drain_add(struct sgpu_run *run, struct sgpu_run_leaving *l, struct sgpu_error *error);
/* Ends the thread; nothing may be in its queue. Once is enough, twice does no harm. */
void sgpu_drain_stop(struct sgpu_run *run);

#endif
