/* SPDX-License-Identifier: Apache-2.0
 *
 * A transfer for callers that wait for it.
 */
#ifndef SGPU_HARNESS_TRANSFER_SYNC_H
#define SGPU_HARNESS_TRANSFER_SYNC_H

#include <semaphore.h>

#include "transfer/transfer.h"

struct transfer_end {
	sem_t come;
	struct sgpu_transfer_result result;
};

static inline void note_transfer_end(void *argument, const struct sgpu_transfer_result *result)
{
	struct transfer_end *end = argument;

	end->result = *result;
	sem_post(&end->come);
}

/* Returns the result's code. The source or sink is not ordered. result: may be NULL. */
static inline int transfer_sync(struct sgpu_engine *engine, struct sgpu_transfer_request request,
				struct sgpu_transfer_result *result)
{
	struct transfer_end end = { .result = { .code = SGPU_OK } };
	struct sgpu_transfer *transfer = NULL;
	int rc;

	sem_init(&end.come, 0, 0);
	request.done = note_transfer_end;
	request.argument = &end;
	rc = sgpu_transfer_start(engine, &request, &transfer, &end.result.error);
	while (rc == SGPU_OK && sem_wait(&end.come) != 0) {
	}
	sgpu_transfer_free(&transfer);
	sem_destroy(&end.come);
	end.result.code = rc == SGPU_OK ? end.result.code : rc;
	if (result) {
		*result = end.result;
	}
	return end.result.code;
}

#endif
