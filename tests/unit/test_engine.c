/* SPDX-License-Identifier: Apache-2.0
 *
 * The transfer engine with many transfers at once: who waits for whom, pipes, cancelling. The
 * kernels are those of test_cuda_aead: racecheck has nothing to find.
 */
#include "engine_harness.h"
#include "transfer/engine.h"

/* ---- many at once ---- */
static void many_at_once(const struct sgpu_engine_config *config)
{
	static const uint64_t sizes[] = { 0, 1, C, 5 * C + 3, 7 * C, 40 * C, 129 * C + 1, LARGEST };
	enum { COUNT = 2 * 2 * KINDS * (int)SGPU_ARRAY_LENGTH(sizes) };
	static struct move moves[COUNT];

	REQUIRE(set_up(config));
	for (int i = 0; i < COUNT; i++) {
		make_move(&moves[i], i & 1 ? SGPU_TRANSFER_IN : SGPU_TRANSFER_OUT,
			  (enum kind)(i / 4 % KINDS), i & 2, sizes[i / 4 / KINDS]);
	}
	for (int i = 0; i < COUNT; i++) {
		start(&moves[i]);
	}
	for (int i = 0; i < COUNT; i++) {
		CHECK(finish(&moves[i]) == SGPU_OK);
		check_move(&moves[i]);
	}
	for (int i = 0; i < COUNT; i++) {
		free_move(&moves[i]);
	}
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

/* Each of its chunk runs waits for the small transfers, for a while: were it served first, it would
 * end before them. */
struct patient {
	struct move *large;
	struct move small[4];
	atomic_bool looked; /* the test has, at what had ended when the small ones had */
};

static int read_when_small_ones_are_done(void *context, uint64_t position, void *data, size_t size,
					 struct sgpu_error *why)
{
	struct patient *p = context;
	int ended = 0;

	for (int i = 0; i < 4; i++) {
		for (int ms = 0; ms < 50 && atomic_load(&p->small[i].done) == 0; ms++) {
			usleep(1000);
		}
		ended += atomic_load(&p->small[i].done) != 0;
	}
	while (ended == 4 && !atomic_load(&p->looked)) {
		usleep(1000);
	}
	return read_some(p->large, position, data, size, why);
}

UNIT_TEST(a_large_transfer_does_not_hold_up_a_small_one)
{
	struct move large;
	struct patient p = { .large = &large };

	REQUIRE(set_up(&scarce));
	make_move(&large, SGPU_TRANSFER_IN, READ, true, LARGEST);
	large.request.source = (struct sgpu_transfer_source){ .read = read_when_small_ones_are_done,
							      .context = &p };
	for (int i = 0; i < 4; i++) {
		make_move(&p.small[i], i & 1 ? SGPU_TRANSFER_IN : SGPU_TRANSFER_OUT, READ, i & 2,
			  9 * C);
	}
	start(&large);
	for (int i = 0; i < 4; i++) {
		start(&p.small[i]);
	}
	for (int i = 0; i < 4; i++) {
		CHECK(finish(&p.small[i]) == SGPU_OK);
	}
	CHECK(atomic_load(&large.done) == 0);
	atomic_store(&p.looked, true);
	CHECK(finish(&large) == SGPU_OK);
	check_move(&large);
	for (int i = 0; i < 4; i++) {
		check_move(&p.small[i]);
		free_move(&p.small[i]);
	}
	free_move(&large);
	tear_down();
}

/* A source that notes when it is read; the first reading of one of them waits for the others to be
 * started. */
struct ranked {
	struct move move;
	char name, *log; /* of the one worker */
	atomic_bool *begun, *go;
};

static int read_ranked(void *context, uint64_t position, void *data, size_t size,
		       struct sgpu_error *why)
{
	struct ranked *r = context;

	r->log[strlen(r->log)] = r->name;
	atomic_store(r->begun, true);
	while (!atomic_load(r->go)) {
		usleep(1000);
	}
	return read_some(&r->move, position, data, size, why);
}

UNIT_TEST(a_queue_is_in_the_order_of_ranks)
{
	enum { MANY = 200 };
	static const uint64_t ranks[] = { 5, 3, 5, 4, 3, 9, 0, 5 };
	static const int wanted[] = { 6, 1, 4, 3, 0, 2, 7, 5 };
	static struct sgpu_transfer list[MANY];
	struct sgpu_engine empty = { .open = 0 };
	struct sgpu_transfer_queue queue = { NULL, NULL };
	struct sgpu_transfer *at;
	int n = 0;

	for (int i = 0; i < MANY; i++) {
		list[i] = (struct sgpu_transfer){ .engine = &empty };
	}
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(ranks); i++) {
		list[i].request.rank = ranks[i];
		sgpu_transfer_append(&list[i], &queue);
	}
	for (at = queue.head; at; at = at->next) {
		CHECK(at == &list[wanted[n++]] && (at->next ? at->next->before : queue.tail) == at);
	}
	CHECK(n == SGPU_ARRAY_LENGTH(ranks));
	sgpu_transfer_unqueue(&list[1]);
	sgpu_transfer_append(&list[1], &queue); /* behind the other of its rank */
	CHECK(queue.head == &list[6] && queue.head->next == &list[4] &&
	      queue.head->next->next == &list[1]);
	while (queue.head) {
		sgpu_transfer_unqueue(queue.head);
	}
	/* Before very many it is still behind those of its rank and below. */
	for (int i = 0; i < MANY; i++) {
		list[i].request.rank = i < 3 ? (uint64_t)i / 2 : 2;
		sgpu_transfer_append(&list[i], &queue);
	}
	for (int i = 1; i >= 0; i--) {
		sgpu_transfer_append(&list[i], &queue);
	}
	CHECK(queue.head == &list[1] && queue.head->next == &list[0] && list[0].next == &list[2] &&
	      list[2].next == &list[3]);
	sgpu_transfer_append(&list[2], &queue);
	CHECK(list[0].next == &list[2] && list[2].next == &list[3] && list[3].before == &list[2] &&
	      queue.tail == &list[MANY - 1]);
	list[MANY - 1].request.rank = 0;
	sgpu_transfer_append(&list[MANY - 1], &queue);
	CHECK(list[0].next == &list[MANY - 1] && list[MANY - 1].next == &list[2] &&
	      queue.tail == &list[MANY - 2]);
}

