/* SPDX-License-Identifier: Apache-2.0
 *
 * sizes: what an operation on sealed data costs by its size, in each way that users have: the
 * tools, a server, a session; and beside these bare calls of the device, cp, and a page of Python.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "cases.h"
#include "sizes.h"

#define MS 1e6
static const struct size {
	uint64_t vector; /* bytes of each of the five */
	bool quick;
	/* A sample is the mean of so many runs in a row, after one more: a user's pipe has many.
	 * After a pause a run takes longer, since all that it needs sleeps. */
	int row;
	double session_more, leases, files, process; /* goals in ns; 0: none */
} sizes[] = {
	{ 1 << 10, true, 16, 0.02 * MS, 0.15 * MS, 0.16 * MS, 1.3 * MS },
	{ 64 << 10, false, 16, 0, 0.20 * MS, 0.27 * MS, 1.5 * MS },
	{ 1000000, true, 8, 0, 0.35 * MS, 0.8 * MS, 2.0 * MS },
	{ 4 << 20, false, 4, 0, 0.8 * MS, 2.2 * MS, 3.5 * MS },
	{ 16 << 20, false, 2, 0, 1.9 * MS, 10 * MS, 12 * MS },
	{ 256 << 20, false, 1, 0, 0, 0, 0 },
};
enum { RUNS_MAX = 16 + 1 };
/* Memory for a size, in vectors: the host's, with all files and processes, besides the leases; the
 * device's. */
enum { HOST_VECTORS = 46, DEVICE_VECTORS = 20, MORE = 256 << 20, LEASES_MORE = 16 << 20 };

struct sizes_point {
	struct sgpu_bench *bench;
	struct job_side side;
	struct served *served;
	int row;
	int runs, run;					  /* of the sample, and which is next */
	int leased_fds[RUNS_MAX], response_fds[RUNS_MAX]; /* of payloads in leases */
	struct bare *bare;
	struct priced *priced;
	struct naive *naive;
	uint64_t naive_ns; /* of the last run */
	float *results;	   /* room to check some */
};

/* A column. The functions get `argument`. */
struct way {
	const char *name;
	struct sizes_point *point;
	void *argument;
	/* `after` is not timed, and never left out, as verify is. */
	int (*prepare)(void *argument, struct sgpu_error *error);
	int (*work)(void *argument, struct sgpu_error *error);
	int (*after)(void *argument, struct sgpu_error *error);
	int (*verify)(void *argument, struct sgpu_error *error);
	bool once; /* one run, after a pause */
};

/* ---- files and programs ---- */
static int run(const struct sizes_point *p, const char *const *words, struct sgpu_error *error)
{
	return program_run(words, p->served->folder, error);
}

static int open_file(const struct sizes_point *p, const char *name, int flags, int *fd,
		     struct sgpu_error *error)
{
	char path[SERVED_PATH_MAX];

	*fd = open(served_path(p->served, name, path), flags | O_CLOEXEC, 0600);
	return *fd < 0 ? sgpu_fail_errno(error, "cannot open '%s'", path) : SGPU_OK;
}

static int run_process(void *argument, struct sgpu_error *error)
{
	return run(argument,
		   WORDS("sgpu-run", "-q", "--socket", SERVED_SOCKET, "-o", "response", "batch"),
		   error);
}

static int run_copy(void *argument, struct sgpu_error *error)
{
	return run(argument, WORDS("cp", "batch", "response", "copies"), error);
}

static int run_files(void *argument, struct sgpu_error *error)
{
	const struct sizes_point *p = argument;
	struct sgpu_output output = SGPU_OUTPUT_INIT;
	char path[SERVED_PATH_MAX];
	int batch, rc = open_file(p, "batch", O_RDONLY, &batch, error);

	rc = rc ? rc
		: sgpu_output_open(&output, served_path(p->served, "response", path), 0600, false,
				   error);
	rc = rc ? rc : served_submit(p->served, batch, output.fd, false, error);
	rc = rc ? rc : sgpu_output_commit(&output, error);
	sgpu_output_close(&output);
	sgpu_close(batch);
	return rc;
}

/* Fills a lease for each run, and opens the small files of the batch and its response. */
static int fill_leases(void *argument, struct sgpu_error *error)
{
	struct sizes_point *p = argument;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < p->runs; i++) {
		char response[SERVED_NAME_MAX];

		snprintf(response, sizeof(response), "response-%d", i);
		rc = run(p,
			 WORDS("sgpu-seal", "seal", "-q", "-k", SERVED_KEY, "--lease", "--socket",
			       SERVED_SOCKET, "-o", "leased", "packed"),
			 error);
		rc = rc ? rc : open_file(p, "leased", O_RDONLY, &p->leased_fds[i], error);
		rc = rc ? rc
			: open_file(p, response, O_RDWR | O_CREAT | O_TRUNC, &p->response_fds[i],
				    error);
	}
	return rc;
}

