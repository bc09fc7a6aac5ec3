/* SPDX-License-Identifier: Apache-2.0
 *
 * One batch of a spool: opens it with its response, and puts it away when its outcome is known. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/json.h"
#include "batch/batch.h"
#include "spool.h"

enum { NAMES_TRIED = 1000000 };
enum { RESULT_MODE = 0644 }; /* nobody else may alter a response */

int spool_open_file(int directory, const char *name)
{
	return openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static void free_batch(struct spool_batch **batch)
{
	struct spool_batch *b = *batch;

	sgpu_output_close(&b->response);
	sgpu_close(b->fd);
	free(b->name);
	free(b->shown);
	free(b);
	*batch = NULL;
}

int spool_batch_make(const struct spool *spool, const char *name, struct spool_batch **batch,
		     struct sgpu_error *error)
{
	struct spool_batch *b = calloc(1, sizeof(*b));

	*batch = NULL;
	if (!b) {
		return sgpu_fail_nomem(error);
	}
	b->fd = -1;
	b->response = (struct sgpu_output)SGPU_OUTPUT_INIT;
	b->name = strdup(name);
	snprintf(b->response_name, sizeof(b->response_name), "%s" SPOOL_RESPONSE, name);
	if (asprintf(&b->shown, "%s/%s", spool->options.path, name) < 0) {
		b->shown = NULL;
	}
	if (!b->name || !b->shown) {
		free_batch(&b);
		return sgpu_fail_nomem(error);
	}
	*batch = b;
	return SGPU_OK;
}

/* If the file is a pipe or a device by now, this neither waits for nor affects it. */
static int open_file(const struct spool *spool, struct spool_batch *b, struct sgpu_error *error)
{
	struct stat status;

	b->fd = spool_open_file(spool->own.directory, b->name);
	if (b->fd < 0 && errno == EWOULDBLOCK) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s' is under a lease of another program",
				 b->shown);
	}
	if (b->fd < 0 || fstat(b->fd, &status) != 0) {
		return sgpu_fail_errno(error, "cannot open '%s'", b->shown);
	}
	if (!S_ISREG(status.st_mode)) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s' is no regular file", b->shown);
	}
	b->size = (uint64_t)status.st_size;
	return SGPU_OK;
}

/* Reads seal.json of a batch or a response; NULL: the file is not one. It is not authenticated: at
 * worst a batch counts as answered by a wrong file in its response's place, or waits for another
 * worker. */
static struct sgpu_batch *read_seal(int fd, const char *shown, bool response)
{
	const unsigned what = response ? SGPU_READ_RESPONSE : SGPU_READ_BATCH;
	struct sgpu_tar_reader *tar = NULL;
	struct sgpu_batch *batch = NULL;

	if (sgpu_tar_open(fd, shown, &tar, NULL) != SGPU_OK ||
	    sgpu_batch_read_seal(tar, what, &batch, NULL) != SGPU_OK) {
		batch = NULL;
	}
	sgpu_tar_close(&tar);
	return batch;
}

bool spool_is_for_others(const struct spool_options *options, int fd, const char *name)
{
	struct sgpu_batch *batch = read_seal(fd, name, false);
	bool others = batch && json_array_size(batch->recipients) > 0;
	const json_t *one;
	size_t i;

	json_array_foreach (batch ? batch->recipients : NULL, i, one) {
		for (size_t k = 0; k < options->keys.kid_count; k++) {
			others = others && strncmp(cli_text_of(one, "kid"), options->keys.kids[k],
						   SGPU_KID_SIZE + 1) != 0;
		}
	}
	sgpu_batch_free(&batch);
	return others;
}

/* The batch is answered if the file with the response's name is its response. */
static int compare_response(const struct spool *spool, struct spool_batch *b,
			    struct sgpu_error *error)
{
	const int fd = spool_open_file(spool->output, b->response_name);
	struct sgpu_batch *batch = NULL, *response = NULL;
	struct stat status;

	if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
	    lseek(b->fd, 0, SEEK_SET) == 0) {
		response = read_seal(fd, b->response_name, true);
		batch = read_seal(b->fd, b->shown, false);
	}
	b->answered = batch && response && memcmp(batch->id, response->id, sizeof(batch->id)) == 0;
	sgpu_batch_free(&batch);
	sgpu_batch_free(&response);
	sgpu_close(fd);
	if (b->answered) {
		return SGPU_OK;
	}
	sgpu_fail(error, SGPU_EPOLICY, "'%s/%s' is there already, and is no response to this batch",
		  spool->options.output, b->response_name);
	return sgpu_hint(error, "move it away, or give the batch another name");
}

