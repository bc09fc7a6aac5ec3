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

/* Opens an input's key by its header, or draws a result's. */
static int make_material(const struct sgpu_payload *p, struct sgpu_sealed_keys *material,
			 struct sgpu_error *error)
{
	const struct sgpu_job *job = &p->run->job;
	uint8_t key[SGPU_KEY_SIZE], context[SGPU_SEGMENT_CONTEXT_MAX];
	size_t context_size = 0;
	int rc = sgpu_batch_segment_key(job->batch, job->batch_key, p->of->id,
					p->result ? job->response_id : NULL, key, context,
					&context_size, error);

	if (rc == SGPU_OK && !p->result) {
		rc = sgpu_sealed_keys_open(key, context, context_size, p->of->header, material,
					   error);
		rc = rc == SGPU_EKEY ? SGPU_EAUTH : rc;
	} else if (rc == SGPU_OK) {
		rc = sgpu_sealed_keys_new(key, context, context_size, material, error);
	}
	sgpu_wipe(key, sizeof(key));
	return rc;
}

/* Lists `first`, and those after it on its device whose key was never loaded: inputs come before
 * results. Returns how many. */
static int list_group(struct sgpu_payload *first, struct sgpu_payload *group[KEYS_AT_ONCE])
{
	const struct sgpu_run *run = first->run;
	int count = 0;

	group[count++] = first;
	for (struct sgpu_payload *p = first + 1;
	     p < run->payloads + 2 * run->job.batch->segment_count && count < KEYS_AT_ONCE; p++) {
		if (p->sealed && !p->key_made && p->device == first->device) {
			group[count++] = p;
		}
	}
	return count;
}

static int load_group(struct sgpu_payload *first, struct sgpu_error *error)
{
	struct sgpu_sealed_keys material[KEYS_AT_ONCE];
	struct sgpu_device_key *loaded[KEYS_AT_ONCE];
	struct sgpu_payload *group[KEYS_AT_ONCE];
	const int count = list_group(first, group);
	struct sgpu_stream *stream;
	int made = 0, rc = sgpu_run_plan_stream(first->run, first->device, &stream, error);

	while (rc == SGPU_OK && made < count) {
		/* Another payload whose key cannot be made fails when its own turn comes. */
		rc = make_material(group[made], &material[made], made == 0 ? error : NULL);
		made += rc == SGPU_OK;
	}
	rc = made > 0 ? sgpu_device_keys_load(stream, material, made, loaded, error) : rc;
	for (int i = 0; rc == SGPU_OK && i < made; i++) {
		group[i]->key = loaded[i];
		group[i]->key_made = true;
		sgpu_sealed_header(&material[i], group[i]->own_header);
	}
	sgpu_wipe(material, sizeof(material));
	return rc;
}

int sgpu_payload_key(struct sgpu_payload *p, struct sgpu_error *error)
{
	return !p->sealed || p->key ? SGPU_OK : load_group(p, error);
}
