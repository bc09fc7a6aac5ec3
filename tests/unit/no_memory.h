/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of what happens when memory is out: the n-th allocation of this thread fails, the
 * library's too. Sanitizers have allocators of their own: CAN_FAIL is 0 there.
 */
#ifndef NO_MEMORY_H
#define NO_MEMORY_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "unit.h"

#if !UNIT_SANITIZED && defined(__GLIBC__)
#define CAN_FAIL 1
#else
#define CAN_FAIL 0
#endif

/* Allocations that still succeed; negative: all. `failed` counts those that did not: only one in a
 * row, as of a machine that has memory again. */
static _Thread_local long allowed = -1, failed;

#if CAN_FAIL
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);

static bool out_of_memory(void)
{
	if (allowed < 0) {
		return false;
	}
	if (allowed-- > 0) {
		return false;
	}
	failed++;
	errno = ENOMEM;
	return true;
}

void *malloc(size_t size)
{
	return out_of_memory() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	return out_of_memory() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
	return out_of_memory() ? NULL : __libc_realloc(memory, size);
}
#endif

#endif
