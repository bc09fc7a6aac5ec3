/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of a run's inputs share.
 */
#ifndef SGPU_RUN_INPUT_H
#define SGPU_RUN_INPUT_H

#include "run/private.h"
#include "stage/stage.h"

struct group; /* small payloads that are enqueued together */

struct input {
	struct input *next; /* among the transfers under way */
	struct sgpu_inputs *all;
	int segment;
	bool begun;
	struct sgpu_transfer *transfer;
	struct sgpu_source file; /* file or region with the payload; fd -1: none */
	int code;
	char *text; /* why it failed */
};

struct sgpu_inputs {
	struct input *list; /* by segment of the manifest */
	struct input *under_way;
	struct group *filling;	/* not enqueued yet, or NULL */
	struct group *enqueued; /* oldest first */
	int tar_code;		/* SGPU_OK, or why the batch itself cannot be read any more */
	struct sgpu_run *run;
};

static inline struct sgpu_run *input_run(const struct input *input)
{
	return input->all->run;
}

static inline const struct sgpu_batch_segment *input_segment(const struct input *input)
{
	return sgpu_run_segment(input_run(input), input->segment);
}

static inline int input_number(const struct input *input)
{
	return input_run(input)->job.in_batch[input->segment];
}

static inline enum sgpu_location_kind input_kind(const struct input *input)
{
	return input_segment(input)->location.kind;
}

static inline uint64_t input_size(const struct input *input)
{
	return sgpu_batch_payload_size(input_run(input)->job.batch, input_number(input));
}

static inline uint64_t input_header(const struct input *input)
{
	return input_segment(input)->sealed ? SGPU_SEALED_HEADER : 0;
}

static inline int input_device(const struct input *input)
{
	const struct sgpu_plan *plan = input_run(input)->job.plan;

	return plan->buffers[plan->in_buffer[input->segment]].device;
}

static inline struct sgpu_engine *input_engine(const struct input *input)
{
	return input_run(input)->devices[input_device(input)].engine;
}

static inline sgpu_devptr input_memory(const struct input *input)
{
	const struct sgpu_run *run = input_run(input);

	return run->memory.buffers[run->job.plan->in_buffer[input->segment]];
}

/* ---- inputs.c ---- */
/* Frees the resources of an input that has ended, and tells the graph. */
void sgpu_input_end(struct input *input);
void sgpu_input_fail(struct input *input, int code, const char *text);
/* Fails an input whose chunk number `chunk` or whose digest does not verify. */
void sgpu_input_fail_unverified(struct input *input, uint64_t chunk);
/* Fails and ends an input that was not begun. */
void sgpu_input_miss(struct input *input, int code, const char *text);
/* Reads bytes of a payload that is not in a lease, in order. */
SGPU_MUST_CHECK int sgpu_input_read(struct input *input, uint64_t from, void *data, size_t size,
				    struct sgpu_error *error);
/* Checks the header, of which the client may change its own copy in a lease at `from`, and gets the
 * key; NULL if the input is not sealed. from NULL: the header is read. */
SGPU_MUST_CHECK int sgpu_input_prepare(struct input *input, const uint8_t *from,
				       struct sgpu_device_key **key, struct sgpu_error *error);

/* ---- small.c ---- */
/* Brings in a small payload with others. Returns false if it has to be brought in as a large one.
 */
bool sgpu_input_bring_small(struct input *input);
/* Enqueues the group that is being filled. */
void sgpu_inputs_flush(struct sgpu_inputs *inputs);
/* Ends the groups that the device has passed; returns whether there were any. */
bool sgpu_inputs_end_groups(struct sgpu_inputs *inputs);
/* The device of the oldest group. */
int sgpu_inputs_group_device(const struct sgpu_inputs *inputs);

#endif
