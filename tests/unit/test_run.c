/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs, from memory file to memory file, on the device that $SGPU_TEST_DEVICE names: results, sizes
 * at the edges of chunks and pieces, what is refused, what fails alone, deadlines and cancellation.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "run/private.h"

#include "run_harness.h"

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
	static const uint64_t sizes[] = { 1,	   15,
					  16383,   16384,
					  16385,   (1 << 20) - 1,
					  1 << 20, (1 << 20) + 1,
					  2 << 20, (5 << 20) + 12345 };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
		check_size(sizes[i]);
	}
}

/* scan is read, and written anew. */
static char *in_out_text(uint64_t n)
{
	char *text = NULL;

	if (asprintf(&text,
		     "{\"version\":1,\"manifest_id\":\"io\",\"segments\":["
		     "{\"segment_id\":\"scan\",\"data_location_client\":\"s\",\"sensitivity_"
		     "level\":\"HIGH\",\"direction\":\"INPUT_OUTPUT\",\"data_type_info\":"
		     "{\"dtype\":\"u8\",\"shape\":[%llu]}},"
		     "{\"segment_id\":\"bias\",\"data_location_client\":\"b\",\"sensitivity_"
		     "level\":\"LOW\",\"direction\":\"INPUT\",\"data_type_info\":"
		     "{\"dtype\":\"u8\",\"shape\":[%llu]}},"
		     "{\"segment_id\":\"bias_copy\",\"data_location_client\":\"c\","
		     "\"sensitivity_level\":\"LOW\",\"direction\":\"OUTPUT\"}],\"operations\":["
		     "{\"gpu_operation_id\":\"FIRST\",\"kernel\":\"copy\",\"arguments\":"
		     "{\"input\":\"scan\",\"output\":\"scan\"}},"
		     "{\"gpu_operation_id\":\"SECOND\",\"kernel\":\"copy\",\"arguments\":"
		     "{\"input\":\"bias\",\"output\":\"bias_copy\"}}]}",
		     (unsigned long long)n, (unsigned long long)n) < 0) {
		abort();
	}
	return text;
}

UNIT_TEST(a_result_has_a_key_of_its_own_though_its_segment_is_an_input_too)
{
	static const uint64_t sizes[] = { 1000, 3 << 20 };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
		struct answer answer;
		struct job job;
		int out;

		make_job(&job, sizes[i]);
		remake_job(&job, in_out_text(sizes[i]));
		CHECK(run_job(&job, &owner, &out) == SGPU_OK);
		CHECK(read_answer(out, job.key, &answer));
		CHECK(answer.size[0] == sizes[i] && answer.data[0] &&
		      memcmp(answer.data[0], job.scan, sizes[i]) == 0);
		CHECK(answer.batch &&
		      memcmp(answer.batch->segments[0].header, job.batch->segments[0].header,
			     SGPU_SEALED_HEADER) != 0);
		free_answer(&answer);
		close(out);
		free_job(&job);
	}
}

static uint64_t sum(const uint64_t bytes[SGPU_PATHS])
{
	return bytes[SGPU_PATH_REGISTERED] + bytes[SGPU_PATH_PINNED] + bytes[SGPU_PATH_PAGEABLE];
}

