/* SPDX-License-Identifier: Apache-2.0
 *
 * The transfer engine when something goes wrong: a source, a sink, the data, the device, or memory.
 * The kernels are those of test_cuda_aead: racecheck has nothing to find.
 */
#include "engine_harness.h"

/* ---- sources and sinks that fail ---- */
UNIT_TEST(a_source_that_fails_leaves_nothing)
{
	struct move move;

	REQUIRE(set_up(&several));
	for (int i = 0; i < 8; i++) {
		make_move(&move, SGPU_TRANSFER_IN, READ, i & 1, i & 2 ? LARGEST : 3 * C);
		move.fails_at = i & 4 ? move.bytes - 1 : move.bytes / 2;
		start(&move);
		CHECK(finish(&move) == SGPU_ESYSTEM &&
		      strstr(move.result.error.text, "made to fail"));
		check_failed(&move, SGPU_ESYSTEM);
		free_move(&move);
	}
	tear_down();
}

UNIT_TEST(a_file_that_was_cut_short_fails_and_leaves_nothing)
{
	struct move move;

	REQUIRE(set_up(&several));
	fake.registers = false;
	sgpu_engine_free(&engine);
	CHECK(sgpu_engine_create(device, &several, &engine, &error) == SGPU_OK);
	for (int i = 0; i < 4; i++) {
		make_move(&move, SGPU_TRANSFER_IN, FILE_IN_MEMORY, i & 1, i & 2 ? LARGEST : 3 * C);
		CHECK(ftruncate(move.file, 4096 + (off_t)move.bytes - 1) == 0);
		start(&move);
		CHECK(finish(&move) == SGPU_ESYSTEM &&
		      strstr(move.result.error.text, "ends too early"));
		check_failed(&move, SGPU_ESYSTEM);
		free_move(&move);
	}
	tear_down();
}

UNIT_TEST(a_sink_that_is_full_fails_its_transfer_alone)
{
	struct move moves[2];

	REQUIRE(set_up(&scarce));
	for (int i = 0; i < 4; i++) {
		make_move(&moves[0], SGPU_TRANSFER_OUT, READ, i & 1, i & 2 ? LARGEST : 3 * C);
		make_move(&moves[1], SGPU_TRANSFER_OUT, READ, true, 50 * C);
		moves[0].fails_at = moves[0].bytes / 2;
		start(&moves[0]);
		start(&moves[1]);
		finish_all(moves, 2);
		CHECK(strstr(moves[0].result.error.text, "no space left"));
		check_failed(&moves[0], SGPU_ESYSTEM);
		check_move(&moves[1]);
		free_move(&moves[0]);
		free_move(&moves[1]);
	}
	tear_down();
}

/* ---- what arrives is not what was sealed ---- */
static void tampered(struct move *move, int how)
{
	uint8_t chunk[S];

	if (how == 0) {
		move->host[30 * S + 100] ^= 1;
	} else if (how == 1) { /* two chunks in each other's place */
		memcpy(chunk, move->host + 30 * S, S);
		memcpy(move->host + 30 * S, move->host + 200 * S, S);
		memcpy(move->host + 200 * S, chunk, S);
	} else if (how == 2) { /* whole chunks, and no end mark */
		move->request.size = 30 * S;
	} else { /* the last chunk is cut within its tag */
		move->request.size = 30 * S + 7;
	}
	if (move->file >= 0) {
		CHECK(pwrite(move->file, move->host, move->bytes, 4096) == (ssize_t)move->bytes);
	}
}

UNIT_TEST(nothing_stays_of_what_does_not_verify)
{
	struct move move;

	REQUIRE(set_up(&several));
	for (int how = 0; how < 4; how++) {
		for (int kind = 0; kind < KINDS; kind++) {
			make_move(&move, SGPU_TRANSFER_IN, (enum kind)kind, true, LARGEST);
			tampered(&move, how);
			start(&move);
			CHECK(finish(&move) == SGPU_EAUTH);
			CHECK(move.result.bad_chunk == 30);
			from_device(scratch, move.memory, LARGEST);
			CHECK(all(scratch, 30 * C, 0));
			CHECK(all(scratch + 30 * C, LARGEST - 30 * C, how < 2 ? 0 : 0xee));
			free_move(&move);
		}
	}
	tear_down();
}

