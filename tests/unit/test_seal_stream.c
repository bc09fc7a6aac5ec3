/* SPDX-License-Identifier: Apache-2.0
 *
 * Sealing and opening between descriptors: files and pipes on either end, one thread and several,
 * damage, sizes that are not what they were said to be.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "crypto/crypto.h"
#include "transfer/transfer.h"
#include "batch/batch.h"
#include "unit.h"

static const uint8_t key[SGPU_KEY_SIZE] = { 2, 7, 1, 8, 2, 8 };

static const size_t sizes[] = {
	0,	1,	4032,	16383,	16384,	 16385,
	262143, 262144, 262145, 524288, 1000000, 5 * 262144 + 16384,
};

static uint8_t *pattern(size_t size)
{
	uint8_t *data = malloc(size + 1);

	for (size_t i = 0; i < size; i++) {
		data[i] = (uint8_t)(i * 31 + (i >> 7));
	}
	return data;
}

/* A file in memory, with the position at its start. */
static int file_with(const void *data, size_t size)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	if (fd < 0 || sgpu_pwrite(fd, "test", data, size, 0, NULL)) {
		abort();
	}
	return fd;
}

struct job {
	struct sgpu_host_part part;
	struct sgpu_host_move move;
	struct sgpu_descriptor in, out;
};

static struct job job_for(int in, int out, unsigned jobs)
{
	struct job job = { .part = { .key = key,
				     .context = "ctx",
				     .context_size = 3,
				     .size = SGPU_SIZE_UNKNOWN },
			   .move = { .count = 1, .jobs = jobs } };

	sgpu_descriptor_from_fd(in, "in", &job.in);
	sgpu_descriptor_from_fd(out, "out", &job.out);
	return job;
}

static int move_file(struct job *job, enum sgpu_host_action action, struct sgpu_error *error)
{
	job->part.action = action;
	job->move.parts = &job->part;
	return sgpu_host_move_file(&job->move, &job->in, &job->out, error);
}

/* A job from a file that holds the data to an empty one. */
static struct job job_on(const void *data, size_t size, unsigned jobs)
{
	return job_for(file_with(data, size), file_with("", 0), jobs);
}

static void close_job(struct job *job)
{
	close(job->in.fd);
	close(job->out.fd);
}

static uint8_t *contents(int fd, size_t *size)
{
	struct stat status;
	uint8_t *data;

	if (fstat(fd, &status)) {
		abort();
	}
	data = malloc((size_t)status.st_size + 1);
	if (sgpu_pread(fd, "test", data, (size_t)status.st_size, 0, size, NULL)) {
		abort();
	}
	return data;
}

static int holds(int fd, const uint8_t *data, size_t size)
{
	size_t found;
	uint8_t *all = contents(fd, &found);
	int same = found == size && !memcmp(all, data, size);

	free(all);
	return same;
}

UNIT_TEST(files_round_trip_with_any_number_of_threads)
{
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
		for (unsigned jobs = 1; jobs <= 3; jobs++) {
			uint8_t *data = pattern(sizes[i]);
			int in = file_with(data, sizes[i]), middle = file_with("", 0),
			    out = file_with("", 0);
			struct job seal = job_for(in, middle, jobs);
			uint64_t expected = 0;
			CHECK(seal.in.positioned && seal.out.positioned);
			CHECK(move_file(&seal, SGPU_HOST_SEAL, NULL) == 0);
			CHECK(sgpu_sealed_size(sizes[i], &expected) &&
			      seal.part.bytes_out == expected);
			CHECK(seal.part.bytes_in == sizes[i] && seal.out.offset == expected &&
			      seal.in.offset == sizes[i]);
			struct job open = job_for(middle, out, jobs);
			CHECK(move_file(&open, SGPU_HOST_OPEN, NULL) == 0);
			CHECK(open.part.bytes_in == expected && open.part.bytes_out == sizes[i]);
			CHECK(holds(out, data, sizes[i]));
			free(data);
			close(in);
			close(middle);
			close(out);
		}
	}
}

/* A thread that runs one job and closes its descriptors. */
struct runner {
	struct job job;
	int opening, code;
	pthread_t thread;
};

