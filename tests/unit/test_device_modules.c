/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules of the CPU device: the process that they run in, more of them than it runs at once, and
 * more than this process has descriptors for. The module is a library of the system, which is never
 * started.
 */
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "device/cpu/module_wire.h"
#include "device/device.h"

#include "device_harness.h"

enum { MODULES = 257 };
static struct sgpu_device *device;
static struct sgpu_device_module *modules[MODULES];
static struct sgpu_error error;
static unsigned char image[4 << 20];
static size_t size;

/* Starts the host of the next device: the program of this build that is beside this one. */
static int prepare(void)
{
	char own[PATH_MAX] = "", program[PATH_MAX + 64];

	if (readlink("/proc/self/exe", own, sizeof(own) - 1) < 0) {
		return SGPU_ESYSTEM;
	}
	snprintf(program, sizeof(program), "%s/../test/bin/sgpu-module-host", dirname(own));
	return sgpu_device_prepare_modules(program, 1, &error);
}

/* The smallest library of this process that is a file, but for libnuma, which asks for the
 * machine's nodes when it is loaded: a module may not. */
static int find_library(struct dl_phdr_info *object, size_t info_size, void *argument)
{
	static unsigned char other[sizeof(image)];
	FILE *file = object->dlpi_name && object->dlpi_name[0] == '/'
			     ? fopen(object->dlpi_name, "re")
			     : NULL;
	size_t found;

	(void)info_size;
	(void)argument;
	if (file) {
		found = fread(other, 1, sizeof(other), file);
		if (found < sizeof(other) && (size == 0 || found < size) &&
		    !strstr(object->dlpi_name, "/ld-") && !strstr(object->dlpi_name, "/libnuma")) {
			memcpy(image, other, found);
			size = found;
		}
		fclose(file);
	}
	return 0;
}

static int load(int count)
{
	int rc = SGPU_OK, loaded = 0;

	while (loaded < count &&
	       (rc = sgpu_device_module_load(device, image, size, &modules[loaded], &error)) ==
		       SGPU_OK) {
		loaded++;
	}
	if (rc != SGPU_OK) {
		printf("# module %d: %s\n", loaded + 1, error.text);
	}
	return loaded;
}

static void unload(int count)
{
	for (int i = 0; i < count; i++) {
		sgpu_device_module_free(&modules[i]);
	}
}

UNIT_TEST(a_device_for_which_nothing_was_prepared_says_so)
{
	struct sgpu_module_confinement confinement;

	CPU_ONLY("a GPU runs modules itself");
	dl_iterate_phdr(find_library, NULL);
	device = open_test_device(2, 0);
	CHECK(sgpu_device_module_confinement(device, &confinement, &error) == SGPU_EUNAVAILABLE);
	CHECK(size == 0 || load(1) == 0);
	CHECK(error.code == SGPU_EUNAVAILABLE && strstr(error.text, "was prepared") &&
	      error.hint[0]);
	sgpu_device_close(&device);
}

UNIT_TEST(a_program_that_is_no_host_or_not_there_is_refused)
{
	CPU_ONLY("a GPU runs modules itself");
	CHECK(sgpu_device_prepare_modules("/nonexistent", 1, &error) == SGPU_ESYSTEM &&
	      strstr(error.text, "No such file"));
	CHECK(sgpu_device_prepare_modules("/bin/true", 1, &error) == SGPU_EUNAVAILABLE &&
	      strstr(error.text, "does not start as it should"));
}

/* What modules read and print: of the one child of this thread, where that can be seen. */
static bool host_has_dev_null(void)
{
	FILE *children = fopen("/proc/thread-self/children", "re");
	char path[64], to[16] = "";
	bool right = true;
	int host = 0;

	if (children) {
		(void)!fscanf(children, "%d", &host);
		fclose(children);
	}
	for (int fd = 0; host > 0 && fd < 3; fd++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", host, fd);
		right = right && (readlink(path, to, sizeof(to)) < 0 ||
				  strncmp(to, "/dev/null", sizeof(to)) == 0);
	}
	return right;
}

/* The lowest ones are those that the host takes for itself. */
UNIT_TEST(the_host_starts_whichever_descriptors_are_free)
{
	struct sgpu_module_confinement confinement = { .process = 0 };
	int saved[4], rc;

	CPU_ONLY("a GPU runs modules itself");
	fflush(stdout);
	for (int free = 0; free < 16; free++) {
		for (int fd = 0; fd < 4; fd++) {
			saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 100);
			if (free >> fd & 1) {
				close(fd);
			}
		}
		rc = prepare();
		for (int fd = 0; fd < 4; fd++) {
			if (saved[fd] >= 0) {
				dup2(saved[fd], fd);
				close(saved[fd]);
			}
		}
		CHECK(rc == SGPU_OK);
		device = open_test_device(1, 0);
		CHECK(sgpu_device_module_confinement(device, &confinement, &error) == SGPU_OK);
		CHECK(confinement.process && host_has_dev_null());
		sgpu_device_close(&device); /* which waits for the host's end */
	}
}

