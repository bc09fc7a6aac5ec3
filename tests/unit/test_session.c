/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions with a worker in another process, over a pipe: what they can ask, what of it is refused,
 * and what comes of either side's end.
 */
#include "crypto/crypto.h"
#include "session_harness.h"

static struct sgpu_key owner;

static struct sgpu_group_client *open_client(struct worker_process *w)
{
	struct sgpu_group_client *client = NULL;

	CHECK(sgpu_group_client_open(&owner, NULL, w->carrier->calls->exchange, w->carrier, &client,
				     &error) == SGPU_OK);
	return client;
}

static void fill(uint8_t *data, size_t size, unsigned seed)
{
	for (size_t i = 0; i < size; i++) {
		data[i] = (uint8_t)(i * 31 + i / 253 + seed);
	}
}

/* ---- what a session can ask ---- */
UNIT_TEST(bytes_go_to_another_process_and_come_back)
{
	struct worker_process w = start_worker(false);
	struct sgpu_group_client *client = open_client(&w);
	uint8_t data[5000], tail[128], digest[SGPU_KT128_SIZE];
	const uint8_t three = 3;

	REQUIRE(client != NULL);
	fill(data, sizeof(data), 1);
	/* clang-format off */
	const struct sgpu_item first[] = {
		{ .kind = SGPU_ITEM_ALLOC, .buffer = 200, .size = 6000 },
		{ .kind = SGPU_ITEM_COPY_IN, .buffer = 200, .offset = 1000, .tail = data, .tail_size = sizeof(data) },
		add_item(200, 1000, 5000, &three, tail),
		{ .kind = SGPU_ITEM_COPY_OUT, .buffer = 200, .offset = 999, .size = 5001 },
		{ .kind = SGPU_ITEM_DIGEST, .buffer = 200, .offset = 1000, .size = 5000, .tail = (const uint8_t *)"c",
		  .tail_size = 1 },
		{ .kind = SGPU_ITEM_CLEAR, .buffer = 200, .offset = 1000, .size = 2 },
	};
	/* clang-format on */
	CHECK(SEND(client, first) == SGPU_OK);
	for (size_t i = 0; i < sizeof(data); i++) {
		data[i] = (uint8_t)(data[i] + 3);
	}
	sgpu_kt128(data, sizeof(data), "c", 1, digest, sizeof(digest));
	CHECK(results[3].size == 5001 && results[3].bytes[0] == 0 &&
	      !memcmp(results[3].bytes + 1, data, sizeof(data)));
	CHECK(results[4].size == sizeof(digest) &&
	      !memcmp(results[4].bytes, digest, sizeof(digest)));
	/* Buffers stay from group to group, and other streams wait for the first. */
	/* clang-format off */
	const struct sgpu_item second[] = {
		add_item(200, 1000, 5000, &three, tail),
		{ .kind = SGPU_ITEM_WAIT, .stream = 7, .other = 0 },
		{ .kind = SGPU_ITEM_COPY_OUT, .stream = 7, .buffer = 200, .offset = 1000, .size = 3 },
		{ .kind = SGPU_ITEM_FREE, .buffer = 200 },
		{ .kind = SGPU_ITEM_ALLOC, .buffer = 200, .size = 3 },
		{ .kind = SGPU_ITEM_COPY_OUT, .buffer = 200, .size = 3 },
	};
	/* clang-format on */
	CHECK(SEND(client, second) == SGPU_OK);
	CHECK(results[2].size == 3 && results[2].bytes[0] == 3 &&
	      results[2].bytes[2] == (uint8_t)(data[2] + 3));
	CHECK(results[5].size == 3 && !results[5].bytes[0] && !results[5].bytes[1] &&
	      !results[5].bytes[2]);
	CHECK(SEND(client, ((struct sgpu_item[]){ { .kind = SGPU_ITEM_FREE, .buffer = 200 } })) ==
	      SGPU_OK);
	sgpu_group_client_close(&client);
	CHECK(end_worker(&w) == SGPU_OK);
}

