/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal inspect: says whether an input is a batch, a response, a bare sealed file, a key or
 * none of them, and describes it. The description contains no secrets.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "batch/index.h"
#include "parts.h"

enum { KEY_FILE_MAX = 16 << 10 }; /* bytes; the parser refuses longer ones, too */

struct task {
	struct seal_keys keys;
	struct cli_bytes context;
	const char *in_name;
	uint8_t first[SGPU_TAR_BLOCK]; /* may hold a part of a key */
	size_t first_size;
	const char *kid; /* of the given key that is a recipient, or NULL */
	json_t *json;	 /* what --json prints */
	int status;	 /* of printing without --json */
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

/* ---- a batch or a response ---- */
/* Without a manifest, which of the outputs are inputs, too, is not known. */
static json_t *segment_json(const struct sgpu_batch *batch, const struct sgpu_batch_segment *s)
{
	const bool response = batch->response, high = s->masking == SGPU_MASKING_AES_GCM;
	const int at = batch->manifest ? sgpu_manifest_segment(batch->manifest, s->id) : -1;
	json_t *failed = s->status == SGPU_OK
				 ? NULL
				 : json_pack("{s:s, s:s}", "code", sgpu_error_name(s->status),
					     "text", s->error_text);

	return json_pack(
		"{s:s, s:s, s:s, s:s, s:I, s:o, s:o*, s:s*, s:o*}", "segment_id", s->id,
		"direction",
		sgpu_direction_name(at >= 0    ? batch->manifest->segments[at].direction
				    : s->input ? SGPU_INPUT
					       : SGPU_OUTPUT),
		"sensitivity_level", sgpu_sensitivity_name(high ? SGPU_HIGH : SGPU_LOW),
		"masking_level",
		s->masking == SGPU_MASKING_AES_GCM ? "MASKING_AES_GCM" : "MASKING_NONE",
		response ? "actual_output_data_size_bytes" : "size",
		(json_int_t)(response ? s->actual_size : s->size), "location",
		sgpu_location_json(&s->location,
				   sgpu_batch_payload_size(batch, (int)(s - batch->segments))),
		"sealed_size", s->sealed ? json_integer((json_int_t)s->sealed_size) : NULL,
		"status",
		!response	       ? NULL
		: s->status == SGPU_OK ? "OK"
				       : "FAILED",
		"error", failed);
}

/* Lists the signatures. Each is verified with the public key that it contains, which need not be
 * trusted. */
static json_t *signatures_json(const struct sgpu_batch *batch)
{
	json_t *list = json_array();

	for (size_t i = 0; i < json_array_size(batch->signatures); i++) {
		struct sgpu_signing_key key;
		const int rc = sgpu_batch_signature(batch, (int)i, &key, NULL);
		json_array_append_new(list,
				      json_pack("{s:s, s:s, s:b}", "kid", key.kid, "kind",
						sgpu_signing_name(key.kind), "verified", rc == 0));
	}
	return list;
}

static json_t *archive_json(const struct sgpu_batch *batch, const char *mac)
{
	json_t *segments = json_array(), *recipients = json_array(), *recipient = NULL;
	char hash[2 * SGPU_SHA256_SIZE + 1];
	size_t i = 0;

	for (int k = 0; k < batch->segment_count; k++) {
		json_array_append_new(segments, segment_json(batch, &batch->segments[k]));
	}
	json_array_foreach (batch->recipients, i, recipient) {
		json_array_append_new(recipients,
				      json_pack("{s:O, s:O}", "kind",
						json_object_get(recipient, "kind"), "kid",
						json_object_get(recipient, "kid")));
	}
	sgpu_hex_encode(batch->manifest_sha256, sizeof(batch->manifest_sha256), hash);
	return json_pack("{s:s, s:o, s:s?, s:s, s:s, s:o, s:o, s:o*, s:o*, s:O*}", "kind",
			 batch->response ? "response"
			 : batch->packed ? "packed"
					 : "batch",
			 "batch_id", sgpu_json_from_bytes(batch->id, sizeof(batch->id)),
			 "manifest_id", batch->manifest ? batch->manifest->id : NULL,
			 "manifest_sha256", hash, "mac", mac, "recipients", recipients, "segments",
			 segments, "signatures", batch->response ? NULL : signatures_json(batch),
			 "counter",
			 batch->response ? NULL : json_integer((json_int_t)batch->counter),
			 "timings", batch->timings);
}

static void print_counter(uint64_t counter)
{
	char text[32] = "";
	const time_t seconds = (time_t)(counter / 1000000);
	struct tm utc;

	if (gmtime_r(&seconds, &utc)) {
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &utc);
	}
	printf("counter     %llu (%s)\n", (unsigned long long)counter, text);
}