UNIT_TEST(transfers_of_a_lower_rank_go_first)
{
	const struct sgpu_engine_config config = { .workers = 1,
						   .staged_run = 8 * C,
						   .pinned_max = 100 * C,
						   .first_run = C,
						   .last_run = 2 * C };
	static const struct {
		char name;
		uint64_t rank;
	} wanted[] = { { 'c', 3 }, { 'b', 2 }, { 'a', 1 } };
	struct ranked ranked[SGPU_ARRAY_LENGTH(wanted)];
	char log[100] = "";
	atomic_bool begun = false, go = false;

	REQUIRE(set_up(&config));
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(wanted); i++) {
		struct ranked *r = &ranked[i];

		make_move(&r->move, SGPU_TRANSFER_IN, READ, true, 12 * C);
		r->name = wanted[i].name;
		r->log = log;
		r->begun = &begun;
		r->go = &go;
		r->move.request.source =
			(struct sgpu_transfer_source){ .read = read_ranked, .context = r };
		r->move.request.rank = wanted[i].rank;
		start(&r->move);
		while (!atomic_load(&begun)) {
			usleep(1000);
		}
	}
	atomic_store(&go, true);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(wanted); i++) {
		while (atomic_load(&ranked[i].move.done) == 0) {
			usleep(1000); /* and does nothing for it: there is one worker */
		}
	}
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(wanted); i++) {
		CHECK(finish(&ranked[i].move) == SGPU_OK);
		check_move(&ranked[i].move);
		free_move(&ranked[i].move);
	}
	/* The one that was alone at first, then the lowest: there are staging buffers for both. */
	printf("# %s\n", log);
	CHECK(log[0] == 'c' && log[1] == 'a' && strrchr(log, 'a') == log + strspn(log + 1, "a") &&
	      strchr(log, 'b'));
	tear_down();
}

/* ---- ordered ones ---- */
static int read_pipe(void *context, uint64_t position, void *data, size_t size,
		     struct sgpu_error *why)
{
	struct move *move = context;

	CHECK(position == atomic_load(&move->moved));
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

static int write_pipe(void *context, uint64_t position, const void *data, size_t size,
		      struct sgpu_error *why)
{
	struct move *move = context;