UNIT_TEST(sealed_data_pass_through_the_shared_area)
{
	enum { SIZE = 3 * SGPU_CHUNK + 77, SEALED = SIZE + 4 * SGPU_TAG_SIZE };
	struct worker_process w = start_worker(false);
	struct sgpu_group_client *client = open_client(&w);
	static uint8_t plain[SIZE], sealed[SEALED];
	uint8_t secret[SGPU_KEY_SIZE] = { 7 }, tail[sizeof(struct sgpu_sealed_keys)], more[128];
	const uint8_t none = 0;
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
		add_item(1, 0, SIZE, &none, more),
		{ .kind = SGPU_ITEM_SEAL, .object = 3, .last = true, .buffer = 1, .offset = SIZE, .size = SIZE,
		  .other_offset = AREA - SEALED },
		{ .kind = SGPU_ITEM_COPY_OUT, .buffer = 1, .offset = SIZE - 10, .size = 10 },
	};
	/* clang-format on */
	CHECK(SEND(client, items) == SGPU_OK);
	CHECK(!memcmp(area + AREA - SEALED, sealed, SEALED));
	CHECK(results[6].size == 10 && !memcmp(results[6].bytes, plain + SIZE - 10, 10));
	/* What was altered there does not open, and nothing that follows reads what it left, but
	 * other data that are opened. */
	area[1000 + 2 * SGPU_SEALED_CHUNK + 5] ^= 1;
	CHECK(send_items(client, &items[2], 5) == SGPU_EAUTH &&
	      strstr(error.text, "chunk 2") != NULL);
	CHECK(results[0].code == SGPU_EAUTH && results[1].code == SGPU_EAUTH &&
	      results[2].code == SGPU_EDEPENDENCY);
	CHECK(results[3].code == SGPU_EDEPENDENCY && results[4].code == SGPU_EDEPENDENCY &&
	      results[4].size == 0);
	CHECK(SEND(client, ((struct sgpu_item[]){ { .kind = SGPU_ITEM_KEY_FREE, .object = 3 } })) ==
	      SGPU_OK);
	CHECK(send_items(client, &items[5], 1) == SGPU_EUSAGE);
	sgpu_group_client_close(&client);
	CHECK(end_worker(&w) == SGPU_OK);
}

