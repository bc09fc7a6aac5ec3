/* SPDX-License-Identifier: Apache-2.0
 *
 * Refusals: what is written is read, and what anyone else writes in its place is refused.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tar_header.h"
#include "unit.h"

#define ID "AAECAwQFBgcICQoLDA0ODw"
#define REFUSAL(id, code, text) "{" id "\"code\":\"" code "\",\"text\":\"" text "\",\"version\":2}"

static struct sgpu_error error;
static struct sgpu_batch_refusal got;

static int memory_file(void)
{
	const int fd = memfd_create("refusal", MFD_CLOEXEC);

	return fd >= 0 ? fd : (abort(), -1);
}

/* Closes it. */
static int read_back(int fd)
{
	struct sgpu_tar_reader *reader = NULL;
	struct sgpu_batch *batch = NULL;

	lseek(fd, 0, SEEK_SET);
	int code = sgpu_tar_open(fd, "a", &reader, &error);
	code = code ? code : sgpu_batch_read(reader, SGPU_READ_RESPONSE, &batch, &error);
	CHECK(!batch);
	code = code == SGPU_EREFUSED ? sgpu_batch_refusal_read(reader, &got, &error)
	       : code		     ? code
				     : SGPU_EUSAGE;
	sgpu_tar_close(&reader);
	close(fd);
	return code;
}

static void add_member(int fd, const char *name, const char *text, size_t size)
{
	if (put_header(fd, name, size, &error) || sgpu_write(fd, "a", text, size, &error) ||
	    sgpu_tar_padding(fd, "a", size, &error)) {
		abort();
	}
}

static int read_text(const char *text, size_t size)
{
	const int fd = memory_file();

	add_member(fd, SGPU_REFUSAL_MEMBER, text, size);
	CHECK(sgpu_tar_end(fd, "a", &error) == 0);
	return read_back(fd);
}

static int write_and_read(const struct sgpu_batch_refusal *refusal)
{
	const int fd = memory_file();

	CHECK(sgpu_batch_refusal_write(fd, "a", refusal, &error) == 0);
	return read_back(fd);
}

UNIT_TEST(what_is_written_is_read)
{
	struct sgpu_batch_refusal refusal = { .batch_id = ID,
					      .code = SGPU_EKEY,
					      .text = "none of the keys fits" };

	CHECK(write_and_read(&refusal) == 0);
	CHECK(!strcmp(got.batch_id, ID) && got.code == SGPU_EKEY &&
	      !strcmp(got.text, refusal.text));
	refusal.batch_id[0] = '\0';
	refusal.code = SGPU_EPOLICY;
	memset(refusal.text, '\001', sizeof(refusal.text) - 1); /* the longest there is, escaped */
	CHECK(write_and_read(&refusal) == 0);
	CHECK(!*got.batch_id && got.code == SGPU_EPOLICY && !strcmp(got.text, refusal.text));
}

UNIT_TEST(one_text_is_a_refusal_and_all_others_are_none)
{
	static const char *const bad[] = {
		"",
		"{",
		"[]",
		"{}",
		"null",
		REFUSAL("", "OK", "x"),
		REFUSAL("", "EINVALID", "x"),
		REFUSAL("", "ESYSTEM", "x"),
		REFUSAL("", "ENOINPUT", "x"),
		REFUSAL("", "EWHAT", "x"),
		REFUSAL("", "EKEY", "x\\u0000y"),
		REFUSAL("", "EKEY", "\xff"),
		REFUSAL("", "EKEY", "x") "\n",
		REFUSAL("\"batch_id\":\"" ID "A\",", "EKEY", "x"),
		REFUSAL("\"batch_id\":\"\",", "EKEY", "x"),
		REFUSAL("\"batch_id\":1,", "EKEY", "x"),
		REFUSAL("\"code\":\"EAUTH\",", "EKEY", "x"),
		REFUSAL("\"mac\":\"x\",", "EKEY", "x"),
		"{\"code\":\"EKEY\",\"text\":\"x\"}",
		"{\"code\":\"EKEY\",\"version\":2}",
		"{\"code\":\"EKEY\",\"text\":\"x\",\"version\":1}",
		"{\"text\":\"x\",\"code\":\"EKEY\",\"version\":2}",
	};
	static const char good[] = REFUSAL("\"batch_id\":\"" ID "\",", "EAUTH", "x");
	static char deep[2048];

	CHECK(read_text(good, sizeof(good) - 1) == 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const int code = read_text(bad[i], strlen(bad[i]));

		CHECK(code == SGPU_EINVALID);
		if (code != SGPU_EINVALID) {
			fprintf(stderr, "taken: %s\n", bad[i]);
		}
	}
	memset(deep, '[', sizeof(deep));
	CHECK(read_text(deep, sizeof(deep)) == SGPU_EINVALID);
}

