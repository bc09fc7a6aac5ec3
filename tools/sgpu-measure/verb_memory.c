/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure memory: brings data into a secure context on a device and measures them there, as CH_MEASURE does.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/io.h>

#include "memory.h"
#include "parts.h"
#include "verbs.h"

enum { DEVICE = CLI_LONG, KEYED, EXPECT, OFFSET, SIZE, BATCH, SEGMENT };
static const uint64_t memory_max = (uint64_t)1 << 46;

const struct cli_option memory_options[] = {
	CLI_COMMON,
	{ "device", DEVICE, "DEVICE", "cpu, cuda, cuda:N or auto (the default)" },
	{ "keyed", KEYED, NULL, "digests with the context's key, which only this run can compare" },
	{ "expect", EXPECT, "DIGEST", "what the digest must be; else the exit status is 1" },
	{ "offset", OFFSET, "N", "measure from this byte on: 4096, 64K" },
	{ "size", SIZE, "N", "measure so many bytes (default: to the end)" },
	{ "batch", BATCH, "BATCH", "the segments of a batch or a response, not a file" },
	{ "key", 'k', "KEY", "a key that opens the batch; may be given again" },
	{ "segment", SEGMENT, "ID", "this segment alone" },
	{ NULL, 0, NULL, NULL },
};

int memory_measure(struct memory_task *task, const char *label, sgpu_devptr memory, uint64_t total,
		   struct sgpu_error *error)
{
	uint8_t digest[SGPU_CHANNEL_DIGEST_SIZE];
	const uint64_t size = task->has_size ? task->size : total - (task->offset < total ? task->offset : total);

	if (!size || task->offset > total || size > total - task->offset) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s' has %" PRIu64 " bytes: there is nothing to measure at %" PRIu64
				 " for %" PRIu64, label, total, task->offset, size);
	}
	const int code = sgpu_secure_measure(task->context, memory + task->offset, size, task->keyed, digest, error);
	if (code) {
		return code;
	}
	json_t *result = json_pack("{s:o, s:I, s:I, s:o}", "label", measure_text(label), "offset",
				   (json_int_t)task->offset, "size", (json_int_t)size, "digest",
				   measure_hex(digest, sizeof(digest)));
	return json_array_append_new(task->results, result) ? sgpu_fail_nomem(error) : 0;
}

/* ---- a file ---- */
static int measure_feed(struct memory_task *task, struct memory_feed *feed, uint64_t size, struct sgpu_error *error)
{
	sgpu_devptr memory = 0;
	int code = size ? memory_load(task, feed, size, NULL, &memory, error) :
		   sgpu_fail(error, SGPU_EINVALID, "'%s' is empty: there is nothing to measure", feed->name);

	if (!code) {
		code = memory_measure(task, feed->name, memory, size, error);
		sgpu_secure_free(task->context, &memory);
	}
	return code;
}

static int measure_file(struct memory_task *task, int fd, const char *name, struct sgpu_error *error)
{
	struct memory_feed feed = { .read = memory_read_file, .fd = fd, .name = name };
	const off_t position = lseek(fd, 0, SEEK_CUR);
	struct stat status = { 0 };
	char *data = NULL;
	size_t size = 0;

	if (fstat(fd, &status) || S_ISCHR(status.st_mode)) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s' is a device, which may have no end", name);
	}
	if (position >= 0 && S_ISREG(status.st_mode) && status.st_size >= position) {
		feed.at = (uint64_t)position;
		return measure_feed(task, &feed, (uint64_t)(status.st_size - position), error);
	}
	int code = sgpu_read_fd(fd, name, memory_max, &data, &size, error);
	if (!code) {
		feed = (struct memory_feed){ .read = memory_read_bytes, .data = (const uint8_t *)data, .name = name };
		code = measure_feed(task, &feed, size, error);
	}
	sgpu_free_wiped(&data, size);
	return code;
}

/* ---- the context ---- */
static int in_context(struct memory_task *task, int fd, const char *name, struct sgpu_error *error)
{
	const struct sgpu_secure_config config = { .owner = NULL };
	int code = sgpu_device_open(task->device_name, NULL, &task->device, error);

	if (!code) {
		code = sgpu_secure_create(task->device, &config, &task->context, error);
	}
	if (!code) {
		code = task->batch_path ? memory_batch(task, fd, name, error) : measure_file(task, fd, name, error);
	}
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
		return measure_print_record(json_pack("{s:s, s:b, s:O}", "algorithm", "KT128", "keyed", task->keyed,
						      "measurements", task->results), false);
	}
	json_array_foreach(task->results, i, result) {
		printf("%s  ", json_string_value(json_object_get(result, "digest")));
		measure_print_text(json_string_value(json_object_get(result, "label")));
		putchar('\n');
	}
	return 0;
}