UNIT_TEST(a_module_is_brought_through_the_area_by_its_digest)
{
	struct worker_process w = start_worker(true);
	struct sgpu_group_client *client = open_client(&w);
	const struct sgpu_item_call call = { .name = "clear",
					     .range_count = 1,
					     .ranges = { { 5, 10, 20 } },
					     .written = 1,
					     .shape = { { 3, 1, 1 }, { 1, 1, 1 }, 0 },
					     .arguments = (const uint8_t *)"\x00\x08\xff\x02"
									   "ab",
					     .arguments_size = 6 };
	struct sgpu_item_call bad = call;
	uint8_t digest[SGPU_KT128_SIZE], tail[256], data[30];

	REQUIRE(client != NULL);
	fill(area, 99, 8);
	area[99] = 7;
	sgpu_measure_pages(area, 100, NULL, digest);
	memset(data, 0x5a, sizeof(data));
	struct sgpu_item run = { .kind = SGPU_ITEM_MODULE_RUN, .object = 2, .tail = tail };
	/* clang-format off */
	struct sgpu_item load = { .kind = SGPU_ITEM_MODULE_LOAD, .object = 2, .size = 100, .tail = digest,
				  .tail_size = sizeof(digest) };
	/* clang-format on */
	REQUIRE(sgpu_item_call_encode(&call, tail, &run.tail_size, &error) == SGPU_OK);
	/* clang-format off */
	const struct sgpu_item items[] = {
		{ .kind = SGPU_ITEM_ALLOC, .buffer = 5, .size = 30 },
		{ .kind = SGPU_ITEM_COPY_IN, .buffer = 5, .tail = data, .tail_size = sizeof(data) },
		load,
		run,
		{ .kind = SGPU_ITEM_COPY_OUT, .buffer = 5, .size = 30 },
	};
	/* clang-format on */
	CHECK(SEND(client, items) == SGPU_OK);
	memset(data + 10, 0, 20);
	CHECK(results[4].size == 30 && !memcmp(results[4].bytes, data, 30));
	/* Loaded once, by its digest, and run as it is. */
	CHECK(send_items(client, &load, 1) == SGPU_EUSAGE);
	load.object = 3;
	area[4] ^= 1;
	CHECK(send_items(client, &load, 1) == SGPU_EPOLICY);
	load.size = AREA + 1;
	CHECK(send_items(client, &load, 1) == SGPU_EUSAGE);
	run.object = 3;
	CHECK(send_items(client, &run, 1) == SGPU_EUSAGE);
	run.object = 2;
	/* clang-format off */
	static const struct { const char *bytes; size_t size; } arguments[] = {
		{ "\x00", 1 }, { "\x00\x07", 2 }, { "\x01\x08", 2 }, { "\xff\x02" "a", 3 }, { "\xfe\x08", 2 },
	};
	/* clang-format on */
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(arguments); i++) {
		bad.arguments = (const uint8_t *)arguments[i].bytes;
		bad.arguments_size = arguments[i].size;
		REQUIRE(sgpu_item_call_encode(&bad, tail, &run.tail_size, &error) == SGPU_OK);
		CHECK(send_items(client, &run, 1) == SGPU_EINVALID &&
		      strstr(error.text, "malformed") != NULL);
	}
	bad = call;
	bad.shape.block[1] = 0;
	REQUIRE(sgpu_item_call_encode(&bad, tail, &run.tail_size, &error) == SGPU_OK);
	CHECK(send_items(client, &run, 1) == SGPU_EUSAGE);
	bad = call;
	bad.ranges[0].size = 21;
	REQUIRE(sgpu_item_call_encode(&bad, tail, &run.tail_size, &error) == SGPU_OK);
	CHECK(send_items(client, &run, 1) == SGPU_EUSAGE);
	bad = call;
	bad.arguments_size = SGPU_GROUP_BYTES;
	CHECK(sgpu_item_call_encode(&bad, tail, &run.tail_size, &error) == SGPU_EUSAGE);
	CHECK(SEND(client, ((struct sgpu_item[]){
				   { .kind = SGPU_ITEM_MODULE_FREE, .object = 2 } })) == SGPU_OK);
	sgpu_group_client_close(&client);
	CHECK(end_worker(&w) == SGPU_OK);
}

UNIT_TEST(a_module_is_refused_where_no_code_is_allowed)
{
	struct worker_process w = start_worker(false);
	struct sgpu_group_client *client = open_client(&w);
	uint8_t digest[SGPU_KT128_SIZE];
	/* clang-format off */
	const struct sgpu_item load = { .kind = SGPU_ITEM_MODULE_LOAD, .size = 100, .tail = digest,
					.tail_size = sizeof(digest) };
	/* clang-format on */

	fill(area, 100, 8);
	sgpu_measure_pages(area, 100, NULL, digest);
	CHECK(client && send_items(client, &load, 1) == SGPU_EPOLICY);
	sgpu_group_client_close(&client);
	CHECK(end_worker(&w) == SGPU_OK);
}

