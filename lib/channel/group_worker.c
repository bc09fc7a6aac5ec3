/* SPDX-License-Identifier: Apache-2.0
 *
 * Carries out items of command groups. An item that names an empty entry of a table, or a range
 * outside a buffer or the shared area, fails with all items after it.
 */
#include <sgpu/base.h>

#include "base/base.h"
#include "channel/wire.h"
#include "device/backend.h"
#include "channel/group.h"

/* ---- the objects that items name ---- */
/* Checks that the object that an item names exists, or does not yet if the item makes it. Before an
 * object is freed, waits for the work that uses it. */
static int check_object(const struct sgpu_group_worker *w, const struct sgpu_item *item,
			struct sgpu_error *error)
{
	const bool made = item->kind == SGPU_ITEM_ALLOC || item->kind == SGPU_ITEM_KEY_LOAD ||
			  item->kind == SGPU_ITEM_JOB_LOAD,
		   freed = item->kind == SGPU_ITEM_FREE || item->kind == SGPU_ITEM_KEY_FREE ||
			   item->kind == SGPU_ITEM_JOB_FREE;
	uint32_t handle = item->object;
	const char *what = "key";
	bool exists;

	switch (item->kind) {
	case SGPU_ITEM_ALLOC:
	case SGPU_ITEM_FREE:
		what = "buffer";
		handle = item->buffer;
		exists = w->buffers[handle].memory != 0;
		break;
	case SGPU_ITEM_JOB_LOAD:
	case SGPU_ITEM_JOB_FREE:
	case SGPU_ITEM_JOB_RUN:
		what = "job";
		exists = w->jobs[handle].job != NULL;
		break;
	default:
		exists = w->keys[handle] != NULL;
	}
	if (exists == made) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 made ? "there is a %s %u already" : "there is no %s %u", what,
				 (unsigned)handle);
	}
	return freed ? sgpu_stream_sync(w->stream, error) : SGPU_OK;
}

static int find_range(const struct sgpu_group_worker *w, uint32_t handle, uint64_t offset,
		      uint64_t size, struct sgpu_device_range *range, struct sgpu_error *error)
{
	const struct sgpu_group_buffer *b =
		handle < SGPU_GROUP_BUFFERS ? &w->buffers[handle] : NULL;

	if (!b || !b->memory) {
		return sgpu_fail(error, SGPU_EUSAGE, "there is no buffer %u", (unsigned)handle);
	}
	if (offset > b->size || size > b->size - offset) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "%llu bytes from %llu are not in buffer %u of %llu bytes",
				 (unsigned long long)size, (unsigned long long)offset,
				 (unsigned)handle, (unsigned long long)b->size);
	}
	*range = (struct sgpu_device_range){ b->memory + offset, size };
	return SGPU_OK;
}

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

/* ---- memory ---- */
/* Bytes of device memory that the session may still take, by its own limit. */
static uint64_t memory_left(const struct sgpu_group_worker *w)
{
	return w->config.memory_limit > 0 ? w->config.memory_limit - w->used : UINT64_MAX;
}

/* Within the session's limit and that of the process. */
static int alloc(struct sgpu_group_worker *w, uint64_t size, sgpu_devptr *memory,
		 struct sgpu_error *error)
{
	int rc = size > memory_left(w) ? sgpu_fail(error, SGPU_ENOMEM,
						   "%llu bytes are more than the session may have",
						   (unsigned long long)size)
				       : sgpu_limit_take(SGPU_DEVICE_MEMORY, size, error);

	if (rc < 0) {
		return rc;
	}
	rc = sgpu_device_alloc(w->device, size, memory, error);
	if (rc < 0) {
		sgpu_limit_give(SGPU_DEVICE_MEMORY, size);
		return rc;
	}
	w->used += size;
	return SGPU_OK;
}

