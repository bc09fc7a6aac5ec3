/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations whose kernel a segment brings. A module is loaded once, when the first of its operations is started: by
 * then all of its segment has verified, as of every input. Its image passes through host memory, since that is where
 * a device takes it from. It must have the digest that its operation names: in a secure context it is measured in the
 * device's memory, else where it is taken from.
 */
#include <stdlib.h>
#include <string.h>

#include "run/run.h"
#include "secure/secure.h"

struct sgpu_run_module {
	bool tried;
	int code;                      /* of loading it */
	char *text;                    /* why not, or NULL */
	uint8_t digest[SGPU_DIGEST_SIZE]; /* that it was loaded with */
	struct sgpu_device_module *loaded;
};

static const char *id_of(const struct sgpu_run *run, int segment)
{
	return run->manifest->segments[segment].id;
}

static const char *text_of(const struct sgpu_error *error, int code)
{
	return error->text[0] ? error->text : sgpu_strerror(code);
}

/* ---- loading ---- */
/* A stream of its own: that of the operation may have to wait for others first. */
static int copy_image(struct sgpu_run *run, int segment, void *image, uint64_t size, struct sgpu_error *error)
{
	sgpu_devptr memory = run->buffers[run->plan->in_buffer[segment]].memory;
	struct sgpu_stream *stream = NULL;
	struct sgpu_task task = { 0 };
	int synced, rc = sgpu_stream_create(run->device, &stream, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	rc = sgpu_copy_out(stream, image, memory, size, &task);
	synced = sgpu_stream_sync(stream, error);
	sgpu_stream_free(&stream);
	if (rc == SGPU_OK) {
		rc = synced != SGPU_OK ? synced : task.code;
	}
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "%s", text_of(&task.error, rc));
}

/* On a plain device the host's copy is what is measured, and what is loaded. */
static int load_measured(struct sgpu_run *run, const void *image, size_t size, const uint8_t digest[SGPU_DIGEST_SIZE],
			 struct sgpu_device_module **loaded, struct sgpu_error *error)
{
	struct sgpu_secure *secure = sgpu_secure_of(run->device);
	uint8_t found[SGPU_DIGEST_SIZE];

	if (secure) {
		return sgpu_secure_module_load(secure, image, size, digest, loaded, error);
	}
	sgpu_kt128(image, size, SGPU_MEASURE_CUSTOM, sizeof(SGPU_MEASURE_CUSTOM) - 1, found, sizeof(found));
	if (!sgpu_equal(found, digest, sizeof(found))) {
		return sgpu_fail(error, SGPU_EPOLICY, "the module is not the one whose digest is named");
	}
	return sgpu_device_module_load(run->device, image, size, loaded, error);
}

static int load_image(struct sgpu_run *run, int segment, const uint8_t digest[SGPU_DIGEST_SIZE],
		      struct sgpu_device_module **loaded, struct sgpu_error *error)
{
	uint8_t *image;
	uint64_t size = 0;
	int rc;

	if (!sgpu_type_bytes(&run->manifest->segments[segment].type, &size) || size == 0 ||
	    size > SGPU_MODULE_SIZE_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "it has %llu bytes, a module has 1 to %d",
				 (unsigned long long)size, (int)SGPU_MODULE_SIZE_MAX);
	}
	image = malloc((size_t)size);
	rc = image ? copy_image(run, segment, image, size, error) : sgpu_fail_nomem(error);
	if (rc == SGPU_OK) {
		rc = load_measured(run, image, (size_t)size, digest, loaded, error);
	}
	sgpu_free_wiped(&image, (size_t)size);
	return rc;
}

/* A module that does not load is not tried again for its other operations. Each of them names the digest for itself. */
static int find_module(struct sgpu_run *run, const struct sgpu_operation *op, struct sgpu_device_module **loaded,
		       struct sgpu_error *error)
{
	int segment = op->module->segment;
	struct sgpu_error why = { 0 };
	struct sgpu_run_module *m;

