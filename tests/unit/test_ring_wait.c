/* SPDX-License-Identifier: Apache-2.0
 *
 * Spinning, sleeping and waking. The queues lie in ordinary memory, so that the thread sanitizer
 * sees both sides.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "ring/private.h"
#include "unit.h"

enum { COUNT = 4, WORDS = 4, TRIPS = 20000 };
#define MS 1000000u
#define MINUTE (60000u * (uint64_t)MS)

/* Two sides, and a queue each way. */
struct fixture {
	_Alignas(64) _Atomic uint64_t entries[2][COUNT * WORDS];
	struct sgpu_ring_side sides[2];
	struct sgpu_producer producers[2]; /* of side 0, of side 1 */
	struct sgpu_consumer consumers[2];
	struct sgpu_sleeper sleepers[2];
	int ends[2];
};

static struct fixture f;
static _Thread_local struct sgpu_error error;

static void set_up(bool doorbell, uint64_t spin_ns)
{
	struct sgpu_queue queue;

	memset(&f, 0, sizeof(f));
	f.ends[0] = f.ends[1] = -1;
	CHECK(!doorbell || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, f.ends) == 0);
	for (int i = 0; i < 2; i++) {
		sgpu_queue_set(&queue, f.entries[i], WORDS, COUNT, &f.sides[!i].head);
		f.producers[i].queue = f.consumers[!i].queue = queue;
		sgpu_sleeper_set(&f.sleepers[i], &f.sides[i], &f.sides[!i], f.ends[i], spin_ns);
	}
}

static void tear_down(void)
{
	for (int i = 0; i < 2; i++) {
		if (f.ends[i] >= 0) {
			close(f.ends[i]);
		}
	}
}

enum { STANDARD = 0, NO_SPIN = 1 };

static int put(int side, uint64_t number)
{
	const uint64_t words[WORDS] = { number, number, number };
	int rc = sgpu_producer_put(&f.producers[side], words, &error);

	if (rc == SGPU_OK) {
		sgpu_wake(&f.sleepers[side]);
	}
	return rc;
}

static uint64_t take(int side)
{
	uint64_t words[WORDS] = { 0 };

	return sgpu_consumer_take(&f.consumers[side], words, &error) == SGPU_OK ? words[0]
										: UINT64_MAX;
}

static int wait_for(int side, uint64_t ns)
{
	return sgpu_sleeper_wait(&f.sleepers[side], &f.consumers[side], sgpu_now_ns() + ns, &error);
}

UNIT_TEST(spinning_doubles_when_it_would_have_helped_and_halves_when_idle)
{
	struct sgpu_spin_time t;

	sgpu_spin_time_set(&t, STANDARD, false);
	CHECK(t.least == 1000 && t.most == 200000 && t.ns == 20000);
	sgpu_spin_time_adapt(&t, 1000000,
			     true); /* it came, but long after any spinning had ended */
	CHECK(t.ns == 10000);
	sgpu_spin_time_adapt(&t, 2000, false); /* nothing came */
	CHECK(t.ns == 5000);
	for (int i = 0; i < 5; i++) {
		sgpu_spin_time_adapt(&t, 200000, true);
	}
	CHECK(t.ns == 1000);
	sgpu_spin_time_adapt(&t, 199999,
			     true); /* it came late, and spinning would have caught it */
	CHECK(t.ns == 2000);
	for (int i = 0; i < 10; i++) {
		sgpu_spin_time_adapt(&t, 0, true);
	}
	CHECK(t.ns == 200000);
}

UNIT_TEST(one_processor_does_not_spin_unless_told)
{
	struct sgpu_spin_time t;

	sgpu_spin_time_set(&t, STANDARD, true);
	CHECK(t.ns == 0 && t.most == 0);
	sgpu_spin_time_adapt(&t, 0, true);
	CHECK(t.ns == 0);
	sgpu_spin_time_set(&t, 5000, true);
	sgpu_spin_time_adapt(&t, 0, false);
	CHECK(t.ns == 5000);
}