UNIT_TEST(a_text_that_is_too_long_is_refused)
{
	static const char head[] = "{\"code\":\"EKEY\",\"text\":\"", tail[] = "\",\"version\":2}";
	char text[8192];

	for (size_t length = SGPU_ERROR_TEXT_MAX - 1; length < 8000;
	     length += length < SGPU_ERROR_TEXT_MAX ? 1 : 3500) {
		const int size =
			snprintf(text, sizeof(text), "%s%0*d%s", head, (int)length, 0, tail);

		CHECK(read_text(text, (size_t)size) ==
		      (length < SGPU_ERROR_TEXT_MAX ? 0 : SGPU_EINVALID));
	}
	CHECK(strstr(error.text, "larger than"));
}

UNIT_TEST(nothing_may_follow)
{
	static const char text[] = REFUSAL("", "EKEY", "x");
	char header[2 * SGPU_TAR_BLOCK];

	for (int variant = 0; variant < 4; variant++) {
		const int fd = memory_file();

		add_member(fd, SGPU_REFUSAL_MEMBER, text, sizeof(text) - 1);
		if (variant == 0) {
			add_member(fd, SGPU_REFUSAL_MEMBER, text, sizeof(text) - 1);
		} else if (variant == 1) {
			add_member(fd, "manifest.json", "{}", 2);
		}
		CHECK(variant == 2 || sgpu_tar_end(fd, "a", &error) == 0); /* 2: cut short */
		CHECK(variant != 3 || sgpu_write(fd, "a", "x", 1, &error) == 0);
		CHECK(read_back(fd) == SGPU_EINVALID);
	}
	/* One that is only said to be large costs nothing. */
	const int fd = memory_file();
	CHECK(put_header(fd, SGPU_REFUSAL_MEMBER, (uint64_t)1 << 40, &error) == 0 &&
	      lseek(fd, 0, SEEK_SET) == 0);
	CHECK(read(fd, header, sizeof(header)) == SGPU_TAR_BLOCK && read_back(fd) == SGPU_EINVALID);
}

UNIT_TEST(it_is_taken_for_nothing_else)
{
	const struct sgpu_batch_refusal refusal = { .code = SGPU_EKEY, .text = "x" };
	struct sgpu_tar_reader *reader = NULL;
	struct sgpu_batch *batch = NULL;

	for (int any = 0; any < 2; any++) {
		const int fd = memory_file();

		CHECK(sgpu_batch_refusal_write(fd, "a", &refusal, &error) == 0 &&
		      lseek(fd, 0, SEEK_SET) == 0);
		CHECK(sgpu_tar_open(fd, "a", &reader, &error) == 0);
		CHECK((any ? sgpu_batch_read(reader, SGPU_READ_EITHER, &batch, &error)
			   : sgpu_batch_read(reader, SGPU_READ_BATCH, &batch, &error)) ==
		      SGPU_EINVALID);
		CHECK(!batch && strstr(error.text, "is a refusal, not a batch"));
		sgpu_tar_close(&reader);
		close(fd);
	}
}

int main(void)
{
	UNIT_RUN(what_is_written_is_read);
	UNIT_RUN(one_text_is_a_refusal_and_all_others_are_none);
	UNIT_RUN(a_text_that_is_too_long_is_refused);
	UNIT_RUN(nothing_may_follow);
	UNIT_RUN(it_is_taken_for_nothing_else);
	return unit_done();
}
