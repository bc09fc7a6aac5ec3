/* SPDX-License-Identifier: Apache-2.0
 *
 * The batches that were taken. In a directory: "lock", which whoever takes a batch holds, and "batches", a header and
 * a record for each, appended and on the disk before the batch runs. A record that a crash cut short belongs to a
 * batch that has not run. Records that are older than the window are dropped when they are many, and with them all
 * that is as old is refused from then on, whatever the clock says later.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/io.h>
#include <sgpu/replay.h>

enum { KEY_SIZE = 16, CHECK_SIZE = 8, DROPPED_MIN = 1024 };
static const char magic[8] = "sgpu rp1";
static const char data_name[] = "batches", lock_name[] = "lock", new_name[] = "batches.new";

/* A record as stored in the file. */
struct record {
	uint8_t key[KEY_SIZE]; /* of owner and batch id */
	uint64_t counter;
	uint8_t check[CHECK_SIZE];
};
struct header {
	char magic[sizeof(magic)];
	uint64_t floor;        /* batches older than this are refused: their records may be gone */
	uint8_t check[CHECK_SIZE];
};

struct table {
	struct header header;
	struct record *records;
	size_t count, capacity;
	uint64_t end;          /* bytes of the file up to the last whole record; 0: there is none yet */
};

struct sgpu_replay {
	uint64_t window_us;
	int directory, lock;      /* -1: in memory */
	char *name;
	struct table memory;
};

static int digest8(const void *data, size_t size, uint8_t check[CHECK_SIZE], struct sgpu_error *error)
{
	uint8_t digest[SGPU_SHA256_SIZE];
	const int code = sgpu_sha256(data, size, digest, error);
	if (!code) {
		memcpy(check, digest, CHECK_SIZE);
	}
	return code;
}

/* One owner cannot use up the ids of another. */
static int make_record(const char *owner, const uint8_t *batch_id, uint64_t counter, struct record *record,
		       struct sgpu_error *error)
{
	uint8_t joined[SGPU_KID_SIZE + SGPU_BATCH_ID_SIZE] = { 0 }, digest[SGPU_SHA256_SIZE];
	memcpy(joined, owner, strnlen(owner, SGPU_KID_SIZE));
	memcpy(joined + SGPU_KID_SIZE, batch_id, SGPU_BATCH_ID_SIZE);
	*record = (struct record){ .counter = counter };
	int code = sgpu_sha256(joined, sizeof(joined), digest, error);
	if (!code) {
		memcpy(record->key, digest, KEY_SIZE);
		code = digest8(record, offsetof(struct record, check), record->check, error);
	}
	return code;
}

static int append(struct table *table, const struct record *record, struct sgpu_error *error)
{
	if (table->count == table->capacity) {
		const size_t more = table->capacity ? 2 * table->capacity : 64;
		struct record *grown = realloc(table->records, more * sizeof(*grown));
		if (!grown) {
			return sgpu_fail_nomem(error);
		}
		table->records = grown;
		table->capacity = more;
	}
	table->records[table->count++] = *record;
	return 0;
}

/* ---- the file ---- */
static int damaged(const struct sgpu_replay *replay, struct sgpu_error *error)
{
	sgpu_fail(error, SGPU_ESYSTEM, "'%s/%s' is damaged: which batches were taken is not known", replay->name, data_name);
	return sgpu_hint(error, "remove it when no batch of before can come again");
}

/* The last record may be of a batch that never ran: it is dropped when it is not whole. Any other tells of damage. */
static int check_records(const struct sgpu_replay *replay, struct table *table, struct sgpu_error *error)
{
	uint8_t check[CHECK_SIZE];
	int code = digest8(&table->header, offsetof(struct header, check), check, error);
	if (!code && (memcmp(table->header.magic, magic, sizeof(magic)) || memcmp(check, table->header.check, CHECK_SIZE))) {
		return damaged(replay, error);
	}
	for (size_t i = 0; !code && i < table->count; i++) {
		code = digest8(&table->records[i], offsetof(struct record, check), check, error);
		if (!code && memcmp(check, table->records[i].check, CHECK_SIZE)) {
			if (i + 1 < table->count) {
				return damaged(replay, error);
			}
			table->count--;
		}
	}
	table->end = sizeof(table->header) + table->count * sizeof(*table->records);
	return code;
}

