/* SPDX-License-Identifier: Apache-2.0
 *
 * The transfer engine with many transfers at once: who waits for whom, pipes, stopping. The kernels
 * are those of test_cuda_aead: racecheck has nothing to find.
 */
#include <fcntl.h>
#include <poll.h>

#include "engine_harness.h"

/* ---- many at once ---- */
static const uint64_t sizes[] = { 0, 1, C, 5 * C + 3, 7 * C, 40 * C, 129 * C + 1, LARGEST };
enum { MANY = 2 * 2 * KINDS * (int)SGPU_ARRAY_LENGTH(sizes) };

/* One of each direction, kind and size, plain and sealed. */
static void make_one_of_many(struct move *move, int i)
{
	make_move(move, i & 1 ? SGPU_TRANSFER_IN : SGPU_TRANSFER_OUT, (enum kind)(i / 4 % KINDS),
		  i & 2, sizes[i / 4 / KINDS]);
}

static void many_at_once(const struct sgpu_engine_config *config)
{
	static struct move moves[MANY];

	REQUIRE(set_up(config));
	for (int i = 0; i < MANY; i++) {
		make_one_of_many(&moves[i], i);
		start(&moves[i]);
	}
	finish_all(moves, MANY);
	for (int i = 0; i < MANY; i++) {
		check_move(&moves[i]);
		free_move(&moves[i]);
	}
	tear_down();
}

/* Who counts an engine's memory counts pinned_max. */
UNIT_TEST(staging_buffers_fit_into_what_is_set_for_them)
{
	REQUIRE(set_up(NULL));
	const struct sgpu_staging_pool *pool = &engine->staging[SGPU_STAGING_LARGE];

	CHECK(pool->limit == (UINT64_C(64) << 20) / pool->size);
	tear_down();
}

UNIT_TEST(many_transfers_at_once_all_arrive)
{
	many_at_once(&several);
}

UNIT_TEST(many_transfers_share_a_single_staging_buffer)
{
	many_at_once(&scarce);
}

/* A thread with some of the moves, of which it drives one, or all in turn. */
struct driver {
	struct move *moves;
	int count;
	bool in_turn;
};

static void *drive(void *argument)
{
	const struct driver *driver = argument;

	for (int i = 0; i < driver->count; i++) {
		start(&driver->moves[i]);
		if (!driver->in_turn) {
			(void)finish(&driver->moves[i]);
		}
	}
	if (driver->in_turn) {
		finish_all(driver->moves, driver->count);
	}
	return NULL;
}

