/* SPDX-License-Identifier: Apache-2.0
 *
 * The measure of memory, sgpu-quote(5): the digest of the list of its pages' digests.
 */
#include <string.h>

#include <sgpu/base.h>

#include "crypto/kt128.h"

enum { BATCH = 256 }; /* pages whose digests wait on the stack for the list */

struct pages {
	const uint8_t *data;
	uint64_t size;
	const struct sgpu_measure_custom *custom;
	uint8_t (*digests)[SGPU_KT128_SIZE];
};

void sgpu_measure_custom(const uint8_t *key, struct sgpu_measure_custom *custom)
{
	/* The literal's NUL separates the text from a key. */
	memcpy(custom->bytes, SGPU_MEASURE_CUSTOM, sizeof(SGPU_MEASURE_CUSTOM));
	custom->size = sizeof(SGPU_MEASURE_CUSTOM) - 1;
	if (key) {
		memcpy(custom->bytes + sizeof(SGPU_MEASURE_CUSTOM), key, SGPU_KEY_SIZE);
		custom->size = sizeof(custom->bytes);
	}
}

static uint64_t page_size(const struct pages *p, uint64_t page)
{
	const uint64_t left = p->size - page * SGPU_MEASURE_PAGE;

	return left < SGPU_MEASURE_PAGE ? left : SGPU_MEASURE_PAGE;
}

static void digest_pages(void *argument, uint64_t begin, uint64_t end)
{
	const struct pages *p = argument;

	for (uint64_t i = begin; i < end; i++) {
		sgpu_kt128(p->data + i * SGPU_MEASURE_PAGE, page_size(p, i), p->custom->bytes,
			   p->custom->size, p->digests[i], sizeof(p->digests[i]));
	}
}

int sgpu_measure_pages_shared(struct sgpu_pool *pool, const void *data, uint64_t size,
			      const uint8_t *key, uint8_t digest[SGPU_KT128_SIZE],
			      struct sgpu_error *error)
{
	uint8_t digests[BATCH][SGPU_KT128_SIZE];
	struct sgpu_measure_custom custom;
	struct sgpu_kt128 list = { 0 };
	int rc = SGPU_OK;

	sgpu_measure_custom(key, &custom);
	for (uint64_t done = 0, now; done < size && rc == SGPU_OK; done += now) {
		struct pages p = { .data = (const uint8_t *)data + done,
				   .custom = &custom,
				   .digests = digests };
		uint64_t count;

		now = size - done < BATCH * (uint64_t)SGPU_MEASURE_PAGE
			      ? size - done
			      : BATCH * (uint64_t)SGPU_MEASURE_PAGE;
		p.size = now;
		count = (now + SGPU_MEASURE_PAGE - 1) / SGPU_MEASURE_PAGE;
		if (pool) {
			rc = sgpu_pool_for(pool, count, 1, 0, digest_pages, &p);
		} else {
			digest_pages(&p, 0, count);
		}
		if (rc == SGPU_OK) {
			sgpu_kt128_update(&list, digests, count * sizeof(digests[0]));
		}
	}
	if (rc == SGPU_OK) {
		sgpu_kt128_finish(&list, custom.bytes, custom.size, digest, SGPU_KT128_SIZE);
	}
	sgpu_wipe(&custom, sizeof(custom));
	sgpu_wipe(&list, sizeof(list));
	sgpu_wipe(digests, sizeof(digests));
	return rc == SGPU_OK ? rc
			     : sgpu_fail(error, rc, "the measure was not computed: %s",
					 sgpu_strerror(rc));
}

void sgpu_measure_pages(const void *data, uint64_t size, const uint8_t *key,
			uint8_t digest[SGPU_KT128_SIZE])
{
	(void)!sgpu_measure_pages_shared(NULL, data, size, key, digest, NULL);
}
