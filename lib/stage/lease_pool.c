/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool's leases, in the order of their places, and the thread that ends and clears them. The
 * pool's file belongs to the clients, too: what they write decides nothing here.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sgpu/base.h>

#include "crypto/crypto.h"
#include "stage/region.h"

enum state { HELD, OFFERED, CLEARING };

struct entry {
	struct entry *next;
	struct sgpu_lease lease;
	uint64_t extent; /* whole pages */
	uint8_t batch_id[SGPU_BATCH_ID_SIZE];
	bool results;
	enum state state;
	uint64_t expires_ns; /* OFFERED */
};

struct sgpu_lease_pool {
	struct sgpu_lease_pool_config config;
	struct sgpu_lease_memory memory;
	pthread_mutex_t lock;
	pthread_cond_t work; /* for the thread: something to clear, to wait for, or the end */
	pthread_cond_t cleared;
	pthread_t thread;
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
		pool->config.changed(pool->config.argument, pool->count, pool->bytes);
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

/* The first gap that is large enough: where it is linked, and its offset. */
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

static void begin_clearing(struct sgpu_lease_pool *pool, struct entry *entry)
{
	entry->state = CLEARING;
	pool->clearing++;
	pthread_cond_signal(&pool->work);
}

/* ---- the thread ---- */
/* Ends what is late. Returns one that is to be cleared, or NULL; *next: when the next one will be
 * late, or 0. */
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

static void remove_entry(struct sgpu_lease_pool *pool, struct entry *entry)
{
	struct entry **link = &pool->entries;

	while (*link != entry) {
		link = &(*link)->next;
	}
	*link = entry->next;
	pool->clearing--;
	tell(pool, -1, 0 - entry->extent);
	free(entry);
	pthread_cond_broadcast(&pool->cleared);
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
			/* Nobody else touches one that is being cleared. */
			pthread_mutex_unlock(&pool->lock);
			memset(pool->memory.base + entry->lease.offset, 0, entry->extent);
			pthread_mutex_lock(&pool->lock);
			remove_entry(pool, entry);
		} else if (next != 0) {
			const struct timespec until = { .tv_sec = (time_t)(next / 1000000000),
							.tv_nsec = (long)(next % 1000000000) };

			pthread_cond_timedwait(&pool->work, &pool->lock, &until);
		} else {
			pthread_cond_wait(&pool->work, &pool->lock);
		}
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

/* ---- the pool ---- */
static int start_thread(struct sgpu_lease_pool *pool, struct sgpu_error *error)
{
	pthread_condattr_t monotonic;
	sigset_t all, old;

	pthread_mutex_init(&pool->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&pool->work, &monotonic);
	pthread_cond_init(&pool->cleared, &monotonic);
	pthread_condattr_destroy(&monotonic);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	errno = pthread_create(&pool->thread, NULL, clear_ranges, pool);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return errno == 0 ? SGPU_OK : sgpu_fail_errno(error, "cannot start a thread");
}

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
	rc = sgpu_lease_memory_create(config->size, &made->memory, error);
	if (rc == SGPU_OK) {
		rc = start_thread(made, error);
	}
	if (rc < 0) {
		sgpu_lease_memory_free(&made->memory);
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
	/* A client may have the file open for longer. */
	while ((entry = made->entries)) {
		made->entries = entry->next;
		memset(made->memory.base + entry->lease.offset, 0, entry->extent);
		free(entry);
	}
	sgpu_lease_memory_free(&made->memory);
	pthread_cond_destroy(&made->cleared);
	pthread_cond_destroy(&made->work);
	pthread_mutex_destroy(&made->lock);
	free(made);
}

void sgpu_lease_pool_get_info(const struct sgpu_lease_pool *pool, struct sgpu_lease_pool_info *info)
{
	*info = (struct sgpu_lease_pool_info){ .fd = pool->memory.fd,
					       .memory = pool->memory.base,
					       .size = pool->memory.size,
					       .pages = pool->memory.pages };
}

/* ---- leases ---- */
static int place_entry(struct sgpu_lease_pool *pool, struct entry *entry, struct sgpu_error *error)
{
	const uint64_t alignment =
		entry->extent >= SGPU_LEASE_HUGE ? SGPU_LEASE_HUGE : pool->memory.page;
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
		sgpu_hint(error, "'sgpu-run serve --leases' says how large the pool is");
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
	entry->extent = (size + pool->memory.page - 1) / pool->memory.page * pool->memory.page;
	entry->results = results;
	memcpy(entry->batch_id, batch_id, sizeof(entry->batch_id));
	pthread_mutex_lock(&pool->lock);
	rc = place_entry(pool, entry, error);
	pthread_mutex_unlock(&pool->lock);
	if (rc < 0) {
		free(entry);
		return rc;
	}
	*lease = entry->lease; /* held: it stays */
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
		pthread_cond_signal(&pool->work);
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
	if (entry && entry->state == HELD) {
		begin_clearing(pool, entry);
	}
	pthread_mutex_unlock(&pool->lock);
}
