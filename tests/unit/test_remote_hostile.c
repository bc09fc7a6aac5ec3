/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions over rings whose other side is hostile: to the worker, to the program, and both while
 * somebody writes to what they share.
 */
#include "remote_harness.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "base/base.h"
#include "channel/context.h"

/* ---- a hostile program ---- */
struct attacker {
	struct sgpu_ring *ring;
	uint8_t *area;
};

static bool open_attacker(const struct worker *w, struct attacker *a)
{
	const struct sgpu_ring_config config = { .doorbell = w->near.bell };

	return sgpu_ring_open(w->near.memory, &config, &a->ring, &error) == SGPU_OK &&
	       sgpu_link_map(w->near.area, &a->area, &error) == SGPU_OK;
}

static void close_attacker(struct attacker *a)
{
	sgpu_ring_close(&a->ring);
	sgpu_link_unmap(&a->area);
}

static int ask(struct attacker *a, const struct sgpu_ring_descriptor *d,
	       struct sgpu_ring_result *result)
{
	size_t count = 0;
	int rc = sgpu_ring_submit(a->ring, d, &error);

	while (rc == SGPU_OK && count == 0) {
		rc = sgpu_ring_await(a->ring, 0, &error);
		rc = rc == SGPU_OK ? sgpu_ring_reap(a->ring, result, 1, &count, &error) : rc;
	}
	return rc;
}

UNIT_TEST(descriptors_that_are_none_end_their_session)
{
	static const struct sgpu_ring_descriptor bad[] = {
		{ .opcode = LINK_MESSAGE, .length = 0 },
		{ .opcode = LINK_MESSAGE, .length = SGPU_MESSAGE_MAX + 1 },
		{ .opcode = LINK_MESSAGE, .length = UINT64_MAX },
		{ .opcode = LINK_MESSAGE, .length = 32, .offset = 1 },
		{ .opcode = LINK_MESSAGE, .length = 32, .handle = 1 },
		{ .opcode = LINK_MESSAGE, .length = 32, .argument = 1 },
		{ .opcode = LINK_MESSAGE + 1, .length = 32 },
		{ .opcode = 255 },
	};
	struct attacker a;
	struct worker w;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		start_worker(&w);
		REQUIRE(open_attacker(&w, &a));
		/* The thread has ended, but the bell is the test's: so nothing is waited for. */
		CHECK(sgpu_ring_submit(a.ring, &bad[i], &error) == SGPU_OK);
		pthread_join(w.thread, NULL);
		CHECK(w.rc == SGPU_EINVALID);
		sgpu_remote_service_free(&w.service);
		close_attacker(&a);
		CHECK(end_worker(&w) == SGPU_EINVALID);
	}
}

UNIT_TEST(messages_that_are_none_are_refused_and_the_session_goes_on)
{
	static const size_t sizes[] = { 2, 9, 31, 33, 100, SGPU_MESSAGE_MAX };
	struct sgpu_hello hello;
	struct sgpu_ring_descriptor d = { .opcode = LINK_MESSAGE };
	struct sgpu_ring_result result;
	struct attacker a;
	struct worker w;

	start_worker(&w);
	REQUIRE(open_attacker(&w, &a));
	for (unsigned i = 0; i < 60; i++) {
		d.length = sizes[i % SGPU_ARRAY_LENGTH(sizes)];
		fill(a.area + SGPU_AREA_SIZE, (size_t)d.length, i);
		CHECK(ask(&a, &d, &result) == SGPU_OK && result.status == SGPU_OK &&
		      result.value == 9);
		CHECK(memcmp(a.area + SGPU_AREA_SIZE, "\0\0\0\0\0\0\0\0", 8) == 0);
	}
	/* A grant may be had all the same. */
	a.area[SGPU_AREA_SIZE] = 0;
	d.length = SGPU_QUESTION_SIZE;
	CHECK(ask(&a, &d, &result) == SGPU_OK && result.value == SGPU_CHALLENGE_SIZE);
	REQUIRE(sgpu_hello_make(a.area + SGPU_AREA_SIZE, &runner_key, own_key.public_half, &signer,
				&hello, &error) == SGPU_OK);
	memcpy(a.area + SGPU_AREA_SIZE, hello.text, hello.size);
	d.length = hello.size;
	CHECK(ask(&a, &d, &result) == SGPU_OK && result.value == SGPU_GRANT_SIZE);
	close_attacker(&a);
	CHECK(end_worker(&w) == SGPU_OK);
}

