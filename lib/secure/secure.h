/* SPDX-License-Identifier: Apache-2.0
 *
 * A secure context on a device: the functions of Graviton's runtime (cudaSecureMalloc and others)
 * as library calls. It makes a processor, an allocator and a session (lib/channel) over the device.
 * All memory comes from pages of the context. A request is a direct call. The processor refuses it
 * if it names memory outside of the context, else makes the context the only one that kernels
 * reach; then the device enqueues it.
 *
 * sgpu_secure_device() returns the context as a device, so that all code written for sgpu/device.h,
 * such as lib/run, can run inside it.
 *
 * Sizes are bytes. Several threads may use one context, except to create or destroy it; their
 * copies then wait for each other.
 */
#ifndef SGPU_SECURE_SECURE_H
#define SGPU_SECURE_SECURE_H

#include "channel/channel.h"
#include <sgpu/device.h>

struct sgpu_secure;

struct sgpu_secure_config {
	/* Another context of the same device, whose processor this one shares; neither reaches the
	 * other's memory. NULL: the context makes its own processor, which takes all of the
	 * device's memory. */
	struct sgpu_secure *sibling;
	/* For tests: it is called between the allocator and the processor. NULL: not used. */
	sgpu_command_fn between;
	void *between_argument; /* first argument of `between` */
};

/* config NULL: all members are 0. The device is borrowed and must outlive the context. Errors:
 * SGPU_EUNAVAILABLE (the device maps no pages), SGPU_ENOMEM, SGPU_EUSAGE (a sibling of another
 * device), SGPU_EAUTH, SGPU_EDEVICE. */
SGPU_MUST_CHECK int sgpu_secure_create(struct sgpu_device *device,
				       const struct sgpu_secure_config *config,
				       struct sgpu_secure **context, struct sgpu_error *error);
/* Clears and frees everything. Work must have ended, and streams and modules must be freed.
 * Contexts that name this one as their sibling must be destroyed first. */
void sgpu_secure_destroy(struct sgpu_secure **context);

/* Returns the context as a device, which the context owns: sgpu_device_close ignores it. */
struct sgpu_device *sgpu_secure_device(struct sgpu_secure *context);

/* Copies from the host to the device. Data are sealed where they leave, under a random key, and
 * opened and verified where they arrive, so that only ciphertext passes in between. Returns when
 * the copy has ended. The copy does not wait for streams: work that writes the memory must have
 * ended. Errors: SGPU_EAUTH, SGPU_EUSAGE (outside of the context's memory), SGPU_EDEVICE. */
SGPU_MUST_CHECK int sgpu_secure_memcpy(struct sgpu_secure *context, const void *host,
				       sgpu_devptr memory, uint64_t size, struct sgpu_error *error);

/* Copies the image into protected memory, measures it there (CH_MEASURE), compares the result with
 * `digest` (sgpu_measure_pages, not keyed), and only then loads a copy of it in host memory, since
 * drivers take code only from there. Free the module with sgpu_device_module_free. Errors:
 * SGPU_EPOLICY (the digest differs), those of sgpu_device_module_load. sgpu_device_module_launch_on
 * starts its functions; a launch is refused if its `memory` is NULL (SGPU_EPOLICY) or outside of
 * the context (SGPU_EUSAGE). This check does not see what else a function touches: on a GPU only
 * the mapping of pages limits that. */
SGPU_MUST_CHECK int sgpu_secure_module_load(struct sgpu_secure *context, const void *image,
					    size_t size, const uint8_t digest[SGPU_KT128_SIZE],
					    struct sgpu_device_module **module,
					    struct sgpu_error *error);
/* Measures device memory of the context with CH_MEASURE, and verifies the answer. keyed: with a key
 * of the context, so that only digests of the same context can be compared. Errors: SGPU_EUSAGE
 * (memory outside of it), SGPU_EAUTH, SGPU_EDEVICE. */
SGPU_MUST_CHECK int sgpu_secure_measure(struct sgpu_secure *context, sgpu_devptr memory,
					uint64_t size, bool keyed, uint8_t digest[SGPU_KT128_SIZE],
					struct sgpu_error *error);

/* Figures of a context, for statistics and for -v. */
struct sgpu_secure_stats {
	uint64_t requests;		   /* accepted requests that touch device memory */
	uint64_t commands, refused;	   /* the allocator's commands; how many were refused */
	uint64_t mapped_bytes, used_bytes; /* bytes of mapped pages; of allocations */
	uint64_t streams;		   /* streams in use */
};
void sgpu_secure_get_stats(struct sgpu_secure *context, struct sgpu_secure_stats *stats);

#endif
