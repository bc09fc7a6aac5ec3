/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a secure context on the CPU device that belongs to nobody, poisoned for
 * AddressSanitizer: a kernel that leaves its buffer is found there.
 */
#ifndef SGPU_SECURE_POISON_H
#define SGPU_SECURE_POISON_H

#include <stdint.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SGPU_POISONS 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define SGPU_POISONS 1
#endif

#ifdef SGPU_POISONS
#include <sanitizer/asan_interface.h>
#define SGPU_POISON(address, size) __asan_poison_memory_region((void *)(uintptr_t)(address), size)
#define SGPU_UNPOISON(address, size) \
	__asan_unpoison_memory_region((void *)(uintptr_t)(address), size)
#else
#define SGPU_POISON(address, size) ((void)(address), (void)(size))
#define SGPU_UNPOISON(address, size) ((void)(address), (void)(size))
#endif

#endif