	if (!op->module->has_digest) {
		return sgpu_fail(error, SGPU_EPOLICY, "it names no digest of its module");
	}
	if (!run->modules) {
		run->modules = calloc((size_t)run->manifest->segment_count, sizeof(*run->modules));
		if (!run->modules) {
			return sgpu_fail_nomem(error);
		}
	}
	m = &run->modules[segment];
	if (!m->tried) {
		m->tried = true;
		memcpy(m->digest, op->module->digest, sizeof(m->digest));
		m->code = load_image(run, segment, m->digest, &m->loaded, &why);
		m->text = m->code == SGPU_OK ? NULL : sgpu_run_text("%s", text_of(&why, m->code));
	}
	if (!sgpu_equal(m->digest, op->module->digest, sizeof(m->digest))) {
		return sgpu_fail(error, SGPU_EPOLICY, "module '%s': operations name different digests of it",
				 id_of(run, segment));
	}
	*loaded = m->loaded;
	return m->code == SGPU_OK ? SGPU_OK : sgpu_fail(error, m->code, "module '%s': %s", id_of(run, segment),
							m->text ? m->text : sgpu_strerror(m->code));
}

void sgpu_modules_free(struct sgpu_run *run)
{
	for (int i = 0; run->modules && i < run->manifest->segment_count; i++) {
		sgpu_device_module_free(&run->modules[i].loaded);
		free(run->modules[i].text);
	}
	free(run->modules);
	run->modules = NULL;
}

/* ---- launching ---- */
/* The parameters as the function gets them. */
struct values {
	uint64_t word[SGPU_MODULE_PARAMS_MAX];
	void *args[SGPU_MODULE_PARAMS_MAX];
	size_t sizes[SGPU_MODULE_PARAMS_MAX];
};

static int make_value(const struct sgpu_op_call *call, const struct sgpu_module_param *param, uint64_t *word)
{
	bool known = true;

	switch (param->kind) {
	case SGPU_MODULE_POINTER:
		*word = (uint64_t)(uintptr_t)call->data[param->argument];
		break;
	case SGPU_MODULE_ELEMENTS:
		known = sgpu_type_elements(&call->type[param->argument], word);
		break;
	case SGPU_MODULE_BYTES:
		known = sgpu_type_bytes(&call->type[param->argument], word);
		break;
	case SGPU_MODULE_VALUE:
		memcpy(word, param->value, sizeof(*word));
		break;
	}
	return known ? SGPU_OK : SGPU_EINVALID;
}

static int make_values(const struct sgpu_op_call *call, const struct sgpu_module_call *module, struct values *values,
		       struct sgpu_error *error)
{
	for (int i = 0; i < module->param_count; i++) {
		if (make_value(call, &module->params[i], &values->word[i]) != SGPU_OK) {
			return sgpu_fail(error, SGPU_EINVALID, "parameter %d has no size", i);
		}
		values->args[i] = &values->word[i];
		values->sizes[i] = module->params[i].size;
	}
	return SGPU_OK;
}

/* A module need not write every byte of its outputs, and their memory may have held something else. */
static int clear_outputs(struct sgpu_run *run, struct sgpu_run_launch *l, struct sgpu_stream *stream)
{
	const struct sgpu_operation *op = &run->manifest->operations[l->operation];
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < op->arg_count; i++) {
		uint64_t size = 0;

		if (op->args[i].output && sgpu_type_bytes(&l->call.type[i], &size)) {
			rc = sgpu_device_clear(stream, (sgpu_devptr)(uintptr_t)l->call.data[i], size, &l->clears[i]);
		}
	}
	return rc;
}

/* What the function works on: the operation's arguments, and which parameters point at them. */
static struct sgpu_module_memory memory_of(struct sgpu_run *run, const struct sgpu_run_launch *l,
					   struct sgpu_device_range ranges[SGPU_ARGUMENTS_MAX],
					   int target[SGPU_MODULE_PARAMS_MAX])
{
	const struct sgpu_operation *op = &run->manifest->operations[l->operation];
	struct sgpu_module_memory memory = { .ranges = ranges, .count = op->arg_count, .target = target };

	for (int i = 0; i < op->arg_count; i++) {
		ranges[i] = (struct sgpu_device_range){ (sgpu_devptr)(uintptr_t)l->call.data[i], 0 };
		if (!sgpu_type_bytes(&l->call.type[i], &ranges[i].size)) {
			ranges[i].size = 0;
		}
		memory.written |= (uint64_t)op->args[i].output << i;
	}
	for (int i = 0; i < op->module->param_count; i++) {
		const struct sgpu_module_param *param = &op->module->params[i];

		target[i] = param->kind == SGPU_MODULE_POINTER ? param->argument : -1;
	}
	return memory;
}

