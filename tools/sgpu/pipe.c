/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu pipe: runs jobs for the program at its standard input and output, sgpu-pipe(5), with one
 * sgpu-enclave for all of them.
 */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "base/json.h"
#include "crypto/key.h"
#include "host.h"
#include "job.h"
#include "manifest/manifest.h"
#include "ops/ops.h"
#include "sgpu.h"
#include "runner/start.h"

/* Bytes of a host's response, which is kept in memory. */
#define RESPONSE_MAX ((uint64_t)64 << 30)

enum { JSON_MAX = SGPU_MANIFEST_SIZE_MAX };

struct pipe {
	const char *device;
	uint64_t timeout_ns;
	struct sgpu_key key; /* of the runner */
	struct link link;    /* here */
	int connection;
	const char *on; /* a host, in place of that */
	struct host host;
	struct sgpu_key_set owner; /* signs batches for a host */
	int batch, response;	   /* memory files, used for one job after the other */
	char *text;		   /* of the last manifest, which stays parsed */
	size_t text_size;
	struct sgpu_manifest *manifest;
};

const struct cli_option pipe_options[] = {
	{ CLI_ROWS(passphrase_rows) },
	{ "on", 0, "HOST", "run on this host of 'sgpu host', not here", CLI_TEXT(struct pipe, on) },
	{ "device", 0, "DEVICE", "cpu, cuda, cuda:N or auto (the default)",
	  CLI_TEXT(struct pipe, device) },
	{ "timeout", 0, "DURATION", "fail each job's unfinished work after this time",
	  CLI_DURATION(struct pipe, timeout_ns, 0) },
	CLI_END,
};

/* ---- frames ---- */
struct frame {
	char magic[4];
	uint32_t json_size;
	uint64_t data_size;
};
static const char magic[4] = { 's', 'g', 'p', 'u' };

/* Of standard output: what is small goes out with what follows, since each write wakes the reader.
 */
static char waiting[1 << 16];

static bool put(const void *data, size_t size)
{
	return fwrite(data, 1, size, stdout) == size;
}

/* Writes a frame: its JSON, then the arrays that `job` has as outputs. Takes the reference over. */
static int send_frame(json_t *json, const struct job *job, struct sgpu_error *error)
{
	char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
	struct frame frame = { .json_size = text ? (uint32_t)strlen(text) : 0 };
	bool written;

	memcpy(frame.magic, magic, sizeof(magic));
	json_decref(json);
	if (!text) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; job && i < job->manifest->segment_count; i++) {
		if (sgpu_segment_is_output(&job->manifest->segments[i])) {
			frame.data_size += job->arrays[i].size;
		}
	}
	written = put(&frame, sizeof(frame)) && put(text, frame.json_size);
	for (int i = 0; job && i < job->manifest->segment_count; i++) {
		if (sgpu_segment_is_output(&job->manifest->segments[i])) {
			written = written && put(job->arrays[i].data, job->arrays[i].size);
		}
	}
	written = fflush(stdout) == 0 && written;
	sgpu_wipe(waiting, sizeof(waiting));
	free(text);
	return written ? SGPU_OK : sgpu_fail_write(error, "standard output");
}

static int send_error(const struct sgpu_error *failure, struct sgpu_error *error)
{
	return send_frame(json_pack("{s:{s:s, s:o, s:o*, s:b}}", "error", "code",
				    sgpu_error_name(failure->code), "text",
				    cli_json_text(failure->text), "hint",
				    *failure->hint ? cli_json_text(failure->hint) : NULL,
				    "retryable", sgpu_retryable(failure)),
			  NULL, error);
}

/* Reads exactly `size` bytes. */
static int take(void *data, size_t size, struct sgpu_error *error)
{
	size_t got = 0;
	const int rc = sgpu_read(STDIN_FILENO, "standard input", data, size, &got, error);

	return rc || got == size
		       ? rc
		       : sgpu_fail(error, SGPU_EINVALID, "standard input ends within a frame");
}

