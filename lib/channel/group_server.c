/* SPDX-License-Identifier: Apache-2.0
 *
 * Serves one session, whose messages untrusted parties carry. The processor opens each group once,
 * and in order; a worker carries it out.
 */
#include <stdlib.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "crypto/crypto.h"
#include "channel/keys.h"
#include "channel/channel.h"
#include "channel/wire.h"
#include "channel/group.h"
#include "channel/context.h"

/* Plaintext, in secret memory. */
struct group_text {
	uint8_t items[SGPU_GROUP_MAX], answer[SGPU_GROUP_BYTES];
};

struct sgpu_group_server {
	struct sgpu_secure *context;
	struct sgpu_group_worker worker;
	const struct sgpu_session_authority *authority;
	uint8_t nonce[32];
	bool challenged; /* the nonce is sent, but not answered */
	bool is_open;	 /* there is a channel */
	struct sgpu_grant grant;
	struct group_text *text;
	uint64_t counter;		/* the last answered group's number */
	uint8_t last[SGPU_MESSAGE_MAX]; /* the answer to that group */
	size_t last_size;
};

int sgpu_group_server_create(struct sgpu_secure *context, const struct sgpu_group_config *config,
			     struct sgpu_group_server **server, struct sgpu_error *error)
{
	struct sgpu_group_server *s = calloc(1, sizeof(*s));
	int rc = s ? SGPU_OK : sgpu_fail_nomem(error);

	*server = NULL;
	if (rc == SGPU_OK) {
		s->context = context;
		s->authority = config->authority;
		s->text = sgpu_secret_alloc(sizeof(*s->text));
		rc = s->text ? sgpu_group_worker_open(&s->worker, context, config, error)
			     : sgpu_fail_nomem(error);
	}
	if (rc < 0) {
		sgpu_group_server_free(&s);
		return rc;
	}
	*server = s;
	return SGPU_OK;
}

void sgpu_group_server_free(struct sgpu_group_server **server)
{
	struct sgpu_group_server *s = server ? *server : NULL;

	if (!s) {
		return;
	}
	sgpu_group_worker_close(&s->worker);
	if (s->is_open) {
		sgpu_secure_channel_close(s->context, s->grant.channel, NULL);
	}
	sgpu_secret_free(s->text, sizeof(*s->text));
	free(s);
	*server = NULL;
}

static int refuse(enum sgpu_refusal refusal, uint8_t *answer, size_t *answer_size)
{
	*sgpu_put_u64(answer, 0) = (uint8_t)refusal;
	*answer_size = SGPU_REFUSAL_SIZE;
	return SGPU_OK;
}

static int challenge(struct sgpu_group_server *s, uint8_t *answer, size_t *answer_size,
		     struct sgpu_error *error)
{
	const int rc = sgpu_random(s->nonce, sizeof(s->nonce), error);

	s->challenged = rc == SGPU_OK;
	sgpu_put_bytes(sgpu_put_bytes(answer, s->authority->key->public_half, 32), s->nonce,
		       sizeof(s->nonce));
	*answer_size = SGPU_CHALLENGE_SIZE;
	return rc;
}

/* A refused hello makes no channel. Each challenge is answered once. */
static int open_channel(struct sgpu_group_server *s, const uint8_t *text, size_t size,
			uint8_t *answer, size_t *answer_size, struct sgpu_error *error)
{
	struct sgpu_hello hello;
	int rc;

	s->challenged = false;
	rc = sgpu_hello_open(text, size, s->nonce, s->authority, &hello, error);
	if (rc < 0) {
		return rc == SGPU_ENOMEM || rc == SGPU_ESYSTEM
			       ? rc
			       : refuse(rc == SGPU_EPOLICY ? SGPU_REFUSED_FOREIGN
							   : SGPU_REFUSED_SEAL,
					answer, answer_size);
	}
	rc = sgpu_secure_channel_open(s->context, hello.key, &s->grant, error);
	s->is_open = rc == SGPU_OK;
	rc = rc ? rc : sgpu_processor_bind(s->context->ground->processor, &s->grant, &hello, error);
	memcpy(answer, &s->grant, sizeof(s->grant));
	*answer_size = SGPU_GRANT_SIZE;
	sgpu_wipe(&hello, sizeof(hello));
	return rc;
}

static int answer_group(struct sgpu_group_server *s, size_t items_size, struct sgpu_error *error)
{
	size_t size = 0;
	int rc;

	sgpu_group_worker_run(&s->worker, s->text->items, items_size, s->text->answer, &size);
	rc = sgpu_processor_answer(s->context->ground->processor, s->grant.channel, s->text->answer,
				   size, s->last + 8, &s->counter, error);
	sgpu_wipe(s->text->items, items_size + SGPU_TAG_SIZE);
	sgpu_wipe(s->text->answer, size);
	if (rc == SGPU_OK) {
		sgpu_put_u64(s->last, s->counter);
		s->last_size = 8 + size + SGPU_TAG_SIZE;
	}
	return rc;
}

int sgpu_group_server_handle(struct sgpu_group_server *s, const uint8_t *message, size_t size,
			     uint8_t answer[SGPU_MESSAGE_MAX], size_t *answer_size,
			     struct sgpu_error *error)
{
	struct sgpu_command command;
	struct sgpu_reply reply;
	size_t items_size;
	int rc;

	if (!s->is_open && size == SGPU_QUESTION_SIZE && message[0] == 0) {
		return challenge(s, answer, answer_size, error);
	}
	if (s->challenged) {
		return open_channel(s, message, size, answer, answer_size, error);
	}
	if (!s->is_open || !sgpu_submit_decode(message, size, &command)) {
		return refuse(SGPU_REFUSED_MALFORMED, answer, answer_size);
	}
	if (command.channel != s->grant.channel) {
		return refuse(SGPU_REFUSED_NO_CHANNEL, answer, answer_size);
	}
	if (s->counter == 0 || command.submit.counter != s->counter) {
		if (sgpu_processor_open_group(s->context->ground->processor, &command,
					      s->text->items, &items_size, &reply) != SGPU_OK) {
			return refuse(reply.refusal, answer, answer_size);
		}
		rc = answer_group(s, items_size, error);
		if (rc < 0) {
			return rc;
		}
	}
	memcpy(answer, s->last, s->last_size);
	*answer_size = s->last_size;
	return SGPU_OK;
}
