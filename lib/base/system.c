/* SPDX-License-Identifier: Apache-2.0
 *
 * The clock, the processors, the kernel's small files, and limits on this process.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/pool.h"
#include "base/io.h"

uint64_t sgpu_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A container's quota (cgroup v2 as seen from inside) can be smaller than the affinity mask. */
static unsigned quota(void)
{
	unsigned long limit, period;
	char text[64];

	return sgpu_peek("/sys/fs/cgroup/cpu.max", text, sizeof(text)) &&
			       sscanf(text, "%lu %lu", &limit, &period) == 2 && period
		       ? (unsigned)((limit + period - 1) / period)
		       : 0;
}

unsigned sgpu_cpu_count(void)
{
	cpu_set_t sets[64]; /* for 65536 processors */
	unsigned count = 0, limit = quota();

	if (sched_getaffinity(0, sizeof(sets), sets) == 0) {
		count = (unsigned)CPU_COUNT_S(sizeof(sets), sets);
	}
	if (limit && limit < count) {
		count = limit;
	}
	if (count > SGPU_POOL_JOBS_MAX) {
		count = SGPU_POOL_JOBS_MAX;
	}
	return count ? count : 1;
}

/* ---- small files of the kernel ----
 * The path may lead to a named pipe, which would wait for a writer, or a device, which may have no
 * end. */
bool sgpu_peek(const char *path, char *text, size_t room)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	size_t used = 0;
	ssize_t got = -1;

	while (fd >= 0 && used < room - 1) {
		got = read(fd, text + used, room - 1 - used);
		if (got <= 0) {
			break;
		}
		used += (size_t)got;
	}
	sgpu_close(fd);
	text[got < 0 ? 0 : used] = '\0';
	return got >= 0;
}

bool sgpu_peek_line(const char *path, char *line, size_t room)
{
	const bool got = sgpu_peek(path, line, room);
	char *begin, *end = line;

	while (*end >= ' ' && *end <= '~') {
		end++;
	}
	*end = '\0';
	begin = strchr(line, '[');
	end = begin ? strchr(begin, ']') : NULL;
	if (end) {
		*end = '\0';
		memmove(line, begin + 1, (size_t)(end - begin));
	}
	return got;
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
