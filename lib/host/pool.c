/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool of workers: tokens limit how many threads compute; these share loops piece by piece. An
 * idle worker looks for work for a moment before it sleeps, since waking it takes longer than a
 * short loop.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "host/host.h"

/* One running loop, on the stack of the thread that started it. */
struct loop {
	struct loop *next;
	void (*body)(void *argument, uint64_t begin, uint64_t end);
	void *argument;
	uint64_t count, grain;
	unsigned most;		       /* workers that may help at a time */
	atomic_uint_fast64_t position; /* start of the next piece */
	unsigned helpers;	       /* workers in the loop, under the pool's lock */
	_Atomic uint32_t left;	       /* how often the last of them left it */
};

enum { LOOK_NS = 50000 };

struct sgpu_pool {
	pthread_mutex_t lock;
	pthread_cond_t token_free; /* a token was given back */
	pthread_cond_t work;	   /* a loop was started */
	pthread_cond_t helper_out; /* the last worker left a loop */
	unsigned jobs, tokens, waiting;
	struct loop *loops;
	_Atomic uint32_t calls; /* loops started so far */
	uint64_t look_ns;
	atomic_bool cancelled;
	bool stop;
	unsigned thread_count;
	pthread_t threads[];
};

static void run_pieces(struct sgpu_pool *pool, struct loop *loop)
{
	while (!atomic_load_explicit(&pool->cancelled, memory_order_relaxed)) {
		uint64_t begin = atomic_fetch_add_explicit(&loop->position, loop->grain,
							   memory_order_relaxed);
		if (begin >= loop->count) {
			return;
		}
		uint64_t left = loop->count - begin;
		loop->body(loop->argument, begin,
			   begin + (left < loop->grain ? left : loop->grain));
	}
}

static bool has_pieces(struct loop *loop)
{
	return atomic_load_explicit(&loop->position, memory_order_relaxed) < loop->count;
}

/* Returns a loop with pieces left, if a token is free and no thread waits for one; else NULL. The
 * caller holds the lock. */
static struct loop *find_work(struct sgpu_pool *pool)
{
	if (!pool->tokens || pool->waiting ||
	    atomic_load_explicit(&pool->cancelled, memory_order_relaxed)) {
		return NULL;
	}
	for (struct loop *loop = pool->loops; loop; loop = loop->next) {
		if (loop->helpers < loop->most && has_pieces(loop)) {
			return loop;
		}
	}
	return NULL;
}

