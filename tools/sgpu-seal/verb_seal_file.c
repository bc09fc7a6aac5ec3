/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal seal-file and open-file: seal or open a file, with a symmetric key in the bare format
 * of sgpu-sealed(5), or to a public key with a header before that.
 */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include <transfer/transfer.h>

#include "base/io.h"
#include "crypto/crypto.h"
#include "parts.h"

struct task {
	const char *in_path, *out_path;
	struct cli_bytes context;
	bool named; /* --allow-named-temporary */
	bool opening;
	bool to_public; /* there is a header for an X25519 key, keys.list[0] */
	struct seal_keys keys;
	uint8_t file_key[SGPU_KEY_SIZE];
	int in_fd;
	struct sgpu_descriptor in, out;
	struct sgpu_output output;
	struct sgpu_host_part part;
	struct sgpu_host_move move;
};

static const struct cli_option of_both[] = {
	{ "context", 0, "HEX", "the context that the data are bound to, at most 4096 bytes",
	  CLI_BYTES(struct task, context, 0, SGPU_CONTEXT_MAX) },
	{ "jobs", 'j', "N", "threads to use (default: all processors)",
	  CLI_NUMBER(struct task, move.jobs, 1, SGPU_POOL_JOBS_MAX) },
	CLI_END,
};
const struct cli_option seal_file_options[] = {
	{ CLI_ROWS(passphrase_rows) },
	{ "key", 'k', "KEY", "symmetric key file (- standard input, fd:N a descriptor)",
	  CLI_LIST(struct task, keys.own) },
	{ CLI_ROWS(of_both) },
	{ "output", 'o', "FILE", "where the sealed data go", CLI_TEXT(struct task, out_path) },
	{ "recipient", 'r', "FILE", "seal to this public key, or shared symmetric key",
	  CLI_LIST(struct task, keys.others) },
	CLI_END,
};
const struct cli_option open_file_options[] = {
	{ CLI_ROWS(passphrase_rows) },
	{ "key", 'k', "KEY", "the symmetric or the private key (- standard input, fd:N)",
	  CLI_LIST(struct task, keys.own) },
	{ CLI_ROWS(of_both) },
	{ "output", 'o', "FILE", "where the opened data go", CLI_TEXT(struct task, out_path) },
	{ "allow-named-temporary", 0, NULL, "write even where a killed run would leave plaintext",
	  CLI_FLAG(struct task, named) },
	CLI_END,
};

static int read_options(struct task *task, int argc, char **argv)
{
	char **paths;
	const int status = cli_read(argc, argv, task, &paths);

	if (status) {
		return status;
	}
	task->in_path = paths[0];
	if (paths[0] && paths[1]) {
		if (task->out_path) {
			return cli_usage("the output is given twice, as '%s' and with -o",
					 paths[1]);
		}
		task->out_path = paths[1];
	}
	const int keys = task->keys.own.count + task->keys.others.count;

	return keys == 1       ? cli_take_input(task->in_path)
	       : keys	       ? cli_usage("more than one key: a single file has one")
	       : task->opening ? cli_usage("no key: -k is missing")
			       : cli_usage("no key: -k or -r is missing");
}

static int load_key(struct task *task)
{
	const struct sgpu_key *key = &task->keys.list[0];
	struct sgpu_error error = { 0 };
	const int status =
		seal_keys_load(&task->keys, task->opening ? SEAL_READER : SEAL_RECIPIENT);

	if (status) {
		return status;
	}
	task->to_public = key->kind != SGPU_KEY_OCT;
	if (task->to_public && !task->opening && task->keys.own.count) {
		(void)sgpu_fail(&error, SGPU_EUSAGE, "'%s' is an X25519 key, and not symmetric",
				task->keys.own.items[0]);
		(void)sgpu_hint(&error, "-r seals to it");
		return cli_error(&error);
	}
	task->part.key = task->to_public ? task->file_key : key->secret;
	return 0;
}

static int write_header(struct task *task, struct sgpu_error *error)
{
	struct sgpu_endpoint sink = sgpu_endpoint_of(&task->out);
	uint8_t header[SGPU_SEALED_TO];
	int rc = sgpu_sealed_to_make(&task->keys.list[0], task->file_key, header, error);

	rc = rc ? rc : sink.write(sink.context, 0, header, sizeof(header), error);
	sgpu_descriptor_close(&task->out);
	task->out.offset += task->out.positioned ? sizeof(header) : 0;
	return rc;
}

