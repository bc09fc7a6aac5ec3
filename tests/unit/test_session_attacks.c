/* SPDX-License-Identifier: Apache-2.0
 *
 * An attacker between a session and its worker, who loses, doubles, reorders, cuts, alters and
 * replays messages in both directions, and lies. What they make of a message is refused; the true
 * one, sent again, does its work, and does it once. And a session whose groups are malformed
 * inside.
 */
#include "channel/group.h"
#include "channel_check.h"

#include "channel/wire.h"
/* A server is looked into: what it leaves of a group. */
#include "channel/group_server.c"

#include "session_harness.h"

enum attack {
	NONE,
	DROP,
	LIE,
	LOSE_ANSWER,
	OLD_ANSWER,
	OTHER_NUMBER,
	ALTER_ANSWER,
	CUT_ANSWER,
	EMPTY_ANSWER,
	DOUBLE,
	OLD,
	AHEAD,
	CUT,
	EMPTY,
	LONGER,
	ALTER,
	OTHER_OP,
	OTHER_CHANNEL,
	FROM_ELSEWHERE,
};

static struct {
	struct worker_process worker;
	enum attack attack;
	int at;	      /* the message that it happens to; each is attacked once */
	int position; /* which byte, from the beginning, or before the end */
	int messages, refused, done;
	bool drop_all;
	uint8_t last[SGPU_MESSAGE_MAX], last_answer[SGPU_MESSAGE_MAX], elsewhere[SGPU_MESSAGE_MAX];
	size_t last_size, last_answer_size, elsewhere_size;
} they;

static int forward(const uint8_t *message, size_t size, uint8_t *answer, size_t *answer_size)
{
	return they.worker.carrier->calls->exchange(they.worker.carrier, message, size, answer,
						    answer_size, &error);
}

/* Sends something that must be refused, or answered as it was before. */
static void send_false(const uint8_t *message, size_t size)
{
	static uint8_t answer[SGPU_MESSAGE_MAX];
	size_t answer_size = 0;

	they.done++;
	if (forward(message, size, answer, &answer_size) == SGPU_OK) {
		they.refused += (answer_size == 9 && answer[8] != SGPU_REFUSED_NOT) ||
				(answer_size == they.last_answer_size &&
				 !memcmp(answer, they.last_answer, answer_size));
	}
}

/* The counter of a group is at 12, its size at 20, the ciphertext at 24. */
static void send_changed(const uint8_t *message, size_t size)
{
	static uint8_t changed[SGPU_MESSAGE_MAX];

	memset(changed, 0, sizeof(changed));
	memcpy(changed, message, size);
	switch (they.attack) {
	case OLD:
		send_false(they.last, they.last_size);
		return;
	case AHEAD:
		changed[12]++;
		break;
	case CUT:
		size--;
		sgpu_put_u32(changed + 20, (uint32_t)size - 24);
		break;
	case EMPTY:
		size = 24 + SGPU_TAG_SIZE;
		sgpu_put_u32(changed + 20, SGPU_TAG_SIZE);
		break;
	case LONGER:
		size++;
		sgpu_put_u32(changed + 20, (uint32_t)size - 24);
		break;
	case ALTER:
		changed[they.position >= 0 ? they.position : (int)size + they.position] ^= 0x10;
		break;
	case OTHER_OP:
		changed[1] = SGPU_CH_DESTROY;
		break;
	case OTHER_CHANNEL:
		changed[4] = changed[8] = changed[4] ^ 1;
		break;
	case FROM_ELSEWHERE:
		send_false(they.elsewhere, they.elsewhere_size);
		return;
	default:
		return;
	}
	send_false(changed, size);
}

static void change_answer(const uint8_t *before, size_t before_size, uint8_t *answer,
			  size_t *answer_size)
{
	switch (they.attack) {
	case LOSE_ANSWER:
		*answer_size = 1;
		break;
	case EMPTY_ANSWER:
		*answer_size = 0;
		break;
	case CUT_ANSWER:
		--*answer_size;
		break;
	case OLD_ANSWER:
		memcpy(answer, before, before_size);
		*answer_size = before_size;
		break;
	case OTHER_NUMBER:
		memcpy(answer + 8, before + 8, before_size - 8);
		*answer_size = before_size;
		break;
	case ALTER_ANSWER:
		answer[they.position >= 0 ? they.position : (int)*answer_size + they.position] ^=
			0x10;
		break;
	default:
		return;
	}
	they.done++;
	they.refused++; /* if the client believes it, the count of what was carried out or answered
			   will not fit */
}

