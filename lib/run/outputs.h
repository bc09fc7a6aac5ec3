/* SPDX-License-Identifier: Apache-2.0
 *
 * Results on their way from the device to the response.
 */
#ifndef SGPU_RUN_OUTPUTS_H
#define SGPU_RUN_OUTPUTS_H

#include <sgpu/batch.h>

#include "run/run.h"

struct sgpu_outputs;
struct sgpu_run_base;

/* left: called on the loop's thread when an output has ended. */
SGPU_MUST_CHECK int sgpu_outputs_create(struct sgpu_run_base *base, void (*left)(void *owner),
					void *owner, struct sgpu_outputs **outputs,
					struct sgpu_error *error);
/* No output may be under way. Accepts a pointer to NULL. */
void sgpu_outputs_free(struct sgpu_outputs **outputs);

/* On the loop's thread. Begins to load the key that an output needs onto the device. If that fails,
 * it is tried again when the output starts. */
void sgpu_output_prepare(struct sgpu_outputs *outputs, int segment, struct sgpu_stream *stream);
/* Starts the outputs of an operation that has run; `elements` is how many it wrote, where only the
 * operation knows. An output that cannot be started has failed. */
void sgpu_outputs_start(struct sgpu_outputs *outputs, int operation,
			const struct sgpu_op_call *call, uint64_t elements);
/* Cancels the outputs that are under way. */
void sgpu_outputs_stop(struct sgpu_outputs *outputs, int code);

/* Whether results may be in the response's file already. */
bool sgpu_outputs_placed(const struct sgpu_outputs *outputs);
/* Returns SGPU_OK, or why results could not be written there: then there can be no response. */
int sgpu_outputs_file_failure(const struct sgpu_outputs *outputs, struct sgpu_error *error);

/* The outcome of an output. */
struct sgpu_output_end {
	int code;
	const char *text;      /* why it failed */
	bool whole;	       /* all of it has left; false with SGPU_OK: it was never started */
	const uint8_t *data;   /* as the response carries it; NULL: it is elsewhere */
	uint64_t place;	       /* in the file, or 0 */
	uint64_t size, actual; /* bytes of the payload; of plaintext */
	uint8_t digest[SGPU_KT128_SIZE]; /* where it is not sealed */
};
/* Returns the outcome of an output, when none is under way any more. */
const struct sgpu_output_end *sgpu_output_get(const struct sgpu_outputs *outputs, int segment);

struct sgpu_moved {
	uint64_t from, to, size;
};
/* Moves payloads within a file. They are in order and do not overlap, before and afterwards. */
SGPU_MUST_CHECK int sgpu_place_move(int fd, const char *name, const struct sgpu_moved *list,
				    int count, struct sgpu_error *error);

/* The response to a batch. */

struct sgpu_graph;

/* Plans where results go in the response's file at once. *places: offsets by segment of the batch,
 * from malloc; 0: not there. They are right if all goes well; else sgpu_respond moves the results.
 * *places is NULL where that cannot be known or is not worth it: for a pipe or a file that cannot
 * be read, a module that may break a rule, a result of unknown size. */
SGPU_MUST_CHECK int sgpu_respond_plan(struct sgpu_run_base *base, uint64_t **places,
				      struct sgpu_error *error);
/* Reserves the space that the response will need in a file without a name, where the file system
 * can tell: a batch that is recorded runs once, and should not find the disk full. Errors:
 * SGPU_ENOSPACE. */
SGPU_MUST_CHECK int sgpu_respond_reserve(struct sgpu_run_base *base, struct sgpu_error *error);
/* Writes the response: each output's outcome and payload. Returns 0; SGPU_ESEGMENTS when some
 * failed; or why the response could not be written. */
SGPU_MUST_CHECK int sgpu_respond(struct sgpu_run_base *base, const struct sgpu_graph *graph,
				 struct sgpu_outputs *outputs, struct sgpu_error *error);
/* Cuts off what results may have left behind the file's position. */
SGPU_MUST_CHECK int sgpu_respond_cut(const struct sgpu_run_base *base, struct sgpu_error *error);

#endif