static void *worker(void *argument)
{
	struct sgpu_pool *pool = argument;

	pthread_mutex_lock(&pool->lock);
	for (;;) {
		struct loop *loop = NULL;
		bool looked = false;
		while (!pool->stop && !(loop = find_work(pool))) {
			const uint32_t seen = atomic_load(&pool->calls);
			if (!looked) {
				pthread_mutex_unlock(&pool->lock);
				looked = !sgpu_spin(&pool->calls, seen, pool->look_ns);
				pthread_mutex_lock(&pool->lock);
			} else {
				pthread_cond_wait(&pool->work, &pool->lock);
			}
		}
		if (pool->stop) {
			break;
		}
		pool->tokens--;
		loop->helpers++;
		pthread_mutex_unlock(&pool->lock);
		run_pieces(pool, loop);
		pthread_mutex_lock(&pool->lock);
		pool->tokens++;
		if (pool->waiting) {
			pthread_cond_signal(&pool->token_free);
		}
		if (--loop->helpers == 0) {
			atomic_fetch_add(&loop->left, 1);
			pthread_cond_broadcast(&pool->helper_out);
		}
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

int sgpu_pool_create(unsigned jobs, struct sgpu_pool **pool_out, struct sgpu_error *error)
{
	if (!jobs) {
		jobs = sgpu_cpu_count();
	}
	if (jobs > SGPU_POOL_JOBS_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "%u workers are more than %d", jobs,
				 SGPU_POOL_JOBS_MAX);
	}
	pthread_mutexattr_t adaptive;
	struct sgpu_pool *pool = calloc(1, sizeof(*pool) + jobs * sizeof(*pool->threads));
	if (!pool) {
		return sgpu_fail_nomem(error);
	}
	pool->jobs = pool->tokens = jobs;
	/* The lock is held for moments; to sleep for it takes many times as long. */
	pthread_mutexattr_init(&adaptive);
	pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(&pool->lock, &adaptive);
	pthread_mutexattr_destroy(&adaptive);
	pthread_cond_init(&pool->token_free, NULL);
	pthread_cond_init(&pool->work, NULL);
	pthread_cond_init(&pool->helper_out, NULL);
	pool->look_ns = sgpu_cpu_count() > 1 ? LOOK_NS : 0;
	*pool_out = pool;
	return 0;
}

void sgpu_pool_free(struct sgpu_pool **pool_pointer)
{
	struct sgpu_pool *pool = pool_pointer ? *pool_pointer : NULL;

	if (!pool) {
		return;
	}
	pthread_mutex_lock(&pool->lock);
	pool->stop = true;
	pthread_cond_broadcast(&pool->work);
	pthread_mutex_unlock(&pool->lock);
	for (unsigned i = 0; i < pool->thread_count; i++) {
		pthread_join(pool->threads[i], NULL);
	}
	pthread_cond_destroy(&pool->helper_out);
	pthread_cond_destroy(&pool->work);
	pthread_cond_destroy(&pool->token_free);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
	*pool_pointer = NULL;
}

unsigned sgpu_pool_jobs(const struct sgpu_pool *pool)
{
	return pool->jobs;
}

void sgpu_pool_enter(struct sgpu_pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	pool->waiting++;
	while (!pool->tokens) {
		pthread_cond_wait(&pool->token_free, &pool->lock);
	}
	pool->waiting--;
	pool->tokens--;
	if (pool->tokens && pool->loops && !pool->waiting) {
		pthread_cond_signal(&pool->work); /* find_work held a worker back meanwhile */
	}
	pthread_mutex_unlock(&pool->lock);
}

void sgpu_pool_leave(struct sgpu_pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	pool->tokens++;
	if (pool->waiting) {
		pthread_cond_signal(&pool->token_free);
	} else if (pool->loops) {
		pthread_cond_signal(&pool->work);
	}
	pthread_mutex_unlock(&pool->lock);
}

void sgpu_pool_cancel(struct sgpu_pool *pool, bool cancel)
{
	atomic_store(&pool->cancelled, cancel);
}

bool sgpu_pool_cancelled(const struct sgpu_pool *pool)
{
	return atomic_load(&pool->cancelled);
}

static void remove_loop(struct sgpu_pool *pool, struct loop *loop)
{
	struct loop **link = &pool->loops;

	while (*link != loop) {
		link = &(*link)->next;
	}
	*link = loop->next;
}

/* Shows a loop to workers, and starts missing ones; with fewer, the loop takes longer. The caller
 * holds the lock. */
static void add_loop(struct sgpu_pool *pool, struct loop *loop)
{
	loop->next = pool->loops;
	pool->loops = loop;
	atomic_fetch_add(&pool->calls, 1);
	while (pool->thread_count < loop->most &&
	       sgpu_thread_start(&pool->threads[pool->thread_count], worker, pool, NULL) == 0) {
		pool->thread_count++;
	}
	for (unsigned i = 0; i < loop->most && pool->tokens; i++) {
		pthread_cond_signal(&pool->work);
	}
}

int sgpu_pool_for(struct sgpu_pool *pool, uint64_t count, uint64_t grain, unsigned helpers,
		  void (*body)(void *argument, uint64_t begin, uint64_t end), void *argument)
{
	struct loop loop = {
		.body = body, .argument = argument, .count = count, .grain = grain ? grain : 1
	};
	const uint64_t pieces = count / loop.grain + (count % loop.grain != 0);
	bool shared;

	loop.most = helpers && helpers < pool->jobs ? helpers : pool->jobs - 1;
	loop.most = loop.most < pieces ? loop.most : pieces ? (unsigned)pieces - 1 : 0;
	shared = loop.most > 0;

	atomic_init(&loop.position, 0);
	atomic_init(&loop.left, 0);
	if (shared) {
		pthread_mutex_lock(&pool->lock);
		add_loop(pool, &loop);
		pthread_mutex_unlock(&pool->lock);
	}
	run_pieces(pool, &loop);
	if (shared) {
		pthread_mutex_lock(&pool->lock);
		remove_loop(pool, &loop);
		if (loop.helpers) {
			const uint32_t seen = atomic_load(&loop.left);

			pthread_mutex_unlock(&pool->lock);
			(void)sgpu_spin(&loop.left, seen, pool->look_ns);
			pthread_mutex_lock(&pool->lock);
		}
		while (loop.helpers) {
			pthread_cond_wait(&pool->helper_out, &pool->lock);
		}
		pthread_mutex_unlock(&pool->lock);
	}
	/* If pieces are left, the loop was cancelled. */
	return has_pieces(&loop) ? SGPU_ECANCELED : 0;
}
