/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens and closes a region. All its properties are validated on the open file that is then used,
 * so a later change of the name has no effect.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "base/json.h"
#include <stage/region.h>

/* ---- metadata: the file's first page, so that they appear and vanish with the data ---- */
enum { PAGE = 4096, METADATA_VERSION = 3 };

static const char *const use_words[] = { [SGPU_REGION_INPUTS] = "inputs",
					 [SGPU_REGION_RESULTS] = "results",
					 [SGPU_REGION_INPUTS | SGPU_REGION_RESULTS] = "both" };

const char *sgpu_region_use_name(unsigned use)
{
	return use > 0 && use < SGPU_ARRAY_LENGTH(use_words) ? use_words[use] : "-";
}

bool sgpu_region_id_valid(const char *id)
{
	return strlen(id) == SGPU_REGION_ID_TEXT &&
	       strspn(id, "0123456789abcdef") == SGPU_REGION_ID_TEXT;
}

int sgpu_region_check_id(const char *id, struct sgpu_error *error)
{
	return sgpu_region_id_valid(id)
		       ? SGPU_OK
		       : sgpu_fail(
				 error, SGPU_EINVALID,
				 "'%.64s' is no region: an id is %d lower-case hexadecimal digits",
				 id, SGPU_REGION_ID_TEXT);
}

bool sgpu_region_file_size(uint64_t size, uint64_t *file_size)
{
	*file_size = (SGPU_REGION_HEADER + size + PAGE - 1) / PAGE * PAGE;
	return size <= SGPU_JSON_INTEGER_MAX;
}

int sgpu_region_encode(const struct sgpu_region *region, char page[SGPU_REGION_HEADER],
		       struct sgpu_error *error)
{
	json_t *json;
	char *text = NULL;
	size_t size = 0;
	int rc;

	json = json_pack("{s:i, s:s, s:I, s:I, s:I, s:I, s:I, s:o*, s:s, s:b}", "version",
			 METADATA_VERSION, "region", region->id, "size", (json_int_t)region->size,
			 "owner", (json_int_t)region->owner, "maker", (json_int_t)region->maker,
			 "created", (json_int_t)region->created, "expires",
			 (json_int_t)region->expires, "numa_node",
			 region->numa_node < 0 ? NULL : json_integer(region->numa_node), "use",
			 use_words[region->use], "keep", region->keep);
	if (!json) {
		return sgpu_fail_nomem(error);
	}
	rc = sgpu_json_canonical(json, &text, &size, error);
	json_decref(json);
	if (rc == SGPU_OK) {
		memset(page, 0, SGPU_REGION_HEADER);
		snprintf(page, SGPU_REGION_HEADER, "%s\n", text); /* a few hundred bytes */
	}
	free(text);
	return rc;
}

static unsigned find_use(const char *word)
{
	unsigned use = SGPU_ARRAY_LENGTH(use_words) - 1;

	while (use > 0 && strcmp(word, use_words[use]) != 0) {
		use--;
	}
	return use;
}

static bool in_range(json_int_t value, json_int_t most)
{
	return value >= 0 && value <= most;
}

static bool read_members(json_t *json, struct sgpu_region *region)
{
	const char *id = NULL, *use = NULL;
	json_int_t version, size, owner, maker, created, expires, node = 0;
	const bool bound = json_object_get(json, "numa_node") != NULL;
	int keep;

	if (json_unpack_ex(json, NULL, JSON_STRICT,
			   "{s:I, s:s, s:I, s:I, s:I, s:I, s:I, s?I, s:s, s:b}", "version",
			   &version, "region", &id, "size", &size, "owner", &owner, "maker", &maker,
			   "created", &created, "expires", &expires, "numa_node", &node, "use",
			   &use, "keep", &keep) != 0 ||
	    version != METADATA_VERSION || !sgpu_region_id_valid(id) ||
	    !in_range(size, SGPU_JSON_INTEGER_MAX) || !in_range(owner, UINT32_MAX) ||
	    !in_range(maker, INT32_MAX) || !in_range(created, SGPU_JSON_INTEGER_MAX) ||
	    !in_range(expires, SGPU_JSON_INTEGER_MAX) || expires <= created ||
	    (uint64_t)(expires - created) > SGPU_REGION_LIFE_MAX ||
	    !(region->use = find_use(use)) || (region->use & SGPU_REGION_RESULTS && !keep) ||
	    !in_range(node, 65535)) {
		return false;
	}
	memcpy(region->id, id, sizeof(region->id));
	region->size = (uint64_t)size;
	region->owner = (uid_t)owner;
	region->maker = (pid_t)maker;
	region->created = created;
	region->expires = expires;
	region->numa_node = bound ? (int)node : -1;
	region->keep = keep;
	return true;
}

bool sgpu_region_decode(const char page[SGPU_REGION_HEADER], struct sgpu_region *region)
{
	const size_t length = strnlen(page, SGPU_REGION_HEADER);
	json_t *json = NULL;
	bool good;

	memset(region, 0, sizeof(*region));
	region->fd = -1;
	good = length > 1 && length < SGPU_REGION_HEADER && page[length - 1] == '\n' &&
	       sgpu_all_zero(page + length, SGPU_REGION_HEADER - length) &&
	       sgpu_json_parse(page, length - 1, NULL, &json, NULL) == SGPU_OK &&
	       json_is_object(json) && read_members(json, region);
	json_decref(json);
	return good;
}

