/* SPDX-License-Identifier: Apache-2.0
 *
 * Unit tests that print TAP: UNIT_TEST functions call CHECK, main() runs them with UNIT_RUN and returns unit_done().
 * SKIP("reason") leaves a test and reports why.
 */
#ifndef UNIT_H
#define UNIT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int unit_count, unit_failures, unit_bad;
static const char *unit_skip;

/* Whether a test may put a free() in the place of the C library's: a sanitizer has an allocator of its own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNIT_OWN_FREE 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define UNIT_OWN_FREE 0
#endif
#endif
#ifndef UNIT_OWN_FREE
#define UNIT_OWN_FREE 1
#endif

#define UNIT_TEST(name) static void name(void)

#define CHECK(condition)                                                                      \
	do {                                                                                  \
		if (!(condition)) {                                                           \
			printf("# %s:%d: failed: %s\n", __FILE__, __LINE__, #condition);      \
			unit_bad++;                                                           \
		}                                                                             \
	} while (0)

/* Leaves the test when the condition does not hold and the rest would make no sense. */
#define REQUIRE(condition)                                                                    \
	do {                                                                                  \
		if (!(condition)) {                                                           \
			printf("# %s:%d: required: %s\n", __FILE__, __LINE__, #condition);    \
			unit_bad++;                                                           \
			return;                                                               \
		}                                                                             \
	} while (0)

#define SKIP(reason)                                                                          \
	do {                                                                                  \
		unit_skip = (reason);                                                         \
		return;                                                                       \
	} while (0)

static inline void unit_run(const char *name, void (*test)(void))
{
	unit_bad = 0;
	unit_skip = NULL;
	test();
	unit_count++;
	if (unit_bad) {
		unit_failures++;
	}
	printf("%sok %d - %s%s%s\n", unit_bad ? "not " : "", unit_count, name, unit_skip && !unit_bad ? " # skip " : "",
	       unit_skip && !unit_bad ? unit_skip : "");
	fflush(stdout);
}
#define UNIT_RUN(name) unit_run(#name, name)

static inline int unit_done(void)
{
	printf("1..%d\n", unit_count);
	return unit_failures ? 1 : 0;
}

#endif
