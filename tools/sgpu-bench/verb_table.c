/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-bench table: the results of a run as Markdown, or as a drawing.
 */
#include <stdlib.h>
#include <unistd.h>

#include <sgpu/io.h>
#include <sgpu/sniff.h>

#include "verbs.h"

enum { RESULTS_SIZE_MAX = 64 << 20 };

struct request {
	const char *plot;
	bool gnuplot;
};

const struct cli_option table_options[] = {
	CLI_COMMON,
	{ "plot", 0, "FILE", "draw them there, as SVG, by gnuplot, and show no table", CLI_TEXT(struct request, plot) },
	{ "gnuplot", 0, NULL, "show the script that gnuplot draws them from", CLI_FLAG(struct request, gnuplot) },
	CLI_END,
};

int read_results(const char *path, struct sgpu_bench_results *results)
{
	struct sgpu_error error = { 0 };
	char *text = NULL;
	size_t size = 0;
	int rc;

	cli_remember_input(path);
	rc = sgpu_read_file(path, RESULTS_SIZE_MAX, &text, &size, &error);
	if (rc == SGPU_OK && size == 0) {
		rc = sgpu_fail_sniffed(&error, cli_is_standard(path) ? "standard input" : path, text, size, "results");
	}
	rc = rc ? rc : sgpu_bench_read(text, size, path, results, &error);
	free(text);
	return rc == SGPU_OK ? 0 : cli_error(&error);
}

int verb_table(int argc, char **argv)
{
	struct sgpu_bench_results results = { 0 };
	struct sgpu_output output = SGPU_OUTPUT_INIT;
	struct sgpu_error error = { 0 };
	struct request request = { 0 };
	char **paths;
	int status = cli_read(argc, argv, &request, &paths);
	const char *plot = request.plot;

	if (status) {
		return status;
	}
	if (plot && request.gnuplot) {
		return cli_usage("--plot and --gnuplot exclude each other");
	}
	status = cli_output_prepare(plot, 0666, false);
	if (status) {
		return status;
	}
	status = read_results(paths[0], &results);
	if (status) {
		return status;
	}
	if (request.gnuplot) {
		status = draw_script(&results, STDOUT_FILENO, "standard output", &error) ? cli_error(&error) : 0;
	} else if (!plot) {
		print_markdown(stdout, &results);
	} else if (!cli_output_apart(plot)) {
		status = 2;
	} else if (cli_output_take(&output, plot, 0666, &error) != SGPU_OK ||
		   draw(&results, &output, &error) != SGPU_OK) {
		status = cli_error(&error);
	}
	sgpu_output_close(&output);
	sgpu_bench_results_clear(&results);
	return status;
}
