/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions that are bound to the worker of a quote, and somebody between who tries to be that
 * worker: another worker, one that answers in its place, handshakes that are replayed, altered, or
 * made into those of sessions that are not bound.
 */
#include "crypto/crypto.h"
#include "channel/group.h"
#include "channel_check.h"

#include "channel/wire.h"

#include "session_harness.h"

enum { MESSAGES_MAX = 8 };

static struct sgpu_key owner, quoted, public_half, another;
static struct sgpu_device *device;
static struct sgpu_secure *context;

/* Who is between a session and its worker. */
static struct {
	struct sgpu_group_server *server;
	bool unbound;		      /* the worker gets the hello of a session that is not bound */
	int alter_sent, alter_answer; /* a bit of the message `at`, or -1 */
	int at, messages;
	bool replays; /* what was answered before is answered again, and the worker hears nothing */
	uint8_t sent[MESSAGES_MAX][SGPU_MESSAGE_MAX], answers[MESSAGES_MAX][SGPU_MESSAGE_MAX];
	size_t sent_size[MESSAGES_MAX], answer_size[MESSAGES_MAX];
} they;

static int between(void *argument, const uint8_t *message, size_t size, uint8_t *answer,
		   size_t *answer_size, struct sgpu_error *why)
{
	static uint8_t changed[SGPU_MESSAGE_MAX];
	const int number = they.messages++;
	int rc = SGPU_OK;

	(void)argument;
	memcpy(changed, message, size);
	if (number == they.at && they.alter_sent >= 0) {
		changed[they.alter_sent / 8] ^= (uint8_t)(1 << they.alter_sent % 8);
	}
	if (they.replays) {
		memcpy(answer, they.answers[number], they.answer_size[number]);
		*answer_size = they.answer_size[number];
		return number < MESSAGES_MAX ? SGPU_OK : SGPU_ESYSTEM;
	}
	rc = sgpu_group_server_handle(they.server, changed, number == 0 && they.unbound ? 32 : size,
				      answer, answer_size, why);
	if (number == they.at && they.alter_answer >= 0) {
		answer[they.alter_answer / 8] ^= (uint8_t)(1 << they.alter_answer % 8);
	}
	if (number < MESSAGES_MAX && rc == SGPU_OK) {
		memcpy(they.sent[number], message, size);
		they.sent_size[number] = size;
		memcpy(they.answers[number], answer, *answer_size);
		they.answer_size[number] = *answer_size;
	}
	return rc;
}

/* A worker with this key, or without one. */
static void start_with(const struct sgpu_key *key)
{
	const struct sgpu_group_config config = { .jobs = &jobs, .key = key };

	memset(&they, 0, sizeof(they));
	they.alter_sent = they.alter_answer = they.at = -1;
	if (sgpu_group_server_create(context, &config, &they.server, &error) != SGPU_OK) {
		printf("Bail out! %s\n", error.text);
		exit(1);
	}
}

static void end_worker_of_it(void)
{
	sgpu_group_server_free(&they.server);
}

static struct sgpu_group_client *open_bound_session(void)
{
	struct sgpu_group_client *client = NULL;
	int rc;

	error = (struct sgpu_error){ 0 };
	rc = sgpu_group_client_open(&owner, &public_half, between, NULL, &client, &error);
	return rc == SGPU_OK ? client : NULL;
}

/* Nobody but the worker that was quoted gets a session, and the program is told what to do. */
static bool is_refused(void)
{
	struct sgpu_group_client *client = open_bound_session();
	const bool refused =
		!client && error.code == SGPU_EAUTH &&
		strstr(error.text, "does not have the key of the worker that was quoted") &&
		strstr(error.hint, "ask for a new quote");

	if (!refused) {
		printf("# %s: %d %s\n", client ? "opened" : "not refused", error.code, error.text);
	}
	sgpu_group_client_close(&client);
	return refused;
}

static uint64_t channels_made(void)
{
	struct sgpu_secure_stats stats;

	sgpu_secure_get_stats(context, &stats);
	return stats.commands;
}

