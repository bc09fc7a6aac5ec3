/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares results with those of another run, and of published papers (published.json).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "verbs.h"

struct request {
	unsigned threshold; /* percent */
	bool ratios;
};

const struct cli_option compare_options[] = {
	{ "threshold", 0, "PERCENT", "how much slower is too much (default: 5)",
	  CLI_NUMBER(struct request, threshold, 0, 1000000) },
	{ "ratios", 0, NULL, "compare ratios, which two machines can have in common",
	  CLI_FLAG(struct request, ratios) },
	CLI_END,
};
const struct cli_option published_options[] = { CLI_END };

/* ---- two runs ---- */
static const struct column difference_columns[] = {
	{ "measurement", 60 }, { "first", 11 },	  { "second", 11 }, { "change", 9 },
	{ "noise", 8 },	       { "verdict", 28 }, { NULL, 0 },
};

/* Slower by more than the threshold, or failing now. */
static bool is_worse(const struct sgpu_bench_difference *d, const struct request *request)
{
	if (d->verdict == SGPU_BENCH_NOT_MEASURED) {
		return sgpu_bench_passed(d->first) &&
		       strcmp(sgpu_bench_text(d->second, "status"), "failed") == 0;
	}
	return d->verdict == SGPU_BENCH_SLOWER && 100 * d->change > request->threshold;
}

static const char *side_text(const json_t *record, bool ratios, char text[TEXT_MAX])
{
	if (!record || !sgpu_bench_passed(record)) {
		return record ? sgpu_bench_text(record, "status") : "-";
	}
	if (ratios) {
		snprintf(text, TEXT_MAX, "%.3f x", sgpu_bench_number(record, "ratio"));
		return text;
	}
	return value_text(record, text);
}

static int print_difference(const struct sgpu_bench_difference *d, bool ratios, bool beyond)
{
	const bool compared = d->verdict <= SGPU_BENCH_AMBIGUOUS;
	const char *const figure = ratios ? "ratio" : "median_ns";
	char key[SGPU_BENCH_KEY_MAX], first[TEXT_MAX], second[TEXT_MAX],
		change[TEXT_MAX] = "", noise[TEXT_MAX] = "", verdict[TEXT_MAX];
	json_t *object;

	sgpu_bench_key(d->first ? d->first : d->second, key);
	if (cli_json) {
		object = json_pack("{s:s, s:s, s:b}", "measurement", key, "verdict",
				   sgpu_bench_verdicts[d->verdict], "beyond_threshold", beyond);
		if (compared) {
			json_object_update_new(
				object, json_pack("{s:f, s:f, s:f, s:f}",
						  ratios ? "first_ratio" : "first_median_ns",
						  sgpu_bench_number(d->first, figure),
						  ratios ? "second_ratio" : "second_median_ns",
						  sgpu_bench_number(d->second, figure), "change",
						  d->change, "noise", d->noise));
		}
		return cli_print_json(object, stdout, JSON_COMPACT);
	}
	if (compared) {
		snprintf(change, sizeof(change), "%+.1f %%", 100 * d->change);
		snprintf(noise, sizeof(noise), "%.1f %%", 100 * d->noise);
	}
	snprintf(verdict, sizeof(verdict), "%s%s", sgpu_bench_verdicts[d->verdict],
		 beyond ? ", beyond the threshold" : "");
	print_row(stdout, difference_columns,
		  (const char *const[]){ key, side_text(d->first, ratios, first),
					 side_text(d->second, ratios, second), change, noise,
					 verdict });
	return 0;
}

static int report(const struct sgpu_bench_difference *differences, size_t count,
		  const struct request *request)
{
	size_t verdicts[SGPU_BENCH_NOT_MEASURED + 1] = { 0 }, compared = 0, worse_count = 0;
	int status = 0;

	if (!cli_json) {
		print_head(stdout, difference_columns);
	}
	for (size_t i = 0; status == 0 && i < count; i++) {
		const struct sgpu_bench_difference *d = &differences[i];
		const bool worse = is_worse(d, request);

		verdicts[d->verdict]++;
		compared += d->verdict <= SGPU_BENCH_AMBIGUOUS;
		worse_count += worse;
		status = print_difference(d, request->ratios, worse);
	}
	if (status == 0 && compared == 0 && worse_count == 0) {
		return cli_fail(SGPU_EDIFFERS, "the two runs have no measurement in common");
	}
	cli_note("%zu compared: %zu same, %zu faster, %zu slower, %zu ambiguous; %zu worse by more "
		 "than %u %%",
		 compared, verdicts[SGPU_BENCH_SAME], verdicts[SGPU_BENCH_FASTER],
		 verdicts[SGPU_BENCH_SLOWER], verdicts[SGPU_BENCH_AMBIGUOUS], worse_count,
		 request->threshold);
	return status ? status : worse_count ? sgpu_exit_status(SGPU_EDIFFERS) : 0;
}

