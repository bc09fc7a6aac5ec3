/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a worker of command groups: what its session has, and the group at work. Private to
 * group_worker.c, group_job.c and group_state.c.
 */
#ifndef SGPU_SECURE_GROUP_STATE_H
#define SGPU_SECURE_GROUP_STATE_H

#include "secure/group.h"

/* A launch that was enqueued. */
struct sgpu_group_started {
	struct sgpu_group_launch call;
	const struct sgpu_group_operation *operation;
	struct sgpu_device_range ranges[SGPU_MODULE_RANGES_MAX];
};

struct sgpu_group_buffer {
	sgpu_devptr memory; /* 0: there is none */
	uint64_t size;
};

struct sgpu_group_worker {
	struct sgpu_secure *context;
	struct sgpu_device *device;
	struct sgpu_group_config config;
	bool registered;     /* the area */
	sgpu_devptr staging; /* area_size bytes, or 0 */
	bool bus;	     /* the device's memory is not the host's */
	uint64_t used;	     /* bytes of buffers */
	struct sgpu_group_buffer buffers[SGPU_GROUP_BUFFERS];
	struct sgpu_device_key *keys[SGPU_GROUP_OBJECTS];
	struct sgpu_device_module *modules[SGPU_GROUP_OBJECTS];
	struct {
		void *job; /* of config.jobs; NULL: there is none */
		uint64_t bytes;
	} jobs[SGPU_GROUP_OBJECTS];
	struct sgpu_stream *streams[SGPU_GROUP_STREAMS];
	/* of the group at work */
	struct sgpu_item items[SGPU_GROUP_ITEMS];
	struct sgpu_task tasks[SGPU_GROUP_ITEMS];
	struct sgpu_group_started *launches[SGPU_GROUP_ITEMS];
	void *runs[SGPU_GROUP_ITEMS]; /* of jobs */
	int settled;	  /* items in front of this one have opened what they were to open */
	uint8_t opening;  /* streams, by bit, that have opens behind it */
	uint8_t *results; /* secret memory: SGPU_GROUP_BYTES, one result behind the other */
	size_t results_size;
};

/* ---- group_state.c ---- */
/* Waits for all that the session has enqueued. */
int sgpu_group_wait_idle(struct sgpu_group_worker *worker, struct sgpu_error *error);
/* Fails with SGPU_EUSAGE: there is no such object, or there is one already. */
int sgpu_group_no_object(const char *what, uint32_t handle, bool there, struct sgpu_error *error);
/* A range within a buffer. Errors: SGPU_EUSAGE. */
SGPU_MUST_CHECK int sgpu_group_find_range(const struct sgpu_group_worker *worker, uint32_t handle,
					  uint64_t offset, uint64_t size,
					  struct sgpu_device_range *range,
					  struct sgpu_error *error);
/* The ranges of a call. */
SGPU_MUST_CHECK int sgpu_group_find_ranges(const struct sgpu_group_worker *worker,
					   const struct sgpu_item_call *call,
					   struct sgpu_device_range ranges[SGPU_MODULE_RANGES_MAX],
					   struct sgpu_error *error);
/* Bytes of device memory that the session may still have, by its own limit. */
uint64_t sgpu_group_memory_left(const struct sgpu_group_worker *worker);
/* Allocates device memory that counts as the session's. Errors: SGPU_ENOMEM, by the limit of the
 * process as well. */
SGPU_MUST_CHECK int sgpu_group_alloc(struct sgpu_group_worker *worker, uint64_t size,
				     sgpu_devptr *memory, struct sgpu_error *error);
/* Accepts a pointer to 0. */
void sgpu_group_free(struct sgpu_group_worker *worker, sgpu_devptr *memory, uint64_t size);

/* ---- group_job.c: the items of jobs ---- */
SGPU_MUST_CHECK int sgpu_group_load_job(struct sgpu_group_worker *worker,
					const struct sgpu_item *item, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_group_run_job(struct sgpu_group_worker *worker,
				       const struct sgpu_item *item, struct sgpu_stream *stream,
				       struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_group_free_job(struct sgpu_group_worker *worker,
					const struct sgpu_item *item, struct sgpu_error *error);
/* The streams are idle: what became of the run that an item started is what became of the item. */
void sgpu_group_end_run(struct sgpu_group_worker *worker, int item);
void sgpu_group_free_jobs(struct sgpu_group_worker *worker);

#endif
