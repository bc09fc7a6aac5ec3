/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal open: authenticates a response, and decides which outputs are wanted and where they go.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "opening.h"

enum { SPARE_DESCRIPTORS = 64, DESCRIPTORS_AN_OUTPUT = 3, NAMES_SHOWN = 400 };

const struct cli_option open_options[] = {
	{ CLI_ROWS(passphrase_rows) },
	{ "key", 'k', "KEY", "your own key, to which the batch was sealed",
	  CLI_LIST(struct opening, keys.own) },
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
	  CLI_TEXT(struct opening, lease.socket) },
	SEAL_JOBS(struct opening),
	CLI_END,
};

int seal_refuse_name(const char *place, struct sgpu_error *error)
{
	sgpu_fail(error, SGPU_EPOLICY,
		  "'%s' is on a file system where every file has a name: if this was killed, "
		  "plaintext would be left there",
		  place);
	return sgpu_hint(error,
			 "choose another place, or accept that with --allow-named-temporary");
}

/* Whether a file system where every file has a name is refused before the response comes: with a
 * key, secrets are expected in it. */
static bool minds_names(const struct opening *opening)
{
	return opening->keys.count && !opening->named;
}

static int prepare_folder(struct opening *opening, struct sgpu_error *error)
{
	int rc = sgpu_output_directory_open(&opening->below, opening->folder, 0700, error);
	if (rc) {
		return rc;
	}
	const int nameless = openat(opening->below.fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (nameless >= 0) {
		close(nameless);
		return 0;
	}
	if (faccessat(opening->below.fd, ".", W_OK, AT_EACCESS)) {
		return sgpu_fail_errno(error, "cannot write to directory '%s'", opening->folder);
	}
	return minds_names(opening) ? seal_refuse_name(opening->folder, error) : 0;
}

static int prepare_file(struct opening *opening, struct sgpu_error *error)
{
	int rc = cli_output_take(&opening->out, opening->out_path, 0600, !opening->force, error);
	if (rc == SGPU_ESYSTEM && !opening->force && access(opening->out_path, F_OK) == 0) {
		return sgpu_hint(error, "--force replaces a file that exists");
	}
	if (!rc && opening->out.temporary && minds_names(opening)) {
		rc = seal_refuse_name(opening->out_path, error);
	}
	return rc;
}

static int read_batch(const struct opening *opening, struct sgpu_batch **batch,
		      struct sgpu_error *error)
{
	struct sgpu_tar_reader *reader = NULL;
	const int fd = open(opening->batch_path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return sgpu_fail_errno(error, "cannot open '%s'", opening->batch_path);
	}
	/* Without a key that verifies the batch, its file must be trusted. */
	int rc = opening->keys.signer_count
			 ? 0
			 : sgpu_check_trusted(fd, opening->batch_path,
					      "says which response is wanted", error);
	rc = rc ? rc : sgpu_tar_open(fd, opening->batch_path, &reader, error);
	rc = rc ? rc : sgpu_batch_read_seal(reader, SGPU_READ_BATCH, batch, error);
	sgpu_tar_close(&reader);
	close(fd);
	return rc;
}

/* One of the signing keys, if any were given, must have signed the batch. */
static int check_signature(const struct opening *opening, const struct sgpu_batch *batch,
			   struct sgpu_error *error)
{
	bool is_signed = !opening->keys.signer_count;
	int rc = 0;

	for (int i = 0; !rc && !is_signed && i < opening->keys.signer_count; i++) {
		rc = sgpu_batch_signed_by(batch, opening->keys.signers[i].kid, &is_signed, error);
	}
	if (!rc && !is_signed) {
		sgpu_fail(error, SGPU_EAUTH,
			  "'%s' is not signed by a key of yours: anyone could have written it",
			  opening->batch_path);
		return sgpu_hint(error, "if another owner sealed it, give the public half of their "
					"signing key with -k, too");
	}
	return rc;
}

/* Anybody can wrap a batch key for an X25519 key, and old responses verify, too, so only the batch
 * itself tells which response answers it. */
static int compare_batch(const struct opening *opening, struct sgpu_error *error)
{
	const struct sgpu_batch *response = opening->response;
	struct sgpu_batch *batch = NULL;
	uint8_t key[SGPU_KEY_SIZE], identity[SGPU_SHA256_SIZE];
	int rc = read_batch(opening, &batch, error);
	if (!rc) {
		rc = sgpu_batch_unwrap(batch, opening->keys.list, opening->keys.count, key, error);
	}
	rc = rc ? rc : sgpu_batch_verify(batch, key, error);
	rc = rc ? rc : check_signature(opening, batch, error);
	rc = rc ? rc : sgpu_batch_identity(batch, identity, error);
	if (!rc && (!opening->has_key || !sgpu_equal(key, opening->batch_key, sizeof(key)) ||
		    !sgpu_equal(identity, response->identity, sizeof(identity)))) {
		rc = sgpu_fail(error, SGPU_EAUTH, "'%s' is not the response to '%s'",
			       opening->in_name, opening->batch_path);
	}
	sgpu_wipe(key, sizeof(key));
	sgpu_batch_free(&batch);
	return rc;
}

static int authenticate(struct opening *opening, struct sgpu_error *error)
{
	const struct sgpu_batch *response = opening->response;
	int rc = 0;
	if (!response->has_mac && opening->keys.count) {
		sgpu_fail(error, SGPU_EAUTH, "'%s' has no mac: anyone could have written it",
			  opening->in_name);
		return sgpu_hint(error,
				 "if the batch was not sealed, open its response without -k");
	}
	if (response->has_mac && !opening->keys.count) {
		return sgpu_fail(error, SGPU_EUSAGE, "'%s' is sealed: a key is needed, with -k",
				 opening->in_name);
	}
	if (response->has_mac) {
		rc = sgpu_batch_unwrap(response, opening->keys.list, opening->keys.count,
				       opening->batch_key, error);
		opening->has_key = rc == 0;
		rc = rc ? rc : sgpu_batch_verify(response, opening->batch_key, error);
	} else {
		cli_note("'%s' has no mac: it is not known who wrote it", opening->in_name);
	}
	if (!rc && opening->batch_path) {
		rc = compare_batch(opening, error);
	}
	return rc;
}

/* Marks the outputs of --only, or all. */
static int mark_wanted(struct opening *opening, struct sgpu_error *error)
{
	const struct sgpu_batch *response = opening->response;
	char names[NAMES_SHOWN] = "";
	int wanted = 0, files = 0;

	for (int i = 0; i < response->segment_count; i++) {
		const bool fits = strlen(names) < NAMES_SHOWN - SGPU_ID_MAX - 8;

		cli_append(names, NAMES_SHOWN, "%s%s", i ? ", " : "",
			   fits ? response->segments[i].id : "...");
		if (!fits) {
			break;
		}
	}
	for (int i = 0; i < opening->only.count; i++) {
		const int segment = sgpu_batch_segment(response, opening->only.items[i]);
		if (segment < 0) {
			return sgpu_fail(error, SGPU_EUSAGE, "'%s' is not an output; there are: %s",
					 opening->only.items[i], names);
		}
		wanted += !opening->targets[segment].wanted;
		opening->targets[segment].wanted = true;
	}
	for (int i = 0; !opening->only.count && i < response->segment_count; i++) {
		opening->targets[i].wanted = true;
		wanted++;
	}
	if (!opening->folder && wanted != 1) {
		sgpu_fail(error, SGPU_EUSAGE, "%d outputs do not fit one file: %s", wanted, names);
		return sgpu_hint(error, "choose one with --only, or a directory for all with -C");
	}
	for (int i = 0; i < response->segment_count; i++) {
		files += opening->targets[i].wanted && response->segments[i].status == SGPU_OK;
	}
	/* Each stays open until the whole response has verified. */
	if (opening->folder &&
	    (uint64_t)files * DESCRIPTORS_AN_OUTPUT + SPARE_DESCRIPTORS > cli_raise_descriptors()) {
		sgpu_fail(error, SGPU_ESYSTEM,
			  "%d outputs are more files than this process may have open", files);
		return sgpu_hint(error, "raise 'ulimit -n', or open some of them, with --only");
	}
	return 0;
}

/* An output's path must not be a file that is read nor, without --force, an existing file. */
static int check_below(const struct opening *opening, const char *path, struct sgpu_error *error)
{
	struct stat status;
	char *place = NULL;
	int rc = 0;

	if (asprintf(&place, "/proc/self/fd/%d/%s", opening->below.fd, path) < 0) {
		return sgpu_fail_nomem(error);
	}
	if (cli_is_input(place)) {
		rc = sgpu_fail(error, SGPU_EUSAGE,
			       "output '%s' below '%s' would replace a file that is read", path,
			       opening->folder);
	} else if (!opening->force && lstat(place, &status) == 0 && S_ISREG(status.st_mode)) {
		(void)sgpu_fail(error, SGPU_ESYSTEM, "'%s/%s' exists", opening->folder, path);
		rc = sgpu_hint(error, "--force replaces it");
	}
	free(place);
	return rc;
}

static int take_note(struct opening *opening, struct sgpu_error *error)
{
	const struct sgpu_batch *response = opening->response;
	char **paths = calloc((size_t)response->segment_count + 1, sizeof(*paths));
	json_t **files = calloc((size_t)response->segment_count + 1, sizeof(json_t *));
	int rc = paths && files
			 ? sgpu_batch_paths(response, opening->has_key ? opening->batch_key : NULL,
					    paths, files, error)
			 : sgpu_fail_nomem(error);

	for (int i = 0; paths && files && i < response->segment_count; i++) {
		opening->targets[i].file = files[i];
		if (!rc && opening->folder && opening->targets[i].wanted) {
			opening->targets[i].path = paths[i];
			rc = check_below(opening, paths[i], error);
		} else {
			free(paths[i]);
		}
	}
	free(files);
	free(paths);
	return rc;
}

static int choose(struct opening *opening, struct sgpu_error *error)
{
	const struct sgpu_batch *response = opening->response;
	opening->targets = calloc((size_t)response->segment_count + 1, sizeof(*opening->targets));
	if (!opening->targets) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; i < response->segment_count; i++) {
		opening->targets[i].output = (struct sgpu_output)SGPU_OUTPUT_INIT;
	}
	const int rc = mark_wanted(opening, error);
	return rc ? rc : take_note(opening, error);
}

