/* SPDX-License-Identifier: Apache-2.0
 *
 * Unused memory of the CPU device is poisoned for AddressSanitizer, which then finds a kernel that
 * accesses memory outside of its buffer.
 */
#ifndef SGPU_DEVICE_POISON_H
#define SGPU_DEVICE_POISON_H

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
