/* SPDX-License-Identifier: Apache-2.0
 *
 * Queues of transfers: those that may have something to do, and those that wait for a staging
 * buffer. Transfers of lower rank come first: so of jobs that are under way at once one comes in
 * whole, and computes while the next comes in, where turns would bring all of them in at the same
 * late moment. The mutex is held.
 */
#include "transfer/engine.h"

enum {
	LOOK_MAX = 64
}; /* transfers that are passed from either end, so that a job of very many costs no time */

void sgpu_transfer_unqueue(struct sgpu_transfer *transfer)
{
	if (!transfer->queue_head) {
		return;
	}
	*(transfer->before ? &transfer->before->next : transfer->queue_head) = transfer->next;
	*(transfer->next ? &transfer->next->before : transfer->queue_tail) = transfer->before;
	transfer->next = transfer->before = NULL;
	transfer->queue_head = transfer->queue_tail = NULL;
}

void sgpu_transfer_append(struct sgpu_transfer *transfer, struct sgpu_transfer **head,
			  struct sgpu_transfer **tail)
{
	struct sgpu_transfer *before, *after = NULL;
	int i;

	sgpu_transfer_unqueue(transfer);
	before = *tail;
	for (i = 0; i < LOOK_MAX && before && before->request.rank > transfer->request.rank; i++) {
		after = before;
		before = before->before;
	}
	if (i == LOOK_MAX && before && before->request.rank > transfer->request.rank) {
		/* From the head, where one of higher rank comes before the tail does. */
		for (after = *head, i = 0;
		     i < LOOK_MAX && after->request.rank <= transfer->request.rank; i++) {
			after = after->next;
		}
		before = after->before;
	}
	transfer->before = before;
	transfer->next = after;
	*(before ? &before->next : head) = transfer;
	*(after ? &after->before : tail) = transfer;
	transfer->queue_head = head;
	transfer->queue_tail = tail;
	if (head == &transfer->engine->ready_head) {
		atomic_store(&transfer->ready, true);
	}
}

/* Whether there is something to be done for it, as choose() says. */
static bool has_work(const struct sgpu_transfer *transfer)
{
	if (transfer->phase == SGPU_PHASE_NEW) {
		return transfer->failed || !sgpu_transfer_is_ordered(transfer);
	}
	return transfer->phase == SGPU_PHASE_MOVING &&
	       (sgpu_transfer_may_write(transfer) || sgpu_transfer_may_digest_beside(transfer) ||
		sgpu_transfer_may_claim(transfer) || sgpu_transfer_is_over(transfer));
}

void sgpu_transfer_post(struct sgpu_transfer *transfer)
{
	struct sgpu_engine *engine = transfer->engine;

	if (transfer->phase == SGPU_PHASE_PREPARING) {
		return; /* its request may still change; who prepares it posts it afterwards */
	}
	if (sgpu_transfer_is_ordered(transfer)) {
		pthread_cond_broadcast(&engine->changed);
	}
	if (has_work(transfer)) {
		sgpu_transfer_append(transfer, &engine->ready_head, &engine->ready_tail);
		sgpu_workers_wake(engine->workers, 1);
	}
}
