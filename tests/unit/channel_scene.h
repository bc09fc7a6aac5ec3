/* SPDX-License-Identifier: Apache-2.0
 *
 * A scene for tests of the command processor: channels of two owners, Alice and Bob, on a device of
 * the test's choice, with what an owner needs to authorise, and short ways to send commands.
 */
#ifndef CHANNEL_SCENE_H
#define CHANNEL_SCENE_H

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include <channel/keys.h>
#include "crypto/crypto.h"
#include "channel_check.h"
#include "channel/channel.h"

enum { ALICE = 1, BOB = 2, ALICE_2 = 3, SCENE_CHANNELS = 8 };

struct scene_channel {
	bool exists;
	int owner; /* 0: Alice, 1: Bob */
	struct sgpu_grant grant;
	struct sgpu_channel_keys keys;
	uint64_t authorised, submitted;
};

struct scene {
	struct sgpu_device *device;
	struct sgpu_pages_info pages;
	struct sgpu_processor *processor;
	struct sgpu_key owners[2];
	struct scene_channel channels[SCENE_CHANNELS];
	struct sgpu_reply reply; /* to the last command */
};

static inline enum sgpu_refusal scene_send(struct scene *scene, const struct sgpu_command *command)
{
	memset(&scene->reply, 0, sizeof(scene->reply));
	sgpu_processor_command(scene->processor, command, &scene->reply);
	return scene->reply.refusal;
}

static inline bool scene_learn(struct scene *scene, struct scene_channel *s)
{
	uint8_t bind[SGPU_GRANT_BIND_SIZE], cek[SGPU_KEY_SIZE];

	s->grant = scene->reply.grant;
	memcpy(bind, &s->grant, sizeof(bind));
	return sgpu_hpke_open(&scene->owners[s->owner], s->grant.enc, "sgpu channel v1", 15, bind,
			      sizeof(bind), s->grant.sealed_cek, sizeof(s->grant.sealed_cek), cek,
			      NULL) == SGPU_OK &&
	       sgpu_channel_derive(cek, s->grant.processor, &s->keys, NULL) == SGPU_OK;
}

static inline enum sgpu_refusal scene_create(struct scene *scene, uint32_t channel, int owner,
					     uint32_t directory)
{
	struct sgpu_command c = { .op = SGPU_CH_CREATE, .channel = channel };
	struct scene_channel *s = channel < SCENE_CHANNELS ? &scene->channels[channel] : NULL;
	enum sgpu_refusal refusal;

	c.create.directory = directory;
	memcpy(c.create.owner_key, scene->owners[owner].public_half, 32);
	refusal = scene_send(scene, &c);
	if (refusal != SGPU_REFUSED_NOT || !s) {
		return refusal;
	}
	memset(s, 0, sizeof(*s));
	s->exists = true;
	s->owner = owner;
	if (!scene_learn(scene, s)) {
		return SGPU_REFUSED_SEAL;
	}
	return refusal;
}

static inline enum sgpu_refusal scene_pde(struct scene *scene, uint32_t channel, uint32_t index,
					  uint32_t table, bool big)
{
	struct sgpu_command c = { .op = SGPU_CH_PDE,
				  .channel = channel,
				  .pde = { .index = index, .table = table, .big = big } };

	return scene_send(scene, &c);
}

static inline uint64_t scene_va(const struct scene *scene, uint32_t directory_index, uint32_t index,
				bool big)
{
	uint64_t small = scene->pages.small, page = big ? scene->pages.big : small;

	return (uint64_t)directory_index * SGPU_CHANNEL_ENTRIES * small + index * page;
}

/* A command over `count` pages at directory entry 0; `authority`: whose MAC goes along, or -1. The
 * counter of the authority is taken when the command is carried out. */
static inline enum sgpu_refusal scene_pte(struct scene *scene, uint32_t channel, uint32_t index,
					  const uint32_t *pages, uint32_t count, bool big,
					  int authority)
{
	struct sgpu_command c = { .op = SGPU_CH_PTE, .channel = channel };
	uint64_t page = big ? scene->pages.big : scene->pages.small;
	enum sgpu_refusal refusal;

	c.pte.table_index = index;
	c.pte.big = big;
	c.pte.count = count;
	c.pte.pages = pages;
	if (authority >= 0) {
		struct scene_channel *s = &scene->channels[authority];

		c.pte.has_mac = true;
		c.pte.mac_counter = s->authorised + 1;
		sgpu_mac_owner(&s->keys, s->grant.serial, c.pte.mac_counter,
			       (const uint64_t[]){ scene_va(scene, 0, index, big), count * page },
			       c.pte.mac);
	}
	refusal = scene_send(scene, &c);
	if (refusal == SGPU_REFUSED_NOT && authority >= 0) {
		scene->channels[authority].authorised++;
	}
	return refusal;
}