UNIT_TEST(a_session_with_the_worker_that_was_quoted_works)
{
	uint8_t tails[2][TAIL];
	const struct sgpu_item base[] = { { .kind = SGPU_ITEM_ALLOC, .buffer = 4, .size = 1 },
					  job_item_load(ADD),
					  job_item_load(SHOW) };
	const struct sgpu_item items[] = { job_item(ADD, 4, 0, 1, tails[0]),
					   job_item(SHOW, 4, 0, 1, tails[1]) };
	struct sgpu_group_client *client;

	CPU_ONLY("add is an operation of the processor");
	start_with(&quoted);
	client = open_bound_session();
	REQUIRE(client && they.messages == 2); /* the hello, and one empty group */
	CHECK(SEND(client, base) == SGPU_OK);
	for (int i = 1; i < 5; i++) {
		CHECK(SEND(client, items) == SGPU_OK && shown[0] == i);
	}
	sgpu_group_client_close(&client);
	end_worker_of_it();
	/* The same worker has sessions that are not bound. */
	start_with(&quoted);
	REQUIRE(sgpu_group_client_open(&owner, NULL, between, NULL, &client, &error) == SGPU_OK &&
		they.messages == 1);
	CHECK(send_items(client, base, 1) == SGPU_OK);
	sgpu_group_client_close(&client);
	end_worker_of_it();
}

UNIT_TEST(another_worker_gets_no_session)
{
	const struct sgpu_key *const keys[] = { &another, NULL };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(keys); i++) {
		uint64_t before;

		start_with(keys[i]);
		before = channels_made();
		CHECK(is_refused());
		CHECK(channels_made() == before && they.messages == 1);
		CHECK(they.answer_size[0] == 9 && they.answers[0][8] == SGPU_REFUSED_SEAL);
		end_worker_of_it();
	}
}

UNIT_TEST(a_hello_that_was_made_into_one_that_is_not_bound_opens_no_session)
{
	const struct sgpu_key *const keys[] = { &quoted, &another, NULL };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(keys); i++) {
		start_with(keys[i]);
		they.unbound = true;
		CHECK(is_refused());
		/* A grant came, and what the program sent then opened nowhere. */
		CHECK(they.answer_size[0] == SGPU_GRANT_SIZE &&
		      they.messages == 1 + SGPU_GROUP_SENDS);
		CHECK(they.answer_size[1] == 9 && they.answers[1][8] == SGPU_REFUSED_SEAL);
		end_worker_of_it();
	}
}

UNIT_TEST(who_has_the_owners_key_but_not_the_workers_reads_nothing)
{
	static uint8_t group[SGPU_GROUP_MAX], message[SGPU_MESSAGE_MAX], answer[SGPU_MESSAGE_MAX],
		opened[SGPU_GROUP_BYTES];
	struct sgpu_command command = { .op = SGPU_CH_SUBMIT,
					.submit = { .group = group, .size = SGPU_TAG_SIZE } };
	struct sgpu_session *session = NULL;
	struct sgpu_group_client *client;
	struct sgpu_grant grant;
	size_t message_size, size = 0;

	start_with(&quoted);
	client = open_bound_session();
	REQUIRE(client);
	sgpu_grant_decode(they.answers[0], &grant);
	REQUIRE(sgpu_session_open(&owner, &grant, &session, &error) ==
		SGPU_OK); /* it has the key of the grant */
	CHECK(sgpu_session_seal(session, "", 0, group, &command.submit.counter, &error) == SGPU_OK);
	CHECK(sgpu_session_answer(session, they.answers[1] + 8, they.answer_size[1] - 8, 1, opened,
				  NULL) == SGPU_EAUTH);
	CHECK(sgpu_session_seal(session, "", 0, group, &command.submit.counter, &error) == SGPU_OK);
	command.via = command.channel = grant.channel;
	message_size = sgpu_submit_encode(&command, message);
	CHECK(sgpu_group_server_handle(they.server, message, message_size, answer, &size, &error) ==
	      SGPU_OK);
	CHECK(size == 9 && answer[8] == SGPU_REFUSED_SEAL);
	sgpu_session_close(&session);
	sgpu_group_client_close(&client);
	end_worker_of_it();
}

/* What channel/keys.h says, done by hand: of the secret, the channel's key and both messages, none
 * may be left out. */
