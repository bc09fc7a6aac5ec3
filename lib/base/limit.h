/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits of this process, as those of setrlimit(2): on memory that it takes for the work of others.
 * A server has a process for each user, and these are what the user may have. Whoever takes such
 * memory asks here first, and so knows before anything was allocated; all calls are for any thread.
 */
#ifndef SGPU_BASE_LIMIT_H
#define SGPU_BASE_LIMIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sgpu/error.h>

enum sgpu_limited {
	SGPU_DEVICE_MEMORY, /* buffers of batches and sessions, on all devices */
	SGPU_HOST_MEMORY,   /* leases, and results that wait for whoever reads them */
	SGPU_LIMITED
};

/* 0: none, as at first. What is above it already stays. */
void sgpu_limit_set(enum sgpu_limited what, uint64_t bytes);
/* Counts there from now on, which holds what was counted so far; for memory that other processes
 * read. */
void sgpu_limit_count_in(enum sgpu_limited what, _Atomic uint64_t *counter);
/* Counts so many bytes, as whole pages. Errors: SGPU_ENOMEM, and nothing is counted. */
SGPU_MUST_CHECK int sgpu_limit_take(enum sgpu_limited what, uint64_t bytes,
				    struct sgpu_error *error);
/* What one call took. */
void sgpu_limit_give(enum sgpu_limited what, uint64_t bytes);
/* Bytes that can be taken at this moment; UINT64_MAX without a limit. */
uint64_t sgpu_limit_left(enum sgpu_limited what);

#endif
