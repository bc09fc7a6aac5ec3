/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu pipe, against a runner that lies about the outputs: it has the batch key, so that its
 * responses verify.
 */
#include "../../tools/sgpu/job.h"
#include "batch_harness.h"
#include "ops/ops.h"

static struct sgpu_manifest *manifest;

static struct sgpu_batch_segment output(const char *id, uint64_t size)
{
	static const uint8_t zeros[128];
	struct sgpu_batch_segment s = { .id = strdup(id),
					.size = size,
					.has_kt128 = true,
					.location = { .kind = SGPU_LOCATION_INLINE } };

	sgpu_kt128(size == 16 ? public_data : zeros, size, NULL, 0, s.kt128, sizeof(s.kt128));
	return s;
}

/* Seals a job, and opens a response with `count` of these outputs. Returns the code. */
static int opened(struct sgpu_batch_segment first, struct sgpu_batch_segment second, int count)
{
	const struct sgpu_key key = key_of(SGPU_KEY_OCT);
	const struct sgpu_batch_segment outputs[] = { first, second };
	struct sgpu_batch *answer = empty_batch(2);
	struct job job;
	int fd = memfd_create("batch", 0), rc = job_create(manifest, &job, &error);

	for (int i = 0; i < 2 && !rc; i++) { /* secret and public */
		job.arrays[i] = (struct job_array){ calloc(1, 16), 16 };
	}
	rc = rc ? rc : job_seal(&job, &key, NULL, fd, &error);
	if (rc) {
		abort();
	}
	close(fd);

	answer->response = true;
	free(answer->manifest_text);
	answer->manifest_text = NULL;
	memcpy(answer->id, job.batch->id, sizeof(answer->id));
	memcpy(answer->identity, job.identity, sizeof(job.identity));
	memcpy(answer->segments, outputs, sizeof(outputs));
	answer->segment_count = count;
	answer->timings = json_object();
	memcpy(batch_key, job.batch_key, sizeof(batch_key));
	sign(answer, &key);
	fd = archive(answer);
	rc = fd < 0 ? error.code : job_open(&job, fd, &error);
	CHECK(rc != SGPU_OK || memcmp(job.arrays[2].data, public_data, 16) == 0);
	close(fd);
	answer->segment_count = 2; /* what is not sent is freed, too */
	sgpu_batch_free(&answer);
	job_free(&job);
	return rc;
}

UNIT_TEST(a_response_has_the_outputs_of_the_batch)
{
	struct sgpu_batch_segment elsewhere = output("sum", 16);

	CHECK(opened(output("sum", 16), output("more", 16), 1) == SGPU_OK);
	/* Others, which have no place in memory; fewer; more. */
	CHECK(opened(output("tum", 16), output("more", 16), 1) == SGPU_EAUTH);
	CHECK(strstr(error.text, "other outputs") != NULL);
	CHECK(opened(output("public", 16), output("more", 16), 1) == SGPU_EAUTH);
	CHECK(opened(output("sum", 16), output("more", 16), 2) == SGPU_EAUTH);
	CHECK(opened(output("sum", 16), output("more", 16), 0) == SGPU_EAUTH);
	/* Of another size, with which the frames of sgpu-pipe(5) would come apart. */
	CHECK(opened(output("sum", 32), output("more", 16), 1) == SGPU_EAUTH);
	CHECK(opened(output("sum", 8), output("more", 16), 1) == SGPU_EAUTH);
	/* Without a payload. */
	elsewhere.location.kind = SGPU_LOCATION_REGION;
	memset(elsewhere.location.region, 'a', SGPU_REGION_ID_TEXT);
	CHECK(opened(elsewhere, output("more", 16), 1) == SGPU_EAUTH);
}

int main(void)
{
	struct sgpu_diagnostics diagnostics = { 0 };

	if (sgpu_ops_load_manifest(manifest_source, strlen(manifest_source), "m", 0, &manifest,
				   &diagnostics, &error)) {
		abort();
	}
	UNIT_RUN(a_response_has_the_outputs_of_the_batch);
	sgpu_manifest_free(&manifest);
	return unit_done();
}
