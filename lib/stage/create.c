/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a region: an output file, filled through a mapping.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/mempolicy.h>

#include <device/device.h>
#include <sgpu/base.h>

#include <stage/region.h>

#include "base/io.h"
#include "crypto/crypto.h"

enum { PAGE = 4096, STANDARD_LIFE = 3600, NODES_MAX = 1024, NODES_A_WORD = 8 * sizeof(long) };

static int open_unnamed(int directory, struct sgpu_region *region, struct sgpu_error *error)
{
	int rc;

	region->output = malloc(sizeof(*region->output));
	if (!region->output) {
		return sgpu_fail_nomem(error);
	}
	rc = sgpu_output_open_beneath(region->output, directory, region->id, region->path, 0600,
				      true, error);
	if (rc < 0) {
		return rc;
	}
	region->output->unsynced = true;
	region->fd = fcntl(region->output->fd, F_DUPFD_CLOEXEC, 0);
	return region->fd >= 0 && fchmod(region->fd, 0600) == 0
		       ? SGPU_OK
		       : sgpu_fail_errno(error, "cannot make a region in '%s'", region->path);
}

/* Without room on the file system or in memory, a later write would fault, or the kernel would kill
 * the process. */
static int check_room(const char *path, uint64_t size, struct sgpu_error *error)
{
	bool in_memory;
	uint64_t room, memory;
	int rc = sgpu_stage_file_system(path, &in_memory, &room, error);

	if (rc < 0) {
		return rc;
	}
	if (size > room) {
		sgpu_fail(error, SGPU_ESYSTEM,
			  "a region of %llu bytes does not fit in '%s': %llu are left",
			  (unsigned long long)size, path, (unsigned long long)room);
		sgpu_hint(error, "release regions (sgpu-stage list), or enlarge that file system");
		return SGPU_ESYSTEM;
	}
	sgpu_host_memory(NULL, &memory);
	if (in_memory && size > memory) {
		return sgpu_fail(error, SGPU_ENOMEM,
				 "a region of %llu bytes does not fit in memory: %llu are left",
				 (unsigned long long)size, (unsigned long long)memory);
	}
	return SGPU_OK;
}

static int map(struct sgpu_region *region, uint64_t file_size, struct sgpu_error *error)
{
	void *memory;

	if (ftruncate(region->fd, (off_t)file_size) != 0) {
		return sgpu_fail_errno(error, "cannot size a region in '%s'", region->path);
	}
	memory = mmap(NULL, file_size, PROT_READ | PROT_WRITE, MAP_SHARED, region->fd, 0);
	if (memory == MAP_FAILED) {
		return sgpu_fail_errno(error, "cannot map a region of %llu bytes",
				       (unsigned long long)region->size);
	}
	region->data = (uint8_t *)memory + SGPU_REGION_HEADER;
	region->file_size = file_size;
	(void)madvise(memory, file_size, MADV_DONTDUMP);
	(void)madvise(memory, file_size, MADV_HUGEPAGE); /* where the tmpfs was mounted for it */
	return SGPU_OK;
}

static void *map_base(const struct sgpu_region *region)
{
	return region->data - SGPU_REGION_HEADER;
}

static int make_file(struct sgpu_region *region, struct sgpu_error *error)
{
	uint64_t file_size = 0;
	int directory, rc = sgpu_stage_open_directory(&region->path, &directory, error);

	if (rc == SGPU_OK && !sgpu_region_file_size(region->size, &file_size)) {
		rc = sgpu_fail(error, SGPU_ENOMEM, "a region of %llu bytes is too large",
			       (unsigned long long)region->size);
	}
	rc = rc ? rc : check_room(region->path, file_size, error);
	rc = rc ? rc : open_unnamed(directory, region, error);
	sgpu_close(directory);
	return rc ? rc : map(region, file_size, error);
}

