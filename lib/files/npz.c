/* SPDX-License-Identifier: Apache-2.0
 *
 * The zip archive that an .npz file is (APPNOTE.TXT 6.3): finds a member by the central directory,
 * and makes it what the file is read from. Archives with fields of 64 bits are refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "files/internal.h"

enum {
	LOCAL = 30, /* bytes of headers */
	ENTRY = 46,
	END = 22,
	COMMENT_MAX = 65535,
	DIRECTORY_MAX = 1 << 20,
	NAMES_SHOWN = 300,
	STORED = 0,
	DEFLATED = 8,
	ENCRYPTED = 1 | 1 << 6 | 1 << 13, /* flags */
};
#define LOCAL_MAGIC 0x04034b50u
#define ENTRY_MAGIC 0x02014b50u
#define END_MAGIC 0x06054b50u
#define DESCRIPTOR_MAGIC 0x08074b50u

struct member {
	const char *name; /* in the directory, without NUL */
	size_t name_size;
	unsigned flags, method;
	uint32_t sum;
	uint64_t packed, size, local; /* bytes in the archive, bytes, where its header is */
};

bool sgpu_file_is_zip(const struct sgpu_file *file)
{
	const uint32_t first = (uint32_t)files_get(file->first, 4);

	return first == LOCAL_MAGIC || first == END_MAGIC;
}

static int read_at(struct sgpu_file *file, void *data, size_t size, uint64_t at)
{
	size_t got = 0;
	const int rc = sgpu_pread(file->fd, file->name, data, size, at, &got, file->error);

	return rc || got == size ? rc : sgpu_file_refuse(file, "is damaged: it is cut short");
}

/* ---- the central directory ---- */
/* Finds the end record, behind which there may be a comment. *at: where it is. */
static int find_end(struct sgpu_file *file, uint64_t size, uint8_t end[END], uint64_t *at)
{
	const size_t length = sgpu_min_u64(size, END + COMMENT_MAX);
	uint8_t *tail = malloc(length + 1);
	size_t i = length + 1;
	int rc = tail ? read_at(file, tail, length, size - length) : sgpu_fail_nomem(file->error);

	while (!rc && i > END) {
		const uint8_t *record = tail + --i - END;

		if (files_get(record, 4) == END_MAGIC && files_get(record + 20, 2) == length - i) {
			memcpy(end, record, END);
			*at = size - length + i - END;
			free(tail);
			return SGPU_OK;
		}
	}
	free(tail);
	return rc ? rc : sgpu_file_refuse(file, "is damaged: its archive has no end");
}

static int read_directory(struct sgpu_file *file, uint64_t archive, uint8_t **directory,
			  size_t *size)
{
	uint8_t end[END];
	uint64_t end_at = 0, at;
	int rc = find_end(file, archive, end, &end_at);

	if (rc) {
		return rc;
	}
	*size = (size_t)files_get(end + 12, 4);
	at = files_get(end + 16, 4);
	if (*size > DIRECTORY_MAX || at + *size > end_at) {
		return sgpu_file_refuse(file, "is damaged: the directory of its archive is none");
	}
	*directory = malloc(*size + 1);
	return *directory ? read_at(file, *directory, *size, at) : sgpu_fail_nomem(file->error);
}

/* Reads the entry at *at of the directory; false at its end, or where it is damaged. */
static bool next_entry(const uint8_t *directory, size_t size, size_t *at, struct member *member)
{
	const uint8_t *entry = directory + *at;
	size_t name, extra, comment;

	if (size - *at < ENTRY || files_get(entry, 4) != ENTRY_MAGIC) {
		return false;
	}
	name = (size_t)files_get(entry + 28, 2);
	extra = (size_t)files_get(entry + 30, 2);
	comment = (size_t)files_get(entry + 32, 2);
	if (size - *at - ENTRY < name + extra + comment) {
		return false;
	}
	*member = (struct member){ .name = (const char *)entry + ENTRY,
				   .name_size = name,
				   .flags = (unsigned)files_get(entry + 8, 2),
				   .method = (unsigned)files_get(entry + 10, 2),
				   .sum = (uint32_t)files_get(entry + 16, 4),
				   .packed = files_get(entry + 20, 4),
				   .size = files_get(entry + 24, 4),
				   .local = files_get(entry + 42, 4) };
	*at += ENTRY + name + extra + comment;
	return true;
}

/* ---- the member ---- */
/* Returns the bytes of an array's name without ".npy"; 0: it is none. */
static size_t stem(const struct member *member)
{
	const size_t size = member->name_size;

	return size > 4 && !memcmp(member->name + size - 4, ".npy", 4) ? size - 4 : 0;
}

static bool is_named(const struct member *member, const char *name)
{
	const size_t length = strlen(name);

	return (length == member->name_size || length == stem(member)) &&
	       memcmp(member->name, name, length) == 0;
}

/* Finds the wanted member, or the only array. An error lists the arrays. */
static int choose(struct sgpu_file *file, const uint8_t *directory, size_t size, const char *wanted,
		  struct member *chosen)
{
	char names[NAMES_SHOWN] = "";
	struct member member;
	size_t used = 0;
	int arrays = 0, found = 0;

