/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of devices: each checks its arguments, asks the guard, if any, and calls the backend.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <device/backend.h>

#define BACKEND(object) sgpu_device_backend_of(object)
#define GUARD(object) sgpu_device_guard_of(object)

/* The device under a secure context, or else `device`. */
static struct sgpu_device *under(struct sgpu_device *device)
{
	return GUARD(device) ? GUARD(device)->device : device;
}

static bool same_kind(const void *one, const void *other)
{
	return BACKEND(one)->memory->shared_alloc == BACKEND(other)->memory->shared_alloc;
}

/* Gives a new object the guard of its maker, a device or a stream. */
static int guarded(int rc, void *made, const void *maker)
{
	if (rc == SGPU_OK) {
		((struct sgpu_device_object *)made)->guard = GUARD(maker);
	}
	return rc;
}

/* ---- opening ---- */
/* Whether a word is an index, or a GPU's UUID or its beginning. */
static bool is_one(const char *word)
{
	if (strncmp(word, "GPU-", 4) == 0) {
		return word[4] != '\0' &&
		       strspn(word + 4, "0123456789abcdefABCDEF-") == strlen(word + 4);
	}
	return *word != '\0' && strspn(word, "0123456789") == strlen(word);
}

/* "cuda", "cuda:1" and "cuda:GPU-5d0c" name the backend "cuda". */
static bool names(const char *selector, const char *name)
{
	size_t length = strlen(name);

	if (strncmp(selector, name, length) != 0) {
		return false;
	}
	return selector[length] == '\0' ||
	       (selector[length] == ':' && is_one(selector + length + 1));
}

int sgpu_device_open(const char *selector, const struct sgpu_device_config *config,
		     struct sgpu_device **device, struct sgpu_error *error)
{
	static const struct sgpu_device_config standard;
	const struct sgpu_device_backend *backend;
	struct sgpu_error missing = { 0 };
	int rc = SGPU_OK;

	*device = NULL;
	if (!selector || strcmp(selector, "auto") == 0) {
		selector = sgpu_cuda_load(&backend, &missing) == SGPU_OK ? "cuda" : "cpu";
	}
	if (names(selector, "cuda")) {
		rc = sgpu_cuda_load(&backend, &missing);
	} else if (names(selector, "cpu")) {
		backend = &sgpu_device_cpu;
	} else {
		sgpu_fail(error, SGPU_EUSAGE, "'%s' names no device", selector);
		sgpu_hint(error, "devices are 'cpu', 'cuda', 'cuda:N', 'cuda:GPU-UUID' and 'auto'");
		return SGPU_EUSAGE;
	}
	if (rc < 0) {
		sgpu_fail(error, rc, "no device '%s': %s", selector, missing.text);
		sgpu_hint(error, "%s", missing.hint);
		return rc;
	}
	return backend->open(selector, config ? config : &standard, device, error);
}

/* ---- calls ---- */
#define FREE(name, type, call)                           \
	void name(struct type **object)                  \
	{                                                \
		if (object && *object) {                 \
			BACKEND(*object)->call(*object); \
			*object = NULL;                  \
		}                                        \
	}
FREE(sgpu_stream_free, sgpu_stream, stream->free)
FREE(sgpu_event_free, sgpu_event, stream->event_free)
FREE(sgpu_device_key_free, sgpu_device_key, key->free)
FREE(sgpu_device_module_free, sgpu_device_module, module->free)
#undef FREE

void sgpu_device_close(struct sgpu_device **device)
{
	if (device && *device && !GUARD(*device)) {
		BACKEND(*device)->close(*device);
	}
	if (device) {
		*device = NULL;
	}
}

int sgpu_device_get_info(struct sgpu_device *device, struct sgpu_device_info *info,
			 struct sgpu_error *error)
{
	struct sgpu_device_guard *guard = GUARD(device);
	int rc;

	memset(info, 0, sizeof(*info));
	rc = BACKEND(device)->info(under(device), info, error);
	if (rc == SGPU_OK && guard) {
		guard->calls->info(guard, info);
	}
	return rc;
}

int sgpu_device_alloc(struct sgpu_device *device, uint64_t size, sgpu_devptr *memory,
		      struct sgpu_error *error)
{
	struct sgpu_device_guard *guard = GUARD(device);

	*memory = 0;
	return guard ? guard->calls->alloc(guard, size, memory, error)
		     : BACKEND(device)->memory->alloc(device, size, memory, error);
}

void sgpu_device_free(struct sgpu_device *device, sgpu_devptr *memory, uint64_t size)
{
	struct sgpu_device_guard *guard = GUARD(device);

	if (memory && *memory) {
		if (guard) {
			guard->calls->free(guard, *memory);
		} else {
			BACKEND(device)->memory->free(device, *memory, size);
		}
		*memory = 0;
	}
}

int sgpu_stream_create(struct sgpu_device *device, struct sgpu_stream **stream,
		       struct sgpu_error *error)
{
	int rc;

	*stream = NULL;
	rc = BACKEND(device)->stream->create(under(device), stream, error);
	return guarded(rc, *stream, device);
}

