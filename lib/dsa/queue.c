/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds and opens a work queue, and submits descriptors. Text in /sys comes from outside, so a
 * queue is skipped unless each attribute is the expected word.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/attest.h>
#include <sgpu/base.h>

#include "base/base.h"
#include "dsa/queue.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { PORTAL = 4096, ATTRIBUTE_MAX = 64, PROOF = 4096 };
#define PATIENCE_NS 10000000ull

/* A dedicated queue serves one process only. Without PASID, user space gets no queue. */
static int check_queue(const struct sgpu_dsa_place *place, const char *queue, unsigned device,
		       struct sgpu_error *error)
{
	static const char *const attributes[][2] = { { "state", "enabled" },
						     { "type", "user" },
						     { "mode", "shared" },
						     { "pasid_enabled", "1" } };
	char path[512], text[ATTRIBUTE_MAX], name[16];

	snprintf(name, sizeof(name), "dsa%u", device);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(attributes); i++) {
		const char *const attribute = attributes[i][0], *const word = attributes[i][1],
				  *const object = i == 3 ? name : queue;

		snprintf(path, sizeof(path), "%s/%s/%s", place->devices, object, attribute);
		if (!sgpu_peek(path, text, sizeof(text)) || strlen(text) == sizeof(text) - 1) {
			return sgpu_fail(error, SGPU_EUNAVAILABLE, "cannot read %s of %s",
					 attribute, object);
		}
		text[strcspn(text, "\n")] = '\0';
		if (strcmp(text, word) != 0) {
			return sgpu_fail(error, SGPU_EUNAVAILABLE, "%s of %s is '%s', not '%s'",
					 attribute, object, text, word);
		}
	}
	return SGPU_OK;
}

/* ---- descriptors ---- */
/* Submits by ENQCMD, written as bytes so that no compiler flag is needed. SFENCE makes earlier
 * stores to the job's memory visible. All addresses of the page are one portal; writes to one cache
 * line would wait for each other. */
static int submit_portal(struct sgpu_dsa *dsa, const struct dsa_hw_desc *descriptor)
{
	bool full = true;

#if defined(__x86_64__)
	__asm__ volatile("sfence\n\t.byte 0xf2, 0x0f, 0x38, 0xf8, 0x02" /* enqcmd (%rdx), %rax */
			 : "=@ccz"(full)
			 : "a"(dsa->portal + dsa->place), "d"(descriptor)
			 : "memory");
#endif
	(void)descriptor;
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

/* Opens the queue. Uses the portal if the CPU has ENQCMD and the kernel maps the portal. */
static int reach(struct sgpu_dsa *dsa, const struct sgpu_dsa_place *place, struct sgpu_error *error)
{
	struct stat status;
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", place->nodes, dsa->name);
	dsa->fd = open(path, O_RDWR | O_CLOEXEC);
	if (dsa->fd < 0 || fstat(dsa->fd, &status) != 0) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "cannot open '%s': %s", path,
				 strerror(errno));
	}
	if (!S_ISCHR(status.st_mode)) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "'%s' is no device", path);
	}
	dsa->submit = submit_write;
	if (place->map) {
		void *portal = place->map(dsa->fd);

		if (portal == MAP_FAILED && errno != EPERM) {
			return sgpu_fail(error, SGPU_EUNAVAILABLE, "cannot map '%s': %s", path,
					 strerror(errno));
		}
		if (portal != MAP_FAILED) {
			dsa->portal = portal;
			dsa->submit = submit_portal;
		}
	}
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

/* `name` is from /sys. Returns SGPU_EINVALID if no queue has such a name ("wq0.1"). */
static int open_queue(const struct sgpu_dsa_place *place, const char *name, struct sgpu_dsa **dsa,
		      struct sgpu_error *error)
{
	unsigned device, number;
	int rc;

	if (sscanf(name, "wq%4u.%4u", &device, &number) != 2) {
		return SGPU_EINVALID;
	}
	rc = sgpu_dsa_create(dsa, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	snprintf((*dsa)->name, sizeof((*dsa)->name), "wq%u.%u", device, number);
	(*dsa)->timeout_ns = place->timeout_ns;
	rc = strcmp((*dsa)->name, name) == 0 ? check_queue(place, name, device, error)
					     : SGPU_EINVALID;
	rc = rc ? rc : reach(*dsa, place, error);
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
	struct sgpu_error why = { 0 }, lack = { 0 };
	struct dirent **entries = NULL;
	int found = scandir(place->devices, &entries, NULL, versionsort), code = SGPU_EUNAVAILABLE;

	*dsa = NULL;
	for (int i = 0; i < found; i++) {
		if (code != SGPU_OK && code != SGPU_ENOMEM && code != SGPU_ETIMEOUT) {
			code = open_queue(place, entries[i]->d_name, dsa, &lack);
			why = why.text[0] ? why : lack;
		}
		free(entries[i]);
	}
	free(entries);
	if (code == SGPU_OK || code == SGPU_ENOMEM) {
		return code ? sgpu_fail_nomem(error) : code;
	}
	return why.text[0] ? sgpu_fail(error, SGPU_EUNAVAILABLE, "no work queue can be used: %s",
				       code == SGPU_ETIMEOUT ? lack.text : why.text)
			   : sgpu_fail(error, SGPU_EUNAVAILABLE,
				       "no work queue of a Data Streaming Accelerator is "
				       "configured ('%s')",
				       place->devices);
}

static void *map(int fd)
{
	return mmap(NULL, PORTAL, PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
}

/* In a confidential VM the accelerator is not trusted and cannot reach the private memory. */
int sgpu_dsa_open(struct sgpu_dsa **dsa, struct sgpu_error *error)
{
	struct sgpu_dsa_place place = { .devices = "/sys/bus/dsa/devices",
					.nodes = "/dev/dsa",
					.timeout_ns = 1000000000 };
	struct sgpu_platform platform;

	*dsa = NULL;
	sgpu_platform_detect(&platform);
	if (platform.kind != SGPU_PLATFORM_PLAIN) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "the accelerator is not trusted in a confidential VM or enclave");
	}
#if defined(__x86_64__)
	unsigned a, b, c, d;

	place.map = __get_cpuid_count(7, 0, &a, &b, &c, &d) && c & (1u << 29) ? map : NULL;
#else
	(void)map;
#endif
	return sgpu_dsa_open_in(&place, dsa, error);
}