UNIT_TEST(spans_totals_and_progress_tell_what_was_done)
{
	struct sgpu_run_progress progress;
	struct sgpu_run_result result;
	const struct sgpu_run_total *totals = result.totals;
	const struct sgpu_span *spans;
	struct sgpu_run *run = NULL;
	struct job job;
	size_t kernels = 0;
	int in, out = memfd_create("response", MFD_CLOEXEC);
	const bool copies = !sgpu_device_reaches(device, &kernels, 20 * SGPU_CHUNK, true);

	make_job(&job, 3 << 20);
	in = sign_and_write(&job);
	CHECK(run_with(&owner, in, out, 0, &run) == SGPU_OK);
	sgpu_run_get_progress(run, &progress);
	CHECK(progress.operations_done == 3 && progress.operations_failed == 0 &&
	      progress.operations == 3);
	CHECK(progress.bytes_in == job.size + job.sealed_size &&
	      progress.bytes_out == progress.bytes_in);
	result = *sgpu_run_get_result(run);
	CHECK(totals[SGPU_SPAN_KERNEL].count == 3);
	CHECK(totals[SGPU_SPAN_OPEN].count > 1 && totals[SGPU_SPAN_SEAL].count > 1);
	CHECK(totals[SGPU_SPAN_OPEN].bytes == job.sealed_size - SGPU_SEALED_HEADER);
	/* What kernels reach is opened where it lies, and sealed to where it goes. */
	CHECK(totals[SGPU_SPAN_COPY_IN].bytes ==
	      (copies ? totals[SGPU_SPAN_OPEN].bytes : 0) + job.size);
	CHECK(totals[SGPU_SPAN_SEAL].bytes == job.sealed_size - SGPU_SEALED_HEADER);
	CHECK(totals[SGPU_SPAN_COPY_OUT].bytes ==
	      (copies ? totals[SGPU_SPAN_SEAL].bytes : 0) + job.size);
	CHECK(sum(result.paths.in) == job.sealed_size - SGPU_SEALED_HEADER + job.size);
	CHECK(sum(result.paths.out) == job.sealed_size - SGPU_SEALED_HEADER + job.size);
	CHECK(result.response_size == progress.bytes_out);
	spans = result.spans;
	for (size_t i = 0; i < result.span_count; i++) {
		CHECK(spans[i].end_ns >= spans[i].begin_ns &&
		      (i == 0 || spans[i].begin_ns >= spans[i - 1].begin_ns));
		kernels += spans[i].kind == SGPU_SPAN_KERNEL;
	}
	CHECK(kernels == 3);
	CHECK(wait_run(run, &error) == SGPU_OK); /* again */
	free_run(&run);
	CHECK(run == NULL);
	free_job(&job);
	close(in);
	close(out);
}

static int fails_once = -1; /* the descriptor whose next write fails */

ssize_t write(int fd, const void *data, size_t size)
{
	if (fd != fails_once) {
		return syscall(SYS_write, fd, data, size);
	}
	fails_once = -1;
	errno = EIO;
	return -1;
}

/* In a file that cannot be read results have no places: all of them wait in memory, and the head is
 * still to be written when the first comes. */
UNIT_TEST(a_response_without_places_is_written_and_its_size_told)
{
	const int file = memfd_create("response", MFD_CLOEXEC);
	struct sgpu_run_progress progress;
	struct sgpu_run *run = NULL;
	struct answer answer;
	struct job job;
	char path[32];
	int in, out;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	out = open(path, O_WRONLY | O_CLOEXEC);
	make_job(&job, (5 << 20) + 12345);
	in = sign_and_write(&job);
	fails_once = out;
	CHECK(run_with(&owner, in, out, 0, NULL) == SGPU_ESYSTEM && is_empty(out));
	CHECK(lseek(in, 0, SEEK_SET) == 0 && run_with(&owner, in, out, 0, &run) == SGPU_OK);
	sgpu_run_get_progress(run, &progress);
	CHECK(sgpu_run_get_result(run)->response_size == progress.bytes_out);
	CHECK(read_answer(file, job.key, &answer) && answer.size[0] == job.size &&
	      memcmp(answer.data[0], job.scan, job.size) == 0);
	free_answer(&answer);
	free_run(&run);
	free_job(&job);
	close(in);
	close(out);
	close(file);
}

