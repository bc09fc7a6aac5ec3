/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-bench compare: where two runs differ by more than noise.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "verbs.h"

struct request {
	double threshold; /* fraction */
	bool ratios;
};

static int take_threshold(void *values, const char *text)
{
	struct request *request = values;
	char *end;

	request->threshold = strtod(text, &end) / 100;
	if (end == text || *end || strspn(text, "0123456789.") != strlen(text) || !isfinite(request->threshold)) {
		return cli_usage("--threshold: '%s' is not a percentage", text);
	}
	return 0;
}

const struct cli_option compare_options[] = {
	CLI_COMMON,
	{ "threshold", 0, "PERCENT", "how much slower is too much (default: 5)", CLI_TAKE(take_threshold) },
	{ "ratios", 0, NULL, "compare ratios, which two machines can have in common",
	  CLI_FLAG(struct request, ratios) },
	CLI_END,
};

const char *verdict_text(enum sgpu_bench_verdict verdict)
{
	static const char *const names[] = { "within noise", "faster", "slower", "only in the first",
					     "only in the second", "not measured" };

	return names[verdict];
}

bool verdict_is_judged(enum sgpu_bench_verdict verdict)
{
	return verdict <= SGPU_BENCH_SLOWER;
}

/* A regression: slower by more than noise and by more than the threshold, or passed once and fails now. */
static bool is_worse(const struct sgpu_bench_difference *d, double threshold)
{
	if (d->verdict == SGPU_BENCH_NOT_MEASURED) {
		return d->first->status == SGPU_BENCH_PASSED && d->second->status == SGPU_BENCH_FAILED;
	}
	return d->verdict == SGPU_BENCH_SLOWER && d->change > threshold;
}

static const char *side_text(const struct sgpu_bench_record *record, bool ratios, char text[TEXT_MAX])
{
	if (!record || record->status != SGPU_BENCH_PASSED) {
		return record ? sgpu_bench_status_name(record->status) : "-";
	}
	if (ratios) {
		snprintf(text, TEXT_MAX, "%.3f x", record->ratio.median);
		return text;
	}
	return value_text(record, text);
}

static void print_text(const struct sgpu_bench_difference *d, bool ratios, bool worse)
{
	char key[SGPU_BENCH_KEY_MAX], first[TEXT_MAX], second[TEXT_MAX];
	bool judged = verdict_is_judged(d->verdict);

	sgpu_bench_key(d->first ? d->first : d->second, key);
	printf("%-70s %11s %11s  ", key, side_text(d->first, ratios, first), side_text(d->second, ratios, second));
	if (judged) {
		printf("%+7.1f %%  (noise %.1f %%)  ", 100 * d->change, 100 * d->noise);
	}
	printf("%s%s\n", verdict_text(d->verdict), worse ? ", beyond the threshold" : "");
}

static int print_json(const struct sgpu_bench_difference *d, bool ratios, bool worse)
{
	char key[SGPU_BENCH_KEY_MAX];
	bool judged = verdict_is_judged(d->verdict);
	json_t *object;

	sgpu_bench_key(d->first ? d->first : d->second, key);
	object = json_pack("{s:s, s:s, s:b}", "measurement", key, "verdict", verdict_text(d->verdict),
			   "beyond_threshold", worse);
	if (judged) {
		const char *const names[2] = { ratios ? "first_ratio" : "first_median_ns",
					       ratios ? "second_ratio" : "second_median_ns" };

		json_object_set_new(object, names[0], json_real(ratios ? d->first->ratio.median : d->first->ns.median));
		json_object_set_new(object, names[1],
				    json_real(ratios ? d->second->ratio.median : d->second->ns.median));
		json_object_set_new(object, "change", json_real(d->change));
		json_object_set_new(object, "noise", json_real(d->noise));
	}
	return cli_print_json(object, stdout, JSON_COMPACT);
}

static int report(const struct sgpu_bench_difference *differences, size_t count, bool ratios, double threshold)
{
	size_t compared = 0, worse_count = 0;
	int status = 0;

	for (size_t i = 0; status == 0 && i < count; i++) {
		bool worse = is_worse(&differences[i], threshold);

		compared += verdict_is_judged(differences[i].verdict);
		worse_count += worse;
		if (cli_json) {
			status = print_json(&differences[i], ratios, worse);
		} else {
			print_text(&differences[i], ratios, worse);
		}
	}
	if (status == 0 && compared == 0 && worse_count == 0) {
		return cli_fail(SGPU_EDIFFERS, "the two runs have no measurement in common");
	}
	cli_note("%zu compared, %zu worse by more than %g %%", compared, worse_count, threshold * 100);
	return status ? status : worse_count ? sgpu_exit_status(SGPU_EDIFFERS) : 0;
}

int verb_compare(int argc, char **argv)
{
	struct sgpu_bench_results first = { 0 }, second = { 0 };
	struct sgpu_bench_difference *differences = NULL;
	struct sgpu_error error = { 0 };
	struct request request = { .threshold = 0.05 };
	size_t count = 0;
	char **paths;
	int status = cli_read(argc, argv, &request, &paths);

	status = status ? status : read_results(paths[0], &first, NULL, NULL);
	status = status ? status : read_results(paths[1], &second, NULL, NULL);
	if (status == 0 && sgpu_bench_compare(&first, &second, request.ratios, &differences, &count, &error) != SGPU_OK) {
		status = cli_error(&error);
	} else if (status == 0) {
		status = report(differences, count, request.ratios, request.threshold);
	}
	free(differences);
	sgpu_bench_results_clear(&first);
	sgpu_bench_results_clear(&second);
	return status;
}
