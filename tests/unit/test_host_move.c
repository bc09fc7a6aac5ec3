/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves on the host: the order in which chunk runs of several parts are claimed. test_seal_stream.c
 * has what becomes of them.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "crypto/crypto.h"
#include "transfer/transfer.h"
#include "unit.h"

/* Which part a chunk run was of, in the order in which they were written. */
struct written {
	char *log, name;
};

static int log_written(void *context, uint64_t position, const void *data, size_t size,
		       struct sgpu_error *error)
{
	struct written *part = context;

	(void)position;
	(void)data;
	(void)size;
	(void)error;
	part->log[strlen(part->log)] = part->name;
	return 0;
}

static struct sgpu_host_part copied(const uint8_t *data, size_t size, struct written *to)
{
	return (struct sgpu_host_part){ .action = SGPU_HOST_COPY,
					.name = "data",
					.size = size,
					.source.memory = (uint8_t *)(uintptr_t)data,
					.sink = { .write = log_written, .context = to } };
}

/* Each has three chunk runs. */
UNIT_TEST(parts_with_sinks_of_their_own_take_turns)
{
	enum { SIZE = 2 * 262144 + 1 };
	uint8_t *data = calloc(1, SIZE);
	char log[32] = "";
	struct written a = { log, 'a' }, b = { log, 'b' }, c = { log, 'c' };
	struct sgpu_host_part apart[] = { copied(data, SIZE, &a), copied(data, SIZE, &b),
					  copied(data, 1, &c) };
	struct sgpu_host_part same[] = { copied(data, SIZE, &a), copied(data, SIZE, &a),
					 copied(data, 1, &c) };
	struct sgpu_host_part ordered[] = { copied(data, SIZE, &a), copied(data, SIZE, &b),
					    copied(data, SIZE, &c) };
	struct sgpu_host_move move = { .parts = apart, .count = 3, .jobs = 1 };

	REQUIRE(data);
	REQUIRE(sgpu_host_move(&move, NULL) == 0);
	CHECK(!strcmp(log, "abcabab"));
	memset(log, 0, sizeof(log));
	move.parts = same;
	REQUIRE(sgpu_host_move(&move, NULL) == 0);
	CHECK(!strcmp(log, "aaaacaa"));
	memset(log, 0, sizeof(log));
	ordered[1].sink.ordered = true;
	move.parts = ordered;
	REQUIRE(sgpu_host_move(&move, NULL) == 0);
	CHECK(!strcmp(log, "aaabbbccc"));
	free(data);
}

UNIT_TEST(a_copy_to_memory_is_read_and_verified_there)
{
	enum { SIZE = 2 * 262144 + 1, SHIFT = 5 };
	uint8_t *from = calloc(1, SIZE), *to = calloc(1, SIZE + SHIFT), digest[SGPU_KT128_SIZE];
	struct sgpu_host_part part = { .action = SGPU_HOST_COPY,
				       .name = "data",
				       .size = SIZE,
				       .to = SHIFT,
				       .source = { .memory = from },
				       .sink = { .memory = to },
				       .digest = digest };
	struct sgpu_host_move move = { .parts = &part, .count = 1, .jobs = 2 };

	REQUIRE(from && to);
	for (size_t i = 0; i < SIZE; i++) {
		from[i] = (uint8_t)(i / 251);
	}
	sgpu_kt128(from, SIZE, NULL, 0, digest, sizeof(digest));
	CHECK(sgpu_host_move(&move, NULL) == 0);
	CHECK(!memcmp(to + SHIFT, from, SIZE));
	digest[0] ^= 1;
	CHECK(sgpu_host_move(&move, NULL) == SGPU_EAUTH);
	free(to);
	free(from);
}

static int interrupt(void *context, uint64_t position, const void *data, size_t size,
		     struct sgpu_error *error)
{
	(void)context;
	(void)position;
	(void)data;
	(void)size;
	(void)error;
	sgpu_io_interrupt();
	return 0;
}

UNIT_TEST(a_signal_after_the_last_write_fails_nothing)
{
	uint8_t byte = 1;
	int status = -1;

	const pid_t pid = fork(); /* nothing takes a signal back */
	if (pid == 0) {
		struct sgpu_host_part part = { .action = SGPU_HOST_COPY,
					       .name = "data",
					       .size = 1,
					       .source.memory = &byte,
					       .sink = { .write = interrupt } };
		struct sgpu_host_move move = { .parts = &part, .count = 1, .jobs = 1 };

		_exit(sgpu_host_move(&move, NULL) == 0 && sgpu_io_interrupted() ? 0 : 1);
	}
	REQUIRE(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
	UNIT_RUN(parts_with_sinks_of_their_own_take_turns);
	UNIT_RUN(a_copy_to_memory_is_read_and_verified_there);
	UNIT_RUN(a_signal_after_the_last_write_fails_nothing);
	return unit_done();
}
