/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-bench table: the results of a run as tables in Markdown.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/io.h"
#include "verbs.h"

const struct cli_option table_options[] = { CLI_COMMON, CLI_END };

int read_results_text(const char *path, char **text, struct sgpu_bench_results *results)
{
	struct sgpu_error error = { 0 };
	size_t size = 0;
	int rc;

	cli_remember_input(path);
	rc = sgpu_read_file(path, RESULTS_SIZE_MAX, text, &size, &error);
	if (rc == SGPU_OK && size == 0) {
		rc = sgpu_fail_sniffed(&error, STDIN_FILENO,
				       cli_is_standard(path) ? "standard input" : path, *text, size,
				       "results");
	}
	rc = rc ? rc : sgpu_bench_read(*text, size, path, results, &error);
	return rc == SGPU_OK ? 0 : cli_error(&error);
}

int read_results(const char *path, struct sgpu_bench_results *results)
{
	char *text = NULL;
	const int status = read_results_text(path, &text, results);

	free(text);
	return status;
}

int verb_table(int argc, char **argv)
{
	struct sgpu_bench_results results = { 0 };
	char **paths;
	int status = cli_read(argc, argv, NULL, &paths);

	status = status ? status : read_results(paths[0], &results);
	if (status == 0) {
		print_environment(stdout, results.environment);
		print_record(stdout, NULL);
	}
	for (size_t i = 0; status == 0 && i < results.count; i++) {
		print_record(stdout, &results.records[i]);
	}
	sgpu_bench_results_clear(&results);
	return status;
}
