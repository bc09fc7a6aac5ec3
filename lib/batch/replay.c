/* SPDX-License-Identifier: Apache-2.0
 *
 * The replay record. Its directory has "lock", which a process holds while it takes a batch, and
 * "batches", a header and a record for each batch. A record is appended by one write, and is on the
 * disk before the batch runs. If this fails, the file is truncated to its old size, so that the
 * batch can be sent again. A record that a crash cut short belongs to a batch that has not run.
 * When many records are older than the window, they are dropped, and all batches of that age are
 * refused from then on, whatever the clock says later.
 *
 * A process keeps the file open, and what it has read of it in a tree. Under the lock, it looks
 * whether this is still the file of that name, and reads the records that others have appended.
 */
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "batch/batch.h"
#include "crypto/crypto.h"

enum {
	KEY_SIZE = 16,
	CHECK_SIZE = 8,
	DROPPED_MIN = 1024,
	LOOKS_A_WINDOW = 64, /* times that old records are counted in a window */
};
static const char magic[8] = "sgpu rp3"; /* the last character is the version */
static const char data_name[] = "batches", lock_name[] = "lock", new_name[] = "batches.new";

struct record {
	uint8_t key[KEY_SIZE]; /* the first bytes of the batch's identity */
	uint64_t counter;
	uint8_t check[CHECK_SIZE];
};
struct header {
	char magic[sizeof(magic)];
	uint64_t floor; /* batches older than this are refused: their records may be gone */
	uint8_t check[CHECK_SIZE];
};

struct node {
	struct record record;
	struct node *next;
};

struct sgpu_replay {
	uint64_t window_us;
	int directory, lock;	/* -1: the record is in memory */
	char *name, *data_path; /* for messages */
	int file;		/* -1: there is none, or its name was not looked up yet */
	uint64_t end;		/* of what was read of the file, in bytes */
	struct header header;
	struct node *newest; /* the list of all records, from the last of the file */
	size_t count;
	void *tree;	       /* the same by their keys, of tsearch(3) */
	uint64_t count_old_us; /* when to count the old records again */
};

static int digest8(const void *data, size_t size, uint8_t check[CHECK_SIZE],
		   struct sgpu_error *error)
{
	uint8_t digest[SGPU_SHA256_SIZE];
	const int rc = sgpu_sha256(data, size, digest, error);
	if (!rc) {
		memcpy(check, digest, CHECK_SIZE);
	}
	return rc;
}

/* ---- the records in memory ---- */
static int compare_keys(const void *a, const void *b)
{
	return memcmp(((const struct node *)a)->record.key, ((const struct node *)b)->record.key,
		      KEY_SIZE);
}

static void keep(void *node)
{
	(void)node;
}

static void forget(struct sgpu_replay *replay)
{
	struct node *node;

	tdestroy(replay->tree, keep);
	while ((node = replay->newest)) {
		replay->newest = node->next;
		free(node);
	}
	sgpu_close(replay->file);
	replay->file = -1;
	replay->tree = NULL;
	replay->count = 0;
	replay->count_old_us = 0;
	replay->header = (struct header){ .floor = 0 };
}

static int add(struct sgpu_replay *replay, const struct record *record, struct sgpu_error *error)
{
	struct node *made = malloc(sizeof(*made));

	if (made) {
		*made = (struct node){ *record, replay->newest };
	}
	if (!made || !tsearch(made, &replay->tree, compare_keys)) {
		free(made);
		return sgpu_fail_nomem(error);
	}
	replay->newest = made;
	replay->count++;
	return SGPU_OK;
}

/* ---- the file ---- */
static int damaged(const struct sgpu_replay *replay, struct sgpu_error *error)
{
	sgpu_fail(error, SGPU_ESYSTEM,
		  "'%s' is damaged, or of another version: which batches were taken is not known",
		  replay->data_path);
	return sgpu_hint(error, "remove it when no batch of before can come again");
}

static int cannot_write(const struct sgpu_replay *replay, struct sgpu_error *error)
{
	return sgpu_fail_errno(error, "cannot write '%s'", replay->data_path);
}

