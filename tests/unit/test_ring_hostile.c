/* SPDX-License-Identifier: Apache-2.0
 *
 * What a client can do to a worker, and a worker to a client: fault the ring, and no more.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "ring_harness.h"

#define SECOND 1000000000u
#define SLOW                                                                                   \
	(5 * (uint64_t)SECOND) /* a loaded machine; who is not woken waits for 10 seconds, and \
				  ends otherwise */

static struct ring r;
static struct sgpu_ring_descriptor operation;

static uint64_t random_number(void)
{
	static _Thread_local uint64_t seed = 20261122;

	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return seed >> 24;
}

/* ---- by hand: entries that no honest side writes ---- */

static uint32_t generation_of(uint64_t position, uint32_t count)
{
	return (uint32_t)(position / count) + 1;
}

static void write_submission(uint64_t position, struct sgpu_ring_descriptor d)
{
	_Atomic uint64_t *place = r.raw.submissions.entries +
				  position % r.raw.submissions.count * SGPU_DESCRIPTOR_WORDS;
	uint64_t words[SGPU_DESCRIPTOR_WORDS];

	d.generation += generation_of(position, r.raw.submissions.count);
	memcpy(words, &d, sizeof(d));
	for (int i = 0; i < SGPU_DESCRIPTOR_WORDS; i++) {
		atomic_store(&place[i], words[i]);
	}
}

static void write_completion(uint64_t position, struct sgpu_ring_completion c)
{
	_Atomic uint64_t *place = r.raw.completions.entries +
				  position % r.raw.completions.count * SGPU_COMPLETION_WORDS;
	uint64_t words[SGPU_COMPLETION_WORDS];

	c.generation += generation_of(position, r.raw.completions.count);
	memcpy(words, &c, sizeof(c));
	for (int i = 0; i < SGPU_COMPLETION_WORDS; i++) {
		atomic_store(&place[i], words[i]);
	}
}

static int worker_next(void)
{
	return sgpu_ring_next(r.worker, &operation, &ring_error);
}

static int client_reap(void)
{
	struct sgpu_ring_result results[8];
	size_t count;

	return sgpu_ring_reap(r.client, results, 8, &count, &ring_error);
}

UNIT_TEST(a_descriptor_that_may_not_be_faults_the_ring_for_good)
{
	static const struct {
		struct sgpu_ring_descriptor descriptor;
		const char *text;
	} bad[] = {
		{ { .opcode = 0 }, "unknown opcode 0" },
		{ { .opcode = 15 }, "unknown opcode 15" },
		{ { .opcode = 17 }, "unknown opcode 17" },
		{ { .opcode = 255 }, "unknown opcode 255" },
		{ { .opcode = 0x10010 }, "unknown opcode 65552" },
		{ { .opcode = UINT32_MAX }, "unknown opcode" },
		{ { .opcode = OP_ANY, .reserved = 1 }, "reserved" },
		{ { .opcode = OP_ANY, .reserved2 = 1 }, "reserved" },
		{ { .opcode = OP_ANY, .reserved3 = 1 }, "reserved" },
		{ { .opcode = OP_NARROW, .handle = 1 }, "does not use" },
		{ { .opcode = OP_NARROW, .length = 1 }, "does not use" },
		{ { .opcode = OP_ANY, .offset = UINT64_MAX, .length = 2 }, "does not end" },
		{ { .opcode = OP_ANY, .generation = 1 }, "generation 2" },
		{ { .opcode = OP_ANY, .generation = UINT32_MAX / 2 }, "generation" },
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		REQUIRE(ring_open(&r, 4, 8, false));
		CHECK(ring_submit(&r, OP_ANY, 1) == SGPU_OK && ring_next(&r, &operation));
		write_submission(1, bad[i].descriptor);
		CHECK(worker_next() == SGPU_EINVALID && strstr(ring_error.text, bad[i].text));
		/* The same, whatever is asked, and nothing more is said to the client. */
		memset(&ring_error, 0, sizeof(ring_error));
		CHECK(sgpu_ring_finish(r.worker, SGPU_OK, 0, &ring_error) == SGPU_EINVALID);
		CHECK(strstr(ring_error.text, bad[i].text) && worker_next() == SGPU_EINVALID);
		CHECK(sgpu_ring_await(r.worker, 1, &ring_error) == SGPU_EINVALID);
		CHECK(ring_reap(&r).cookie == UINT64_MAX);
		ring_close(&r);
	}
}