/* The allocator gives a channel that is another's. */
UNIT_TEST(a_session_ends_whose_channel_cannot_be_made)
{
	bool taken[SGPU_CHANNEL_MAX];
	struct sgpu_remote *remote;
	struct worker w;

	start_worker(&w);
	memcpy(taken, context->ground->taken, sizeof(taken));
	memset(context->ground->taken, true, sizeof(taken));
	CHECK(open_ring(&w.near, 200000000, &remote) != SGPU_OK && !remote);
	CHECK(end_worker(&w) == SGPU_EAUTH);
	memcpy(context->ground->taken, taken, sizeof(taken));
}

UNIT_TEST(a_flood_of_messages_does_not_keep_a_session_from_being_stopped)
{
	const struct sgpu_ring_descriptor d = { .opcode = LINK_MESSAGE, .length = 1 };
	struct sgpu_ring_result results[LINK_ENTRIES];
	struct attacker a;
	struct worker w;
	size_t count;
	int rc = SGPU_OK;

	start_worker(&w);
	REQUIRE(open_attacker(&w, &a));
	for (int i = 0; i < 20000 && (rc == SGPU_OK || rc == SGPU_ERETRY); i++) {
		rc = sgpu_ring_submit(a.ring, &d, &error);
		if (rc == SGPU_OK || rc == SGPU_ERETRY) {
			CHECK(sgpu_ring_reap(a.ring, results, LINK_ENTRIES, &count, &error) ==
			      SGPU_OK);
		}
		if (i == 10000) {
			sgpu_remote_service_stop(w.service);
		}
	}
	close_attacker(&a);
	CHECK(end_worker(&w) == SGPU_OK);
}

/* ---- files that are not what they should be ---- */
static int memory_file(size_t size, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)size) != 0 ||
	    (seals && fcntl(fd, F_ADD_SEALS, seals) != 0)) {
		abort();
	}
	return fd;
}

UNIT_TEST(without_a_descriptor_for_its_second_file_a_link_has_none)
{
	struct rlimit before, few;
	const int free = dup(STDOUT_FILENO);
	int memory = free, area = free;

	close(free);
	REQUIRE(free >= 0 && getrlimit(RLIMIT_NOFILE, &before) == 0);
	few = (struct rlimit){ (rlim_t)free + 1, before.rlim_max };
	REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
	CHECK(sgpu_link_create(&memory, &area, &error) == SGPU_ESYSTEM && memory == -1 &&
	      area == -1);
	CHECK(dup(STDOUT_FILENO) == free);
	close(free);
	CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
}

UNIT_TEST(files_that_could_change_or_are_none_are_refused)
{
	enum { SIZE = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };
	int pipes[2] = { -1, -1 };
	struct worker w;

	REQUIRE(pipe(pipes) == 0);
	const struct {
		int fd, rc;
	} bad[] = {
		{ memory_file(LINK_SIZE, 0), SGPU_EPOLICY },
		{ memory_file(LINK_SIZE, F_SEAL_SHRINK), SGPU_EPOLICY },
		{ memory_file(LINK_SIZE, F_SEAL_SHRINK | F_SEAL_GROW), SGPU_EPOLICY },
		{ memory_file(LINK_SIZE, SIZE | F_SEAL_WRITE), SGPU_EINVALID },
		{ memory_file(LINK_SIZE - 4096, SIZE), SGPU_EINVALID },
		{ memory_file(LINK_SIZE + 4096, SIZE), SGPU_EINVALID },
		{ memory_file(0, SIZE), SGPU_EINVALID },
		{ pipes[0], SGPU_EINVALID },
		{ open("/dev/zero", O_RDWR | O_CLOEXEC), SGPU_EINVALID },
		{ open("/", O_RDONLY | O_CLOEXEC), SGPU_EINVALID },
		{ -1, SGPU_ESYSTEM },
	};

	make_ends(&w);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		for (int which = 0; which < 2; which++) {
			const struct sgpu_remote_ring far = {
				.bell = w.far.bell,
				.area = which ? w.far.area : bad[i].fd,
				.memory = which ? bad[i].fd : w.far.memory
			};
			struct sgpu_remote *remote = NULL;
			int rc = sgpu_remote_service_create(context, LIMIT, &anybody, &far,
							    &w.service, &error);

			CHECK(!w.service && (rc == bad[i].rc || (which && rc < 0)));
			rc = open_ring(&far, 0, &remote);
			CHECK(!remote && (rc == bad[i].rc || (which && rc < 0)));
		}
		close(bad[i].fd);
	}
	close(pipes[1]);
	end_worker(&w);
}

