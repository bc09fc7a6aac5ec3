/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan of a region: one slice a payload, each on pages of its own. A sealed slice starts at 8
 * modulo 16, so that its chunks, which follow a header of 56 bytes, are aligned for whoever opens
 * them there.
 */
#include <stdlib.h>

#include "cli.h"
#include "load.h"

enum { PAGE = 4096, SEALED_SHIFT = 8 };

static int place(struct load *load, int segment, uint64_t size, struct sgpu_error *error)
{
	const struct sgpu_batch_segment *s = &load->batch->segments[segment];
	struct load_slice *slice = &load->slices[segment];

	slice->offset = load->total + (s->sealed ? SEALED_SHIFT : 0);
	slice->size = size;
	slice->staged = true;
	if (!sgpu_add_u64(slice->offset, size, &load->total) ||
	    load->total > SGPU_JSON_INTEGER_MAX - 2 * PAGE) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s': the payloads are too large together",
				 load->in_name);
	}
	load->total = (load->total + PAGE - 1) / PAGE * PAGE;
	return SGPU_OK;
}

static int plan_input(struct load *load, int segment, struct sgpu_error *error)
{
	const struct sgpu_batch_segment *s = &load->batch->segments[segment];

	if (s->location.kind != SGPU_LOCATION_INLINE && s->location.kind != SGPU_LOCATION_FILE) {
		return SGPU_OK;
	}
	if (s->masking == SGPU_MASKING_AES_GCM && !s->sealed) {
		cli_note("segment '%s' is HIGH and not sealed: it stays in its file", s->id);
		load->left++;
		return SGPU_OK;
	}
	/* Whoever made the batch chose the file, and learns from what comes of it whether a guess
	 * at its content was right. */
	if (s->location.kind == SGPU_LOCATION_FILE && sgpu_files_count(load->files) == 0) {
		sgpu_fail(error, SGPU_EPOLICY,
			  "segment '%s' is in a file, and no directory is open to batches", s->id);
		return sgpu_hint(
			error,
			"'--files DIR' opens one; 'sgpu-seal seal' puts payloads into the batch");
	}
	if (!s->sealed && !s->has_kt128) {
		return sgpu_fail(error, SGPU_EPOLICY,
				 "segment '%s' has no kt128 to compare its payload with", s->id);
	}
	load->slices[segment].from = s->location;
	load->staged++;
	load->payload += sgpu_batch_payload_size(load->batch, segment);
	return place(load, segment, sgpu_batch_payload_size(load->batch, segment), error);
}

static bool wants_place(const struct load *load, int segment)
{
	const struct sgpu_batch_segment *s = &load->batch->segments[segment];
	int index = sgpu_manifest_segment(load->manifest, s->id);
	const struct sgpu_segment *described = index < 0 ? NULL : &load->manifest->segments[index];

	return described && described->sensitivity == SGPU_LOW &&
	       described->direction == SGPU_OUTPUT && s->location.kind == SGPU_LOCATION_NONE &&
	       described->dma_var[SGPU_DMA_OUTPUT_HOST];
}

int load_plan(struct load *load, struct sgpu_error *error)
{
	int i, code = SGPU_OK;

	load->slices = calloc((size_t)load->batch->segment_count + 1, sizeof(*load->slices));
	if (!load->slices) {
		return sgpu_fail_nomem(error);
	}
	for (i = 0; code == SGPU_OK && i < load->batch->segment_count; i++) {
		if (load->batch->segments[i].input) {
			code = plan_input(load, i, error);
		} else if (wants_place(load, i)) {
			load->outputs++;
			code = place(load, i, load->batch->segments[i].size, error);
		}
	}
	if (load->outputs > 0) {
		load->options.keep = load->options.written = true;
	}
	return code;
}

void load_relocate(struct load *load)
{
	struct sgpu_location *location;
	int i;

	for (i = 0; i < load->batch->segment_count; i++) {
		if (!load->slices[i].staged) {
			continue;
		}
		/* The path of a FILE stays with the slice, which frees it. */
		location = &load->batch->segments[i].location;
		*location = (struct sgpu_location){ .kind = SGPU_LOCATION_REGION,
						    .offset = load->slices[i].offset };
		for (int k = 0; k < SGPU_REGION_ID_TEXT; k++) {
			location->region[k] = load->region.id[k];
		}
	}
}
