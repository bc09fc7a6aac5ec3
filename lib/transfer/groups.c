/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups of chunks: how large they are, and how they are put on the streams, each in two steps with an event between.
 */
#include <string.h>

#include <transfer/transfer.h>

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

struct sgpu_transfer_group sgpu_transfer_group_at(const struct sgpu_transfer_plan *plan, uint64_t first)
{
	struct sgpu_transfer_group group = { .first = first, .count = plan->largest };
	uint64_t rest = plan->total - first, left;

	if (plan->at_begin) {
		group.count = min_u64(group.count, max_u64(first, plan->at_begin)); /* as much as all before */
	}
	if (plan->at_end) {
		/* Most of what is left: a device opens more than three times as fast as the bus brings it. */
		group.count = min_u64(group.count, max_u64(rest / 4 * 3, plan->at_end));
	}
	group.count = min_u64(group.count, rest);
	/* A little rest goes with it. One chunk never goes alone: when it is empty its address is past the end. */
	left = rest - group.count;
	if (left < 2 || 2 * left < max_u64(plan->at_begin, plan->at_end)) {
		group.count = rest;
	}
	return group;
}

void sgpu_transfer_begin(struct sgpu_transfer *transfer, uint64_t slot_size, unsigned slots)
{
	uint64_t room = transfer->staging_size / slot_size;

	transfer->slot_size = slot_size;
	transfer->slot_count = (unsigned)min_u64(min_u64(room, slots), SGPU_TRANSFER_SLOTS_MAX);
	transfer->sent = transfer->drained = 0;
}

void sgpu_transfer_note(struct sgpu_task *task, int code, const struct sgpu_error *error)
{
	if (task->code == SGPU_OK && code != SGPU_OK) {
		task->code = code;
		if (error && error->text[0]) {
			task->error = *error;
			task->error.code = code;
		} else {
			(void)sgpu_fail(&task->error, code, "%s", sgpu_strerror(code));
		}
	}
}

static sgpu_devptr next_slot(struct sgpu_transfer *transfer, struct sgpu_transfer_slot **slot)
{
	unsigned index = (unsigned)(transfer->sent % transfer->slot_count);

	*slot = &transfer->slots[index];
	memset(*slot, 0, sizeof(**slot));
	transfer->sent++; /* from now on drain frees what is there of it, whatever happens */
	return transfer->staging + index * transfer->slot_size;
}

static int record(struct sgpu_transfer *transfer, struct sgpu_stream *stream, struct sgpu_event **event,
		  struct sgpu_error *error)
{
	struct sgpu_event *new = NULL;
	int code = sgpu_event_create(transfer->device, &new, error);

	if (code == SGPU_OK) {
		code = sgpu_event_record(stream, new);
		if (code != SGPU_OK) {
			sgpu_event_free(&new);
		}
	}
	*event = new;
	return code;
}

/* What ends the first step, and what the second one waits for. */
static int hand_over(struct sgpu_transfer *transfer, struct sgpu_stream *from, struct sgpu_stream *to,
		     struct sgpu_event **event, struct sgpu_error *error)
{
	int code = record(transfer, from, event, error);

	return code == SGPU_OK ? sgpu_stream_wait(to, *event) : code;
}

static int enqueued(int code, const struct sgpu_task *task, const char *what, struct sgpu_error *error)
{
	if (code == SGPU_OK) {
		return code;
	}
	return sgpu_fail(error, code, "cannot %s: %s", what,
			 task->error.text[0] ? task->error.text : sgpu_strerror(code));
}

int sgpu_transfer_send_in(struct sgpu_transfer *transfer, const struct sgpu_transfer_run *run, struct sgpu_error *error)
{
	struct sgpu_transfer_slot *slot;
	sgpu_devptr staging = next_slot(transfer, &slot);
	sgpu_devptr to = run->key || !run->device ? staging : run->device;
	int code = SGPU_OK;

	if (run->sealed_size > 0) {
		code = sgpu_copy_in(transfer->copy_in, to, run->host, run->sealed_size, &slot->copy);
		code = enqueued(code, &slot->copy, "copy to the device", error);
	}
	if (code == SGPU_OK && run->key) {
		code = hand_over(transfer, transfer->copy_in, transfer->compute, &slot->middle, error);
		if (code == SGPU_OK) {
			code = sgpu_device_open_chunks(transfer->compute, run->key, run->first, run->last, staging,
						       run->sealed_size, run->device, &slot->crypt);
			code = enqueued(code, &slot->crypt, "open on the device", error);
		}
	}
	if (code == SGPU_OK) {
		code = record(transfer, run->key ? transfer->compute : transfer->copy_in, &slot->end, error);
	}
	return code;
}