static void *run(void *argument)
{
	struct runner *runner = argument;

	runner->code = runner->opening ? move_file(&runner->job, SGPU_HOST_OPEN, NULL)
				       : move_file(&runner->job, SGPU_HOST_SEAL, NULL);
	close(runner->job.out.fd);
	return NULL;
}

/* in -> seal -> pipe -> open -> pipe -> memory. */
static void through_pipes(size_t size, unsigned jobs)
{
	uint8_t *data = pattern(size), *back = malloc(size + 2);
	int first[2], second[2], third[2];
	size_t got = 0;

	REQUIRE(pipe(first) == 0 && pipe(second) == 0 && pipe(third) == 0);
	struct runner seal = { .job = job_for(first[0], second[1], jobs) };
	struct runner open = { .job = job_for(second[0], third[1], jobs), .opening = 1 };
	CHECK(!seal.job.in.positioned && !open.job.out.positioned);
	REQUIRE(pthread_create(&seal.thread, NULL, run, &seal) == 0);
	REQUIRE(pthread_create(&open.thread, NULL, run, &open) == 0);
	pid_t writer = fork();
	if (writer == 0) {
		/* Odd pieces, so that reads come out short. */
		close(first[0]);
		for (size_t at = 0, part; at < size; at += part) {
			part = size - at < 10007 ? size - at : 10007;
			if (sgpu_write(first[1], "pipe", data + at, part, NULL)) {
				_exit(1);
			}
		}
		_exit(0);
	}
	close(first[1]);
	CHECK(sgpu_read(third[0], "pipe", back, size + 1, &got, NULL) == 0);
	CHECK(got == size && !memcmp(back, data, size));
	pthread_join(seal.thread, NULL);
	pthread_join(open.thread, NULL);
	waitpid(writer, NULL, 0);
	CHECK(seal.code == 0 && open.code == 0 && open.job.part.bytes_out == size);
	close(first[0]);
	close(second[0]);
	close(third[0]);
	free(data);
	free(back);
}

UNIT_TEST(pipes_round_trip_in_order_with_any_number_of_threads)
{
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
		through_pipes(sizes[i], 1);
		through_pipes(sizes[i], 2);
		through_pipes(sizes[i], 5);
	}
}

/* A sealed file of `chunks` full chunks and a short one. */
static uint8_t *sealed_file(size_t chunks, size_t *size, uint8_t **data)
{
	size_t plain = chunks * SGPU_CHUNK + 10;
	uint64_t sealed_size = 0;

	*data = pattern(plain);
	if (!sgpu_sealed_size(plain, &sealed_size)) {
		abort();
	}
	uint8_t *sealed = malloc(sealed_size + 1);
	if (sgpu_seal_memory(key, "ctx", 3, *data, plain, sealed, NULL)) {
		abort();
	}
	*size = sealed_size;
	return sealed;
}

UNIT_TEST(the_lowest_bad_chunk_is_the_one_that_is_reported)
{
	size_t size;
	uint8_t *data, *sealed = sealed_file(100, &size, &data);

	for (size_t chunk = 17; chunk < 100; chunk += 5) {
		sealed[56 + chunk * 16400 + 5] ^= 1;
	}
	for (int round = 0; round < 20; round++) {
		struct job job = job_on(sealed, size, 4);
		struct sgpu_error error;
		CHECK(move_file(&job, SGPU_HOST_OPEN, &error) == SGPU_EAUTH);
		CHECK(job.move.bad_chunk == 17);
		CHECK(strstr(error.text, "chunk 17 (offset 278856)"));
		close_job(&job);
	}
	free(sealed);
	free(data);
}

