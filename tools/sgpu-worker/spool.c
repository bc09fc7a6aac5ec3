/* SPDX-License-Identifier: Apache-2.0
 *
 * See spool.h. Opens the directories and chooses the next batch. Searches the whole directory until
 * a search claims nothing, and only then the claims of dead workers, so that a batch that kills its
 * worker keeps no other waiting.
 */
#include "spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

enum { WARNINGS_MAX = 10, FIRST_BYTES = 4096 };
static const char for_other_keys[] = "is for other keys";

static void clear_names(struct spool_names *names)
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

/* Omits "." and "..". */
static int read_names(int directory, const char *shown, struct spool_names *names,
		      struct sgpu_error *error)
{
	int count;

	clear_names(names);
	count = scandirat(directory, ".", &names->items, is_name, NULL);
	if (count < 0) {
		return sgpu_fail_errno(error, "cannot read directory '%s'", shown);
	}
	names->count = count;
	return SGPU_OK;
}

static int make_directory(const struct spool *spool, const char *name, int *fd,
			  struct sgpu_error *error)
{
	if (mkdirat(spool->directory, name, 0777) != 0 && errno != EEXIST) {
		return sgpu_fail_errno(error, "cannot make directory '%s/%s'", spool->options.path,
				       name);
	}
	*fd = openat(spool->directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return *fd < 0 ? sgpu_fail_errno(error, "cannot open directory '%s/%s'",
					 spool->options.path, name)
		       : SGPU_OK;
}

int spool_open(const struct spool_options *options, struct spool **spool, struct sgpu_error *error)
{
	struct spool *s = calloc(1, sizeof(*s));
	int rc;

	*spool = s;
	if (!s) {
		return sgpu_fail_nomem(error);
	}
	s->options = *options;
	s->directory = s->output = s->claimed = s->done = s->failed = -1;
	s->output_directory = (struct sgpu_output_directory)SGPU_OUTPUT_DIRECTORY_INIT;
	s->own = s->dead = (struct claims){ .directory = -1, .lock = -1 };
	s->again = true;
	s->seed = (unsigned)sgpu_now_ns() ^ (unsigned)getpid();
	s->options.output = options->output ? options->output : options->path;
	s->directory = open(options->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->directory < 0) {
		rc = sgpu_fail_errno(error, "cannot open directory '%s'", options->path);
		goto out;
	}
	rc = sgpu_output_directory_open(&s->output_directory, s->options.output, 0777, error);
	if (rc == SGPU_OK) {
		s->output = s->output_directory.fd;
	}
	rc = rc ? rc : make_directory(s, CLAIMS_DIRECTORY, &s->claimed, error);
	rc = rc || options->remove ? rc : make_directory(s, "done", &s->done, error);
	rc = rc ? rc : make_directory(s, "failed", &s->failed, error);
	rc = rc ? rc : claims_make(s->claimed, &s->own, error);
out:
	if (rc != SGPU_OK) {
		spool_close(spool);
	}
	return rc;
}

static void end_look(struct spool *spool)
{
	claims_close(spool->claimed, &spool->dead);
	clear_names(&spool->names);
}

void spool_close(struct spool **spool)
{
	struct spool *s = *spool;

	if (!s) {
		return;
	}
	end_look(s);
	clear_names(&s->workers);
	claims_close(s->claimed, &s->own);
	sgpu_close(s->claimed);
	sgpu_close(s->done);
	sgpu_close(s->failed);
	sgpu_close(s->directory);
	sgpu_output_directory_close(&s->output_directory, s->output >= 0);
	free(s);
	*spool = NULL;
}

/* ---- the next batch ---- */
/* Moves a file to this worker's claims. EEXIST: a batch of this name is under way. Without
 * RENAME_NOREPLACE, a check is enough: only this thread puts files there. */
static int take_over(const struct spool *spool, int from, const char *name)
{
	if (renameat2(from, name, spool->own.directory, name, RENAME_NOREPLACE) == 0) {
		return 0;
	}
	if (errno != EINVAL && errno != ENOSYS) {
		return -1;
	}
	if (faccessat(spool->own.directory, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
		errno = EEXIST;
		return -1;
	}
	return renameat(from, name, spool->own.directory, name);
}

static void leave_alone(struct spool *spool, const char *name, const char *why)
{
	const bool in_claims = spool->dead.directory >= 0;

	if (++spool->left > spool->warned && spool->warned < WARNINGS_MAX) {
		cli_warning("'%s/%s%s%s%s' %s: it is left alone", spool->options.path,
			    in_claims ? CLAIMS_DIRECTORY "/" : "",
			    in_claims ? spool->dead.name : "", in_claims ? "/" : "", name, why);
		spool->warned++;
	}
}

/* *batch stays NULL if another worker was faster, or another user keeps the file. */
static int claim(struct spool *spool, int from, const char *name, struct spool_batch **batch,
		 struct sgpu_error *error)
{
	struct spool_batch *b;
	struct stat status;
	int rc;

	*batch = NULL;
	if (take_over(spool, from, name) != 0) {
		const int saved = errno;

		if (saved == ENOENT && fstat(spool->own.directory, &status) == 0 &&
		    status.st_nlink == 0) {
			return sgpu_fail(error, SGPU_ESYSTEM,
					 "somebody has removed '%s/" CLAIMS_DIRECTORY "/%s'",
					 spool->options.path, spool->own.name);
		}
		if (saved == ENOENT || saved == EEXIST ||
		    fstatat(from, name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
		    !S_ISREG(status.st_mode)) {
			return SGPU_OK;
		}
		/* A sticky directory, a file of another project's quota, or the claims of another
		 * user, who may be anybody. */
		if (saved == EPERM || saved == EXDEV ||
		    (saved == EACCES && spool->dead.directory >= 0)) {
			leave_alone(spool, name, "is not to be moved by this user");
			return SGPU_OK;
		}
		errno = saved;
		return sgpu_fail_errno(error, "cannot claim '%s/%s'", spool->options.path, name);
	}
	rc = spool_batch_make(spool, name, &b, error);
	if (rc != SGPU_OK) {
		(void)!spool_move_new(spool->own.directory, name, spool->directory, name);
		return rc;
	}
	b->resumed = spool->dead.directory >= 0;
	rc = spool_batch_open(spool, b, error);
	if (rc != SGPU_OK) {
		spool_give_back(spool, &b);
		return rc;
	}
	spool->again = true;
	*batch = b;
	return SGPU_OK;
}

/* Chooses what to search next: the directory, until a search claims nothing; then the claims of
 * each dead worker, unless another takes them. After a round without a claim, *more is false, and
 * the next call begins a new round. */
static int next_look(struct spool *spool, bool *more, struct sgpu_error *error)
{
	char name[NAME_MAX + 1];

	*more = true;
	end_look(spool);
	if (spool->again) {
		spool->again = false;
		spool->left = spool->others = 0;
		clear_names(&spool->workers);
		return read_names(spool->directory, spool->options.path, &spool->names, error);
	}
	if (spool->workers.count == 0) {
		int rc = read_names(spool->claimed, CLAIMS_DIRECTORY, &spool->workers, error);

		if (rc != SGPU_OK) {
			return rc;
		}
	}
	while (spool->workers.at < spool->workers.count) {
		const char *entry = spool->workers.items[spool->workers.at++]->d_name;

		/* A lock beside its directory is no second worker. */
		if (claims_of(entry, name) && strcmp(name, spool->own.name) != 0 &&
		    (strcmp(entry, name) == 0 ||
		     faccessat(spool->claimed, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0) &&
		    claims_take(spool->claimed, name, spool->options.reclaim, &spool->dead)) {
			return read_names(spool->dead.directory, CLAIMS_DIRECTORY, &spool->names,
					  error);
		}
	}
	spool->again = true;
	*more = false;
	return SGPU_OK;
}

/* *name: NULL at the end. */
static int next_name(struct spool *spool, const char **name, struct sgpu_error *error)
{
	struct spool_names *names = &spool->names;
	bool more = true;
	int rc = SGPU_OK;

	*name = NULL;
	while (rc == SGPU_OK && more && names->at == names->count) {
		rc = next_look(spool, &more, error);
	}
	if (rc == SGPU_OK && names->at < names->count) {
		/* Workers take the same names in different orders. */
		struct dirent **next = names->items + names->at,
			      **any = next + rand_r(&spool->seed) % (names->count - names->at),
			      *taken = *any;

		*any = *next;
		*next = taken;
		names->at++;
		*name = taken->d_name;
	}
	return rc;
}

/* Whether a key's name is there: the short way to know a batch for this worker. */
static bool names_key(const struct spool_options *options, const char *text, size_t size)
{
	bool found = false;

	for (size_t k = 0; k < options->keys.kid_count && !found; k++) {
		found = memmem(text, size, options->keys.kids[k], SGPU_KID_SIZE) != NULL;
	}
	return found;
}

/* Returns why a file is not to be claimed; "": for a reason that needs no words; NULL: it may be
 * claimed. */
static const char *why_not(const struct spool_options *options, int directory, const char *name)
{
	const size_t length = strlen(name), suffix = strlen(SPOOL_RESPONSE);
	const char *why = NULL;
	char first[FIRST_BYTES];
	struct stat status;
	size_t got = 0;
	int fd;

	if (name[0] == '.' ||
	    (length >= suffix && strcmp(name + length - suffix, SPOOL_RESPONSE) == 0) ||
	    fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
	    S_ISDIR(status.st_mode)) {
		return "";
	}
	if (!S_ISREG(status.st_mode)) {
		return "is no regular file";
	}
	if (length > NAME_MAX - suffix - 4) {
		return "has a name that is too long for that of a response";
	}
	fd = spool_open_file(directory, name);
	if (fd >= 0 && sgpu_pread(fd, name, first, sizeof(first), 0, &got, NULL) == SGPU_OK) {
		why = sgpu_sniff(first, got) == SGPU_SNIFFED_KEY ? "is a key"
		      : names_key(options, first, got)		 ? NULL
		      : spool_is_for_others(options, fd, name)	 ? for_other_keys
								 : NULL;
	}
	sgpu_close(fd);
	return why;
}

/* *batch stays NULL if the file is no batch, or another worker has claimed it. */
static int take(struct spool *spool, const char *name, struct spool_batch **batch,
		struct sgpu_error *error)
{
	const bool in_claims = spool->dead.directory >= 0;
	const int from = in_claims ? spool->dead.directory : spool->directory;
	const char *why = why_not(&spool->options, from, name);

	if (!why) {
		return claim(spool, from, name, batch, error);
	}
	if (!*why || in_claims) {
		return SGPU_OK;
	}
	if (why == for_other_keys) {
		spool->others++;
	} else {
		leave_alone(spool, name, why);
	}
	return SGPU_OK;
}

int spool_next(struct spool *spool, struct spool_batch **batch, struct sgpu_error *error)
{
	const char *name;
	int rc;

	*batch = NULL;
	do {
		rc = next_name(spool, &name, error);
		rc = rc || !name ? rc : take(spool, name, batch, error);
	} while (rc == SGPU_OK && name && !*batch);
	return rc;
}
