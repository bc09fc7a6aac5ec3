/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON: strict parsing, canonical form, positions.
 */
#include <sgpu/base.h>

#include "base/base.h"
#include "manifest/manifest.h"
#include "unit.h"

static int parse(const char *text, json_t **value)
{
	return sgpu_json_parse(text, strlen(text), NULL, value, NULL);
}

UNIT_TEST(strict_parsing_refuses_what_is_ambiguous)
{
	static const char *const bad[] = {
		"",	   "{",	       "{\"a\":1,\"a\":2}", "{} x",	  "[1,]",
		"{'a':1}", "\xff\xfe", "[\"\\ud800\"]",	    "{\"a\":01}", "nul"
	};
	json_t *value = NULL;
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		CHECK(parse(bad[i], &value) == SGPU_EINVALID);
	}
	int line = 0, column = 0;
	size_t position = 0;
	const char *text = "{\n  \"a\": 1,\n  \"a\": 2 }";
	CHECK(sgpu_json_parse_at(text, strlen(text), false, SGPU_JSON_VALUES_MAX, &value, &position,
				 NULL) == SGPU_EINVALID);
	sgpu_json_place(text, position, &line, &column);
	CHECK(!value && line == 3);
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
	CHECK(parse("[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
		    "\"]",
		    &value) == 0);
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
	check_canonical(
		"{\"numbers\":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"
		"\"string\":\"\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\\"\\/\","
		"\"literals\":[null,true,false]}",
		"{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-"
		"27],"
		"\"string\":\"\xe2\x82\xac$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}");
	/* Section 3.2.3: by UTF-16 code units. */
	check_canonical("{\"\\u20ac\":1,\"\\r\":2,\"\\ufb33\":3,\"1\":4,\"\\ud83d\\ude00\":5,"
			"\"\\u0080\":6,\"\\u00f6\":7}",
			"{\"\\r\":2,\"1\":4,\"\xc2\x80\":6,\"\xc3\xb6\":7,\"\xe2\x82\xac\":1,"
			"\"\xf0\x9f\x98\x80\":5,\"\xef\xac\xb3\":3}");
	check_canonical("[0.5,0.1,-0.0,1.0,100,1e20,1e21,1e-6,1e-7,5e-324,1.7976931348623157e308,-"
			"12.25,0.05]",
			"[0.5,0.1,0,1,100,100000000000000000000,1e+21,0.000001,1e-7,5e-324,"
			"1.7976931348623157e+308,-12.25,0.05]");
	json_t *value = NULL;
	char *text = NULL;
	size_t size;
	REQUIRE(parse("[9007199254740992]", &value) == 0);
	CHECK(sgpu_json_canonical(value, &text, &size, NULL) == SGPU_EINVALID);
	json_decref(value);
}

static void check_place(const char *text, const char *pointer, int line, int column)
{
	int found_line = 0, found_column = 0;

	sgpu_json_locate(text, strlen(text), pointer, &found_line, &found_column);
	if (found_line != line || found_column != column) {
		printf("# %s is at %d:%d\n", pointer, found_line, found_column);
	}
	CHECK(found_line == line && found_column == column);
}

UNIT_TEST(positions_are_found_by_pointer)
{
	const char *text =
		"{ \"a\": [1,\n   {\"b\\u002f~\": \"x\\\"]\", \"c\" : [ ] }, true],\n\"d\":{}}";
	json_t *value = NULL;

	REQUIRE(parse(text, &value) == 0);
	json_decref(value);
	check_place(text, "", 1, 1);
	check_place(text, "/a", 1, 3);
	check_place(text, "/a/0", 1, 9);
	check_place(text, "/a/1", 2, 4);
	check_place(text, "/a/1/b~1~0", 2, 5);
	check_place(text, "/a/1/c", 2, 25);
	check_place(text, "/a/2", 2, 38);
	check_place(text, "/d", 3, 1);
	check_place(text, "/a/1/missing/deeper", 2, 4); /* the nearest parent */
	check_place(text, "/none", 1, 1);
}

