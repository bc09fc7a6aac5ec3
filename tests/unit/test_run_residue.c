/* SPDX-License-Identifier: Apache-2.0
 *
 * What a runner that lives on keeps of a batch that has ended: neither keys nor plaintext of a HIGH
 * segment, anywhere in the memory of its process, the stacks of its threads included. A batch comes
 * from another process, and what is looked for is known here by its complement, so that nothing
 * else can be found.
 */
#include <sys/wait.h>

#include <sgpu/seal.h>

#include "run_harness.h"

enum { NEEDLE = 16, BEGIN = 0, MIDDLE, END, BATCH_KEY, SEGMENT_KEY, CHUNK_KEY, NEEDLES };
static const char *const names[NEEDLES] = { "the plaintext's begin", "the plaintext's middle",
					    "the plaintext's end",   "the batch key",
					    "a segment's key",	     "the key of its chunks" };
static uint8_t (*complements)[NEEDLE]; /* shared with the processes that make batches */

static void learn(int which, const uint8_t *bytes)
{
	for (int i = 0; i < NEEDLE; i++) {
		complements[which][i] = bytes[i] ^ 0xff;
	}
}

static bool is_needle(const uint8_t *at, int which)
{
	int i = 0;

	while (i < NEEDLE && (at[i] ^ complements[which][i]) == 0xff) {
		i++;
	}
	return i == NEEDLE;
}

static void make_secret_batch(int fd, uint64_t size, bool damaged)
{
	uint8_t key[SGPU_KEY_SIZE], context[SGPU_SEGMENT_CONTEXT_MAX], data[1 << 16];
	struct sgpu_sealed_keys chunks;
	struct job job;
	size_t context_size = 0, got = 0;
	int in;

	make_job(&job, size);
	if (sgpu_random(job.scan, size, &error)) {
		abort();
	}
	remake_job(&job, manifest_text(size));
	if (sgpu_batch_segment_key(job.batch, job.key, "scan", NULL, key, context, &context_size,
				   &error) ||
	    sgpu_sealed_keys_open(key, context, context_size, job.sealed, &chunks, &error)) {
		abort();
	}
	learn(BEGIN, job.scan);
	learn(MIDDLE, job.scan + size / 2);
	learn(END, job.scan + size - NEEDLE);
	learn(BATCH_KEY, job.key);
	learn(SEGMENT_KEY, key);
	learn(CHUNK_KEY, chunks.key);
	job.sealed[job.sealed_size - 1] ^= damaged;
	in = sign_and_write(&job);
	while (sgpu_read(in, "batch", data, sizeof(data), &got, &error) == SGPU_OK && got > 0) {
		if (sgpu_write(fd, "batch", data, got, &error)) {
			abort();
		}
	}
}

static int secret_batch(uint64_t size, bool damaged)
{
	int fd = memfd_create("batch", MFD_CLOEXEC), status = 1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		make_secret_batch(fd, size, damaged);
		_exit(0);
	}
	if (fd < 0 || pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
		abort();
	}
	lseek(fd, 0, SEEK_SET);
	return fd;
}

/* Looks through one mapping, in pieces that overlap. */
static int look_through(int memory, uint64_t begin, uint64_t end, const char *line)
{
	static uint8_t piece[1 << 16];
	bool begins[256] = { false };
	int found = 0;
	ssize_t got;

	for (int which = 0; which < NEEDLES; which++) {
		begins[complements[which][0] ^ 0xff] = true;
	}
	for (uint64_t at = begin; at < end; at += sizeof(piece) - NEEDLE) {
		size_t want = end - at < sizeof(piece) ? (size_t)(end - at) : sizeof(piece);

		if (at < (uintptr_t)piece + sizeof(piece) && (uintptr_t)piece < at + want) {
			continue;
		}
		got = pread(memory, piece, want, (off_t)at);
		for (ssize_t i = 0; i + NEEDLE <= got; i++) {
			for (int which = 0; begins[piece[i]] && which < NEEDLES; which++) {
				if (is_needle(piece + i, which)) {
					printf("# %s, at %#llx of %s", names[which],
					       (unsigned long long)at + (size_t)i, line);
					found++;
				}
			}
		}
	}
	memset(piece, 0, sizeof(piece));
	return found;
}

static int count_secrets(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC), found = 0;
	unsigned long long begin, end;
	char line[512];

	if (!maps || memory < 0) {
		abort();
	}
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%llx-%llx rw", &begin, &end) == 2 && strstr(line, " rw")) {
			found += look_through(memory, begin, end, line);
		}
	}
	fclose(maps);
	close(memory);
	return found;
}

static void check_run(uint64_t size, bool damaged)
{
	const int in = secret_batch(size, damaged), out = memfd_create("response", MFD_CLOEXEC);
	const struct sgpu_submission submission = make_submission(&owner, in, out, 0);
	struct sgpu_runner *runner = NULL;
	struct sgpu_run *run = NULL;

	REQUIRE(make_runner(&runner) == SGPU_OK);
	REQUIRE(submit_run(runner, &submission, &run, &error) == SGPU_OK);
	CHECK(wait_run(run, &error) == (damaged ? SGPU_ESEGMENTS : SGPU_OK));
	CHECK(sgpu_device_synchronize(device, &error) ==
	      SGPU_OK); /* a secure context clears behind the run's back */
	CHECK(count_secrets() == 0);
	end_run(&run);
	sgpu_runner_free(&runner);
	close(in);
	close(out);
}

#define NEEDS_PLAIN_PROCESS()                                                                  \
	do {                                                                                   \
		if (UNIT_SANITIZED || strcmp(device_name(), "cpu") != 0) {                     \
			SKIP("the memory of a sanitizer, or of a GPU's driver, is too large"); \
		}                                                                              \
	} while (0)

UNIT_TEST(what_is_there_is_found)
{
	uint8_t secret[NEEDLE];

	NEEDS_PLAIN_PROCESS();
	if (sgpu_random(secret, sizeof(secret), &error)) {
		abort();
	}
	for (int i = 0; i < NEEDLES; i++) {
		learn(i, secret);
	}
	CHECK(count_secrets() >= NEEDLES);
	sgpu_wipe(secret, sizeof(secret));
}

UNIT_TEST(a_runner_keeps_nothing_of_a_batch_that_ended_well)
{
	static const uint64_t sizes[] = { 100, 100000, 3 << 20 };

	NEEDS_PLAIN_PROCESS();
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
		check_run(sizes[i], false);
	}
}

UNIT_TEST(nor_of_one_whose_payload_fails)
{
	NEEDS_PLAIN_PROCESS();
	check_run(100, true);
	check_run(3 << 20, true);
}

static void all_tests(void)
{
	UNIT_RUN(what_is_there_is_found);
	UNIT_RUN(a_runner_keeps_nothing_of_a_batch_that_ended_well);
	UNIT_RUN(nor_of_one_whose_payload_fails);
}

int main(void)
{
	complements = mmap(NULL, NEEDLES * NEEDLE, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	open_device(2);
	if (complements == MAP_FAILED || sgpu_key_generate(SGPU_KEY_OCT, &owner, &error)) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	run_on_all(NULL, all_tests, NULL);
	sgpu_device_close(&device);
	return unit_done();
}
