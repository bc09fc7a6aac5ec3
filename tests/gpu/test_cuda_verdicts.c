/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernels that open and seal say of their work, and whoever waits for a stream hears there
 * without asking the driver: it is heard only when all is right, and everything else ends as it
 * does without that. The kernels are those of test_cuda_aead: racecheck has nothing to find.
 */
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "crypto/crypto.h"
#include "device/device.h"
#include "bus_recorder.h"
#include "cuda_harness.h"
#include "work_calls.h"

enum {
	C = SGPU_CHUNK,
	SIZE = 3 * C + 777,
	SEALED = SIZE + 4 * SGPU_TAG_SIZE,
	BAD = C + SGPU_TAG_SIZE + 100
};

static bool small; /* under a checker: little of everything */
static struct sgpu_sealed_keys keys;
static uint8_t plain[SIZE], sealed[SEALED], broken[SEALED];
static struct sgpu_device_key *key;

/* A stream and its memory. */
struct place {
	struct sgpu_stream *stream;
	sgpu_devptr good, bad, out, more; /* sealed, sealed with a bit changed, and room for two */
	uint8_t *host;			  /* pinned: the sealed bytes, and room for as many */
};

enum way { OPEN, SEAL, OPEN_FROM, SEAL_TO, WAYS };

static void make_segment(void)
{
	struct sgpu_aead *aead = NULL;

	for (size_t i = 0; i < SIZE; i++) {
		plain[i] = (uint8_t)(i * 7 + i / 251);
	}
	keys = (struct sgpu_sealed_keys){ .key = { 9, 8, 7 }, .base_nonce = { 6, 5 } };
	REQUIRE(sgpu_aead_create(NULL, keys.key, &aead, NULL) == SGPU_OK);
	CHECK(sgpu_seal_chunks(aead, &keys, 0, true, plain, SIZE, sealed) == SGPU_OK);
	sgpu_aead_free(&aead);
	memcpy(broken, sealed, SEALED);
	broken[BAD] ^= 2;
}

static bool take_place(struct place *p)
{
	void *host = NULL;
	bool done = sgpu_stream_create(device, &p->stream, NULL) == SGPU_OK &&
		    sgpu_device_alloc(device, SEALED, &p->good, NULL) == SGPU_OK &&
		    sgpu_device_alloc(device, SEALED, &p->bad, NULL) == SGPU_OK &&
		    sgpu_device_alloc(device, SEALED, &p->out, NULL) == SGPU_OK &&
		    sgpu_device_alloc(device, SEALED, &p->more, NULL) == SGPU_OK &&
		    sgpu_host_alloc(device, 2 * SEALED, &host, NULL) == SGPU_OK &&
		    sgpu_copy_in(p->stream, p->good, sealed, SEALED, NULL) == SGPU_OK &&
		    sgpu_copy_in(p->stream, p->bad, broken, SEALED, NULL) == SGPU_OK &&
		    sgpu_stream_sync(p->stream, NULL) == SGPU_OK;

	p->host = host;
	if (done) {
		memcpy(p->host, sealed, SEALED);
	}
	return done;
}

static void give_place(struct place *p)
{
	void *host = p->host;

	sgpu_stream_free(&p->stream);
	sgpu_device_free(device, &p->good, SEALED);
	sgpu_device_free(device, &p->bad, SEALED);
	sgpu_device_free(device, &p->out, SEALED);
	sgpu_device_free(device, &p->more, SEALED);
	sgpu_host_free(device, &host, 2 * SEALED);
}

/* Opens a device, with a key of which all work has been used before. */
static bool begin_with_key(struct place *p)
{
	*p = (struct place){ .stream = NULL };
	if (!begin()) {
		return false;
	}
	make_segment();
	return take_place(p) && sgpu_device_key_load(p->stream, &keys, &key, NULL) == SGPU_OK &&
	       sgpu_device_synchronize(device, NULL) == SGPU_OK;
}

static void finish_with_key(struct place *p)
{
	CHECK(works());
	sgpu_device_key_free(&key);
	give_place(p);
	finish();
}

static int enqueue(struct place *p, enum way way, struct sgpu_task *task)
{
	*task = (struct sgpu_task){ .untimed = true };
	switch (way) {
	case OPEN:
		return sgpu_device_open_chunks(p->stream, key, 0, true, p->good, SEALED, p->out,
					       task);
	case SEAL:
		return sgpu_device_seal_chunks(p->stream, key, 0, true, p->more, SIZE, p->out,
					       task);
	case OPEN_FROM:
		return open_from(p->stream, key, 0, true, p->host, SEALED, p->out, task);
	default:
		return seal_to(p->stream, key, 0, true, p->more, SIZE, p->host + SEALED, task);
	}
}

