/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs on the CPU device, from memory file to memory file: results, sizes at the edges of chunks and pieces, what is
 * refused, what fails alone, deadlines and cancellation.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/enclave.h>
#include <sgpu/io.h>

#include "unit.h"

static struct sgpu_error error;
static struct sgpu_device *device;
static struct sgpu_key owner, stranger;

/* ---- a job: scan (HIGH) and bias (LOW), u8; result = copy of scan (HIGH), bias_copy = copy of bias (LOW) ---- */
struct job {
	struct sgpu_batch *batch;
	uint8_t key[SGPU_KEY_SIZE];
	uint64_t size;
	uint8_t *scan, *bias, *sealed;
	uint64_t sealed_size;
};

static char *manifest_text(uint64_t n)
{
	char *text = NULL;

	if (asprintf(&text,
		     "{\"version\":1,\"manifest_id\":\"t\",\"segments\":["
		     "{\"segment_id\":\"scan\",\"data_location_client\":\"s\",\"sensitivity_level\":\"HIGH\","
		     "\"direction\":\"INPUT\",\"data_type_info\":{\"dtype\":\"u8\",\"shape\":[%llu]}},"
		     "{\"segment_id\":\"bias\",\"data_location_client\":\"b\",\"sensitivity_level\":\"LOW\","
		     "\"direction\":\"INPUT\",\"data_type_info\":{\"dtype\":\"u8\",\"shape\":[%llu]}},"
		     "{\"segment_id\":\"half\",\"sensitivity_level\":\"HIGH\",\"direction\":\"INTERMEDIATE\"},"
		     "{\"segment_id\":\"result\",\"data_location_client\":\"r\",\"sensitivity_level\":\"HIGH\","
		     "\"direction\":\"OUTPUT\",\"data_type_info\":{\"dtype\":\"u8\",\"shape\":[%llu]}},"
		     "{\"segment_id\":\"bias_copy\",\"data_location_client\":\"c\",\"sensitivity_level\":\"LOW\","
		     "\"direction\":\"OUTPUT\",\"data_type_info\":{\"dtype\":\"u8\",\"shape\":[%llu]}}],"
		     "\"operations\":["
		     "{\"gpu_operation_id\":\"FIRST\",\"kernel\":\"copy\",\"arguments\":"
		     "{\"input\":\"scan\",\"output\":\"half\"}},"
		     "{\"gpu_operation_id\":\"SECOND\",\"kernel\":\"copy\",\"arguments\":"
		     "{\"input\":\"half\",\"output\":\"result\"}},"
		     "{\"gpu_operation_id\":\"THIRD\",\"kernel\":\"copy\",\"arguments\":"
		     "{\"input\":\"bias\",\"output\":\"bias_copy\"}}]}",
		     (unsigned long long)n, (unsigned long long)n, (unsigned long long)n, (unsigned long long)n) < 0) {
		abort();
	}
	return text;
}

static void set_manifest(struct sgpu_batch *batch, char *source)
{
	struct sgpu_manifest *manifest = NULL;
	struct sgpu_faults faults = { 0 };

	if (sgpu_ops_load_manifest(source, strlen(source), "test", &manifest, &faults, &error) != SGPU_OK) {
		printf("# %s\n", error.text);
		abort();
	}
	batch->manifest_text = strdup(manifest->canonical);
	batch->manifest_size = manifest->canonical_size;
	memcpy(batch->manifest_sha256, manifest->sha256, sizeof(manifest->sha256));
	sgpu_manifest_free(&manifest);
	sgpu_faults_clear(&faults);
	free(source);
}

static void seal_scan(struct job *job)
{
	uint8_t key[SGPU_KEY_SIZE], context[SGPU_SEGMENT_CONTEXT_MAX];
	size_t context_size = 0;

	if (!sgpu_sealed_size(job->size, &job->sealed_size) || !(job->sealed = malloc(job->sealed_size)) ||
	    sgpu_batch_segment_key(job->batch, job->key, "scan", false, key, context, &context_size, &error) ||
	    sgpu_seal_memory(key, context, context_size, job->scan, job->size, job->sealed, &error)) {
		abort();
	}
}

