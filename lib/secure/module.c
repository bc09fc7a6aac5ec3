/* SPDX-License-Identifier: Apache-2.0
 *
 * Code in a secure context: it is copied into protected memory, measured there, compared with the
 * digest that the owner names, and only then loaded, from bytes of the host that have the same
 * digest. A launch says what its kernel is meant to touch.
 */
#include <stdlib.h>
#include <string.h>

#include "crypto/crypto.h"
#include "secure/context.h"

static struct sgpu_secure_module *module_of(struct sgpu_device_module *module)
{
	return (struct sgpu_secure_module *)(void *)module;
}

/* ---- measuring ---- */
int sgpu_secure_measure(struct sgpu_secure *context, sgpu_devptr memory, uint64_t size, bool keyed,
			uint8_t digest[SGPU_KT128_SIZE], struct sgpu_error *error)
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
	rc = sgpu_allocator_measure(ground->allocator, context->grant.channel, va, size, keyed, &m,
				    error);
	if (rc == SGPU_OK) {
		rc = sgpu_session_measurement(context->session, &m, error);
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
			 uint8_t digest[SGPU_KT128_SIZE], struct sgpu_error *error)
{
	sgpu_devptr memory = 0;
	struct sgpu_device *device = sgpu_secure_device(context);
	int rc = sgpu_device_alloc(device, size, &memory, error);

	if (rc == SGPU_OK) {
		rc = sgpu_secure_memcpy(context, image, memory, size, SGPU_SECURE_TO_DEVICE, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_secure_measure(context, memory, size, false, digest, error);
	}
	sgpu_device_free(device, &memory, size);
	return rc;
}

/* `image` is the context's own copy, which nobody changes between the check and the load. */
static int check_image(struct sgpu_secure *context, void *image, size_t size,
		       const uint8_t digest[SGPU_KT128_SIZE], struct sgpu_error *error)
{
	uint8_t on_device[SGPU_KT128_SIZE], here[SGPU_KT128_SIZE];
	int rc = measure_image(context, image, size, on_device, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	sgpu_measure_pages(image, size, NULL, here);
	if (!sgpu_equal(on_device, digest, sizeof(on_device)) ||
	    !sgpu_equal(here, digest, sizeof(here))) {
		return sgpu_fail(error, SGPU_EPOLICY,
				 "the module is not the one whose digest is named");
	}
	return SGPU_OK;
}

int sgpu_secure_module_load(struct sgpu_secure *context, const void *image, size_t size,
			    const uint8_t digest[SGPU_KT128_SIZE],
			    struct sgpu_device_module **module, struct sgpu_error *error)
{
	struct sgpu_secure_module *new = calloc(1, sizeof(*new));
	void *copy = malloc(size ? size : 1);
	int rc = new &&copy ? SGPU_OK : sgpu_fail_nomem(error);

	*module = NULL;
	if (rc == SGPU_OK) {
		memcpy(copy, image, size);
		new->object.backend = context->object.backend;
		new->context = context;
		rc = check_image(context, copy, size, digest, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_device_module_load(context->ground->device, copy, size, &new->inner,
					     error);
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
static int module_launch(struct sgpu_stream *stream, struct sgpu_device_module *module,
			 const char *function, const struct sgpu_module_shape *shape,
			 void *const *args, const size_t *arg_sizes, int arg_count,
			 const struct sgpu_module_memory *memory, struct sgpu_task *task)
{
	const struct sgpu_secure_stream *s = sgpu_secure_stream_of(stream);
	int rc;

	if (!memory) {
		return sgpu_task_refuse(
			task, SGPU_EPOLICY,
			"a secure context starts a module's function only with the ranges that it "
			"touches");
	}
	if (memory->count < 0 || memory->count > SGPU_MODULE_RANGES_MAX) {
		return sgpu_task_refuse(task, SGPU_EUSAGE, "a launch names too many ranges");
	}
	if (module_of(module)->context != s->context) {
		return sgpu_task_refuse(task, SGPU_EPOLICY, "the module is not of this context");
	}
	rc = sgpu_secure_begin(s->context, memory->ranges, memory->count, task);
	return rc < 0 ? rc
		      : sgpu_secure_end(s->context,
					sgpu_device_module_launch_on(
						s->inner, module_of(module)->inner, function, shape,
						args, arg_sizes, arg_count, memory, task));
}

/* ---- the calls of the device ---- */
/* Without a digest nothing is loaded. */
static int module_load(struct sgpu_device *device, const void *image, size_t size,
		       struct sgpu_device_module **module, struct sgpu_error *error)
{
	(void)device;
	(void)image;
	(void)size;
	(void)module;
	return sgpu_fail(error, SGPU_EPOLICY,
			 "a secure context loads a module only with the digest of it");
}

/* No launch is pending. */
static void module_free(struct sgpu_device_module *module)
{
	sgpu_device_module_free(&module_of(module)->inner);
	free(module_of(module));
}

static int module_confinement(struct sgpu_device *device,
			      struct sgpu_module_confinement *confinement, struct sgpu_error *error)
{
	return sgpu_device_module_confinement(
		((struct sgpu_secure *)(void *)device)->ground->device, confinement, error);
}

static bool module_broke_rules(struct sgpu_device *device)
{
	return sgpu_device_module_broke_rules(
		((struct sgpu_secure *)(void *)device)->ground->device);
}

const struct sgpu_device_module_calls sgpu_secure_module_calls = {
	.load = module_load,
	.free = module_free,
	.launch = module_launch,
	.confinement = module_confinement,
	.broke_rules = module_broke_rules,
};
