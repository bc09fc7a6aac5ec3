/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of sgpu-bench.
 */
#ifndef BENCH_VERBS_H
#define BENCH_VERBS_H

#include <stdio.h>

#include <bench/bench.h>

#include "base/io.h"
#include "cases.h"
#include "cli.h"

CLI_VERB(compare);
CLI_VERB(doctor);
CLI_VERB(list);
CLI_VERB(open);
CLI_VERB(published); /* by the name of a table of published.json */
CLI_VERB(report);
CLI_VERB(run);
CLI_VERB(table);

/* Reads files of results, with texts. one_machine: fails unless all are of one device and
 * processor. Returns 0, or the exit status after a message. The caller always clears the runs. */
int read_runs(char *const *paths, bool one_machine, struct sgpu_bench_results **runs,
	      size_t *count);
void clear_runs(struct sgpu_bench_results *runs, size_t count);

#define BENCH_EMBED(name, file)                                                         \
	extern const char name[] __attribute__((visibility("hidden")));                 \
	__asm__(".pushsection .rodata\n"                                                \
		".globl " #name "\n.hidden " #name "\n.type " #name ", %object\n" #name \
		":\n.incbin \"" file "\"\n.byte 0\n"                                    \
		".size " #name ", . - " #name "\n.popsection\n")

/* Adds facts to a record of measurements: commit, tree ("clean", "modified", "unknown"), compilers
 * and flags, what is built in; and `command`, the command line. */
void describe_build(json_t *object);
extern char **command_words; /* the arguments after the program's name */

/* ---- numbers for people ---- */
enum { TEXT_MAX = 64, LABEL_MAX = 384 };
/* "12.3 us", "55.3 GB/s": three digits and a unit. */
const char *time_text(double ns, char text[TEXT_MAX]);
const char *value_text(const json_t *record, char text[TEXT_MAX]);

/* ---- tables in Markdown ---- */
struct column { /* a NULL head ends the columns */
	const char *head;
	int width; /* at least */
};
void print_head(FILE *out, const struct column *columns);
/* NULL is an empty cell. */
void print_row(FILE *out, const struct column *columns, const char *const *cells);
/* NULL: the head. */
void print_record(FILE *out, const json_t *record);
void print_environment(FILE *out, const json_t *environment);

#endif
