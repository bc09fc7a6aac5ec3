/* SPDX-License-Identifier: Apache-2.0
 *
 * How payloads get to a device that copies beside the rest, and back: pieces, the transfer paths
 * and its bounds, and what a hostile owner of a file may do meanwhile. On the device that
 * $SGPU_TEST_DEVICE names, or on one that is made to look like a GPU. Its kernels are those of
 * test_cuda_aead: racecheck has nothing to find.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "fake_gpu.h"

static bool faked;

/* ---- jobs ---- */
static struct sgpu_run_paths paths;
static struct sgpu_run_total totals[SGPU_SPAN_KINDS];
static unsigned cores;
static uint64_t pinned_max;

static void prepare(struct sgpu_runner_config *config)
{
	config->jobs = cores;
	config->pinned_max = pinned_max;
}

/* ---- a batch through a pipe, so that which path its payloads take does not depend on its file
 * ---- */
static struct feeder {
	pthread_t thread;
	int from, to;
} feeder;

static void *feed(void *argument)
{
	off_t at = 0;

	(void)argument;
	while (sendfile(feeder.to, feeder.from, &at, 1 << 20) > 0) {
		;
	}
	close(feeder.to);
	close(feeder.from);
	return NULL;
}

/* Returns the end to read from. */
static int start_feeding(int file)
{
	int ends[2];

	signal(SIGPIPE, SIG_IGN);
	if (pipe2(ends, O_CLOEXEC) != 0) {
		abort();
	}
	feeder.from = file;
	feeder.to = ends[1];
	if (pthread_create(&feeder.thread, NULL, feed, NULL) != 0) {
		abort();
	}
	return ends[0];
}

/* Runs it, and keeps which paths were taken. */
static int run_noted(struct job *job, struct answer *answer)
{
	struct sgpu_run *run = NULL;
	struct sgpu_run_result result;
	int in = start_feeding(sign_and_write(job)), out = memfd_create("response", MFD_CLOEXEC),
	    rc;

	memset(answer, 0, sizeof(*answer));
	rc = run_with(&owner, in, out, 0, &run);
	result = *sgpu_run_get_result(run);
	paths = result.paths;
	memcpy(totals, result.totals, sizeof(totals));
	free_run(&run);
	lseek(out, 0, SEEK_SET);
	if ((rc == SGPU_OK || rc == SGPU_ESEGMENTS) && !read_answer(out, job->key, answer)) {
		rc = SGPU_EINVALID;
	}
	if (rc != SGPU_OK) {
		printf("# %d %s\n", rc, error.text);
	}
	close(in);
	close(out);
	pthread_join(feeder.thread, NULL);
	return rc;
}

static void check_answer(const struct answer *answer, const struct job *job)
{
	const uint64_t chunks = job->sealed_size - SGPU_SEALED_HEADER, copied = chunks + job->size;
	/* What kernels reach is opened from where it lies, and sealed to where it goes. */
	const uint64_t uncopied = faked ? copied : job->size;

	CHECK(says(answer, 0, SGPU_OK, NULL) && says(answer, 1, SGPU_OK, NULL));
	CHECK(answer->size[0] == job->size && !memcmp(answer->data[0], job->scan, job->size));
	CHECK(answer->size[1] == job->size && !memcmp(answer->data[1], job->bias, job->size));
	CHECK(totals[SGPU_SPAN_OPEN].bytes == chunks && totals[SGPU_SPAN_SEAL].bytes == chunks);
	CHECK(totals[SGPU_SPAN_COPY_IN].bytes == copied ||
	      totals[SGPU_SPAN_COPY_IN].bytes == uncopied);
	CHECK(totals[SGPU_SPAN_COPY_OUT].bytes == copied ||
	      totals[SGPU_SPAN_COPY_OUT].bytes == uncopied);
	CHECK(!faked || fake_is_clean());
}

static void set_limits(unsigned with_cores, uint64_t with_pinned_max)
{
	cores = with_cores;
	pinned_max = with_pinned_max;
	atomic_store(&fake.lent_most, 0);
}

static void run_whole(uint64_t size)
{
	struct answer answer;
	struct job job;

	make_job(&job, size);
	CHECK(run_noted(&job, &answer) == SGPU_OK);
	REQUIRE(answer.batch != NULL);
	check_answer(&answer, &job);
	free_answer(&answer);
	free_job(&job);
}

/* A checker finds more with several cores than with one, and takes long. */
static unsigned fewest_cores(void)
{
	return getenv("SGPU_TEST_SMALL") ? 3 : 1;
}

