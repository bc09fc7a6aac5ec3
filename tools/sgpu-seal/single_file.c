/* SPDX-License-Identifier: Apache-2.0
 *
 * Sealing and opening one file.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include <sgpu/io.h>
#include <sgpu/seal.h>

#include "single_file.h"

struct options {
	const char *key, *context, *in, *out;
	uint64_t jobs;
	bool named; /* --allow-named-temporary */
};

/* All that has to be closed, freed and wiped. */
struct work {
	bool opening;
	struct sgpu_key key;
	uint8_t *context;
	int in;
	struct sgpu_output out;
	struct sgpu_seal_job job;
};

static bool is_stream_name(const char *path)
{
	return !path || !strcmp(path, "-");
}

static int check_options(const struct options *options)
{
	if (!options->key) {
		return cli_usage("no key: -k is missing");
	}
	if (!strcmp(options->key, "-") && is_stream_name(options->in)) {
		return cli_usage("the key and the data cannot both come from standard input");
	}
	return 0;
}

static int parse(int argc, char **argv, struct options *options)
{
	struct sgpu_error error = { 0 };
	const char *value;
	int first, key;

	while ((key = cli_next(argc, argv, &value, &first))) {
		switch (key) {
		case 'k':
			if (options->key) {
				return cli_usage("more than one key: a single file has one");
			}
			options->key = value;
			break;
		case 'o':
			options->out = value;
			break;
		case SINGLE_FILE_CONTEXT:
			options->context = value;
			break;
		case SINGLE_FILE_NAMED:
			options->named = true;
			break;
		case 'j':
			if (sgpu_parse_u64(value, "--jobs", 1, SGPU_POOL_JOBS_MAX, &options->jobs, &error)) {
				return cli_error(&error);
			}
			break;
		default:
			return 2;
		}
	}
	if (!cli_positionals(argc, first, 0, 2)) {
		return 2;
	}
	options->in = first < argc ? argv[first] : NULL;
	if (first + 1 < argc) {
		if (options->out) {
			return cli_usage("the output is given twice, as '%s' and with -o", argv[first + 1]);
		}
		options->out = argv[first + 1];
	}
	return check_options(options);
}

static int parse_context(const char *text, struct work *work)
{
	struct sgpu_error error = { 0 };
	size_t digits = text ? strlen(text) : 0;

	if (digits % 2 || digits / 2 > SGPU_CONTEXT_MAX) {
		return cli_usage("--context has %zu hexadecimal digits, not an even number up to %d", digits,
				 2 * SGPU_CONTEXT_MAX);
	}
	work->context = malloc(digits / 2 + 1);
	if (!work->context) {
		return cli_fail(SGPU_ENOMEM, "out of memory");
	}
	work->job.context = work->context;
	work->job.context_size = digits / 2;
	if (digits && sgpu_hex_decode(text, work->context, digits / 2, &error)) {
		return cli_usage("--context %s", error.text);
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
		(void)sgpu_fail(&error, SGPU_EUSAGE, "'%s' is an X25519 key; a single file takes a symmetric (oct) one",
				path);
		(void)sgpu_hint(&error, "make one with 'sgpu-seal keygen -o FILE'");
		return cli_error(&error);
	}
	work->job.key = work->key.secret;
	return 0;
}

