/* SPDX-License-Identifier: Apache-2.0
 *
 * A module is loaded once, when the first of its operations could start: its whole segment has
 * verified by then. Devices load the image from a copy in host memory. The image must have the
 * digest that its operation names: a secure context measures it in device memory; else it is
 * measured in host memory.
 */
#include "crypto/crypto.h"
#include <stdlib.h>
#include <string.h>

#include "run/private.h"
#include "channel/context.h"

/* The device where the image arrives and all operations of the module run. */
static struct sgpu_run_device *device_of(const struct sgpu_run *run, int segment)
{
	const struct sgpu_plan *plan = run->job.plan;

	return run->devices[plan->buffers[plan->segments[segment].in_buffer].device];
}

static const char *text_of(const struct sgpu_error *error, int rc)
{
	return error->text[0] ? error->text : sgpu_strerror(rc);
}

void sgpu_modules_unload(struct sgpu_run *run)
{
	for (int i = 0; run->modules && i < run->job.manifest->segment_count; i++) {
		sgpu_device_module_free(&run->modules[i].loaded);
	}
}

bool sgpu_modules_broke_rules(const struct sgpu_run *run)
{
	for (int i = 0; run->job.has_module && i < run->runner->device_count; i++) {
		if (sgpu_device_module_broke_rules(run->devices[i]->device)) {
			return true;
		}
	}
	return false;
}

/* Ends the run without a response: the module is not what its owner meant to run. */
static void stop_for_rules(struct sgpu_run *run, const char *text)
{
	if (sgpu_modules_broke_rules(run) && run->fatal.code != SGPU_EPOLICY) {
		(void)sgpu_fail(&run->fatal, SGPU_EPOLICY, "%s", text);
		sgpu_run_stop(run, SGPU_EPOLICY);
	}
}

/* ---- loading ---- */
/* Uses its own stream, since the operation's may have to wait for other operations. */
static int copy_image(struct sgpu_run *run, int segment, void *image, uint64_t size,
		      struct sgpu_error *error)
{
	struct sgpu_run_device *on = device_of(run, segment);
	struct sgpu_stream *stream = NULL;
	struct sgpu_task task = { 0 };
	int synced, rc = sgpu_streams_take(on, &stream, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	rc = sgpu_copy_out(stream, image,
			   run->memory.buffers[run->job.plan->segments[segment].in_buffer], size,
			   &task);
	synced = sgpu_stream_sync(stream, error);
	sgpu_streams_give(on, &stream, synced == SGPU_OK);
	rc = rc ? rc : synced != SGPU_OK ? synced : task.code;
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "%s", text_of(&task.error, rc));
}

/* Has the secure context measure and load the image or, without one, does that by itself. */
static int load_image(struct sgpu_run *run, int segment, struct sgpu_run_module *m,
		      struct sgpu_error *error)
{
	struct sgpu_device *device = device_of(run, segment)->device;
	struct sgpu_secure *secure = sgpu_secure_of(device);
	uint8_t found[SGPU_KT128_SIZE], *image;
	uint64_t size = 0;
	int rc;

	if (!sgpu_type_bytes(&run->job.manifest->segments[segment].type, &size) || size == 0 ||
	    size > SGPU_MODULE_SIZE_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "it has %llu bytes, a module has 1 to %d",
				 (unsigned long long)size, (int)SGPU_MODULE_SIZE_MAX);
	}
	image = malloc((size_t)size);
	rc = image ? copy_image(run, segment, image, size, error) : sgpu_fail_nomem(error);
	if (rc == SGPU_OK && secure) {
		rc = sgpu_secure_module_load(secure, image, (size_t)size, m->digest, &m->loaded,
					     error);
	} else if (rc == SGPU_OK) {
		sgpu_measure_pages(image, (size_t)size, NULL, found);
		rc = sgpu_equal(found, m->digest, sizeof(found))
			     ? sgpu_device_module_load(device, image, (size_t)size, &m->loaded,
						       error)
			     : sgpu_fail(error, SGPU_EPOLICY,
					 "the module is not the one whose digest is named");
	}
	sgpu_free_wiped(&image, (size_t)size);
	return rc;
}

/* A module that failed to load is not loaded again. Its operations must all name one digest. */
int sgpu_modules_ready(struct sgpu_run *run, int operation, struct sgpu_error *error)
{
	const struct sgpu_operation *op = &run->job.manifest->operations[operation];
	struct sgpu_run_module *m = &run->modules[op->module->segment];
	const char *id = run->job.manifest->segments[op->module->segment].id;

	if (!op->module->has_digest) {
		return sgpu_fail(error, SGPU_EPOLICY, "it names no digest of its module");
	}
	if (!m->tried) {
		struct sgpu_error why = { 0 };
		int rc;

		m->tried = true;
		memcpy(m->digest, op->module->digest, sizeof(m->digest));
		rc = load_image(run, op->module->segment, m, &why);
		if (rc != SGPU_OK) {
			(void)sgpu_fail(&m->error, rc, "module '%s': %s", id, text_of(&why, rc));
		}
		if (rc == SGPU_EPOLICY) {
			stop_for_rules(run, m->error.text);
		}
	}
	if (!sgpu_equal(m->digest, op->module->digest, sizeof(m->digest))) {
		return sgpu_fail(error, SGPU_EPOLICY,
				 "module '%s': operations name different digests of it", id);
	}
	*error = m->error;
	return error->code;
}