UNIT_TEST(the_lowest_bad_chunk_is_named)
{
	struct move move;

	REQUIRE(set_up(&several));
	for (int round = 0; round < 20; round++) {
		make_move(&move, SGPU_TRANSFER_IN, round & 1 ? READ : MEMORY, true, LARGEST);
		for (uint64_t chunk = 17 + (uint64_t)round; chunk < CHUNKS; chunk += 7) {
			move.host[chunk * S] ^= 0x40;
		}
		start(&move);
		CHECK(finish(&move) == SGPU_EAUTH && move.result.bad_chunk == 17 + (uint64_t)round);
		check_failed(&move, SGPU_EAUTH);
		free_move(&move);
	}
	tear_down();
}

/* ---- digests ---- */
static int take_a_moment(struct sgpu_launch *launch, void *unused)
{
	(void)launch;
	(void)unused;
	usleep(50000);
	return SGPU_OK;
}

UNIT_TEST(plain_payloads_are_digested_on_the_device)
{
	static const uint64_t sizes[] = { 0, 1, 3 * C + 1, LARGEST };
	uint8_t expected[SGPU_KT128_SIZE];
	struct move move;

	REQUIRE(set_up(&several));
	for (int i = 0; i < 4 * (int)SGPU_ARRAY_LENGTH(sizes); i++) {
		bool in = i & 1, wrong = i & 2;
		uint64_t size = sizes[i / 4];

		make_move(&move, in ? SGPU_TRANSFER_IN : SGPU_TRANSFER_OUT, READ, false, size);
		sgpu_kt128(plaintext, size, NULL, 0, expected, sizeof(expected));
		move.request.digested = true;
		if (in) {
			expected[7] ^= wrong;
			move.request.expected = expected;
		}
		if (in && strcmp(device_name(), "cpu") == 0) { /* the digest waits for the copy */
			CHECK(sgpu_device_launch_on(copies, take_a_moment, NULL, NULL, 0, NULL) ==
			      SGPU_OK);
		}
		start(&move);
		(void)finish(&move);
		if (in && wrong) {
			check_failed(&move, SGPU_EAUTH);
		} else {
			check_move(&move);
			CHECK(memcmp(move.result.digest, expected, sizeof(expected)) == 0);
		}
		free_move(&move);
	}
	tear_down();
}

/* ---- a device that fails ---- */
static atomic_int calls_left;

static bool fails_later(void)
{
	return atomic_fetch_sub(&calls_left, 1) == 0;
}

UNIT_TEST(a_device_that_fails_at_any_call_leaves_nothing)
{
	const int step = getenv("SGPU_TEST_SMALL") ? 11 : 1;
	struct move move;
	int failed = 0;

	if (!looks_like_gpu) {
		SKIP("the device's calls do not fail");
	}
	for (int i = 0; i < 4 * KINDS; i++) {
		for (int after = i % step; after < 30; after += step) {
			REQUIRE(set_up(&several));
			make_move(&move, i & 1 ? SGPU_TRANSFER_IN : SGPU_TRANSFER_OUT,
				  (enum kind)(i / 4), i & 2, 100 * C + 5);
			atomic_store(&calls_left, after);
			fake.fails = fails_later;
			start(&move);
			(void)finish(&move);
			fake.fails = NULL;
			if (move.result.code != SGPU_OK) {
				check_failed(&move, move.result.code);
				failed++;
			} else {
				check_move(&move);
			}
			free_move(&move);
			tear_down();
		}
	}
	CHECK(failed > 50 / step);
}

