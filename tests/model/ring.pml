/* SPDX-License-Identifier: Apache-2.0
 *
 * The queues of lib/ring and their wake-up, for spin: producers, a consumer that sleeps when it finds nothing, and memory
 * in which the stores of a processor become visible late, and in another order than they were made.
 *
 * Every entry arrives once, whole and in its producer's order (assertions), and nobody sleeps while an entry lies there
 * (no invalid end state). Each order that queue.c and wait.c ask for is a macro: with -DWITHOUT_NAME it is left
 * out, and the model has to find what goes wrong. tests/bats/ring-model.bats runs the model whole and once without each.
 *
 *   -DSHARED     two producers claim places by compare and exchange; otherwise there is one, with a tail of its own
 *   -DREACHABLE  the honest end counts as an error, which shows that the model can get there
 */

#define PLACES 2
#ifdef SHARED
#define PRODUCERS 2
#define EACH 2
#else
#define PRODUCERS 1
#define EACH 4
#endif
#define TOTAL (PRODUCERS * EACH)

#define PLACE(position) ((position) % PLACES)
#define GENERATION(position) ((position) / PLACES + 1)

/* Shared memory. The body stands for the seven words before the last: they are stored in any order among themselves. */
byte body[PLACES];
byte generation[PLACES];
byte head;
bool sleeping;

/* Private to the producers' process. */
byte tail;

/* Stores that their processor has made and nobody else sees yet; one of each kind is enough. */
bool body_waits[PRODUCERS], generation_waits[PRODUCERS], sleeping_waits;
byte body_place[PRODUCERS], body_value[PRODUCERS], generation_place[PRODUCERS], generation_value[PRODUCERS];

inline show_body(p)
{
	d_step {
		if
		:: body_waits[p] -> body[body_place[p]] = body_value[p]; body_waits[p] = false
		:: else -> skip
		fi
	}
}

inline show_generation(p)
{
	d_step {
		if
		:: generation_waits[p] -> generation[generation_place[p]] = generation_value[p]; generation_waits[p] = false
		:: else -> skip
		fi
	}
}

inline show_sleeping()
{
	d_step {
		if
		:: sleeping_waits -> sleeping = true; sleeping_waits = false
		:: else -> skip
		fi
	}
}

/* What waits becomes visible at any time, in any order. */
active proctype memory()
{
end:
	do
	:: body_waits[0] -> show_body(0)
	:: generation_waits[0] -> show_generation(0)
#ifdef SHARED
	:: body_waits[1] -> show_body(1)
	:: generation_waits[1] -> show_generation(1)
#endif
	:: sleeping_waits -> show_sleeping()
	od
}

inline store_body(p, position, value)
{
	d_step { !body_waits[p] -> body_place[p] = PLACE(position); body_value[p] = value; body_waits[p] = true }
}

/* sgpu_producer_put and sgpu_wake. */
active [PRODUCERS] proctype producer()
{
	byte p, number, position, seen_head;
	bool asleep;

	p = _pid - 1;
	do
	:: number == EACH -> break
	:: else ->
		/* claim() */
claim:
		position = tail;
#ifdef WITHOUT_ACQUIRE_HEAD /* the entry is stored before the head is read */
		store_body(p, position, p * EACH + number + 1);
#endif
		/* RETRY, as often as it takes */
		atomic { position - head < PLACES -> seen_head = head };
#ifdef SHARED
#ifdef WITHOUT_EXCHANGE
		tail = position + 1;
#else
		if
		:: atomic { tail == position -> tail = position + 1 }
		:: atomic { tail != position -> goto claim }
		fi;
#endif
#else
		tail = position + 1;
#endif
		assert(position - seen_head < PLACES);
		/* store_words() */
#ifndef WITHOUT_ACQUIRE_HEAD
		store_body(p, position, p * EACH + number + 1);
#endif
#ifndef WITHOUT_RELEASE_ENTRY /* the generation becomes visible after the other words */
		show_body(p);
#endif
		d_step { !generation_waits[p] -> generation_place[p] = PLACE(position);
			 generation_value[p] = GENERATION(position); generation_waits[p] = true };
#ifndef WITHOUT_FENCE_PRODUCER /* and before the look at the sleeper */
		show_generation(p);
#endif
		/* sgpu_wake() */
		asleep = sleeping;
		if
		:: asleep -> sleeping = false /* the exchange; whoever sleeps wakes */
		:: else -> skip
		fi;
		number++
	od
}

/* sgpu_consumer_take and sgpu_sleeper_wait. */
active proctype consumer()
{
	byte position, found, value, p;
	byte next[PRODUCERS];

	do
	:: position == TOTAL -> break
	:: else ->
#ifdef WITHOUT_ACQUIRE_ENTRY /* the other words are read before the generation */
		value = body[PLACE(position)];
#endif
		found = generation[PLACE(position)];
		if
#ifdef WITHOUT_GENERATION /* whatever was ever put counts as an entry */
		:: found != 0 ->
#else
		:: found == GENERATION(position) ->
#endif
#ifdef WITHOUT_RELEASE_HEAD /* the head becomes visible before the entry is read */
			head = position + 1;
#endif
#ifndef WITHOUT_ACQUIRE_ENTRY
			value = body[PLACE(position)];
#endif
#ifndef WITHOUT_RELEASE_HEAD
			head = position + 1;
#endif
			assert(value != 0);
			p = (value - 1) / EACH;
			assert(value - 1 - p * EACH == next[p]); /* whole, not twice, none left out */
			next[p]++;
			position++
		:: else ->
#ifndef WITHOUT_GENERATION
			assert(found == GENERATION(position) - 1); /* what the consumer takes for a fault */
#endif
			/* sgpu_sleeper_arm() */
			sleeping_waits = true;
#ifndef WITHOUT_FENCE_CONSUMER /* the word becomes visible before the second look */
			show_sleeping();
#endif
			found = generation[PLACE(position)];
			if
#ifndef WITHOUT_LOOK_AGAIN
			:: found == GENERATION(position) -> skip
			:: found != GENERATION(position) -> !sleeping_waits && !sleeping
#else
			:: !sleeping_waits && !sleeping
#endif
			fi;
			d_step { sleeping_waits = false; sleeping = false } /* awake */
		fi
	od;
#ifdef REACHABLE
	assert(false)
#endif
}