/* ---- a hostile worker ---- */
enum answer { NOTHING_AT_ALL, TOO_LONG, GARBAGE, NEGATIVE, SHORT, ENORMOUS, REFUSED, ANSWERS };

struct hostile {
	struct worker w;
	struct sgpu_ring *ring;
	uint8_t *area;
	enum answer how;
};

/* Answers as it likes until the program has gone. */
static void *answer_badly(void *argument)
{
	struct hostile *h = argument;
	struct sgpu_ring_descriptor operation;
	int rc = SGPU_OK;

	while (rc == SGPU_OK) {
		rc = sgpu_ring_next(h->ring, &operation, NULL);
		if (rc == SGPU_ERETRY) {
			rc = sgpu_ring_await(h->ring, 0, NULL);
		} else if (rc == SGPU_OK) {
			static const struct {
				int status;
				uint64_t value;
			} answers[ANSWERS] = {
				[TOO_LONG] = { 0, SGPU_MESSAGE_MAX + 1 },
				[GARBAGE] = { 0, SGPU_GRANT_SIZE },
				[NEGATIVE] = { SGPU_ECANCELED, 0 },
				[SHORT] = { 0, 3 },
				[ENORMOUS] = { 0, UINT64_MAX },
				[REFUSED] = { 0, 9 },
			};

			fill(h->area + SGPU_AREA_SIZE, SGPU_MESSAGE_MAX, 5);
			if (h->how == NOTHING_AT_ALL) {
				close(h->w.far.bell);
				h->w.far.bell = -1;
				return NULL;
			}
			rc = sgpu_ring_finish(h->ring, answers[h->how].status,
					      answers[h->how].value, NULL);
		}
	}
	return NULL;
}

UNIT_TEST(a_program_believes_no_worker)
{
	for (enum answer how = NOTHING_AT_ALL; how < ANSWERS; how++) {
		struct hostile h = { .how = how };
		static const uint8_t members[SGPU_RING_OPCODES] = {
			[LINK_MESSAGE] = SGPU_RING_KNOWN | SGPU_RING_LENGTH
		};
		struct sgpu_ring_config config = { .members = members };
		struct sgpu_remote *remote = NULL;
		pthread_t thread;
		int rc;

		make_ends(&h.w);
		config.doorbell = h.w.far.bell;
		REQUIRE(sgpu_ring_open(h.w.far.memory, &config, &h.ring, &error) == SGPU_OK &&
			sgpu_link_map(h.w.far.area, &h.area, &error) == SGPU_OK);
		REQUIRE(pthread_create(&thread, NULL, answer_badly, &h) == 0);
		rc = open_ring(&h.w.near, 0, &remote);
		CHECK(!remote && (rc == SGPU_EAUTH || rc == SGPU_EINVALID || rc == SGPU_ESYSTEM ||
				  rc == SGPU_EKEY));
		close(h.w.near.bell);
		pthread_join(thread, NULL);
		sgpu_ring_close(&h.ring);
		sgpu_link_unmap(&h.area);
		h.w.near.bell = -1;
		end_worker(&h.w);
	}
}

UNIT_TEST(a_worker_that_never_answers_is_waited_for_as_long_as_the_program_says)
{
	struct sgpu_remote *remote = NULL;
	struct worker w;

	make_ends(&w);
	CHECK(open_ring(&w.near, 50000000, &remote) == SGPU_ETIMEOUT && !remote);
	CHECK(strstr(error.text, "does not answer") != NULL);
	end_worker(&w);
}

/* ---- somebody who writes to all that is shared ---- */
struct scribbler {
	uint8_t *at;
	size_t size;
	uint64_t seed;
	atomic_bool stop;
	pthread_t thread;
};

static void *scribble(void *argument)
{
	struct scribbler *s = argument;
	uint64_t x = s->seed;

	while (!atomic_load_explicit(&s->stop, memory_order_relaxed)) {
		x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		__atomic_fetch_xor(&s->at[(x >> 33) % s->size], (uint8_t)(1u << (x >> 29 & 7)),
				   __ATOMIC_RELAXED);
		for (int i = 0; i < 200; i++) {
			sgpu_pause();
		}
	}
	return NULL;
}

