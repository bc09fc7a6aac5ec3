/* SPDX-License-Identifier: Apache-2.0
 *
 * One list in the order of submission. The members of a batch stand before it, in the place where
 * it was: so a drain or fence that came later waits for them, too. What is held is held in order:
 * `first_held` goes through the list once.
 */
#include "ring/schedule.h"

#include <stdbool.h>
#include <stdlib.h>

#include "ring/check.h"

enum { STEPS = 64, STATUS_LEAST = -255 };
#define NONE UINT32_MAX

enum state {
	FREE,
	HELD,	   /* not started yet */
	STARTED,   /* with the worker */
	DRAINING,  /* completes when it is the first */
	GATHERING, /* a batch whose members are in the list */
};

struct node {
	struct sgpu_ring_descriptor descriptor;
	enum state state;
	uint32_t previous, next;
	/* In the list of those whose end the client wants; NONE: not in it. */
	uint32_t stop_previous, stop_next;
	bool stop_asked;
	uint32_t batch, index; /* of a member: its batch, or NONE, and its place in there */
	/* Of a batch: members in the list, those that succeeded, and the first that failed. */
	uint32_t remaining, succeeded, failed_index;
	int failed_status;
};

struct sgpu_schedule {
	struct sgpu_schedule_config config;
	struct node *nodes;
	uint32_t end;			/* the node between the last and the first of both lists */
	uint32_t free_node, first_held; /* or NONE */
	uint32_t submissions, members;	/* in the list */
	struct sgpu_ring_descriptor batch[SGPU_RING_BATCH_MAX];
};

int sgpu_schedule_create(const struct sgpu_schedule_config *config, struct sgpu_schedule **schedule,
			 struct sgpu_error *error)
{
	struct sgpu_schedule *s = calloc(1, sizeof(*s));

	*schedule = NULL;
	if (!s) {
		return sgpu_fail_nomem(error);
	}
	s->config = *config;
	s->end = config->submissions + SGPU_RING_BATCH_MAX;
	s->nodes = calloc((size_t)s->end + 1, sizeof(*s->nodes));
	if (!s->nodes) {
		free(s);
		return sgpu_fail_nomem(error);
	}
	for (uint32_t i = 0; i < s->end; i++) {
		s->nodes[i].next = i + 1 < s->end ? i + 1 : NONE;
	}
	s->nodes[s->end] = (struct node){
		.previous = s->end, .next = s->end, .stop_previous = s->end, .stop_next = s->end
	};
	s->first_held = NONE;
	*schedule = s;
	return SGPU_OK;
}

void sgpu_schedule_free(struct sgpu_schedule **schedule)
{
	if (*schedule) {
		free((*schedule)->nodes);
		free(*schedule);
		*schedule = NULL;
	}
}

/* ---- the list ---- */

/* There is a free node: submissions and members are counted before. */
static uint32_t insert_before(struct sgpu_schedule *s, uint32_t next,
			      const struct sgpu_ring_descriptor *descriptor, enum state state)
{
	const uint32_t i = s->free_node;
	struct node *node = &s->nodes[i];

	s->free_node = node->next;
	*node = (struct node){ .descriptor = *descriptor,
			       .state = state,
			       .next = next,
			       .previous = s->nodes[next].previous,
			       .stop_next = NONE,
			       .stop_previous = NONE,
			       .batch = NONE };
	s->nodes[node->previous].next = i;
	s->nodes[next].previous = i;
	return i;
}

static void leave_stop_list(struct sgpu_schedule *s, struct node *node)
{
	if (node->stop_next != NONE) {
		s->nodes[node->stop_previous].stop_next = node->stop_next;
		s->nodes[node->stop_next].stop_previous = node->stop_previous;
		node->stop_next = node->stop_previous = NONE;
	}
}

static void remove_node(struct sgpu_schedule *s, uint32_t i)
{
	struct node *node = &s->nodes[i];

	leave_stop_list(s, node);
	s->nodes[node->previous].next = node->next;
	s->nodes[node->next].previous = node->previous;
	node->state = FREE;
	node->next = s->free_node;
	s->free_node = i;
}

static uint32_t next_held(const struct sgpu_schedule *s, uint32_t i)
{
	for (i = s->nodes[i].next; i != s->end; i = s->nodes[i].next) {
		if (s->nodes[i].state == HELD) {
			return i;
		}
	}
	return NONE;
}

