/* SPDX-License-Identifier: Apache-2.0
 *
 * Carries out the items of command groups. Handles are indexes of tables; an item that names an
 * empty entry, a range outside of a buffer or of the shared area, or what the session may not do,
 * fails with all that follow it.
 */
#include <stdlib.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "channel/wire.h"
#include "secure/group_state.h"

enum { ARGUMENTS_MAX = 128 };

int sgpu_group_worker_create(struct sgpu_secure *context, const struct sgpu_group_config *config,
			     struct sgpu_group_worker **worker, struct sgpu_error *error)
{
	struct sgpu_group_worker *w = calloc(1, sizeof(*w));
	struct sgpu_device_info info;
	int rc;

	*worker = NULL;
	if (!w || !(w->results = sgpu_secret_alloc(SGPU_GROUP_BYTES))) {
		free(w);
		return sgpu_fail_nomem(error);
	}
	w->context = context;
	w->device = sgpu_secure_device(context);
	w->config = *config;
	rc = sgpu_device_get_info(w->device, &info, error);
	if (rc < 0) {
		sgpu_group_worker_free(&w);
		return rc;
	}
	w->bus = info.opens_on_device;
	/* Without, copies are slower, and do the same. */
	w->registered =
		w->bus && config->area &&
		sgpu_host_register(w->device, config->area, config->area_size, NULL) == SGPU_OK;
	*worker = w;
	return SGPU_OK;
}

void sgpu_group_worker_free(struct sgpu_group_worker **worker)
{
	struct sgpu_group_worker *w = worker ? *worker : NULL;

	if (!w) {
		return;
	}
	for (int i = 0; i < SGPU_GROUP_STREAMS; i++) {
		sgpu_stream_free(&w->streams[i]);
	}
	for (int i = 0; i < SGPU_GROUP_OBJECTS; i++) {
		sgpu_device_key_free(&w->keys[i]);
		sgpu_device_module_free(&w->modules[i]);
	}
	sgpu_group_free_jobs(w);
	sgpu_group_free(w, &w->staging, w->config.area_size);
	if (w->registered) {
		sgpu_host_unregister(w->device, w->config.area);
	}
	for (int i = 0; i < SGPU_GROUP_BUFFERS; i++) {
		sgpu_group_free(w, &w->buffers[i].memory, w->buffers[i].size);
	}
	sgpu_secret_free(w->results, SGPU_GROUP_BYTES);
	free(w);
	*worker = NULL;
}

/* ---- what items name ---- */
static int find_area(const struct sgpu_group_worker *w, uint64_t offset, uint64_t size,
		     uint8_t **area, struct sgpu_error *error)
{
	if (!w->config.area || offset > w->config.area_size ||
	    size > w->config.area_size - offset) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "%llu bytes from %llu are not in the shared area of %llu bytes",
				 (unsigned long long)size, (unsigned long long)offset,
				 (unsigned long long)(w->config.area ? w->config.area_size : 0));
	}
	*area = (uint8_t *)w->config.area + offset;
	return SGPU_OK;
}

/* A stream is made when an item first names it. */
static int find_stream(struct sgpu_group_worker *w, uint32_t handle, struct sgpu_stream **stream,
		       struct sgpu_error *error)
{
	int rc = w->streams[handle] ? SGPU_OK
				    : sgpu_stream_create(w->device, &w->streams[handle], error);

	*stream = w->streams[handle];
	return rc;
}

/* ---- memory ---- */
static int alloc_buffer(struct sgpu_group_worker *w, const struct sgpu_item *item,
			struct sgpu_error *error)
{
	struct sgpu_group_buffer *b = &w->buffers[item->buffer];
	int rc;

	if (b->memory) {
		return sgpu_group_no_object("buffer", item->buffer, true, error);
	}
	if (item->size > sgpu_group_memory_left(w)) {
		return sgpu_fail(error, SGPU_ENOMEM,
				 "%llu bytes are more than the session may have",
				 (unsigned long long)item->size);
	}
	rc = sgpu_group_alloc(w, item->size, &b->memory, error);
	b->size = rc == SGPU_OK ? item->size : 0;
	return rc;
}