UNIT_TEST(the_keys_of_a_bound_session_come_from_all_that_they_should)
{
	static const char grant_info[] = "sgpu channel v1", hello_info[] = "sgpu session v1",
			  info[] = "sgpu session answer";
	uint8_t cek[32], both[64], salt[32], key[32], nonce[SGPU_NONCE_SIZE],
		bind[SGPU_GRANT_BIND_SIZE], opened[64];
	uint8_t messages[SGPU_HELLO_SIZE + SGPU_GRANT_SIZE];
	const uint8_t *const hello = they.sent[0], *const answer = they.answers[1] + 8;
	struct sgpu_group_client *client;
	struct sgpu_channel_keys keys;
	struct sgpu_aead *aead = NULL;
	struct sgpu_grant grant;
	size_t size;

	start_with(&quoted);
	client = open_bound_session();
	REQUIRE(client && they.sent_size[0] == SGPU_HELLO_SIZE &&
		they.answer_size[0] == SGPU_GRANT_SIZE);
	sgpu_grant_decode(they.answers[0], &grant);
	sgpu_grant_bind(&grant, bind);
	REQUIRE(sgpu_hpke_open(&owner, grant.enc, grant_info, strlen(grant_info), bind,
			       sizeof(bind), grant.sealed_cek, sizeof(grant.sealed_cek), cek,
			       &error) == SGPU_OK);
	REQUIRE(sgpu_channel_derive(cek, grant.processor, &keys, &error) == SGPU_OK);
	REQUIRE(sgpu_hpke_open(&quoted, hello + 32, hello_info, strlen(hello_info), hello, 32,
			       hello + 64, 48, both, &error) == SGPU_OK);
	memcpy(both + 32, keys.answer, 32);
	memcpy(messages, hello, SGPU_HELLO_SIZE);
	memcpy(messages + SGPU_HELLO_SIZE, they.answers[0], SGPU_GRANT_SIZE);
	REQUIRE(sgpu_sha256(messages, sizeof(messages), salt, &error) == SGPU_OK);
	REQUIRE(sgpu_hkdf_sha256(both, sizeof(both), salt, sizeof(salt), info, strlen(info), key,
				 sizeof(key), &error) == SGPU_OK);
	REQUIRE(sgpu_aead_create(NULL, key, &aead, &error) == SGPU_OK);
	size = they.answer_size[1] - 8 - SGPU_TAG_SIZE;
	sgpu_group_nonce(grant.serial, 1, nonce);
	CHECK(size <= sizeof(opened) &&
	      sgpu_aead_open(aead, nonce, answer, size, opened, answer + size) == SGPU_OK);
	sgpu_aead_free(&aead);
	sgpu_group_client_close(&client);
	end_worker_of_it();
}

UNIT_TEST(a_handshake_that_was_recorded_is_of_no_use)
{
	static uint8_t answer[SGPU_MESSAGE_MAX];
	struct sgpu_group_client *client;
	size_t size = 0;

	start_with(&quoted);
	client = open_bound_session();
	REQUIRE(client);
	sgpu_group_client_close(&client);
	/* To the program: what the worker said to the same owner before. */
	they.messages = 0;
	they.replays = true;
	they.answer_size[2] = they.answer_size[3] = 9;
	CHECK(is_refused());
	/* To the worker, which makes a channel of it that takes no group from before. */
	sgpu_group_server_free(&they.server);
	REQUIRE(sgpu_group_server_create(context, &(struct sgpu_group_config){ .key = &quoted },
					 &they.server, &error) == SGPU_OK);
	CHECK(sgpu_group_server_handle(they.server, they.sent[0], they.sent_size[0], answer, &size,
				       &error) == SGPU_OK);
	REQUIRE(size == SGPU_GRANT_SIZE);
	sgpu_put_u32(sgpu_put_u32(they.sent[1] + 4, answer[0]),
		     answer[0]); /* the number of this channel */
	CHECK(sgpu_group_server_handle(they.server, they.sent[1], they.sent_size[1], answer, &size,
				       &error) == SGPU_OK);
	CHECK(size == 9 && answer[8] == SGPU_REFUSED_SEAL);
	end_worker_of_it();
}

