/* SPDX-License-Identifier: Apache-2.0
 *
 * Results of the bench: as JSON and back, hostile files, comparison.
 */
#include <math.h>
#include <stdint.h>

#include <sgpu/bench.h>

#include "unit.h"

static struct sgpu_error error;

static struct sgpu_bench_record passed(const char *name, const char *variant, uint64_t size, double median, double mad)
{
	struct sgpu_bench_record r = { .unit = SGPU_BENCH_BYTES_PER_SECOND, .bytes = size, .operations = 2, .cpu_ns = 7 };

	snprintf(r.name, sizeof(r.name), "%s", name);
	snprintf(r.variant, sizeof(r.variant), "%s", variant);
	r.parameter_count = 2;
	snprintf(r.parameters[0].key, sizeof(r.parameters[0].key), "size_bytes");
	r.parameters[0].is_number = true;
	r.parameters[0].number = size;
	snprintf(r.parameters[1].key, sizeof(r.parameters[1].key), "direction");
	snprintf(r.parameters[1].text, sizeof(r.parameters[1].text), "h2d");
	r.ns = (struct sgpu_bench_statistics){ 9, median - 1, median, median + 1, mad, 2 / median, 0, 0, 0 };
	return r;
}

static void set_ratio(struct sgpu_bench_record *r, double ratio, double mad)
{
	snprintf(r->ratio_to, sizeof(r->ratio_to), "plain");
	r->ratio = (struct sgpu_bench_statistics){ 9, ratio - 0.01, ratio, ratio + 0.01, mad, 0, 0, 0, 0 };
}

static void add(struct sgpu_bench_results *results, struct sgpu_bench_record record)
{
	CHECK(sgpu_bench_results_add(results, &record, &error) == SGPU_OK);
}

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
	for (size_t i = 0; i < results->count; i++) {
		json_t *object = sgpu_bench_record_json(&results->records[i]);

		line = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(12));
		fprintf(out, "%s\n", line);
		free(line);
		json_decref(object);
	}
	fclose(out);
	return text;
}

UNIT_TEST(records_come_back_from_their_json)
{
	struct sgpu_bench_results results = { 0 }, again = { 0 };
	const struct sgpu_bench_options options = { .quick = true };
	struct sgpu_bench_record r = passed("secure-copy", "sealed", 1 << 20, 1234.5, 3.25);
	char key[SGPU_BENCH_KEY_MAX], *text;

	results.environment = sgpu_bench_environment(NULL, &options);
	REQUIRE(results.environment != NULL);
	CHECK(json_is_true(json_object_get(results.environment, "quick")));
	CHECK(json_is_integer(json_object_get(results.environment, "processors")));
	set_ratio(&r, 1.02, 0.001);
	r.reference_ratio = 16;
	snprintf(r.reference, sizeof(r.reference), "Graviton");
	r.latency = (struct sgpu_bench_latency){ 120.5, 900 };
	add(&results, r);
	r.status = SGPU_BENCH_WAIVED;
	r.variant[0] = '\0';
	snprintf(r.reason, sizeof(r.reason), "no GPU: \"quoted\"");
	add(&results, r);
	text = text_of(&results);
	REQUIRE(sgpu_bench_read(text, strlen(text), "run", &again, &error) == SGPU_OK);
	REQUIRE(again.count == 2 && json_equal(again.environment, results.environment));
	r = again.records[0];
	CHECK(r.ns.n == 9 && r.ns.median == 1234.5 && r.ns.mad == 3.3 && r.bytes == 1 << 20 && r.operations == 2);
	CHECK(r.ratio.median == 1.02 && strcmp(r.ratio_to, "plain") == 0 && r.reference_ratio == 16 && r.cpu_ns == 7);
	CHECK(r.latency.p50_ns == 120.5 && r.latency.p99_ns == 900);
	CHECK(again.records[1].status == SGPU_BENCH_WAIVED && strcmp(again.records[1].reason, "no GPU: \"quoted\"") == 0);
	sgpu_bench_key(&r, key);
	CHECK(strcmp(key, "secure-copy sealed direction=h2d size_bytes=1048576") == 0);
	free(text);
	sgpu_bench_results_clear(&results);
	sgpu_bench_results_clear(&again);
	CHECK(again.records == NULL && again.environment == NULL);
}

