/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding a work queue and opening it. What /sys says is text from outside: it is short, a known
 * word, or a number in range, or the queue is passed over.
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

#include <sgpu/base.h>

#include "base/peek.h"
#include "dsa/queue.h"

enum { PORTAL = 4096, QUEUES_MAX = 64, ATTRIBUTE_MAX = 64, PROOF = 4096 };
#define PATIENCE_NS 10000000ull
#define TRANSFER_MAX (1ull << 31)

struct queue {
	char name[24];
	unsigned device;
	bool shared;
	uint64_t depth, max_transfer;
};

/* ---- what /sys says ---- */

static int read_attribute(const struct sgpu_dsa_place *place, const char *object,
			  const char *attribute, char text[ATTRIBUTE_MAX], struct sgpu_error *error)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s/%s", place->devices, object, attribute);
	if (!sgpu_peek(path, text, ATTRIBUTE_MAX) || strlen(text) == ATTRIBUTE_MAX - 1) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "cannot read %s of %s", attribute,
				 object);
	}
	text[strcspn(text, "\n")] = '\0';
	return SGPU_OK;
}

/* The attribute must be this word. */
static int expect(const struct sgpu_dsa_place *place, const char *object, const char *attribute,
		  const char *word, struct sgpu_error *error)
{
	char text[ATTRIBUTE_MAX];
	int code = read_attribute(place, object, attribute, text, error);

	return code || strcmp(text, word) == 0
		       ? code
		       : sgpu_fail(error, SGPU_EUNAVAILABLE, "%s of %s is '%s', not '%s'",
				   attribute, object, text, word);
}

static int read_number(const struct sgpu_dsa_place *place, const char *object,
		       const char *attribute, uint64_t *number, struct sgpu_error *error)
{
	char text[ATTRIBUTE_MAX];
	int code = read_attribute(place, object, attribute, text, error);

	return code ? code : sgpu_parse_u64(text, attribute, 1, UINT64_MAX, number, error);
}

/* Without PASID, a user's queue would have no page tables of its process: the driver then has none,
 * and nor have we. */
static int read_queue(const struct sgpu_dsa_place *place, struct queue *queue,
		      struct sgpu_error *error)
{
	char device[16], mode[ATTRIBUTE_MAX];
	int code;

	snprintf(device, sizeof(device), "dsa%u", queue->device);
	code = expect(place, queue->name, "state", "enabled", error);
	code = code ? code : expect(place, queue->name, "type", "user", error);
	code = code ? code : expect(place, device, "pasid_enabled", "1", error);
	code = code ? code : read_number(place, queue->name, "size", &queue->depth, error);
	code = code ? code
		    : read_number(place, queue->name, "max_transfer_size", &queue->max_transfer,
				  error);
	code = code ? code : read_attribute(place, queue->name, "mode", mode, error);
	if (code != SGPU_OK) {
		return code;
	}
	queue->shared = strcmp(mode, "shared") == 0;
	return queue->shared || strcmp(mode, "dedicated") == 0
		       ? SGPU_OK
		       : sgpu_fail(error, SGPU_EUNAVAILABLE, "mode of %s is '%s'", queue->name,
				   mode);
}

/* The names of queues, "wq0.1", in order. */
static int list_queues(const struct sgpu_dsa_place *place, struct queue queues[QUEUES_MAX])
{
	struct dirent **entries = NULL;
	int found = scandir(place->devices, &entries, NULL, versionsort), count = 0;

	for (int i = 0; i < found; i++) {
		unsigned device = 0, number = 0;
		char name[sizeof(queues->name)];

		if (count < QUEUES_MAX &&
		    sscanf(entries[i]->d_name, "wq%4u.%4u", &device, &number) == 2) {
			snprintf(name, sizeof(name), "wq%u.%u", device, number);
			if (strcmp(name, entries[i]->d_name) == 0) {
				queues[count] = (struct queue){ .device = device };
				memcpy(queues[count++].name, name, sizeof(name));
			}
		}
		free(entries[i]);
	}
	free(entries);
	return count;
}

/* ---- opening ---- */

/* The kernel closes a queue when its last mapping and descriptor have gone: it waits for the jobs
 * of this process, and unbinds its page tables from the device, which then reaches none of its
 * memory. */
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
	struct sgpu_dsa *new = calloc(1, sizeof(*new));

	*dsa = NULL;
	if (new) {
		new->slots = aligned_alloc(64, SGPU_DSA_DEPTH_MAX * sizeof(*new->slots));
	}
	if (!new || !new->slots || pthread_mutex_init(&new->lock, NULL) != 0) {
		free(new ? new->slots : NULL);
		free(new);
		return sgpu_fail_nomem(error);
	}
	memset(new->slots, 0, SGPU_DSA_DEPTH_MAX * sizeof(*new->slots));
	new->fd = -1;
	new->stop = stop;
	new->patience_ns = PATIENCE_NS;
	*dsa = new;
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
	free((*dsa)->slots);
	free(*dsa);
	*dsa = NULL;
}

void sgpu_dsa_describe(const struct sgpu_dsa *dsa, struct sgpu_dsa_info *info)
{
	*info = dsa->info;
}

/* Through the portal if the CPU has the instruction for it and the kernel lets the process map it;
 * on parts that need the kernel between (INTEL-SA-01084), it lets only a privileged one. */
