/* SPDX-License-Identifier: Apache-2.0
 *
 * Code in a secure context: it is copied into protected memory, measured there, compared with the digest that the owner
 * names, and only then loaded, from bytes of the host that have the same digest. What a kernel is meant to touch is said with
 * its launch.
 */
#include <stdlib.h>
#include <string.h>

#include "secure/secure.h"

static struct sgpu_secure_module *module_of(struct sgpu_device_module *module)
{
	return (struct sgpu_secure_module *)(void *)module;
}

/* ---- measuring ---- */
int sgpu_secure_measure(struct sgpu_secure *context, sgpu_devptr memory, uint64_t size, bool keyed,
			uint8_t digest[SGPU_CHANNEL_DIGEST_SIZE], struct sgpu_error *error)
{
	struct sgpu_ground *ground = context->ground;
	struct sgpu_measurement m = { 0 };
	struct sgpu_task task = { 0 };
	uint64_t va = memory - context->base;
	int rc = sgpu_secure_check_range(context, memory, size, &task);

	if (rc != SGPU_OK) {
		return sgpu_fail(error, rc, "%s", task.error.text);
	}
	pthread_mutex_lock(&ground->lock);
	ground->sender = context;
	rc = sgpu_allocator_measure(ground->allocator, context->first->grant.channel, va, size, keyed, &m, error);
	if (rc == SGPU_OK) {
		pthread_mutex_lock(&context->first->lock);
		rc = sgpu_session_measurement(context->first->session, &m, error);
		pthread_mutex_unlock(&context->first->lock);
	}
	pthread_mutex_unlock(&ground->lock);
	if (rc == SGPU_OK && (m.va != va || m.size != size || m.keyed != keyed)) {
		rc = sgpu_fail(error, SGPU_EAUTH, "other memory was measured than was asked for");
	}
	if (rc == SGPU_OK) {
		memcpy(digest, m.digest, sizeof(m.digest));
	}
	sgpu_wipe(&m, sizeof(m));
	return rc;
}