static int free_buffer(struct sgpu_group_worker *w, const struct sgpu_item *item,
		       struct sgpu_error *error)
{
	struct sgpu_group_buffer *b = &w->buffers[item->buffer];
	int rc;

	if (!b->memory) {
		return sgpu_group_no_object("buffer", item->buffer, false, error);
	}
	rc = sgpu_group_wait_idle(w, error);
	if (rc == SGPU_OK) {
		sgpu_group_free(w, &b->memory, b->size);
	}
	return rc;
}

/* Plaintext that came or goes in a group. Where there is a bus between, it does not cross that in
 * the clear. */
static int copy_plain(struct sgpu_group_worker *w, const struct sgpu_item *item,
		      struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size,
		      struct sgpu_task *task)
{
	const bool out = item->kind == SGPU_ITEM_COPY_OUT;
	void *host = out ? w->results + w->results_size : (uint8_t *)(uintptr_t)item->tail;
	int rc;

	if (!w->bus) {
		return out ? sgpu_copy_out(stream, host, memory, size, task)
			   : sgpu_copy_in(stream, memory, host, size, task);
	}
	rc = sgpu_stream_sync(stream, &task->error);
	return rc < 0 ? rc
		      : sgpu_secure_memcpy(w->context, host, memory, size,
					   out ? SGPU_SECURE_TO_HOST : SGPU_SECURE_TO_DEVICE,
					   &task->error);
}

static int move_bytes(struct sgpu_group_worker *w, const struct sgpu_item *item,
		      struct sgpu_stream *stream, struct sgpu_task *task)
{
	uint64_t size = item->kind == SGPU_ITEM_COPY_IN ? item->tail_size : item->size;
	struct sgpu_device_range range;
	int rc = sgpu_group_find_range(w, item->buffer, item->offset, size, &range, &task->error);

	if (rc < 0) {
		return rc;
	}
	switch (item->kind) {
	case SGPU_ITEM_COPY_IN:
	case SGPU_ITEM_COPY_OUT:
		return copy_plain(w, item, stream, range.address, size, task);
	case SGPU_ITEM_DIGEST:
		return sgpu_device_digest(stream, range.address, size, item->tail, item->tail_size,
					  w->results + w->results_size, task);
	default:
		return sgpu_device_clear(stream, range.address, size, task);
	}
}

/* ---- keys and chunks ---- */
static int load_key(struct sgpu_group_worker *w, const struct sgpu_item *item,
		    struct sgpu_stream *stream, struct sgpu_error *error)
{
	struct sgpu_reader reader = { .next = item->tail, .left = item->tail_size };
	struct sgpu_sealed_keys keys;
	int rc;

	if (w->keys[item->object]) {
		return sgpu_group_no_object("key", item->object, true, error);
	}
	sgpu_take_bytes(&reader, keys.salt, sizeof(keys.salt));
	sgpu_take_bytes(&reader, keys.commitment, sizeof(keys.commitment));
	sgpu_take_bytes(&reader, keys.key, sizeof(keys.key));
	sgpu_take_bytes(&reader, keys.base_nonce, sizeof(keys.base_nonce));
	rc = sgpu_device_key_load(stream, &keys, &w->keys[item->object], error);
	sgpu_wipe(&keys, sizeof(keys));
	return rc;
}

/* Memory of the device of the same size as the area, for a device that does not reach the host's.
 */
static int make_staging(struct sgpu_group_worker *w, struct sgpu_error *error)
{
	const uint64_t size = w->config.area_size;

	if (w->staging) {
		return SGPU_OK;
	}
	if (size > sgpu_group_memory_left(w)) {
		return sgpu_fail(
			error, SGPU_ENOMEM,
			"sealed data pass through %llu bytes, more than the session may have",
			(unsigned long long)size);
	}
	return sgpu_group_alloc(w, size, &w->staging, error);
}