static void make_job(struct job *job, uint64_t size)
{
	struct sgpu_batch_segment *s;

	memset(job, 0, sizeof(*job));
	job->size = size;
	job->batch = calloc(1, sizeof(*job->batch));
	job->scan = malloc(size + 1);
	job->bias = malloc(size + 1);
	for (uint64_t i = 0; i < size; i++) {
		job->scan[i] = (uint8_t)(i * 7 + i / 251);
		job->bias[i] = (uint8_t)(i * 13 + i / 241);
	}
	set_manifest(job->batch, manifest_text(size));
	if (sgpu_random(job->batch->id, SGPU_BATCH_ID_SIZE, &error) || sgpu_random(job->key, SGPU_KEY_SIZE, &error)) {
		abort();
	}
	seal_scan(job);
	s = job->batch->segments = calloc(4, sizeof(*s));
	job->batch->segment_count = 4;
	s[0] = (struct sgpu_batch_segment){ .id = strdup("scan"), .masking = SGPU_MASKING_AES_GCM, .size = size,
					    .sealed = true, .sealed_size = job->sealed_size,
					    .location = { .kind = SGPU_LOCATION_INLINE } };
	s[1] = (struct sgpu_batch_segment){ .id = strdup("bias"), .size = size, .has_sha256 = true,
					    .location = { .kind = SGPU_LOCATION_INLINE } };
	s[2] = (struct sgpu_batch_segment){ .id = strdup("result"), .masking = SGPU_MASKING_AES_GCM, .size = size };
	s[3] = (struct sgpu_batch_segment){ .id = strdup("bias_copy"), .size = size };
	if (sgpu_sha256(job->bias, size, s[1].sha256, &error) ||
	    sgpu_batch_wrap(job->batch, &owner, job->key, &error)) {
		abort();
	}
}

static void free_job(struct job *job)
{
	sgpu_batch_free(&job->batch);
	free(job->scan);
	free(job->bias);
	free(job->sealed);
}

static void write_batch(const struct job *job, int fd)
{
	const struct sgpu_batch *b = job->batch;
	int rc = sgpu_batch_write_head(fd, "batch", b, &error);

	for (int i = 0; i < 2 && !rc; i++) {
		const uint8_t *data = i ? job->bias : job->sealed;

		if (b->segments[i].location.kind == SGPU_LOCATION_INLINE) {
			rc = sgpu_batch_payload_begin(fd, "batch", b, i, &error);
			rc = rc ? rc : sgpu_write(fd, "batch", data, i ? job->size : job->sealed_size, &error);
			rc = rc ? rc : sgpu_batch_payload_end(fd, "batch", b, i, &error);
		}
	}
	if (rc || sgpu_tar_end(fd, "batch", &error)) {
		printf("# %s\n", error.text);
		abort();
	}
}

static int sign_and_write(struct job *job)
{
	int fd = memfd_create("batch", MFD_CLOEXEC);

	if (fd < 0 || sgpu_batch_sign(job->batch, job->key, &error)) {
		abort();
	}
	write_batch(job, fd);
	lseek(fd, 0, SEEK_SET);
	return fd;
}

/* ---- runs ---- */
static int run_with(const struct sgpu_key *key, int in, int out, uint64_t deadline_ns, struct sgpu_run **kept)
{
	struct sgpu_run_options options = { .keys = key, .key_count = key ? 1 : 0, .deadline_ns = deadline_ns,
					    .spans = true };
	struct sgpu_run *run = NULL;
	int rc = sgpu_run_create(device, &options, &run, &error);

	if (rc == SGPU_OK) {
		rc = sgpu_run_batch(run, in, "batch", out, "response", &error);
	}
	if (kept) {
		*kept = run;
	} else {
		sgpu_run_free(&run);
	}
	return rc;
}

static int run_job(struct job *job, const struct sgpu_key *key, int *out)
{
	int in = sign_and_write(job), rc;

	*out = memfd_create("response", MFD_CLOEXEC);
	rc = run_with(key, in, *out, 0, NULL);
	close(in);
	lseek(*out, 0, SEEK_SET);
	return rc;
}

static bool is_empty(int fd)
{
	return lseek(fd, 0, SEEK_END) == 0;
}

/* The response and its payloads, authenticated; payloads that are absent are NULL. */
struct answer {
	struct sgpu_batch *batch;
	uint8_t *data[2];
	uint64_t size[2];
};