/* Nothing was sealed or opened then, and nothing must be taken for it. */
static int refuse_in_place(struct sgpu_stream *on, const struct sgpu_work *work, int count)
{
	return work->kind >= SGPU_WORK_OPEN_FROM ? SGPU_EDEVICE : fake_enqueue(on, work, count);
}

UNIT_TEST(a_device_that_refuses_what_it_reaches_leaves_nothing)
{
	struct move move;

	if (!looks_like_gpu) {
		SKIP("the device's calls do not fail");
	}
	for (int i = 0; i < 2 * KINDS; i++) {
		REQUIRE(set_up(&several));
		fake.backend.key.reaches = fake.real->key->reaches;
		make_move(&move, i & 1 ? SGPU_TRANSFER_IN : SGPU_TRANSFER_OUT, (enum kind)(i / 2),
			  true, LARGEST);
		fake.backend.stream.enqueue = refuse_in_place;
		start(&move);
		(void)finish(&move);
		fake.backend.stream.enqueue = fake_enqueue;
		check_failed(&move, SGPU_EDEVICE);
		free_move(&move);
		tear_down();
	}
}

/* Of an event that cannot be asked for, nobody knows whether the work before it has ended. */
static int refuse_query(struct sgpu_event *event, bool *done, struct sgpu_error *why)
{
	(void)event;
	(void)done;
	return sgpu_fail(why, SGPU_EDEVICE, "no answer");
}

UNIT_TEST(work_that_cannot_be_asked_for_has_ended_before_its_transfer_has)
{
	struct move move;
	uint8_t expected[SGPU_KT128_SIZE];

	if (!looks_like_gpu) {
		SKIP("the device's calls do not fail");
	}
	sgpu_kt128(plaintext, LARGEST, NULL, 0, expected, sizeof(expected));
	for (int i = 0; i < 2 * 2 * KINDS; i++) {
		const bool in = i & 1, sealed = i & 2;

		REQUIRE(set_up(&several));
		make_move(&move, in ? SGPU_TRANSFER_IN : SGPU_TRANSFER_OUT, (enum kind)(i / 4),
			  sealed, LARGEST);
		move.request.digested = !sealed;
		move.request.expected = in ? expected : NULL;
		CHECK(sgpu_device_launch_on(copies, take_a_moment, NULL, NULL, 0, NULL) == SGPU_OK);
		fake.backend.stream.event_query = refuse_query;
		start(&move);
		CHECK(finish(&move) == SGPU_EDEVICE);
		fake.backend.stream.event_query = fake_event_query;
		if (!in && move.file < 0) {
			CHECK(all(move.host, move.bytes, i / 4 == READ ? 0xee : 0));
		}
		CHECK(sgpu_stream_sync(copies, NULL) == SGPU_OK);
		check_failed(&move, SGPU_EDEVICE);
		if (!in && move.file < 0) {
			CHECK(all(move.host, move.bytes, i / 4 == READ ? 0xee : 0));
		}
		free_move(&move);
		tear_down();
	}
}

/* What was to be sealed then is not, and what the staging memory held must not go to the host in
 * its place. */
UNIT_TEST(a_copy_whose_sealing_was_cancelled_fails)
{
	struct move move;

	REQUIRE(set_up(&several));
	for (int kind = 0; kind < KINDS; kind++) {
		make_move(&move, SGPU_TRANSFER_OUT, (enum kind)kind, true, LARGEST);
		sgpu_device_cancel(device, true);
		start(&move);
		CHECK(finish(&move) == SGPU_ECANCELED);
		sgpu_device_cancel(device, false);
		CHECK(kind == FILE_IN_MEMORY ||
		      all(move.host, move.bytes, kind == READ ? 0xee : 0));
		free_move(&move);
	}
	make_move(&move, SGPU_TRANSFER_OUT, MEMORY, true, LARGEST);
	start(&move);
	CHECK(finish(&move) == SGPU_OK);
	check_move(&move);
	free_move(&move);
	tear_down();
}