/* Others write to the area: each byte is read once, by the kernel that opens or into the staging
 * memory. Should a copy fail, what is there does not verify. What was opened is read by others only
 * when it has verified: settle_opens. */
static int open_chunks(struct sgpu_group_worker *w, const struct sgpu_item *item,
		       struct sgpu_stream *stream, struct sgpu_task *task)
{
	struct sgpu_device_key *key = w->keys[item->object];
	struct sgpu_device_range to;
	uint8_t *area = NULL;
	int rc = key ? find_area(w, item->other_offset, item->size, &area, &task->error)
		     : sgpu_group_no_object("key", item->object, false, &task->error);

	if (rc == SGPU_OK) {
		rc = sgpu_group_find_range(w, item->buffer, item->offset,
					   sgpu_opened_size(item->size), &to, &task->error);
	}
	if (rc < 0) {
		return rc;
	}
	w->opening |= (uint8_t)(1u << item->stream);
	if (sgpu_device_reaches(w->device, area, item->size, false)) {
		return sgpu_device_open_from(stream, key, item->first, item->last, area, item->size,
					     to.address, task);
	}
	rc = make_staging(w, &task->error);
	if (rc == SGPU_OK) {
		rc = sgpu_copy_in(stream, w->staging + item->other_offset, area, item->size, NULL);
	}
	return rc < 0 ? rc
		      : sgpu_device_open_chunks(stream, key, item->first, item->last,
						w->staging + item->other_offset, item->size,
						to.address, task);
}

static int seal_chunks(struct sgpu_group_worker *w, const struct sgpu_item *item,
		       struct sgpu_stream *stream, struct sgpu_task *task)
{
	struct sgpu_device_key *key = w->keys[item->object];
	struct sgpu_device_range from;
	uint8_t *area = NULL;
	uint64_t sealed;
	int rc = key ? sgpu_group_find_range(w, item->buffer, item->offset, item->size, &from,
					     &task->error)
		     : sgpu_group_no_object("key", item->object, false, &task->error);

	if (rc == SGPU_OK && !item->last && item->size % SGPU_CHUNK != 0) {
		rc = sgpu_fail(&task->error, SGPU_EUSAGE, "%llu bytes are no whole chunks",
			       (unsigned long long)item->size);
	}
	sealed = rc == SGPU_OK ? sgpu_run_sealed_size(item->size, item->last) : 0;
	rc = rc == SGPU_OK ? find_area(w, item->other_offset, sealed, &area, &task->error) : rc;
	if (rc < 0) {
		return rc;
	}
	if (sgpu_device_reaches(w->device, area, sealed, true)) {
		return sgpu_device_seal_to(stream, key, item->first, item->last, from.address,
					   item->size, area, task);
	}
	rc = make_staging(w, &task->error);
	if (rc == SGPU_OK) {
		rc = sgpu_device_seal_chunks(stream, key, item->first, item->last, from.address,
					     item->size, w->staging + item->other_offset, task);
	}
	return rc < 0 ? rc
		      : sgpu_copy_out(stream, area, w->staging + item->other_offset, sealed, NULL);
}

/* Waits for the opens in front of item `before`. Several may be under way; whatever else is to be
 * done may read what they wrote. */
static int settle_opens(struct sgpu_group_worker *w, int before, struct sgpu_error *error)
{
	for (int i = 0; i < SGPU_GROUP_STREAMS; i++) {
		int rc = w->opening >> i & 1 ? sgpu_stream_sync(w->streams[i], error) : SGPU_OK;

		if (rc < 0) {
			return rc;
		}
	}
	w->opening = 0;
	for (; w->settled < before; w->settled++) {
		if (w->items[w->settled].kind == SGPU_ITEM_OPEN &&
		    w->tasks[w->settled].code != SGPU_OK) {
			return SGPU_EDEPENDENCY;
		}
	}
	return SGPU_OK;
}

