/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure memory: copies a file into a secure context on a device, and measures it there with
 * CH_MEASURE.
 */
#include <string.h>
#include <sys/stat.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "crypto/crypto.h"
#include "channel/channel.h"
#include "parts.h"

struct task {
	const char *device_name;
	struct cli_bytes expected; /* a digest */
	/* of the file */
	char *data;
	size_t size;
	uint8_t digest[SGPU_KT128_SIZE];
};

#define MEMORY_MAX (UINT64_C(1) << 46)

const struct cli_option memory_options[] = {
	{ "device", 0, "DEVICE", "cpu, cuda, cuda:N or auto (the default)",
	  CLI_TEXT(struct task, device_name) },
	{ "expect", 0, "DIGEST", "the expected digest; the exit status is 1 if it differs",
	  CLI_BYTES(struct task, expected, SGPU_KT128_SIZE, SGPU_KT128_SIZE) },
	CLI_END,
};

static int read_data(struct task *task, int fd, const char *name, struct sgpu_error *error)
{
	struct stat status = { 0 };

	if (fstat(fd, &status) || S_ISCHR(status.st_mode)) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s' is a device, which may have no end",
				 name);
	}
	int rc = sgpu_read_fd(fd, name, MEMORY_MAX, &task->data, &task->size, error);
	if (!rc && !task->size) {
		rc = sgpu_fail(error, SGPU_EINVALID, "'%s' is empty: there is nothing to measure",
			       name);
	}
	return rc;
}

static int measure(struct task *task, struct sgpu_error *error)
{
	struct sgpu_device *device = NULL;
	struct sgpu_secure *context = NULL;
	sgpu_devptr memory = 0;
	int rc = sgpu_device_open(task->device_name, NULL, &device, error);

	rc = rc ? rc : sgpu_secure_create(device, NULL, &context, error);
	rc = rc ? rc : sgpu_device_alloc(sgpu_secure_device(context), task->size, &memory, error);
	rc = rc ? rc : sgpu_secure_memcpy(context, task->data, memory, task->size, error);
	rc = rc ? rc : sgpu_secure_measure(context, memory, task->size, false, task->digest, error);
	if (memory) {
		sgpu_device_free(sgpu_secure_device(context), &memory, task->size);
	}
	sgpu_secure_destroy(&context);
	sgpu_device_close(&device);
	return rc;
}

static int report(const struct task *task, const char *name)
{
	char digest[2 * SGPU_KT128_SIZE + 1], expected[2 * SGPU_KT128_SIZE + 1];
	int status = 0;

	sgpu_hex_encode(task->digest, sizeof(task->digest), digest);
	if (cli_json) {
		status = cli_print_json(json_pack("{s:s, s:o, s:I, s:s}", "algorithm",
						  SGPU_MEASURE_CUSTOM, "label", cli_json_text(name),
						  "size", (json_int_t)task->size, "digest", digest),
					stdout, JSON_COMPACT);
	} else {
		cli_print_line(stdout, "%s  %s", digest, name);
	}
	if (!status && task->expected.size &&
	    memcmp(task->expected.data, task->digest, sizeof(task->digest)) != 0) {
		sgpu_hex_encode(task->expected.data, task->expected.size, expected);
		status = cli_fail(SGPU_EDIFFERS, "the digest of '%s' is %s, not %s", name, digest,
				  expected);
	}
	return status;
}

static int run(struct task *task, const char *path)
{
	const char *name = NULL;
	struct sgpu_error error = { 0 };
	int fd = -1, status;

	status = cli_input(path, &name, &fd);
	if (status) {
		return status;
	}
	cli_signals(NULL);
	int rc = read_data(task, fd, name, &error);
	rc = rc ? rc : measure(task, &error);
	status = rc ? cli_error(&error) : report(task, name);
	sgpu_free_wiped(&task->data, task->size);
	return status;
}

int verb_memory(int argc, char **argv)
{
	struct task task = { .device_name = "auto" };
	char **paths;
	int status = cli_read(argc, argv, &task, &paths);

	return cli_finish(status ? status : run(&task, paths[0]));
}
