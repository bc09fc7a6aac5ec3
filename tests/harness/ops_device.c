/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the call of a case on the device that $SGPU_TEST_DEVICE names, unless that is the CPU
 * device, and compares the outputs with the CPU's. Afterwards the case holds the device's outputs,
 * so that the test's own checks judge them, too.
 *
 * Every argument lies between guards, at an address that is a multiple of 64 and of nothing more.
 * Outputs are poisoned before, inputs are compared with what they were after, and a second run must
 * give the same bytes.
 */
#include "ops_device.h"

#include <sgpu/device.h>

enum { OPS_GUARD = 4096 + 64, OPS_GUARD_BYTE = 0xc3, OPS_POISON_BYTE = 0xb6 };

struct ops_device {
	struct sgpu_device *device;
	struct sgpu_stream *stream;
	bool looked;
};
static struct ops_device ops_device;

static void ops_device_end(void)
{
	sgpu_stream_free(&ops_device.stream);
	sgpu_device_close(&ops_device.device);
}

bool ops_device_wanted(void)
{
	const char *selector = getenv("SGPU_TEST_DEVICE");
	struct sgpu_error error = { 0 };
	int result;

	if (ops_device.looked || !selector || !*selector || strcmp(selector, "cpu") == 0) {
		return ops_device.device != NULL;
	}
	ops_device.looked = true;
	result = sgpu_device_open(selector, NULL, &ops_device.device, &error);
	if (result == SGPU_EUNAVAILABLE) {
		printf("ok 1 - on the device # skip %s\n1..1\n", error.text);
		exit(0);
	}
	if (result || sgpu_stream_create(ops_device.device, &ops_device.stream, &error)) {
		ops_die("no device '%s': %s", selector, error.text);
	}
	atexit(ops_device_end);
	return true;
}

/* One argument in device memory: guard, data, guard. */
struct ops_placed {
	sgpu_devptr memory;
	uint64_t size;
	uint8_t *host; /* as large */
};

/* The call and its copy, whose data are addresses of the device. */
struct ops_device_run {
	struct ops_case *c;
	struct sgpu_op_call call;
	struct ops_placed placed[SGPU_ARGUMENTS_MAX];
	sgpu_devptr scratch;
	uint64_t scratch_size, actual;
	sgpu_op_fn function;
};

static int ops_device_launch(struct sgpu_launch *launch, void *argument)
{
	struct ops_device_run *run = argument;

	return sgpu_op_run(&run->call, run->function, launch);
}

static bool ops_is_output(const struct ops_case *c, int index)
{
	return strncmp(c->call.op->args[index].name, "output", 6) == 0;
}

static void ops_device_must(int result, const char *what, const struct sgpu_error *error)
{
	if (result) {
		ops_die("%s: %s", what, error->text);
	}
}

/* Copies everything to where it lies on the device, or back. */
static void ops_device_copy(struct ops_device_run *run, bool in)
{
	struct sgpu_task tasks[SGPU_ARGUMENTS_MAX];
	struct sgpu_error error = { 0 };

	memset(tasks, 0, sizeof(tasks));
	for (int i = 0; run->c->call.op->args[i].name; i++) {
		struct ops_placed *one = &run->placed[i];

		if (one->size && in) {
			ops_device_must(sgpu_copy_in(ops_device.stream, one->memory, one->host,
						     one->size, &tasks[i]),
					"copy in", &error);
		} else if (one->size) {
			ops_device_must(sgpu_copy_out(ops_device.stream, one->host, one->memory,
						      one->size, &tasks[i]),
					"copy out", &error);
		}
	}
	ops_device_must(sgpu_stream_sync(ops_device.stream, &error), "synchronise", &error);
	for (int i = 0; i < SGPU_ARGUMENTS_MAX; i++) {
		ops_device_must(tasks[i].code, "copy", &tasks[i].error);
	}
}

