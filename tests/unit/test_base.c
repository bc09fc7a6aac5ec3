/* SPDX-License-Identifier: Apache-2.0
 *
 * Base: numbers, encodings, errors, workers.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "host/host.h"
#include "unit.h"

UNIT_TEST(whole_numbers_are_checked)
{
	uint64_t value = 7;
	struct sgpu_error error;

	CHECK(sgpu_parse_u64("0", "n", 0, 10, &value, &error) == 0 && value == 0);
	CHECK(sgpu_parse_u64("18446744073709551615", "n", 0, UINT64_MAX, &value, &error) == 0 &&
	      value == UINT64_MAX);
	static const char *const bad[] = { "",	  " 1",	  "1 ",	 "-1",
					   "+1",  "0x10", "1.0", "18446744073709551616",
					   "one", "1\n" };
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		CHECK(sgpu_parse_u64(bad[i], "n", 0, UINT64_MAX, &value, &error) == SGPU_EUSAGE);
	}
	CHECK(sgpu_parse_u64("11", "n", 0, 10, &value, &error) == SGPU_EUSAGE);
	CHECK(strstr(error.text, "'11'") != NULL);
}

UNIT_TEST(sizes_have_suffixes)
{
	uint64_t value = 0;

	CHECK(sgpu_parse_size("3K", "s", 0, UINT64_MAX, &value, NULL) == 0 && value == 3072);
	CHECK(sgpu_parse_size("2T", "s", 0, UINT64_MAX, &value, NULL) == 0 &&
	      value == (uint64_t)2 << 40);
	CHECK(sgpu_parse_size("99999999999T", "s", 0, UINT64_MAX, &value, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_parse_size("1KB", "s", 0, UINT64_MAX, &value, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_parse_size("K", "s", 0, UINT64_MAX, &value, NULL) == SGPU_EUSAGE);
}

UNIT_TEST(durations_have_units)
{
	uint64_t ns = 0;

	CHECK(sgpu_parse_duration("1.5", "t", &ns, NULL) == 0 && ns == 1500000000);
	CHECK(sgpu_parse_duration("250ms", "t", &ns, NULL) == 0 && ns == 250000000);
	CHECK(sgpu_parse_duration("2h", "t", &ns, NULL) == 0 && ns == (uint64_t)7200 * 1000000000);
	static const char *const bad[] = { "",	  "0",	 "-1", "inf",	  "nan", "0x1p3",
					   "1e9", "1 s", "5y", "999999d", ".",	 "1..2" };
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		CHECK(sgpu_parse_duration(bad[i], "t", &ns, NULL) == SGPU_EUSAGE);
	}
}

UNIT_TEST(encodings_take_exact_lengths)
{
	static const uint8_t bytes[] = { 0x00, 0xfb, 0xff, 0x10, 0x80 };
	char text[32];
	uint8_t back[8];

	sgpu_hex_encode(bytes, 5, text);
	CHECK(!strcmp(text, "00fbff1080"));
	CHECK(sgpu_hex_decode("00FBff1080", back, 5, NULL) == 0 && !memcmp(back, bytes, 5));
	CHECK(sgpu_hex_decode("00fbff108", back, 5, NULL) == SGPU_EINVALID);
	CHECK(sgpu_hex_decode("00fbff10g0", back, 5, NULL) == SGPU_EINVALID);
	for (size_t n = 0; n <= 5; n++) {
		sgpu_base64url_encode(bytes, n, text);
		CHECK(strlen(text) + 1 == SGPU_BASE64URL_MAX(n));
		CHECK(sgpu_base64url_decode(text, back, n, NULL) == 0 && !memcmp(back, bytes, n));
	}
	sgpu_base64url_encode(bytes, 5, text);
	CHECK(!strcmp(text, "APv_EIA"));
	CHECK(sgpu_base64url_decode("APv_EIA=", back, 5, NULL) == SGPU_EINVALID);
	CHECK(sgpu_base64url_decode("APv_EIB", back, 5, NULL) ==
	      SGPU_EINVALID); /* bits beyond the last byte */
	CHECK(sgpu_base64url_decode("APv/EIA", back, 5, NULL) == SGPU_EINVALID);
}

