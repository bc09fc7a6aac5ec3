/* SPDX-License-Identifier: Apache-2.0
 *
 * How a session begins, sgpu-session(5), and somebody between who tries to be its runner or its
 * program: another runner, one that answers in its place, handshakes that are replayed, altered or
 * signed again.
 */
#include <jansson.h>

#include "base/json.h"
#include "crypto/crypto.h"
#include "channel/group.h"
#include "channel_check.h"

#include "channel/wire.h"

#include "session_harness.h"

enum { MESSAGES_MAX = 8, QUESTION = 0, HELLO = 1, GROUP = 2 };

static struct sgpu_key public_half, another;
static struct sgpu_key eve;
static struct sgpu_device *device;
static struct sgpu_secure *context;

/* Who is between a session and its runner. */
static struct {
	struct sgpu_group_server *server;
	int alter_sent, alter_answer; /* a bit of the message `at`, or -1 */
	int at, messages;
	bool replays; /* what was answered before is answered again, and the runner hears nothing */
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
	rc = sgpu_group_server_handle(they.server, changed, size, answer, answer_size, why);
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

static void start_with(const struct sgpu_session_authority *authority)
{
	const struct sgpu_group_config config = { .jobs = &jobs, .authority = authority };

	memset(&they, 0, sizeof(they));
	they.alter_sent = they.alter_answer = they.at = -1;
	if (sgpu_group_server_create(context, &config, &they.server, &error) != SGPU_OK) {
		printf("Bail out! %s\n", error.text);
		exit(1);
	}
}

static void end_runner(void)
{
	sgpu_group_server_free(&they.server);
}

static struct sgpu_group_client *open_signed(const struct sgpu_key *owner)
{
	struct sgpu_group_client *client = NULL;
	int rc;

	error = (struct sgpu_error){ 0 };
	rc = sgpu_group_client_open(owner, &public_half, between, NULL, &client, &error);
	return rc == SGPU_OK ? client : NULL;
}

/* Nobody but the runner whose key it is gets a session, and the program is told what to do. */
static bool is_refused(void)
{
	struct sgpu_group_client *client = open_signed(NULL);
	const bool refused = !client && error.code == SGPU_EAUTH &&
			     strstr(error.text, "does not have the runner's key") &&
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

/* The refusal that the runner answers this message with; SGPU_REFUSED_NOT: another answer. */
static enum sgpu_refusal said_to(const void *message, size_t size)
{
	static uint8_t answer[SGPU_MESSAGE_MAX];
	size_t answered = 0;

	CHECK(sgpu_group_server_handle(they.server, message, size, answer, &answered, &error) ==
	      SGPU_OK);
	return answered == SGPU_REFUSAL_SIZE ? (enum sgpu_refusal)answer[8] : SGPU_REFUSED_NOT;
}

static bool counts(struct sgpu_group_client *client)
{
	uint8_t tails[2][TAIL];
	const struct sgpu_item base[] = { { .kind = SGPU_ITEM_ALLOC, .buffer = 4, .size = 1 },
					  job_item_load(ADD),
					  job_item_load(SHOW) };
	const struct sgpu_item items[] = { job_item(ADD, 4, 0, 1, tails[0]),
					   job_item(SHOW, 4, 0, 1, tails[1]) };

	return client && SEND(client, base) == SGPU_OK && SEND(client, items) == SGPU_OK &&
	       shown[0] == 1;
}

UNIT_TEST(a_session_with_the_runner_whose_key_it_is_works)
{
	const char *const owners[] = { eve.kid, signer.kid };
	const struct sgpu_session_authority of_owners = { &runner_key, owners, 2 };
	const struct {
		const struct sgpu_session_authority *authority;
		const struct sgpu_key *owner;
	} cases[] = { { &anybody, NULL }, { &anybody, &signer }, { &of_owners, &signer } };

	CPU_ONLY("add is an operation of the processor");
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(cases); i++) {
		struct sgpu_group_client *client;

		start_with(cases[i].authority);
		client = open_signed(cases[i].owner);
		CHECK(client && they.messages == 3); /* question, hello, one empty group */
		CHECK(counts(client));
		sgpu_group_client_close(&client);
		end_runner();
	}
}

UNIT_TEST(a_runner_of_owners_takes_sessions_of_nobody_else)
{
	const char *const owners[] = { signer.kid };
	const struct sgpu_session_authority of_owners = { &runner_key, owners, 1 };
	const struct sgpu_key *const others[] = { &eve, NULL };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(others); i++) {
		const uint64_t before = channels_made();

		start_with(&of_owners);
		CHECK(!open_signed(others[i]) && error.code == SGPU_EPOLICY);
		CHECK(they.messages == 2 && channels_made() == before);
		CHECK(they.answer_size[HELLO] == SGPU_REFUSAL_SIZE &&
		      they.answers[HELLO][8] == SGPU_REFUSED_FOREIGN);
		end_runner();
	}
}

