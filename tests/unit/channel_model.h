/* SPDX-License-Identifier: Apache-2.0
 *
 * The model that judges the command processor under attack: what each command may do, and whether
 * what it did to memory and what it told the owner is that. It knows nothing of how the processor
 * works.
 */
#ifndef CHANNEL_MODEL_H
#define CHANNEL_MODEL_H

#include <channel/keys.h>

#include "crypto/crypto.h"
#include "channel_attack.h"

/* The channel that a command is about, if an owner has it. */
static inline struct channel *owned(struct attack *a, const struct sgpu_command *c)
{
	return c->channel < CHANNELS && a->channels[c->channel].kind == SECURE
		       ? &a->channels[c->channel]
		       : NULL;
}

/* Whether the owner's word goes along, as it is now: of an old command, too. */
static inline bool is_true(struct attack *a, const struct sgpu_command *c)
{
	const struct channel *channel = c->channel < CHANNELS ? &a->channels[c->channel] : NULL;
	uint8_t mac[SGPU_CHANNEL_MAC_SIZE], nonce[SGPU_NONCE_SIZE],
		group[32 + SGPU_TAG_SIZE] = { 0 };

	if (!channel || channel->kind != SECURE) {
		return false;
	}
	if (c->op == SGPU_CH_PTE && c->pte.has_mac) {
		sgpu_mac_owner(&channel->keys, channel->serial, c->pte.mac_counter,
			       (const uint64_t[]){ pte_va(c), pte_size(c) }, mac);
		return c->pte.mac_counter == channel->authorised + 1 &&
		       memcmp(mac, c->pte.mac, sizeof(mac)) == 0;
	}
	if (c->op == SGPU_CH_DESTROY && c->destroy.has_mac) {
		sgpu_mac_owner(&channel->keys, channel->serial, c->destroy.mac_counter, NULL, mac);
		return c->destroy.mac_counter == channel->authorised + 1 &&
		       memcmp(mac, c->destroy.mac, sizeof(mac)) == 0;
	}
	if (c->op != SGPU_CH_SUBMIT || c->submit.size != sizeof(group)) {
		return false;
	}
	sgpu_group_nonce(channel->serial, c->submit.counter, nonce);
	return c->submit.counter == channel->submitted + 1 &&
	       sgpu_aead_seal(channel->seal, nonce, group, 32, group, group + 32) == SGPU_OK &&
	       memcmp(group, c->submit.group, sizeof(group)) == 0;
}

/* What a command that is about to be sent may take away. */
static inline void permit(struct attack *a, const struct sgpu_command *c, bool authorised)
{
	const struct channel *owner = owned(a, c);

	a->world.may_unmap = NULL;
	a->world.may_all = false;
	if (c->op == SGPU_CH_PTE && owner && authorised) {
		a->world.may_unmap = owner->space;
		a->world.may_begin = pte_va(c);
		a->world.may_end = pte_va(c) + pte_size(c);
	} else if (c->op == SGPU_CH_DESTROY && owner) {
		a->world.may_unmap = owner->space;
		a->world.may_begin = 0;
		a->world.may_end = UINT64_MAX;
	}
}

static inline void learn_create(struct attack *a, const struct sgpu_command *c,
				const struct sgpu_grant *grant)
{
	struct channel *channel = &a->channels[c->channel];
	uint8_t cek[SGPU_KEY_SIZE], bind[SGPU_GRANT_BIND_SIZE];
	struct owner *owner;

	memset(channel, 0, sizeof(*channel));
	channel->kind = SECURE;
	channel->owner = memcmp(c->create.owner_key, a->owners[0].key.public_half, 32) == 0 ? 0 : 1;
	channel->serial = grant->serial;
	owner = &a->owners[channel->owner];
	memcpy(bind, grant, sizeof(bind));
	if (sgpu_hpke_open(&owner->key, grant->enc, "sgpu channel v1", 15, bind, sizeof(bind),
			   grant->sealed_cek, sizeof(grant->sealed_cek), cek, NULL) < 0) {
		wrong(a, "the owner cannot open the grant");
		return;
	}
	struct sgpu_channel_keys keys;

	if (sgpu_channel_derive(cek, grant->processor, &keys, NULL) < 0 ||
	    sgpu_aead_create(NULL, keys.group, &channel->seal, NULL) < 0) {
		wrong(a, "the test cannot derive keys");
	}
	for (int i = 0; i < CHANNELS; i++) {
		if (a->channels[i].kind == SECURE && &a->channels[i] != channel &&
		    memcmp(&keys, &a->channels[i].keys, sizeof(keys)) == 0) {
			wrong(a, "two channels have the same keys");
		}
	}
	if (memcmp(&keys, &a->gone, sizeof(keys)) == 0) {
		wrong(a, "a new channel has the keys of one that is gone");
	}
	channel->keys = keys;
}

static inline void learn_destroy(struct attack *a, const struct sgpu_command *c)
{
	struct channel *channel = &a->channels[c->channel];

	sgpu_aead_free(&channel->seal);
	for (int i = 0; i < WORLD_FRAMES; i++) {
		if (channel->space && a->world.frames[i].space == channel->space) {
			wrong(a, "pages of a context that is gone are still mapped");
		}
	}
	a->gone = channel->keys;
	memset(channel, 0, sizeof(*channel));
}

