/* SPDX-License-Identifier: Apache-2.0
 *
 * The worker's side. It never takes more submissions than it has room for completions: a submission
 * is only there when its client has a free slot, and has as many as the completion queue has
 * places. A client that says otherwise has broken the protocol.
 */
#include <stdlib.h>
#include <string.h>

#include "ring/check.h"
#include "ring/fault.h"
#include "ring/memory.h"
#include "ring/queue.h"
#include "ring/schedule.h"
#include "ring/wait.h"

/* Submissions that one call of sgpu_ring_next looks at. */
enum { TAKES = 64 };

struct sgpu_ring_worker {
	struct sgpu_ring_memory memory;
	struct sgpu_consumer submissions;
	struct sgpu_producer completions;
	struct sgpu_sleeper sleeper;
	struct sgpu_ring_fault fault;
	struct sgpu_schedule *schedule;
	struct sgpu_ring_worker_config config;
};

static int post(void *context, uint64_t cookie, int status, uint64_t value,
		struct sgpu_error *error)
{
	struct sgpu_ring_worker *worker = context;
	const struct sgpu_ring_completion completion = { .cookie = cookie,
							 .value = value,
							 .status = status };
	uint64_t words[SGPU_COMPLETION_WORDS];
	int rc;

	memcpy(words, &completion, sizeof(words));
	rc = sgpu_producer_put(&worker->completions, words, error);
	if (rc == SGPU_ERETRY) { /* has_room() looked: only a head that goes back can do this */
		rc = sgpu_fail(error, SGPU_EINVALID, "the client has taken back completions");
	}
	if (rc == SGPU_OK) {
		sgpu_wake(&worker->sleeper);
	}
	return rc;
}

int sgpu_ring_worker_open(int fd, const struct sgpu_ring_worker_config *config,
			  struct sgpu_ring_worker **worker, struct sgpu_error *error)
{
	struct sgpu_ring_worker *w = aligned_alloc(64, (sizeof(*w) + 63) / 64 * 64);
	struct sgpu_schedule_config schedule = { .post = post,
						 .post_context = w,
						 .read = config->read,
						 .read_context = config->context };
	struct sgpu_ring_header *header;
	struct sgpu_queue queue;
	int rc;

	*worker = NULL;
	if (!w) {
		return sgpu_fail_nomem(error);
	}
	memset(w, 0, sizeof(*w));
	w->config = *config;
	rc = sgpu_ring_map(fd, &w->memory, error);
	if (rc < 0) {
		goto out;
	}
	schedule.submissions = w->memory.completion_count;
	schedule.members = w->config.members;
	rc = sgpu_schedule_create(&schedule, &w->schedule, error);
	if (rc < 0) {
		goto out;
	}
	header = w->memory.header;
	sgpu_queue_set(&queue, w->memory.submissions, SGPU_DESCRIPTOR_WORDS,
		       w->memory.submission_count, &header->worker.head);
	sgpu_consumer_set(&w->submissions, &queue, 0);
	sgpu_queue_set(&queue, w->memory.completions, SGPU_COMPLETION_WORDS,
		       w->memory.completion_count, &header->client.head);
	sgpu_producer_set(&w->completions, &queue, sgpu_store_function(SGPU_RING_STORE_WORDS),
			  false, 0);
	sgpu_sleeper_set(&w->sleeper, &header->worker, &header->client, config->doorbell,
			 &config->wait);
	*worker = w;
	w = NULL;
out:
	sgpu_ring_worker_close(&w);
	return rc;
}

void sgpu_ring_worker_close(struct sgpu_ring_worker **worker)
{
	if (*worker) {
		sgpu_ring_unmap(&(*worker)->memory);
		sgpu_schedule_free(&(*worker)->schedule);
		free(*worker);
		*worker = NULL;
	}
}

