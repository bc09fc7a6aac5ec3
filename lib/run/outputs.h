/* SPDX-License-Identifier: Apache-2.0
 *
 * Results on their way from the device to the response.
 */
#ifndef SGPU_RUN_OUTPUTS_H
#define SGPU_RUN_OUTPUTS_H

#include <sgpu/run.h>

struct sgpu_outputs;
struct sgpu_run_base;

struct sgpu_outputs_config {
	struct sgpu_run_base *base;
	/* Where results go while the response is not known yet: at these offsets of a file, by
	 * segment of the batch; 0: to memory. NULL: all to memory. The outputs'. */
	uint64_t *places;
	int fd;
	const char *name;
	void (*left)(void *owner); /* called on the loop's thread when an output has ended */
	void *owner;
};

SGPU_MUST_CHECK int sgpu_outputs_create(const struct sgpu_outputs_config *config,
					struct sgpu_outputs **outputs, struct sgpu_error *error);
/* None is under way. Accepts a pointer to NULL. */
void sgpu_outputs_free(struct sgpu_outputs **outputs);

/* The loop's thread calls these. Begins to bring the key of an output to the device on this stream,
 * if it needs one; what cannot be brought yet is tried again when the output starts. */
void sgpu_output_prepare(struct sgpu_outputs *outputs, int segment, struct sgpu_stream *stream);
/* Starts the outputs of an operation that has run: `elements` is how many it wrote, where
 * only the operation knows. What cannot be started has failed. */
void sgpu_outputs_start(struct sgpu_outputs *outputs, int operation,
			const struct sgpu_op_call *call, uint64_t elements);
/* Whether none is under way. */
bool sgpu_outputs_idle(const struct sgpu_outputs *outputs);
/* Ends those that are under way soon. */
void sgpu_outputs_stop(struct sgpu_outputs *outputs, int code);

/* Whether results may have gone to the file; and the failure of writing there, or SGPU_OK: then no
 * response can be. */
bool sgpu_outputs_placed(const struct sgpu_outputs *outputs);
int sgpu_outputs_file_failure(const struct sgpu_outputs *outputs, struct sgpu_error *error);

/* What became of an output. */
struct sgpu_output_end {
	int code;
	const char *text;      /* why it failed */
	bool whole;	       /* there is one; else, with SGPU_OK, it was never started */
	const uint8_t *data;   /* the payload as the response carries it; NULL: it is in the file */
	uint64_t place;	       /* there */
	uint64_t size, actual; /* bytes of the payload; of plaintext */
	uint8_t digest[SGPU_KT128_SIZE]; /* where it is not sealed */
};
/* When none is under way any more. */
const struct sgpu_output_end *sgpu_output_get(const struct sgpu_outputs *outputs, int segment);

#endif
