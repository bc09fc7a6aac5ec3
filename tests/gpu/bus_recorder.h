/* SPDX-License-Identifier: Apache-2.0
 *
 * A recorder of what crosses the bus between the host and a GPU, as far as a process can see it:
 * what copies move, the parameters of kernels, and all pinned host memory that kernels may read and
 * write, as it is before and after each launch. And what the host's half of an agreement computes,
 * to search for it.
 *
 * It takes the place of dlsym for the whole process. The device's table of the driver is filled
 * through it, and so is that of the CUDA runtime inside sgpu-cuda.so, which launches its kernels:
 * it asks dlsym for cuGetProcAddress.
 */
#ifndef BUS_RECORDER_H
#define BUS_RECORDER_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/evp.h>
#include <openssl/sha.h>

enum { BUS_PAGE = 4096, BUS_PINNED_MAX = 64, BUS_SEEN_MAX = 8 };

struct bus_pinned {
	uint8_t *memory, *last; /* last: as it was when it was looked at */
	size_t size;
};

static struct {
	pthread_mutex_t lock;
	bool on;
	uint8_t *data;
	size_t size, room;
	struct bus_pinned pinned[BUS_PINNED_MAX];
	unsigned launches, sized; /* and those of which the parameters' sizes are known */
	_Atomic unsigned events;  /* records of events, whether it is on or not */
	int withhold;		  /* launches from here on that never reach the device, */
	int after;		  /* after so many that do */
	/* size of a parameter, or of a copy to the device, of which a bit is changed, once; 0: none
	 */
	size_t change;
	size_t change_at; /* the byte */
	void *library;
	/* The host's secrets: of the last agreement. HKDF's output are the last MACs that were
	 * computed. */
	uint8_t derived[64], shared[32], private_key[32];
	unsigned hashes; /* since it is on */
} bus = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The driver's functions, as far as they are needed: their types, without its header. */
typedef int (*bus_get_fn)(const char *, void **, int, uint64_t, void *);
typedef int (*bus_launch_fn)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
			     unsigned, void *, void **, void **);
struct bus_launch_config {
	unsigned grid[3], block[3], shared_bytes;
	void *stream, *attributes;
	unsigned attribute_count;
};
typedef int (*bus_launch_ex_fn)(const struct bus_launch_config *, void *, void **, void **);
typedef int (*bus_in_fn)(uint64_t, const void *, size_t, void *);
typedef int (*bus_out_fn)(void *, uint64_t, size_t, void *);
typedef int (*bus_host_alloc_fn)(void **, size_t, unsigned);
typedef int (*bus_host_free_fn)(void *);
typedef int (*bus_host_register_fn)(void *, size_t, unsigned);
typedef int (*bus_param_fn)(void *, size_t, size_t *, size_t *);
typedef int (*bus_sync_fn)(void *);
typedef int (*bus_event_fn)(void *, void *);

static struct {
	bus_get_fn get;
	bus_launch_fn launch;
	bus_launch_ex_fn launch_ex;
	bus_in_fn in;
	bus_out_fn out;
	bus_host_alloc_fn host_alloc;
	bus_host_free_fn host_free;
	bus_host_register_fn host_register;
	bus_event_fn event;
} bus_real;

static void *bus_find(void *handle, const char *name)
{
	static void *(*real)(void *, const char *);

	if (!real) {
		void *found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");

		found = found ? found : dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
		memcpy(&real, &found, sizeof(found));
	}
	return real(handle, name);
}

/* The lock is held. */
static void bus_note(const void *data, size_t size)
{
	if (!bus.on || size == 0) {
		return;
	}
	if (bus.size + size > bus.room) {
		bus.room = 2 * (bus.size + size);
		bus.data = realloc(bus.data, bus.room);
		if (!bus.data) {
			abort();
		}
	}
	memcpy(bus.data + bus.size, data, size);
	bus.size += size;
}

/* Changes what is about to cross, if it is to be changed. The lock is held. */
static void bus_alter(void *data, size_t size)
{
	if (bus.change != 0 && size == bus.change) {
		((uint8_t *)data)[bus.change_at] ^= 4;
		bus.change = 0;
	}
}

/* What is new in pinned memory, once it is on; the lock is held. */
static void bus_look(void)
{
	for (int i = 0; bus.on && i < BUS_PINNED_MAX; i++) {
		struct bus_pinned *p = &bus.pinned[i];

		for (size_t at = 0; p->memory && at < p->size; at += BUS_PAGE) {
			size_t part = p->size - at < BUS_PAGE ? p->size - at : BUS_PAGE;

			if (memcmp(p->memory + at, p->last + at, part) != 0) {
				memcpy(p->last + at, p->memory + at, part);
				bus_note(p->last + at, part);
			}
		}
	}
}