/* ---- the end of an operation ---- */

static int complete(struct sgpu_schedule *s, uint32_t i, int status, uint64_t value,
		    struct sgpu_error *error)
{
	const uint64_t cookie = s->nodes[i].descriptor.cookie;

	remove_node(s, i);
	s->submissions--;
	return s->config.post(s->config.post_context, cookie, status, value, error);
}

static int complete_batch(struct sgpu_schedule *s, uint32_t i, struct sgpu_error *error)
{
	return complete(s, i, s->nodes[i].failed_status, s->nodes[i].succeeded, error);
}

static void end_member(struct sgpu_schedule *s, uint32_t i, int status)
{
	const struct node *node = &s->nodes[i];
	struct node *batch = &s->nodes[node->batch];

	if (status == SGPU_OK) {
		batch->succeeded++;
	} else if (batch->failed_status == SGPU_OK || node->index < batch->failed_index) {
		batch->failed_status = status;
		batch->failed_index = node->index;
	}
	batch->remaining--;
	s->members--;
	remove_node(s, i);
}

static int complete_drains(struct sgpu_schedule *s, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	while (rc == SGPU_OK && s->nodes[s->nodes[s->end].next].state == DRAINING) {
		rc = complete(s, s->nodes[s->end].next, SGPU_OK, 0, error);
	}
	return rc;
}

int sgpu_schedule_finish(struct sgpu_schedule *schedule, uint32_t ticket, int status,
			 uint64_t value, struct sgpu_error *error)
{
	struct sgpu_schedule *s = schedule;
	uint32_t batch;
	int rc = SGPU_OK;

	if (ticket >= s->end || s->nodes[ticket].state != STARTED) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "ticket %u names no operation that has started", ticket);
	}
	if (status > 0 || status < STATUS_LEAST) {
		return sgpu_fail(error, SGPU_EUSAGE, "%d is not the status of an operation",
				 status);
	}
	batch = s->nodes[ticket].batch;
	if (batch == NONE) {
		rc = complete(s, ticket, status, value, error);
	} else {
		end_member(s, ticket, status);
		if (s->nodes[batch].remaining == 0) {
			rc = complete_batch(s, batch, error);
		}
	}
	return rc < 0 ? rc : complete_drains(s, error);
}

/* ---- cancellation ---- */

static void ask_to_stop(struct sgpu_schedule *s, uint32_t i)
{
	struct node *node = &s->nodes[i];

	if (!node->stop_asked) {
		node->stop_asked = true;
		node->stop_next = s->end;
		node->stop_previous = s->nodes[s->end].stop_previous;
		s->nodes[node->stop_previous].stop_next = i;
		s->nodes[s->end].stop_previous = i;
	}
}

/* The members of a batch come before it in this pass, so that it may complete when its own turn
 * comes. */
static int cancel(struct sgpu_schedule *s, uint64_t cookie, uint64_t *found,
		  struct sgpu_error *error)
{
	uint32_t i, next, owner;
	int rc = SGPU_OK;

	for (i = s->nodes[s->end].next; i != s->end && rc == SGPU_OK; i = next) {
		struct node *node = &s->nodes[i];

		next = node->next;
		owner = node->batch == NONE ? i : node->batch;
		if (s->nodes[owner].descriptor.cookie != cookie) {
			continue;
		}
		*found += owner == i;
		if (s->first_held == i) {
			s->first_held = next_held(s, i);
		}
		if (node->state == STARTED) {
			ask_to_stop(s, i);
		} else if (owner != i) {
			end_member(s, i, SGPU_ECANCELED);
		} else if (node->state != GATHERING) {
			rc = complete(s, i, SGPU_ECANCELED, 0, error);
		} else if (node->remaining == 0) {
			rc = complete_batch(s, i, error);
		}
	}
	return rc < 0 ? rc : complete_drains(s, error);
}

/* ---- the begin of an operation ---- */

int sgpu_schedule_add(struct sgpu_schedule *schedule, const struct sgpu_ring_descriptor *descriptor,
		      struct sgpu_error *error)
{
	struct sgpu_schedule *s = schedule;
	uint64_t found = 0;
	uint32_t i;
	int rc;

