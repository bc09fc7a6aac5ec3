/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes what lies behind authentication: an index, its locations or nothing, and its manifest,
 * each on a line. The index gets the manifest's digest, digests of the payloads, a recipient, an
 * owner's signature and a MAC, so that a runner takes what was mutated for genuine. It runs the
 * batch on the CPU device, and what it answers must verify.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/batch.h>
#include <sgpu/device.h>

#include "base/io.h"
#include "crypto/crypto.h"
#include "run/run.h"
#include "batch/batch.h"
#include "batch/index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PAYLOAD_MAX = 64 << 10, MEMORY = 4 << 20 };
static const uint64_t deadline_ns = 3000000000;

static struct sgpu_device *device;
static struct sgpu_runner *runner;
static struct sgpu_key runner_key;
static struct sgpu_key owner;
static const uint8_t batch_key[SGPU_KEY_SIZE] = { 1, 2, 3 }, zeros[PAYLOAD_MAX];

static void set_up(void)
{
	const struct sgpu_device_config config = { .jobs = 1, .memory_limit = MEMORY };
	struct sgpu_runner_config limits = { .jobs = 1 };

	if (device) {
		return;
	}
	if (sgpu_device_open("cpu", &config, &device, NULL) ||
	    sgpu_key_generate(SGPU_KEY_OCT, &runner_key, NULL) ||
	    sgpu_key_generate(SGPU_KEY_ED25519, &owner, NULL)) {
		abort();
	}
	limits.device = device;
	if (sgpu_runner_create(&limits, &runner, NULL)) {
		abort();
	}
}

/* NULL: no manifest that a runner gets as far as with. */
static struct sgpu_manifest *read_manifest(const char *text, size_t size)
{
	struct sgpu_manifest *manifest = NULL;
	struct sgpu_diagnostics diagnostics = { 0 };

	if (sgpu_manifest_parse(text, size, 0, &manifest, &diagnostics, NULL) ||
	    diagnostics.count) {
		sgpu_manifest_free(&manifest);
	}
	sgpu_diagnostics_clear(&diagnostics);
	return manifest;
}

static struct sgpu_batch *read_index(const char *text, size_t size, const char *locations,
				     size_t locations_size)
{
	struct sgpu_batch *batch = calloc(1, sizeof(*batch));
	int rc;

	if (!batch) {
		abort();
	}
	batch->counter = 1;
	batch->recipients = json_pack("[{}]"); /* an index may have sealed segments then */
	rc = sgpu_index_parse(text, size, batch, NULL);
	json_decref(batch->recipients);
	batch->recipients = NULL;
	for (int i = 0; !rc && i < batch->segment_count; i++) {
		struct sgpu_batch_segment *s = &batch->segments[i];

		s->location.kind =
			s->sealed || s->has_kt128 ? SGPU_LOCATION_INLINE : SGPU_LOCATION_NONE;
		rc = s->sealed ? sgpu_batch_draw_header(batch, batch_key, i, NULL) : 0;
	}
	if (!rc && locations_size) {
		rc = sgpu_locations_parse(locations, locations_size, batch, NULL);
	}
	if (rc) {
		sgpu_batch_free(&batch);
	}
	return batch;
}

/* Payloads are zeros, sealed ones as well: those do not verify. */
static bool authenticate(struct sgpu_batch *batch, const struct sgpu_manifest *manifest)
{
	batch->manifest_text = strdup(manifest->canonical);
	batch->manifest_size = manifest->canonical_size;
	memcpy(batch->manifest_sha256, manifest->sha256, sizeof(batch->manifest_sha256));
	for (int i = 0; i < batch->segment_count; i++) {
		struct sgpu_batch_segment *s = &batch->segments[i];

		if (s->location.kind != SGPU_LOCATION_INLINE) {
			continue;
		}
		if (sgpu_batch_payload_size(batch, i) > PAYLOAD_MAX) {
			return false;
		}
		if (s->has_kt128) {
			sgpu_kt128(zeros, s->size, NULL, 0, s->kt128, sizeof(s->kt128));
		}
	}
	return batch->manifest_text && !sgpu_batch_wrap(batch, &runner_key, batch_key, NULL) &&
	       !sgpu_batch_add_signature(batch, &owner, NULL) &&
	       !sgpu_batch_sign(batch, batch_key, NULL) &&
	       !sgpu_batch_verify(batch, batch_key, NULL);
}