/* What a stream has got when opening ends. */
static void check_prefix(const uint8_t *sealed, size_t size, const uint8_t *data,
			 size_t good_chunks, unsigned jobs, int from_file)
{
	size_t got = 0;
	uint8_t *back = malloc(101 * SGPU_CHUNK);
	int feed[2] = { -1, -1 }, drain[2], file = file_with(sealed, size);
	pid_t writer = -1;

	REQUIRE(pipe(drain) == 0 && (from_file || pipe(feed) == 0));
	if (!from_file) {
		writer = fork();
		if (writer == 0) {
			signal(SIGPIPE, SIG_DFL);
			close(feed[0]);
			close(drain[0]);
			close(drain[1]);
			_exit(sgpu_write(feed[1], "pipe", sealed, size, NULL) ? 1 : 0);
		}
		close(feed[1]);
	}
	struct runner open = { .job = job_for(from_file ? file : feed[0], drain[1], jobs),
			       .opening = 1 };
	REQUIRE(pthread_create(&open.thread, NULL, run, &open) == 0);
	CHECK(sgpu_read(drain[0], "pipe", back, 101 * SGPU_CHUNK, &got, NULL) == 0);
	pthread_join(open.thread, NULL);
	CHECK(open.code == SGPU_EAUTH && open.job.move.bad_chunk == good_chunks);
	CHECK(got == good_chunks * SGPU_CHUNK && !memcmp(back, data, got));
	if (!from_file) {
		close(feed[0]);
		waitpid(writer, NULL, 0);
	}
	close(drain[0]);
	close(file);
	free(back);
}

UNIT_TEST(a_stream_gets_exactly_the_chunks_before_the_bad_one)
{
	static const size_t bad[] = { 0, 1, 15, 16, 17, 31, 32, 63, 99 };
	size_t size;
	uint8_t *data, *sealed = sealed_file(100, &size, &data);

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		size_t at = 56 + bad[i] * 16400 + 16399;
		sealed[at] ^= 1;
		check_prefix(sealed, size, data, bad[i], 1, 1);
		check_prefix(sealed, size, data, bad[i], 3, 1);
		check_prefix(sealed, size, data, bad[i], 3, 0);
		sealed[at] ^= 1;
	}
	/* Cut at the border of a chunk, where each chunk by itself is good. */
	for (size_t chunks = 1; chunks <= 100; chunks += 3) {
		check_prefix(sealed, 56 + chunks * 16400, data, chunks, 2, 0);
	}
	check_prefix(sealed, 56 + 20 * 16400 + 15, data, 20, 2, 0);
	free(sealed);
	free(data);
}

UNIT_TEST(lengths_that_no_sealed_file_has_are_refused_before_anything_is_written)
{
	size_t size, got;
	uint8_t *data, *sealed = sealed_file(20, &size, &data);
	static const size_t cut[] = {
		0, 1, 55, 56, 71, 56 + 16400, 56 + 16400 + 15, 56 + 20 * 16400
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(cut); i++) {
		struct job job = job_on(sealed, cut[i], 2);
		CHECK(move_file(&job, SGPU_HOST_OPEN, NULL) == SGPU_EAUTH &&
		      job.move.bad_chunk == SGPU_SIZE_UNKNOWN);
		free(contents(job.out.fd, &got));
		CHECK(got == 0);
		close_job(&job);
	}
	free(sealed);
	free(data);
}

UNIT_TEST(a_known_size_takes_that_much_and_no_more)
{
	uint8_t *data = pattern(700000);
	int in = file_with(data, 700000), out = file_with("", 0), back = file_with("", 0), pipes[2];
	struct job job = job_for(in, out, 2);

	job.in.offset = 1000;
	job.part.size = 600000;
	CHECK(move_file(&job, SGPU_HOST_SEAL, NULL) == 0 && job.part.bytes_in == 600000 &&
	      job.in.offset == 601000);
	struct job open = job_for(out, back, 2);
	open.part.size = job.part.bytes_out;
	CHECK(move_file(&open, SGPU_HOST_OPEN, NULL) == 0 && holds(back, data + 1000, 600000));
	/* More than there is. */
	job = job_for(in, out, 2);
	job.part.size = 700001;
	struct sgpu_error error;
	CHECK(move_file(&job, SGPU_HOST_SEAL, &error) == SGPU_ESYSTEM &&
	      strstr(error.text, "changed while it was read"));
	job.part.size = SGPU_SEALED_PLAINTEXT_MAX;
	CHECK(move_file(&job, SGPU_HOST_SEAL, &error) == SGPU_ESYSTEM);
	job.part.size = SGPU_SEALED_PLAINTEXT_MAX + 1;
	CHECK(move_file(&job, SGPU_HOST_SEAL, &error) == SGPU_EINVALID &&
	      strstr(error.text, "too large to be sealed"));
	/* From a stream: what follows must be left in it. */
	REQUIRE(pipe(pipes) == 0);
	REQUIRE(write(pipes[1], "0123456789", 10) == 10);
	job = job_for(pipes[0], out, 2);
	job.part.size = 4;
	CHECK(move_file(&job, SGPU_HOST_SEAL, NULL) == 0 && job.part.bytes_in == 4);
	char rest[8] = "";
	CHECK(read(pipes[0], rest, 6) == 6 && !memcmp(rest, "456789", 6));
	close(pipes[1]);
	job = job_for(pipes[0], out, 1);
	job.part.size = 4;
	CHECK(move_file(&job, SGPU_HOST_SEAL, NULL) == SGPU_ESYSTEM);
	close(pipes[0]);
	close(in);
	close(out);
	close(back);
	free(data);
}

