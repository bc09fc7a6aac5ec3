/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal inspect: describes a batch, a response, or a file that is sealed to a public key,
 * without its secrets.
 */
#include <time.h>

#include <sgpu/base.h>

#include "batch/index.h"
#include "crypto/crypto.h"
#include "parts.h"

struct task {
	struct seal_keys keys;
	const char *in_name;
	const char *kid; /* of the given key that is a recipient, or NULL */
	json_t *json;
};

const struct cli_option inspect_options[] = {
	{ CLI_ROWS(passphrase_rows) },
	{ "key", 'k', "KEY", "also check the mac with this key", CLI_LIST(struct task, keys.own) },
	CLI_END,
};

/* Without a manifest, nobody knows which outputs are inputs, too. */
static json_t *segment_json(const struct sgpu_batch *batch, const struct sgpu_batch_segment *s)
{
	/* Where the payload is, or else where it goes. */
	const struct sgpu_location *at_place =
		s->location.kind || !s->place ? &s->location : s->place;
	const uint64_t size = sgpu_batch_payload_size(batch, (int)(s - batch->segments));
	const int at = batch->manifest ? sgpu_manifest_segment(batch->manifest, s->id) : -1;
	json_t *in_index = sgpu_segment_json(s, batch->response),
	       *json = json_pack(
		       "{s:s, s:s, s:s, s:o}", "segment_id", s->id, "direction",
		       sgpu_direction_name(at >= 0    ? batch->manifest->segments[at].direction
					   : s->input ? SGPU_INPUT
						      : SGPU_OUTPUT),
		       "sensitivity_level",
		       sgpu_sensitivity_name(s->masking == SGPU_MASKING_NONE ? SGPU_LOW
									     : SGPU_HIGH),
		       "location", sgpu_location_json(at_place, size));

	json_object_del(in_index, "header");
	json_object_del(in_index, "kt128");
	json_object_update(json, in_index);
	json_decref(in_index);
	return json;
}

/* Each signature is verified with the public key in it, which need not be trusted. */
static json_t *signatures_json(const struct sgpu_batch *batch)
{
	json_t *list = json_array(), *entry;
	size_t i;

	json_array_foreach (batch->signatures, i, entry) {
		struct sgpu_key key;
		int rc = sgpu_signature_key(entry, SGPU_BATCH_TYP, &key, NULL);

		rc = rc ? rc : sgpu_signature_verify(entry, batch->payload, &key, NULL);
		json_array_append_new(list,
				      json_pack("{s:s, s:s, s:b}", "kid", key.kid, "kind",
						sgpu_key_name(key.kind), "verified", rc == 0));
	}
	return list;
}

static json_t *archive_json(const struct task *task, const struct sgpu_batch *batch,
			    const char *mac)
{
	const time_t seconds = (time_t)(batch->counter / 1000000);
	struct tm utc;
	char sealed_at[32] = "";
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
	if (!batch->response && gmtime_r(&seconds, &utc)) {
		strftime(sealed_at, sizeof(sealed_at), "%Y-%m-%dT%H:%M:%SZ", &utc);
	}
	return json_pack(
		"{s:s, s:o, s:s?, s:s, s:s, s:s*, s:o, s:o, s:o*, s:o*, s:s*, s:O*}", "kind",
		batch->response ? "response"
		: batch->packed ? "packed"
				: "batch",
		"batch_id", sgpu_json_from_bytes(batch->id, sizeof(batch->id)), "manifest_id",
		batch->manifest ? batch->manifest->id : NULL, "manifest_sha256", hash, "mac", mac,
		"key", task->kid, "recipients", recipients, "segments", segments, "signatures",
		batch->response ? NULL : signatures_json(batch), "counter",
		batch->response ? NULL : json_integer((json_int_t)batch->counter), "sealed_at",
		batch->counter ? sealed_at : NULL, "timings", batch->timings);
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

/* Reads an archive to its end first, so that a truncated one is an error. */
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
		task->json = archive_json(task, batch, mac);
		rc = task->json ? 0 : sgpu_fail_nomem(error);
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
	task->json = json_pack("{s:s, s:[{s:s, s:s}]}", "kind", "file", "recipients", "kind",
			       SGPU_KIND_HPKE, "kid", kid);
	return true;
}

int verb_inspect(int argc, char **argv)
{
	static const char *const of_batch[][2] = {
		{ "segments", "segment_id direction sensitivity_level size sealed_size location" },
		{ NULL, NULL },
	};
	static const char *const of_response[][2] = {
		{ "segments", "segment_id direction sensitivity_level "
			      "actual_output_data_size_bytes status error location" },
		{ NULL, NULL },
	};
	static struct task task;
	struct sgpu_error error = { 0 };
	char **paths;
	int in = -1, status = cli_read(argc, argv, &task, &paths);

	status = status ? status : seal_keys_load(&task.keys, SEAL_READER);
	status = status ? status : cli_input(paths[0], &task.in_name, &in);
	if (!status) {
		cli_signals(NULL);
		const int rc = inspect_file(&task, in) ? 0 : inspect_archive(&task, in, &error);

		if (rc) {
			status = cli_error(&error);
		} else if (cli_json) {
			status = cli_print_json(task.json, stdout, JSON_COMPACT);
		} else {
			const bool batch = json_object_get(task.json, "counter");

			cli_lists(stdout, task.json, batch ? of_batch : of_response);
			json_decref(task.json);
		}
	}
	seal_keys_clear(&task.keys);
	return cli_finish(status);
}