/* ---- what is refused ---- */
UNIT_TEST(every_handle_size_and_offset_is_checked)
{
	struct worker_process w = start_worker(false);
	struct sgpu_group_client *client = open_client(&w);
	uint8_t byte[1] = { 1 }, keys[sizeof(struct sgpu_sealed_keys)] = { 0 }, tails[3][128];
	const uint8_t one = 1;

	REQUIRE(client != NULL);
	/* clang-format off */
	const struct sgpu_item base[] = {
		{ .kind = SGPU_ITEM_ALLOC, .buffer = 0, .size = 100 },
		{ .kind = SGPU_ITEM_KEY_LOAD, .object = 0, .tail = keys, .tail_size = sizeof(keys) },
	};
	/* clang-format on */
	CHECK(SEND(client, base) == SGPU_OK);
	/* clang-format off */
	const struct sgpu_item bad[] = {
		{ .kind = SGPU_ITEM_ALLOC, .buffer = 0, .size = 1 },             /* it is there */
		{ .kind = SGPU_ITEM_ALLOC, .buffer = 1, .size = LIMIT - 99 },    /* more than the session may have */
		{ .kind = SGPU_ITEM_ALLOC, .buffer = 1, .size = UINT64_MAX },
		{ .kind = SGPU_ITEM_FREE, .buffer = 1 },
		{ .kind = SGPU_ITEM_COPY_IN, .buffer = 1, .tail = byte, .tail_size = 1 },
		{ .kind = SGPU_ITEM_COPY_IN, .buffer = 0, .offset = 100, .tail = byte, .tail_size = 1 },
		{ .kind = SGPU_ITEM_COPY_IN, .buffer = 0, .offset = UINT64_MAX, .tail = byte, .tail_size = 1 },
		{ .kind = SGPU_ITEM_COPY_OUT, .buffer = 0, .offset = 1, .size = 100 },
		{ .kind = SGPU_ITEM_CLEAR, .buffer = 0, .offset = 50, .size = UINT64_MAX - 10 },
		{ .kind = SGPU_ITEM_DIGEST, .buffer = 0, .size = 101 },
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
		{ .kind = SGPU_ITEM_MODULE_FREE, .object = 0 },
		add_item(0, 1, 100, &one, tails[0]),
		add_item(300, 0, 1, &one, tails[1]),
		add_item(0, UINT64_MAX, 2, &one, tails[2]),
	};
	/* clang-format on */
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		/* clang-format off */
		const struct sgpu_item items[] = {
			{ .kind = SGPU_ITEM_CLEAR, .buffer = 0, .size = 100 },
			bad[i],
			{ .kind = SGPU_ITEM_COPY_OUT, .buffer = 0, .size = 100 },
		};
		/* clang-format on */
		int rc = SEND(client, items);

		if ((rc != SGPU_EUSAGE && rc != SGPU_ENOMEM) || results[0].code != SGPU_OK ||
		    results[1].code != rc || results[1].size == 0 ||
		    results[2].code != SGPU_EDEPENDENCY) {
			printf("# item %zu: %d '%s'\n", i, rc, error.text);
			CHECK(!"it was refused, and what follows not carried out");
		}
	}
	/* An operation that does not exist, or does not like what it gets. */
	const struct sgpu_item_call none = { .name = "ad" }, odd = { .name = "add" };
	struct sgpu_item call = { .kind = SGPU_ITEM_LAUNCH, .tail = tails[0] };

	CHECK(sgpu_item_call_encode(&none, tails[0], &call.tail_size, &error) == SGPU_OK);
	CHECK(send_items(client, &call, 1) == SGPU_EUSAGE &&
	      strstr(error.text, "no operation 'ad'") != NULL);
	CHECK(sgpu_item_call_encode(&odd, tails[0], &call.tail_size, &error) == SGPU_OK);
	CHECK(send_items(client, &call, 1) == SGPU_EUSAGE &&
	      strstr(error.text, "add takes") != NULL);
	CHECK(send_items(client, NULL, 0) == SGPU_OK);
	CHECK(send_items(client, &(struct sgpu_item){ .kind = SGPU_ITEM_FREE }, 1) == SGPU_OK);
	sgpu_group_client_close(&client);
	CHECK(end_worker(&w) == SGPU_OK);
}

