/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool's leases, in the order of their offsets, and the thread that ends expired ones and clears
 * ranges. Clients can write to the pool's file, so nothing here depends on its contents.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "crypto/crypto.h"
#include "device/device.h"
#include "stage/region.h"

#define HUGE_PAGE ((uint64_t)2 << 20)
#define SLICE ((uint64_t)32 << 20)
enum { SMALL_PAGE = 4096 };
/* Leases of at most so many bytes are cleared by whoever ends them, which wakes no thread. */
enum { CLEARED_AT_ONCE = 64 << 10 };

/* ---- the worker's side ---- */
struct population {
	const struct sgpu_lease_pool_info *memory;
	atomic_bool failed;
};

static void populate_slices(void *argument, uint64_t begin, uint64_t end)
{
	struct population *p = argument;
	const struct sgpu_lease_pool_info *m = p->memory;

	for (; begin < end && !atomic_load(&p->failed); begin++) {
		const uint64_t at = begin * SLICE,
			       size = m->size - at < SLICE ? m->size - at : SLICE;

		if (madvise(m->memory + at, size, MADV_POPULATE_WRITE) != 0) {
			atomic_store(&p->failed, true);
		}
	}
}

static int populate(const struct sgpu_lease_pool_info *m, struct sgpu_error *error)
{
	struct population population = { .memory = m };
	struct sgpu_pool *pool = NULL;
	int rc = sgpu_pool_create(0, &pool, error);

	if (rc < 0) {
		return rc;
	}
	sgpu_pool_enter(pool);
	rc = sgpu_pool_for(pool, (m->size + SLICE - 1) / SLICE, 1, 0, populate_slices, &population);
	sgpu_pool_leave(pool);
	sgpu_pool_free(&pool);
	return rc < 0 || !atomic_load(&population.failed)
		       ? rc
		       : sgpu_fail(error, SGPU_ENOMEM,
				   "there is no memory for a pool of %llu bytes",
				   (unsigned long long)m->size);
}

static void free_memory(struct sgpu_lease_pool_info *m)
{
	if (m->memory) {
		munmap(m->memory, m->size);
	}
	if (m->fd >= 0) { /* free the pages, since a client may keep the file open */
		(void)fallocate(m->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
				(off_t)m->size);
		close(m->fd);
	}
	m->memory = NULL;
	m->fd = -1;
}

static int make_file(struct sgpu_lease_pool_info *m, struct sgpu_error *error)
{
	int rc = sgpu_memory_file_create("sgpu-leases", m->size, false, &m->fd, error);
	void *memory;

	if (rc < 0) {
		return rc;
	}
	memory = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
	if (memory == MAP_FAILED) {
		rc = sgpu_fail_errno(error, "cannot map a pool of %llu bytes",
				     (unsigned long long)m->size);
	} else {
		m->memory = memory;
		(void)madvise(memory, m->size, MADV_HUGEPAGE); /* where the kernel has them */
		rc = populate(m, error);
	}
	if (rc < 0) {
		free_memory(m);
	}
	return rc;
}

static int create_memory(uint64_t size, struct sgpu_lease_pool_info *m, struct sgpu_error *error)
{
	uint64_t available;

	*m = (struct sgpu_lease_pool_info){ .fd = -1 };
	if (size == 0 || size > SGPU_LEASE_POOL_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "a pool has 1 to %llu bytes",
				 (unsigned long long)SGPU_LEASE_POOL_MAX);
	}
	m->size = (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	/* Otherwise the kernel would kill processes to get the pages. */
	sgpu_host_memory(NULL, &available);
	if (m->size > available) {
		return sgpu_fail(error, SGPU_ENOMEM,
				 "a pool of %llu bytes is more than the %llu that are free",
				 (unsigned long long)m->size, (unsigned long long)available);
	}
	return make_file(m, error);
}

/* ---- the client's side ---- */
int sgpu_lease_check(int fd, uint64_t pool_size, const struct sgpu_lease *lease,
		     struct sgpu_error *error)
{
	uint64_t size, end;
	int rc = sgpu_memory_file_check(fd, "the memory of a lease", 0, INT64_MAX, &size, error);

