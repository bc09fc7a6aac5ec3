/* SPDX-License-Identifier: Apache-2.0
 *
 * A runner keeps parsed manifests. That saves time and changes nothing else: a batch of a manifest
 * that it knows meets the same checks as the first one.
 */
#include "run_harness.h"

#include "run/private.h"

static struct sgpu_runner *runner;

/* One batch on the shared runner, from a file that is closed. */
static int run_file(int in, int *out)
{
	struct sgpu_submission submission;
	struct sgpu_run *run = NULL;
	int rc;

	*out = memfd_create("response", MFD_CLOEXEC);
	lseek(in, 0, SEEK_SET);
	submission = make_submission(&owner, in, *out, 0);
	rc = submit_run(runner, &submission, &run, &error);
	if (rc == SGPU_OK) {
		rc = wait_run(run, &error);
	}
	end_run(&run);
	close(in);
	lseek(*out, 0, SEEK_SET);
	return rc;
}

static bool runs(uint64_t size)
{
	struct answer answer;
	struct job job;
	int out;
	bool good;

	make_job(&job, size);
	good = run_file(sign_and_write(&job), &out) == SGPU_OK &&
	       read_answer(out, job.key, &answer) && says(&answer, 0, SGPU_OK, NULL) &&
	       answer.size[0] == size && memcmp(answer.data[0], job.scan, size) == 0 &&
	       says(&answer, 1, SGPU_OK, NULL) && answer.size[1] == size &&
	       memcmp(answer.data[1], job.bias, size) == 0;
	free_answer(&answer);
	free_job(&job);
	close(out);
	return good;
}

UNIT_TEST(more_manifests_than_are_kept_run_again_and_again)
{
	for (int round = 0; round < 3; round++) {
		for (uint64_t size = 1; size <= 90; size++) {
			CHECK(runs(size * 10));
			CHECK(runs(15)); /* is never forgotten */
		}
	}
}

/* Bytes of a batch file, from malloc. */
static uint8_t *bytes_of(int fd, size_t *size)
{
	uint8_t *data;

	*size = (size_t)lseek(fd, 0, SEEK_END);
	data = malloc(*size);
	if (!data || pread(fd, data, *size, 0) != (ssize_t)*size) {
		abort();
	}
	return data;
}

UNIT_TEST(another_text_under_a_known_hash_is_refused)
{
	struct job job;
	size_t size;
	int out;

	CHECK(runs(500));
	make_job(&job, 500);
	const int whole = sign_and_write(&job);
	uint8_t *data = bytes_of(whole, &size),
		*text = memmem(data, size, job.batch->manifest_text, job.batch->manifest_size);

	REQUIRE(text);
	for (size_t i = 0; i < job.batch->manifest_size; i += 37) {
		const int in = memfd_create("batch", MFD_CLOEXEC);

		text[i] ^= 1;
		CHECK(write(in, data, size) == (ssize_t)size);
		text[i] ^= 1;
		CHECK(run_file(in, &out) == SGPU_EAUTH && is_empty(out));
		close(out);
	}
	close(whole);
	free(data);
	free_job(&job);
	CHECK(runs(500));
}

/* Makes a batch of a known manifest, changes its index, and signs it. */
static int code_of(void (*change)(struct sgpu_batch *batch))
{
	struct job job;
	int out, rc;

	make_job(&job, 500);
	change(job.batch);
	rc = run_file(sign_and_write(&job), &out);
	CHECK(is_empty(out));
	close(out);
	free_job(&job);
	return rc;
}

static void claim_low(struct sgpu_batch *batch)
{
	struct sgpu_batch_segment *s = &batch->segments[0];

	s->masking = SGPU_MASKING_NONE;
	s->sealed = false;
	s->has_kt128 = true;
	s->size = s->sealed_size;
}

static void claim_size(struct sgpu_batch *batch)
{
	batch->segments[2].size++;
}

