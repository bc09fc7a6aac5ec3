/* SPDX-License-Identifier: Apache-2.0
 *
 * Waits for the device, and clears pages.
 */
#include "channel/processor/processor.h"

int sgpu_processor_wait(struct sgpu_processor *processor, int enqueued,
			const struct sgpu_task *task, struct sgpu_error *error)
{
	int rc = enqueued == SGPU_OK ? sgpu_stream_sync(processor->stream, error) : SGPU_OK;

	if (rc < 0) {
		return rc;
	}
	rc = enqueued == SGPU_OK ? task->code : enqueued;
	return rc < 0 ? sgpu_fail(error, rc, "%s",
				  task->error.text[0] ? task->error.text : sgpu_strerror(rc))
		      : SGPU_OK;
}

int sgpu_pages_clear(struct sgpu_processor *processor, const struct sgpu_context *context,
		     uint64_t at, uint64_t size, struct sgpu_error *error)
{
	struct sgpu_task task = { 0 };
	int rc = sgpu_device_synchronize(processor->device, error);

	if (rc < 0) {
		return rc;
	}
	rc = sgpu_device_clear(processor->stream, context->base + at, size, &task);
	return sgpu_processor_wait(processor, rc, &task, error);
}
