/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads of live copies. They look for work for a while before they sleep: to wake a thread takes as long as to
 * copy some MiB, most of all in a virtual machine.
 */
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <transfer/transfer.h>

#define SPIN_NS ((uint64_t)1000000)
enum { PAUSES = 64, ROUNDS_BEFORE_YIELD = 2000 };

struct sgpu_transfer_crew {
	_Atomic uint32_t call;         /* number of the last call to work; threads sleep on it */
	_Alignas(64) atomic_uint asleep;
	atomic_uint arrived, working;
	atomic_bool stop;
	bool may_spin;
	void (*work)(void *argument, unsigned thread);
	void *argument;
	atomic_uint started;           /* threads that have taken their number */
	unsigned count;
	pthread_t threads[];
};

void sgpu_transfer_pause(unsigned *rounds)
{
	if (++*rounds > ROUNDS_BEFORE_YIELD) {
		sched_yield(); /* the one that is waited for may need this processor */
		return;
	}
	SGPU_TRANSFER_PAUSE();
}

static void wait_for_call(struct sgpu_transfer_crew *crew, uint32_t seen)
{
	uint64_t limit = crew->may_spin ? sgpu_now_ns() + SPIN_NS : 0;

	while (atomic_load(&crew->call) == seen) {
		if (limit == 0 || sgpu_now_ns() >= limit) {
			atomic_fetch_add(&crew->asleep, 1);
			(void)syscall(SYS_futex, &crew->call, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
			atomic_fetch_sub(&crew->asleep, 1);
			continue;
		}
		for (int i = 0; i < PAUSES; i++) {
			SGPU_TRANSFER_PAUSE();
		}
	}
}

static void call(struct sgpu_transfer_crew *crew)
{
	atomic_fetch_add(&crew->call, 1);
	if (atomic_load(&crew->asleep) > 0) {
		(void)syscall(SYS_futex, &crew->call, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	}
}

static void *thread_main(void *argument)
{
	struct sgpu_transfer_crew *crew = argument;
	unsigned thread = atomic_fetch_add(&crew->started, 1);
	uint32_t seen = 0;

	for (;;) {
		wait_for_call(crew, seen++);
		if (atomic_load(&crew->stop)) {
			return NULL;
		}
		atomic_fetch_add(&crew->arrived, 1);
		crew->work(crew->argument, thread);
		atomic_fetch_sub(&crew->working, 1);
	}
}

int sgpu_transfer_crew_create(unsigned threads, struct sgpu_transfer_crew **crew_out, struct sgpu_error *error)
{
	size_t size = sizeof(struct sgpu_transfer_crew) + threads * sizeof(pthread_t);
	size_t alignment = _Alignof(struct sgpu_transfer_crew);
	struct sgpu_transfer_crew *crew = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
	sigset_t all, before;

	*crew_out = crew;
	if (!crew) {
		return sgpu_fail_nomem(error);
	}
	memset(crew, 0, size);
	crew->may_spin = threads < sgpu_cpu_count();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (crew->count < threads && pthread_create(&crew->threads[crew->count], NULL, thread_main, crew) == 0) {
		crew->count++;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (crew->count < threads) {
		unsigned failed = crew->count + 1;

		sgpu_transfer_crew_free(crew_out);
		return sgpu_fail(error, SGPU_ESYSTEM, "cannot start thread %u of %u", failed, threads);
	}
	return SGPU_OK;
}

void sgpu_transfer_crew_free(struct sgpu_transfer_crew **crew)
{
	if (!*crew) {
		return;
	}
	atomic_store(&(*crew)->stop, true);
	call(*crew);
	for (unsigned i = 0; i < (*crew)->count; i++) {
		pthread_join((*crew)->threads[i], NULL);
	}
	free(*crew);
	*crew = NULL;
}

unsigned sgpu_transfer_crew_size(const struct sgpu_transfer_crew *crew)
{
	return crew->count;
}

void sgpu_transfer_crew_start(struct sgpu_transfer_crew *crew, void (*work)(void *argument, unsigned thread),
			      void *argument)
{
	if (crew->count > 0) {
		crew->work = work;
		crew->argument = argument;
		atomic_store(&crew->working, crew->count);
		atomic_store(&crew->arrived, 0);
		call(crew);
	}
}

bool sgpu_transfer_crew_is_there(struct sgpu_transfer_crew *crew)
{
	return atomic_load_explicit(&crew->arrived, memory_order_relaxed) == crew->count;
}

void sgpu_transfer_crew_join(struct sgpu_transfer_crew *crew)
{
	unsigned rounds = 0;

	while (atomic_load(&crew->working) > 0) {
		sgpu_transfer_pause(&rounds);
	}
}