/* What comes back is right, or is not given. */
UNIT_TEST(a_program_that_goes_on_with_a_session_that_broke_stays_in_its_memory)
{
	enum { MOST = SGPU_REMOTE_PIECE, ROUNDS = 2 * SGPU_GROUP_ITEMS };
	uint8_t *data = calloc(1, MOST), small[100] = { 0 };
	struct sgpu_remote *remote;
	uint32_t buffer = 0, job = 0;
	struct worker w;

	start_worker(&w);
	remote = open_remote(&w);
	REQUIRE(data && remote && sgpu_remote_alloc(remote, MOST, &buffer, &error) == SGPU_OK);
	REQUIRE(sgpu_remote_copy_in(remote, buffer, 0, data, MOST, &error) == SGPU_OK);
	REQUIRE(sgpu_remote_copy_out(remote, data, buffer, 0, 1, &error) ==
		SGPU_OK); /* both keys are there */
	sgpu_remote_service_stop(w.service);
	pthread_join(w.thread, NULL);
	sgpu_remote_service_free(&w.service);
	for (int i = 0; i < ROUNDS; i++) {
		int rc = sgpu_remote_copy_in(remote, buffer, 0, i % 3 ? data : small,
					     i % 3 ? MOST : sizeof(small), &error);

		CHECK(rc != SGPU_OK || sgpu_remote_flush(remote, &error) != SGPU_OK);
		CHECK(sgpu_remote_load(remote, ADDING, strlen(ADDING), &job, &error) != SGPU_OK);
		CHECK(sgpu_remote_copy_out(remote, data, buffer, 0, MOST, &error) != SGPU_OK);
		CHECK(remote->area_used <= SGPU_AREA_SIZE && remote->pending <= SGPU_GROUP_ITEMS);
	}
	sgpu_remote_close(&remote);
	free(data);
	CHECK(end_worker(&w) == SGPU_OK);
}

UNIT_TEST(what_is_changed_while_it_is_read_gives_errors_and_nothing_wrong)
{
	static const struct {
		uint64_t offset;
		size_t size;
	} places[] = {
		{ 0, 3 * 4096 + 100 },	  /* what is sealed */
		{ SGPU_AREA_SIZE, 2000 }, /* messages */
		{ 0, LINK_SIZE },
	};
	struct scribbler s;
	struct worker w;

	for (unsigned i = 0; i < 24; i++) {
		static struct adding a;
		struct sgpu_remote *remote;
		uint8_t *area = NULL;
		int rc = SGPU_OK;

		start_worker(&w);
		remote = open_remote(&w);
		REQUIRE(remote && load_adding(remote, &a) == SGPU_OK &&
			add_once(remote, &a, 1) == SGPU_OK);
		REQUIRE(sgpu_link_map(w.near.area, &area, &error) == SGPU_OK);
		s = (struct scribbler){ .at = area + places[i % 3].offset,
					.size = places[i % 3].size,
					.seed = i };
		REQUIRE(pthread_create(&s.thread, NULL, scribble, &s) == 0);
		for (int round = 0; round < 50 && (rc == SGPU_OK || strstr(error.text, "verify"));
		     round++) {
			rc = add_once(remote, &a, round);
			CHECK(rc != SGPU_OK || is_added(&a, round));
			CHECK(rc == SGPU_OK || rc == SGPU_EAUTH || rc == SGPU_EINVALID);
		}
		atomic_store(&s.stop, true);
		pthread_join(s.thread, NULL);
		sgpu_link_unmap(&area);
		sgpu_remote_close(&remote);
		rc = end_worker(&w);
		CHECK(rc == SGPU_OK || rc == SGPU_EINVALID || rc == SGPU_EAUTH);
	}
}

int main(void)
{
	DEVICE_OR_SKIP();
	if (!open_all()) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	UNIT_RUN(descriptors_that_are_none_end_their_session);
	UNIT_RUN(messages_that_are_none_are_refused_and_the_session_goes_on);
	UNIT_RUN(a_session_ends_whose_channel_cannot_be_made);
	UNIT_RUN(a_flood_of_messages_does_not_keep_a_session_from_being_stopped);
	UNIT_RUN(without_a_descriptor_for_its_second_file_a_link_has_none);
	UNIT_RUN(files_that_could_change_or_are_none_are_refused);
	UNIT_RUN(a_program_believes_no_worker);
	UNIT_RUN(a_worker_that_never_answers_is_waited_for_as_long_as_the_program_says);
	UNIT_RUN(a_program_that_goes_on_with_a_session_that_broke_stays_in_its_memory);
	UNIT_RUN(what_is_changed_while_it_is_read_gives_errors_and_nothing_wrong);
	close_all();
	return unit_done();
}
