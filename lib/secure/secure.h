/* SPDX-License-Identifier: Apache-2.0
 *
 * A secure context on a device: what Graviton's runtime offers (cudaSecureMalloc and its kin), as
 * library calls. It makes a processor, an allocator and a session (lib/channel) over the device.
 * All memory comes from pages of the context. A request is a direct call: the processor refuses one
 * that names memory outside of the context, makes the context the only one that kernels reach, and
 * the device enqueues it.
 *
 * sgpu_secure_device() shows the context as a device, so that everything written for sgpu/device.h
 * runs inside it: the orchestrator does.
 *
 * Sizes are bytes. Calls on one context may come from several threads, but for creating and
 * destroying it; copies then wait for each other.
 */
#ifndef SGPU_SECURE_SECURE_H
#define SGPU_SECURE_SECURE_H

#include "channel/channel.h"
#include <sgpu/device.h>

struct sgpu_secure;

struct sgpu_secure_config {
	/* Another context of the same device, whose processor this one shares; neither reaches the
	 * other. NULL: the context makes its own processor, which takes all of the device's
	 * memory. */
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

/* Returns the context as a device. It belongs to the context: sgpu_device_close on it does nothing.
 */
struct sgpu_device *sgpu_secure_device(struct sgpu_secure *context);

enum sgpu_secure_direction { SGPU_SECURE_TO_DEVICE, SGPU_SECURE_TO_HOST };
/* Copies between host and device. Data are sealed where they leave, under a random key, and opened
 * and verified where they arrive, so that only ciphertext passes in between. Returns when the copy
 * has ended. A copy to the device only reads `host`; a copy from it wipes `host` if it fails. The
 * copy does not wait for streams: work that writes the memory must have ended. Errors: SGPU_EAUTH,
 * SGPU_EUSAGE (outside of the context's memory), SGPU_EDEVICE. */
SGPU_MUST_CHECK int sgpu_secure_memcpy(struct sgpu_secure *context, void *host, sgpu_devptr memory,
				       uint64_t size, enum sgpu_secure_direction direction,
				       struct sgpu_error *error);

/* Copies the image into protected memory, measures it there (CH_MEASURE), compares that with
 * `digest` (sgpu_measure_pages, not keyed), and only then loads it from host memory: drivers take
 * code from nowhere else. The image is copied; the module is freed with sgpu_device_module_free.
 * Errors: SGPU_EPOLICY (the digest differs), those of sgpu_device_module_load.
 * sgpu_device_module_launch_on starts its functions; a launch is refused when `memory` is NULL
 * (SGPU_EPOLICY) or leaves the context (SGPU_EUSAGE). This check does not see what else a function
 * touches: on a GPU only what is mapped bounds it. */
SGPU_MUST_CHECK int sgpu_secure_module_load(struct sgpu_secure *context, const void *image,
					    size_t size, const uint8_t digest[SGPU_KT128_SIZE],
					    struct sgpu_device_module **module,
					    struct sgpu_error *error);
/* Measures device memory of the context with CH_MEASURE, and verifies the answer. keyed: with a key
 * of the context, so that only digests of the same context can be compared. Errors: SGPU_EUSAGE
 * (outside of it), SGPU_EAUTH, SGPU_EDEVICE. */
SGPU_MUST_CHECK int sgpu_secure_measure(struct sgpu_secure *context, sgpu_devptr memory,
					uint64_t size, bool keyed, uint8_t digest[SGPU_KT128_SIZE],
					struct sgpu_error *error);

/* What the context did, for statistics and for -v. */
struct sgpu_secure_stats {
	uint64_t requests;		   /* accepted ones that touch device memory */
	uint64_t commands, refused;	   /* the allocator's commands; how many were refused */
	uint64_t mapped_bytes, used_bytes; /* the context's pages; allocations */
	uint64_t streams;		   /* in use */
};
void sgpu_secure_get_stats(struct sgpu_secure *context, struct sgpu_secure_stats *stats);

#endif
