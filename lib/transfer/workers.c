/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers. Some of them spin for a while before they sleep, since waking a thread takes as long as
 * copying some MiB, most of all in a virtual machine. Only some do, since spinning threads keep the
 * device's and the caller's from the processors. A worker that spins in vain spins half as long the
 * next time.
 *
 * A call for a worker is a token, which one worker takes, so that it sends one spinning worker to
 * the jobs and not all. There are never more tokens than workers. A worker looks at the jobs after
 * it took its token, so that it sees all work from before the call.
 */
#include "transfer/engine.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/base.h"

enum { SHORTEST_SPIN_NS = 10000, PROCESSORS_A_LOOKER = 2 };

struct sgpu_workers {
	_Atomic uint32_t call; /* changes when there may be new work; workers sleep on it */
	_Alignas(64) atomic_uint tokens; /* calls to work that no worker has answered */
	atomic_uint lookers;		 /* workers that spin for a token */
	atomic_uint wanted; /* how many may spin: as many as the last large call asked for */
	_Alignas(64) atomic_uint asleep;
	atomic_bool stop;
	atomic_uint started; /* threads that run; the next one's index */
	unsigned few;	     /* how many may spin when few are needed */
	uint64_t spin_ns;
	pthread_mutex_t mutex; /* guards the jobs and `running` */
	pthread_cond_t left;   /* a worker has left a removed job */
	struct sgpu_worker_job *jobs;
	unsigned count, running;
	pthread_t threads[];
};

static bool take_token(struct sgpu_workers *workers)
{
	unsigned tokens = atomic_load(&workers->tokens);

	while (tokens > 0) {
		if (atomic_compare_exchange_weak(&workers->tokens, &tokens, tokens - 1)) {
			return true;
		}
	}
	return false;
}

/* Spins for a token; returns whether it got one in that time. */
static bool look_for_token(struct sgpu_workers *workers, uint64_t spin_ns)
{
	uint64_t limit = sgpu_now_ns() + spin_ns;
	uint32_t seen = atomic_load(&workers->call);
	bool found = false,
	     allowed = atomic_fetch_add(&workers->lookers, 1) < atomic_load(&workers->wanted);

	while (allowed && !(found = take_token(workers))) {
		uint64_t now = sgpu_now_ns();

		if (now >= limit || !sgpu_spin(&workers->call, seen, limit - now)) {
			atomic_store(&workers->wanted, workers->few);
			break;
		}
		seen = atomic_load(&workers->call);
	}
	atomic_fetch_sub(&workers->lookers, 1);
	return found;
}

/* A waker adds tokens, changes `call`, then counts spinning and sleeping workers. A sleeper stops
 * spinning, reads `call`, then looks for a token. So one of them sees the other, or `call` has
 * changed and the sleep ends immediately. */