static int skip(uint64_t size, struct sgpu_error *error)
{
	static char buffer[1 << 16];
	int rc = SGPU_OK;

	for (uint64_t now; size && !rc; size -= now) {
		now = size < sizeof(buffer) ? size : sizeof(buffer);
		rc = take(buffer, now, error);
	}
	sgpu_wipe(buffer, sizeof(buffer));
	return rc;
}

/* ---- a job ---- */
/* Parses the manifest unless it is that of the job before. */
static int know_manifest(struct pipe *p, char **text, size_t size, struct sgpu_error *error)
{
	struct sgpu_diagnostics diagnostics = { 0 };
	char *compiled;
	int rc = SGPU_EINVALID;

	if (p->manifest && size == p->text_size && memcmp(*text, p->text, size) == 0) {
		return SGPU_OK;
	}
	sgpu_manifest_free(&p->manifest);
	compiled = sgpu_map_compile_text(*text, size, &diagnostics);
	if (!diagnostics.count) {
		rc = sgpu_ops_load_manifest(compiled ? compiled : *text,
					    compiled ? strlen(compiled) : size, "the manifest", 0,
					    &p->manifest, &diagnostics, error);
	}
	free(compiled);
	if (rc && diagnostics.count) { /* nobody sees the places in it */
		const struct sgpu_diagnostic *first = &diagnostics.list[0];
		const char *slash = strrchr(first->pointer, '/');

		sgpu_fail(error, rc, "%s%s%s", slash ? slash + 1 : "", slash ? ": " : "",
			  first->text);
		if (first->hint) {
			(void)sgpu_hint(error, "%s", first->hint);
		}
	}
	sgpu_diagnostics_clear(&diagnostics);
	free(p->text);
	p->text = rc ? NULL : *text;
	p->text_size = size;
	*text = rc ? *text : NULL;
	return rc;
}

/* Reads the inputs, as long as their types say. Inputs beyond what the frame has are an error
 * before anything is read. */
static int take_inputs(struct job *job, uint64_t *left, struct sgpu_error *error)
{
	uint64_t all = 0, bytes = 0;
	int rc = SGPU_OK;

	for (int i = 0; i < job->manifest->segment_count; i++) {
		const struct sgpu_segment *s = &job->manifest->segments[i];

		if (sgpu_segment_is_input(s)) {
			(void)sgpu_type_bytes(&s->type, &bytes);
			all += bytes;
		}
	}
	if (all != *left) {
		return sgpu_fail(error, SGPU_EINVALID, "the inputs have %llu bytes, not %llu",
				 (unsigned long long)*left, (unsigned long long)all);
	}
	for (int i = 0; i < job->manifest->segment_count && !rc; i++) {
		const struct sgpu_segment *s = &job->manifest->segments[i];
		struct job_array *array = &job->arrays[i];

		if (!sgpu_segment_is_input(s)) {
			continue;
		}
		(void)sgpu_type_bytes(&s->type, &bytes);
		array->data = malloc(bytes + 1);
		array->size = array->data ? bytes : 0;
		rc = array->data ? take(array->data, bytes, error) : sgpu_fail_nomem(error);
		*left -= array->data ? bytes : 0;
	}
	return rc;
}

/* ---- a host ---- */
/* Has the host prove what it runs, which gives the key to seal to. Returns an exit status after a
 * message. */
static int prove(struct pipe *p)
{
	struct sgpu_error error = { 0 };
	char name[24];
	int recipient, status = host_prove(&p->host, &recipient);

	snprintf(name, sizeof(name), "fd:%d", recipient);
	if (!status && sgpu_key_load(name, &p->key, &error)) {
		status = cli_error(&error);
	}
	sgpu_close(recipient);
	return status;
}

