/* SPDX-License-Identifier: Apache-2.0
 *
 * Sealed segments and payloads of batches in memory, for tests.
 */
#ifndef HARNESS_SEALED_H
#define HARNESS_SEALED_H

#include <sgpu/batch.h>
#include <sgpu/seal.h>

/* A whole segment in memory. `sealed` holds sgpu_sealed_size(size) bytes, `plaintext` the inverse.
 * Errors of open: SGPU_EKEY, SGPU_EAUTH; the output is wiped then. */
SGPU_MUST_CHECK int seal_memory(const uint8_t key[SGPU_KEY_SIZE], const void *context,
				size_t context_size, const void *plaintext, size_t size,
				void *sealed, struct sgpu_error *error);
SGPU_MUST_CHECK int open_memory(const uint8_t key[SGPU_KEY_SIZE], const void *context,
				size_t context_size, const void *sealed, size_t sealed_size,
				void *plaintext, struct sgpu_error *error);

/* Makes the payload of an input, `size` bytes at `data`, travel inline: sealed if the segment is
 * HIGH, else with its digest. Errors: SGPU_EUSAGE if it is too large. */
SGPU_MUST_CHECK int batch_set_payload(struct sgpu_batch *batch, int segment, const void *data,
				      uint64_t size, struct sgpu_error *error);
/* Gives the payload of such an input as it travels, sgpu_batch_payload_size() bytes: sealed under
 * the batch key, or as it is. */
SGPU_MUST_CHECK int batch_seal_payload(const struct sgpu_batch *batch,
				       const uint8_t batch_key[SGPU_KEY_SIZE], int segment,
				       const void *data, void *payload, struct sgpu_error *error);
/* The inverse, also for outputs of a response. Errors: SGPU_EKEY, SGPU_EAUTH; `data` is then
 * undefined. */
SGPU_MUST_CHECK int batch_open_payload(const struct sgpu_batch *batch,
				       const uint8_t batch_key[SGPU_KEY_SIZE], int segment,
				       const void *payload, void *data, struct sgpu_error *error);

#endif
