/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors as a hostile client writes them: any are refused or understood, and what is
 * understood runs to its end, batches from the same bytes among it. Each submission completes once.
 */
#include <stdlib.h>
#include <string.h>

#include "ring/check.h"
#include "ring/schedule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROOM = 16, STARTED_MOST = ROOM + SGPU_RING_BATCH_MAX, SERVICE = 16 };

struct input {
	const uint8_t *data;
	size_t size;
	uint32_t added, posted;
	uint32_t started[STARTED_MOST], started_count;
};

static int post(void *context, uint64_t cookie, int status, uint64_t value,
		struct sgpu_error *error)
{
	struct input *input = context;

	(void)cookie;
	(void)value;
	(void)error;
	if (status > 0 || ++input->posted > input->added) {
		abort();
	}
	return SGPU_OK;
}

static int read_area(void *context, uint64_t handle, uint64_t offset, void *data, size_t size,
		     struct sgpu_error *error)
{
	const struct input *input = context;

	if (handle > 1 || offset > input->size || size > input->size - offset) {
		return sgpu_fail(error, SGPU_EPOLICY, "not there");
	}
	memcpy(data, input->data + offset, size);
	return SGPU_OK;
}

/* Starts what can be started, and then ends one. */
static int run(struct sgpu_schedule *schedule, struct input *input)
{
	struct sgpu_ring_operation operation;
	enum sgpu_ring_event event = SGPU_RING_BUSY;
	int rc = SGPU_OK;

	while (rc == SGPU_OK && event != SGPU_RING_IDLE) {
		rc = sgpu_schedule_next(schedule, &operation, &event, NULL);
		if (rc == SGPU_OK && event == SGPU_RING_START) {
			if (operation.descriptor.opcode < SERVICE ||
			    operation.descriptor.client != 7 ||
			    input->started_count == STARTED_MOST) {
				abort();
			}
			input->started[input->started_count++] = operation.ticket;
		}
	}
	if (rc == SGPU_OK && input->started_count) {
		rc = sgpu_schedule_finish(schedule, input->started[--input->started_count], SGPU_OK,
					  0, NULL);
		if (rc < 0) {
			abort();
		}
	}
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t members[SGPU_RING_OPCODES] = {
		[SERVICE] = SGPU_RING_KNOWN | SGPU_RING_ARGUMENT,
		[SERVICE + 1] = SGPU_RING_KNOWN | SGPU_RING_OFFSET | SGPU_RING_LENGTH,
	};
	struct input input = { .data = data, .size = size };
	const struct sgpu_schedule_config config = { .submissions = ROOM,
						     .members = members,
						     .post = post,
						     .post_context = &input,
						     .read = read_area,
						     .read_context = &input };
	struct sgpu_ring_descriptor descriptor;
	struct sgpu_schedule *schedule;
	int rc = SGPU_OK;

	if (sgpu_schedule_create(&config, &schedule, NULL) < 0) {
		return 0;
	}
	for (size_t at = 0; rc == SGPU_OK && size - at >= sizeof(descriptor);
	     at += sizeof(descriptor)) {
		memcpy(&descriptor, data + at, sizeof(descriptor));
		rc = sgpu_ring_check(&descriptor, members, false, SGPU_EINVALID, NULL);
		while (rc == SGPU_OK && sgpu_schedule_outstanding(schedule) == ROOM) {
			rc = run(schedule, &input);
		}
		if (rc == SGPU_OK) {
			descriptor.client = 7;
			input.added++;
			rc = sgpu_schedule_add(schedule, &descriptor, NULL);
		}
		if (rc == SGPU_OK && at % 3 == 0) {
			rc = run(schedule, &input);
		}
	}
	while (rc == SGPU_OK && sgpu_schedule_outstanding(schedule)) {
		rc = run(schedule, &input);
	}
	if (rc == SGPU_OK && input.posted != input.added) {
		abort();
	}
	sgpu_schedule_free(&schedule);
	return 0;
}