UNIT_TEST(a_client_cannot_have_more_open_than_it_has_room_for)
{
	REQUIRE(ring_open(&r, 4, 8, false));
	for (uint64_t i = 0; i < 8; i++) {
		write_submission(i, (struct sgpu_ring_descriptor){ .opcode = OP_ANY, .cookie = i });
		CHECK(worker_next() == SGPU_OK);
		CHECK(sgpu_ring_finish(r.worker, SGPU_OK, 0, &ring_error) == SGPU_OK);
	}
	/* Eight completions lie there. */
	write_submission(8, (struct sgpu_ring_descriptor){ .opcode = OP_ANY });
	CHECK(worker_next() == SGPU_EINVALID && strstr(ring_error.text, "more than 8 operations"));
	ring_close(&r);
}

UNIT_TEST(a_head_that_cannot_be_faults_the_ring)
{
	REQUIRE(ring_open(&r, 4, 8, false));
	atomic_store(&r.raw.header->client.head, 3);
	CHECK(ring_submit(&r, OP_ANY, 0) == SGPU_OK);
	CHECK(worker_next() == SGPU_EINVALID);
	ring_close(&r);
	REQUIRE(ring_open(&r, 4, 8, false));
	for (uint64_t i = 0; i < 4; i++) {
		CHECK(ring_submit(&r, OP_ANY, i) == SGPU_OK);
	}
	atomic_store(&r.raw.header->worker.head, UINT64_MAX);
	CHECK(ring_submit(&r, OP_ANY, 4) == SGPU_EINVALID);
	atomic_store(&r.raw.header->worker.head, 0);
	CHECK(ring_submit(&r, OP_ANY, 4) == SGPU_EINVALID && client_reap() == SGPU_EINVALID);
	ring_close(&r);
}

/* Returns the id by which it crosses the ring. */
static uint64_t submit_one(void)
{
	const uint64_t before = r.submitted++;

	CHECK(ring_submit(&r, OP_ANY, 0x1234) == SGPU_OK);
	return atomic_load(&r.raw.submissions.entries[before * SGPU_DESCRIPTOR_WORDS + 1]);
}

UNIT_TEST(a_completion_must_answer_an_open_submission_once)
{
	uint64_t id;
	const struct {
		uint64_t cookie_difference;
		int32_t status;
		uint32_t flags, reserved, generation;
	} bad[] = {
		{ 1, 0, 0, 0, 0 },
		{ (uint64_t)1 << 32, 0, 0, 0, 0 },
		{ (uint64_t)-1 << 32, 0, 0, 0, 0 },
		{ 1u << 31, 0, 0, 0, 0 },
		{ 8, 0, 0, 0, 0 },
		{ 0, 1, 0, 0, 0 },
		{ 0, -256, 0, 0, 0 },
		{ 0, INT32_MIN, 0, 0, 0 },
		{ 0, 0, 1, 0, 0 },
		{ 0, 0, 0, 1, 0 },
		{ 0, 0, 0, 0, 1 },
		{ 0, 0, 0, 0, 77 },
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		REQUIRE(ring_open(&r, 4, 8, false));
		id = submit_one();
		write_completion(
			0, (struct sgpu_ring_completion){ .cookie = id + bad[i].cookie_difference,
							  .status = bad[i].status,
							  .flags = bad[i].flags,
							  .reserved = bad[i].reserved,
							  .generation = bad[i].generation });
		CHECK(client_reap() == SGPU_EINVALID);
		CHECK(ring_submit(&r, OP_ANY, 0) == SGPU_EINVALID);
		CHECK(sgpu_ring_await(r.client, 1, &ring_error) == SGPU_EINVALID);
		ring_close(&r);
	}
	/* Once is fine, twice is not. */
	REQUIRE(ring_open(&r, 4, 8, false));
	id = submit_one();
	write_completion(0, (struct sgpu_ring_completion){ .cookie = id });
	CHECK(ring_reap(&r).cookie == 0x1234);
	write_completion(1, (struct sgpu_ring_completion){ .cookie = id });
	CHECK(client_reap() == SGPU_EINVALID && strstr(ring_error.text, "not open"));
	ring_close(&r);
	/* Also when the same slot is in use again. */
	REQUIRE(ring_open(&r, 4, 8, false));
	id = submit_one();
	write_completion(0, (struct sgpu_ring_completion){ .cookie = id });
	CHECK(ring_reap(&r).cookie == 0x1234);
	(void)submit_one();
	write_completion(1, (struct sgpu_ring_completion){ .cookie = id });
	CHECK(client_reap() == SGPU_EINVALID);
	ring_close(&r);
	REQUIRE(ring_open(&r, 4, 8, false));
	write_completion(0, (struct sgpu_ring_completion){ .cookie = 0 });
	CHECK(client_reap() == SGPU_EINVALID);
	ring_close(&r);
}