static void leave_out(struct sgpu_batch *batch)
{
	free(batch->segments[batch->segment_count - 1].id);
	batch->segment_count--;
}

static void rename_output(struct sgpu_batch *batch)
{
	batch->segments[2].id[0] = 'q';
}

static void mask_low_output(struct sgpu_batch *batch)
{
	batch->segments[3].masking = SGPU_MASKING_AES_GCM;
}

static void digest_output(struct sgpu_batch *batch)
{
	batch->segments[3].has_kt128 = true;
}

UNIT_TEST(a_known_manifest_is_held_against_every_index)
{
	CHECK(runs(500));
	CHECK(code_of(mask_low_output) == SGPU_EINVALID);
	CHECK(code_of(digest_output) == SGPU_EINVALID);
	CHECK(code_of(claim_low) == SGPU_EPOLICY);
	CHECK(code_of(claim_size) == SGPU_EINVALID);
	CHECK(code_of(leave_out) == SGPU_EINVALID);
	CHECK(code_of(rename_output) == SGPU_EINVALID);
	CHECK(runs(500));
}

static bool knows(const struct sgpu_batch *batch)
{
	struct sgpu_prepared *job = sgpu_prepared_find(&runner->prepared, batch->manifest_sha256);
	const bool found = job != NULL;

	sgpu_prepared_drop(&job);
	return found;
}

UNIT_TEST(batches_that_are_refused_leave_their_manifest_unknown)
{
	struct sgpu_key other;
	struct job job;
	int out;

	make_job(&job, 777);
	const int in = sign_and_write(&job);
	REQUIRE(sgpu_key_generate(SGPU_KEY_OCT, &other, &error) == SGPU_OK);
	const struct sgpu_key saved = owner;
	owner = other;
	CHECK(run_file(dup(in), &out) == SGPU_EKEY);
	close(out);
	CHECK(!knows(job.batch));
	owner = saved;
	CHECK(run_file(in, &out) == SGPU_OK);
	close(out);
	CHECK(knows(job.batch));
	free_job(&job);
}

/* ---- the table ---- */
static struct sgpu_prepared *job_of(const char *text)
{
	struct sgpu_manifest *manifest = NULL;
	struct sgpu_diagnostics diagnostics = { 0 };
	struct sgpu_prepared *job;

	if (sgpu_ops_load_manifest(text, strlen(text), "test", 0, &manifest, &diagnostics,
				   &error) != SGPU_OK) {
		printf("# %s\n", error.text);
		abort();
	}
	sgpu_diagnostics_clear(&diagnostics);
	job = sgpu_prepared_create(&manifest);
	if (!job ||
	    sgpu_plan_create(job->manifest, 1, &SGPU_PLAN_COSTS, &job->plan, &error) != SGPU_OK) {
		abort();
	}
	return job;
}

UNIT_TEST(the_job_that_was_kept_for_the_longest_time_is_forgotten)
{
	struct sgpu_prepared_table table = { .mutex = PTHREAD_MUTEX_INITIALIZER };
	uint8_t hashes[80][SGPU_SHA256_SIZE];
	struct sgpu_prepared *job;
	int kept = 0;

	for (int i = 0; i < 80; i++) {
		char *text = manifest_text((uint64_t)i + 1);

		job = job_of(text);
		memcpy(hashes[i], job->manifest->sha256, sizeof(hashes[i]));
		sgpu_prepared_keep(&table, job);
		sgpu_prepared_keep(&table, job); /* once is enough */
		sgpu_prepared_drop(&job);
		free(text);
	}
	for (int i = 0; i < 80; i++) {
		job = sgpu_prepared_find(&table, hashes[i]);
		kept += job != NULL;
		CHECK((job != NULL) == (i >= 80 - 64));
		sgpu_prepared_drop(&job);
	}
	CHECK(kept == 64);
	/* One that is used outlives the table. */
	job = sgpu_prepared_find(&table, hashes[79]);
	sgpu_prepared_table_clear(&table);
	CHECK(job && job->manifest->segment_count == 5 && job->plan->stream_count > 0);
	sgpu_prepared_drop(&job);
}

