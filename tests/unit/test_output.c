/* SPDX-License-Identifier: Apache-2.0
 *
 * Outputs that appear only on success, whole reads and writes.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
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

static void remove_tree(const char *name)
{
	char command[320];

	snprintf(command, sizeof(command), "rm -rf '%s'", in_folder(name));
	CHECK(system(command) == 0);
}

static int content_is(const char *name, const char *text)
{
	char *data = NULL;
	size_t size = 0;
	int same = sgpu_read_file(in_folder(name), NULL, 1 << 20, &data, &size, NULL) == 0 &&
		   size == strlen(text) && !memcmp(data, text, size);

	free(data);
	return same;
}

UNIT_TEST(nothing_appears_without_a_commit)
{
	struct sgpu_output output;

	REQUIRE(sgpu_output_open(&output, in_folder("a"), 0644, false, NULL) == 0);
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
	REQUIRE(sgpu_output_open(&output, in_folder("b"), 0644, false, NULL) == 0);
	CHECK(sgpu_write(output.fd, "b", "new", 3, NULL) == 0);
	CHECK(content_is("b", "old"));
	CHECK(sgpu_output_commit(&output, NULL) == 0);
	CHECK(content_is("b", "new"));
	CHECK(stat(in_folder("b"), &status) == 0 && (status.st_mode & 0777) == 0640);
	REQUIRE(sgpu_output_open(&output, in_folder("b"), 0600, false, NULL) == 0);
	CHECK(sgpu_output_commit(&output, NULL) == 0);
	CHECK(stat(in_folder("b"), &status) == 0 && (status.st_mode & 0777) == 0600);
	CHECK(entries() == 1);
	unlink(in_folder("b"));
}

/* As another user where that can be had: 0, or what `body` counted. */
static int as_another_user(int (*body)(void))
{
	const pid_t child = fork();
	int status = 0;

	if (child == 0) {
		_exit(setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534) ? 99
										       : body());
	}
	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

static int plant(void)
{
	const int fd = open(in_folder("shared/file"), O_WRONLY | O_CREAT | O_EXCL, 0666);

	umask(0);
	return fd < 0 || fchmod(fd, 0666) || symlink("target", in_folder("shared/link")) ||
	       symlink("..", in_folder("shared/up")) || mkfifo(in_folder("shared/pipe"), 0666) ||
	       mkdir(in_folder("shared/folder"), 0777) || mkfifo(in_folder("open/pipe"), 0666) ||
	       symlink("elsewhere", in_folder("open/link"));
}

static int refused(const char *name)
{
	struct sgpu_output output;
	struct sgpu_error error = { 0 };
	const int code = sgpu_output_open(&output, in_folder(name), 0600, false, &error);

	if (code != SGPU_EPOLICY) {
		printf("# '%s': %d, %s\n", name, code, error.text);
	}
	sgpu_output_close(&output);
	return code == SGPU_EPOLICY;
}

UNIT_TEST(what_another_user_planted_is_refused)
{
	static const char *const planted[] = { "shared/file", "shared/link",	 "shared/up/x",
					       "shared/pipe", "shared/folder/x", "open/pipe",
					       "open/link" };

	if (geteuid() != 0) {
		return; /* only root can be two users */
	}
	REQUIRE(mkdir(in_folder("shared"), 0777) == 0 && chmod(in_folder("shared"), 01777) == 0);
	REQUIRE(mkdir(in_folder("open"), 0755) == 0 && chown(in_folder("open"), 65534, 65534) == 0);
	REQUIRE(chmod(folder, 0755) == 0);
	REQUIRE(as_another_user(plant) == 0);
	for (size_t i = 0; i < sizeof(planted) / sizeof(*planted); i++) {
		CHECK(refused(planted[i]));
	}
	CHECK(access(in_folder("shared/target"), F_OK) != 0 &&
	      access(in_folder("open/elsewhere"), F_OK) != 0);
	/* Nor is a link followed that is the user's own, but lies where others could have moved it.
	 */
	REQUIRE(symlink("target", in_folder("shared/own")) == 0);
	CHECK(refused("shared/own"));
	remove_tree("shared");
	remove_tree("open");
}

UNIT_TEST(a_file_of_another_user_does_not_choose_the_mode)
{
	struct sgpu_output output;
	struct stat status;

	write_file("theirs", "old", 0666);
	if (geteuid() != 0 || chown(in_folder("theirs"), 65534, 65534)) {
		unlink(in_folder("theirs"));
		return;
	}
	umask(022);
	REQUIRE(sgpu_output_open(&output, in_folder("theirs"), 0644, false, NULL) == 0);
	CHECK(sgpu_output_commit(&output, NULL) == 0);
	CHECK(stat(in_folder("theirs"), &status) == 0 && (status.st_mode & 0777) == 0644 &&
	      status.st_uid == 0);
	unlink(in_folder("theirs"));
}

