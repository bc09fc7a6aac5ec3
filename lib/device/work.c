/* SPDX-License-Identifier: Apache-2.0
 *
 * Work with a device's memory: each piece is checked, the guard, if any, is asked, and the backend
 * gets several pieces at a time.
 */
#include <device/backend.h>

#define BACKEND(object) sgpu_device_backend_of(object)
#define GUARD(object) sgpu_device_guard_of(object)

/* Most pieces of one request to a guard. */
enum { TOGETHER = 32 };

int sgpu_work_ranges(const struct sgpu_work *work, struct sgpu_device_range ranges[2])
{
	const struct sgpu_device_range in = { work->in, work->size };
	const uint64_t sealed = sgpu_run_sealed_size(work->size, work->last);

	ranges[0] = in;
	switch (work->kind) {
	case SGPU_WORK_COPY_IN:
	case SGPU_WORK_CLEAR:
		ranges[0].address = work->out;
		return 1;
	case SGPU_WORK_OPEN_FROM:
		ranges[0] = (struct sgpu_device_range){ work->out, sgpu_opened_size(work->size) };
		return 1;
	case SGPU_WORK_OPEN:
		ranges[1] = (struct sgpu_device_range){ work->out, sgpu_opened_size(work->size) };
		return 2;
	case SGPU_WORK_SEAL:
		ranges[1] = (struct sgpu_device_range){ work->out, sealed };
		return 2;
	default:
		return 1;
	}
}

static int check_work(const struct sgpu_stream *stream, const struct sgpu_work *work)
{
	const bool seals = work->kind == SGPU_WORK_SEAL || work->kind == SGPU_WORK_SEAL_TO;

	if ((work->kind == SGPU_WORK_DIGEST || work->kind == SGPU_WORK_MEASURE) && !work->task) {
		return SGPU_EUSAGE;
	}
	if (seals && !work->last && work->size % SGPU_CHUNK != 0) {
		return sgpu_task_refuse(work->task, SGPU_EUSAGE,
					"only the last chunk of a segment may be short");
	}
	if (work->kind >= SGPU_WORK_OPEN_FROM && !BACKEND(stream)->key->reaches) {
		return sgpu_task_refuse(work->task, SGPU_EUSAGE,
					"the device does not reach the host's memory");
	}
	if (work->key && GUARD(work->key) != GUARD(stream)) {
		return sgpu_task_refuse(work->task, SGPU_EPOLICY, "the key is not of this context");
	}
	return SGPU_OK;
}

/* Enqueues pieces by one request to the guard. If the guard or a check refuses, enqueues them one
 * by one, up to the piece to blame. */
static int enqueue_together(struct sgpu_stream *stream, const struct sgpu_work *work, int count)
{
	struct sgpu_device_range ranges[2 * TOGETHER];
	int named = 0, rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = check_work(stream, &work[i]);
		named += GUARD(stream) ? sgpu_work_ranges(&work[i], ranges + named) : 0;
	}
	rc = rc == SGPU_OK
		     ? sgpu_guard_enter(GUARD(stream), ranges, named, count > 1 ? NULL : work->task)
		     : rc;
	if (rc == SGPU_OK) {
		return sgpu_guard_leave(GUARD(stream),
					BACKEND(stream)->stream->enqueue(stream, work, count));
	}
	for (int i = 0; count > 1 && i < count; i++) {
		rc = enqueue_together(stream, &work[i], 1);
		if (rc < 0) {
			break;
		}
	}
	return rc;
}

int sgpu_enqueue(struct sgpu_stream *stream, const struct sgpu_work *work, int count)
{
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < count; i += TOGETHER) {
		rc = enqueue_together(stream, work + i,
				      count - i < TOGETHER ? count - i : TOGETHER);
	}
	return rc;
}

int sgpu_copy_in(struct sgpu_stream *stream, sgpu_devptr to, const void *from, uint64_t size,
		 struct sgpu_task *task)
{
	const struct sgpu_work work = {
		.kind = SGPU_WORK_COPY_IN, .out = to, .from = from, .size = size, .task = task
	};

	return sgpu_enqueue(stream, &work, 1);
}

int sgpu_copy_out(struct sgpu_stream *stream, void *to, sgpu_devptr from, uint64_t size,
		  struct sgpu_task *task)
{
	const struct sgpu_work work = {
		.kind = SGPU_WORK_COPY_OUT, .in = from, .to = to, .size = size, .task = task
	};

	return sgpu_enqueue(stream, &work, 1);
}

int sgpu_device_clear(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size,
		      struct sgpu_task *task)
{
	const struct sgpu_work work = {
		.kind = SGPU_WORK_CLEAR, .out = memory, .size = size, .task = task
	};

	return sgpu_enqueue(stream, &work, 1);
}

int sgpu_device_measure(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size,
			const uint8_t *key, uint8_t *digest, struct sgpu_task *task)
{
	const struct sgpu_work work = { .kind = SGPU_WORK_MEASURE,
					.in = memory,
					.to = digest,
					.size = size,
					.measure_key = key,
					.task = task };

	return sgpu_enqueue(stream, &work, 1);
}

static int enqueue_chunks(struct sgpu_stream *stream, enum sgpu_work_kind kind,
			  struct sgpu_device_key *key, uint64_t first, bool last, sgpu_devptr in,
			  uint64_t size, sgpu_devptr out, struct sgpu_task *task)
{
	const struct sgpu_work work = { .kind = kind,
					.in = in,
					.out = out,
					.size = size,
					.key = key,
					.first = first,
					.last = last,
					.task = task };

	return sgpu_enqueue(stream, &work, 1);
}

int sgpu_device_open_chunks(struct sgpu_stream *stream, struct sgpu_device_key *key, uint64_t first,
			    bool last, sgpu_devptr in, uint64_t size, sgpu_devptr out,
			    struct sgpu_task *task)
{
	return enqueue_chunks(stream, SGPU_WORK_OPEN, key, first, last, in, size, out, task);
}

int sgpu_device_seal_chunks(struct sgpu_stream *stream, struct sgpu_device_key *key, uint64_t first,
			    bool last, sgpu_devptr in, uint64_t size, sgpu_devptr out,
			    struct sgpu_task *task)
{
	return enqueue_chunks(stream, SGPU_WORK_SEAL, key, first, last, in, size, out, task);
}
