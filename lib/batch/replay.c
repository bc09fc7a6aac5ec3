/* SPDX-License-Identifier: Apache-2.0
 *
 * The replay record. Its directory has "lock", which a process holds while it takes a batch, and
 * "batches", a header and a record for each batch. A record is appended by one write, and is on the
 * disk before the batch runs. If this fails, the file is truncated to its old size, so that the
 * batch can be sent again. A record that a crash cut short belongs to a batch that has not run.
 * When many records are older than the window, they are dropped, and all batches of that age are
 * refused from then on, whatever the clock says later.
 *
 * A process keeps the records that it has read, in a tree. Under the lock, it opens the file,
 * checks by the header and the last record that it read whether this is the same file, and reads
 * the records that others have appended.
 */
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
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

struct table {
	struct header header;
	struct node *newest; /* the list of all records, from the last of the file */
	size_t count;
	void *tree;	       /* the same by their keys, of tsearch(3) */
	uint64_t count_old_us; /* when to count the old records again */
	uint64_t end;	       /* end of what was read of the file, in bytes; 0: nothing was */
};

struct sgpu_replay {
	uint64_t window_us;
	int directory, lock;	/* -1: the record is in memory */
	char *name, *data_path; /* for messages */
	struct table table;
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

static bool is_older(const struct header *header)
{
	const size_t last = sizeof(magic) - 1;

	return memcmp(header->magic, magic, last) == 0 && header->magic[last] >= '1' &&
	       header->magic[last] < magic[last];
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

static void forget_all(struct table *table)
{
	struct node *node;

	tdestroy(table->tree, keep);
	while ((node = table->newest)) {
		table->newest = node->next;
		free(node);
	}
	*table = (struct table){ .count = 0 };
}

static int add(struct table *table, const struct record *record, struct sgpu_error *error)
{
	struct node *made = malloc(sizeof(*made));

	if (made) {
		*made = (struct node){ *record, table->newest };
	}
	if (!made || !tsearch(made, &table->tree, compare_keys)) {
		free(made);
		return sgpu_fail_nomem(error);
	}
	table->newest = made;
	table->count++;
	return SGPU_OK;
}

/* ---- the file ---- */
static int damaged(const struct sgpu_replay *replay, struct sgpu_error *error)
{
	sgpu_fail(error, SGPU_ESYSTEM, "'%s' is damaged: which batches were taken is not known",
		  replay->data_path);
	return sgpu_hint(error, "remove it when no batch of before can come again");
}

/* Adds the records in `size` bytes. An incomplete last record may belong to a batch that never ran:
 * it is ignored, and the next record overwrites it. Any other incomplete record is damage. */
static int add_records(const struct sgpu_replay *replay, struct table *table,
		       const struct record *records, size_t size, struct sgpu_error *error)
{
	uint8_t check[CHECK_SIZE];
	int rc = SGPU_OK;

	for (; rc == SGPU_OK && size >= sizeof(*records); records++, size -= sizeof(*records)) {
		rc = digest8(records, offsetof(struct record, check), check, error);
		if (rc == SGPU_OK && memcmp(check, records->check, CHECK_SIZE) != 0) {
			return size > sizeof(*records) ? damaged(replay, error) : SGPU_OK;
		}
		rc = rc == SGPU_OK ? add(table, records, error) : rc;
		table->end += rc == SGPU_OK ? sizeof(*records) : 0;
	}
	return rc;
}

/* Sets *known to whether the file is the one that was read, perhaps with records appended. */
static int is_known(const struct sgpu_replay *replay, const struct table *table, int fd,
		    const struct header *header, uint64_t size, bool *known,
		    struct sgpu_error *error)
{
	struct record last = { .counter = 0 };
	size_t got = 0;
	int rc = SGPU_OK;

	*known = table->end && size >= table->end &&
		 memcmp(header, &table->header, sizeof(*header)) == 0;
	if (*known && table->count) {
		rc = sgpu_pread(fd, replay->data_path, &last, sizeof(last),
				table->end - sizeof(last), &got, error);
		*known = rc == SGPU_OK && got == sizeof(last) &&
			 memcmp(&last, &table->newest->record, sizeof(last)) == 0;
	}
	return rc;
}

/* Updates the table from the file. After an error the table is empty. */
static int read_table(const struct sgpu_replay *replay, int fd, struct table *table,
		      struct sgpu_error *error)
{
	struct record *records = NULL;
	struct header header = { .floor = 0 };
	uint8_t check[CHECK_SIZE];
	struct stat status;
	size_t got = 0, size;
	bool known = false;
	int rc;

	if (fstat(fd, &status) != 0) {
		rc = sgpu_fail_errno(error, "cannot read '%s'", replay->data_path);
		goto out;
	}
	rc = sgpu_pread(fd, replay->data_path, &header, sizeof(header), 0, &got, error);
	if (rc == SGPU_OK && got < sizeof(header)) {
		rc = damaged(replay, error); /* the file is created whole, by a rename */
	}
	rc = rc ? rc
		: is_known(replay, table, fd, &header, (uint64_t)status.st_size, &known, error);
	if (rc == SGPU_OK && !known && fsync(replay->directory) != 0) {
		/* The process that renamed the file may not have synced the directory: after a
		 * crash the old file would be back. */
		rc = sgpu_fail_errno(error, "cannot write '%s'", replay->data_path);
	}
	if (rc == SGPU_OK && !known) {
		forget_all(table);
		table->header = header;
		table->end = sizeof(header);
		rc = digest8(&header, offsetof(struct header, check), check, error);
		if (rc == SGPU_OK &&
		    ((memcmp(header.magic, magic, sizeof(magic)) != 0 && !is_older(&header)) ||
		     memcmp(check, header.check, CHECK_SIZE) != 0)) {
			rc = damaged(replay, error);
		}
	}
	if (rc < 0 || is_older(&header)) {
		goto out;
	}
	size = (uint64_t)status.st_size > table->end ? (uint64_t)status.st_size - table->end : 0;
	if (size < sizeof(*records)) {
		goto out;
	}
	records = malloc(size);
	if (!records) {
		rc = sgpu_fail_nomem(error);
		goto out;
	}
	rc = sgpu_pread(fd, replay->data_path, records, size, table->end, &got, error);
	rc = rc ? rc : add_records(replay, table, records, got, error);
out:
	free(records);
	if (rc < 0) {
		forget_all(table);
	}
	return rc;
}

/* Writes all records as a new file, which replaces the old one and is left open as *file. */
static int write_table(const struct sgpu_replay *replay, struct table *table, int *file,
		       struct sgpu_error *error)
{
	const int fd = openat(replay->directory, new_name,
			      O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	const size_t size = table->count * sizeof(struct record);
	struct record *records = malloc(size + 1);
	size_t at = table->count;
	int rc;

	if (fd < 0 || !records) {
		rc = fd < 0 ? sgpu_fail_errno(error, "cannot write '%s'", replay->data_path)
			    : sgpu_fail_nomem(error);
		sgpu_close(fd);
		free(records);
		return rc;
	}
	for (const struct node *node = table->newest; node; node = node->next) {
		records[--at] = node->record;
	}
	memcpy(table->header.magic, magic, sizeof(magic));
	table->end = sizeof(table->header) + size;
	rc = digest8(&table->header, offsetof(struct header, check), table->header.check, error);
	rc = rc ? rc
		: sgpu_write(fd, replay->data_path, &table->header, sizeof(table->header), error);
	rc = rc ? rc : sgpu_write(fd, replay->data_path, records, size, error);
	free(records);
	if (rc == SGPU_OK &&
	    (fsync(fd) || renameat(replay->directory, new_name, replay->directory, data_name) ||
	     fsync(replay->directory))) {
		rc = sgpu_fail_errno(error, "cannot write '%s'", replay->data_path);
	}
	if (rc < 0) {
		/* leave no incomplete file, which would only take space */
		(void)unlinkat(replay->directory, new_name, 0);
		close(fd);
		return rc;
	}
	*file = fd;
	return SGPU_OK;
}

/* Replaces the record of an earlier version, which identified batches differently and so says
 * nothing: batches that were sealed before now are too old. Programs of that version refuse the new
 * file. */
static int take_over(struct sgpu_replay *replay, uint64_t now_us, int *file,
		     struct sgpu_error *error)
{
	struct table *table = &replay->table;
	const uint64_t floor = now_us > table->header.floor ? now_us : table->header.floor;

	forget_all(table);
	table->header.floor = floor;
	return write_table(replay, table, file, error);
}

/* Updates the table from the file. *file is -1 if there is no file. After an error the table is
 * empty. */
static int open_table(struct sgpu_replay *replay, uint64_t now_us, int *file,
		      struct sgpu_error *error)
{
	struct table *table = &replay->table;
	const int fd = openat(replay->directory, data_name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	int rc;

	*file = -1;
	if (fd < 0) {
		rc = errno == ENOENT
			     ? SGPU_OK
			     : sgpu_fail_errno(error, "cannot open '%s'", replay->data_path);
		forget_all(table);
		return rc;
	}
	rc = read_table(replay, fd, table, error);
	if (rc == SGPU_OK && !is_older(&table->header)) {
		*file = fd;
		return SGPU_OK;
	}
	close(fd);
	rc = rc == SGPU_OK ? take_over(replay, now_us, file, error) : rc;
	if (rc < 0) {
		forget_all(table);
	}
	return rc;
}

/* Appends the record to the file and syncs it. After an error, the record is cut off again. */
static int append_to_file(const struct sgpu_replay *replay, int fd, const struct table *table,
			  const struct record *record, struct sgpu_error *error)
{
	int rc = sgpu_pwrite(fd, replay->data_path, record, sizeof(*record), table->end, error);

	if (rc == SGPU_OK && fsync(fd) != 0) {
		rc = sgpu_fail_errno(error, "cannot write '%s'", replay->data_path);
	}
	if (rc < 0 && ftruncate(fd, (off_t)table->end) == 0) {
		(void)!fsync(fd);
	}
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
static bool drop_old(struct table *table, uint64_t now_us, uint64_t window_us)
{
	const uint64_t floor = now_us > window_us ? now_us - window_us : 0,
		       pause_us = window_us / LOOKS_A_WINDOW;
	struct node **at = &table->newest, *node;
	size_t old = 0;

	if (now_us < table->count_old_us && table->count_old_us - now_us <= pause_us) {
		return false; /* a clock that was set back delays this by at most a pause */
	}
	table->count_old_us = now_us + pause_us;
	for (node = table->newest; node; node = node->next) {
		old += node->record.counter < floor;
	}
	if (old < DROPPED_MIN || old < table->count / 2) {
		return false;
	}
	while ((node = *at)) {
		if (node->record.counter >= floor) {
			at = &node->next;
			continue;
		}
		*at = node->next;
		tdelete(node, &table->tree, compare_keys);
		free(node);
		table->count--;
	}
	table->header.floor = floor > table->header.floor ? floor : table->header.floor;
	return true;
}

/* Checks the batch's time, and that the table does not have it. */
static int check_batch(const struct sgpu_replay *replay, const struct record *record,
		       uint64_t now_us, struct sgpu_error *error)
{
	const struct table *table = &replay->table;
	const struct node wanted = { .record = *record };
	const int rc =
		check_time(record->counter, now_us, table->header.floor, replay->window_us, error);

	if (rc < 0) {
		return rc;
	}
	if (tfind(&wanted, &table->tree, compare_keys)) {
		sgpu_fail(error, SGPU_ETAKEN, "the batch was taken before: each runs once");
		return sgpu_hint(error, "seal it again to have it run again");
	}
	return SGPU_OK;
}

static int take(struct sgpu_replay *replay, const struct record *record, uint64_t now_us,
		struct sgpu_error *error)
{
	const bool in_file = replay->directory >= 0;
	struct table *table = &replay->table;
	int fd = -1, rc = in_file ? open_table(replay, now_us, &fd, error) : SGPU_OK;

	rc = rc ? rc : check_batch(replay, record, now_us, error);
	if (rc < 0) {
		goto out;
	}
	if (drop_old(table, now_us, replay->window_us) && fd >= 0) {
		close(fd);
		fd = -1;
	}
	rc = in_file && fd < 0 ? write_table(replay, table, &fd, error) : SGPU_OK;
	rc = rc ? rc : add(table, record, error);
	if (rc == SGPU_OK && in_file) {
		rc = append_to_file(replay, fd, table, record, error);
	}
	if (rc == SGPU_OK) {
		table->end += sizeof(*record);
	} else if (in_file) {
		forget_all(table); /* the next call reads the file again */
	}
out:
	sgpu_close(fd);
	return rc;
}

static int lock_record(const struct sgpu_replay *replay, struct sgpu_error *error)
{
	return flock(replay->lock, LOCK_EX) == 0
		       ? SGPU_OK
		       : sgpu_fail_errno(error, "cannot lock '%s/%s'", replay->name, lock_name);
}

int sgpu_replay_take(struct sgpu_replay *replay, const uint8_t identity[SGPU_SHA256_SIZE],
		     uint64_t counter, uint64_t now_us, struct sgpu_error *error)
{
	struct record record = { .counter = counter };
	int rc;

	memcpy(record.key, identity, KEY_SIZE);
	rc = digest8(&record, offsetof(struct record, check), record.check, error);
	if (rc < 0) {
		return rc;
	}
	if (replay->directory < 0) {
		return take(replay, &record, now_us, error);
	}
	rc = lock_record(replay, error);
	if (rc == SGPU_OK) {
		rc = take(replay, &record, now_us, error);
		(void)flock(replay->lock, LOCK_UN);
	}
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

/* Opens the record before the first batch comes: if an old one is converted now, batches that are
 * sealed later are not refused. */
static int read_first(struct sgpu_replay *replay, struct sgpu_error *error)
{
	struct timespec now = { 0 };
	int fd = -1, rc = lock_record(replay, error);

	if (rc == SGPU_OK) {
		clock_gettime(CLOCK_REALTIME, &now);
		rc = open_table(replay,
				(uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000, &fd,
				error);
		(void)flock(replay->lock, LOCK_UN);
	}
	sgpu_close(fd);
	return rc;
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
	made->directory = made->lock = -1;
	if (directory) {
		made->name = strdup(directory);
		if (asprintf(&made->data_path, "%s/%s", directory, data_name) < 0) {
			made->data_path = NULL;
		}
		rc = made->name && made->data_path ? open_directory(made, error)
						   : sgpu_fail_nomem(error);
		rc = rc == SGPU_OK ? read_first(made, error) : rc;
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
	sgpu_close((*replay)->lock);
	sgpu_close((*replay)->directory);
	free((*replay)->name);
	free((*replay)->data_path);
	forget_all(&(*replay)->table);
	free(*replay);
	*replay = NULL;
}
