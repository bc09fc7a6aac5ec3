/* SPDX-License-Identifier: Apache-2.0
 *
 * What a hostile allocator knows and says: commands drawn at random, most of them nearly right,
 * with the owners' words where it could have got them, true or bent a little.
 */
#ifndef CHANNEL_ATTACK_H
#define CHANNEL_ATTACK_H

#include <channel/keys.h>

#include "crypto/crypto.h"
#include "hostile.h"

enum { CHANNELS = 10, OWNERS = 2 };
enum kind { ABSENT, SECURE };

struct owner {
	struct sgpu_key key;
};

struct channel {
	enum kind kind;
	int owner; /* SECURE */
	uint32_t serial;
	uint64_t authorised, submitted, reported; /* the last counters that were taken */
	struct sgpu_aead *seal;
	struct sgpu_channel_keys keys;
	struct world_space *space; /* seen when its first page was mapped */
};

struct attack {
	struct world world;
	struct world_random random;
	struct sgpu_processor *processor;
	struct owner owners[OWNERS];
	struct channel channels[CHANNELS];
	struct sgpu_channel_keys gone; /* of the last channel that was destroyed */
	uint32_t pages[SGPU_CHANNEL_PAGES_MAX];
	uint8_t group[256];
	struct sgpu_command stale[16]; /* commands of before, to be sent again */
	uint32_t stale_pages[16][4];
	uint8_t stale_groups[16][64];
	struct sgpu_command last;
	uint64_t sent, accepted, by_refusal[SGPU_REFUSALS], by_op[8];
	bool failing; /* the device fails now and then */
	uint64_t failures;
	const char *broken;
};

static inline uint32_t below(struct attack *a, uint32_t bound)
{
	return world_below(&a->random, bound);
}

static inline bool often(struct attack *a, uint32_t percent)
{
	return below(a, 100) < percent;
}

static inline void wrong(struct attack *a, const char *what)
{
	if (!a->broken) {
		a->broken = what;
	}
}

/* ---- making commands ---- */
static inline uint32_t some_frame(struct attack *a)
{
	uint32_t draw = below(a, 100);

	if (draw < 88) {
		return below(a, WORLD_FRAMES - WORLD_HIDDEN);
	}
	return draw < 98    ? below(a, WORLD_FRAMES)
	       : draw == 98 ? WORLD_FRAMES + below(a, 4)
			    : (uint32_t)world_next(&a->random);
}

static inline uint32_t some_channel(struct attack *a)
{
	return often(a, 98) ? below(a, CHANNELS) : (uint32_t)world_next(&a->random);
}

static inline uint32_t channel_of_kind(struct attack *a, enum kind kind)
{
	uint32_t start = below(a, CHANNELS);

	for (uint32_t i = 0; i < CHANNELS; i++) {
		if (a->channels[(start + i) % CHANNELS].kind == kind) {
			return (start + i) % CHANNELS;
		}
	}
	return some_channel(a);
}

static inline uint32_t some_index(struct attack *a)
{
	uint32_t draw = below(a, 100);

	return draw < 80   ? below(a, 3)
	       : draw < 96 ? below(a, 24)
	       : draw < 99 ? SGPU_CHANNEL_ENTRIES - 1 + below(a, 2)
			   : (uint32_t)world_next(&a->random);
}

static inline bool exists(const struct attack *a, enum kind kind)
{
	for (int i = 0; i < CHANNELS; i++) {
		if (a->channels[i].kind == kind) {
			return true;
		}
	}
	return false;
}

static inline void make_create(struct attack *a, struct sgpu_command *c)
{
	c->op = SGPU_CH_CREATE;
	c->create.directory = some_frame(a);
	memcpy(c->create.owner_key, a->owners[below(a, OWNERS)].key.public_half, 32);
	if (often(a, 2)) {
		memset(c->create.owner_key, 0, 32);
	}
}

static inline void authorise(struct attack *a, const struct sgpu_command *c, uint64_t va,
			     uint64_t size, uint64_t *counter, uint8_t mac[SGPU_CHANNEL_MAC_SIZE])
{
	const struct channel *channel = c->channel < CHANNELS ? &a->channels[c->channel] : NULL;

	if (!channel || channel->kind != SECURE) {
		memset(mac, 0x5a, SGPU_CHANNEL_MAC_SIZE);
		*counter = 1;
		return;
	}
	*counter = channel->authorised + 1;
	if (c->op == SGPU_CH_DESTROY) {
		sgpu_mac_owner(&channel->keys, channel->serial, *counter, NULL, mac);
	} else {
		sgpu_mac_owner(&channel->keys, channel->serial, *counter,
			       (const uint64_t[]){ va, size }, mac);
	}
	switch (below(a, 8)) { /* five of eight are right */
	case 0:
		mac[below(a, SGPU_CHANNEL_MAC_SIZE)] ^= (uint8_t)(1 << below(a, 8));
		break;
	case 1:
		*counter += 1 + below(a, 3);
		break;
	case 2:
		*counter -= 1;
		break;
	default:
		break;
	}
}

