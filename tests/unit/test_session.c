/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions with a worker in another process, over a pipe: what they can ask, what of it is refused,
 * and what comes of either side's end.
 */
#include "crypto/crypto.h"
#include "session_harness.h"

static struct sgpu_group_client *open_client(struct worker_process *w)
{
	struct sgpu_group_client *client = NULL;

	CHECK(sgpu_group_client_open(NULL, &runner_key, w->carrier->calls->exchange, w->carrier,
				     &client, &error) == SGPU_OK);
	return client;
}

static void fill(uint8_t *data, size_t size, unsigned seed)
{
	for (size_t i = 0; i < size; i++) {
		data[i] = (uint8_t)(i * 31 + i / 253 + seed);
	}
}

/* ---- what a session can ask ---- */
UNIT_TEST(memory_and_jobs_stay_from_group_to_group)
{
	struct worker_process w = start_worker();
	struct sgpu_group_client *client = open_client(&w);
	uint8_t tails[4][TAIL];

	REQUIRE(client != NULL);
	/* clang-format off */
	const struct sgpu_item first[] = {
		{ .kind = SGPU_ITEM_ALLOC, .buffer = 200, .size = 6000 },
		job_item_load(ADD),
		job_item_load(SHOW),
		job_item(ADD, 200, 1000, 3000, tails[0]),
		job_item(ADD, 200, 1001, 3000, tails[1]),
		job_item(SHOW, 200, 999, 3003, tails[2]),
	};
	/* clang-format on */
	CHECK(SEND(client, first) == SGPU_OK);
	CHECK(shown[0] == 0 && shown[1] == 1 && shown[2] == 2 && shown[3000] == 2 &&
	      shown[3001] == 1 && shown[3002] == 0);
	/* What is freed is cleared before it is given out again. */
	/* clang-format off */
	const struct sgpu_item second[] = {
		job_item(ADD, 200, 1000, 3000, tails[0]),
		job_item(SHOW, 200, 999, 3003, tails[1]),
		{ .kind = SGPU_ITEM_FREE, .buffer = 200 },
		{ .kind = SGPU_ITEM_ALLOC, .buffer = 200, .size = 6000 },
		job_item(SHOW, 200, 1000, 1, tails[2]),
		{ .kind = SGPU_ITEM_JOB_FREE, .object = ADD },
	};
	/* clang-format on */
	CHECK(SEND(client, second) == SGPU_OK);
	CHECK(shown[0] == 0 && shown[1] == 2 && shown[2] == 3 && shown[3001] == 1);
	CHECK(send_items(client, &first[3], 1) == SGPU_EUSAGE);
	CHECK(SEND(client, ((struct sgpu_item[]){ { .kind = SGPU_ITEM_FREE, .buffer = 200 } })) ==
	      SGPU_OK);
	sgpu_group_client_close(&client);
	CHECK(end_worker(&w) == SGPU_OK);
}

UNIT_TEST(sealed_data_pass_through_the_shared_area)
{
	enum { SIZE = 3 * SGPU_CHUNK + 77, SEALED = SIZE + 4 * SGPU_TAG_SIZE };
	struct worker_process w = start_worker();
	struct sgpu_group_client *client = open_client(&w);
	static uint8_t plain[SIZE], sealed[SEALED];
	uint8_t secret[SGPU_KEY_SIZE] = { 7 }, tail[sizeof(struct sgpu_sealed_keys)], more[TAIL];
	struct sgpu_sealed_keys keys;
	struct sgpu_aead *aead = NULL;

	REQUIRE(client != NULL);
	fill(plain, SIZE, 9);
	REQUIRE(sgpu_sealed_keys_new(secret, "test", 4, &keys, &error) == SGPU_OK);
	REQUIRE(sgpu_aead_create(NULL, keys.key, &aead, &error) == SGPU_OK);
	CHECK(sgpu_seal_chunks(aead, &keys, 0, true, plain, SIZE, sealed) == SGPU_OK);
	sgpu_aead_free(&aead);
	memcpy(tail, &keys, sizeof(keys));
	memcpy(area + 1000, sealed, SEALED);
	/* clang-format off */
	struct sgpu_item items[] = {
		{ .kind = SGPU_ITEM_ALLOC, .buffer = 1, .size = 2 * SIZE },
		{ .kind = SGPU_ITEM_KEY_LOAD, .object = 3, .tail = tail, .tail_size = sizeof(tail) },
		{ .kind = SGPU_ITEM_OPEN, .object = 3, .last = true, .size = SEALED, .other_offset = 1000, .buffer = 1 },
		{ .kind = SGPU_ITEM_OPEN, .object = 3, .last = true, .size = SEALED, .other_offset = 1000, .buffer = 1,
		  .offset = SIZE },
		job_item(SHOW, 1, SIZE - 10, 10, more),
		{ .kind = SGPU_ITEM_SEAL, .object = 3, .last = true, .buffer = 1, .offset = SIZE, .size = SIZE,
		  .other_offset = AREA - SEALED },
	};
	const struct sgpu_item load = job_item_load(SHOW);
	/* clang-format on */
	CHECK(send_items(client, &load, 1) == SGPU_OK && SEND(client, items) == SGPU_OK);
	CHECK(!memcmp(area + AREA - SEALED, sealed, SEALED));
	CHECK(!memcmp(shown, plain + SIZE - 10, 10));
	/* What was altered there does not open, and nothing that follows reads what it left, but
	 * other data that are opened. */
	area[1000 + 2 * SGPU_SEALED_CHUNK + 5] ^= 1;
	memset(shown, 0xee, 10);
	memset(area + AREA - SEALED, 0xee, SEALED);
	CHECK(send_items(client, &items[2], 4) == SGPU_EAUTH && strstr(error.text, "item 0: ") &&
	      strstr(error.text, "chunk 2") != NULL);
	CHECK(shown[0] == 0xee && shown[9] == 0xee && area[AREA - SEALED] == 0xee &&
	      area[AREA - 1] == 0xee);
	CHECK(SEND(client, ((struct sgpu_item[]){ { .kind = SGPU_ITEM_KEY_FREE, .object = 3 } })) ==
	      SGPU_OK);
	CHECK(send_items(client, &items[5], 1) == SGPU_EUSAGE);
	sgpu_group_client_close(&client);
	CHECK(end_worker(&w) == SGPU_OK);
}