UNIT_TEST(runs_of_zeros_become_holes_when_asked)
{
	enum { SIZE = (8 << 20) + 100 };
	uint8_t *data = calloc(1, SIZE);
	int in, middle = file_with("", 0), out = file_with("", 0);
	struct stat status;

	memset(data + (3 << 20) + 5000, 7, 100000);
	data[SIZE - 1] = 7; /* after it, the file has no more, though the page has */
	in = file_with(data, SIZE);
	struct job job = job_for(in, middle, 2);
	CHECK(move_file(&job, SGPU_HOST_SEAL, NULL) == 0);
	job = job_for(middle, out, 2);
	job.out.sparse = true;
	CHECK(move_file(&job, SGPU_HOST_OPEN, NULL) == 0);
	CHECK(holds(out, data, SIZE));
	CHECK(fstat(out, &status) == 0 && status.st_size == SIZE &&
	      status.st_blocks * 512 < 200000);
	close(in);
	close(middle);
	close(out);
	free(data);
}

UNIT_TEST(a_file_that_appends_is_a_stream)
{
	char path[] = "/tmp/sgpu-append-XXXXXX";
	int made = mkstemp(path), in = file_with("0123456789", 10),
	    out = open(path, O_RDWR | O_APPEND);
	struct job job = job_for(in, out, 2);

	REQUIRE(made >= 0 && out >= 0 && write(made, "head", 4) == 4);
	CHECK(!job.out.positioned && move_file(&job, SGPU_HOST_SEAL, NULL) == 0);
	size_t size;
	uint8_t *all = contents(out, &size), back[10];
	CHECK(size == 4 + 82 && !memcmp(all, "head", 4));
	CHECK(sgpu_open_memory(key, "ctx", 3, all + 4, 82, back, NULL) == 0 &&
	      !memcmp(back, "0123456789", 10));
	free(all);
	unlink(path);
	close(made);
	close(in);
	close(out);
}

static uint64_t last_progress;
static int progress_falls;

static void progress(void *argument, uint64_t bytes)
{
	progress_falls += argument != &last_progress || bytes < last_progress;
	last_progress = bytes;
}

UNIT_TEST(progress_never_falls_and_ends_at_the_size)
{
	uint8_t *data = pattern(3000000);
	struct job job = job_on(data, 3000000, 3);

	job.move.progress = progress;
	job.move.progress_argument = &last_progress;
	CHECK(move_file(&job, SGPU_HOST_SEAL, NULL) == 0);
	CHECK(!progress_falls && last_progress == 3000000);
	close_job(&job);
	free(data);
}

/* Changes the input's size when the first group is through. */
static void resize(void *argument, uint64_t bytes)
{
	const off_t *wanted = argument;

	if (bytes && ftruncate((int)wanted[0], wanted[1])) {
		abort();
	}
}

