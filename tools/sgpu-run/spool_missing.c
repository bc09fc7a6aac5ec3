/* SPDX-License-Identifier: Apache-2.0
 *
 * What is left in a spool. Only looks: it makes and moves nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "cli.h"
#include "spool_private.h"

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

/* A part of the directory that is not there is empty. */
static int open_part(int directory, const char *name, int *fd, struct sgpu_error *error)
{
	*fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return *fd < 0 && errno != ENOENT
		       ? sgpu_fail_errno(error, "cannot open directory '%s'", name)
		       : SGPU_OK;
}

/* Calls `see` for all names of a directory. */
static int each_name(int directory, const char *shown, json_t *missing,
		     int (*see)(json_t *missing, int directory, const char *name,
				const void *argument, struct sgpu_error *error),
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

	text[0] = '\0';
	snprintf(file, sizeof(file), "%.*s" SPOOL_REASON, NAME_MAX - (int)sizeof(SPOOL_REASON),
		 name);
	fd = spool_open_file(directory, file);
	if (fd >= 0) {
		if (sgpu_pread(fd, file, text, room - 1, 0, &got, NULL) != SGPU_OK) {
			got = 0;
		}
		close(fd);
	}
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

static int look_at_part(int directory, const char *part, json_t *missing,
			int (*see)(json_t *missing, int directory, const char *name,
				   const void *argument, struct sgpu_error *error),
			struct sgpu_error *error)
{
	int fd, rc = open_part(directory, part, &fd, error);

	if (rc == SGPU_OK && fd >= 0) {
		rc = each_name(fd, part, missing, see, NULL, error);
		close(fd);
	}
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
	if (output >= 0) {
		close(output);
	}
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
