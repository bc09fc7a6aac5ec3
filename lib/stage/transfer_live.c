/* SPDX-License-Identifier: Apache-2.0
 *
 * Live copies, the processors' side: groups lie in a ring of pinned memory that stays in their caches, and threads
 * take parts of the oldest group that has any. A thread prefers the same place in every group, so that its part of the
 * ring stays in its own cache.
 */
#include <string.h>

#include <crypto/aead.h>
#include <stage/transfer.h>

enum { PARTS = 32 };
#define ALL_PARTS ((uint64_t)UINT32_MAX)

uint64_t sgpu_transfer_live_plain(const struct sgpu_transfer_live *live, uint64_t first, uint64_t count)
{
	uint64_t from = first * SGPU_CHUNK, bytes = count * SGPU_CHUNK;

	return bytes < live->size - from ? bytes : live->size - from;
}

uint64_t sgpu_transfer_live_bytes(const struct sgpu_transfer_live *live, uint64_t first, uint64_t count)
{
	return sgpu_transfer_live_plain(live, first, count) + count * (live->stride - SGPU_CHUNK);
}

void sgpu_transfer_offer(struct sgpu_transfer_live *live, uint64_t number, struct sgpu_transfer_group group)
{
	struct sgpu_transfer_share *share = &live->shares[number % live->share_count];

	share->group = group;
	share->parts = group.count < PARTS ? (unsigned)group.count : PARTS;
	atomic_store_explicit(&share->finished, 0, memory_order_relaxed);
	/* Parts that the group does not have count as taken. */
	atomic_store_explicit(&share->taken, number << PARTS | (ALL_PARTS & ~(((uint64_t)1 << share->parts) - 1)),
			      memory_order_release);
	atomic_store_explicit(&live->offered, number + 1, memory_order_release);
}

bool sgpu_transfer_finished(struct sgpu_transfer_live *live, uint64_t number)
{
	struct sgpu_transfer_share *share = &live->shares[number % live->share_count];

	return atomic_load_explicit(&share->finished, memory_order_acquire) == share->parts;
}

/* Takes a part of the group, the first free one from `preferred` on; -1 when there is none. */
static int take(struct sgpu_transfer_share *share, uint64_t number, unsigned preferred)
{
	uint_fast64_t taken = atomic_load_explicit(&share->taken, memory_order_acquire);

	while (taken >> PARTS == (uint32_t)number) {
		uint32_t idle = ~(uint32_t)taken, from = idle & (uint32_t)(ALL_PARTS << preferred);
		int part = __builtin_ffs((int)(from ? from : idle)) - 1;

		if (part < 0) {
			return part;
		}
		if (atomic_compare_exchange_weak_explicit(&share->taken, &taken, taken | (uint64_t)1 << part,
							  memory_order_acq_rel, memory_order_acquire)) {
			return part;
		}
	}
	return -1;
}

/* The lowest chunk that fails is kept, whoever finds which first. */
static void fail(struct sgpu_transfer_live *live, int code, uint64_t bad_chunk)
{
	pthread_mutex_lock(&live->lock);
	if (live->code == SGPU_OK || bad_chunk < live->bad_chunk) {
		live->code = code;
		live->bad_chunk = bad_chunk;
	}
	pthread_mutex_unlock(&live->lock);
	atomic_store(&live->failed, true);
}

bool sgpu_transfer_help(struct sgpu_transfer_live *live, uint64_t *number, unsigned thread, void *scratch)
{
	while (*number < atomic_load_explicit(&live->offered, memory_order_acquire)) {
		struct sgpu_transfer_share *share = &live->shares[*number % live->share_count];
		int part = take(share, *number, thread * PARTS / live->key->aead_count);

		if (part < 0) {
			++*number;
			continue;
		}
		uint64_t begin = share->group.count * (unsigned)part / share->parts, bad_chunk = 0;
		uint64_t end = share->group.count * ((unsigned)part + 1) / share->parts;
		int code = live->work(live, thread, share->group.first + begin, end - begin,
				      share->memory + begin * live->stride, scratch, &bad_chunk);
		if (code != SGPU_OK) {
			fail(live, code, bad_chunk);
		}
		if (live->demote) {
			sgpu_transfer_demote(share->memory + begin * live->stride, (end - begin) * live->stride);
		}
		atomic_fetch_add_explicit(&share->finished, 1, memory_order_release);
		return true;
	}
	return false;
}

int sgpu_transfer_live_seal(struct sgpu_transfer_live *live, unsigned thread, uint64_t begin, uint64_t count,
			    uint8_t *sealed, void *scratch, uint64_t *bad_chunk)
{
	bool last = begin + count == live->plan.total;

	(void)scratch;
	*bad_chunk = begin;
	return sgpu_seal_chunks(live->key->aeads[thread], &live->key->keys, live->base + begin, last,
				live->plaintext + begin * SGPU_CHUNK, sgpu_transfer_live_plain(live, begin, count),
				sealed);
}

int sgpu_transfer_live_copy(struct sgpu_transfer_live *live, unsigned thread, uint64_t begin, uint64_t count,
			    uint8_t *sealed, void *scratch, uint64_t *bad_chunk)
{
	(void)thread;
	(void)scratch;
	*bad_chunk = begin;
	memcpy(sealed, live->plaintext + begin * SGPU_CHUNK, sgpu_transfer_live_plain(live, begin, count));
	return SGPU_OK;
}

int sgpu_transfer_live_encrypt(struct sgpu_transfer_live *live, unsigned thread, uint64_t begin, uint64_t count,
			       uint8_t *sealed, void *scratch, uint64_t *bad_chunk)
{
	uint8_t nonce[SGPU_NONCE_SIZE];

	(void)thread;
	(void)scratch;
	*bad_chunk = begin;
	sgpu_sealed_nonce(&live->key->keys, live->base + begin, nonce);
	return sgpu_aes_ctr(live->key->keys.key, nonce, live->plaintext + begin * SGPU_CHUNK,
			    sgpu_transfer_live_plain(live, begin, count), sealed);
}

/* One chunk after the other into the thread's own cache, and on from there once it has verified. */
int sgpu_transfer_live_open(struct sgpu_transfer_live *live, unsigned thread, uint64_t begin, uint64_t count,
			    uint8_t *sealed, void *scratch, uint64_t *bad_chunk)
{
	int code = SGPU_OK;

	for (uint64_t chunk = begin; code == SGPU_OK && chunk < begin + count; chunk++) {
		uint64_t size = sgpu_transfer_live_plain(live, chunk, 1);

		code = sgpu_open_chunks(live->key->aeads[thread], &live->key->keys, live->base + chunk,
					chunk + 1 == live->plan.total, sealed, size + SGPU_TAG_SIZE, scratch, NULL);
		if (code == SGPU_OK) {
			sgpu_transfer_store(live->plaintext + chunk * SGPU_CHUNK, scratch, size);
		}
		*bad_chunk = chunk;
		sealed += SGPU_SEALED_CHUNK;
	}
	sgpu_transfer_store_fence();
	return code;
}