	switch (descriptor->opcode) {
	case SGPU_RING_CANCEL:
		rc = cancel(s, descriptor->argument, &found, error);
		return rc < 0 ? rc
			      : s->config.post(s->config.post_context, descriptor->cookie, SGPU_OK,
					       found, error);
	case SGPU_RING_DRAIN:
		s->submissions++;
		(void)insert_before(s, s->end, descriptor, DRAINING);
		return complete_drains(s, error);
	default:
		s->submissions++;
		i = insert_before(s, s->end, descriptor, HELD);
		if (s->first_held == NONE) {
			s->first_held = i;
		}
		return SGPU_OK;
	}
}

/* Puts the members of a batch, the first that is held, before it. *waits: there is no room for them
 * before others have ended. What cannot be read ends the batch; a member that may not be ends the
 * ring. */
static int expand(struct sgpu_schedule *s, uint32_t i, bool *waits, struct sgpu_error *error)
{
	const struct sgpu_ring_descriptor batch = s->nodes[i].descriptor;
	const uint32_t count = (uint32_t)(batch.length / SGPU_RING_DESCRIPTOR_SIZE);
	struct sgpu_error ignored;
	uint32_t member;
	int rc = SGPU_EUNAVAILABLE;

	*waits = count > SGPU_RING_BATCH_MAX - s->members;
	if (*waits) {
		return SGPU_OK;
	}
	if (s->config.read) {
		rc = s->config.read(s->config.read_context, batch.handle, batch.offset, s->batch,
				    batch.length, &ignored);
	}
	if (rc < 0) {
		s->first_held = next_held(s, i);
		rc = complete(s, i, rc, 0, error);
		return rc < 0 ? rc : complete_drains(s, error);
	}
	for (uint32_t m = 0; m < count; m++) {
		rc = sgpu_ring_check(&s->batch[m], s->config.members, true, SGPU_EINVALID, error);
		if (rc < 0) {
			return rc;
		}
	}
	s->nodes[i].state = GATHERING;
	s->nodes[i].remaining = count;
	for (uint32_t m = 0; m < count; m++) {
		s->batch[m].client = batch.client;
		s->batch[m].cookie = batch.cookie;
		member = insert_before(s, i, &s->batch[m], HELD);
		s->nodes[member].batch = i;
		s->nodes[member].index = m;
		s->members++;
		if (m == 0) {
			s->first_held = member;
		}
	}
	return SGPU_OK;
}

static void tell(const struct sgpu_schedule *s, uint32_t i, struct sgpu_ring_operation *operation)
{
	operation->ticket = i;
	operation->descriptor = s->nodes[i].descriptor;
}

int sgpu_schedule_next(struct sgpu_schedule *schedule, struct sgpu_ring_operation *operation,
		       enum sgpu_ring_event *event, struct sgpu_error *error)
{
	struct sgpu_schedule *s = schedule;
	bool waits;
	uint32_t i = s->nodes[s->end].stop_next;
	int rc = SGPU_OK;

	if (i != s->end) {
		leave_stop_list(s, &s->nodes[i]);
		tell(s, i, operation);
		*event = SGPU_RING_STOP;
		return SGPU_OK;
	}
	*event = SGPU_RING_IDLE;
	for (int step = 0; step < STEPS; step++) {
		i = s->first_held;
		if (i == NONE || ((s->nodes[i].descriptor.flags & SGPU_RING_FENCE) &&
				  s->nodes[s->end].next != i)) {
			return SGPU_OK;
		}
		if (s->nodes[i].descriptor.opcode == SGPU_RING_BATCH) {
			rc = expand(s, i, &waits, error);
			if (rc < 0 || waits) {
				return rc;
			}
			continue;
		}
		s->first_held = next_held(s, i);
		s->nodes[i].state = STARTED;
		if (s->nodes[i].descriptor.opcode != SGPU_RING_NOP) {
			tell(s, i, operation);
			*event = SGPU_RING_START;
			return SGPU_OK;
		}
		rc = sgpu_schedule_finish(s, i, SGPU_OK, 0, error);
		if (rc < 0) {
			return rc;
		}
	}
	*event = SGPU_RING_BUSY;
	return SGPU_OK;
}

uint32_t sgpu_schedule_outstanding(const struct sgpu_schedule *schedule)
{
	return schedule->submissions;
}