static inline enum sgpu_refusal scene_map(struct scene *scene, uint32_t channel, uint32_t index,
					  uint32_t page)
{
	return scene_pte(scene, channel, index, &page, 1, false, -1);
}

static inline enum sgpu_refusal scene_unmap(struct scene *scene, uint32_t channel, uint32_t index,
					    int authority)
{
	return scene_pte(scene, channel, index, NULL, 1, false, authority);
}

static inline enum sgpu_refusal scene_destroy(struct scene *scene, uint32_t channel, int authority)
{
	struct sgpu_command c = { .op = SGPU_CH_DESTROY, .channel = channel };
	enum sgpu_refusal refusal;

	if (authority >= 0) {
		struct scene_channel *s = &scene->channels[authority];

		c.destroy.has_mac = true;
		c.destroy.mac_counter = s->authorised + 1;
		sgpu_mac_owner(&s->keys, s->grant.serial, c.destroy.mac_counter, NULL,
			       c.destroy.mac);
	}
	refusal = scene_send(scene, &c);
	if (refusal == SGPU_REFUSED_NOT && channel < SCENE_CHANNELS) {
		memset(&scene->channels[channel], 0, sizeof(scene->channels[channel]));
	}
	return refusal;
}

static inline enum sgpu_refusal scene_measure(struct scene *scene, uint32_t channel, uint64_t va,
					      uint64_t size)
{
	struct sgpu_command c = { .op = SGPU_CH_MEASURE,
				  .channel = channel,
				  .measure = { .va = va, .size = size } };

	return scene_send(scene, &c);
}

/* `counter` 0: the next one. The group is sealed for `sealer`, which is the channel's own when all
 * is well. */
static inline enum sgpu_refusal scene_submit(struct scene *scene, uint32_t channel, uint32_t sealer,
					     uint64_t counter)
{
	struct scene_channel *s = &scene->channels[sealer];
	struct sgpu_command c = { .op = SGPU_CH_SUBMIT, .channel = channel };
	uint8_t group[8 + SGPU_TAG_SIZE] = { 0 }, nonce[SGPU_NONCE_SIZE], items[SGPU_GROUP_MAX];
	struct sgpu_aead *aead = NULL;
	size_t size = 0;

	counter = counter ? counter : s->submitted + 1;
	sgpu_group_nonce(s->grant.serial, counter, nonce);
	if (sgpu_aead_create(NULL, s->keys.group, &aead, NULL) < 0 ||
	    sgpu_aead_seal(aead, nonce, group, 8, group, group + 8) < 0) {
		sgpu_aead_free(&aead);
		return SGPU_REFUSED_DEVICE;
	}
	sgpu_aead_free(&aead);
	c.submit.group = group;
	c.submit.size = sizeof(group);
	c.submit.counter = counter;
	(void)sgpu_processor_open_group(scene->processor, &c, items, &size, &scene->reply);
	if (scene->reply.refusal == SGPU_REFUSED_NOT) {
		s->submitted = counter;
	}
	return scene->reply.refusal;
}

/* Frames: one for each directory and table, then data. */
enum {
	SCENE_ALICE_DIRECTORY,
	SCENE_ALICE_TABLE,
	SCENE_BOB_DIRECTORY,
	SCENE_BOB_TABLE,
	SCENE_ALICE_BIG,
	SCENE_BOB_BIG,
	SCENE_SPARE,
	SCENE_SPARE_2,
	SCENE_DATA
};

/* The processor, and for Alice and Bob a channel with a table of small pages
 * at entry 0. */
static inline bool scene_begin(struct scene *scene, const struct sgpu_processor_config *config)
{
	struct sgpu_error error = { 0 };

	for (int i = 0; i < 2; i++) {
		if (!scene->owners[i].kid[0] &&
		    sgpu_key_generate(SGPU_KEY_X25519, &scene->owners[i], NULL) < 0) {
			return false;
		}
	}
	memset(scene->channels, 0, sizeof(scene->channels));
	if (sgpu_processor_create(scene->device, config, &scene->processor, &error) < 0) {
		printf("# no processor: %s\n", error.text);
		return false;
	}
	return scene_create(scene, ALICE, 0, SCENE_ALICE_DIRECTORY) == SGPU_REFUSED_NOT &&
	       scene_create(scene, BOB, 1, SCENE_BOB_DIRECTORY) == SGPU_REFUSED_NOT &&
	       scene_pde(scene, ALICE, 0, SCENE_ALICE_TABLE, false) == SGPU_REFUSED_NOT &&
	       scene_pde(scene, BOB, 0, SCENE_BOB_TABLE, false) == SGPU_REFUSED_NOT;
}

#endif