UNIT_TEST(completions_come_in_any_order)
{
	uint64_t ids[4];

	REQUIRE(ring_open(&r, 4, 8, false));
	for (uint64_t i = 0; i < 4; i++) {
		CHECK(ring_submit(&r, OP_ANY, i) == SGPU_OK);
		ids[i] = atomic_load(&r.raw.submissions.entries[i * SGPU_DESCRIPTOR_WORDS + 1]);
	}
	for (uint64_t i = 0; i < 4; i++) {
		write_completion(i, (struct sgpu_ring_completion){ .cookie = ids[3 - i] });
		CHECK(ring_reap(&r).cookie == 3 - i);
	}
	ring_close(&r);
}

UNIT_TEST(a_descriptor_that_changes_after_the_check_changes_nothing)
{
	REQUIRE(ring_open(&r, 4, 8, false));
	write_submission(0, (struct sgpu_ring_descriptor){
				    .opcode = OP_ANY, .handle = 1, .length = 2, .cookie = 3 });
	CHECK(worker_next() == SGPU_OK);
	memset((void *)r.raw.submissions.entries, 0xff, 64);
	CHECK(operation.handle == 1 && operation.length == 2);
	CHECK(sgpu_ring_finish(r.worker, SGPU_OK, 0, &ring_error) == SGPU_OK);
	CHECK(atomic_load(&r.raw.completions.entries[0]) == 3);
	ring_close(&r);
}

UNIT_TEST(pages_that_are_given_back_make_nobody_fall)
{
	REQUIRE(ring_open(&r, 4, 8, false));
	CHECK(ring_submit(&r, OP_ANY, 0) == SGPU_OK);
	REQUIRE(fallocate(r.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 8192) == 0);
	CHECK(worker_next() == SGPU_ERETRY); /* an empty queue */
	CHECK(client_reap() == SGPU_OK);
	for (uint64_t i = 0; i < 3; i++) {
		CHECK(ring_submit(&r, OP_ANY, i) == SGPU_OK);
	}
	REQUIRE(fallocate(r.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 8192) == 0);
	(void)worker_next();
	(void)ring_submit(&r, OP_ANY, 9);
	(void)client_reap();
	ring_close(&r);
}

/* ---- every byte ---- */

static bool allowed(int code)
{
	return code == SGPU_OK || code == SGPU_EINVALID || code == SGPU_ERETRY;
}

/* A ring in the middle of its work: entries taken and not, completions reaped and not, one
 * operation started. */
static bool open_busy(void)
{
	if (!ring_open(&r, 4, 8, false)) {
		return false;
	}
	for (uint64_t i = 0; i < 5; i++) {
		CHECK(ring_submit(&r, OP_ANY, i) == SGPU_OK);
		if (i < 2) {
			CHECK(worker_next() == SGPU_OK);
			CHECK(i == 1 ||
			      sgpu_ring_finish(r.worker, SGPU_OK, 0, &ring_error) == SGPU_OK);
		}
	}
	return ring_reap(&r).cookie == 0;
}

/* Each side does all that it can. */
static void use_both(void)
{
	struct sgpu_ring_descriptor next;

	for (int i = 0; i < 4; i++) {
		CHECK(allowed(sgpu_ring_next(r.worker, &next, &ring_error)));
		CHECK(allowed(ring_submit(&r, OP_ANY, 9)));
		if (i == 1) {
			CHECK(allowed(sgpu_ring_finish(r.worker, SGPU_OK, 0, &ring_error)));
		}
		CHECK(allowed(client_reap()));
	}
}

UNIT_TEST(every_byte_can_have_any_value_at_any_time)
{
	static const uint8_t masks[] = { 0x01, 0x80, 0xff };
	size_t used =
		SGPU_RING_PAGE + 4 * SGPU_RING_DESCRIPTOR_SIZE + 8 * SGPU_RING_COMPLETION_SIZE;
	volatile uint8_t *bytes;

	for (size_t i = 0; i < used && !unit_bad; i++) {
		if (i == sizeof(struct sgpu_ring_header)) {
			i = SGPU_RING_PAGE; /* nobody reads between */
		}
		for (size_t m = 0; m < sizeof(masks); m++) {
			REQUIRE(open_busy());
			bytes = (volatile uint8_t *)r.raw.header;
			bytes[i] = (uint8_t)(bytes[i] ^ masks[m]);
			use_both();
			ring_close(&r);
		}
	}
}