static int between(void *argument, const uint8_t *message, size_t size, uint8_t *answer,
		   size_t *answer_size, struct sgpu_error *why)
{
	static uint8_t before[SGPU_MESSAGE_MAX];
	size_t before_size = they.last_answer_size;
	bool attacked = they.messages++ == they.at;
	int rc;

	(void)argument;
	(void)why;
	memcpy(before, they.last_answer, before_size);
	if (they.drop_all || (attacked && (they.attack == DROP || they.attack == LIE))) {
		they.done++;
		they.refused++;
		memcpy(answer, before, before_size);
		*answer_size = they.attack == LIE ? before_size : 1;
		return SGPU_OK;
	}
	if (attacked) {
		send_changed(message, size);
	}
	rc = forward(message, size, answer, answer_size);
	if (rc < 0) {
		return rc;
	}
	memcpy(they.last, message, size);
	memcpy(they.last_answer, answer, *answer_size);
	they.last_size = size;
	they.last_answer_size = *answer_size;
	if (attacked && they.attack == DOUBLE) {
		send_false(message, size);
	}
	if (attacked) {
		change_answer(before, before_size, answer, answer_size);
	}
	return rc;
}

/* ---- groups that count ---- */
static struct sgpu_group_client *client;
static uint8_t counted;

static bool begin_counting(void)
{
	const struct sgpu_item items[] = { { .kind = SGPU_ITEM_ALLOC, .buffer = 0, .size = 1 },
					   job_item_load(ADD),
					   job_item_load(SHOW) };

	they.worker = start_worker();
	they.attack = NONE;
	they.at = -1;
	counted = 0;
	return sgpu_group_client_open(NULL, &runner_key, between, NULL, &client, &error) ==
		       SGPU_OK &&
	       SEND(client, items) == SGPU_OK;
}

static void end_counting(void)
{
	sgpu_group_client_close(&client);
	CHECK(end_worker(&they.worker) == SGPU_OK);
}

/* Counts, and compares what has been counted. */
static bool count_once(void)
{
	uint8_t tails[2][TAIL];
	const struct sgpu_item items[] = { job_item(ADD, 0, 0, 1, tails[0]),
					   job_item(SHOW, 0, 0, 1, tails[1]) };

	counted++;
	shown[0] = 0;
	return SEND(client, items) == SGPU_OK && shown[0] == counted;
}

static void attack_groups(enum attack attack, int position)
{
	int bad = 0;

	REQUIRE(begin_counting());
	CHECK(count_once());
	they.attack = attack;
	they.position = position;
	for (int i = 0; i < 3; i++) {
		they.messages = they.done = they.refused = they.at = 0;
		if (!count_once() || they.done != 1 || they.refused != 1) {
			printf("# attack %d at %d on group %d: %d done, %d refused: %s\n",
			       (int)attack, position, i, they.done, they.refused, error.text);
			bad++;
		}
	}
	they.attack = NONE;
	CHECK(bad == 0 && count_once());
	end_counting();
}

UNIT_TEST(a_group_that_is_lost_is_sent_again)
{
	attack_groups(DROP, 0);
	attack_groups(LIE, 0);
}

UNIT_TEST(a_group_is_carried_out_once)
{
	attack_groups(LOSE_ANSWER, 0);
	attack_groups(EMPTY_ANSWER, 0);
	attack_groups(DOUBLE, 0);
	attack_groups(OLD, 0);
	attack_groups(AHEAD, 0);
}

UNIT_TEST(a_group_of_another_size_is_refused)
{
	attack_groups(CUT, 0);
	attack_groups(EMPTY, 0);
	attack_groups(LONGER, 0);
}

UNIT_TEST(a_group_that_was_altered_is_refused_wherever_that_was)
{
	/* Version, operation, flags, via, channel, counter, size; kind of the first item, its
	 * buffer, offset, tail; the tag. */
	static const int positions[] = { 0,  1,	 2,  4,	 8,   12,  19,	20,
					 24, 28, 40, 76, -40, -17, -16, -1 };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(positions); i++) {
		attack_groups(ALTER, positions[i]);
	}
	attack_groups(OTHER_OP, 0);
	attack_groups(OTHER_CHANNEL, 0);
}