static bool open_payload(struct answer *answer, const uint8_t batch_key[SGPU_KEY_SIZE], int index, uint8_t *payload,
			 uint64_t size)
{
	const struct sgpu_batch_segment *s = &answer->batch->segments[index];
	uint8_t key[SGPU_KEY_SIZE], context[SGPU_SEGMENT_CONTEXT_MAX], digest[SGPU_SHA256_SIZE];
	size_t context_size = 0;

	if (s->masking == SGPU_MASKING_NONE) {
		answer->data[index] = payload;
		answer->size[index] = size;
		return sgpu_sha256(payload, size, digest, &error) == SGPU_OK && !memcmp(digest, s->sha256, sizeof(digest));
	}
	if (!sgpu_sealed_plaintext_size(size, &answer->size[index])) {
		return false;
	}
	answer->data[index] = malloc(answer->size[index] + 1);
	if (sgpu_batch_segment_key(answer->batch, batch_key, s->id, true, key, context, &context_size, &error) ||
	    sgpu_open_memory(key, context, context_size, payload, size, answer->data[index], &error)) {
		return false;
	}
	free(payload);
	return true;
}

static bool read_answer(int fd, const uint8_t batch_key[SGPU_KEY_SIZE], struct answer *answer)
{
	struct sgpu_tar_reader *tar = NULL;
	int index = 0;
	bool good;

	memset(answer, 0, sizeof(*answer));
	good = sgpu_tar_open(fd, "response", &tar, &error) == SGPU_OK &&
	       sgpu_batch_read_head(tar, true, &answer->batch, &error) == SGPU_OK &&
	       sgpu_batch_verify(answer->batch, batch_key, &error) == SGPU_OK;
	while (good && (good = sgpu_batch_next_payload(tar, answer->batch, &index, &error) == SGPU_OK) && index >= 0) {
		uint64_t size = sgpu_batch_payload_size(answer->batch, index);
		uint8_t *payload = malloc(size + 1);

		good = sgpu_tar_read(tar, payload, size, &error) == SGPU_OK &&
		       open_payload(answer, batch_key, index, payload, size);
	}
	if (!good) {
		printf("# %s\n", error.text);
	}
	sgpu_tar_close(&tar);
	return good;
}

static void free_answer(struct answer *answer)
{
	sgpu_batch_free(&answer->batch);
	free(answer->data[0]);
	free(answer->data[1]);
}

static bool says(const struct answer *answer, int index, int code, const char *part)
{
	const struct sgpu_batch_segment *s = &answer->batch->segments[index];
	bool right = s->status == code && (!part || (s->error_text && strstr(s->error_text, part)));

	if (!right) {
		printf("# %s: %d '%s'\n", s->id, s->status, s->error_text ? s->error_text : "");
	}
	return right;
}

/* ---- what works ---- */
static void check_size(uint64_t size)
{
	struct answer answer;
	struct job job;
	int out;

	make_job(&job, size);
	CHECK(run_job(&job, &owner, &out) == SGPU_OK);
	REQUIRE(read_answer(out, job.key, &answer));
	CHECK(answer.batch->segment_count == 2);
	CHECK(!memcmp(answer.batch->id, job.batch->id, SGPU_BATCH_ID_SIZE));
	CHECK(answer.size[0] == size && !memcmp(answer.data[0], job.scan, size));
	CHECK(answer.size[1] == size && !memcmp(answer.data[1], job.bias, size));
	CHECK(json_is_integer(json_object_get(answer.batch->timings, "kernel")));
	free_answer(&answer);
	free_job(&job);
	close(out);
}

UNIT_TEST(sizes_at_the_edges_of_chunks_and_pieces_come_back)
{
	static const uint64_t sizes[] = { 1, 15, 16383, 16384, 16385, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 2 << 20,
					  (5 << 20) + 12345 };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
		check_size(sizes[i]);
	}
}