UNIT_TEST(member_readers_name_the_member)
{
	json_t *any;
	const struct sgpu_field known[] = { { "s", SGPU_FIELD_JSON, .to = &any },
					    { "n", SGPU_FIELD_JSON, .to = &any },
					    { "b", SGPU_FIELD_JSON, .to = &any } };
	struct sgpu_error error;
	json_t *value = NULL;
	const char *text = NULL;
	uint64_t number = 0;
	uint8_t bytes[2];

	REQUIRE(parse("{\"s\":\"x\",\"n\":9007199254740991,\"b\":\"AP8\"}", &value) == 0);
	CHECK(sgpu_json_string(value, "t", "s", &text, NULL) == 0 && !strcmp(text, "x"));
	CHECK(sgpu_json_u64(value, "t", "n", &number, NULL) == 0 &&
	      number == SGPU_JSON_INTEGER_MAX - 1);
	CHECK(sgpu_json_bytes(value, "t", "b", bytes, 2, NULL) == 0 && bytes[1] == 0xff);
	CHECK(sgpu_json_bytes(value, "t", "b", bytes, 1, &error) == SGPU_EINVALID &&
	      strstr(error.text, "'b'"));
	CHECK(sgpu_json_string(value, "t", "n", &text, &error) == SGPU_EINVALID &&
	      strstr(error.text, "'n'"));
	CHECK(sgpu_json_u64(value, "t", "zz", &number, &error) == SGPU_EINVALID &&
	      strstr(error.text, "missing"));
	CHECK(sgpu_fields_read(value, "t", known, SGPU_ARRAY_LENGTH(known), NULL) == 0);
	json_object_set_new(value, "odd", json_null());
	CHECK(sgpu_fields_read(value, "t", known, SGPU_ARRAY_LENGTH(known), &error) ==
		      SGPU_EINVALID &&
	      strstr(error.text, "'odd'"));
	json_object_set_new(value, "n", json_integer(-1));
	CHECK(sgpu_json_u64(value, "t", "n", &number, NULL) == SGPU_EINVALID);
	json_decref(value);
}

UNIT_TEST(values_are_counted_before_a_tree_is_made)
{
	char *text = malloc(2 * SGPU_JSON_VALUES_MAX + 8);
	json_t *value = NULL;
	size_t at = 0;
	size_t position;

	REQUIRE(text);
	text[at++] = '[';
	for (int i = 0; i < SGPU_JSON_VALUES_MAX - 1; i++) { /* and the array itself */
		text[at++] = '1';
		text[at++] = ',';
	}
	text[at - 1] = ']';
	CHECK(sgpu_json_parse(text, at, NULL, &value, NULL) == SGPU_OK);
	json_decref(value);
	memcpy(text + at - 1, ",1]", 3);
	CHECK(sgpu_json_parse(text, at + 2, NULL, &value, NULL) == SGPU_EINVALID && !value);
	/* What is no JSON at all is refused for its number before anything else is looked at. */
	memset(text, '{', 2 * SGPU_JSON_VALUES_MAX);
	CHECK(sgpu_json_parse(text, 2 * SGPU_JSON_VALUES_MAX, NULL, &value, NULL) == SGPU_EINVALID);
	CHECK(sgpu_json_parse_at("[1,2]", 5, false, 2, &value, &position, NULL) == SGPU_EINVALID);
	CHECK(sgpu_json_parse_at("[1,2]", 5, false, 3, &value, &position, NULL) == SGPU_OK);
	json_decref(value);
	free(text);
}

/* Takes the elements of "a" and "b" one by one and puts the whole together again. NULL: refused. */
static json_t *split_and_join(const char *text, int *line, int *column)
{
	struct sgpu_json_list lists[] = { { .key = "a", .count_max = 4, .part_max = 20 },
					  { .key = "b", .count_max = 2 } };
	json_t *whole = NULL, *item = NULL;
	size_t position = 0;
	int rc = sgpu_json_frame(text, strlen(text), lists, 2, 100, &whole, &position, NULL);

	for (size_t i = 0; rc == SGPU_OK && i < 2; i++) {
		CHECK(json_array_size(json_object_get(whole, lists[i].key)) == 0);
		for (size_t k = 0; rc == SGPU_OK && k < lists[i].count; k++) {
			const size_t at = (size_t)(lists[i].at - text);

			CHECK(json_array_size(json_object_get(whole, lists[i].key)) == k);
			rc = sgpu_json_next(&lists[i], &item, &position, NULL);
			position += at;
			if (rc == SGPU_OK) {
				json_array_append_new(json_object_get(whole, lists[i].key), item);
			}
		}
	}
	if (rc != SGPU_OK) {
		CHECK(rc == SGPU_EINVALID);
		sgpu_json_place(text, position, line, column);
		json_decref(whole);
		return NULL;
	}
	return whole;
}

