/* SPDX-License-Identifier: Apache-2.0
 *
 * The clock, and limits on this process.
 */
#include <time.h>

#include <sgpu/base.h>

#include "base/base.h"

uint64_t sgpu_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- limits ---- */
enum { PAGE = 4096 };

static _Atomic uint64_t limits[SGPU_LIMITED], own_counters[SGPU_LIMITED];
static _Atomic uint64_t *_Atomic counters[SGPU_LIMITED] = { &own_counters[SGPU_DEVICE_MEMORY],
							    &own_counters[SGPU_HOST_MEMORY] };

static uint64_t whole_pages(uint64_t bytes)
{
	return bytes > UINT64_MAX - PAGE ? UINT64_MAX / PAGE * PAGE
					 : (bytes + PAGE - 1) / PAGE * PAGE;
}

static const char *const names[SGPU_LIMITED] = { "device memory", "host memory" };

void sgpu_limit_set(enum sgpu_limited what, uint64_t bytes)
{
	atomic_store(&limits[what], bytes);
}

void sgpu_limit_count_in(enum sgpu_limited what, _Atomic uint64_t *counter)
{
	atomic_store(counter, atomic_load(atomic_load(&counters[what])));
	atomic_store(&counters[what], counter);
}

uint64_t sgpu_limit_left(enum sgpu_limited what)
{
	const uint64_t limit = atomic_load(&limits[what]);
	const uint64_t used = atomic_load(atomic_load(&counters[what]));

	return limit == 0 ? UINT64_MAX : used < limit ? limit - used : 0;
}

int sgpu_limit_take(enum sgpu_limited what, uint64_t bytes, struct sgpu_error *error)
{
	_Atomic uint64_t *counter = atomic_load(&counters[what]);
	const uint64_t pages = whole_pages(bytes), limit = atomic_load(&limits[what]);
	uint64_t used = atomic_load(counter);

	do {
		if (limit != 0 && pages > limit) {
			return sgpu_fail(error, SGPU_ENOMEM,
					 "%llu bytes of %s are needed, and the limit is %llu",
					 (unsigned long long)bytes, names[what],
					 (unsigned long long)limit);
		}
		if (limit != 0 && used > limit - pages) {
			return sgpu_fail(error, SGPU_ENOMEM,
					 "%llu bytes of %s are needed, and %llu of the limit of "
					 "%llu are free",
					 (unsigned long long)bytes, names[what],
					 (unsigned long long)(used < limit ? limit - used : 0),
					 (unsigned long long)limit);
		}
	} while (!atomic_compare_exchange_weak(counter, &used, used + pages));
	return SGPU_OK;
}

void sgpu_limit_give(enum sgpu_limited what, uint64_t bytes)
{
	atomic_fetch_sub(atomic_load(&counters[what]), whole_pages(bytes));
}
