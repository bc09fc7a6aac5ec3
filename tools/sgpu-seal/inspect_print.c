/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal inspect: the answer, for people and for scripts. Nothing secret is in it.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <sgpu/base.h>

#include "batch/index.h"
#include "cli.h"
#include "parts.h"

static const char *const mac_texts[] = { "none", "not checked, no key was given", "verified" };
static const char *const mac_names[] = { "none", "not checked", "verified" };

static void encode(const void *data, size_t size, char *text)
{
	sgpu_base64url_encode(data, size, text);
}

static void print_location(const struct sgpu_location *location)
{
	switch (location->kind) {
	case SGPU_LOCATION_INLINE:
		printf("inline");
		break;
	case SGPU_LOCATION_FILE:
	case SGPU_LOCATION_REGION:
	case SGPU_LOCATION_LEASE:
		printf("%s ", sgpu_location_words[location->kind]);
		cli_print_text(stdout, location->file ? location->file : location->region);
		printf(" at %llu", (unsigned long long)location->offset);
		break;
	default:
		printf("-");
	}
}

static const struct sgpu_segment *in_manifest(const struct inspected *inspected, const char *id)
{
	const int at = sgpu_manifest_segment(inspected->manifest, id);
	return at < 0 ? NULL : &inspected->manifest->segments[at];
}

static void print_segment(const struct inspected *inspected, const struct sgpu_batch_segment *s,
			  int width)
{
	const bool response = inspected->batch->response;
	const struct sgpu_segment *m = in_manifest(inspected, s->id);
	const char *state = response			      ? sgpu_error_name(s->status)
			    : s->sealed			      ? "sealed"
			    : s->masking == SGPU_MASKING_NONE ? "plain"
							      : "unsealed";
	if (!response && !s->input) {
		state = "-";
	}
	printf("%-*s  %-12s  %-5s  %-9s  %15llu  ", width, s->id,
	       m ? sgpu_direction_name(m->direction) : "-",
	       m ? sgpu_sensitivity_name(m->sensitivity) : "-", state,
	       (unsigned long long)(response ? s->actual_size : s->size));
	if (s->status != SGPU_OK && s->error_text) {
		cli_print_text(stdout, s->error_text);
	} else {
		print_location(&s->location);
	}
	putchar('\n');
}

static void print_recipients(const struct inspected *inspected)
{
	size_t i = 0;
	json_t *recipient = NULL;
	json_array_foreach (inspected->batch->recipients, i, recipient) {
		const char *kid = json_string_value(json_object_get(recipient, "kid"));
		cli_print_line(stdout, "recipient   %s  %s%s", kid,
			       json_string_value(json_object_get(recipient, "kind")),
			       inspected->kid && !strcmp(inspected->kid, kid) ? "  (the key given)"
									      : "");
	}
}

/* A signature stands for itself: it needs no key to be verified, and says nothing of whether its
 * key is trusted. */
static void print_signatures(const struct sgpu_batch *batch)
{
	for (size_t i = 0; i < json_array_size(batch->signatures); i++) {
		struct sgpu_signing_key key;
		const int code = sgpu_batch_signature(batch, (int)i, &key, NULL);
		cli_print_line(stdout, "signature   %s  %s, %s",
			       key.kind == SGPU_SIGNING_NONE ? "-" : key.kid,
			       sgpu_signing_name(key.kind), code ? "does not verify" : "verified");
	}
}

