/* SPDX-License-Identifier: Apache-2.0
 *
 * Intel's Data Streaming Accelerator (DSA): copies and CRCs by a device of the processor, from user
 * space, over a work queue of the kernel's driver idxd. The device reads and writes the memory of
 * this process, and nothing else: the kernel gives a process such a queue only where the IOMMU
 * translates by the process's own page tables.
 *
 * What the device answers is not trusted: no byte of an answer becomes an address or a length. A
 * device that breaks the rules, reports a fault of its own or does not answer is not used again.
 * That the bytes are right is the caller's to check, as with any other way to the data. */
#ifndef SGPU_DSA_H
#define SGPU_DSA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sgpu/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open work queue. Any thread; one call at a time works, the others wait. Not for a child after
 * fork. */
struct sgpu_dsa;

enum { SGPU_DSA_SHARED = 1, SGPU_DSA_DEDICATED = 2, SGPU_DSA_DEPTH_MAX = 128 };
struct sgpu_dsa_info {
	char name[24]; /* "wq0.1" */
	bool shared;   /* with other processes; a dedicated queue is this process's alone */
	bool portal;   /* descriptors go through a mapped page; else through the kernel, by write(2)
			*/
	bool umwait;   /* this CPU can wait with UMONITOR and UMWAIT */
	unsigned depth;	       /* descriptors that it holds, at most SGPU_DSA_DEPTH_MAX */
	uint64_t max_transfer; /* bytes of one descriptor; larger jobs take several */
};

/* Opens the first queue of these modes (SGPU_DSA_SHARED, SGPU_DSA_DEDICATED or both; shared ones
 * come first) that copies a page and computes its CRC correctly. Errors: SGPU_EUNAVAILABLE and the
 * reason: no queue, no right to open it, an instruction that is missing, a confidential VM or an
 * enclave, whose memory the device must not reach; SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_dsa_open(unsigned modes, struct sgpu_dsa **dsa, struct sgpu_error *error);
/* Accepts NULL; clears the caller's pointer. */
void sgpu_dsa_close(struct sgpu_dsa **dsa);
void sgpu_dsa_describe(const struct sgpu_dsa *dsa, struct sgpu_dsa_info *info);

struct sgpu_dsa_job {
	const void *from;
	void *to; /* NULL: the CRC-32C of `from`. Else a copy; the two may not overlap */
	uint64_t size;
	uint64_t done; /* bytes from the start that are copied, or that `crc` is of */
	uint32_t crc;
};
/* Does jobs, with at most `depth` of them under way, and waits for their end by looking at memory,
 * or by UMWAIT where info.umwait. After an error, `done` of each job says what the device has done;
 * the rest is the caller's to do. No job is under way any more when it returns, also after an
 * error. Errors: SGPU_ERETRY: a shared queue stayed full; SGPU_ESYSTEM: memory of a job is not
 * there. SGPU_ETIMEOUT and SGPU_EDEVICE: the device did not answer, or answered wrongly; from then
 * on SGPU_EUNAVAILABLE. */
SGPU_MUST_CHECK int sgpu_dsa_run(struct sgpu_dsa *dsa, struct sgpu_dsa_job *jobs, size_t count,
				 unsigned depth, bool umwait, struct sgpu_error *error);

/* CRC-32C (Castagnoli) by the CPU. `crc` is 0, or the CRC of what comes before. */
uint32_t sgpu_crc32c(uint32_t crc, const void *data, size_t size);

/* ---- files ----
 * Reads files into memory: with the device, for large pieces, if it was faster than a core at some
 * of them; by pread(2) otherwise. One thread at a time uses the device, while the others read. */
struct sgpu_dsa_reader;
/* `dsa` is borrowed; NULL: only pread(2). */
SGPU_MUST_CHECK int sgpu_dsa_reader_create(struct sgpu_dsa *dsa, struct sgpu_dsa_reader **reader,
					   struct sgpu_error *error);
void sgpu_dsa_reader_free(struct sgpu_dsa_reader **reader);
/* As sgpu_pread, whose errors it has. Any thread. */
SGPU_MUST_CHECK int sgpu_dsa_pread(struct sgpu_dsa_reader *reader, int fd, const char *name,
				   void *data, size_t size, uint64_t offset, size_t *got,
				   struct sgpu_error *error);
/* What the device has read so far, and why it is not used any more ("": it is). */
struct sgpu_dsa_figures {
	uint64_t bytes;
	char why[SGPU_ERROR_TEXT_MAX];
};
void sgpu_dsa_reader_figures(struct sgpu_dsa_reader *reader, struct sgpu_dsa_figures *figures);

#ifdef __cplusplus
}
#endif
#endif