/* ---- at random, while both sides run ---- */

static atomic_bool over;
static _Atomic uint64_t scribbled; /* bytes */

static void *scribble(void *argument)
{
	volatile uint8_t *bytes = (volatile uint8_t *)r.raw.header;
	const size_t used =
		SGPU_RING_PAGE + 4 * SGPU_RING_DESCRIPTOR_SIZE + 8 * SGPU_RING_COMPLETION_SIZE;

	for (uint64_t i = 0; !atomic_load(&over); i++) {
		const uint64_t number = random_number() + (uintptr_t)argument;
		/* Mostly where it matters. */
		size_t place = number % 8 < 3
				       ? 256 + 128 * (number / 8 % 4) + number / 64 % 8
				       : SGPU_RING_PAGE + number / 8 % (used - SGPU_RING_PAGE);

		bytes[place] =
			number % 16 == 0 ? (uint8_t)(number >> 20) : (uint8_t)(number >> 20 & 1);
		atomic_fetch_add(&scribbled, 1);
	}
	return NULL;
}

static void *run_worker(void *argument)
{
	struct sgpu_ring_descriptor op;
	struct sgpu_error error;
	uintptr_t bad = 0;
	int rc;

	(void)argument;
	while (!atomic_load(&over)) {
		rc = sgpu_ring_next(r.worker, &op, &error);
		bad += !allowed(rc);
		if (rc == SGPU_OK) {
			bad += !allowed(sgpu_ring_finish(r.worker, SGPU_OK, 0, &error));
		} else if (rc == SGPU_ERETRY) {
			rc = sgpu_ring_await(r.worker, sgpu_now_ns() + 100000, &error);
			bad += !allowed(rc) && rc != SGPU_ETIMEOUT;
		}
	}
	return (void *)bad;
}

UNIT_TEST(bytes_that_change_all_the_time_make_faults_and_nothing_else)
{
	enum { RINGS = 60, CALLS = 2000, BYTES = 20000 };
	pthread_t scribbler, worker;
	void *bad;
	int rc, faults = 0;

	for (uintptr_t i = 0; i < RINGS && !unit_bad; i++) {
		REQUIRE(ring_open(&r, 4, 8, i % 2));
		atomic_store(&over, false);
		atomic_store(&scribbled, 0);
		REQUIRE(pthread_create(&worker, NULL, run_worker, NULL) == 0);
		REQUIRE(pthread_create(&scribbler, NULL, scribble, (void *)(i * 7919)) == 0);
		/* However late the threads begin, they meet. */
		for (int call = 0; call < CALLS || atomic_load(&scribbled) < BYTES; call++) {
			CHECK(allowed(ring_submit(&r, OP_ANY, (uint64_t)call)));
			rc = client_reap();
			CHECK(allowed(rc));
			if (rc == SGPU_EINVALID) {
				faults++;
				break;
			}
		}
		atomic_store(&over, true);
		pthread_join(scribbler, NULL);
		pthread_join(worker, &bad);
		CHECK(!bad);
		ring_close(&r);
	}
	printf("# %d of %d rings faulted\n", faults, RINGS);
	CHECK(faults > 0); /* or nothing was tried */
}

/* ---- death ---- */

/* Submits and reaps until it is killed. */
static void be_client(void)
{
	struct sgpu_ring_result results[8];
	struct sgpu_error error;
	size_t count;

	for (uint64_t i = 0;; i++) {
		if (ring_submit(&r, OP_ANY, i) == SGPU_ERETRY &&
		    sgpu_ring_await(r.client, 0, &error) < 0) {
			_exit(1);
		}
		if (sgpu_ring_reap(r.client, results, i % 8, &count, &error) < 0) {
			_exit(1);
		}
	}
}

/* One step of a worker, which waits until `deadline` if there is nothing to do. */
static int work(uint64_t deadline)
{
	const int rc = worker_next();

	return rc == SGPU_OK	   ? sgpu_ring_finish(r.worker, SGPU_OK, 0, &ring_error)
	       : rc == SGPU_ERETRY ? sgpu_ring_await(r.worker, deadline, &ring_error)
				   : rc;
}

static void be_worker(void)
{
	while (work(0) == SGPU_OK) {
	}
	_exit(1);
}