/* With what it is meant to touch. */
static int launch_module(struct sgpu_run *run, struct sgpu_run_launch *l, struct sgpu_stream *stream,
			 struct sgpu_device_module *loaded, const struct sgpu_module_shape *shape,
			 const struct values *values)
{
	const struct sgpu_module_call *module = run->manifest->operations[l->operation].module;
	struct sgpu_device_range ranges[SGPU_ARGUMENTS_MAX];
	int target[SGPU_MODULE_PARAMS_MAX];
	const struct sgpu_module_memory memory = memory_of(run, l, ranges, target);

	return (sgpu_secure_of(run->device) ? sgpu_secure_kernel_launch : sgpu_device_module_launch_on)(
		stream, loaded, module->function, shape, values->args, values->sizes, module->param_count, &memory, &l->task);
}

static int enqueue(struct sgpu_run *run, struct sgpu_run_launch *l, struct sgpu_stream *stream,
		   struct sgpu_device_module *loaded, const struct values *values, struct sgpu_error *error)
{
	const struct sgpu_module_call *module = run->manifest->operations[l->operation].module;
	struct sgpu_module_shape shape = { .shared_bytes = module->shared_bytes };
	int rc = clear_outputs(run, l, stream);

	for (int i = 0; i < 3; i++) {
		shape.grid[i] = module->grid[i];
		shape.block[i] = module->block[i];
	}
	if (rc == SGPU_OK) {
		rc = launch_module(run, l, stream, loaded, &shape, values);
	}
	if (rc != SGPU_OK) {
		sgpu_fail(error, rc, "module '%s': %s", id_of(run, module->segment), text_of(&l->task.error, rc));
		/* What was enqueued still writes to what the caller frees. */
		if (sgpu_stream_sync(stream, NULL) != SGPU_OK) {
			return rc;
		}
	}
	return rc;
}

/* A module that did what is refused is not what its owner meant to run: the run ends, and no response is given. */
static void stop_for_rules(struct sgpu_run *run, const char *text)
{
	if (sgpu_device_module_broke_rules(run->device) && !run->broke_rules) {
		run->broke_rules = sgpu_run_text("%s", text);
		sgpu_run_stop(run, SGPU_EPOLICY);
	}
}

int sgpu_module_start(struct sgpu_run *run, struct sgpu_run_launch *l, struct sgpu_stream *stream,
		      struct sgpu_error *error)
{
	const struct sgpu_operation *op = &run->manifest->operations[l->operation];
	struct sgpu_device_module *loaded = NULL;
	struct values values = { { 0 }, { NULL }, { 0 } };
	int rc = find_module(run, op, &loaded, error);

	if (rc == SGPU_OK) {
		rc = make_values(&l->call, op->module, &values, error);
	} else if (rc == SGPU_EPOLICY) {
		stop_for_rules(run, error->text);
	}
	if (rc != SGPU_OK) {
		return rc;
	}
	l->clears = calloc((size_t)op->arg_count + 1, sizeof(*l->clears));
	return l->clears ? enqueue(run, l, stream, loaded, &values, error) : sgpu_fail_nomem(error);
}

void sgpu_module_end(struct sgpu_run *run, struct sgpu_run_launch *l)
{
	const struct sgpu_operation *op = &run->manifest->operations[l->operation];
	const struct sgpu_task *bad = &l->task;
	struct sgpu_error why;

	if (!op->module) {
		return;
	}
	for (int i = 0; i < op->arg_count && bad->code == SGPU_OK; i++) {
		bad = l->clears[i].code != SGPU_OK ? &l->clears[i] : bad;
	}
	if (bad->code != SGPU_OK) {
		why = bad->error;
		l->task.code = sgpu_fail(&l->task.error, bad->code, "module '%s', function '%s': %s",
					 id_of(run, op->module->segment), op->module->function,
					 text_of(&why, bad->code));
		if (bad->code == SGPU_EPOLICY) {
			stop_for_rules(run, l->task.error.text);
		}
	}
}
