/* SPDX-License-Identifier: Apache-2.0
 *
 * A secure context as a device: each request that touches the device's memory becomes an item of a command group. What moves no
 * data of the device goes straight to it: events, callbacks, host memory.
 *
 * Whether a range lies in one allocation is seen here, as on every device; whether it lies in the context, by the executor.
 * A launch without ranges says that it touches no memory of the device. A module says what it touches, or does not run.
 */
#include <stdlib.h>
#include <string.h>

#include <seal/opened.h>

#include "run/run.h"
#include "secure/secure.h"

static struct sgpu_secure *context_of(struct sgpu_device *device)
{
	return (struct sgpu_secure *)(void *)device;
}

static struct sgpu_lane *lane_of(struct sgpu_stream *stream)
{
	return (struct sgpu_lane *)(void *)stream;
}

static struct sgpu_secure_key *key_of(struct sgpu_device_key *key)
{
	return (struct sgpu_secure_key *)(void *)key;
}

/* What an item names: a pointer of the host as a number. */
static uint64_t number(const void *pointer)
{
	return (uint64_t)(uintptr_t)pointer;
}

static struct sgpu_item head(enum sgpu_item_kind kind, size_t size)
{
	return (struct sgpu_item){ .kind = kind, .size = (uint32_t)size };
}

/* ---- the device ---- */
/* It belongs to its context. */
static void close_device(struct sgpu_device *device)
{
	(void)device;
}

static int open_device(const char *selector, const struct sgpu_device_config *config, struct sgpu_device **device,
		       struct sgpu_error *error)
{
	(void)config;
	(void)device;
	return sgpu_fail(error, SGPU_EUSAGE, "'%s': a secure context is made over a device that is open", selector);
}

static int info(struct sgpu_device *device, struct sgpu_device_info *about, struct sgpu_error *error)
{
	struct sgpu_secure *context = context_of(device);
	uint64_t total, available, kept;
	int rc = sgpu_device_get_info(context->ground->device, about, error);

	if (rc == SGPU_OK) {
		sgpu_secure_figures(context, &total, &available, &kept);
		about->memory_free += kept;
		about->memory_total = total < about->memory_total ? total : about->memory_total;
		about->memory_free = available < about->memory_free ? available : about->memory_free;
		about->secure = true;
	}
	return rc;
}

static void cancel(struct sgpu_device *device, bool stop)
{
	sgpu_device_cancel(context_of(device)->ground->device, stop);
}

static int host_alloc(struct sgpu_device *device, uint64_t size, void **memory, struct sgpu_error *error)
{
	return sgpu_host_alloc(context_of(device)->ground->device, size, memory, error);
}

static void host_free(struct sgpu_device *device, void *memory, uint64_t size)
{
	sgpu_host_free(context_of(device)->ground->device, &memory, size);
}

static int host_register(struct sgpu_device *device, const void *memory, uint64_t size, struct sgpu_error *error)
{
	return sgpu_host_register(context_of(device)->ground->device, memory, size, error);
}

static void host_unregister(struct sgpu_device *device, const void *memory)
{
	sgpu_host_unregister(context_of(device)->ground->device, memory);
}

static int agree(struct sgpu_device *device, struct sgpu_device_agreement *agreement, struct sgpu_error *error)
{
	return sgpu_device_agree(context_of(device)->ground->device, agreement, error);
}

static int code(struct sgpu_device *device, struct sgpu_device_code *list)
{
	return sgpu_device_code_digests(context_of(device)->ground->device, list, NULL);
}

static int evidence(struct sgpu_device *device, const uint8_t nonce[32], struct sgpu_device_evidence *gained,
		    struct sgpu_error *error)
{
	return sgpu_device_get_evidence(context_of(device)->ground->device, nonce, gained, error);
}

static int module_confinement(struct sgpu_device *device, struct sgpu_module_confinement *confinement,
			      struct sgpu_error *error)
{
	return sgpu_device_module_confinement(context_of(device)->ground->device, confinement, error);
}

static bool module_broke_rules(struct sgpu_device *device)
{
	return sgpu_device_module_broke_rules(context_of(device)->ground->device);
}

/* ---- streams; events are the device's own ---- */
static int stream_create(struct sgpu_device *device, struct sgpu_stream **stream, struct sgpu_error *error)
{
	struct sgpu_lane *lane = NULL;
	int rc = sgpu_lane_create(context_of(device), &lane, error);

	*stream = (struct sgpu_stream *)(void *)lane;
	return rc;
}

static void stream_free(struct sgpu_stream *stream)
{
	sgpu_lane_give(lane_of(stream));
}

static int stream_sync(struct sgpu_stream *stream, struct sgpu_error *error)
{
	return sgpu_stream_sync(lane_of(stream)->inner, error);
}

static int event_create(struct sgpu_device *device, struct sgpu_event **event, struct sgpu_error *error)
{
	return sgpu_event_create(context_of(device)->ground->device, event, error);
}

