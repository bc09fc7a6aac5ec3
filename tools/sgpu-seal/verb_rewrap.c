/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal rewrap: changes who can open a batch or a response; the payloads stay as they are.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "parts.h"

struct task {
	struct seal_keys keys, added;
	struct cli_list removed;		 /* key ids */
	bool signed_before[SGPU_SIGNATURES_MAX]; /* which of keys.signers had signed */
	bool only;
	const char *out_path, *in_name;
	struct sgpu_tar_reader *reader;
	struct sgpu_batch *batch;
	uint8_t batch_key[SGPU_KEY_SIZE];
	struct sgpu_output out;
	struct seal_meter meter;
};

const struct cli_option rewrap_options[] = {
	{ CLI_ROWS(passphrase_rows) },
	{ "key", 'k', "KEY", "a key that is a recipient now", CLI_LIST(struct task, keys.own) },
	{ "recipient", 'r', "FILE", "add this recipient", CLI_LIST(struct task, added.others) },
	{ "remove", 0, "KID", "remove the recipient with this key id",
	  CLI_LIST(struct task, removed) },
	{ "only", 0, NULL, "remove all recipients except those added",
	  CLI_FLAG(struct task, only) },
	{ "output", 'o', "FILE", "write the result there", CLI_TEXT(struct task, out_path) },
	CLI_END,
};

static int remove_kid(struct sgpu_batch *batch, const char *kid, struct sgpu_error *error)
{
	size_t i;
	json_t *recipient;
	json_array_foreach (batch->recipients, i, recipient) {
		if (recipient == sgpu_batch_recipient(batch, kid)) {
			return json_array_remove(batch->recipients, i) ? sgpu_fail_nomem(error) : 0;
		}
	}
	sgpu_fail(error, SGPU_EUSAGE, "'%s' is not a recipient", kid);
	return sgpu_hint(error, "'sgpu-seal inspect' lists them");
}

/* Replaces the signatures, which covered the old recipients. */
static int sign_again(struct task *task, size_t before, struct sgpu_error *error)
{
	struct sgpu_batch *batch = task->batch;
	bool left = false;
	int rc = 0;
	sgpu_batch_change(batch, false);
	for (int i = 0; !rc && !batch->response && i < task->keys.signer_count; i++) {
		if (task->signed_before[i]) {
			rc = sgpu_batch_add_signature(batch, &task->keys.signers[i], error);
		}
		left = left || !task->signed_before[i];
	}
	if (!rc && before && !batch->signatures) {
		cli_warning("the batch is not signed any more: its signature was over the old "
			    "recipients, and no key given "
			    "had made one");
	} else if (!rc && left) {
		cli_warning("a key given had not signed the batch, and signs nothing that it has "
			    "not sealed");
	}
	return rc;
}

static int change(struct task *task, struct sgpu_error *error)
{
	struct sgpu_batch *batch = task->batch;
	const size_t signatures = json_array_size(batch->signatures);
	int rc =
		sgpu_batch_unwrap(batch, task->keys.list, task->keys.count, task->batch_key, error);
	rc = rc ? rc : sgpu_batch_verify(batch, task->batch_key, error);
	/* Only those of the signing keys that have signed the batch as it was read sign again: a
	 * valid MAC does not tell who wrote the batch, since every recipient has the batch key and
	 * can make another batch with its MAC. */
	for (int i = 0; !rc && !batch->response && i < task->keys.signer_count; i++) {
		rc = sgpu_batch_signed_by(batch, task->keys.signers[i].kid, &task->signed_before[i],
					  error);
	}
	for (int i = 0; !rc && i < task->removed.count; i++) {
		rc = remove_kid(batch, task->removed.items[i], error);
	}
	if (!rc && task->only) {
		rc = json_array_clear(batch->recipients) ? sgpu_fail_nomem(error) : 0;
	}
	for (int i = 0; !rc && i < task->added.count; i++) {
		rc = sgpu_batch_wrap(batch, &task->added.list[i], task->batch_key, error);
	}
	if (!rc && !json_array_size(batch->recipients)) {
		rc = sgpu_fail(error, SGPU_EUSAGE, "no recipient would be left");
	}
	rc = rc ? rc : sign_again(task, signatures, error);
	return rc ? rc : sgpu_batch_sign(batch, task->batch_key, error);
}

