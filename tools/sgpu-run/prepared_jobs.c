/* SPDX-License-Identifier: Apache-2.0 */
#include "prepared_jobs.h"

#include <sgpu/base.h>

static json_t *job_json(const struct sgpu_prepared_job *job)
{
	char hex[2 * SGPU_SHA256_SIZE + 1];

	sgpu_hex_encode(job->sha256, SGPU_SHA256_SIZE, hex);
	return json_pack("{s:s, s:i, s:i, s:I, s:I, s:b}", "digest", hex, "operations", job->operations, "streams",
			 job->streams, "device_memory_bytes", (json_int_t)job->device_bytes, "uses", (json_int_t)job->uses,
			 "prepared", job->pinned);
}

json_t *prepared_jobs_json(struct sgpu_device *device, const struct sgpu_prepared_job *jobs, int count)
{
	struct sgpu_device_info info = { .selector = "" };
	json_t *list = json_array();
	bool bad = !list || sgpu_device_get_info(device, &info, NULL) != SGPU_OK;

	for (int i = 0; i < count && !bad; i++) {
		bad = json_array_append_new(list, job_json(&jobs[i])) != 0;
	}
	if (bad) {
		json_decref(list);
		return NULL;
	}
	return json_pack("{s:s, s:o}", "device", info.selector, "jobs", list);
}