UNIT_TEST(an_answer_that_was_altered_is_not_believed)
{
	/* The number, the code of the group, the code of an item, the size of a text; the tag. */
	static const int positions[] = { 0, 7, 8, 12, -17, -16, -1 };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(positions); i++) {
		attack_groups(ALTER_ANSWER, positions[i]);
	}
	attack_groups(CUT_ANSWER, 0);
	attack_groups(OLD_ANSWER, 0);
	attack_groups(OTHER_NUMBER, 0);
}

UNIT_TEST(a_group_of_another_session_is_refused)
{
	/* Of the same owner, with the same number, from a worker like this one. */
	REQUIRE(begin_counting() && count_once() && count_once());
	memcpy(they.elsewhere, they.last, they.last_size);
	they.elsewhere_size = they.last_size;
	end_counting();
	attack_groups(FROM_ELSEWHERE, 0);
}

UNIT_TEST(a_group_that_never_comes_through_breaks_its_session)
{
	REQUIRE(begin_counting() && count_once());
	they.messages = 0;
	they.drop_all = true;
	CHECK(!count_once() && error.code == SGPU_EAUTH &&
	      strstr(error.text, "did not get through") != NULL);
	CHECK(they.messages == SGPU_GROUP_SENDS);
	they.drop_all = false;
	CHECK(!count_once() && error.code == SGPU_EAUTH && strstr(error.text, "broken") != NULL);
	end_counting();
}

UNIT_TEST(a_grant_that_was_altered_opens_no_session)
{
	static const int positions[] = { 0, 4, 8, 40, 56, 100, SGPU_GRANT_SIZE - 1 };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(positions); i++) {
		they.worker = start_worker();
		they.attack = ALTER_ANSWER;
		they.position = positions[i];
		they.messages = 0;
		they.at = 1; /* after the challenge */
		/* The channel's serial and number are bound to the key: it does not open. */
		CHECK(sgpu_group_client_open(NULL, &runner_key, between, NULL, &client, &error) <
			      0 &&
		      !client);
		CHECK(end_worker(&they.worker) == SGPU_OK);
	}
	they.attack = NONE;
}

/* ---- groups that the session itself seals, malformed inside ---- */
struct raw {
	struct sgpu_grant grant;
	struct sgpu_session *session;
	uint8_t group[SGPU_GROUP_MAX], message[SGPU_MESSAGE_MAX], answer[SGPU_MESSAGE_MAX],
		opened[SGPU_GROUP_BYTES];
};
static struct raw raw;

static bool raw_open(struct worker_process *w)
{
	struct sgpu_hello hello;
	size_t size = 0;

	if (!make_hello(w->carrier->calls->exchange, w->carrier, &hello) ||
	    w->carrier->calls->exchange(w->carrier, (uint8_t *)hello.text, hello.size, raw.answer,
					&size, &error) < 0 ||
	    size != SGPU_GRANT_SIZE) {
		return false;
	}
	memcpy(&raw.grant, raw.answer, sizeof(raw.grant));
	return sgpu_session_open(&own_key, &raw.grant, &raw.session, &error) == SGPU_OK &&
	       sgpu_session_bind(raw.session, &hello, &raw.grant, &error) == SGPU_OK;
}

/* The code of the group; 1: it was not answered as it should be. */
static int raw_send(struct worker_process *w, const uint8_t *items, size_t size)
{
	struct sgpu_command command = { .op = SGPU_CH_SUBMIT,
					.channel = raw.grant.channel,
					.submit = { .group = raw.group,
						    .size = (uint32_t)size + SGPU_TAG_SIZE } };
	struct sgpu_reader reader = { .next = raw.opened, .left = 4 };
	size_t answer_size = 0;

	if (sgpu_session_seal(raw.session, items, size, raw.group, &command.submit.counter,
			      &error) < 0 ||
	    w->carrier->calls->exchange(w->carrier, raw.message,
					sgpu_submit_encode(&command, raw.message), raw.answer,
					&answer_size, &error) < 0 ||
	    sgpu_session_answer(raw.session, raw.answer + 8, answer_size - 8,
				command.submit.counter, raw.opened) < 0) {
		return 1;
	}
	return (int)sgpu_take_u32(&reader);
}

