/* SPDX-License-Identifier: Apache-2.0
 *
 * The session's side of command groups. No two groups have one number, and the worker takes them in
 * order: a client that loses a group stays broken.
 */
#include <stdlib.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "channel/keys.h"
#include "channel/group.h"
#include "channel/wire.h"

struct sgpu_group_client {
	sgpu_exchange_fn exchange;
	void *argument;
	struct sgpu_grant grant;
	struct sgpu_session *session;
	bool broken;
	int count; /* items of the next group */
	size_t size;
	uint8_t items[SGPU_GROUP_BYTES];  /* plaintext, as `opened` is */
	uint8_t opened[SGPU_GROUP_BYTES]; /* the last answer */
	size_t opened_size;
	uint8_t group[SGPU_GROUP_MAX], message[SGPU_MESSAGE_MAX], answer[SGPU_MESSAGE_MAX];
};

void sgpu_group_client_close(struct sgpu_group_client **client)
{
	if (client && *client) {
		sgpu_session_close(&(*client)->session);
		sgpu_secret_free(*client, sizeof(**client));
		*client = NULL;
	}
}

int sgpu_group_client_add(struct sgpu_group_client *client, const struct sgpu_item *item,
			  struct sgpu_error *error)
{
	int rc;

	if (client->count == SGPU_GROUP_ITEMS) {
		return sgpu_fail(error, SGPU_EUSAGE, "the group is full: %d items", client->count);
	}
	rc = sgpu_item_encode(item, client->items, &client->size, error);
	client->count += rc == SGPU_OK;
	return rc;
}

bool sgpu_group_client_has_room(const struct sgpu_group_client *client, size_t tail)
{
	return client->count < SGPU_GROUP_ITEMS &&
	       SGPU_GROUP_BYTES - client->size >= SGPU_ITEM_HEAD + tail;
}

static bool is_answer(struct sgpu_group_client *c, uint64_t counter, size_t size)
{
	struct sgpu_reader reader = { .next = c->answer, .left = size };
	uint64_t number = sgpu_take_u64(&reader);

	if (reader.bad || number != counter ||
	    sgpu_session_answer(c->session, reader.next, reader.left, counter, c->opened) !=
		    SGPU_OK) {
		return false;
	}
	c->opened_size = reader.left - SGPU_TAG_SIZE;
	return true;
}

static int exchange_group(struct sgpu_group_client *c, uint64_t counter, struct sgpu_error *error)
{
	const struct sgpu_command command = { .op = SGPU_CH_SUBMIT,
					      .channel = c->grant.channel,
					      .submit = { .group = c->group,
							  .size = (uint32_t)c->size + SGPU_TAG_SIZE,
							  .counter = counter } };
	const size_t message_size = sgpu_submit_encode(&command, c->message);
	size_t answer_size;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < SGPU_GROUP_SENDS; i++) {
		rc = c->exchange(c->argument, c->message, message_size, c->answer, &answer_size,
				 error);
		if (rc == SGPU_OK && is_answer(c, counter, answer_size)) {
			return SGPU_OK;
		}
	}
	return rc < 0 ? rc
		      : sgpu_fail(error, SGPU_EAUTH,
				  "command group %llu of channel %u did not get through",
				  (unsigned long long)counter, (unsigned)c->grant.channel);
}

/* The answer is authentic, but its format is still checked. */
static int read_outcome(const struct sgpu_group_client *c, int count, struct sgpu_error *error)
{
	struct sgpu_reader reader = { .next = c->opened, .left = c->opened_size };
	const uint8_t *text;
	size_t size;
	int rc = (int)sgpu_take_u32(&reader), first = SGPU_OK;

	if (rc != SGPU_OK) {
		size = sgpu_take_u32(&reader);
		text = sgpu_take(&reader, size);
		return sgpu_fail(error, rc < 0 && text ? rc : SGPU_EINVALID,
				 "the group was not carried out: %.*s", text ? (int)size : 0,
				 (const char *)text);
	}
	for (int i = 0; i < count; i++) {
		int code = (int)sgpu_take_u32(&reader);

		size = sgpu_take_u32(&reader);
		text = sgpu_take(&reader, size);
		if (first == SGPU_OK && code != SGPU_OK && !reader.bad) {
			first = sgpu_fail(error, code < 0 ? code : SGPU_EINVALID, "item %d: %.*s",
					  i, (int)size, (const char *)text);
		}
	}
	return reader.bad || reader.left > 0
		       ? sgpu_fail(error, SGPU_EINVALID,
				   "the answer to a command group is malformed")
		       : first;
}

