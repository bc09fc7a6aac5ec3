/* SPDX-License-Identifier: Apache-2.0
 *
 * What measures of memory (sgpu/digest.h) share, on the host and on a device.
 */
#ifndef SGPU_CRYPTO_MEASURE_H
#define SGPU_CRYPTO_MEASURE_H

#include <stddef.h>
#include <stdint.h>

#include <sgpu/crypto.h>
#include <sgpu/digest.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The customisation string of all digests of a measure. With a key it is secret. */
struct sgpu_measure_custom {
	size_t size;
	uint8_t bytes[sizeof(SGPU_MEASURE_CUSTOM) + SGPU_KEY_SIZE];
};
/* key: SGPU_KEY_SIZE bytes, or NULL. */
void sgpu_measure_custom(const uint8_t *key, struct sgpu_measure_custom *custom);

#ifdef __cplusplus
}
#endif
#endif
