/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's side of a session: handles of buffers and jobs.
 */
#include "remote/client.h"

/* ---- memory ---- */
int sgpu_remote_check(const struct sgpu_remote *remote, uint32_t buffer, uint64_t offset,
		      uint64_t size, struct sgpu_error *error)
{
	const uint64_t has =
		buffer > 0 && buffer <= SGPU_REMOTE_BUFFERS_MAX ? remote->sizes[buffer] : 0;

	if (has == 0) {
		return sgpu_fail(error, SGPU_EUSAGE, "the session has no buffer %u",
				 (unsigned)buffer);
	}
	if (offset > has || size > has - offset) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "%llu bytes from %llu are not in buffer %u of %llu bytes",
				 (unsigned long long)size, (unsigned long long)offset,
				 (unsigned)buffer, (unsigned long long)has);
	}
	return SGPU_OK;
}

int sgpu_remote_alloc(struct sgpu_remote *remote, uint64_t size, uint32_t *buffer,
		      struct sgpu_error *error)
{
	struct sgpu_item item = { .kind = SGPU_ITEM_ALLOC, .buffer = 1, .size = size };
	int rc;

	while (item.buffer <= SGPU_REMOTE_BUFFERS_MAX && remote->sizes[item.buffer] > 0) {
		item.buffer++;
	}
	if (size == 0 || item.buffer > SGPU_REMOTE_BUFFERS_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 size == 0 ? "a buffer of no bytes"
					   : "a session has at most %d buffers",
				 SGPU_REMOTE_BUFFERS_MAX);
	}
	rc = sgpu_remote_add(remote, &item, error);
	rc = rc ? rc : sgpu_remote_flush(remote, error);
	if (rc == SGPU_OK) {
		remote->sizes[item.buffer] = size;
		*buffer = item.buffer;
	}
	return rc;
}

/* ---- jobs ---- */
int sgpu_remote_load(struct sgpu_remote *remote, const char *manifest, size_t size, uint32_t *job,
		     struct sgpu_error *error)
{
	struct sgpu_item item = { .kind = SGPU_ITEM_JOB_LOAD,
				  .tail = (const uint8_t *)manifest,
				  .tail_size = (uint32_t)size };
	int rc;

	while (item.object < SGPU_GROUP_OBJECTS && remote->jobs[item.object]) {
		item.object++;
	}
	if (size == 0 || size > SGPU_REMOTE_MANIFEST_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "the manifest of a job has 1 to %d bytes, not %zu",
				 SGPU_REMOTE_MANIFEST_MAX, size);
	}
	if (item.object == SGPU_GROUP_OBJECTS) {
		return sgpu_fail(error, SGPU_EUSAGE, "a session has at most %d jobs",
				 SGPU_REMOTE_JOBS_MAX);
	}
	rc = sgpu_remote_add(remote, &item, error);
	rc = rc ? rc : sgpu_remote_flush(remote, error);
	if (rc == SGPU_OK) {
		remote->jobs[item.object] = true;
		*job = item.object + 1;
	}
	return rc;
}

int sgpu_remote_run(struct sgpu_remote *remote, uint32_t job,
		    const struct sgpu_remote_range *ranges, int count, struct sgpu_error *error)
{
	uint8_t tail[SGPU_ITEM_RANGES_MAX];
	struct sgpu_item item = { .kind = SGPU_ITEM_JOB_RUN, .object = job - 1, .tail = tail };
	int rc = SGPU_OK;

	if (job == 0 || job > SGPU_GROUP_OBJECTS || !remote->jobs[job - 1]) {
		return sgpu_fail(error, SGPU_EUSAGE, "the session has no job %u", (unsigned)job);
	}
	if (count < 0 || count > SGPU_MODULE_RANGES_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "a job has at most %d ranges",
				 SGPU_REMOTE_RANGES_MAX);
	}
	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = sgpu_remote_check(remote, ranges[i].buffer, ranges[i].offset, ranges[i].size,
				       error);
	}
	if (rc < 0) {
		return rc;
	}
	item.tail_size = sgpu_item_ranges_encode(ranges, count, tail);
	return sgpu_remote_add(remote, &item, error);
}
