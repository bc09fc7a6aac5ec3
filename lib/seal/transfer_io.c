/* SPDX-License-Identifier: Apache-2.0
 *
 * The two ends of a transfer: positioned ones are used by all workers at once, streams in order.
 */
#include <pthread.h>
#include <string.h>

#include <sgpu/io.h>

#include "seal/transfer.h"

enum { PAGE = 4096 };

static int ended_early(const struct sgpu_transfer *transfer, uint64_t at, struct sgpu_error *error)
{
	if (transfer->in.positioned) {
		return sgpu_fail(error, SGPU_ESYSTEM, "'%s' changed while it was read", transfer->in.name);
	}
	return sgpu_fail(error, transfer->opening ? SGPU_EAUTH : SGPU_ESYSTEM, "'%s' ends after %llu of %llu bytes",
			 transfer->in.name, (unsigned long long)at, (unsigned long long)transfer->in_size);
}

/* Takes the next group's number. Called with the lock held; false when nothing is left to do. */
static bool claim(struct sgpu_transfer *transfer, struct sgpu_group *group)
{
	if (transfer->failed || transfer->canceled || transfer->ended || sgpu_io_interrupted()) {
		return false;
	}
	group->index = transfer->next_group++;
	if (transfer->next_group == transfer->groups) {
		transfer->ended = true;
		group->last = true;
	}
	return true;
}

/* How much of a known size the group holds. */
static size_t group_size(const struct sgpu_transfer *transfer, const struct sgpu_group *group)
{
	size_t full = transfer->opening ? SGPU_GROUP_SEALED : SGPU_GROUP_PLAIN;

	if (transfer->in_size == SGPU_SIZE_UNKNOWN || !group->last) {
		return full;
	}
	return (size_t)(transfer->in_size - group->index * full);
}

static int take_positioned(struct sgpu_transfer_worker *worker, struct sgpu_group *group, bool *taken,
			   struct sgpu_error *error)
{
	struct sgpu_transfer *transfer = worker->transfer;

	pthread_mutex_lock(&transfer->lock);
	*taken = claim(transfer, group);
	pthread_mutex_unlock(&transfer->lock);
	if (!*taken) {
		return 0;
	}
	size_t wanted = group_size(transfer, group);
	uint64_t at = group->index * (transfer->opening ? SGPU_GROUP_SEALED : SGPU_GROUP_PLAIN);
	int code = sgpu_pread(transfer->in.fd, transfer->in.name, worker->in, wanted, transfer->in.offset + at,
			      &group->size, error);
	return !code && group->size < wanted ? ended_early(transfer, at + group->size, error) : code;
}

/* Readers of a stream take turns; who reads less than a full group has found the end. */
static int take_stream(struct sgpu_transfer_worker *worker, struct sgpu_group *group, bool *taken,
		       struct sgpu_error *error)
{
	struct sgpu_transfer *transfer = worker->transfer;
	bool known = transfer->in_size != SGPU_SIZE_UNKNOWN;

	pthread_mutex_lock(&transfer->lock);
	while (transfer->reading && !transfer->failed && !transfer->canceled) {
		pthread_cond_wait(&transfer->turn, &transfer->lock);
	}
	*taken = claim(transfer, group);
	if (*taken) {
		transfer->reading = true;
	}
	pthread_mutex_unlock(&transfer->lock);
	if (!*taken) {
		return 0;
	}
	size_t wanted = group_size(transfer, group);
	int code = sgpu_transfer_read(worker, group->index, wanted, &group->size, error);
	if (!code && known && group->size < wanted) {
		code = ended_early(transfer, group->index * (transfer->opening ? SGPU_GROUP_SEALED : SGPU_GROUP_PLAIN) +
				   group->size, error);
	}
	pthread_mutex_lock(&transfer->lock);
	transfer->reading = false;
	if (!known && !code && group->size < wanted) {
		group->last = true;
		transfer->ended = true;
	}
	pthread_cond_broadcast(&transfer->turn);
	pthread_mutex_unlock(&transfer->lock);
	return code;
}

