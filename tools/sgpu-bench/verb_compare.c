/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-bench compare: where two runs differ by more than noise.
 */
#include <stdlib.h>

#include "verbs.h"

struct request {
	unsigned threshold; /* percent */
	bool ratios, strict;
	const char *noise;
};

const struct cli_option compare_options[] = {
	CLI_COMMON,
	{ "threshold", 0, "PERCENT", "how much slower is too much (default: 5)",
	  CLI_NUMBER(struct request, threshold, 0, 1000000) },
	{ "ratios", 0, NULL, "compare ratios, which two machines can have in common",
	  CLI_FLAG(struct request, ratios) },
	{ "noise", 0, "FILE", "how far runs of one build lie apart, from 'sgpu-bench aa'",
	  CLI_INPUT(struct request, noise) },
	{ "strict", 0, NULL, "end with 1 for what is ambiguous, too",
	  CLI_FLAG(struct request, strict) },
	CLI_END,
};

/* A regression: slower, and by more than the threshold, or passed once and fails now; with --strict
 * also what may be one. */
static bool is_worse(const struct sgpu_bench_difference *d, const struct request *request)
{
	if (d->verdict == SGPU_BENCH_NOT_MEASURED) {
		return d->first->status == SGPU_BENCH_PASSED &&
		       d->second->status == SGPU_BENCH_FAILED;
	}
	return (d->verdict == SGPU_BENCH_SLOWER && 100 * d->change > request->threshold) ||
	       (d->verdict == SGPU_BENCH_AMBIGUOUS && request->strict);
}

static const char *side_text(const struct sgpu_bench_record *record, bool ratios,
			     char text[TEXT_MAX])
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

	sgpu_bench_key(d->first ? d->first : d->second, key);
	printf("%-70s %11s %11s  ", key, side_text(d->first, ratios, first),
	       side_text(d->second, ratios, second));
	if (d->verdict <= SGPU_BENCH_AMBIGUOUS) {
		printf("%+7.1f %%  (noise %.1f %%%s)  ", 100 * d->change, 100 * d->noise,
		       d->noise_measured ? "" : ", guessed");
	}
	printf("%s%s\n", sgpu_bench_verdict_name(d->verdict),
	       worse && d->verdict != SGPU_BENCH_AMBIGUOUS ? ", beyond the threshold" : "");
}

static int print_json(const struct sgpu_bench_difference *d, bool ratios, bool worse)
{
	char key[SGPU_BENCH_KEY_MAX];
	json_t *object;

	sgpu_bench_key(d->first ? d->first : d->second, key);
	object = json_pack("{s:s, s:s, s:b}", "measurement", key, "verdict",
			   sgpu_bench_verdict_name(d->verdict), "beyond_threshold",
			   worse && d->verdict != SGPU_BENCH_AMBIGUOUS);
	if (d->verdict <= SGPU_BENCH_AMBIGUOUS) {
		json_object_update_new(
			object, json_pack("{s:f, s:f, s:f, s:f, s:b}",
					  ratios ? "first_ratio" : "first_median_ns",
					  ratios ? d->first->ratio.median : d->first->ns.median,
					  ratios ? "second_ratio" : "second_median_ns",
					  ratios ? d->second->ratio.median : d->second->ns.median,
					  "change", d->change, "noise", d->noise, "noise_measured",
					  d->noise_measured));
	}
	return cli_print_json(object, stdout, JSON_COMPACT);
}

static int report(const struct sgpu_bench_difference *differences, size_t count,
		  const struct request *request)
{
	size_t verdicts[SGPU_BENCH_NOT_MEASURED + 1] = { 0 }, compared = 0, worse_count = 0;
	int status = 0;

	for (size_t i = 0; status == 0 && i < count; i++) {
		const struct sgpu_bench_difference *d = &differences[i];
		const bool worse = is_worse(d, request);

		verdicts[d->verdict]++;
		compared += d->verdict <= SGPU_BENCH_AMBIGUOUS;
		worse_count += worse;
		if (cli_json) {
			status = print_json(d, request->ratios, worse);
		} else {
			print_text(d, request->ratios, worse);
		}
	}
	if (status == 0 && compared == 0 && worse_count == 0) {
		return cli_fail(SGPU_EDIFFERS, "the two runs have no measurement in common");
	}
	cli_note("%zu compared: %zu same, %zu faster, %zu slower, %zu ambiguous; %zu worse by more "
		 "than %u %%%s",
		 compared, verdicts[SGPU_BENCH_SAME], verdicts[SGPU_BENCH_FASTER],
		 verdicts[SGPU_BENCH_SLOWER], verdicts[SGPU_BENCH_AMBIGUOUS], worse_count,
		 request->threshold, request->strict ? ", or ambiguous" : "");
	return status ? status : worse_count ? sgpu_exit_status(SGPU_EDIFFERS) : 0;
}

int verb_compare(int argc, char **argv)
{
	struct sgpu_bench_results first = { 0 }, second = { 0 }, noise = { 0 };
	struct sgpu_bench_difference *differences = NULL;
	struct sgpu_error error = { 0 };
	struct request request = { .threshold = 5 };
	const char *other = NULL;
	size_t count = 0;
	char **paths;
	int status = cli_read(argc, argv, &request, &paths);

	status = status ? status : read_results(paths[0], &first);
	status = status ? status : read_results(paths[1], &second);
	if (status == 0 && request.noise) {
		status = read_results(request.noise, &noise);
		other = sgpu_bench_environments_differ(noise.environment, first.environment);
	}
	if (status == 0 && other) {
		cli_warning("'%s' is of another machine or build than the first run: %s differs",
			    request.noise, other);
	}
	if (status == 0 &&
	    sgpu_bench_compare(&first, &second, request.noise ? &noise : NULL, request.ratios,
			       &differences, &count, &error) != SGPU_OK) {
		status = cli_error(&error);
	} else if (status == 0) {
		status = report(differences, count, &request);
	}
	free(differences);
	sgpu_bench_results_clear(&first);
	sgpu_bench_results_clear(&second);
	sgpu_bench_results_clear(&noise);
	return status;
}
