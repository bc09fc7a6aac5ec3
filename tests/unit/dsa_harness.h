/* SPDX-License-Identifier: Apache-2.0
 *
 * An accelerator that is a thread. Its portal is a page of ordinary memory, into whose lines
 * descriptors are stored; or it reads them from a descriptor. It copies, or does what it is told
 * to.
 */
#ifndef DSA_HARNESS_H
#define DSA_HARNESS_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "dsa/dsa.h"
#include "unit.h"

enum { LINES = 4096 / 64 };

/* What is done with the next descriptors, once each; then OBEY. */
enum deed { OBEY, STATUS, MUTE, LIE };
struct order {
	enum deed deed;
	uint32_t number;     /* STATUS: that */
	void (*first)(void); /* or NULL */
};

struct fake_dsa {
	_Alignas(64) _Atomic uint64_t portal[LINES][8];
	unsigned place;	     /* of the next descriptor in the portal */
	_Atomic int from_fd; /* descriptors come from there; -1: from the portal */
	struct order orders[64], always;
	unsigned order_count;
	_Atomic unsigned taken;	   /* descriptors */
	_Atomic unsigned refusals; /* how often the queue says that it is full */
	atomic_bool stopping, stopped, quit;
	struct dsa_hw_desc seen[64]; /* the first of them */
	struct dsa_hw_desc muted[128];
	unsigned muted_count;
	pthread_t thread;
};

static struct fake_dsa *fake;

/* The word with the status comes last. */
static void fake_answer(const struct dsa_hw_desc *d, unsigned status, unsigned result,
			uint32_t completed)
{
	struct dsa_completion_record *record = (void *)(uintptr_t)d->completion_addr;

	record->bytes_completed = completed;
	record->fault_addr = 0xdead0000;
	__atomic_store_n((uint32_t *)record, status | result << 8, __ATOMIC_RELEASE);
}

static void fake_obey(const struct dsa_hw_desc *d)
{
	const uint8_t *from = (const uint8_t *)(uintptr_t)d->src_addr;
	uint8_t *to = (uint8_t *)(uintptr_t)d->dst_addr;

	memmove(to, from, d->xfer_size);
	fake_answer(d, DSA_COMP_SUCCESS, 0, 0);
}

static void fake_do(const struct dsa_hw_desc *d)
{
	const unsigned number = atomic_fetch_add(&fake->taken, 1);
	const struct order *order =
		number < fake->order_count ? &fake->orders[number] : &fake->always;

	if (number < sizeof(fake->seen) / sizeof(fake->seen[0])) {
		fake->seen[number] = *d;
	}
	if (order->first) {
		order->first();
	}
	switch (order->deed) {
	case OBEY:
		fake_obey(d);
		break;
	case STATUS:
		fake_answer(d, order->number, 0, UINT32_MAX);
		break;
	case LIE:
		fake_answer(d, DSA_COMP_SUCCESS, 0xff, UINT32_MAX);
		break;
	case MUTE:
		fake->muted[fake->muted_count++] = *d;
		break;
	}
}

/* A line has a descriptor when its first word, with the operation, is not zero. */
static bool fake_take(unsigned line, struct dsa_hw_desc *d)
{
	uint64_t words[8];

	if (fake->from_fd >= 0) {
		return read(fake->from_fd, d, sizeof(*d)) == (ssize_t)sizeof(*d);
	}
	words[0] = atomic_load_explicit(&fake->portal[line][0], memory_order_acquire);
	if (words[0] == 0) {
		return false;
	}
	for (int i = 1; i < 8; i++) {
		words[i] = atomic_load_explicit(&fake->portal[line][i], memory_order_relaxed);
	}
	memcpy(d, words, sizeof(*d));
	atomic_store_explicit(&fake->portal[line][0], 0, memory_order_release);
	return true;
}

/* Told to stop, it first does what it has, and what it was mute about: late, but before whoever
 * stopped it goes on. */
static void *fake_live(void *unused)
{
	struct dsa_hw_desc d;
	unsigned line = 0;

	while (!fake->quit) {
		if (fake->stopping && !fake->stopped) {
			for (; fake->from_fd < 0 && fake_take(line, &d);
			     line = (line + 1) % LINES) {
				fake_obey(&d);
			}
			for (unsigned i = 0; i < fake->muted_count; i++) {
				fake_obey(&fake->muted[i]);
			}
			fake->stopped = true;
		} else if (fake_take(line, &d)) {
			line = (line + 1) % LINES;
			fake_do(&d);
		} else {
			sched_yield();
		}
	}
	return unused;
}

/* A line that is still taken is a queue that is full. */
static int fake_submit(struct sgpu_dsa *dsa, const struct dsa_hw_desc *d)
{
	_Atomic uint64_t *line = fake->portal[fake->place];
	uint64_t words[8];

	(void)dsa;
	if (fake->refusals > 0) {
		fake->refusals--;
		return SGPU_ERETRY;
	}
	if (atomic_load_explicit(&line[0], memory_order_acquire) != 0) {
		return SGPU_ERETRY;
	}
	memcpy(words, d, sizeof(words));
	for (int i = 1; i < 8; i++) {
		atomic_store_explicit(&line[i], words[i], memory_order_relaxed);
	}
	atomic_store_explicit(&line[0], words[0], memory_order_release);
	fake->place = (fake->place + 1) % LINES;
	return SGPU_OK;
}

static void fake_stop(struct sgpu_dsa *dsa)
{
	(void)dsa;
	fake->stopping = true;
	while (!fake->stopped) {
		sched_yield();
	}
}

static inline void fake_begin(void)
{
	fake = aligned_alloc(64, sizeof(*fake));
	memset(fake, 0, sizeof(*fake));
	fake->from_fd = -1;
	if (pthread_create(&fake->thread, NULL, fake_live, NULL) != 0) {
		abort();
	}
}

static inline void fake_end(void)
{
	fake->quit = true;
	pthread_join(fake->thread, NULL);
	free(fake);
	fake = NULL;
}

/* Long enough for a thread that the kernel lets wait; or short, for what does not come. */
static inline void fake_be_patient(struct sgpu_dsa *dsa)
{
	dsa->timeout_ns = dsa->patience_ns = 60000000000ull;
}

static inline void fake_be_impatient(struct sgpu_dsa *dsa)
{
	dsa->timeout_ns = dsa->patience_ns = 50000000ull;
}

/* An accelerator, and its queue. */
static inline struct sgpu_dsa *fake_open(void)
{
	struct sgpu_dsa *dsa = NULL;

	fake_begin();
	if (sgpu_dsa_create(&dsa, NULL) != SGPU_OK) {
		abort();
	}
	memcpy(dsa->name, "wq7.3", 6);
	dsa->submit = fake_submit;
	dsa->stop = fake_stop;
	fake_be_patient(dsa);
	return dsa;
}

static inline void fake_close(struct sgpu_dsa **dsa)
{
	sgpu_dsa_close(dsa);
	fake_end();
}

/* For descriptors that come now. */
static inline void fake_order(struct order order)
{
	fake->orders[fake->order_count++] = order;
}

#endif
