/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules of the CPU device: ELF shared objects, passed as sealed memory files to a process of
 * their own (module_wire.h). A launch copies the function's input into memory that both processes
 * share, and its output back.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <base/base.h>
#include <device/cpu/cpu.h>
#include <device/cpu/module_wire.h>

#include "base/io.h"

/* Known to kernels from 6.3 on, which may refuse memory files without it. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* How often a waiting launch looks for a cancellation. */
enum { LOOK_MS = 50 };

struct sgpu_device_module {
	struct sgpu_device_object object;
	struct sgpu_device *device;
	pthread_mutex_t lock; /* one launch at a time */
	int image;	      /* sealed memory file */
	int channel, report;  /* to the worker, and for the report of its end; -1: no worker */
};

struct module_range {
	char *memory;
	uint64_t size, at; /* at: offset in the shared memory */
	bool written;
};

struct module_launch {
	struct sgpu_device_module *module;
	struct sgpu_host_launch head;
	int range_count;
	struct module_range ranges[SGPU_MODULE_RANGES_MAX];
	uint64_t size; /* of the shared memory */
};

/* ---- the module's process ---- */
static bool is_name(const char *text)
{
	size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_");

	return length > 0 && text[length] == '\0';
}

static int fail_as_ended(struct sgpu_device *device, struct sgpu_host_answer *answer,
			 struct sgpu_error *error)
{
	const char *signal_name;

	answer->text[sizeof(answer->text) - 1] = '\0';
	if (answer->call >= 0) {
		atomic_store(&device->host.broke_rules, true);
		return sgpu_fail(error, SGPU_EPOLICY,
				 "system call %d (%s) refused: no module needs it", answer->call,
				 is_name(answer->text) ? answer->text : "unknown");
	}
	if (!WIFSIGNALED(answer->status)) {
		return sgpu_fail(error, SGPU_EDEVICE, "it ended its process, with status %d",
				 WEXITSTATUS(answer->status));
	}
	if (WTERMSIG(answer->status) == SIGSYS) {
		atomic_store(&device->host.broke_rules, true);
		return sgpu_fail(
			error, SGPU_EPOLICY,
			"a system call was refused that no module needs; "
			"it is not one of this architecture, or the kernel did not name it");
	}
	signal_name = sigabbrev_np(WTERMSIG(answer->status));
	return sgpu_fail(error, SGPU_EDEVICE, "its process was ended by signal %d (SIG%s)",
			 WTERMSIG(answer->status), signal_name ? signal_name : "?");
}

/* The host then ends the worker, even a busy one. Notices one that ended after its last answer, as
 * when a thread that the module left running broke the rules. */
static void close_channel(struct sgpu_device_module *module)
{
	struct pollfd look = { .fd = module->report, .events = POLLIN };
	struct sgpu_host_answer answer;

	if (poll(&look, 1, 0) > 0 &&
	    sgpu_host_receive(module->report, &answer, sizeof(answer), NULL, 0) &&
	    answer.kind == SGPU_HOST_ENDED) {
		(void)fail_as_ended(module->device, &answer, NULL);
	}
	sgpu_close(module->channel);
	sgpu_close(module->report);
	module->channel = module->report = -1;
}

/* Whether a message has arrived. If the peer closed the socket instead, waits a little for the
 * host's report. */
static bool peek(int socket)
{
	char byte;

	if (recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0) {
		return true;
	}
	poll(NULL, 0, 1);
	return false;
}

/* After any outcome but the worker's answer, the module has no worker. */
static int wait_for(struct sgpu_device_module *module, struct sgpu_host_answer *answer,
		    struct sgpu_error *error)
{
	struct pollfd look[2] = { { .fd = module->channel, .events = POLLIN },
				  { .fd = module->report, .events = POLLIN } };
	int rc;

