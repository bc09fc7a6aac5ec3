/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes on while the pipe of a batch is silent: whatever has arrived is computed with, and an
 * operation that ends meanwhile is noticed. On the device that $SGPU_TEST_DEVICE names.
 */
#include <pthread.h>

#include "fake_gpu.h"
#include "transfer/transfer.h"

/* The operation that is under way takes longer than the run needs to come to the silence. */
enum { WORK_US = 100000, LARGE = 3 << 20 };

struct feeder {
	pthread_t thread;
	int from, to;
	uint64_t pause_at; /* bytes of the batch before the silence */
	bool went_on;	   /* an operation ended during it */
};

static struct sgpu_run *_Atomic run_under_way;

static void note_run(struct sgpu_run *run)
{
	atomic_store(&run_under_way, run);
}

static void send(struct feeder *f, uint64_t most)
{
	uint8_t data[1 << 16];

	for (size_t got = 1; most > 0 && got > 0; most -= got) {
		size_t want = most < sizeof(data) ? (size_t)most : sizeof(data);

		if (sgpu_read(f->from, "batch", data, want, &got, NULL) != SGPU_OK ||
		    sgpu_write(f->to, "pipe", data, got, NULL) != SGPU_OK) {
			break;
		}
	}
}

static void *feed(void *argument)
{
	const uint64_t until = sgpu_now_ns() + UINT64_C(20000000000);
	struct sgpu_run_progress progress = { 0 };
	struct feeder *f = argument;

	send(f, f->pause_at);
	while (progress.operations_done == 0 && sgpu_now_ns() < until) {
		usleep(1000);
		if (atomic_load(&run_under_way)) {
			sgpu_run_get_progress(atomic_load(&run_under_way), &progress);
		}
	}
	f->went_on = progress.operations_done > 0;
	send(f, UINT64_MAX);
	close(f->to);
	return NULL;
}

static atomic_bool is_slow;

static int copy_slowly(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	if (atomic_exchange(&is_slow, false)) {
		usleep(WORK_US);
	}
	return call->op->cpu(call, launch);
}

static sgpu_op_fn always_copy_slowly(const char *name)
{
	(void)name;
	return copy_slowly;
}

/* Runs the job, whose pipe is silent after so many bytes until an operation has ended. */
static void run_silent(struct job *job, uint64_t pause_at, bool slow)
{
	sgpu_op_fn (*op)(const char *) = fake.backend.table.op;
	int in = sign_and_write(job), out = memfd_create("response", MFD_CLOEXEC), ends[2];
	struct feeder feeder = { .from = in, .pause_at = pause_at };
	struct sgpu_run *run = NULL;
	struct answer answer;

	REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
	feeder.to = ends[1];
	atomic_store(&run_under_way, NULL);
	atomic_store(&is_slow, slow);
	fake.backend.table.op = always_copy_slowly;
	submitted = note_run;
	REQUIRE(pthread_create(&feeder.thread, NULL, feed, &feeder) == 0);
	CHECK(run_with(&owner, ends[0], out, 0, &run) == SGPU_OK);
	pthread_join(feeder.thread, NULL); /* it has looked at the run */
	free_run(&run);
	submitted = NULL;
	fake.backend.table.op = op;
	CHECK(feeder.went_on);
	lseek(out, 0, SEEK_SET);
	REQUIRE(read_answer(out, job->key, &answer));
	CHECK(answer.data[0] && memcmp(answer.data[0], job->scan, job->size) == 0);
	CHECK(answer.data[1] && memcmp(answer.data[1], job->bias, job->size) == 0);
	free_answer(&answer);
	close(ends[0]);
	close(out);
	close(in);
}

/* The beginning of a payload in the batch. */
static uint64_t find_payload(struct job *job, const uint8_t *payload)
{
	int in = sign_and_write(job);
	off_t end = lseek(in, 0, SEEK_END);
	uint8_t *all = mmap(NULL, (size_t)end, PROT_READ, MAP_PRIVATE, in, 0);
	const uint8_t *found = all == MAP_FAILED ? NULL : memmem(all, (size_t)end, payload, 64);
	uint64_t at = found ? (uint64_t)(found - all) : 0;

	if (!found) {
		abort();
	}
	munmap(all, (size_t)end);
	close(in);
	return at;
}

UNIT_TEST(a_small_payload_is_computed_with_while_the_next_one_does_not_come)
{
	struct job job;

	make_job(&job, 20000);
	for (int slow = 0; slow < 2; slow++) {
		run_silent(&job, find_payload(&job, job.bias) - SGPU_TAR_BLOCK, slow);
		run_silent(&job, find_payload(&job, job.bias) - SGPU_TAR_BLOCK / 2, slow);
	}
	free_job(&job);
}

