/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of a batch's sealed segments on its devices. The index has the header of each sealed
 * input, so that a key is known before its payload arrives; and a result's header is drawn with its
 * key. Keys are loaded in groups, inputs before results, since one message to a device costs as
 * much as many keys in it.
 */
#include <stdlib.h>

#include "crypto/crypto.h"
#include "run/private.h"

enum { KEYS_AT_ONCE = 64 };

/* Returns the device on which a segment of the batch is opened or sealed, or -1 for neither. */
static int device_of(const struct sgpu_run *run, int in_batch)
{
	const struct sgpu_batch_segment *s = &run->job.batch->segments[in_batch];
	const struct sgpu_plan *plan = run->job.plan;
	const int segment = run->job.to_manifest[in_batch];
	const int buffer = s->input ? plan->in_buffer[segment] : plan->out_buffer[segment];

	if (buffer < 0 || !(s->input ? s->sealed : s->masking == SGPU_MASKING_AES_GCM)) {
		return -1;
	}
	return plan->buffers[buffer].device;
}

/* Opens an input's key by its header, or draws a result's. */
static int make_material(struct sgpu_run *run, int in_batch, struct sgpu_sealed_keys *material,
			 struct sgpu_error *error)
{
	const struct sgpu_batch_segment *s = &run->job.batch->segments[in_batch];
	uint8_t key[SGPU_KEY_SIZE], context[SGPU_SEGMENT_CONTEXT_MAX];
	size_t context_size = 0;
	int rc = sgpu_batch_segment_key(run->job.batch, run->job.batch_key, s->id,
					s->input ? NULL : run->job.response_id, key, context,
					&context_size, error);

	if (rc == SGPU_OK && s->input) {
		rc = sgpu_sealed_keys_open(key, context, context_size, s->header, material, error);
		rc = rc == SGPU_EKEY ? SGPU_EAUTH : rc;
	} else if (rc == SGPU_OK) {
		rc = sgpu_sealed_keys_new(key, context, context_size, material, error);
		if (rc == SGPU_OK) {
			sgpu_sealed_header(material, run->headers[in_batch]);
		}
	}
	sgpu_wipe(key, sizeof(key));
	return rc;
}

/* Lists segments of one device that lack a key: `in_batch`, those of its kind after it, and then
 * those of the other kind if the first was an input. Returns how many. */
static int list_group(const struct sgpu_run *run, int in_batch, int group[KEYS_AT_ONCE])
{
	const struct sgpu_batch *batch = run->job.batch;
	const int device = device_of(run, in_batch);
	const bool inputs = batch->segments[in_batch].input;
	int count = 0;

	for (int pass = 0; pass < (inputs ? 2 : 1); pass++) {
		for (int i = pass == 0 ? in_batch : 0;
		     i < batch->segment_count && count < KEYS_AT_ONCE; i++) {
			if (batch->segments[i].input == (inputs && pass == 0) && !run->keys[i] &&
			    device_of(run, i) == device) {
				group[count++] = i;
			}
		}
	}
	return count;
}

int sgpu_run_key(struct sgpu_run *run, int in_batch, struct sgpu_device_key **key,
		 struct sgpu_error *error)
{
	struct sgpu_sealed_keys material[KEYS_AT_ONCE];
	struct sgpu_device_key *loaded[KEYS_AT_ONCE];
	struct sgpu_stream *stream;
	int group[KEYS_AT_ONCE], count = 0, made = 0, rc = SGPU_OK;

	if (!run->keys[in_batch]) {
		rc = sgpu_run_plan_stream(run, device_of(run, in_batch), &stream, error);
		count = list_group(run, in_batch, group);
		/* Another segment whose key cannot be made fails when its own turn comes. */
		for (; rc == SGPU_OK && made < count; made++) {
			if (make_material(run, group[made], &material[made],
					  made == 0 ? error : NULL) != SGPU_OK) {
				rc = made == 0 ? error->code : rc;
				break;
			}
		}
		rc = rc ? rc : sgpu_device_keys_load(stream, material, made, loaded, error);
		for (int i = 0; rc == SGPU_OK && i < made; i++) {
			run->keys[group[i]] = loaded[i];
		}
		sgpu_wipe(material, sizeof(material));
	}
	*key = run->keys[in_batch];
	return rc;
}

void sgpu_run_drop_key(struct sgpu_run *run, int in_batch)
{
	sgpu_device_key_free(&run->keys[in_batch]);
}
