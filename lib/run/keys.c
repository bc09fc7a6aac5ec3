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

static struct sgpu_run_key *slot_of(const struct sgpu_run *run, int in_batch, bool result)
{
	return &run->keys[2 * in_batch + result];
}

/* Returns the device on which a segment of the batch is opened, or its result sealed, or -1 for
 * neither. */
static int device_of(const struct sgpu_run *run, int in_batch, bool result)
{
	const struct sgpu_batch_segment *s = &run->job.batch->segments[in_batch];
	const struct sgpu_plan *plan = run->job.plan;
	const int segment = run->job.to_manifest[in_batch];
	const int buffer = result ? plan->out_buffer[segment] : plan->in_buffer[segment];

	if (buffer < 0 || !(result ? s->masking == SGPU_MASKING_AES_GCM : s->sealed)) {
		return -1;
	}
	return plan->buffers[buffer].device;
}

/* Opens an input's key by its header, or draws a result's. */
static int make_material(struct sgpu_run *run, int in_batch, bool result,
			 struct sgpu_sealed_keys *material, struct sgpu_error *error)
{
	const struct sgpu_batch_segment *s = &run->job.batch->segments[in_batch];
	uint8_t key[SGPU_KEY_SIZE], context[SGPU_SEGMENT_CONTEXT_MAX];
	size_t context_size = 0;
	int rc = sgpu_batch_segment_key(run->job.batch, run->job.batch_key, s->id,
					result ? run->job.response_id : NULL, key, context,
					&context_size, error);

	if (rc == SGPU_OK && !result) {
		rc = sgpu_sealed_keys_open(key, context, context_size, s->header, material, error);
		rc = rc == SGPU_EKEY ? SGPU_EAUTH : rc;
	} else if (rc == SGPU_OK) {
		rc = sgpu_sealed_keys_new(key, context, context_size, material, error);
	}
	sgpu_wipe(key, sizeof(key));
	return rc;
}

/* A value of the batch that is opened or sealed. */
struct value {
	int in_batch;
	bool result;
};

/* Lists values of one device whose key was never loaded: `first`, those of its kind after it, and
 * then the results if it is an input. Returns how many. */
static int list_group(const struct sgpu_run *run, struct value first,
		      struct value group[KEYS_AT_ONCE])
{
	const int device = device_of(run, first.in_batch, first.result);
	int count = 0;

	group[count++] = first;
	for (int result = first.result; result < 2; result++) {
		for (int i = result == first.result ? first.in_batch + 1 : 0;
		     i < run->job.batch->segment_count && count < KEYS_AT_ONCE; i++) {
			if (!slot_of(run, i, result)->made && device_of(run, i, result) == device) {
				group[count++] = (struct value){ i, result };
			}
		}
	}
	return count;
}

static int load_group(struct sgpu_run *run, struct value first, struct sgpu_error *error)
{
	struct sgpu_sealed_keys material[KEYS_AT_ONCE];
	struct sgpu_device_key *loaded[KEYS_AT_ONCE];
	struct value group[KEYS_AT_ONCE];
	const int count = list_group(run, first, group);
	struct sgpu_stream *stream;
	int made = 0, rc;

	rc = sgpu_run_plan_stream(run, device_of(run, first.in_batch, first.result), &stream,
				  error);
	while (rc == SGPU_OK && made < count) {
		/* Another value whose key cannot be made fails when its own turn comes. */
		rc = make_material(run, group[made].in_batch, group[made].result, &material[made],
				   made == 0 ? error : NULL);
		made += rc == SGPU_OK;
	}
	rc = made > 0 ? sgpu_device_keys_load(stream, material, made, loaded, error) : rc;
	for (int i = 0; rc == SGPU_OK && i < made; i++) {
		struct sgpu_run_key *slot = slot_of(run, group[i].in_batch, group[i].result);

		slot->key = loaded[i];
		slot->made = true;
		sgpu_sealed_header(&material[i], slot->header);
	}
	sgpu_wipe(material, sizeof(material));
	return rc;
}

int sgpu_run_key(struct sgpu_run *run, int in_batch, bool result, struct sgpu_device_key **key,
		 struct sgpu_error *error)
{
	const struct sgpu_run_key *slot = slot_of(run, in_batch, result);
	int rc = slot->key ? SGPU_OK : load_group(run, (struct value){ in_batch, result }, error);

	*key = slot->key;
	return rc;
}

const uint8_t *sgpu_run_result_header(const struct sgpu_run *run, int in_batch)
{
	return slot_of(run, in_batch, true)->header;
}

void sgpu_run_drop_key(struct sgpu_run *run, int in_batch, bool result)
{
	sgpu_device_key_free(&slot_of(run, in_batch, result)->key);
}