/* There is one result then. */
static int compare(const struct memory_task *task)
{
	const json_t *result = json_array_get(task->results, 0);
	const char *got = json_string_value(json_object_get(result, "digest"));
	char expected[2 * SGPU_CHANNEL_DIGEST_SIZE + 1];

	sgpu_hex_encode(task->expected, sizeof(task->expected), expected);
	if (!got || strcmp(got, expected)) {
		return cli_fail(SGPU_EDIFFERS, "the digest of '%s' is %s, not %s",
				json_string_value(json_object_get(result, "label")), got ? got : "unknown", expected);
	}
	return 0;
}

/* ---- options ---- */
static int take_number(const char *value, const char *what, uint64_t min, uint64_t *number)
{
	struct sgpu_error error = { 0 };

	return sgpu_parse_size(value, what, min, memory_max, number, &error) ? cli_usage("%s", error.text) : 0;
}

static int take_option(struct memory_task *task, int key, const char *value)
{
	struct sgpu_error error = { 0 };

	switch (key) {
	case DEVICE:
		task->device_name = value;
		return 0;
	case KEYED:
		task->keyed = true;
		return 0;
	case EXPECT:
		task->has_expected = true;
		return sgpu_hex_decode(value, task->expected, sizeof(task->expected), &error) ?
		       cli_usage("--expect: %s", error.text) : 0;
	case OFFSET:
		return take_number(value, "--offset", 0, &task->offset);
	case SIZE:
		task->has_size = true;
		return take_number(value, "--size", 1, &task->size);
	case BATCH:
		task->batch_path = value;
		return 0;
	case 'k':
		if (task->key_count == MEMORY_KEYS_MAX) {
			return cli_usage("more than %d keys", MEMORY_KEYS_MAX);
		}
		task->key_paths[task->key_count++] = value;
		return 0;
	case SEGMENT:
		task->segment = value;
		return 0;
	default:
		return 2;
	}
}

static int check_options(const struct memory_task *task)
{
	if (task->path && task->batch_path) {
		return cli_usage("a file and --batch exclude each other");
	}
	if (!task->batch_path && (task->key_count || task->segment)) {
		return cli_usage("-k and --segment need --batch");
	}
	if (task->keyed && task->has_expected) {
		return cli_usage("--keyed and --expect exclude each other: the key is new in every run");
	}
	if (task->batch_path && !task->segment && (task->has_expected || task->has_size || task->offset)) {
		return cli_usage("--expect, --offset and --size need one --segment of the batch");
	}
	for (int i = 0; i < task->key_count; i++) {
		if (!strcmp(task->key_paths[i], "-") && cli_is_standard(task->batch_path)) {
			return cli_usage("the key and the batch cannot both come from standard input");
		}
	}
	return 0;
}

static int run(struct memory_task *task)
{
	const char *path = task->batch_path ? task->batch_path : task->path, *name = NULL;
	struct sgpu_error error = { 0 };
	int status = check_options(task);

	if (status) {
		return status;
	}
	const int fd = cli_input(path, &name);
	if (fd < 0) {
		return cli_is_standard(path) ? 2 : 3;
	}
	cli_signals(NULL);
	status = in_context(task, fd, name, &error) ? cli_error(&error) : report(task);
	if (!status && task->has_expected) {
		status = compare(task);
	}
	if (fd > STDERR_FILENO) {
		close(fd);
	}
	return status;
}

int verb_memory(int argc, char **argv)
{
	struct memory_task task = { .device_name = "auto", .results = json_array() };
	const char *value = NULL;
	int first = argc, status = 0;

	for (int key = 0; !status && (key = cli_next(argc, argv, &value, &first)) != 0;) {
		status = take_option(&task, key, value);
	}
	if (!status && !cli_positionals(argc, first, 0, 1)) {
		status = 2;
	}
	if (!status) {
		task.path = first < argc ? argv[first] : NULL;
		status = run(&task);
	}
	json_decref(task.results);
	return cli_finish(status);
}