/* Binds the mapping to a node, before its memory is touched. */
static int bind_to_node(struct sgpu_region *region, int node, struct sgpu_error *error)
{
	unsigned long nodes[NODES_MAX / NODES_A_WORD] = { 0 };

	if (node >= NODES_MAX) {
		errno = EINVAL;
	} else {
		nodes[node / NODES_A_WORD] = 1UL << node % NODES_A_WORD;
		if (syscall(SYS_mbind, map_base(region), region->file_size, MPOL_BIND, nodes,
			    (unsigned long)NODES_MAX + 1, 0U) == 0) {
			region->numa_node = node;
			return SGPU_OK;
		}
	}
	return errno == EINVAL ? sgpu_fail(error, SGPU_EUSAGE,
					   "NUMA node %d has no memory or is not there", node)
	       : errno == ENOSYS
		       ? sgpu_fail(error, SGPU_EUNAVAILABLE, "this kernel has no NUMA support")
		       : sgpu_fail_errno(error, "cannot bind memory to NUMA node %d", node);
}

static int fill_in(uint64_t size, const struct sgpu_region_options *options,
		   struct sgpu_region *region, struct sgpu_error *error)
{
	uint8_t random[SGPU_REGION_ID_TEXT / 2];
	uint64_t life =
		options->lifetime_ns / 1000000000 + (options->lifetime_ns % 1000000000 != 0);
	int rc = sgpu_random(random, sizeof(random), error);

	memset(region, 0, sizeof(*region));
	region->fd = -1;
	if (rc < 0) {
		return rc;
	}
	if (life > SGPU_REGION_LIFE_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "a region lives at most 10 years");
	}
	sgpu_hex_encode(random, sizeof(random), region->id);
	region->size = size;
	region->owner = geteuid();
	region->maker = getpid();
	region->created = time(NULL);
	region->expires = region->created + (int64_t)(life ? life : STANDARD_LIFE);
	region->numa_node = -1;
	region->use = options->use ? options->use : SGPU_REGION_INPUTS;
	region->keep = options->keep || (region->use & SGPU_REGION_RESULTS);
	return SGPU_OK;
}

int sgpu_region_create(uint64_t size, const struct sgpu_region_options *options,
		       struct sgpu_region *region, struct sgpu_error *error)
{
	static const struct sgpu_region_options standard = { .numa_node = -1 };
	int rc;

	options = options ? options : &standard;
	rc = fill_in(size, options, region, error);
	rc = rc ? rc : make_file(region, error);
	if (rc == SGPU_OK && options->numa_node >= 0) {
		rc = bind_to_node(region, options->numa_node, error);
	}
	if (rc < 0) {
		sgpu_region_close(region);
	}
	return rc;
}

static int back(struct sgpu_region *region, uint64_t begin, uint64_t end, struct sgpu_error *error)
{
	int result;

	begin = begin / PAGE * PAGE;
	end = sgpu_min_u64((end + PAGE - 1) / PAGE * PAGE, region->file_size);
	do {
		result = madvise((uint8_t *)map_base(region) + begin, end - begin,
				 MADV_POPULATE_WRITE);
	} while (result != 0 && (errno == EINTR || errno == EAGAIN) && !sgpu_io_interrupted());
	if (result == 0) {
		return SGPU_OK;
	}
	if (errno == ENOMEM) {
		return sgpu_fail(error, SGPU_ENOMEM, "out of memory for a region of %llu bytes",
				 (unsigned long long)region->size);
	}
	/* A full file system makes madvise return EFAULT. */
	return sgpu_fail(error, SGPU_ESYSTEM, "no space left for a region of %llu bytes in '%s'",
			 (unsigned long long)region->size, region->path);
}

int sgpu_region_back(struct sgpu_region *region, uint64_t offset, uint64_t size,
		     struct sgpu_error *error)
{
	if (!region->data || offset > region->size || size > region->size - offset) {
		return sgpu_fail(error, SGPU_EUSAGE, "bytes beyond a region were to be written");
	}
	return size == 0 ? SGPU_OK
			 : back(region, SGPU_REGION_HEADER + offset,
				SGPU_REGION_HEADER + offset + size, error);
}

int sgpu_region_publish(struct sgpu_region *region, struct sgpu_error *error)
{
	int rc;

	if (!region->data) {
		return sgpu_fail(error, SGPU_EUSAGE, "region '%s' is published", region->id);
	}
	rc = back(region, 0, SGPU_REGION_HEADER, error);
	rc = rc ? rc : sgpu_region_encode(region, map_base(region), error);
	rc = rc ? rc : sgpu_output_commit(region->output, error);
	if (rc == SGPU_OK) {
		free(region->output);
		region->output = NULL;
		sgpu_region_unmap(region);
		(void)flock(region->fd, LOCK_SH | LOCK_NB);
	}
	return rc;
}