/* ---- operations and modules ---- */
static int run_operation(struct sgpu_launch *launch, void *argument)
{
	const struct sgpu_group_started *l = argument;

	return l->operation->run(launch, &l->call);
}

static int launch_operation(struct sgpu_group_worker *w, const struct sgpu_item *item,
			    struct sgpu_stream *stream, struct sgpu_task *task)
{
	const struct sgpu_group_operation *operation = w->config.operations;
	struct sgpu_item_call call;
	struct sgpu_group_started *launch;
	int rc = sgpu_item_call_decode(item, &call, &task->error);

	if (rc < 0) {
		return rc;
	}
	while (operation && operation->name && strcmp(operation->name, call.name) != 0) {
		operation++;
	}
	if (!operation || !operation->name) {
		return sgpu_fail(&task->error, SGPU_EUSAGE, "there is no operation '%s'",
				 call.name);
	}
	launch = w->launches[item - w->items] = calloc(1, sizeof(*launch));
	if (!launch) {
		return sgpu_fail_nomem(&task->error);
	}
	launch->operation = operation;
	launch->call = (struct sgpu_group_launch){ .ranges = launch->ranges,
						   .range_count = call.range_count,
						   .arguments = call.arguments,
						   .arguments_size = call.arguments_size };
	rc = sgpu_group_find_ranges(w, &call, launch->ranges, &task->error);
	return rc < 0 ? rc
		      : sgpu_device_launch_on(stream, run_operation, launch, launch->ranges,
					      call.range_count, task);
}

static int load_module(struct sgpu_group_worker *w, const struct sgpu_item *item,
		       struct sgpu_error *error)
{
	uint8_t *image = NULL;
	int rc;

	if (!w->config.modules) {
		return sgpu_fail(error, SGPU_EPOLICY, "the session may bring no code");
	}
	if (w->modules[item->object]) {
		return sgpu_group_no_object("module", item->object, true, error);
	}
	rc = find_area(w, item->other_offset, item->size, &image, error);
	return rc < 0 ? rc
		      : sgpu_secure_module_load(w->context, image, (size_t)item->size, item->tail,
						&w->modules[item->object], error);
}

struct arguments {
	int count;
	void *values[ARGUMENTS_MAX];
	size_t sizes[ARGUMENTS_MAX];
	int target[ARGUMENTS_MAX];
};

static int read_arguments(const struct sgpu_item_call *call, struct sgpu_device_range *ranges,
			  struct arguments *a, struct sgpu_error *error)
{
	struct sgpu_reader reader = { .next = call->arguments, .left = call->arguments_size };

	for (a->count = 0; reader.left > 0 && a->count < ARGUMENTS_MAX; a->count++) {
		uint8_t target = sgpu_take_u8(&reader), size = sgpu_take_u8(&reader);

		a->sizes[a->count] = size;
		a->target[a->count] = target == UINT8_MAX ? -1 : target;
		if (target == UINT8_MAX) {
			a->values[a->count] = (void *)(uintptr_t)sgpu_take(&reader, size);
		} else if (target < call->range_count && size == sizeof(ranges->address)) {
			a->values[a->count] = &ranges[target].address;
		} else {
			reader.bad = true;
		}
		if (reader.bad) {
			break;
		}
	}
	return reader.bad || reader.left > 0
		       ? sgpu_fail(error, SGPU_EINVALID,
				   "the arguments of function '%s' are malformed", call->name)
		       : SGPU_OK;
}

static int run_function(struct sgpu_group_worker *w, const struct sgpu_item *item,
			struct sgpu_stream *stream, struct sgpu_task *task)
{
	struct sgpu_device_range ranges[SGPU_MODULE_RANGES_MAX];
	struct sgpu_module_memory memory = { .ranges = ranges };
	struct sgpu_item_call call;
	struct arguments arguments;
	int rc = sgpu_item_call_decode(item, &call, &task->error);

