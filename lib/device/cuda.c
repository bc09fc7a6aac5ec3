/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA backend for the program: a shared object, ../lib/sgpu/sgpu-cuda.so relative to the
 * program's folder, loaded on first use.
 */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sgpu/version.h>

#include <device/backend.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int outcome;
static struct sgpu_error reason;
static const struct sgpu_device_backend *loaded;

static int not_there(const char *path, struct sgpu_error *error)
{
#if SGPU_CUDA
	if (!path) {
		sgpu_fail(error, SGPU_EUNAVAILABLE,
			  "cannot find the directory of this program, which has the shared object "
			  "for "
			  "CUDA, without /proc");
		return sgpu_hint(error, "mount /proc, or use the device 'cpu'");
	}
	sgpu_fail(error, SGPU_EUNAVAILABLE, "'%s' is missing", path);
	return sgpu_hint(
		error,
		"use the device 'cpu', or install sgpu with make install, which puts it there");
#else
	(void)path;
	sgpu_fail(error, SGPU_EUNAVAILABLE, "this build has no CUDA device");
	return sgpu_hint(error, "use the device 'cpu', or build sgpu where the CUDA toolkit's nvcc "
				"is (make CUDA=1)");
#endif
}

static const char *fault_of(const char *path)
{
	const char *fault = NULL;
	void *image;
	size_t size;

	if (sgpu_code_file_map(path, &image, &size, NULL) == SGPU_OK) {
		fault = sgpu_elf_fault(image, size);
		munmap(image, size);
	}
	return fault;
}

/* The path is relative to the program, so the object is trusted as the program is. */
static int load(struct sgpu_error *error)
{
	char path[PATH_MAX + 32], folder[PATH_MAX];
	const struct sgpu_cuda_plugin *plugin;
	const char *text;
	void *library;

	if (!sgpu_host_folder(folder)) {
		return not_there(NULL, error);
	}
	snprintf(path, sizeof(path), "%s/../lib/sgpu/sgpu-cuda.so", folder);
	if (access(path, F_OK) != 0) {
		return not_there(path, error);
	}
	text = fault_of(path);
	if (text) {
		sgpu_fail(error, SGPU_EUNAVAILABLE, "its shared object cannot be loaded: '%s' %s",
			  path, text);
		return sgpu_hint(error, "use the device 'cpu', or install sgpu again");
	}
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		text = dlerror();
		sgpu_fail(error, SGPU_EUNAVAILABLE, "its shared object cannot be loaded: %s",
			  text ? text : path);
		return sgpu_hint(error, "use the device 'cpu', or build and install sgpu again");
	}
	plugin = dlsym(library, SGPU_CUDA_PLUGIN_SYMBOL);
	if (!plugin || plugin->abi != SGPU_CUDA_PLUGIN_ABI ||
	    plugin->backend_size != sizeof(struct sgpu_device_backend) ||
	    strcmp(plugin->version, SGPU_VERSION) != 0) {
		sgpu_fail(error, SGPU_EUNAVAILABLE,
			  "'%s' is of another version than this program, %s", path, SGPU_VERSION);
		dlclose(library);
		return sgpu_hint(error,
				 "use the device 'cpu', or install both from the same build");
	}
	loaded = plugin->backend;
	return SGPU_OK;
}

static void load_once(void)
{
	outcome = load(&reason);
}

static int plugin(struct sgpu_error *error)
{
	pthread_once(&once, load_once);
	if (outcome < 0 && error) {
		*error = reason;
	}
	return outcome;
}

int sgpu_cuda_load(const struct sgpu_device_backend **backend, struct sgpu_error *error)
{
	int rc = plugin(error);

	*backend = loaded;
	return rc == SGPU_OK ? loaded->probe(error) : rc;
}

int sgpu_device_parts(struct sgpu_device_part *rows)
{
	struct sgpu_error error = { 0 };
	int count = 0;

	memset(&rows[0], 0, sizeof(rows[0]));
	snprintf(rows[0].name, sizeof(rows[0].name), "plugin");
	rows[0].found = plugin(&error) == SGPU_OK;
	if (rows[0].found) {
		snprintf(rows[0].text, sizeof(rows[0].text), "sgpu-cuda.so of sgpu %s",
			 SGPU_VERSION);
		count = loaded->parts(rows + 1);
	} else {
		snprintf(rows[0].text, sizeof(rows[0].text), "%.*s", (int)sizeof(rows[0].text) - 1,
			 error.text);
		snprintf(rows[0].hint, sizeof(rows[0].hint), "%s", error.hint);
	}
	return count + 1;
}
