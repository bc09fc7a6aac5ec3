/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of batches: in a directory, and on standard input.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "cli.h"
#include "spool_private.h"

enum { LIST_MAX = 1 << 30, FIRST_SIZE = 16 << 10 };

const char spool_for_other_keys[] = "is for other keys";

int spool_open_file(int directory, const char *name)
{
	return openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void spool_close_file(int fd)
{
	if (fd >= 0) {
		close(fd);
	}
}

void spool_names_clear(struct spool_names *names)
{
	for (size_t i = 0; i < names->count; i++) {
		free(names->items[i]);
	}
	free(names->items);
	*names = (struct spool_names){ 0 };
}

int spool_names_read(DIR *stream, size_t most, struct spool_names *names, struct sgpu_error *error)
{
	struct dirent *entry;

	spool_names_clear(names);
	names->items = calloc(most, sizeof(*names->items));
	if (!names->items) {
		return sgpu_fail_nomem(error);
	}
	while (names->count < most) {
		errno = 0;
		entry = readdir(stream);
		if (!entry) {
			return errno ? sgpu_fail_errno(error,
						       "cannot read the directory of the batches")
				     : SGPU_OK;
		}
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
			names->items[names->count] = strdup(entry->d_name);
			if (!names->items[names->count++]) {
				names->count--;
				return sgpu_fail_nomem(error);
			}
		}
	}
	return SGPU_OK;
}

