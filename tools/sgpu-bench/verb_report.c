/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-bench report: makes a page for a browser of results. The page has the records and draws
 * them; differences between runs are judged here, as `compare` does. scripts/report-page.sh makes
 * the rest of the page.
 */
#include <stdlib.h>
#include <string.h>

#include "verbs.h"

struct request {
	const char *output;
};

const struct cli_option report_options[] = {
	CLI_COMMON,
	{ "output", 'o', "FILE", "write the page there, not to standard output",
	  CLI_TEXT(struct request, output) },
	CLI_END,
};

/* The page before and after the data, which are one JSON value. */
BENCH_EMBED(page_head, "head.html");
BENCH_EMBED(page_tail, "tail.html");

/* Returns a run with noise of the machine and build of `environment`, or -1. */
static int find_noise(const struct sgpu_bench_results *runs, int count, const json_t *environment)
{
	for (int i = 0; i < count; i++) {
		if (runs[i].noise_count > 0 &&
		    !sgpu_bench_environments_differ(runs[i].environment, environment)) {
			return i;
		}
	}
	return -1;
}

/* Adds what two files have in common: [file, measurement, file, measurement, verdict, change,
 * noise, noise was measured]. */
static int add_differences(json_t *all, const struct sgpu_bench_results *runs, int a, int b,
			   int noise, struct sgpu_error *error)
{
	const struct sgpu_bench_results *first = &runs[a], *second = &runs[b];
	struct sgpu_bench_difference *d = NULL;
	size_t count = 0;
	int rc = sgpu_bench_compare(first, second, noise < 0 ? NULL : &runs[noise], false, &d,
				    &count, error);

	for (size_t i = 0; rc == SGPU_OK && i < count; i++) {
		if (d[i].verdict <= SGPU_BENCH_AMBIGUOUS &&
		    json_array_append_new(all,
					  json_pack("[i, I, i, I, s, f, f, b]", a,
						    (json_int_t)(d[i].first - first->records), b,
						    (json_int_t)(d[i].second - second->records),
						    sgpu_bench_verdicts[d[i].verdict], d[i].change,
						    d[i].noise, d[i].noise_measured)) != 0) {
			rc = sgpu_fail_nomem(error);
		}
	}
	free(d);
	return rc;
}

static int make_data(char *const *paths, const struct sgpu_bench_results *runs, int count,
		     json_t **data, struct sgpu_error *error)
{
	json_t *all = json_array(), *differences = json_array();
	int rc = SGPU_OK;

	*data = json_pack("{s:o, s:o}", "files", all, "differences", differences);
	for (int b = 0; rc == SGPU_OK && b < count; b++) {
		const char *slash = strrchr(paths[b], '/');
		const char *name = cli_is_standard(paths[b]) ? "standard input"
				   : slash		     ? slash + 1
							     : paths[b];

		if (json_array_append_new(
			    all, json_pack("{s:o, s:i, s:s}", "name", cli_json_text(name), "noise",
					   find_noise(runs, count, runs[b].environment), "text",
					   runs[b].text)) != 0) {
			rc = sgpu_fail_nomem(error);
		}
		for (int a = 0; rc == SGPU_OK && a < b; a++) {
			rc = add_differences(differences, runs, a, b,
					     find_noise(runs, count, runs[a].environment), error);
		}
	}
	return rc;
}

static int write_page(char *const *paths, const struct sgpu_bench_results *runs, int count,
		      const char *path)
{
	struct sgpu_error error = { 0 };
	json_t *data = NULL;
	char *page = NULL;
	size_t size = 0;
	int rc = make_data(paths, runs, count, &data, &error);
	char *text = rc == SGPU_OK ? json_dumps(data, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
	FILE *out = text ? open_memstream(&page, &size) : NULL;

	if (out) {
		fputs(page_head, out);
		for (const char *c = text; *c; c++) { /* the data cannot end their element */
			if (*c == '<') {
				fputs("\\u003c", out);
			} else {
				fputc(*c, out);
			}
		}
		fputs(page_tail, out);
	}
	if (rc == SGPU_OK && (!out || fclose(out) != 0)) {
		rc = sgpu_fail_nomem(&error);
	}
	rc = rc ? rc : cli_write_text(path, 0666, page, size, &error);
	json_decref(data);
	free(text);
	free(page);
	return rc == SGPU_OK ? 0 : cli_error(&error);
}

int verb_report(int argc, char **argv)
{
	struct request request = { 0 };
	struct sgpu_bench_results *runs = NULL;
	size_t count = 0;
	char **paths;
	int status = cli_read(argc, argv, &request, &paths);

	if (status == 0 && !page_head[0]) {
		status = cli_fail(
			SGPU_EUNAVAILABLE,
			"built without Chart.js (Debian: libjs-chart.js), so there is no page");
	}
	status = status ? status : cli_output_prepare(request.output, 0666, false);
	status = status ? status : read_runs(paths, NULL, &runs, &count);
	if (status == 0 && !cli_binary_apart(request.output)) {
		status = 2;
	}
	status = status ? status : write_page(paths, runs, (int)count, request.output);
	clear_runs(runs, count);
	return status;
}
