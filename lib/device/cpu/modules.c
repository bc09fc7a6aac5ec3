/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules of the CPU device: ELF shared objects, loaded from a sealed memory file, so that no file system sees them and
 * nobody changes them between the check and the load. They are native code in this process.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sgpu/io.h>

#include <device/cpu/cpu.h>
#include <device/elf.h>

/* Of kernels from 6.3 on, where memory files may else not be executable. */
#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

enum { VALUE_ALIGN = 16, PATH_SIZE = 64 };

struct sgpu_device_module {
	struct sgpu_device_object object;
	void *handle;
	int fd; /* open for as long as it is loaded: the loader tells modules apart by their paths, which name it */
};

/* A launch under way; values, pointers to them and all in one block. */
struct module_launch {
	sgpu_module_fn function;
	struct sgpu_module_shape shape;
	int arg_count;
	void **args;
};

/* ---- loading ---- */
static int memory_file(void)
{
	int fd = memfd_create("sgpu-module", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);

	return fd < 0 && errno == EINVAL ? memfd_create("sgpu-module", MFD_CLOEXEC | MFD_ALLOW_SEALING) : fd;
}

static int write_image(const void *image, size_t size, int *fd, struct sgpu_error *error)
{
	int code;

	*fd = memory_file();
	if (*fd < 0) {
		return sgpu_fail_errno(error, "cannot make a memory file for a module");
	}
	code = sgpu_write(*fd, "memory file", image, size, error);
	if (code == SGPU_OK &&
	    fcntl(*fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
		code = sgpu_fail_errno(error, "cannot seal the memory file of a module");
	}
	return code;
}

int sgpu_cpu_module_load(struct sgpu_device *device, const void *image, size_t size,
			 struct sgpu_device_module **module, struct sgpu_error *error)
{
	struct sgpu_device_module *new;
	char path[PATH_SIZE];
	const char *why;
	int code;

	if (!sgpu_elf_is_shared(image, size)) {
		sgpu_fail(error, SGPU_EINVALID, "the module is not an ELF shared object");
		return sgpu_hint(error, "on the CPU device a module is what 'cc -shared -fPIC' makes");
	}
	if (!sgpu_elf_is_native(image)) {
		return sgpu_fail(error, SGPU_EINVALID, "the module is an ELF shared object for another processor");
	}
	if (!sgpu_elf_is_whole(image, size)) {
		return sgpu_fail(error, SGPU_EINVALID, "the module is an ELF shared object that was cut short");
	}
	new = calloc(1, sizeof(*new));
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	new->object.backend = device->object.backend;
	code = write_image(image, size, &new->fd, error);
	if (code == SGPU_OK) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", new->fd);
		new->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (!new->handle) {
			why = dlerror();
			code = sgpu_fail(error, SGPU_EINVALID, "the module cannot be loaded: %s", why ? why : "");
		}
	}
	if (code != SGPU_OK) {
		if (new->fd >= 0) {
			close(new->fd);
		}
		free(new);
		return code;
	}
	*module = new;
	return SGPU_OK;
}

/* One that stays loaded, which it can ask for, keeps its descriptor, so that no other gets its path. */
void sgpu_cpu_module_free(struct sgpu_device_module *module)
{
	char path[PATH_SIZE];
	void *left;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", module->fd);
	dlclose(module->handle);
	left = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	if (left) {
		dlclose(left);
	} else {
		close(module->fd);
	}
	free(module);
}

/* ---- launching ---- */
/* A function of the module itself; the look-up would also find those of the libraries that it uses. */
static sgpu_module_fn find_function(const struct sgpu_device_module *module, const char *name)
{
	void *address = dlsym(module->handle, name);
	const struct link_map *own = NULL, *map = NULL;
	const ElfW(Sym) *symbol = NULL;
	sgpu_module_fn function;
	Dl_info info;

	if (!address || dlinfo(module->handle, RTLD_DI_LINKMAP, &own) != 0 ||
	    !dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) || map != own ||
	    !dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol ||
	    ELF64_ST_TYPE(symbol->st_info) != STT_FUNC) {
		return NULL;
	}
	memcpy(&function, &address, sizeof(function));
	return function;
}

static int run_function(struct sgpu_launch *launch, void *argument)
{
	const struct module_launch *l = argument;
	int code = l->function(&l->shape, l->args, l->arg_count);

	return code == 0 ? SGPU_OK : sgpu_fail(launch->error, SGPU_EDEVICE, "the function returned %d", code);
}

/* Values behind the pointers to them, each at a multiple of VALUE_ALIGN. NULL when memory is out. */
static struct module_launch *copy_arguments(void *const *args, const size_t *sizes, int count)
{
	size_t head = (sizeof(struct module_launch) + (size_t)count * sizeof(void *) + VALUE_ALIGN - 1) / VALUE_ALIGN *
		      VALUE_ALIGN;
	size_t total = head;
	struct module_launch *l;
	char *value;

	for (int i = 0; i < count; i++) {
		total += (sizes[i] + VALUE_ALIGN - 1) / VALUE_ALIGN * VALUE_ALIGN;
	}
	l = calloc(1, total);
	if (!l) {
		return NULL;
	}
	l->args = (void **)(l + 1);
	l->arg_count = count;
	value = (char *)l + head;
	for (int i = 0; i < count; i++) {
		l->args[i] = memcpy(value, args[i], sizes[i]);
		value += (sizes[i] + VALUE_ALIGN - 1) / VALUE_ALIGN * VALUE_ALIGN;
	}
	return l;
}

/* The launch is freed by an item of its own behind it, which comes even when the first is not run. */
static int enqueue(struct sgpu_stream *stream, struct module_launch *l, struct sgpu_task *task)
{
	struct sgpu_cpu_item run = { .kind = SGPU_CPU_LAUNCH, .task = task, .function.launch = run_function,
				     .argument = l };
	struct sgpu_cpu_item end = { .kind = SGPU_CPU_CALL, .function.call = free, .argument = l };
	int code = sgpu_cpu_enqueue(stream, &run);

	if (code != SGPU_OK) {
		free(l);
		return code;
	}
	if (sgpu_cpu_enqueue(stream, &end) != SGPU_OK) {
		code = sgpu_cpu_stream_sync(stream, NULL);
		free(l);
	}
	return code;
}

static int refuse(struct sgpu_task *task, int code, const char *function)
{
	if (task && code == SGPU_ENOMEM) {
		task->code = sgpu_fail_nomem(&task->error);
	} else if (task) {
		task->code = sgpu_fail(&task->error, code, "the module has no function '%s'", function);
	}
	return code;
}

int sgpu_cpu_module_launch(struct sgpu_stream *stream, struct sgpu_device_module *module, const char *function,
			   const struct sgpu_module_shape *shape, void *const *args, const size_t *arg_sizes,
			   int arg_count, struct sgpu_task *task)
{
	sgpu_module_fn found = find_function(module, function);
	struct module_launch *l;

	if (!found) {
		return refuse(task, SGPU_EINVALID, function);
	}
	l = copy_arguments(args, arg_sizes, arg_count);
	if (!l) {
		return refuse(task, SGPU_ENOMEM, function);
	}
	l->function = found;
	l->shape = *shape;
	return enqueue(stream, l, task);
}