UNIT_TEST(a_wait_ends_at_its_deadline_and_takes_no_processor_time)
{
	struct timespec begin, end;
	uint64_t now;

	for (int doorbell = 0; doorbell < 2; doorbell++) {
		set_up(doorbell, STANDARD);
		now = sgpu_now_ns();
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
		CHECK(wait_for(0, 300 * MS) == SGPU_ETIMEOUT);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
		CHECK(sgpu_now_ns() - now >= 300 * MS);
		CHECK((end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec <
		      20 * MS);
		CHECK(atomic_load(&f.sides[0].sleeping) == SGPU_AWAKE);
		tear_down();
	}
}

UNIT_TEST(an_entry_that_is_there_ends_a_wait_at_once)
{
	set_up(true, NO_SPIN);
	CHECK(put(1, 5) == SGPU_OK);
	CHECK(wait_for(0, 0) == SGPU_OK && atomic_load(&f.sides[0].sleeping) == SGPU_AWAKE);
	CHECK(atomic_load(&f.sides[0].sleeping) == SGPU_AWAKE && take(0) == 5);
	tear_down();
}

/* Side 1 answers each entry with itself. */
static void *echo(void *argument)
{
	uint64_t number;

	(void)argument;
	for (int i = 0; i < TRIPS; i++) {
		while ((number = take(1)) == UINT64_MAX) {
			if (wait_for(1, MINUTE) < 0) {
				return (void *)1;
			}
		}
		if (put(1, number) < 0) {
			return (void *)1;
		}
	}
	return NULL;
}

/* A wake-up that is lost ends in a timeout. */
static void run_echo(bool doorbell, uint64_t wait)
{
	pthread_t thread;
	void *bad;

	set_up(doorbell, wait);
	REQUIRE(pthread_create(&thread, NULL, echo, NULL) == 0);
	for (uint64_t i = 0; i < TRIPS; i++) {
		REQUIRE(put(0, i) == SGPU_OK);
		REQUIRE(wait_for(0, MINUTE) == SGPU_OK);
		REQUIRE(take(0) == i);
	}
	pthread_join(thread, &bad);
	CHECK(!bad);
	tear_down();
}

UNIT_TEST(no_wake_up_is_lost_on_a_futex)
{
	run_echo(false, NO_SPIN);
}

UNIT_TEST(no_wake_up_is_lost_on_a_doorbell)
{
	run_echo(true, NO_SPIN);
}

UNIT_TEST(no_wake_up_is_lost_while_spinning_and_sleeping_mix)
{
	run_echo(false, 3000);
	run_echo(true, 3000);
}

UNIT_TEST(the_end_of_the_other_side_is_seen_after_its_last_entry)
{
	set_up(true, NO_SPIN);
	CHECK(put(1, 1) == SGPU_OK);
	close(f.ends[1]);
	f.ends[1] = -1;
	CHECK(wait_for(0, MINUTE) == SGPU_OK);
	CHECK(take(0) == 1);
	CHECK(wait_for(0, MINUTE) == SGPU_ESYSTEM && strstr(error.text, "has gone"));
	/* To wake it is no error either, and no signal. */
	atomic_store(&f.sides[1].sleeping, SGPU_SLEEPS_ON_DOORBELL);
	CHECK(put(0, 1) == SGPU_OK && atomic_load(&f.sides[1].sleeping) == SGPU_AWAKE);
	tear_down();
}

/* Ended by an alarm if it blocks. */
UNIT_TEST(a_doorbell_that_its_other_end_has_filled_does_not_block)
{
	char bytes[4096] = { 0 };

	set_up(true, NO_SPIN);
	while (send(f.ends[0], bytes, sizeof(bytes), MSG_DONTWAIT) > 0 ||
	       send(f.ends[0], bytes, 1, MSG_DONTWAIT) > 0) {
	}
	/* The peer can change what both ends share; these sockets block by themselves. */
	CHECK((fcntl(f.ends[0], F_GETFL) & O_NONBLOCK) == 0);
	alarm(60);
	for (uint64_t i = 0; i < 3; i++) {
		atomic_store(&f.sides[1].sleeping, SGPU_SLEEPS_ON_DOORBELL);
		CHECK(put(0, i) == SGPU_OK);
	}
	/* And who finds its own end full of bytes still waits for entries, not for bytes. */
	CHECK(take(1) == 0 && take(1) == 1 && take(1) == 2);
	CHECK(wait_for(1, 50 * MS) == SGPU_ETIMEOUT);
	alarm(0);
	tear_down();
}

UNIT_TEST(any_word_of_the_other_side_is_answered_without_blocking)
{
	alarm(60);
	for (int doorbell = 0; doorbell < 2; doorbell++) {
		set_up(doorbell, NO_SPIN);
		for (uint32_t word = 0; word < 8; word++) {
			atomic_store(&f.sides[1].sleeping, word | (word > 3 ? 0x80000000u : 0));
			CHECK(put(0, word) == SGPU_OK && take(1) == word);
			CHECK(atomic_load(&f.sides[1].sleeping) == SGPU_AWAKE);
		}
		/* One's own word, changed by the other side: the wait ends by its deadline all the
		 * same. */
		atomic_store(&f.sides[0].sleeping, 99);
		CHECK(wait_for(0, 10 * MS) == SGPU_ETIMEOUT);
		tear_down();
	}
	alarm(0);
}

int main(void)
{
	UNIT_RUN(spinning_doubles_when_it_would_have_helped_and_halves_when_idle);
	UNIT_RUN(one_processor_does_not_spin_unless_told);
	UNIT_RUN(a_wait_ends_at_its_deadline_and_takes_no_processor_time);
	UNIT_RUN(an_entry_that_is_there_ends_a_wait_at_once);
	UNIT_RUN(no_wake_up_is_lost_on_a_futex);
	UNIT_RUN(no_wake_up_is_lost_on_a_doorbell);
	UNIT_RUN(no_wake_up_is_lost_while_spinning_and_sleeping_mix);
	UNIT_RUN(the_end_of_the_other_side_is_seen_after_its_last_entry);
	UNIT_RUN(a_doorbell_that_its_other_end_has_filled_does_not_block);
	UNIT_RUN(any_word_of_the_other_side_is_answered_without_blocking);
	return unit_done();
}