/* ---- results that go to the response's file at once ---- */
static void check_move(uint64_t from_a, uint64_t to_a, uint64_t from_b, uint64_t to_b)
{
	enum { SIZE = 3000000, FILE_SIZE = 7000000 };
	const struct sgpu_moved list[] = { { from_a, to_a, SIZE }, { from_b, to_b, SIZE } };
	uint8_t *before = malloc(FILE_SIZE), *after = calloc(1, FILE_SIZE);
	int fd = memfd_create("moved", MFD_CLOEXEC);
	size_t got = 0;

	for (size_t i = 0; i < FILE_SIZE; i++) {
		before[i] = (uint8_t)(i * 31 + i / 4099);
	}
	CHECK(sgpu_pwrite(fd, "moved", before, FILE_SIZE, 0, &error) == SGPU_OK);
	CHECK(sgpu_place_move(fd, "moved", list, 2, &error) == SGPU_OK);
	CHECK(sgpu_pread(fd, "moved", after, FILE_SIZE, 0, &got, &error) == SGPU_OK);
	CHECK(!memcmp(after + to_a, before + from_a, SIZE) &&
	      !memcmp(after + to_b, before + from_b, SIZE));
	free(before);
	free(after);
	close(fd);
}

UNIT_TEST(payloads_are_moved_to_where_they_belong)
{
	check_move(0, 1024, 3000512, 3001536); /* the last one first, or it is overwritten */
	check_move(1024, 512, 3001536, 3001024);
	check_move(512, 0, 3001024, 3900000);
	check_move(0, 700000, 3900000, 3700000);
	check_move(512, 512, 3900000, 3000512);
}

/* A shell opens what it redirects to for writing alone: there results cannot be moved once they are
 * written. */
UNIT_TEST(a_response_is_right_in_a_file_that_can_only_be_written)
{
	for (int bad = 0; bad < 2; bad++) {
		struct answer answer;
		struct job job;
		char path[32];
		int in, file = memfd_create("response", MFD_CLOEXEC), out;

		make_job(&job, (2 << 20) + 7);
		job.sealed[100] ^= bad == 1;
		in = sign_and_write(&job);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
		out = open(path, O_WRONLY | O_CLOEXEC);
		REQUIRE(out >= 0);
		CHECK(run_with(&owner, in, out, 0, NULL) == (bad ? SGPU_ESEGMENTS : SGPU_OK));
		REQUIRE(read_answer(file, job.key, &answer));
		CHECK(bad == 1 || !memcmp(answer.data[0], job.scan, job.size));
		CHECK(!memcmp(answer.data[1], job.bias, job.size));
		free_answer(&answer);
		free_job(&job);
		close(in);
		close(out);
		close(file);
	}
}

/* It is in the way, and longer. */
UNIT_TEST(a_response_replaces_what_stood_in_its_file)
{
	static const uint8_t noise[12 << 20] = { 1, 2, 3 };
	struct answer answer;
	struct job job;
	int in, out = memfd_create("response", MFD_CLOEXEC);

	make_job(&job, 2 << 20);
	in = sign_and_write(&job);
	CHECK(sgpu_pwrite(out, "response", noise, sizeof(noise), 0, &error) == SGPU_OK);
	CHECK(run_with(&owner, in, out, 0, NULL) == SGPU_OK);
	lseek(out, 0, SEEK_SET);
	REQUIRE(read_answer(out, job.key, &answer)); /* to its end */
	CHECK(!memcmp(answer.data[0], job.scan, job.size) &&
	      !memcmp(answer.data[1], job.bias, job.size));
	free_answer(&answer);
	free_job(&job);
	close(in);
	close(out);
}

/* Of what results have written there nothing stays: in the second case the first of them fits. */
UNIT_TEST(a_file_that_cannot_be_written_ends_the_run_and_stays_empty)
{
	for (int fits = 0; fits < 2; fits++) {
		struct job job;
		int in, out = memfd_create("response", MFD_CLOEXEC | MFD_ALLOW_SEALING);

		make_job(&job, 2 << 20);
		in = sign_and_write(&job);
		REQUIRE(ftruncate(out, fits * (3 << 20)) == 0 &&
			fcntl(out, F_ADD_SEALS, F_SEAL_GROW) == 0);
		CHECK(run_with(&owner, in, out, 0, NULL) == SGPU_ESYSTEM);
		CHECK(strstr(error.text, "cannot write 'response'") != NULL);
		CHECK(is_empty(out));
		free_job(&job);
		close(in);
		close(out);
	}
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
	job.batch->packed = true;
	write_batch(&job, in);
	lseek(in, 0, SEEK_SET);
	CHECK(run_with(&owner, in, out, 0, NULL) == SGPU_EPOLICY);
	CHECK(strstr(error.text, "packed, but not sealed") && strstr(error.hint, "sgpu-seal seal"));
	CHECK(is_empty(out));
	free_job(&job);
	close(in);
	close(out);
}

