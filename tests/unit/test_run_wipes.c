/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run gives back to the C library's memory: neither plaintext of a HIGH segment nor a key of
 * the batch, whether it ends well, is refused, fails or is cancelled.
 */
#include <malloc.h>
#include <pthread.h>
#include <time.h>

#include <sgpu/seal.h>

#include "run_harness.h"

enum { NEEDLE = 16, PLAINTEXT = 0, BATCH_KEY, OWNER_KEY, SEGMENT_KEY, CHUNK_KEY, NEEDLES };
static const char *const names[NEEDLES] = { "plaintext", "the batch key", "the owner's key",
					    "a segment's key", "the key of its chunks" };
static uint8_t needles[NEEDLES][NEEDLE];
static unsigned found[NEEDLES], freed;
static bool watching;

#if !UNIT_SANITIZED
extern void __libc_free(void *memory);

/* In the place of the C library's: looks through what is given back. */
void free(void *memory)
{
	if (memory && __atomic_load_n(&watching, __ATOMIC_ACQUIRE)) {
		__atomic_fetch_add(&freed, 1, __ATOMIC_RELAXED);
		for (int i = 0; i < NEEDLES; i++) {
			if (memmem(memory, malloc_usable_size(memory), needles[i], NEEDLE)) {
				__atomic_fetch_add(&found[i], 1, __ATOMIC_RELAXED);
			}
		}
	}
	__libc_free(memory);
}
#endif

static void learn(const struct job *job)
{
	uint8_t key[SGPU_KEY_SIZE], context[SGPU_SEGMENT_CONTEXT_MAX];
	struct sgpu_sealed_keys chunks;
	size_t size = 0;

	if (sgpu_batch_segment_key(job->batch, job->key, "scan", NULL, key, context, &size,
				   &error) ||
	    sgpu_sealed_keys_open(key, context, size, job->sealed, &chunks, &error)) {
		abort();
	}
	memcpy(needles[PLAINTEXT], job->scan, NEEDLE);
	memcpy(needles[BATCH_KEY], job->key, NEEDLE);
	memcpy(needles[OWNER_KEY], owner.secret, NEEDLE);
	memcpy(needles[SEGMENT_KEY], key, NEEDLE);
	memcpy(needles[CHUNK_KEY], chunks.key, NEEDLE);
	memset(found, 0, sizeof(found));
	freed = 0;
}

static void watch(bool on)
{
	__atomic_store_n(&watching, on, __ATOMIC_SEQ_CST);
}

static bool nothing_was_left(void)
{
	bool good = freed > 0;

	for (int i = 0; i < NEEDLES; i++) {
		if (found[i]) {
			printf("# %s, %u times\n", names[i], found[i]);
			good = false;
		}
	}
	return good;
}

/* What the test itself gives back without wiping would be found in what takes its place. */
static void wipe_and_free(struct job *job)
{
	sgpu_wipe(job->scan, job->size + 1);
	free_job(job);
}

/* A run of what is in the batch file, and how it is to end. */
static void run_watched(struct job *job, int in, int code)
{
	int out = memfd_create("response", MFD_CLOEXEC);
	const struct sgpu_key key = owner;

	learn(job);
	watch(true);
	int rc = run_with(&key, in, out, 0, NULL);
	watch(false);
	CHECK(rc == code);
	CHECK(nothing_was_left());
	close(out);
	close(in);
	wipe_and_free(job);
}

UNIT_TEST(the_watch_finds_what_was_not_wiped)
{
	struct job job;

	NEEDS_OWN_FREE();
	make_job(&job, 100);
	learn(&job);
	for (int i = 0; i < NEEDLES; i++) {
		uint8_t *memory = malloc(200);

		REQUIRE(memory);
		memcpy(memory + 100, needles[i], NEEDLE);
		__asm__ volatile(""
				 :
				 : "r"(memory)
				 : "memory"); /* stores before a free count as dead otherwise */
		watch(true);
		free(memory);
		watch(false);
		CHECK(found[i] == 1 && freed == (unsigned)i + 1);
		memory = calloc(1, 200); /* the same block, most likely */
		free(memory);
	}
	wipe_and_free(&job);
}

UNIT_TEST(a_run_that_ends_well_gives_back_neither_key_nor_plaintext)
{
	static const uint64_t sizes[] = { 100, 16384, 5 * 16384 + 77, 3 << 20 };

	NEEDS_OWN_FREE();
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
		struct job job;

		make_job(&job, sizes[i]);
		run_watched(&job, sign_and_write(&job), SGPU_OK);
	}
}

UNIT_TEST(nor_does_one_whose_payload_fails)
{
	struct job job;

	NEEDS_OWN_FREE();
	make_job(&job, 5 * 16384);
	job.sealed[job.sealed_size - 1] ^= 1;
	run_watched(&job, sign_and_write(&job), SGPU_ESEGMENTS);
}

UNIT_TEST(nor_does_one_that_is_refused)
{
	struct job job;

	NEEDS_OWN_FREE();
	make_job(&job, 20000);
	if (sgpu_batch_sign(job.batch, job.key, &error)) {
		abort();
	}
	job.batch->mac[0] ^= 1;
	int in = memfd_create("batch", MFD_CLOEXEC);
	write_batch(&job, in);
	lseek(in, 0, SEEK_SET);
	run_watched(&job, in, SGPU_EAUTH);
}

static void *cancel_later(void *run)
{
	const struct timespec while_it_waits = { 0, 200000000 };

	nanosleep(&while_it_waits, NULL);
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

/* Its payloads have arrived, its end never does. */
UNIT_TEST(nor_does_one_that_is_cancelled)
{
	struct job job;
	int ends[2];

	NEEDS_OWN_FREE();
	make_job(&job, 5 * 16384);
	int batch = sign_and_write(&job);
	const off_t size = lseek(batch, 0, SEEK_END) - 1024;
	REQUIRE(pipe2(ends, O_CLOEXEC) == 0 && fcntl(ends[1], F_SETPIPE_SZ, 1 << 20) >= size);
	lseek(batch, 0, SEEK_SET);
	for (off_t done = 0; done < size;) {
		char block[4096];
		const size_t want =
			size - done < (off_t)sizeof(block) ? (size_t)(size - done) : sizeof(block);

		REQUIRE(read(batch, block, want) == (ssize_t)want &&
			write(ends[1], block, want) == (ssize_t)want);
		done += (off_t)want;
	}
	close(batch);
	submitted = cancel_run;
	run_watched(&job, ends[0], SGPU_ECANCELED);
	submitted = NULL;
	pthread_join(canceller, NULL);
	close(ends[1]);
}

static void all_tests(void)
{
	UNIT_RUN(the_watch_finds_what_was_not_wiped);
	UNIT_RUN(a_run_that_ends_well_gives_back_neither_key_nor_plaintext);
	UNIT_RUN(nor_does_one_whose_payload_fails);
	UNIT_RUN(nor_does_one_that_is_refused);
	UNIT_RUN(nor_does_one_that_is_cancelled);
}

int main(void)
{
	open_device(2);
	if (sgpu_key_generate(SGPU_KEY_OCT, &owner, &error)) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	run_on_all(NULL, all_tests, NULL);
	sgpu_device_close(&device);
	return unit_done();
}
