/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-bench report: makes a page for a browser of results. The page has the records and draws
 * them. scripts/report-page.sh makes the rest of the page.
 */
#include <stdlib.h>
#include <string.h>

#include "verbs.h"

struct request {
	const char *output;
};

const struct cli_option report_options[] = {
	{ "output", 'o', "FILE", "write the page there, not to standard output",
	  CLI_TEXT(struct request, output) },
	CLI_END,
};

/* Before and after the data, one JSON value. */
BENCH_EMBED(page_head, "head.html");
BENCH_EMBED(page_tail, "tail.html");

static int make_data(char *const *paths, const struct sgpu_bench_results *runs, int count,
		     json_t **data, struct sgpu_error *error)
{
	json_t *all = *data = json_array();

	for (int i = 0; i < count; i++) {
		const char *slash = strrchr(paths[i], '/');
		const char *name = cli_is_standard(paths[i]) ? "standard input"
				   : slash		     ? slash + 1
							     : paths[i];

		if (json_array_append_new(all, json_pack("{s:o, s:s}", "name", cli_json_text(name),
							 "text", runs[i].text)) != 0) {
			return sgpu_fail_nomem(error);
		}
	}
	return SGPU_OK;
}

static int write_page(char *const *paths, const struct sgpu_bench_results *runs, int count,
		      const char *path)
{
	struct sgpu_error error = { 0 };
	json_t *data = NULL;
	char *page = NULL;
	size_t size = 0;
	int rc = make_data(paths, runs, count, &data, &error);
	char *text = rc == SGPU_OK ? json_dumps(data, JSON_COMPACT) : NULL;
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
	status = status ? status : cli_binary_output(request.output);
	status = status ? status : cli_output_prepare(request.output, 0666, false);
	status = status ? status : read_runs(paths, false, &runs, &count);
	status = status ? status : write_page(paths, runs, (int)count, request.output);
	clear_runs(runs, count);
	return status;
}