UNIT_TEST(another_runner_gets_no_session)
{
	/* One with a key of its own, one whose key is nearly the same, and one that says that it
	 * has the key. */
	struct sgpu_key near = another, liar = another;
	const struct sgpu_session_authority theirs[] = { { .key = &another },
							 { .key = &near },
							 { .key = &liar } };

	memcpy(near.public_half, runner_key.public_half, sizeof(near.public_half));
	near.public_half[31] ^= 1;
	memcpy(liar.public_half, runner_key.public_half, sizeof(liar.public_half));
	for (int i = 0; i < 3; i++) {
		const uint64_t before = channels_made();

		start_with(&theirs[i]);
		CHECK(is_refused());
		CHECK(channels_made() == before && they.messages == 1 + i / 2);
		end_runner();
	}
}

/* It cannot know the key that the hello will have. */
UNIT_TEST(a_runner_without_the_key_that_grants_all_the_same_hears_nothing)
{
	start_with(&anybody);
	they.replays = true;
	memcpy(they.answers[QUESTION], runner_key.public_half, 32);
	they.answer_size[QUESTION] = SGPU_CHALLENGE_SIZE;
	they.answer_size[HELLO] = SGPU_GRANT_SIZE;
	CHECK(is_refused() && they.messages == 2);
	end_runner();
}

/* The session that its program would have, from what went over the wire and `own_key`. */
static struct sgpu_session *session_of(const struct sgpu_hello *hello, struct sgpu_grant *grant)
{
	struct sgpu_session *session = NULL;
	size_t size = 0;

	if (between(NULL, (const uint8_t *)hello->text, hello->size, they.answers[HELLO], &size,
		    &error) != SGPU_OK ||
	    size != SGPU_GRANT_SIZE) {
		return NULL;
	}
	memcpy(grant, they.answers[HELLO], sizeof(*grant));
	return sgpu_session_open(&own_key, grant, &session, &error) == SGPU_OK ? session : NULL;
}

/* Sends an empty group; whether the runner answers it so that the session can open the answer. */
static bool is_answered(struct sgpu_session *session, uint32_t channel)
{
	static uint8_t group[SGPU_GROUP_MAX], message[SGPU_MESSAGE_MAX], answer[SGPU_MESSAGE_MAX],
		opened[SGPU_GROUP_BYTES];
	struct sgpu_command command = { .op = SGPU_CH_SUBMIT,
					.channel = channel,
					.submit = { .group = group, .size = SGPU_TAG_SIZE } };
	size_t size = 0;

	return sgpu_session_seal(session, "", 0, group, &command.submit.counter, &error) ==
		       SGPU_OK &&
	       between(NULL, message, sgpu_submit_encode(&command, message), answer, &size,
		       &error) == SGPU_OK &&
	       size > SGPU_REFUSAL_SIZE &&
	       sgpu_session_answer(session, answer + 8, size - 8, command.submit.counter, opened) ==
		       SGPU_OK;
}