UNIT_TEST(a_document_in_parts_is_the_same_document)
{
	static const char *const good[] = {
		"{\"a\":[]}",
		"{}",
		"[]",
		"{ \"a\" : [ ] , \"b\" : [ 1 , \"],[\" ] }",
		"{\"a\":[{\"a\":[1,2,3]},[[]],\"\\\"]\"]}",
		"{\"c\":{\"a\":[1,2,3,4,5,6]},\"b\":[{\"x\":\"a\"}]}",
		"{\"c\":\"a\",\"a\":[1,2]}",
		"{\"c\":[\"a\",[1]],\"a\":7}",
		"{\"\\u0061\":[1,2],\"d\":3}",
		"[\"a\",[1,2,3,4,5,6,7]]",
		"{\"a\":{\"b\":[1]},\"b\":[\"\\\\\"]}",
	};
	static const char *const bad[] = {
		"",
		"{\"a\":[",
		"{\"a\":[1,]}",
		"{\"a\":[,1]}",
		"{\"a\":[1 2]}",
		"{\"a\":[1}",
		"{\"a\":[{]}",
		"{\"a\":[1]]}",
		"{\"a\":[1],\"a\":[]}",
		"{\"a\":[],\"a\":[1]}",
		"{\"a\":[],\"a\":[]}",
		"{\"a\"[1]}",
		"{\"a\":[1]} x",
		"{\"a\":[\"]}",
		"{\"a\":[{\"x\":1,\"x\":2}]}",
		"{\"a\":[1],}",
		"{\"a\":[1]\"b\":[]}",
		"{\"a\":[1},\"b\":[2]}", /* one list within the other */
		"{\"a\":[1},\"b\":[2]}]}",
		"{\"a\":[1],\"b\":[2,]}",
		"{\"c\":1},\"a\":[1]",
		"{\"a\":[(]}",
		"{\"a\":[1)]}",
		"{\"a\":[1,2,3,4,5]}", /* limits: elements, their length, and the rest */
		"{\"a\":[\"0123456789012345678\"]}",
		"{\"c\":"
		"\"01234567890123456789012345678901234567890123456789012345678901234567890123456789"
		"01234567890123456789\"}",
	};
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(good); i++) {
		int line, column;
		json_t *whole = NULL, *joined = split_and_join(good[i], &line, &column);
		REQUIRE(parse(good[i], &whole) == SGPU_OK);
		CHECK(joined && json_equal(whole, joined));
		json_decref(whole);
		json_decref(joined);
	}
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		int line, column;
		json_t *joined = split_and_join(bad[i], &line, &column);
		CHECK(!joined);
		json_decref(joined);
	}
}

UNIT_TEST(a_fault_of_a_part_has_its_place_in_the_whole)
{
	static const struct {
		const char *text;
		int line, column;
	} cases[] = {
		{ "{\n\"a\": [1,\n 2,\n  x]}", 4, 3 },
		{ "{\"a\": [1,\n 2],\n \"c\" x}", 3, 6 },
		{ "{\"a\": [\n1\n],\n\"b\": [1,2],\n  y}", 5, 3 },
		{ "{ x \"a\": [\n1\n]}", 1, 3 },
	};
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(cases); i++) {
		int line = 0, column = 0;
		CHECK(!split_and_join(cases[i].text, &line, &column));
		CHECK(line == cases[i].line && column == cases[i].column);
	}
}

static int taken;

static void *count(size_t size)
{
	taken++;
	return malloc(size);
}

/* Tools end without it, as without memory for a tree: no member is left out. */
UNIT_TEST(bytes_become_text_in_memory_of_trees)
{
	json_set_alloc_funcs(count, free);
	json_decref(json_string("c2dwdQ"));
	const int plain = taken;
	json_t *value = sgpu_json_from_bytes("sgpu", 4);
	json_set_alloc_funcs(malloc, free);
	CHECK(taken == 2 * plain + 1);
	CHECK(strcmp(json_string_value(value), "c2dwdQ") == 0);
	json_decref(value);
}

int main(void)
{
	UNIT_RUN(strict_parsing_refuses_what_is_ambiguous);
	UNIT_RUN(depth_is_bounded);
	UNIT_RUN(canonical_form_follows_rfc_8785);
	UNIT_RUN(positions_are_found_by_pointer);
	UNIT_RUN(member_readers_name_the_member);
	UNIT_RUN(values_are_counted_before_a_tree_is_made);
	UNIT_RUN(a_document_in_parts_is_the_same_document);
	UNIT_RUN(a_fault_of_a_part_has_its_place_in_the_whole);
	UNIT_RUN(bytes_become_text_in_memory_of_trees);
	return unit_done();
}
