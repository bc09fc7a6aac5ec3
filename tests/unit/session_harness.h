/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of sessions: a worker in a process of its own that serves one session over pipes, and
 * what the session asks.
 */
#ifndef SESSION_HARNESS_H
#define SESSION_HARNESS_H

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "remote/carrier.h"
#include "secure/group.h"

#include "channel_check.h"
#include "device_harness.h"
#include "fake_backend.h"

enum { AREA = 1 << 20, LIMIT = 8 << 20 };

static struct sgpu_error error;
static uint8_t *area; /* shared with every worker */

/* ---- operations ---- */
/* Adds its argument to every byte of its range. */
static int add(struct sgpu_launch *launch, const struct sgpu_group_launch *call)
{
	if (call->range_count != 1 || call->arguments_size != 1) {
		return sgpu_fail(launch->error, SGPU_EUSAGE, "add takes a range and a number");
	}
	for (uint64_t i = 0; i < call->ranges[0].size; i++) {
		((uint8_t *)(uintptr_t)call->ranges[0].address)[i] += call->arguments[0];
	}
	return SGPU_OK;
}

static const struct sgpu_group_operation operations[] = { { "add", add }, { NULL, NULL } };

/* ---- modules, which are pretended: their function clears its first range ---- */
struct sgpu_device_module {
	struct sgpu_device_object object;
};

static struct fake_backend fake;
static const struct sgpu_device_backend *real;

static int module_load(struct sgpu_device *on, const void *image, size_t size,
		       struct sgpu_device_module **module, struct sgpu_error *why)
{
	(void)on;
	if (size != 100 || ((const uint8_t *)image)[99] != 7) {
		return sgpu_fail(why, SGPU_EINVALID, "not a module");
	}
	*module = calloc(1, sizeof(**module));
	fake_backend_give(*module, &fake);
	return SGPU_OK;
}

static void module_free(struct sgpu_device_module *module)
{
	free(module);
}

static int module_launch(struct sgpu_stream *on, struct sgpu_device_module *module,
			 const char *function, const struct sgpu_module_shape *shape,
			 void *const *args, const size_t *sizes, int count,
			 const struct sgpu_module_memory *memory, struct sgpu_task *task)
{
	uint64_t address = 0;

	(void)module;
	memcpy(&address, args[0], sizeof(address));
	if (strcmp(function, "clear") != 0 || shape->grid[0] != 3 || count != 2 || sizes[1] != 2 ||
	    memory->count != 1 || memory->written != 1 || memory->target[0] != 0 ||
	    memory->target[1] != -1 || address != memory->ranges[0].address ||
	    memcmp(args[1], "ab", 2) != 0) {
		return SGPU_EINVALID;
	}
	return real->stream->enqueue(on,
				     &(struct sgpu_work){ .kind = SGPU_WORK_CLEAR,
							  .out = memory->ranges[0].address,
							  .size = memory->ranges[0].size },
				     task);
}

static int stream_create(struct sgpu_device *on, struct sgpu_stream **made, struct sgpu_error *why)
{
	int rc = real->stream->create(on, made, why);

	if (rc == SGPU_OK) {
		fake_backend_give(*made, &fake);
	}
	return rc;
}

static inline void pretend_modules(struct sgpu_device *device)
{
	real = sgpu_device_backend_of(device);
	fake_backend_copy(&fake, real);
	fake.module.load = module_load;
	fake.module.free = module_free;
	fake.module.launch = module_launch;
	fake.stream.create = stream_create;
	fake_backend_give(device, &fake);
}

/* ---- the worker's process ---- */
struct ends {
	int in, out;
};

struct worker_process {
	pid_t pid;
	struct ends pipe; /* this side of it */
	struct sgpu_carrier *carrier;
};

/* Until the session ends. */
static inline int serve_pipe(struct sgpu_group_server *server, const struct ends *pipe,
			     struct sgpu_error *why)
{
	uint8_t *message = malloc(2 * (size_t)SGPU_MESSAGE_MAX),
		*answer = message ? message + SGPU_MESSAGE_MAX : NULL;
	struct sgpu_remote_frame frame;
	size_t answer_size = 0;
	int rc = message ? sgpu_remote_frame_read(pipe->in, &frame, message, why)
			 : sgpu_fail_nomem(why);