UNIT_TEST(spans_totals_and_progress_tell_what_was_done)
{
	struct sgpu_run_total totals[SGPU_SPAN_KINDS];
	struct sgpu_run_progress progress;
	struct sgpu_run_rows rows;
	const struct sgpu_span *spans;
	struct sgpu_run *run = NULL;
	struct job job;
	size_t count = 0, kernels = 0;
	int in, out = memfd_create("response", MFD_CLOEXEC);

	make_job(&job, 3 << 20);
	in = sign_and_write(&job);
	CHECK(run_with(&owner, in, out, 0, &run) == SGPU_OK);
	sgpu_run_get_progress(run, &progress);
	CHECK(progress.operations_done == 3 && progress.operations_failed == 0 && progress.operations == 3);
	CHECK(progress.bytes_in == job.size + job.sealed_size && progress.bytes_out == progress.bytes_in);
	sgpu_run_get_totals(run, totals);
	CHECK(totals[SGPU_SPAN_KERNEL].count == 3 && totals[SGPU_SPAN_OPEN].count == 4);
	CHECK(totals[SGPU_SPAN_SEAL].bytes == job.size);
	sgpu_run_get_rows(run, &rows);
	sgpu_run_get_spans(run, &spans, &count);
	for (size_t i = 0; i < count; i++) {
		CHECK(spans[i].end_ns >= spans[i].begin_ns && (i == 0 || spans[i].begin_ns >= spans[i - 1].begin_ns));
		CHECK(spans[i].stream >= -1 && spans[i].stream < rows.operations + rows.inputs + rows.outputs);
		kernels += spans[i].kind == SGPU_SPAN_KERNEL;
	}
	CHECK(kernels == 3);
	CHECK(sgpu_run_batch(run, in, "batch", out, "response", &error) == SGPU_EUSAGE);
	sgpu_run_free(&run);
	CHECK(run == NULL);
	free_job(&job);
	close(in);
	close(out);
}

/* ---- what is refused: no response ---- */
static void check_refused(struct job *job, const struct sgpu_key *key, int code, const char *part)
{
	int out, rc = run_job(job, key, &out);

	CHECK(rc == code);
	CHECK(strstr(error.text, part) != NULL);
	if (rc != code || !strstr(error.text, part)) {
		printf("# %d '%s'\n", rc, error.text);
	}
	CHECK(is_empty(out));
	close(out);
	free_job(job);
}

UNIT_TEST(without_its_key_a_batch_is_refused)
{
	struct job job;

	make_job(&job, 100);
	check_refused(&job, NULL, SGPU_EKEY, "no key");
	make_job(&job, 100);
	check_refused(&job, &stranger, SGPU_EKEY, "");
}

UNIT_TEST(a_changed_index_is_refused)
{
	struct job job;
	int in, out = memfd_create("response", MFD_CLOEXEC);

	make_job(&job, 100);
	if (sgpu_batch_sign(job.batch, job.key, &error)) {
		abort();
	}
	job.batch->counter++;
	in = memfd_create("batch", MFD_CLOEXEC);
	write_batch(&job, in);
	lseek(in, 0, SEEK_SET);
	CHECK(run_with(&owner, in, out, 0, NULL) == SGPU_EAUTH);
	CHECK(is_empty(out));
	free_job(&job);
	close(in);
	close(out);
}

UNIT_TEST(a_high_input_that_is_not_sealed_is_refused)
{
	struct job job;
	int in = memfd_create("batch", MFD_CLOEXEC), out = memfd_create("response", MFD_CLOEXEC);

	make_job(&job, 100);
	job.batch->segments[0].sealed = false;
	job.batch->segments[0].location = (struct sgpu_location){ .kind = SGPU_LOCATION_FILE,
								  .file = strdup("/nonexistent") };
	json_decref(job.batch->recipients);
	job.batch->recipients = NULL;
	write_batch(&job, in);
	lseek(in, 0, SEEK_SET);
	CHECK(run_with(&owner, in, out, 0, NULL) == SGPU_EPOLICY);
	CHECK(strstr(error.text, "'scan'") && strstr(error.hint, "sgpu-seal seal"));
	CHECK(is_empty(out));
	free_job(&job);
	close(in);
	close(out);
}