static void give_back(struct sgpu_group_worker *w, sgpu_devptr *memory, uint64_t size)
{
	if (*memory) {
		sgpu_device_free(w->device, memory, size);
		sgpu_limit_give(SGPU_DEVICE_MEMORY, size);
		w->used -= size;
	}
}

static int alloc_buffer(struct sgpu_group_worker *w, const struct sgpu_item *item,
			struct sgpu_error *error)
{
	struct sgpu_group_buffer *b = &w->buffers[item->buffer];

	b->size = item->size;
	return alloc(w, b->size, &b->memory, error);
}

/* ---- keys and chunks ---- */
static int load_key(struct sgpu_group_worker *w, const struct sgpu_item *item,
		    struct sgpu_error *error)
{
	struct sgpu_sealed_keys keys;
	int rc;

	memcpy(&keys, item->tail, sizeof(keys));
	rc = sgpu_device_key_load(w->stream, &keys, &w->keys[item->object], error);
	sgpu_wipe(&keys, sizeof(keys));
	return rc;
}

/* Opens or seals chunks between the area and a buffer. Each byte of the area is read once: by the
 * opening kernel, or by the copy into `staging`. A failed copy needs no check: its data will not
 * verify. settle_opens keeps other items from reading opened data that have not verified. */
static int move_chunks(struct sgpu_group_worker *w, const struct sgpu_item *item,
		       struct sgpu_task *task)
{
	const bool seals = item->kind == SGPU_ITEM_SEAL;
	const uint64_t sealed = seals ? sgpu_run_sealed_size(item->size, item->last) : item->size,
		       plain = seals ? item->size : sgpu_opened_size(item->size);
	struct sgpu_work work = { .size = item->size,
				  .key = w->keys[item->object],
				  .first = item->first,
				  .last = item->last,
				  .task = task };
	struct sgpu_device_range buffer = { 0 };
	uint8_t *area = NULL;
	sgpu_devptr staged;
	int rc = find_range(w, item->buffer, item->offset, plain, &buffer, &task->error);

	if (rc == SGPU_OK && seals && !item->last && item->size % SGPU_CHUNK != 0) {
		rc = sgpu_fail(&task->error, SGPU_EUSAGE, "%llu bytes are no whole chunks",
			       (unsigned long long)item->size);
	}
	rc = rc == SGPU_OK ? find_area(w, item->other_offset, sealed, &area, &task->error) : rc;
	if (rc < 0) {
		return rc;
	}
	if (sgpu_device_reaches(w->device, area, sealed, seals)) {
		work.kind = seals ? SGPU_WORK_SEAL_TO : SGPU_WORK_OPEN_FROM;
		*(seals ? &work.in : &work.out) = buffer.address;
		work.to = seals ? area : NULL;
		work.from = seals ? NULL : area;
		return sgpu_enqueue(w->stream, &work, 1);
	}
	/* The device does not reach host memory. */
	rc = w->staging ? SGPU_OK : alloc(w, w->config.area_size, &w->staging, &task->error);
	staged = w->staging + item->other_offset;
	work.kind = seals ? SGPU_WORK_SEAL : SGPU_WORK_OPEN;
	work.in = seals ? buffer.address : staged;
	work.out = seals ? staged : buffer.address;
	if (rc == SGPU_OK && !seals) {
		rc = sgpu_copy_in(w->stream, staged, area, sealed, NULL);
	}
	rc = rc < 0 ? rc : sgpu_enqueue(w->stream, &work, 1);
	return rc < 0 || !seals ? rc : sgpu_copy_out(w->stream, area, staged, sealed, NULL);
}

/* Waits for the opens before item `before`, since that item may read their data. Fails if one did
 * not verify. */
static int settle_opens(struct sgpu_group_worker *w, int before, struct sgpu_error *error)
{
	bool synced = false;

	for (; w->settled < before; w->settled++) {
		int rc = SGPU_OK;

		if (w->items[w->settled].kind != SGPU_ITEM_OPEN) {
			continue;
		}
		rc = synced ? SGPU_OK : sgpu_stream_sync(w->stream, error);
		synced = true;
		rc = rc ? rc : w->tasks[w->settled].code ? SGPU_EDEPENDENCY : SGPU_OK;
		if (rc < 0) {
			return rc;
		}
	}
	return SGPU_OK;
}