	while (rc == SGPU_OK && frame.size > 0) {
		rc = sgpu_group_server_handle(server, message, (size_t)frame.size, answer,
					      &answer_size, why);
		if (rc == SGPU_OK) {
			rc = sgpu_message_write(pipe->out, answer, answer_size, why);
		}
		if (rc == SGPU_OK) {
			rc = sgpu_remote_frame_read(pipe->in, &frame, message, why);
		}
	}
	free(message);
	return rc;
}

/* Serves one session. Returns minus the code that serving ended with, or 100: something was left.
 */
static inline int serve(const struct ends *pipe, bool modules)
{
	const struct sgpu_group_config config = { .area = area,
						  .area_size = AREA,
						  .memory_limit = LIMIT,
						  .operations = operations,
						  .modules = modules };
	struct sgpu_device *device = open_test_device(1, 0);
	struct sgpu_group_server *server = NULL;
	struct sgpu_secure *context = NULL;
	struct sgpu_secure_stats before, after;
	sgpu_devptr memory = 0;
	int rc;

	pretend_modules(device);
	rc = sgpu_secure_create(device, NULL, &context, &error);
	/* Copies keep staging memory from the first one on. */
	if (rc == SGPU_OK &&
	    (sgpu_secure_malloc(context, 1, &memory, &error) < 0 ||
	     sgpu_secure_memcpy(context, &memory, memory, 1, SGPU_SECURE_TO_DEVICE, &error) < 0)) {
		rc = SGPU_EDEVICE;
	}
	if (rc == SGPU_OK) {
		sgpu_secure_free(context, &memory);
		sgpu_secure_get_stats(context, &before);
		rc = sgpu_group_server_create(context, &config, &server, &error);
	}
	if (rc == SGPU_OK) {
		rc = serve_pipe(server, pipe, &error);
		sgpu_group_server_free(&server);
		sgpu_secure_get_stats(context, &after);
		if (after.used_bytes != before.used_bytes ||
		    sgpu_processor_check(sgpu_secure_processor(context), &error) != SGPU_OK) {
			rc = -100;
		}
	}
	sgpu_secure_destroy(&context);
	((struct sgpu_device_object *)(void *)device)->backend = real;
	sgpu_device_close(&device);
	return -rc;
}

static inline struct worker_process start_worker(bool modules)
{
	struct worker_process w = { .pid = -1 };
	int to[2], from[2];

	fflush(stdout);
	if (pipe(to) != 0 || pipe(from) != 0 || (w.pid = fork()) < 0) {
		abort();
	}
	if (w.pid == 0) {
		close(to[1]);
		close(from[0]);
		_exit(serve(&(struct ends){ to[0], from[1] }, modules));
	}
	close(to[0]);
	close(from[1]);
	w.pipe = (struct ends){ from[0], to[1] };
	if (sgpu_carrier_pipe(from[0], to[1], &w.carrier, &error) < 0) {
		abort();
	}
	return w;
}

/* The end of the pipe; the code with which serving ended. */
static inline int end_worker(struct worker_process *w)
{
	int status = -1;

	w->carrier->calls->close(w->carrier);
	close(w->pipe.out);
	waitpid(w->pid, &status, 0);
	close(w->pipe.in);
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -1000;
}

/* ---- what a session asks ---- */
static struct sgpu_item_result results[SGPU_GROUP_ITEMS];

static inline int send_items(struct sgpu_group_client *client, const struct sgpu_item *items,
			     int count)
{
	int rc = SGPU_OK;

	error.text[0] = '\0';
	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = sgpu_group_client_add(client, &items[i], &error);
	}
	return rc == SGPU_OK ? sgpu_group_client_send(client, results, &error) : rc;
}
#define SEND(client, items) send_items(client, items, (int)SGPU_ARRAY_LENGTH(items))

/* An item that adds `number` to the bytes of a buffer. `tail` holds 128 bytes. */
static inline struct sgpu_item add_item(uint32_t buffer, uint64_t offset, uint64_t size,
					const uint8_t *number, uint8_t *tail)
{
	const struct sgpu_item_call call = { .name = "add",
					     .range_count = 1,
					     .ranges = { { buffer, offset, size } },
					     .arguments = number,
					     .arguments_size = 1 };
	struct sgpu_item item = { .kind = SGPU_ITEM_LAUNCH, .tail = tail };

	CHECK(sgpu_item_call_encode(&call, tail, &item.tail_size, &error) == SGPU_OK);
	return item;
}

static inline void share_area(void)
{
	area = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED) {
		abort();
	}
	signal(SIGPIPE, SIG_IGN);
}

#endif
