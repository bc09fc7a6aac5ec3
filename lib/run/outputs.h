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

/* On the loop's thread. Begins to load the key that an output needs onto the device. If this fails,
 * it is tried again when the output starts. */
void sgpu_output_prepare(struct sgpu_outputs *outputs, int segment, struct sgpu_stream *stream);
/* Starts the outputs of an operation that has run. elements: how many it wrote, if only the
 * operation knows. An output that cannot be started has failed. */
void sgpu_outputs_start(struct sgpu_outputs *outputs, int operation,
			const struct sgpu_op_call *call, uint64_t elements);
/* Cancels the outputs that are under way. */
void sgpu_outputs_stop(struct sgpu_outputs *outputs, int code);

/* Returns whether results may be in the response's file already. */
bool sgpu_outputs_placed(const struct sgpu_outputs *outputs);
/* Returns SGPU_OK, or why writing results to that file failed: there can be no response then. */
int sgpu_outputs_file_failure(const struct sgpu_outputs *outputs, struct sgpu_error *error);

struct sgpu_output_end {
	int code;
	const char *text;      /* why it failed */
	bool whole;	       /* all of it has left; false with SGPU_OK: it was never started */
	const uint8_t *data;   /* the payload; NULL: it is in a file, a region or a lease */
	uint64_t place;	       /* offset in the response's file, or 0 */
	uint64_t size, actual; /* bytes of the payload; of plaintext */
	uint8_t digest[SGPU_KT128_SIZE]; /* if it is not sealed */
};
/* Returns the outcome of an output. No output may be under way any more. */
const struct sgpu_output_end *sgpu_output_get(const struct sgpu_outputs *outputs, int segment);

struct sgpu_moved {
	uint64_t from, to, size;
};
/* Moves payloads within a file. Both before and after, they are in order and do not overlap. */
SGPU_MUST_CHECK int sgpu_place_move(int fd, const char *name, const struct sgpu_moved *list,
				    int count, struct sgpu_error *error);

struct sgpu_graph;

/* Plans where in the response's file results are written before it is complete. *places: offsets by
 * segment of the manifest, from malloc; 0: not in the file. They are right if no output fails; else
 * sgpu_respond moves the results. *places is NULL if they cannot be known or are not worth it: for
 * a pipe, a file that cannot be read, a module that may break a rule, a result of unknown size. */
SGPU_MUST_CHECK int sgpu_respond_plan(struct sgpu_run_base *base, uint64_t **places,
				      struct sgpu_error *error);
/* Reserves the space that the response will need in a file without a name, if the file system can:
 * a batch that is recorded runs only once, and should not find the disk full. Errors:
 * SGPU_ENOSPACE. */
SGPU_MUST_CHECK int sgpu_respond_reserve(struct sgpu_run_base *base, struct sgpu_error *error);
/* Writes the response: each output's outcome and payload. Returns 0; SGPU_ESEGMENTS if some outputs
 * failed; or why the response could not be written. */
SGPU_MUST_CHECK int sgpu_respond(struct sgpu_run_base *base, const struct sgpu_graph *graph,
				 struct sgpu_outputs *outputs, struct sgpu_error *error);
/* Truncates the response's file at its position: results may have been written beyond it. */
SGPU_MUST_CHECK int sgpu_respond_cut(const struct sgpu_run_base *base, struct sgpu_error *error);

#endif
