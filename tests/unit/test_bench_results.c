/* SPDX-License-Identifier: Apache-2.0
 *
 * Results of the bench: as JSON and back, hostile files.
 */
#include <math.h>
#include <stdint.h>

#include <bench/bench.h>

#include "bench_records.h"

/* The text of a run. */
static char *text_of(const struct sgpu_bench_results *results)
{
	char *text = NULL, *line;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (results->environment) {
		line = json_dumps(results->environment, JSON_COMPACT);
		fprintf(out, "%s\n", line);
		free(line);
	}
	for (size_t i = 0; i < json_array_size(results->records); i++) {
		line = json_dumps(json_array_get(results->records, i), JSON_COMPACT);
		fprintf(out, "%s\n", line);
		free(line);
	}
	fprintf(out, "{\"record\":\"end\",\"seconds\":1}\n"); /* of older results */
	fclose(out);
	return text;
}

UNIT_TEST(records_come_back_from_their_json)
{
	struct sgpu_bench_results results = { 0 }, again = { 0 };
	const struct sgpu_bench_options options = { .quick = true };
	const struct sgpu_device_info info = { .numa_node = -1 };
	json_t *r = passed("secure-copy", "sealed", 1 << 20, 1234.5, 3.25);
	char key[SGPU_BENCH_KEY_MAX], *text;

	results.environment = sgpu_bench_environment(&info, &options);
	REQUIRE(results.environment != NULL);
	CHECK(json_is_true(json_object_get(results.environment, "quick")));
	CHECK(json_is_integer(json_object_get(results.environment, "processors")));
	set_ratio(r, 1.02, 0.001);
	add(&results, r);
	add(&results, json_pack("{s:s, s:s, s:s, s:s, s:s, s:{}, s:s}", "record", "measurement",
				"case", "peer", "variant", "", "unit", SGPU_BENCH_NS, "status",
				"waived", "parameters", "reason", "no GPU: \"quoted\""));
	text = text_of(&results);
	REQUIRE(sgpu_bench_read(text, strlen(text), "run", &again, &error) == SGPU_OK);
	REQUIRE(json_equal(again.records, results.records) &&
		json_equal(again.environment, results.environment));
	r = json_array_get(again.records, 0);
	CHECK(sgpu_bench_passed(r) && !sgpu_bench_passed(json_array_get(again.records, 1)));
	CHECK(sgpu_bench_number(r, "median_ns") == 1234.5 && sgpu_bench_number(r, "none") == 0);
	CHECK(strcmp(sgpu_bench_text(r, "ratio_to"), "plain") == 0 &&
	      strcmp(sgpu_bench_text(r, "reason"), "") == 0);
	CHECK(sgpu_bench_value(r) == (1 << 20) / 1234.5 * 1e9 &&
	      sgpu_bench_value(json_array_get(again.records, 1)) == 0);
	sgpu_bench_key(r, key);
	CHECK(strcmp(key, "secure-copy sealed direction=h2d size_bytes=1048576") == 0);
	free(text);
	sgpu_bench_results_clear(&results);
	sgpu_bench_results_clear(&again);
	CHECK(again.records == NULL && again.environment == NULL);
}

#define PARTS "\"record\":\"measurement\",\"case\":\"c\",\"variant\":\"v\",\"unit\":\"ns\","
#define TIMES                                                                        \
	"\"min_ns\":1,\"p95_ns\":3,\"mad_ns\":0.5,\"spread\":1,\"cpu_median_ns\":1," \
	"\"operations\":1"
#define GOOD "{" PARTS "\"parameters\":{},\"status\":\"passed\",\"n\":3,\"median_ns\":2," TIMES "}"

