/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds and opens a work queue, runs jobs on it, and reads files with it. The kernel makes a node
 * for an enabled queue of user space alone, and enables none whose device would not use the page
 * tables of the process (SVA).
 */
#include "dsa/dsa.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/attest.h>
#include <sgpu/base.h>

#include "base/io.h"

enum {
	PROOF = 4096,
	PATIENCE_NS = 10000000,
	/* of a file */
	PART = 128 << 10,
	DEPTH = 8,
};

/* ---- descriptors ---- */
/* Linux has write(2) for this since 6.10, and allows nothing else where direct access could harm
 * others (INTEL-SA-01084). The call is short beside a job that is worth giving away. */
static int submit_write(struct sgpu_dsa *dsa, const struct dsa_hw_desc *descriptor)
{
	ssize_t sent = write(dsa->fd, descriptor, sizeof(*descriptor));

	return sent == (ssize_t)sizeof(*descriptor)		 ? SGPU_OK
	       : sent < 0 && (errno == EAGAIN || errno == EINTR) ? SGPU_ERETRY
								 : SGPU_EUNAVAILABLE;
}

/* ---- jobs: number n is in slot n % depth ---- */
static int begin_job(struct sgpu_dsa *dsa, struct sgpu_dsa_slot *slot, const struct dsa_hw_desc *d,
		     bool alone, struct sgpu_error *error)
{
	const uint64_t end = sgpu_now_ns() + dsa->patience_ns;
	int rc;

	memset(&slot->record, 0, sizeof(slot->record));
	slot->descriptor = *d;
	slot->descriptor.completion_addr = (uintptr_t)&slot->record;
	while ((rc = dsa->submit(dsa, &slot->descriptor)) == SGPU_ERETRY && alone &&
	       sgpu_now_ns() < end) {
		sgpu_pause();
	}
	return rc == SGPU_OK ? rc
	       : rc == SGPU_ERETRY
		       ? sgpu_fail(error, rc, "the work queue %s stays full", dsa->name)
		       : sgpu_fail(error, SGPU_EDEVICE, "the kernel takes no descriptor for %s: %s",
				   dsa->name, strerror(errno));
}

/* The job's record is zero until the device answers. */
static int end_job(struct sgpu_dsa *dsa, const struct sgpu_dsa_slot *slot, struct sgpu_error *error)
{
	const uint64_t patience = dsa->timeout_ns + slot->descriptor.xfer_size;
	unsigned status;

	if (!sgpu_spin((const _Atomic uint32_t *)(const void *)&slot->record, 0, patience)) {
		return sgpu_fail(error, SGPU_ETIMEOUT, "%s did not answer in %llu ms", dsa->name,
				 (unsigned long long)(patience / 1000000));
	}
	status = __atomic_load_n(&slot->record.status, __ATOMIC_ACQUIRE) & DSA_COMP_STATUS_MASK;
	return status == DSA_COMP_SUCCESS ? SGPU_OK
	       : status == DSA_COMP_PAGE_FAULT_NOBOF
		       ? sgpu_fail(error, SGPU_ESYSTEM, "memory for the accelerator is not there")
		       : sgpu_fail(error, SGPU_EDEVICE, "%s answers with status 0x%02x", dsa->name,
				   status);
}

int sgpu_dsa_copy(struct sgpu_dsa *dsa, void *to, const void *from, size_t size, size_t part,
		  unsigned depth, struct sgpu_error *error)
{
	struct dsa_hw_desc d = { .opcode = DSA_OPCODE_MEMMOVE,
				 .flags = IDXD_OP_FLAG_RCR | IDXD_OP_FLAG_CRAV,
				 .src_addr = (uintptr_t)from,
				 .dst_addr = (uintptr_t)to };
	struct sgpu_error why = { 0 }, late;
	size_t begun = 0, ended = 0;

	if (dsa->why.code) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "the accelerator is not used any more: %s", dsa->why.text);
	}
	/* After a failure, no job may be under way. A device that has failed may never end one;
	 * dsa->stop ends its access to this process's memory. */
	while (why.code != SGPU_ETIMEOUT && why.code != SGPU_EDEVICE &&
	       (ended < begun || (size > 0 && !why.code))) {
		int rc = SGPU_ERETRY;

		if (size > 0 && !why.code && begun - ended < depth) {
			d.xfer_size = (uint32_t)(size < part ? size : part);
			rc = begin_job(dsa, &dsa->slots[begun % depth], &d, begun == ended, &late);
		}
		if (rc == SGPU_OK) {
			begun++;
			size -= d.xfer_size;
			d.src_addr += d.xfer_size;
			d.dst_addr += d.xfer_size;
			continue;
		}
		if (rc == SGPU_ERETRY && begun > ended) {
			rc = end_job(dsa, &dsa->slots[ended++ % depth], &late);
		}
		why = rc && (!why.code || rc != SGPU_ESYSTEM) ? late : why;
	}
	if (why.code == SGPU_ETIMEOUT || why.code == SGPU_EDEVICE) {
		dsa->stop(dsa);
		dsa->why = why;
	}
	return why.code ? sgpu_fail(error, why.code, "%s", why.text) : SGPU_OK;
}

/* ---- opening ---- */
/* With its descriptor the kernel closes the queue: it waits for this process's jobs and ends the
 * device's access to the process's memory. */
static void stop(struct sgpu_dsa *dsa)
{
	sgpu_close(dsa->fd);
	dsa->fd = -1;
}

