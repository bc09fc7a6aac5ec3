/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-bench run: measures, and writes each record as soon as it is known.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "verbs.h"

enum { CASES_MAX = 64, SAMPLES_LIMIT = 100000 };

/* The output of records is opened before anything is measured. */
struct run {
	const char *device, *path;
	struct sgpu_bench_options options;
	bool chosen[CASES_MAX]; /* by row of bench_cases */
	struct sgpu_output output;
	FILE *out;     /* to `output` */
	int fault;     /* errno of the first record that was not written */
	int counts[3]; /* cases by status */
};

/* Takes a size, "64M", or a range, "4K:1G". */
static int take_size(void *values, const char *value)
{
	struct sgpu_bench_options *options = &((struct run *)values)->options;
	struct sgpu_error error = { 0 };
	const char *colon = strchr(value, ':');
	char least[32];
	const bool is_short = (size_t)snprintf(least, sizeof(least), "%.*s",
					       (int)strcspn(value, ":"), value) < sizeof(least);
	int rc = sgpu_parse_size(is_short ? least : value, "--size", 1, UINT64_MAX / 2,
				 &options->size_min, &error);

	options->size_max = options->size_min;
	if (rc == SGPU_OK && colon) {
		rc = sgpu_parse_size(colon + 1, "--size", 1, UINT64_MAX / 2, &options->size_max,
				     &error);
	}
	if (rc == SGPU_OK && options->size_min > options->size_max) {
		rc = sgpu_fail(&error, SGPU_EUSAGE, "--size: '%s' ends before it begins", value);
	}
	return rc == SGPU_OK ? 0 : cli_error(&error);
}

static int take_timer(void *values, const char *value)
{
	enum sgpu_device_timer *timer = &((struct run *)values)->options.timer;

	for (*timer = SGPU_TIMER_AUTO; *timer <= SGPU_TIMER_GLOBALTIMER; (*timer)++) {
		if (strcmp(value, sgpu_device_timer_name(*timer)) == 0) {
			return 0;
		}
	}
	return cli_usage("--timer '%s' is none of 'auto', 'events' and 'globaltimer'", value);
}

const struct cli_option run_options[] = {
	{ "device", 0, "DEVICE", "cpu, cuda, cuda:N or auto (the default)",
	  CLI_TEXT(struct run, device) },
	{ "jobs", 'j', "N", "threads of the host (default: one a processor)",
	  CLI_NUMBER(struct run, options.jobs, 1, SGPU_POOL_JOBS_MAX) },
	{ "quick", 0, NULL, "fewer sizes and samples: a test, not for figures",
	  CLI_FLAG(struct run, options.quick) },
	{ "samples", 0, "N", "samples of each measurement, whatever the time",
	  CLI_NUMBER(struct run, options.samples, 1, SAMPLES_LIMIT) },
	{ "time", 0, "DURATION", "the most time for each measurement: 500ms, 2s (default: 300ms)",
	  CLI_DURATION(struct run, options.time_ns, 0) },
	{ "size", 0, "SIZE", "only this size, or MIN:MAX: 64M, 4K:1G", CLI_TAKE(take_size) },
	{ "timer", 0, "TIMER", "what times a GPU's work: auto (the default), events or globaltimer",
	  CLI_TAKE(take_timer) },
	{ "output", 'o', "FILE", "write the records there, not to standard output",
	  CLI_TEXT(struct run, path) },
	CLI_END,
};

static int choose_cases(struct run *r, char *const *names)
{
	const bool all = !*names || (strcmp(*names, "all") == 0 && !names[1]);
	int i;

	for (i = 0; bench_cases[i].name; i++) {
		r->chosen[i] = all;
	}
	for (; !all && *names; names++) {
		for (i = 0; bench_cases[i].name && strcmp(bench_cases[i].name, *names) != 0; i++) {
		}
		if (!bench_cases[i].name) {
			return cli_unknown("unknown case", *names, "", bench_cases,
					   sizeof(*bench_cases));
		}
		if (r->chosen[i]) {
			return cli_usage("case '%s' is named twice", *names);
		}
		r->chosen[i] = true;
	}
	return 0;
}