/* Has the host's server run the batch. */
static int run_there(struct pipe *p, struct sgpu_error *error)
{
	struct program program = { .keeps = true, .most = RESPONSE_MAX };
	char arguments[64] = "-q --json";

	if (p->timeout_ns) {
		cli_append(arguments, sizeof(arguments), " --timeout %llums",
			   (unsigned long long)(p->timeout_ns / 1000000 + 1));
	}
	host_words(&p->host, "sgpu-run", arguments, &program.words);
	program.in = program_input(p->batch);
	program.out = p->response;
	if (programs_run(&program, 1) == 0) {
		return SGPU_OK;
	}
	if (program.told) {
		*error = program.error;
	} else {
		sgpu_fail(error, SGPU_ESYSTEM, "the host cannot be reached");
		error->retryable = program.retryable;
	}
	return error->code;
}

/* Has the enclave here run the batch, and waits for that. */
static int run_here(struct pipe *p, struct sgpu_error *error)
{
	static struct wire_submit message;
	static struct wire_answer answer;
	struct pollfd wait;
	int rc;

	snprintf(message.in_name, sizeof(message.in_name), "the batch");
	snprintf(message.out_name, sizeof(message.out_name), "the response");
	message.timeout_ns = p->timeout_ns;
	rc = link_submit(&p->link, &message, p->batch, p->response, &p->connection, error);
	if (rc) {
		return rc;
	}
	wait = (struct pollfd){ .fd = p->connection, .events = POLLIN };
	do {
		while (poll(&wait, 1, -1) < 0 && !sgpu_io_interrupted()) {
		}
		if (sgpu_io_interrupted()) {
			return sgpu_fail(error, SGPU_ECANCELED, "the run was stopped");
		}
	} while (!link_hear(&p->link, &answer, &p->connection, error));
	return error->code;
}

/* Seals the job and has it run. */
static int run_sealed(struct pipe *p, struct job *job, struct sgpu_error *error)
{
	const int files[] = { p->batch, p->response };
	int rc;

	for (int i = 0; i < 2; i++) {
		(void)!ftruncate(files[i], 0);
		(void)lseek(files[i], 0, SEEK_SET);
	}
	rc = job_seal(job, &p->key, p->on ? &p->owner.signing : NULL, p->batch, error);
	(void)lseek(p->batch, 0, SEEK_SET);
	return rc ? rc : p->on ? run_there(p, error) : run_here(p, error);
}

static json_t *output_json(const struct sgpu_segment *s, uint64_t size)
{
	struct sgpu_type type = s->type;
	json_t *shape = json_array();

	if (s->at_most) {
		type.shape[0] = size / sgpu_dtype_size(type.dtype);
	}
	for (int i = 0; i < type.rank; i++) {
		json_array_append_new(shape, json_integer((json_int_t)type.shape[i]));
	}
	return json_pack("{s:s, s:s, s:o, s:I}", "segment_id", s->id, "dtype",
			 sgpu_dtype_name(type.dtype), "shape", shape, "size", (json_int_t)size);
}

static int answer(const struct job *job, struct sgpu_error *error)
{
	json_t *outputs = json_array();

	for (int i = 0; i < job->manifest->segment_count; i++) {
		const struct sgpu_segment *s = &job->manifest->segments[i];

		if (sgpu_segment_is_output(s)) {
			json_array_append_new(outputs, output_json(s, job->arrays[i].size));
		}
	}
	return send_frame(json_pack("{s:o}", "outputs", outputs), job, error);
}

/* Runs one job. *left: the bytes of the frame that were not read. */
static int run_job(struct pipe *p, char **text, size_t size, uint64_t *left, struct job *job,
		   struct sgpu_error *error)
{
	int rc = know_manifest(p, text, size, error);

	rc = rc ? rc : job_create(p->manifest, job, error);
	rc = rc ? rc : take_inputs(job, left, error);
	rc = rc ? rc : run_sealed(p, job, error);
	if (rc && rc != SGPU_ESEGMENTS) {
		return rc;
	}
	(void)lseek(p->response, 0, SEEK_SET);
	return job_open(job, p->response, error);
}

/* Handles one frame. Returns 1 at the end of standard input. Errors of the job are answered; others
 * end the program. */