static int write_payload(int fd, const char *name, const struct sgpu_batch *batch, int segment,
			 void *unused, struct sgpu_error *error)
{
	(void)unused;
	return sgpu_write(fd, name, zeros, sgpu_batch_payload_size(batch, segment), error);
}

static int write_batch(struct sgpu_batch *batch)
{
	int fd = memfd_create("batch", MFD_CLOEXEC);

	if (sgpu_batch_write(fd, "batch", batch, write_payload, NULL, NULL) ||
	    lseek(fd, 0, SEEK_SET) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* What a runner answers, its owner opens. */
static void check_response(int fd)
{
	struct sgpu_tar_reader *reader = NULL;
	struct sgpu_batch *response = NULL;
	struct sgpu_error error = { 0 };
	int segment = 0;

	if (lseek(fd, 0, SEEK_SET) != 0 || sgpu_tar_open(fd, "response", &reader, &error) ||
	    sgpu_batch_read(reader, SGPU_READ_RESPONSE, &response, &error) ||
	    sgpu_batch_verify(response, batch_key, &error)) {
		fprintf(stderr, "response: %s\n", error.text);
		abort();
	}
	while (segment >= 0) {
		if (sgpu_batch_next_payload(reader, response, &segment, &error)) {
			fprintf(stderr, "response: %s\n", error.text);
			abort();
		}
	}
	sgpu_batch_free(&response);
	sgpu_tar_close(&reader);
}

static void run(struct sgpu_batch *batch)
{
	const char *const owners[] = { owner.kid };
	struct sgpu_submission submission = {
		.in_fd = write_batch(batch),
		.in_name = "batch",
		.out_fd = memfd_create("response", MFD_CLOEXEC),
		.out_name = "response",
		.options = { .keys = &runner_key,
			     .key_count = 1,
			     .owners = owners,
			     .owner_count = 1,
			     .deadline_ns = sgpu_now_ns() + deadline_ns },
	};
	struct sgpu_run *made = NULL;
	struct sgpu_error error = { 0 };
	int rc;

	if (submission.in_fd < 0 || submission.out_fd < 0 ||
	    sgpu_run_create(runner, &submission, &made, &error)) {
		abort();
	}
	rc = sgpu_run_batch(made, &error);
	if (rc == SGPU_OK || rc == SGPU_ESEGMENTS) {
		check_response(submission.out_fd);
	} else if (lseek(submission.out_fd, 0, SEEK_END) != 0 || rc == SGPU_EUSAGE) {
		fprintf(stderr, "%s, and a response: %s\n", sgpu_error_name(rc), error.text);
		abort();
	}
	sgpu_run_free(&made);
	close(submission.in_fd);
	close(submission.out_fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data, *end = text + size,
		   *first = size ? memchr(text, '\n', size) : NULL,
		   *second = first ? memchr(first + 1, '\n', (size_t)(end - first - 1)) : NULL;
	struct sgpu_manifest *manifest;
	struct sgpu_batch *batch;

	if (!second) {
		return 0;
	}
	set_up();
	manifest = read_manifest(second + 1, (size_t)(end - second - 1));
	batch = manifest ? read_index(text, (size_t)(first - text), first + 1,
				      (size_t)(second - first - 1))
			 : NULL;
	if (batch && authenticate(batch, manifest)) {
		run(batch);
	}
	sgpu_batch_free(&batch);
	sgpu_manifest_free(&manifest);
	return 0;
}