int spool_names_list(bool nul, struct spool_names *names, struct sgpu_error *error)
{
	const int end = nul ? '\0' : '\n';
	char *text = NULL, *at, *next;
	size_t size = 0, count = 1;
	int rc = sgpu_read_fd(STDIN_FILENO, "standard input", LIST_MAX, &text, &size, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	for (size_t i = 0; i < size; i++) {
		count += text[i] == end;
	}
	names->items = calloc(count, sizeof(*names->items));
	if (!names->items) {
		rc = sgpu_fail_nomem(error);
		goto out;
	}
	for (at = text; rc == SGPU_OK && at < text + size; at = next) {
		char *line_end = memchr(at, end, (size_t)(text + size - at));

		next = line_end ? line_end + 1 : text + size;
		if (line_end) {
			*line_end = '\0';
		}
		if (memchr(at, '\0', (size_t)(next - at) - (line_end ? 1 : 0))) {
			sgpu_fail(error, SGPU_EINVALID,
				  "the list on standard input has a NUL in a name");
			rc = sgpu_hint(error, "-0 takes names that end with NUL");
		} else if (*at) {
			names->items[names->count] = strdup(at);
			rc = names->items[names->count++] ? SGPU_OK : sgpu_fail_nomem(error);
		}
	}
out:
	free(text);
	return rc;
}

int spool_stream(int directory, const char *shown, DIR **stream, struct sgpu_error *error)
{
	const int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	*stream = fd < 0 ? NULL : fdopendir(fd);
	if (*stream) {
		return SGPU_OK;
	}
	if (fd >= 0) {
		close(fd);
	}
	return sgpu_fail_errno(error, "cannot read directory '%s'", shown);
}

static bool ends_with(const char *name, size_t length, const char *suffix)
{
	return length >= strlen(suffix) && strcmp(name + length - strlen(suffix), suffix) == 0;
}

/* Before it is claimed. A batch says in plain text which keys open it: one that names a key of the
 * worker needs no parsing. */
static const char *look_inside(const struct spool_options *options, int directory, const char *name)
{
	const int fd = spool_open_file(directory, name);
	const char *why = NULL;
	char first[FIRST_SIZE];
	size_t got = 0;
	bool names_ours = !options->opening;

	if (fd >= 0 && sgpu_pread(fd, name, first, sizeof(first), 0, &got, NULL) == SGPU_OK) {
		const enum sgpu_sniffed kind = sgpu_sniff(first, got);

		for (int i = 0; !names_ours && i < options->opening_count; i++) {
			names_ours =
				memmem(first, got, options->opening[i].kid, SGPU_KID_SIZE) != NULL;
		}
		why = kind == SGPU_SNIFFED_KEY || kind == SGPU_SNIFFED_PEM    ? "is a key"
		      : !names_ours && spool_is_for_others(options, fd, name) ? spool_for_other_keys
									      : NULL;
	}
	spool_close_file(fd);
	return why;
}

bool spool_is_batch(const struct spool_options *options, int directory, const char *name,
		    struct stat *status, const char **why)
{
	const size_t length = strlen(name);

	*why = NULL;
	if (name[0] == '.' || ends_with(name, length, SPOOL_RESPONSE) ||
	    fstatat(directory, name, status, AT_SYMLINK_NOFOLLOW) != 0 ||
	    S_ISDIR(status->st_mode)) {
		return false;
	}
	if (!S_ISREG(status->st_mode)) {
		*why = "is no regular file";
	} else if (length > NAME_MAX - strlen(SPOOL_RESPONSE) - 4) {
		*why = "has a name that is too long for that of a response";
	} else {
		*why = look_inside(options, directory, name);
	}
	return !*why;
}

const char *spool_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

void spool_reason_name(const char *name, char file[NAME_MAX + 1])
{
	snprintf(file, NAME_MAX + 1, "%.*s" SPOOL_REASON, NAME_MAX - (int)sizeof(SPOOL_REASON),
		 name);
}

/* What is left in a spool. Only looks: it makes and moves nothing. */

enum { NAMES_AT_ONCE = 4096 };

/* NULL is no member. Takes the reference to `alive`. */
static int add(json_t *missing, const char *batch, const char *state, const char *worker,
	       json_t *alive, const char *reason, struct sgpu_error *error)
{
	json_t *one = json_object();
	int failed = !one || json_object_set_new(one, "batch", cli_json_text(batch)) ||
		     json_object_set_new(one, "state", json_string(state));

	if (!failed && worker) {
		failed = json_object_set_new(one, "worker", cli_json_text(worker)) ||
			 json_object_set(one, "alive", alive);
	}
	if (!failed && reason) {
		failed = json_object_set_new(one, "reason", cli_json_text(reason));
	}
	json_decref(alive);
	return failed || json_array_append_new(missing, one) ? sgpu_fail_nomem(error) : SGPU_OK;
}

typedef int (*see_fn)(json_t *missing, int directory, const char *name, const void *argument,
		      struct sgpu_error *error);

/* Calls `see` for all names of a directory. */
static int each_name(int directory, const char *shown, json_t *missing, see_fn see,
		     const void *argument, struct sgpu_error *error)
{
	struct spool_names names = { 0 };
	DIR *stream = NULL;
	int rc = spool_stream(directory, shown, &stream, error);

	do {
		rc = rc == SGPU_OK ? spool_names_read(stream, NAMES_AT_ONCE, &names, error) : rc;
		for (size_t i = 0; rc == SGPU_OK && i < names.count; i++) {
			rc = see(missing, directory, names.items[i], argument, error);
		}
	} while (rc == SGPU_OK && names.count > 0);
	spool_names_clear(&names);
	if (stream) {
		closedir(stream);
	}
	return rc;
}

static int see_waiting(json_t *missing, int directory, const char *name, const void *argument,
		       struct sgpu_error *error)
{
	struct stat status;
	const char *why;
	const bool waits = spool_is_batch(argument, directory, name, &status, &why);

	return waits || why ? add(missing, name, waits ? "waiting" : "left alone", NULL, NULL, why,
				  error)
			    : SGPU_OK;
}

struct holder {
	const char *name;
	enum claims_life life;
};

static int see_claimed(json_t *missing, int directory, const char *name, const void *argument,
		       struct sgpu_error *error)
{
	const struct holder *holder = argument;

	(void)directory;
	return add(missing, name, "claimed", holder->name,
		   holder->life == CLAIMS_UNKNOWN ? json_null()
						  : json_boolean(holder->life == CLAIMS_ALIVE),
		   NULL, error);
}

static int see_worker(json_t *missing, int directory, const char *name, const void *argument,
		      struct sgpu_error *error)
{
	const int claims = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const struct holder holder = { name, claims >= 0 ? claims_look(directory, name)
							 : CLAIMS_UNKNOWN };
	int rc = SGPU_OK;

	(void)argument;
	if (claims >= 0) {
		rc = each_name(claims, name, missing, see_claimed, &holder, error);
		close(claims);
	}
	return rc;
}

/* One line. */
static void read_reason(int directory, const char *name, char *text, size_t room)
{
	char file[NAME_MAX + 1];
	size_t got = 0;
	int fd;

	spool_reason_name(name, file);
	fd = spool_open_file(directory, file);
	if (fd < 0 || sgpu_pread(fd, file, text, room - 1, 0, &got, NULL) != SGPU_OK) {
		got = 0;
	}
	spool_close_file(fd);
	text[got] = '\0';
	text[strcspn(text, "\n")] = '\0';
}

static bool is_reason(int directory, const char *name)
{
	const size_t length = strlen(name), suffix = strlen(SPOOL_REASON);
	char batch[NAME_MAX + 1];

	if (length <= suffix || strcmp(name + length - suffix, SPOOL_REASON) != 0) {
		return false;
	}
	snprintf(batch, sizeof(batch), "%.*s", (int)(length - suffix), name);
	return faccessat(directory, batch, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int see_failed(json_t *missing, int directory, const char *name, const void *argument,
		      struct sgpu_error *error)
{
	char text[SGPU_ERROR_TEXT_MAX + SGPU_ERROR_HINT_MAX + 16];

	(void)argument;
	if (name[0] == '.' || is_reason(directory, name)) {
		return SGPU_OK;
	}
	read_reason(directory, name, text, sizeof(text));
	return add(missing, name, "failed", NULL, NULL, text, error);
}

/* A part of the directory that is not there is empty. */
static int look_at_part(int directory, const char *part, json_t *missing, see_fn see,
			struct sgpu_error *error)
{
	const int fd = openat(directory, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int rc;

	if (fd < 0) {
		return errno == ENOENT ? SGPU_OK
				       : sgpu_fail_errno(error, "cannot open directory '%s'", part);
	}
	rc = each_name(fd, part, missing, see, NULL, error);
	close(fd);
	return rc;
}

static int look_at_directory(const struct spool_options *options, json_t *missing,
			     struct sgpu_error *error)
{
	const int directory = open(options->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc;

	if (directory < 0) {
		return sgpu_fail_errno(error, "cannot open directory '%s'", options->path);
	}
	rc = each_name(directory, options->path, missing, see_waiting, options, error);
	if (rc == SGPU_OK) {
		rc = look_at_part(directory, CLAIMS_DIRECTORY, missing, see_worker, error);
	}
	if (rc == SGPU_OK) {
		rc = look_at_part(directory, "failed", missing, see_failed, error);
	}
	close(directory);
	return rc;
}

/* Those without a response. */
static int look_at_list(const struct spool_options *options, json_t *missing,
			struct sgpu_error *error)
{
	struct spool_names names = { 0 };
	const int output = open(options->output, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = output < 0 && errno != ENOENT
			 ? sgpu_fail_errno(error, "cannot open directory '%s'", options->output)
			 : spool_names_list(options->nul, &names, error);

	for (size_t i = 0; rc == SGPU_OK && i < names.count; i++) {
		char response[NAME_MAX + sizeof(SPOOL_RESPONSE)];

		snprintf(response, sizeof(response), "%s" SPOOL_RESPONSE,
			 spool_base_name(names.items[i]));
		if (output < 0 || faccessat(output, response, F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
			rc = add(missing, names.items[i], "waiting", NULL, NULL, NULL, error);
		}
	}
	spool_names_clear(&names);
	spool_close_file(output);
	return rc;
}

int spool_missing(const struct spool_options *options, json_t **missing, struct sgpu_error *error)
{
	int rc;

	*missing = json_array();
	if (!*missing) {
		return sgpu_fail_nomem(error);
	}
	rc = options->path ? look_at_directory(options, *missing, error)
			   : look_at_list(options, *missing, error);
	if (rc != SGPU_OK) {
		json_decref(*missing);
		*missing = NULL;
	}
	return rc;
}
