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
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- confinement ---- */
/* Confines the worker, and tells the host. Continues without Landlock, since the host has reported
 * that at its start, and the device decides. False: there is no filter. */
static bool confine(const struct worker_start *start, int *listener)
{
	uint8_t landlock;
	bool filtered;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	landlock = (uint8_t)root_landlock(start->in_root ? start->path : NULL);
	filtered = filter_install(start->channel, start->handoff, listener);
	if (!sgpu_host_send(start->handoff, &landlock, sizeof(landlock), *listener)) {
		_exit(1);
	}
	return filtered;
}

/* ---- the module ---- */
static void say(int channel, uint32_t kind, int rc, const char *text)
{
	struct sgpu_host_answer answer;

	memset(&answer, 0, sizeof(answer));
	answer.kind = kind;
	answer.code = rc;
	answer.call = -1;
	snprintf(answer.text, sizeof(answer.text), "%s", text ? text : "");
	if (!sgpu_host_send(channel, &answer, sizeof(answer), -1)) {
		_exit(1);
	}
}

/* Finds a function of the module itself. dlsym() alone would also find those of its libraries. */
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

/* Runs the launch that the device wrote to the head of `memory`. A module's thread may change it
 * meanwhile, but harms only itself. */
static void run_function(int channel, void *handle, char *memory)
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
		say(channel, SGPU_HOST_NO_FUNCTION, 0, NULL);
		return;
	}
	for (uint32_t i = 0; i < launch.argument_count; i++) {
		memcpy(values[i].bytes, launch.arguments[i].value, sizeof(values[i].bytes));
		if (launch.arguments[i].points) {
			values[i].pointer = memory + launch.arguments[i].at;
		}
		arguments[i] = &values[i];
	}
	say(channel, SGPU_HOST_RAN, function(&launch.shape, arguments, (int)launch.argument_count),
	    NULL);
}

static void serve(int channel, void *handle)
{
	struct sgpu_host_call call;
	char *memory;
	int fd;

	while (sgpu_host_receive(channel, &call, sizeof(call), &fd) && fd >= 0 &&
	       call.size >= sizeof(struct sgpu_host_launch)) {
		memory = mmap(NULL, call.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(fd);
		if (memory == MAP_FAILED) {
			_exit(1);
		}
		run_function(channel, handle, memory);
		munmap(memory, call.size);
	}
}

void worker_run(const struct worker_start *start)
{
	int listener = -1;
	const bool filtered = confine(start, &listener);
	const char *why;
	void *handle;

	if (listener >= 0) {
		close(listener);
	}
	close(start->handoff);
	if (!start->path[0]) {
		_exit(0);
	}
	handle = filtered ? dlopen(start->path, RTLD_NOW | RTLD_LOCAL) : NULL;
	/* Constructors have run by now; they could make only the loader's and the listed calls. */
	if (listener >= 0 && prctl(HOST_ALL_LOADED, 0, 0, 0, 0) != 0) {
		_exit(1);
	}
	why = handle ? NULL : filtered ? dlerror() : "the kernel gives no listener of its calls";
	say(start->channel, SGPU_HOST_LOADED, handle ? 0 : 1, why ? why : "");
	serve(start->channel, handle); /* which waits for the channel's end if nothing is loaded */
	_exit(0);
}