	for (size_t at = 0; next_entry(directory, size, &at, &member);) {
		const size_t shown = stem(&member);

		if (wanted ? is_named(&member, wanted) : shown > 0) {
			*chosen = member;
			found++;
		}
		if (shown && used + 4 * shown + 3 < sizeof(names)) {
			used += (size_t)sprintf(names + used, "%s", arrays ? ", " : "");
			used += sgpu_escape(member.name, shown, names + used, sizeof(names) - used,
					    true);
		}
		arrays += shown > 0;
	}
	if (found == 1) {
		return SGPU_OK;
	}
	if (!arrays) {
		return sgpu_file_refuse(file, "is a zip archive without arrays");
	}
	if (wanted) {
		sgpu_file_refuse(file, "has no array '%s'; it has: %s", wanted, names);
	} else {
		sgpu_fail(file->error, SGPU_EUSAGE, "'%s' has %d arrays: %s", file->name, arrays,
			  names);
	}
	return sgpu_hint(file->error, "'%s:NAME' takes one", file->name);
}

/* Goes to the member's bytes, behind its local header, of which nothing else is believed. */
static int enter(struct sgpu_file *file, const struct member *member)
{
	uint8_t local[LOCAL];
	uint64_t begin;
	int rc = read_at(file, local, sizeof(local), member->local);

	if (rc) {
		return rc;
	}
	begin = member->local + LOCAL + files_get(local + 26, 2) + files_get(local + 28, 2);
	if (files_get(local, 4) != LOCAL_MAGIC ||
	    (member->method == STORED && member->packed != member->size)) {
		return sgpu_file_refuse(file, "is damaged: the directory of its archive is none");
	}
	file->member_sum = member->sum;
	file->member_size = member->size;
	file->summed = true;
	return sgpu_file_first(file, file->fd,
			       member->method == STORED ? FILES_PLAIN : FILES_DEFLATE, begin,
			       begin + member->packed);
}

int sgpu_file_enter_zip(struct sgpu_file *file, uint64_t archive, const char *wanted)
{
	struct member member = { .name = NULL };
	uint8_t *directory = NULL;
	size_t size = 0;
	int rc = read_directory(file, archive, &directory, &size);

	rc = rc ? rc : choose(file, directory, size, wanted, &member);
	free(directory);
	if (rc) {
		return rc;
	}
	if (member.flags & ENCRYPTED) {
		return sgpu_file_refuse(file, "is encrypted");
	}
	if (member.method != STORED && member.method != DEFLATED) {
		return sgpu_file_refuse(file,
					"is compressed by method %u of zip; 0 and 8 are known",
					member.method);
	}
	if (member.size == UINT32_MAX || member.packed == UINT32_MAX ||
	    member.local == UINT32_MAX) {
		sgpu_file_refuse(file, "has an array of 4 GiB or more");
		return sgpu_hint(file->error, "numpy.save writes such an array to a .npy file");
	}
	return enter(file, &member);
}

/* ---- writing ---- */
static const char written_name[] = "arr_0.npy";
enum { NAME = sizeof(written_name) - 1, FOLLOWS = 1 << 3, DESCRIPTOR = 16, DAY = 0x21 };
_Static_assert(FILES_ZIP_HEAD == LOCAL + NAME && FILES_ZIP_TAIL == DESCRIPTOR + ENTRY + NAME + END,
	       "sizes");

/* Sizes and CRC-32 are known only at the end, and follow the data. All dates are 1980-01-01. */
void sgpu_file_zip_head(uint8_t head[FILES_ZIP_HEAD])
{
	memset(head, 0, FILES_ZIP_HEAD);
	files_put(head, 4, LOCAL_MAGIC);
	files_put(head + 4, 2, 20); /* version 2.0 is needed */
	files_put(head + 6, 2, FOLLOWS);
	files_put(head + 12, 2, DAY);
	files_put(head + 26, 2, NAME);
	memcpy(head + LOCAL, written_name, NAME);
}

void sgpu_file_zip_tail(uint32_t sum, uint32_t size, uint8_t tail[FILES_ZIP_TAIL])
{
	uint8_t *entry = tail + DESCRIPTOR, *end = entry + ENTRY + NAME, local[FILES_ZIP_HEAD];

	sgpu_file_zip_head(local);
	memset(tail, 0, FILES_ZIP_TAIL);
	files_put(tail, 4, DESCRIPTOR_MAGIC);
	files_put(tail + 4, 4, sum);
	files_put(tail + 8, 4, size);
	files_put(tail + 12, 4, size);
	files_put(entry, 4, ENTRY_MAGIC);
	files_put(entry + 4, 2, 20);
	memcpy(entry + 6, local + 4, LOCAL - 4);
	memcpy(entry + 16, tail + 4, 12);
	memcpy(entry + ENTRY, written_name, NAME);
	files_put(end, 4, END_MAGIC);
	files_put(end + 8, 2, 1); /* entries here, and in all */
	files_put(end + 10, 2, 1);
	files_put(end + 12, 4, ENTRY + NAME);
	files_put(end + 16, 4, FILES_ZIP_HEAD + (uint64_t)size + DESCRIPTOR);
}
