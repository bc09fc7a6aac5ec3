/* SPDX-License-Identifier: Apache-2.0
 *
 * One runner and many batches: one after another they make nothing anew, and several at once leave
 * each other alone, whatever becomes of one of them. On the device that $SGPU_TEST_DEVICE names,
 * and on one that is made to look like a GPU. Its kernels are those of other tests: racecheck has
 * nothing to find.
 */
#include <dirent.h>
#include <unistd.h>

#include "fake_gpu.h"

static struct sgpu_runner *runner;
static bool faked;
static atomic_int streams, allocations;

static int counted_stream(struct sgpu_device *on, struct sgpu_stream **stream,
			  struct sgpu_error *why)
{
	atomic_fetch_add(&streams, 1);
	return fake_stream_create(on, stream, why);
}

static int counted_alloc(struct sgpu_device *on, uint64_t size, void **memory,
			 struct sgpu_error *why)
{
	atomic_fetch_add(&allocations, 1);
	return fake_host_alloc(on, size, memory, why);
}

static atomic_llong device_bytes;

static int counted_memory(struct sgpu_device *on, uint64_t size, sgpu_devptr *memory,
			  struct sgpu_error *why)
{
	int rc = fake_alloc(on, size, memory, why);

	atomic_fetch_add(&device_bytes, rc == SGPU_OK ? (long long)size : 0);
	return rc;
}

static void counted_free(struct sgpu_device *on, sgpu_devptr memory, uint64_t size)
{
	atomic_fetch_sub(&device_bytes, (long long)size);
	fake.real->memory->free(on, memory, size);
}

static int entries(const char *folder)
{
	DIR *open = opendir(folder);
	int count = 0;

	while (open && readdir(open)) {
		count++;
	}
	if (open) {
		closedir(open);
	}
	return count;
}

/* ---- a batch on the shared runner ---- */
struct batch {
	struct job job;
	int in, out;
	struct sgpu_run *run;
};

static void submit(struct batch *batch, int in, uint64_t deadline_ns)
{
	const struct sgpu_submission submission =
		make_submission(&owner, in, batch->out, deadline_ns);

	CHECK(submit_run(runner, &submission, &batch->run, &error) == SGPU_OK);
}

static void make_batch(struct batch *batch, uint64_t size)
{
	make_job(&batch->job, size);
	batch->in = sign_and_write(&batch->job);
	batch->out = memfd_create("response", MFD_CLOEXEC);
	batch->run = NULL;
}

static bool is_whole(struct batch *batch)
{
	struct answer answer;
	const struct job *job = &batch->job;
	bool good;

	lseek(batch->out, 0, SEEK_SET);
	good = read_answer(batch->out, job->key, &answer);
	good = good && says(&answer, 0, SGPU_OK, NULL) && says(&answer, 1, SGPU_OK, NULL) &&
	       answer.size[0] == job->size && !memcmp(answer.data[0], job->scan, job->size) &&
	       answer.size[1] == job->size && !memcmp(answer.data[1], job->bias, job->size);
	free_answer(&answer);
	return good;
}

static void free_batch(struct batch *batch)
{
	end_run(&batch->run);
	free_job(&batch->job);
	close(batch->in);
	close(batch->out);
}

/* A pipe that holds all of a batch but its last `kept` bytes, which more() brings. */
struct pipe {
	int ends[2];
	char rest[4096];
	size_t kept;
};

static void fill_pipe(struct pipe *pipe, const struct batch *batch, size_t kept)
{
	off_t size = lseek(batch->in, 0, SEEK_END) - (off_t)kept;
	char *data = malloc((size_t)size);

	if (!data || pipe2(pipe->ends, O_CLOEXEC) ||
	    fcntl(pipe->ends[1], F_SETPIPE_SZ, 1 << 20) < size ||
	    pread(batch->in, data, (size_t)size, 0) != size ||
	    write(pipe->ends[1], data, (size_t)size) != size ||
	    pread(batch->in, pipe->rest, kept, size) != (ssize_t)kept) {
		abort();
	}
	pipe->kept = kept;
	free(data);
}