UNIT_TEST(a_plain_copy_that_was_cancelled_fails_and_leaves_nothing)
{
	struct move move;
	uint8_t expected[SGPU_KT128_SIZE];

	if (strcmp(device_name(), "cpu") != 0) {
		SKIP("the device ends its copies");
	}
	sgpu_kt128(plaintext, LARGEST, NULL, 0, expected, sizeof(expected));
	for (int i = 0; i < 4; i++) {
		/* With the standard sizes all of it is one copy, on several workers. */
		REQUIRE(set_up(i & 2 ? NULL : &several));
		make_move(&move, i & 1 ? SGPU_TRANSFER_IN : SGPU_TRANSFER_OUT, REGISTERED, false,
			  LARGEST);
		move.request.digested = !(i & 2);
		move.request.expected = i & 1 ? expected : NULL;
		sgpu_device_cancel(device, true);
		start(&move);
		CHECK(finish(&move) == SGPU_ECANCELED);
		sgpu_device_cancel(device, false);
		check_failed(&move, SGPU_ECANCELED);
		CHECK(i & 1 || all(move.host, move.bytes, 0));
		free_move(&move);
		tear_down();
	}
}

UNIT_TEST(without_pinned_memory_ordinary_memory_does)
{
	struct move move;

	if (!looks_like_gpu) {
		SKIP("the device pins nothing");
	}
	REQUIRE(set_up(&several));
	make_move(&move, SGPU_TRANSFER_IN, READ, true, LARGEST);
	fake.no_host_memory = true;
	start(&move);
	CHECK(finish(&move) == SGPU_OK && move.result.bytes[SGPU_PATH_PAGEABLE] == move.bytes);
	check_move(&move);
	free_move(&move);
	tear_down();
}

UNIT_TEST(little_is_taken_for_little)
{
	struct move move;
	uint64_t before;

	if (!looks_like_gpu) {
		SKIP("the device pins nothing");
	}
	REQUIRE(set_up(NULL));
	make_move(&move, SGPU_TRANSFER_IN, READ, true, 100);
	before = atomic_load(&fake.lent);
	start(&move);
	CHECK(finish(&move) == SGPU_OK && atomic_load(&fake.lent) - before <= 256 << 10);
	check_move(&move);
	free_move(&move);
	tear_down();
}

/* ---- pages of a file ---- */
/* Bytes that this process has given to write and its like. */
static uint64_t written(void)
{
	FILE *io = fopen("/proc/self/io", "r");
	unsigned long long bytes = 0;

	CHECK(io && fscanf(io, "rchar: %*u wchar: %llu", &bytes) == 1);
	if (io) {
		fclose(io);
	}
	return bytes;
}

UNIT_TEST(many_workers_write_the_pages_of_a_file_without_a_name)
{
	static const struct sgpu_engine_config many = { .workers = 8 };

	REQUIRE(set_up(&many));
	for (int has_room = 0; has_room < 2; has_room++) {
		struct move move;
		uint64_t before;

		make_move(&move, SGPU_TRANSFER_OUT, FILE_IN_MEMORY, true, LARGEST);
		/* Without its pages it grows as it is written. */
		CHECK((has_room ? fallocate(move.file, 0, 0, 4096 + (off_t)move.bytes)
				: ftruncate(move.file, 0)) == 0);
		before = written();
		start(&move);
		CHECK(finish(&move) == SGPU_OK);
		CHECK(!has_room || written() - before < move.bytes);
		check_move(&move);
		free_move(&move);
	}
	tear_down();
}

/* ---- regions ---- */
static char region_name[64];
static uint64_t region_at = 4096; /* where its slice begins */

static int make_region(void)
{
	snprintf(region_name, sizeof(region_name), "/dev/shm/sgpu-test-XXXXXX");
	return mkstemp(region_name);
}