UNIT_TEST(transfers_of_many_threads_share_a_single_staging_buffer)
{
	enum { THREADS = 4, EACH = MANY / THREADS };
	static struct move moves[MANY];
	struct driver drivers[THREADS];
	pthread_t threads[THREADS];

	REQUIRE(set_up(&scarce));
	for (int i = 0; i < MANY; i++) {
		/* Every thread gets its share of the large ones. */
		make_one_of_many(&moves[i], i % EACH * THREADS + i / EACH);
		moves[i].request.rank = (uint64_t)i % 3;
	}
	for (int i = 0; i < THREADS; i++) {
		drivers[i] = (struct driver){ moves + i * EACH, EACH, i & 1 };
		CHECK(pthread_create(&threads[i], NULL, drive, &drivers[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++) {
		CHECK(pthread_join(threads[i], NULL) == 0);
	}
	for (int i = 0; i < MANY; i++) {
		check_move(&moves[i]);
		free_move(&moves[i]);
	}
	tear_down();
}

/* ---- who goes first ---- */
static void sync_streams(void)
{
	CHECK(sgpu_stream_sync(copies, NULL) == SGPU_OK);
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK);
}

/* Steps that a transfer could use to take all buffers there are. */
static void step_often(struct move *move)
{
	for (int i = 0; i < 10; i++) {
		(void)advance(move);
		sync_streams();
	}
}

/* A transfer that has the only large buffer. */
static void hold_buffer(struct move *move)
{
	make_move(move, SGPU_TRANSFER_IN, READ, true, LARGEST);
	move->request.rank = 9;
	start(move);
	(void)advance(move);
	CHECK(atomic_load(&move->calls) > 0);
}

/* A transfer that waits for it. */
static void want_buffer(struct move *move, uint64_t rank)
{
	make_move(move, SGPU_TRANSFER_IN, READ, true, 20 * C);
	move->request.rank = rank;
	start(move);
	step_often(move);
	CHECK(atomic_load(&move->calls) == 0);
}

UNIT_TEST(transfers_of_a_lower_rank_get_staging_buffers_first)
{
	static const uint64_t ranks[] = { 5, 3, 5, 4 };
	static const int wanted[] = { 1, 3, 0, 2 };
	struct move holder, moves[4];

	REQUIRE(set_up(&scarce));
	hold_buffer(&holder);
	for (int i = 0; i < 4; i++) {
		want_buffer(&moves[i], ranks[i]);
	}
	sync_streams();
	(void)advance(&holder); /* gives it back, and may not take it again */
	for (int turn = 0; turn < 4; turn++) {
		const int before = atomic_load(&holder.calls);

		step_often(&holder);
		for (int i = turn + 1; i < 4; i++) {
			if (ranks[wanted[i]] > ranks[wanted[turn]]) {
				step_often(&moves[wanted[i]]);
				CHECK(atomic_load(&moves[wanted[i]].calls) == 0);
			}
		}
		CHECK(atomic_load(&holder.calls) == before);
		CHECK(finish(&moves[wanted[turn]]) == SGPU_OK);
	}
	CHECK(finish(&holder) == SGPU_OK);
	check_move(&holder);
	free_move(&holder);
	for (int i = 0; i < 4; i++) {
		check_move(&moves[i]);
		free_move(&moves[i]);
	}
	tear_down();
}

UNIT_TEST(a_transfer_that_was_stopped_waits_for_no_staging_buffer)
{
	struct move holder, first, second;

	REQUIRE(set_up(&scarce));
	hold_buffer(&holder);
	want_buffer(&first, 1);
	want_buffer(&second, 2);
	sgpu_transfer_stop(first.transfer, SGPU_ECANCELED);
	CHECK(finish(&first) == SGPU_ECANCELED);
	sync_streams();
	(void)advance(&holder);
	CHECK(finish(&second) == SGPU_OK && finish(&holder) == SGPU_OK);
	check_failed(&first, SGPU_ECANCELED);
	check_move(&second);
	check_move(&holder);
	free_move(&first);
	free_move(&second);
	free_move(&holder);
	tear_down();
}

UNIT_TEST(small_transfers_do_not_wait_for_large_ones)
{
	struct move holder, waiter, small;

	REQUIRE(set_up(&scarce));
	hold_buffer(&holder);
	want_buffer(&waiter, 1);
	for (int i = 0; i < 4; i++) {
		make_move(&small, i & 1 ? SGPU_TRANSFER_IN : SGPU_TRANSFER_OUT, READ, i & 2, 5 * C);
		small.request.rank = 8;
		start(&small);
		CHECK(finish(&small) == SGPU_OK);
		check_move(&small);
		free_move(&small);
	}
	CHECK(atomic_load(&waiter.calls) == 0);
	sync_streams();
	(void)advance(&holder);
	CHECK(finish(&waiter) == SGPU_OK && finish(&holder) == SGPU_OK);
	check_move(&waiter);
	check_move(&holder);
	free_move(&waiter);
	free_move(&holder);
	tear_down();
}

UNIT_TEST(small_transfers_wait_for_buffers_that_others_have_taken)
{
	enum { MOST = 1000 };
	static struct sgpu_staging_buffer *taken[MOST];
	struct move move;
	void *host;
	int count = 0;

	REQUIRE(set_up(&several));
	while (count < MOST && sgpu_staging_take(engine, &taken[count], &host, &error) == SGPU_OK &&
	       taken[count]) {
		memset(host, 1, SGPU_TRANSFER_SMALL + 2 * C);
		count++;
	}
	CHECK(count > 0 && count < MOST);
	/* the largest of the small ones: of eight chunks */
	make_move(&move, SGPU_TRANSFER_IN, READ, true, SGPU_TRANSFER_SMALL - 8 * SGPU_TAG_SIZE);
	start(&move);
	step_often(&move);
	CHECK(!move.ended && atomic_load(&move.calls) == 0);
	while (count > 0) {
		sgpu_staging_give(engine, taken[--count]);
	}
	CHECK(finish(&move) == SGPU_OK);
	check_move(&move);
	free_move(&move);
	tear_down();
}

/* ---- pipes ---- */
static int read_pipe(void *context, uint64_t position, void *data, size_t size,
		     struct sgpu_error *why)
{
	struct move *move = context;

	CHECK(position == atomic_load(&move->moved));
	atomic_fetch_add(&move->calls, 1);
	for (size_t got = 0; got < size;) {
		ssize_t count = read(move->pipe[0], (uint8_t *)data + got, size - got);

		if (count <= 0) {
			return sgpu_fail(why, SGPU_ESYSTEM, "the pipe ends too early");
		}
		got += (size_t)count;
	}
	atomic_fetch_add(&move->moved, size);
	return SGPU_OK;
}

static bool pipe_waits(void *context)
{
	const struct move *move = context;

	return poll(&(struct pollfd){ .fd = move->pipe[0], .events = POLLIN }, 1, 0) == 0;
}

static void make_ordered(struct move *move, bool sealed, uint64_t size)
{
	make_move(move, SGPU_TRANSFER_IN, READ, sealed, size);
	CHECK(pipe(move->pipe) == 0 && fcntl(move->pipe[1], F_SETPIPE_SZ, 1 << 20) == 1 << 20);
	move->request.end = (struct sgpu_endpoint){ .read = read_pipe,
						    .close = note_close,
						    .waits = pipe_waits,
						    .ordered = true,
						    .context = move };
}

/* Writes bytes of the payload into its pipe, which has room for them. */
static void feed(struct move *move, uint64_t begin, uint64_t end)
{
	CHECK(write(move->pipe[1], move->host + begin, end - begin) == (ssize_t)(end - begin));
}

static void *other_end(void *argument)
{
	struct move *move = argument;
	uint64_t at = 0;
	ssize_t count;

	while (at < move->bytes) {
		count = write(move->pipe[1], move->host + at, move->bytes - at);
		if (count <= 0) {
			break;
		}
		at += (uint64_t)count;
	}
	return NULL;
}

UNIT_TEST(pipes_that_block_hold_up_nobody)
{
	enum { COUNT = 6 };
	pthread_t threads[COUNT], ends[COUNT];
	struct driver drivers[COUNT];
	struct move blocked[COUNT], other;

	REQUIRE(set_up(&scarce));
	for (int i = 0; i < COUNT; i++) {
		make_ordered(&blocked[i], i & 1, i < 4 ? LARGEST : 3 * C);
		blocked[i].request.rank = (uint64_t)i % 2;
		drivers[i] = (struct driver){ &blocked[i], 1, false };
		CHECK(pthread_create(&threads[i], NULL, drive, &drivers[i]) == 0);
	}
	for (int i = 0; i < COUNT; i++) {
		while (atomic_load(&blocked[i].calls) == 0) {
			usleep(100);
		}
	}
	for (int i = 0; i < 4; i++) {
		make_move(&other, i & 1 ? SGPU_TRANSFER_IN : SGPU_TRANSFER_OUT, READ, i & 2,
			  60 * C);
		other.request.rank = 1;
		start(&other);
		CHECK(finish(&other) == SGPU_OK);
		check_move(&other);
		free_move(&other);
	}
	for (int i = 0; i < COUNT; i++) {
		CHECK(pthread_create(&ends[i], NULL, other_end, &blocked[i]) == 0);
	}
	for (int i = 0; i < COUNT; i++) {
		CHECK(pthread_join(threads[i], NULL) == 0 && pthread_join(ends[i], NULL) == 0);
		check_move(&blocked[i]);
		free_move(&blocked[i]);
	}
	tear_down();
}

/* Work of a stream ends when it is let go. */
static atomic_bool lets_go;

static int await_go(struct sgpu_launch *launch, void *unused)
{
	(void)launch;
	(void)unused;
	while (!atomic_load(&lets_go)) {
		usleep(100);
	}
	return SGPU_OK;
}

static void hold_streams(void)
{
	atomic_store(&lets_go, false);
	CHECK(sgpu_device_launch_on(copies, await_go, NULL, NULL, 0, NULL) == SGPU_OK &&
	      sgpu_device_launch_on(stream, await_go, NULL, NULL, 0, NULL) == SGPU_OK);
}

UNIT_TEST(a_pipe_does_not_block_while_runs_hold_staging_buffers)
{
	struct move move;

	if (strcmp(device_name(), "cpu") != 0) {
		SKIP("the device's work cannot be held");
	}
	REQUIRE(set_up(&several));
	make_ordered(&move, true, 40 * C);
	hold_streams();
	start(&move);
	feed(&move, 0, 16 * S);
	for (int i = 0; i < 10; i++) {
		(void)sgpu_transfer_step(move.transfer, true);
	}
	CHECK(atomic_load(&move.calls) == 1);
	atomic_store(&lets_go, true);
	feed(&move, 16 * S, move.bytes);
	CHECK(finish(&move) == SGPU_OK);
	check_move(&move);
	free_move(&move);
	tear_down();
}

UNIT_TEST(a_payload_that_fails_is_read_to_its_end)
{
	pthread_t end;
	struct move move;
	char next;

	REQUIRE(set_up(&several));
	make_ordered(&move, true, LARGEST);
	move.host[20 * S + 5] ^= 1;
	start(&move);
	CHECK(pthread_create(&end, NULL, other_end, &move) == 0);
	CHECK(finish(&move) == SGPU_EAUTH && move.result.bad_chunk == 20);
	CHECK(pthread_join(end, NULL) == 0 && atomic_load(&move.moved) == move.bytes);
	CHECK(write(move.pipe[1], "n", 1) == 1 && read(move.pipe[0], &next, 1) == 1 && next == 'n');
	CHECK(!move.transfer->source_failed);
	check_failed(&move, SGPU_EAUTH);
	free_move(&move);
	tear_down();
}

/* Nor is it kept until then, by one who sends it slowly. */
UNIT_TEST(a_payload_that_fails_is_cleared_before_the_rest_of_it_comes)
{
	struct move move;

	REQUIRE(set_up(&several));
	make_ordered(&move, true, 40 * C);
	move.host[2 * S + 5] ^= 1;
	start(&move);
	feed(&move, 0, 16 * S);
	step_often(&move);
	CHECK(atomic_load(&move.calls) == 1 && !move.ended);
	CHECK(!sgpu_transfer_has_read(move.transfer));
	from_device(scratch, move.memory, move.plain);
	CHECK(all(scratch, move.plain, 0));
	feed(&move, 16 * S, move.bytes);
	CHECK(finish(&move) == SGPU_EAUTH && move.result.bad_chunk == 2);
	CHECK(atomic_load(&move.moved) == move.bytes && sgpu_transfer_has_read(move.transfer));
	check_failed(&move, SGPU_EAUTH);
	free_move(&move);
	tear_down();
}

UNIT_TEST(a_payload_that_fails_waits_for_no_staging_buffer_while_its_rest_comes)
{
	struct move move, other;

	if (strcmp(device_name(), "cpu") != 0) {
		SKIP("the device's work cannot be held");
	}
	REQUIRE(set_up(&scarce));
	make_ordered(&move, true, 40 * C);
	move.host[2 * S + 5] ^= 1;
	hold_streams();
	start(&move);
	feed(&move, 0, 16 * S + 16384);
	for (int i = 0; i < 10; i++) {
		CHECK(!advance(&move));
	}
	CHECK(atomic_load(&move.calls) == 2); /* and a third run waits */
	atomic_store(&lets_go, true);
	make_move(&other, SGPU_TRANSFER_IN, READ, true, LARGEST);
	other.request.rank = 1;
	start(&other);
	step_often(&move);
	CHECK(!move.ended && finish(&other) == SGPU_OK);
	check_move(&other);
	free_move(&other);
	feed(&move, 16 * S + 16384, move.bytes);
	CHECK(finish(&move) == SGPU_EAUTH && atomic_load(&move.moved) == move.bytes);
	check_failed(&move, SGPU_EAUTH);
	free_move(&move);
	tear_down();
}

UNIT_TEST(a_pipe_that_ends_early_fails_its_transfer)
{
	struct move move;

	REQUIRE(set_up(&several));
	for (int i = 0; i < 8; i++) {
		make_ordered(&move, i & 1, i & 2 ? LARGEST : 3 * C);
		move.host[5] ^= i & 4; /* while its rest is skipped */
		feed(&move, 0, i & 2 ? 20 * S : 2 * S);
		CHECK(close(move.pipe[1]) == 0);
		move.pipe[1] = -1;
		start(&move);
		CHECK(finish(&move) == ((i & 7) == 7 ? SGPU_EAUTH : SGPU_ESYSTEM));
		CHECK(move.transfer->source_failed && sgpu_transfer_has_read(move.transfer));
		check_failed(&move, move.result.code);
		free_move(&move);
	}
	tear_down();
}

/* ---- stopping ---- */
UNIT_TEST(a_transfer_can_be_stopped_at_any_time)
{
	struct move move;
	const int step = getenv("SGPU_TEST_SMALL") ? 9 : 1; /* odd: all kinds still come */
	int stopped = 0;

	REQUIRE(set_up(&scarce));
	for (int i = 0; i < 4 * KINDS * 20; i += step) {
		make_one_of_many(&move, MANY - 4 * KINDS + i % (4 * KINDS));
		start(&move);
		for (int steps = i / (4 * KINDS) * 3; steps > 0; steps--) {
			(void)advance(&move);
			if (i % 3 == 0) {
				sync_streams();
			}
		}
		sgpu_transfer_stop(move.transfer, i & 1 ? SGPU_ETIMEOUT : SGPU_ECANCELED);
		sgpu_transfer_stop(move.transfer, SGPU_EDEVICE);
		if (finish(&move) == SGPU_OK) {
			check_move(&move);
		} else {
			check_failed(&move, i & 1 ? SGPU_ETIMEOUT : SGPU_ECANCELED);
			stopped++;
		}
		free_move(&move);
	}
	CHECK(stopped > 10 / step);
	tear_down();
}

UNIT_TEST(the_rest_of_a_payload_that_was_stopped_is_not_read)
{
	struct move move;

	REQUIRE(set_up(&several));
	for (int bad = 0; bad < 2; bad++) {
		make_ordered(&move, true, 40 * C);
		move.host[2 * S] ^= bad; /* its rest is being skipped then */
		start(&move);
		feed(&move, 0, 16 * S);
		step_often(&move);
		sgpu_transfer_stop(move.transfer, SGPU_ETIMEOUT);
		CHECK(finish(&move) == SGPU_ETIMEOUT && atomic_load(&move.calls) == 1);
		CHECK(sgpu_transfer_has_read(move.transfer) && !move.transfer->source_failed);
		check_failed(&move, SGPU_ETIMEOUT);
		free_move(&move);
	}
	tear_down();
}

/* ---- requests ---- */
UNIT_TEST(the_steps_of_a_transfer_are_told)
{
	struct move move;
	uint64_t copied;
	bool reaches;

	REQUIRE(set_up(&several));
	for (int in = 0; in < 2; in++) {
		make_move(&move, in ? SGPU_TRANSFER_IN : SGPU_TRANSFER_OUT, READ, true, LARGEST);
		start(&move);
		CHECK(finish(&move) == SGPU_OK);
		check_move(&move);
		reaches = sgpu_device_reaches(device, move.host, LARGEST, !in);
		CHECK(move.spans[in ? SGPU_STEP_READ : SGPU_STEP_WRITE] == move.bytes &&
		      move.spans[in ? SGPU_STEP_OPEN : SGPU_STEP_SEAL] == move.bytes);
		/* What opens the host's memory copies nothing; a GPU opens short runs there. */
		copied = move.spans[in ? SGPU_STEP_COPY_IN : SGPU_STEP_COPY_OUT];
		CHECK(reaches ? copied == 0 : copied > 0 && copied <= move.bytes);
		free_move(&move);
	}
	tear_down();
}

UNIT_TEST(a_request_without_sense_is_refused)
{
	struct move move;

	REQUIRE(set_up(&several));
	for (int i = 0; i < 2; i++) {
		make_move(&move, i < 1 ? SGPU_TRANSFER_IN : SGPU_TRANSFER_OUT, READ, true, C + 1);
		if (i == 0) {
			move.request.size = UINT64_MAX - C;
		} else {
			move.request.last = false;
		}
		CHECK(sgpu_transfer_begin(engine, &move.request, &move.transfer, &error) ==
			      SGPU_EUSAGE &&
		      !move.transfer);
		CHECK(atomic_load(&move.closed) == 0);
		free_move(&move);
	}
	tear_down();
}

static void tests(void)
{
	UNIT_RUN(staging_buffers_fit_into_what_is_set_for_them);
	UNIT_RUN(many_transfers_at_once_all_arrive);
	UNIT_RUN(many_transfers_share_a_single_staging_buffer);
	UNIT_RUN(transfers_of_many_threads_share_a_single_staging_buffer);
	UNIT_RUN(transfers_of_a_lower_rank_get_staging_buffers_first);
	UNIT_RUN(a_transfer_that_was_stopped_waits_for_no_staging_buffer);
	UNIT_RUN(small_transfers_do_not_wait_for_large_ones);
	UNIT_RUN(small_transfers_wait_for_buffers_that_others_have_taken);
	UNIT_RUN(pipes_that_block_hold_up_nobody);
	UNIT_RUN(a_pipe_does_not_block_while_runs_hold_staging_buffers);
	UNIT_RUN(a_payload_that_fails_is_read_to_its_end);
	UNIT_RUN(a_payload_that_fails_is_cleared_before_the_rest_of_it_comes);
	UNIT_RUN(a_payload_that_fails_waits_for_no_staging_buffer_while_its_rest_comes);
	UNIT_RUN(a_pipe_that_ends_early_fails_its_transfer);
	UNIT_RUN(a_transfer_can_be_stopped_at_any_time);
	UNIT_RUN(the_rest_of_a_payload_that_was_stopped_is_not_read);
	UNIT_RUN(the_steps_of_a_transfer_are_told);
	UNIT_RUN(a_request_without_sense_is_refused);
}

int main(void)
{
	return on_both_devices(tests);
}