UNIT_TEST(an_item_that_is_none_is_not_sent)
{
	static uint8_t group[SGPU_GROUP_BYTES], tail[SGPU_GROUP_BYTES];
	/* clang-format off */
	const struct sgpu_item bad[] = {
		{ .kind = 0 }, { .kind = SGPU_ITEM_KINDS }, { .kind = SGPU_ITEM_FREE, .buffer = SGPU_GROUP_BUFFERS },
		{ .kind = SGPU_ITEM_FREE, .size = 1 }, { .kind = SGPU_ITEM_FREE, .stream = 1 },
		{ .kind = SGPU_ITEM_CLEAR, .stream = SGPU_GROUP_STREAMS }, { .kind = SGPU_ITEM_WAIT, .other = SGPU_GROUP_STREAMS },
		{ .kind = SGPU_ITEM_KEY_FREE, .object = SGPU_GROUP_OBJECTS },
		{ .kind = SGPU_ITEM_KEY_LOAD, .tail = tail, .tail_size = 1 },
		{ .kind = SGPU_ITEM_COPY_IN, .tail = tail, .tail_size = SGPU_GROUP_BYTES - SGPU_ITEM_HEAD + 1 },
		{ .kind = SGPU_ITEM_DIGEST, .tail = tail, .tail_size = SGPU_DIGEST_CUSTOM_MAX + 1 },
	};
	/* clang-format on */
	size_t size = 0;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		CHECK(sgpu_item_encode(&bad[i], group, &size, &error) == SGPU_EUSAGE && size == 0);
	}
}

/* ---- the end of either side ---- */
UNIT_TEST(a_message_that_is_cut_or_no_message_ends_the_worker_and_leaves_nothing)
{
	static const struct {
		const char *bytes;
		size_t size;
		int code;
	} cases[] = {
		{ "", 0, SGPU_OK },
		{ "\x20", 1, SGPU_EINVALID },
		{ "\x20\0\0\0abc", 7, SGPU_EINVALID },
		{ "\0\0\0\0", 4, SGPU_EINVALID },
		{ "\xff\xff\xff\xff", 4, SGPU_EINVALID },
		{ "\x41\x40\0\0", 4, SGPU_EINVALID },
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(cases); i++) {
		struct worker_process w = start_worker(false);
		struct sgpu_group_client *client = open_client(&w);
		const struct sgpu_item alloc = { .kind = SGPU_ITEM_ALLOC,
						 .buffer = 1,
						 .size = 1000 };

		CHECK(client && send_items(client, &alloc, 1) == SGPU_OK);
		CHECK(write(w.pipe.out, cases[i].bytes, cases[i].size) == (ssize_t)cases[i].size);
		CHECK(end_worker(&w) == cases[i].code);
		sgpu_group_client_close(&client);
	}
}

/* Asks for memory and dies in the middle of its next group. */
static void die_in_the_middle(struct worker_process *w)
{
	struct sgpu_group_client *client = open_client(w);
	const struct sgpu_item alloc = { .kind = SGPU_ITEM_ALLOC, .buffer = 1, .size = 1000 };

	if (client && send_items(client, &alloc, 1) == SGPU_OK &&
	    write(w->pipe.out, "\0\x10\0\0 half a group", 17) == 17) {
		kill(getpid(), SIGKILL);
	}
	_exit(1);
}

UNIT_TEST(a_session_that_is_killed_ends_its_worker_and_leaves_nothing)
{
	struct worker_process w = start_worker(false);
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		die_in_the_middle(&w);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) &&
	      WTERMSIG(status) == SIGKILL);
	CHECK(end_worker(&w) == SGPU_EINVALID);
}

UNIT_TEST(a_worker_that_is_killed_is_an_error_and_ends_the_session)
{
	struct worker_process w = start_worker(false);
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
	if (sgpu_key_generate(SGPU_KEY_X25519, &owner, &error) != SGPU_OK) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	UNIT_RUN(bytes_go_to_another_process_and_come_back);
	UNIT_RUN(sealed_data_pass_through_the_shared_area);
	UNIT_RUN(a_module_is_brought_through_the_area_by_its_digest);
	UNIT_RUN(a_module_is_refused_where_no_code_is_allowed);
	UNIT_RUN(every_handle_size_and_offset_is_checked);
	UNIT_RUN(an_item_that_is_none_is_not_sent);
	UNIT_RUN(a_message_that_is_cut_or_no_message_ends_the_worker_and_leaves_nothing);
	UNIT_RUN(a_session_that_is_killed_ends_its_worker_and_leaves_nothing);
	UNIT_RUN(a_worker_that_is_killed_is_an_error_and_ends_the_session);
	sgpu_key_clear(&owner);
	return unit_done();
}
