/* SPDX-License-Identifier: Apache-2.0
 *
 * One line a batch, for whoever keeps the logs of a runner: which batch, by whose key, how much, how long, what came of it.
 * Nothing in it is secret: the host sees all of it in the batch.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <sgpu/base.h>
#include <sgpu/json.h>

#include "cli.h"
#include "report.h"

/* The key that the batch was opened with, as far as it names one of ours; "" without. */
static const char *key_of(const struct sgpu_batch *batch, const struct sgpu_key *keys, int count)
{
	size_t i = 0;
	json_t *recipient = NULL;

	json_array_foreach(batch->recipients, i, recipient) {
		const char *kid = json_string_value(json_object_get(recipient, "kid"));
		for (int k = 0; kid && k < count; k++) {
			if (!strcmp(kid, keys[k].kid)) {
				return keys[k].kid;
			}
		}
	}
	return "";
}

static json_t *manifest_id(const struct sgpu_batch *batch)
{
	json_t *manifest = NULL;

	if (batch->manifest_text && !sgpu_json_parse(batch->manifest_text, batch->manifest_size, &manifest, NULL, NULL, NULL)) {
		json_t *id = json_object_get(manifest, "manifest_id");
		id = json_is_string(id) ? json_incref(id) : NULL;
		json_decref(manifest);
		return id ? id : json_string("");
	}
	return json_string("");
}

void report_batch(const struct sgpu_run *run, const struct sgpu_key *keys, int count, int code)
{
	const struct sgpu_batch *batch = sgpu_run_get_batch(run);
	char batch_id[SGPU_BASE64URL_MAX(SGPU_BATCH_ID_SIZE)];
	struct sgpu_run_progress p;

	if (cli_quiet || !batch) {
		return; /* what is no batch has no id */
	}
	json_t *manifest = manifest_id(batch);
	const char *name = manifest ? json_string_value(manifest) : "", *kid = key_of(batch, keys, count);

	sgpu_run_get_progress(run, &p);
	sgpu_base64url_encode(batch->id, sizeof(batch->id), batch_id);
	if (cli_json) {
		cli_print_json(json_pack("{s:{s:s, s:s, s:s, s:I, s:I, s:f, s:s}}", "batch", "batch_id", batch_id,
					 "manifest_id", name, "kid", kid, "bytes_in", (json_int_t)p.bytes_in, "bytes_out",
					 (json_int_t)p.bytes_out, "elapsed_ms", (double)p.elapsed_ns / 1e6, "status",
					 sgpu_error_name(code)),
			       stderr, JSON_COMPACT);
	} else {
		cli_note("batch %s, manifest '%s', key %s: %" PRIu64 " bytes in, %" PRIu64 " out, %.1f ms, %s", batch_id, name,
			 *kid ? kid : "none", p.bytes_in, p.bytes_out, (double)p.elapsed_ns / 1e6, sgpu_error_name(code));
	}
	json_decref(manifest);
}
