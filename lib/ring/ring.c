/* SPDX-License-Identifier: Apache-2.0
 *
 * The two sides of a ring. Each submission takes a slot of the client's and gets an id: the slot's
 * number and how often the slot was taken. The id crosses the ring in place of the program's
 * cookie. So a worker can complete only what was submitted, and only once. There are as many slots
 * as places for completions, so a completion always has room: a client that submits more breaks the
 * protocol.
 */
#include <stdlib.h>
#include <string.h>

#include "ring/private.h"

struct slot {
	uint64_t id; /* 0: free */
	uint64_t cookie;
	uint32_t next;	/* the next free slot; the number of slots if there is none */
	uint32_t taken; /* how often the slot was taken */
};

struct sgpu_ring {
	struct sgpu_ring_memory memory;
	struct sgpu_producer out;
	struct sgpu_consumer in;
	struct sgpu_sleeper sleeper;
	struct sgpu_error fault;
	/* of a client */
	struct slot *slots;
	uint32_t free_slot;
	/* of a worker */
	const uint8_t *members;
	uint64_t started; /* the started operation's cookie */
	bool has_started;
};

int sgpu_ring_open(int fd, const struct sgpu_ring_config *config, struct sgpu_ring **ring,
		   struct sgpu_error *error)
{
	struct sgpu_ring *r = *ring = calloc(1, sizeof(*r));

	if (!r) {
		return sgpu_fail_nomem(error);
	}
	const bool works = config->members != NULL;
	int rc = sgpu_ring_map(fd, &r->memory, error);
	if (rc == SGPU_OK && !works) {
		r->slots = calloc(r->memory.completions.count, sizeof(*r->slots));
		rc = r->slots ? SGPU_OK : sgpu_fail_nomem(error);
	}
	if (rc < 0) {
		sgpu_ring_close(ring);
		return rc;
	}
	for (uint32_t i = 0; !works && i < r->memory.completions.count; i++) {
		r->slots[i].next = i + 1;
	}
	struct sgpu_ring_side *client = &r->memory.header->client;
	struct sgpu_ring_side *worker = &r->memory.header->worker;

	r->members = config->members;
	r->out.queue = works ? r->memory.completions : r->memory.submissions;
	r->in.queue = works ? r->memory.submissions : r->memory.completions;
	sgpu_sleeper_set(&r->sleeper, works ? worker : client, works ? client : worker,
			 config->doorbell, config->spin_ns);
	return SGPU_OK;
}

void sgpu_ring_close(struct sgpu_ring **ring)
{
	if (*ring) {
		sgpu_ring_unmap(&(*ring)->memory);
		free((*ring)->slots);
		free(*ring);
		*ring = NULL;
	}
}

int sgpu_ring_await(struct sgpu_ring *ring, uint64_t deadline_ns, struct sgpu_error *error)
{
	int rc = sgpu_ring_fault_check(&ring->fault, error);

	return rc ? rc : sgpu_sleeper_wait(&ring->sleeper, &ring->in, deadline_ns, error);
}

/* ---- the client's side ---- */
static void give_slot(struct sgpu_ring *ring, uint32_t slot)
{
	ring->slots[slot].id = 0;
	ring->slots[slot].next = ring->free_slot;
	ring->free_slot = slot;
}

int sgpu_ring_submit(struct sgpu_ring *ring, const struct sgpu_ring_descriptor *descriptor,
		     struct sgpu_error *error)
{
	struct sgpu_ring_descriptor sent = *descriptor;
	uint64_t words[SGPU_DESCRIPTOR_WORDS];
	struct sgpu_error found;
	const uint32_t index = ring->free_slot;
	struct slot *slot;
	int rc = sgpu_ring_fault_check(&ring->fault, error);

	rc = rc ? rc : sgpu_ring_check(descriptor, NULL, SGPU_EUSAGE, error);
	if (rc < 0) {
		return rc;
	}
	if (index == ring->memory.completions.count) {
		return SGPU_ERETRY;
	}
	slot = &ring->slots[index];
	ring->free_slot = slot->next;
	slot->taken += slot->taken == UINT32_MAX ? 2 : 1; /* id 0 is reserved */
	slot->cookie = descriptor->cookie;
	slot->id = sent.cookie = index | (uint64_t)slot->taken << 32;
	memcpy(words, &sent, sizeof(words));
	rc = sgpu_producer_put(&ring->out, words, &found);
	if (rc == SGPU_OK) {
		sgpu_wake(&ring->sleeper);
		return SGPU_OK;
	}
	give_slot(ring, index);
	return rc == SGPU_ERETRY ? rc : sgpu_ring_fault_set(&ring->fault, &found, error);
}

