/* SPDX-License-Identifier: Apache-2.0
 *
 * A work queue of the accelerator: what the files of lib/dsa share. The layouts are those of
 * <linux/idxd.h>.
 */
#ifndef SGPU_DSA_QUEUE_H
#define SGPU_DSA_QUEUE_H

#include <pthread.h>

#include <linux/idxd.h>

#include <sgpu/dsa.h>

/* The two that the device reads and writes have a line of the cache each, since UMONITOR watches a
 * line. */
struct sgpu_dsa_slot {
	_Alignas(64) struct dsa_hw_desc descriptor;
	_Alignas(64) struct dsa_completion_record record;
	_Alignas(64) struct sgpu_dsa_job *job;
	uint32_t step;	 /* bytes of the descriptor */
	unsigned faults; /* of the job, so far */
};

struct sgpu_dsa {
	struct sgpu_dsa_info info;
	/* Hands a descriptor to the device: SGPU_OK, SGPU_ERETRY (the queue is full), or an error.
	 */
	int (*submit)(struct sgpu_dsa *dsa, const struct dsa_hw_desc *descriptor);
	/* Returns when the device does nothing of what it was handed any more; then there is no way
	 * to hand it more. */
	void (*stop)(struct sgpu_dsa *dsa);
	int fd;
	uint8_t *portal;      /* a page, or NULL */
	unsigned place;	      /* in the portal, of the next descriptor */
	uint64_t timeout_ns;  /* for an answer, beside the time for the bytes */
	uint64_t patience_ns; /* for a place in a full queue */
	bool dead;
	struct sgpu_error why; /* it is dead */
	pthread_mutex_t lock;
	struct sgpu_dsa_slot *slots; /* SGPU_DSA_DEPTH_MAX */
};

/* ---- cpu.c: instructions ---- */
struct sgpu_dsa_cpu {
	bool movdir64b, enqcmd, waitpkg; /* CPUID, leaf 7 */
	bool tdx;			 /* a TDX guest, where ENQCMD raises #GP */
};
void sgpu_dsa_cpu_detect(struct sgpu_dsa_cpu *cpu);
int sgpu_dsa_submit_movdir64b(struct sgpu_dsa *dsa, const struct dsa_hw_desc *descriptor);
int sgpu_dsa_submit_enqcmd(struct sgpu_dsa *dsa, const struct dsa_hw_desc *descriptor);
int sgpu_dsa_submit_write(struct sgpu_dsa *dsa, const struct dsa_hw_desc *descriptor);
/* Until the record is written, or some ten microseconds have passed. */
void sgpu_dsa_umwait(const struct dsa_completion_record *record);

/* ---- queue.c: finding and opening ---- */
struct sgpu_dsa_place {
	const char *devices; /* "/sys/bus/dsa/devices" */
	const char *nodes;   /* "/dev/dsa" */
	struct sgpu_dsa_cpu cpu;
	void *(*map)(int fd); /* the portal, or MAP_FAILED and errno */
	uint64_t timeout_ns;  /* for an answer */
};
SGPU_MUST_CHECK int sgpu_dsa_open_in(const struct sgpu_dsa_place *place, unsigned modes,
				     struct sgpu_dsa **dsa, struct sgpu_error *error);
/* A queue without a way to the device; the caller fills in info, submit and stop. */
SGPU_MUST_CHECK int sgpu_dsa_create(struct sgpu_dsa **dsa, struct sgpu_error *error);
/* Whether the device copies and computes CRCs: SGPU_EDEVICE if not. */
SGPU_MUST_CHECK int sgpu_dsa_prove(struct sgpu_dsa *dsa, struct sgpu_error *error);

/* ---- reader.c ---- */
enum { SGPU_DSA_READ_LEAST = 256 << 10, SGPU_DSA_TRIALS = 4 };

/* ---- run.c ---- */
const char *sgpu_dsa_status_text(unsigned status);

#endif