int sgpu_transfer_take(struct sgpu_transfer_worker *worker, struct sgpu_group *group, bool *taken,
		       struct sgpu_error *error)
{
	memset(group, 0, sizeof(*group));
	return worker->transfer->in.positioned ? take_positioned(worker, group, taken, error)
					       : take_stream(worker, group, taken, error);
}

static bool all_zero(const uint8_t *data, size_t size)
{
	return data[0] == 0 && memcmp(data, data + 1, size - 1) == 0;
}

/* Writes the runs of pages that hold something; the rest stays a hole. Pages are those of the output. */
static int write_sparse(const struct sgpu_seal_end *out, const uint8_t *data, size_t size, uint64_t offset,
			struct sgpu_error *error)
{
	size_t begin = 0, at = 0;

	while (at < size) {
		size_t part = PAGE - (size_t)((offset + at) % PAGE);
		part = part < size - at ? part : size - at;
		if (all_zero(data + at, part)) {
			int code = at > begin ? sgpu_pwrite(out->fd, out->name, data + begin, at - begin,
							    offset + begin, error)
					      : 0;
			if (code) {
				return code;
			}
			begin = at + part;
		}
		at += part;
	}
	return at > begin ? sgpu_pwrite(out->fd, out->name, data + begin, at - begin, offset + begin, error) : 0;
}

static int deliver_positioned(struct sgpu_transfer_worker *worker, const struct sgpu_group *group, size_t size,
			      struct sgpu_error *error)
{
	struct sgpu_transfer *transfer = worker->transfer;
	const struct sgpu_seal_end *out = &transfer->out;
	uint64_t at = out->offset + group->index * (transfer->opening ? SGPU_GROUP_PLAIN : SGPU_GROUP_SEALED);

	pthread_mutex_lock(&transfer->writing);
	int code = transfer->job->sparse && transfer->opening
			   ? write_sparse(out, worker->out, size, at, error)
			   : sgpu_pwrite(out->fd, out->name, worker->out, size, at, error);
	pthread_mutex_unlock(&transfer->writing);
	return code;
}

/* In order: a group waits for those before it, and is dropped when one of them failed. */
static int deliver_stream(struct sgpu_transfer_worker *worker, const struct sgpu_group *group, size_t size, bool whole,
			  struct sgpu_error *error)
{
	struct sgpu_transfer *transfer = worker->transfer;
	bool moot;

	pthread_mutex_lock(&transfer->lock);
	for (;;) {
		moot = transfer->canceled || (transfer->failed && transfer->failed_group < group->index);
		if (moot || transfer->next_write == group->index) {
			break;
		}
		pthread_cond_wait(&transfer->turn, &transfer->lock);
	}
	pthread_mutex_unlock(&transfer->lock);
	if (moot) {
		return sgpu_fail(error, SGPU_ECANCELED, "interrupted");
	}
	int code = sgpu_transfer_write(worker, group->index, size, error);
	if (!code && whole) {
		pthread_mutex_lock(&transfer->lock);
		transfer->next_write++;
		pthread_cond_broadcast(&transfer->turn);
		pthread_mutex_unlock(&transfer->lock);
	}
	return code;
}

int sgpu_transfer_deliver(struct sgpu_transfer_worker *worker, const struct sgpu_group *group, size_t size, bool whole,
			  struct sgpu_error *error)
{
	struct sgpu_transfer *transfer = worker->transfer;
	struct sgpu_seal_job *job = transfer->job;
	int code = transfer->out.positioned ? deliver_positioned(worker, group, size, error)
					    : deliver_stream(worker, group, size, whole, error);

	if (code || !whole) {
		return code;
	}
	pthread_mutex_lock(&transfer->lock);
	transfer->bytes_in += group->size;
	transfer->bytes_out += size;
	if (job->progress) {
		job->progress(job->progress_argument, transfer->bytes_in);
	}
	pthread_mutex_unlock(&transfer->lock);
	return 0;
}