/* Opens the header. Of a file, also finds out whether a symmetric key was given in vain. */
static int read_header(struct task *task, struct sgpu_error *error)
{
	struct sgpu_descriptor *in = &task->in;
	uint8_t header[SGPU_SEALED_TO];
	char kid[SGPU_KID_SIZE + 1];
	size_t got = 0;

	if (!task->to_public && !in->positioned) {
		return 0;
	}
	int rc = sgpu_endpoint_of(in).read_some(in, 0, header, sizeof(header), &got, error);
	if (!task->to_public) {
		return !rc && sgpu_sealed_to_kid(header, got, kid)
			       ? sgpu_fail(error, SGPU_EKEY,
					   "the data are sealed to the public key '%s'", kid)
			       : rc;
	}
	if (!rc && !got && !in->positioned) {
		return sgpu_fail_sniffed(error, task->in_fd, in->name, header, got, "sealed data");
	}
	in->offset += in->positioned ? got : 0;
	return rc ? rc
		  : sgpu_sealed_to_open(&task->keys.list[0], header, got, task->file_key, error);
}

static int open_output(struct task *task)
{
	struct sgpu_error error = { 0 };

	if (cli_binary_output(task->out_path)) {
		return 2;
	}
	/* A new file of plaintext is private; an existing file keeps its mode. */
	int rc = cli_output_take(&task->output, task->out_path, task->opening ? 0600 : 0666, false,
				 &error);
	if (!rc && task->opening && task->output.kept_mode >= 0) {
		rc = sgpu_output_set_mode(&task->output, 0666, &error);
	}
	if (!rc && task->opening && !task->named && task->output.temporary) {
		rc = seal_refuse_name(task->out_path, &error);
	}
	if (rc) {
		return cli_error(&error);
	}
	sgpu_descriptor_from_fd(task->output.fd, task->output.path, &task->out);
	task->out.sparse = task->opening && task->output.regular;
	if (task->opening && !task->output.regular) {
		/* A redirected output keeps its bytes after a failure, so they must be a prefix of
		 * the plaintext, without gaps. */
		task->out.positioned = false;
	}
	return 0;
}

static int transfer(struct task *task)
{
	struct sgpu_error error = { 0 };
	struct stat status;

	bool sized = task->in.positioned && fstat(task->in_fd, &status) == 0 &&
		     (uint64_t)status.st_size > task->in.offset;
	cli_progress_begin(task->opening ? "opening" : "sealing",
			   sized ? (uint64_t)status.st_size - task->in.offset : 0);
	int rc = task->opening	   ? read_header(task, &error)
		 : task->to_public ? write_header(task, &error)
				   : 0;

	if (!rc) {
		rc = sgpu_host_move_file(&task->move, &task->in, &task->out, &error);
		rc = rc == SGPU_ENOINPUT && task->to_public
			     ? sgpu_fail(&error, SGPU_EAUTH, "'%s' is cut short", task->in.name)
			     : rc;
	}
	cli_progress_end();
	if (!rc) {
		*(task->opening ? &task->part.bytes_in : &task->part.bytes_out) +=
			task->to_public ? SGPU_SEALED_TO : 0;
		/* Programs that share redirected descriptors go on at the end of the data. */
		if (task->in.positioned) {
			(void)lseek(task->in_fd, (off_t)task->in.offset, SEEK_SET);
		}
		if (task->out.positioned && !task->output.regular) {
			(void)lseek(task->output.fd, (off_t)task->out.offset, SEEK_SET);
		}
		rc = sgpu_output_commit(&task->output, &error);
	}
	return rc ? cli_error(&error) : 0;
}

static int single_file(int argc, char **argv, bool opening)
{
	struct task task = {
		.opening = opening,
		.in_fd = -1,
		.output = SGPU_OUTPUT_INIT,
		.part = { .action = opening ? SGPU_HOST_OPEN : SGPU_HOST_SEAL,
			  .size = SGPU_SIZE_UNKNOWN },
		.move = { .parts = &task.part, .count = 1, .progress = cli_progress },
	};
	const char *name = NULL;
	int status = read_options(&task, argc, argv);

	task.part.context = task.context.data;
	task.part.context_size = task.context.size;
	cli_signals(NULL);
	status = status ? status : load_key(&task);
	status = status ? status : cli_input(task.in_path, &name, &task.in_fd);
	if (!status) {
		sgpu_descriptor_from_fd(task.in_fd, name, &task.in);
		status = open_output(&task);
	}
	status = status ? status : transfer(&task);
	if (!status) {
		seal_record(json_pack("{s:s, s:s*}", "verb", opening ? "open-file" : "seal-file",
				      "recipient", task.to_public ? task.keys.list[0].kid : NULL),
			    task.part.bytes_in, task.part.bytes_out);
	}
	sgpu_output_close(&task.output);
	seal_keys_clear(&task.keys);
	sgpu_wipe(task.file_key, sizeof(task.file_key));
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
