/* SPDX-License-Identifier: Apache-2.0
 *
 * Secure copies, which are live copies of a transfer engine over the context, and loading modules
 * by them. An image's copy in host memory must have the owner's digest, too.
 */
#include <stdlib.h>
#include <string.h>

#include "crypto/crypto.h"
#include "transfer/transfer.h"
#include "channel/context.h"

static int check_memory(struct sgpu_secure *context, sgpu_devptr memory, uint64_t size,
			struct sgpu_error *error)
{
	const struct sgpu_device_range range = { memory, size };
	struct sgpu_task task = { 0 };
	int rc = sgpu_device_check(sgpu_secure_device(context), &range, 1, &task);

	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "%s", task.error.text);
}

/* ---- copies ---- */
/* More workers would seal faster than most buses copy. */
enum { WORKERS_MAX = 8 };

int sgpu_secure_memcpy(struct sgpu_secure *context, const void *host, sgpu_devptr memory,
		       uint64_t size, struct sgpu_error *error)
{
	const unsigned cpus = sgpu_cpu_count();
	const struct sgpu_engine_config config = { .workers = cpus < WORKERS_MAX ? cpus
										 : WORKERS_MAX };
	struct sgpu_transfer_result result;
	struct sgpu_engine *engine = NULL;
	struct sgpu_live_key *key = NULL;
	int rc = check_memory(context, memory, size, error);

	if (rc != SGPU_OK || size == 0) {
		return rc;
	}
	rc = sgpu_engine_create(sgpu_secure_device(context), &config, &engine, error);
	rc = rc ? rc : sgpu_live_key_load(engine, &key, error);
	if (rc == SGPU_OK && sgpu_live_in(key, host, size, memory, &result) != SGPU_OK) {
		rc = sgpu_fail(error, result.code, "%s", result.error.text);
	}
	sgpu_live_key_free(&key);
	sgpu_engine_free(&engine);
	return rc;
}

/* ---- measuring ---- */
int sgpu_secure_measure(struct sgpu_secure *context, sgpu_devptr memory, uint64_t size, bool keyed,
			uint8_t digest[SGPU_KT128_SIZE], struct sgpu_error *error)
{
	struct sgpu_ground *ground = context->ground;
	struct sgpu_report m = { 0 };
	uint64_t va = memory - context->base;
	int rc = check_memory(context, memory, size, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	pthread_mutex_lock(&ground->lock);
	ground->sender = context;
	rc = sgpu_allocator_measure(ground->allocator, context->grant.channel, va, size, keyed, &m,
				    error);
	if (rc == SGPU_OK) {
		rc = sgpu_session_report(context->session, SGPU_CH_MEASURE, &m, error);
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
/* `image` is the context's own copy, so nobody changes it between the check and the load. */
static int check_image(struct sgpu_secure *context, void *image, size_t size,
		       const uint8_t digest[SGPU_KT128_SIZE], struct sgpu_error *error)
{
	struct sgpu_device *device = sgpu_secure_device(context);
	uint8_t on_device[SGPU_KT128_SIZE], here[SGPU_KT128_SIZE];
	sgpu_devptr memory = 0;
	int rc = sgpu_device_alloc(device, size, &memory, error);

	if (rc == SGPU_OK) {
		rc = sgpu_secure_memcpy(context, image, memory, size, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_secure_measure(context, memory, size, false, on_device, error);
	}
	sgpu_device_free(device, &memory, size);
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
	void *copy = malloc(size ? size : 1);
	int rc = copy ? SGPU_OK : sgpu_fail_nomem(error);

	*module = NULL;
	if (rc == SGPU_OK) {
		memcpy(copy, image, size);
		rc = check_image(context, copy, size, digest, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_device_module_load(context->ground->device, copy, size, module, error);
	}
	if (rc == SGPU_OK) {
		((struct sgpu_device_object *)(void *)*module)->guard = &context->guard;
	}
	sgpu_free_wiped(&copy, size);
	return rc;
}