UNIT_TEST(who_has_the_key_of_the_grant_but_not_the_secret_sends_nothing)
{
	for (int knows = 0; knows < 2; knows++) {
		struct sgpu_session *session;
		struct sgpu_hello hello;
		struct sgpu_grant grant;

		start_with(&anybody);
		REQUIRE(make_hello(between, NULL, &hello));
		session = session_of(&hello, &grant);
		REQUIRE(session);
		hello.secret[31] ^= (uint8_t)!knows;
		CHECK(sgpu_session_bind(session, &hello, &grant, &error) == SGPU_OK);
		CHECK(is_answered(session, grant.channel) == (knows == 1));
		sgpu_session_close(&session);
		end_runner();
	}
}

/* What sgpu-session(5) says, done by hand: of the secret, the channel's key and both messages, none
 * may be left out. */
UNIT_TEST(the_keys_of_a_session_come_from_all_that_they_should)
{
	static const char info[] = "sgpu session answer", grant_info[] = "sgpu channel v1";
	uint8_t cek[32], both[64], salt[32], key[32], nonce[SGPU_NONCE_SIZE],
		bind[SGPU_GRANT_BIND_SIZE], opened[64], messages[SGPU_HELLO_MAX + SGPU_GRANT_SIZE];
	const uint8_t *answer;
	struct sgpu_session *session;
	struct sgpu_channel_keys keys;
	struct sgpu_aead *aead = NULL;
	struct sgpu_hello hello;
	struct sgpu_grant grant;
	size_t size;

	start_with(&anybody);
	REQUIRE(make_hello(between, NULL, &hello));
	session = session_of(&hello, &grant);
	REQUIRE(session && sgpu_session_bind(session, &hello, &grant, &error) == SGPU_OK &&
		is_answered(session, grant.channel));
	memcpy(bind, &grant, sizeof(bind));
	REQUIRE(sgpu_hpke_open(&own_key, grant.enc, grant_info, strlen(grant_info), bind,
			       sizeof(bind), grant.sealed_cek, sizeof(grant.sealed_cek), cek,
			       &error) == SGPU_OK);
	REQUIRE(sgpu_channel_derive(cek, grant.processor, &keys, &error) == SGPU_OK);
	memcpy(both, hello.secret, 32);
	memcpy(both + 32, keys.answer, 32);
	memcpy(messages, hello.text, hello.size);
	memcpy(messages + hello.size, they.answers[HELLO], SGPU_GRANT_SIZE);
	REQUIRE(sgpu_sha256(messages, hello.size + SGPU_GRANT_SIZE, salt, &error) == SGPU_OK);
	REQUIRE(sgpu_hkdf_sha256(both, sizeof(both), salt, sizeof(salt), info, strlen(info), key,
				 sizeof(key), &error) == SGPU_OK);
	REQUIRE(sgpu_aead_create(NULL, key, &aead, &error) == SGPU_OK);
	answer = they.answers[GROUP] + 8;
	size = they.answer_size[GROUP] - 8 - SGPU_TAG_SIZE;
	sgpu_group_nonce(grant.serial, 1, nonce);
	CHECK(size <= sizeof(opened) &&
	      sgpu_aead_open(aead, nonce, answer, size, opened, answer + size) == SGPU_OK);
	sgpu_aead_free(&aead);
	sgpu_session_close(&session);
	end_runner();
}