static int event_record(struct sgpu_stream *stream, struct sgpu_event *event)
{
	return sgpu_event_record(lane_of(stream)->inner, event);
}

static int stream_wait(struct sgpu_stream *stream, struct sgpu_event *event)
{
	return sgpu_stream_wait(lane_of(stream)->inner, event);
}

static int callback(struct sgpu_stream *stream, void (*function)(void *argument), void *argument)
{
	return sgpu_stream_callback(lane_of(stream)->inner, function, argument);
}

/* ---- requests ---- */
/* A request with a task: what became of its enqueuing stands there, too. */
static int submit(struct sgpu_stream *stream, struct sgpu_group *group, size_t size, struct sgpu_task *task)
{
	struct sgpu_error why;
	int rc;

	why.text[0] = why.hint[0] = '\0';
	rc = sgpu_lane_submit(lane_of(stream), group, size, &why);
	if (rc != SGPU_OK && task) {
		why.code = rc;
		task->code = rc;
		task->error = why;
	}
	return rc;
}

int sgpu_secure_check_range(struct sgpu_secure *context, sgpu_devptr address, uint64_t size, struct sgpu_task *task)
{
	if (sgpu_secure_owns(context, address, size)) {
		return SGPU_OK;
	}
	if (task) {
		task->code = sgpu_fail(&task->error, SGPU_EUSAGE, "%llu bytes at device address %#llx are not allocated",
				       (unsigned long long)size, (unsigned long long)address);
	}
	return SGPU_EUSAGE;
}

static int move(struct sgpu_stream *stream, enum sgpu_item_kind kind, sgpu_devptr device, const void *host,
		uint64_t size, struct sgpu_task *task)
{
	struct { struct sgpu_group group; struct sgpu_item_move item; } request = {
		.item = { .head = head(kind, sizeof(request.item)), .device = device, .size = size,
			  .host = number(host), .task = number(task) },
	};
	int rc = sgpu_secure_check_range(lane_of(stream)->context, device, size, task);

	return rc == SGPU_OK ? submit(stream, &request.group, sizeof(request), task) : rc;
}

static int copy_in(struct sgpu_stream *stream, sgpu_devptr to, const void *from, uint64_t size,
		   struct sgpu_task *task)
{
	return move(stream, SGPU_ITEM_COPY_IN, to, from, size, task);
}

static int copy_out(struct sgpu_stream *stream, void *to, sgpu_devptr from, uint64_t size, struct sgpu_task *task)
{
	return move(stream, SGPU_ITEM_COPY_OUT, from, to, size, task);
}

static int clear(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size, struct sgpu_task *task)
{
	return move(stream, SGPU_ITEM_CLEAR, memory, NULL, size, task);
}

static int key_load(struct sgpu_stream *stream, const struct sgpu_sealed_keys *keys, struct sgpu_device_key **key,
		    struct sgpu_error *error)
{
	struct { struct sgpu_group group; struct sgpu_item_key item; } request = {
		.item = { .head = head(SGPU_ITEM_KEY_LOAD, sizeof(request.item)), .keys = *keys },
	};
	struct sgpu_secure_key *new = calloc(1, sizeof(*new));
	int rc;

	if (!new) {
		sgpu_wipe(&request, sizeof(request));
		return sgpu_fail_nomem(error);
	}
	new->object.backend = lane_of(stream)->object.backend;
	new->context = lane_of(stream)->context;
	request.item.key = number(new);
	rc = sgpu_lane_submit(lane_of(stream), &request.group, sizeof(request), error);
	sgpu_wipe(&request, sizeof(request));
	if (rc != SGPU_OK) {
		free(new);
		return rc;
	}
	*key = (struct sgpu_device_key *)(void *)new;
	return SGPU_OK;
}

/* The stream that it came through may be gone; its wiping waits for no stream. Where the group does not get through, it is
 * freed all the same: what is wiped is safe. */
static void key_free(struct sgpu_device_key *key)
{
	struct sgpu_secure_key *k = key_of(key);
	struct { struct sgpu_group group; struct sgpu_item_key item; } request = {
		.item = { .head = head(SGPU_ITEM_KEY_FREE, sizeof(request.item)), .key = number(k) },
	};

	if (sgpu_lane_submit(k->context->first, &request.group, sizeof(request), NULL) != SGPU_OK) {
		sgpu_device_key_free(&k->inner);
	}
	free(k);
}

static int chunks(struct sgpu_stream *stream, struct sgpu_item_chunks item, uint64_t out_size, struct sgpu_task *task)
{
	struct { struct sgpu_group group; struct sgpu_item_chunks item; } request = { .item = item };
	struct sgpu_secure *context = lane_of(stream)->context;
	int rc = sgpu_secure_check_range(context, item.in, item.size, task);

	if (rc == SGPU_OK) {
		rc = sgpu_secure_check_range(context, item.out, out_size, task);
	}
	return rc == SGPU_OK ? submit(stream, &request.group, sizeof(request), task) : rc;
}

