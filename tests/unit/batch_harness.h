/* SPDX-License-Identifier: Apache-2.0
 *
 * A small batch and its response, for the tests of their format: made, signed, written and read
 * back.
 */
#ifndef SGPU_BATCH_HARNESS_H
#define SGPU_BATCH_HARNESS_H

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/batch.h>

#include "base/io.h"
#include "crypto/crypto.h"
#include "batch/batch.h"
#include "batch/index.h"
#include "unit.h"

static struct sgpu_error error;

static const char manifest_source[] =
	"{\"version\":1,\"manifest_id\":\"t\",\"segments\":["
	"{\"segment_id\":\"secret\",\"data_location_client\":\"s.f32\",\"sensitivity_level\":"
	"\"HIGH\","
	"\"direction\":\"INPUT\",\"gpu_operation_id\":\"ADD\",\"data_type_info\":{\"dtype\":"
	"\"f32\",\"shape\":[4]}},"
	"{\"segment_id\":\"public\",\"data_location_client\":\"p.f32\",\"sensitivity_level\":"
	"\"LOW\","
	"\"direction\":\"INPUT\",\"gpu_operation_id\":\"ADD\",\"data_type_info\":{\"dtype\":"
	"\"f32\",\"shape\":[4]}},"
	"{\"segment_id\":\"sum\",\"data_location_client\":\"o.f32\",\"sensitivity_level\":\"HIGH\","
	"\"direction\":\"OUTPUT\",\"gpu_operation_id\":\"ADD\",\"data_type_info\":{\"dtype\":"
	"\"f32\",\"shape\":[4]}}],"
	"\"operations\":[{\"gpu_operation_id\":\"ADD\",\"kernel\":\"vector_add\",\"arguments\":"
	"{\"a\":\"secret\",\"b\":\"public\",\"output\":\"sum\"}}]}";

static const uint8_t public_data[16] = "0123456789abcde";
static uint8_t batch_key[SGPU_KEY_SIZE];

static inline char *canonical_manifest(size_t *size)
{
	struct sgpu_manifest *manifest = NULL;
	struct sgpu_diagnostics diagnostics = { 0 };
	if (sgpu_manifest_parse(manifest_source, strlen(manifest_source), 0, &manifest,
				&diagnostics, &error) ||
	    diagnostics.count) {
		fprintf(stderr, "%s\n", diagnostics.count ? diagnostics.list[0].text : error.text);
		abort();
	}
	char *text = malloc(manifest->canonical_size + 1);
	memcpy(text, manifest->canonical, manifest->canonical_size + 1);
	*size = manifest->canonical_size;
	sgpu_manifest_free(&manifest);
	sgpu_diagnostics_clear(&diagnostics);
	return text;
}

static inline struct sgpu_batch *empty_batch(int segments)
{
	struct sgpu_batch *batch = calloc(1, sizeof(*batch));
	batch->segments = calloc((size_t)segments, sizeof(*batch->segments));
	batch->segment_count = segments;
	batch->manifest_text = canonical_manifest(&batch->manifest_size);
	memset(batch->id, 7, sizeof(batch->id));
	if (sgpu_sha256(batch->manifest_text, batch->manifest_size, batch->manifest_sha256,
			&error)) {
		abort();
	}
	return batch;
}

/* As sgpu-manifest pack would write it: the secret is a file, the public part travels. */
static inline struct sgpu_batch *packed_batch(void)
{
	struct sgpu_batch *batch = empty_batch(3);
	struct sgpu_batch_segment *s = batch->segments;

	batch->packed = true;
	s[0] = (struct sgpu_batch_segment){ .id = strdup("secret"),
					    .masking = SGPU_MASKING_AES_GCM,
					    .size = 16,
					    .location = { .kind = SGPU_LOCATION_FILE,
							  .file = strdup("/tmp/ä b\n"),
							  .offset = 352 } };
	s[1] = (struct sgpu_batch_segment){ .id = strdup("public"),
					    .size = 16,
					    .has_kt128 = true,
					    .location = { .kind = SGPU_LOCATION_INLINE } };
	s[2] = (struct sgpu_batch_segment){ .id = strdup("sum"),
					    .masking = SGPU_MASKING_AES_GCM,
					    .size = 16 };
	sgpu_kt128(public_data, 16, NULL, 0, s[1].kt128, sizeof(s[1].kt128));
	return batch;
}