UNIT_TEST(a_handshake_that_was_recorded_is_of_no_use)
{
	struct sgpu_group_client *client;
	uint64_t before;

	start_with(&anybody);
	client = open_signed(NULL);
	REQUIRE(client);
	sgpu_group_client_close(&client);
	/* To the program: what the runner said before. */
	they.messages = 0;
	they.replays = true;
	they.answer_size[3] = they.answer_size[4] = SGPU_REFUSAL_SIZE;
	CHECK(is_refused());
	/* To the runner, before it has asked and after. */
	sgpu_group_server_free(&they.server);
	REQUIRE(sgpu_group_server_create(
			context,
			&(struct sgpu_group_config){ .jobs = &jobs, .authority = &anybody },
			&they.server, &error) == SGPU_OK);
	before = channels_made();
	CHECK(said_to(they.sent[HELLO], they.sent_size[HELLO]) == SGPU_REFUSED_MALFORMED);
	CHECK(said_to("", 1) == SGPU_REFUSED_NOT);
	CHECK(said_to(they.sent[HELLO], they.sent_size[HELLO]) == SGPU_REFUSED_SEAL);
	CHECK(channels_made() == before);
	end_runner();
}

UNIT_TEST(a_challenge_is_answered_once)
{
	struct sgpu_hello hello, second;

	start_with(&anybody);
	REQUIRE(make_hello(between, NULL, &hello));
	CHECK(said_to("no hello", 8) == SGPU_REFUSED_SEAL);
	CHECK(said_to(hello.text, hello.size) == SGPU_REFUSED_MALFORMED);
	/* A new challenge ends the old one, too, and a session has no second hello. */
	REQUIRE(make_hello(between, NULL, &hello) && make_hello(between, NULL, &second));
	CHECK(memcmp(they.answers[1] + 32, they.answers[2] + 32, 32) != 0);
	CHECK(said_to(hello.text, hello.size) == SGPU_REFUSED_SEAL);
	REQUIRE(make_hello(between, NULL, &second));
	CHECK(said_to(second.text, second.size) == SGPU_REFUSED_NOT);
	CHECK(said_to(second.text, second.size) == SGPU_REFUSED_MALFORMED);
	CHECK(said_to("", 1) == SGPU_REFUSED_MALFORMED);
	end_runner();
}

UNIT_TEST(every_bit_of_a_handshake_counts)
{
	size_t hello_size;

	start_with(&anybody);
	REQUIRE(!is_refused() && they.messages == 3);
	hello_size = they.sent_size[HELLO];
	end_runner();
	/* A bit of the nonce makes the hello one for another challenge. */
	for (int at = 0; at < 3; at++) {
		const int bits = 8 * (at == 0	? SGPU_CHALLENGE_SIZE
				      : at == 1 ? (int)hello_size
						: SGPU_GRANT_SIZE);

		for (int bit = 0; bit < bits; bit += 5) {
			start_with(&anybody);
			they.at = at == 2 ? HELLO : at;
			*(at == 1 ? &they.alter_sent : &they.alter_answer) = bit;
			CHECK(is_refused());
			end_runner();
		}
	}
}

/* ---- hellos that others have written ---- */
static json_t *payload_of(const struct sgpu_hello *hello)
{
	json_t *jws = json_loadb(hello->text, hello->size, 0, NULL), *payload = NULL;
	const char *encoded = json_string_value(json_object_get(jws, "payload"));
	uint8_t *text = NULL;
	size_t size = 0;

	if (sgpu_base64url_read(encoded, strlen(encoded), "payload", &text, &size, NULL) == 0) {
		payload = json_loadb((char *)text, size, 0, NULL);
	}
	free(text);
	json_decref(jws);
	return payload;
}

/* Signs the text of a payload, and sends the hello. */
static enum sgpu_refusal say(const char *payload, const struct sgpu_key *key, const char *typ)
{
	char encoded[SGPU_HELLO_MAX], *text;
	json_t *jws = NULL;
	enum sgpu_refusal said;

	sgpu_base64url_encode(payload, strlen(payload), encoded);
	if (sgpu_signature_make(key, typ, encoded, &jws, NULL) != SGPU_OK) {
		abort();
	}
	json_object_set_new(jws, "payload", json_string(encoded));
	text = json_dumps(jws, JSON_COMPACT);
	said = said_to(text, strlen(text));
	free(text);
	json_decref(jws);
	return said;
}