/* A transfer to or from a region, instead of the file that make_move gave it. */
static void make_region_move(struct move *move, int region, enum sgpu_transfer_direction direction)
{
	struct sgpu_transfer_request *request = &move->request;

	make_move(move, direction, FILE_IN_MEMORY, true, LARGEST);
	if (direction == SGPU_TRANSFER_IN) {
		request->end.close(request->end.context);
		CHECK(pwrite(region, move->host, move->bytes, (off_t)region_at) ==
		      (ssize_t)move->bytes);
		CHECK(sgpu_endpoint_in_file(engine, region, "region", region_at, true,
					    &request->end, &error) == SGPU_OK);
	} else {
		request->end.close(request->end.context);
		CHECK(sgpu_endpoint_in_file(engine, region, "region", 4096, true, &request->end,
					    &error) == SGPU_OK);
		close(move->file);
		move->file = dup(region);
	}
}

/* Returns how many of its bytes the device moved by itself. */
static uint64_t use_region(int region, enum sgpu_transfer_direction direction)
{
	struct move move;
	uint64_t registered;

	make_region_move(&move, region, direction);
	start(&move);
	CHECK(finish(&move) == SGPU_OK);
	registered = move.result.bytes[SGPU_PATH_REGISTERED];
	check_move(&move);
	free_move(&move);
	return registered;
}

UNIT_TEST(a_region_is_registered_at_its_first_use_and_stays_so_while_it_has_a_name)
{
	const uint64_t bytes = sealed_bytes(LARGEST);

	if (!looks_like_gpu) {
		SKIP("the device registers nothing");
	}
	for (int out = 0; out < 2; out++) {
		enum sgpu_transfer_direction direction = out ? SGPU_TRANSFER_OUT : SGPU_TRANSFER_IN;
		struct sgpu_engine_config many = several;
		int region = make_region(), before;

		many.workers = 16; /* it would not pay to register for a single use */
		REQUIRE(set_up(&many));
		REQUIRE(region >= 0 && ftruncate(region, 4096 + (off_t)bytes) == 0);
		before = atomic_load(&fake.registrations);
		CHECK(use_region(region, direction) == bytes && atomic_load(&fake.registered) == 1);
		CHECK(use_region(region, direction) == bytes &&
		      use_region(region, direction) == bytes);
		CHECK(atomic_load(&fake.registrations) == before + 1);
		CHECK(unlink(region_name) == 0);
		CHECK(use_region(region, direction) == 0);
		close(region);
		tear_down(); /* checks that nothing is registered any more */
	}
}

/* One that lacks pages is not given them all for the sake of one slice. Its owner may cut it within
 * a page. */
UNIT_TEST(all_slices_of_a_region_with_its_memory_share_a_registration)
{
	const uint64_t bytes = sealed_bytes(LARGEST),
		       places[] = { 4096, 4096 + (bytes / 4096 + 1) * 4096 };
	struct move move;

	if (!looks_like_gpu) {
		SKIP("the device registers nothing");
	}
	for (int odd = 0; odd < 4; odd++) { /* its size */
		const bool sparse = odd % 2;
		const off_t size = odd < 2 ? (off_t)(places[1] + bytes + 4095) / 4096 * 4096
					   : (off_t)(places[1] + bytes);
		int region = make_region(), before;

		REQUIRE(set_up(&several));
		REQUIRE(region >= 0 &&
			(sparse ? ftruncate(region, size) : fallocate(region, 0, 0, size)) == 0);
		for (int i = 0; i < 2; i++) { /* the fake keeps what it registers */
			region_at = places[i];
			make_region_move(&move, region, SGPU_TRANSFER_IN);
			move.request.end.close(move.request.end.context);
			free_move(&move);
		}
		before = atomic_load(&fake.registrations);
		for (int i = 0; i < 2; i++) {
			region_at = places[i];
			CHECK(use_region(region, SGPU_TRANSFER_IN) == bytes);
		}
		region_at = 4096;
		CHECK(atomic_load(&fake.registrations) == before + 1 + sparse);
		CHECK(unlink(region_name) == 0);
		close(region);
		tear_down();
	}
}