UNIT_TEST(one_module_more_than_run_at_once_is_refused)
{
	struct rlimit limit;
	int loaded;

	CPU_ONLY("a GPU runs modules itself");
	if (size == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < 1024) {
		SKIP("no library to load, or too few descriptors");
	}
	REQUIRE(prepare() == SGPU_OK);
	device = open_test_device(2, 0);
	loaded = load(MODULES);
	CHECK(loaded == MODULES - 1 && error.code == SGPU_EUNAVAILABLE && !modules[loaded]);
	CHECK(strstr(error.text, "256 modules at once") && error.hint[0]);
	unload(1);
	while (sgpu_device_module_load(device, image, size, &modules[0], &error) ==
	       SGPU_EUNAVAILABLE) {
	}
	CHECK(modules[0] != NULL);
	unload(loaded);
	sgpu_device_close(&device);
}

UNIT_TEST(a_function_whose_name_does_not_fit_is_refused)
{
	const struct sgpu_module_shape shape = { .grid = { 1, 1, 1 }, .block = { 1, 1, 1 } };
	struct sgpu_stream *stream = NULL;
	struct sgpu_task task = { 0 };
	char name[SGPU_HOST_FUNCTION + 1] = "";

	CPU_ONLY("a GPU's driver says what fits");
	if (size == 0) {
		SKIP("no library to load");
	}
	memset(name, 'f', sizeof(name) - 1);
	REQUIRE(prepare() == SGPU_OK);
	device = open_test_device(2, 0);
	REQUIRE(load(1) == 1 && sgpu_stream_create(device, &stream, &error) == SGPU_OK);
	CHECK(sgpu_device_module_launch_on(stream, modules[0], name, &shape, NULL, NULL, 0, NULL,
					   &task) == SGPU_EINVALID);
	CHECK(strstr(task.error.text, "name of a function is too long"));
	sgpu_stream_free(&stream);
	unload(1);
	sgpu_device_close(&device);
}

static int lowest_free(void)
{
	const int fd = dup(STDOUT_FILENO);

	close(fd);
	return fd;
}

UNIT_TEST(a_module_without_descriptors_is_refused_and_the_next_one_loads)
{
	struct rlimit before, few;
	int loaded, most, free;

	CPU_ONLY("a GPU runs modules itself");
	if (size == 0) {
		SKIP("no library to load");
	}
	REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0 && prepare() == SGPU_OK);
	device = open_test_device(2, 0);
	free = lowest_free();
	/* Each of the three that a module takes is the one that is missing. */
	for (most = 30; most < 33; most++) {
		few = (struct rlimit){ (rlim_t)most, before.rlim_max };
		CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
		loaded = load(MODULES);
		CHECK(loaded > 0 && loaded < 12 && error.code == SGPU_ESYSTEM &&
		      strstr(error.text, "Too many open files"));
		CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
		CHECK(sgpu_device_module_load(device, image, size, &modules[loaded], &error) ==
		      SGPU_OK);
		unload(loaded + 1);
		CHECK(lowest_free() == free);
	}
	sgpu_device_close(&device);
}

/* As a user of its own, since tests beside this one send descriptors, too. */
UNIT_TEST(what_other_programs_of_the_user_send_ends_no_host_and_no_launch_is_waited_for)
{
	const struct sgpu_module_shape shape = { .grid = { 1, 1, 1 }, .block = { 1, 1, 1 } };
	const int many[SGPU_DESCRIPTORS_MAX] = { 0 };
	struct sgpu_stream *stream = NULL;
	struct sgpu_task task = { 0 };
	struct rlimit limit;
	int sockets[2], status = -1;
	pid_t child;

	CPU_ONLY("a GPU runs modules itself");
	if (geteuid() != 0 || size == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
	    limit.rlim_max < 4096) {
		SKIP("needs root, a library to load, and descriptors");
	}
	fflush(stdout);
	child = fork();
	if (child == 0) {
		if (setresuid(61009, 61009, 61009) != 0 || prepare() != SGPU_OK) {
			_exit(77);
		}
		device = open_test_device(2, 0);
		for (int i = 0; i < 500; i++) {
			CHECK(i % 5 > 0 || socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) == 0);
			CHECK(sgpu_send_descriptors(sockets[0], "", 1, many, SGPU_DESCRIPTORS_MAX,
						    0));
		}
		CHECK(load(1) == 1);
		limit.rlim_cur = 1000; /* fewer than are on their way */
		CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0 &&
		      sgpu_stream_create(device, &stream, &error) == SGPU_OK);
		CHECK(sgpu_device_module_launch_on(stream, modules[0], "f", &shape, NULL, NULL, 0,
						   NULL, &task) == SGPU_OK);
		CHECK(sgpu_stream_sync(stream, &error) == SGPU_OK && task.code == SGPU_EDEVICE &&
		      strstr(task.error.text, "takes no launch: Too many references"));
		fflush(stdout);
		_exit(unit_bad ? 1 : 0);
	}
	REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		SKIP("another user cannot start the host");
	}
	CHECK(WEXITSTATUS(status) == 0);
}

int main(void)
{
	DEVICE_OR_SKIP();
	UNIT_RUN(a_device_for_which_nothing_was_prepared_says_so);
	UNIT_RUN(a_program_that_is_no_host_or_not_there_is_refused);
	UNIT_RUN(the_host_starts_whichever_descriptors_are_free);
	UNIT_RUN(one_module_more_than_run_at_once_is_refused);
	UNIT_RUN(a_function_whose_name_does_not_fit_is_refused);
	UNIT_RUN(a_module_without_descriptors_is_refused_and_the_next_one_loads);
	UNIT_RUN(what_other_programs_of_the_user_send_ends_no_host_and_no_launch_is_waited_for);
	return unit_done();
}