UNIT_TEST(a_file_that_grows_or_shrinks_while_it_is_read_is_an_error)
{
	uint8_t *data = pattern(3000000);

	for (unsigned jobs = 1; jobs <= 3; jobs++) {
		for (int grow = 0; grow < 2; grow++) {
			struct job job = job_on(data, 3000000, jobs);
			off_t wanted[2] = { job.in.fd, grow ? 3000001 : 1000 };
			struct sgpu_error error = { 0 };
			job.move.progress = resize;
			job.move.progress_argument = wanted;
			CHECK(move_file(&job, SGPU_HOST_SEAL, &error) == SGPU_ESYSTEM);
			CHECK(strstr(error.text, "changed while it was read"));
			close_job(&job);
		}
	}
	free(data);
}

static void on_alarm(int number)
{
	(void)number;
	sgpu_io_interrupt();
}

/* In a process of its own: the interrupt is for good. */
static int interrupted_child(unsigned jobs, int writing)
{
	struct sigaction action = { .sa_handler = on_alarm };
	int stuck[2], zeros = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_WRONLY);

	if (pipe(stuck) || zeros < 0 || null < 0 || sigaction(SIGALRM, &action, NULL)) {
		return 1;
	}
	/* A pipe that nobody feeds, or that nobody drains. */
	struct job job = job_for(writing ? zeros : stuck[0], writing ? stuck[1] : null, jobs);
	ualarm(100000, 0);
	return move_file(&job, SGPU_HOST_SEAL, NULL) == SGPU_ECANCELED ? 0 : 2;
}

UNIT_TEST(an_interrupt_ends_a_transfer_that_waits_for_a_stream)
{
	for (unsigned jobs = 1; jobs <= 3; jobs += 2) {
		for (int writing = 0; writing < 2; writing++) {
			int status = -1;
			pid_t child = fork();
			if (child == 0) {
				_exit(interrupted_child(jobs, writing));
			}
			CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) &&
			      WEXITSTATUS(status) == 0);
		}
	}
}

UNIT_TEST(a_reader_that_goes_away_is_an_error)
{
	int gone[2], in = open("/dev/zero", O_RDONLY);

	REQUIRE(in >= 0 && pipe(gone) == 0);
	close(gone[0]);
	for (unsigned jobs = 1; jobs <= 4; jobs += 3) {
		struct job job = job_for(in, gone[1], jobs);
		CHECK(move_file(&job, SGPU_HOST_SEAL, NULL) == SGPU_ESYSTEM);
	}
	close(in);
	close(gone[1]);
}

UNIT_TEST(a_copy_has_the_digest_of_all_its_bytes_or_fails)
{
	static const size_t copied[] = { 0,	 1,	 8191,	 8192,	 8193,	16384,
					 262143, 262144, 262145, 270336, 700000 };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(copied); i++) {
		for (unsigned jobs = 1; jobs <= 3; jobs++) {
			uint8_t *data = pattern(copied[i]), digest[SGPU_KT128_SIZE];
			int fd = file_with("", 0);
			struct sgpu_descriptor out;
			struct sgpu_error error;
			sgpu_descriptor_from_fd(fd, "out", &out);
			sgpu_kt128(data, copied[i], NULL, 0, digest, sizeof(digest));
			struct sgpu_host_part part = { .action = SGPU_HOST_COPY,
						       .name = "data",
						       .size = copied[i],
						       .source.memory = data,
						       .sink = sgpu_endpoint_of(&out),
						       .digest = digest };
			struct sgpu_host_move move = { .parts = &part, .count = 1, .jobs = jobs };
			CHECK(sgpu_host_move(&move, NULL) == 0 && holds(fd, data, copied[i]));
			digest[31] ^= 1;
			CHECK(sgpu_host_move(&move, &error) == SGPU_EAUTH && move.failed == &part);
			free(data);
			close(fd);
		}
	}
}

static void flip(int fd, uint64_t at)
{
	uint8_t byte;
	size_t got;

	if (sgpu_pread(fd, "test", &byte, 1, at, &got, NULL) || got != 1) {
		abort();
	}
	byte ^= 1;
	if (sgpu_pwrite(fd, "test", &byte, 1, at, NULL)) {
		abort();
	}
}

static struct sgpu_host_part part(enum sgpu_host_action action, const char *name, uint64_t size,
				  struct sgpu_endpoint source, uint64_t from,
				  struct sgpu_endpoint sink, uint64_t to)
{
	return (struct sgpu_host_part){ .action = action,
					.name = name,
					.size = size,
					.source = source,
					.from = from,
					.sink = sink,
					.to = to,
					.key = key };
}

