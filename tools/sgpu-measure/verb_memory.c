/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure memory: copies data into a secure context on a device and measures them there with
 * CH_MEASURE. One payload at a time is in the memory of the host, as it was read.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/batch.h>

#include "base/io.h"
#include "crypto/crypto.h"
#include "secure/secure.h"
#include "stage/stage.h"
#include "transfer/transfer.h"
#include "parts.h"

struct task {
	/* the options */
	const char *device_name, *path, *batch_path, *segment;
	struct cli_list keys; /* paths */
	bool keyed;
	struct cli_bytes expected; /* a digest */
	uint64_t offset, size;	   /* size 0: to the end */
	/* the device and its context */
	struct sgpu_device *device;
	struct sgpu_secure *context;
	struct sgpu_engine *engine; /* for transfers into the context */
	json_t *results;	    /* array of {"label", "offset", "size", "digest"} */
	/* the batch */
	struct sgpu_tar_reader *reader;
	struct sgpu_batch *batch;
	uint8_t batch_key[SGPU_KEY_SIZE];
};

/* Data on their way into the context, which were read into the memory of the host. */
struct payload {
	const char *name;
	char *data;
	uint64_t size; /* load() replaces it by the size of the plaintext */
	bool sealed;   /* opened on the device with `key` and `context` */
	uint8_t key[SGPU_KEY_SIZE], context[SGPU_SEGMENT_CONTEXT_MAX];
	size_t context_size;
	struct sgpu_device_key *device_key;
	const uint8_t *kt128; /* NULL, or the digest that LOW data must have */
};

#define MEMORY_MAX (UINT64_C(1) << 46)

const struct cli_option memory_options[] = {
	CLI_COMMON,
	{ "device", 0, "DEVICE", "cpu, cuda, cuda:N or auto (the default)",
	  CLI_TEXT(struct task, device_name) },
	{ "keyed", 0, NULL, "digests with the context's key, which only this run can compare",
	  CLI_FLAG(struct task, keyed) },
	{ "expect", 0, "DIGEST", "the expected digest; the exit status is 1 if it differs",
	  CLI_BYTES(struct task, expected, SGPU_KT128_SIZE, SGPU_KT128_SIZE) },
	{ "offset", 0, "N", "measure from this byte on: 4096, 64K",
	  CLI_SIZE(struct task, offset, 0, MEMORY_MAX) },
	{ "size", 0, "N", "measure this many bytes (default: to the end)",
	  CLI_SIZE(struct task, size, 1, MEMORY_MAX) },
	{ "batch", 0, "BATCH", "the segments of a batch or a response, not a file",
	  CLI_TEXT(struct task, batch_path) },
	{ "key", 'k', "KEY", "a key that opens the batch; may be given again",
	  CLI_LIST(struct task, keys) },
	{ "segment", 0, "ID", "only this segment", CLI_TEXT(struct task, segment) },
	CLI_END,
};

/* ---- copies into a secure context: the transfer engine opens sealed data and digests LOW data on
 * the device; secure copies seal other data on the bus ---- */
/* Makes the device's key from the header, which precedes the chunks. */
static int load_key(void *argument, struct sgpu_stream *stream,
		    struct sgpu_transfer_request *request, struct sgpu_error *error)
{
	struct payload *payload = argument;
	struct sgpu_sealed_keys keys;
	int rc = sgpu_sealed_keys_open(payload->key, payload->context, payload->context_size,
				       (const uint8_t *)payload->data, &keys, error);

	if (!rc) {
		rc = sgpu_device_key_load(stream, &keys, &payload->device_key, error);
		sgpu_wipe(&keys, sizeof(keys));
	}
	request->key = payload->device_key;
	return rc;
}

static int transfer(struct task *task, struct payload *payload, uint64_t size, sgpu_devptr memory,
		    struct sgpu_error *error)
{
	const size_t header = payload->sealed ? SGPU_SEALED_HEADER : 0;
	const struct sgpu_transfer_request request = {
		.direction = SGPU_TRANSFER_IN,
		.memory = memory,
		.size = size - header,
		.last = payload->sealed,
		.prepare = payload->sealed ? load_key : NULL,
		.argument = payload,
		.digested = payload->kt128,
		.expected = payload->kt128,
		.source = sgpu_source_from_memory(payload->data + header, false),
	};
	struct sgpu_transfer_result result;
	const int rc = sgpu_transfer_sync(task->engine, &request, &result);

	sgpu_device_key_free(&payload->device_key);
	if (rc == SGPU_EAUTH && payload->kt128) {
		return sgpu_fail(error, rc, "'%s' is not what the batch says: its kt128 differs",
				 payload->name);
	}
	if (rc == SGPU_EAUTH) {
		return sgpu_fail(error, rc, "'%s' does not verify at chunk %llu", payload->name,
				 (unsigned long long)result.bad_chunk);
	}
	return rc ? sgpu_fail(error, rc, "%s", result.error.text) : 0;
}

