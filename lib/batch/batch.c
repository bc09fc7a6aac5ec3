/* SPDX-License-Identifier: Apache-2.0
 *
 * struct sgpu_batch: its memory, its segments by id, the size of a payload.
 */
#include <stdlib.h>
#include <string.h>

#include "index.h"

void sgpu_batch_free(struct sgpu_batch **batch)
{
	if (!batch || !*batch) {
		return;
	}
	struct sgpu_batch *b = *batch;
	for (int i = 0; b->segments && i < b->segment_count; i++) {
		free(b->segments[i].id);
		free(b->segments[i].location.file);
		free(b->segments[i].location.array);
		free(b->segments[i].place);
		free(b->segments[i].error_text);
	}
	free(b->segments);
	free(b->by_id);
	free(b->payload);
	free(b->index_text);
	free(b->note);
	free(b->manifest_text);
	sgpu_manifest_free(&b->manifest);
	json_decref(b->recipients);
	json_decref(b->signatures);
	json_decref(b->timings);
	free(b);
	*batch = NULL;
}

const char *sgpu_index_name(const struct sgpu_batch *batch)
{
	return batch->response ? "response.json" : "batch.json";
}

int sgpu_segment_fail(const struct sgpu_batch_segment *s, int code, const char *what,
		      struct sgpu_error *error)
{
	return sgpu_fail(error, code, "segment '%s'%s", s->id, what);
}

uint64_t sgpu_batch_payload_size(const struct sgpu_batch *batch, int segment)
{
	const struct sgpu_batch_segment *s = &batch->segments[segment];
	uint64_t size = 0;

	if (s->sealed) {
		return s->sealed_size;
	}
	if (!batch->response && s->output && !s->input && s->masking == SGPU_MASKING_AES_GCM &&
	    sgpu_sealed_size(s->size, &size)) {
		return size; /* it will be sealed */
	}
	return batch->response ? s->actual_size : s->size;
}

struct wanted {
	const struct sgpu_batch *batch;
	const char *id;
};

static int compare_wanted(const void *key, const void *index)
{
	const struct wanted *wanted = key;
	return strcmp(wanted->id, wanted->batch->segments[*(const int *)index].id);
}

int sgpu_batch_segment(const struct sgpu_batch *batch, const char *id)
{
	const struct wanted wanted = { batch, id };
	if (batch->by_id) {
		const int *found = bsearch(&wanted, batch->by_id, (size_t)batch->segment_count,
					   sizeof(int), compare_wanted);
		return found ? *found : -1;
	}
	for (int i = 0; i < batch->segment_count; i++) {
		if (!strcmp(batch->segments[i].id, id)) {
			return i;
		}
	}
	return -1;
}

int sgpu_segment_place(struct sgpu_batch_segment *segment, const struct sgpu_location *at,
		       struct sgpu_error *error)
{
	if (!segment->place) {
		segment->place = malloc(sizeof(*segment->place));
	}
	if (!segment->place) {
		return sgpu_fail_nomem(error);
	}
	*segment->place = *at;
	return SGPU_OK;
}