/* ---- what is refused ---- */
UNIT_TEST(every_handle_size_and_offset_is_checked)
{
	struct worker_process w = start_worker();
	struct sgpu_group_client *client = open_client(&w);
	uint8_t keys[sizeof(struct sgpu_sealed_keys)] = { 0 }, tails[6][TAIL];

	REQUIRE(client != NULL);
	/* clang-format off */
	const struct sgpu_item base[] = {
		{ .kind = SGPU_ITEM_ALLOC, .buffer = 0, .size = 100 },
		{ .kind = SGPU_ITEM_KEY_LOAD, .object = 0, .tail = keys, .tail_size = sizeof(keys) },
		job_item_load(ADD),
		job_item_load(SHOW),
	};
	/* clang-format on */
	CHECK(SEND(client, base) == SGPU_OK);
	CHECK(sgpu_group_client_add(client, &(struct sgpu_item){ .kind = SGPU_ITEM_KINDS },
				    &error) == SGPU_EUSAGE);
	/* clang-format off */
	const struct sgpu_item bad[] = {
		{ .kind = SGPU_ITEM_ALLOC, .buffer = 0, .size = 1 },             /* it is there */
		{ .kind = SGPU_ITEM_ALLOC, .buffer = 1, .size = LIMIT - 99 },    /* more than the session may have */
		{ .kind = SGPU_ITEM_ALLOC, .buffer = 1, .size = UINT64_MAX },
		{ .kind = SGPU_ITEM_FREE, .buffer = 1 },
		{ .kind = SGPU_ITEM_KEY_LOAD, .object = 0, .tail = keys, .tail_size = sizeof(keys) },
		{ .kind = SGPU_ITEM_KEY_FREE, .object = 1 },
		{ .kind = SGPU_ITEM_OPEN, .object = 1, .last = true, .size = 20, .buffer = 0 },
		{ .kind = SGPU_ITEM_OPEN, .object = 0, .last = true, .size = 20, .other_offset = AREA - 19, .buffer = 0 },
		{ .kind = SGPU_ITEM_OPEN, .object = 0, .last = true, .size = 20, .other_offset = AREA + 1, .buffer = 0 },
		{ .kind = SGPU_ITEM_OPEN, .object = 0, .last = true, .size = 20, .other_offset = UINT64_MAX - 10, .buffer = 0 },
		{ .kind = SGPU_ITEM_OPEN, .object = 0, .last = true, .size = UINT64_MAX, .buffer = 0 },
		{ .kind = SGPU_ITEM_OPEN, .object = 0, .last = true, .size = 20, .buffer = 0, .offset = 97 },
		{ .kind = SGPU_ITEM_OPEN, .object = 0, .last = true, .size = 20, .buffer = 1 },
		{ .kind = SGPU_ITEM_SEAL, .object = 1, .last = true, .buffer = 0, .size = 20 },
		{ .kind = SGPU_ITEM_SEAL, .object = 0, .last = true, .buffer = 0, .size = 20, .other_offset = AREA - 35 },
		{ .kind = SGPU_ITEM_SEAL, .object = 0, .last = true, .buffer = 0, .size = 20, .other_offset = UINT64_MAX - 10 },
		{ .kind = SGPU_ITEM_SEAL, .object = 0, .last = true, .buffer = 0, .size = 101 },
		{ .kind = SGPU_ITEM_SEAL, .object = 0, .last = true, .buffer = 0, .size = UINT64_MAX },
		{ .kind = SGPU_ITEM_SEAL, .object = 0, .buffer = 0, .size = 20 },
		job_item_load(ADD),
		{ .kind = SGPU_ITEM_JOB_LOAD, .object = 2, .tail = (const uint8_t *)"ad", .tail_size = 2 },
		{ .kind = SGPU_ITEM_JOB_FREE, .object = 2 },
		job_item(2, 0, 0, 1, tails[0]),
		job_item(ADD, 0, 1, 100, tails[1]),
		job_item(ADD, 300, 0, 1, tails[2]),
		job_item(ADD, 0, UINT64_MAX, 2, tails[3]),
	};
	/* clang-format on */
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		const struct sgpu_item items[] = { job_item(ADD, 0, 0, 100, tails[4]), bad[i],
						   job_item(SHOW, 0, 0, 100, tails[5]) };
		int rc;

		shown[0] = 0;
		rc = SEND(client, items);
		if ((rc != SGPU_EUSAGE && rc != SGPU_ENOMEM) ||
		    strncmp(error.text, "item 1: ", 8) || error.text[8] == '\0' || shown[0] != 0 ||
		    (bad[i].other_offset > AREA - 36 && !strstr(error.text, "shared area"))) {
			printf("# item %zu: %d '%s'\n", i, rc, error.text);
			CHECK(!"it was refused, and what follows not carried out");
		}
	}
	CHECK(send_items(client,
			 &(struct sgpu_item){ .kind = SGPU_ITEM_JOB_LOAD,
					      .object = 2,
					      .tail = (const uint8_t *)"ad",
					      .tail_size = 2 },
			 1) == SGPU_EUSAGE &&
	      strstr(error.text, "no job 'ad'") != NULL);
	CHECK(send_items(client, NULL, 0) == SGPU_OK);
	CHECK(send_items(client, &(struct sgpu_item){ .kind = SGPU_ITEM_FREE }, 1) == SGPU_OK);
	sgpu_group_client_close(&client);
	CHECK(end_worker(&w) == SGPU_OK);
}

