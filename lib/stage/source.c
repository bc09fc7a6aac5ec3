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
struct taken {
	struct sgpu_region region;
	int write_fd;
	struct taken *next;
};

struct sgpu_sources {
	const struct sgpu_files *files;
	pthread_mutex_t lock;
	struct taken *list;
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

int sgpu_sources_create(const struct sgpu_files *files, struct sgpu_sources **sources,
			struct sgpu_error *error)
{
	struct sgpu_sources *new = calloc(1, sizeof(*new));

	*sources = NULL;
	if (!new || pthread_mutex_init(&new->lock, NULL) != 0) {
		free(new);
		return sgpu_fail_nomem(error);
	}
	new->files = files;
	*sources = new;
	return SGPU_OK;
}

void sgpu_sources_free(struct sgpu_sources **sources)
{
	struct taken *taken;

	if (!sources || !*sources) {
		return;
	}
	while ((taken = (*sources)->list)) {
		(*sources)->list = taken->next;
		sgpu_region_close(&taken->region);
		sgpu_close(taken->write_fd);
		free(taken);
	}
	pthread_mutex_destroy(&(*sources)->lock);
	free(*sources);
	*sources = NULL;
}

/* The first call takes the region. The lock is held. */
static int take_region(struct sgpu_sources *sources, const char *id, struct taken **found,
		       struct sgpu_error *error)
{
	struct taken *taken;
	int rc;

	for (taken = sources->list; taken; taken = taken->next) {
		if (strcmp(taken->region.id, id) == 0) {
			*found = taken;
			return SGPU_OK;
		}
	}
	taken = calloc(1, sizeof(*taken));
	if (!taken) {
		return sgpu_fail_nomem(error);
	}
	taken->write_fd = -1;
	rc = sgpu_region_open(id, false, true, &taken->region, error);
	if (rc < 0) {
		free(taken);
		return rc;
	}
	taken->next = sources->list;
	sources->list = taken;
	*found = taken;
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

int sgpu_sources_open(struct sgpu_sources *sources, const struct sgpu_location *location,
		      uint64_t size, bool writable, struct sgpu_source *source,
		      struct sgpu_error *error)
{
	struct taken *taken = NULL;
	int rc;

	clear(source);
	if (location->kind != SGPU_LOCATION_REGION && writable) {
		return sgpu_fail(error, SGPU_EUSAGE, "an output can only be left in a region");
	}
	if (location->kind == SGPU_LOCATION_FILE) {
		return check_file(
			sgpu_files_open(sources->files, location->file, &source->fd, error),
			location, size, source, error);
	}
	if (location->kind != SGPU_LOCATION_REGION) {
		return sgpu_source_open(location, size, source, error);
	}
	pthread_mutex_lock(&sources->lock);
	rc = take_region(sources, location->region, &taken, error);
	rc = rc ? rc
		: take_slice(&taken->region, location, size,
			     writable ? SGPU_REGION_RESULTS : SGPU_REGION_INPUTS, source, error);
	if (rc == SGPU_OK && writable) {
		taken->write_fd =
			taken->write_fd < 0 ? sgpu_look_open(source->fd, O_RDWR) : taken->write_fd;
		source->fd = taken->write_fd;
		rc = source->fd < 0 ? sgpu_fail_errno(error, "cannot open %s", source->name) : rc;
	}
	pthread_mutex_unlock(&sources->lock);
	return rc;
}

/* ---- for the owner's programs ---- */
int sgpu_slice_open(const struct sgpu_location *location, uint64_t size, struct sgpu_source *slice,
		    struct sgpu_error *error)
{
	return open_slice(location, size, true, SGPU_REGION_INPUTS, slice, error);
}
