/* SPDX-License-Identifier: Apache-2.0
 *
 * A work queue of the accelerator, for the files of lib/dsa. The layouts are those of
 * <linux/idxd.h>.
 */
#ifndef SGPU_DSA_QUEUE_H
#define SGPU_DSA_QUEUE_H

#include <pthread.h>

#include <linux/idxd.h>

#include "dsa/dsa.h"

/* Each record that the device reads or writes has a cache line of its own. */
struct sgpu_dsa_slot {
	_Alignas(64) struct dsa_hw_desc descriptor;
	_Alignas(64) struct dsa_completion_record record;
	_Alignas(64) struct sgpu_dsa_job *job;
};

struct sgpu_dsa {
	struct sgpu_dsa_slot slots[SGPU_DSA_DEPTH_MAX];
	char name[24]; /* of its node: "wq0.1" */
	/* Returns SGPU_OK, SGPU_ERETRY (the queue is full) or an error. */
	int (*submit)(struct sgpu_dsa *dsa, const struct dsa_hw_desc *descriptor);
	/* Makes the device accept no more jobs, and returns when no job is under way. */
	void (*stop)(struct sgpu_dsa *dsa);
	int fd;
	uint8_t *portal;      /* page for descriptors; NULL: write(2) is used */
	unsigned place;	      /* offset of the next descriptor in the portal */
	uint64_t timeout_ns;  /* for an answer, plus 1 ns for each byte */
	uint64_t patience_ns; /* how long to wait for room in a full queue */
	bool dead;
	struct sgpu_error why;
	/* For reader.c: held by the thread that uses the device; bytes that were read. */
	pthread_mutex_t lock;
	uint64_t copied;
};

/* ---- queue.c: finding and opening ---- */
struct sgpu_dsa_place {
	const char *nodes;   /* "/dev/dsa" */
	bool has_enqcmd;     /* the CPU; else write(2) is used */
	uint64_t timeout_ns; /* for an answer */
};
SGPU_MUST_CHECK int sgpu_dsa_open_in(const struct sgpu_dsa_place *place, struct sgpu_dsa **dsa,
				     struct sgpu_error *error);
/* Makes a queue that reaches no device yet; the caller fills in name, submit and timeout_ns. */
SGPU_MUST_CHECK int sgpu_dsa_create(struct sgpu_dsa **dsa, struct sgpu_error *error);
/* Copies a page. Errors: SGPU_EDEVICE if the copy is wrong. */
SGPU_MUST_CHECK int sgpu_dsa_prove(struct sgpu_dsa *dsa, struct sgpu_error *error);

/* ---- reader.c ---- */
enum { SGPU_DSA_READ_LEAST = 256 << 10 };

#endif
