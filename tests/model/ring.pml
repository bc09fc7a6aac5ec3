/* SPDX-License-Identifier: Apache-2.0
 *
 * The queues of lib/ring and their wake-up, for spin: a producer, a consumer that sleeps when it finds nothing, and memory
 * in which the stores of a processor become visible late, and in another order than they were made.
 *
 * Every entry arrives once, whole and in order (assertions), and nobody sleeps while an entry lies there
 * (no invalid end state). Each order that queue.c and wait.c ask for is a macro: with -DWITHOUT_NAME it is left
 * out, and the model has to find what goes wrong. tests/bats/ring-model.bats runs the model whole and once without each.
 *
 *   -DREACHABLE  the honest end counts as an error, which shows that the model can get there
 */

#define PLACES 2
#define TOTAL 4

#define PLACE(position) ((position) % PLACES)
#define GENERATION(position) ((position) / PLACES + 1)

/* Shared memory. The body stands for the seven words before the last: they are stored in any order among themselves. */
byte body[PLACES];
byte generation[PLACES];
byte head;
bool sleeping;

/* Stores that their processor has made and nobody else sees yet; one of each kind is enough. */
bool body_waits, generation_waits, sleeping_waits;
byte body_place, body_value, generation_place, generation_value;

inline show_body()
{
	d_step {
		if
		:: body_waits -> body[body_place] = body_value; body_waits = false
		:: else -> skip
		fi
	}
}

inline show_generation()
{
	d_step {
		if
		:: generation_waits -> generation[generation_place] = generation_value; generation_waits = false
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
	:: body_waits -> show_body()
	:: generation_waits -> show_generation()
	:: sleeping_waits -> show_sleeping()
	od
}

inline store_body(position, value)
{
	d_step { !body_waits -> body_place = PLACE(position); body_value = value; body_waits = true }
}

/* sgpu_producer_put and sgpu_wake. */
active proctype producer()
{
	byte position, seen_head;
	bool asleep;

	do
	:: position == TOTAL -> break
	:: else ->
#ifdef WITHOUT_ACQUIRE_HEAD /* the entry is stored before the head is read */
		store_body(position, position + 1);
#endif
		/* RETRY, as often as it takes */
		atomic { position - head < PLACES -> seen_head = head };
		assert(position - seen_head < PLACES);
#ifndef WITHOUT_ACQUIRE_HEAD
		store_body(position, position + 1);
#endif
#ifndef WITHOUT_RELEASE_ENTRY /* the generation becomes visible after the other words */
		show_body();
#endif
		d_step { !generation_waits -> generation_place = PLACE(position);
			 generation_value = GENERATION(position); generation_waits = true };
#ifndef WITHOUT_FENCE_PRODUCER /* and before the look at the sleeper */
		show_generation();
#endif
		/* sgpu_wake() */
		asleep = sleeping;
		if
		:: asleep -> sleeping = false /* the exchange; whoever sleeps wakes */
		:: else -> skip
		fi;
		position++
	od
}

/* sgpu_consumer_take and sgpu_sleeper_wait. */
active proctype consumer()
{
	byte position, found, value;

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
			assert(value == position + 1); /* whole, not twice, none left out */
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
