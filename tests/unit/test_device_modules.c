/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules of the CPU device in numbers: more than it runs at once, and more than this process has
 * descriptors for. The module is a library of the system, which is never started.
 */
#include <link.h>
#include <stdio.h>
#include <sys/resource.h>

#include <sgpu/device.h>

#include "device_harness.h"

enum { MODULES = 257 };
static struct sgpu_device *device;
static struct sgpu_device_module *modules[MODULES];
static struct sgpu_error error;
static unsigned char image[4 << 20];
static size_t size;

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

UNIT_TEST(one_module_more_than_run_at_once_is_refused)
{
	struct rlimit limit;
	int loaded;

	CPU_ONLY("a GPU runs modules itself");
	dl_iterate_phdr(find_library, NULL);
	if (size == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < 1024) {
		SKIP("no library to load, or too few descriptors");
	}
	device = open_test_device(2, 0);
	loaded = load(MODULES);
	if (loaded == 0 && error.code == SGPU_EUNAVAILABLE) {
		sgpu_device_close(&device);
		size = 0;
		SKIP("memory files may not be executed here");
	}
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

UNIT_TEST(a_module_without_descriptors_is_refused_and_the_next_one_loads)
{
	struct rlimit before, few;
	int loaded, most;

	CPU_ONLY("a GPU runs modules itself");
	if (size == 0) {
		SKIP("no library to load");
	}
	REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
	device = open_test_device(2, 0);
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
	}
	sgpu_device_close(&device);
}

int main(void)
{
	DEVICE_OR_SKIP();
	UNIT_RUN(one_module_more_than_run_at_once_is_refused);
	UNIT_RUN(a_module_without_descriptors_is_refused_and_the_next_one_loads);
	return unit_done();
}
