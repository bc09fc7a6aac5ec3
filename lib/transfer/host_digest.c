/* SPDX-License-Identifier: Apache-2.0
 *
 * KangarooTwelve of data whose chunk runs come in any order: each worker computes the leaves of its
 * run. The list of leaves grows as the data arrive, whatever size they are said to have.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "crypto/kt128.h"
#include "transfer/host.h"

enum { VALUES_MIN = 64 << 10 };

struct host_digest {
	uint64_t size;
	uint64_t leaves;		 /* whole ones: all chunks but the first and the last */
	uint8_t first[SGPU_KT128_CHUNK]; /* the chunk that the final node takes itself */
	uint8_t rest[SGPU_KT128_CHUNK];	 /* behind the last whole chunk */
	pthread_mutex_t lock;		 /* of the leaves' values */
	uint8_t *values;
	uint64_t capacity; /* bytes */
};

_Static_assert(HOST_RUN_PLAIN % SGPU_KT128_CHUNK == 0, "a chunk run has whole leaves");

int sgpu_host_digest_create(uint64_t size, struct host_digest **digest, struct sgpu_error *error)
{
	uint64_t leaves = size / SGPU_KT128_CHUNK;

	*digest = calloc(1, sizeof(**digest));
	if (!*digest) {
		return sgpu_fail_nomem(error);
	}
	(*digest)->size = size;
	(*digest)->leaves = leaves - (leaves > 0);
	pthread_mutex_init(&(*digest)->lock, NULL);
	return 0;
}

/* With the lock held. */
static int reserve_values(struct host_digest *digest, uint64_t bytes, struct sgpu_error *error)
{
	uint64_t capacity = digest->capacity ? digest->capacity : VALUES_MIN;
	uint8_t *values;

	while (capacity < bytes) {
		capacity *= 2;
	}
	if (capacity == digest->capacity) {
		return 0;
	}
	values = realloc(digest->values, capacity);
	if (!values) {
		return sgpu_fail_nomem(error);
	}
	digest->values = values;
	digest->capacity = capacity;
	return 0;
}

int sgpu_host_digest_add(struct host_digest *digest, uint64_t position, const uint8_t *data,
			 size_t size, struct sgpu_error *error)
{
	uint8_t values[HOST_RUN_PLAIN / SGPU_KT128_CHUNK * SGPU_KT128_VALUE];
	size_t whole = size / SGPU_KT128_CHUNK, rest = size % SGPU_KT128_CHUNK;
	uint64_t chunk = position / SGPU_KT128_CHUNK, begin;
	int code;

	if (rest) {
		memcpy(digest->rest, data + size - rest, rest);
	}
	if (whole && chunk == 0) {
		memcpy(digest->first, data, SGPU_KT128_CHUNK);
		data += SGPU_KT128_CHUNK;
		whole--;
		chunk++;
	}
	if (whole == 0) {
		return 0;
	}
	begin = (chunk - 1) * SGPU_KT128_VALUE;
	sgpu_kt128_leaves(data, whole, values);
	pthread_mutex_lock(&digest->lock);
	code = reserve_values(digest, begin + whole * SGPU_KT128_VALUE, error);
	if (!code) {
		memcpy(digest->values + begin, values, whole * SGPU_KT128_VALUE);
	}
	pthread_mutex_unlock(&digest->lock);
	return code;
}

void sgpu_host_digest_finish(struct host_digest *digest, uint8_t out[SGPU_KT128_SIZE])
{
	struct sgpu_kt128 state = { 0 };

	if (digest->size >= SGPU_KT128_CHUNK) {
		sgpu_kt128_update(&state, digest->first, sizeof(digest->first));
		(void)sgpu_kt128_at_leaf(&state);
		sgpu_kt128_take(&state, digest->values, digest->leaves);
	}
	sgpu_kt128_update(&state, digest->rest, (size_t)(digest->size % SGPU_KT128_CHUNK));
	sgpu_kt128_finish(&state, NULL, 0, out, SGPU_KT128_SIZE);
	sgpu_wipe(&state, sizeof(state));
}

void sgpu_host_digest_free(struct host_digest **digest)
{
	if (*digest) {
		sgpu_free_wiped(&(*digest)->values, (*digest)->capacity);
		pthread_mutex_destroy(&(*digest)->lock);
		sgpu_free_wiped(digest, sizeof(**digest));
	}
}