int sgpu_stream_sync(struct sgpu_stream *stream, struct sgpu_error *error)
{
	return BACKEND(stream)->stream->sync(stream, error);
}

int sgpu_event_create(struct sgpu_device *device, struct sgpu_event **event,
		      struct sgpu_error *error)
{
	*event = NULL;
	return BACKEND(device)->stream->event_create(under(device), event, error);
}

int sgpu_event_record(struct sgpu_stream *stream, struct sgpu_event *event)
{
	return BACKEND(stream)->stream->event_record(stream, event);
}

int sgpu_stream_wait(struct sgpu_stream *stream, struct sgpu_event *event)
{
	return same_kind(stream, event) ? BACKEND(stream)->stream->wait(stream, event)
					: SGPU_EUNAVAILABLE;
}

int sgpu_device_keys_load(struct sgpu_stream *stream, const struct sgpu_sealed_keys *material,
			  int count, struct sgpu_device_key **keys, struct sgpu_error *error)
{
	int rc;

	memset(keys, 0, (size_t)count * sizeof(struct sgpu_device_key *));
	rc = BACKEND(stream)->key->load(stream, material, count, keys, error);
	for (int i = 0; i < count; i++) {
		(void)guarded(rc, keys[i], stream);
	}
	return rc;
}

int sgpu_device_key_load(struct sgpu_stream *stream, const struct sgpu_sealed_keys *material,
			 struct sgpu_device_key **key, struct sgpu_error *error)
{
	return sgpu_device_keys_load(stream, material, 1, key, error);
}

bool sgpu_device_reaches(struct sgpu_device *device, const void *memory, uint64_t size, bool write)
{
	const struct sgpu_device_key_calls *key = BACKEND(device)->key;

	return key->reaches && key->reaches(under(device), memory, size, write);
}

int sgpu_task_refuse(struct sgpu_task *task, int rc, const char *text)
{
	if (task) {
		task->code = sgpu_fail(&task->error, rc, "%s", text);
	}
	return rc;
}

int sgpu_task_refuse_range(struct sgpu_task *task, sgpu_devptr address, uint64_t size)
{
	if (task) {
		task->code = sgpu_fail(&task->error, SGPU_EUSAGE,
				       "%llu bytes at device address %#llx are not allocated",
				       (unsigned long long)size, (unsigned long long)address);
	}
	return SGPU_EUSAGE;
}

int sgpu_device_check(struct sgpu_device *device, const struct sgpu_device_range *ranges, int count,
		      struct sgpu_task *task)
{
	struct sgpu_device_guard *guard = GUARD(device);
	int rc = SGPU_OK;

	for (int i = 0; i < count && rc == SGPU_OK; i++) {
		rc = guard ? guard->calls->check(guard, ranges[i].address, ranges[i].size, task)
			   : BACKEND(device)->memory->check(device, ranges[i].address,
							    ranges[i].size, task);
	}
	return rc;
}

int sgpu_device_launch_on(struct sgpu_stream *stream, sgpu_launch_fn function, void *argument,
			  const struct sgpu_device_range *ranges, int count, struct sgpu_task *task)
{
	int rc = sgpu_guard_enter(GUARD(stream), ranges, count, task);

	return rc < 0 ? rc
		      : sgpu_guard_leave(GUARD(stream),
					 BACKEND(stream)->stream->launch(stream, function, argument,
									 ranges, count, task));
}

const char *sgpu_device_timer_name(enum sgpu_device_timer timer)
{
	static const char *const names[] = { "auto", "events", "globaltimer" };

	return (unsigned)timer < SGPU_ARRAY_LENGTH(names) ? names[timer] : "";
}

struct sgpu_pool *sgpu_device_pool(struct sgpu_device *device)
{
	return BACKEND(device)->pool ? BACKEND(device)->pool(under(device)) : NULL;
}

void sgpu_device_cancel(struct sgpu_device *device, bool cancel)
{
	BACKEND(device)->cancel(under(device), cancel);
}

int sgpu_host_alloc(struct sgpu_device *device, uint64_t size, void **memory,
		    struct sgpu_error *error)
{
	*memory = NULL;
	return BACKEND(device)->memory->host_alloc(under(device), size, memory, error);
}

void sgpu_host_free(struct sgpu_device *device, void **memory, uint64_t size)
{
	if (memory && *memory) {
		BACKEND(device)->memory->host_free(under(device), *memory, size);
		*memory = NULL;
	}
}

/* ---- two devices ---- */
int sgpu_shared_alloc(struct sgpu_device *device, struct sgpu_device *peer, uint64_t size,
		      sgpu_devptr *memory, struct sgpu_error *error)
{
	*memory = 0;
	return same_kind(device, peer) && !GUARD(device) && !GUARD(peer)
		       ? BACKEND(device)->memory->shared_alloc(device, peer, size, memory, error)
		       : sgpu_fail(error, SGPU_EUNAVAILABLE,
				   "these devices do not reach each other's memory");
}

void sgpu_shared_free(struct sgpu_device *device, struct sgpu_device *peer, sgpu_devptr *memory)
{
	if (memory && *memory) {
		BACKEND(device)->memory->shared_free(device, peer, *memory);
		*memory = 0;
	}
}