static int reach(struct sgpu_dsa *dsa, const struct sgpu_dsa_place *place, const char *path,
		 struct sgpu_error *error)
{
	const bool able =
		dsa->info.shared ? place->cpu.enqcmd && !place->cpu.tdx : place->cpu.movdir64b;
	void *portal = MAP_FAILED;
	struct stat status;

	dsa->fd = open(path, O_RDWR | O_CLOEXEC);
	if (dsa->fd < 0 || fstat(dsa->fd, &status) != 0) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "cannot open '%s': %s", path,
				 strerror(errno));
	}
	if (!S_ISCHR(status.st_mode)) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "'%s' is no device", path);
	}
	if (able) {
		portal = place->map(dsa->fd);
		if (portal == MAP_FAILED && errno != EPERM) {
			return sgpu_fail(error, SGPU_EUNAVAILABLE, "cannot map '%s': %s", path,
					 strerror(errno));
		}
	}
	dsa->info.portal = portal != MAP_FAILED;
	if (dsa->info.portal) {
		dsa->portal = portal;
		dsa->submit = dsa->info.shared ? sgpu_dsa_submit_enqcmd : sgpu_dsa_submit_movdir64b;
	} else {
		dsa->submit = sgpu_dsa_submit_write;
	}
	return SGPU_OK;
}

int sgpu_dsa_prove(struct sgpu_dsa *dsa, struct sgpu_error *error)
{
	uint8_t *from = aligned_alloc(PROOF, 2 * PROOF), *to = from + PROOF;
	struct sgpu_dsa_job jobs[2] = { { .from = from, .to = to, .size = PROOF },
					{ .from = from, .size = PROOF } };
	int code;

	if (!from) {
		return sgpu_fail_nomem(error);
	}
	for (unsigned i = 0; i < PROOF; i++) {
		from[i] = (uint8_t)(i * i >> 4 ^ i);
		to[i] = (uint8_t)~from[i];
	}
	code = sgpu_dsa_run(dsa, jobs, 2, 2, false, error);
	if (code == SGPU_OK &&
	    (memcmp(from, to, PROOF) != 0 || jobs[1].crc != sgpu_crc32c(0, from, PROOF))) {
		code = sgpu_fail(error, SGPU_EDEVICE, "%s gives a wrong %s", dsa->info.name,
				 memcmp(from, to, PROOF) != 0 ? "copy" : "CRC");
	}
	free(from);
	return code;
}

static int open_queue(const struct sgpu_dsa_place *place, const struct queue *queue,
		      struct sgpu_dsa **dsa, struct sgpu_error *error)
{
	char path[512];
	int code = sgpu_dsa_create(dsa, error);

	if (code != SGPU_OK) {
		return code;
	}
	snprintf(path, sizeof(path), "%s/%.23s", place->nodes, queue->name);
	memcpy((*dsa)->info.name, queue->name, sizeof(queue->name));
	(*dsa)->timeout_ns = place->timeout_ns;
	(*dsa)->info.shared = queue->shared;
	(*dsa)->info.umwait = place->cpu.waitpkg;
	(*dsa)->info.depth =
		queue->depth < SGPU_DSA_DEPTH_MAX ? (unsigned)queue->depth : SGPU_DSA_DEPTH_MAX;
	(*dsa)->info.max_transfer =
		queue->max_transfer < TRANSFER_MAX ? queue->max_transfer : TRANSFER_MAX;
	code = reach(*dsa, place, path, error);
	code = code ? code : sgpu_dsa_prove(*dsa, error);
	if (code != SGPU_OK) {
		sgpu_dsa_close(dsa);
	}
	return code;
}

int sgpu_dsa_open_in(const struct sgpu_dsa_place *place, unsigned modes, struct sgpu_dsa **dsa,
		     struct sgpu_error *error)
{
	struct sgpu_error why = { 0 };
	struct queue queues[QUEUES_MAX];
	int count = list_queues(place, queues);

	*dsa = NULL;
	if (count == 0) {
		return sgpu_fail(
			error, SGPU_EUNAVAILABLE,
			"no work queue of a Data Streaming Accelerator is configured ('%s')",
			place->devices);
	}
	for (int dedicated = 0; dedicated < 2; dedicated++) {
		for (int i = 0; i < count; i++) {
			struct sgpu_error lack;
			int code = read_queue(place, &queues[i], &lack);

			if (code == SGPU_OK && queues[i].shared == !dedicated &&
			    (modes & (dedicated ? SGPU_DSA_DEDICATED : SGPU_DSA_SHARED))) {
				code = open_queue(place, &queues[i], dsa, &lack);
				if (code == SGPU_OK || code == SGPU_ENOMEM) {
					return code ? sgpu_fail_nomem(error) : code;
				}
				if (code ==
				    SGPU_ETIMEOUT) { /* the others are not waited for, too */
					return sgpu_fail(error, SGPU_EUNAVAILABLE, "%s", lack.text);
				}
			}
			why = code && !why.text[0] ? lack : why;
		}
	}
	return sgpu_fail(error, SGPU_EUNAVAILABLE, "no work queue can be used: %s",
			 why.text[0] ? why.text : "none has the mode");
}