	if (rc == SGPU_OK && !w->modules[item->object]) {
		rc = sgpu_group_no_object("module", item->object, false, &task->error);
	}
	for (int i = 0; rc == SGPU_OK && i < 3; i++) {
		if (call.shape.grid[i] == 0 || call.shape.block[i] == 0) {
			rc = sgpu_fail(&task->error, SGPU_EUSAGE,
				       "function '%s' is started in no blocks or threads",
				       call.name);
		}
	}
	if (rc == SGPU_OK) {
		rc = sgpu_group_find_ranges(w, &call, ranges, &task->error);
	}
	if (rc == SGPU_OK) {
		rc = read_arguments(&call, ranges, &arguments, &task->error);
	}
	if (rc < 0) {
		return rc;
	}
	memory.count = call.range_count;
	memory.written = call.written;
	memory.target = arguments.target;
	return sgpu_device_module_launch_on(stream, w->modules[item->object], call.name,
					    &call.shape, arguments.values, arguments.sizes,
					    arguments.count, &memory, task);
}

/* ---- items ---- */
static int wait_for_stream(struct sgpu_group_worker *w, const struct sgpu_item *item,
			   struct sgpu_stream *stream, struct sgpu_error *error)
{
	struct sgpu_event *event = NULL;
	struct sgpu_stream *other;
	int rc = find_stream(w, item->other, &other, error);

	if (rc == SGPU_OK) {
		rc = sgpu_event_create(w->device, &event, error);
	}
	if (rc == SGPU_OK &&
	    (sgpu_event_record(other, event) < 0 || sgpu_stream_wait(stream, event) < 0)) {
		rc = sgpu_fail(error, SGPU_EDEVICE, "a stream cannot wait for another");
	}
	sgpu_event_free(&event);
	return rc;
}

/* Frees an object when nothing uses it any more. */
static int free_object(struct sgpu_group_worker *w, const struct sgpu_item *item,
		       struct sgpu_error *error)
{
	const bool is_key = item->kind == SGPU_ITEM_KEY_FREE;
	int rc;

	if (is_key ? !w->keys[item->object] : !w->modules[item->object]) {
		return sgpu_group_no_object(is_key ? "key" : "module", item->object, false, error);
	}
	rc = sgpu_group_wait_idle(w, error);
	if (rc == SGPU_OK && is_key) {
		sgpu_device_key_free(&w->keys[item->object]);
	} else if (rc == SGPU_OK) {
		sgpu_device_module_free(&w->modules[item->object]);
	}
	return rc;
}

static int carry_out(struct sgpu_group_worker *w, const struct sgpu_item *item,
		     struct sgpu_task *task)
{
	struct sgpu_stream *stream;
	int rc = find_stream(w, item->stream, &stream, &task->error);

	if (rc == SGPU_OK && item->kind != SGPU_ITEM_OPEN) {
		rc = settle_opens(w, (int)(item - w->items), &task->error);
	}
	if (rc < 0) {
		return rc;
	}
	switch (item->kind) {
	case SGPU_ITEM_ALLOC:
		return alloc_buffer(w, item, &task->error);
	case SGPU_ITEM_FREE:
		return free_buffer(w, item, &task->error);
	case SGPU_ITEM_KEY_LOAD:
		return load_key(w, item, stream, &task->error);
	case SGPU_ITEM_KEY_FREE:
	case SGPU_ITEM_MODULE_FREE:
		return free_object(w, item, &task->error);
	case SGPU_ITEM_OPEN:
		return open_chunks(w, item, stream, task);
	case SGPU_ITEM_SEAL:
		return seal_chunks(w, item, stream, task);
	case SGPU_ITEM_LAUNCH:
		return launch_operation(w, item, stream, task);
	case SGPU_ITEM_MODULE_LOAD:
		return load_module(w, item, &task->error);
	case SGPU_ITEM_MODULE_RUN:
		return run_function(w, item, stream, task);
	case SGPU_ITEM_WAIT:
		return wait_for_stream(w, item, stream, &task->error);
	case SGPU_ITEM_JOB_LOAD:
		return sgpu_group_load_job(w, item, &task->error);
	case SGPU_ITEM_JOB_FREE:
		return sgpu_group_free_job(w, item, &task->error);
	case SGPU_ITEM_JOB_RUN:
		return sgpu_group_run_job(w, item, stream, &task->error);
	default:
		return move_bytes(w, item, stream, task);
	}
}