int verb_compare(int argc, char **argv)
{
	struct sgpu_bench_results *runs = NULL;
	struct sgpu_bench_difference *differences = NULL;
	struct sgpu_error error = { 0 };
	struct request request = { .threshold = 5 };
	size_t count = 0, difference_count = 0;
	char **paths;
	int status = cli_read(argc, argv, &request, &paths);

	status = status ? status : read_runs(paths, false, &runs, &count);
	if (status == 0 && sgpu_bench_compare(&runs[0], &runs[1], request.ratios, &differences,
					      &difference_count, &error) != SGPU_OK) {
		status = cli_error(&error);
	} else if (status == 0) {
		status = report(differences, difference_count, &request);
	}
	free(differences);
	clear_runs(runs, count);
	return status;
}

/* ---- papers ---- */
BENCH_EMBED(published, "tools/sgpu-bench/published.json");

/* Whether a record has the parameters of a point, or none. */
static bool is_at(const json_t *record, json_t *point)
{
	const json_t *parameters = json_object_get(record, "parameters");
	const char *key;
	json_t *value;
	bool is_so = true;

	json_object_foreach (point, key, value) {
		is_so = is_so && json_equal(value, json_object_get(parameters, key));
	}
	return is_so || json_object_size(parameters) == 0;
}

/* Returns a variant's first passed record, one that says why there is none, or NULL. */
static const json_t *find(const struct sgpu_bench_results *runs, size_t count, const char *name,
			  json_t *point, const char *variant)
{
	const json_t *why = NULL, *record;
	size_t k;

	for (size_t i = 0; variant[0] && i < count; i++) {
		json_array_foreach (runs[i].records, k, record) {
			const char *its = sgpu_bench_text(record, "variant");

			if (strcmp(sgpu_bench_text(record, "case"), name) == 0 &&
			    (!its[0] || strcmp(its, variant) == 0) && is_at(record, point)) {
				if (sgpu_bench_passed(record) && its[0]) {
					return record;
				}
				why = record;
			}
		}
	}
	return why;
}

static double ns_of(const json_t *record)
{
	return sgpu_bench_passed(record) ? sgpu_bench_number(record, "median_ns") /
						   fmax(1, sgpu_bench_number(record, "operations"))
					 : 0;
}

/* Returns our figure, a rate or a time like the paper's. */
static const char *ours(const json_t *record, bool is_rate, char text[TEXT_MAX])
{
	return ns_of(record) <= 0 ? ""
	       : is_rate	  ? value_text(record, text)
				  : time_text(ns_of(record), text);
}

static const struct column published_columns[] = {
	{ "paper", 11 },	{ "what", 35 },
	{ "plain there", 11 },	{ "secured there", 13 },
	{ "ratio there", 11 },	{ "plain here", 10 },
	{ "secured here", 12 }, { "ratio here", 10 },
	{ "note", 0 },		{ NULL, 0 },
};

static int print_published(json_t *row, const struct sgpu_bench_results *runs, size_t count)
{
	const char *place, *what, *plain, *secured, *paper, *name, *variants[2], *note;
	const json_t *before, *after;
	char first[TEXT_MAX], second[TEXT_MAX], ratio[TEXT_MAX] = "", why[LABEL_MAX * 2];
	json_t *point;
	bool is_rate;
	double times;

	if (json_unpack(row, "[ssssssosss]", &place, &what, &plain, &secured, &paper, &name, &point,
			&variants[0], &variants[1], &note) != 0) {
		return cli_fail(SGPU_EINVALID, "a row of published.json is no such");
	}
	before = find(runs, count, name, point, variants[0]);
	after = find(runs, count, name, point, variants[1]);
	is_rate = strstr(secured, "B/s") || strcmp(name, "bandwidth") == 0;
	if (ns_of(before) > 0 && ns_of(after) > 0) {
		times = strcmp(sgpu_bench_text(after, "ratio_to"),
			       sgpu_bench_text(before, "variant")) == 0
				? sgpu_bench_number(after, "ratio")
				: ns_of(after) / ns_of(before);
		snprintf(ratio, sizeof(ratio), times < 1000 ? "%.3g x" : "%.0f x", times);
	}
	snprintf(why, sizeof(why), "%s", note);
	if (name[0] && !after) {
		snprintf(why, sizeof(why),
			 "not measured: no such record of case '%s' in these results", name);
	} else if (name[0] && !sgpu_bench_passed(after)) {
		snprintf(why, sizeof(why), "%s: %s", sgpu_bench_text(after, "status"),
			 sgpu_bench_text(after, "reason"));
	}
	print_row(stdout, published_columns,
		  (const char *const[]){ place, what, plain, secured, paper,
					 ours(before, is_rate, first), ours(after, is_rate, second),
					 ratio, why });
	return 0;
}

int verb_published(int argc, char **argv)
{
	json_t *papers = json_loads(published, 0, NULL), *row;
	struct sgpu_bench_results *runs = NULL;
	size_t count = 0, i;
	char **paths;
	int status = cli_read(argc, argv, NULL, &paths);

	status = status ? status : read_runs(paths, true, &runs, &count);
	if (status == 0) {
		print_head(stdout, published_columns);
		json_array_foreach (json_object_get(papers, argv[0]), i, row) {
			status = status ? status : print_published(row, runs, count);
		}
	}
	clear_runs(runs, count);
	json_decref(papers);
	return status;
}
