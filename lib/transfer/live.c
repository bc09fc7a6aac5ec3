/* SPDX-License-Identifier: Apache-2.0
 *
 * Live copies, the processors' side: groups lie in a ring of pinned memory, and threads work on parts of the oldest
 * one that has any left. A thread prefers the same places in every group, which its own cache may still hold.
 */
#include <string.h>

#include <crypto/aead.h>
#include <transfer/transfer.h>

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

	unsigned parts = PARTS / live->workers * live->workers;

	parts = parts ? parts : PARTS;
	parts = group.count < parts ? (unsigned)group.count : parts;
	share->group = group;
	atomic_store_explicit(&share->parts, parts, memory_order_relaxed);
	atomic_store_explicit(&share->finished, 0, memory_order_relaxed);
	/* Parts that the group does not have count as taken. */
	atomic_store_explicit(&share->taken, number << PARTS | (ALL_PARTS & ~(((uint64_t)1 << parts) - 1)),
			      memory_order_release);
	atomic_store_explicit(&live->offered, number + 1, memory_order_release);
}

bool sgpu_transfer_finished(struct sgpu_transfer_live *live, uint64_t number)
{
	struct sgpu_transfer_share *share = &live->shares[number % live->share_count];

	return atomic_load_explicit(&share->finished, memory_order_acquire) ==
	       atomic_load_explicit(&share->parts, memory_order_relaxed);
}

/* Takes the first free one of these parts; -1 when there is none. */
static int take(struct sgpu_transfer_share *share, uint64_t number, uint32_t which)
{
	uint_fast64_t taken = atomic_load_explicit(&share->taken, memory_order_acquire);

	while (taken >> PARTS == (uint32_t)number) {
		int part = __builtin_ffs((int)(~(uint32_t)taken & which)) - 1;

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

/* The parts of a group that are this thread's. */
static uint32_t own_parts(const struct sgpu_transfer_live *live, const struct sgpu_transfer_share *share,
			  unsigned thread)
{
	unsigned parts = atomic_load_explicit(&share->parts, memory_order_relaxed);
	unsigned begin = thread * parts / live->workers, end = (thread + 1) * parts / live->workers;

	return (uint32_t)(((uint64_t)1 << end) - ((uint64_t)1 << begin));
}

/* Whether all parts of the group are taken, or it is over. */
static bool all_taken(struct sgpu_transfer_live *live, uint64_t number)
{
	uint64_t taken = atomic_load_explicit(&live->shares[number % live->share_count].taken, memory_order_acquire);

	return taken >> PARTS != (uint32_t)number || (uint32_t)taken == ALL_PARTS;
}

static void work_on(struct sgpu_transfer_live *live, struct sgpu_transfer_share *share, int part, unsigned thread,
		    void *scratch)
{
	unsigned parts = atomic_load_explicit(&share->parts, memory_order_relaxed);
	uint64_t begin = share->group.count * (unsigned)part / parts, bad_chunk = 0;
	uint64_t end = share->group.count * ((unsigned)part + 1) / parts;
	int code = live->work(live, thread, share->group.first + begin, end - begin,
			      share->memory + begin * live->stride, scratch, &bad_chunk);

	if (code != SGPU_OK) {
		fail(live, code, bad_chunk);
	}
	if (live->demote) {
		sgpu_transfer_demote(share->memory + begin * live->stride, (end - begin) * live->stride);
	}
	atomic_fetch_add_explicit(&share->finished, 1, memory_order_release);
}

bool sgpu_transfer_help(struct sgpu_transfer_live *live, uint64_t *oldest, unsigned thread, void *scratch)
{
	uint64_t offered = atomic_load_explicit(&live->offered, memory_order_acquire);

	while (*oldest < offered && all_taken(live, *oldest)) {
		++*oldest;
	}
	for (uint64_t number = *oldest; number < offered; number++) {
		struct sgpu_transfer_share *share = &live->shares[number % live->share_count];
		int part = take(share, number, own_parts(live, share, thread));

		part = part >= 0 ? part : take(share, number, UINT32_MAX);
		if (part >= 0) {
			work_on(live, share, part, thread, scratch);
			return true;
		}
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