static inline uint64_t pte_va(const struct sgpu_command *c)
{
	uint64_t small = (uint64_t)c->pte.table_index * (c->pte.big ? WORLD_RATIO : 1);

	return ((uint64_t)c->pte.directory_index * SGPU_CHANNEL_ENTRIES + small) * WORLD_SMALL;
}

static inline uint64_t pte_size(const struct sgpu_command *c)
{
	return (uint64_t)c->pte.count * WORLD_SMALL * (c->pte.big ? WORLD_RATIO : 1);
}

static inline void make_pte(struct attack *a, struct sgpu_command *c)
{
	bool unmaps = often(a, 40);

	c->op = SGPU_CH_PTE;
	c->pte.big = often(a, 25);
	c->pte.directory_index = some_index(a);
	c->pte.table_index = some_index(a);
	c->pte.count = often(a, 98) ? 1 + below(a, often(a, 70) ? 2 : 4)
				    : below(a, SGPU_CHANNEL_PAGES_MAX + 2);
	for (uint32_t i = 0; i < c->pte.count && i < SGPU_CHANNEL_PAGES_MAX; i++) {
		a->pages[i] = some_frame(a);
		if (c->pte.big && often(a, 90)) {
			a->pages[i] -= a->pages[i] % WORLD_RATIO;
		}
		if (often(a, 1)) {
			a->pages[i] = SGPU_NO_FRAME;
		}
	}
	c->pte.pages = unmaps ? NULL : a->pages;
	c->pte.has_mac = often(a, unmaps ? 75 : 15);
	if (c->pte.has_mac) {
		authorise(a, c, pte_va(c), pte_size(c), &c->pte.mac_counter, c->pte.mac);
	}
}

static inline void make_submit(struct attack *a, struct sgpu_command *c)
{
	struct channel *channel = c->channel < CHANNELS ? &a->channels[c->channel] : NULL;
	uint8_t nonce[SGPU_NONCE_SIZE], items[32] = { 0 };
	bool right = channel && channel->kind == SECURE;

	c->op = SGPU_CH_SUBMIT;
	c->submit.group = a->group;
	c->submit.size = sizeof(items) + SGPU_TAG_SIZE;
	c->submit.counter = right ? channel->submitted + 1 : 1;
	memset(a->group, 0, sizeof(a->group));
	if (right) {
		sgpu_group_nonce(channel->serial, c->submit.counter, nonce);
		if (sgpu_aead_seal(channel->seal, nonce, items, sizeof(items), a->group,
				   a->group + sizeof(items)) < 0) {
			wrong(a, "the test cannot seal");
		}
	}
	switch (below(a, 8)) {
	case 0:
		a->group[below(a, c->submit.size)] ^= (uint8_t)(1 << below(a, 8));
		break;
	case 1:
		c->submit.counter += 1 + below(a, 2);
		break;
	case 2:
		c->submit.counter -= 1;
		break;
	case 3:
		c->submit.size -= 1 + below(a, 20);
		break;
	default:
		break;
	}
}

static inline void make(struct attack *a, struct sgpu_command *c)
{
	uint32_t draw = below(a, 1024);

	memset(c, 0, sizeof(*c));
	c->channel = often(a, 80) ? channel_of_kind(a, SECURE) : some_channel(a);
	if (draw < 4 || (draw < 500 && !exists(a, SECURE))) {
		c->channel = often(a, 85) ? channel_of_kind(a, ABSENT) : some_channel(a);
		make_create(a, c);
	} else if (draw < 200) {
		c->op = SGPU_CH_PDE;
		c->pde.index = some_index(a);
		c->pde.table = often(a, 75) ? some_frame(a) : SGPU_NO_FRAME;
		c->pde.big = often(a, 40);
	} else if (draw < 880) {
		make_pte(a, c);
	} else if (draw < 930) {
		c->op = SGPU_CH_MEASURE;
		c->measure.va = (uint64_t)some_index(a) * SGPU_CHANNEL_ENTRIES * WORLD_SMALL +
				(uint64_t)below(a, 6) * WORLD_SMALL +
				(often(a, 10) ? below(a, WORLD_SMALL) : 0);
		c->measure.size = often(a, 97) ? below(a, 4 * WORLD_SMALL) : world_next(&a->random);
		c->measure.keyed = often(a, 50);
	} else if (draw < 1020) {
		make_submit(a, c);
	} else {
		c->op = SGPU_CH_DESTROY;
		c->destroy.has_mac = often(a, 70);
		if (c->destroy.has_mac) {
			authorise(a, c, 0, 0, &c->destroy.mac_counter, c->destroy.mac);
		}
	}
}

#endif