	(void)why;
	CHECK(position == atomic_load(&move->moved));
	for (size_t put = 0; put < size;) {
		ssize_t count = write(move->pipe[1], (const uint8_t *)data + put, size - put);

		if (count <= 0) {
			return sgpu_fail(why, SGPU_ESYSTEM, "nobody reads the pipe");
		}
		put += (size_t)count;
	}
	atomic_fetch_add(&move->moved, size);
	return SGPU_OK;
}

static void make_ordered(struct move *move, enum sgpu_transfer_direction direction, bool sealed,
			 uint64_t size)
{
	make_move(move, direction, READ, sealed, size);
	CHECK(pipe(move->pipe) == 0);
	move->request.source = (struct sgpu_transfer_source){ .read = read_pipe,
							      .ordered = true,
							      .context = move };
	move->request.sink = (struct sgpu_transfer_sink){ .write = write_pipe,
							  .ordered = true,
							  .context = move };
}

static void *pump(void *argument)
{
	struct move *move = argument;

	return (void *)(intptr_t)sgpu_transfer_pump(move->transfer, NULL);
}

static void *other_end(void *argument)
{
	struct move *move = argument;
	bool in = move->request.direction == SGPU_TRANSFER_IN;
	uint64_t at = 0;
	ssize_t count;

	while (at < move->bytes) {
		count = in ? write(move->pipe[1], move->host + at, move->bytes - at)
			   : read(move->pipe[0], move->host + at, move->bytes - at);
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
	pthread_t pumps[COUNT], ends[COUNT];
	struct move blocked[COUNT], other;
	void *code;

	REQUIRE(set_up(&scarce));
	for (int i = 0; i < COUNT; i++) {
		make_ordered(&blocked[i], i & 1 ? SGPU_TRANSFER_IN : SGPU_TRANSFER_OUT, i & 2,
			     i < 4 ? LARGEST : 3 * C);
		start(&blocked[i]);
		CHECK(pthread_create(&pumps[i], NULL, pump, &blocked[i]) == 0);
	}
	usleep(20000);
	for (int i = 0; i < 4; i++) {
		make_move(&other, i & 1 ? SGPU_TRANSFER_IN : SGPU_TRANSFER_OUT, READ, i & 2,
			  60 * C);
		start(&other);
		CHECK(finish(&other) == SGPU_OK);
		check_move(&other);
		free_move(&other);
	}
	for (int i = 0; i < COUNT; i++) {
		CHECK(i >= 4 || atomic_load(&blocked[i].done) == 0);
		CHECK(pthread_create(&ends[i], NULL, other_end, &blocked[i]) == 0);
	}
	for (int i = 0; i < COUNT; i++) {
		CHECK(pthread_join(pumps[i], &code) == 0 && code == NULL);
		CHECK(pthread_join(ends[i], NULL) == 0);
		CHECK(finish(&blocked[i]) == SGPU_OK);
		check_move(&blocked[i]);
		free_move(&blocked[i]);
	}
	tear_down();
}

UNIT_TEST(a_payload_that_fails_is_read_to_its_end)
{
	pthread_t end;
	struct move move;

	REQUIRE(set_up(&several));
	make_ordered(&move, SGPU_TRANSFER_IN, true, LARGEST);
	move.host[20 * S + 5] ^= 1;
	start(&move);
	CHECK(pthread_create(&end, NULL, other_end, &move) == 0);
	CHECK(sgpu_transfer_pump(move.transfer, &error) == SGPU_OK);
	CHECK(pthread_join(end, NULL) == 0 && atomic_load(&move.moved) == move.bytes);
	CHECK(finish(&move) == SGPU_EAUTH && move.result.bad_chunk == 20);
	check_failed(&move, SGPU_EAUTH);
	free_move(&move);
	tear_down();
}

UNIT_TEST(a_pipe_that_ends_early_fails_its_transfer)
{
	struct move move;

	REQUIRE(set_up(&several));
	for (int i = 0; i < 4; i++) {
		make_ordered(&move, SGPU_TRANSFER_IN, i & 1, i & 2 ? LARGEST : 3 * C);
		CHECK(write(move.pipe[1], move.host, 2 * C) == 2 * C && close(move.pipe[1]) == 0);
		move.pipe[1] = -1;
		start(&move);
		CHECK(sgpu_transfer_pump(move.transfer, &error) == SGPU_ESYSTEM &&
		      strstr(error.text, "too early"));
		CHECK(finish(&move) == SGPU_ESYSTEM);
		check_failed(&move, SGPU_ESYSTEM);
		free_move(&move);
	}
	tear_down();
}

/* ---- cancelling ---- */
UNIT_TEST(a_transfer_can_be_cancelled_at_any_time)
{
	struct move move;
	const int step = getenv("SGPU_TEST_SMALL")
				 ? 9
				 : 1; /* odd: both directions and all kinds still come */
	int cancelled = 0;

	REQUIRE(set_up(&scarce));
	for (int i = 0; i < 120; i += step) {
		make_move(&move, i & 1 ? SGPU_TRANSFER_IN : SGPU_TRANSFER_OUT,
			  (enum kind)(i / 4 % KINDS), i & 2, LARGEST);
		move.nap_us = 300;
		start(&move);
		usleep((useconds_t)(i / 8 * 200));
		sgpu_transfer_cancel(move.transfer, i & 1 ? SGPU_ETIMEOUT : SGPU_ECANCELED);
		sgpu_transfer_cancel(move.transfer, SGPU_EDEVICE);
		if (finish(&move) == SGPU_OK) {
			check_move(&move);
		} else {
			check_failed(&move, i & 1 ? SGPU_ETIMEOUT : SGPU_ECANCELED);
			cancelled++;
		}
		free_move(&move);
	}
	CHECK(cancelled > 10 / step);
	tear_down();
}

/* Without order between the threads, so that the thread checker sees what looks at a request that
 * is being made. */
struct slow_preparation {
	struct move move;
	struct sgpu_transfer_source source;
	atomic_bool begun, cancelled;
};

static int prepare_slowly(void *argument, struct sgpu_stream *unused,
			  struct sgpu_transfer_request *request, struct sgpu_error *why)
{
	struct slow_preparation *slow =
		(struct slow_preparation *)argument; /* the move comes first */

	(void)unused, (void)why;
	atomic_store_explicit(&slow->begun, true, memory_order_relaxed);
	while (!atomic_load_explicit(&slow->cancelled, memory_order_relaxed)) {
		sched_yield();
	}
	request->source = slow->source;
	return SGPU_OK;
}

UNIT_TEST(a_transfer_can_be_cancelled_while_it_is_prepared)
{
	struct slow_preparation slow = { .begun = false };

	REQUIRE(set_up(&scarce));
	make_move(&slow.move, SGPU_TRANSFER_IN, READ, true, LARGEST);
	slow.source = slow.move.request.source;
	slow.move.request.source = (struct sgpu_transfer_source){ .read = NULL };
	slow.move.request.prepare = prepare_slowly;
	start(&slow.move);
	while (!atomic_load_explicit(&slow.begun, memory_order_relaxed)) {
		sched_yield();
	}
	sgpu_transfer_cancel(slow.move.transfer, SGPU_ECANCELED);
	atomic_store_explicit(&slow.cancelled, true, memory_order_relaxed);
	CHECK(finish(&slow.move) == SGPU_ECANCELED);
	slow.move.request.source = slow.source;
	check_failed(&slow.move, SGPU_ECANCELED);
	free_move(&slow.move);
	tear_down();
}

UNIT_TEST(a_pump_ends_when_its_transfer_is_cancelled)
{
	pthread_t pumps[2];
	struct move moves[2];
	void *code;

	REQUIRE(set_up(&scarce));
	for (int i = 0; i < 2; i++) {
		make_ordered(&moves[i], i ? SGPU_TRANSFER_IN : SGPU_TRANSFER_OUT, true, LARGEST);
		start(&moves[i]);
		CHECK(pthread_create(&pumps[i], NULL, pump, &moves[i]) == 0);
	}
	usleep(5000);
	for (int i = 0; i < 2; i++) {
		sgpu_transfer_cancel(moves[i].transfer, SGPU_ECANCELED);
		close(moves[i].pipe[i]); /* what blocks is ended by whoever owns the pipe */
		moves[i].pipe[i] = -1;
		CHECK(i == 0 || write(moves[i].pipe[1 - i], "x", 1) <= 1);
	}
	for (int i = 0; i < 2; i++) {
		CHECK(pthread_join(pumps[i], &code) == 0 && (intptr_t)code != SGPU_OK);
		CHECK(finish(&moves[i]) == SGPU_ECANCELED);
		free_move(&moves[i]);
	}
	/* One that nobody ever pumped. */
	make_ordered(&moves[0], SGPU_TRANSFER_IN, true, LARGEST);
	start(&moves[0]);
	sgpu_transfer_cancel(moves[0].transfer, SGPU_ECANCELED);
	CHECK(finish(&moves[0]) == SGPU_ECANCELED);
	CHECK(sgpu_transfer_pump(moves[0].transfer, NULL) == SGPU_ECANCELED);
	free_move(&moves[0]);
	tear_down();
}

/* ---- prepare, spans ---- */
static int fill_in(void *argument, struct sgpu_stream *on, struct sgpu_transfer_request *request,
		   struct sgpu_error *why)
{
	struct move *move = argument;

	CHECK(on != NULL && request->size == 0);
	request->size = move->bytes;
	request->memory = move->memory;
	request->key = key;
	return move->fails_at == 0 ? sgpu_fail(why, SGPU_EKEY, "not its key") : SGPU_OK;
}

UNIT_TEST(what_is_not_known_is_filled_in_first)
{
	struct move move;

	REQUIRE(set_up(&several));
	for (int i = 0; i < 2; i++) {
		make_move(&move, SGPU_TRANSFER_IN, READ, true, LARGEST);
		move.fails_at = i ? 0 : UINT64_MAX;
		move.request.prepare = fill_in;
		move.request.size = 0;
		move.request.memory = 0;
		move.request.key = NULL;
		start(&move);
		CHECK(finish(&move) == (i ? SGPU_EKEY : SGPU_OK));
		move.request.key = key;
		if (i) {
			check_failed(&move, SGPU_EKEY);
			CHECK(atomic_load(&move.calls) == 0);
		} else {
			check_move(&move);
			CHECK(atomic_load(&move.spans[SGPU_STEP_READ]) == move.bytes &&
			      atomic_load(&move.spans[SGPU_STEP_COPY_IN]) == move.bytes &&
			      atomic_load(&move.spans[SGPU_STEP_OPEN]) == move.bytes);
		}
		free_move(&move);
	}
	tear_down();
}

UNIT_TEST(a_request_without_sense_is_refused)
{
	struct move move;

	REQUIRE(set_up(&several));
	make_move(&move, SGPU_TRANSFER_IN, READ, true, C);
	move.request.source.read = NULL;
	CHECK(sgpu_transfer_start(engine, &move.request, &move.transfer, &error) == SGPU_EUSAGE &&
	      !move.transfer);
	free_move(&move);
	make_move(&move, SGPU_TRANSFER_OUT, READ, true, C + 1);
	move.request.last = false;
	start(&move);
	CHECK(finish(&move) == SGPU_EUSAGE);
	CHECK(sgpu_transfer_pump(move.transfer, &error) == SGPU_EUSAGE);
	free_move(&move);
	tear_down();
}

static void tests(void)
{
	UNIT_RUN(many_transfers_at_once_all_arrive);
	UNIT_RUN(many_transfers_share_a_single_staging_buffer);
	UNIT_RUN(a_large_transfer_does_not_hold_up_a_small_one);
	UNIT_RUN(a_queue_is_in_the_order_of_ranks);
	UNIT_RUN(transfers_of_a_lower_rank_go_first);
	UNIT_RUN(pipes_that_block_hold_up_nobody);
	UNIT_RUN(a_payload_that_fails_is_read_to_its_end);
	UNIT_RUN(a_pipe_that_ends_early_fails_its_transfer);
	UNIT_RUN(a_transfer_can_be_cancelled_at_any_time);
	UNIT_RUN(a_transfer_can_be_cancelled_while_it_is_prepared);
	UNIT_RUN(a_pump_ends_when_its_transfer_is_cancelled);
	UNIT_RUN(what_is_not_known_is_filled_in_first);
	UNIT_RUN(a_request_without_sense_is_refused);
}

int main(void)
{
	return on_both_devices(tests);
}
