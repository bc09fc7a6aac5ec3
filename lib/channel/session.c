/* SPDX-License-Identifier: Apache-2.0
 *
 * The owner's side of one channel: the channel's keys, and the numbers of the last group sealed,
 * answer opened, authorisation made and report accepted.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>
#include "base/base.h"
#include "crypto/crypto.h"
#include "channel/channel.h"

#include "channel/keys.h"

struct sgpu_session {
	struct sgpu_channel_keys *keys; /* secret memory */
	struct sgpu_aead *aead, *answer_aead;
	uint32_t channel, serial;
	uint64_t groups, answers, authorisations, reports;
};

static int open_cek(const struct sgpu_key *owner, const struct sgpu_grant *grant,
		    uint8_t cek[SGPU_KEY_SIZE], struct sgpu_error *error)
{
	uint8_t hash[SGPU_SHA256_SIZE];
	int rc;

	if (owner->kind != SGPU_KEY_X25519 || !owner->secret_known) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "a channel's owner needs an X25519 private key");
	}
	rc = sgpu_sha256(owner->public_half, 32, hash, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	if (!sgpu_equal(hash, grant->owner_hash, sizeof(hash))) {
		return sgpu_fail(error, SGPU_EKEY,
				 "the grant of channel %u is for another key than '%s'",
				 grant->channel, owner->kid);
	}
	return sgpu_hpke_open(owner, grant->enc, SGPU_GRANT_INFO, strlen(SGPU_GRANT_INFO), grant,
			      SGPU_GRANT_BIND_SIZE, grant->sealed_cek, sizeof(grant->sealed_cek),
			      cek, error);
}

int sgpu_session_bind(struct sgpu_session *session, const struct sgpu_hello *hello,
		      const struct sgpu_grant *grant, struct sgpu_error *error)
{
	int rc = sgpu_channel_bind(session->keys, hello, grant, error);

	return rc < 0 ? rc
		      : sgpu_channel_aeads(session->keys, &session->aead, &session->answer_aead,
					   error);
}

int sgpu_session_open(const struct sgpu_key *owner, const struct sgpu_grant *grant,
		      struct sgpu_session **session, struct sgpu_error *error)
{
	struct sgpu_session *made = calloc(1, sizeof(*made));
	uint8_t cek[SGPU_KEY_SIZE];
	int rc;

	*session = NULL;
	if (!made || !(made->keys = sgpu_secret_alloc(sizeof(*made->keys)))) {
		sgpu_session_close(&made);
		return sgpu_fail_nomem(error);
	}
	rc = open_cek(owner, grant, cek, error);
	rc = rc ? rc : sgpu_channel_derive(cek, grant->processor, made->keys, error);
	sgpu_wipe(cek, sizeof(cek));
	rc = rc ? rc : sgpu_channel_aeads(made->keys, &made->aead, &made->answer_aead, error);
	if (rc != SGPU_OK) {
		sgpu_session_close(&made);
		return rc;
	}
	made->channel = grant->channel;
	made->serial = grant->serial;
	*session = made;
	return SGPU_OK;
}

void sgpu_session_close(struct sgpu_session **session)
{
	if (session && *session) {
		sgpu_aead_free(&(*session)->aead);
		sgpu_aead_free(&(*session)->answer_aead);
		sgpu_secret_free((*session)->keys, sizeof(*(*session)->keys));
		sgpu_free_wiped(session, sizeof(**session));
	}
}

int sgpu_session_seal(struct sgpu_session *session, const void *items, size_t size, uint8_t *group,
		      uint64_t *counter, struct sgpu_error *error)
{
	uint8_t nonce[SGPU_NONCE_SIZE];
	int rc;

	if (size > SGPU_GROUP_MAX - SGPU_TAG_SIZE) {
		return sgpu_fail(error, SGPU_EUSAGE, "a group of %zu bytes; at most %d fit", size,
				 SGPU_GROUP_MAX - SGPU_TAG_SIZE);
	}
	sgpu_group_nonce(session->serial, session->groups + 1, nonce);
	/* The number is used up even if sealing fails, so it never serves for other items. */
	session->groups++;
	rc = sgpu_aead_seal(session->aead, nonce, items, size, group, group + size);
	if (rc != SGPU_OK) {
		return sgpu_fail(error, rc, "cannot seal a group of %zu bytes", size);
	}
	*counter = session->groups;
	return SGPU_OK;
}

int sgpu_session_answer(struct sgpu_session *session, const uint8_t *sealed, size_t size,
			uint64_t counter, uint8_t *answer)
{
	uint8_t nonce[SGPU_NONCE_SIZE];

	if (size < SGPU_TAG_SIZE || size > SGPU_GROUP_MAX || counter > session->groups ||
	    counter <= session->answers) {
		return SGPU_EAUTH;
	}
	sgpu_group_nonce(session->serial, counter, nonce);
	if (sgpu_aead_open(session->answer_aead, nonce, sealed, size - SGPU_TAG_SIZE, answer,
			   sealed + size - SGPU_TAG_SIZE) != SGPU_OK) {
		return SGPU_EAUTH;
	}
	session->answers = counter;
	return SGPU_OK;
}

void sgpu_session_authorise(struct sgpu_session *session, const uint64_t unmapped[2],
			    uint64_t *counter, uint8_t mac[SGPU_CHANNEL_MAC_SIZE])
{
	*counter = ++session->authorisations;
	sgpu_mac_owner(session->keys, session->serial, *counter, unmapped, mac);
}

int sgpu_session_report(struct sgpu_session *session, enum sgpu_channel_op op,
			struct sgpu_report *report, struct sgpu_error *error)
{
	uint8_t expected[SGPU_CHANNEL_MAC_SIZE];
	bool verifies;

	sgpu_mac_report(session->keys, op, report, expected);
	verifies = sgpu_equal(report->mac, expected, SGPU_CHANNEL_MAC_SIZE);
	sgpu_wipe(expected, sizeof(expected));
	if (!verifies) {
		return sgpu_fail(error, SGPU_EAUTH,
				 "the MAC of a report of channel %u does not verify",
				 session->channel);
	}
	if (report->channel != session->channel || report->serial != session->serial) {
		return sgpu_fail(error, SGPU_EAUTH,
				 "a report of channel %u was given for channel %u", report->channel,
				 session->channel);
	}
	if (report->counter <= session->reports) {
		return sgpu_fail(error, SGPU_EAUTH,
				 "a report of channel %u is old: number %llu after %llu",
				 report->channel, (unsigned long long)report->counter,
				 (unsigned long long)session->reports);
	}
	session->reports = report->counter;
	if (op == SGPU_CH_MEASURE) {
		sgpu_mask_report(session->keys, report);
	}
	return SGPU_OK;
}