static char *without_high(char *manifest)
{
	for (size_t i = 0; manifest[i]; i++) {
		if (strncmp(manifest + i, "HIGH", 4) == 0) {
			memcpy(manifest + i, "LOW", 3);
			memmove(manifest + i + 3, manifest + i + 4, strlen(manifest + i + 3));
		}
	}
	return manifest;
}

/* Whoever sent it would learn whether the file has that digest. */
UNIT_TEST(a_payload_in_a_file_is_refused_in_a_batch_without_a_mac)
{
	int in = memfd_create("batch", MFD_CLOEXEC), out = memfd_create("response", MFD_CLOEXEC);
	struct job job;

	make_job(&job, 100);
	remake_job(&job, without_high(manifest_text(100)));
	job.batch->segments[1].location =
		(struct sgpu_location){ .kind = SGPU_LOCATION_FILE, .file = strdup("/dev/null") };
	json_decref(job.batch->recipients);
	job.batch->recipients = NULL;
	close(stage_scan(&job, 0)); /* so that files are fetched at all */
	write_batch(&job, in);
	lseek(in, 0, SEEK_SET);
	CHECK(run_with(&owner, in, out, 0, NULL) == SGPU_EPOLICY);
	CHECK(strstr(error.text, "segment 'scan' is in a file, and the batch has no MAC"));
	free_job(&job);
	close(in);
	close(out);
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
		CHECK(says(&answer, 0, SGPU_EAUTH,
			   "operation 'SECOND' was not run: segment 'scan' failed: "));
		CHECK(says(&answer, 1, SGPU_OK, NULL) &&
		      !memcmp(answer.data[1], job.bias, job.size));
		free_answer(&answer);
		free_job(&job);
		close(out);
	}
}

UNIT_TEST(a_digest_is_compared_to_its_last_byte)
{
	static const uint64_t sizes[] = { 5000, 3 << 20 };
	struct answer answer;
	struct job job;
	int out;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
		make_job(&job, sizes[i]);
		job.batch->segments[1].kt128[SGPU_KT128_SIZE - 1] ^= 1;
		CHECK(run_job(&job, &owner, &out) == SGPU_ESEGMENTS);
		REQUIRE(read_answer(out, job.key, &answer));
		CHECK(says(&answer, 0, SGPU_OK, NULL) &&
		      says(&answer, 1, SGPU_EAUTH, "its kt128 is not the one"));
		free_answer(&answer);
		free_job(&job);
		close(out);
	}
	make_job(&job, 5000);
	job.batch->manifest_sha256[SGPU_SHA256_SIZE - 1] ^= 1;
	check_refused(&job, &owner, SGPU_EAUTH, "the manifest is not the one");
}

UNIT_TEST(payloads_in_files_are_fetched_and_missing_ones_fail_alone)
{
	char *path = NULL;
	int fd = new_file(&path);

	for (int missing = 0; missing < 2; missing++) {
		struct answer answer;
		struct job job;
		int out, rc;

		make_job(&job, 40000);
		if (sgpu_pwrite(fd, path, job.sealed, job.sealed_size, 100, &error)) {
			abort();
		}
		job.batch->segments[0].location = (struct sgpu_location){
			.kind = SGPU_LOCATION_FILE, .file = strdup(path), .offset = 100
		};
		if (missing) {
			unlink(path);
		}
		rc = run_job(&job, &owner, &out);
		CHECK(rc == (missing ? SGPU_ESEGMENTS : SGPU_OK));
		REQUIRE(read_answer(out, job.key, &answer));
		if (missing) {
			CHECK(says(&answer, 0, SGPU_EDEPENDENCY,
				   "segment 'scan' failed: cannot open"));
		} else {
			CHECK(says(&answer, 0, SGPU_OK, NULL) &&
			      !memcmp(answer.data[0], job.scan, job.size));
		}
		CHECK(says(&answer, 1, SGPU_OK, NULL));
		free_answer(&answer);
		free_job(&job);
		close(out);
	}
	close(fd);
	free(path);
}

