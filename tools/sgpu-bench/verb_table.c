/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-bench table: the results of a run as tables in Markdown.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/io.h"
#include "verbs.h"

enum { RESULTS_SIZE_MAX = 64 << 20 };
const struct cli_option table_options[] = { CLI_END };

static int read_results(const char *path, struct sgpu_bench_results *results)
{
	struct sgpu_error error = { 0 };
	char *text = NULL;
	size_t size = 0;
	int rc;

	cli_remember_input(path);
	rc = sgpu_read_file(path, NULL, RESULTS_SIZE_MAX, &text, &size, &error);
	if (rc == SGPU_OK && size == 0) {
		rc = sgpu_fail_sniffed(&error, STDIN_FILENO,
				       cli_is_standard(path) ? "standard input" : path, text, size,
				       "results");
	}
	rc = rc ? rc : sgpu_bench_read(text, size, path, results, &error);
	results->text = text;
	return rc == SGPU_OK ? 0 : cli_error(&error);
}

int read_runs(char *const *paths, bool one_machine, struct sgpu_bench_results **runs, size_t *count)
{
	struct sgpu_bench_results *all;
	int status;

	for (*count = 0; paths[*count]; ++*count) {
	}
	*runs = all = calloc(*count + 1, sizeof(*all));
	status = all ? 0 : cli_fail(SGPU_ENOMEM, "out of memory");
	for (size_t i = 0; status == 0 && i < *count; i++) {
		status = read_results(paths[i], &all[i]);
		for (int k = 0; status == 0 && one_machine && k < 2; k++) {
			const char *const what = k ? "processor" : "device";

			if (!json_equal(json_object_get(all[0].environment, what),
					json_object_get(all[i].environment, what))) {
				status = cli_fail(SGPU_EINVALID, "'%s' has results of another %s",
						  paths[i], what);
			}
		}
	}
	return status;
}

void clear_runs(struct sgpu_bench_results *runs, size_t count)
{
	for (size_t i = 0; runs && i < count; i++) {
		sgpu_bench_results_clear(&runs[i]);
	}
	free(runs);
}

int verb_table(int argc, char **argv)
{
	struct sgpu_bench_results *results = NULL;
	size_t count = 0;
	char **paths;
	int status = cli_read(argc, argv, NULL, &paths);

	status = status ? status : read_runs(paths, false, &results, &count);
	if (status == 0) {
		print_environment(stdout, results->environment);
		print_record(stdout, NULL);
	}
	for (size_t i = 0; status == 0 && i < json_array_size(results->records); i++) {
		print_record(stdout, json_array_get(results->records, i));
	}
	clear_runs(results, count);
	return status;
}
