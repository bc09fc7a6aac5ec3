/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a payload is: in a file, or in a slice of a region.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>

#include <stage/region.h>

#include "base/io.h"

/* A region that a batch holds. write_fd is -1 until the first output there. */
struct lease {
	struct sgpu_region region;
	int write_fd;
	struct lease *next;
};

struct sgpu_leases {
	const struct sgpu_files *files;
	pthread_mutex_t lock;
	struct lease *list;
};

/* Opens a file anywhere, since the caller chose its name. */
static int open_anywhere(const char *path, int *fd, struct sgpu_error *error)
{
	int look = open(path, O_PATH | O_CLOEXEC), code = SGPU_OK;

	*fd = look < 0 ? -1 : sgpu_look_open(look, O_RDONLY);
	if (*fd < 0) {
		code = look >= 0 && errno == EINVAL
			       ? sgpu_fail(error, SGPU_EINVALID, "'%s' is no regular file", path)
			       : sgpu_fail_errno(error, "cannot open '%s'", path);
	}
	sgpu_close(look);
	return code;
}

/* Completes a source of a file. rc: the result of opening source->fd. */
static int check_file(int rc, const struct sgpu_location *location, uint64_t size,
		      struct sgpu_source *source, struct sgpu_error *error)
{
	struct stat status;
	uint64_t end;

	if (rc < 0) {
		return rc;
	}
	source->owned = true;
	snprintf(source->name, sizeof(source->name), "%s", location->file);
	if (fstat(source->fd, &status) != 0) {
		rc = sgpu_fail_errno(error, "cannot inspect '%s'", location->file);
	} else if (!sgpu_add_u64(location->offset, size, &end) || end > (uint64_t)status.st_size) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "'%s' has %lld bytes, and %llu from byte %llu are needed",
			       location->file, (long long)status.st_size, (unsigned long long)size,
			       (unsigned long long)location->offset);
	}
	if (rc < 0) {
		sgpu_source_close(source);
		return rc;
	}
	source->offset = location->offset;
	source->size = size;
	return SGPU_OK;
}

static int check_use(const struct sgpu_region *region, unsigned use, struct sgpu_error *error)
{
	if (region->use & use) {
		return SGPU_OK;
	}
	sgpu_fail(error, SGPU_EPOLICY, "region '%s' is for %s, and %s cannot be there", region->id,
		  sgpu_region_use_name(region->use),
		  use == SGPU_REGION_INPUTS ? "an input" : "a result");
	(void)sgpu_hint(error, "'sgpu-stage pin' makes one for inputs, with --results for results");
	return SGPU_EPOLICY;
}

static int take_slice(const struct sgpu_region *region, const struct sgpu_location *location,
		      uint64_t size, unsigned use, struct sgpu_source *source,
		      struct sgpu_error *error)
{
	uint64_t end;

	if (!sgpu_add_u64(location->offset, size, &end) || end > region->size) {
		return sgpu_fail(error, SGPU_EPOLICY,
				 "%llu bytes at %llu are not in region '%s', which has %llu",
				 (unsigned long long)size, (unsigned long long)location->offset,
				 region->id, (unsigned long long)region->size);
	}
	source->fd = region->fd;
	source->offset = SGPU_REGION_HEADER + location->offset;
	source->size = size;
	snprintf(source->name, sizeof(source->name), "region %s", region->id);
	return check_use(region, use, error);
}

static void clear(struct sgpu_source *source)
{
	memset(source, 0, sizeof(*source));
	source->fd = -1;
}

static int open_slice(const struct sgpu_location *location, uint64_t size, bool writable,
		      unsigned use, struct sgpu_source *source, struct sgpu_error *error)
{
	struct sgpu_region region;
	int rc = sgpu_region_open(location->region, writable, false, &region, error);

	clear(source);
	if (rc < 0) {
		return rc;
	}
	rc = take_slice(&region, location, size, use, source, error);
	source->owned = true;
	if (rc < 0) {
		sgpu_region_close(&region);
		clear(source);
	}
	return rc;
}