UNIT_TEST(hostile_files_are_refused_by_line)
{
	/* clang-format off */
	static const char *const bad[] = {
		"x", "{}", "[]", "1", "{\"record\":1}", "{\"record\":\"other\"}", "{\"record\":\"measurement\"}",
		"{" PARTS "\"status\":\"passed\",\"n\":3,\"median_ns\":2," TIMES "}",
		"{" PARTS "\"parameters\":[],\"status\":\"passed\",\"n\":3,\"median_ns\":2," TIMES "}",
		"{" PARTS "\"parameters\":{\"a\":-1},\"status\":\"passed\",\"n\":3,\"median_ns\":2," TIMES "}",
		"{" PARTS "\"parameters\":{\"a\":1.5},\"status\":\"passed\",\"n\":3,\"median_ns\":2," TIMES "}",
		"{" PARTS "\"parameters\":{\"a\":null},\"status\":\"passed\",\"n\":3,\"median_ns\":2," TIMES "}",
		"{" PARTS "\"parameters\":{\"a\":\"\\u001b[2J\"},\"status\":\"passed\",\"n\":3,\"median_ns\":2," TIMES "}",
		"{" PARTS "\"parameters\":{\"a\":\"\\u009b2J\"},\"status\":\"passed\",\"n\":3,\"median_ns\":2," TIMES "}",
		"{" PARTS "\"parameters\":{\"a\\n\":1},\"status\":\"passed\",\"n\":3,\"median_ns\":2," TIMES "}",
		"{" PARTS "\"parameters\":{\"1\":1,\"2\":1,\"3\":1,\"4\":1,\"5\":1,\"6\":1,\"7\":1,\"8\":1,\"9\":1},"
		"\"status\":\"passed\",\"n\":3,\"median_ns\":2," TIMES "}",
		"{" PARTS "\"parameters\":{},\"status\":\"good\",\"n\":3,\"median_ns\":2," TIMES "}",
		"{" PARTS "\"parameters\":{},\"status\":\"waived\"}",
		"{" PARTS "\"parameters\":{},\"status\":\"passed\",\"n\":0,\"median_ns\":2," TIMES "}",
		"{" PARTS "\"parameters\":{},\"status\":\"passed\",\"n\":3,\"median_ns\":0," TIMES "}",
		"{" PARTS "\"parameters\":{},\"status\":\"passed\",\"n\":3,\"median_ns\":-2," TIMES "}",
		"{" PARTS "\"parameters\":{},\"status\":\"passed\",\"n\":3,\"median_ns\":1e300," TIMES "}",
		"{" PARTS "\"parameters\":{},\"status\":\"passed\",\"n\":3,\"median_ns\":\"2\"," TIMES "}",
		"{" PARTS "\"parameters\":{},\"status\":\"passed\",\"n\":3,\"median_ns\":2,\"ratio_to\":\"p\"," TIMES "}",
		"{" PARTS "\"parameters\":{},\"status\":\"passed\",\"n\":3,\"median_ns\":2,\"n\":4," TIMES "}",
		"{" PARTS "\"parameters\":{},\"status\":\"passed\",\"n\":3,\"median_ns\":2," TIMES ",\"bytes\":-1}",
		"{\"record\":\"environment\"}",
		"\"median_high_ns\":3," TIMES "}",
		"{\"record\":\"noise\",\"measurement\":\"m\",\"floor\":0.1,\"runs\":5}",
		"{\"record\":\"end\",\"load\":{\"x\":[\"\\u001b[2J\"]}}", "{\"record\":\"end\",\"\\u007f\":1}",
		"{" PARTS "\"parameters\":{},\"status\":\"passed\",\"n\":3,\"median_ns\":1e-10," TIMES "}",
	};
	/* clang-format on */
	struct sgpu_bench_results results;
	char text[2048];

	CHECK(sgpu_bench_read(GOOD, strlen(GOOD), "run", &results, &error) == SGPU_OK &&
	      json_array_size(results.records) == 1);
	sgpu_bench_results_clear(&results);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		snprintf(text, sizeof(text), "%s\n\n%s\n", GOOD, bad[i]);
		CHECK(sgpu_bench_read(text, strlen(text), "run", &results, &error) ==
		      SGPU_EINVALID);
		if (strncmp(error.text, "run:3: ", 7) != 0) {
			printf("# %s: %s\n", bad[i], error.text);
		}
		CHECK(strncmp(error.text, "run:3: ", 7) == 0 && results.records == NULL);
	}
	CHECK(sgpu_bench_read("", 0, "run", &results, &error) == SGPU_EINVALID);
	CHECK(sgpu_bench_read("{\"record\":\"environment\"}\n", 25, "run", &results, &error) ==
	      SGPU_EINVALID);
}

static int read_text(const char *text)
{
	struct sgpu_bench_results results;
	const int rc = sgpu_bench_read(text, strlen(text), "run", &results, &error);

	sgpu_bench_results_clear(&results);
	return rc;
}

UNIT_TEST(characters_that_turn_or_hide_text_are_refused)
{
	static const struct {
		unsigned first, last;
	} refused[] = {
		{ 0x01, 0x1f },	    { 0x7f, 0x9f },	{ 0xad, 0xad },	    { 0x34f, 0x34f },
		{ 0x61c, 0x61c },   { 0x115f, 0x1160 }, { 0x17b4, 0x17b5 }, { 0x180b, 0x180f },
		{ 0x200b, 0x200f }, { 0x2028, 0x202e }, { 0x2060, 0x206f }, { 0xfe00, 0xfe0f },
		{ 0xfeff, 0xfeff }, { 0xffa0, 0xffa0 }, { 0xfff0, 0xfffb },
	};

	for (unsigned c = 1; c < 0x10000; c += c < 0x3000 || c >= 0xfe00 ? 1 : 0x100) {
		bool bad = false;
		char text[512];

		for (size_t i = 0; i < SGPU_ARRAY_LENGTH(refused); i++) {
			bad = bad || (c >= refused[i].first && c <= refused[i].last);
		}
		if (c >= 0xd800 && c < 0xe000) {
			continue;
		}
		snprintf(text, sizeof(text),
			 "{" PARTS
			 "\"parameters\":{},\"status\":\"waived\",\"reason\":\"a\\u%04xb\"}",
			 c);
		CHECK((read_text(text) == SGPU_EINVALID) == bad);
	}
	CHECK(read_text("{" PARTS "\"parameters\":{},\"status\":\"waived\",\"reason\":\"\U0001f600 "
			"\U0000202e\"}") == SGPU_EINVALID);
	CHECK(read_text("{" PARTS "\"parameters\":{},\"status\":\"waived\",\"reason\":\"\U0001f600 "
			"\U000e2010 \U00102060\"}") == SGPU_OK);
}

UNIT_TEST(names_that_are_too_long_are_refused)
{
	struct sgpu_bench_results results;
	char text[1024];

	for (int length = SGPU_BENCH_NAME_MAX - 1; length <= SGPU_BENCH_NAME_MAX; length++) {
		snprintf(text, sizeof(text),
			 "{\"record\":\"measurement\",\"case\":\"%0*d\",\"variant\":\"\",\"unit\":"
			 "\"ns\",\"parameters\":{},"
			 "\"status\":\"waived\",\"reason\":\"r\"}",
			 length, 0);
		CHECK((sgpu_bench_read(text, strlen(text), "run", &results, &error) == SGPU_OK) ==
		      (length < SGPU_BENCH_NAME_MAX));
		sgpu_bench_results_clear(&results);
	}
}

int main(void)
{
	UNIT_RUN(records_come_back_from_their_json);
	UNIT_RUN(hostile_files_are_refused_by_line);
	UNIT_RUN(characters_that_turn_or_hide_text_are_refused);
	UNIT_RUN(names_that_are_too_long_are_refused);
	return unit_done();
}