/* The bytes of device memory, by another stream. */
static bool holds(sgpu_devptr memory, const uint8_t *bytes, size_t size)
{
	static _Thread_local uint8_t got[SEALED];

	return sgpu_copy_out(stream, got, memory, size, NULL) == SGPU_OK &&
	       sgpu_stream_sync(stream, NULL) == SGPU_OK &&
	       (bytes ? memcmp(got, bytes, size) == 0 : all_are(got, size, 0));
}

static bool prepare(struct place *p, enum way way)
{
	const uint8_t *in = way == SEAL || way == SEAL_TO ? plain : NULL;

	memset(p->host + SEALED, 0, SEALED);
	return (!in || sgpu_copy_in(p->stream, p->more, in, SIZE, NULL) == SGPU_OK) &&
	       sgpu_device_clear(p->stream, p->out, SEALED, NULL) == SGPU_OK &&
	       sgpu_stream_sync(p->stream, NULL) == SGPU_OK;
}

static bool came_out(struct place *p, enum way way)
{
	return way == SEAL	? holds(p->out, sealed, SEALED)
	       : way == SEAL_TO ? memcmp(p->host + SEALED, sealed, SEALED) == 0
				: holds(p->out, plain, SIZE);
}

/* Waits until the device has done everything, past the library. */
static bool device_is_done(void)
{
	void *found = bus_find(bus.library, "cuCtxSynchronize");
	int (*wait)(void);

	memcpy(&wait, &found, sizeof(found));
	return wait && wait() == 0;
}

/* Whether the host sees at once what kernels write: not in confidential computing mode. */
static bool sees_words(void)
{
	struct sgpu_device_info info;

	CHECK(sgpu_device_get_info(device, &info, NULL) == SGPU_OK);
	return strcmp(info.confidential, "off") == 0;
}

/* Waits for the stream; how many events that took. */
static unsigned events_of_sync(struct place *p)
{
	const unsigned before = bus.events;

	CHECK(sgpu_stream_sync(p->stream, NULL) == SGPU_OK);
	return bus.events - before;
}

/* Whether an event behind all the stream's work, which the device has done, is said to be done. */
static bool is_done_at_once(struct place *p)
{
	struct sgpu_event *event = NULL;
	bool done = false;

	CHECK(sgpu_event_create(device, &event, NULL) == SGPU_OK &&
	      sgpu_event_record(p->stream, event) == SGPU_OK && device_is_done());
	CHECK(sgpu_event_query(event, &done, NULL) == SGPU_OK);
	sgpu_event_free(&event);
	return done;
}

UNIT_TEST(work_that_is_right_is_heard_without_an_event)
{
	struct place p;
	struct sgpu_task task;
	unsigned expected;

	REQUIRE(begin_with_key(&p));
	expected = sees_words() ? 0 : 1;
	printf("# each takes %u events\n", expected);
	for (int i = 0; i < (small ? 1 : 20); i++) {
		for (enum way way = OPEN; way < WAYS; way++) {
			REQUIRE(prepare(&p, way));
			REQUIRE(enqueue(&p, way, &task) == SGPU_OK && device_is_done());
			CHECK(events_of_sync(&p) == expected && task.code == SGPU_OK);
			CHECK(events_of_sync(&p) == 0); /* it knows */
			/* The same by an event behind it. */
			REQUIRE(prepare(&p, way));
			REQUIRE(enqueue(&p, way, &task) == SGPU_OK && device_is_done());
			CHECK(is_done_at_once(&p) && task.code == SGPU_OK && came_out(&p, way));
			CHECK(came_out(&p, way));
			/* While it works. */
			REQUIRE(prepare(&p, way));
			REQUIRE(enqueue(&p, way, &task) == SGPU_OK);
			CHECK(events_of_sync(&p) <= 1 && task.code == SGPU_OK && came_out(&p, way));
		}
	}
	finish_with_key(&p);
}

UNIT_TEST(a_chunk_that_does_not_verify_is_told_and_nothing_is_left)
{
	struct place p;
	struct sgpu_task bad, good;

	REQUIRE(begin_with_key(&p));
	for (int i = 0; i < (small ? 4 : 200); i++) {
		const bool waits = i % 2, bad_first = i % 4 < 2;

		REQUIRE(prepare(&p, OPEN));
		/* Alone. */
		bad = (struct sgpu_task){ .untimed = true };
		REQUIRE(sgpu_device_open_chunks(p.stream, key, 0, true, p.bad, SEALED, p.out,
						&bad) == SGPU_OK);
		REQUIRE(!waits || device_is_done());
		CHECK(events_of_sync(&p) == 2); /* one to wait, and one to clear what was opened */
		CHECK(bad.code == SGPU_EAUTH && bad.bad_chunk == 1 && holds(p.out, NULL, SIZE));
		/* Before or behind one that is right. */
		bad = good = (struct sgpu_task){ .untimed = true };
		for (int k = 0; k < 2; k++) {
			const bool this_bad = (k == 0) == bad_first;

			REQUIRE(sgpu_device_open_chunks(p.stream, key, 0, true,
							this_bad ? p.bad : p.good, SEALED,
							this_bad ? p.out : p.more,
							this_bad ? &bad : &good) == SGPU_OK);
		}
		REQUIRE(!waits || device_is_done());
		CHECK(sgpu_stream_sync(p.stream, NULL) == SGPU_OK);
		CHECK(bad.code == SGPU_EAUTH && bad.bad_chunk == 1 && holds(p.out, NULL, SIZE));
		CHECK(good.code == SGPU_OK && holds(p.more, plain, SIZE));
	}
	finish_with_key(&p);
}

