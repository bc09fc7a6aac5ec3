/* SPDX-License-Identifier: Apache-2.0
 *
 * A secure context while memory is out: each allocation fails once in turn. What fails says that
 * memory is out, never that somebody is an attacker, and leaves no page behind that nobody gets any
 * more.
 */
#include "channel_check.h"
#include "no_memory.h"
#include "secure_harness.h"

enum { BLOCK = 3 << 20, MEMORY = 64 << 20 };

static bool is_honest(int rc)
{
	if (rc == SGPU_ENOMEM || rc == SGPU_ESYSTEM) { /* libcrypto does not say what it lacked */
		return true;
	}
	printf("# %s: %s\n", sgpu_error_name(rc), error.text);
	return false;
}

/* Blocks that a context gets until there are no more. */
static int blocks_left(struct sgpu_secure *context)
{
	sgpu_devptr memory[MEMORY / BLOCK];
	int count = 0;

	while (count < MEMORY / BLOCK && sgpu_device_alloc(sgpu_secure_device(context), BLOCK,
							   &memory[count], &error) == SGPU_OK) {
		count++;
	}
	for (int i = 0; i < count; i++) {
		sgpu_device_free(sgpu_secure_device(context), &memory[i], BLOCK);
	}
	return count;
}

/* Takes and gives a block of a new context while the n-th allocation fails. True: none failed. */
static bool take_block(long n, int most)
{
	struct sgpu_secure *context = make_context(NULL);
	sgpu_devptr memory = 0;
	bool done;
	int rc;

	if (!context) {
		CHECK(context);
		return true;
	}
	allowed = n;
	failed = 0;
	rc = sgpu_device_alloc(sgpu_secure_device(context), BLOCK, &memory, &error);
	allowed = -1;
	done = failed == 0;
	CHECK(rc == SGPU_OK || is_honest(rc));
	CHECK(!done || rc == SGPU_OK);
	if (rc == SGPU_OK) {
		sgpu_device_free(sgpu_secure_device(context), &memory, BLOCK);
	}
	CHECK(blocks_left(context) == most);
	CHECK(sgpu_processor_check(sgpu_secure_processor(context), &error) == SGPU_OK);
	sgpu_secure_destroy(&context);
	return done;
}

UNIT_TEST(an_allocation_that_fails_is_told_as_that_and_strands_nothing)
{
	struct sgpu_secure *context;
	int most;
	long n = 0;

	if (!CAN_FAIL) {
		SKIP("the sanitizer allocates by itself");
	}
	context = make_context(NULL);
	REQUIRE(context);
	most = blocks_left(context);
	sgpu_secure_destroy(&context);
	CHECK(most > MEMORY / BLOCK / 2);
	while (n < 1000 && !take_block(n, most)) {
		n++;
	}
	printf("# %ld allocations, %d blocks\n", n, most);
	CHECK(n > 1 && n < 1000);
}

UNIT_TEST(a_context_that_cannot_be_made_is_told_as_that)
{
	struct sgpu_secure *context = NULL;
	int rc = SGPU_ENOMEM;
	long n;

	if (!CAN_FAIL) {
		SKIP("the sanitizer allocates by itself");
	}
	for (n = 0; n < 1000; n++) {
		allowed = n;
		failed = 0;
		rc = sgpu_secure_create(inner, NULL, &context, &error);
		allowed = -1;
		if (rc == SGPU_OK) {
			sgpu_secure_destroy(&context);
			if (!failed) {
				break;
			}
		} else {
			CHECK(!context && rc != SGPU_EAUTH && rc != SGPU_EPOLICY &&
			      rc != SGPU_EINVALID);
			if (rc == SGPU_EAUTH) {
				printf("# allocation %ld: %s\n", n, error.text);
			}
		}
	}
	printf("# %ld allocations\n", n);
	CHECK(rc == SGPU_OK && n > 0);
}

int main(void)
{
	DEVICE_OR_SKIP();
	if (!on_cpu()) {
		printf("1..0 # SKIP the driver allocates on this thread, too\n");
		return 0;
	}
	inner = open_test_device(1, MEMORY);
	UNIT_RUN(an_allocation_that_fails_is_told_as_that_and_strands_nothing);
	UNIT_RUN(a_context_that_cannot_be_made_is_told_as_that);
	sgpu_device_close(&inner);
	return unit_done();
}
