/* SPDX-License-Identifier: Apache-2.0
 *
 * The client's side. Each submission takes a slot and gets an id: the slot's number and how often
 * the slot was taken. The id crosses the ring in place of the program's cookie, which stays here.
 * So a worker can complete only what was submitted, and only once. There are as many slots as
 * places for completions, so a worker always has room for a completion.
 */
#include <stdlib.h>
#include <string.h>

#include "ring/memory.h"
#include "ring/queue.h"
#include "ring/wait.h"

struct slot {
	uint64_t id; /* 0: free */
	uint64_t cookie;
	uint32_t next;	/* the next free slot; the number of slots if there is none */
	uint32_t taken; /* how often the slot was taken */
};

struct sgpu_ring_client {
	struct sgpu_ring_memory memory;
	struct sgpu_producer submissions;
	struct sgpu_consumer completions;
	struct sgpu_sleeper sleeper;
	struct sgpu_error fault;
	struct slot *slots;
	uint32_t free_slot;
};

static void give_slot(struct sgpu_ring_client *client, uint32_t slot)
{
	client->slots[slot].id = 0;
	client->slots[slot].next = client->free_slot;
	client->free_slot = slot;
}

int sgpu_ring_client_open(int fd, const struct sgpu_ring_client_config *config,
			  struct sgpu_ring_client **client, struct sgpu_error *error)
{
	struct sgpu_ring_header *header;
	struct sgpu_ring_client *c;
	int rc;

	*client = NULL;
	c = aligned_alloc(64, (sizeof(*c) + 63) / 64 * 64);
	if (!c) {
		return sgpu_fail_nomem(error);
	}
	memset(c, 0, sizeof(*c));
	rc = sgpu_ring_map(fd, &c->memory, error);
	if (rc == SGPU_OK) {
		c->slots = calloc(c->memory.completions.count, sizeof(*c->slots));
		rc = c->slots ? SGPU_OK : sgpu_fail_nomem(error);
	}
	if (rc < 0) {
		sgpu_ring_client_close(&c);
		return rc;
	}
	for (uint32_t i = 0; i < c->memory.completions.count; i++) {
		c->slots[i].next = i + 1;
	}
	header = c->memory.header;
	c->submissions.queue = c->memory.submissions;
	c->completions.queue = c->memory.completions;
	sgpu_sleeper_set(&c->sleeper, &header->client, &header->worker, config->doorbell,
			 &config->wait);
	*client = c;
	return SGPU_OK;
}

void sgpu_ring_client_close(struct sgpu_ring_client **client)
{
	if (*client) {
		sgpu_ring_unmap(&(*client)->memory);
		free((*client)->slots);
		free(*client);
		*client = NULL;
	}
}

int sgpu_ring_submit(struct sgpu_ring_client *client, const struct sgpu_ring_descriptor *descriptor,
		     struct sgpu_error *error)
{
	uint64_t words[SGPU_DESCRIPTOR_WORDS], wire;
	struct sgpu_error found;
	const uint32_t index = client->free_slot;
	struct slot *slot;
	int rc = sgpu_ring_fault_check(&client->fault, error);

	rc = rc ? rc : sgpu_ring_check(descriptor, NULL, SGPU_EUSAGE, error);
	if (rc < 0) {
		return rc;
	}
	if (index == client->memory.completions.count) {
		return SGPU_ERETRY;
	}
	slot = &client->slots[index];
	client->free_slot = slot->next;
	wire = index | (uint64_t)++slot->taken << 32;
	if (wire == 0) { /* slot 0 was taken 2^32 times: id 0 is reserved */
		wire = (uint64_t)(slot->taken = 1) << 32;
	}
	slot->cookie = descriptor->cookie;
	slot->id = wire;
	memcpy(words, descriptor, sizeof(words));
	words[offsetof(struct sgpu_ring_descriptor, cookie) / sizeof(words[0])] = wire;
	rc = sgpu_producer_put(&client->submissions, words, &found);
	if (rc == SGPU_OK) {
		sgpu_wake(&client->sleeper);
		return SGPU_OK;
	}
	give_slot(client, index);
	return rc == SGPU_ERETRY ? rc : sgpu_ring_fault_set(&client->fault, &found, error);
}

static int accept(struct sgpu_ring_client *client, const struct sgpu_ring_completion *completion,
		  struct sgpu_ring_result *result, struct sgpu_error *error)
{
	const uint32_t index = (uint32_t)completion->cookie;
	struct slot *slot;

	if (completion->flags || completion->reserved || completion->status > 0 ||
	    completion->status < SGPU_STATUS_LEAST) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "a completion has status %d, flags 0x%x and reserved bytes 0x%x",
				 completion->status, completion->flags, completion->reserved);
	}
	slot = index < client->memory.completions.count ? &client->slots[index] : NULL;
	if (!slot || completion->cookie == 0 || slot->id != completion->cookie) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "a completion answers submission %llu, which is not open",
				 (unsigned long long)completion->cookie);
	}
	result->cookie = slot->cookie;
	result->status = completion->status;
	result->value = completion->value;
	give_slot(client, index);
	return SGPU_OK;
}

int sgpu_ring_reap(struct sgpu_ring_client *client, struct sgpu_ring_result *results, size_t room,
		   size_t *count, struct sgpu_error *error)
{
	uint64_t words[SGPU_COMPLETION_WORDS];
	struct sgpu_ring_completion completion;
	struct sgpu_error found;
	int rc = sgpu_ring_fault_check(&client->fault, error);

	*count = 0;
	if (rc < 0) {
		return rc;
	}
	while (*count < room) {
		rc = sgpu_consumer_take(&client->completions, words, &found);
		if (rc == SGPU_ERETRY) {
			break;
		}
		if (rc == SGPU_OK) {
			memcpy(&completion, words, sizeof(completion));
			rc = accept(client, &completion, &results[*count], &found);
		}
		if (rc < 0) {
			return sgpu_ring_fault_set(&client->fault, &found, error);
		}
		(*count)++;
	}
	return SGPU_OK;
}

int sgpu_ring_client_wait(struct sgpu_ring_client *client, uint64_t deadline_ns,
			  struct sgpu_error *error)
{
	int rc = sgpu_ring_fault_check(&client->fault, error);

	return rc < 0 ? rc
		      : sgpu_sleeper_wait(&client->sleeper, &client->completions, deadline_ns,
					  error);
}