UNIT_TEST(every_code_has_its_exit_status)
{
	static const struct {
		int code, status;
	} expected[] = { { SGPU_OK, 0 },	{ SGPU_EINVALID, 1 },	  { SGPU_EDIFFERS, 1 },
			 { SGPU_EUSAGE, 2 },	{ SGPU_ESYSTEM, 3 },	  { SGPU_ENOMEM, 3 },
			 { SGPU_EDEVICE, 3 },	{ SGPU_EUNAVAILABLE, 3 }, { SGPU_ETIMEOUT, 3 },
			 { SGPU_ECANCELED, 3 }, { SGPU_EAUTH, 4 },	  { SGPU_EKEY, 4 },
			 { SGPU_EPOLICY, 4 },	{ SGPU_EDEPENDENCY, 5 },  { SGPU_ESEGMENTS, 5 },
			 { SGPU_ENOINPUT, 6 },	{ SGPU_EREFUSED, 4 } };
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(expected); i++) {
		CHECK(sgpu_exit_status(expected[i].code) == expected[i].status);
		CHECK(sgpu_error_by_name(sgpu_error_name(expected[i].code)) == expected[i].code);
	}
}

UNIT_TEST(an_error_says_whether_to_try_again)
{
	static const struct {
		int code, number; /* a code, or an errno */
		bool retryable;
	} expected[] = {
		{ SGPU_EINVALID, 0, false },
		{ SGPU_EUSAGE, 0, false },
		{ SGPU_ESYSTEM, 0, false },
		{ SGPU_EDEVICE, 0, false },
		{ SGPU_EUNAVAILABLE, 0, false },
		{ SGPU_ECANCELED, 0, false },
		{ SGPU_EAUTH, 0, false },
		{ SGPU_EPOLICY, 0, false },
		{ SGPU_ESEGMENTS, 0, false },
		{ SGPU_ENOINPUT, 0, false },
		{ SGPU_EREFUSED, 0, false },
		{ SGPU_ETAKEN, 0, false },
		{ SGPU_ENOMEM, 0, true },
		{ SGPU_ENOSPACE, 0, true },
		{ SGPU_ETIMEOUT, 0, true },
		{ SGPU_ERETRY, 0, true },
		{ SGPU_EMANIFEST, 0, true },
		{ 0, ENOENT, false },
		{ 0, EACCES, false },
		{ 0, EEXIST, false },
		{ 0, EIO, false },
		{ 0, EMFILE, false },
		{ 0, EAGAIN, true },
		{ 0, EINTR, true },
		{ 0, EBUSY, true },
		{ 0, ECONNREFUSED, true },
		{ 0, ETIMEDOUT, true },
		{ 0, ENOSPC, true },
		{ 0, ENOMEM, true },
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(expected); i++) {
		struct sgpu_error error = { .retryable = 1 };

		errno = expected[i].number;
		(void)(errno ? sgpu_fail_errno(&error, "x")
			     : sgpu_fail(&error, expected[i].code, "x"));
		if (sgpu_retryable(&error) != expected[i].retryable) {
			printf("# row %zu\n", i);
			CHECK(false);
		}
	}
	struct sgpu_error marked = { 0 };

	(void)sgpu_fail(&marked, SGPU_ESYSTEM, "x");
	CHECK(sgpu_set_retryable(&marked) == SGPU_ESYSTEM && sgpu_retryable(&marked));
	CHECK(sgpu_hint(&marked, "y") == SGPU_ESYSTEM && sgpu_retryable(&marked));
	CHECK(sgpu_set_retryable(NULL) == SGPU_EINVALID);
}

UNIT_TEST(messages_carry_no_control_characters)
{
	struct sgpu_error error;

	CHECK(sgpu_fail(&error, SGPU_EINVALID, "x %s", "\033[31m\xc2\x9bred\n") == SGPU_EINVALID);
	CHECK(!strcmp(error.text, "x \\x1b[31m\\xc2\\x9bred\\x0a"));
	CHECK(sgpu_hint(&error, "try\t%d", 1) == SGPU_EINVALID);
	CHECK(!strcmp(error.hint, "try\\x091"));
	sgpu_fail(NULL, SGPU_EINVALID, "no crash");
}

struct sum {
	uint64_t partial[1001];
};

static atomic_int active, most_active; /* over all loops at once */

static void add_up(void *argument, uint64_t begin, uint64_t end)
{
	struct sum *sum = argument;
	int now = atomic_fetch_add(&active, 1) + 1, most = atomic_load(&most_active);

	while (now > most && !atomic_compare_exchange_weak(&most_active, &most, now)) {
	}
	for (uint64_t i = begin; i < end; i++) {
		sum->partial[begin / 10] += i;
	}
	usleep(50);
	atomic_fetch_sub(&active, 1);
}

struct caller {
	struct sgpu_pool *pool;
	struct sum *sum;
	int code;
};

static void *call_loop(void *argument)
{
	struct caller *caller = argument;

	sgpu_pool_enter(caller->pool);
	caller->code = sgpu_pool_for(caller->pool, 10007, 10, 0, add_up, caller->sum);
	sgpu_pool_leave(caller->pool);
	return NULL;
}

