/* SPDX-License-Identifier: Apache-2.0
 *
 * Payloads of batches in memory, for tests.
 */
#ifndef HARNESS_SEALED_H
#define HARNESS_SEALED_H

#include <sgpu/batch.h>

/* Makes the payload of an input, `size` bytes at `data`, travel inline: sealed if the segment is
 * HIGH, else with its digest. Errors: SGPU_EUSAGE if it is too large. */
SGPU_MUST_CHECK int batch_set_payload(struct sgpu_batch *batch, int segment, const void *data,
				      uint64_t size, struct sgpu_error *error);
/* Gives the payload of such an input as it travels, sgpu_batch_payload_size() bytes: sealed under
 * the batch key, with a header that it puts into the index, or as it is. */
SGPU_MUST_CHECK int batch_seal_payload(struct sgpu_batch *batch,
				       const uint8_t batch_key[SGPU_KEY_SIZE], int segment,
				       const void *data, void *payload, struct sgpu_error *error);
/* The inverse, also for outputs of a response. Errors: SGPU_EKEY, SGPU_EAUTH; `data` is then
 * undefined. */
SGPU_MUST_CHECK int batch_open_payload(const struct sgpu_batch *batch,
				       const uint8_t batch_key[SGPU_KEY_SIZE], int segment,
				       const void *payload, void *data, struct sgpu_error *error);

#endif