UNIT_TEST(payloads_of_any_size_come_and_go_through_pinned_memory)
{
	static const uint64_t sizes[] = { 1,
					  16384,
					  (1 << 20) - 1,
					  1 << 20,
					  (1 << 20) + 1,
					  (4 << 20) + 16384,
					  12 << 20,
					  (21 << 20) + 4711 };
	const size_t count = SGPU_ARRAY_LENGTH(sizes) - (is_short() ? 2 : 0);

	for (unsigned many = fewest_cores(); many < 4; many += 2) {
		set_limits(many, SGPU_RUNNER_PINNED_MAX);
		for (size_t i = 0; i < count; i++) {
			uint64_t sealed = 0;

			run_whole(sizes[i]);
			REQUIRE(sgpu_sealed_size(sizes[i], &sealed));
			if (faked) {
				CHECK(paths.in[SGPU_PATH_PINNED] ==
				      sealed - SGPU_SEALED_HEADER + sizes[i]);
				CHECK(paths.out[SGPU_PATH_PINNED] +
					      paths.out[SGPU_PATH_REGISTERED] ==
				      sealed - SGPU_SEALED_HEADER + sizes[i]);
				CHECK(paths.in[SGPU_PATH_PAGEABLE] +
					      paths.out[SGPU_PATH_PAGEABLE] ==
				      0);
			}
		}
	}
}

UNIT_TEST(many_pieces_keep_within_the_pinned_limit)
{
	if (!faked) {
		SKIP("only the fake device tells what it lent");
	}
	set_limits(2, 20 << 20);
	run_whole(is_short() ? 24 << 20 : 50 << 20);
	CHECK(atomic_load(&fake.lent_most) <= (20 << 20) + 3 * ((4 << 20) + (8 << 10)));
}

UNIT_TEST(without_pinned_memory_everything_is_pageable)
{
	if (!faked) {
		SKIP("only the fake device can be without");
	}
	set_limits(2, SGPU_RUNNER_PINNED_MAX);
	for (int way = 0; way < 2; way++) {
		fake.no_host_memory = way == 0;
		fake.pins = way == 0;
		run_whole(9 << 20);
		CHECK(paths.in[SGPU_PATH_PINNED] + paths.out[SGPU_PATH_PINNED] == 0);
		CHECK(paths.in[SGPU_PATH_PAGEABLE] > 18 << 20 &&
		      paths.out[SGPU_PATH_PAGEABLE] > 18 << 20);
	}
	fake.no_host_memory = false;
	fake.pins = true;
}

/* ---- files in memory ---- */
enum { AT = 12345 };
static int staged = -1;

/* The sealed payload, at the end of a file in memory that the batch then names. */
static void stage(struct job *job)
{
	staged = stage_scan(job, AT);
	if (ftruncate(staged, (off_t)(AT + job->sealed_size))) {
		abort();
	}
}

static void cut_short(void)
{
	if (ftruncate(staged, AT + 3 * 4096)) {
		abort();
	}
}

/* Whole chunks are not sealed: a LOW payload comes at the same time. */
static bool is_sealed(uint64_t size)
{
	return size % SGPU_CHUNK != 0;
}

static void cut_after_a_piece(uint64_t size)
{
	if (is_sealed(size)) {
		cut_short();
	}
}

static void unstage(struct job *job, struct answer *answer)
{
	CHECK(!faked || fake_is_clean());
	fake.before_copy_in = NULL;
	free_answer(answer);
	free_job(job);
	close(staged);
	staged = -1;
}

static void check_scan_failed(int rc, struct job *job, struct answer *answer, int code,
			      const char *part)
{
	CHECK(rc == SGPU_ESEGMENTS);
	REQUIRE(answer->batch != NULL);
	CHECK(says(answer, 0, code, part));
	CHECK(says(answer, 1, SGPU_OK, NULL) && !memcmp(answer->data[1], job->bias, job->size));
}

/* The file is spoiled as the first of it goes to the device. When cores had read all of it by then
 * it comes whole, and that is tried again. */
static void expect_scan_spoiled(unsigned many, uint64_t size, void (*spoil)(uint64_t size),
				int code, const char *part)
{
	struct answer answer;
	struct job job;
	int rc;

	for (int tries = 0;; tries++) {
		set_limits(many, SGPU_RUNNER_PINNED_MAX);
		make_job(&job, size);
		stage(&job);
		fake.before_copy_in = spoil;
		rc = run_noted(&job, &answer);
		if (rc != SGPU_OK || tries == 50) {
			break;
		}
		REQUIRE(answer.batch != NULL);
		check_answer(&answer, &job);
		unstage(&job, &answer);
	}
	check_scan_failed(rc, &job, &answer, code, part);
	unstage(&job, &answer);
}

UNIT_TEST(a_file_that_is_cut_short_is_an_error_of_its_segment_and_no_fault)
{
	if (!faked) {
		SKIP("only the fake device can be told when");
	}
	for (unsigned many = 3; many <= 16; many += 13) {
		expect_scan_spoiled(many, 9 << 20, cut_after_a_piece, SGPU_EDEPENDENCY,
				    "ends too early");
	}
}

static void change_file(uint64_t size)
{
	static const char zeros[100000];

	if (is_sealed(size) &&
	    sgpu_pwrite(staged, "staged", zeros, sizeof(zeros), AT + 15000000, &error)) {
		abort();
	}
}

UNIT_TEST(a_file_that_changes_meanwhile_does_not_verify)
{
	if (!faked) {
		SKIP("only the fake device can be told when");
	}
	expect_scan_spoiled(16, 20 << 20, change_file, SGPU_EAUTH, "does not verify");
}

/* ---- stopping ---- */
static _Atomic(struct sgpu_run *) to_stop;
static atomic_int brought;

