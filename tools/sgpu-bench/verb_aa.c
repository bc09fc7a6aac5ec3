/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-bench aa: one build against itself. Each run is a process of its own, as the runs that
 * compare pairs are: where its memory lies, and what the driver and the pools have in store, is
 * drawn anew.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs.h"

enum { WORDS_MAX = 128 };

struct request {
	unsigned runs;
	bool quick;
	const char *output, *passed[5]; /* what goes to the runs as it is */
};

static const char *const passed_options[] = { "--device", "--jobs", "--samples", "--time",
					      "--size" };

const struct cli_option aa_options[] = {
	CLI_COMMON,
	{ "runs", 'n', "N", "so many runs (default: 5)",
	  CLI_NUMBER(struct request, runs, 2, SGPU_BENCH_RUNS_MAX) },
	{ "output", 'o', "FILE", "write the records there", CLI_TEXT(struct request, output) },
	{ "quick", 0, NULL, "as for run", CLI_FLAG(struct request, quick) },
	{ "device", 0, "DEVICE", "as for run", CLI_TEXT(struct request, passed[0]) },
	{ "jobs", 'j', "N", "as for run", CLI_TEXT(struct request, passed[1]) },
	{ "samples", 0, "N", "as for run", CLI_TEXT(struct request, passed[2]) },
	{ "time", 0, "DURATION", "as for run", CLI_TEXT(struct request, passed[3]) },
	{ "size", 0, "SIZE", "as for run", CLI_TEXT(struct request, passed[4]) },
	CLI_END,
};

static int make_words(const struct request *r, char **cases, const char *words[WORDS_MAX])
{
	int n = 0;

	words[n++] = "sgpu-bench";
	words[n++] = "run";
	words[n++] = "--json";
	words[n++] = "-q";
	if (r->quick) {
		words[n++] = "--quick";
	}
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(passed_options); i++) {
		if (r->passed[i]) {
			words[n++] = passed_options[i];
			words[n++] = r->passed[i];
		}
	}
	words[n++] = "--";
	for (; *cases && n < WORDS_MAX - 1; cases++) {
		words[n++] = *cases;
	}
	words[n] = NULL;
	return *cases ? cli_usage("too many cases") : 0;
}

/* Returns the exit status of the run; a run that is to end with this process is ended. */
static int wait_for(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0) {
		if (errno != EINTR) {
			return cli_fail(SGPU_ESYSTEM, "cannot wait for a run: %s", strerror(errno));
		}
		if (sgpu_io_interrupted()) {
			kill(child, SIGTERM);
		}
	}
	if (sgpu_io_interrupted()) {
		return sgpu_exit_status(SGPU_ECANCELED);
	}
	return WIFEXITED(status)
		       ? WEXITSTATUS(status)
		       : cli_fail(SGPU_ESYSTEM, "a run died of signal %d", WTERMSIG(status));
}

/* One run; 5, for failed cases, is no reason to stop. */
static int take_run(const char *const *words, struct sgpu_bench_results *results)
{
	struct sgpu_error error = { 0 };
	char path[32];
	pid_t child;
	int fd = memfd_create("sgpu-bench", MFD_CLOEXEC), status, rc;

	if (fd < 0) {
		return cli_fail(SGPU_ESYSTEM, "no memory for the records: %s", strerror(errno));
	}
	rc = bench_spawn(words, (const int[]){ STDIN_FILENO, fd }, 2, &child, &error);
	status = rc ? cli_error(&error) : wait_for(child);
	if (status == 0 || status == sgpu_exit_status(SGPU_ESEGMENTS)) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		rc = read_results(path, results);
		status = rc ? rc : status;
	}
	close(fd);
	return status;
}

static void print_table(const struct sgpu_bench_results *noise)
{
	for (size_t i = 0; i < noise->noise_count; i++) {
		const struct sgpu_bench_noise *n = &noise->noise[i];

		printf("%-70s %6.1f %%", n->key, 100 * n->floor);
		if (n->ratio_floor >= 0) {
			printf("  ratio %6.1f %%", 100 * n->ratio_floor);
		}
		putchar('\n');
	}
}

static int write_records(const char *path, const struct sgpu_bench_results *first,
			 const struct sgpu_bench_results *noise,
			 const struct sgpu_bench_moment *begin)
{
	struct sgpu_error error = { 0 };
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	int status;

	if (!out) {
		return cli_fail(SGPU_ENOMEM, "out of memory");
	}
	cli_describe_build(first->environment);
	status = cli_print_json(json_incref(first->environment), out, JSON_COMPACT);
	for (size_t i = 0; status == 0 && i < noise->noise_count; i++) {
		status = cli_print_json(sgpu_bench_noise_json(&noise->noise[i]), out, JSON_COMPACT);
	}
	status = status ? status : cli_print_json(sgpu_bench_end(begin), out, JSON_COMPACT);
	fclose(out);
	if (status == 0 && cli_write_text(path, 0666, text, size, &error) != SGPU_OK) {
		status = cli_error(&error);
	}
	free(text);
	return status;
}

int verb_aa(int argc, char **argv)
{
	struct sgpu_bench_results runs[SGPU_BENCH_RUNS_MAX] = { { 0 } }, noise = { 0 };
	struct request r = { .runs = 5 };
	struct sgpu_bench_moment begin;
	struct sgpu_error error = { 0 };
	const char *words[WORDS_MAX];
	char **cases;
	int status = cli_read(argc, argv, &r, &cases), failed = 0;

	status = status ? status : make_words(&r, cases, words);
	status = status ? status : cli_output_prepare(r.output, 0666, false);
	if (status) {
		return status;
	}
	cli_signals(NULL);
	sgpu_bench_begin(&begin);
	for (unsigned i = 0; status == 0 && i < r.runs; i++) {
		cli_note("run %u of %u", i + 1, r.runs);
		status = take_run(words, &runs[i]);
		failed = status == sgpu_exit_status(SGPU_ESEGMENTS) ? status : failed;
		status = status == failed ? 0 : status;
	}
	if (status == 0 && sgpu_bench_measure_noise(runs, r.runs, &noise, &error) != SGPU_OK) {
		status = cli_error(&error);
	}
	if (status == 0 && !cli_json) {
		print_table(&noise);
	}
	if (status == 0 && (cli_json || r.output)) {
		status = write_records(r.output, &runs[0], &noise, &begin);
	}
	for (unsigned i = 0; i < r.runs; i++) {
		sgpu_bench_results_clear(&runs[i]);
	}
	sgpu_bench_results_clear(&noise);
	return cli_finish(status ? status : failed);
}
