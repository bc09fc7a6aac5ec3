/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of sgpu-bench, and what they share.
 */
#ifndef BENCH_VERBS_H
#define BENCH_VERBS_H

#include <stdio.h>

#include <bench/bench.h>
#include <sgpu/io.h>

#include "cases.h"
#include "cli.h"

extern const struct cli_option aa_options[], list_options[], run_options[], compare_options[],
	table_options[], report_options[], doctor_options[], graviton_options[], open_options[];
int verb_aa(int argc, char **argv);
int verb_list(int argc, char **argv);
int verb_run(int argc, char **argv);
int verb_compare(int argc, char **argv);
int verb_table(int argc, char **argv);
int verb_doctor(int argc, char **argv);
int verb_report(int argc, char **argv);
int verb_graviton(int argc, char **argv);
int verb_open(int argc, char **argv);

enum { RESULTS_SIZE_MAX = 64 << 20 };
/* Reads a file of results; prints and returns an exit status when it cannot. The second has the
 * file, too, in *text, which the caller frees in any case. */
int read_results(const char *path, struct sgpu_bench_results *results);
int read_results_text(const char *path, char **text, struct sgpu_bench_results *results);

/* ---- formats ---- */
enum { TEXT_MAX = 64 };
/* "12.3 us", "55.3 GB/s", "64 MiB": three digits and a unit. */
/* Ties go away from 0, as in decimals, and not by what binary fractions make of them: others can
 * recompute a table. */
double rounded(double value, int digits);
const char *time_text(double ns, char text[TEXT_MAX]);
const char *value_text(const struct sgpu_bench_record *record, char text[TEXT_MAX]);
/* A parameter's value; sizes in bytes with a unit. */
const char *parameter_text(const struct sgpu_bench_record_parameter *parameter,
			   char text[TEXT_MAX]);

/* For people: a line a record. */
void print_record(FILE *out, const struct sgpu_bench_record *record);
/* The same as CSV; of no record (NULL), the names of the columns. */
void print_csv(FILE *out, const struct sgpu_bench_record *record);
/* A cell of a table in Markdown, with the bar before it. */
void print_cell(FILE *out, const char *text);
/* Markdown: where it was measured, then a table for each case. Returns an exit status. */
int print_markdown(FILE *out, const struct sgpu_bench_results *results);

#endif