static void more(struct pipe *pipe)
{
	CHECK(write(pipe->ends[1], pipe->rest, pipe->kept) == (ssize_t)pipe->kept);
	close(pipe->ends[1]);
	pipe->ends[1] = -1;
}

static void close_pipe(struct pipe *pipe)
{
	close(pipe->ends[0]);
	if (pipe->ends[1] >= 0) {
		close(pipe->ends[1]);
	}
}

static void run_one(uint64_t size)
{
	struct batch batch;

	make_batch(&batch, size);
	submit(&batch, batch.in, 0);
	CHECK(wait_run(batch.run, &error) == SGPU_OK);
	CHECK(is_whole(&batch));
	free_batch(&batch);
}

/* ---- one after another ---- */
struct made {
	int threads, files, streams;
	long long bytes;
};

static struct made what_there_is(void)
{
	return (struct made){ entries("/proc/self/task"), entries("/proc/self/fd"),
			      atomic_load(&streams), atomic_load(&device_bytes) };
}

static bool are_same(const struct made *a, const struct made *b)
{
	return a->threads == b->threads && a->files == b->files && a->streams == b->streams &&
	       a->bytes == b->bytes;
}

/* How many of its streams and buffers a batch uses is a matter of its timing, so the first few may
 * still make some. */
UNIT_TEST(batches_after_the_first_few_make_nothing_anew)
{
	struct made before, after = { 0 };
	int rounds = 0;

	do {
		before = what_there_is();
		atomic_store(&allocations, 0);
		for (int i = 0; i < 8; i++) {
			run_one(is_short() ? 1 << 20 : 3 << 20);
		}
		after = what_there_is();
	} while ((!are_same(&before, &after) || atomic_load(&allocations) > 8 * 2) &&
		 ++rounds < 64);
	CHECK(are_same(&before, &after));
	/* Results have memory of their own until the response is written; nothing else is asked
	 * for. */
	CHECK(atomic_load(&allocations) <= 8 * 2);
	CHECK(!faked || atomic_load(&fake.keys) == 0);
}

/* ---- several at once ---- */
UNIT_TEST(many_batches_at_once_are_each_answered)
{
	enum { COUNT = 6 };
	struct batch batches[COUNT];

	for (int i = 0; i < COUNT; i++) {
		make_batch(&batches[i], 200000 * (uint64_t)(i + 1));
		submit(&batches[i], batches[i].in, 0);
	}
	for (int i = COUNT; i-- > 0;) {
		CHECK(wait_run(batches[i].run, &error) == SGPU_OK);
		CHECK(is_whole(&batches[i]));
	}
	for (int i = 0; i < COUNT; i++) {
		for (int k = 0; k < i; k++) {
			struct answer a, b;

			lseek(batches[i].out, 0, SEEK_SET);
			lseek(batches[k].out, 0, SEEK_SET);
			CHECK(read_answer(batches[i].out, batches[i].job.key, &a));
			CHECK(read_answer(batches[k].out, batches[k].job.key, &b));
			CHECK(memcmp(a.batch->response_id, b.batch->response_id,
				     SGPU_RESPONSE_ID_SIZE) != 0);
			free_answer(&a);
			free_answer(&b);
		}
	}
	for (int i = 0; i < COUNT; i++) {
		free_batch(&batches[i]);
	}
}

/* It waits for a batch with the deadline that its pipe does not meet; sends it again if it was not
 * even admitted by then. */
static int wait_for_late(struct batch *batch, struct pipe *pipe, uint64_t after_ns)
{
	int rc = wait_run(batch->run, &error);

	while (was_too_soon(rc, &after_ns)) {
		close_pipe(pipe);
		end_run(&batch->run);
		fill_pipe(pipe, batch, 3000);
		submit(batch, pipe->ends[0], sgpu_now_ns() + after_ns);
		rc = wait_run(batch->run, &error);
	}
	return rc;
}

/* One fails, one is cancelled, one is late, one is refused: that with the silent pipe, which sees
 * all of it, is unharmed. */