static inline struct sgpu_key key_of(enum sgpu_key_kind kind)
{
	struct sgpu_key key;
	if (sgpu_key_generate(kind, &key, &error)) {
		abort();
	}
	return key;
}

/* Signs it as it is now. */
static inline void sign(struct sgpu_batch *batch, const struct sgpu_key *key)
{
	sgpu_batch_change(batch, true);
	if (sgpu_batch_wrap(batch, key, batch_key, &error) ||
	    sgpu_batch_sign(batch, batch_key, &error)) {
		abort();
	}
}

static inline struct sgpu_batch *sealed_batch(const struct sgpu_key *key)
{
	struct sgpu_batch *batch = packed_batch();
	memset(batch_key, 9, sizeof(batch_key));
	free(batch->segments[0].location.file);
	batch->segments[0].location = (struct sgpu_location){ .kind = SGPU_LOCATION_INLINE };
	batch->segments[0].sealed = true;
	batch->segments[0].sealed_size = 56 + 16 + 16;
	batch->packed = false;
	batch->counter = 1;
	if (sgpu_batch_draw_header(batch, batch_key, 0, &error)) {
		abort();
	}
	sign(batch, key);
	return batch;
}

static inline struct sgpu_batch *response(const struct sgpu_key *key)
{
	struct sgpu_batch *batch = empty_batch(1);
	batch->response = true;
	free(batch->manifest_text); /* the response has its hash alone */
	batch->manifest_text = NULL;
	batch->segments[0] =
		(struct sgpu_batch_segment){ .id = strdup("sum"),
					     .masking = SGPU_MASKING_AES_GCM,
					     .size = 16,
					     .sealed = true,
					     .sealed_size = 88,
					     .location = { .kind = SGPU_LOCATION_INLINE } };
	memset(batch->response_id, 8, sizeof(batch->response_id));
	batch->timings = json_pack("{s:i, s:i}", "open", 5, "kernel", 7);
	sign(batch, key);
	return batch;
}

static inline int write_payload(int fd, const char *name, const struct sgpu_batch *batch,
				int segment, void *unused, struct sgpu_error *failed)
{
	static const uint8_t zeros[128];
	const uint64_t size = sgpu_batch_payload_size(batch, segment);

	(void)unused;
	return sgpu_write(fd, name, size == 16 ? public_data : zeros, (size_t)size, failed);
}

/* The archive of a batch whose payloads are zeros (or the public data). */
static inline int archive(struct sgpu_batch *batch)
{
	const int fd = memfd_create("batch", 0);

	if (sgpu_batch_write(fd, "b", batch, write_payload, NULL, &error) ||
	    lseek(fd, 0, SEEK_SET)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Reads an archive to its end and closes it. */
static inline int read_archive(int fd, bool is_response, struct sgpu_batch **batch)
{
	struct sgpu_tar_reader *reader = NULL;
	int segment = 0;
	int code = sgpu_tar_open(fd, "b", &reader, &error);
	if (!code) {
		code = sgpu_batch_read(reader, is_response ? SGPU_READ_RESPONSE : SGPU_READ_BATCH,
				       batch, &error);
	}
	while (!code && segment >= 0) {
		code = sgpu_batch_next_payload(reader, *batch, &segment, &error);
	}
	sgpu_tar_close(&reader);
	close(fd);
	return code;
}

static inline int round_trip(struct sgpu_batch *batch)
{
	struct sgpu_batch *read = NULL;
	const int fd = archive(batch);
	const int code = fd < 0 ? error.code : read_archive(fd, batch->response, &read);
	if (!code) {
		uint8_t *a = NULL, *b = NULL;
		size_t a_size = 0, b_size = 0;
		CHECK(sgpu_batch_head(batch, false, &a, &a_size, &error) == 0);
		/* Made of what was read, not of the texts that were read. */
		free(read->index_text);
		read->index_text = NULL;
		CHECK(sgpu_batch_head(read, false, &b, &b_size, &error) == 0);
		CHECK(a && b && a_size == b_size && !memcmp(a, b, a_size));
		free(a);
		free(b);
	}
	sgpu_batch_free(&read);
	return code;
}

#endif