/* Returns where a payload is. From malloc; NULL when out of memory. */
static char *location_text(const struct sgpu_location *location)
{
	char *text = NULL;

	if (location->kind == SGPU_LOCATION_INLINE || location->kind == SGPU_LOCATION_NONE) {
		return strdup(location->kind == SGPU_LOCATION_INLINE ? "inline" : "-");
	}
	return asprintf(&text, "%s %s at %llu",
			location->kind == SGPU_LOCATION_LEASE	 ? "lease"
			: location->kind == SGPU_LOCATION_REGION ? "region"
								 : "file",
			location->file ? location->file : location->region,
			(unsigned long long)location->offset) < 0
		       ? NULL
		       : text;
}

static int print_segments(const struct sgpu_batch *batch, const json_t *list)
{
	struct cli_table table = { 0 };
	const json_t *item;
	size_t i;

	cli_row(&table, "segment", "direction", "level", "state", "bytes", "location");
	json_array_foreach (list, i, item) {
		const struct sgpu_batch_segment *s = &batch->segments[i];
		const char *state = batch->response		      ? sgpu_error_name(s->status)
				    : !s->input			      ? "-"
				    : s->sealed			      ? "sealed"
				    : s->masking == SGPU_MASKING_NONE ? "plain"
								      : "unsealed";
		char bytes[24], *place = location_text(&s->location);

		snprintf(bytes, sizeof(bytes), "%llu",
			 (unsigned long long)(batch->response ? s->actual_size : s->size));
		cli_row(&table, s->id, cli_text_of(item, "direction"),
			cli_text_of(item, "sensitivity_level"), state, bytes,
			s->status != SGPU_OK && s->error_text ? s->error_text : place);
		free(place);
	}
	return cli_table_print(&table);
}

static int print_archive(const struct task *task, const struct sgpu_batch *batch)
{
	const json_t *json = task->json, *item = NULL;
	const char *id = cli_text_of(json, "manifest_id"), *mac = cli_text_of(json, "mac");
	size_t i = 0;

	printf("%s\nbatch id    %s\nmanifest    %s\n            sha256 %s\n",
	       batch->packed ? "packed batch" : cli_text_of(json, "kind"),
	       cli_text_of(json, "batch_id"), *id ? id : "-", cli_text_of(json, "manifest_sha256"));
	if (batch->counter) {
		print_counter(batch->counter);
	}
	printf("mac         %s%s\n", mac,
	       strcmp(mac, "not checked") == 0 ? ", no key was given" : "");
	json_array_foreach (json_object_get(json, "recipients"), i, item) {
		const char *kid = cli_text_of(item, "kid");
		cli_print_line(stdout, "recipient   %s  %s%s", kid, cli_text_of(item, "kind"),
			       task->kid && !strcmp(task->kid, kid) ? "  (the key given)" : "");
	}
	json_array_foreach (json_object_get(json, "signatures"), i, item) {
		const char *kid = cli_text_of(item, "kid");
		cli_print_line(stdout, "signature   %s  %s, %s", *kid ? kid : "-",
			       cli_text_of(item, "kind"),
			       json_is_true(json_object_get(item, "verified")) ? "verified"
									       : "does not verify");
	}
	putchar('\n');
	return print_segments(batch, json_object_get(json, "segments"));
}

static int authenticate(struct task *task, const struct sgpu_batch *batch, const char **mac,
			struct sgpu_error *error)
{
	uint8_t batch_key[SGPU_KEY_SIZE];
	int rc = 0;

	*mac = batch->has_mac ? "not checked" : "none";
	if (!task->keys.count) {
		return 0;
	}
	for (int i = 0; i < task->keys.count; i++) {
		rc = sgpu_batch_unwrap(batch, &task->keys.list[i], 1, batch_key, error);
		if (rc != SGPU_EKEY) {
			task->kid = task->keys.list[i].kid;
			break;
		}
	}
	rc = rc ? rc : sgpu_batch_verify(batch, batch_key, error);
	sgpu_wipe(batch_key, sizeof(batch_key));
	*mac = "verified";
	return rc;
}

/* Inspects an archive. Reads it to its end first, so that a truncated one is an error. */
static int inspect_archive(struct task *task, int in, struct sgpu_error *error)
{
	struct sgpu_tar_reader *reader = NULL;
	struct sgpu_batch *batch = NULL;
	const char *mac = NULL;
	int segment = 0;
	int rc = sgpu_tar_open_block(in, task->in_name, task->first, &reader, error);

	rc = rc ? rc : sgpu_batch_read(reader, SGPU_READ_EITHER, &batch, error);
	while (!rc && segment >= 0) {
		rc = sgpu_batch_next_payload(reader, batch, &segment, error);
	}
	rc = rc ? rc : authenticate(task, batch, &mac, error);
	if (!rc) {
		task->json = archive_json(batch, mac);
		rc = task->json ? 0 : sgpu_fail_nomem(error);
	}
	if (!rc && !cli_json) {
		task->status = print_archive(task, batch);
	}
	sgpu_batch_free(&batch);
	sgpu_tar_close(&reader);
	return rc;
}

