/* SPDX-License-Identifier: Apache-2.0
 *
 * Unit tests that print TAP: UNIT_TEST functions call CHECK, main() runs them with UNIT_RUN and
 * returns unit_done(). SKIP("reason") leaves a test and reports why.
 */
#ifndef UNIT_H
#define UNIT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the test that runs: how many of its conditions did not hold, and why it was left. */
extern int unit_bad;
extern const char *unit_skip;

/* Whether a sanitizer is built in: it has an allocator, threads and mappings of its own, and calls
 * the kernel by itself. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNIT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define UNIT_SANITIZED 1
#endif
#endif
#ifndef UNIT_SANITIZED
#define UNIT_SANITIZED 0
#endif

/* What a device under a checker gives out, for its config. A table of all the machine's memory,
 * which each space has, is written there for every one that is made. */
#define UNIT_MEMORY (UNIT_SANITIZED ? UINT64_C(1) << 30 : 0)

#define UNIT_TEST(name) static void name(void)

#define CHECK(condition)                                                                 \
	do {                                                                             \
		if (!(condition)) {                                                      \
			printf("# %s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
			unit_bad++;                                                      \
		}                                                                        \
	} while (0)

/* Leaves the test when the condition does not hold and the rest would make no sense. */
#define REQUIRE(condition)                                                                 \
	do {                                                                               \
		if (!(condition)) {                                                        \
			printf("# %s:%d: required: %s\n", __FILE__, __LINE__, #condition); \
			unit_bad++;                                                        \
			return;                                                            \
		}                                                                          \
	} while (0)

#define SKIP(reason)                  \
	do {                          \
		unit_skip = (reason); \
		return;               \
	} while (0)

/* For tests that have a free() in the place of the C library's. */
#define NEEDS_OWN_FREE()                                                   \
	do {                                                               \
		if (UNIT_SANITIZED) {                                      \
			SKIP("the sanitizer has an allocator of its own"); \
		}                                                          \
	} while (0)

void unit_run(const char *name, void (*test)(void));
#define UNIT_RUN(name) unit_run(#name, name)

/* Ends the output; returns the exit status. */
int unit_done(void);

#endif
