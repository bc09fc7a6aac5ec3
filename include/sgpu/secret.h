/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory for keys. Its pages come from memfd_secret(2), which takes them out of the kernel's own mapping, so that no other
 * process, no /proc/PID/mem, no core file and no swap has them; where the kernel has no such thing, from locked memory that
 * stays out of core files. A child made by fork has none of it.
 *
 * Small objects share pages. The kernel reads and writes such memory for buffered read() and write(); O_DIRECT,
 * vmsplice, registration with a device and io_uring's fixed buffers do not work with it. The leak checker does not look
 * into it: pointers that stand there alone keep nothing alive in its eyes.
 */
#ifndef SGPU_SECRET_H
#define SGPU_SECRET_H

#include <stddef.h>

#include <sgpu/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Zeroed memory that starts at a multiple of 64, or NULL: no memory, or size 0. It may be less than it should be, see
 * sgpu_secret_kind: a machine that locks no memory is no reason to do nothing. Any thread. */
SGPU_MUST_CHECK void *sgpu_secret_alloc(size_t size);
/* Wipes and gives back what sgpu_secret_alloc(size) gave; the same size. Accepts NULL; other memory is wiped and
 * stays where it is. */
void sgpu_secret_free(void *memory, size_t size);

/* What it rests on: "memfd_secret", "mlock", or "none" (RLIMIT_MEMLOCK leaves no room to lock it, so that it can be
 * swapped); of all that was given so far the weakest. It is tried, not guessed. Static. */
const char *sgpu_secret_kind(void);

#ifdef __cplusplus
}
#endif
#endif