/* The summary has to tell the truth, since an owner believes it. */
static inline void judge_summary(struct attack *a, const struct sgpu_command *c,
				 const struct sgpu_report *summary)
{
	struct channel *channel = &a->channels[c->channel];
	uint8_t mac[SGPU_CHANNEL_MAC_SIZE], hash[SGPU_KT128_SIZE], frames[4 * 64];
	const uint32_t mapped = c->pte.pages ? c->pte.count : 0;

	for (uint32_t i = 0; i < mapped && i < 64; i++) {
		for (int k = 0; k < 4; k++) {
			frames[4 * i + (uint32_t)k] = (uint8_t)(c->pte.pages[i] >> 8 * k);
		}
	}
	sgpu_kt128(frames, 4 * (size_t)mapped, NULL, 0, hash, sizeof(hash));
	sgpu_mac_report(&channel->keys, SGPU_CH_PTE, summary, mac);
	if (memcmp(mac, summary->mac, sizeof(mac)) != 0) {
		wrong(a, "the MAC of a summary does not verify");
	}
	if (summary->va != pte_va(c) || summary->size != pte_size(c) || summary->pages != mapped ||
	    summary->channel != c->channel || summary->serial != channel->serial ||
	    memcmp(hash, summary->digest, sizeof(hash)) != 0) {
		wrong(a, "a summary says something else than was mapped");
	}
	if (summary->counter != channel->reported + 1) {
		wrong(a, "the counter of the reports did not go up by one");
	}
	channel->reported = summary->counter;
}

/* Every page stands where its owner's command put it, in no other's space, and nobody's page became
 * another's. */
static inline void judge_map(struct attack *a, const struct sgpu_command *c)
{
	struct channel *owner = owned(a, c);
	uint32_t per_page = c->pte.big ? WORLD_RATIO : 1;

	for (uint32_t i = 0; c->pte.pages && i < c->pte.count; i++) {
		for (uint32_t k = 0; k < per_page; k++) {
			uint32_t frame = c->pte.pages[i] + k;
			const struct world_frame *where = &a->world.frames[frame];

			if (!where->space ||
			    where->at != pte_va(c) + ((uint64_t)i * per_page + k) * WORLD_SMALL) {
				wrong(a, "a page that was mapped stands elsewhere");
				return;
			}
			if (owner && !owner->space) {
				owner->space = where->space;
			}
			if (!owner || where->space != owner->space) {
				wrong(a, "a page was mapped into another's context");
			}
		}
	}
}

static inline void judge_measure(struct attack *a, const struct sgpu_command *c,
				 const struct sgpu_report *m)
{
	struct channel *channel = &a->channels[c->channel];
	struct channel *owner = owned(a, c);
	uint8_t mac[SGPU_CHANNEL_MAC_SIZE];

	if (!owner) {
		return;
	}
	sgpu_mac_report(&owner->keys, SGPU_CH_MEASURE, m, mac);
	if (memcmp(mac, m->mac, sizeof(mac)) != 0 || m->counter != channel->reported + 1 ||
	    m->va != c->measure.va || m->size != c->measure.size || m->serial != channel->serial) {
		wrong(a, "a measurement is not what was asked for");
	}
	channel->reported = m->counter;
	for (uint64_t at = c->measure.va; at < c->measure.va + c->measure.size; at++) {
		if (world_frame_at(&a->world, owner->space, at) < 0) {
			wrong(a, "memory was measured that is not mapped");
			return;
		}
	}
}

static inline void judge(struct attack *a, const struct sgpu_command *c,
			 const struct sgpu_reply *reply, bool authorised, uint64_t changes)
{
	struct channel *channel = c->channel < CHANNELS ? &a->channels[c->channel] : NULL;

	a->by_refusal[reply->refusal]++;
	if (reply->refusal != SGPU_REFUSED_NOT) {
		if (a->world.changes != changes) {
			wrong(a, "a refused command changed something");
		}
		if (reply->code == SGPU_OK || !reply->error.text[0]) {
			wrong(a, "a refusal without a code or a text");
		}
		if (c->op == SGPU_CH_SUBMIT && authorised) {
			wrong(a, "a true group was refused");
		}
		return;
	}
	a->accepted++;
	a->by_op[c->op]++;
	if (reply->code != SGPU_OK || !channel) {
		wrong(a, "a command was carried out that cannot be");
		return;
	}
	switch (c->op) {
	case SGPU_CH_CREATE:
		learn_create(a, c, &reply->grant);
		break;
	case SGPU_CH_PTE:
		if (c->pte.has_mac && authorised && channel->kind == SECURE) {
			channel->authorised = c->pte.mac_counter;
		}
		judge_map(a, c);
		if (channel->kind == SECURE) {
			judge_summary(a, c, &reply->report);
		}
		break;
	case SGPU_CH_MEASURE:
		judge_measure(a, c, &reply->report);
		break;
	case SGPU_CH_DESTROY:
		if (c->destroy.has_mac && !authorised && channel->kind == SECURE) {
			wrong(a, "a destruction with a false MAC was carried out");
		}
		learn_destroy(a, c);
		break;
	case SGPU_CH_SUBMIT:
		if (!authorised) {
			wrong(a, "a false group was carried out");
		}
		channel->submitted = c->submit.counter;
		break;
	default:
		break;
	}
}

#endif