UNIT_TEST(loops_cover_every_index_once_within_the_tokens)
{
	for (unsigned jobs = 1; jobs <= 5; jobs += 2) {
		struct sgpu_pool *pool = NULL;
		REQUIRE(sgpu_pool_create(jobs, &pool, NULL) == 0);
		CHECK(sgpu_pool_jobs(pool) == jobs);
		struct sum *sums = calloc(4, sizeof(*sums));
		struct caller callers[4];
		pthread_t threads[4];
		atomic_store(&most_active, 0);
		for (int i = 0; i < 4; i++) {
			callers[i] = (struct caller){ pool, &sums[i], -1 };
			REQUIRE(pthread_create(&threads[i], NULL, call_loop, &callers[i]) == 0);
		}
		for (int i = 0; i < 4; i++) {
			pthread_join(threads[i], NULL);
			uint64_t total = 0;
			for (int k = 0; k < 1001; k++) {
				total += sums[i].partial[k];
			}
			CHECK(callers[i].code == 0);
			CHECK(total == (uint64_t)10006 * 10007 / 2);
		}
		CHECK(atomic_load(&most_active) <= (int)jobs);
		free(sums);
		sgpu_pool_free(&pool);
		CHECK(pool == NULL);
	}
}

static void cancel_half_way(void *argument, uint64_t begin, uint64_t end)
{
	(void)end;
	if (begin == 50) {
		sgpu_pool_cancel(argument, true);
	}
}

UNIT_TEST(a_cancelled_loop_says_so)
{
	struct sgpu_pool *pool = NULL;

	REQUIRE(sgpu_pool_create(3, &pool, NULL) == 0);
	sgpu_pool_enter(pool);
	CHECK(sgpu_pool_for(pool, 100000, 1, 0, cancel_half_way, pool) == SGPU_ECANCELED);
	CHECK(sgpu_pool_cancelled(pool));
	sgpu_pool_cancel(pool, false);
	CHECK(sgpu_pool_for(pool, 40, 1, 0, cancel_half_way, pool) == 0);
	sgpu_pool_leave(pool);
	sgpu_pool_free(&pool);
	CHECK(sgpu_pool_create(SGPU_POOL_JOBS_MAX + 1, &pool, NULL) == SGPU_EUSAGE);
}

static void *take_mask(void *mask)
{
	pthread_sigmask(SIG_SETMASK, NULL, mask);
	return NULL;
}

/* Were SIGSYS blocked, a refused system call would end the process without a message. */
UNIT_TEST(threads_take_no_signal_but_that_of_a_refused_call)
{
	sigset_t own, before, after;
	pthread_t thread;

	take_mask(&before);
	REQUIRE(sgpu_thread_start(&thread, take_mask, &own, NULL) == SGPU_OK);
	pthread_join(thread, NULL);
	take_mask(&after);
	for (int number = 1; number < SIGRTMIN; number++) {
		const bool open =
			number == SIGSYS || number == SIGKILL || number == SIGSTOP || number >= 32;

		CHECK(sigismember(&own, number) == !open);
		CHECK(sigismember(&after, number) == sigismember(&before, number));
	}
}

UNIT_TEST(wiping_clears_and_frees)
{
	char secret[16] = "secret";
	char *heap = strdup("secret");

	sgpu_wipe(secret, sizeof(secret));
	CHECK(secret[0] == 0 && secret[5] == 0);
	sgpu_free_wiped(&heap, 6);
	CHECK(heap == NULL);
	sgpu_free_wiped(&heap, 6);
	sgpu_free_wiped(NULL, 0);
	CHECK(sgpu_equal("abc", "abc", 3) && !sgpu_equal("abc", "abd", 3) &&
	      sgpu_equal("", "x", 0));
}

int main(void)
{
	UNIT_RUN(whole_numbers_are_checked);
	UNIT_RUN(sizes_have_suffixes);
	UNIT_RUN(durations_have_units);
	UNIT_RUN(encodings_take_exact_lengths);
	UNIT_RUN(every_code_has_its_exit_status);
	UNIT_RUN(an_error_says_whether_to_try_again);
	UNIT_RUN(messages_carry_no_control_characters);
	UNIT_RUN(loops_cover_every_index_once_within_the_tokens);
	UNIT_RUN(a_cancelled_loop_says_so);
	UNIT_RUN(threads_take_no_signal_but_that_of_a_refused_call);
	UNIT_RUN(wiping_clears_and_frees);
	return unit_done();
}