/* ---- a bare sealed file ---- */
/* Finds the size of the whole input, including the bytes in `first`. */
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
	int rc = 0;
	while (!rc && got == sizeof(buffer)) {
		rc = sgpu_read(in, task->in_name, buffer, sizeof(buffer), &got, error);
		*size += rc ? 0 : got;
	}
	return rc;
}

/* Tries whether a key fits. Only an oct key can be that of a bare sealed file. */
static int try_keys(const struct task *task, bool *fits, struct sgpu_error *error)
{
	struct sgpu_sealed_keys keys;
	int rc = 0;

	for (int i = 0; i < task->keys.count && !*fits; i++) {
		if (task->keys.list[i].kind != SGPU_KEY_OCT) {
			rc = sgpu_fail(error, SGPU_EKEY,
				       "only an oct key can fit a bare sealed file");
			continue;
		}
		rc = sgpu_sealed_keys_open(task->keys.list[i].secret, task->context.data,
					   task->context.size, task->first, &keys, error);
		sgpu_wipe(&keys, sizeof(keys));
		*fits = rc == 0;
	}
	return rc;
}

/* Describes sealed data. They have no magic number, so without a key that fits, an input is taken
 * for sealed data only if no other format is recognised. */
static int inspect_sealed(struct task *task, int in, enum sgpu_sniffed kind,
			  struct sgpu_error *error)
{
	char salt[2 * SGPU_SALT_SIZE + 1], commitment[2 * SGPU_COMMITMENT_SIZE + 1];
	uint64_t sealed_size = 0, size = 0;
	bool key_fits = false;
	int rc = whole_size(task, in, &sealed_size, error);

	if (rc) {
		return rc;
	}
	const bool fits = sgpu_sealed_plaintext_size(sealed_size, &size);
	rc = fits ? try_keys(task, &key_fits, error) : 0;
	if (!key_fits && (!fits || kind != SGPU_SNIFFED_UNKNOWN)) {
		return sgpu_fail_sniffed(error, in, task->in_name, task->first, task->first_size,
					 "a batch, a response or sealed data");
	}
	if (rc) {
		return rc;
	}
	sgpu_hex_encode(task->first, SGPU_SALT_SIZE, salt);
	sgpu_hex_encode(task->first + SGPU_SALT_SIZE, SGPU_COMMITMENT_SIZE, commitment);
	const uint64_t chunks = size / SGPU_CHUNK + 1;
	if (cli_json) {
		/* null: no key was given; one that does not fit is an error */
		task->json =
			json_pack("{s:s, s:I, s:I, s:I, s:s, s:s, s:o}", "kind", "sealed",
				  "sealed_size", (json_int_t)sealed_size, "size", (json_int_t)size,
				  "chunks", (json_int_t)chunks, "salt", salt, "commitment",
				  commitment, "key_fits", key_fits ? json_true() : json_null());
		return 0;
	}
	printf("%s\nbytes       %llu, of plaintext %llu\nchunks      %llu\nsalt        "
	       "%s\ncommitment  %s\n",
	       key_fits ? "sealed data, and the key and context fit"
			: "likely sealed data: random, without a mark, of a length that fits",
	       (unsigned long long)sealed_size, (unsigned long long)size,
	       (unsigned long long)chunks, salt, commitment);
	return 0;
}

/* ---- a key file: kinds and ids of its keys, and nothing else that is in it ---- */
static int inspect_key(struct task *task, int in, struct sgpu_error *error)
{
	char text[KEY_FILE_MAX + 1];
	struct sgpu_key_set set;
	json_t *keys, *key;
	size_t got = 0, i;

	memcpy(text, task->first, task->first_size);
	int rc = sgpu_read(in, task->in_name, text + task->first_size,
			   sizeof(text) - task->first_size, &got, error);
	rc = rc ? rc : sgpu_key_set_parse(text, task->first_size + got, task->in_name, &set, error);
	sgpu_wipe(text, sizeof(text));
	if (rc) {
		return rc;
	}
	keys = seal_keys_json(&set);
	sgpu_key_set_clear(&set);
	if (cli_json) {
		task->json = json_pack("{s:s, s:o}", "kind", "key", "keys", keys);
		return 0;
	}
	puts("key");
	json_array_foreach (keys, i, key) {
		const struct seal_key_words words = seal_key_words(key);
		printf("%-10s  %s, %s\nkid         %s\n", words.use, words.kind, words.secret,
		       words.kid);
	}
	json_decref(keys);
	return 0;
}

/* ---- the verb ---- */
static int run(struct task *task, int in, struct sgpu_error *error)
{
	const int rc = sgpu_read(in, task->in_name, task->first, sizeof(task->first),
				 &task->first_size, error);
	if (rc) {
		return rc;
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
		return inspect_key(task, in, error);
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
		status = run(&task, in, &error) ? cli_error(&error)
			 : cli_json		? cli_print_json(task.json, stdout, JSON_COMPACT)
						: task.status;
	}
	sgpu_wipe(&task.keys, sizeof(task.keys));
	sgpu_wipe(task.first, sizeof(task.first));
	cli_input_close(in);
	return cli_finish(status);
}