UNIT_TEST(what_stays_registered_has_a_limit)
{
	const uint64_t bytes = sealed_bytes(LARGEST);
	struct sgpu_engine_config many = several;
	char names[3][sizeof(region_name)];
	int regions[3];

	if (!looks_like_gpu) {
		SKIP("the device registers nothing");
	}
	many.workers = 16;
	many.kept_max = 2 * bytes; /* with whole pages: room for one */
	REQUIRE(set_up(&many));
	for (int i = 0; i < 3; i++) {
		regions[i] = make_region();
		REQUIRE(regions[i] >= 0 && ftruncate(regions[i], 4096 + (off_t)bytes) == 0);
		CHECK(use_region(regions[i], SGPU_TRANSFER_IN) == (i ? 0 : bytes));
		CHECK(atomic_load(&fake.registered) == 1);
		memcpy(names[i], region_name, sizeof(names[i]));
	}
	for (int i = 0; i < 3; i++) {
		CHECK(unlink(names[i]) == 0);
		close(regions[i]);
	}
	tear_down();
}

/* Its owner may cut it while the device uses it: an error of the transfer, or what the device still
 * has, and no fault. */
UNIT_TEST(a_region_that_is_cut_short_is_no_fault)
{
	const uint64_t bytes = sealed_bytes(LARGEST);
	struct move move;
	int region = make_region(), code;

	REQUIRE(set_up(&several));
	REQUIRE(region >= 0 && ftruncate(region, 4096 + (off_t)bytes) == 0);
	for (int i = 0; i < 2; i++) {
		(void)use_region(region, SGPU_TRANSFER_IN);
		(void)use_region(region, SGPU_TRANSFER_OUT);
	}
	for (int out = 0; out < 2; out++) {
		make_region_move(&move, region, out ? SGPU_TRANSFER_OUT : SGPU_TRANSFER_IN);
		CHECK(ftruncate(region, 8192) == 0);
		start(&move);
		code = finish(&move);
		CHECK(code == SGPU_OK || code == SGPU_ESYSTEM || code == SGPU_EAUTH);
		free_move(&move);
	}
	CHECK(unlink(region_name) == 0);
	close(region);
	tear_down();
}

static void tests(void)
{
	UNIT_RUN(a_source_that_fails_leaves_nothing);
	UNIT_RUN(a_file_that_was_cut_short_fails_and_leaves_nothing);
	UNIT_RUN(a_sink_that_is_full_fails_its_transfer_alone);
	UNIT_RUN(nothing_stays_of_what_does_not_verify);
	UNIT_RUN(the_lowest_bad_chunk_is_named);
	UNIT_RUN(plain_payloads_are_digested_on_the_device);
	UNIT_RUN(a_device_that_fails_at_any_call_leaves_nothing);
	UNIT_RUN(a_device_that_refuses_what_it_reaches_leaves_nothing);
	UNIT_RUN(work_that_cannot_be_asked_for_has_ended_before_its_transfer_has);
	UNIT_RUN(a_copy_whose_sealing_was_cancelled_fails);
	UNIT_RUN(a_plain_copy_that_was_cancelled_fails_and_leaves_nothing);
	UNIT_RUN(without_pinned_memory_ordinary_memory_does);
	UNIT_RUN(little_is_taken_for_little);
	UNIT_RUN(many_workers_write_the_pages_of_a_file_without_a_name);
	UNIT_RUN(a_region_is_registered_at_its_first_use_and_stays_so_while_it_has_a_name);
	UNIT_RUN(all_slices_of_a_region_with_its_memory_share_a_registration);
	UNIT_RUN(what_stays_registered_has_a_limit);
	UNIT_RUN(a_region_that_is_cut_short_is_no_fault);
}

int main(void)
{
	return on_both_devices(tests);
}