/* A job whose LOW payload is in a file, which comes first. */
static int make_staged_job(struct job *job, uint64_t size)
{
	char *path = NULL;
	int fd = new_file(&path);

	make_job(job, size);
	if (sgpu_pwrite(fd, path, job->bias, job->size, 0, &error)) {
		abort();
	}
	job->batch->segments[1].location =
		(struct sgpu_location){ .kind = SGPU_LOCATION_FILE, .file = path };
	return fd;
}

UNIT_TEST(a_small_payload_in_a_file_is_computed_with_while_the_pipe_is_silent)
{
	/* sealed, the second size is no small one any more */
	static const uint64_t sizes[] = { 20000, SGPU_TRANSFER_SMALL };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
		struct job job;
		int fd = make_staged_job(&job, sizes[i]);
		uint64_t at = find_payload(&job, job.sealed);

		run_silent(&job, at - SGPU_TAR_BLOCK, false);
		run_silent(&job, at + sizes[i] + 50, false);
		free_job(&job);
		close(fd);
	}
}

UNIT_TEST(an_operation_ends_while_a_large_payload_is_incomplete)
{
	struct job job;
	int fd = make_staged_job(&job, LARGE);
	uint64_t at = find_payload(&job, job.sealed);

	run_silent(&job, at, true);
	run_silent(&job, at + 100, true);
	run_silent(&job, at + LARGE / 2 + 77, true);
	free_job(&job);
	close(fd);
}

/* ---- the response ---- */
struct reader {
	pthread_t thread;
	int from, to;
	uint64_t begin_ns; /* it reads nothing before */
};

static void *read_late(void *argument)
{
	const struct reader *r = argument;
	uint8_t data[4096];
	size_t got = 0;

	while (sgpu_now_ns() < r->begin_ns) {
		usleep(1000);
	}
	while (sgpu_read(r->from, "pipe", data, sizeof(data), &got, NULL) == SGPU_OK && got > 0) {
		if (sgpu_write(r->to, "response", data, got, NULL) != SGPU_OK) {
			break;
		}
	}
	return NULL;
}

/* Its sender says nothing more until the deadline; then its reader takes a moment. */
UNIT_TEST(a_response_is_written_after_the_deadline_as_long_as_it_is_read)
{
	uint64_t after_ns = UINT64_C(200000000);
	struct answer answer;
	struct job job;
	int rc, out;

	make_job(&job, 20000);
	do {
		const uint64_t deadline_ns = sgpu_now_ns() + after_ns;
		struct reader reader = { .begin_ns = deadline_ns + UINT64_C(100000000) };
		int in = sign_and_write(&job), from[2], to[2];
		struct feeder feeder = { .from = in };

		out = memfd_create("response", MFD_CLOEXEC);
		REQUIRE(pipe2(from, O_CLOEXEC) == 0 && pipe2(to, O_CLOEXEC) == 0);
		(void)fcntl(to[1], F_SETPIPE_SZ, 4096);
		feeder.to = from[1];
		send(&feeder, find_payload(&job, job.bias) - SGPU_TAR_BLOCK);
		reader.from = to[0];
		reader.to = out;
		REQUIRE(pthread_create(&reader.thread, NULL, read_late, &reader) == 0);
		rc = run_with(&owner, from[0], to[1], deadline_ns, NULL);
		close(to[1]);
		pthread_join(reader.thread, NULL);
		close(to[0]);
		close(from[0]);
		close(from[1]);
		close(in);
	} while (was_too_soon(rc, &after_ns) && close(out) == 0);
	CHECK(rc == SGPU_ESEGMENTS);
	lseek(out, 0, SEEK_SET);
	REQUIRE(read_answer(out, job.key, &answer));
	CHECK(says(&answer, 1, SGPU_ETIMEOUT, "deadline"));
	free_answer(&answer);
	free_job(&job);
	close(out);
}

static void all_tests(void)
{
	UNIT_RUN(a_small_payload_is_computed_with_while_the_next_one_does_not_come);
	UNIT_RUN(a_small_payload_in_a_file_is_computed_with_while_the_pipe_is_silent);
	UNIT_RUN(an_operation_ends_while_a_large_payload_is_incomplete);
	UNIT_RUN(a_response_is_written_after_the_deadline_as_long_as_it_is_read);
}

int main(void)
{
	open_device(2);
	if (sgpu_key_generate(SGPU_KEY_OCT, &owner, &error)) {
		bail_out();
	}
	if (strcmp(device_name(), "cpu") != 0) {
		printf("1..0 # SKIP the device is what it is\n");
		return 0;
	}
	run_on_both(make_fake_gpu, all_tests, unmake_fake_gpu);
	sgpu_device_close(&device);
	return unit_done();
}