static int read_table(const struct sgpu_replay *replay, int fd, struct table *table, struct sgpu_error *error)
{
	struct stat status;
	size_t got = 0;
	if (fstat(fd, &status)) {
		return sgpu_fail_errno(error, "cannot read '%s/%s'", replay->name, data_name);
	}
	if ((uint64_t)status.st_size < sizeof(table->header)) {
		return damaged(replay, error); /* it appears whole, by a rename */
	}
	table->capacity = ((size_t)status.st_size - sizeof(table->header)) / sizeof(*table->records);
	table->records = calloc(table->capacity + 1, sizeof(*table->records));
	if (!table->records) {
		return sgpu_fail_nomem(error);
	}
	int code = sgpu_pread(fd, data_name, &table->header, sizeof(table->header), 0, &got, error);
	if (!code && table->capacity) {
		code = sgpu_pread(fd, data_name, table->records, table->capacity * sizeof(*table->records),
				  sizeof(table->header), &got, error);
		table->count = got / sizeof(*table->records);
	}
	return code ? code : check_records(replay, table, error);
}

/* Writes all records as a new file, which replaces the old one. */
static int write_table(const struct sgpu_replay *replay, struct table *table, struct sgpu_error *error)
{
	const int fd = openat(replay->directory, new_name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0) {
		return sgpu_fail_errno(error, "cannot make '%s/%s'", replay->name, new_name);
	}
	memcpy(table->header.magic, magic, sizeof(magic));
	int code = digest8(&table->header, offsetof(struct header, check), table->header.check, error);
	if (!code) {
		code = sgpu_write(fd, new_name, &table->header, sizeof(table->header), error);
	}
	if (!code) {
		code = sgpu_write(fd, new_name, table->records, table->count * sizeof(*table->records), error);
	}
	if (!code && (fsync(fd) || renameat(replay->directory, new_name, replay->directory, data_name) ||
		      fsync(replay->directory))) {
		code = sgpu_fail_errno(error, "cannot write '%s/%s'", replay->name, data_name);
	}
	close(fd);
	return code;
}

static int append_to_file(const struct sgpu_replay *replay, int fd, const struct table *table,
			  const struct record *record, struct sgpu_error *error)
{
	const int code = sgpu_pwrite(fd, data_name, record, sizeof(*record), table->end, error);
	if (!code && fsync(fd)) {
		return sgpu_fail_errno(error, "cannot write '%s/%s'", replay->name, data_name);
	}
	return code;
}

/* ---- the rules ---- */
static int check_time(uint64_t counter, uint64_t now_us, uint64_t floor, uint64_t window_us, struct sgpu_error *error)
{
	const uint64_t ahead = (uint64_t)SGPU_REPLAY_AHEAD_SECONDS * 1000000;
	if (counter > now_us && counter - now_us > ahead) {
		sgpu_fail(error, SGPU_EPOLICY, "the batch is from the future: sealed %llu s ahead of this machine's clock",
			  (unsigned long long)((counter - now_us) / 1000000));
		return sgpu_hint(error, "set the clocks of both machines");
	}
	if (counter < floor || (counter < now_us && now_us - counter > window_us)) {
		sgpu_fail(error, SGPU_EPOLICY, "the batch is too old: it was sealed %llu s ago, and %llu s are allowed",
			  (unsigned long long)((now_us > counter ? now_us - counter : 0) / 1000000),
			  (unsigned long long)(window_us / 1000000));
		return sgpu_hint(error, "seal it again, or allow more with 'sgpu-run --replay-window'");
	}
	return 0;
}

static int check_new(const struct table *table, const struct record *record, struct sgpu_error *error)
{
	for (size_t i = 0; i < table->count; i++) {
		if (!memcmp(table->records[i].key, record->key, KEY_SIZE)) {
			sgpu_fail(error, SGPU_EPOLICY, "the batch was taken before: each runs once");
			return sgpu_hint(error, "seal it again to have it run again");
		}
	}
	return 0;
}

/* Drops records that are too old, if there are many; returns whether it dropped any. From now on, all batches of
 * that age are refused by their age. */