UNIT_TEST(missing_folders_are_made_and_go_with_what_failed)
{
	struct sgpu_output output;
	struct stat status;

	REQUIRE(sgpu_output_open(&output, in_folder("x/y/z"), 0600, false, NULL) == 0);
	CHECK(stat(in_folder("x/y"), &status) == 0 && (status.st_mode & 0777) == 0700);
	sgpu_output_close(&output);
	CHECK(entries() == 0);
	REQUIRE(sgpu_output_open(&output, in_folder("x/y/z"), 0600, false, NULL) == 0);
	CHECK(sgpu_output_commit(&output, NULL) == 0);
	CHECK(access(in_folder("x/y/z"), F_OK) == 0);
	remove_tree("x");
}

UNIT_TEST(a_new_file_never_replaces_one)
{
	struct sgpu_output output;
	struct sgpu_error error;

	write_file("n", "old", 0644);
	CHECK(sgpu_output_open(&output, in_folder("n"), 0644, true, &error) == SGPU_ESYSTEM);
	CHECK(strstr(error.text, "exists") != NULL);
	unlink(in_folder("n"));
	REQUIRE(sgpu_output_open(&output, in_folder("n"), 0644, true, NULL) == 0);
	write_file("n", "meanwhile", 0644);
	CHECK(sgpu_output_commit(&output, &error) == SGPU_ESYSTEM);
	sgpu_output_close(&output);
	CHECK(content_is("n", "meanwhile"));
	CHECK(entries() == 1);
	unlink(in_folder("n"));
}

/* The folder that was walked to is the one that is written to, whatever its path names later. */
UNIT_TEST(a_folder_that_is_swapped_changes_nothing)
{
	struct sgpu_output output;
	char moved[256];

	REQUIRE(mkdir(in_folder("real"), 0700) == 0 && mkdir(in_folder("trap"), 0700) == 0);
	REQUIRE(sgpu_output_open(&output, in_folder("real/f"), 0600, false, NULL) == 0);
	snprintf(moved, sizeof(moved), "%s/moved", folder);
	REQUIRE(rename(in_folder("real"), moved) == 0 && symlink("trap", in_folder("real")) == 0);
	CHECK(sgpu_output_commit(&output, NULL) == 0);
	CHECK(access(in_folder("moved/f"), F_OK) == 0);
	CHECK(access(in_folder("trap/f"), F_OK) != 0);
	unlink(in_folder("real"));
	remove_tree("moved");
	remove_tree("trap");
}

UNIT_TEST(a_link_that_takes_the_place_meanwhile_is_replaced_and_not_followed)
{
	struct sgpu_output output;
	struct stat status;

	write_file("victim", "mine", 0644);
	write_file("f", "old", 0644);
	REQUIRE(sgpu_output_open(&output, in_folder("f"), 0600, false, NULL) == 0);
	unlink(in_folder("f"));
	REQUIRE(symlink("victim", in_folder("f")) == 0);
	CHECK(sgpu_output_commit(&output, NULL) == 0);
	CHECK(content_is("victim", "mine"));
	CHECK(lstat(in_folder("f"), &status) == 0 && S_ISREG(status.st_mode));
	unlink(in_folder("f"));
	unlink(in_folder("victim"));
}

UNIT_TEST(a_temporary_name_is_collected_unless_a_process_holds_it)
{
	struct sgpu_output output;
	const int held = open(in_folder(".sgpu-1"), O_RDWR | O_CREAT, 0600);

	REQUIRE(held >= 0 && flock(held, LOCK_EX) == 0);
	write_file(".sgpu-0", "left", 0600);
	REQUIRE(sgpu_output_open(&output, in_folder("f"), 0600, false, NULL) == 0);
	sgpu_output_close(&output);
	CHECK(access(in_folder(".sgpu-0"), F_OK) != 0);
	CHECK(access(in_folder(".sgpu-1"), F_OK) == 0);
	close(held);
	unlink(in_folder(".sgpu-1"));
	/* So no output has such a name, nor one behind a link. */
	const int root = open(folder, O_PATH | O_DIRECTORY);
	REQUIRE(root >= 0 && symlink(".sgpu-2", in_folder("link")) == 0);
	CHECK(sgpu_output_open(&output, in_folder("link"), 0600, false, NULL) == SGPU_ESYSTEM);
	CHECK(sgpu_output_open(&output, in_folder("new/.sgpu-"), 0600, true, NULL) == SGPU_ESYSTEM);
	CHECK(sgpu_output_open_beneath(&output, root, ".sgpu-0", "", 0600, true, NULL) ==
	      SGPU_ESYSTEM);
	close(root);
	unlink(in_folder("link"));
	CHECK(entries() == 0);
}

