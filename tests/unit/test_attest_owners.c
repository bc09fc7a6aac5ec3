/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of owners: what is read, and that what is refused is not shown.
 */
#include <sgpu/attest.h>

#include "attest/internal.h"
#include "unit.h"

#define A "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
#define B "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBA"

UNIT_TEST(thumbprints_are_sorted_and_each_is_there_once)
{
	static const char text[] = "# ours\n" B "\n\n  " A " # theirs\r\n" B "\n" A;
	struct sgpu_owners owners;

	REQUIRE(!sgpu_owners_parse(text, strlen(text), "owners", &owners, NULL));
	CHECK(owners.count == 2 && !strcmp(owners.names[0], A) && !strcmp(owners.names[1], B));
	sgpu_owners_clear(&owners);
	CHECK(!owners.count && !owners.names);
}

static bool refused(const char *text, size_t size, const char *place)
{
	struct sgpu_error error = { 0 };
	struct sgpu_owners owners;
	int code = sgpu_owners_parse(text, size, "owners", &owners, &error);

	return code == SGPU_EINVALID && !owners.count && !owners.names &&
	       strstr(error.text, place) && !strstr(error.text, "secret");
}

UNIT_TEST(anything_else_is_refused_and_not_shown)
{
	static const char *const wrong[] = { "secret",
					     A "A",
					     A " " B,
					     "{\"kty\":\"oct\",\"k\":\"secret\"}",
					     "=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
					     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB" };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(wrong); i++) {
		char text[256];
		snprintf(text, sizeof(text), B "\n%s\n", wrong[i]);
		CHECK(refused(text, strlen(text), "'owners':2"));
	}
	CHECK(refused("", 0, "names no owner") && refused("# none\n", 7, "names no owner"));
	CHECK(refused("A\0A", 3, "'owners':1"));
	CHECK(refused("\0" A, 44, "'owners':1") && refused(A "\0", 44, "'owners':1"));
	CHECK(refused(A "\n\0\n", 46, "'owners':2"));
}

UNIT_TEST(there_is_a_limit)
{
	const size_t count = SGPU_QUOTE_OWNERS_MAX + 1;
	char *text = malloc(count * 44);

	REQUIRE(text);
	for (size_t i = 0; i < count; i++) {
		memcpy(text + i * 44, A "\n", 44);
	}
	CHECK(refused(text, count * 44, "more than"));
	free(text);
}

int main(void)
{
	UNIT_RUN(thumbprints_are_sorted_and_each_is_there_once);
	UNIT_RUN(anything_else_is_refused_and_not_shown);
	UNIT_RUN(there_is_a_limit);
	return unit_done();
}