static void bus_pin(void *memory, size_t size)
{
	int i;

	pthread_mutex_lock(&bus.lock);
	for (i = 0; i < BUS_PINNED_MAX && bus.pinned[i].memory; i++) {
	}
	if (i == BUS_PINNED_MAX) {
		abort();
	}
	bus.pinned[i] =
		(struct bus_pinned){ .memory = memory, .last = calloc(1, size), .size = size };
	if (!bus.pinned[i].last) {
		abort();
	}
	pthread_mutex_unlock(&bus.lock);
}

static void bus_unpin(void *memory)
{
	pthread_mutex_lock(&bus.lock);
	for (int i = 0; i < BUS_PINNED_MAX; i++) {
		if (bus.pinned[i].memory == memory && memory) {
			free(bus.pinned[i].last);
			memset(&bus.pinned[i], 0, sizeof(bus.pinned[i]));
		}
	}
	pthread_mutex_unlock(&bus.lock);
}

/* Calls a function of the driver that is no part of the record. */
static bus_param_fn bus_param(const char *name)
{
	void *found = bus.library ? bus_find(bus.library, name) : NULL;
	bus_param_fn function;

	memcpy(&function, &found, sizeof(found));
	return function;
}

static void bus_sync(void *stream)
{
	void *found = bus.library ? bus_find(bus.library, "cuStreamSynchronize") : NULL;
	bus_sync_fn function;

	memcpy(&function, &found, sizeof(found));
	if (function) {
		(void)function(stream);
	}
}

/* A launch is about to be: notes its parameters. False: it is withheld. The lock is held. */
static bool bus_before(void *function, void **params)
{
	const char *const names[] = { "cuFuncGetParamInfo", "cuKernelGetParamInfo" };
	size_t offset, size, i = 0;

	for (int k = 0; params && k < 2 && i == 0; k++) {
		bus_param_fn info = bus_param(names[k]);

		for (i = 0; info && info(function, i, &offset, &size) == 0; i++) {
			bus_alter(params[i], size);
			bus_note(params[i], size);
		}
	}
	bus.launches++;
	bus.sized += i > 0;
	bus_look();
	if (bus.withhold > 0 && bus.after-- <= 0) {
		bus.withhold--;
		return false;
	}
	return true;
}

static void bus_after(void *stream)
{
	if (bus.on) {
		bus_sync(stream);
		bus_look();
	}
}

static int bus_launch(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
		      unsigned by, unsigned bz, unsigned shared, void *stream, void **params,
		      void **extra)
{
	int result = 0;

	pthread_mutex_lock(&bus.lock);
	if (bus_before(function, params)) {
		result = bus_real.launch(function, gx, gy, gz, bx, by, bz, shared, stream, params,
					 extra);
		bus_after(stream);
	}
	pthread_mutex_unlock(&bus.lock);
	return result;
}

static int bus_launch_ex(const struct bus_launch_config *config, void *function, void **params,
			 void **extra)
{
	int result = 0;

	pthread_mutex_lock(&bus.lock);
	if (bus_before(function, params)) {
		result = bus_real.launch_ex(config, function, params, extra);
		bus_after(config->stream);
	}
	pthread_mutex_unlock(&bus.lock);
	return result;
}

static int bus_in(uint64_t to, const void *from, size_t size, void *stream)
{
	pthread_mutex_lock(&bus.lock);
	bus_alter((void *)(uintptr_t)from, size);
	bus_note(from, size);
	pthread_mutex_unlock(&bus.lock);
	return bus_real.in(to, from, size, stream);
}

static int bus_out(void *to, uint64_t from, size_t size, void *stream)
{
	int result = bus_real.out(to, from, size, stream);

	pthread_mutex_lock(&bus.lock);
	if (bus.on && result == 0) {
		bus_sync(stream);
		bus_note(to, size);
	}
	pthread_mutex_unlock(&bus.lock);
	return result;
}

static int bus_host_alloc(void **memory, size_t size, unsigned flags)
{
	int result = bus_real.host_alloc(memory, size, flags);

	if (result == 0) {
		bus_pin(*memory, size);
	}
	return result;
}

static int bus_host_free(void *memory)
{
	bus_unpin(memory);
	return bus_real.host_free(memory);
}

static int bus_host_register(void *memory, size_t size, unsigned flags)
{
	int result = bus_real.host_register(memory, size, flags);

	if (result == 0) {
		bus_pin(memory, size);
	}
	return result;
}

static int bus_event(void *event, void *stream)
{
	bus.events++;
	return bus_real.event(event, stream);
}

static int bus_get(const char *name, void **function, int version, uint64_t flags, void *status);

#define BUS_ROW(name, real, mine)                            \
	{                                                    \
		name, &bus_real.real, (void (*)(void))(mine) \
	}
