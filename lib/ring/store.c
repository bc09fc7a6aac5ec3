/* SPDX-License-Identifier: Apache-2.0
 *
 * Three ways, chosen at run time by what the CPU has. Assembly, so that the rest of the library
 * needs no CPU flags.
 */
#include "ring/store.h"

#include <stddef.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* The last store is sequentially consistent, which is two orders in one:
 * - release: the other words come before it (a consumer that sees the generation sees the entry);
 * - no later load passes it: the producer looks next whether the consumer sleeps. Were that look
 * made before the entry is visible, the consumer could look at the entry, then sleep, and nobody
 * would wake it. On x86 it is an XCHG. */
static void publish(_Atomic uint64_t *last, uint64_t word)
{
	atomic_store_explicit(last, word, memory_order_seq_cst);
}

static void store_words(_Atomic uint64_t *entry, const uint64_t *words, unsigned count)
{
	for (unsigned i = 0; i + 1 < count; i++) {
		atomic_store_explicit(&entry[i], words[i], memory_order_relaxed);
	}
	publish(&entry[count - 1], words[count - 1]);
}

#if defined(__x86_64__)
/* The vector store leaves the generation as it is, and the last word follows by itself: no manual
 * says that 64 bytes of a vector become visible at once. Stores to write-back memory keep their
 * order, the vector's too. */
__attribute__((target("avx512f"))) static void store_vector(_Atomic uint64_t *entry,
							    const uint64_t *words, unsigned count)
{
	_Alignas(64) uint64_t copy[8];

	if (count != 8) {
		store_words(entry, words, count);
		return;
	}
	memcpy(copy, words, sizeof(copy) - sizeof(copy[0]));
	copy[7] = atomic_load_explicit(&entry[7], memory_order_relaxed);
	__asm__ volatile("vmovdqa64 (%1), %%zmm16\n\tvmovdqa64 %%zmm16, (%0)"
			 :
			 : "r"(entry), "r"(copy)
			 : "xmm16", "memory");
	publish(&entry[7], words[7]);
}

/* MOVDIR64B writes 64 bytes at once, in the order of write-combining memory: SFENCE before it, so
 * that what the entry refers to is visible first, and MFENCE after it, for the look at the sleeping
 * consumer. */
static void store_direct(_Atomic uint64_t *entry, const uint64_t *words, unsigned count)
{
	if (count != 8) {
		store_words(entry, words, count);
		return;
	}
	__asm__ volatile("sfence\n\t"
			 ".byte 0x66, 0x0f, 0x38, 0xf8, 0x02\n\t" /* movdir64b (%rdx), %rax */
			 "mfence"
			 :
			 : "a"(entry), "d"(words)
			 : "memory");
}

static bool has_direct(void)
{
	unsigned a, b, c, d;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & (1u << 28));
}

sgpu_store_fn *sgpu_store_function(enum sgpu_ring_store store)
{
	/* __builtin_cpu_supports asks the system, too, whether it saves these registers.
	 *
	 * AUTO: an entry comes in registers, word by word, and a vector load of what was just
	 * stored so waits for these stores (14 ns against 8 ns on a Zen 5); what is stored directly
	 * has to be fetched from memory. Both are for devices. */
	switch (store) {
	case SGPU_RING_STORE_AUTO:
	case SGPU_RING_STORE_WORDS:
		return store_words;
	case SGPU_RING_STORE_VECTOR:
		return __builtin_cpu_supports("avx512f") ? store_vector : NULL;
	case SGPU_RING_STORE_DIRECT:
		return has_direct() ? store_direct : NULL;
	}
	return NULL;
}
#else
sgpu_store_fn *sgpu_store_function(enum sgpu_ring_store store)
{
	return store == SGPU_RING_STORE_AUTO || store == SGPU_RING_STORE_WORDS ? store_words : NULL;
}
#endif

bool sgpu_ring_store_available(enum sgpu_ring_store store)
{
	return sgpu_store_function(store) != NULL;
}
