/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal seal-file and open-file: one file, one symmetric key, the bare format of
 * sgpu-sealed(5).
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include <transfer/transfer.h>

#include "base/io.h"
#include "crypto/crypto.h"
#include "parts.h"
#include "verbs.h"

struct single_file {
	const char *key, *out;
	struct cli_bytes context;
	unsigned jobs;
	bool named; /* --allow-named-temporary */
	const char *in;
};

/* All that has to be closed, freed and wiped. */
struct work {
	bool opening;
	struct sgpu_key key;
	int in;
	struct sgpu_output out;
	struct sgpu_seal_job job;
};

static int take_key(void *values, const char *path)
{
	struct single_file *options = values;

	if (options->key) {
		return cli_usage("more than one key: a single file has one");
	}
	options->key = path;
	return 0;
}

#define SINGLE_FILE_OPTIONS(out_help)                                                            \
	CLI_COMMON,                                                                              \
		{ "key", 'k', "KEY", "symmetric key file (- standard input, fd:N a descriptor)", \
		  CLI_TAKE(take_key) },                                                          \
		{ "context", 0, "HEX",                                                           \
		  "the context that the data are bound to, at most 4096 bytes",                  \
		  CLI_BYTES(struct single_file, context, 0, SGPU_CONTEXT_MAX) },                 \
		{ "jobs", 'j', "N", "threads to use (default: all processors)",                  \
		  CLI_NUMBER(struct single_file, jobs, 1, SGPU_POOL_JOBS_MAX) },                 \
	{                                                                                        \
		"output", 'o', "FILE", out_help, CLI_TEXT(struct single_file, out)               \
	}

const struct cli_option seal_file_options[] = {
	SINGLE_FILE_OPTIONS("where the sealed data go"),
	CLI_END,
};
const struct cli_option open_file_options[] = {
	SINGLE_FILE_OPTIONS("where the opened data go"),
	{ "allow-named-temporary", 0, NULL, "write even where a killed run would leave plaintext",
	  CLI_FLAG(struct single_file, named) },
	CLI_END,
};

static int read_options(int argc, char **argv, struct single_file *options)
{
	char **paths;
	const int status = cli_read(argc, argv, options, &paths);

	if (status) {
		return status;
	}
	options->in = paths[0];
	if (paths[0] && paths[1]) {
		if (options->out) {
			return cli_usage("the output is given twice, as '%s' and with -o",
					 paths[1]);
		}
		options->out = paths[1];
	}
	if (!options->key) {
		return cli_usage("no key: -k is missing");
	}
	if (!strcmp(options->key, "-") && cli_is_standard(options->in)) {
		return cli_usage("the key and the data cannot both come from standard input");
	}
	return 0;
}

static int load_key(const char *path, struct work *work)
{
	struct sgpu_error error = { 0 };

	cli_remember_input(path);
	if (sgpu_key_load(path, &work->key, &error)) {
		return cli_error(&error);
	}
	if (work->key.kind != SGPU_KEY_OCT) {
		(void)sgpu_fail(&error, SGPU_EUSAGE,
				"'%s' is an X25519 key; a single file takes a symmetric (oct) one",
				path);
		(void)sgpu_hint(&error, "make one with 'sgpu-seal keygen -o FILE'");
		return cli_error(&error);
	}
	work->job.key = work->key.secret;
	return 0;
}

static int open_output(const struct single_file *options, struct work *work)
{
	const char *path = cli_is_standard(options->out) ? "-" : options->out;
	struct sgpu_error error = { 0 };

	if (!cli_binary_apart(path)) {
		return 2;
	}
	/* What was sealed is nobody else's business; a file of the user's own keeps the mode that
	 * they gave it. */
	int code = sgpu_output_open(&work->out, path, work->opening ? 0600 : 0666, &error);
	if (!code && work->opening && work->out.kept_mode >= 0) {
		code = sgpu_output_set_mode(&work->out, 0666, &error);
	}
	if (!code && work->opening && !options->named && sgpu_output_has_name(&work->out)) {
		code = seal_refuse_name(path, &error);
	}
	if (code) {
		return cli_error(&error);
	}
	sgpu_descriptor_from_fd(work->out.fd, work->out.path, &work->job.out);
	work->job.out.sparse = work->opening && work->out.regular;
	if (work->opening && !work->out.regular) {
		/* A redirection keeps what is written even if we fail: then it must be a prefix,
		 * without gaps. */
		work->job.out.positioned = false;
	}
	return 0;
}

