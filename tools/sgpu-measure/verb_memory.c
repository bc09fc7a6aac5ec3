/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure memory: brings data into a secure context on a device and measures them there, as
 * CH_MEASURE does.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "crypto/crypto.h"
#include "memory.h"
#include "parts.h"
#include "verbs.h"

#define MEMORY_MAX (UINT64_C(1) << 46)

const struct cli_option memory_options[] = {
	CLI_COMMON,
	{ "device", 0, "DEVICE", "cpu, cuda, cuda:N or auto (the default)",
	  CLI_TEXT(struct memory_task, device_name) },
	{ "keyed", 0, NULL, "digests with the context's key, which only this run can compare",
	  CLI_FLAG(struct memory_task, keyed) },
	{ "expect", 0, "DIGEST", "the expected digest; the exit status is 1 if it differs",
	  CLI_BYTES(struct memory_task, expected, SGPU_KT128_SIZE, SGPU_KT128_SIZE) },
	{ "offset", 0, "N", "measure from this byte on: 4096, 64K",
	  CLI_SIZE(struct memory_task, offset, 0, MEMORY_MAX) },
	{ "size", 0, "N", "measure this many bytes (default: to the end)",
	  CLI_SIZE(struct memory_task, size, 1, MEMORY_MAX) },
	{ "batch", 0, "BATCH", "the segments of a batch or a response, not a file",
	  CLI_TEXT(struct memory_task, batch_path) },
	{ "key", 'k', "KEY", "a key that opens the batch; may be given again",
	  CLI_LIST(struct memory_task, keys) },
	{ "segment", 0, "ID", "only this segment", CLI_TEXT(struct memory_task, segment) },
	CLI_END,
};

int memory_measure(struct memory_task *task, const char *label, sgpu_devptr memory, uint64_t total,
		   struct sgpu_error *error)
{
	uint8_t digest[SGPU_KT128_SIZE];
	const uint64_t size =
		task->size ? task->size : total - (task->offset < total ? task->offset : total);

	if (!size || task->offset > total || size > total - task->offset) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "'%s' has %" PRIu64
				 " bytes: there is nothing to measure at %" PRIu64 " for %" PRIu64,
				 label, total, task->offset, size);
	}
	const int code = sgpu_secure_measure(task->context, memory + task->offset, size,
					     task->keyed, digest, error);
	if (code) {
		return code;
	}
	json_t *result = json_pack("{s:o, s:I, s:I, s:o}", "label", cli_json_text(label), "offset",
				   (json_int_t)task->offset, "size", (json_int_t)size, "digest",
				   measure_hex(digest, sizeof(digest)));
	return json_array_append_new(task->results, result) ? sgpu_fail_nomem(error) : 0;
}

/* ---- a file ---- */
static int measure_file(struct memory_task *task, int fd, const char *name,
			struct sgpu_error *error)
{
	struct memory_payload payload = { .name = name, .fd = fd };
	const off_t position = lseek(fd, 0, SEEK_CUR);
	struct stat status = { 0 };
	sgpu_devptr memory = 0;
	char *data = NULL;
	size_t size = 0;
	int code = 0;

	if (fstat(fd, &status) || S_ISCHR(status.st_mode)) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s' is a device, which may have no end",
				 name);
	}
	if (position >= 0 && S_ISREG(status.st_mode) && status.st_size >= position) {
		payload.offset = (uint64_t)position;
		payload.size = (uint64_t)(status.st_size - position);
	} else {
		code = sgpu_read_fd(fd, name, MEMORY_MAX, &data, &size, error);
		payload.size = size;
	}
	if (!code && !payload.size) {
		code = sgpu_fail(error, SGPU_EINVALID, "'%s' is empty: there is nothing to measure",
				 name);
	}
	if (!code && !data) {
		code = memory_load(task, &payload, &memory, error);
	} else if (!code) {
		code = sgpu_device_alloc(sgpu_secure_device(task->context), size, &memory, error);
		if (!code) {
			code = sgpu_secure_memcpy(task->context, data, memory, size,
						  SGPU_SECURE_TO_DEVICE, error);
		}
	}
	code = code ? code : memory_measure(task, name, memory, payload.size, error);
	sgpu_device_free(sgpu_secure_device(task->context), &memory, payload.size);
	sgpu_free_wiped(&data, size);
	return code;
}