	/* A worker that ended closes its channel before the host notices. */
	while (poll(look, 2, LOOK_MS) <= 0 ||
	       (!look[1].revents && !(look[0].revents & POLLIN && peek(module->channel)))) {
		if (sgpu_pool_cancelled(module->device->pool)) {
			close_channel(module);
			return sgpu_fail(error, SGPU_ECANCELED, "%s",
					 sgpu_strerror(SGPU_ECANCELED));
		}
	}
	if (!look[1].revents &&
	    sgpu_host_receive(module->channel, answer, sizeof(*answer), NULL, 0)) {
		return SGPU_OK;
	}
	if (look[1].revents &&
	    sgpu_host_receive(module->report, answer, sizeof(*answer), NULL, 0) &&
	    answer->kind == SGPU_HOST_ENDED) {
		rc = fail_as_ended(module->device, answer, error);
	} else {
		rc = sgpu_fail(error, SGPU_EDEVICE, "its process ended");
	}
	close_channel(module);
	return rc;
}

static int start_worker(struct sgpu_device_module *module, struct sgpu_error *error)
{
	struct sgpu_cpu_host *host = &module->device->host;
	int fds[SGPU_HOST_DESCRIPTORS];
	int32_t code;
	bool good;

	pthread_mutex_lock(&host->lock);
	good = sgpu_host_send(host->control, "", 1, module->image) &&
	       sgpu_host_receive(host->control, &code, sizeof(code), fds, SGPU_HOST_DESCRIPTORS);
	pthread_mutex_unlock(&host->lock);
	if (!good) {
		return sgpu_fail(error, SGPU_EDEVICE, "the process that modules run in has ended");
	}
	if (fds[0] >= 0) {
		module->channel = fds[SGPU_HOST_CHANNEL];
		module->report = fds[SGPU_HOST_REPORT];
		return SGPU_OK;
	}
	if (code == EUSERS) {
		sgpu_fail(error, SGPU_EUNAVAILABLE,
			  "the CPU device runs %d modules at once, and no more", SGPU_HOST_WORKERS);
		return sgpu_hint(error, "put functions that belong together into one module");
	}
	errno = code ? code : EMFILE;
	return sgpu_fail_errno(error, "no process can be had for a module");
}

static int load_in_process(struct sgpu_device_module *module, struct sgpu_error *error)
{
	struct sgpu_host_answer answer;
	int rc = start_worker(module, error);

	if (rc == SGPU_OK) {
		rc = wait_for(module, &answer, error);
	}
	if (rc == SGPU_OK && (answer.kind != SGPU_HOST_LOADED || answer.code != 0)) {
		answer.text[sizeof(answer.text) - 1] = '\0';
		rc = sgpu_fail(error, SGPU_EINVALID, "the module cannot be loaded: %s",
			       answer.text);
		close_channel(module);
	}
	return rc;
}

static void module_free(struct sgpu_device_module *module)
{
	close_channel(module);
	sgpu_close(module->image);
	pthread_mutex_destroy(&module->lock);
	free(module);
}

static int image_file(const void *image, size_t size, int *fd, struct sgpu_error *error)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int rc;

	*fd = memfd_create("sgpu-module", flags | MFD_NOEXEC_SEAL);
	if (*fd < 0 && errno == EINVAL) {
		*fd = memfd_create("sgpu-module", flags);
	}
	if (*fd < 0) {
		return sgpu_fail_errno(error, "cannot make a memory file for a module");
	}
	rc = sgpu_write(*fd, "memory file", image, size, error);
	if (rc == SGPU_OK && fcntl(*fd, F_ADD_SEALS,
				   F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
		rc = sgpu_fail_errno(error, "cannot seal the memory file of a module");
	}
	return rc;
}

static int module_load(struct sgpu_device *device, const void *image, size_t size,
		       struct sgpu_device_module **module, struct sgpu_error *error)
{
	const char *fault = sgpu_elf_fault(image, size);
	struct sgpu_device_module *new;
	int rc;