static void ops_device_place(struct ops_device_run *run)
{
	const struct ops_case *c = run->c;
	struct sgpu_error error = { 0 };

	for (int i = 0; c->call.op->args[i].name; i++) {
		struct ops_placed *one = &run->placed[i];

		run->call.data[i] = NULL;
		if (!c->call.data[i]) {
			continue;
		}
		one->size = c->bytes[i] + 2 * OPS_GUARD;
		one->host = malloc(one->size);
		if (!one->host) {
			ops_die("out of memory");
		}
		ops_device_must(
			sgpu_device_alloc(ops_device.device, one->size, &one->memory, &error),
			"memory", &error);
		run->call.data[i] = (char *)(uintptr_t)one->memory + OPS_GUARD;
	}
	run->scratch_size = c->call.op->scratch ? c->call.op->scratch(&c->call) : 0;
	run->call.scratch = NULL;
	if (run->scratch_size) {
		ops_device_must(sgpu_device_alloc(ops_device.device, run->scratch_size,
						  &run->scratch, &error),
				"scratch memory", &error);
		run->call.scratch = (void *)(uintptr_t)run->scratch;
	}
}

static void ops_device_free(struct ops_device_run *run)
{
	for (int i = 0; i < SGPU_ARGUMENTS_MAX; i++) {
		sgpu_device_free(ops_device.device, &run->placed[i].memory, run->placed[i].size);
		free(run->placed[i].host);
	}
	sgpu_device_free(ops_device.device, &run->scratch, run->scratch_size);
}

/* Fills, copies in, launches, copies out; whether the launch went well. */
static bool ops_device_once(struct ops_device_run *run)
{
	struct sgpu_task task;
	struct sgpu_error error = { 0 };

	memset(&task, 0, sizeof(task));
	for (int i = 0; run->c->call.op->args[i].name; i++) {
		struct ops_placed *one = &run->placed[i];

		if (one->size) {
			memset(one->host, OPS_GUARD_BYTE, one->size);
			memset(one->host + OPS_GUARD, OPS_POISON_BYTE, run->c->bytes[i]);
		}
		if (one->size && !ops_is_output(run->c, i) && run->c->bytes[i]) {
			memcpy(one->host + OPS_GUARD, run->c->block[i], run->c->bytes[i]);
		}
	}
	ops_device_copy(run, true);
	if (sgpu_device_launch_on(ops_device.stream, ops_device_launch, run, NULL, 0, &task) ||
	    sgpu_stream_sync(ops_device.stream, &error) || task.code) {
		printf("# '%s' on the device: code %d: %s%s\n", run->c->call.op->name, task.code,
		       task.error.text, error.text);
		return false;
	}
	run->actual = task.actual;
	ops_device_copy(run, false);
	return true;
}

/* Guards are whole, inputs are what they were. */
static bool ops_device_intact(const struct ops_device_run *run)
{
	for (int i = 0; run->c->call.op->args[i].name; i++) {
		const struct ops_placed *one = &run->placed[i];
		uint64_t bytes = run->c->bytes[i];
		bool good = true;

		for (uint64_t at = 0; one->size && at < OPS_GUARD; at++) {
			good = good && one->host[at] == OPS_GUARD_BYTE &&
			       one->host[OPS_GUARD + bytes + at] == OPS_GUARD_BYTE;
		}
		if (one->size && bytes && !ops_is_output(run->c, i)) {
			good = good && memcmp(one->host + OPS_GUARD, run->c->block[i], bytes) == 0;
		}
		if (!good) {
			printf("# '%s' wrote where it may not, at '%s'\n", run->c->call.op->name,
			       run->c->call.op->args[i].name);
			return false;
		}
	}
	return true;
}

