/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs on a work queue. Of an answer two things are believed: that a descriptor is done, and how
 * many of its bytes were done when a page was missing, if that is fewer than it has. The address
 * that faulted is not looked at: what is made present is the rest of the job.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/spin.h"
#include "dsa/queue.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

enum { FAULTS_MAX = 16, PAUSES_MAX = 1024 };

const char *sgpu_dsa_status_text(unsigned status)
{
	switch (status & DSA_COMP_STATUS_MASK) {
	case DSA_COMP_NONE:
		return "an answer without a status";
	case DSA_COMP_PAGE_FAULT_NOBOF:
		return "a page that is not there";
	case DSA_COMP_BAD_OPCODE:
		return "the queue does not have the operation";
	case DSA_COMP_INVALID_FLAGS:
		return "the operation does not have the flags";
	case DSA_COMP_NOZERO_RESERVE:
		return "a reserved field is not zero";
	case DSA_COMP_XFER_ERANGE:
		return "the transfer is larger than the queue allows";
	case DSA_COMP_OVERLAP_BUFFERS:
		return "source and destination overlap";
	case DSA_COMP_INT_HANDLE_INVAL:
		return "the interrupt handle is not valid";
	case DSA_COMP_CRA_XLAT:
		return "the address of the completion record cannot be translated";
	case DSA_COMP_CRA_ALIGN:
		return "the completion record is not aligned";
	case DSA_COMP_ADDR_ALIGN:
		return "an address is not aligned";
	case DSA_COMP_PRIV_BAD:
		return "the privilege is wrong";
	case DSA_COMP_TRAFFIC_CLASS_CONF:
		return "the traffic class is not configured";
	case DSA_COMP_PFAULT_RDBA:
		return "a page of the readback address is not there";
	case DSA_COMP_HW_ERR1:
		return "a hardware error on a source address";
	case DSA_COMP_HW_ERR_DRB:
		return "a hardware error on a readback";
	case DSA_COMP_TRANSLATION_FAIL:
		return "the IOMMU cannot translate an address";
	default:
		return "a status that this version does not know";
	}
}

static void fill_descriptor(const struct sgpu_dsa *dsa, struct sgpu_dsa_slot *slot)
{
	const struct sgpu_dsa_job *job = slot->job;
	const uint64_t left = job->size - job->done;
	struct dsa_hw_desc *d = &slot->descriptor;

	slot->step = (uint32_t)(left < dsa->info.max_transfer ? left : dsa->info.max_transfer);
	memset(d, 0, sizeof(*d));
	memset(&slot->record, 0, sizeof(slot->record));
	d->opcode = job->to ? DSA_OPCODE_MEMMOVE : DSA_OPCODE_CRCGEN;
	d->flags = IDXD_OP_FLAG_RCR | IDXD_OP_FLAG_CRAV;
	d->completion_addr = (uintptr_t)&slot->record;
	d->src_addr = (uintptr_t)job->from + job->done;
	d->xfer_size = slot->step;
	if (job->to) {
		d->dst_addr = (uintptr_t)job->to + job->done;
	} else {
		d->crc_seed = job->done ? job->crc : 0;
	}
}

/* patience_ns: for how long a full queue is asked again, in longer and longer pauses. */
static int submit(struct sgpu_dsa *dsa, struct sgpu_dsa_slot *slot, uint64_t patience_ns,
		  struct sgpu_error *error)
{
	const uint64_t end = sgpu_now_ns() + patience_ns;
	int code;

	fill_descriptor(dsa, slot);
	for (unsigned pauses = 1;; pauses = pauses < PAUSES_MAX ? 2 * pauses : PAUSES_MAX) {
		code = dsa->submit(dsa, &slot->descriptor);
		if (code == SGPU_OK) {
			return SGPU_OK;
		}
		if (code != SGPU_ERETRY) {
			return sgpu_fail(error, SGPU_EDEVICE,
					 "the kernel takes no descriptor for %s: %s",
					 dsa->info.name, strerror(errno));
		}
		if (sgpu_now_ns() >= end) {
			return sgpu_fail(error, SGPU_ERETRY, "the work queue %s stays full",
					 dsa->info.name);
		}
		for (unsigned i = 0; i < pauses; i++) {
			sgpu_pause();
		}
	}
}

/* The status is in the record's first word, which is zero until the device answers. */
static int await(const struct sgpu_dsa *dsa, const struct sgpu_dsa_slot *slot, bool umwait,
		 struct sgpu_error *error)
{
	const uint64_t patience = dsa->timeout_ns + slot->step,
		       end = umwait ? sgpu_now_ns() + patience : 0;

	if (umwait && dsa->info.umwait) {
		while (__atomic_load_n(&slot->record.status, __ATOMIC_ACQUIRE) == DSA_COMP_NONE) {
			if (sgpu_now_ns() >= end) {
				goto mute;
			}
			sgpu_dsa_umwait(&slot->record);
		}
		return SGPU_OK;
	}
	if (sgpu_spin((const _Atomic uint32_t *)(const void *)&slot->record, 0, patience)) {
		return SGPU_OK;
	}
mute:
	return sgpu_fail(error, SGPU_ETIMEOUT, "%s did not answer in %llu ms", dsa->info.name,
			 (unsigned long long)(patience / 1000000));
}

/* Touching by a system call: what is not there is an error, and no signal. */
static int make_present(uintptr_t address, uint64_t size, int how, struct sgpu_error *error)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = address / page * page;

	return madvise((void *)begin, address + size - begin, how) == 0
		       ? SGPU_OK
		       : sgpu_fail(error, SGPU_ESYSTEM,
				   "memory for the accelerator is not there: %s", strerror(errno));
}