	if (fault) {
		sgpu_fail(error, SGPU_EINVALID, "the module %s", fault);
		return sgpu_hint(error,
				 "on the CPU device a module is what 'cc -shared -fPIC' makes");
	}
	rc = sgpu_cpu_host_check(device, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	new = calloc(1, sizeof(*new));
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	new->object.backend = device->object.backend;
	new->device = device;
	new->channel = new->report = new->image = -1;
	pthread_mutex_init(&new->lock, NULL);
	rc = image_file(image, size, &new->image, error);
	rc = rc ? rc : load_in_process(new, error);
	if (rc != SGPU_OK) {
		module_free(new);
		return rc;
	}
	*module = new;
	return SGPU_OK;
}

/* ---- launching ---- */
static int send_launch(const struct module_launch *l, int memory, struct sgpu_error *error)
{
	const struct sgpu_host_call call = { .size = l->size };
	int untaken;

	errno = EBUSY; /* a launch that it answered is still on its way */
	if (ioctl(l->module->channel, TIOCOUTQ, &untaken) == 0 && untaken == 0 &&
	    sgpu_host_send(l->module->channel, &call, sizeof(call), memory)) {
		return SGPU_OK;
	}
	if (errno == EPIPE || errno == ECONNRESET) {
		return SGPU_OK; /* the process has ended: wait_for learns why */
	}
	sgpu_fail(error, SGPU_EDEVICE, "its process takes no launch: %s", strerror(errno));
	close_channel(l->module);
	return SGPU_EDEVICE;
}

static int run_in_process(struct module_launch *l, int memory, struct sgpu_error *error)
{
	struct sgpu_device_module *module = l->module;
	struct sgpu_host_answer answer = { 0 };
	/* again, if an earlier launch ended the process */
	int rc = module->channel < 0 ? load_in_process(module, error) : SGPU_OK;

	rc = rc ? rc : send_launch(l, memory, error);
	rc = rc ? rc : wait_for(module, &answer, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	if (answer.kind == SGPU_HOST_NO_FUNCTION) {
		return sgpu_fail(error, SGPU_EINVALID, "the module has no function '%s'",
				 l->head.function);
	}
	if (answer.kind != SGPU_HOST_RAN || answer.code != 0) {
		return sgpu_fail(error, SGPU_EDEVICE, "the function returned %d", answer.code);
	}
	return SGPU_OK;
}

static void copy_ranges(const struct module_launch *l, char *memory, bool written)
{
	for (int i = 0; i < l->range_count; i++) {
		const struct module_range *range = &l->ranges[i];

		if (range->written != written) {
			continue;
		}
		memcpy(written ? range->memory : memory + range->at,
		       written ? memory + range->at : range->memory, range->size);
	}
}

static int run_function(struct module_launch *l, struct sgpu_error *error)
{
	void *memory = NULL;
	int fd = -1, rc;

	pthread_mutex_lock(&l->module->lock);
	/* a zeroed memory file that neither side can shorten */
	rc = sgpu_memory_file_create("sgpu-module", l->size, true, &fd, error);
	if (rc == SGPU_OK) {
		rc = sgpu_memory_file_map(fd, "a module's memory", l->size, l->size, &memory,
					  &l->size, error);
	}
	if (rc == SGPU_OK) {
		memcpy(memory, &l->head, sizeof(l->head));
		copy_ranges(l, memory, false);
		rc = run_in_process(l, fd, error);
	}
	if (rc == SGPU_OK) {
		copy_ranges(l, memory, true);
	}
	if (memory) {
		sgpu_wipe(memory, l->size);
		munmap(memory, l->size);
	}
	sgpu_close(fd);
	pthread_mutex_unlock(&l->module->lock);
	return rc;
}

static int perform_launch(struct sgpu_device *device, const struct sgpu_cpu_item *item,
			  struct sgpu_task *task)
{
	struct module_launch *l = item->argument;
	const int rc =
		sgpu_pool_cancelled(device->pool) ? SGPU_ECANCELED : run_function(l, &task->error);

	free(l);
	return rc;
}

static int enqueue(struct sgpu_stream *stream, struct module_launch *l, struct sgpu_task *task)
{
	const struct sgpu_cpu_item item = { .perform = perform_launch,
					    .argument = l,
					    .work.task = task };
	const int rc = sgpu_cpu_enqueue(stream, &item);

	if (rc != SGPU_OK) {
		free(l);
	}
	return rc;
}

static uint64_t aligned(uint64_t size)
{
	return (size + SGPU_HOST_ALIGN - 1) / SGPU_HOST_ALIGN * SGPU_HOST_ALIGN;
}

/* The shared memory has the head, then each range at a multiple of SGPU_HOST_ALIGN. False: it would
 * be too large. */
static bool place_ranges(struct module_launch *l, const struct sgpu_module_memory *memory)
{
	l->size = aligned(sizeof(l->head));
	for (int i = 0; memory && i < memory->count; i++) {
		const struct sgpu_device_range *range = &memory->ranges[i];

		if (range->size > INT64_MAX / 2 || l->size > INT64_MAX / 2) {
			return false;
		}
		l->ranges[i] =
			(struct module_range){ (char *)(uintptr_t)range->address, range->size,
					       l->size, memory->written >> i & 1 };
		l->size += aligned(range->size);
		l->range_count++;
	}
	return true;
}

static bool place_arguments(struct module_launch *l, void *const *args, const size_t *sizes,
			    int count, const struct sgpu_module_memory *memory)
{
	l->head.argument_count = (uint32_t)count;
	for (int i = 0; i < count; i++) {
		struct sgpu_host_argument *argument = &l->head.arguments[i];
		int target = memory && memory->target ? memory->target[i] : -1;

		if (sizes[i] > sizeof(argument->value) || target >= l->range_count) {
			return false;
		}
		argument->size = (uint32_t)sizes[i];
		if (target >= 0) {
			argument->points = 1;
			argument->at = l->ranges[target].at;
		} else {
			memcpy(argument->value, args[i], sizes[i]);
		}
	}
	return true;
}

static int module_launch(struct sgpu_stream *stream, struct sgpu_device_module *module,
			 const char *function, const struct sgpu_module_shape *shape,
			 void *const *args, const size_t *arg_sizes, int arg_count,
			 const struct sgpu_module_memory *memory, struct sgpu_task *task)
{
	struct module_launch *l;
	int rc = SGPU_OK;

	if (arg_count < 0 || arg_count > SGPU_HOST_ARGUMENTS ||
	    (memory && memory->count > SGPU_MODULE_RANGES_MAX)) {
		return sgpu_task_refuse(task, SGPU_EUSAGE,
					"a launch names too many ranges or arguments");
	}
	if (strlen(function) >= SGPU_HOST_FUNCTION) {
		return sgpu_task_refuse(task, SGPU_EINVALID, "the name of a function is too long");
	}
	if (memory) {
		rc = sgpu_device_check(stream->device, memory->ranges, memory->count, task);
	}
	if (rc != SGPU_OK) {
		return rc;
	}
	l = calloc(1, sizeof(*l));
	if (!l) {
		return sgpu_task_refuse(task, SGPU_ENOMEM, sgpu_strerror(SGPU_ENOMEM));
	}
	l->module = module;
	l->head.shape = *shape;
	memcpy(l->head.function, function, strlen(function));
	if (!place_ranges(l, memory) || !place_arguments(l, args, arg_sizes, arg_count, memory)) {
		free(l);
		return sgpu_task_refuse(task, SGPU_EUSAGE,
					"the arguments of a launch are too large");
	}
	return enqueue(stream, l, task);
}

static int module_confinement(struct sgpu_device *device,
			      struct sgpu_module_confinement *confinement, struct sgpu_error *error)
{
	const int rc = sgpu_cpu_host_check(device, error);

	if (rc == SGPU_OK) {
		*confinement = device->host.confinement;
	}
	return rc;
}

static bool module_broke_rules(struct sgpu_device *device)
{
	return atomic_load(&device->host.broke_rules);
}

const struct sgpu_device_module_calls sgpu_cpu_module_calls = {
	.load = module_load,
	.free = module_free,
	.launch = module_launch,
	.confinement = module_confinement,
	.broke_rules = module_broke_rules,
};