#define REFUSE(reason, ...) \
	sgpu_fail(error, SGPU_EPOLICY, "region '%s' is refused: " reason, __VA_ARGS__)

static int check_file(const char *id, const struct stat *status, struct sgpu_error *error)
{
	if (S_ISLNK(status->st_mode)) {
		return REFUSE("it is a symbolic link", id);
	}
	if (!S_ISREG(status->st_mode)) {
		return REFUSE("it is no regular file", id);
	}
	if (status->st_uid != geteuid()) {
		return REFUSE("it belongs to another user", id);
	}
	if ((status->st_mode & 07777) != 0600) {
		return REFUSE("its mode is %04o, not 0600", id, (unsigned)status->st_mode & 07777);
	}
	if (status->st_nlink == 0) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "region '%s' has been taken or released",
				 id);
	}
	if (status->st_nlink != 1) {
		return REFUSE("it has another name", id);
	}
	return SGPU_OK;
}

static int check_metadata(const char *id, const struct stat *status,
			  const struct sgpu_region *region, bool expired_too,
			  struct sgpu_error *error)
{
	uint64_t file_size;

	if (strcmp(region->id, id) != 0) {
		return REFUSE("it was made as '%s'", id, region->id);
	}
	if (region->owner != status->st_uid) {
		return REFUSE("its metadata name another owner", id);
	}
	if (!sgpu_region_file_size(region->size, &file_size) ||
	    file_size != (uint64_t)status->st_size) {
		return REFUSE("its file has %lld bytes, not what its metadata say", id,
			      (long long)status->st_size);
	}
	if (region->expired && !expired_too) {
		return REFUSE("it has expired", id);
	}
	return SGPU_OK;
}

static int validate(const char *id, const struct stat *status, bool expired_too, int fd,
		    struct sgpu_region *region, struct sgpu_error *error)
{
	char page[SGPU_REGION_HEADER];
	size_t got = 0;
	int rc;

	/* Readers share the lock; wiping takes it exclusively. */
	if (flock(fd, LOCK_SH | LOCK_NB) != 0) {
		return sgpu_fail(error, SGPU_ESYSTEM, "region '%s' is being released", id);
	}
	rc = sgpu_pread(fd, id, page, sizeof(page), 0, &got, error);
	if (rc < 0) {
		return rc;
	}
	if (got != sizeof(page)) {
		return REFUSE("it has no metadata", id);
	}
	if (!sgpu_region_decode(page, region)) {
		return REFUSE("its metadata are damaged", id);
	}
	region->expired = time(NULL) >= region->expires;
	return check_metadata(id, status, region, expired_too, error);
}

int sgpu_region_open_in(int directory, const char *id, bool writable, bool expired_too,
			struct sgpu_region *region, bool *found, struct sgpu_error *error)
{
	/* Look first: opening a device or a pipe has side effects. */
	const int look = openat(directory, id, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat status;
	int fd = -1, rc;

	*found = look >= 0 || errno != ENOENT;
	if (look < 0) {
		return sgpu_fail_errno(error, "cannot open region '%s'", id);
	}
	if (fstat(look, &status) != 0) {
		rc = sgpu_fail_errno(error, "cannot inspect region '%s'", id);
	} else {
		rc = check_file(id, &status, error);
	}
	if (rc == SGPU_OK) {
		fd = sgpu_look_open(look, writable ? O_RDWR : O_RDONLY);
		rc = fd < 0 ? sgpu_fail_errno(error, "cannot open region '%s'", id)
			    : validate(id, &status, expired_too, fd, region, error);
	}
	close(look);
	if (rc < 0) {
		sgpu_close(fd);
		return rc;
	}
	region->fd = fd;
	return SGPU_OK;
}

int sgpu_region_open(const char *id, bool writable, bool take, struct sgpu_region *region,
		     struct sgpu_error *error)
{
	bool found = true;
	char *path = NULL;
	int directory = -1, rc = sgpu_region_check_id(id, error);

	memset(region, 0, sizeof(*region));
	region->fd = -1;
	rc = rc ? rc : sgpu_stage_open_directory(&path, &directory, error);
	rc = rc ? rc : sgpu_region_open_in(directory, id, writable, false, region, &found, error);
	if (!found) {
		rc = sgpu_fail(error, SGPU_EUNAVAILABLE, "there is no region '%s'", id);
		sgpu_hint(error, "it was taken by a runner, released, has expired, or belongs to "
				 "another user");
	}
	/* If several runners take a region, it belongs to the one whose unlink succeeds. */
	if (rc == SGPU_OK && take && !region->keep && unlinkat(directory, id, 0) != 0) {
		rc = errno == ENOENT ? sgpu_fail(error, SGPU_EUNAVAILABLE,
						 "region '%s' was taken by another runner", id)
				     : sgpu_fail_errno(error, "cannot take region '%s'", id);
		sgpu_region_close(region);
	}
	sgpu_close(directory);
	free(path);
	return rc;
}

void sgpu_region_unmap(struct sgpu_region *region)
{
	if (region->data) {
		munmap(region->data - SGPU_REGION_HEADER, region->file_size);
		region->data = NULL;
	}
}

void sgpu_region_close(struct sgpu_region *region)
{
	sgpu_region_unmap(region);
	if (region->output) {
		sgpu_output_close(region->output);
		free(region->output);
		region->output = NULL;
	}
	sgpu_close(region->fd);
	region->fd = -1;
	free(region->path);
	region->path = NULL;
}