UNIT_TEST(an_output_beneath_no_directory_is_not_one_of_the_working_directory)
{
	struct sgpu_output output;
	struct sgpu_error error;
	const int here = open(".", O_PATH | O_DIRECTORY);

	REQUIRE(here >= 0 && chdir(folder) == 0);
	CHECK(sgpu_output_open_beneath(&output, -1, "f", "", 0600, true, &error) == SGPU_ESYSTEM);
	CHECK(strstr(error.text, "cannot open the directory") != NULL);
	sgpu_output_close(&output);
	CHECK(entries() == 0);
	REQUIRE(fchdir(here) == 0);
	close(here);
}

UNIT_TEST(dev_stdout_is_the_descriptor)
{
	struct sgpu_output output;
	char path[64];
	int ends[2];
	char byte = 0;

	REQUIRE(pipe(ends) == 0);
	snprintf(path, sizeof(path), "/dev/fd/%d", ends[1]);
	REQUIRE(sgpu_output_open(&output, path, 0600, false, NULL) == 0);
	CHECK(!output.regular);
	CHECK(sgpu_write(output.fd, path, "x", 1, NULL) == 0);
	CHECK(sgpu_output_commit(&output, NULL) == 0);
	CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x');
	snprintf(path, sizeof(path), "/dev/fd/%d", ends[0]);
	CHECK(sgpu_output_open(&output, path, 0600, false, NULL) == SGPU_ESYSTEM);
	close(ends[0]);
	close(ends[1]);
}

UNIT_TEST(special_files_are_written_as_they_are)
{
	struct sgpu_output output;
	struct sgpu_error error;

	REQUIRE(sgpu_output_open(&output, "/dev/null", 0644, false, NULL) == 0);
	CHECK(!output.regular);
	CHECK(sgpu_output_commit(&output, NULL) == 0);
	REQUIRE(sgpu_output_open(&output, "/dev/full", 0644, false, NULL) == 0);
	CHECK(sgpu_write(output.fd, "/dev/full", "x", 1, &error) == SGPU_ENOSPACE);
	sgpu_output_close(&output);
	CHECK(sgpu_output_open(&output, folder, 0644, false, &error) == SGPU_ESYSTEM);
	CHECK(strstr(error.text, "directory") != NULL);
	CHECK(sgpu_output_open(&output, "/proc/no/such", 0644, false, &error) == SGPU_ESYSTEM);
	CHECK(sgpu_output_open(&output, in_folder("folder/"), 0644, false, &error) == SGPU_ESYSTEM);
}

UNIT_TEST(reading_is_bounded)
{
	char *data = NULL;
	size_t size = 0;
	struct sgpu_error error;

	write_file("c", "12345", 0644);
	CHECK(sgpu_read_file(in_folder("c"), NULL, 5, &data, &size, NULL) == 0 && size == 5 &&
	      data[5] == 0);
	free(data);
	CHECK(sgpu_read_file(in_folder("c"), NULL, 4, &data, &size, &error) == SGPU_EINVALID);
	CHECK(sgpu_read_file("/dev/zero", NULL, 1 << 20, &data, &size, &error) == SGPU_EINVALID);
	CHECK(sgpu_read_file(in_folder("none"), NULL, 4, &data, &size, &error) == SGPU_ESYSTEM);
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
	UNIT_RUN(what_another_user_planted_is_refused);
	UNIT_RUN(a_file_of_another_user_does_not_choose_the_mode);
	UNIT_RUN(missing_folders_are_made_and_go_with_what_failed);
	UNIT_RUN(a_new_file_never_replaces_one);
	UNIT_RUN(a_folder_that_is_swapped_changes_nothing);
	UNIT_RUN(a_link_that_takes_the_place_meanwhile_is_replaced_and_not_followed);
	UNIT_RUN(a_temporary_name_is_collected_unless_a_process_holds_it);
	UNIT_RUN(an_output_beneath_no_directory_is_not_one_of_the_working_directory);
	UNIT_RUN(dev_stdout_is_the_descriptor);
	UNIT_RUN(special_files_are_written_as_they_are);
	UNIT_RUN(reading_is_bounded);
	UNIT_RUN(pipes_give_short_reads_that_are_joined);
	rmdir(folder);
	return unit_done();
}