UNIT_TEST(every_bit_of_a_handshake_counts)
{
	for (int bit = 0; bit < 8 * SGPU_HELLO_SIZE; bit += 3) {
		start_with(&quoted);
		they.at = 0;
		they.alter_sent = bit;
		CHECK(is_refused());
		end_worker_of_it();
	}
	for (int bit = 0; bit < 8 * SGPU_GRANT_SIZE; bit += 3) {
		start_with(&quoted);
		they.at = 0;
		they.alter_answer = bit;
		CHECK(is_refused());
		end_worker_of_it();
	}
}

UNIT_TEST(a_hello_of_another_length_is_none)
{
	static uint8_t message[4 * SGPU_HELLO_SIZE], answer[SGPU_MESSAGE_MAX];
	const uint64_t before = channels_made();

	start_with(&quoted);
	for (size_t size = 1; size < sizeof(message); size++) {
		size_t answered = 0;

		if (size != 32) {
			CHECK(sgpu_group_server_handle(they.server, message, size, answer,
						       &answered, &error) == SGPU_OK &&
			      answered == 9 && answer[8] != SGPU_REFUSED_NOT);
		}
	}
	CHECK(channels_made() == before);
	end_worker_of_it();
}

UNIT_TEST(a_session_is_bound_once_and_to_a_key_that_a_quote_can_name)
{
	struct sgpu_group_client *client = NULL;
	struct sgpu_binding binding = { .secret = { 1 } };
	struct sgpu_key symmetric, low = { .kind = SGPU_KEY_X25519_PUBLIC };
	struct sgpu_grant grant;
	uint8_t answer[SGPU_MESSAGE_MAX];
	size_t size = 0;

	REQUIRE(sgpu_key_generate(SGPU_KEY_OCT, &symmetric, &error) == SGPU_OK);
	start_with(&quoted);
	CHECK(sgpu_group_client_open(&owner, &symmetric, between, NULL, &client, &error) ==
		      SGPU_EUSAGE &&
	      !client);
	CHECK(sgpu_group_client_open(&owner, &low, between, NULL, &client, &error) ==
		      SGPU_EINVALID &&
	      !client);
	CHECK(they.messages == 0);
	client = open_bound_session();
	REQUIRE(client);
	CHECK(sgpu_group_server_handle(they.server, they.sent[0], they.sent_size[0], answer, &size,
				       &error) == SGPU_OK);
	CHECK(size == 9 && answer[8] == SGPU_REFUSED_MALFORMED);
	sgpu_grant_decode(they.answers[0], &grant);
	CHECK(sgpu_processor_bind(sgpu_secure_processor(context), &grant, &binding, &error) ==
	      SGPU_EUSAGE);
	CHECK(sgpu_group_client_send(client, &error) == SGPU_OK);
	sgpu_group_client_close(&client);
	end_worker_of_it();
}

int main(void)
{
	DEVICE_OR_SKIP();
	share_area();
	device = open_test_device(1, 0);
	if (!device || sgpu_secure_create(device, NULL, &context, &error) != SGPU_OK ||
	    sgpu_key_generate(SGPU_KEY_X25519, &owner, &error) != SGPU_OK ||
	    sgpu_key_generate(SGPU_KEY_X25519, &quoted, &error) != SGPU_OK ||
	    sgpu_key_generate(SGPU_KEY_X25519, &another, &error) != SGPU_OK ||
	    sgpu_key_public(&quoted, &public_half, &error) != SGPU_OK) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	UNIT_RUN(a_session_with_the_worker_that_was_quoted_works);
	UNIT_RUN(another_worker_gets_no_session);
	UNIT_RUN(a_hello_that_was_made_into_one_that_is_not_bound_opens_no_session);
	UNIT_RUN(who_has_the_owners_key_but_not_the_workers_reads_nothing);
	UNIT_RUN(the_keys_of_a_bound_session_come_from_all_that_they_should);
	UNIT_RUN(a_handshake_that_was_recorded_is_of_no_use);
	UNIT_RUN(every_bit_of_a_handshake_counts);
	UNIT_RUN(a_hello_of_another_length_is_none);
	UNIT_RUN(a_session_is_bound_once_and_to_a_key_that_a_quote_can_name);
	sgpu_secure_destroy(&context);
	sgpu_device_close(&device);
	return unit_done();
}
