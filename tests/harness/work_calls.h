/* SPDX-License-Identifier: Apache-2.0
 *
 * Work that programs describe themselves, as calls.
 */
#ifndef WORK_CALLS_H
#define WORK_CALLS_H

#include "device/backend.h"

static inline int open_from(struct sgpu_stream *on, struct sgpu_device_key *key, uint64_t first,
			    bool last, const void *in, uint64_t size, sgpu_devptr out,
			    struct sgpu_task *task)
{
	const struct sgpu_work work = { .kind = SGPU_WORK_OPEN_FROM,
					.from = in,
					.out = out,
					.size = size,
					.key = key,
					.first = first,
					.last = last,
					.task = task };

	return sgpu_enqueue(on, &work, 1);
}

static inline int seal_to(struct sgpu_stream *on, struct sgpu_device_key *key, uint64_t first,
			  bool last, sgpu_devptr in, uint64_t size, void *out,
			  struct sgpu_task *task)
{
	const struct sgpu_work work = { .kind = SGPU_WORK_SEAL_TO,
					.in = in,
					.to = out,
					.size = size,
					.key = key,
					.first = first,
					.last = last,
					.task = task };

	return sgpu_enqueue(on, &work, 1);
}

static inline int digest_of(struct sgpu_stream *on, sgpu_devptr in, uint64_t size, uint8_t *digest,
			    struct sgpu_task *task)
{
	const struct sgpu_work work = {
		.kind = SGPU_WORK_DIGEST, .in = in, .to = digest, .size = size, .task = task
	};

	return sgpu_enqueue(on, &work, 1);
}

#endif