int sgpu_group_client_send(struct sgpu_group_client *client, struct sgpu_error *error)
{
	int count = client->count, rc;
	uint64_t counter = 0;

	rc = client->broken ? sgpu_fail(error, SGPU_EAUTH,
					"channel %u is broken: a command group of it was lost",
					(unsigned)client->grant.channel)
			    : sgpu_session_seal(client->session, client->items, client->size,
						client->group, &counter, error);
	rc = rc ? rc : exchange_group(client, counter, error);
	client->broken = rc < 0;
	sgpu_wipe(client->items, client->size);
	client->size = 0;
	client->count = 0;
	return rc < 0 ? rc : read_outcome(client, count, error);
}

/* ---- opening ---- */
/* Asks for the challenge that the hello answers. */
static int make_hello(struct sgpu_group_client *c, const struct sgpu_key *own,
		      const struct sgpu_key *owner, const struct sgpu_key *runner,
		      struct sgpu_hello *hello, struct sgpu_error *error)
{
	static const uint8_t question[SGPU_QUESTION_SIZE];
	size_t size = 0;
	int rc = c->exchange(c->argument, question, sizeof(question), c->answer, &size, error);

	if (rc < 0) {
		return rc;
	}
	return size == SGPU_CHALLENGE_SIZE
		       ? sgpu_hello_make(c->answer, runner, own->public_half, owner, hello, error)
		       : sgpu_fail(error, SGPU_EAUTH, "the first answer is not a challenge");
}

/* Sends the hello, opens a session with the grant in the answer, and has the runner prove by an
 * empty group that it has the keys. */
static int say_hello(struct sgpu_group_client *c, const struct sgpu_key *own,
		     const struct sgpu_hello *hello, struct sgpu_error *error)
{
	size_t size = 0;
	int rc = c->exchange(c->argument, (const uint8_t *)hello->text, hello->size, c->answer,
			     &size, error);

	if (rc < 0) {
		return rc;
	}
	if (size == SGPU_REFUSAL_SIZE && c->answer[SGPU_REFUSAL_SIZE - 1] == SGPU_REFUSED_FOREIGN) {
		sgpu_fail(error, SGPU_EPOLICY,
			  "the runner takes sessions of its owners alone, and says that the key "
			  "which signed is none of theirs");
		return sgpu_hint(error, "'sgpu-seal keyinfo --owner' prints the line for the file "
					"of owners");
	}
	if (size != SGPU_GRANT_SIZE) {
		return sgpu_fail(error, SGPU_EAUTH, "the answer to the hello is not a grant");
	}
	memcpy(&c->grant, c->answer, sizeof(c->grant));
	rc = sgpu_session_open(own, &c->grant, &c->session, error);
	rc = rc ? rc : sgpu_session_bind(c->session, hello, &c->grant, error);
	return rc ? rc : sgpu_group_client_send(c, error);
}

int sgpu_group_client_open(const struct sgpu_key *owner, const struct sgpu_key *runner,
			   sgpu_exchange_fn exchange, void *argument,
			   struct sgpu_group_client **client, struct sgpu_error *error)
{
	struct sgpu_group_client *c = sgpu_secret_alloc(sizeof(*c));
	struct sgpu_key drawn = { .kind = SGPU_KEY_NONE };
	struct sgpu_key own;
	struct sgpu_hello hello;
	int rc;

	*client = c;
	if (!c) {
		return sgpu_fail_nomem(error);
	}
	c->exchange = exchange;
	c->argument = argument;
	rc = runner->kind == SGPU_KEY_OCT
		     ? sgpu_fail(error, SGPU_EUSAGE,
				 "a runner whose key is symmetric takes no sessions")
		     : sgpu_key_generate(SGPU_KEY_X25519, &own, error);
	if (rc == SGPU_OK && !owner) {
		rc = sgpu_key_generate(SGPU_KEY_ED25519, &drawn, error);
	}
	rc = rc ? rc : make_hello(c, &own, owner ? owner : &drawn, runner, &hello, error);
	rc = rc ? rc : say_hello(c, &own, &hello, error);
	if (rc == SGPU_EAUTH || rc == SGPU_EKEY || rc == SGPU_EINVALID) {
		sgpu_fail(error, SGPU_EAUTH, "whoever answers does not have the runner's key");
		(void)sgpu_hint(error, "a runner that was quoted may have ended: ask for a new "
				       "quote with 'sgpu-serve quote'");
		rc = SGPU_EAUTH;
	}
	sgpu_wipe(&hello, sizeof(hello));
	sgpu_wipe(&own, sizeof(own));
	sgpu_wipe(&drawn, sizeof(drawn));
	if (rc < 0) {
		sgpu_group_client_close(client);
	}
	return rc;
}
