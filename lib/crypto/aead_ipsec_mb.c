/* SPDX-License-Identifier: Apache-2.0
 *
 * AES-256-GCM by libipsec-mb, on CPUs with VAES and VPCLMULQDQ. Its functions for whole messages
 * keep no state but the key, so one manager serves all threads.
 */
#if SGPU_IPSEC_MB

#include <pthread.h>
#include <string.h>

#include <intel-ipsec-mb.h>

#include <sgpu/base.h>

#include "crypto/internal.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static IMB_MGR *manager; /* made once and kept: every key of the process uses it */
static const char *description;

static void start(void)
{
	const uint64_t needed = IMB_FEATURE_VAES | IMB_FEATURE_VPCLMULQDQ;
	IMB_ARCH arch = IMB_ARCH_NONE;

	manager = alloc_mb_mgr(0);
	if (!manager) {
		return;
	}
	init_mb_mgr_auto(manager, &arch);
	if (imb_get_errno(manager) || (manager->features & needed) != needed ||
	    !manager->gcm256_enc) {
		free_mb_mgr(manager);
		manager = NULL;
		return;
	}
	description = arch == IMB_ARCH_AVX512 ? "ipsec-mb (VAES, AVX512)" : "ipsec-mb (VAES)";
}

static const char *describe(void)
{
	(void)pthread_once(&once, start);
	return description;
}

static int init(void *state, const uint8_t key[SGPU_KEY_SIZE])
{
	IMB_AES256_GCM_PRE(manager, key, (struct gcm_key_data *)state);
	return 0;
}

static int copy(void *state, const void *from)
{
	memcpy(state, from, sizeof(struct gcm_key_data));
	return 0;
}

static void clear(void *state)
{
	(void)state;
}

static int seal(void *state, const uint8_t nonce[SGPU_NONCE_SIZE], const uint8_t *in, size_t size,
		uint8_t *out, uint8_t tag[SGPU_TAG_SIZE])
{
	struct gcm_context_data context;

	IMB_AES256_GCM_ENC(manager, state, &context, out, in, size, nonce, (const uint8_t *)"", 0,
			   tag, SGPU_TAG_SIZE);
	sgpu_wipe(&context, sizeof(context));
	return 0;
}

static int open(void *state, const uint8_t nonce[SGPU_NONCE_SIZE], const uint8_t *in, size_t size,
		uint8_t *out, const uint8_t tag[SGPU_TAG_SIZE])
{
	struct gcm_context_data context;
	uint8_t computed[SGPU_TAG_SIZE];

	IMB_AES256_GCM_DEC(manager, state, &context, out, in, size, nonce, (const uint8_t *)"", 0,
			   computed, SGPU_TAG_SIZE);
	int rc = sgpu_equal(computed, tag, SGPU_TAG_SIZE) ? 0 : SGPU_EAUTH;
	sgpu_wipe(computed, sizeof(computed));
	sgpu_wipe(&context, sizeof(context));
	return rc;
}

const struct sgpu_aead_provider sgpu_aead_ipsec_mb = {
	.name = "ipsec-mb",
	.describe = describe,
	.state_size = sizeof(struct gcm_key_data),
	.init = init,
	.copy = copy,
	.clear = clear,
	.seal = seal,
	.open = open,
};

#else
/* ISO C requires a declaration in every file. */
typedef int sgpu_no_ipsec_mb;
#endif
