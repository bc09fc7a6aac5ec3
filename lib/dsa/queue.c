/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds and opens a work queue, and submits descriptors. The kernel makes a node for an enabled
 * queue of user space alone, and enables none whose device would not use the page tables of the
 * process (SVA).
 */
#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sgpu/attest.h>
#include <sgpu/base.h>

#include "dsa/queue.h"

enum { PORTAL = 4096, PROOF = 4096 };
#define PATIENCE_NS 10000000ull

/* ---- descriptors ---- */
/* Submits by ENQCMD, written as bytes so that no compiler flag is needed. SFENCE makes earlier
 * stores to the job's memory visible. All addresses of the page are one portal; writes to one cache
 * line would wait for each other. */
static int submit_portal(struct sgpu_dsa *dsa, const struct dsa_hw_desc *descriptor)
{
	bool full;

	__asm__ volatile("sfence\n\t.byte 0xf2, 0x0f, 0x38, 0xf8, 0x02" /* enqcmd (%rdx), %rax */
			 : "=@ccz"(full)
			 : "a"(dsa->portal + dsa->place), "d"(descriptor)
			 : "memory");
	dsa->place = (dsa->place + sizeof(*descriptor)) % PORTAL;
	return full ? SGPU_ERETRY : SGPU_OK;
}

/* Submits by write(2): Linux 6.10 and later allow only this where direct access could harm others
 * (INTEL-SA-01084). */
static int submit_write(struct sgpu_dsa *dsa, const struct dsa_hw_desc *descriptor)
{
	ssize_t sent = write(dsa->fd, descriptor, sizeof(*descriptor));

	if (sent == (ssize_t)sizeof(*descriptor)) {
		return SGPU_OK;
	}
	return sent < 0 && (errno == EAGAIN || errno == EINTR) ? SGPU_ERETRY : SGPU_EUNAVAILABLE;
}

/* ---- opening ---- */
/* Closing the last mapping and descriptor makes the kernel close the queue: it waits for this
 * process's jobs and ends the device's access to the process's memory. */
static void stop(struct sgpu_dsa *dsa)
{
	if (dsa->portal) {
		munmap(dsa->portal, PORTAL);
		dsa->portal = NULL;
	}
	if (dsa->fd >= 0) {
		close(dsa->fd);
		dsa->fd = -1;
	}
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
	(*dsa)->stop = stop;
	(*dsa)->patience_ns = PATIENCE_NS;
	return SGPU_OK;
}

void sgpu_dsa_close(struct sgpu_dsa **dsa)
{
	if (!*dsa) {
		return;
	}
	if (!(*dsa)->dead) {
		(*dsa)->stop(*dsa);
	}
	pthread_mutex_destroy(&(*dsa)->lock);
	free(*dsa);
	*dsa = NULL;
}

/* Opens the node. Uses the portal if the CPU has ENQCMD and the kernel maps the portal. */
static int reach(struct sgpu_dsa *dsa, const char *node, bool has_enqcmd, struct sgpu_error *error)
{
	void *portal = MAP_FAILED;

	dsa->fd = open(node, O_RDWR | O_CLOEXEC);
	if (dsa->fd < 0) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "cannot open '%s': %s", node,
				 strerror(errno));
	}
	if (has_enqcmd) {
		portal = mmap(NULL, PORTAL, PROT_WRITE, MAP_SHARED | MAP_POPULATE, dsa->fd, 0);
	}
	dsa->portal = portal == MAP_FAILED ? NULL : portal;
	dsa->submit = dsa->portal ? submit_portal : submit_write;
	return SGPU_OK;
}

int sgpu_dsa_prove(struct sgpu_dsa *dsa, struct sgpu_error *error)
{
	uint8_t *from = aligned_alloc(PROOF, 2 * PROOF), *to = from + PROOF;
	struct sgpu_dsa_job job = { .from = from, .to = to, .size = PROOF };
	int rc;

	if (!from) {
		return sgpu_fail_nomem(error);
	}
	for (unsigned i = 0; i < PROOF; i++) {
		from[i] = (uint8_t)(i * i >> 4 ^ i);
		to[i] = (uint8_t)~from[i];
	}
	rc = sgpu_dsa_run(dsa, &job, 1, 1, error);
	if (rc == SGPU_OK && memcmp(from, to, PROOF) != 0) {
		rc = sgpu_fail(error, SGPU_EDEVICE, "%s gives a wrong copy", dsa->name);
	}
	free(from);
	return rc;
}

static int open_queue(const struct sgpu_dsa_place *place, const char *node, struct sgpu_dsa **dsa,
		      struct sgpu_error *error)
{
	int rc = sgpu_dsa_create(dsa, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	snprintf((*dsa)->name, sizeof((*dsa)->name), "%.23s", strrchr(node, '/') + 1);
	(*dsa)->timeout_ns = place->timeout_ns;
	rc = reach(*dsa, node, place->has_enqcmd, error);
	rc = rc ? rc : sgpu_dsa_prove(*dsa, error);
	if (rc != SGPU_OK) {
		sgpu_dsa_close(dsa);
	}
	return rc;
}

/* Tries queues in the order of their names; stops at a queue that does not answer. */
int sgpu_dsa_open_in(const struct sgpu_dsa_place *place, struct sgpu_dsa **dsa,
		     struct sgpu_error *error)
{
	struct sgpu_error lack = { 0 };
	glob_t found = { 0 };
	char pattern[512];
	int rc = SGPU_EUNAVAILABLE;

	*dsa = NULL;
	snprintf(pattern, sizeof(pattern), "%s/wq*", place->nodes);
	(void)glob(pattern, 0, NULL, &found);
	for (size_t i = 0; i < found.gl_pathc && rc != SGPU_OK && rc != SGPU_ETIMEOUT; i++) {
		rc = open_queue(place, found.gl_pathv[i], dsa, &lack);
	}
	globfree(&found);
	if (rc == SGPU_OK || rc == SGPU_ENOMEM) {
		return rc ? sgpu_fail_nomem(error) : rc;
	}
	return lack.text[0] ? sgpu_fail(error, SGPU_EUNAVAILABLE, "no work queue can be used: %s",
					lack.text)
			    : sgpu_fail(error, SGPU_EUNAVAILABLE,
					"no work queue of a Data Streaming Accelerator is "
					"configured ('%s')",
					place->nodes);
}

/* In a confidential VM the accelerator is not trusted and cannot reach the private memory. */
int sgpu_dsa_open(struct sgpu_dsa **dsa, struct sgpu_error *error)
{
	struct sgpu_dsa_place place = { .nodes = "/dev/dsa", .timeout_ns = 1000000000 };
	struct sgpu_platform platform;
	unsigned a, b, c, d;

	*dsa = NULL;
	sgpu_platform_detect(&platform);
	if (platform.kind != SGPU_PLATFORM_PLAIN) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "the accelerator is not trusted in a confidential VM or enclave");
	}
	place.has_enqcmd = __get_cpuid_count(7, 0, &a, &b, &c, &d) && c & (1u << 29);
	return sgpu_dsa_open_in(&place, dsa, error);
}