/* Whoever shares a redirected descriptor goes on where we stopped. */
static void move_positions(const struct work *work)
{
	if (work->job.in.positioned) {
		(void)lseek(work->in, (off_t)work->job.in.offset, SEEK_SET);
	}
	if (work->job.out.positioned && !work->out.regular) {
		(void)lseek(work->out.fd, (off_t)work->job.out.offset, SEEK_SET);
	}
}

static int report(const struct single_file *options, const struct work *work, double seconds)
{
	const struct sgpu_seal_job *job = &work->job;
	uint64_t plain = work->opening ? job->bytes_out : job->bytes_in;

	cli_detail("%s: %llu bytes in, %llu bytes out, %.3f s, %.2f GB/s", sgpu_aead_provider(),
		   (unsigned long long)job->bytes_in, (unsigned long long)job->bytes_out, seconds,
		   seconds > 0 ? (double)plain / seconds / 1e9 : 0.0);
	if (!cli_json) {
		return 0;
	}
	json_t *record =
		json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:f}", "verb",
			  work->opening ? "open-file" : "seal-file", "alg",
			  "c2sp.org/chunked-encryption", "aead", "AEAD_AES_256_GCM", "provider",
			  sgpu_aead_provider(), "bytes_in", (json_int_t)job->bytes_in, "bytes_out",
			  (json_int_t)job->bytes_out, "seconds", seconds);
	return cli_print_json(record, cli_is_standard(options->out) ? stderr : stdout,
			      JSON_COMPACT);
}

static int transfer(struct work *work, double *seconds)
{
	struct sgpu_error error = { 0 };
	struct stat status;
	uint64_t begin = sgpu_now_ns();

	bool sized = work->job.in.positioned && fstat(work->in, &status) == 0 &&
		     (uint64_t)status.st_size > work->job.in.offset;
	cli_progress_begin(work->opening ? "opening" : "sealing",
			   sized ? (uint64_t)status.st_size - work->job.in.offset : 0);
	int code = work->opening ? sgpu_open_stream(&work->job, &error)
				 : sgpu_seal_stream(&work->job, &error);
	cli_progress_end();
	if (!code) {
		move_positions(work);
		code = sgpu_output_commit(&work->out, &error);
	}
	*seconds = (double)(sgpu_now_ns() - begin) / 1e9;
	return code ? cli_error(&error) : 0;
}

static int single_file(int argc, char **argv, bool opening)
{
	struct single_file options = { 0 };
	struct work work = {
		.opening = opening,
		.in = -1,
		.out = SGPU_OUTPUT_INIT,
		.job = { .size = SGPU_SIZE_UNKNOWN, .progress = cli_progress },
	};
	const char *name = NULL;
	double seconds = 0;
	int status = read_options(argc, argv, &options);

	if (status) {
		return status;
	}
	work.job.jobs = options.jobs;
	work.job.context = options.context.data;
	work.job.context_size = options.context.size;
	cli_signals(NULL);
	status = load_key(options.key, &work);
	status = status ? status : cli_input(options.in, &name, &work.in);
	if (!status) {
		sgpu_descriptor_from_fd(work.in, name, &work.job.in);
		status = open_output(&options, &work);
	}
	status = status ? status : transfer(&work, &seconds);
	status = status ? status : report(&options, &work, seconds);
	sgpu_output_close(&work.out);
	cli_input_close(work.in);
	sgpu_key_clear(&work.key);
	return cli_finish(status);
}

int verb_seal_file(int argc, char **argv)
{
	return single_file(argc, argv, false);
}

int verb_open_file(int argc, char **argv)
{
	return single_file(argc, argv, true);
}