int sgpu_dsa_create(struct sgpu_dsa **dsa, struct sgpu_error *error)
{
	*dsa = aligned_alloc(64, sizeof(**dsa));
	if (!*dsa) {
		return sgpu_fail_nomem(error);
	}
	memset(*dsa, 0, sizeof(**dsa));
	pthread_mutex_init(&(*dsa)->lock, NULL); /* on Linux it does not fail */
	(*dsa)->fd = -1;
	(*dsa)->submit = submit_write;
	(*dsa)->stop = stop;
	(*dsa)->patience_ns = PATIENCE_NS;
	return SGPU_OK;
}

void sgpu_dsa_close(struct sgpu_dsa **dsa)
{
	if (!*dsa) {
		return;
	}
	(*dsa)->stop(*dsa);
	pthread_mutex_destroy(&(*dsa)->lock);
	free(*dsa);
	*dsa = NULL;
}

int sgpu_dsa_prove(struct sgpu_dsa *dsa, struct sgpu_error *error)
{
	uint8_t from[PROOF], to[PROOF];
	int rc;

	for (unsigned i = 0; i < PROOF; i++) {
		from[i] = (uint8_t)(i * i >> 4 ^ i);
		to[i] = (uint8_t)~from[i];
	}
	rc = sgpu_dsa_copy(dsa, to, from, PROOF, PROOF, 1, error);
	if (rc == SGPU_OK && memcmp(from, to, PROOF) != 0) {
		rc = sgpu_fail(error, SGPU_EDEVICE, "%s gives a wrong copy", dsa->name);
	}
	return rc;
}

static int open_queue(const char *node, uint64_t timeout_ns, struct sgpu_dsa **dsa,
		      struct sgpu_error *error)
{
	int rc = sgpu_dsa_create(dsa, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	snprintf((*dsa)->name, sizeof((*dsa)->name), "%.23s", strrchr(node, '/') + 1);
	(*dsa)->timeout_ns = timeout_ns;
	(*dsa)->fd = open(node, O_RDWR | O_CLOEXEC);
	rc = (*dsa)->fd >= 0 ? sgpu_dsa_prove(*dsa, error)
			     : sgpu_fail(error, SGPU_EUNAVAILABLE, "cannot open '%s': %s", node,
					 strerror(errno));
	if (rc != SGPU_OK) {
		sgpu_dsa_close(dsa);
	}
	return rc;
}

/* Tries queues in the order of their names, up to one that does not answer. */
int sgpu_dsa_open_in(const char *nodes, uint64_t timeout_ns, struct sgpu_dsa **dsa,
		     struct sgpu_error *error)
{
	struct sgpu_error lack = { 0 };
	glob_t found = { 0 };
	char pattern[512];
	int rc = sgpu_fail(&lack, SGPU_EUNAVAILABLE,
			   "no work queue of a Data Streaming Accelerator is configured ('%s')",
			   nodes);

	*dsa = NULL;
	snprintf(pattern, sizeof(pattern), "%s/wq*", nodes);
	(void)glob(pattern, 0, NULL, &found);
	for (size_t i = 0; i < found.gl_pathc && rc != SGPU_OK && rc != SGPU_ETIMEOUT; i++) {
		rc = open_queue(found.gl_pathv[i], timeout_ns, dsa, &lack);
	}
	globfree(&found);
	return rc == SGPU_OK ? rc
			     : sgpu_fail(error, rc == SGPU_ENOMEM ? rc : SGPU_EUNAVAILABLE, "%s",
					 lack.text);
}

/* A confidential VM does not trust the accelerator, which cannot reach private memory. */
int sgpu_dsa_open(struct sgpu_dsa **dsa, struct sgpu_error *error)
{
	struct sgpu_platform platform;

	*dsa = NULL;
	sgpu_platform_detect(&platform);
	if (platform.kind != SGPU_PLATFORM_PLAIN) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "the accelerator is not trusted in a confidential VM or enclave");
	}
	return sgpu_dsa_open_in("/dev/dsa", 1000000000, dsa, error);
}

/* ---- files ----
 * The device copies a mapped piece from the page cache. If a file is cut short meanwhile, it
 * reports a missing page, and no signal comes. */
/* The mapping of a file that was cut reads as zeros up to the page's end. */
static bool has(int fd, uint64_t end)
{
	struct stat status;

	return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
	       end <= (uint64_t)status.st_size;
}

/* False if the caller has to read: pread(2) says why a file cannot be mapped or was cut short. */
static bool by_device(struct sgpu_dsa *dsa, int fd, uint8_t *data, size_t size, uint64_t offset)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), begin = offset / page * page;
	const size_t length = size + (size_t)(offset - begin);
	uint8_t *map = MAP_FAILED;
	uint64_t end;
	int rc;

	/* Both ranges have all their pages now, so that no access faults. */
	if (sgpu_add_u64(offset, size, &end) && has(fd, end)) {
		map = mmap(NULL, length, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, (off_t)begin);
	}
	if (map == MAP_FAILED) {
		return false;
	}
	(void)madvise(data - (uintptr_t)data % page, size + (uintptr_t)data % page,
		      MADV_POPULATE_WRITE);
	rc = sgpu_dsa_copy(dsa, data, map + (offset - begin), size, PART, DEPTH, NULL);
	munmap(map, length);
	return rc == SGPU_OK && has(fd, end);
}

int sgpu_dsa_pread(struct sgpu_dsa *dsa, int fd, const char *name, void *data, size_t size,
		   uint64_t offset, size_t *got, struct sgpu_error *error)
{
	bool read = false;

	if (dsa && size >= SGPU_DSA_READ_LEAST && pthread_mutex_trylock(&dsa->lock) == 0) {
		read = by_device(dsa, fd, data, size, offset);
		dsa->copied += read ? size : 0;
		pthread_mutex_unlock(&dsa->lock);
	}
	*got = size;
	return read ? SGPU_OK : sgpu_pread(fd, name, data, size, offset, got, error);
}