/* Returns 0, or the exit status after a message. */
static int read_options(struct opening *opening, int argc, char **argv, char ***paths)
{
	int status = cli_read(argc, argv, opening, paths);

	status = status ? status : seal_keys_load(&opening->keys, SEAL_OPENER);
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

/* Fails with the text of a refusal, which replaces a response and is not authenticated. */
static int fail_refused(struct opening *opening, struct sgpu_error *error)
{
	struct sgpu_batch_refusal refusal;
	const int rc = sgpu_batch_refusal_read(opening->reader, &refusal, error);

	if (rc) {
		return rc;
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

/* Reads a pipe to its end after an error, so that its writer does not fail, too. The rest of a file
 * is left for the next reader. */
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
	/* An unusable place of an output is reported before the response comes. */
	int rc = opening->folder ? prepare_folder(opening, error) : prepare_file(opening, error);
	rc = rc ? rc : sgpu_tar_open(in, opening->in_name, &opening->reader, error);
	rc = rc ? rc
		: sgpu_batch_read_seal(opening->reader, SGPU_READ_RESPONSE, &opening->response,
				       error);
	rc = rc == SGPU_EREFUSED ? fail_refused(opening, error) : rc;
	rc = rc ? rc : authenticate(opening, error);
	rc = rc ? rc : sgpu_batch_read_rest(opening->reader, opening->response, NULL, error);
	rc = rc ? rc : choose(opening, error);
	if (rc) {
		return rc;
	}
	uint64_t total = 0;
	for (int i = 0; i < opening->response->segment_count; i++) {
		total += opening->targets[i].wanted ? sgpu_batch_payload_size(opening->response, i)
						    : 0;
	}
	cli_progress_begin("opening", total);
	rc = opening_write(opening, error);
	cli_progress_end();
	return rc;
}

/* Prints a line for each failed output; returns exit status 5 when there is one. */
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
	seal_record(json_pack("{s:s, s:o, s:i, s:o}", "verb", "open", "batch_id",
			      sgpu_json_from_bytes(opening->response->id,
						   sizeof(opening->response->id)),
			      "opened", opening->opened, "failed", failures),
		    opening->bytes_in, opening->bytes_out);
	return opening->failed ? sgpu_exit_status(SGPU_ESEGMENTS) : 0;
}

static void clear(struct opening *opening)
{
	/* Closes the last output first, so that a directory is empty when the output that made it
	 * is closed. */
	for (int i = opening->targets ? opening->response->segment_count : 0; i-- > 0;) {
		sgpu_output_close(&opening->targets[i].output);
		sgpu_file_writer_free(&opening->targets[i].writer);
		json_decref(opening->targets[i].file);
		free(opening->targets[i].path);
	}
	sgpu_close(opening->spool);
	lease_client_close(&opening->lease.client);
	free(opening->targets);
	free(opening->only.items);
	sgpu_output_close(&opening->out);
	sgpu_output_directory_close(&opening->below, opening->opened > 0);
	sgpu_tar_close(&opening->reader);
	sgpu_batch_free(&opening->response);
	sgpu_wipe(opening->batch_key, sizeof(opening->batch_key));
	seal_keys_clear(&opening->keys);
}

int verb_open(int argc, char **argv)
{
	struct opening opening = { .below = SGPU_OUTPUT_DIRECTORY_INIT,
				   .out = SGPU_OUTPUT_INIT,
				   .lease = { .client = LEASE_CLIENT_INIT },
				   .spool = -1 };
	struct sgpu_error error = { 0 };
	char **paths;
	int in = -1, status = read_options(&opening, argc, argv, &paths);

	opening.out_path = opening.out_path ? opening.out_path : "-";
	status = status ? status : cli_input(paths[0], &opening.in_name, &in);
	status = status || opening.folder ? status : cli_binary_output(opening.out_path);
	if (!status) {
		cli_signals(NULL);
		status = run(&opening, in, &error) ? cli_error(&error) : report(&opening);
	}
	const bool has_begun = opening.reader != NULL;
	clear(&opening); /* wipes keys and temporary files before drain(), which may never return */
	if (has_begun && status) {
		drain(in, opening.in_name);
	}
	return cli_finish(status);
}
