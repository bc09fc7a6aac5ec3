/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of a device, copied so that a test may put others in their place.
 */
#ifndef FAKE_BACKEND_H
#define FAKE_BACKEND_H

#include <device/backend.h>

struct fake_backend {
	struct sgpu_device_backend table; /* its members point at the others below */
	struct sgpu_device_memory_calls memory;
	struct sgpu_device_stream_calls stream;
	struct sgpu_device_key_calls key;
	struct sgpu_device_module_calls module;
};

static inline void fake_backend_copy(struct fake_backend *to,
				     const struct sgpu_device_backend *from)
{
	to->table = *from;
	to->memory = *from->memory;
	to->stream = *from->stream;
	to->key = *from->key;
	to->module = *from->module;
	to->table.memory = &to->memory;
	to->table.stream = &to->stream;
	to->table.key = &to->key;
	to->table.module = &to->module;
}

/* Defines an enqueue call that gives each piece of work to `one`. */
#define FAKE_ENQUEUE(name, one)                                                                 \
	static inline int name(struct sgpu_stream *on, const struct sgpu_work *work, int count) \
	{                                                                                       \
		int rc = SGPU_OK;                                                               \
                                                                                                \
		for (int i = 0; rc == SGPU_OK && i < count; i++) {                              \
			rc = one(on, &work[i]);                                                 \
		}                                                                               \
		return rc;                                                                      \
	}

/* From here on the calls of an object go to the copy: of a device, a stream, an event, a key or a
 * module. */
static inline void fake_backend_give(void *object, const struct fake_backend *backend)
{
	((struct sgpu_device_object *)object)->backend = &backend->table;
}

#endif
