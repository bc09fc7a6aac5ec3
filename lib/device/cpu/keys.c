/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys of sealed segments on the CPU device: the key schedule, and a cipher made from it that workers copy.
 */
#include <stdlib.h>

#include <device/backends.h>
#include <device/cpu/cpu.h>

int sgpu_cpu_key_load(struct sgpu_stream *stream, const struct sgpu_sealed_keys *keys, struct sgpu_device_key **key,
		      struct sgpu_error *error)
{
	struct sgpu_device_key *new = calloc(1, sizeof(*new));
	int code;

	(void)stream;
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	new->object.backend = &sgpu_device_cpu;
	new->keys = *keys;
	code = sgpu_aead_create(NULL, keys->key, &new->model, error);
	if (code != SGPU_OK) {
		sgpu_cpu_key_free(new);
		return code;
	}
	*key = new;
	return SGPU_OK;
}

void sgpu_cpu_key_free(struct sgpu_device_key *key)
{
	sgpu_aead_free(&key->model);
	sgpu_free_wiped(&key, sizeof(*key));
}