/* Copies the payload into newly allocated memory of the context. Errors: SGPU_EKEY, SGPU_EAUTH. */
static int load(struct task *task, struct payload *payload, sgpu_devptr *memory,
		struct sgpu_error *error)
{
	struct sgpu_device *device = sgpu_secure_device(task->context);
	const uint64_t size = payload->size;

	*memory = 0;
	if (payload->sealed && !sgpu_sealed_plaintext_size(size, &payload->size)) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s' has a length that no sealed data have",
				 payload->name);
	}
	int rc = sgpu_device_alloc(device, payload->size, memory, error);
	rc = rc ? rc
	     : payload->sealed || payload->kt128
		     ? transfer(task, payload, size, *memory, error)
		     : sgpu_secure_memcpy(task->context, payload->data, *memory, size, error);
	if (rc) {
		sgpu_device_free(device, memory, payload->size);
	}
	return rc;
}

/* Loads the payload, measures the range of --offset and --size in it, and adds the digest to
 * task->results. */
static int measure(struct task *task, struct payload *payload, struct sgpu_error *error)
{
	uint8_t digest[SGPU_KT128_SIZE];
	sgpu_devptr memory = 0;
	int rc = load(task, payload, &memory, error);
	const uint64_t total = payload->size,
		       left = total - (task->offset < total ? task->offset : total),
		       size = task->size ? task->size : left;

	if (!rc && (!size || size > left)) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "'%s' has %" PRIu64 " bytes: there is nothing to measure at %" PRIu64
			       " for %" PRIu64,
			       payload->name, total, task->offset, size);
	}
	rc = rc ? rc
		: sgpu_secure_measure(task->context, memory + task->offset, size, task->keyed,
				      digest, error);
	sgpu_device_free(sgpu_secure_device(task->context), &memory, total);
	if (!rc && json_array_append_new(
			   task->results,
			   json_pack("{s:o, s:I, s:I, s:o}", "label", cli_json_text(payload->name),
				     "offset", (json_int_t)task->offset, "size", (json_int_t)size,
				     "digest", measure_hex(digest, sizeof(digest))))) {
		rc = sgpu_fail_nomem(error);
	}
	return rc;
}

/* ---- a batch ---- */
static bool wanted(const struct task *task, int i)
{
	const struct sgpu_batch_segment *s = &task->batch->segments[i];

	return s->location.kind != SGPU_LOCATION_NONE && s->status == SGPU_OK &&
	       (!task->segment || !strcmp(task->segment, s->id));
}

/* Verifies the MAC, if there is one, before the index is used. */
static int authenticate(struct task *task, struct sgpu_error *error)
{
	struct sgpu_key *keys = NULL;
	int loaded = 0, rc = 0;

	if (!task->batch->has_mac) {
		return task->keys.count ? sgpu_fail(error, SGPU_EPOLICY,
						    "the batch has no mac, so no key fits it")
					: 0;
	}
	if (!task->keys.count) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "a key that opens the batch is missing, with -k");
	}
	keys = calloc((size_t)task->keys.count, sizeof(*keys));
	rc = keys ? 0 : sgpu_fail_nomem(error);
	for (; !rc && loaded < task->keys.count; loaded++) {
		rc = sgpu_key_load_private(task->keys.items[loaded], &keys[loaded], error);
	}
	rc = rc ? rc
		: sgpu_batch_unwrap(task->batch, keys, task->keys.count, task->batch_key, error);
	rc = rc ? rc : sgpu_batch_verify(task->batch, task->batch_key, error);
	sgpu_free_wiped(&keys, (size_t)task->keys.count * sizeof(*keys));
	return rc;
}

/* Reads a segment from `fd`, or from the archive if that is -1, and measures it. */
static int measure_segment(struct task *task, int i, int fd, uint64_t offset,
			   struct sgpu_error *error)
{
	const struct sgpu_batch *batch = task->batch;
	const struct sgpu_batch_segment *s = &batch->segments[i];
	const uint64_t size = sgpu_batch_payload_size(batch, i);
	struct payload payload = { .name = s->id,
				   .data = malloc(size + 1),
				   .size = size,
				   .sealed = s->sealed,
				   .kt128 = !s->sealed && s->has_kt128 ? s->kt128 : NULL };
	size_t got = size;
	int rc = !payload.data ? sgpu_fail_nomem(error)
		 : fd < 0      ? sgpu_tar_read(task->reader, payload.data, size, error)
			       : sgpu_pread(fd, s->id, payload.data, size, offset, &got, error);

	if (!rc && got < size) {
		rc = sgpu_fail(error, SGPU_EINVALID, "'%s' ends before its size", s->id);
	}
	if (!rc && s->sealed) {
		rc = sgpu_batch_segment_key(
			batch, task->batch_key, s->id, batch->response ? batch->response_id : NULL,
			payload.key, payload.context, &payload.context_size, error);
	}
	rc = rc ? rc : measure(task, &payload, error);
	sgpu_wipe(payload.key, sizeof(payload.key));
	sgpu_free_wiped(&payload.data, size);
	return rc;
}