/* One more submission can complete, beside all that are outstanding. */
static int check_room(struct sgpu_ring_worker *worker, struct sgpu_error *error)
{
	const uint32_t outstanding = sgpu_schedule_outstanding(worker->schedule);
	uint64_t unreaped;
	int rc = sgpu_producer_pending(&worker->completions, &unreaped, error);

	if (rc == SGPU_OK && unreaped + outstanding >= worker->memory.completion_count) {
		rc = sgpu_fail(
			error, SGPU_EINVALID,
			"the client has submitted more than %u operations without taking their "
			"completions",
			worker->memory.completion_count);
	}
	return rc;
}

/* Takes one submission, if there is one. *costly: it took more than a moment. */
static int take(struct sgpu_ring_worker *worker, bool *costly, struct sgpu_error *error)
{
	uint64_t words[SGPU_DESCRIPTOR_WORDS];
	struct sgpu_ring_descriptor descriptor;
	int rc = sgpu_consumer_take(&worker->submissions, words, error);

	if (rc < 0) {
		return rc;
	}
	memcpy(&descriptor, words, sizeof(descriptor));
	rc = sgpu_ring_check(&descriptor, worker->config.members, false, SGPU_EINVALID, error);
	if (rc == SGPU_OK) {
		rc = check_room(worker, error);
	}
	if (rc < 0) {
		return rc;
	}
	descriptor.client = worker->config.client;
	*costly = descriptor.opcode == SGPU_RING_CANCEL; /* a pass over all that is outstanding */
	return sgpu_schedule_add(worker->schedule, &descriptor, error);
}

int sgpu_ring_next(struct sgpu_ring_worker *worker, struct sgpu_ring_operation *operation,
		   enum sgpu_ring_event *event, struct sgpu_error *error)
{
	struct sgpu_error found;
	bool costly = false;
	int rc = sgpu_ring_fault_check(&worker->fault, error);

	*event = SGPU_RING_IDLE;
	if (rc < 0) {
		return rc;
	}
	for (int i = 0; i < TAKES && !costly; i++) {
		rc = sgpu_schedule_next(worker->schedule, operation, event, &found);
		if (rc == SGPU_OK && *event != SGPU_RING_IDLE) {
			return SGPU_OK;
		}
		if (rc == SGPU_OK) {
			rc = take(worker, &costly, &found);
		}
		if (rc == SGPU_ERETRY) {
			return SGPU_OK;
		}
		if (rc < 0) {
			return sgpu_ring_fault_set(&worker->fault, &found, error);
		}
	}
	*event = SGPU_RING_BUSY;
	return SGPU_OK;
}

int sgpu_ring_finish(struct sgpu_ring_worker *worker, uint32_t ticket, int status, uint64_t value,
		     struct sgpu_error *error)
{
	struct sgpu_error found;
	int rc = sgpu_ring_fault_check(&worker->fault, error);

	if (rc < 0) {
		return rc;
	}
	rc = sgpu_schedule_finish(worker->schedule, ticket, status, value, &found);
	if (rc == SGPU_EUSAGE && error) {
		*error = found;
	}
	return rc == SGPU_OK || rc == SGPU_EUSAGE
		       ? rc
		       : sgpu_ring_fault_set(&worker->fault, &found, error);
}

uint32_t sgpu_ring_outstanding(const struct sgpu_ring_worker *worker)
{
	return sgpu_schedule_outstanding(worker->schedule);
}

int sgpu_ring_worker_wait(struct sgpu_ring_worker *worker, uint64_t deadline_ns,
			  struct sgpu_error *error)
{
	int rc = sgpu_ring_fault_check(&worker->fault, error);

	return rc < 0 ? rc
		      : sgpu_sleeper_wait(&worker->sleeper, &worker->submissions, deadline_ns,
					  error);
}

bool sgpu_ring_worker_arm(struct sgpu_ring_worker *worker)
{
	return sgpu_sleeper_arm(&worker->sleeper, &worker->submissions);
}

int sgpu_ring_worker_disarm(struct sgpu_ring_worker *worker, struct sgpu_error *error)
{
	return sgpu_sleeper_disarm(&worker->sleeper, &worker->submissions, error);
}
