/* SPDX-License-Identifier: Apache-2.0
 *
 * Secure copies: live copies of a transfer engine over the context, so that only ciphertext passes
 * between host and device. Engine and key are made at a context's first copy.
 */
#include "crypto/crypto.h"
#include "transfer/transfer.h"

#include "channel/context.h"

/* More workers would seal faster than most buses copy. */
enum { WORKERS_MAX = 8 };

static int load_key(struct sgpu_secure *context, struct sgpu_error *error)
{
	static const char custom[] = "sgpu secure copy v1";
	struct sgpu_sealed_keys keys = { .salt = { 0 } };
	uint8_t key[SGPU_KEY_SIZE];
	int rc = sgpu_random(key, sizeof(key), error);

	if (rc == SGPU_OK) {
		rc = sgpu_sealed_keys_new(key, custom, sizeof(custom) - 1, &keys, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_live_key_load(context->copier, &keys, &context->copy_key, error);
	}
	sgpu_wipe(key, sizeof(key));
	sgpu_wipe(&keys, sizeof(keys));
	return rc;
}

/* Makes the context's engine and key unless it has them. `copy_lock` is held. */
static int make_copier(struct sgpu_secure *context, struct sgpu_error *error)
{
	const unsigned cpus = sgpu_cpu_count();
	const struct sgpu_engine_config config = { .workers = cpus < WORKERS_MAX ? cpus
										 : WORKERS_MAX };
	int rc;

	if (context->copy_key) {
		return SGPU_OK;
	}
	rc = sgpu_engine_create(sgpu_secure_device(context), &config, &context->copier, error);
	rc = rc == SGPU_OK ? load_key(context, error) : rc;
	if (rc != SGPU_OK) {
		sgpu_secure_copier_free(context);
	}
	return rc;
}

void sgpu_secure_copier_free(struct sgpu_secure *context)
{
	sgpu_live_key_free(&context->copy_key);
	sgpu_engine_free(&context->copier);
}

int sgpu_secure_memcpy(struct sgpu_secure *context, const void *host, sgpu_devptr memory,
		       uint64_t size, struct sgpu_error *error)
{
	struct sgpu_transfer_result result = { 0 };
	const struct sgpu_device_range range = { memory, size };
	struct sgpu_task task = { 0 };
	int rc = sgpu_device_check(sgpu_secure_device(context), &range, 1, &task);

	if (rc != SGPU_OK) {
		return sgpu_fail(error, rc, "%s", task.error.text);
	}
	if (size == 0) {
		return SGPU_OK;
	}
	pthread_mutex_lock(&context->copy_lock);
	rc = make_copier(context, error);
	pthread_mutex_unlock(&context->copy_lock);
	if (rc != SGPU_OK) {
		return rc;
	}
	rc = sgpu_live_in(context->copier, context->copy_key, host, size, memory, &result);
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "%s", result.error.text);
}