int sgpu_transfer_send_out(struct sgpu_transfer *transfer, const struct sgpu_transfer_run *run,
			   struct sgpu_error *error)
{
	struct sgpu_transfer_slot *slot;
	sgpu_devptr staging = next_slot(transfer, &slot);
	int code = enqueued(sgpu_device_seal_chunks(transfer->compute, run->key, run->first, run->last, run->device,
						    run->size, staging, &slot->crypt),
			    &slot->crypt, "seal on the device", error);

	if (code == SGPU_OK) {
		code = hand_over(transfer, transfer->compute, transfer->copy_out, &slot->middle, error);
	}
	if (code == SGPU_OK && run->sealed_size > 0) {
		code = enqueued(sgpu_copy_out(transfer->copy_out, run->host, staging, run->sealed_size, &slot->copy),
				&slot->copy, "copy from the device", error);
	}
	return code == SGPU_OK ? record(transfer, transfer->copy_out, &slot->end, error) : code;
}

void sgpu_transfer_drain(struct sgpu_transfer *transfer, struct sgpu_task *task)
{
	struct sgpu_transfer_slot *slot = &transfer->slots[transfer->drained % transfer->slot_count];
	struct sgpu_error error = { .code = SGPU_OK };
	int code;

	/* Without its event it was not enqueued whole: sgpu_transfer_end waits for the streams. */
	if (slot->end) {
		code = sgpu_event_sync(slot->end, &error);
		sgpu_transfer_note(task, code, &error);
		/* It has completed as well; but what became of the first step shows only to who asks its stream. */
		code = slot->middle ? sgpu_event_sync(slot->middle, &error) : SGPU_OK;
		sgpu_transfer_note(task, code, &error);
		sgpu_transfer_note(task, slot->copy.code, &slot->copy.error);
		if (task->code == SGPU_OK && slot->crypt.code != SGPU_OK) {
			task->bad_chunk = slot->crypt.bad_chunk;
			sgpu_transfer_note(task, slot->crypt.code, &slot->crypt.error);
		}
	}
	sgpu_event_free(&slot->middle);
	sgpu_event_free(&slot->end);
	transfer->drained++;
}

bool sgpu_transfer_reached(struct sgpu_event *event, struct sgpu_task *task)
{
	struct sgpu_error error = { .code = SGPU_OK };
	bool done = false;
	int code = sgpu_event_query(event, &done, &error);

	sgpu_transfer_note(task, code, &error);
	return done || code != SGPU_OK;
}

static void sync_all(struct sgpu_transfer *transfer, struct sgpu_task *task)
{
	struct sgpu_stream *streams[] = { transfer->copy_in, transfer->compute, transfer->copy_out };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(streams); i++) {
		struct sgpu_error error = { .code = SGPU_OK };
		int code = sgpu_stream_sync(streams[i], &error);

		sgpu_transfer_note(task, code, &error);
	}
}

int sgpu_transfer_end(struct sgpu_transfer *transfer, sgpu_devptr device, void *host, uint64_t size,
		      struct sgpu_task *task)
{
	if (task->code != SGPU_OK) {
		sync_all(transfer, task);
	}
	while (transfer->drained < transfer->sent) {
		sgpu_transfer_drain(transfer, task);
	}
	if (task->code == SGPU_OK) {
		return SGPU_OK;
	}
	if (device && size > 0 && sgpu_device_clear(transfer->compute, device, size, NULL) == SGPU_OK) {
		sync_all(transfer, task);
	}
	if (host) {
		sgpu_wipe(host, size);
	}
	return task->code;
}