static json_t *signatures_json(const struct sgpu_batch *batch)
{
	json_t *list = json_array();
	for (size_t i = 0; i < json_array_size(batch->signatures); i++) {
		struct sgpu_signing_key key;
		const int code = sgpu_batch_signature(batch, (int)i, &key, NULL);
		json_array_append_new(list, json_pack("{s:s, s:s, s:b}", "kid", key.kid, "kind",
						      sgpu_signing_name(key.kind), "verified",
						      code == 0));
	}
	return list;
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

static void print_archive(const struct inspected *inspected)
{
	const struct sgpu_batch *batch = inspected->batch;
	char id[SGPU_BASE64URL_MAX(SGPU_BATCH_ID_SIZE)], hash[2 * SGPU_SHA256_SIZE + 1];
	encode(batch->id, sizeof(batch->id), id);
	sgpu_hex_encode(batch->manifest_sha256, sizeof(batch->manifest_sha256), hash);
	printf("%s\nbatch id    %s\nmanifest    %s\n            sha256 %s\n",
	       batch->response ? "response" : "batch", id,
	       inspected->manifest->id ? inspected->manifest->id : "-", hash);
	if (!batch->response && batch->counter) {
		print_counter(batch->counter);
	}
	printf("mac         %s\n", mac_texts[inspected->mac]);
	print_recipients(inspected);
	print_signatures(batch);
	int width = (int)strlen("segment");
	for (int i = 0; i < batch->segment_count; i++) {
		const int length = (int)strlen(batch->segments[i].id);
		width = length > width ? length : width;
	}
	printf("\n%-*s  %-12s  %-5s  %-9s  %15s  %s\n", width, "segment", "direction", "level",
	       "state", "bytes", "location");
	for (int i = 0; i < batch->segment_count; i++) {
		print_segment(inspected, &batch->segments[i], width);
	}
}

void inspected_print(const struct inspected *inspected)
{
	if (inspected->batch) {
		print_archive(inspected);
		return;
	}
	char salt[2 * SGPU_SALT_SIZE + 1], commitment[2 * SGPU_COMMITMENT_SIZE + 1];
	sgpu_hex_encode(inspected->header, SGPU_SALT_SIZE, salt);
	sgpu_hex_encode(inspected->header + SGPU_SALT_SIZE, SGPU_COMMITMENT_SIZE, commitment);
	printf("%s\nbytes       %llu, of plaintext %llu\nchunks      %llu\nsalt        "
	       "%s\ncommitment  %s\n",
	       inspected->key_fits
		       ? "sealed data, and the key and context fit"
		       : "likely sealed data: random, without a mark, of a length that fits",
	       (unsigned long long)inspected->sealed_size, (unsigned long long)inspected->size,
	       (unsigned long long)(inspected->size / SGPU_CHUNK + 1), salt, commitment);
}

/* ---- JSON ---- */
static json_t *segment_json(const struct inspected *inspected, const struct sgpu_batch_segment *s)
{
	const bool response = inspected->batch->response;
	const struct sgpu_segment *m = in_manifest(inspected, s->id);
	json_t *json =
		json_pack("{s:s, s:s, s:s, s:s, s:I, s:o}", "segment_id", s->id, "direction",
			  m ? sgpu_direction_name(m->direction) : "", "sensitivity_level",
			  m ? sgpu_sensitivity_name(m->sensitivity) : "", "masking_level",
			  s->masking == SGPU_MASKING_AES_GCM ? "MASKING_AES_GCM" : "MASKING_NONE",
			  response ? "actual_output_data_size_bytes" : "size",
			  (json_int_t)(response ? s->actual_size : s->size), "location",
			  sgpu_location_json(&s->location));
	if (json && s->sealed) {
		json_object_set_new(json, "sealed_size", json_integer((json_int_t)s->sealed_size));
	}
	if (json && response) {
		json_object_set_new(json, "status",
				    json_string(s->status == SGPU_OK ? "OK" : "FAILED"));
	}
	if (json && s->status != SGPU_OK) {
		json_object_set_new(json, "error",
				    json_pack("{s:s, s:s}", "code", sgpu_error_name(s->status),
					      "text", s->error_text));
	}
	return json;
}

static json_t *archive_json(const struct inspected *inspected)
{
	const struct sgpu_batch *batch = inspected->batch;
	json_t *segments = json_array();
	json_t *recipients = json_array();
	size_t i = 0;
	json_t *recipient = NULL;
	for (int k = 0; k < batch->segment_count; k++) {
		json_array_append_new(segments, segment_json(inspected, &batch->segments[k]));
	}
	json_array_foreach (batch->recipients, i, recipient) {
		json_array_append_new(recipients,
				      json_pack("{s:O, s:O}", "kind",
						json_object_get(recipient, "kind"), "kid",
						json_object_get(recipient, "kid")));
	}
	char hash[2 * SGPU_SHA256_SIZE + 1];
	sgpu_hex_encode(batch->manifest_sha256, sizeof(batch->manifest_sha256), hash);
	json_t *json = json_pack("{s:s, s:o, s:s?, s:s, s:s, s:o, s:o}", "kind",
				 batch->response ? "response" : "batch", "batch_id",
				 sgpu_json_from_bytes(batch->id, sizeof(batch->id)), "manifest_id",
				 inspected->manifest->id, "manifest_sha256", hash, "mac",
				 mac_names[inspected->mac], "recipients", recipients, "segments",
				 segments);
	if (json && !batch->response) {
		json_object_set_new(json, "signatures", signatures_json(batch));
		json_object_set_new(json, "counter", json_integer((json_int_t)batch->counter));
	}
	if (json && batch->timings) {
		json_object_set(json, "timings", batch->timings);
	}
	return json;
}

static json_t *sealed_json(const struct inspected *inspected)
{
	char salt[2 * SGPU_SALT_SIZE + 1], commitment[2 * SGPU_COMMITMENT_SIZE + 1];
	sgpu_hex_encode(inspected->header, SGPU_SALT_SIZE, salt);
	sgpu_hex_encode(inspected->header + SGPU_SALT_SIZE, SGPU_COMMITMENT_SIZE, commitment);
	/* A key that does not fit ends in an error, so it is true or nobody looked. */
	return json_pack("{s:s, s:I, s:I, s:I, s:s, s:s, s:o}", "kind", "sealed", "sealed_size",
			 (json_int_t)inspected->sealed_size, "size", (json_int_t)inspected->size,
			 "chunks", (json_int_t)(inspected->size / SGPU_CHUNK + 1), "salt", salt,
			 "commitment", commitment, "key_fits",
			 inspected->key_fits ? json_true() : json_null());
}

int inspected_print_json(const struct inspected *inspected, struct sgpu_error *error)
{
	json_t *json = inspected->batch ? archive_json(inspected) : sealed_json(inspected);
	if (!json) {
		return sgpu_fail_nomem(error);
	}
	json_dumpf(json, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
	putchar('\n');
	json_decref(json);
	return 0;
}
