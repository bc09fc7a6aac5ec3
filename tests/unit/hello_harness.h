/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests that open sessions: the runner's key, and hellos made by hand.
 */
#ifndef HELLO_HARNESS_H
#define HELLO_HARNESS_H

#include <sgpu/keys.h>
#include <sgpu/session.h>

#include "channel/group.h"

static struct sgpu_key runner_key, own_key; /* own_key: the one that grants are sealed to */
static struct sgpu_key signer;
static const struct sgpu_session_authority anybody = { .key = &runner_key };

static inline bool make_keys(void)
{
	return sgpu_key_generate(SGPU_KEY_X25519, &runner_key, NULL) == SGPU_OK &&
	       sgpu_key_generate(SGPU_KEY_X25519, &own_key, NULL) == SGPU_OK &&
	       sgpu_key_generate(SGPU_KEY_ED25519, &signer, NULL) == SGPU_OK;
}

/* Asks for a challenge, and makes the hello that answers it. */
static inline bool make_hello(sgpu_exchange_fn exchange, void *argument, struct sgpu_hello *hello)
{
	static const uint8_t question[SGPU_QUESTION_SIZE];
	static uint8_t challenge[SGPU_MESSAGE_MAX];
	size_t size = 0;

	return exchange(argument, question, sizeof(question), challenge, &size, NULL) == SGPU_OK &&
	       size == SGPU_CHALLENGE_SIZE &&
	       sgpu_hello_make(challenge, &runner_key, own_key.public_half, &signer, hello, NULL) ==
		       SGPU_OK;
}

#endif
