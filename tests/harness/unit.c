/* SPDX-License-Identifier: Apache-2.0
 *
 * Unit tests that print TAP.
 */
#include "unit.h"

int unit_bad;
const char *unit_skip;

static int unit_count, unit_failures;

void unit_run(const char *name, void (*test)(void))
{
	unit_bad = 0;
	unit_skip = NULL;
	test();
	unit_count++;
	if (unit_bad) {
		unit_failures++;
	}
	printf("%sok %d - %s%s%s\n", unit_bad ? "not " : "", unit_count, name,
	       unit_skip && !unit_bad ? " # skip " : "", unit_skip && !unit_bad ? unit_skip : "");
	fflush(stdout);
}

int unit_done(void)
{
	printf("1..%d\n", unit_count);
	return unit_failures ? 1 : 0;
}