static int accept(struct sgpu_ring *ring, const struct sgpu_ring_completion *completion,
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
	slot = index < ring->memory.completions.count ? &ring->slots[index] : NULL;
	if (!slot || completion->cookie == 0 || slot->id != completion->cookie) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "a completion answers submission %llu, which is not open",
				 (unsigned long long)completion->cookie);
	}
	result->cookie = slot->cookie;
	result->status = completion->status;
	result->value = completion->value;
	give_slot(ring, index);
	return SGPU_OK;
}

int sgpu_ring_reap(struct sgpu_ring *ring, struct sgpu_ring_result *results, size_t room,
		   size_t *count, struct sgpu_error *error)
{
	uint64_t words[SGPU_COMPLETION_WORDS];
	struct sgpu_ring_completion completion;
	struct sgpu_error found;
	int rc = sgpu_ring_fault_check(&ring->fault, error);

	for (*count = 0; rc == SGPU_OK && *count < room; ++*count) {
		rc = sgpu_consumer_take(&ring->in, words, &found);
		if (rc == SGPU_ERETRY) {
			return SGPU_OK;
		}
		if (rc == SGPU_OK) {
			memcpy(&completion, words, sizeof(completion));
			rc = accept(ring, &completion, &results[*count], &found);
		}
		if (rc < 0) {
			return sgpu_ring_fault_set(&ring->fault, &found, error);
		}
	}
	return rc;
}

/* ---- the worker's side ---- */
static int take(struct sgpu_ring *ring, struct sgpu_ring_descriptor *descriptor,
		struct sgpu_error *error)
{
	const uint32_t most = ring->memory.completions.count;
	uint64_t words[SGPU_DESCRIPTOR_WORDS], unreaped;
	int rc = sgpu_consumer_take(&ring->in, words, error);

	if (rc < 0) {
		return rc;
	}
	memcpy(descriptor, words, sizeof(*descriptor));
	rc = sgpu_ring_check(descriptor, ring->members, SGPU_EINVALID, error);
	rc = rc ? rc : sgpu_producer_pending(&ring->out, &unreaped, error);
	if (rc == SGPU_OK && unreaped >= most) {
		rc = sgpu_fail(
			error, SGPU_EINVALID,
			"the client has submitted more than %u operations without taking their "
			"completions",
			most);
	}
	return rc;
}

int sgpu_ring_next(struct sgpu_ring *ring, struct sgpu_ring_descriptor *descriptor,
		   struct sgpu_error *error)
{
	struct sgpu_error found;
	int rc = sgpu_ring_fault_check(&ring->fault, error);

	if (rc < 0) {
		return rc;
	}
	rc = take(ring, descriptor, &found);
	if (rc < 0) {
		return rc == SGPU_ERETRY ? rc : sgpu_ring_fault_set(&ring->fault, &found, error);
	}
	ring->started = descriptor->cookie;
	ring->has_started = true;
	return SGPU_OK;
}

int sgpu_ring_finish(struct sgpu_ring *ring, int status, uint64_t value, struct sgpu_error *error)
{
	const struct sgpu_ring_completion completion = { .cookie = ring->started,
							 .value = value,
							 .status = status };
	uint64_t words[SGPU_COMPLETION_WORDS];
	struct sgpu_error found;
	int rc = sgpu_ring_fault_check(&ring->fault, error);

	if (rc < 0) {
		return rc;
	}
	if (!ring->has_started || status > 0 || status < SGPU_STATUS_LEAST) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "no operation has started, or %d is not the status of one",
				 status);
	}
	ring->has_started = false;
	memcpy(words, &completion, sizeof(words));
	rc = sgpu_producer_put(&ring->out, words, &found);
	if (rc == SGPU_ERETRY) { /* take() found room, so the client's head has gone back */
		rc = sgpu_fail(&found, SGPU_EINVALID, "the client has taken back completions");
	}
	if (rc < 0) {
		return sgpu_ring_fault_set(&ring->fault, &found, error);
	}
	sgpu_wake(&ring->sleeper);
	return SGPU_OK;
}