UNIT_TEST(an_archive_that_is_cut_short_is_refused_wherever_it_is_cut)
{
	struct job job;
	int in;
	off_t size;

	make_job(&job, 70000);
	in = sign_and_write(&job);
	size = lseek(in, 0, SEEK_END);
	for (off_t cut = 0; cut < size; cut += cut < 4096 ? 512 : 16411) {
		int out = memfd_create("response", MFD_CLOEXEC), part = memfd_create("part", MFD_CLOEXEC);
		char *data = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, in, 0);

		if (data == MAP_FAILED || sgpu_write(part, "part", data, (size_t)cut, &error)) {
			abort();
		}
		munmap(data, (size_t)size);
		lseek(part, 0, SEEK_SET);
		CHECK(run_with(&owner, part, out, 0, NULL) == SGPU_EINVALID);
		CHECK(is_empty(out));
		close(part);
		close(out);
	}
	free_job(&job);
	close(in);
}

/* ---- what fails alone ---- */
UNIT_TEST(a_changed_high_payload_fails_what_depends_on_it)
{
	static const uint64_t at[] = { 3, 30, 56, 56 + 16399, 56 + 2 * 16400 + 5 };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(at); i++) {
		struct answer answer;
		struct job job;
		int out;

		make_job(&job, 3 * 16384);
		job.sealed[at[i]] ^= 1;
		CHECK(run_job(&job, &owner, &out) == SGPU_ESEGMENTS);
		REQUIRE(read_answer(out, job.key, &answer));
		CHECK(says(&answer, 0, SGPU_EDEPENDENCY, "operation 'SECOND' was not run: segment 'scan' failed: "));
		CHECK(says(&answer, 1, SGPU_OK, NULL) && !memcmp(answer.data[1], job.bias, job.size));
		free_answer(&answer);
		free_job(&job);
		close(out);
	}
}

UNIT_TEST(a_changed_low_payload_fails_what_depends_on_it)
{
	struct answer answer;
	struct job job;
	int out;

	make_job(&job, 2 << 20);
	job.bias[1500000] ^= 1;
	CHECK(run_job(&job, &owner, &out) == SGPU_ESEGMENTS);
	REQUIRE(read_answer(out, job.key, &answer));
	CHECK(says(&answer, 0, SGPU_OK, NULL) && !memcmp(answer.data[0], job.scan, job.size));
	CHECK(says(&answer, 1, SGPU_EDEPENDENCY, "operation 'THIRD' was not run: segment 'bias' failed: "));
	CHECK(strstr(answer.batch->segments[1].error_text, "SHA-256") != NULL);
	free_answer(&answer);
	free_job(&job);
	close(out);
}

UNIT_TEST(payloads_in_files_are_fetched_and_missing_ones_fail_alone)
{
	char path[] = "/tmp/sgpu-test-XXXXXX";
	int fd = mkstemp(path);

	for (int missing = 0; missing < 2; missing++) {
		struct answer answer;
		struct job job;
		int out, rc;

		make_job(&job, 40000);
		if (sgpu_pwrite(fd, path, job.sealed, job.sealed_size, 100, &error)) {
			abort();
		}
		job.batch->segments[0].location = (struct sgpu_location){
			.kind = SGPU_LOCATION_FILE, .file = strdup(missing ? "/nonexistent/x" : path), .offset = 100 };
		rc = run_job(&job, &owner, &out);
		CHECK(rc == (missing ? SGPU_ESEGMENTS : SGPU_OK));
		REQUIRE(read_answer(out, job.key, &answer));
		if (missing) {
			CHECK(says(&answer, 0, SGPU_EDEPENDENCY, "segment 'scan' failed: cannot open"));
		} else {
			CHECK(says(&answer, 0, SGPU_OK, NULL) && !memcmp(answer.data[0], job.scan, job.size));
		}
		CHECK(says(&answer, 1, SGPU_OK, NULL));
		free_answer(&answer);
		free_job(&job);
		close(out);
	}
	close(fd);
	unlink(path);
}

/* ---- time and signals ---- */
UNIT_TEST(a_silent_sender_does_not_hold_the_run_past_its_deadline)
{
	struct answer answer;
	struct job job;
	int in, out = memfd_create("response", MFD_CLOEXEC), ends[2];
	char head[4096 + 8000];

	make_job(&job, 40000);
	in = sign_and_write(&job);
	if (pipe2(ends, O_CLOEXEC) || read(in, head, sizeof(head)) != (ssize_t)sizeof(head) ||
	    write(ends[1], head, sizeof(head)) != (ssize_t)sizeof(head)) {
		abort();
	}
	CHECK(run_with(&owner, ends[0], out, sgpu_now_ns() + 200000000, NULL) == SGPU_ESEGMENTS);
	lseek(out, 0, SEEK_SET);
	REQUIRE(read_answer(out, job.key, &answer));
	CHECK(says(&answer, 0, SGPU_ETIMEOUT, "deadline") && says(&answer, 1, SGPU_ETIMEOUT, "deadline"));
	free_answer(&answer);
	CHECK(ftruncate(out, 0) == 0);
	/* Not even the head. */
	CHECK(run_with(&owner, ends[0], out, sgpu_now_ns() + 100000000, NULL) == SGPU_ETIMEOUT);
	CHECK(is_empty(out));
	free_job(&job);
	close(in);
	close(out);
	close(ends[0]);
	close(ends[1]);
}

