/* SPDX-License-Identifier: Apache-2.0
 *
 * Intel's Data Streaming Accelerator (DSA): copies from user space, over a shared work queue of the
 * kernel's driver idxd. The device reaches only this process's memory, as the IOMMU uses the
 * process's own page tables. <linux/idxd.h> has the layouts.
 *
 * Of a completion record only the status is used. A device that reports a fault of its own or does
 * not answer is not used again. The caller must check the bytes. */
#ifndef SGPU_DSA_DSA_H
#define SGPU_DSA_DSA_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/idxd.h>

#include <sgpu/error.h>

enum { SGPU_DSA_DEPTH_MAX = 128, SGPU_DSA_READ_LEAST = 256 << 10 };

/* What the device reads or writes has cache lines of its own. */
struct sgpu_dsa_slot {
	_Alignas(64) struct dsa_hw_desc descriptor;
	_Alignas(64) struct dsa_completion_record record;
};

/* An open work queue, for one thread at a time. A child after fork must not use it. */
struct sgpu_dsa {
	struct sgpu_dsa_slot slots[SGPU_DSA_DEPTH_MAX];
	char name[24]; /* of its node: "wq0.1" */
	/* Returns SGPU_OK, SGPU_ERETRY (the queue is full) or an error. */
	int (*submit)(struct sgpu_dsa *dsa, const struct dsa_hw_desc *descriptor);
	/* Makes the device accept no jobs, and returns when none is under way. May be repeated. */
	void (*stop)(struct sgpu_dsa *dsa);
	int fd;
	uint64_t timeout_ns;   /* for an answer, plus 1 ns for each byte */
	uint64_t patience_ns;  /* how long to wait for room in a full queue */
	struct sgpu_error why; /* with a code: the device is not used any more */
	pthread_mutex_t lock;  /* held to read a file with the device */
	uint64_t copied;       /* bytes of files */
};

/* Opens the first queue that copies a page correctly. Errors: SGPU_EUNAVAILABLE: there is none, or
 * this is a confidential VM or an enclave, whose memory the device must not reach; SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_dsa_open(struct sgpu_dsa **dsa, struct sgpu_error *error);
/* Accepts NULL; clears the caller's pointer. */
void sgpu_dsa_close(struct sgpu_dsa **dsa);

/* Copies by jobs of `part` bytes, at most `depth` (1 to SGPU_DSA_DEPTH_MAX) at a time, and polls
 * for their end. `to` and `from` do not overlap. After an error no job is under way, and all must
 * be copied again. Errors: SGPU_ERETRY: the queue stayed full; SGPU_ESYSTEM: memory is not mapped;
 * SGPU_ETIMEOUT, SGPU_EDEVICE: the device did not answer or failed. After these two, every call
 * returns SGPU_EUNAVAILABLE. */
SGPU_MUST_CHECK int sgpu_dsa_copy(struct sgpu_dsa *dsa, void *to, const void *from, size_t size,
				  size_t part, unsigned depth, struct sgpu_error *error);

/* As sgpu_pread, with the same errors; for any thread. The device reads large pieces; pread(2)
 * reads others, those that the device fails at, and any while another thread uses the device, or if
 * dsa is NULL. */
SGPU_MUST_CHECK int sgpu_dsa_pread(struct sgpu_dsa *dsa, int fd, const char *name, void *data,
				   size_t size, uint64_t offset, size_t *got,
				   struct sgpu_error *error);

/* ---- for sgpu_dsa_open and tests ---- */
/* nodes: "/dev/dsa". */
SGPU_MUST_CHECK int sgpu_dsa_open_in(const char *nodes, uint64_t timeout_ns, struct sgpu_dsa **dsa,
				     struct sgpu_error *error);
/* Makes a queue without a device; the caller fills in name, submit and timeout_ns. */
SGPU_MUST_CHECK int sgpu_dsa_create(struct sgpu_dsa **dsa, struct sgpu_error *error);
/* Copies a page. Errors: SGPU_EDEVICE if the copy is wrong. */
SGPU_MUST_CHECK int sgpu_dsa_prove(struct sgpu_dsa *dsa, struct sgpu_error *error);

#endif