static int run_leased(void *argument, struct sgpu_error *error)
{
	const struct sizes_point *p = argument;

	return served_submit(p->served, p->leased_fds[p->run], p->response_fds[p->run], true,
			     error);
}

static int open_response(const struct sizes_point *p, const char *name, struct sgpu_error *error)
{
	return run(p,
		   WORDS("sgpu-seal", "open", "-q", "-k", SERVED_KEY, "--socket", SERVED_SOCKET,
			 "--force", "-C", "out", name),
		   error);
}

static int read_leases(void *argument, struct sgpu_error *error)
{
	struct sizes_point *p = argument;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < p->runs; i++) {
		char response[SERVED_NAME_MAX];

		snprintf(response, sizeof(response), "response-%d", i);
		sgpu_close(p->leased_fds[i]);
		sgpu_close(p->response_fds[i]);
		rc = open_response(p, response, error);
	}
	return rc;
}

static int verify_opened(void *argument, struct sgpu_error *error)
{
	static const char *const names[] = { "out/call", "out/put" };
	struct sizes_point *p = argument;
	int rc = SGPU_OK, fd;

	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(names); i++) {
		uint8_t *to = (uint8_t *)p->results + i * p->side.size;
		size_t got = 0;

		memset(to, 0xff, p->side.size);
		rc = open_file(p, names[i], O_RDONLY, &fd, error);
		rc = rc ? rc : sgpu_read(fd, names[i], to, p->side.size, &got, error);
		sgpu_close(fd);
	}
	return rc ? rc : options_check(&p->side, p->results, error);
}

static int verify_response(void *argument, struct sgpu_error *error)
{
	const int rc = open_response(argument, "response", error);

	return rc ? rc : verify_opened(argument, error);
}

/* ---- sessions, Python ---- */
static int run_naive(void *argument, struct sgpu_error *error)
{
	struct sizes_point *p = argument;

	return naive_run(p->naive, p->side.size / sizeof(float), p->row, &p->naive_ns, error);
}

static int prepare(void *argument, struct sgpu_error *error)
{
	const struct way *way = argument;

	way->point->runs = way->once || way->point->row == 1 ? 1 : way->point->row + 1;
	return way->prepare ? way->prepare(way->argument, error) : SGPU_OK;
}

/* naive tells its time, since it makes a row in one call. */
static int work(void *argument, struct sgpu_error *error)
{
	const struct way *way = argument;
	struct sizes_point *p = way->point;
	const bool naive = way->work == run_naive;
	const int timed = way->once ? 1 : p->row;
	struct watch watch;
	int rc = SGPU_OK;

	processes_rest();
	for (p->run = naive ? p->runs - 1 : 0; rc == SGPU_OK && p->run < p->runs; p->run++) {
		if (naive || p->run == p->runs - timed) {
			watch_begin(&watch);
		}
		rc = way->work(way->argument, error);
	}
	watch_end(p->bench, &watch, timed);
	if (naive) {
		p->bench->ns = p->naive_ns;
	}
	return rc || !way->after ? rc : way->after(way->argument, error);
}

static int verify(void *argument, struct sgpu_error *error)
{
	const struct way *way = argument;

	return way->verify ? way->verify(way->argument, error) : SGPU_OK;
}

static int write_file(const struct sizes_point *p, const char *name, const void *data,
		      uint64_t size, struct sgpu_error *error)
{
	int fd, rc = open_file(p, name, O_WRONLY | O_CREAT, &fd, error);

	rc = rc ? rc : sgpu_write(fd, name, data, size, error);
	sgpu_close(fd);
	return rc;
}

static int make_batch(struct sizes_point *p, struct sgpu_error *error)
{
	static const char *const names[OPTIONS_INPUTS] = { "price", "strike", "years" };
	const uint8_t *inputs = p->side.data;
	char path[SERVED_PATH_MAX], *text = NULL;
	int rc = job_describe(p->bench, &p->side, &text, error);

	rc = rc ? rc : write_file(p, "job.json", text, strlen(text), error);
	free(text);
	for (unsigned i = 0; rc == SGPU_OK && i < OPTIONS_INPUTS; i++) {
		rc = write_file(p, names[i], inputs + i * p->side.size, p->side.size, error);
	}
	if (rc == SGPU_OK && mkdir(served_path(p->served, "copies", path), 0700) != 0) {
		rc = sgpu_fail_errno(error, "cannot make '%s'", path);
	}
	rc = rc ? rc
		: run(p, WORDS("sgpu-manifest", "pack", "-q", "-o", "packed", "job.json"), error);
	return rc ? rc
		  : run(p,
			WORDS("sgpu-seal", "seal", "-q", "-k", SERVED_KEY, "-o", "batch", "packed"),
			error);
}

