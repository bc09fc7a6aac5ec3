/* SPDX-License-Identifier: Apache-2.0
 *
 * Results on their way from the device to the response.
 */
#ifndef SGPU_RUN_OUTPUTS_H
#define SGPU_RUN_OUTPUTS_H

#include <sgpu/run.h>

struct sgpu_transfers;

/* The loop's thread calls these. Starts the outputs of an operation that has run: `elements` is how many it wrote, where
 * only the operation knows. What cannot be started has failed. */
void sgpu_outputs_start(struct sgpu_transfers *transfers, int operation, const struct sgpu_op_call *call,
			uint64_t elements);
/* Whether none is under way. */
bool sgpu_outputs_idle(const struct sgpu_transfers *transfers);

/* What became of an output. */
struct sgpu_output_end {
	int code;              /* SGPU_OK and no data: it was never started */
	const char *text;      /* why it failed */
	const uint8_t *data;   /* the payload as the response carries it */
	uint64_t size, actual; /* its bytes; bytes of plaintext */
	uint8_t digest[SGPU_KT128_SIZE]; /* where it is not sealed */
};
/* When none is under way any more. */
const struct sgpu_output_end *sgpu_output_get(struct sgpu_transfers *transfers, int segment);

#endif
