/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes to a pipe under a guard: who reads slowly has time, who reads nothing has it until the
 * deadline.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "unit.h"

enum { SIZE = 96 << 10, PORTION = 8 << 10 };

static const uint64_t millisecond = 1000000;
static struct sgpu_error error;
static uint8_t data[SIZE], got[SIZE];

static int goes_on(void *unused)
{
	(void)unused;
	return SGPU_OK;
}

/* Writes everything within a guard whose deadline is in `deadline` ms and whose stall is `stall`
 * ms. */
static int write_guarded(int fd, uint64_t deadline, uint64_t stall)
{
	const struct sgpu_io_guard guard = { .ended = goes_on,
					     .deadline_ns = sgpu_now_ns() + deadline * millisecond,
					     .stall_ns = stall * millisecond };
	int rc;

	sgpu_io_set_guard(&guard);
	rc = sgpu_write(fd, "pipe", data, sizeof(data), &error);
	sgpu_io_set_guard(NULL);
	return rc;
}

/* A pipe that takes less than the data. */
static void make_pipe(int ends[2])
{
	if (pipe2(ends, O_CLOEXEC) || fcntl(ends[1], F_SETPIPE_SZ, 4096) < 0) {
		abort();
	}
}

struct slow_reader {
	int end;
	useconds_t pause;
};

/* Takes all of it in portions, each some time after the one before; or what there is until the
 * writer has given up. */
static void *read_slowly(void *argument)
{
	const struct slow_reader *reader = argument;

	for (size_t used = 0; used < sizeof(got);) {
		ssize_t count;

		usleep(reader->pause);
		count = read(reader->end, got + used,
			     sizeof(got) - used < PORTION ? sizeof(got) - used : PORTION);
		if (count <= 0) {
			break;
		}
		used += (size_t)count;
	}
	return NULL;
}

UNIT_TEST(a_write_that_nobody_reads_ends_at_the_deadline)
{
	uint64_t begin = sgpu_now_ns(), taken;
	int ends[2];

	make_pipe(ends);
	CHECK(write_guarded(ends[1], 400, 100) == SGPU_ETIMEOUT &&
	      strstr(error.text, "deadline passed before 'pipe'"));
	taken = sgpu_now_ns() - begin;
	CHECK(taken >= 400 * millisecond && taken < 20000 * millisecond);
	close(ends[0]);
	close(ends[1]);
}

UNIT_TEST(a_write_that_begins_after_the_deadline_waits_for_its_reader)
{
	uint64_t begin = sgpu_now_ns(), taken;
	int ends[2];

	make_pipe(ends);
	CHECK(write_guarded(ends[1], 0, 300) == SGPU_ETIMEOUT);
	taken = sgpu_now_ns() - begin;
	CHECK(taken >= 300 * millisecond && taken < 20000 * millisecond);
	close(ends[0]);
	close(ends[1]);
}

/* The reader takes longer in all than the stall, which is far longer than each of its pauses. Where
 * it was put aside for as long as that, both are longer the next time. */
UNIT_TEST(a_slow_reader_gets_everything_after_the_deadline)
{
	struct slow_reader slow = { .pause = 50000 };
	pthread_t reader;
	int ends[2], rc;

	for (size_t i = 0; i < sizeof(data); i++) {
		data[i] = (uint8_t)(i * 7 + i / 251);
	}
	do {
		make_pipe(ends);
		slow.end = ends[0];
		if (pthread_create(&reader, NULL, read_slowly, &slow)) {
			abort();
		}
		rc = write_guarded(ends[1], 0, 20 * slow.pause / 1000);
		close(ends[1]);
		pthread_join(reader, NULL);
		close(ends[0]);
		slow.pause *= 5;
	} while (rc == SGPU_ETIMEOUT && slow.pause < 10000000);
	CHECK(rc == SGPU_OK && memcmp(data, got, sizeof(data)) == 0);
}

int main(void)
{
	UNIT_RUN(a_write_that_nobody_reads_ends_at_the_deadline);
	UNIT_RUN(a_write_that_begins_after_the_deadline_waits_for_its_reader);
	UNIT_RUN(a_slow_reader_gets_everything_after_the_deadline);
	return unit_done();
}