int sgpu_host_register(struct sgpu_device *device, const void *memory, uint64_t size,
		       struct sgpu_error *error)
{
	const struct sgpu_device_memory_calls *calls = BACKEND(device)->memory;

	return calls->host_register
		       ? calls->host_register(under(device), memory, size, error)
		       : sgpu_fail(error, SGPU_EUNAVAILABLE, "the device registers no memory");
}

void sgpu_host_unregister(struct sgpu_device *device, const void *memory)
{
	if (BACKEND(device)->memory->host_unregister) {
		BACKEND(device)->memory->host_unregister(under(device), memory);
	}
}

void sgpu_device_set_limit(struct sgpu_device *device, uint64_t bytes)
{
	BACKEND(device)->memory->limit(under(device), bytes);
}

sgpu_op_fn sgpu_device_op(struct sgpu_device *device, const char *name)
{
	const struct sgpu_device_backend *backend = BACKEND(device);

	return backend->op ? backend->op(name) : NULL;
}

int sgpu_device_module_load(struct sgpu_device *device, const void *image, size_t size,
			    struct sgpu_device_module **module, struct sgpu_error *error)
{
	*module = NULL;
	return GUARD(device)
		       ? sgpu_fail(error, SGPU_EPOLICY,
				   "a secure context loads a module only with the digest of it")
		       : BACKEND(device)->module->load(device, image, size, module, error);
}

int sgpu_device_module_launch_on(struct sgpu_stream *stream, struct sgpu_device_module *module,
				 const char *function, const struct sgpu_module_shape *shape,
				 void *const *args, const size_t *arg_sizes, int arg_count,
				 const struct sgpu_module_memory *memory, struct sgpu_task *task)
{
	int rc = SGPU_OK;

	if (GUARD(stream) && !memory) {
		return sgpu_task_refuse(
			task, SGPU_EPOLICY,
			"a secure context starts a module's function only with the ranges that it "
			"touches");
	}
	if (GUARD(stream) && (memory->count < 0 || memory->count > SGPU_MODULE_RANGES_MAX)) {
		return sgpu_task_refuse(task, SGPU_EUSAGE, "a launch names too many ranges");
	}
	if (GUARD(module) != GUARD(stream)) {
		return sgpu_task_refuse(task, SGPU_EPOLICY, "the module is not of this context");
	}
	if (GUARD(stream)) {
		rc = sgpu_guard_enter(GUARD(stream), memory->ranges, memory->count, task);
	}
	return rc < 0 ? rc
		      : sgpu_guard_leave(GUARD(stream),
					 BACKEND(stream)->module->launch(stream, module, function,
									 shape, args, arg_sizes,
									 arg_count, memory, task));
}

int sgpu_device_module_confinement(struct sgpu_device *device,
				   struct sgpu_module_confinement *confinement,
				   struct sgpu_error *error)
{
	const struct sgpu_device_module_calls *calls = BACKEND(device)->module;

	memset(confinement, 0, sizeof(*confinement));
	return calls->confinement ? calls->confinement(under(device), confinement, error) : SGPU_OK;
}

bool sgpu_device_module_broke_rules(struct sgpu_device *device)
{
	const struct sgpu_device_module_calls *calls = BACKEND(device)->module;

	return calls->broke_rules && calls->broke_rules(under(device));
}

int sgpu_device_agree(struct sgpu_device *device, struct sgpu_device_agreement *agreement,
		      struct sgpu_error *error)
{
	const struct sgpu_device_key_calls *calls = BACKEND(device)->key;

	memset(agreement, 0, sizeof(*agreement));
	if (calls->agree) {
		return calls->agree(under(device), agreement, error);
	}
	snprintf(agreement->text, sizeof(agreement->text),
		 "the device's memory is the runner's own: keys cross no bus");
	return SGPU_OK;
}

int sgpu_device_code_digests(struct sgpu_device *device, struct sgpu_device_code *list,
			     struct sgpu_error *error)
{
	const struct sgpu_device_backend *backend = BACKEND(device);
	int count = backend->code ? backend->code(under(device), list) : 0;

	return count < 0 ? sgpu_fail(error, count, "the device's code cannot be digested: %s",
				     sgpu_strerror(count))
			 : count;
}

int sgpu_device_get_evidence(struct sgpu_device *device, const uint8_t nonce[32],
			     struct sgpu_device_evidence *evidence, struct sgpu_error *error)
{
	const struct sgpu_device_backend *backend = BACKEND(device);

	memset(evidence, 0, sizeof(*evidence));
	return backend->evidence ? backend->evidence(under(device), nonce, evidence, error)
				 : sgpu_fail(error, SGPU_EUNAVAILABLE,
					     "the device gives no attestation of its own");
}

void sgpu_device_evidence_clear(struct sgpu_device_evidence *evidence)
{
	free(evidence->report);
	free(evidence->chain);
	memset(evidence, 0, sizeof(*evidence));
}

int sgpu_device_synchronize(struct sgpu_device *device, struct sgpu_error *error)
{
	return BACKEND(device)->synchronize(under(device), error);
}