static int handle(struct pipe *p, struct sgpu_error *error)
{
	struct frame frame;
	struct sgpu_error failure = { 0 };
	struct job job = { .manifest = NULL };
	uint64_t left;
	char *text;
	size_t got = 0;
	int rc = sgpu_read(STDIN_FILENO, "standard input", &frame, sizeof(frame), &got, error),
	    failed;

	if (rc || got == 0) {
		return rc ? rc : 1;
	}
	if (got < sizeof(frame) || memcmp(frame.magic, magic, sizeof(magic)) != 0 ||
	    frame.json_size > JSON_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "standard input has no frame, sgpu-pipe(5)");
	}
	left = frame.data_size;
	text = malloc((size_t)frame.json_size + 1);
	rc = text ? take(text, frame.json_size, error) : sgpu_fail_nomem(error);
	failed = rc ? 0 : run_job(p, &text, frame.json_size, &left, &job, &failure);
	rc = rc ? rc : skip(left, error);
	if (!rc) {
		rc = failed ? send_error(&failure, error) : answer(&job, error);
	}
	free(text);
	job_free(&job);
	return rc			    ? rc
	       : !p->on && p->link.pid == 0 ? sgpu_fail(error, SGPU_EDEVICE, "%s", failure.text)
					    : 0;
}

/* ---- start and end ---- */
/* Makes the key of this run and starts sgpu-enclave with it. Returns an exit status. */
static int start_here(struct pipe *p)
{
	struct wire_ready *ready = calloc(1, sizeof(*ready));
	struct sgpu_error error = { 0 };
	int key = -1, rc = ready ? SGPU_OK : sgpu_fail_nomem(&error), status;

	rc = rc ? rc : sgpu_key_generate(SGPU_KEY_OCT, &p->key, &error);
	rc = rc ? rc : key_file(&(struct sgpu_key_set){ .key = p->key }, &key, &error);
	rc = rc ? rc : link_start(&p->link, 1, key, &error);
	sgpu_close(key);
	status = rc ? cli_error(&error) : link_ready(&p->link, ready);
	free(ready);
	return status;
}

static int start_there(struct pipe *p)
{
	struct sgpu_error error = { 0 };
	char path[PATH_MAX];
	int rc = host_load(p->on, &p->host, &error);

	rc = rc ? rc : home_owner(path, &error);
	rc = rc ? rc : sgpu_key_set_load(path, &p->owner, &error);
	return rc ? cli_error(&error) : prove(p);
}

static int serve(struct pipe *p)
{
	struct sgpu_error error = { 0 };
	int rc = memory_file("batch", &p->batch, &error), status;

	rc = rc ? rc : memory_file("response", &p->response, &error);
	status = rc ? cli_error(&error) : p->on ? start_there(p) : start_here(p);
	if (status) {
		return status;
	}
	rc = send_frame(json_pack("{s:b, s:i}", "ready", 1, "version", 1), NULL, &error);
	while (!rc) {
		rc = handle(p, &error);
	}
	return rc > 0 ? 0 : cli_error(&error);
}

int verb_pipe(int argc, char **argv)
{
	static struct pipe p = {
		.link = { .control = -1 }, .connection = -1, .batch = -1, .response = -1
	};
	char **arguments;
	int status = cli_read(argc, argv, &p, &arguments);

	if (status) {
		return status;
	}
	if (isatty(STDIN_FILENO) || isatty(STDOUT_FILENO)) {
		return cli_usage("this is for programs, not for a terminal: see sgpu-pipe(5)");
	}
	cli_signals(NULL);
	(void)setvbuf(stdout, waiting, _IOFBF, sizeof(waiting));
	status = serve(&p);
	sgpu_close(p.connection);
	link_close(&p.link);
	sgpu_manifest_free(&p.manifest);
	sgpu_key_clear(&p.key);
	sgpu_key_set_clear(&p.owner);
	host_clear(&p.host);
	sgpu_close(p.batch);
	sgpu_close(p.response);
	free(p.text);
	return cli_finish(status);
}