/* ---- answers ---- */
static uint8_t *put_outcome(uint8_t *at, const uint8_t *end, int rc, const char *text)
{
	size_t size = strnlen(text, SGPU_GROUP_TEXT_MAX);

	size = size < (size_t)(end - at) - 8 ? size : (size_t)(end - at) - 8;
	return sgpu_put_bytes(sgpu_put_u32(sgpu_put_u32(at, (uint32_t)rc), (uint32_t)size), text,
			      size);
}

/* Room is left for the heads of the items that follow, and for all results: so much was made sure
 * of when they were read. */
static size_t write_answer(const struct sgpu_group_worker *w, int count,
			   uint8_t answer[SGPU_GROUP_BYTES])
{
	uint8_t *at = sgpu_put_u32(answer, SGPU_OK);
	size_t result = 0, left = SGPU_GROUP_TEXT_MAX - 4;

	for (int i = 0; i < count; i++) {
		const struct sgpu_task *t = &w->tasks[i];
		size_t size = sgpu_item_result(&w->items[i]);

		if (t->code == SGPU_OK) {
			at = sgpu_put_u32(sgpu_put_u32(at, SGPU_OK), (uint32_t)size);
			at = sgpu_put_bytes(at, w->results + result, size);
		} else {
			uint8_t *begin = at;

			at = put_outcome(at, at + 8 + left, t->code,
					 t->error.text[0]	       ? t->error.text
					 : t->code == SGPU_EDEPENDENCY ? ""
								       : sgpu_strerror(t->code));
			left -= (size_t)(at - begin) - 8;
		}
		result += size;
	}
	return (size_t)(at - answer);
}

void sgpu_group_worker_run(struct sgpu_group_worker *w, const uint8_t *items, size_t size,
			   uint8_t answer[SGPU_GROUP_BYTES], size_t *answer_size)
{
	struct sgpu_error error = { 0 };
	int count = 0, rc = sgpu_items_decode(items, size, w->items, &count, &error), i;

	if (rc < 0) {
		*answer_size =
			(size_t)(put_outcome(answer, answer + SGPU_GROUP_BYTES, rc, error.text) -
				 answer);
		return;
	}
	w->results_size = 0;
	w->settled = 0;
	w->opening = 0;
	for (i = 0; i < count; i++) {
		w->tasks[i] = (struct sgpu_task){ .untimed = true };
	}
	for (i = 0; i < count && rc == SGPU_OK; i++) {
		rc = carry_out(w, &w->items[i], &w->tasks[i]);
		w->results_size += sgpu_item_result(&w->items[i]);
		if (rc < 0) {
			w->tasks[i].code = rc;
		}
	}
	for (; i < count; i++) {
		w->tasks[i].code = SGPU_EDEPENDENCY;
	}
	/* Nothing may still write into the results, or read the items. */
	rc = sgpu_group_wait_idle(w, &error);
	for (i = 0; i < count; i++) {
		sgpu_group_end_run(w, i);
	}
	*answer_size =
		rc == SGPU_OK
			? write_answer(w, count, answer)
			: (size_t)(put_outcome(answer, answer + SGPU_GROUP_BYTES, rc, error.text) -
				   answer);
	for (i = 0; i < count; i++) {
		free(w->launches[i]);
		w->launches[i] = NULL;
	}
	sgpu_wipe(w->results, w->results_size);
}