static const struct {
	const char *name;
	void *real;
	void (*mine)(void);
} bus_rows[] = {
	BUS_ROW("cuGetProcAddress", get, bus_get),
	BUS_ROW("cuGetProcAddress_v2", get, bus_get),
	BUS_ROW("cuLaunchKernel", launch, bus_launch),
	BUS_ROW("cuLaunchKernelEx", launch_ex, bus_launch_ex),
	BUS_ROW("cuMemcpyHtoDAsync", in, bus_in),
	BUS_ROW("cuMemcpyHtoDAsync_v2", in, bus_in),
	BUS_ROW("cuMemcpyDtoHAsync", out, bus_out),
	BUS_ROW("cuMemcpyDtoHAsync_v2", out, bus_out),
	BUS_ROW("cuMemHostAlloc", host_alloc, bus_host_alloc),
	BUS_ROW("cuMemFreeHost", host_free, bus_host_free),
	BUS_ROW("cuMemHostRegister_v2", host_register, bus_host_register),
	BUS_ROW("cuEventRecord", event, bus_event),
};

/* The recorder's function in the place of the one that was found. */
static void *bus_replace(const char *name, void *found)
{
	for (size_t i = 0; found && i < sizeof(bus_rows) / sizeof(*bus_rows); i++) {
		if (strcmp(name, bus_rows[i].name) == 0) {
			void *mine;

			memcpy(bus_rows[i].real, &found, sizeof(found));
			memcpy(&mine, &bus_rows[i].mine, sizeof(mine));
			return mine;
		}
	}
	return found;
}

static int bus_get(const char *name, void **function, int version, uint64_t flags, void *status)
{
	int result = bus_real.get(name, function, version, flags, status);

	if (result == 0 && function) {
		*function = bus_replace(name, *function);
	}
	return result;
}

__attribute__((visibility("default"))) void *dlsym(void *restrict handle, const char *restrict name)
{
	void *found = bus_find(handle, name);

	if (strcmp(name, "cuInit") == 0 && found) {
		bus.library = handle;
	}
	return bus_replace(name, found);
}

/* ---- the host's secrets, as libcrypto gives them ---- */
/* Each second hash is the outer one of an HMAC. */
__attribute__((visibility("default"))) int SHA256_Final(unsigned char *digest, SHA256_CTX *context)
{
	int (*real)(unsigned char *, SHA256_CTX *);
	void *found = bus_find(RTLD_NEXT, "SHA256_Final");
	size_t half = sizeof(bus.derived) / 2;
	int done;

	memcpy(&real, &found, sizeof(found));
	done = real(digest, context);
	if (done == 1 && ++bus.hashes % 2 == 0) {
		memcpy(bus.derived, bus.derived + half, half);
		memcpy(bus.derived + half, digest, half);
	}
	return done;
}

__attribute__((visibility("default"))) int EVP_PKEY_derive(EVP_PKEY_CTX *context,
							   unsigned char *key, size_t *size)
{
	int (*real)(EVP_PKEY_CTX *, unsigned char *, size_t *);
	void *found = bus_find(RTLD_NEXT, "EVP_PKEY_derive");
	int done;

	memcpy(&real, &found, sizeof(found));
	done = real(context, key, size);
	if (done == 1 && key && *size == sizeof(bus.shared)) {
		memcpy(bus.shared, key, *size);
	}
	return done;
}

__attribute__((visibility("default"))) int EVP_PKEY_get_raw_private_key(const EVP_PKEY *key,
									unsigned char *bytes,
									size_t *size)
{
	int (*real)(const EVP_PKEY *, unsigned char *, size_t *);
	void *found = bus_find(RTLD_NEXT, "EVP_PKEY_get_raw_private_key");
	int done;

	memcpy(&real, &found, sizeof(found));
	done = real(key, bytes, size);
	if (done == 1 && bytes && *size == sizeof(bus.private_key)) {
		memcpy(bus.private_key, bytes, *size);
	}
	return done;
}

/* ---- for tests ---- */
static inline void bus_begin(void)
{
	pthread_mutex_lock(&bus.lock);
	bus.size = bus.launches = bus.sized = bus.hashes = 0;
	bus.on = true;
	bus_look();
	bus.size = 0;
	pthread_mutex_unlock(&bus.lock);
}

static inline void bus_end(void)
{
	pthread_mutex_lock(&bus.lock);
	bus_look();
	bus.on = false;
	pthread_mutex_unlock(&bus.lock);
}

/* Whether any `part` bytes in a row of a secret were seen. */
static inline bool bus_saw(const void *secret, size_t size, size_t part)
{
	const uint8_t *bytes = secret;

	for (size_t i = 0; i + part <= size; i++) {
		if (memmem(bus.data, bus.size, bytes + i, part)) {
			return true;
		}
	}
	return false;
}

#endif