UNIT_TEST(only_the_last_work_of_a_stream_is_listened_to)
{
	static uint8_t got[SIZE];
	struct place p;
	struct sgpu_task task, empty = { .untimed = true };

	REQUIRE(begin_with_key(&p));
	for (int i = 0; i < (small ? 2 : 50); i++) {
		REQUIRE(prepare(&p, OPEN));
		memset(got, 0, SIZE);
		REQUIRE(enqueue(&p, OPEN, &task) == SGPU_OK);
		REQUIRE(sgpu_copy_out(p.stream, got, p.out, SIZE, NULL) == SGPU_OK);
		CHECK(events_of_sync(&p) == 1 && task.code == SGPU_OK &&
		      memcmp(got, plain, SIZE) == 0);
		/* Of an empty run no kernel says anything. */
		REQUIRE(enqueue(&p, OPEN, &task) == SGPU_OK);
		REQUIRE(sgpu_device_open_chunks(p.stream, key, 4, false, p.good, 0, p.more,
						&empty) == SGPU_OK);
		CHECK(events_of_sync(&p) == 1 && task.code == SGPU_OK && empty.code == SGPU_OK);
	}
	finish_with_key(&p);
}

static void add(struct sgpu_work *work, struct sgpu_device_key *with, sgpu_devptr in, uint64_t size,
		sgpu_devptr out, struct sgpu_task *task)
{
	*task = (struct sgpu_task){ .untimed = true };
	*work = (struct sgpu_work){ .kind = size == SEALED ? SGPU_WORK_OPEN : SGPU_WORK_SEAL,
				    .in = in,
				    .out = out,
				    .size = size,
				    .key = with,
				    .last = true,
				    .task = task };
}

/* Three pieces that open and two that seal, each with a key of its own. */
UNIT_TEST(pieces_of_one_kernel_are_heard_when_all_are_right)
{
	struct sgpu_sealed_keys same[5];
	struct sgpu_device_key *five[5];
	struct sgpu_task tasks[5];
	struct sgpu_work work[5];
	sgpu_devptr room = 0;
	struct place p;
	unsigned expected;

	REQUIRE(begin_with_key(&p));
	expected = sees_words() ? 0 : 1;
	for (int i = 0; i < 5; i++) {
		same[i] = keys;
	}
	REQUIRE(sgpu_device_alloc(device, 5 * SEALED, &room, NULL) == SGPU_OK);
	for (int i = 0; i < (small ? 2 : 100); i++) {
		const bool bad = i % 2;

		bus.launches = 0;
		REQUIRE(sgpu_device_keys_load(p.stream, same, 5, five, NULL) == SGPU_OK);
		CHECK(bus.launches == 1);
		add(&work[0], five[0], p.good, SEALED, room, &tasks[0]);
		add(&work[1], five[1], bad ? p.bad : p.good, SEALED, room + SEALED, &tasks[1]);
		add(&work[2], five[2], p.good, SEALED, room + 2 * SEALED, &tasks[2]);
		CHECK(sgpu_enqueue(p.stream, work, 3) == SGPU_OK && bus.launches == 2);
		CHECK(i % 4 < 2 || device_is_done());
		CHECK(i % 4 < 2 ? sgpu_stream_sync(p.stream, NULL) == SGPU_OK
				: events_of_sync(&p) == (bad ? 2 : expected));
		for (int k = 0; k < 3; k++) {
			const bool this_bad = bad && k == 1;

			CHECK(tasks[k].code == (this_bad ? SGPU_EAUTH : SGPU_OK));
			CHECK(holds(room + (uint64_t)k * SEALED, this_bad ? NULL : plain, SIZE));
		}
		bus.launches = 0;
		add(&work[3], five[3], room, SIZE, room + 3 * SEALED, &tasks[3]);
		add(&work[4], five[4], room + 2 * SEALED, SIZE, room + 4 * SEALED, &tasks[4]);
		CHECK(sgpu_enqueue(p.stream, work + 3, 2) == SGPU_OK && bus.launches == 1);
		CHECK(bad ? is_done_at_once(&p) : sgpu_stream_sync(p.stream, NULL) == SGPU_OK);
		CHECK(tasks[3].code == SGPU_OK && holds(room + 3 * SEALED, sealed, SEALED));
		CHECK(tasks[4].code == SGPU_OK && holds(room + 4 * SEALED, sealed, SEALED));
		for (int k = 0; k < 5; k++) {
			sgpu_device_key_free(&five[k]);
		}
	}
	sgpu_device_free(device, &room, 5 * SEALED);
	finish_with_key(&p);
}