static bool drop_old(struct table *table, uint64_t now_us, uint64_t window_us)
{
	const uint64_t floor = now_us > window_us ? now_us - window_us : 0;
	size_t old = 0, kept = 0;
	for (size_t i = 0; i < table->count; i++) {
		old += table->records[i].counter < floor;
	}
	if (old < DROPPED_MIN || old < table->count / 2) {
		return false;
	}
	for (size_t i = 0; i < table->count; i++) {
		if (table->records[i].counter >= floor) {
			table->records[kept++] = table->records[i];
		}
	}
	table->count = kept;
	table->header.floor = floor > table->header.floor ? floor : table->header.floor;
	return true;
}

static int take_in_file(const struct sgpu_replay *replay, const struct record *record, uint64_t now_us,
			struct sgpu_error *error)
{
	struct table table = { .records = NULL };
	const int fd = openat(replay->directory, data_name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	int code = fd < 0 && errno != ENOENT ? sgpu_fail_errno(error, "cannot open '%s/%s'", replay->name, data_name) : 0;
	if (!code && fd >= 0) {
		code = read_table(replay, fd, &table, error);
	}
	if (!code) {
		code = check_time(record->counter, now_us, table.header.floor, replay->window_us, error);
	}
	if (!code) {
		code = check_new(&table, record, error);
	}
	if (!code && (drop_old(&table, now_us, replay->window_us) || fd < 0)) {
		code = append(&table, record, error);
		code = code ? code : write_table(replay, &table, error);
	} else if (!code) {
		code = append_to_file(replay, fd, &table, record, error);
	}
	free(table.records);
	if (fd >= 0) {
		close(fd);
	}
	return code;
}

int sgpu_replay_take(struct sgpu_replay *replay, const char *owner, const uint8_t batch_id[SGPU_BATCH_ID_SIZE],
		     uint64_t counter, uint64_t now_us, struct sgpu_error *error)
{
	struct table *memory = &replay->memory;
	struct record record;
	int code = make_record(owner, batch_id, counter, &record, error);
	if (code) {
		return code;
	}
	if (replay->directory < 0) {
		(void)drop_old(memory, now_us, replay->window_us);
		code = check_time(counter, now_us, memory->header.floor, replay->window_us, error);
		if (!code) {
			code = check_new(memory, &record, error);
		}
		return code ? code : append(memory, &record, error);
	}
	if (flock(replay->lock, LOCK_EX)) {
		return sgpu_fail_errno(error, "cannot lock '%s/%s'", replay->name, lock_name);
	}
	code = take_in_file(replay, &record, now_us, error);
	(void)flock(replay->lock, LOCK_UN);
	return code;
}

/* ---- opening ---- */
/* By the rules of outputs: through another user's link or directory that user would have it forgotten. */
static int open_directory(struct sgpu_replay *replay, struct sgpu_error *error)
{
	struct sgpu_output_directory opened;
	struct stat status;
	int code = sgpu_output_directory_open(&opened, replay->name, 0700, error);
	if (code) {
		return code;
	}
	if (opened.made_count > 1) { /* of a volume that is not mounted the records are elsewhere */
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
		sgpu_fail(error, SGPU_EPOLICY, "directory '%s' does not belong to this user alone (user %lu, mode %04o)",
			  replay->name,
			  (unsigned long)status.st_uid, (unsigned)status.st_mode & 07777u);
		return sgpu_hint(error, "name a directory of your own, with mode 0700");
	}
	replay->lock = openat(replay->directory, lock_name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	return replay->lock < 0 ? sgpu_fail_errno(error, "cannot open '%s/%s'", replay->name, lock_name) : 0;
}

int sgpu_replay_create(const char *directory, uint64_t window_us, struct sgpu_replay **replay, struct sgpu_error *error)
{
	struct sgpu_replay *made = calloc(1, sizeof(*made));
	*replay = NULL;
	if (!made) {
		return sgpu_fail_nomem(error);
	}
	made->window_us = window_us;
	made->directory = made->lock = -1;
	made->name = directory ? strdup(directory) : NULL;
	int code = directory && !made->name ? sgpu_fail_nomem(error) : directory ? open_directory(made, error) : 0;
	if (code) {
		sgpu_replay_free(&made);
		return code;
	}
	*replay = made;
	return 0;
}

void sgpu_replay_free(struct sgpu_replay **replay)
{
	if (!replay || !*replay) {
		return;
	}
	if ((*replay)->lock >= 0) {
		close((*replay)->lock);
	}
	if ((*replay)->directory >= 0) {
		close((*replay)->directory);
	}
	free((*replay)->name);
	free((*replay)->memory.records);
	free(*replay);
	*replay = NULL;
}
