/* SPDX-License-Identifier: Apache-2.0
 *
 * Outputs that appear only on success, whole reads and writes.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/io.h>

#include "unit.h"

static char folder[64];

static const char *in_folder(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static int entries(void)
{
	DIR *dir = opendir(folder);
	int count = 0;

	while (dir && readdir(dir)) {
		count++;
	}
	if (dir) {
		closedir(dir);
	}
	return count - 2;
}

static void write_file(const char *name, const char *text, mode_t mode)
{
	int fd = open(in_folder(name), O_WRONLY | O_CREAT | O_TRUNC, mode);

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	fchmod(fd, mode);
	close(fd);
}

static int content_is(const char *name, const char *text)
{
	char *data = NULL;
	size_t size = 0;
	int same = sgpu_read_file(in_folder(name), 1 << 20, &data, &size, NULL) == 0 && size == strlen(text) &&
		   !memcmp(data, text, size);

	free(data);
	return same;
}

UNIT_TEST(nothing_appears_without_a_commit)
{
	struct sgpu_output output;

	REQUIRE(sgpu_output_open(&output, in_folder("a"), 0644, NULL) == 0);
	CHECK(sgpu_write(output.fd, "a", "half", 4, NULL) == 0);
	CHECK(access(in_folder("a"), F_OK) != 0);
	sgpu_output_close(&output);
	CHECK(entries() == 0);
	sgpu_output_close(&output);
}

UNIT_TEST(a_commit_replaces_the_old_file_and_keeps_its_mode)
{
	struct sgpu_output output;
	struct stat status;

	write_file("b", "old", 0640);
	REQUIRE(sgpu_output_open(&output, in_folder("b"), 0644, NULL) == 0);
	CHECK(sgpu_write(output.fd, "b", "new", 3, NULL) == 0);
	CHECK(content_is("b", "old"));
	CHECK(sgpu_output_commit(&output, NULL) == 0);
	CHECK(content_is("b", "new"));
	CHECK(stat(in_folder("b"), &status) == 0 && (status.st_mode & 0777) == 0640);
	REQUIRE(sgpu_output_open(&output, in_folder("b"), 0600, NULL) == 0);
	CHECK(sgpu_output_commit(&output, NULL) == 0);
	CHECK(stat(in_folder("b"), &status) == 0 && (status.st_mode & 0777) == 0600);
	CHECK(entries() == 1);
	unlink(in_folder("b"));
}

UNIT_TEST(a_link_stays_and_its_target_is_replaced)
{
	struct sgpu_output output;
	struct stat status;

	write_file("target", "old", 0644);
	REQUIRE(symlink("target", in_folder("link")) == 0);
	REQUIRE(sgpu_output_open(&output, in_folder("link"), 0644, NULL) == 0);
	CHECK(sgpu_write(output.fd, "link", "new", 3, NULL) == 0);
	CHECK(sgpu_output_commit(&output, NULL) == 0);
	CHECK(lstat(in_folder("link"), &status) == 0 && S_ISLNK(status.st_mode));
	CHECK(content_is("target", "new"));
	unlink(in_folder("link"));
	unlink(in_folder("target"));
}

UNIT_TEST(special_files_are_written_as_they_are)
{
	struct sgpu_output output;
	struct sgpu_error error;

	REQUIRE(sgpu_output_open(&output, "/dev/null", 0644, NULL) == 0);
	CHECK(!output.regular);
	CHECK(sgpu_output_commit(&output, NULL) == 0);
	REQUIRE(sgpu_output_open(&output, "/dev/full", 0644, NULL) == 0);
	CHECK(sgpu_write(output.fd, "/dev/full", "x", 1, &error) == SGPU_ESYSTEM);
	sgpu_output_close(&output);
	CHECK(sgpu_output_open(&output, folder, 0644, &error) == SGPU_ESYSTEM);
	CHECK(strstr(error.text, "folder") != NULL);
	CHECK(sgpu_output_open(&output, in_folder("no/such"), 0644, &error) == SGPU_ESYSTEM);
}

UNIT_TEST(reading_is_bounded)
{
	char *data = NULL;
	size_t size = 0;
	struct sgpu_error error;

	write_file("c", "12345", 0644);
	CHECK(sgpu_read_file(in_folder("c"), 5, &data, &size, NULL) == 0 && size == 5 && data[5] == 0);
	free(data);
	CHECK(sgpu_read_file(in_folder("c"), 4, &data, &size, &error) == SGPU_EINVALID);
	CHECK(sgpu_read_file("/dev/zero", 1 << 20, &data, &size, &error) == SGPU_EINVALID);
	CHECK(sgpu_read_file(in_folder("none"), 4, &data, &size, &error) == SGPU_ESYSTEM);
	unlink(in_folder("c"));
}

UNIT_TEST(pipes_give_short_reads_that_are_joined)
{
	int ends[2];
	char data[8] = "";
	size_t got = 0;

	REQUIRE(pipe(ends) == 0);
	fcntl(ends[0], F_SETFL, O_NONBLOCK); /* as a parent may have left it */
	if (fork() == 0) {
		for (int i = 0; i < 5; i++) {
			usleep(2000);
			(void)!write(ends[1], "x", 1);
		}
		_exit(0);
	}
	close(ends[1]);
	CHECK(sgpu_read(ends[0], "pipe", data, sizeof(data), &got, NULL) == 0);
	CHECK(got == 5 && !memcmp(data, "xxxxx", 5));
	close(ends[0]);
}

int main(void)
{
	snprintf(folder, sizeof(folder), "/tmp/sgpu-test-output-XXXXXX");
	if (!mkdtemp(folder)) {
		return 1;
	}
	UNIT_RUN(nothing_appears_without_a_commit);
	UNIT_RUN(a_commit_replaces_the_old_file_and_keeps_its_mode);
	UNIT_RUN(a_link_stays_and_its_target_is_replaced);
	UNIT_RUN(special_files_are_written_as_they_are);
	UNIT_RUN(reading_is_bounded);
	UNIT_RUN(pipes_give_short_reads_that_are_joined);
	rmdir(folder);
	return unit_done();
}
