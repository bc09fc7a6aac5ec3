/* SPDX-License-Identifier: Apache-2.0
 *
 * Secure copies: live copies of a transfer engine over the context, so that only ciphertext passes
 * between host and device. Engine and key are made at a context's first copy.
 */
#include <stdlib.h>

#include "crypto/crypto.h"
#include "transfer/transfer.h"

#include "secure/context.h"

/* More workers would seal faster than most buses copy. */
enum { WORKERS_MAX = 8 };

struct sgpu_copier {
	struct sgpu_engine *engine;
	struct sgpu_live_key *key;
};

static int load_key(struct sgpu_copier *copier, struct sgpu_error *error)
{
	static const char custom[] = "sgpu secure copy v1";
	struct sgpu_sealed_keys keys = { .salt = { 0 } };
	uint8_t key[SGPU_KEY_SIZE];
	int rc = sgpu_random(key, sizeof(key), error);

	if (rc == SGPU_OK) {
		rc = sgpu_sealed_keys_new(key, custom, sizeof(custom) - 1, &keys, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_live_key_load(copier->engine, &keys, &copier->key, error);
	}
	sgpu_wipe(key, sizeof(key));
	sgpu_wipe(&keys, sizeof(keys));
	return rc;
}

/* Makes the context's copier unless there is one. `copy_lock` is held. */
static int make_copier(struct sgpu_secure *context, struct sgpu_error *error)
{
	struct sgpu_engine_config config = { .workers = sgpu_cpu_count() };
	int rc;

	if (context->copier) {
		return SGPU_OK;
	}
	context->copier = calloc(1, sizeof(*context->copier));
	if (!context->copier) {
		return sgpu_fail_nomem(error);
	}
	config.workers = config.workers < WORKERS_MAX ? config.workers : WORKERS_MAX;
	rc = sgpu_engine_create((struct sgpu_device *)(void *)context, &config,
				&context->copier->engine, error);
	if (rc == SGPU_OK) {
		rc = load_key(context->copier, error);
	}
	if (rc != SGPU_OK) {
		sgpu_secure_copier_free(context);
	}
	return rc;
}

void sgpu_secure_copier_free(struct sgpu_secure *context)
{
	if (context->copier) {
		sgpu_live_key_free(&context->copier->key);
		sgpu_engine_free(&context->copier->engine);
		free(context->copier);
		context->copier = NULL;
	}
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
	rc = sgpu_live_in(context->copier->engine, context->copier->key, host, size, memory,
			  &result);
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "%s", result.error.text);
}