/* Two streams work at once, while everything is cancelled again and again. */
struct user {
	pthread_t thread;
	struct place place;
	unsigned right, refused, cancelled, wrong;
	int rounds;
};

static void *use(void *argument)
{
	struct user *u = argument;
	struct place *p = &u->place;
	static _Thread_local uint8_t got[SIZE];

	for (int i = 0; i < u->rounds; i++) {
		const bool bad = i % 3 == 1;
		struct sgpu_task task = { .untimed = true };
		bool sound =
			sgpu_device_clear(p->stream, p->out, SIZE, NULL) == SGPU_OK &&
			sgpu_stream_sync(p->stream, NULL) == SGPU_OK &&
			sgpu_device_open_chunks(p->stream, key, 0, true, bad ? p->bad : p->good,
						SEALED, p->out, &task) == SGPU_OK &&
			sgpu_stream_sync(p->stream, NULL) == SGPU_OK &&
			sgpu_copy_out(p->stream, got, p->out, SIZE, NULL) == SGPU_OK &&
			sgpu_stream_sync(p->stream, NULL) == SGPU_OK;

		if (sound && !bad && task.code == SGPU_OK && memcmp(got, plain, SIZE) == 0) {
			u->right++;
		} else if (sound && bad && task.code == SGPU_EAUTH && task.bad_chunk == 1 &&
			   all_are(got, SIZE, 0)) {
			u->refused++;
		} else if (sound && task.code == SGPU_ECANCELED && all_are(got, SIZE, 0)) {
			u->cancelled++;
		} else {
			u->wrong++;
		}
	}
	return NULL;
}

UNIT_TEST(work_that_is_cancelled_while_somebody_listens_is_right_or_did_not_happen)
{
	struct place p;
	struct user users[2] = { { .rounds = small ? 6 : 3000 }, { .rounds = small ? 6 : 3000 } };
	struct sgpu_task task;

	REQUIRE(begin_with_key(&p));
	sgpu_device_cancel(device, true);
	REQUIRE(prepare(&p, OPEN) && enqueue(&p, OPEN, &task) == SGPU_OK);
	CHECK(sgpu_stream_sync(p.stream, NULL) == SGPU_OK && task.code == SGPU_ECANCELED &&
	      holds(p.out, NULL, SIZE));
	sgpu_device_cancel(device, false);
	for (int i = 0; i < 2; i++) {
		REQUIRE(take_place(&users[i].place));
		REQUIRE(pthread_create(&users[i].thread, NULL, use, &users[i]) == 0);
	}
	for (int i = 0; i < (small ? 2 : 100); i++) {
		usleep(1000);
		sgpu_device_cancel(device, true);
		usleep(200);
		sgpu_device_cancel(device, false);
	}
	for (int i = 0; i < 2; i++) {
		const struct user *u = &users[i];

		pthread_join(u->thread, NULL);
		printf("# %u right, %u refused, %u cancelled\n", u->right, u->refused,
		       u->cancelled);
		CHECK(u->wrong == 0 && u->right + u->refused + u->cancelled == (unsigned)u->rounds);
		give_place(&users[i].place);
	}
	REQUIRE(prepare(&p, OPEN) && enqueue(&p, OPEN, &task) == SGPU_OK);
	CHECK(sgpu_stream_sync(p.stream, NULL) == SGPU_OK && task.code == SGPU_OK &&
	      came_out(&p, OPEN));
	finish_with_key(&p);
}

int main(void)
{
	CUDA_OR_SKIP();
	small = getenv("SGPU_TEST_SMALL") != NULL;
	UNIT_RUN(work_that_is_right_is_heard_without_an_event);
	UNIT_RUN(a_chunk_that_does_not_verify_is_told_and_nothing_is_left);
	UNIT_RUN(only_the_last_work_of_a_stream_is_listened_to);
	UNIT_RUN(pieces_of_one_kernel_are_heard_when_all_are_right);
	UNIT_RUN(work_that_is_cancelled_while_somebody_listens_is_right_or_did_not_happen);
	free(bus.data);
	return unit_done();
}
