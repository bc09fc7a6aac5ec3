/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose batch runs next: weighted fair queueing of turns, whose length is only known when they have
 * ended.
 *
 * Each tenant has a virtual time, which goes on while it has turns: by the time that passes, times
 * its turns, divided by its weight. The next turn goes to the tenant whose virtual time is least.
 * One that had nothing to do begins again where the others are, so that idleness earns nothing.
 * There is no clock in here: the caller says what time it is.
 */
#ifndef SGPU_RUN_SHARES_H
#define SGPU_RUN_SHARES_H

#include <stdbool.h>
#include <stdint.h>

enum { SHARES_MAX = 256, SHARE_WEIGHT_MAX = 1000, SHARE_PRIORITIES = 2 };

struct share {
	unsigned weight;	 /* from 1; 0: nobody's */
	bool high;		 /* its turns come before all that are not high */
	bool barred;		 /* set by the caller: it gets no turn now, though it waits */
	unsigned waiting, turns; /* batches that may have a turn; turns that it has */
	bool held;  /* it has something else that others wait for, which is charged as a turn */
	bool lacks; /* it waits for such a thing */
	uint64_t used_ns; /* by its turns, since it was added */
	uint64_t pass;	  /* its virtual time; goes round */
	uint64_t rest;	  /* of the division by the weight */
	uint64_t granted; /* which of all turns its last one was */
};

struct shares {
	struct share of[SHARES_MAX];
	uint64_t now_ns;
	uint64_t clock[SHARE_PRIORITIES]; /* no pass of one that has something to do is before it */
	uint64_t granted;
};

/* A new tenant, or another weight or priority for one. */
void shares_add(struct shares *shares, unsigned i, unsigned weight, bool high);
void shares_change(struct shares *shares, unsigned i, unsigned weight, bool high);

/* Charges the turns for the time since the last call. To be called before counts change. */
void shares_advance(struct shares *shares, uint64_t now_ns);

/* What tenant `i` has now. */
void shares_set(struct shares *shares, unsigned i, unsigned waiting, unsigned turns);

/* Whether it has, from now on, what others wait for, which is a worker for something else than
 * batches; and whether it is one that waits for a worker. */
void shares_hold(struct shares *shares, unsigned i, bool held, bool lacks);

/* The tenant that gets the next turn, or -1: nobody waits, or there are `running` turns. Those of
 * high priority do not wait for turns of the others: they have as many of their own. */
int shares_next(const struct shares *shares, unsigned running);
/* It gets it. */
void shares_grant(struct shares *shares, unsigned i);

/* Whether `a` is served before `b`, were there but one turn. */
bool share_is_before(const struct share *a, const struct share *b);

#endif
