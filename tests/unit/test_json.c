/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON: strict parsing, canonical form, positions.
 */
#include <sgpu/base.h>
#include <sgpu/json.h>

#include "unit.h"

static int parse(const char *text, json_t **value)
{
	return sgpu_json_parse(text, strlen(text), value, NULL, NULL, NULL);
}

UNIT_TEST(strict_parsing_refuses_what_is_ambiguous)
{
	static const char *const bad[] = { "", "{", "{\"a\":1,\"a\":2}", "{} x", "[1,]", "{'a':1}", "\xff\xfe",
					   "[\"\\ud800\"]", "{\"a\":01}", "nul" };
	json_t *value = NULL;
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		CHECK(parse(bad[i], &value) == SGPU_EINVALID);
	}
	int line = 0, column = 0;
	const char *text = "{\n  \"a\": 1,\n  \"a\": 2 }";
	CHECK(sgpu_json_parse(text, strlen(text), &value, &line, &column, NULL) == SGPU_EINVALID);
	CHECK(line == 3);
}

UNIT_TEST(depth_is_bounded)
{
	char text[300] = "";
	json_t *value = NULL;

	memset(text, '[', 64);
	memset(text + 64, ']', 64);
	CHECK(parse(text, &value) == 0);
	json_decref(value);
	memset(text, '[', 65);
	memset(text + 65, ']', 65);
	CHECK(parse(text, &value) == SGPU_EINVALID);
	CHECK(parse("[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"]", &value) == 0);
	json_decref(value);
}

static void check_canonical(const char *text, const char *expected)
{
	json_t *value = NULL;
	char *canonical = NULL;
	size_t size = 0;

	REQUIRE(parse(text, &value) == 0);
	CHECK(sgpu_json_canonical(value, &canonical, &size, NULL) == 0);
	CHECK(canonical && !strcmp(canonical, expected) && size == strlen(expected));
	free(canonical);
	json_decref(value);
}

UNIT_TEST(canonical_form_follows_rfc_8785)
{
	/* Section 3.2.2's example. */
	check_canonical("{\"numbers\":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"
			"\"string\":\"\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\\"\\/\","
			"\"literals\":[null,true,false]}",
			"{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],"
			"\"string\":\"\xe2\x82\xac$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}");
	/* Section 3.2.3: by UTF-16 code units. */
	check_canonical("{\"\\u20ac\":1,\"\\r\":2,\"\\ufb33\":3,\"1\":4,\"\\ud83d\\ude00\":5,\"\\u0080\":6,\"\\u00f6\":7}",
			"{\"\\r\":2,\"1\":4,\"\xc2\x80\":6,\"\xc3\xb6\":7,\"\xe2\x82\xac\":1,"
			"\"\xf0\x9f\x98\x80\":5,\"\xef\xac\xb3\":3}");
	check_canonical("[0.5,0.1,-0.0,1.0,100,1e20,1e21,1e-6,1e-7,5e-324,1.7976931348623157e308,-12.25,0.05]",
			"[0.5,0.1,0,1,100,100000000000000000000,1e+21,0.000001,1e-7,5e-324,"
			"1.7976931348623157e+308,-12.25,0.05]");
	json_t *value = NULL;
	char *text = NULL;
	size_t size;
	REQUIRE(parse("[9007199254740992]", &value) == 0);
	CHECK(sgpu_json_canonical(value, &text, &size, NULL) == SGPU_EINVALID);
	json_decref(value);
}

static void check_place(const struct sgpu_json_index *index, const char *pointer, int line, int column)
{
	int found_line = 0, found_column = 0;

	sgpu_json_locate(index, pointer, &found_line, &found_column);
	if (found_line != line || found_column != column) {
		printf("# %s is at %d:%d\n", pointer, found_line, found_column);
	}
	CHECK(found_line == line && found_column == column);
}

UNIT_TEST(positions_are_found_by_pointer)
{
	const char *text = "{ \"a\": [1,\n   {\"b\\u002f~\": \"x\\\"]\", \"c\" : [ ] }, true],\n\"d\":{}}";
	struct sgpu_json_index *index = NULL;
	json_t *value = NULL;

	REQUIRE(parse(text, &value) == 0);
	json_decref(value);
	REQUIRE(sgpu_json_index_create(text, strlen(text), &index, NULL) == 0);
	check_place(index, "", 1, 1);
	check_place(index, "/a", 1, 3);
	check_place(index, "/a/0", 1, 9);
	check_place(index, "/a/1", 2, 4);
	check_place(index, "/a/1/b~1~0", 2, 5);
	check_place(index, "/a/1/c", 2, 25);
	check_place(index, "/a/2", 2, 38);
	check_place(index, "/d", 3, 1);
	check_place(index, "/a/1/missing/deeper", 2, 4); /* the nearest parent */
	check_place(index, "/none", 1, 1);
	sgpu_json_index_free(&index);
	CHECK(index == NULL);
}

UNIT_TEST(member_readers_name_the_member)
{
	static const char *const known[] = { "s", "n", "b", NULL };
	struct sgpu_error error;
	json_t *value = NULL;
	const char *text = NULL;
	uint64_t number = 0;
	uint8_t bytes[2];

	REQUIRE(parse("{\"s\":\"x\",\"n\":9007199254740991,\"b\":\"AP8\"}", &value) == 0);
	CHECK(sgpu_json_string(value, "t", "s", &text, NULL) == 0 && !strcmp(text, "x"));
	CHECK(sgpu_json_u64(value, "t", "n", &number, NULL) == 0 && number == SGPU_JSON_INTEGER_MAX - 1);
	CHECK(sgpu_json_bytes(value, "t", "b", bytes, 2, NULL) == 0 && bytes[1] == 0xff);
	CHECK(sgpu_json_bytes(value, "t", "b", bytes, 1, &error) == SGPU_EINVALID && strstr(error.text, "'b'"));
	CHECK(sgpu_json_string(value, "t", "n", &text, &error) == SGPU_EINVALID && strstr(error.text, "'n'"));
	CHECK(sgpu_json_u64(value, "t", "zz", &number, &error) == SGPU_EINVALID && strstr(error.text, "missing"));
	CHECK(sgpu_json_only(value, "t", known, NULL) == 0);
	json_object_set_new(value, "odd", json_null());
	CHECK(sgpu_json_only(value, "t", known, &error) == SGPU_EINVALID && strstr(error.text, "'odd'"));
	json_object_set_new(value, "n", json_integer(-1));
	CHECK(sgpu_json_u64(value, "t", "n", &number, NULL) == SGPU_EINVALID);
	json_decref(value);
}

int main(void)
{
	UNIT_RUN(strict_parsing_refuses_what_is_ambiguous);
	UNIT_RUN(depth_is_bounded);
	UNIT_RUN(canonical_form_follows_rfc_8785);
	UNIT_RUN(positions_are_found_by_pointer);
	UNIT_RUN(member_readers_name_the_member);
	return unit_done();
}
