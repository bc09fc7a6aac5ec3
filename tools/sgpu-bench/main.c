/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-bench: what protection costs, as ratios of things that are timed in one run. See
 * sgpu-bench(1).
 */
#include "verbs.h"

static const struct cli_verb verbs[] = {
	{ "run", "[CASE...]", "measure, all cases or those that are named", run_options, verb_run },
	{ "list", "", "list the cases", list_options, verb_list },
	{ "compare", "FIRST SECOND", "say where two runs differ by more than noise",
	  compare_options, verb_compare },
	{ "table", "RESULTS", "show a run's results as Markdown", table_options, verb_table },
	{ "report", "RESULTS...", "draw and compare results on a page for a browser",
	  report_options, verb_report },
	{ "graviton", "RESULTS...", "show results beside the paper on Graviton", published_options,
	  verb_published },
	{ "passthrough", "RESULTS...", "show results beside the paper on GPU passthrough",
	  published_options, verb_published },
	{ "doctor", "", "say what this machine lacks for confidential work on a GPU",
	  doctor_options, verb_doctor },
	{ "open", "", "open a device as the first of a process, and say how long it took",
	  open_options, verb_open },
	{ .name = NULL },
};

static const struct cli_tool tool = {
	.name = "sgpu-bench",
	.summary = "measure what protection costs",
	.verbs = verbs,
};

char **command_words;

int main(int argc, char **argv)
{
	command_words = argc > 0 ? argv + 1 : argv;
	return cli_main(&tool, argc, argv);
}
