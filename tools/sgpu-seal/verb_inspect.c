/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal inspect: says what a batch, a response, a bare sealed file or a key is, and of others
 * that they are none.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "cli.h"
#include "parts.h"
#include "verbs.h"

struct task {
	struct seal_keys keys;
	struct cli_bytes context;
	const char *in_name;
	uint8_t first[SGPU_TAR_BLOCK]; /* may be of a key */
	size_t first_size;
};

static int take_key(void *values, const char *path)
{
	return seal_keys_take(&((struct task *)values)->keys, path, SEAL_READER);
}

const struct cli_option inspect_options[] = {
	CLI_COMMON,
	{ "key", 'k', "KEY", "also check the mac, or the commitment, with this key",
	  CLI_TAKE(take_key) },
	{ "context", 0, "HEX", "the context of a bare sealed file",
	  CLI_BYTES(struct task, context, 0, SGPU_CONTEXT_MAX) },
	CLI_END,
};

static int show(const struct inspected *inspected, struct sgpu_error *error)
{
	if (cli_json) {
		return inspected_print_json(inspected, error);
	}
	inspected_print(inspected);
	return 0;
}

static int authenticate(const struct task *task, struct inspected *inspected,
			struct sgpu_error *error)
{
	const struct sgpu_batch *batch = inspected->batch;
	uint8_t batch_key[SGPU_KEY_SIZE];
	inspected->mac = batch->has_mac ? MAC_NOT_CHECKED : MAC_NONE;
	if (!task->keys.count) {
		return 0;
	}
	int code = 0;
	for (int i = 0; i < task->keys.count; i++) {
		code = sgpu_batch_unwrap(batch, &task->keys.list[i], 1, batch_key, error);
		if (code != SGPU_EKEY) {
			inspected->kid = task->keys.list[i].kid;
			break;
		}
	}
	code = code ? code : sgpu_batch_verify(batch, batch_key, error);
	sgpu_wipe(batch_key, sizeof(batch_key));
	inspected->mac = code ? inspected->mac : MAC_VERIFIED;
	return code;
}

/* The whole archive is read before anything is said, so that what is said is of a whole one. */
static int inspect_archive(const struct task *task, int in, struct sgpu_error *error)
{
	struct inspected inspected = { 0 };
	struct sgpu_tar_reader *reader = NULL;
	struct sgpu_batch *batch = NULL;
	struct sgpu_manifest *manifest = NULL;
	struct sgpu_diagnostics diagnostics = { 0 };
	int segment = 0;
	int code = sgpu_tar_open_block(in, task->in_name, task->first, &reader, error);
	code = code ? code : sgpu_batch_read_any(reader, &batch, error);
	if (!code) {
		code = sgpu_manifest_parse(batch->manifest_text, batch->manifest_size, &manifest,
					   &diagnostics, error);
	}
	while (!code && segment >= 0) {
		code = sgpu_batch_next_payload(reader, batch, &segment, error);
	}
	if (!code) {
		inspected.batch = batch;
		inspected.manifest = manifest;
		code = authenticate(task, &inspected, error);
	}
	code = code ? code : show(&inspected, error);
	sgpu_manifest_free(&manifest);
	sgpu_diagnostics_clear(&diagnostics);
	sgpu_batch_free(&batch);
	sgpu_tar_close(&reader);
	return code;
}

/* Bytes to the end of the input; those in `first` count. */
static int whole_size(const struct task *task, int in, uint64_t *size, struct sgpu_error *error)
{
	struct stat status;
	const off_t position = lseek(in, 0, SEEK_CUR);
	*size = task->first_size;
	if (position >= 0 && fstat(in, &status) == 0 && S_ISREG(status.st_mode) &&
	    status.st_size >= position) {
		*size += (uint64_t)(status.st_size - position);
		return 0;
	}
	static uint8_t buffer[1 << 16];
	size_t got = sizeof(buffer);
	int code = 0;
	while (!code && got == sizeof(buffer)) {
		code = sgpu_read(in, task->in_name, buffer, sizeof(buffer), &got, error);
		*size += code ? 0 : got;
	}
	return code;
}

/* Whether one of the keys fits, which only the key of a bare sealed file can. */
static int try_keys(const struct task *task, struct inspected *inspected, struct sgpu_error *error)
{
	struct sgpu_sealed_keys keys;
	int code = 0;

	for (int i = 0; i < task->keys.count && !inspected->key_fits; i++) {
		if (task->keys.list[i].kind != SGPU_KEY_OCT) {
			code = sgpu_fail(error, SGPU_EKEY,
					 "only an oct key can fit a bare sealed file");
			continue;
		}
		code = sgpu_sealed_keys_open(task->keys.list[i].secret, task->context.data,
					     task->context.size, inspected->header, &keys, error);
		sgpu_wipe(&keys, sizeof(keys));
		inspected->key_fits = code == 0;
	}
	return code;
}

/* Sealed data are random bytes, with no mark. Without a key that fits, only what is nothing else is
 * taken for some. */
static int inspect_sealed(const struct task *task, int in, enum sgpu_sniffed kind,
			  struct sgpu_error *error)
{
	struct inspected inspected = { 0 };
	int code = whole_size(task, in, &inspected.sealed_size, error);

	if (code) {
		return code;
	}
	const bool fits = sgpu_sealed_plaintext_size(inspected.sealed_size, &inspected.size);
	if (fits) {
		memcpy(inspected.header, task->first, sizeof(inspected.header));
		code = try_keys(task, &inspected, error);
	}
	if (!inspected.key_fits && (!fits || kind != SGPU_SNIFFED_UNKNOWN)) {
		return sgpu_fail_sniffed(error, in, task->in_name, task->first, task->first_size,
					 "a batch, a response or sealed data");
	}
	return code ? code : show(&inspected, error);
}

static int run(struct task *task, int in, struct sgpu_error *error)
{
	const int code = sgpu_read(in, task->in_name, task->first, sizeof(task->first),
				   &task->first_size, error);
	if (code) {
		return code;
	}
	const enum sgpu_sniffed kind = sgpu_sniff(task->first, task->first_size);
	switch (kind) {
	case SGPU_SNIFFED_BATCH:
	case SGPU_SNIFFED_TAR:
		return task->first_size == sizeof(task->first)
			       ? inspect_archive(task, in, error)
			       : sgpu_fail(error, SGPU_EINVALID, "'%s' is cut short",
					   task->in_name);
	case SGPU_SNIFFED_KEY:
		return inspect_key(in, task->in_name, task->first, task->first_size, error);
	default:
		return inspect_sealed(task, in, kind, error);
	}
}

int verb_inspect(int argc, char **argv)
{
	static struct task task;
	struct sgpu_error error = { 0 };
	char **paths;
	int in = -1, status = cli_read(argc, argv, &task, &paths);

	status = status ? status : seal_input(&task.keys, paths[0], &task.in_name, &in);
	if (!status) {
		cli_signals(NULL);
		status = run(&task, in, &error) ? cli_error(&error) : 0;
	}
	seal_keys_clear(&task.keys);
	sgpu_wipe(task.first, sizeof(task.first));
	cli_input_close(in);
	return cli_finish(status);
}