static enum sgpu_refusal say_json(json_t *payload, const struct sgpu_key *key, const char *typ)
{
	char *text = json_dumps(payload, JSON_COMPACT);
	const enum sgpu_refusal said = say(text, key, typ);

	free(text);
	json_decref(payload);
	return said;
}

static const char typ[] = "sgpu-session+jws";

/* Starts a runner of `signer`, and returns the payload of a hello for its challenge. */
static json_t *fresh_payload(void)
{
	static const char *owners[1];
	static const struct sgpu_session_authority of_owner = { &runner_key, owners, 1 };
	struct sgpu_hello hello;

	owners[0] = signer.kid;
	start_with(&of_owner);
	if (!make_hello(between, NULL, &hello)) {
		abort();
	}
	return payload_of(&hello);
}

UNIT_TEST(each_member_of_a_hello_must_be_there_once_and_as_it_should)
{
	static const char *const members[] = { "enc", "key", "nonce", "owner", "runner", "secret" };
	const uint64_t before = channels_made();

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(members); i++) {
		json_t *const others[] = { NULL, json_integer(1), json_string(""),
					   json_string("AAAA"), json_null() };
		char doubled[SGPU_HELLO_MAX], *text;
		json_t *payload;

		for (size_t k = 0; k < SGPU_ARRAY_LENGTH(others); k++) {
			payload = fresh_payload();
			if (others[k]) {
				json_object_set_new(payload, members[i], others[k]);
			} else {
				json_object_del(payload, members[i]);
			}
			CHECK(say_json(payload, &signer, typ) == SGPU_REFUSED_SEAL);
			end_runner();
		}
		payload = fresh_payload();
		text = json_dumps(payload, JSON_COMPACT);
		snprintf(doubled, sizeof(doubled), "{\"%s\":\"%s\",%s", members[i],
			 json_string_value(json_object_get(payload, members[i])), text + 1);
		CHECK(say(doubled, &signer, typ) == SGPU_REFUSED_SEAL);
		free(text);
		json_decref(payload);
		end_runner();
	}
	json_t *payload = fresh_payload();

	json_object_set_new(payload, "more", json_string("x"));
	CHECK(say_json(payload, &signer, typ) == SGPU_REFUSED_SEAL);
	end_runner();
	CHECK(channels_made() == before);
	CHECK(say_json(fresh_payload(), &signer, typ) == SGPU_REFUSED_NOT);
	end_runner();
}

UNIT_TEST(a_hello_speaks_for_its_signer_alone)
{
	json_t *payload = fresh_payload();
	uint8_t key[32];

	/* Signed for something else; by another than it names; by another in its own name. */
	CHECK(say_json(payload, &signer, "sgpu-batch+jws") == SGPU_REFUSED_SEAL);
	end_runner();
	CHECK(say_json(fresh_payload(), &eve, typ) == SGPU_REFUSED_SEAL);
	end_runner();
	payload = fresh_payload();
	json_object_set_new(payload, "owner", json_string(eve.kid));
	CHECK(say_json(payload, &eve, typ) == SGPU_REFUSED_FOREIGN);
	end_runner();
	/* For another runner, though for this nonce and sealed to this key. */
	payload = fresh_payload();
	memcpy(key, runner_key.public_half, sizeof(key));
	key[31] ^= 1;
	json_object_set_new(payload, "runner", sgpu_json_from_bytes(key, sizeof(key)));
	CHECK(say_json(payload, &signer, typ) == SGPU_REFUSED_SEAL);
	end_runner();
	/* A listed owner takes the secret of another's hello, for a key of his own. */
	payload = fresh_payload();
	memcpy(key, another.public_half, sizeof(key));
	json_object_set_new(payload, "key", sgpu_json_from_bytes(key, sizeof(key)));
	CHECK(say_json(payload, &signer, typ) == SGPU_REFUSED_SEAL);
	end_runner();
}