/* ---- jobs: only config.jobs knows what they are ---- */
/* The streams are idle. If the run failed, so does its item. */
static void end_run(struct sgpu_group_worker *w, int item)
{
	struct sgpu_error error = { 0 };
	int rc = w->runs[item] ? w->config.jobs->end(&w->runs[item], &error) : SGPU_OK;

	if (rc != SGPU_OK && w->tasks[item].code == SGPU_OK) {
		w->tasks[item].code = rc;
		w->tasks[item].error = error;
	}
}

static int load_job(struct sgpu_group_worker *w, const struct sgpu_item *item,
		    struct sgpu_error *error)
{
	const uint64_t most = memory_left(w), left = sgpu_limit_left(SGPU_DEVICE_MEMORY);
	uint64_t bytes = 0;
	int rc;

	if (!w->config.jobs) {
		return sgpu_fail(error, SGPU_EUSAGE, "there are no jobs here");
	}
	rc = w->config.jobs->load(w->device, (const char *)item->tail, item->tail_size,
				  left < most ? left : most, &w->jobs[item->object].job, &bytes,
				  error);
	if (rc == SGPU_OK) {
		/* other sessions may have taken memory meanwhile */
		rc = sgpu_limit_take(SGPU_DEVICE_MEMORY, bytes, error);
		if (rc < 0) {
			w->config.jobs->free(&w->jobs[item->object].job);
			return rc;
		}
		w->jobs[item->object].bytes = bytes;
		w->used += bytes;
	}
	return rc;
}

static int run_job(struct sgpu_group_worker *w, const struct sgpu_item *item,
		   struct sgpu_error *error)
{
	struct sgpu_remote_range named[SGPU_MODULE_RANGES_MAX];
	struct sgpu_device_range ranges[SGPU_MODULE_RANGES_MAX];
	int count = 0, rc = sgpu_item_ranges_decode(item, named, &count, error);

	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = find_range(w, named[i].buffer, named[i].offset, named[i].size, &ranges[i],
				error);
	}
	return rc < 0 ? rc
		      : w->config.jobs->start(w->jobs[item->object].job, w->stream, ranges, count,
					      &w->runs[item - w->items], error);
}

/* Its runs have ended. */
static void free_job(struct sgpu_group_worker *w, const struct sgpu_item *item)
{
	for (int i = 0; i < SGPU_GROUP_ITEMS; i++) {
		end_run(w, i);
	}
	sgpu_limit_give(SGPU_DEVICE_MEMORY, w->jobs[item->object].bytes);
	w->used -= w->jobs[item->object].bytes;
	w->config.jobs->free(&w->jobs[item->object].job);
}

/* ---- items ---- */
static int carry_out(struct sgpu_group_worker *w, const struct sgpu_item *item,
		     struct sgpu_task *task)
{
	int rc = item->kind != SGPU_ITEM_OPEN
			 ? settle_opens(w, (int)(item - w->items), &task->error)
			 : SGPU_OK;