static void wait_for_call(struct sgpu_workers *workers, uint64_t spin_ns)
{
	uint32_t seen;

	if (spin_ns > 0 && look_for_token(workers, spin_ns)) {
		return;
	}
	while (seen = atomic_load(&workers->call), !take_token(workers)) {
		atomic_fetch_add(&workers->asleep, 1);
		(void)syscall(SYS_futex, &workers->call, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
		atomic_fetch_sub(&workers->asleep, 1);
	}
}

static unsigned add_tokens(struct sgpu_workers *workers, unsigned count)
{
	unsigned tokens = atomic_load(&workers->tokens), sum;

	do {
		sum = count < workers->count - tokens ? tokens + count : workers->count;
	} while (!atomic_compare_exchange_weak(&workers->tokens, &tokens, sum));
	return sum;
}

void sgpu_workers_wake(struct sgpu_workers *workers, unsigned count)
{
	unsigned tokens = add_tokens(workers, count), lookers;

	if (count > atomic_load(&workers->wanted)) {
		atomic_store(&workers->wanted, count);
	}
	atomic_fetch_add(&workers->call, 1);
	lookers = atomic_load(&workers->lookers);
	if (tokens > lookers && atomic_load(&workers->asleep) > 0) {
		(void)syscall(SYS_futex, &workers->call, FUTEX_WAKE_PRIVATE, tokens - lookers, NULL,
			      NULL, 0);
	}
}

/* Does one step of every job; returns whether any had work. */
static bool work_round(struct sgpu_workers *workers, unsigned thread)
{
	struct sgpu_worker_job *job, *next;
	bool any = false;

	pthread_mutex_lock(&workers->mutex);
	for (job = workers->jobs; job; job = next) {
		job->inside++;
		pthread_mutex_unlock(&workers->mutex);
		any |= job->step(job->argument, thread);
		pthread_mutex_lock(&workers->mutex);
		next = job->removed ? NULL : job->next;
		if (--job->inside == 0 && job->removed) {
			pthread_cond_broadcast(&workers->left);
		}
	}
	pthread_mutex_unlock(&workers->mutex);
	return any;
}

static void *worker_main(void *argument)
{
	struct sgpu_workers *workers = argument;
	unsigned thread = atomic_fetch_add(&workers->started, 1);
	uint64_t spin_ns = workers->spin_ns;

	while (!atomic_load(&workers->stop)) {
		if (work_round(workers, thread)) {
			spin_ns = workers->spin_ns;
		} else {
			wait_for_call(workers, spin_ns);
			spin_ns /= 2;
			if (workers->spin_ns > 0 && spin_ns < SHORTEST_SPIN_NS) {
				spin_ns = SHORTEST_SPIN_NS;
			}
		}
	}
	return NULL;
}

int sgpu_workers_create(unsigned count, uint64_t spin_ns, struct sgpu_workers **workers,
			struct sgpu_error *error)
{
	size_t size = sizeof(struct sgpu_workers) + count * sizeof(pthread_t);
	size_t alignment = _Alignof(struct sgpu_workers);
	struct sgpu_workers *new =
		aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);

	*workers = new;
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	memset(new, 0, size);
	new->count = count;
	new->spin_ns = count < sgpu_cpu_count() ? spin_ns : 0;
	new->few = sgpu_cpu_count() / PROCESSORS_A_LOOKER;
	new->few = new->few < 1 ? 1 : new->few;
	atomic_store(&new->wanted, new->few);
	pthread_mutex_init(&new->mutex, NULL);
	pthread_cond_init(&new->left, NULL);
	return SGPU_OK;
}

void sgpu_workers_free(struct sgpu_workers **workers)
{
	struct sgpu_workers *w = *workers;

	if (!w) {
		return;
	}
	atomic_store(&w->stop, true);
	sgpu_workers_wake(w, INT_MAX);
	for (unsigned i = 0; i < w->running; i++) {
		pthread_join(w->threads[i], NULL);
	}
	pthread_cond_destroy(&w->left);
	pthread_mutex_destroy(&w->mutex);
	free(w);
	*workers = NULL;
}

unsigned sgpu_workers_count(const struct sgpu_workers *workers)
{
	return workers->count;
}

int sgpu_workers_add(struct sgpu_workers *workers, struct sgpu_worker_job *job,
		     struct sgpu_error *error)
{
	unsigned running;
	int rc = SGPU_OK;

	job->inside = 0;
	job->removed = false;
	pthread_mutex_lock(&workers->mutex);
	job->next = workers->jobs;
	workers->jobs = job;
	while (rc == SGPU_OK && workers->running < workers->count) {
		rc = sgpu_thread_start(&workers->threads[workers->running], worker_main, workers,
				       error);
		workers->running += rc == SGPU_OK;
	}
	running = workers->running;
	if (running == 0) {
		workers->jobs = job->next;
	}
	pthread_mutex_unlock(&workers->mutex);
	return running > 0 ? SGPU_OK : rc;
}

void sgpu_workers_remove(struct sgpu_workers *workers, struct sgpu_worker_job *job)
{
	struct sgpu_worker_job **link = &workers->jobs;

	pthread_mutex_lock(&workers->mutex);
	while (*link && *link != job) {
		link = &(*link)->next;
	}
	if (*link) {
		*link = job->next;
	}
	job->removed = true;
	while (job->inside > 0) {
		pthread_cond_wait(&workers->left, &workers->mutex);
	}
	pthread_mutex_unlock(&workers->mutex);
}