/* Measures the wanted segments, first those whose payload is not in the archive. */
static int measure_all(struct task *task, struct sgpu_error *error)
{
	int segment = 0, rc = 0;

	for (int i = 0; !rc && i < task->batch->segment_count; i++) {
		const struct sgpu_batch_segment *s = &task->batch->segments[i];
		struct sgpu_source source = { .fd = -1 };
		if (!wanted(task, i) || s->location.kind == SGPU_LOCATION_INLINE) {
			continue;
		}
		rc = sgpu_source_open(&s->location, sgpu_batch_payload_size(task->batch, i),
				      &source, error);
		rc = rc ? rc : measure_segment(task, i, source.fd, source.offset, error);
		sgpu_source_close(&source);
	}
	while (!rc && segment >= 0) {
		rc = sgpu_batch_next_payload(task->reader, task->batch, &segment, error);
		if (!rc && segment >= 0 && wanted(task, segment)) {
			rc = measure_segment(task, segment, -1, 0, error);
		}
	}
	return rc;
}

static int check_segment(const struct task *task, struct sgpu_error *error)
{
	const char *id = task->segment;

	if (id && sgpu_batch_segment(task->batch, id) < 0) {
		return sgpu_fail(error, SGPU_EUSAGE, "there is no segment '%s'", id);
	}
	if (!json_array_size(task->results)) {
		return id ? sgpu_fail(error, SGPU_EINVALID, "segment '%s' has no payload", id)
			  : sgpu_fail(error, SGPU_EINVALID, "no segment has a payload");
	}
	return 0;
}

/* Measures the segments of a batch or a response, one after the other. */
static int measure_batch(struct task *task, int in, const char *name, struct sgpu_error *error)
{
	int rc = sgpu_tar_open(in, name, &task->reader, error);

	rc = rc ? rc : sgpu_batch_read(task->reader, SGPU_READ_EITHER, &task->batch, error);
	rc = rc ? rc : authenticate(task, error);
	rc = rc ? rc : measure_all(task, error);
	rc = rc ? rc : check_segment(task, error);
	sgpu_wipe(task->batch_key, sizeof(task->batch_key));
	sgpu_batch_free(&task->batch);
	sgpu_tar_close(&task->reader);
	return rc;
}

/* ---- a file ---- */
static int measure_file(struct task *task, int fd, const char *name, struct sgpu_error *error)
{
	struct payload payload = { .name = name };
	struct stat status = { 0 };
	size_t size = 0;

	if (fstat(fd, &status) || S_ISCHR(status.st_mode)) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s' is a device, which may have no end",
				 name);
	}
	int rc = sgpu_read_fd(fd, name, MEMORY_MAX, &payload.data, &size, error);
	if (!rc && !size) {
		rc = sgpu_fail(error, SGPU_EINVALID, "'%s' is empty: there is nothing to measure",
			       name);
	}
	payload.size = size;
	rc = rc ? rc : measure(task, &payload, error);
	sgpu_free_wiped(&payload.data, size);
	return rc;
}

/* ---- the context ---- */
static int in_context(struct task *task, int fd, const char *name, struct sgpu_error *error)
{
	int rc = sgpu_device_open(task->device_name, NULL, &task->device, error);

	rc = rc ? rc : sgpu_secure_create(task->device, NULL, &task->context, error);
	rc = rc ? rc
		: sgpu_engine_create(sgpu_secure_device(task->context), NULL, &task->engine, error);
	rc = rc			? rc
	     : task->batch_path ? measure_batch(task, fd, name, error)
				: measure_file(task, fd, name, error);
	sgpu_engine_free(&task->engine);
	sgpu_secure_destroy(&task->context);
	sgpu_device_close(&task->device);
	return rc;
}

/* ---- reports ---- */
static int report(const struct task *task)
{
	const json_t *result = NULL;
	size_t i = 0;

	if (cli_json) {
		return cli_print_json(json_pack("{s:s, s:b, s:O}", "algorithm", SGPU_MEASURE_CUSTOM,
						"keyed", task->keyed, "measurements",
						task->results),
				      stdout, JSON_COMPACT);
	}
	json_array_foreach (task->results, i, result) {
		cli_print_line(stdout, "%s  %s", cli_text_of(result, "digest"),
			       cli_text_of(result, "label"));
	}
	return 0;
}

/* Compares the only result with --expect. */
static int compare(const struct task *task)
{
	const json_t *result = json_array_get(task->results, 0);
	const char *got = cli_text_of(result, "digest");
	char expected[2 * SGPU_KT128_SIZE + 1];

	sgpu_hex_encode(task->expected.data, task->expected.size, expected);
	return strcmp(got, expected) ? cli_fail(SGPU_EDIFFERS, "the digest of '%s' is %s, not %s",
						cli_text_of(result, "label"), got, expected)
				     : 0;
}

/* ---- options ---- */
static int check_options(const struct task *task)
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
	return measure_standard_once(cli_is_standard(task->batch_path), task->keys.items,
				     task->keys.count);
}

static int run(struct task *task)
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
	struct task task = { .device_name = "auto", .results = json_array() };
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
