/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal inspect: describes a batch, a response, or a file that is sealed to a public key. The
 * description contains no secrets.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sgpu/base.h>

#include "batch/index.h"
#include "parts.h"

struct task {
	struct seal_keys keys;
	const char *in_name;
	const char *kid; /* of the given key that is a recipient, or NULL */
	json_t *json;	 /* what --json prints */
	int status;	 /* of printing without --json */
};

const struct cli_option inspect_options[] = {
	CLI_COMMON,
	CLI_PASSPHRASE,
	{ "key", 'k', "KEY", "also check the mac with this key", CLI_LIST(struct task, keys.own) },
	CLI_END,
};

/* Where the payload is, or else where it goes. */
static const struct sgpu_location *location_of(const struct sgpu_batch_segment *s)
{
	return s->location.kind || !s->place ? &s->location : s->place;
}

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
		sgpu_location_json(location_of(s),
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
		char bytes[24], *place = location_text(location_of(s));

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
	int rc = sgpu_tar_open(in, task->in_name, &reader, error);

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

/* Describes a file that is sealed to a public key. False: it is none, or a pipe. */
static bool inspect_file(struct task *task, int in)
{
	uint8_t header[SGPU_SEALED_TO];
	char kid[SGPU_KID_SIZE + 1];
	size_t got = 0;

	if (sgpu_pread(in, task->in_name, header, sizeof(header), 0, &got, NULL) ||
	    !sgpu_sealed_to_kid(header, got, kid)) {
		return false;
	}
	if (!cli_json) {
		printf("sealed file\nrecipient   %s\n", kid);
	}
	task->json = json_pack("{s:s, s:[{s:s, s:s}]}", "kind", "file", "recipients", "kind",
			       SGPU_KIND_HPKE, "kid", kid);
	return true;
}

int verb_inspect(int argc, char **argv)
{
	static struct task task;
	struct sgpu_error error = { 0 };
	char **paths;
	int in = -1, status = cli_read(argc, argv, &task, &paths);

	status = status ? status : seal_keys_load(&task.keys, SEAL_READER);
	status = status ? status : cli_input(paths[0], &task.in_name, &in);
	if (!status) {
		cli_signals(NULL);
		const int rc = inspect_file(&task, in) ? 0 : inspect_archive(&task, in, &error);

		status = rc	    ? cli_error(&error)
			 : cli_json ? cli_print_json(task.json, stdout, JSON_COMPACT)
				    : task.status;
	}
	seal_keys_clear(&task.keys);
	cli_input_close(in);
	return cli_finish(status);
}