	if (rc == SGPU_OK && (size != pool_size || !sgpu_region_id_valid(lease->id) ||
			      !sgpu_add_u64(lease->offset, lease->size, &end) || end > pool_size ||
			      lease->size == 0 || lease->offset % SMALL_PAGE != 0)) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "a lease of %llu bytes at %llu does not lie in a pool of %llu",
				 (unsigned long long)lease->size, (unsigned long long)lease->offset,
				 (unsigned long long)size);
	}
	return rc;
}

int sgpu_lease_map(int fd, const struct sgpu_lease *lease, struct sgpu_lease_mapping *mapping,
		   struct sgpu_error *error)
{
	void *base;

	*mapping = (struct sgpu_lease_mapping){ .memory = NULL };
	mapping->size = lease->size;
	base = mmap(NULL, mapping->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    (off_t)lease->offset);
	if (base == MAP_FAILED) {
		return sgpu_fail_errno(error, "cannot map lease '%s'", lease->id);
	}
	(void)madvise(base, mapping->size, MADV_DONTDUMP);
	mapping->memory = base;
	return SGPU_OK;
}

void sgpu_lease_unmap(struct sgpu_lease_mapping *mapping)
{
	if (mapping->memory) {
		munmap(mapping->memory, mapping->size);
	}
	mapping->memory = NULL;
}

enum state { HELD, OFFERED, CLEARING };

struct entry {
	struct entry *next;
	struct sgpu_lease lease;
	uint64_t extent; /* bytes, in whole pages */
	uint8_t batch_id[SGPU_BATCH_ID_SIZE];
	bool results;
	enum state state;
	uint64_t expires_ns; /* only if OFFERED */
};

struct sgpu_lease_pool {
	struct sgpu_lease_pool_config config;
	struct sgpu_lease_pool_info memory;
	pthread_mutex_t lock;
	pthread_cond_t work; /* wakes the thread: a range to clear, an expiry, or the end */
	pthread_cond_t cleared;
	pthread_t thread;
	uint64_t wakes_ns; /* when the thread looks again; UINT64_MAX: never */
	bool stop;
	struct entry *entries;
	unsigned count, clearing;
	uint64_t bytes;
};

/* ---- the list; the lock is held ---- */
static void tell(struct sgpu_lease_pool *pool, int count, uint64_t bytes)
{
	pool->count += (unsigned)count;
	pool->bytes += bytes;
	if (pool->config.changed) {
		pool->config.changed(pool->count, pool->bytes);
	}
}

static struct entry *find_entry(struct sgpu_lease_pool *pool, const char *id)
{
	for (struct entry *e = pool->entries; e; e = e->next) {
		if (strcmp(e->lease.id, id) == 0 && e->state != CLEARING) {
			return e;
		}
	}
	return NULL;
}

/* The first gap that is large enough: the link for its entry, or NULL, and its offset. */
static struct entry **find_gap(struct sgpu_lease_pool *pool, uint64_t extent, uint64_t alignment,
			       uint64_t *offset)
{
	struct entry **link = &pool->entries;

	*offset = 0;
	for (;; link = &(*link)->next) {
		const uint64_t end = *link ? (*link)->lease.offset : pool->memory.size;

		*offset = (*offset + alignment - 1) / alignment * alignment;
		if (*offset <= end && extent <= end - *offset) {
			return link;
		}
		if (!*link) {
			return NULL;
		}
		*offset = (*link)->lease.offset + (*link)->extent;
	}
}

static void remove_entry(struct sgpu_lease_pool *pool, struct entry *entry)
{
	struct entry **link = &pool->entries;

	while (*link != entry) {
		link = &(*link)->next;
	}
	*link = entry->next;
	tell(pool, -1, 0 - entry->extent);
	free(entry);
}

static void begin_clearing(struct sgpu_lease_pool *pool, struct entry *entry)
{
	entry->state = CLEARING;
	pool->clearing++;
	pthread_cond_signal(&pool->work);
}

/* ---- the thread ---- */
/* Ends expired leases. Returns a lease to clear, or NULL; *next: when the next expires, or 0. */
static struct entry *look_over(struct sgpu_lease_pool *pool, uint64_t *next)
{
	const uint64_t now = sgpu_now_ns();
	struct entry *found = NULL;

