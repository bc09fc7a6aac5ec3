/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of data that are sealed at rest: nothing but what the streams do, and the order in which they get it.
 */
#include <string.h>

#include <seal/opened.h>
#include <transfer/transfer.h>

static uint64_t chunks_of(uint64_t size, uint64_t chunk)
{
	return size / chunk + (size % chunk != 0);
}

/* Waits for a free slot of the staging memory. False when a group has failed. */
static bool make_room(struct sgpu_transfer *transfer, struct sgpu_task *task)
{
	if (transfer->sent - transfer->drained == transfer->slot_count) {
		sgpu_transfer_drain(transfer, task);
	}
	return task->code == SGPU_OK;
}

static void begin(struct sgpu_transfer *transfer, struct sgpu_task *task)
{
	memset(task, 0, sizeof(*task));
	pthread_mutex_lock(&transfer->lock);
	task->begin_ns = sgpu_now_ns();
	sgpu_transfer_begin(transfer, sgpu_transfer_slot_size(transfer, transfer->config.sealed_group),
			    transfer->config.sealed_slots);
}

static int end(struct sgpu_transfer *transfer, sgpu_devptr device, void *host, uint64_t size, struct sgpu_task *task)
{
	int code = sgpu_transfer_end(transfer, device, host, size, task);

	task->end_ns = sgpu_now_ns();
	pthread_mutex_unlock(&transfer->lock);
	return code;
}

int sgpu_transfer_in_sealed(struct sgpu_transfer *transfer, struct sgpu_device_key *key, uint64_t first, bool last,
			    const void *sealed, uint64_t size, sgpu_devptr to, struct sgpu_task *outcome)
{
	struct sgpu_transfer_plan plan = { .total = chunks_of(size, SGPU_SEALED_CHUNK),
					   .largest = transfer->config.sealed_group / SGPU_CHUNK,
					   .at_end = transfer->config.last_group / SGPU_CHUNK };
	struct sgpu_transfer_group group = { .count = 0 };
	struct sgpu_task local, *task = outcome ? outcome : &local;
	uint64_t done = 0;

	begin(transfer, task);
	do {
		struct sgpu_error error = { .code = SGPU_OK };

		group = sgpu_transfer_group_at(&plan, done);
		uint64_t from = done * SGPU_SEALED_CHUNK, bytes = group.count * SGPU_SEALED_CHUNK;
		struct sgpu_transfer_run run = {
			.key = key, .first = first + done, .device = to + done * SGPU_CHUNK,
			.last = last && done + group.count == plan.total, .host = (uint8_t *)(uintptr_t)sealed + from,
			.sealed_size = bytes < size - from ? bytes : size - from,
		};
		if (make_room(transfer, task)) {
			sgpu_transfer_note(task, sgpu_transfer_send_in(transfer, &run, &error), &error);
		}
		done += group.count;
	} while (done < plan.total && task->code == SGPU_OK);
	return end(transfer, to, NULL, sgpu_opened_size(size), task);
}

int sgpu_transfer_out_sealed(struct sgpu_transfer *transfer, struct sgpu_device_key *key, uint64_t first, bool last,
			     sgpu_devptr from, uint64_t size, void *sealed, struct sgpu_task *outcome)
{
	struct sgpu_transfer_plan plan = { .total = size / SGPU_CHUNK + (last || size % SGPU_CHUNK != 0),
					   .largest = transfer->config.sealed_group / SGPU_CHUNK,
					   .at_begin = transfer->config.last_group / SGPU_CHUNK };
	struct sgpu_transfer_group group = { .count = 0 };
	struct sgpu_task local, *task = outcome ? outcome : &local;
	uint64_t done = 0, tags = plan.total * SGPU_TAG_SIZE;

	begin(transfer, task);
	if (!last && size % SGPU_CHUNK != 0) {
		sgpu_transfer_note(task, SGPU_EUSAGE, NULL);
		return end(transfer, 0, NULL, 0, task); /* there is no knowing how much of the destination is there */
	}
	do {
		struct sgpu_error error = { .code = SGPU_OK };

		group = sgpu_transfer_group_at(&plan, done);
		uint64_t at = done * SGPU_CHUNK, bytes = group.count * SGPU_CHUNK;
		struct sgpu_transfer_run run = {
			.key = key, .first = first + done, .device = from + at,
			.last = last && done + group.count == plan.total, .size = bytes < size - at ? bytes : size - at,
			.host = (uint8_t *)sealed + done * SGPU_SEALED_CHUNK,
		};
		run.sealed_size = run.size + group.count * SGPU_TAG_SIZE;
		if (make_room(transfer, task)) {
			sgpu_transfer_note(task, sgpu_transfer_send_out(transfer, &run, &error), &error);
		}
		done += group.count;
	} while (done < plan.total && task->code == SGPU_OK);
	return end(transfer, 0, sealed, size + tags, task);
}