/* ---- loading ---- */
/* The measure of `image` in protected memory. */
static int measure_image(struct sgpu_secure *context, void *image, size_t size,
			 uint8_t digest[SGPU_CHANNEL_DIGEST_SIZE], struct sgpu_error *error)
{
	sgpu_devptr memory = 0;
	int rc = sgpu_secure_malloc(context, size, &memory, error);

	if (rc == SGPU_OK) {
		rc = sgpu_secure_memcpy(context, image, memory, size, SGPU_SECURE_TO_DEVICE, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_secure_measure(context, memory, size, false, digest, error);
	}
	sgpu_secure_free(context, &memory);
	return rc;
}

/* `image` is the context's own copy, which nobody changes between the check and the load. */
static int check_image(struct sgpu_secure *context, void *image, size_t size,
		       const uint8_t digest[SGPU_CHANNEL_DIGEST_SIZE], struct sgpu_error *error)
{
	uint8_t on_device[SGPU_CHANNEL_DIGEST_SIZE], here[SGPU_CHANNEL_DIGEST_SIZE];
	int rc = measure_image(context, image, size, on_device, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	sgpu_kt128(image, size, SGPU_MEASURE_CUSTOM, sizeof(SGPU_MEASURE_CUSTOM) - 1, here, sizeof(here));
	if (!sgpu_equal(on_device, digest, sizeof(on_device)) || !sgpu_equal(here, digest, sizeof(here))) {
		return sgpu_fail(error, SGPU_EPOLICY, "the module is not the one whose digest is named");
	}
	return SGPU_OK;
}

static int submit_module(struct sgpu_secure_module *module, enum sgpu_item_kind kind, const void *image, size_t size,
			 struct sgpu_error *error)
{
	struct { struct sgpu_group group; struct sgpu_item_module item; } request = {
		.item = { .head = { kind, sizeof(request.item) }, .module = (uint64_t)(uintptr_t)module,
			  .image = (uint64_t)(uintptr_t)image, .size = size },
	};

	return sgpu_lane_submit(module->context->first, &request.group, sizeof(request), error);
}

int sgpu_secure_module_load(struct sgpu_secure *context, const void *image, size_t size,
			    const uint8_t digest[SGPU_CHANNEL_DIGEST_SIZE], struct sgpu_device_module **module,
			    struct sgpu_error *error)
{
	struct sgpu_secure_module *new = calloc(1, sizeof(*new));
	void *copy = malloc(size ? size : 1);
	int rc = new && copy ? SGPU_OK : sgpu_fail_nomem(error);

	*module = NULL;
	if (rc == SGPU_OK) {
		memcpy(copy, image, size);
		new->object.backend = context->object.backend;
		new->context = context;
		rc = check_image(context, copy, size, digest, error);
	}
	if (rc == SGPU_OK) {
		rc = submit_module(new, SGPU_ITEM_MODULE_LOAD, copy, size, error);
	}
	sgpu_free_wiped(&copy, size);
	if (rc != SGPU_OK) {
		free(new);
		return rc;
	}
	*module = (struct sgpu_device_module *)(void *)new;
	return SGPU_OK;
}

/* ---- launching ---- */
/* All of a launch as one item; `at` has room for SGPU_GROUP_ITEMS_MAX bytes. Returns its size, or 0: it has none. */
static size_t write_launch(uint8_t *at, struct sgpu_item_module_launch item, const struct sgpu_module_memory *memory,
			   void *const *args, const size_t *arg_sizes)
{
	const struct sgpu_device_range *ranges = memory->ranges;
	size_t size = sizeof(item) + item.range_count * sizeof(*ranges), value = size + (size_t)item.arg_count * 8;

	for (uint32_t i = 0; i < item.arg_count; i++) {
		if (arg_sizes[i] > SGPU_GROUP_ITEMS_MAX || value > SGPU_GROUP_ITEMS_MAX) {
			return 0;
		}
		value += sgpu_group_round(arg_sizes[i]);
	}
	if (value > SGPU_GROUP_ITEMS_MAX - sizeof(struct sgpu_group)) {
		return 0;
	}
	item.head = (struct sgpu_item){ SGPU_ITEM_MODULE_LAUNCH, (uint32_t)value };
	memset(at, 0, value);
	memcpy(at, &item, sizeof(item));
	if (item.range_count > 0) {
		memcpy(at + sizeof(item), ranges, item.range_count * sizeof(*ranges));
	}
	value = size + (size_t)item.arg_count * 8;
	for (uint32_t i = 0; i < item.arg_count; i++) {
		uint64_t target = memory->target && memory->target[i] >= 0 ? (uint64_t)memory->target[i] + 1 : 0;
		uint64_t arg_size = arg_sizes[i] | target << 32;

		memcpy(at + size + i * 8, &arg_size, sizeof(arg_size));
		memcpy(at + value, args[i], arg_sizes[i]);
		value += sgpu_group_round(arg_sizes[i]);
	}
	return value;
}

static int refuse(struct sgpu_task *task, int rc, const char *text)
{
	if (task) {
		task->code = sgpu_fail(&task->error, rc, "%s", text);
	}
	return rc;
}

int sgpu_secure_kernel_launch(struct sgpu_stream *stream, struct sgpu_device_module *module, const char *function,
			      const struct sgpu_module_shape *shape, void *const *args, const size_t *arg_sizes,
			      int arg_count, const struct sgpu_module_memory *memory, struct sgpu_task *task)
{
	struct sgpu_lane *lane = (struct sgpu_lane *)(void *)stream;
	struct { struct sgpu_group group; uint8_t item[SGPU_GROUP_ITEMS_MAX - sizeof(struct sgpu_group)]; } request;
	struct sgpu_item_module_launch item = { .module = (uint64_t)(uintptr_t)module_of(module),
						.function = (uint64_t)(uintptr_t)function, .shape = *shape,
						.task = (uint64_t)(uintptr_t)task, .written = memory->written,
						.range_count = (uint32_t)memory->count,
						.arg_count = (uint32_t)arg_count };
	struct sgpu_error why = { 0 };
	size_t size;
	int rc = SGPU_OK;

	if (memory->count < 0 || memory->count > SGPU_MODULE_RANGES_MAX || arg_count < 0 ||
	    arg_count > SGPU_MODULE_ARGUMENTS_MAX) {
		return refuse(task, SGPU_EUSAGE, "a launch names too many ranges or arguments");
	}
	for (int i = 0; rc == SGPU_OK && i < memory->count; i++) {
		rc = sgpu_secure_check_range(lane->context, memory->ranges[i].address, memory->ranges[i].size, task);
	}
	if (rc != SGPU_OK) {
		return rc;
	}
	size = write_launch(request.item, item, memory, args, arg_sizes);
	if (size == 0) {
		return refuse(task, SGPU_EUSAGE, "the arguments of a launch are too large");
	}
	rc = sgpu_lane_submit(lane, &request.group, sizeof(request.group) + size, &why);
	sgpu_wipe(&request, sizeof(request.group) + size);
	return rc == SGPU_OK ? rc : refuse(task, rc, why.text);
}

/* ---- the rows of the device ---- */
/* Without a digest nothing is loaded. */
int sgpu_secure_module_load_row(struct sgpu_device *device, const void *image, size_t size,
				struct sgpu_device_module **module, struct sgpu_error *error)
{
	(void)device;
	(void)image;
	(void)size;
	(void)module;
	return sgpu_fail(error, SGPU_EPOLICY, "a secure context loads a module only with the digest of it");
}

/* No launch is pending. */
void sgpu_secure_module_free_row(struct sgpu_device_module *module)
{
	struct sgpu_secure_module *m = module_of(module);

	if (submit_module(m, SGPU_ITEM_MODULE_FREE, NULL, 0, NULL) != SGPU_OK) {
		sgpu_device_module_free(&m->inner);
	}
	free(m);
}

int sgpu_secure_module_launch_row(struct sgpu_stream *stream, struct sgpu_device_module *module, const char *function,
				  const struct sgpu_module_shape *shape, void *const *args, const size_t *arg_sizes,
				  int arg_count, struct sgpu_task *task)
{
	(void)stream;
	(void)module;
	(void)function;
	(void)shape;
	(void)args;
	(void)arg_sizes;
	(void)arg_count;
	return refuse(task, SGPU_EPOLICY, "a secure context starts a module's function only with the ranges that it touches");
}