static int open_output(const struct options *options, struct work *work)
{
	const char *path = is_stream_name(options->out) ? "-" : options->out;
	struct sgpu_error error = { 0 };

	if (!cli_output_apart(path) || (!strcmp(path, "-") && !cli_binary_output(STDOUT_FILENO))) {
		return 2;
	}
	/* What was sealed is nobody else's business; a file of the user's own keeps the mode that they gave it. */
	int code = sgpu_output_open(&work->out, path, work->opening ? 0600 : 0666, &error);
	if (!code && work->opening && work->out.kept_mode >= 0) {
		code = sgpu_output_set_mode(&work->out, 0666, &error);
	}
	if (!code && work->opening && !options->named && sgpu_output_has_name(&work->out)) {
		code = sgpu_fail(&error, SGPU_EPOLICY, "'%s' is on a file system where every file has a name: if this "
				 "was killed, plaintext would be left there", path);
		(void)sgpu_hint(&error, "choose another place, or accept that with --allow-named-temporary");
	}
	if (code) {
		return cli_error(&error);
	}
	sgpu_seal_end_from_fd(work->out.fd, work->out.path, &work->job.out);
	work->job.sparse = work->opening && work->out.regular;
	if (work->opening && !work->out.regular) {
		/* A redirection keeps what is written even if we fail: then it must be a prefix, without gaps. */
		work->job.out.positioned = false;
	}
	return 0;
}

static int open_input(const struct options *options, struct work *work)
{
	const char *name;

	work->in = cli_input(options->in, &name);
	if (work->in < 0) {
		return is_stream_name(options->in) ? 2 : 3;
	}
	sgpu_seal_end_from_fd(work->in, name, &work->job.in);
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

static int report(const struct options *options, const struct work *work, double seconds)
{
	const struct sgpu_seal_job *job = &work->job;
	uint64_t plain = work->opening ? job->bytes_out : job->bytes_in;

	cli_detail("%s: %llu bytes in, %llu bytes out, %.3f s, %.2f GB/s", sgpu_aead_provider(),
		   (unsigned long long)job->bytes_in, (unsigned long long)job->bytes_out, seconds,
		   seconds > 0 ? (double)plain / seconds / 1e9 : 0.0);
	if (!cli_json) {
		return 0;
	}
	json_t *record = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:f}", "verb", work->opening ? "open-file" : "seal-file",
				   "alg", "c2sp.org/chunked-encryption", "aead", "AEAD_AES_256_GCM", "provider",
				   sgpu_aead_provider(), "bytes_in", (json_int_t)job->bytes_in, "bytes_out",
				   (json_int_t)job->bytes_out, "seconds", seconds);
	FILE *to = is_stream_name(options->out) ? stderr : stdout;
	bool written = record && json_dumpf(record, to, JSON_COMPACT) == 0 && fputc('\n', to) != EOF &&
		       fflush(to) == 0;
	json_decref(record);
	return written ? 0 : cli_fail(SGPU_ESYSTEM, "cannot write the record");
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
	int code = work->opening ? sgpu_open_stream(&work->job, &error) : sgpu_seal_stream(&work->job, &error);
	cli_progress_end();
	if (!code) {
		move_positions(work);
		code = sgpu_output_commit(&work->out, &error);
	}
	*seconds = (double)(sgpu_now_ns() - begin) / 1e9;
	return code ? cli_error(&error) : 0;
}

int single_file(int argc, char **argv, bool opening)
{
	struct options options = { .jobs = 0 };
	struct work work = {
		.opening = opening,
		.in = -1,
		.out = SGPU_OUTPUT_INIT,
		.job = { .size = SGPU_SIZE_UNKNOWN, .progress = cli_progress },
	};
	double seconds = 0;
	int status = parse(argc, argv, &options);

	if (status) {
		return status;
	}
	work.job.jobs = (unsigned)options.jobs;
	cli_signals(NULL);
	status = parse_context(options.context, &work);
	if (!status) {
		status = load_key(options.key, &work);
	}
	if (!status) {
		status = open_input(&options, &work);
	}
	if (!status) {
		status = open_output(&options, &work);
	}
	if (!status) {
		status = transfer(&work, &seconds);
	}
	if (!status) {
		status = report(&options, &work, seconds);
	}
	sgpu_output_close(&work.out);
	if (work.in > STDERR_FILENO) {
		close(work.in);
	}
	free(work.context);
	sgpu_key_clear(&work.key);
	return cli_finish(status);
}