#define PARTS "\"record\":\"measurement\",\"case\":\"c\",\"variant\":\"v\",\"unit\":\"ns\","
#define TIMES "\"min_ns\":1,\"p95_ns\":3,\"mad_ns\":0.5,\"spread\":1,\"cpu_median_ns\":1,\"operations\":1"
#define GOOD "{" PARTS "\"parameters\":{},\"status\":\"passed\",\"n\":3,\"median_ns\":2," TIMES "}"

UNIT_TEST(hostile_files_are_refused_by_line)
{
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
	};
	struct sgpu_bench_results results;
	char text[2048];

	CHECK(sgpu_bench_read(GOOD, strlen(GOOD), "run", &results, &error) == SGPU_OK && results.count == 1);
	sgpu_bench_results_clear(&results);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		snprintf(text, sizeof(text), "%s\n\n%s\n", GOOD, bad[i]);
		CHECK(sgpu_bench_read(text, strlen(text), "run", &results, &error) == SGPU_EINVALID);
		if (strncmp(error.text, "run:3: ", 7) != 0) {
			printf("# %s: %s\n", bad[i], error.text);
		}
		CHECK(strncmp(error.text, "run:3: ", 7) == 0 && results.records == NULL && results.count == 0);
	}
	CHECK(sgpu_bench_read("", 0, "run", &results, &error) == SGPU_EINVALID);
	CHECK(sgpu_bench_read("{\"record\":\"environment\"}\n", 25, "run", &results, &error) == SGPU_EINVALID);
}

UNIT_TEST(names_that_are_too_long_are_refused)
{
	struct sgpu_bench_results results;
	char text[1024];

	for (int length = SGPU_BENCH_NAME_MAX - 1; length <= SGPU_BENCH_NAME_MAX; length++) {
		snprintf(text, sizeof(text),
			 "{\"record\":\"measurement\",\"case\":\"%0*d\",\"variant\":\"\",\"unit\":\"ns\",\"parameters\":{},"
			 "\"status\":\"waived\",\"reason\":\"r\"}", length, 0);
		CHECK((sgpu_bench_read(text, strlen(text), "run", &results, &error) == SGPU_OK) ==
		      (length < SGPU_BENCH_NAME_MAX));
		sgpu_bench_results_clear(&results);
	}
}

/* ---- comparison ---- */
static enum sgpu_bench_verdict compare_two(double a, double a_mad, double b, double b_mad, double *change)
{
	struct sgpu_bench_results first = { 0 }, second = { 0 };
	struct sgpu_bench_difference *d = NULL;
	enum sgpu_bench_verdict verdict = SGPU_BENCH_NOT_MEASURED;
	size_t count = 0;

	add(&first, passed("c", "v", 4096, a, a_mad));
	add(&second, passed("c", "v", 4096, b, b_mad));
	CHECK(sgpu_bench_compare(&first, &second, false, &d, &count, &error) == SGPU_OK && count == 1);
	if (count == 1) {
		verdict = d[0].verdict;
		*change = d[0].change;
	}
	free(d);
	sgpu_bench_results_clear(&first);
	sgpu_bench_results_clear(&second);
	return verdict;
}

