/* SPDX-License-Identifier: Apache-2.0
 *
 * Two processes, and the ways in which one of them wakes the other, which does nothing but answer.
 */
#ifndef BENCH_PAIR_H
#define BENCH_PAIR_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/types.h>

#include <bench/bench.h>
#include <sgpu/ring.h>

enum pair_direction { PAIR_THERE, PAIR_BACK };

struct pair {
	const struct pair_way *way;
	/* In memory that both share, in cache lines of their own: how often each has sent. */
	struct pair_word {
		_Alignas(128) _Atomic uint32_t count;
	} * words;
	uint32_t seen[2]; /* of the words, by this process */
	int fds[4];	  /* for each direction the end that is read and the one that is written */
	struct sgpu_ring_client *client;
	struct sgpu_ring_worker *worker;
	uint32_t ticket; /* of the operation that the other process has */
	pid_t child;
	pthread_t watcher; /* waits for the child's end */
	bool is_watched;
	_Atomic bool
		is_dead;  /* the child is: what this process waits for has come, or never will */
	cpu_set_t before; /* where this process could run */
};

struct pair_way {
	const char *name;
	bool spins; /* so that on one processor it would wait for the end of a time slice */
	struct sgpu_ring_wait wait; /* of a ring */
	int (*open)(struct pair *pair, struct sgpu_error *error);
	bool (*send)(struct pair *pair, enum pair_direction direction);
	bool (*await)(struct pair *pair, enum pair_direction direction);
};

/* They sleep in the kernel, or wait in shared memory. */
enum { PAIR_WAYS = 5 };
extern const struct pair_way pair_ways[PAIR_WAYS];

/* Starts the other process, which answers until pair_end. cpus: where this and that process run, or
 * NULL: anywhere. SGPU_EUNAVAILABLE: this machine has no such way. */
SGPU_MUST_CHECK int pair_start(struct pair *pair, const struct pair_way *way, const int *cpus,
			       struct sgpu_error *error);
void pair_end(struct pair *pair);
/* Wakes the other process, and waits for what it sends back. */
SGPU_MUST_CHECK int pair_trip(struct pair *pair, struct sgpu_error *error);

#endif
