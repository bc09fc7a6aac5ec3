/* SPDX-License-Identifier: Apache-2.0
 *
 * The supervisor of sgpu-run serve.
 */
#include <sgpu/base.h>

#include "../../tools/sgpu-run/supervisor.h"
#include "unit.h"

UNIT_TEST(a_map_is_whole_that_has_all_users_in_whatever_lines)
{
	static const char *const whole[] = {
		"         0          0 4294967295\n",
		"0 100000 4294967295",
		"0 0 1\n1 1 4294967294\n",
		"1 1 4294967294\n0 0 1\n",
		"2000 7 4294965295\n0 0 1000\n1000 5 1000\n",
		"0 0 3000\n1000 0 5000\n2000 0 4294965295\n", /* the kernel makes no such one */
		"0 0 4294967295\ngarbage",
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(whole); i++) {
		CHECK(callers_are_mapped(whole[i]));
	}
}

UNIT_TEST(a_map_with_a_gap_or_none_is_not_whole)
{
	static const char *const part[] = {
		"",
		"\n",
		"0 2001 1\n",
		"0 0 65536\n",
		"0 0 4294967294\n",                         /* without the last user */
		"1 1 4294967294\n",                         /* without the first */
		"0 0 1000\n1001 1001 4294966294\n",
		"0 0 1000\n1000 1000\n",
		"0 0 1000\n\n2000 0 4294965295\n",
		"4294967295 0 4294967295\n",
		"garbage\n0 0 4294967295\n",
		"0 0 garbage\n",
		"-1 0 4294967295\n",
		"99999999999999999999 0 1\n",
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(part); i++) {
		CHECK(!callers_are_mapped(part[i]));
	}
}

int main(void)
{
	UNIT_RUN(a_map_is_whole_that_has_all_users_in_whatever_lines);
	UNIT_RUN(a_map_with_a_gap_or_none_is_not_whole);
	return unit_done();
}