/* ---- the context ---- */
static int in_context(struct memory_task *task, int fd, const char *name, struct sgpu_error *error)
{
	int code = sgpu_device_open(task->device_name, NULL, &task->device, error);

	code = code ? code : sgpu_secure_create(task->device, NULL, &task->context, error);
	if (!code) {
		code = sgpu_engine_create(sgpu_secure_device(task->context), NULL, &task->engine,
					  error);
	}
	if (!code) {
		code = task->batch_path ? memory_batch(task, fd, name, error)
					: measure_file(task, fd, name, error);
	}
	sgpu_engine_free(&task->engine);
	sgpu_secure_destroy(&task->context);
	sgpu_device_close(&task->device);
	return code;
}

/* ---- what is said ---- */
static int report(const struct memory_task *task)
{
	const json_t *result = NULL;
	size_t i = 0;

	if (cli_json) {
		return measure_print_record(json_pack("{s:s, s:b, s:O}", "algorithm",
						      SGPU_MEASURE_CUSTOM, "keyed", task->keyed,
						      "measurements", task->results),
					    false);
	}
	json_array_foreach (task->results, i, result) {
		cli_print_line(stdout, "%s  %s",
			       json_string_value(json_object_get(result, "digest")),
			       json_string_value(json_object_get(result, "label")));
	}
	return 0;
}

/* There is one result then. */
static int compare(const struct memory_task *task)
{
	const json_t *result = json_array_get(task->results, 0);
	const char *got = json_string_value(json_object_get(result, "digest"));
	char expected[2 * SGPU_KT128_SIZE + 1];

	sgpu_hex_encode(task->expected.data, task->expected.size, expected);
	if (!got || strcmp(got, expected)) {
		return cli_fail(SGPU_EDIFFERS, "the digest of '%s' is %s, not %s",
				json_string_value(json_object_get(result, "label")),
				got ? got : "unknown", expected);
	}
	return 0;
}

/* ---- options ---- */
static int check_options(const struct memory_task *task)
{
	if (task->path && task->batch_path) {
		return cli_usage("a file and --batch exclude each other");
	}
	if (!task->batch_path && (task->keys.count || task->segment)) {
		return cli_usage("-k and --segment need --batch");
	}
	if (task->keyed && task->expected.size) {
		return cli_usage(
			"--keyed and --expect exclude each other: the key is new in every run");
	}
	if (task->batch_path && !task->segment &&
	    (task->expected.size || task->size || task->offset)) {
		return cli_usage("--expect, --offset and --size need one --segment of the batch");
	}
	for (int i = 0; i < task->keys.count; i++) {
		if (!strcmp(task->keys.items[i], "-") && cli_is_standard(task->batch_path)) {
			return cli_usage(
				"the key and the batch cannot both come from standard input");
		}
	}
	return 0;
}

static int run(struct memory_task *task)
{
	const char *path = task->batch_path ? task->batch_path : task->path, *name = NULL;
	struct sgpu_error error = { 0 };
	int fd = -1, status = check_options(task);

	if (status) {
		return status;
	}
	status = cli_input(path, &name, &fd);
	if (status) {
		return status;
	}
	cli_signals(NULL);
	status = in_context(task, fd, name, &error) ? cli_error(&error) : report(task);
	if (!status && task->expected.size) {
		status = compare(task);
	}
	cli_input_close(fd);
	return status;
}

int verb_memory(int argc, char **argv)
{
	struct memory_task task = { .device_name = "auto", .results = json_array() };
	char **paths;
	int status = cli_read(argc, argv, &task, &paths);

	if (!status) {
		task.path = paths[0];
		status = run(&task);
	}
	free(task.keys.items);
	json_decref(task.results);
	return cli_finish(status);
}