UNIT_TEST(a_hello_of_another_length_is_none)
{
	static uint8_t message[SGPU_MESSAGE_MAX];
	const uint64_t before = channels_made();

	start_with(&anybody);
	for (size_t size = 2; size < sizeof(message); size += size < 64 ? 1 : 997) {
		CHECK(said_to("", 1) == SGPU_REFUSED_NOT);
		CHECK(said_to(message, size) == SGPU_REFUSED_SEAL);
		CHECK(said_to(message, size) == SGPU_REFUSED_MALFORMED);
	}
	CHECK(said_to("\1", 1) == SGPU_REFUSED_MALFORMED);
	CHECK(channels_made() == before);
	end_runner();
}

UNIT_TEST(a_session_is_bound_once_and_to_a_key_that_a_runner_can_have)
{
	struct sgpu_group_client *client = NULL;
	struct sgpu_key symmetric, low = { .kind = SGPU_KEY_X25519 };
	const struct sgpu_session_authority weak = { .key = &low };
	struct sgpu_hello hello = { .size = 0 };
	struct sgpu_grant grant;

	REQUIRE(sgpu_key_generate(SGPU_KEY_OCT, &symmetric, &error) == SGPU_OK);
	start_with(&weak);
	CHECK(sgpu_group_client_open(NULL, &symmetric, between, NULL, &client, &error) ==
		      SGPU_EUSAGE &&
	      !client && they.messages == 0);
	CHECK(sgpu_group_client_open(NULL, &low, between, NULL, &client, &error) == SGPU_EAUTH &&
	      !client && they.messages == 1);
	end_runner();
	start_with(&anybody);
	client = open_signed(NULL);
	REQUIRE(client);
	memcpy(&grant, they.answers[HELLO], sizeof(grant));
	CHECK(sgpu_processor_bind(sgpu_secure_processor(context), &grant, &hello, &error) ==
	      SGPU_EUSAGE);
	CHECK(sgpu_group_client_send(client, &error) == SGPU_OK);
	sgpu_group_client_close(&client);
	end_runner();
}

int main(void)
{
	DEVICE_OR_SKIP();
	share_area();
	device = open_test_device(1, 0);
	if (!device || sgpu_secure_create(device, NULL, &context, &error) != SGPU_OK ||
	    !make_keys() || sgpu_key_generate(SGPU_KEY_ED25519, &eve, &error) != SGPU_OK ||
	    sgpu_key_generate(SGPU_KEY_X25519, &another, &error) != SGPU_OK ||
	    sgpu_key_public(&runner_key, &public_half, &error) != SGPU_OK) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	UNIT_RUN(a_session_with_the_runner_whose_key_it_is_works);
	UNIT_RUN(a_runner_of_owners_takes_sessions_of_nobody_else);
	UNIT_RUN(another_runner_gets_no_session);
	UNIT_RUN(a_runner_without_the_key_that_grants_all_the_same_hears_nothing);
	UNIT_RUN(who_has_the_key_of_the_grant_but_not_the_secret_sends_nothing);
	UNIT_RUN(the_keys_of_a_session_come_from_all_that_they_should);
	UNIT_RUN(a_handshake_that_was_recorded_is_of_no_use);
	UNIT_RUN(a_challenge_is_answered_once);
	UNIT_RUN(every_bit_of_a_handshake_counts);
	UNIT_RUN(each_member_of_a_hello_must_be_there_once_and_as_it_should);
	UNIT_RUN(a_hello_speaks_for_its_signer_alone);
	UNIT_RUN(a_hello_of_another_length_is_none);
	UNIT_RUN(a_session_is_bound_once_and_to_a_key_that_a_runner_can_have);
	sgpu_secure_destroy(&context);
	sgpu_device_close(&device);
	return unit_done();
}
