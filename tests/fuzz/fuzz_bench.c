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

static void read_again(const struct sgpu_bench_record *record)
{
	struct sgpu_bench_results again;
	json_t *object = sgpu_bench_record_json(record);
	char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;

	/* Times below what JSON keeps become 0, which no measurement has. */
	if (!text ||
	    (sgpu_bench_read(text, strlen(text), "fuzz", &again, NULL) && record->ns.median >= 1 &&
	     (!record->ratio_to[0] || record->ratio.median >= 0.001))) {
		abort();
	}
	if (again.count) {
		sgpu_bench_results_clear(&again);
	}
	free(text);
	json_decref(object);
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
	for (size_t i = 0; i < results.count; i++) {
		read_again(&results.records[i]);
	}
	sgpu_bench_results_clear(&results);
	return 0;
}
