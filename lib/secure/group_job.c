/* SPDX-License-Identifier: Apache-2.0
 *
 * The items of jobs. What a job is, config.jobs knows.
 */
#include "secure/group_state.h"

#include "base/base.h"

void sgpu_group_end_run(struct sgpu_group_worker *w, int item)
{
	struct sgpu_error error = { 0 };
	int rc = w->runs[item] ? w->config.jobs->end(&w->runs[item], &error) : SGPU_OK;

	if (rc != SGPU_OK && w->tasks[item].code == SGPU_OK) {
		w->tasks[item].code = rc;
		w->tasks[item].error = error;
	}
}

int sgpu_group_load_job(struct sgpu_group_worker *w, const struct sgpu_item *item,
			struct sgpu_error *error)
{
	const uint64_t most = sgpu_group_memory_left(w), left = sgpu_limit_left(SGPU_DEVICE_MEMORY);
	uint64_t bytes = 0;
	int rc;

	if (!w->config.jobs) {
		return sgpu_fail(error, SGPU_EUSAGE, "there are no jobs here");
	}
	if (w->jobs[item->object].job) {
		return sgpu_group_no_object("job", item->object, true, error);
	}
	rc = w->config.jobs->load(w->device, (const char *)item->tail, item->tail_size,
				  left < most ? left : most, &w->jobs[item->object].job, &bytes,
				  error);
	if (rc == SGPU_OK) {
		rc = sgpu_limit_take(SGPU_DEVICE_MEMORY, bytes,
				     error); /* others may have taken some meanwhile */
		if (rc < 0) {
			w->config.jobs->free(&w->jobs[item->object].job);
			return rc;
		}
		w->jobs[item->object].bytes = bytes;
		w->used += bytes;
	}
	return rc;
}

int sgpu_group_run_job(struct sgpu_group_worker *w, const struct sgpu_item *item,
		       struct sgpu_stream *stream, struct sgpu_error *error)
{
	struct sgpu_device_range ranges[SGPU_MODULE_RANGES_MAX];
	struct sgpu_item_call call;
	int rc = sgpu_item_call_decode(item, &call, error);

	if (rc == SGPU_OK && (call.name[0] || call.written || call.arguments_size > 0)) {
		rc = sgpu_fail(error, SGPU_EINVALID, "a job is given more than its ranges");
	}
	if (rc == SGPU_OK && !w->jobs[item->object].job) {
		rc = sgpu_group_no_object("job", item->object, false, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_group_find_ranges(w, &call, ranges, error);
	}
	return rc < 0 ? rc
		      : w->config.jobs->start(w->jobs[item->object].job, stream, ranges,
					      call.range_count, &w->runs[item - w->items], error);
}

int sgpu_group_free_job(struct sgpu_group_worker *w, const struct sgpu_item *item,
			struct sgpu_error *error)
{
	int rc = w->jobs[item->object].job
			 ? sgpu_group_wait_idle(w, error)
			 : sgpu_group_no_object("job", item->object, false, error);

	for (int i = 0; rc == SGPU_OK && i < SGPU_GROUP_ITEMS; i++) {
		sgpu_group_end_run(w, i);
	}
	if (rc == SGPU_OK) {
		sgpu_limit_give(SGPU_DEVICE_MEMORY, w->jobs[item->object].bytes);
		w->used -= w->jobs[item->object].bytes;
		w->config.jobs->free(&w->jobs[item->object].job);
	}
	return rc;
}

void sgpu_group_free_jobs(struct sgpu_group_worker *w)
{
	for (int i = 0; i < SGPU_GROUP_OBJECTS; i++) {
		if (w->jobs[i].job) {
			w->config.jobs->free(&w->jobs[i].job);
			sgpu_limit_give(SGPU_DEVICE_MEMORY, w->jobs[i].bytes);
		}
	}
}