UNIT_TEST(a_job_that_is_freed_gives_its_memory_back)
{
	struct worker_process w = start_worker();
	struct sgpu_group_client *client = open_client(&w);
	const struct sgpu_item load = job_item_load(SHOW);
	struct sgpu_item alloc = { .kind = SGPU_ITEM_ALLOC, .size = LIMIT - SHOW_BYTES + 1 };

	REQUIRE(client != NULL);
	for (int i = 0; i < 2 * LIMIT / SHOW_BYTES; i++) {
		const struct sgpu_item items[] = { load,
						   { .kind = SGPU_ITEM_JOB_FREE, .object = SHOW } };

		CHECK(SEND(client, items) == SGPU_OK);
	}
	CHECK(send_items(client, &load, 1) == SGPU_OK);
	CHECK(send_items(client, &alloc, 1) == SGPU_ENOMEM);
	alloc.size--;
	CHECK(send_items(client, &alloc, 1) == SGPU_OK);
	sgpu_group_client_close(&client);
	CHECK(end_worker(&w) == SGPU_OK);
}

UNIT_TEST(the_ranges_of_a_job_are_all_that_its_item_brings)
{
	enum { ONE = 58 };
	static const struct {
		int at;
		uint8_t value;
		uint32_t size;
	} cases[] = {
		{ 0, 1, ONE },
		{ 1, 0, ONE },
		{ 1, 2, ONE },
		{ 22, 1, ONE },
		{ ONE - 1, 1, ONE },
		{ 1, 1, ONE - 1 },
		{ 1, 1, ONE + 1 },
		{ 1, 255, ONE },
		{ 1, SGPU_MODULE_RANGES_MAX + 1, SGPU_ITEM_RANGES_MAX },
	};
	struct worker_process w = start_worker();
	struct sgpu_group_client *client = open_client(&w);
	uint8_t tail[SGPU_ITEM_RANGES_MAX] = { 0 };

	REQUIRE(client != NULL);
	const struct sgpu_item base[] = { { .kind = SGPU_ITEM_ALLOC, .buffer = 0, .size = 100 },
					  job_item_load(ADD) };
	struct sgpu_item run = job_item(ADD, 0, 0, 100, tail);

	CHECK(SEND(client, base) == SGPU_OK && run.tail_size == ONE);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(cases); i++) {
		const uint8_t before = tail[cases[i].at];

		tail[cases[i].at] = cases[i].value;
		run.tail_size = cases[i].size;
		CHECK(send_items(client, &run, 1) == SGPU_EINVALID &&
		      strstr(error.text, "malformed") != NULL);
		tail[cases[i].at] = before;
	}
	run.tail_size = ONE;
	CHECK(send_items(client, &run, 1) == SGPU_OK);
	sgpu_group_client_close(&client);
	CHECK(end_worker(&w) == SGPU_OK);
}