/* Starts the other side as a process, which has only its own end of the doorbell. */
static pid_t start_other(bool client)
{
	pid_t child = fork();

	if (child == 0) {
		close(client ? r.worker_end : r.client_end);
		if (client) {
			be_client();
		}
		be_worker();
	}
	close(client ? r.client_end : r.worker_end);
	*(client ? &r.client_end : &r.worker_end) = -1;
	return child;
}

static void end_other(pid_t child)
{
	int status;

	kill(child, SIGKILL);
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
	      WTERMSIG(status) == SIGKILL);
}

enum { DEATHS = 60 };

UNIT_TEST(a_worker_survives_the_death_of_its_client_at_any_point)
{
	uint64_t begin, served;
	pid_t child;
	int rc;

	for (int i = 0; i < DEATHS && !unit_bad; i++) {
		const uint64_t enough = random_number() % 500;
		bool killed = false;

		REQUIRE(ring_open(&r, 4, 8, true));
		child = start_other(true);
		begin = sgpu_now_ns();
		for (served = 0, rc = SGPU_OK; rc == SGPU_OK; served++) {
			if (served == enough) {
				end_other(child);
				killed = true;
				begin = sgpu_now_ns();
			}
			rc = work(sgpu_now_ns() + 10 * (uint64_t)SECOND);
		}
		CHECK(killed && rc == SGPU_ESYSTEM && sgpu_now_ns() - begin < SLOW);
		if (!killed) {
			end_other(child);
		}
		ring_close(&r);
	}
}

UNIT_TEST(a_client_survives_the_death_of_its_worker_at_any_point)
{
	struct sgpu_ring_result results[8];
	uint64_t begin;
	size_t count;
	pid_t child;
	int rc;

	for (int i = 0; i < DEATHS && !unit_bad; i++) {
		const uint64_t enough = random_number() % 500;
		bool killed = false;

		REQUIRE(ring_open(&r, 4, 8, true));
		child = start_other(false);
		begin = sgpu_now_ns();
		rc = SGPU_OK;
		for (uint64_t number = 0; rc == SGPU_OK; number++) {
			if (number == enough) {
				end_other(child);
				killed = true;
				begin = sgpu_now_ns();
			}
			rc = ring_submit(&r, OP_ANY, number);
			if (rc == SGPU_ERETRY) {
				rc = sgpu_ring_await(r.client,
						     sgpu_now_ns() + 10 * (uint64_t)SECOND,
						     &ring_error);
			}
			if (rc == SGPU_OK) {
				rc = sgpu_ring_reap(r.client, results, 1 + number % 8, &count,
						    &ring_error);
			}
		}
		CHECK(killed && rc == SGPU_ESYSTEM && sgpu_now_ns() - begin < SLOW);
		if (!killed) {
			end_other(child);
		}
		ring_close(&r);
	}
}

/* Both sides sleep when the other one dies. */
UNIT_TEST(death_wakes_a_side_that_sleeps)
{
	uint64_t begin;
	pid_t child;

	REQUIRE(ring_open(&r, 4, 8, true));
	child = start_other(false); /* it has nothing to do */
	CHECK(sgpu_ring_await(r.client, sgpu_now_ns() + 50000000, &ring_error) == SGPU_ETIMEOUT);
	kill(child, SIGKILL);
	begin = sgpu_now_ns();
	CHECK(sgpu_ring_await(r.client, begin + 10 * (uint64_t)SECOND, &ring_error) ==
	      SGPU_ESYSTEM);
	CHECK(sgpu_now_ns() - begin < SLOW);
	CHECK(waitpid(child, NULL, 0) == child);
	ring_close(&r);
}

int main(void)
{
	UNIT_RUN(a_descriptor_that_may_not_be_faults_the_ring_for_good);
	UNIT_RUN(a_client_cannot_have_more_open_than_it_has_room_for);
	UNIT_RUN(a_head_that_cannot_be_faults_the_ring);
	UNIT_RUN(a_completion_must_answer_an_open_submission_once);
	UNIT_RUN(completions_come_in_any_order);
	UNIT_RUN(a_descriptor_that_changes_after_the_check_changes_nothing);
	UNIT_RUN(pages_that_are_given_back_make_nobody_fall);
	UNIT_RUN(every_byte_can_have_any_value_at_any_time);
	UNIT_RUN(bytes_that_change_all_the_time_make_faults_and_nothing_else);
	UNIT_RUN(a_worker_survives_the_death_of_its_client_at_any_point);
	UNIT_RUN(a_client_survives_the_death_of_its_worker_at_any_point);
	UNIT_RUN(death_wakes_a_side_that_sleeps);
	return unit_done();
}