UNIT_TEST(a_group_that_is_malformed_inside_is_refused_as_a_whole)
{
	struct worker_process w = start_worker();
	static uint8_t items[SGPU_GROUP_BYTES], changed[SGPU_GROUP_BYTES];
	const struct sgpu_item alloc = { .kind = SGPU_ITEM_ALLOC, .buffer = 0, .size = 9000 };
	/* Where a byte of the second item is changed, and to what. */
	static const struct {
		int at;
		uint8_t value;
	} cases[] = {
		{ 0, 0 },
		{ 0, SGPU_ITEM_KINDS },
		{ 0, 255 },
		{ 0, SGPU_ITEM_FREE },
		{ 0, SGPU_ITEM_FREE + 1 },
		{ 0, SGPU_ITEM_KEY_LOAD },
		{ 1, 1 },
		{ 1, 8 },
		{ 2, 1 },
		{ 2, 2 },
		{ 3, 1 },
		{ 5, 1 },
		{ 8, 1 },
		{ 12, 1 },
		{ 16, 1 },
		{ 24, 1 },
		{ 40, 1 },
		{ 48, 1 },
		{ 51, 255 },
	};
	size_t size = 0;

	REQUIRE(raw_open(&w));
	/* The second is refused by itself. */
	CHECK(sgpu_item_encode(&alloc, items, &size, &error) == SGPU_OK);
	CHECK(sgpu_item_encode(&alloc, items, &size, &error) == SGPU_OK);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(cases); i++) {
		memcpy(changed, items, size);
		changed[SGPU_ITEM_HEAD + cases[i].at] = cases[i].value;
		if (raw_send(&w, changed, size) != SGPU_EINVALID) {
			printf("# case %zu\n", i);
			CHECK(!"it was refused");
		}
	}
	for (size_t cut = 1; cut < SGPU_ITEM_HEAD; cut++) {
		CHECK(raw_send(&w, items, size - cut) == SGPU_EINVALID);
	}
	CHECK(raw_send(&w, items, size) == SGPU_OK && raw_send(&w, items, 0) == SGPU_OK);
	/* More than may be asked. */
	size = 0;
	for (int i = 0; i < SGPU_GROUP_ITEMS; i++) {
		CHECK(sgpu_item_encode(&alloc, items, &size, &error) == SGPU_OK);
	}
	CHECK(raw_send(&w, items, size) == SGPU_OK);
	CHECK(sgpu_item_encode(&alloc, items, &size, &error) == SGPU_OK &&
	      raw_send(&w, items, size) == SGPU_EINVALID);
	sgpu_session_close(&raw.session);
	CHECK(end_worker(&w) == SGPU_OK);
}

/* ---- two sessions of one worker ---- */
static int handle(void *server, const uint8_t *message, size_t size, uint8_t *answer,
		  size_t *answer_size, struct sgpu_error *why)
{
	memcpy(they.last, message, size);
	they.last_size = size;
	return they.drop_all
		       ? SGPU_ESYSTEM
		       : sgpu_group_server_handle(server, message, size, answer, answer_size, why);
}

UNIT_TEST(two_sessions_of_one_worker_do_not_reach_each_other)
{
	const struct sgpu_group_config config = { .jobs = &jobs, .authority = &anybody };
	struct sgpu_device *device = open_test_device(1, 0);
	struct sgpu_group_server *servers[2] = { NULL, NULL };
	struct sgpu_group_client *clients[2] = { NULL, NULL };
	struct sgpu_secure *context = NULL;
	const struct sgpu_item alloc = { .kind = SGPU_ITEM_ALLOC, .buffer = 4, .size = 10 };
	const struct sgpu_item load = job_item_load(SHOW);
	uint8_t tail[TAIL];
	const struct sgpu_item out = job_item(SHOW, 4, 0, 10, tail);
	static uint8_t answer[SGPU_MESSAGE_MAX];
	struct sgpu_command command;
	struct sgpu_reply reply;
	size_t size = 0;

	REQUIRE(sgpu_secure_create(device, NULL, &context, &error) == SGPU_OK);
	for (int i = 0; i < 2; i++) {
		REQUIRE(sgpu_group_server_create(context, &config, &servers[i], &error) == SGPU_OK);
		REQUIRE(sgpu_group_client_open(NULL, &runner_key, handle, servers[i], &clients[i],
					       &error) == SGPU_OK);
		CHECK(sgpu_processor_vouch(sgpu_secure_processor(context), &servers[i]->grant,
					   NULL) == SGPU_OK);
		CHECK(send_items(clients[i], &load, 1) == SGPU_OK);
	}
	CHECK(send_items(clients[0], &alloc, 1) == SGPU_OK);
	CHECK(send_items(clients[1], &out, 1) == SGPU_EUSAGE);
	/* A group of the one at the server of the other. */
	CHECK(send_items(clients[0], &out, 1) == SGPU_OK);
	CHECK(sgpu_group_server_handle(servers[1], they.last, they.last_size, answer, &size,
				       &error) == SGPU_OK);
	CHECK(size == 9 && answer[8] == SGPU_REFUSED_NO_CHANNEL);
	they.last[4] = they.last[8] = (uint8_t)servers[1]->grant.channel;
	CHECK(sgpu_group_server_handle(servers[1], they.last, they.last_size, answer, &size,
				       &error) == SGPU_OK);
	CHECK(size == 9 && answer[8] != SGPU_REFUSED_NOT);
	/* A question where a group belongs. */
	CHECK(sgpu_group_server_handle(servers[1], (const uint8_t *)"", 1, answer, &size, &error) ==
	      SGPU_OK);
	CHECK(size == 9 && answer[8] == SGPU_REFUSED_MALFORMED);
	/* The end of the one leaves the other as it is. */
	sgpu_group_client_close(&clients[0]);
	sgpu_group_server_free(&servers[0]);
	CHECK(send_items(clients[1], &alloc, 1) == SGPU_OK &&
	      send_items(clients[1], &out, 1) == SGPU_OK);
	/* A group that comes by another way than the server is carried out by nobody. */
	they.drop_all = true;
	CHECK(send_items(clients[1], &out, 1) == SGPU_ESYSTEM);
	they.drop_all = false;
	CHECK(sgpu_submit_decode(they.last, they.last_size, &command));
	CHECK(sgpu_processor_command(sgpu_secure_processor(context), &command, &reply) ==
	      SGPU_EINVALID);
	CHECK(reply.refusal == SGPU_REFUSED_MALFORMED);
	CHECK(sgpu_processor_check(sgpu_secure_processor(context), &error) == SGPU_OK);
	sgpu_group_client_close(&clients[1]);
	sgpu_group_server_free(&servers[1]);
	sgpu_secure_destroy(&context);
	sgpu_device_close(&device);
}

