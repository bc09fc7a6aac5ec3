/* SPDX-License-Identifier: Apache-2.0
 *
 * AES-256-GCM: the table of providers, and the choice among them.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "crypto/internal.h"

enum { STATE_ALIGNMENT = 64 };
/* SP 800-38D: more would wrap the block counter. */
#define MESSAGE_MAX (((uint64_t)1 << 36) - 32)

/* Fastest first. */
static const struct sgpu_aead_provider *const providers[] = {
#if SGPU_IPSEC_MB
	&sgpu_aead_ipsec_mb,
#endif
	&sgpu_aead_openssl,
};

struct sgpu_aead {
	const struct sgpu_aead_provider *provider;
	size_t allocated;
	_Alignas(STATE_ALIGNMENT) uint8_t state[];
};

/* Returns the provider of that name or, for NULL, the first that runs here; NULL: none. */
static const struct sgpu_aead_provider *find(const char *name)
{
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(providers); i++) {
		if ((!name || !strcmp(name, providers[i]->name)) && providers[i]->describe()) {
			return providers[i];
		}
	}
	return NULL;
}

static const char *wanted(void)
{
	const char *name = secure_getenv("SGPU_AEAD");

	return name && *name ? name : NULL;
}

static int unavailable(const char *name, struct sgpu_error *error)
{
	(void)sgpu_fail(error, SGPU_EUNAVAILABLE, "no provider '%s' of AES-256-GCM on this machine",
			name);
	(void)sgpu_hint(error, "this build and CPU have: %s%s%s", sgpu_aead_providers()[0],
			sgpu_aead_providers()[1] ? ", " : "",
			sgpu_aead_providers()[1] ? sgpu_aead_providers()[1] : "");
	return SGPU_EUNAVAILABLE;
}

/* Makes a state for a key, or a copy of `from` unless that is NULL. */
static int make(const struct sgpu_aead_provider *provider, const uint8_t *key,
		const struct sgpu_aead *from, struct sgpu_aead **aead, struct sgpu_error *error)
{
	const size_t size = (sizeof(**aead) + provider->state_size + STATE_ALIGNMENT - 1) /
			    STATE_ALIGNMENT * STATE_ALIGNMENT;
	struct sgpu_aead *made = *aead = aligned_alloc(STATE_ALIGNMENT, size);

	if (!made) {
		return sgpu_fail_nomem(error);
	}
	memset(made, 0, size);
	made->provider = provider;
	made->allocated = size;
	if (from ? provider->copy(made->state, from->state) : provider->init(made->state, key)) {
		sgpu_aead_free(aead);
		return sgpu_fail(error, SGPU_EDEVICE, "%s: cannot set up AES-256-GCM",
				 provider->name);
	}
	return 0;
}

int sgpu_aead_create(const char *name, const uint8_t key[SGPU_KEY_SIZE], struct sgpu_aead **aead,
		     struct sgpu_error *error)
{
	name = name ? name : wanted();
	*aead = NULL;
	const struct sgpu_aead_provider *provider = find(name);
	return provider ? make(provider, key, NULL, aead, error)
			: unavailable(name ? name : "any", error);
}

int sgpu_aead_copy(const struct sgpu_aead *aead, struct sgpu_aead **copy, struct sgpu_error *error)
{
	return make(aead->provider, NULL, aead, copy, error);
}

void sgpu_aead_free(struct sgpu_aead **aead)
{
	if (aead && *aead) {
		(*aead)->provider->clear((*aead)->state);
		sgpu_free_wiped(aead, (*aead)->allocated);
	}
}

const char *sgpu_aead_provider(void)
{
	const struct sgpu_aead_provider *provider = find(wanted());

	return provider ? provider->describe() : "none";
}

const char *const *sgpu_aead_providers(void)
{
	/* Threads that race here write the same pointers. */
	static const char *names[SGPU_ARRAY_LENGTH(providers) + 1];
	size_t count = 0;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(providers); i++) {
		if (providers[i]->describe()) {
			__atomic_store_n(&names[count++], providers[i]->name, __ATOMIC_RELAXED);
		}
	}
	return names;
}

int sgpu_aead_seal(struct sgpu_aead *aead, const uint8_t nonce[SGPU_NONCE_SIZE], const uint8_t *in,
		   size_t size, uint8_t *out, uint8_t tag[SGPU_TAG_SIZE])
{
	if (size > MESSAGE_MAX) {
		return SGPU_EUSAGE;
	}
	return aead->provider->seal(aead->state, nonce, in, size, out, tag);
}

int sgpu_aead_open(struct sgpu_aead *aead, const uint8_t nonce[SGPU_NONCE_SIZE], const uint8_t *in,
		   size_t size, uint8_t *out, const uint8_t tag[SGPU_TAG_SIZE])
{
	if (size > MESSAGE_MAX) {
		return SGPU_EUSAGE;
	}
	int rc = aead->provider->open(aead->state, nonce, in, size, out, tag);
	if (rc) {
		sgpu_wipe(out, size);
	}
	return rc;
}