static void without_files(struct sgpu_submission *submission)
{
	submission->options.files = NULL;
}

UNIT_TEST(a_payload_in_a_file_is_refused_where_no_folder_is_open)
{
	int in, out = memfd_create("response", MFD_CLOEXEC);
	struct job job;

	make_job(&job, 100);
	close(stage_scan(&job, 0));
	in = sign_and_write(&job);
	prepare_submission = without_files;
	CHECK(run_with(&owner, in, out, 0, NULL) == SGPU_EPOLICY);
	prepare_submission = NULL;
	CHECK(strstr(error.text, "segment 'scan' is in a file") &&
	      strstr(error.hint, "sgpu-stage load"));
	CHECK(is_empty(out));
	free_job(&job);
	close(in);
	close(out);
}

/* ---- time and signals ---- */
static void empty_pipe(int end)
{
	int left;
	char byte;

	while (ioctl(end, FIONREAD, &left) == 0 && left > 0 && read(end, &byte, 1) == 1) {
	}
}

UNIT_TEST(a_silent_sender_does_not_hold_the_run_past_its_deadline)
{
	uint64_t after = 200000000;
	struct answer answer;
	struct job job;
	int in, rc, out = memfd_create("response", MFD_CLOEXEC), ends[2];
	char head[4096 + 8000];

	make_job(&job, 40000);
	in = sign_and_write(&job);
	REQUIRE(pipe2(ends, O_CLOEXEC) == 0 &&
		read(in, head, sizeof(head)) == (ssize_t)sizeof(head));
	do {
		REQUIRE(write(ends[1], head, sizeof(head)) == (ssize_t)sizeof(head));
		rc = run_with(&owner, ends[0], out, sgpu_now_ns() + after, NULL);
		empty_pipe(ends[0]);
	} while (was_too_soon(rc, &after));
	CHECK(rc == SGPU_ESEGMENTS);
	lseek(out, 0, SEEK_SET);
	REQUIRE(read_answer(out, job.key, &answer));
	CHECK(says(&answer, 0, SGPU_ETIMEOUT, "deadline") &&
	      says(&answer, 1, SGPU_ETIMEOUT, "deadline"));
	free_answer(&answer);
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

static pthread_t canceller;

static void cancel_run(struct sgpu_run *run)
{
	if (pthread_create(&canceller, NULL, cancel_later, run)) {
		abort();
	}
}

UNIT_TEST(a_cancelled_run_ends_without_a_response)
{
	int out = memfd_create("response", MFD_CLOEXEC), ends[2];
	struct sgpu_run *run = NULL;

	REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
	submitted = cancel_run;
	CHECK(run_with(&owner, ends[0], out, 0, &run) == SGPU_ECANCELED);
	submitted = NULL;
	pthread_join(canceller, NULL);
	free_run(&run);
	CHECK(is_empty(out));
	close(out);
	close(ends[0]);
	close(ends[1]);
	check_size(100); /* the device works again */
}

/* Reads a response larger than the pipe, and takes the lease of the results before its end. */
static struct {
	struct sgpu_lease_pool *pool;
	struct sgpu_lease lease;
	const struct sgpu_run *run;
	const uint8_t *batch_id;
	pthread_t thread;
	int pipe[2], rc;
} reader;

static void leave_results(struct sgpu_submission *submission)
{
	submission->options.leases = reader.pool;
	submission->options.lease_results = true;
}

static void *read_response(void *argument)
{
	char bytes[512];

	if (read(reader.pipe[0], bytes, 1) == 1) {
		/* Who has had the pool's lock after the run sees what it has written. */
		(void)!sgpu_lease_take(reader.pool, "", reader.batch_id, true, &reader.lease, NULL);
		reader.rc = sgpu_lease_take(reader.pool, reader.run->leases.results.id,
					    reader.batch_id, true, &reader.lease, NULL);
	}
	while (read(reader.pipe[0], bytes, sizeof(bytes)) > 0) {
	}
	return argument;
}

static void start_reader(struct sgpu_run *run)
{
	reader.run = run;
	if (pthread_create(&reader.thread, NULL, read_response, NULL)) {
		abort();
	}
}

UNIT_TEST(whoever_has_taken_the_results_keeps_them_when_the_run_ends)
{
	const struct sgpu_lease_pool_config config = { .size = 1 << 20 };
	struct sgpu_lease again;
	struct job job;
	int in;

	reader.rc = SGPU_ESYSTEM;
	REQUIRE(sgpu_lease_pool_create(&config, &reader.pool, &error) == SGPU_OK);
	REQUIRE(pipe2(reader.pipe, O_CLOEXEC) == 0);
	CHECK(fcntl(reader.pipe[1], F_SETPIPE_SZ, 4096) == 4096);
	make_job(&job, 20000);
	in = sign_and_write(&job);
	reader.batch_id = job.batch->id;
	prepare_submission = leave_results;
	submitted = start_reader;
	CHECK(run_with(&owner, in, reader.pipe[1], 0, NULL) == SGPU_OK);
	prepare_submission = NULL;
	submitted = NULL;
	close(reader.pipe[1]);
	pthread_join(reader.thread, NULL);
	CHECK(reader.rc == SGPU_OK);
	sgpu_lease_offer(reader.pool, reader.lease.id);
	CHECK(sgpu_lease_take(reader.pool, reader.lease.id, job.batch->id, true, &again, &error) ==
	      SGPU_OK);
	free_job(&job);
	close(in);
	close(reader.pipe[0]);
	sgpu_lease_pool_free(&reader.pool);
}

static void all_tests(void)
{
	UNIT_RUN(sizes_at_the_edges_of_chunks_and_pieces_come_back);
	UNIT_RUN(a_result_has_a_key_of_its_own_though_its_segment_is_an_input_too);
	UNIT_RUN(spans_totals_and_progress_tell_what_was_done);
	UNIT_RUN(a_response_without_places_is_written_and_its_size_told);
	UNIT_RUN(payloads_are_moved_to_where_they_belong);
	UNIT_RUN(a_response_is_right_in_a_file_that_can_only_be_written);
	UNIT_RUN(a_response_replaces_what_stood_in_its_file);
	UNIT_RUN(a_file_that_cannot_be_written_ends_the_run_and_stays_empty);
	UNIT_RUN(without_its_key_a_batch_is_refused);
	UNIT_RUN(a_high_input_that_is_not_sealed_is_refused);
	UNIT_RUN(a_payload_in_a_file_is_refused_in_a_batch_without_a_mac);
	UNIT_RUN(a_changed_high_payload_fails_what_depends_on_it);
	UNIT_RUN(a_digest_is_compared_to_its_last_byte);
	UNIT_RUN(payloads_in_files_are_fetched_and_missing_ones_fail_alone);
	UNIT_RUN(a_payload_in_a_file_is_refused_where_no_folder_is_open);
	UNIT_RUN(a_silent_sender_does_not_hold_the_run_past_its_deadline);
	UNIT_RUN(a_cancelled_run_ends_without_a_response);
	UNIT_RUN(whoever_has_taken_the_results_keeps_them_when_the_run_ends);
}

int main(void)
{
	open_device(2);
	if (sgpu_key_generate(SGPU_KEY_OCT, &owner, &error) ||
	    sgpu_key_generate(SGPU_KEY_OCT, &stranger, &error)) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	run_on_all(NULL, all_tests, NULL);
	sgpu_device_close(&device);
	return unit_done();
}