static void *cancel_later(void *run)
{
	usleep(50000);
	sgpu_run_cancel(run);
	return NULL;
}

UNIT_TEST(a_cancelled_run_ends_without_a_response)
{
	struct sgpu_run_options options = { .keys = &owner, .key_count = 1 };
	struct sgpu_run *run = NULL;
	int out = memfd_create("response", MFD_CLOEXEC), ends[2];
	pthread_t thread;

	REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
	REQUIRE(sgpu_run_create(device, &options, &run, &error) == SGPU_OK);
	REQUIRE(pthread_create(&thread, NULL, cancel_later, run) == 0);
	CHECK(sgpu_run_batch(run, ends[0], "batch", out, "response", &error) == SGPU_ECANCELED);
	pthread_join(thread, NULL);
	sgpu_run_free(&run);
	CHECK(is_empty(out));
	close(out);
	close(ends[0]);
	close(ends[1]);
	check_size(100); /* the device works again */
}

static void *feed(void *argument)
{
	const int *fds = argument;
	char data[3000];
	ssize_t got;

	while ((got = read(fds[0], data, sizeof(data))) > 0) {
		if (write(fds[1], data, (size_t)got) != got) {
			break;
		}
	}
	close(fds[1]);
	return NULL;
}

UNIT_TEST(a_batch_comes_through_a_pipe)
{
	struct answer answer;
	struct job job;
	int in, out = memfd_create("response", MFD_CLOEXEC), ends[2], fds[2];
	pthread_t thread;

	make_job(&job, (3 << 20) + 5);
	in = sign_and_write(&job);
	REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
	fds[0] = in;
	fds[1] = ends[1];
	REQUIRE(pthread_create(&thread, NULL, feed, fds) == 0);
	CHECK(run_with(&owner, ends[0], out, 0, NULL) == SGPU_OK);
	pthread_join(thread, NULL);
	lseek(out, 0, SEEK_SET);
	REQUIRE(read_answer(out, job.key, &answer));
	CHECK(!memcmp(answer.data[0], job.scan, job.size) && !memcmp(answer.data[1], job.bias, job.size));
	free_answer(&answer);
	free_job(&job);
	close(in);
	close(out);
	close(ends[0]);
}

int main(void)
{
	struct sgpu_device_config config = { .jobs = 2 };

	if (sgpu_key_generate(SGPU_KEY_OCT, &owner, &error) || sgpu_key_generate(SGPU_KEY_OCT, &stranger, &error) ||
	    sgpu_device_open("cpu", &config, &device, &error)) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	UNIT_RUN(sizes_at_the_edges_of_chunks_and_pieces_come_back);
	UNIT_RUN(spans_totals_and_progress_tell_what_was_done);
	UNIT_RUN(without_its_key_a_batch_is_refused);
	UNIT_RUN(a_changed_index_is_refused);
	UNIT_RUN(a_high_input_that_is_not_sealed_is_refused);
	UNIT_RUN(an_archive_that_is_cut_short_is_refused_wherever_it_is_cut);
	UNIT_RUN(a_changed_high_payload_fails_what_depends_on_it);
	UNIT_RUN(a_changed_low_payload_fails_what_depends_on_it);
	UNIT_RUN(payloads_in_files_are_fetched_and_missing_ones_fail_alone);
	UNIT_RUN(a_silent_sender_does_not_hold_the_run_past_its_deadline);
	UNIT_RUN(a_cancelled_run_ends_without_a_response);
	UNIT_RUN(a_batch_comes_through_a_pipe);
	sgpu_device_close(&device);
	return unit_done();
}