	rc = rc ? rc : check_object(w, item, &task->error);
	if (rc < 0) {
		return rc;
	}
	switch (item->kind) {
	case SGPU_ITEM_ALLOC:
		return alloc_buffer(w, item, &task->error);
	case SGPU_ITEM_FREE:
		give_back(w, &w->buffers[item->buffer].memory, w->buffers[item->buffer].size);
		return SGPU_OK;
	case SGPU_ITEM_KEY_LOAD:
		return load_key(w, item, &task->error);
	case SGPU_ITEM_KEY_FREE:
		sgpu_device_key_free(&w->keys[item->object]);
		return SGPU_OK;
	case SGPU_ITEM_OPEN:
	case SGPU_ITEM_SEAL:
		return move_chunks(w, item, task);
	case SGPU_ITEM_JOB_LOAD:
		return load_job(w, item, &task->error);
	case SGPU_ITEM_JOB_FREE:
		free_job(w, item);
		return SGPU_OK;
	default:
		return run_job(w, item, &task->error);
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

/* Writes the answer, which always fits: the texts of all items share SGPU_GROUP_TEXT_MAX bytes. */
static size_t write_answer(const struct sgpu_group_worker *w, int count, int rc,
			   const struct sgpu_error *error, uint8_t answer[SGPU_GROUP_BYTES])
{
	uint8_t *at = sgpu_put_u32(answer, SGPU_OK);
	size_t left = SGPU_GROUP_TEXT_MAX - 4;

	if (rc < 0) {
		at = put_outcome(answer, answer + SGPU_GROUP_BYTES, rc, error->text);
		return (size_t)(at - answer);
	}
	for (int i = 0; i < count; i++) {
		const struct sgpu_task *t = &w->tasks[i];
		uint8_t *begin = at;
		const char *text = t->error.text[0] ? t->error.text : sgpu_strerror(t->code);

		at = put_outcome(at, at + 8 + left, t->code,
				 t->code == SGPU_OK || t->code == SGPU_EDEPENDENCY ? "" : text);
		left -= (size_t)(at - begin) - 8;
	}
	return (size_t)(at - answer);
}

/* Stops at the first item that cannot be enqueued, and waits for the end of those before: the
 * caller wipes the items, so nothing may still read them. */
static int carry_out_all(struct sgpu_group_worker *w, int count, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	w->settled = 0;
	for (int i = 0; i < count; i++) {
		w->tasks[i] = (struct sgpu_task){ .untimed = true };
		rc = rc == SGPU_OK ? carry_out(w, &w->items[i], &w->tasks[i]) : SGPU_EDEPENDENCY;
		if (rc < 0) {
			w->tasks[i].code = rc;
		}
	}
	rc = sgpu_stream_sync(w->stream, error);
	for (int i = 0; i < count; i++) {
		end_run(w, i);
	}
	return rc;
}

void sgpu_group_worker_run(struct sgpu_group_worker *w, const uint8_t *items, size_t size,
			   uint8_t answer[SGPU_GROUP_BYTES], size_t *answer_size)
{
	struct sgpu_error error = { 0 };
	int count = 0, rc = sgpu_items_decode(items, size, w->items, &count, &error);

	rc = rc == SGPU_OK ? carry_out_all(w, count, &error) : rc;
	*answer_size = write_answer(w, count, rc, &error, answer);
}

/* ---- beginning and end ---- */
int sgpu_group_worker_open(struct sgpu_group_worker *w, struct sgpu_secure *context,
			   const struct sgpu_group_config *config, struct sgpu_error *error)
{
	*w = (struct sgpu_group_worker){ .device = sgpu_secure_device(context), .config = *config };
	/* Without registration, copies are only slower. */
	w->registered = config->area && sgpu_host_register(w->device, config->area,
							   config->area_size, NULL) == SGPU_OK;
	return sgpu_stream_create(w->device, &w->stream, error);
}

void sgpu_group_worker_close(struct sgpu_group_worker *w)
{
	sgpu_stream_free(&w->stream);
	for (int i = 0; i < SGPU_GROUP_OBJECTS; i++) {
		sgpu_device_key_free(&w->keys[i]);
		if (w->jobs[i].job) {
			w->config.jobs->free(&w->jobs[i].job);
			sgpu_limit_give(SGPU_DEVICE_MEMORY, w->jobs[i].bytes);
		}
	}
	give_back(w, &w->staging, w->config.area_size);
	if (w->registered) {
		sgpu_host_unregister(w->device, w->config.area);
	}
	for (int i = 0; i < SGPU_GROUP_BUFFERS; i++) {
		give_back(w, &w->buffers[i].memory, w->buffers[i].size);
	}
}
