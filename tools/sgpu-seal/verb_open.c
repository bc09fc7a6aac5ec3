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

enum { ONLY = CLI_LONG, BATCH, FORCE, NAMED };

const struct cli_option open_options[] = {
	CLI_COMMON,
	{ "key", 'k', "KEY", "your own key, with which the batch was sealed" },
	{ "directory", 'C', "DIR", "write every output below this folder, where the manifest says" },
	{ "output", 'o', "FILE", "write the one output there" },
	{ "only", ONLY, "ID", "this output; may be given again" },
	{ "batch", BATCH, "FILE", "demand that it answers this batch" },
	{ "force", FORCE, NULL, "replace files that exist" },
	{ "allow-named-temporary", NAMED, NULL, "also where a killed run would leave plaintext" },
	{ "jobs", 'j', "N", "threads; as many as there are processors by default" },
	{ NULL, 0, NULL, NULL },
};

static int take_option(struct opening *opening, int key, const char *value)
{
	struct sgpu_error error = { 0 };
	switch (key) {
	case 'k':
		return seal_keys_load(&opening->keys, value, SEAL_READER, &error) ? cli_error(&error) : 0;
	case 'C':
		opening->folder = value;
		return 0;
	case 'o':
		opening->out_path = value;
		return 0;
	case ONLY:
		opening->only[opening->only_count++] = value;
		return 0;
	case BATCH:
		opening->batch_path = value;
		cli_remember_input(value);
		return 0;
	case FORCE:
		opening->force = true;
		return 0;
	case NAMED:
		opening->named = true;
		return 0;
	case 'j':
		return seal_parse_jobs(value, &opening->meter.jobs) ? 0 : 2;
	default:
		return 2;
	}
}

/* 0, or the exit status after a message. */
static int options(struct opening *opening, int argc, char **argv, int *first)
{
	const char *value = NULL;
	opening->only = calloc((size_t)argc + 1, sizeof(*opening->only));
	if (!opening->only) {
		return cli_fail(SGPU_ENOMEM, "out of memory");
	}
	for (int key = 0; (key = cli_next(argc, argv, &value, first)) != 0;) {
		const int status = take_option(opening, key, value);
		if (status) {
			return status;
		}
	}
	if (!cli_positionals(argc, *first, 0, 1)) {
		return 2;
	}
	if (opening->folder && opening->out_path) {
		return cli_usage("-C and -o exclude each other");
	}
	if (opening->batch_path && !opening->keys.count) {
		return cli_usage("--batch needs a key, with -k");
	}
	return 0;
}

static int run(struct opening *opening, int in, struct sgpu_error *error)
{
	int code = opening_prepare(opening, error);
	if (!code) {
		code = sgpu_tar_open(in, opening->in_name, &opening->reader, error);
	}
	if (!code) {
		code = sgpu_batch_read_head(opening->reader, true, &opening->response, error);
	}
	if (!code) {
		code = opening_authenticate(opening, error);
	}
	if (!code) {
		code = opening_choose(opening, error);
	}
	if (code) {
		return code;
	}
	uint64_t total = 0;
	for (int i = 0; i < opening->response->segment_count; i++) {
		total += opening->targets[i].wanted ? sgpu_batch_payload_size(opening->response, i) : 0;
	}
	cli_progress_begin("opening", total);
	code = opening_write(opening, error);
	cli_progress_end();
	return code;
}

static json_t *failure_record(const struct sgpu_batch_segment *s)
{
	return json_pack("{s:s, s:s, s:s}", "segment_id", s->id, "code", sgpu_error_name(s->status), "text",
			 s->error_text);
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
		json_array_append_new(failures, failure_record(s));
		if (!cli_json) {
			cli_warning("output '%s' has failed: %s (%s)", s->id, s->error_text, sgpu_error_name(s->status));
		}
	}
	seal_detail("opened", opening->bytes_in, &opening->meter);
	seal_record(json_pack("{s:s, s:o, s:i, s:o}", "verb", "open", "batch_id",
			      sgpu_json_from_bytes(opening->response->id, sizeof(opening->response->id)), "opened",
			      opening->opened, "failed", failures),
		    opening->bytes_in, opening->bytes_out, &opening->meter);
	return opening->failed ? sgpu_exit_status(SGPU_ESEGMENTS) : 0;
}

int verb_open(int argc, char **argv)
{
	struct opening opening = { .below = { .folder = SGPU_OUTPUT_FOLDER_INIT }, .out = SGPU_OUTPUT_INIT };
	struct sgpu_error error = { 0 };
	int first = argc, in = -1;
	int status = options(&opening, argc, argv, &first);
	if (status) {
		goto out;
	}
	const char *in_path = first < argc ? argv[first] : NULL;
	in = seal_input(&opening.keys, in_path, &opening.in_name, &status);
	if (in < 0) {
		goto out;
	}
	status = 0;
	if (!opening.out_path) {
		opening.out_path = "-";
	}
	if (!opening.folder && (!cli_output_apart(opening.out_path) ||
				(!strcmp(opening.out_path, "-") && !cli_binary_output(STDOUT_FILENO)))) {
		status = 2;
		goto out;
	}
	cli_signals(NULL);
	opening.meter.begin_ns = sgpu_now_ns();
	status = run(&opening, in, &error) ? cli_error(&error) : report(&opening);
out:
	opening_clear(&opening);
	if (in > STDERR_FILENO) {
		close(in);
	}
	return cli_finish(status);
}