/* Hashes of other manifests begin or end like one that is known. */
UNIT_TEST(a_job_is_known_by_all_of_its_hash)
{
	char *text = manifest_text(100);
	struct sgpu_prepared_table table = { .mutex = PTHREAD_MUTEX_INITIALIZER };
	struct sgpu_prepared *job = job_of(text), *found;
	uint8_t hash[SGPU_SHA256_SIZE];

	sgpu_prepared_keep(&table, job);
	memcpy(hash, job->manifest->sha256, sizeof(hash));
	for (size_t i = 0; i < sizeof(hash); i++) {
		hash[i] ^= 1;
		found = sgpu_prepared_find(&table, hash);
		CHECK(!found);
		sgpu_prepared_drop(&found);
		hash[i] ^= 1;
	}
	found = sgpu_prepared_find(&table, hash);
	CHECK(found);
	sgpu_prepared_drop(&found);
	sgpu_prepared_drop(&job);
	sgpu_prepared_table_clear(&table);
	free(text);
}

static const char text_with_module[] =
	"{\"version\":1,\"manifest_id\":\"t\",\"segments\":["
	"{\"segment_id\":\"code\",\"data_location_client\":\"c\",\"sensitivity_level\":\"LOW\","
	"\"direction\":\"INPUT\"},"
	"{\"segment_id\":\"a\",\"data_location_client\":\"a\",\"sensitivity_level\":\"LOW\","
	"\"direction\":\"INPUT\",\"data_type_info\":{\"dtype\":\"u8\",\"shape\":[8]}},"
	"{\"segment_id\":\"b\",\"data_location_client\":\"b\",\"sensitivity_level\":\"LOW\","
	"\"direction\":\"OUTPUT\",\"data_type_info\":{\"dtype\":\"u8\",\"shape\":[8]}}],"
	"\"operations\":[{\"gpu_operation_id\":\"F\",\"kernel\":\"module:code:f\",\"grid\":[1],"
	"\"block\":[1],"
	"\"arguments\":{\"in\":\"a\",\"output\":\"b\"},\"params\":[\"in\",\"output\"]}]}";

/* The size of a module may be the batch's to say, so what was planned for one batch is not right
 * for the next. */
UNIT_TEST(jobs_that_depend_on_their_batch_are_not_kept)
{
	struct sgpu_prepared_table table = { .mutex = PTHREAD_MUTEX_INITIALIZER };
	struct sgpu_prepared *job = job_of(text_with_module), *found;

	REQUIRE(job->manifest->segments[0].size_of_file);
	sgpu_prepared_keep(&table, job);
	found = sgpu_prepared_find(&table, job->manifest->sha256);
	CHECK(!found);
	sgpu_prepared_drop(&found);
	sgpu_prepared_drop(&job);
	sgpu_prepared_table_clear(&table);
}

int main(void)
{
	open_device(2);
	if (sgpu_key_generate(SGPU_KEY_OCT, &owner, &error) || make_runner(&runner) != SGPU_OK) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	UNIT_RUN(more_manifests_than_are_kept_run_again_and_again);
	UNIT_RUN(another_text_under_a_known_hash_is_refused);
	UNIT_RUN(a_known_manifest_is_held_against_every_index);
	UNIT_RUN(batches_that_are_refused_leave_their_manifest_unknown);
	UNIT_RUN(the_job_that_was_kept_for_the_longest_time_is_forgotten);
	UNIT_RUN(a_job_is_known_by_all_of_its_hash);
	UNIT_RUN(jobs_that_depend_on_their_batch_are_not_kept);
	sgpu_runner_free(&runner);
	sgpu_device_close(&device);
	return unit_done();
}