UNIT_TEST(what_becomes_of_others_does_no_harm)
{
	const uint64_t after = 100000000;
	struct batch batches[5];
	struct pipe pipes[3];
	struct answer answer;

	for (int i = 0; i < 5; i++) {
		make_batch(&batches[i], 60000);
	}
	for (int i = 0; i < 3; i++) {
		fill_pipe(&pipes[i], &batches[i], 3000);
	}
	submit(&batches[0], pipes[0].ends[0], 0);
	submit(&batches[1], pipes[1].ends[0], 0);
	submit(&batches[2], pipes[2].ends[0], sgpu_now_ns() + after);
	batches[3].job.bias[5] ^= 1;
	close(batches[3].in);
	batches[3].in = sign_and_write(&batches[3].job);
	submit(&batches[3], batches[3].in, 0);
	batches[4].job.batch->mac[0] ^= 1;
	CHECK(ftruncate(batches[4].in, 0) == 0 && lseek(batches[4].in, 0, SEEK_SET) == 0);
	write_batch(&batches[4].job, batches[4].in);
	lseek(batches[4].in, 0, SEEK_SET);
	submit(&batches[4], batches[4].in, 0);
	CHECK(wait_run(batches[3].run, &error) == SGPU_ESEGMENTS);
	CHECK(wait_run(batches[4].run, &error) == SGPU_EAUTH && is_empty(batches[4].out));
	sgpu_run_cancel(batches[1].run);
	CHECK(wait_run(batches[1].run, &error) == SGPU_ECANCELED && is_empty(batches[1].out));
	CHECK(wait_for_late(&batches[2], &pipes[2], after) == SGPU_ESEGMENTS);
	lseek(batches[2].out, 0, SEEK_SET);
	REQUIRE(read_answer(batches[2].out, batches[2].job.key, &answer));
	CHECK(says(&answer, 1, SGPU_ETIMEOUT, "deadline"));
	free_answer(&answer);
	more(&pipes[0]);
	CHECK(wait_run(batches[0].run, &error) == SGPU_OK);
	CHECK(is_whole(&batches[0]));
	for (int i = 0; i < 5; i++) {
		free_batch(&batches[i]);
	}
	for (int i = 0; i < 3; i++) {
		close_pipe(&pipes[i]);
	}
	run_one(60000);
}

/* ---- the end ---- */
UNIT_TEST(a_run_that_was_cancelled_before_it_began_does_nothing)
{
	struct sgpu_submission submission;
	struct batch batch;

	make_batch(&batch, 1000);
	submission = make_submission(&owner, batch.in, batch.out, 0);
	REQUIRE(sgpu_run_create(runner, &submission, &batch.run, &error) == SGPU_OK);
	sgpu_run_cancel(batch.run);
	CHECK(sgpu_run_batch(batch.run, &error) == SGPU_ECANCELED && is_empty(batch.out));
	sgpu_run_free(&batch.run);
	free_batch(&batch);
	run_one(1000);
}

UNIT_TEST(a_response_that_nobody_reads_can_be_cancelled)
{
	struct sgpu_run_progress progress = { 0 };
	struct batch batch;
	int ends[2], out;

	make_batch(&batch, 3 << 20);
	REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
	out = batch.out;
	batch.out = ends[1];
	submit(&batch, batch.in, 0);
	while (progress.operations_done < 3) {
		usleep(1000);
		sgpu_run_get_progress(batch.run, &progress);
	}
	usleep(50000);
	sgpu_run_cancel(batch.run);
	CHECK(wait_run(batch.run, &error) == SGPU_ECANCELED);
	close(ends[0]);
	close(out);
	free_batch(&batch);
	run_one(1000);
}

