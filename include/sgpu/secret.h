/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory for keys. Its pages come from memfd_secret(2): the kernel itself does not map them, so
 * no other process, no /proc/PID/mem, no core file and no swap contains them. If the kernel lacks
 * that call, the memory is locked and stays out of core files. A child made by fork has none of it.
 *
 * Small objects share pages. Buffered read() and write() work with such memory; O_DIRECT, vmsplice,
 * registration with a device and io_uring's fixed buffers do not. The leak checker does not search
 * it for pointers. */
#ifndef SGPU_SECRET_H
#define SGPU_SECRET_H

#include <stddef.h>

#include <sgpu/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns zeroed memory at a multiple of 64, or NULL if memory runs out or size is 0. It succeeds
 * even if the memory can only be protected less well, see sgpu_secret_kind. Any thread. */
SGPU_MUST_CHECK void *sgpu_secret_alloc(size_t size);
/* Wipes and frees memory of sgpu_secret_alloc, with the same size. Accepts NULL; other memory is
 * wiped but not freed. */
void sgpu_secret_free(void *memory, size_t size);

/* The weakest protection of all allocations so far: "memfd_secret", "mlock", or "none"
 * (RLIMIT_MEMLOCK leaves no room to lock the memory, so it can be swapped). It is tested, not
 * guessed. Static. */
const char *sgpu_secret_kind(void);

#ifdef __cplusplus
}
#endif
#endif
