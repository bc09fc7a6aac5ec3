/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of batches in a directory.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "cli.h"
#include "spool.h"

const char spool_for_other_keys[] = "is for other keys";

int spool_open_file(int directory, const char *name)
{
	return openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void spool_names_clear(struct spool_names *names)
{
	for (int i = 0; i < names->count; i++) {
		free(names->items[i]);
	}
	free(names->items);
	*names = (struct spool_names){ 0 };
}

static int is_name(const struct dirent *entry)
{
	return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

int spool_names_read(int directory, const char *shown, struct spool_names *names,
		     struct sgpu_error *error)
{
	int count;

	spool_names_clear(names);
	count = scandirat(directory, ".", &names->items, is_name, NULL);
	if (count < 0) {
		return sgpu_fail_errno(error, "cannot read directory '%s'", shown);
	}
	names->count = count;
	return SGPU_OK;
}

/* Returns why a file is to be left alone, before it is claimed, or NULL. */
static const char *look_inside(const struct spool_options *options, int directory, const char *name)
{
	const int fd = spool_open_file(directory, name);
	const char *why = NULL;
	char first[SGPU_SNIFF_SIZE];
	size_t got = 0;

	if (fd >= 0 && sgpu_pread(fd, name, first, sizeof(first), 0, &got, NULL) == SGPU_OK) {
		const enum sgpu_sniffed kind = sgpu_sniff(first, got);

		why = kind == SGPU_SNIFFED_KEY || kind == SGPU_SNIFFED_PEM ? "is a key"
		      : spool_is_for_others(options, fd, name)		   ? spool_for_other_keys
									   : NULL;
	}
	sgpu_close(fd);
	return why;
}

bool spool_is_batch(const struct spool_options *options, int directory, const char *name,
		    const char **why)
{
	const size_t length = strlen(name), suffix = strlen(SPOOL_RESPONSE);
	struct stat status;

	*why = NULL;
	if (name[0] == '.' ||
	    (length >= suffix && strcmp(name + length - suffix, SPOOL_RESPONSE) == 0) ||
	    fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
	    S_ISDIR(status.st_mode)) {
		return false;
	}
	if (!S_ISREG(status.st_mode)) {
		*why = "is no regular file";
	} else if (length > NAME_MAX - suffix - 4) {
		*why = "has a name that is too long for that of a response";
	} else {
		*why = look_inside(options, directory, name);
	}
	return !*why;
}

void spool_reason_name(const char *name, char file[NAME_MAX + 1])
{
	snprintf(file, NAME_MAX + 1, "%.*s" SPOOL_REASON, NAME_MAX - (int)sizeof(SPOOL_REASON),
		 name);
}