/* Writes a line, or a record as a row of the table (NULL: the head). Keeps the first errno. */
static void put(struct run *r, const json_t *record)
{
	if (cli_json) {
		(void)json_dumpf(record, r->out, JSON_COMPACT | JSON_REAL_PRECISION(12));
		fputc('\n', r->out);
	} else {
		print_record(r->out, record);
	}
	if ((fflush(r->out) != 0 || ferror(r->out)) && !r->fault) {
		r->fault = errno;
	}
}

static void take_record(void *argument, const json_t *record)
{
	struct run *r = argument;
	char key[SGPU_BENCH_KEY_MAX];

	put(r, record);
	sgpu_bench_key(record, key);
	if (strcmp(sgpu_bench_text(record, "status"), "failed") == 0) {
		cli_warning("%s failed: %s", key, sgpu_bench_text(record, "reason"));
	} else {
		cli_detail("%s: %s", key, sgpu_bench_text(record, "status"));
	}
}

static int check_output(const struct run *r, struct sgpu_error *error)
{
	errno = r->fault;
	return !r->fault ? SGPU_OK
			 : sgpu_fail_write(error,
					   cli_is_standard(r->path) ? "standard output" : r->path);
}

static int run_cases(struct run *r, struct sgpu_device *device, struct sgpu_error *error)
{
	enum sgpu_bench_status status;
	int rc = SGPU_OK;

	for (const struct sgpu_bench_case *row = bench_cases; rc == SGPU_OK && row->name; row++) {
		if (!r->chosen[row - bench_cases]) {
			continue;
		}
		cli_note("%s: %s", row->name, row->help);
		rc = sgpu_bench_run(row, &r->options, device, take_record, r, &status, error);
		if (rc == SGPU_OK) {
			r->counts[status]++;
			rc = check_output(r, error);
		}
	}
	return rc;
}

/* The output file appears only at the end. */
static int measure(struct run *r, struct sgpu_device *device)
{
	struct sgpu_device_info info;
	struct sgpu_error error = { 0 };
	json_t *environment;
	int rc = sgpu_device_get_info(device, &info, &error);

	if (rc != SGPU_OK) {
		return cli_error(&error);
	}
	environment = sgpu_bench_environment(&info, &r->options);
	describe_build(environment);
	put(r, cli_json ? environment : NULL);
	json_decref(environment);
	cli_note("device '%s': %s%s%s", info.selector, info.name, info.driver[0] ? ", " : "",
		 info.driver);
	rc = run_cases(r, device, &error);
	rc = rc ? rc : check_output(r, &error);
	rc = rc ? rc : sgpu_output_commit(&r->output, &error);
	if (rc != SGPU_OK) {
		return rc == SGPU_ECANCELED && sgpu_io_interrupted() ? sgpu_exit_status(rc)
								     : cli_error(&error);
	}
	cli_note("%d passed, %d waived, %d failed", r->counts[SGPU_BENCH_PASSED],
		 r->counts[SGPU_BENCH_WAIVED], r->counts[SGPU_BENCH_FAILED]);
	return r->counts[SGPU_BENCH_FAILED] ? sgpu_exit_status(SGPU_ESEGMENTS) : 0;
}

int verb_run(int argc, char **argv)
{
	struct run r = { .device = "auto", .output = SGPU_OUTPUT_INIT };
	struct sgpu_device *device = NULL;
	struct sgpu_error error = { 0 };
	char **names;
	int status = cli_read(argc, argv, &r, &names), rc;

	if (status == 0 && r.options.samples && r.options.time_ns) {
		status = cli_usage("--samples and --time exclude each other");
	}
	status = status ? status : choose_cases(&r, names);
	if (status) {
		return status;
	}
	cli_signals(NULL);
	rc = sgpu_output_open(&r.output, r.path ? r.path : "-", 0666, false, &error);
	if (rc == SGPU_OK) {
		const struct sgpu_device_config config = { .jobs = r.options.jobs,
							   .timer = r.options.timer };

		r.out = fdopen(dup(r.output.fd), "w");
		rc = r.out ? sgpu_device_open(r.device, &config, &device, &error)
			   : sgpu_fail_errno(&error, "cannot write the records");
	}
	status = rc == SGPU_OK ? measure(&r, device) : cli_error(&error);
	if (r.out) {
		fclose(r.out);
	}
	sgpu_output_close(&r.output);
	sgpu_device_close(&device);
	return cli_finish(status);
}
