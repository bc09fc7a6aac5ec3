/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal open: verifies a response and opens its outputs.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "opening.h"
#include "verbs.h"

static int take_key(void *values, const char *path)
{
	return seal_keys_take(&((struct opening *)values)->keys, path, SEAL_OPENER);
}

const struct cli_option open_options[] = {
	CLI_COMMON,
	{ "key", 'k', "KEY", "your own key, to which the batch was sealed", CLI_TAKE(take_key) },
	{ "directory", 'C', "DIR",
	  "write every output below this directory, where the manifest says",
	  CLI_TEXT(struct opening, folder) },
	{ "output", 'o', "FILE", "write the one output there", CLI_TEXT(struct opening, out_path) },
	{ "only", 0, "ID", "this output; may be given again", CLI_LIST(struct opening, only) },
	{ "batch", 0, "FILE", "demand that it answers this batch",
	  CLI_INPUT(struct opening, batch_path) },
	{ "force", 0, NULL, "replace existing files", CLI_FLAG(struct opening, force) },
	{ "allow-named-temporary", 0, NULL, "write even where a killed run would leave plaintext",
	  CLI_FLAG(struct opening, named) },
	{ "socket", 0, "PATH",
	  "of the server that has results in leases (default: see SGPU_SOCKET)",
	  CLI_TEXT(struct opening, leases.socket) },
	SEAL_JOBS(struct opening),
	CLI_END,
};

/* 0, or the exit status after a message. */
static int read_options(struct opening *opening, int argc, char **argv, char ***paths)
{
	const int status = cli_read(argc, argv, opening, paths);

	if (status) {
		return status;
	}
	if (opening->folder && opening->out_path) {
		return cli_usage("-C and -o exclude each other");
	}
	if (opening->batch_path && !opening->keys.count) {
		return cli_usage("--batch needs a key, with -k");
	}
	return 0;
}

/* It says why there is no response, and nobody knows who says it. */
static int fail_refused(struct opening *opening, struct sgpu_error *error)
{
	struct sgpu_batch_refusal refusal;
	const int code = sgpu_batch_refusal_read(opening->reader, &refusal, error);

	if (code) {
		return code;
	}
	if (cli_json) {
		cli_print_json(json_pack("{s:{s:s, s:s, s:o}}", "refusal", "batch_id",
					 refusal.batch_id, "code", sgpu_error_name(refusal.code),
					 "text", cli_json_text(refusal.text)),
			       stderr, JSON_COMPACT);
	}
	return sgpu_fail(error, SGPU_EREFUSED, "not authenticated: the runner's side says %s: %s",
			 sgpu_error_name(refusal.code), refusal.text);
}

/* Whoever writes the response has done their part: that we end before it does is no fault of
 * theirs. What was not begun is left for whoever reads it next. */
static void drain(int in, const char *name)
{
	static char buffer[1 << 16];
	size_t got = lseek(in, 0, SEEK_CUR) < 0 ? sizeof(buffer) : 0;

	while (got == sizeof(buffer) &&
	       sgpu_read(in, name, buffer, sizeof(buffer), &got, NULL) == SGPU_OK) {
	}
}

static int run(struct opening *opening, int in, struct sgpu_error *error)
{
	int code = opening_prepare(opening, error);
	code = code ? code : sgpu_tar_open(in, opening->in_name, &opening->reader, error);
	code = code ? code : sgpu_batch_read_head(opening->reader, true, &opening->response, error);
	code = code == SGPU_EREFUSED ? fail_refused(opening, error) : code;
	code = code ? code : opening_authenticate(opening, error);
	code = code ? code : opening_choose(opening, error);
	if (code) {
		return code;
	}
	uint64_t total = 0;
	for (int i = 0; i < opening->response->segment_count; i++) {
		total += opening->targets[i].wanted ? sgpu_batch_payload_size(opening->response, i)
						    : 0;
	}
	cli_progress_begin("opening", total);
	code = opening_write(opening, error);
	cli_progress_end();
	return code;
}

/* One line a failed output; exit status 5 when there is one. */
static int report(const struct opening *opening)
{
	json_t *failures = json_array();
	for (int i = 0; i < opening->response->segment_count; i++) {
		const struct sgpu_batch_segment *s = &opening->response->segments[i];
		if (!opening->targets[i].wanted || s->status == SGPU_OK) {
			continue;
		}
		json_array_append_new(failures,
				      json_pack("{s:s, s:s, s:s}", "segment_id", s->id, "code",
						sgpu_error_name(s->status), "text", s->error_text));
		if (!cli_json) {
			cli_warning("output '%s' has failed: %s (%s)", s->id, s->error_text,
				    sgpu_error_name(s->status));
		}
	}
	seal_detail("opened", opening->bytes_in, &opening->meter);
	seal_record(json_pack("{s:s, s:o, s:i, s:o}", "verb", "open", "batch_id",
			      sgpu_json_from_bytes(opening->response->id,
						   sizeof(opening->response->id)),
			      "opened", opening->opened, "failed", failures),
		    opening->bytes_in, opening->bytes_out, &opening->meter);
	return opening->failed ? sgpu_exit_status(SGPU_ESEGMENTS) : 0;
}

int verb_open(int argc, char **argv)
{
	struct opening opening = { .below = SGPU_OUTPUT_DIRECTORY_INIT,
				   .out = SGPU_OUTPUT_INIT,
				   .spool = -1,
				   .pending_max = 1 };
	struct sgpu_error error = { 0 };
	char **paths;
	int in = -1, status = read_options(&opening, argc, argv, &paths);

	opening.out_path = opening.out_path ? opening.out_path : "-";
	status = status ? status : seal_input(&opening.keys, paths[0], &opening.in_name, &in);
	status = status ? status : opening.folder || cli_binary_apart(opening.out_path) ? 0 : 2;
	if (!status) {
		cli_signals(NULL);
		opening.meter.begin_ns = sgpu_now_ns();
		status = run(&opening, in, &error) ? cli_error(&error) : report(&opening);
	}
	const bool has_begun = opening.reader != NULL;
	opening_clear(&opening); /* keys and temporary files first: a pipe may have no end */
	if (has_begun && status) {
		drain(in, opening.in_name);
	}
	cli_input_close(in);
	return cli_finish(status);
}