/* After its deadline as well, when it only says what was not done. */
UNIT_TEST(a_late_response_that_nobody_reads_can_be_cancelled)
{
	static const char filler[4096];
	struct batch batch;
	struct pipe silent;
	int ends[2], out;

	make_batch(&batch, 60000);
	fill_pipe(&silent, &batch, 3000);
	REQUIRE(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
	while (write(ends[1], filler, sizeof(filler)) > 0) {
	}
	CHECK(fcntl(ends[1], F_SETFL, 0) == 0);
	out = batch.out;
	batch.out = ends[1];
	submit(&batch, silent.ends[0], sgpu_now_ns() + 50000000);
	usleep(400000); /* it was late after 50 ms, and gives up 2 s after that */
	sgpu_run_cancel(batch.run);
	CHECK(wait_run(batch.run, &error) == SGPU_ECANCELED);
	close(ends[0]);
	close(out);
	free_batch(&batch);
	close_pipe(&silent);
	run_one(1000);
}

UNIT_TEST(a_response_goes_through_a_pipe_whole)
{
	struct batch batch;
	static char data[8 << 20];
	size_t got = 0;
	ssize_t n;
	int ends[2], out;

	make_batch(&batch, 3 << 20);
	REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
	out = batch.out;
	batch.out = ends[1];
	submit(&batch, batch.in, 0);
	while (got < (size_t)(6 << 20) && (n = read(ends[0], data + got, sizeof(data) - got)) > 0) {
		got += (size_t)n;
	}
	while (got % 512 != 0 && (n = read(ends[0], data + got, sizeof(data) - got)) > 0) {
		got += (size_t)n;
	}
	CHECK(wait_run(batch.run, &error) == SGPU_OK);
	close(ends[1]);
	while ((n = read(ends[0], data + got, sizeof(data) - got)) > 0) {
		got += (size_t)n;
	}
	close(ends[0]);
	batch.out = out;
	CHECK(write(out, data, got) == (ssize_t)got && is_whole(&batch));
	free_batch(&batch);
}

/* ---- kernels that hang ---- */
static atomic_bool hang_next;

static int launch(struct sgpu_stream *stream, sgpu_launch_fn function, void *argument,
		  const struct sgpu_device_range *ranges, int count, struct sgpu_task *task)
{
	return fake_launch(stream, atomic_exchange(&hang_next, false) ? fake_hang : function,
			   argument, ranges, count, task);
}

UNIT_TEST(a_kernel_that_hangs_is_not_ended_while_others_run_and_at_once_afterwards)
{
	struct sgpu_run_progress progress = { 0 };
	struct batch stuck, other;
	struct pipe pipe;

	if (!faked) {
		SKIP("only the fake device hangs");
	}
	make_batch(&stuck, 200000); /* more than the thread that enqueues it runs itself */
	make_batch(&other, 60000);
	fill_pipe(&pipe, &other, 3000);
	submit(&other, pipe.ends[0], 0);
	while (progress.operations_done <
	       2) { /* what of it can run has run, the rest comes with the pipe's */
		usleep(1000);
		sgpu_run_get_progress(other.run, &progress);
	}
	atomic_store(&fake.hung, 0);
	atomic_store(&hang_next, true);
	submit(&stuck, stuck.in, 0);
	while (atomic_load(&fake.hung) == 0) {
		usleep(1000);
		sgpu_run_get_progress(stuck.run, &progress);
	}
	sgpu_run_cancel(stuck.run);
	usleep(200000);
	sgpu_run_get_progress(stuck.run, &progress);
	CHECK(!atomic_load(&fake.cancelled) && progress.stopping_ns > 0);
	more(&pipe);
	CHECK(wait_run(other.run, &error) == SGPU_OK && is_whole(&other));
	CHECK(wait_run(stuck.run, &error) == SGPU_ECANCELED && is_empty(stuck.out));
	CHECK(!atomic_load(&fake.cancelled));
	close_pipe(&pipe);
	free_batch(&stuck);
	free_batch(&other);
	run_one(60000);
}

/* ---- results of which many runs of chunks are still to come ---- */
static enum sgpu_work_kind counted_kind;
static atomic_bool holds_copies;
static atomic_int copies;

static int counted_copy(struct sgpu_stream *stream, const struct sgpu_work *work)
{
	if (work->kind == counted_kind) {
		atomic_fetch_add(&copies, 1);
		while (atomic_load(&holds_copies)) {
			usleep(1000);
		}
	}
	return fake_enqueue_one(stream, work);
}
FAKE_ENQUEUE(counted_copies, counted_copy)

/* While others are on the device that is not stopped: the run's own transfers are. */
static void cancel_while_copying(enum sgpu_work_kind kind)
{
	struct sgpu_run_progress progress = { 0 };
	struct batch large, other;
	struct pipe pipe;
	int all;

	counted_kind = kind;
	make_batch(&large, 10 << 20);
	atomic_store(&copies, 0);
	submit(&large, large.in, 0);
	CHECK(wait_run(large.run, &error) == SGPU_OK && is_whole(&large));
	all = atomic_load(&copies);
	free_batch(&large);

	make_batch(&large, 10 << 20);
	make_batch(&other, 60000);
	fill_pipe(&pipe, &other, 3000);
	submit(&other, pipe.ends[0], 0);
	while (progress.operations_done < 2) {
		usleep(1000);
		sgpu_run_get_progress(other.run, &progress);
	}
	usleep(50000); /* its results have come */
	atomic_store(&copies, 0);
	atomic_store(&holds_copies, true);
	submit(&large, large.in, 0);
	while (atomic_load(&copies) == 0) {
		usleep(1000);
	}
	sgpu_run_cancel(large.run);
	atomic_store(&holds_copies, false);
	CHECK(wait_run(large.run, &error) == SGPU_ECANCELED && is_empty(large.out));
	printf("# %d copies of %d\n", atomic_load(&copies), all);
	CHECK(atomic_load(&copies) <= 2); /* one each may have been on its way */
	more(&pipe);
	CHECK(wait_run(other.run, &error) == SGPU_OK && is_whole(&other));
	close_pipe(&pipe);
	free_batch(&large);
	free_batch(&other);
}

UNIT_TEST(results_of_a_run_that_is_cancelled_beside_others_are_not_brought_to_their_end)
{
	if (!faked) {
		SKIP("only copies of the fake device are counted");
	}
	cancel_while_copying(SGPU_WORK_COPY_OUT);
}

UNIT_TEST(payloads_of_a_run_that_is_cancelled_beside_others_are_not_brought_to_their_end)
{
	if (!faked) {
		SKIP("only copies of the fake device are counted");
	}
	cancel_while_copying(SGPU_WORK_COPY_IN);
}

static void all_tests(void)
{
	UNIT_RUN(batches_after_the_first_few_make_nothing_anew);
	UNIT_RUN(many_batches_at_once_are_each_answered);
	UNIT_RUN(what_becomes_of_others_does_no_harm);
	UNIT_RUN(a_run_that_was_cancelled_before_it_began_does_nothing);
	UNIT_RUN(a_response_that_nobody_reads_can_be_cancelled);
	UNIT_RUN(a_late_response_that_nobody_reads_can_be_cancelled);
	UNIT_RUN(a_response_goes_through_a_pipe_whole);
	UNIT_RUN(a_kernel_that_hangs_is_not_ended_while_others_run_and_at_once_afterwards);
	UNIT_RUN(results_of_a_run_that_is_cancelled_beside_others_are_not_brought_to_their_end);
	UNIT_RUN(payloads_of_a_run_that_is_cancelled_beside_others_are_not_brought_to_their_end);
}

static void begin(void)
{
	if (faked) {
		make_fake_gpu();
		fake.backend.stream.create = counted_stream;
		fake.backend.memory.host_alloc = counted_alloc;
		fake.backend.memory.alloc = counted_memory;
		fake.backend.memory.free = counted_free;
		fake.backend.stream.enqueue = counted_copies;
		fake.backend.stream.launch = launch;
	}
	if (make_runner(&runner) != SGPU_OK) {
		printf("Bail out! %s\n", error.text);
		exit(1);
	}
}

static void end(void)
{
	sgpu_runner_free(&runner);
	CHECK(atomic_load(&device_bytes) == 0);
	if (faked) {
		unmake_fake_gpu();
	}
}

int main(void)
{
	const bool on_cpu = strcmp(device_name(), "cpu") == 0;

	open_device(3);
	if (sgpu_key_generate(SGPU_KEY_OCT, &owner, &error)) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	if (!on_cpu || !is_short()) {
		run_on_all(begin, all_tests, end);
	}
	faked = on_cpu;
	if (faked) {
		in_secure_context = false;
		run_on_all(begin, all_tests, end);
	}
	sgpu_device_close(&device);
	return unit_done();
}