/* A page was missing. The bytes before it are done if the copy went forward; a CRC's step begins
 * again. */
static int resume(const struct sgpu_dsa *dsa, struct sgpu_dsa_slot *slot, struct sgpu_error *error)
{
	const volatile struct dsa_completion_record *record = &slot->record;
	const uint32_t completed = record->bytes_completed;
	struct sgpu_dsa_job *job = slot->job;
	int code;

	if (completed >= slot->step) {
		return sgpu_fail(error, SGPU_EDEVICE,
				 "%s claims %u of %u bytes before a page fault", dsa->info.name,
				 completed, slot->step);
	}
	if (++slot->faults > FAULTS_MAX) {
		return sgpu_fail(error, SGPU_EDEVICE, "%s reports page faults without end",
				 dsa->info.name);
	}
	if (job->to && record->result == 0) {
		job->done += completed;
	}
	code = make_present((uintptr_t)job->from + job->done, job->size - job->done,
			    MADV_POPULATE_READ, error);
	if (code == SGPU_OK && job->to) {
		code = make_present((uintptr_t)job->to + job->done, job->size - job->done,
				    MADV_POPULATE_WRITE, error);
	}
	return code;
}

/* Takes an answer; the job is done then, or goes on with another descriptor. */
static int settle(const struct sgpu_dsa *dsa, struct sgpu_dsa_slot *slot, struct sgpu_error *error)
{
	const unsigned status =
		__atomic_load_n(&slot->record.status, __ATOMIC_ACQUIRE) & DSA_COMP_STATUS_MASK;

	switch (status) {
	case DSA_COMP_SUCCESS:
		slot->job->done += slot->step;
		if (!slot->job->to) {
			slot->job->crc = (uint32_t)slot->record.crc_val;
		}
		return SGPU_OK;
	case DSA_COMP_PAGE_FAULT_NOBOF:
		return resume(dsa, slot, error);
	default:
		return sgpu_fail(error, SGPU_EDEVICE, "%s answers with status 0x%02x: %s",
				 dsa->info.name, status, sgpu_dsa_status_text(status));
	}
}

/* A run of jobs: the slots from `first` on are under way, in the order of their submission. */
struct run {
	struct sgpu_dsa *dsa;
	struct sgpu_dsa_job *jobs;
	size_t count, next;
	unsigned depth, first, busy;
	bool umwait;
};

/* The next job, if there is room. *full: the queue has none, and something of this run will make
 * some. */
static int begin_next(struct run *run, bool *full, struct sgpu_error *error)
{
	struct sgpu_dsa_slot *slot = &run->dsa->slots[(run->first + run->busy) % run->depth];
	int code = SGPU_OK;

	slot->job = &run->jobs[run->next];
	slot->faults = 0;
	if (slot->job->size > 0) {
		code = submit(run->dsa, slot, run->busy ? 0 : run->dsa->patience_ns, error);
		*full = code == SGPU_ERETRY && run->busy > 0;
		if (code != SGPU_OK) {
			return *full ? SGPU_OK : code;
		}
		run->busy++;
	}
	run->next++;
	return SGPU_OK;
}

static int end_first(struct run *run, bool goes_on, struct sgpu_error *error)
{
	struct sgpu_dsa_slot *slot = &run->dsa->slots[run->first];
	int code = await(run->dsa, slot, run->umwait, error);

	if (code == SGPU_ETIMEOUT) {
		return code; /* it is still under way */
	}
	code = settle(run->dsa, slot, error);
	if (code == SGPU_OK && goes_on && slot->job->done < slot->job->size) {
		code = submit(run->dsa, slot, run->dsa->patience_ns, error);
		if (code == SGPU_OK) {
			return code;
		}
	}
	run->first = (run->first + 1) % run->depth;
	run->busy--;
	return code;
}

static int run_all(struct run *run, struct sgpu_error *error)
{
	int code = SGPU_OK;

	while (code == SGPU_OK && (run->busy > 0 || run->next < run->count)) {
		bool full = run->busy == run->depth || run->next == run->count;

		if (!full) {
			code = begin_next(run, &full, error);
		}
		if (code == SGPU_OK && full) {
			code = end_first(run, true, error);
		}
	}
	return code;
}

static bool is_fatal(int code)
{
	return code == SGPU_ETIMEOUT || code == SGPU_EDEVICE;
}

/* Whatever went wrong, nothing is under way afterwards: the caller's memory is the caller's again.
 * A device that cannot be trusted to end is stopped by the kernel, which waits for what it has and
 * takes its way to this process's memory. */
static void leave(struct run *run, struct sgpu_error why)
{
	struct sgpu_dsa *dsa = run->dsa;

	while (run->busy > 0 && !is_fatal(why.code)) {
		struct sgpu_error late;

		if (is_fatal(end_first(run, false, &late))) {
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
		 bool umwait, struct sgpu_error *error)
{
	struct run run = { .dsa = dsa, .jobs = jobs, .count = count, .umwait = umwait };
	struct sgpu_error why = { 0 };
	int code;

	run.depth = depth < 1 ? 1 : depth < dsa->info.depth ? depth : dsa->info.depth;
	for (size_t i = 0; i < count; i++) {
		jobs[i].done = 0;
		jobs[i].crc = 0;
	}
	pthread_mutex_lock(&dsa->lock);
	if (dsa->dead) {
		code = sgpu_fail(&why, SGPU_EUNAVAILABLE,
				 "the accelerator is not used any more: %s", dsa->why.text);
	} else {
		code = run_all(&run, &why);
		if (code != SGPU_OK) {
			leave(&run, why);
		}
	}
	pthread_mutex_unlock(&dsa->lock);
	if (code != SGPU_OK && error) {
		*error = why;
	}
	return code;
}