static void keep_run(struct sgpu_run *run)
{
	atomic_store(&to_stop, run);
}

static void stop_at_scan(uint64_t size)
{
	if (is_sealed(size)) {
		while (!atomic_load(&to_stop)) {
			usleep(100); /* the run has begun before it is known */
		}
		sgpu_run_cancel(atomic_load(&to_stop));
	} else {
		atomic_fetch_add(&brought, 1);
	}
}

UNIT_TEST(a_run_that_was_stopped_begins_no_other_payload)
{
	struct answer answer = { .batch = NULL };
	int in, out = memfd_create("response", MFD_CLOEXEC);
	struct job job;

	if (!faked) {
		SKIP("only the fake device can be told when");
	}
	set_limits(3, SGPU_RUNNER_PINNED_MAX);
	make_job(&job, 9 << 20);
	stage(&job);
	in = sign_and_write(&job);
	atomic_store(&brought, 0);
	atomic_store(&to_stop, NULL);
	submitted = keep_run;
	fake.before_copy_in = stop_at_scan;
	CHECK(run_with(&owner, in, out, 0, NULL) == SGPU_ECANCELED && atomic_load(&brought) == 0);
	submitted = NULL;
	unstage(&job, &answer);
	close(in);
	close(out);
}

/* ---- kernels that hang ---- */
static atomic_bool seen_stopping;

static void *cancel_later(void *run)
{
	struct sgpu_run_progress progress = { 0 };

	while (atomic_load(&fake.hung) == 0) {
		usleep(1000);
	}
	sgpu_run_get_progress(run, &progress);
	CHECK(progress.stopping_ns == 0);
	sgpu_run_cancel(run);
	while (progress.stopping_ns < 100000000) {
		usleep(1000);
		sgpu_run_get_progress(run, &progress);
	}
	atomic_store(&seen_stopping, true); /* which the kernel waits for */
	return NULL;
}

static pthread_t canceller;

static void cancel_run(struct sgpu_run *run)
{
	if (pthread_create(&canceller, NULL, cancel_later, run)) {
		abort();
	}
}

UNIT_TEST(a_kernel_that_hangs_is_given_up_at_the_deadline_and_on_request)
{
	int in, out = memfd_create("response", MFD_CLOEXEC);
	struct sgpu_run_progress progress;
	uint64_t after = 200000000;
	struct sgpu_run *run = NULL;
	struct answer answer;
	struct job job;
	int rc;

	if (!faked) {
		SKIP("only the fake device hangs");
	}
	set_limits(2, SGPU_RUNNER_PINNED_MAX);
	fake.hangs = true;
	make_job(&job, 3 << 20);
	in = sign_and_write(&job);
	do {
		lseek(in, 0, SEEK_SET);
		rc = run_with(&owner, in, out, sgpu_now_ns() + after, NULL);
	} while (was_too_soon(rc, &after));
	CHECK(rc == SGPU_ESEGMENTS);
	lseek(out, 0, SEEK_SET);
	REQUIRE(read_answer(out, job.key, &answer));
	CHECK(says(&answer, 0, SGPU_ETIMEOUT, "deadline") &&
	      says(&answer, 1, SGPU_ETIMEOUT, "deadline"));
	free_answer(&answer);
	CHECK(fake_is_clean());
	atomic_store(&fake.hung, 0);
	atomic_store(&seen_stopping, false);
	fake.lets_go = &seen_stopping;
	CHECK(ftruncate(out, 0) == 0);
	lseek(in, 0, SEEK_SET);
	submitted = cancel_run;
	CHECK(run_with(&owner, in, out, 0, &run) == SGPU_ECANCELED);
	submitted = NULL;
	pthread_join(canceller, NULL);
	sgpu_run_get_progress(run, &progress);
	CHECK(atomic_load(&seen_stopping) && progress.stopping_ns == 0);
	free_run(&run);
	CHECK(fake_is_clean());
	fake.lets_go = NULL;
	fake.hangs = false;
	free_job(&job);
	close(in);
	close(out);
	run_whole(3 << 20);
}

static void all_tests(void)
{
	UNIT_RUN(payloads_of_any_size_come_and_go_through_pinned_memory);
	UNIT_RUN(many_pieces_keep_within_the_pinned_limit);
	UNIT_RUN(without_pinned_memory_everything_is_pageable);
	UNIT_RUN(a_file_that_is_cut_short_is_an_error_of_its_segment_and_no_fault);
	UNIT_RUN(a_file_that_changes_meanwhile_does_not_verify);
	UNIT_RUN(a_run_that_was_stopped_begins_no_other_payload);
	UNIT_RUN(a_kernel_that_hangs_is_given_up_at_the_deadline_and_on_request);
}

int main(void)
{
	open_device(3);
	if (sgpu_key_generate(SGPU_KEY_OCT, &owner, &error)) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	faked = strcmp(device_name(), "cpu") == 0;
	prepare_runner = prepare;
	run_on_both(faked ? make_fake_gpu : NULL, all_tests, faked ? unmake_fake_gpu : NULL);
	sgpu_device_close(&device);
	return unit_done();
}