static int open_chunks(struct sgpu_stream *stream, struct sgpu_device_key *key, uint64_t first, bool last,
		       sgpu_devptr in, uint64_t size, sgpu_devptr out, struct sgpu_task *task)
{
	struct sgpu_item_chunks item = { .head = head(SGPU_ITEM_OPEN, sizeof(item)), .key = number(key_of(key)),
					 .first = first, .last = last, .in = in, .size = size, .out = out,
					 .task = number(task) };

	return chunks(stream, item, sgpu_opened_size(size), task);
}

static int seal_chunks(struct sgpu_stream *stream, struct sgpu_device_key *key, uint64_t first, bool last,
		       sgpu_devptr in, uint64_t size, sgpu_devptr out, struct sgpu_task *task)
{
	struct sgpu_item_chunks item = { .head = head(SGPU_ITEM_SEAL, sizeof(item)), .key = number(key_of(key)),
					 .first = first, .last = last, .in = in, .size = size, .out = out,
					 .task = number(task) };

	if (!last && size % SGPU_CHUNK != 0) {
		return SGPU_EUSAGE;
	}
	return chunks(stream, item, sgpu_piece_sealed(size, last), task);
}

static int digest(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size, const void *custom,
		  size_t custom_size, uint8_t *result, struct sgpu_task *task)
{
	struct { struct sgpu_group group; struct sgpu_item_digest item; } request = {
		.item = { .head = head(SGPU_ITEM_DIGEST, sizeof(request.item)), .memory = memory, .size = size,
			  .digest = number(result), .task = number(task), .custom_size = custom_size },
	};
	int rc = sgpu_secure_check_range(lane_of(stream)->context, memory, size, task);

	if (custom_size > 0) {
		memcpy(request.item.custom, custom, custom_size);
	}
	return rc == SGPU_OK ? submit(stream, &request.group, sizeof(request), task) : rc;
}

/* ---- launches ---- */
static int refuse(struct sgpu_task *task, int rc, const char *text)
{
	if (task) {
		task->code = sgpu_fail(&task->error, rc, "%s", text);
	}
	return rc;
}

static int launch_on(struct sgpu_stream *stream, sgpu_launch_fn function, void *argument,
		     const struct sgpu_device_range *ranges, int count, struct sgpu_task *task)
{
	struct {
		struct sgpu_group group;
		struct sgpu_item_launch item;
		struct sgpu_device_range ranges[SGPU_GROUP_RANGES_MAX];
	} request;
	size_t size = sizeof(request.item) + (size_t)count * sizeof(*ranges);
	int rc = SGPU_OK;

	if (count < 0 || count > SGPU_GROUP_RANGES_MAX) {
		return refuse(task, SGPU_EUSAGE, "a launch names too many ranges");
	}
	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = sgpu_secure_check_range(lane_of(stream)->context, ranges[i].address, ranges[i].size, task);
		request.ranges[i] = ranges[i];
	}
	if (rc != SGPU_OK) {
		return rc;
	}
	request.item = (struct sgpu_item_launch){ .head = head(SGPU_ITEM_LAUNCH, size), .argument = number(argument),
						  .task = number(task), .range_count = (uint64_t)count };
	memcpy(&request.item.function, &function, sizeof(function));
	return submit(stream, &request.group, sizeof(request.group) + size, task);
}

static int launch(struct sgpu_stream *stream, sgpu_launch_fn function, void *argument, struct sgpu_task *task)
{
	return launch_on(stream, function, argument, NULL, 0, task);
}

static const struct sgpu_device_backend rows = {
	.open = open_device,
	.close = close_device,
	.info = info,
	.alloc = sgpu_secure_alloc_row,
	.free = sgpu_secure_free_row,
	.stream_create = stream_create,
	.stream_free = stream_free,
	.stream_sync = stream_sync,
	.event_create = event_create,
	.event_record = event_record,
	.stream_wait = stream_wait,
	.copy_in = copy_in,
	.copy_out = copy_out,
	.clear = clear,
	.key_load = key_load,
	.key_free = key_free,
	.open_chunks = open_chunks,
	.seal_chunks = seal_chunks,
	.digest = digest,
	.launch = launch,
	.callback = callback,
	.cancel = cancel,
	.host_alloc = host_alloc,
	.host_free = host_free,
	.host_register = host_register,
	.host_unregister = host_unregister,
	.module_load = sgpu_secure_module_load_row,
	.module_free = sgpu_secure_module_free_row,
	.module_launch = sgpu_secure_module_launch_row,
	.launch_on = launch_on,
	.agree = agree,
	.code = code,
	.evidence = evidence,
	.module_confinement = module_confinement,
	.module_broke_rules = module_broke_rules,
};

void sgpu_secure_table(const struct sgpu_device_backend *inner, struct sgpu_device_backend *table)
{
	*table = rows;
	table->name = inner->name;
	table->probe = inner->probe;
	table->parts = inner->parts;
	table->op = inner->op;
	table->event_free = inner->event_free;
	table->event_sync = inner->event_sync;
	table->event_query = inner->event_query;
}