	*next = 0;
	for (struct entry *e = pool->entries; e; e = e->next) {
		if (e->state == OFFERED && now >= e->expires_ns) {
			begin_clearing(pool, e);
		}
		if (e->state == OFFERED && (*next == 0 || e->expires_ns < *next)) {
			*next = e->expires_ns;
		}
		found = e->state == CLEARING ? e : found;
	}
	return found;
}

static void *clear_ranges(void *argument)
{
	struct sgpu_lease_pool *pool = argument;
	struct entry *entry;
	uint64_t next;

	pthread_mutex_lock(&pool->lock);
	while (!pool->stop) {
		entry = look_over(pool, &next);
		if (entry) {
			/* While an entry is being cleared, only this thread uses it. */
			pthread_mutex_unlock(&pool->lock);
			memset(pool->memory.memory + entry->lease.offset, 0, entry->extent);
			pthread_mutex_lock(&pool->lock);
			pool->clearing--;
			remove_entry(pool, entry);
			pthread_cond_broadcast(&pool->cleared);
		} else if (next != 0) {
			const struct timespec until = { .tv_sec = (time_t)(next / 1000000000),
							.tv_nsec = (long)(next % 1000000000) };

			pool->wakes_ns = next;
			pthread_cond_clockwait(&pool->work, &pool->lock, CLOCK_MONOTONIC, &until);
		} else {
			pool->wakes_ns = UINT64_MAX;
			pthread_cond_wait(&pool->work, &pool->lock);
		}
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

/* ---- the pool ---- */
int sgpu_lease_pool_create(const struct sgpu_lease_pool_config *config,
			   struct sgpu_lease_pool **pool, struct sgpu_error *error)
{
	struct sgpu_lease_pool *made = calloc(1, sizeof(*made));
	int rc;

	*pool = NULL;
	if (!made) {
		return sgpu_fail_nomem(error);
	}
	made->config = *config;
	made->config.life_ns = config->life_ns ? config->life_ns : SGPU_LEASE_LIFE_NS;
	pthread_mutex_init(&made->lock, NULL);
	pthread_cond_init(&made->work, NULL);
	pthread_cond_init(&made->cleared, NULL);
	rc = create_memory(config->size, &made->memory, error);
	rc = rc ? rc : sgpu_thread_start(&made->thread, clear_ranges, made, error);
	if (rc < 0) {
		free_memory(&made->memory);
		free(made);
		return rc;
	}
	*pool = made;
	return SGPU_OK;
}

void sgpu_lease_pool_free(struct sgpu_lease_pool **pool)
{
	struct sgpu_lease_pool *made = *pool;
	struct entry *entry;

	*pool = NULL;
	if (!made) {
		return;
	}
	pthread_mutex_lock(&made->lock);
	made->stop = true;
	pthread_cond_signal(&made->work);
	pthread_mutex_unlock(&made->lock);
	pthread_join(made->thread, NULL);
	/* A client may keep the file open, so clear the leases. */
	while ((entry = made->entries)) {
		made->entries = entry->next;
		memset(made->memory.memory + entry->lease.offset, 0, entry->extent);
		free(entry);
	}
	free_memory(&made->memory);
	pthread_cond_destroy(&made->cleared);
	pthread_cond_destroy(&made->work);
	pthread_mutex_destroy(&made->lock);
	free(made);
}

void sgpu_lease_pool_get_info(const struct sgpu_lease_pool *pool, struct sgpu_lease_pool_info *info)
{
	*info = pool->memory;
}

/* ---- leases ---- */
static int place_entry(struct sgpu_lease_pool *pool, struct entry *entry, struct sgpu_error *error)
{
	const uint64_t alignment = entry->extent >= HUGE_PAGE ? HUGE_PAGE : SMALL_PAGE;
	struct entry **link;

	while (pool->count >= SGPU_LEASES_MAX ||
	       !(link = find_gap(pool, entry->extent, alignment, &entry->lease.offset))) {
		if (pool->clearing == 0) {
			return pool->count >= SGPU_LEASES_MAX
				       ? sgpu_fail(error, SGPU_ERETRY,
						   "there are %d leases, which is the limit",
						   SGPU_LEASES_MAX)
				       : sgpu_fail(error, SGPU_ERETRY,
						   "no room for a lease of %llu bytes: %llu of the "
						   "pool's %llu "
						   "are taken",
						   (unsigned long long)entry->lease.size,
						   (unsigned long long)pool->bytes,
						   (unsigned long long)pool->memory.size);
		}
		pthread_cond_wait(&pool->cleared, &pool->lock);
	}
	entry->next = *link;
	*link = entry;
	tell(pool, 1, entry->extent);
	return SGPU_OK;
}

int sgpu_lease_create(struct sgpu_lease_pool *pool, const uint8_t batch_id[SGPU_BATCH_ID_SIZE],
		      bool results, uint64_t size, struct sgpu_lease *lease,
		      struct sgpu_error *error)
{
	uint8_t id[SGPU_REGION_ID_TEXT / 2];
	struct entry *entry;
	int rc;

	if (size == 0 || size > pool->memory.size) {
		rc = sgpu_fail(error, SGPU_EUSAGE,
			       "a lease of %llu bytes does not fit the pool, which has %llu",
			       (unsigned long long)size, (unsigned long long)pool->memory.size);
		sgpu_hint(error, "'sgpu-serve --leases' says how large the pool is");
		return rc;
	}
	rc = sgpu_random(id, sizeof(id), error);
	if (rc < 0) {
		return rc;
	}
	entry = calloc(1, sizeof(*entry));
	if (!entry) {
		return sgpu_fail_nomem(error);
	}
	sgpu_hex_encode(id, sizeof(id), entry->lease.id);
	entry->lease.size = size;
	entry->extent = (size + SMALL_PAGE - 1) / SMALL_PAGE * SMALL_PAGE;
	entry->results = results;
	memcpy(entry->batch_id, batch_id, sizeof(entry->batch_id));
	pthread_mutex_lock(&pool->lock);
	rc = place_entry(pool, entry, error);
	pthread_mutex_unlock(&pool->lock);
	if (rc < 0) {
		free(entry);
		return rc;
	}
	*lease = entry->lease; /* needs no lock: a held lease is not freed */
	return SGPU_OK;
}

void sgpu_lease_offer(struct sgpu_lease_pool *pool, const char *id)
{
	struct entry *entry;

	pthread_mutex_lock(&pool->lock);
	entry = find_entry(pool, id);
	if (entry && entry->state == HELD) {
		entry->state = OFFERED;
		entry->expires_ns = sgpu_now_ns() + pool->config.life_ns;
		if (entry->expires_ns < pool->wakes_ns) {
			pthread_cond_signal(&pool->work);
		}
	}
	pthread_mutex_unlock(&pool->lock);
}

int sgpu_lease_take(struct sgpu_lease_pool *pool, const char *id,
		    const uint8_t batch_id[SGPU_BATCH_ID_SIZE], bool results,
		    struct sgpu_lease *lease, struct sgpu_error *error)
{
	struct entry *entry;
	int rc = SGPU_OK;

	pthread_mutex_lock(&pool->lock);
	entry = find_entry(pool, id);
	if (!entry || entry->results != results ||
	    (entry->state == OFFERED && sgpu_now_ns() >= entry->expires_ns)) {
		rc = sgpu_fail(error, SGPU_ESYSTEM, "there is no lease '%s' of a batch's %s", id,
			       results ? "results" : "payloads");
		sgpu_hint(error, "it has been used, its time is over, or it is another server's");
	} else if (!sgpu_equal(entry->batch_id, batch_id, sizeof(entry->batch_id))) {
		rc = sgpu_fail(error, SGPU_EPOLICY, "lease '%s' is another batch's", id);
	} else if (entry->state == HELD) {
		rc = sgpu_fail(error, SGPU_ESYSTEM, "lease '%s' is in use", id);
	} else {
		entry->state = HELD;
		*lease = entry->lease;
	}
	pthread_mutex_unlock(&pool->lock);
	return rc;
}

void sgpu_lease_end(struct sgpu_lease_pool *pool, const char *id)
{
	struct entry *entry;

	pthread_mutex_lock(&pool->lock);
	entry = find_entry(pool, id);
	if (entry && entry->state == HELD && entry->extent <= CLEARED_AT_ONCE) {
		memset(pool->memory.memory + entry->lease.offset, 0, entry->extent);
		remove_entry(pool, entry);
	} else if (entry && entry->state == HELD) {
		begin_clearing(pool, entry);
	}
	pthread_mutex_unlock(&pool->lock);
}