int sgpu_source_open(const struct sgpu_location *location, uint64_t size,
		     struct sgpu_source *source, struct sgpu_error *error)
{
	clear(source);
	if (location->kind == SGPU_LOCATION_FILE) {
		return check_file(open_anywhere(location->file, &source->fd, error), location, size,
				  source, error);
	}
	if (location->kind != SGPU_LOCATION_REGION) {
		return sgpu_fail(
			error, SGPU_EUSAGE,
			"a payload that is neither in a file nor in a region was to be opened");
	}
	return open_slice(location, size, false, SGPU_REGION_INPUTS | SGPU_REGION_RESULTS, source,
			  error);
}

void sgpu_source_close(struct sgpu_source *source)
{
	sgpu_close(source->owned ? source->fd : -1);
	clear(source);
}

int sgpu_leases_create(const struct sgpu_files *files, struct sgpu_leases **leases,
		       struct sgpu_error *error)
{
	struct sgpu_leases *new = calloc(1, sizeof(*new));

	*leases = NULL;
	if (!new || pthread_mutex_init(&new->lock, NULL) != 0) {
		free(new);
		return sgpu_fail_nomem(error);
	}
	new->files = files;
	*leases = new;
	return SGPU_OK;
}

void sgpu_leases_free(struct sgpu_leases **leases)
{
	struct lease *lease;

	if (!leases || !*leases) {
		return;
	}
	while ((lease = (*leases)->list)) {
		(*leases)->list = lease->next;
		sgpu_region_close(&lease->region);
		sgpu_close(lease->write_fd);
		free(lease);
	}
	pthread_mutex_destroy(&(*leases)->lock);
	free(*leases);
	*leases = NULL;
}

/* The first call takes the region. The lock is held. */
static int lease_of(struct sgpu_leases *leases, const char *id, struct lease **found,
		    struct sgpu_error *error)
{
	struct lease *lease;
	int rc;

	for (lease = leases->list; lease; lease = lease->next) {
		if (strcmp(lease->region.id, id) == 0) {
			*found = lease;
			return SGPU_OK;
		}
	}
	lease = calloc(1, sizeof(*lease));
	if (!lease) {
		return sgpu_fail_nomem(error);
	}
	lease->write_fd = -1;
	rc = sgpu_region_open(id, false, true, &lease->region, error);
	if (rc < 0) {
		free(lease);
		return rc;
	}
	lease->next = leases->list;
	leases->list = lease;
	*found = lease;
	return SGPU_OK;
}

int sgpu_region_check(const struct sgpu_location *location, uint64_t size, bool writable,
		      struct sgpu_error *error)
{
	struct sgpu_source source;
	const int rc =
		open_slice(location, size, writable,
			   writable ? SGPU_REGION_RESULTS : SGPU_REGION_INPUTS, &source, error);

	sgpu_source_close(&source);
	return rc;
}

int sgpu_leases_source(struct sgpu_leases *leases, const struct sgpu_location *location,
		       uint64_t size, bool writable, struct sgpu_source *source,
		       struct sgpu_error *error)
{
	struct lease *lease = NULL;
	int rc;

	clear(source);
	if (location->kind != SGPU_LOCATION_REGION && writable) {
		return sgpu_fail(error, SGPU_EUSAGE, "an output can only be left in a region");
	}
	if (location->kind == SGPU_LOCATION_FILE) {
		return check_file(
			sgpu_files_open(leases->files, location->file, &source->fd, error),
			location, size, source, error);
	}
	if (location->kind != SGPU_LOCATION_REGION) {
		return sgpu_source_open(location, size, source, error);
	}
	pthread_mutex_lock(&leases->lock);
	rc = lease_of(leases, location->region, &lease, error);
	rc = rc ? rc
		: take_slice(&lease->region, location, size,
			     writable ? SGPU_REGION_RESULTS : SGPU_REGION_INPUTS, source, error);
	if (rc == SGPU_OK && writable) {
		lease->write_fd =
			lease->write_fd < 0 ? sgpu_look_open(source->fd, O_RDWR) : lease->write_fd;
		source->fd = lease->write_fd;
		rc = source->fd < 0 ? sgpu_fail_errno(error, "cannot open %s", source->name) : rc;
	}
	pthread_mutex_unlock(&leases->lock);
	return rc;
}

/* ---- for the owner's programs ---- */
int sgpu_slice_open(const struct sgpu_location *location, uint64_t size, struct sgpu_source *slice,
		    struct sgpu_error *error)
{
	return open_slice(location, size, true, SGPU_REGION_INPUTS, slice, error);
}