/* Parts that are sealed in the middle, copied around it, from memory to one file, then opened out
 * of it to two. */
UNIT_TEST(parts_of_a_move_come_where_they_belong)
{
	enum { FIRST = 600000, SECOND = 12345, THIRD = 3 * 262144 };
	uint8_t *data = pattern(THIRD);
	int fd = file_with("", 0), first = file_with("", 0), second = file_with("", 0);
	struct sgpu_descriptor all, back[2];
	uint64_t sealed[2];

	REQUIRE(sgpu_sealed_size(FIRST, &sealed[0]) && sgpu_sealed_size(SECOND, &sealed[1]));
	sgpu_descriptor_from_fd(fd, "all", &all);
	sgpu_descriptor_from_fd(first, "first", &back[0]);
	sgpu_descriptor_from_fd(second, "second", &back[1]);
	for (unsigned jobs = 1; jobs <= 4; jobs++) {
		const struct sgpu_endpoint memory = { .memory = data };
		const struct sgpu_endpoint file = sgpu_endpoint_of(&all);
		const uint64_t last = 100 + sealed[0] + THIRD;
		struct sgpu_host_part in[] = {
			part(SGPU_HOST_COPY, "a", 100, memory, 0, file, 0),
			part(SGPU_HOST_SEAL, "b", FIRST, memory, 7, file, 100),
			part(SGPU_HOST_COPY, "c", THIRD, memory, 0, file, 100 + sealed[0]),
			part(SGPU_HOST_SEAL, "d", SECOND, memory, 0, file, last),
		};
		struct sgpu_host_part out[] = {
			part(SGPU_HOST_OPEN, "b", sealed[0], file, 100, sgpu_endpoint_of(&back[0]),
			     0),
			part(SGPU_HOST_OPEN, "d", sealed[1], file, last, sgpu_endpoint_of(&back[1]),
			     0),
		};
		struct sgpu_host_move seal = { .parts = in, .count = 4, .jobs = jobs };
		struct sgpu_host_move open = { .parts = out, .count = 2, .jobs = jobs };
		CHECK(sgpu_host_move(&seal, NULL) == 0 && in[1].bytes_out == sealed[0]);
		CHECK(sgpu_host_move(&open, NULL) == 0 && out[1].bytes_out == SECOND);
		CHECK(holds(first, data + 7, FIRST) && holds(second, data, SECOND));
		/* The lowest part with an error is the one that is named, with its own chunk. */
		flip(fd, 100 + 56 + 30 * 16400 + 3);
		flip(fd, last + 3);
		CHECK(sgpu_host_move(&open, NULL) == SGPU_EAUTH);
		CHECK(open.failed == &out[0] && open.bad_chunk == 30);
	}
	free(data);
	close(fd);
	close(first);
	close(second);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	UNIT_RUN(files_round_trip_with_any_number_of_threads);
	UNIT_RUN(pipes_round_trip_in_order_with_any_number_of_threads);
	UNIT_RUN(the_lowest_bad_chunk_is_the_one_that_is_reported);
	UNIT_RUN(a_stream_gets_exactly_the_chunks_before_the_bad_one);
	UNIT_RUN(lengths_that_no_sealed_file_has_are_refused_before_anything_is_written);
	UNIT_RUN(a_known_size_takes_that_much_and_no_more);
	UNIT_RUN(runs_of_zeros_become_holes_when_asked);
	UNIT_RUN(a_file_that_appends_is_a_stream);
	UNIT_RUN(progress_never_falls_and_ends_at_the_size);
	UNIT_RUN(a_file_that_grows_or_shrinks_while_it_is_read_is_an_error);
	UNIT_RUN(an_interrupt_ends_a_transfer_that_waits_for_a_stream);
	UNIT_RUN(a_reader_that_goes_away_is_an_error);
	UNIT_RUN(a_copy_has_the_digest_of_all_its_bytes_or_fails);
	UNIT_RUN(parts_of_a_move_come_where_they_belong);
	return unit_done();
}
