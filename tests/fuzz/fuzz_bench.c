/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes results of the bench. What is read compares equal to itself and comes back from its own
 * JSON.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <bench/bench.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compare(const struct sgpu_bench_results *results, bool ratios)
{
	struct sgpu_bench_difference *differences = NULL;
	size_t count = 0;

	if (sgpu_bench_compare(results, results, ratios, &differences, &count, NULL) == SGPU_OK) {
		for (size_t i = 0; i < count; i++) {
			if (differences[i].verdict != SGPU_BENCH_SAME &&
			    differences[i].verdict != SGPU_BENCH_NOT_MEASURED) {
				abort();
			}
		}
	}
	free(differences);
}

static void read_again(const json_t *record)
{
	char *text = json_dumps(record, JSON_COMPACT), key[SGPU_BENCH_KEY_MAX];
	struct sgpu_bench_results again;

	if (!text || sgpu_bench_read(text, strlen(text), "fuzz", &again, NULL)) {
		abort();
	}
	sgpu_bench_key(record, key);
	(void)sgpu_bench_value(record);
	sgpu_bench_results_clear(&again);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sgpu_error error = { 0 };
	struct sgpu_bench_results results;

	if (sgpu_bench_read((const char *)data, size, "fuzz", &results, &error) != SGPU_OK) {
		if (!error.text[0] || results.records || results.environment) {
			abort();
		}
		return 0;
	}
	compare(&results, false);
	compare(&results, true);
	for (size_t i = 0; i < json_array_size(results.records); i++) {
		read_again(json_array_get(results.records, i));
	}
	sgpu_bench_results_clear(&results);
	return 0;
}
