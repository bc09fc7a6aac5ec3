/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool of workers.
 */
#ifndef SGPU_BASE_POOL_H
#define SGPU_BASE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include <sgpu/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A pool's tokens limit how many threads compute at a time. A thread that computes holds one
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