static bool is_zero(const void *data, size_t size)
{
	const uint8_t *bytes = data;

	while (size > 0 && bytes[size - 1] == 0) {
		size--;
	}
	return size == 0;
}

static bool is_clean(const struct sgpu_group_server *server)
{
	return is_zero(server->text, sizeof(*server->text));
}

UNIT_TEST(a_server_keeps_neither_the_items_of_a_group_nor_what_it_answered)
{
	const struct sgpu_group_config config = { .jobs = &jobs, .authority = &anybody };
	struct sgpu_device *device = open_test_device(1, 0);
	struct sgpu_group_server *server = NULL;
	struct sgpu_group_client *sender = NULL;
	struct sgpu_secure *context = NULL;
	static const uint8_t secret[sizeof(struct sgpu_sealed_keys)] = "secrets";
	const struct sgpu_item load = {
		.kind = SGPU_ITEM_KEY_LOAD, .object = 4, .tail = secret, .tail_size = sizeof(secret)
	};

	REQUIRE(sgpu_secure_create(device, NULL, &context, &error) == SGPU_OK);
	REQUIRE(sgpu_group_server_create(context, &config, &server, &error) == SGPU_OK);
	REQUIRE(sgpu_group_client_open(NULL, &runner_key, handle, server, &sender, &error) ==
		SGPU_OK);
	CHECK(send_items(sender, &load, 1) == SGPU_OK && is_clean(server));
	/* One that fails, and is answered by a text. */
	CHECK(send_items(sender, &load, 1) == SGPU_EUSAGE && is_clean(server));
	sgpu_group_client_close(&sender);
	sgpu_group_server_free(&server);
	sgpu_secure_destroy(&context);
	sgpu_device_close(&device);
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
	UNIT_RUN(a_group_that_is_lost_is_sent_again);
	UNIT_RUN(a_group_is_carried_out_once);
	UNIT_RUN(a_group_of_another_size_is_refused);
	UNIT_RUN(a_group_that_was_altered_is_refused_wherever_that_was);
	UNIT_RUN(an_answer_that_was_altered_is_not_believed);
	UNIT_RUN(a_group_of_another_session_is_refused);
	UNIT_RUN(a_group_that_never_comes_through_breaks_its_session);
	UNIT_RUN(a_grant_that_was_altered_opens_no_session);
	UNIT_RUN(a_group_that_is_malformed_inside_is_refused_as_a_whole);
	UNIT_RUN(two_sessions_of_one_worker_do_not_reach_each_other);
	UNIT_RUN(a_server_keeps_neither_the_items_of_a_group_nor_what_it_answered);
	return unit_done();
}