/* ---- launching ---- */
/* The parameters as the function gets them. */
struct values {
	uint64_t word[SGPU_MODULE_PARAMS_MAX];
	void *args[SGPU_MODULE_PARAMS_MAX];
	size_t sizes[SGPU_MODULE_PARAMS_MAX];
	int target[SGPU_MODULE_PARAMS_MAX]; /* the argument that it points to, or -1 */
};

/* Every size is known, since the operation was planned. */
static void make_values(const struct sgpu_op_call *call, const struct sgpu_module_call *module,
			struct values *values)
{
	for (int i = 0; i < module->param_count; i++) {
		const struct sgpu_module_param *param = &module->params[i];
		uint64_t *word = &values->word[i];

		switch (param->kind) {
		case SGPU_MODULE_POINTER:
			*word = (uint64_t)(uintptr_t)call->data[param->argument];
			break;
		case SGPU_MODULE_ELEMENTS:
			(void)sgpu_type_elements(&call->type[param->argument], word);
			break;
		case SGPU_MODULE_BYTES:
			(void)sgpu_type_bytes(&call->type[param->argument], word);
			break;
		case SGPU_MODULE_VALUE:
			memcpy(word, param->value, sizeof(*word));
			break;
		}
		values->args[i] = word;
		values->sizes[i] = param->size;
		values->target[i] = param->kind == SGPU_MODULE_POINTER ? param->argument : -1;
	}
}

int sgpu_module_start(struct sgpu_run *run, int operation, const struct sgpu_op_call *call,
		      struct sgpu_stream *stream, struct sgpu_task *clears, struct sgpu_task *task,
		      struct sgpu_error *error)
{
	const struct sgpu_operation *op = &run->job.manifest->operations[operation];
	const struct sgpu_module_call *module = op->module;
	struct sgpu_module_shape shape = { .shared_bytes = module->shared_bytes };
	struct sgpu_device_range ranges[SGPU_ARGUMENTS_MAX]; /* all that the function may touch */
	struct sgpu_module_memory memory = { .ranges = ranges, .count = op->arg_count };
	struct values values = { { 0 }, { NULL }, { 0 }, { 0 } };
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < op->arg_count; i++) {
		ranges[i] = (struct sgpu_device_range){ (sgpu_devptr)(uintptr_t)call->data[i], 0 };
		(void)sgpu_type_bytes(&call->type[i], &ranges[i].size);
		memory.written |= (uint64_t)op->args[i].output << i;
		if (op->args[i].output) { /* it need not write all, and older data may be there */
			rc = sgpu_device_clear(stream, ranges[i].address, ranges[i].size,
					       &clears[i]);
		}
	}
	make_values(call, module, &values);
	memory.target = values.target;
	for (int i = 0; i < 3; i++) {
		shape.grid[i] = module->grid[i];
		shape.block[i] = module->block[i];
	}
	rc = rc ? rc
		: sgpu_device_module_launch_on(stream, run->modules[module->segment].loaded,
					       module->function, &shape, values.args, values.sizes,
					       module->param_count, &memory, task);
	if (rc != SGPU_OK) {
		sgpu_fail(error, rc, "module '%s': %s",
			  run->job.manifest->segments[module->segment].id,
			  text_of(&task->error, rc));
		/* The enqueued clears write to tasks that the caller frees. */
		(void)!sgpu_stream_sync(stream, NULL);
	}
	return rc;
}

void sgpu_module_end(struct sgpu_run *run, int operation, const struct sgpu_task *clears,
		     struct sgpu_task *task)
{
	const struct sgpu_operation *op = &run->job.manifest->operations[operation];
	const struct sgpu_task *bad = task;
	struct sgpu_error why;

	for (int i = 0; i < op->arg_count && bad->code == SGPU_OK; i++) {
		bad = clears[i].code != SGPU_OK ? &clears[i] : bad;
	}
	if (bad->code == SGPU_OK) {
		return;
	}
	why = bad->error;
	task->code = sgpu_fail(&task->error, bad->code, "module '%s', function '%s': %s",
			       run->job.manifest->segments[op->module->segment].id,
			       op->module->function, text_of(&why, bad->code));
	if (task->code == SGPU_EPOLICY) {
		stop_for_rules(run, task->error.text);
	}
}