UNIT_TEST(differences_count_beyond_the_noise)
{
	double change = 0;

	CHECK(compare_two(1000, 10, 1000, 10, &change) == SGPU_BENCH_WITHIN_NOISE && change == 0);
	/* 2 * 1.4826 * sqrt(2) * 1 % = 4.2 %. */
	CHECK(compare_two(1000, 10, 1040, 10, &change) == SGPU_BENCH_WITHIN_NOISE && fabs(change - 0.04) < 1e-9);
	CHECK(compare_two(1000, 10, 1044, 10, &change) == SGPU_BENCH_SLOWER);
	CHECK(compare_two(1000, 10, 950, 10, &change) == SGPU_BENCH_FASTER && change < 0);
	CHECK(compare_two(1000, 0, 1000.5, 0, &change) == SGPU_BENCH_SLOWER);
}

UNIT_TEST(what_one_side_lacks_is_named)
{
	struct sgpu_bench_results first = { 0 }, second = { 0 };
	struct sgpu_bench_record failed = passed("c", "b", 4096, 100, 1);
	struct sgpu_bench_difference *d = NULL;
	size_t count = 0;

	add(&first, passed("c", "a", 4096, 100, 1));
	add(&first, passed("c", "b", 4096, 100, 1));
	failed.status = SGPU_BENCH_FAILED;
	add(&second, failed);
	add(&second, passed("c", "a", 8192, 100, 1));
	REQUIRE(sgpu_bench_compare(&first, &second, false, &d, &count, &error) == SGPU_OK && count == 3);
	CHECK(d[0].verdict == SGPU_BENCH_ONLY_FIRST && d[0].first && !d[0].second);
	CHECK(d[1].verdict == SGPU_BENCH_NOT_MEASURED && d[1].second->status == SGPU_BENCH_FAILED);
	CHECK(d[2].verdict == SGPU_BENCH_ONLY_SECOND && !d[2].first && d[2].second->bytes == 8192);
	free(d);
	/* The order of parameters does not matter; the same measurement twice cannot be paired. */
	add(&second, failed);
	second.records[2].parameters[0] = failed.parameters[1];
	second.records[2].parameters[1] = failed.parameters[0];
	CHECK(sgpu_bench_compare(&first, &second, false, &d, &count, &error) == SGPU_EINVALID && d == NULL);
	CHECK(strstr(error.text, "twice") != NULL);
	sgpu_bench_results_clear(&first);
	sgpu_bench_results_clear(&second);
}

UNIT_TEST(ratios_are_compared_in_place_of_times)
{
	struct sgpu_bench_results first = { 0 }, second = { 0 };
	struct sgpu_bench_record slow = passed("c", "sealed", 4096, 1000, 1), fast = passed("c", "sealed", 4096, 10, 0.01);
	struct sgpu_bench_difference *d = NULL;
	size_t count = 0;

	set_ratio(&slow, 1.10, 0.001);
	set_ratio(&fast, 1.10, 0.001);
	add(&first, passed("c", "plain", 4096, 900, 1));
	add(&first, slow);
	add(&second, passed("c", "plain", 4096, 9, 0.01));
	add(&second, fast);
	REQUIRE(sgpu_bench_compare(&first, &second, true, &d, &count, &error) == SGPU_OK && count == 1);
	CHECK(d[0].verdict == SGPU_BENCH_WITHIN_NOISE);
	free(d);
	second.records[1].ratio.median = 1.2;
	REQUIRE(sgpu_bench_compare(&first, &second, true, &d, &count, &error) == SGPU_OK && count == 1);
	CHECK(d[0].verdict == SGPU_BENCH_SLOWER);
	free(d);
	sgpu_bench_results_clear(&first);
	sgpu_bench_results_clear(&second);
}

int main(void)
{
	UNIT_RUN(records_come_back_from_their_json);
	UNIT_RUN(hostile_files_are_refused_by_line);
	UNIT_RUN(names_that_are_too_long_are_refused);
	UNIT_RUN(differences_count_beyond_the_noise);
	UNIT_RUN(what_one_side_lacks_is_named);
	UNIT_RUN(ratios_are_compared_in_place_of_times);
	return unit_done();
}
