/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker: it is confined, loads one module, and runs its functions on the memory that the device
 * passes. Once the module is loaded, it may control everything in this process.
 */
#include "host.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "../sgpu-enclave/harden.h"

/* Of the trial's exit status; the others are the version of Landlock. */
enum { TRIAL_FILTERED = 0x80 };

void worker_try(struct sgpu_module_confinement *confinement)
{
	const pid_t child = fork();
	int status = 0;

	if (child == 0) {
		status = landlock_read_only(root_paths, NULL);
		_exit(status | (harden_filter_module() >= 0 ? TRIAL_FILTERED : 0));
	}
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
	}
	confinement->landlock = WEXITSTATUS(status) & (TRIAL_FILTERED - 1);
	confinement->seccomp = (WEXITSTATUS(status) & TRIAL_FILTERED) != 0;
}

/* Ends the process if Landlock, which the host has reported, fails now. Returns whether there is a
 * filter. */
static bool confine(const char *image, int landlock)
{
	int listener;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (landlock_read_only(root_paths, image) < landlock) {
		_exit(1);
	}
	listener = harden_filter_module();
	if (!sgpu_host_send(WORKER_HANDOFF, "", 1, listener)) {
		_exit(1);
	}
	close(listener);
	close(WORKER_HANDOFF);
	return listener >= 0;
}

/* ---- the module ---- */
static void say(uint32_t kind, int rc, const char *text)
{
	struct sgpu_host_answer answer = { .kind = kind, .code = rc, .call = -1 };

	snprintf(answer.text, sizeof(answer.text), "%s", text ? text : "");
	if (write(WORKER_CHANNEL, &answer, sizeof(answer)) != (ssize_t)sizeof(answer)) {
		_exit(1);
	}
}

/* Finds the module's own functions. dlsym() alone would also find its libraries'. */
static sgpu_module_fn find_function(void *handle, const char *name)
{
	void *address = dlsym(handle, name);
	const struct link_map *own = NULL, *map = NULL;
	const ElfW(Sym) *symbol = NULL;
	sgpu_module_fn function;
	Dl_info info;

	if (!address || dlinfo(handle, RTLD_DI_LINKMAP, &own) != 0 ||
	    !dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) || map != own ||
	    !dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol ||
	    ELF64_ST_TYPE(symbol->st_info) != STT_FUNC) {
		return NULL;
	}
	memcpy(&function, &address, sizeof(function));
	return function;
}

/* The device wrote the launch to the head of `memory`. A module's thread that changes it harms only
 * itself. */
static void run_function(void *handle, char *memory)
{
	static struct sgpu_host_launch launch;
	static union {
		uint8_t bytes[SGPU_HOST_VALUE];
		char *pointer;
	} values[SGPU_HOST_ARGUMENTS];
	static void *arguments[SGPU_HOST_ARGUMENTS];
	sgpu_module_fn function;

	memcpy(&launch, memory, sizeof(launch));
	launch.function[sizeof(launch.function) - 1] = '\0';
	function = find_function(handle, launch.function);
	if (!function || launch.argument_count > SGPU_HOST_ARGUMENTS) {
		say(SGPU_HOST_NO_FUNCTION, 0, NULL);
		return;
	}
	for (uint32_t i = 0; i < launch.argument_count; i++) {
		memcpy(values[i].bytes, launch.arguments[i].value, sizeof(values[i].bytes));
		if (launch.arguments[i].points) {
			values[i].pointer = memory + launch.arguments[i].at;
		}
		arguments[i] = &values[i];
	}
	say(SGPU_HOST_RAN, function(&launch.shape, arguments, (int)launch.argument_count), NULL);
}

static void serve(void *handle)
{
	struct sgpu_host_call call;
	char *memory;
	int fd;

	while (sgpu_host_receive(WORKER_CHANNEL, &call, sizeof(call), &fd, 1) && fd >= 0 &&
	       call.size >= sizeof(struct sgpu_host_launch)) {
		memory = mmap(NULL, call.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(fd);
		if (memory == MAP_FAILED) {
			_exit(1);
		}
		run_function(handle, memory);
		munmap(memory, call.size);
	}
}

void worker_run(const char *path, int landlock)
{
	const bool filtered = confine(path, landlock);
	char descriptor[32];
	const char *why;
	void *handle;

	snprintf(descriptor, sizeof(descriptor), "/proc/self/fd/%d", WORKER_IMAGE);
	path = path ? path : descriptor;
	/* The module's functions are its own even if this program's libraries have the names. */
	handle = filtered ? dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND) : NULL;
	/* Constructors could make only the loader's and the listed calls. */
	if (filtered && prctl(HOST_ALL_LOADED, 0, 0, 0, 0) != 0) {
		_exit(1);
	}
	why = handle ? NULL : filtered ? dlerror() : "the kernel gives no listener of its calls";
	say(SGPU_HOST_LOADED, handle ? 0 : 1, why);
	serve(handle); /* which waits for the channel's end if nothing is loaded */
	_exit(0);
}
