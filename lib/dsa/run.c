/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs jobs on a work queue.
 */
#include <errno.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "dsa/queue.h"

enum { PAUSES = 256 };

/* One call of sgpu_dsa_run. The `busy` slots from `first` on are under way, in this order. */
struct run {
	struct sgpu_dsa *dsa;
	struct sgpu_dsa_job *jobs;
	size_t count, next;
	unsigned depth, first, busy;
};

static int begin_next(struct run *run, bool *full, struct sgpu_error *error)
{
	struct sgpu_dsa *dsa = run->dsa;
	struct sgpu_dsa_slot *slot = &dsa->slots[(run->first + run->busy) % run->depth];
	struct sgpu_dsa_job *job = &run->jobs[run->next];
	const uint64_t end = sgpu_now_ns() + dsa->patience_ns;
	int rc;

	slot->job = job;
	memset(&slot->record, 0, sizeof(slot->record));
	slot->descriptor = (struct dsa_hw_desc){ .opcode = DSA_OPCODE_MEMMOVE,
						 .flags = IDXD_OP_FLAG_RCR | IDXD_OP_FLAG_CRAV,
						 .completion_addr = (uintptr_t)&slot->record,
						 .src_addr = (uintptr_t)job->from,
						 .dst_addr = (uintptr_t)job->to,
						 .xfer_size = job->size };
	while ((rc = dsa->submit(dsa, &slot->descriptor)) == SGPU_ERETRY && run->busy == 0 &&
	       sgpu_now_ns() < end) {
		for (unsigned i = 0; i < PAUSES; i++) {
			sgpu_pause();
		}
	}
	*full = rc == SGPU_ERETRY && run->busy > 0;
	if (rc == SGPU_OK) {
		run->busy++;
		run->next++;
	}
	return rc == SGPU_OK || *full ? SGPU_OK
	       : rc == SGPU_ERETRY
		       ? sgpu_fail(error, rc, "the work queue %s stays full", dsa->name)
		       : sgpu_fail(error, SGPU_EDEVICE, "the kernel takes no descriptor for %s: %s",
				   dsa->name, strerror(errno));
}

/* Waits for the oldest job under way. Its record is zero until the device answers. */
static int end_first(struct run *run, struct sgpu_error *error)
{
	struct sgpu_dsa *dsa = run->dsa;
	struct sgpu_dsa_slot *slot = &dsa->slots[run->first];
	const uint64_t patience = dsa->timeout_ns + slot->job->size;
	unsigned status;

	if (!sgpu_spin((const _Atomic uint32_t *)(const void *)&slot->record, 0, patience)) {
		/* The job is still under way. */
		return sgpu_fail(error, SGPU_ETIMEOUT, "%s did not answer in %llu ms", dsa->name,
				 (unsigned long long)(patience / 1000000));
	}
	run->first = (run->first + 1) % run->depth;
	run->busy--;
	status = __atomic_load_n(&slot->record.status, __ATOMIC_ACQUIRE) & DSA_COMP_STATUS_MASK;
	if (status == DSA_COMP_SUCCESS) {
		slot->job->done = true;
		return SGPU_OK;
	}
	return status == DSA_COMP_PAGE_FAULT_NOBOF
		       ? sgpu_fail(error, SGPU_ESYSTEM, "memory for the accelerator is not there")
		       : sgpu_fail(error, SGPU_EDEVICE, "%s answers with status 0x%02x", dsa->name,
				   status);
}

static int run_all(struct run *run, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	while (rc == SGPU_OK && (run->busy > 0 || run->next < run->count)) {
		bool full = run->busy == run->depth || run->next == run->count;

		if (!full) {
			rc = begin_next(run, &full, error);
		}
		if (rc == SGPU_OK && full) {
			rc = end_first(run, error);
		}
	}
	return rc;
}

static bool is_fatal(int rc)
{
	return rc == SGPU_ETIMEOUT || rc == SGPU_EDEVICE;
}

/* Waits until no job is under way. If the device may never end a job, dsa->stop ends its access to
 * this process's memory. */
static void leave(struct run *run, struct sgpu_error why)
{
	struct sgpu_dsa *dsa = run->dsa;

	while (run->busy > 0 && !is_fatal(why.code)) {
		struct sgpu_error late;

		if (is_fatal(end_first(run, &late))) {
			why = late;
		}
	}
	if (is_fatal(why.code)) {
		dsa->stop(dsa);
		dsa->dead = true;
		dsa->why = why;
	}
}

int sgpu_dsa_run(struct sgpu_dsa *dsa, struct sgpu_dsa_job *jobs, size_t count, unsigned depth,
		 struct sgpu_error *error)
{
	struct run run = { .dsa = dsa, .jobs = jobs, .count = count };
	struct sgpu_error why = { 0 };
	int rc;

	run.depth = depth < 1 ? 1 : depth < SGPU_DSA_DEPTH_MAX ? depth : SGPU_DSA_DEPTH_MAX;
	for (size_t i = 0; i < count; i++) {
		jobs[i].done = false;
	}
	rc = dsa->dead ? sgpu_fail(&why, SGPU_EUNAVAILABLE,
				   "the accelerator is not used any more: %s", dsa->why.text)
		       : run_all(&run, &why);
	leave(&run, why);
	if (rc != SGPU_OK && error) {
		*error = why;
	}
	return rc;
}