/* Element `i` as a number; both NaN, or the same bytes, or within the tolerance. */
static bool ops_device_near(const struct ops_case *c, enum sgpu_dtype dtype, const void *got,
			    const void *want, uint64_t i)
{
	size_t size = sgpu_dtype_size(dtype);
	const char *x = (const char *)got + i * size, *y = (const char *)want + i * size;
	double actual, expected;
	float single[2];
	uint16_t half[2];

	if (memcmp(x, y, size) == 0) {
		return true;
	}
	if (dtype == SGPU_F32) {
		memcpy(&single[0], x, size);
		memcpy(&single[1], y, size);
		actual = (double)single[0];
		expected = (double)single[1];
	} else if (dtype == SGPU_F64) {
		memcpy(&actual, x, size);
		memcpy(&expected, y, size);
	} else if (dtype == SGPU_F16) {
		memcpy(&half[0], x, size);
		memcpy(&half[1], y, size);
		return (half[0] & 0x7fff) > 0x7c00 && (half[1] & 0x7fff) > 0x7c00;
	} else {
		return false;
	}
	if (isnan(actual) || isnan(expected) || (c->absolute == 0 && c->relative == 0)) {
		return isnan(actual) && isnan(expected);
	}
	return ops_close(actual, expected, c->absolute, c->relative);
}

/* The outputs against the CPU's; an output of unknown size up to where it ends. */
static bool ops_device_compare(const struct ops_device_run *run)
{
	const struct ops_case *c = run->c;
	bool at_most = c->call.op->at_most && c->call.op->at_most(&c->call);

	if (at_most && run->actual != c->actual) {
		printf("# '%s': %llu elements on the device, %llu on the CPU\n", c->call.op->name,
		       (unsigned long long)run->actual, (unsigned long long)c->actual);
		return false;
	}
	for (int i = 0; c->call.op->args[i].name; i++) {
		const uint8_t *got = run->placed[i].host + OPS_GUARD;
		enum sgpu_dtype dtype = c->call.type[i].dtype;
		uint64_t size = sgpu_dtype_size(dtype);
		uint64_t count = at_most ? c->actual : size ? c->bytes[i] / size : 0;

		for (uint64_t at = 0; run->placed[i].size && ops_is_output(c, i) && at < count;
		     at++) {
			if (!ops_device_near(c, dtype, got, c->block[i], at)) {
				printf("# '%s' of '%s', element %llu: not what the CPU gives:",
				       c->call.op->args[i].name, c->call.op->name,
				       (unsigned long long)at);
				for (uint64_t b = 0; b < 2 * size; b++) {
					printf("%s%02x", b % size ? "" : " ",
					       b < size ? got[at * size + size - 1 - b]
							: ((uint8_t *)
								   c->block[i])[at * size +
										2 * size - 1 - b]);
				}
				printf("\n");
				return false;
			}
		}
	}
	return true;
}

/* Takes the device's outputs into the case (the first run), or compares the second run's with them.
 */
static bool ops_device_take(const struct ops_device_run *run, bool first)
{
	bool same = true;

	for (int i = 0; run->c->call.op->args[i].name; i++) {
		const struct ops_placed *one = &run->placed[i];

		if (!one->size || !ops_is_output(run->c, i) || !run->c->bytes[i]) {
			continue;
		}
		if (first) {
			memcpy(run->c->block[i], one->host + OPS_GUARD, run->c->bytes[i]);
		} else if (memcmp(run->c->block[i], one->host + OPS_GUARD, run->c->bytes[i]) != 0) {
			printf("# '%s' of '%s' differs from run to run\n",
			       run->c->call.op->args[i].name, run->c->call.op->name);
			same = false;
		}
	}
	return same;
}

bool ops_run_device(struct ops_case *c)
{
	struct ops_device_run run;
	bool good;

	if (!ops_device_wanted()) {
		return true;
	}
	memset(&run, 0, sizeof(run));
	run.c = c;
	run.call = c->call;
	run.function = sgpu_device_op(ops_device.device, c->call.op->name);
	if (!run.function) {
		printf("# the device has no '%s'\n", c->call.op->name);
		return false;
	}
	ops_device_place(&run);
	good = ops_device_once(&run) && ops_device_intact(&run) && ops_device_compare(&run) &&
	       ops_device_take(&run, true) && ops_device_once(&run) && ops_device_take(&run, false);
	ops_device_free(&run);
	return good;
}
