/* SPDX-License-Identifier: Apache-2.0
 *
 * What this machine is: its processors, memory and NUMA nodes, and the kind of platform, by what
 * the kernel says. sgpu_cpu_count is in <sgpu/base.h>, the platform in <sgpu/attest.h>.
 */
#ifndef SGPU_HOST_HOST_H
#define SGPU_HOST_HOST_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sgpu/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- files.c: small files of the kernel ---- */
/* Reads at most room - 1 bytes of a file, and terminates the text; never waits. Returns false, with
 * an empty text, if nothing can be read; true for an empty file. */
bool sgpu_peek(const char *path, char *text, size_t room);
/* Reads the first line, up to a byte that is not printable ASCII, or only its word in brackets, by
 * which the kernel marks the current choice ("this [that]"). */
bool sgpu_peek_line(const char *path, char *line, size_t room);

/* Finds the folder of this program's file. False: /proc does not tell it. */
bool sgpu_host_folder(char folder[PATH_MAX]);

/* ---- root.c ----
 * Returns the root directory of an interface or, for "", of all other paths: `usual`, except in
 * tests. */
#define SGPU_USUAL_TSM "/sys/kernel/config/tsm/report"
#define SGPU_USUAL_GRAMINE "/dev/attestation"
const char *sgpu_host_root(const char *usual);

/* ---- machine.c: under the limits of the control group that this process is in ---- */
/* Bytes of memory that this process may have in all, and that it could still take before the kernel
 * kills a process for lack of memory. Either pointer may be NULL; UINT64_MAX: unknown. */
void sgpu_host_memory(uint64_t *total, uint64_t *available);
/* Bytes of the whole machine's memory, whatever the limits; 0: unknown. */
uint64_t sgpu_host_memory_installed(void);

/* "AMD EPYC 9B45": printable, cut to fit. */
void sgpu_host_processor(char *name, unsigned size);
/* Returns the NUMA node that a device's file `numa_node` names; -1: none, or no such file. */
int sgpu_host_node(const char *path);

/* ---- platform.c ---- */
/* Returns the rank of a platform's word, or -1. Only hardware proves those of SGPU_RANK_TEE. */
enum { SGPU_RANK_TEE = 2 };
int sgpu_platform_rank(const char *word);

/* ---- pool.c: workers on these processors ----
 * A pool's tokens limit how many threads compute at a time. A thread that computes holds one
 * (sgpu_pool_enter/leave); idle workers join its loops while tokens are free. */
struct sgpu_pool;

/* jobs: 1 to SGPU_POOL_JOBS_MAX; 0 means sgpu_cpu_count(). jobs - 1 workers start when a loop first
 * needs them. */
enum { SGPU_POOL_JOBS_MAX = 1024 };
SGPU_MUST_CHECK int sgpu_pool_create(unsigned jobs, struct sgpu_pool **pool,
				     struct sgpu_error *error);
/* No loop may be running. Accepts NULL; clears the caller's pointer. */
void sgpu_pool_free(struct sgpu_pool **pool);
unsigned sgpu_pool_jobs(const struct sgpu_pool *pool);

/* sgpu_pool_enter waits until a token is free. Not recursive. */
void sgpu_pool_enter(struct sgpu_pool *pool);
void sgpu_pool_leave(struct sgpu_pool *pool);

/* Asks all present and future loops to stop early, until called with false. Async-signal-safe. */
void sgpu_pool_cancel(struct sgpu_pool *pool, bool cancel);
bool sgpu_pool_cancelled(const struct sgpu_pool *pool);

/* Calls body(argument, begin, end) over [0, count) in pieces of at most `grain` (at least 1), on
 * the calling thread, which must hold a token, and on at most `helpers` (0: all) idle workers.
 * Pieces start at multiples of grain, so a reduction is deterministic if it keeps a partial result
 * for each piece (begin / grain). Returns SGPU_ECANCELED if the pool was cancelled before all
 * pieces ran. */
SGPU_MUST_CHECK int sgpu_pool_for(struct sgpu_pool *pool, uint64_t count, uint64_t grain,
				  unsigned helpers,
				  void (*body)(void *argument, uint64_t begin, uint64_t end),
				  void *argument);

#ifdef __cplusplus
}
#endif
#endif