/* Each run has a lease of its inputs and one of its results. */
static uint64_t leases_size(uint64_t size, int row)
{
	return 2 * OPTIONS_VECTORS * size * (uint64_t)(row + 1);
}

static int make_point(struct sizes_point *p, struct sgpu_error *error)
{
	const uint64_t size = p->side.size;
	int rc = options_new(p->bench, size, &p->side, error);

	rc = rc ? rc
		: served_new(p->bench, leases_size(size, p->row) + LEASES_MORE, &p->served, error);
	rc = rc ? rc : make_batch(p, error);
	rc = rc ? rc : bare_new(p->bench, &p->side, &p->bare, error);
	rc = rc ? rc : priced_new(p->bench, &p->side, &p->priced, error);
	p->results = sgpu_bench_new(p->bench, OPTIONS_OUTPUTS * size, NULL, error);
	rc = rc || p->results ? rc : SGPU_ENOMEM;
	return rc ? rc : run_files(p, error); /* not counted, as it starts the enclave */
}

enum { WAYS = 9, NAIVE = WAYS - 1 };

static int measure_ways(struct sizes_point *p, const struct sgpu_bench_point *point,
			struct sgpu_error *error)
{
	struct way ways[WAYS] = {
		{ "bare calls", p, p->bare, bare_prepare, bare_run, NULL, bare_check, false },
		{ "process", p, p, NULL, run_process, NULL, verify_response, false },
		{ "resident, leases", p, p, fill_leases, run_leased, read_leases, verify_opened,
		  false },
		{ "resident, files", p, p, NULL, run_files, NULL, verify_response, false },
		{ "session", p, p->priced, priced_spoil, priced_run, NULL, priced_check, false },
		{ "session, data there", p, p->priced, priced_bring, priced_run_alone, NULL,
		  priced_fetch, false },
		{ "leases after a pause", p, p, fill_leases, run_leased, read_leases, verify_opened,
		  true },
		{ "cp", p, p, NULL, run_copy, NULL, NULL, false },
		{ "naive", p, p, NULL, run_naive, NULL, NULL, false },
	};
	struct sgpu_bench_variant variants[WAYS];

	for (int i = 0; i < WAYS; i++) {
		variants[i] = (struct sgpu_bench_variant){ ways[i].name, prepare, work, verify,
							   &ways[i] };
	}
	return sgpu_bench_measure(p->bench, point, variants, p->naive ? WAYS : NAIVE, error);
}

static int measure_size(struct sgpu_bench *bench, const struct size *size, struct sgpu_error *error)
{
	const struct sgpu_bench_goal goals[WAYS] = {
		{ 0, 0 },
		{ 0, size->process },
		{ 0, size->leases },
		{ 0, size->files },
		{ size->session_more > 0, size->session_more },
	};
	const uint64_t inputs = OPTIONS_INPUTS * size->vector,
		       outputs = OPTIONS_OUTPUTS * size->vector;
	const struct sgpu_bench_point point = {
		.parameters = { { "what", "black_scholes", 0 },
				{ "input_bytes", NULL, inputs },
				{ "output_bytes", NULL, outputs },
				{ "in_a_row", NULL, (uint64_t)size->row } },
		.bytes = inputs + outputs,
		.goals = goals,
	};
	struct sizes_point p = { .bench = bench,
				 .side = { .sealed = true, .size = size->vector },
				 .row = size->row };
	struct sgpu_error lack = { 0 };
	const void *const mark = bench->kept;
	int rc;

	if (sgpu_bench_fits(bench,
			    HOST_VECTORS * size->vector + leases_size(size->vector, size->row) +
				    MORE,
			    DEVICE_VECTORS * size->vector, &lack) != SGPU_OK) {
		sgpu_bench_waive(bench, &point, NULL, "%s", lack.text);
		return SGPU_OK;
	}
	if (naive_new(bench, &p.naive, &lack) != SGPU_OK) {
		p.naive = NULL;
	}
	rc = make_point(&p, error);
	rc = rc ? rc : measure_ways(&p, &point, error);
	if (rc == SGPU_OK && !p.naive) {
		sgpu_bench_waive(bench, &point, "naive", "%s", lack.text);
	}
	rc = rc || size > sizes ? rc : sizes_idle(p.served, error);
	sgpu_bench_release(bench, mark);
	return rc;
}

int bench_sizes(struct sgpu_bench *bench, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(sizes); i++) {
		if ((sizes[i].quick || !bench->options.quick) &&
		    sgpu_bench_wants(bench, OPTIONS_VECTORS * sizes[i].vector)) {
			rc = measure_size(bench, &sizes[i], error);
		}
	}
	return rc ? rc : sizes_figures(bench, error);
}