static int open_file(struct sgpu_replay *replay, struct sgpu_error *error)
{
	uint8_t check[CHECK_SIZE];
	size_t got = 0;
	int rc;

	replay->file = openat(replay->directory, data_name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (replay->file < 0) {
		return sgpu_fail_errno(error, "cannot open '%s'", replay->data_path);
	}
	/* The process that renamed the file may not have synced the directory: after a crash the
	 * old file would be back. */
	if (fsync(replay->directory) != 0) {
		return cannot_write(replay, error);
	}
	rc = sgpu_pread(replay->file, replay->data_path, &replay->header, sizeof(replay->header), 0,
			&got, error);
	rc = rc ? rc : digest8(&replay->header, offsetof(struct header, check), check, error);
	if (rc == SGPU_OK &&
	    (got < sizeof(replay->header) || /* the file is created whole, by a rename */
	     memcmp(replay->header.magic, magic, sizeof(magic)) != 0 ||
	     memcmp(check, replay->header.check, CHECK_SIZE) != 0)) {
		rc = damaged(replay, error);
	}
	replay->end = sizeof(replay->header);
	return rc;
}

/* Adds the records in `size` bytes. An incomplete last record may belong to a batch that never ran:
 * it is ignored, and the next record overwrites it. Any other incomplete record is damage. */
static int add_records(struct sgpu_replay *replay, const struct record *records, size_t size,
		       struct sgpu_error *error)
{
	uint8_t check[CHECK_SIZE];
	int rc = SGPU_OK;

	for (; rc == SGPU_OK && size >= sizeof(*records); records++, size -= sizeof(*records)) {
		rc = digest8(records, offsetof(struct record, check), check, error);
		if (rc == SGPU_OK && memcmp(check, records->check, CHECK_SIZE) != 0) {
			return size > sizeof(*records) ? damaged(replay, error) : SGPU_OK;
		}
		rc = rc == SGPU_OK ? add(replay, records, error) : rc;
		replay->end += rc == SGPU_OK ? sizeof(*records) : 0;
	}
	return rc;
}

/* Reads what is new in the file. Its number cannot be another file's while it is open. */
static int read_file(struct sgpu_replay *replay, struct sgpu_error *error)
{
	struct record *records;
	struct stat named, opened;
	size_t size, got = 0;
	int rc = SGPU_OK;

	if (fstatat(replay->directory, data_name, &named, AT_SYMLINK_NOFOLLOW) != 0) {
		rc = errno == ENOENT
			     ? SGPU_OK
			     : sgpu_fail_errno(error, "cannot open '%s'", replay->data_path);
		forget(replay);
		return rc;
	}
	if (replay->file < 0 || fstat(replay->file, &opened) != 0 ||
	    opened.st_ino != named.st_ino || opened.st_dev != named.st_dev ||
	    (uint64_t)named.st_size < replay->end) {
		forget(replay);
		rc = open_file(replay, error);
	}
	size = rc || (uint64_t)named.st_size < replay->end + sizeof(*records)
		       ? 0
		       : (uint64_t)named.st_size - replay->end;
	if (size == 0) {
		return rc;
	}
	records = malloc(size);
	rc = records ? sgpu_pread(replay->file, replay->data_path, records, size, replay->end, &got,
				  error)
		     : sgpu_fail_nomem(error);
	rc = rc ? rc : add_records(replay, records, got, error);
	free(records);
	return rc;
}

static int write_file(struct sgpu_replay *replay, struct sgpu_error *error)
{
	const int fd = openat(replay->directory, new_name,
			      O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	const size_t size = replay->count * sizeof(struct record);
	struct record *records = malloc(size + 1);
	size_t at = replay->count;
	int rc = fd < 0 ? cannot_write(replay, error) : !records ? sgpu_fail_nomem(error) : SGPU_OK;

	for (const struct node *node = replay->newest; records && node; node = node->next) {
		records[--at] = node->record;
	}
	memcpy(replay->header.magic, magic, sizeof(magic));
	rc = rc ? rc
		: digest8(&replay->header, offsetof(struct header, check), replay->header.check,
			  error);
	rc = rc ? rc
		: sgpu_write(fd, replay->data_path, &replay->header, sizeof(replay->header), error);
	rc = rc ? rc : sgpu_write(fd, replay->data_path, records, size, error);
	free(records);
	if (rc == SGPU_OK &&
	    (fsync(fd) || renameat(replay->directory, new_name, replay->directory, data_name) ||
	     fsync(replay->directory))) {
		rc = cannot_write(replay, error);
	}
	if (rc < 0) {
		/* leave no incomplete file, which would only take space */
		(void)unlinkat(replay->directory, new_name, 0);
		sgpu_close(fd);
		return rc;
	}
	sgpu_close(replay->file);
	replay->file = fd;
	replay->end = sizeof(replay->header) + size;
	return SGPU_OK;
}

/* Appends the record to the file and syncs it. After an error, the record is cut off again. */
static int append_to_file(struct sgpu_replay *replay, const struct record *record,
			  struct sgpu_error *error)
{
	int rc = sgpu_pwrite(replay->file, replay->data_path, record, sizeof(*record), replay->end,
			     error);

	if (rc == SGPU_OK && fsync(replay->file) != 0) {
		rc = cannot_write(replay, error);
	}
	if (rc < 0 && ftruncate(replay->file, (off_t)replay->end) == 0) {
		(void)!fsync(replay->file);
	}
	replay->end += sizeof(*record);
	return rc;
}

/* ---- the rules ---- */
static int check_time(uint64_t counter, uint64_t now_us, uint64_t floor, uint64_t window_us,
		      struct sgpu_error *error)
{
	const uint64_t ahead = (uint64_t)SGPU_REPLAY_AHEAD_SECONDS * 1000000;
	if (counter > now_us && counter - now_us > ahead) {
		sgpu_fail(
			error, SGPU_EPOLICY,
			"the batch is from the future: sealed %llu s ahead of this machine's clock",
			(unsigned long long)((counter - now_us) / 1000000));
		return sgpu_hint(error, "set the clocks of both machines");
	}
	if (counter < floor) {
		sgpu_fail(error, SGPU_ETAKEN,
			  "the batch is too old: it was sealed before the record of taken batches "
			  "begins");
		return sgpu_hint(error, "seal it again");
	}
	if (counter < now_us && now_us - counter > window_us) {
		sgpu_fail(error, SGPU_ETAKEN,
			  "the batch is too old: it was sealed %llu s ago, and %llu s are allowed",
			  (unsigned long long)((now_us - counter) / 1000000),
			  (unsigned long long)(window_us / 1000000));
		return sgpu_hint(error,
				 "seal it again, or allow more with 'sgpu-run --replay-window'");
	}
	return 0;
}

/* Drops records that are too old, if there are many; returns whether it dropped any. Batches of
 * that age are then refused for their age. Counting visits every record, so it is done a limited
 * number of times in a window. */
static bool drop_old(struct sgpu_replay *replay, uint64_t now_us)
{
	const uint64_t floor = now_us > replay->window_us ? now_us - replay->window_us : 0,
		       pause_us = replay->window_us / LOOKS_A_WINDOW;
	struct node **at = &replay->newest, *node;
	size_t old = 0;

	if (now_us < replay->count_old_us && replay->count_old_us - now_us <= pause_us) {
		return false; /* a clock that was set back delays this by at most a pause */
	}
	replay->count_old_us = now_us + pause_us;
	for (node = replay->newest; node; node = node->next) {
		old += node->record.counter < floor;
	}
	if (old < DROPPED_MIN || old < replay->count / 2) {
		return false;
	}
	while ((node = *at)) {
		if (node->record.counter >= floor) {
			at = &node->next;
			continue;
		}
		*at = node->next;
		tdelete(node, &replay->tree, compare_keys);
		free(node);
		replay->count--;
	}
	replay->header.floor = floor > replay->header.floor ? floor : replay->header.floor;
	return true;
}

/* Checks the batch's time, and that it was not taken; then records it. The lock is held. */
static int take(struct sgpu_replay *replay, const struct record *record, uint64_t now_us,
		struct sgpu_error *error)
{
	const bool in_file = replay->directory >= 0;
	const struct node wanted = { .record = *record };
	int rc = in_file ? read_file(replay, error) : SGPU_OK;

	if (rc < 0) {
		forget(replay); /* the next call reads the file again */
		return rc;
	}
	rc = check_time(record->counter, now_us, replay->header.floor, replay->window_us, error);
	if (rc < 0) {
		return rc;
	}
	if (tfind(&wanted, &replay->tree, compare_keys)) {
		sgpu_fail(error, SGPU_ETAKEN, "the batch was taken before: each runs once");
		return sgpu_hint(error, "seal it again to have it run again");
	}
	if ((drop_old(replay, now_us) || replay->file < 0) && in_file) {
		rc = write_file(replay, error);
	}
	rc = rc ? rc : add(replay, record, error);
	rc = rc || !in_file ? rc : append_to_file(replay, record, error);
	if (rc < 0 && in_file) {
		forget(replay);
	}
	return rc;
}

int sgpu_replay_take(struct sgpu_replay *replay, const uint8_t identity[SGPU_SHA256_SIZE],
		     uint64_t counter, uint64_t now_us, struct sgpu_error *error)
{
	struct record record = { .counter = counter };
	int rc;

	memcpy(record.key, identity, KEY_SIZE);
	rc = digest8(&record, offsetof(struct record, check), record.check, error);
	if (rc < 0 || replay->directory < 0) {
		return rc ? rc : take(replay, &record, now_us, error);
	}
	if (flock(replay->lock, LOCK_EX) != 0) {
		return sgpu_fail_errno(error, "cannot lock '%s/%s'", replay->name, lock_name);
	}
	rc = take(replay, &record, now_us, error);
	(void)flock(replay->lock, LOCK_UN);
	return rc;
}

/* ---- opening ---- */
/* Opens the directory as outputs are opened: another user's link or directory would let that user
 * delete the record. */
static int open_directory(struct sgpu_replay *replay, struct sgpu_error *error)
{
	struct sgpu_output_directory opened;
	struct stat status;
	int rc = sgpu_output_directory_open(&opened, replay->name, 0700, error);
	if (rc) {
		return rc;
	}
	if (opened.made.count > 1) { /* the path was missing, as when its volume is not mounted */
		sgpu_output_directory_close(&opened, false);
		errno = ENOENT;
		return sgpu_fail_errno(error, "cannot make directory '%s'", replay->name);
	}
	replay->directory = opened.fd;
	opened.fd = -1;
	sgpu_output_directory_close(&opened, true);
	if (fstat(replay->directory, &status)) {
		return sgpu_fail_errno(error, "cannot open directory '%s'", replay->name);
	}
	if (status.st_uid != geteuid() || (status.st_mode & (S_IRWXG | S_IRWXO))) {
		sgpu_fail(error, SGPU_EPOLICY,
			  "directory '%s' does not belong to this user alone (user %lu, mode %04o)",
			  replay->name, (unsigned long)status.st_uid,
			  (unsigned)status.st_mode & 07777u);
		return sgpu_hint(error, "name a directory of your own, with mode 0700");
	}
	replay->lock = openat(replay->directory, lock_name,
			      O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	return replay->lock < 0
		       ? sgpu_fail_errno(error, "cannot open '%s/%s'", replay->name, lock_name)
		       : 0;
}

int sgpu_replay_create(const char *directory, uint64_t window_us, struct sgpu_replay **replay,
		       struct sgpu_error *error)
{
	struct sgpu_replay *made = calloc(1, sizeof(*made));
	int rc = SGPU_OK;

	*replay = NULL;
	if (!made) {
		return sgpu_fail_nomem(error);
	}
	made->window_us = window_us;
	made->directory = made->lock = made->file = -1;
	if (directory) {
		made->name = strdup(directory);
		if (asprintf(&made->data_path, "%s/%s", directory, data_name) < 0) {
			made->data_path = NULL;
		}
		rc = made->name && made->data_path ? open_directory(made, error)
						   : sgpu_fail_nomem(error);
	}
	if (rc < 0) {
		sgpu_replay_free(&made);
		return rc;
	}
	*replay = made;
	return SGPU_OK;
}

void sgpu_replay_free(struct sgpu_replay **replay)
{
	if (!replay || !*replay) {
		return;
	}
	forget(*replay);
	sgpu_close((*replay)->lock);
	sgpu_close((*replay)->directory);
	free((*replay)->name);
	free((*replay)->data_path);
	free(*replay);
	*replay = NULL;
}
