/* SPDX-License-Identifier: Apache-2.0
 *
 * The segments of a batch, or of a response, into a secure context, one after the other.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "stage/stage.h"
#include "cli.h"
#include "memory.h"

struct reading {
	struct memory_task *task;
	struct sgpu_tar_reader *reader;
	struct sgpu_batch *batch;
	uint8_t batch_key[SGPU_KEY_SIZE];
	int measured;
};

static bool wanted(const struct reading *reading, int i)
{
	const struct sgpu_batch_segment *s = &reading->batch->segments[i];

	return s->location.kind != SGPU_LOCATION_NONE && s->status == SGPU_OK &&
	       (!reading->task->segment || !strcmp(reading->task->segment, s->id));
}

/* Nothing of the index is believed before its MAC has verified. */
static int authenticate(struct reading *reading, struct sgpu_error *error)
{
	const struct memory_task *task = reading->task;
	struct sgpu_key *keys = NULL;
	int loaded = 0, code = 0;

	if (!reading->batch->has_mac) {
		return task->keys.count ? sgpu_fail(error, SGPU_EPOLICY,
						    "the batch has no mac, so no key fits it")
					: 0;
	}
	if (!task->keys.count) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "a key that opens the batch is missing, with -k");
	}
	keys = calloc((size_t)task->keys.count, sizeof(*keys));
	code = keys ? 0 : sgpu_fail_nomem(error);
	for (; !code && loaded < task->keys.count; loaded++) {
		code = sgpu_key_load_private(task->keys.items[loaded], &keys[loaded], error);
	}
	if (!code) {
		code = sgpu_batch_unwrap(reading->batch, keys, task->keys.count, reading->batch_key,
					 error);
	}
	code = code ? code : sgpu_batch_verify(reading->batch, reading->batch_key, error);
	sgpu_free_wiped(&keys, (size_t)task->keys.count * sizeof(*keys));
	return code;
}

static int measure_segment(struct reading *reading, int i, struct memory_payload *payload,
			   struct sgpu_error *error)
{
	const struct sgpu_batch *batch = reading->batch;
	const struct sgpu_batch_segment *s = &batch->segments[i];
	sgpu_devptr memory = 0;
	int code = 0;

	payload->name = s->id;
	payload->size = sgpu_batch_payload_size(batch, i);
	payload->sealed = s->sealed;
	payload->kt128 = !s->sealed && s->has_kt128 ? s->kt128 : NULL;
	if (s->sealed) {
		code = sgpu_batch_segment_key(batch, reading->batch_key, s->id,
					      batch->response ? batch->response_id : NULL,
					      payload->key, payload->context,
					      &payload->context_size, error);
	}
	code = code ? code : memory_load(reading->task, payload, &memory, error);
	sgpu_wipe(payload->key, sizeof(payload->key));
	if (!code) {
		code = memory_measure(reading->task, s->id, memory, payload->size, error);
		sgpu_device_free(sgpu_secure_device(reading->task->context), &memory,
				 payload->size);
		reading->measured++;
	}
	return code;
}

/* First those whose payload lies elsewhere. */
static int measure_all(struct reading *reading, struct sgpu_error *error)
{
	int segment = 0, code = 0;

	for (int i = 0; !code && i < reading->batch->segment_count; i++) {
		const struct sgpu_batch_segment *s = &reading->batch->segments[i];
		struct sgpu_source source = { .fd = -1 };
		if (!wanted(reading, i) || s->location.kind == SGPU_LOCATION_INLINE) {
			continue;
		}
		code = sgpu_source_open(&s->location, sgpu_batch_payload_size(reading->batch, i),
					false, &source, error);
		if (!code) {
			struct memory_payload payload = { .fd = source.fd,
							  .offset = source.offset };
			code = measure_segment(reading, i, &payload, error);
			sgpu_source_close(&source);
		}
	}
	while (!code && segment >= 0) {
		struct memory_payload payload = { .tar = reading->reader };
		code = sgpu_batch_next_payload(reading->reader, reading->batch, &segment, error);
		if (!code && segment >= 0 && wanted(reading, segment)) {
			code = measure_segment(reading, segment, &payload, error);
		}
	}
	return code;
}

static int check_segment(const struct reading *reading, struct sgpu_error *error)
{
	const char *id = reading->task->segment;

	if (id && sgpu_batch_segment(reading->batch, id) < 0) {
		return sgpu_fail(error, SGPU_EUSAGE, "there is no segment '%s'", id);
	}
	if (!reading->measured) {
		return id ? sgpu_fail(error, SGPU_EINVALID, "segment '%s' has no payload", id)
			  : sgpu_fail(error, SGPU_EINVALID, "no segment has a payload");
	}
	return 0;
}

int memory_batch(struct memory_task *task, int in, const char *name, struct sgpu_error *error)
{
	struct reading reading = { .task = task };
	int code = sgpu_tar_open(in, name, &reading.reader, error);

	code = code ? code : sgpu_batch_read_any(reading.reader, &reading.batch, error);
	code = code ? code : authenticate(&reading, error);
	code = code ? code : measure_all(&reading, error);
	code = code ? code : check_segment(&reading, error);
	sgpu_wipe(reading.batch_key, sizeof(reading.batch_key));
	sgpu_batch_free(&reading.batch);
	sgpu_tar_close(&reading.reader);
	return code;
}