static bool response_is_there(const struct spool *spool, const struct spool_batch *b)
{
	return faccessat(spool->output, b->response_name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int spool_batch_open(struct spool *spool, struct spool_batch *b, struct sgpu_error *error)
{
	char *shown = NULL;
	int rc = open_file(spool, b, &b->error);

	if (rc != SGPU_OK) {
		return SGPU_OK;
	}
	if (asprintf(&shown, "%s/%s", spool->options.output, b->response_name) < 0) {
		return sgpu_fail_nomem(error);
	}
	rc = sgpu_output_open_beneath(&b->response, spool->output, b->response_name, shown,
				      RESULT_MODE, true, error);
	free(shown);
	b->response.unsynced = true; /* synced later, with others */
	if (rc != SGPU_OK && response_is_there(spool, b)) {
		(void)!compare_response(spool, b, &b->error);
		rc = SGPU_OK;
	}
	return rc;
}

int spool_answer(struct spool *spool, struct spool_batch *b, struct sgpu_error *error)
{
	const int rc = sgpu_output_commit(&b->response, error);

	/* a worker that thought this one dead may have answered */
	return rc != SGPU_OK && response_is_there(spool, b) ? compare_response(spool, b, error)
							    : rc;
}

/* ---- where a batch goes ---- */
int spool_move_new(int from, const char *name, int to, const char *new_name)
{
	struct stat here, there;

	if (renameat2(from, name, to, new_name, RENAME_NOREPLACE) == 0) {
		return 0;
	}
	if (errno != EINVAL && errno != ENOSYS && errno != EEXIST) {
		return -1;
	}
	/* NFS lacks this rename. A kill after the link leaves two names of one file. */
	if (linkat(from, name, to, new_name, 0) != 0 &&
	    (errno != EEXIST || fstatat(from, name, &here, AT_SYMLINK_NOFOLLOW) != 0 ||
	     fstatat(to, new_name, &there, AT_SYMLINK_NOFOLLOW) != 0 ||
	     here.st_dev != there.st_dev || here.st_ino != there.st_ino)) {
		return -1;
	}
	return unlinkat(from, name, 0);
}

/* Makes "NAME", then "NAME.1" and so on, for which names that may be claimed leave room. */
static void number_name(const char *name, int attempt, char numbered[NAME_MAX + 1])
{
	snprintf(numbered, NAME_MAX + 1, attempt ? "%s.%d" : "%s", name, attempt);
}

int spool_done(struct spool *spool, struct spool_batch **batch, struct sgpu_error *error)
{
	const struct spool_batch *b = *batch;
	char name[NAME_MAX + 1];
	int result = -1, rc = SGPU_OK;

	errno = EEXIST;
	if (spool->options.remove) {
		result = unlinkat(spool->own.directory, b->name, 0);
	}
	for (int i = 0; !spool->options.remove && i < NAMES_TRIED && result && errno == EEXIST;
	     i++) {
		number_name(b->name, i, name);
		result = spool_move_new(spool->own.directory, b->name, spool->done, name);
	}
	if (result != 0 && errno != ENOENT) {
		rc = sgpu_fail_errno(error, "cannot put '%s' away", b->shown);
	}
	free_batch(batch);
	return rc;
}

static void reason_name(const char *name, char file[NAME_MAX + 1])
{
	snprintf(file, NAME_MAX + 1, "%.*s" SPOOL_REASON, NAME_MAX - (int)sizeof(SPOOL_REASON),
		 name);
}

/* Before the batch is moved, so that a failed batch always has its reason. */
static int write_reason(struct spool *spool, const char *name, const struct sgpu_error *reason,
			struct sgpu_error *error)
{
	struct sgpu_output output = SGPU_OUTPUT_INIT;
	char file[NAME_MAX + 1], line[SGPU_ERROR_TEXT_MAX + SGPU_ERROR_HINT_MAX + 16];
	int rc;

	reason_name(name, file);
	snprintf(line, sizeof(line), "%s: %s%s%s\n", sgpu_error_name(reason->code), reason->text,
		 reason->hint[0] ? "; " : "", reason->hint);
	rc = sgpu_output_open_beneath(&output, spool->failed, file, file, RESULT_MODE, true, error);
	rc = rc ? rc : sgpu_write(output.fd, file, line, strlen(line), error);
	rc = rc ? rc : sgpu_output_commit(&output, error);
	sgpu_output_close(&output);
	return rc;
}

static bool is_free(int directory, const char *name)
{
	char reason[NAME_MAX + 1];

	reason_name(name, reason);
	return faccessat(directory, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0 &&
	       faccessat(directory, reason, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
}

int spool_failed(struct spool *spool, struct spool_batch **batch, const struct sgpu_error *reason,
		 struct sgpu_error *error)
{
	const struct spool_batch *b = *batch;
	char name[NAME_MAX + 1];
	int i = 0, rc;

	do {
		number_name(b->name, i, name);
	} while (++i < NAMES_TRIED && !is_free(spool->failed, name));
	rc = write_reason(spool, name, reason, error);
	if (rc == SGPU_OK &&
	    spool_move_new(spool->own.directory, b->name, spool->failed, name) != 0 &&
	    errno != ENOENT) {
		rc = sgpu_fail_errno(error, "cannot put '%s' away", b->shown);
	}
	if (rc == SGPU_OK) {
		free_batch(batch);
	} else {
		spool_give_back(spool, batch);
	}
	return rc;
}

/* If its name is taken by now, the batch stays claimed, for the next worker. */
void spool_give_back(struct spool *spool, struct spool_batch **batch)
{
	(void)!spool_move_new(spool->own.directory, (*batch)->name, spool->directory,
			      (*batch)->name);
	free_batch(batch);
}