UNIT_TEST(an_item_that_is_none_is_not_sent)
{
	static uint8_t group[SGPU_GROUP_BYTES], tail[SGPU_GROUP_BYTES];
	/* clang-format off */
	const struct sgpu_item bad[] = {
		{ .kind = 0 }, { .kind = SGPU_ITEM_KINDS }, { .kind = SGPU_ITEM_FREE + 1 }, { .kind = SGPU_ITEM_FREE + 2 },
		{ .kind = SGPU_ITEM_SEAL + 1 },
		{ .kind = SGPU_ITEM_FREE, .buffer = SGPU_GROUP_BUFFERS }, { .kind = SGPU_ITEM_FREE, .size = 1 },
		{ .kind = SGPU_ITEM_FREE, .zero = 1 }, { .kind = SGPU_ITEM_OPEN, .pad = 1 },
		{ .kind = SGPU_ITEM_KEY_FREE, .object = SGPU_GROUP_OBJECTS },
		{ .kind = SGPU_ITEM_KEY_LOAD, .tail = tail, .tail_size = 1 },
		{ .kind = SGPU_ITEM_JOB_LOAD, .tail = tail, .tail_size = 0 },
		{ .kind = SGPU_ITEM_JOB_LOAD, .tail = tail, .tail_size = SGPU_GROUP_BYTES - SGPU_ITEM_HEAD + 1 },
		{ .kind = SGPU_ITEM_JOB_RUN, .tail = tail, .tail_size = SGPU_ITEM_RANGES_MAX + 1 },
	};
	/* clang-format on */
	size_t size = 0;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		CHECK(sgpu_item_encode(&bad[i], group, &size, &error) == SGPU_EUSAGE && size == 0);
	}
	/* The last one may fill the group to its end. */
	const struct sgpu_item good = { .kind = SGPU_ITEM_FREE, .buffer = 1 };

	size = SGPU_GROUP_BYTES - SGPU_ITEM_HEAD + 1;
	CHECK(sgpu_item_encode(&good, group, &size, &error) == SGPU_EUSAGE);
	size = SGPU_GROUP_BYTES - SGPU_ITEM_HEAD;
	CHECK(sgpu_item_encode(&good, group, &size, &error) == SGPU_OK && size == SGPU_GROUP_BYTES);
}

/* ---- the end of either side ---- */
UNIT_TEST(a_worker_that_is_killed_is_an_error_and_ends_the_session)
{
	struct worker_process w = start_worker();
	struct sgpu_group_client *client = open_client(&w);
	const struct sgpu_item alloc = { .kind = SGPU_ITEM_ALLOC, .buffer = 1, .size = 1000 };

	REQUIRE(client != NULL);
	CHECK(send_items(client, &alloc, 1) == SGPU_OK);
	kill(w.pid, SIGKILL);
	CHECK(waitpid(w.pid, NULL, 0) == w.pid);
	CHECK(send_items(client, &alloc, 1) == SGPU_ESYSTEM);
	CHECK(send_items(client, &alloc, 1) == SGPU_EAUTH && strstr(error.text, "broken") != NULL);
	sgpu_group_client_close(&client);
	w.carrier->calls->close(w.carrier);
	close(w.pipe.in);
	close(w.pipe.out);
}

int main(void)
{
	if (!on_cpu()) {
		printf("1..0 # SKIP a process that has opened a GPU does not fork\n");
		return 0;
	}
	share_area();
	if (!make_keys()) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	UNIT_RUN(memory_and_jobs_stay_from_group_to_group);
	UNIT_RUN(sealed_data_pass_through_the_shared_area);
	UNIT_RUN(every_handle_size_and_offset_is_checked);
	UNIT_RUN(a_job_that_is_freed_gives_its_memory_back);
	UNIT_RUN(the_ranges_of_a_job_are_all_that_its_item_brings);
	UNIT_RUN(an_item_that_is_none_is_not_sent);
	UNIT_RUN(a_worker_that_is_killed_is_an_error_and_ends_the_session);
	return unit_done();
}
