/* SPDX-License-Identifier: Apache-2.0
 *
 * Intel's Data Streaming Accelerator (DSA): copies from user space, over a shared work queue of the
 * kernel's driver idxd. The device reaches only the memory of this process, because the IOMMU uses
 * the process's own page tables.
 *
 * Only the status in a completion record is used. A device that reports a fault of its own or does
 * not answer is not used again. The caller must check that the bytes are right. */
#ifndef SGPU_DSA_DSA_H
#define SGPU_DSA_DSA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sgpu/error.h>

/* An open work queue, for one thread at a time. A child after fork must not use it. */
struct sgpu_dsa;

enum { SGPU_DSA_DEPTH_MAX = 128, SGPU_DSA_JOB_MAX = 1 << 20 };

/* Opens the first queue that copies a page correctly. Errors:
 * SGPU_EUNAVAILABLE: none can be opened, or this is a confidential VM or an enclave, whose memory
 * the device must not reach; SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_dsa_open(struct sgpu_dsa **dsa, struct sgpu_error *error);
/* Accepts NULL; clears the caller's pointer. */
void sgpu_dsa_close(struct sgpu_dsa **dsa);

struct sgpu_dsa_job {
	const void *from;
	void *to;      /* where `from` is copied to, without overlap */
	uint32_t size; /* from 1 to SGPU_DSA_JOB_MAX */
	bool done;
};
/* Runs jobs, at most `depth` at a time, and polls for their end. After an error no job is under
 * way, and the caller must do those that are not `done`. Errors: SGPU_ERETRY: the queue stayed
 * full; SGPU_ESYSTEM: a job's memory is not mapped; SGPU_ETIMEOUT, SGPU_EDEVICE: the device did not
 * answer or failed. After these two, every later call returns SGPU_EUNAVAILABLE. */
SGPU_MUST_CHECK int sgpu_dsa_run(struct sgpu_dsa *dsa, struct sgpu_dsa_job *jobs, size_t count,
				 unsigned depth, struct sgpu_error *error);

/* ---- files ---- */
/* As sgpu_pread, with the same errors, and any thread may call it. The device reads large pieces;
 * pread(2) reads others, those that the device fails at, and any while another thread uses the
 * device, or if dsa is NULL. */
SGPU_MUST_CHECK int sgpu_dsa_pread(struct sgpu_dsa *dsa, int fd, const char *name, void *data,
				   size_t size, uint64_t offset, size_t *got,
				   struct sgpu_error *error);
/* Returns the bytes that the device has read. *why: why it is not used any more, or "". Call the
 * function only while no thread reads. */
uint64_t sgpu_dsa_copied(const struct sgpu_dsa *dsa, const char **why);

#endif
