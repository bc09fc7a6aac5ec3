/* SPDX-License-Identifier: Apache-2.0
 *
 * The pager of a device: what the processor of channels does to pages, done by the device's own
 * calls, one after another on a stream that nobody else has.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/channel.h>

struct paged_device {
	struct sgpu_device *device;
	struct sgpu_stream *stream;
};

struct paged_space {
	struct sgpu_space *space;
	sgpu_devptr base;
};

static int space_create(void *device, uint64_t size, void **space, sgpu_devptr *base,
			struct sgpu_error *error)
{
	struct paged_device *paged = device;
	struct paged_space *new = calloc(1, sizeof(*new));
	int code;

	if (!new) {
		return sgpu_fail_nomem(error);
	}
	code = sgpu_space_create(paged->device, size, &new->space, &new->base, error);
	if (code < 0) {
		free(new);
		return code;
	}
	*space = new;
	*base = new->base;
	return SGPU_OK;
}

static void space_free(void *device, void *space)
{
	struct paged_space *old = space;

	(void)device;
	if (old) {
		sgpu_space_free(&old->space);
		free(old);
	}
}

static int map(void *device, void *space, uint64_t at, const uint32_t *pages, size_t count,
	       uint64_t page_size, struct sgpu_error *error)
{
	(void)device;
	return sgpu_page_map(((struct paged_space *)space)->space, at, pages, count, page_size,
			     error);
}

static int unmap(void *device, void *space, uint64_t at, uint64_t size, struct sgpu_error *error)
{
	(void)device;
	return sgpu_page_unmap(((struct paged_space *)space)->space, at, size, error);
}

static int set_access(void *device, void *space, bool on, struct sgpu_error *error)
{
	(void)device;
	return sgpu_space_access(((struct paged_space *)space)->space, on, error);
}

/* Waits for what was enqueued, and says what became of it: the task, which ends in every case. */
static int finish(struct paged_device *paged, int enqueued, const struct sgpu_task *task,
		  struct sgpu_error *error)
{
	int code = enqueued;

	if (code == SGPU_OK) {
		code = sgpu_stream_sync(paged->stream, error);
		if (code < 0) {
			return code;
		}
		code = task->code;
	}
	if (code < 0) {
		return task->error.text[0] ? sgpu_fail(error, code, "%s", task->error.text)
					   : sgpu_fail(error, code, "%s", sgpu_strerror(code));
	}
	return SGPU_OK;
}

/* A kernel that runs could write behind the clearing. */
static int clear(void *device, void *space, uint64_t at, uint64_t size, struct sgpu_error *error)
{
	struct paged_device *paged = device;
	struct sgpu_task task = { 0 };
	int code = sgpu_device_synchronize(paged->device, error);

	if (code < 0) {
		return code;
	}
	code = sgpu_device_clear(paged->stream, ((struct paged_space *)space)->base + at, size,
				 &task);
	return finish(paged, code, &task, error);
}

static int measure(void *device, void *space, uint64_t at, uint64_t size, const uint8_t *key,
		   uint8_t digest[SGPU_DIGEST_SIZE], struct sgpu_error *error)
{
	struct paged_device *paged = device;
	struct sgpu_task task = { 0 };
	int code = sgpu_device_measure(paged->stream, ((struct paged_space *)space)->base + at,
				       size, key, digest, &task);

	return finish(paged, code, &task, error);
}

static int read_bytes(void *device, void *space, uint64_t at, void *to, uint64_t size,
		      struct sgpu_error *error)
{
	struct paged_device *paged = device;
	struct sgpu_task task = { 0 };
	int code = sgpu_copy_out(paged->stream, to, ((struct paged_space *)space)->base + at, size,
				 &task);

	return finish(paged, code, &task, error);
}

static int write_bytes(void *device, void *space, uint64_t at, const void *from, uint64_t size,
		       struct sgpu_error *error)
{
	struct paged_device *paged = device;
	struct sgpu_task task = { 0 };
	int code = sgpu_copy_in(paged->stream, ((struct paged_space *)space)->base + at, from, size,
				&task);

	return finish(paged, code, &task, error);
}

int sgpu_pager_of(struct sgpu_device *device, struct sgpu_pager *pager, struct sgpu_error *error)
{
	struct paged_device *paged;
	int code;

	memset(pager, 0, sizeof(*pager));
	code = sgpu_device_pages(device, &pager->info, error);
	if (code < 0) {
		return code;
	}
	paged = calloc(1, sizeof(*paged));
	if (!paged) {
		return sgpu_fail_nomem(error);
	}
	paged->device = device;
	code = sgpu_stream_create(device, &paged->stream, error);
	if (code < 0) {
		free(paged);
		return code;
	}
	pager->device = paged;
	pager->space_create = space_create;
	pager->space_free = space_free;
	pager->map = map;
	pager->unmap = unmap;
	pager->clear = clear;
	pager->access = set_access;
	pager->measure = measure;
	pager->read = read_bytes;
	pager->write = write_bytes;
	return SGPU_OK;
}

void sgpu_pager_close(struct sgpu_pager *pager)
{
	struct paged_device *paged = pager->device;

	if (paged) {
		sgpu_stream_free(&paged->stream);
		free(paged);
	}
	sgpu_wipe(pager, sizeof(*pager));
}
