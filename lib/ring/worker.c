/* SPDX-License-Identifier: Apache-2.0
 *
 * The worker's side. It never takes more submissions than it has room for completions: a client
 * submits only if it has a free slot, and has as many slots as the completion queue has places. A
 * client that submits more breaks the protocol.
 */
#include <stdlib.h>
#include <string.h>

#include "ring/memory.h"
#include "ring/queue.h"
#include "ring/wait.h"

/* An operation that has been taken and not finished; its ticket is its index in the table. */
struct started {
	uint64_t cookie;
	uint32_t next_free;
	bool is_open;
};

struct sgpu_ring_worker {
	struct sgpu_ring_memory memory;
	struct sgpu_consumer submissions;
	struct sgpu_producer completions;
	struct sgpu_sleeper sleeper;
	struct sgpu_error fault;
	struct started *started; /* as many as there are completions */
	uint32_t first_free, outstanding;
	uint8_t members[SGPU_RING_OPCODES];
};

int sgpu_ring_worker_open(int fd, const struct sgpu_ring_worker_config *config,
			  struct sgpu_ring_worker **worker, struct sgpu_error *error)
{
	struct sgpu_ring_worker *w = aligned_alloc(64, (sizeof(*w) + 63) / 64 * 64);
	struct sgpu_ring_header *header;
	int rc;

	*worker = NULL;
	if (!w) {
		return sgpu_fail_nomem(error);
	}
	memset(w, 0, sizeof(*w));
	memcpy(w->members, config->members, sizeof(w->members));
	rc = sgpu_ring_map(fd, &w->memory, error);
	if (rc == SGPU_OK) {
		w->started = calloc(w->memory.completions.count, sizeof(*w->started));
		rc = w->started ? SGPU_OK : sgpu_fail_nomem(error);
	}
	if (rc < 0) {
		sgpu_ring_worker_close(&w);
		return rc;
	}
	for (uint32_t i = 0; i < w->memory.completions.count; i++) {
		w->started[i].next_free = i + 1;
	}
	header = w->memory.header;
	w->submissions.queue = w->memory.submissions;
	w->completions.queue = w->memory.completions;
	sgpu_sleeper_set(&w->sleeper, &header->worker, &header->client, config->doorbell,
			 &config->wait);
	*worker = w;
	return SGPU_OK;
}

void sgpu_ring_worker_close(struct sgpu_ring_worker **worker)
{
	if (*worker) {
		sgpu_ring_unmap(&(*worker)->memory);
		free((*worker)->started);
		free(*worker);
		*worker = NULL;
	}
}

static int check_room(struct sgpu_ring_worker *worker, struct sgpu_error *error)
{
	uint64_t unreaped;
	int rc = sgpu_producer_pending(&worker->completions, &unreaped, error);

	if (rc == SGPU_OK && unreaped + worker->outstanding >= worker->memory.completions.count) {
		rc = sgpu_fail(
			error, SGPU_EINVALID,
			"the client has submitted more than %u operations without taking their "
			"completions",
			worker->memory.completions.count);
	}
	return rc;
}

static int take(struct sgpu_ring_worker *worker, struct sgpu_ring_operation *operation,
		struct sgpu_error *error)
{
	uint64_t words[SGPU_DESCRIPTOR_WORDS];
	struct started *started;
	int rc = sgpu_consumer_take(&worker->submissions, words, error);

	if (rc < 0) {
		return rc;
	}
	memcpy(&operation->descriptor, words, sizeof(operation->descriptor));
	rc = sgpu_ring_check(&operation->descriptor, worker->members, SGPU_EINVALID, error);
	rc = rc ? rc : check_room(worker, error);
	if (rc < 0) {
		return rc;
	}
	operation->ticket = worker->first_free;
	started = &worker->started[operation->ticket];
	worker->first_free = started->next_free;
	worker->outstanding++;
	started->cookie = operation->descriptor.cookie;
	started->is_open = true;
	return SGPU_OK;
}

int sgpu_ring_next(struct sgpu_ring_worker *worker, struct sgpu_ring_operation *operation,
		   struct sgpu_error *error)
{
	struct sgpu_error found;
	int rc = sgpu_ring_fault_check(&worker->fault, error);

	if (rc == SGPU_OK) {
		rc = take(worker, operation, &found);
		if (rc < 0 && rc != SGPU_ERETRY) {
			rc = sgpu_ring_fault_set(&worker->fault, &found, error);
		}
	}
	return rc;
}

int sgpu_ring_finish(struct sgpu_ring_worker *worker, uint32_t ticket, int status, uint64_t value,
		     struct sgpu_error *error)
{
	struct sgpu_ring_completion completion = { .value = value, .status = status };
	uint64_t words[SGPU_COMPLETION_WORDS];
	struct started *started;
	struct sgpu_error found;
	int rc = sgpu_ring_fault_check(&worker->fault, error);

	if (rc < 0) {
		return rc;
	}
	if (ticket >= worker->memory.completions.count || !worker->started[ticket].is_open) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "ticket %u names no operation that has started", ticket);
	}
	if (status > 0 || status < SGPU_STATUS_LEAST) {
		return sgpu_fail(error, SGPU_EUSAGE, "%d is not the status of an operation",
				 status);
	}
	started = &worker->started[ticket];
	completion.cookie = started->cookie;
	started->is_open = false;
	started->next_free = worker->first_free;
	worker->first_free = ticket;
	worker->outstanding--;
	memcpy(words, &completion, sizeof(words));
	rc = sgpu_producer_put(&worker->completions, words, &found);
	if (rc == SGPU_ERETRY) { /* check_room() found room, so the client's head has gone back */
		rc = sgpu_fail(&found, SGPU_EINVALID, "the client has taken back completions");
	}
	if (rc < 0) {
		return sgpu_ring_fault_set(&worker->fault, &found, error);
	}
	sgpu_wake(&worker->sleeper);
	return SGPU_OK;
}

int sgpu_ring_worker_wait(struct sgpu_ring_worker *worker, uint64_t deadline_ns,
			  struct sgpu_error *error)
{
	int rc = sgpu_ring_fault_check(&worker->fault, error);

	return rc < 0 ? rc
		      : sgpu_sleeper_wait(&worker->sleeper, &worker->submissions, deadline_ns,
					  error);
}