static int prepare_pass(void *argument, struct sgpu_host_part *part, struct sgpu_error *error)
{
	struct seal_payload *payload = argument;
	const struct task *task = payload->moves->owner;
	int segment = -1;
	const int rc = sgpu_batch_next_payload(task->reader, task->batch, &segment, error);

	if (!rc) {
		seal_payload_from_archive(payload, part);
	}
	return rc;
}

static int pass_through(struct task *task, struct sgpu_error *error)
{
	const struct sgpu_batch *batch = task->batch;
	struct seal_moves moves = SEAL_MOVES_INIT;
	const struct seal_payload *failed = NULL;
	int segment = -1, rc = seal_moves_create(&moves, batch->segment_count, task->reader, task,
						 &task->out, error);

	for (int i = 0; !rc && i < batch->segment_count; i++) {
		const struct sgpu_batch_segment *s = &batch->segments[i];
		if (s->location.kind != SGPU_LOCATION_INLINE) {
			continue;
		}
		rc = seal_moves_member(&moves, batch, SGPU_HOST_COPY, i, prepare_pass, error);
		moves.parts[moves.count - 1].digest = s->has_kt128 ? s->kt128 : NULL;
	}
	rc = rc ? rc : seal_moves_run(&moves, &task->meter, &failed, error);
	rc = rc ? rc : sgpu_tar_padding(task->out.fd, task->out.path, moves.at, error);
	rc = rc ? rc : sgpu_batch_next_payload(task->reader, batch, &segment, error);
	seal_moves_clear(&moves);
	return rc;
}

static int run(struct task *task, int in, struct sgpu_error *error)
{
	int rc = cli_output_take(&task->out, task->out_path, 0644, false, error);
	rc = rc ? rc : sgpu_tar_open(in, task->in_name, &task->reader, error);
	rc = rc ? rc : sgpu_batch_read(task->reader, SGPU_READ_EITHER, &task->batch, error);
	rc = rc ? rc : change(task, error);
	rc = rc ? rc
		: sgpu_batch_write_head(task->out.fd, task->out.path, task->batch, false, error);
	if (!rc) {
		cli_progress_begin("copying", 0);
		rc = pass_through(task, error);
		cli_progress_end();
	}
	rc = rc ? rc : sgpu_tar_end(task->out.fd, task->out.path, error);
	rc = rc ? rc : sgpu_output_commit(&task->out, error);
	if (rc) {
		return rc;
	}
	seal_record(json_pack("{s:s, s:o, s:o}", "verb", "rewrap", "batch_id",
			      sgpu_json_from_bytes(task->batch->id, sizeof(task->batch->id)),
			      "recipients", seal_recipient_kids(task->batch)),
		    task->meter.done, task->meter.done);
	return 0;
}

static int read_options(struct task *task, int argc, char **argv, char ***paths)
{
	int status = cli_read(argc, argv, task, paths);

	status = status ? status : seal_keys_load(&task->keys, SEAL_CHANGER);
	status = status ? status : seal_keys_load(&task->added, SEAL_RECIPIENT);
	if (status) {
		return status;
	}
	if (!task->keys.count) {
		return cli_usage("a key that is a recipient is missing, with -k");
	}
	if (!task->added.count && !task->removed.count) {
		return cli_usage("nothing to change: give -r or --remove");
	}
	return 0;
}

int verb_rewrap(int argc, char **argv)
{
	struct task task = { .out_path = "-", .out = SGPU_OUTPUT_INIT };
	struct sgpu_error error = { 0 };
	char **paths;
	int in = -1, status = read_options(&task, argc, argv, &paths);

	status = status ? status : cli_input(paths[0], &task.in_name, &in);
	status = status ? status : cli_binary_output(task.out_path);
	if (!status) {
		cli_signals(NULL);
		status = run(&task, in, &error) ? cli_error(&error) : 0;
	}
	sgpu_output_close(&task.out);
	sgpu_tar_close(&task.reader);
	sgpu_batch_free(&task.batch);
	sgpu_wipe(task.batch_key, sizeof(task.batch_key));
	seal_keys_clear(&task.keys);
	seal_keys_clear(&task.added);
	free(task.removed.items);
	return cli_finish(status);
}
