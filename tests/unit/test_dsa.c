/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs on a work queue of an accelerator, over a portal in ordinary memory: the descriptors'
 * layout, faults, refusals, and a device that lies or does not answer.
 */
#include <stddef.h>
#include <sys/mman.h>

#include "dsa_harness.h"

enum { SIZE = 300000, JOBS = 200 };

static struct sgpu_error error;
static uint8_t from[SIZE], to[SIZE];

static void fill(void)
{
	for (unsigned i = 0; i < SIZE; i++) {
		from[i] = (uint8_t)(i * 7 + i / 256);
		to[i] = 0;
	}
}

/* ---- layout ---- */
UNIT_TEST(a_descriptor_has_the_bytes_that_the_device_reads)
{
	struct sgpu_dsa *dsa = fake_open(4);
	struct sgpu_dsa_job jobs[] = { { .from = from, .to = to, .size = 1000 },
				       { .from = from + 5, .size = 77 } };
	uint8_t bytes[64];
	uint64_t word;
	uint32_t half;

	_Static_assert(sizeof(struct dsa_hw_desc) == 64 &&
			       sizeof(struct dsa_completion_record) == 32,
		       "sizes");
	_Static_assert(offsetof(struct dsa_completion_record, bytes_completed) == 4,
		       "bytes completed");
	_Static_assert(offsetof(struct dsa_completion_record, crc_val) == 16, "CRC");
	fill();
	CHECK(sgpu_dsa_run(dsa, jobs, 2, 1, false, &error) == SGPU_OK);
	memcpy(bytes, &fake->seen[0], sizeof(bytes));
	CHECK(bytes[0] == 0 && bytes[1] == 0 && bytes[2] == 0 &&
	      bytes[3] == 0); /* PASID: the CPU's or the kernel's */
	CHECK(bytes[4] == 0x0c && bytes[5] == 0 && bytes[6] == 0 &&
	      bytes[7] == 3); /* record wanted; memory move */
	memcpy(&word, bytes + 8, 8);
	CHECK(word % 32 == 0 && word == (uintptr_t)&dsa->slots[0].record);
	memcpy(&word, bytes + 16, 8);
	CHECK(word == (uintptr_t)from);
	memcpy(&word, bytes + 24, 8);
	CHECK(word == (uintptr_t)to);
	memcpy(&half, bytes + 32, 4);
	CHECK(half == 1000);
	for (int i = 36; i < 64; i++) {
		CHECK(bytes[i] == 0);
	}
	memcpy(bytes, &fake->seen[1], sizeof(bytes));
	CHECK(bytes[4] == 0x0c && bytes[7] == 0x10); /* CRC generation */
	memcpy(&word, bytes + 24, 8);
	CHECK(word == 0);
	memcpy(&half, bytes + 40, 4);
	CHECK(half == 0); /* the seed */
	fake_close(&dsa);
}

UNIT_TEST(the_cpu_computes_the_crc_of_the_published_vectors)
{
	uint8_t zeros[32] = { 0 }, ones[32], up[32];

	for (int i = 0; i < 32; i++) {
		ones[i] = 0xff;
		up[i] = (uint8_t)i;
	}
	CHECK(sgpu_crc32c(0, "123456789", 9) == 0xe3069283);
	CHECK(sgpu_crc32c(0, zeros, 32) == 0x8a9136aa); /* RFC 3720, B.4 */
	CHECK(sgpu_crc32c(0, ones, 32) == 0x62a8ab43);
	CHECK(sgpu_crc32c(0, up, 32) == 0x46dd794e);
	CHECK(sgpu_crc32c(sgpu_crc32c(0, up, 11), up + 11, 21) == 0x46dd794e);
	CHECK(sgpu_crc32c(0, up, 0) == 0);
	fill();
	for (uint32_t size = 1; size < 70; size++) {
		CHECK(sgpu_crc32c(0, from + size, size) == fake_crc(0, from + size, size));
	}
}

/* ---- what goes well ---- */
UNIT_TEST(many_jobs_of_any_size_are_done_at_every_depth)
{
	static struct sgpu_dsa_job jobs[JOBS];

	for (unsigned depth = 1; depth <= SGPU_DSA_DEPTH_MAX; depth = depth * 2 + 1) {
		struct sgpu_dsa *dsa = fake_open(SGPU_DSA_DEPTH_MAX);

		fill();
		for (unsigned i = 0, at = 0; i < JOBS; i++) {
			uint64_t size = i % 7 == 0 ? 0 : i * 5 % 1400;

			jobs[i] = (struct sgpu_dsa_job){ .from = from + at,
							 .to = i % 3 ? to + at : NULL,
							 .size = size };
			at += (unsigned)size;
		}
		CHECK(sgpu_dsa_run(dsa, jobs, JOBS, depth, false, &error) == SGPU_OK);
		for (unsigned i = 0; i < JOBS; i++) {
			CHECK(jobs[i].done == jobs[i].size);
			CHECK(jobs[i].to
				      ? memcmp(jobs[i].from, jobs[i].to, jobs[i].size) == 0
				      : jobs[i].crc == sgpu_crc32c(0, jobs[i].from, jobs[i].size));
		}
		fake_close(&dsa);
	}
}

UNIT_TEST(a_job_larger_than_a_transfer_takes_several_and_a_crc_goes_on_from_its_seed)
{
	struct sgpu_dsa *dsa = fake_open(4);
	struct sgpu_dsa_job jobs[] = { { .from = from, .to = to, .size = SIZE },
				       { .from = from, .size = SIZE } };

	fill();
	dsa->info.max_transfer = 70000;
	CHECK(sgpu_dsa_run(dsa, jobs, 2, 8, false, &error) == SGPU_OK);
	CHECK(fake->taken == 10 && memcmp(from, to, SIZE) == 0);
	CHECK(jobs[1].crc == sgpu_crc32c(0, from, SIZE));
	fake_close(&dsa);
}

UNIT_TEST(a_dedicated_queue_never_gets_more_than_it_holds)
{
	struct sgpu_dsa *dsa = fake_open(3);
	struct sgpu_dsa_job jobs[20];

	fill();
	for (int i = 0; i < 20; i++) {
		jobs[i] = (struct sgpu_dsa_job){ .from = from + i * 100,
						 .to = to + i * 100,
						 .size = 100 };
	}
	fake->always = (struct order){ .deed = MUTE };
	fake_be_impatient(dsa);
	CHECK(sgpu_dsa_run(dsa, jobs, 20, 128, false, &error) == SGPU_ETIMEOUT);
	CHECK(fake->taken <= 3);
	fake_close(&dsa);
}

UNIT_TEST(umwait_gives_the_same_where_the_cpu_has_it)
{
	struct sgpu_dsa *dsa = fake_open(4);
	struct sgpu_dsa_job job = { .from = from, .to = to, .size = SIZE };
	struct sgpu_dsa_cpu cpu;

	fill();
	sgpu_dsa_cpu_detect(&cpu);
	dsa->info.umwait = cpu.waitpkg; /* without it, asking for it is the same as not asking */
	CHECK(sgpu_dsa_run(dsa, &job, 1, 1, true, &error) == SGPU_OK &&
	      memcmp(from, to, SIZE) == 0);
	fake->orders[1] = (struct order){ .deed = MUTE };
	fake->order_count = 2;
	fake_be_impatient(dsa);
	CHECK(sgpu_dsa_run(dsa, &job, 1, 1, true, &error) == SGPU_ETIMEOUT);
	fake_close(&dsa);
}

UNIT_TEST(movdir64b_puts_a_descriptor_into_the_portal)
{
	struct sgpu_dsa *dsa;
	struct sgpu_dsa_job job = { .from = from, .to = to, .size = SIZE };
	struct sgpu_dsa_cpu cpu;

	sgpu_dsa_cpu_detect(&cpu);
	if (!cpu.movdir64b) {
		SKIP("this CPU does not have MOVDIR64B");
	}
	dsa = fake_open(4);
	dsa->submit = sgpu_dsa_submit_movdir64b;
	fill();
	CHECK(sgpu_dsa_run(dsa, &job, 1, 1, false, &error) == SGPU_OK &&
	      memcmp(from, to, SIZE) == 0);
	fake_close(&dsa);
}

/* ---- a full queue ---- */
UNIT_TEST(a_full_queue_is_asked_again)
{
	struct sgpu_dsa *dsa = fake_open(8);
	static struct sgpu_dsa_job jobs[JOBS];

	fill();
	for (int i = 0; i < JOBS; i++) {
		jobs[i] = (struct sgpu_dsa_job){ .from = from + i * 1000,
						 .to = to + i * 1000,
						 .size = 1000 };
	}
	fake->refusals = 100;
	CHECK(sgpu_dsa_run(dsa, jobs, JOBS, 8, false, &error) == SGPU_OK);
	CHECK(memcmp(from, to, JOBS * 1000) == 0 && fake->refusals == 0);
	fake_close(&dsa);
}

UNIT_TEST(a_queue_that_stays_full_is_left_to_others_and_may_be_tried_again)
{
	struct sgpu_dsa *dsa = fake_open(8);
	struct sgpu_dsa_job jobs[] = { { .from = from, .to = to, .size = 10 },
				       { .from = from, .to = to, .size = 20 } };

	fill();
	fake_be_impatient(dsa);
	fake->refusals = UINT32_MAX;
	CHECK(sgpu_dsa_run(dsa, jobs, 2, 8, false, &error) == SGPU_ERETRY);
	CHECK(strstr(error.text, "wq7.3 stays full") && jobs[0].done == 0 && jobs[1].done == 0);
	fake->refusals = 0;
	fake_be_patient(dsa);
	CHECK(sgpu_dsa_run(dsa, jobs, 2, 8, false, &error) == SGPU_OK && memcmp(from, to, 20) == 0);
	fake_close(&dsa);
}

/* ---- page faults ---- */
UNIT_TEST(a_copy_goes_on_where_a_page_was_missing)
{
	struct sgpu_dsa *dsa = fake_open(4);
	struct sgpu_dsa_job job = { .from = from, .to = to, .size = SIZE };

	fill();
	fake_order((struct order){ .deed = FAULT, .number = 4096 });
	fake_order((struct order){ .deed = FAULT, .number = 0 });
	fake_order((struct order){ .deed = FAULT, .number = 12345 });
	CHECK(sgpu_dsa_run(dsa, &job, 1, 1, false, &error) == SGPU_OK);
	CHECK(job.done == SIZE && memcmp(from, to, SIZE) == 0 && fake->taken == 4);
	CHECK(fake->seen[3].src_addr == (uintptr_t)from + 16441 &&
	      fake->seen[3].dst_addr == (uintptr_t)to + 16441);
	CHECK(fake->seen[3].xfer_size == SIZE - 16441);
	fake_close(&dsa);
}

UNIT_TEST(the_page_that_was_missing_is_made_present)
{
	struct sgpu_dsa *dsa = fake_open(4);
	uint8_t *fresh =
		mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sgpu_dsa_job job = { .from = from, .to = fresh, .size = SIZE };
	unsigned char there[SIZE / 4096 + 1] = { 0 };

	fill();
	fake_order((struct order){ .deed = FAULT, .number = 0 });
	fake->always = (struct order){ .deed = LIE };
	CHECK(sgpu_dsa_run(dsa, &job, 1, 1, false, &error) == SGPU_OK);
	CHECK(mincore(fresh, SIZE, there) == 0 && (there[0] & 1) && (there[SIZE / 4096] & 1));
	munmap(fresh, SIZE);
	fake_close(&dsa);
}

UNIT_TEST(a_crc_begins_again_after_a_fault_and_a_backward_copy_too)
{
	struct sgpu_dsa *dsa = fake_open(4);
	struct sgpu_dsa_job jobs[] = { { .from = from, .size = SIZE },
				       { .from = from, .to = to, .size = SIZE } };

	fill();
	fake_order((struct order){ .deed = FAULT, .number = 8192 });
	fake_order((struct order){ .deed = OBEY });
	fake_order((struct order){ .deed = BACKWARD_FAULT, .number = 8192 });
	CHECK(sgpu_dsa_run(dsa, jobs, 2, 1, false, &error) == SGPU_OK);
	CHECK(jobs[0].crc == sgpu_crc32c(0, from, SIZE) && memcmp(from, to, SIZE) == 0);
	CHECK(fake->seen[1].src_addr == (uintptr_t)from && fake->seen[1].crc_seed == 0);
	CHECK(fake->seen[3].src_addr == (uintptr_t)from && fake->seen[3].xfer_size == SIZE);
	fake_close(&dsa);
}

UNIT_TEST(memory_that_is_not_there_is_an_error_and_no_signal)
{
	struct sgpu_dsa *dsa = fake_open(4);
	uint8_t *none = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sgpu_dsa_job job = { .from = none, .to = to, .size = 8192 };

	fill();
	fake_order((struct order){ .deed = FAULT, .number = 0 });
	CHECK(sgpu_dsa_run(dsa, &job, 1, 1, false, &error) == SGPU_ESYSTEM);
	job.from = from; /* the device is not at fault */
	CHECK(sgpu_dsa_run(dsa, &job, 1, 1, false, &error) == SGPU_OK &&
	      memcmp(from, to, 8192) == 0);
	munmap(none, 8192);
	fake_close(&dsa);
}

/* ---- a hostile device ---- */
static void check_ends(struct order order, bool always, const char *text)
{
	struct sgpu_dsa *dsa = fake_open(4);
	struct sgpu_dsa_job job = { .from = from, .to = to, .size = 5000 };

	fill();
	fake->always = always ? order : (struct order){ .deed = OBEY };
	fake_order(order);
	CHECK(sgpu_dsa_run(dsa, &job, 1, 1, false, &error) == SGPU_EDEVICE);
	CHECK(strstr(error.text, text) != NULL);
	CHECK(job.done <= job.size && fake->stopped);
	CHECK(sgpu_dsa_run(dsa, &job, 1, 1, false, &error) == SGPU_EUNAVAILABLE);
	CHECK(strstr(error.text, text) != NULL && job.done == 0);
	fake_close(&dsa);
}

UNIT_TEST(a_device_that_claims_more_bytes_than_it_got_is_not_used_again)
{
	check_ends((struct order){ .deed = FAULT, .number = 5000 }, false,
		   "claims 5000 of 5000 bytes");
	check_ends((struct order){ .deed = FAULT, .number = 5001 }, false,
		   "claims 5001 of 5000 bytes");
	check_ends((struct order){ .deed = FAULT, .number = UINT32_MAX }, false,
		   "claims 4294967295 of 5000 bytes");
	check_ends((struct order){ .deed = BACKWARD_FAULT, .number = UINT32_MAX }, false,
		   "claims 4294967295");
}

UNIT_TEST(faults_without_end_end)
{
	check_ends((struct order){ .deed = FAULT, .number = 1 }, true, "page faults without end");
}

UNIT_TEST(every_status_is_a_sentence_or_unknown)
{
	check_ends((struct order){ .deed = STATUS, .number = 0x10 }, false,
		   "0x10: the queue does not have the operation");
	check_ends((struct order){ .deed = STATUS, .number = 0x7f }, false,
		   "0x7f: a status that this version");
	check_ends((struct order){ .deed = STATUS, .number = 0x80 }, false,
		   "0x00: an answer without a status");
	check_ends((struct order){ .deed = STATUS, .number = 0x0100 }, false,
		   "0x00: an answer without a status");
	for (unsigned status = 0; status < 256; status++) {
		CHECK(sgpu_dsa_status_text(status)[0] != '\0');
	}
}

UNIT_TEST(a_device_that_lies_about_its_work_does_not_pass_the_proof)
{
	struct sgpu_dsa *dsa = fake_open(4);

	CHECK(sgpu_dsa_prove(dsa, &error) == SGPU_OK);
	fake->order_count = fake->taken + 2;
	fake->orders[fake->taken] = (struct order){ .deed = LIE };
	CHECK(sgpu_dsa_prove(dsa, &error) == SGPU_EDEVICE && strstr(error.text, "wrong copy"));
	fake->order_count = fake->taken + 2;
	fake->orders[fake->taken + 1] = (struct order){ .deed = LIE };
	CHECK(sgpu_dsa_prove(dsa, &error) == SGPU_EDEVICE && strstr(error.text, "wrong CRC"));
	fake_close(&dsa);
}

/* The late copy comes while the queue is stopped, which is before the call returns; nothing comes
 * after that. */
UNIT_TEST(a_device_that_does_not_answer_is_stopped_and_writes_nothing_afterwards)
{
	struct sgpu_dsa *dsa = fake_open(4);
	struct sgpu_dsa_job jobs[12];
	uint8_t *memory = malloc(12 * 1000);

	fill();
	for (int i = 0; i < 12; i++) {
		jobs[i] = (struct sgpu_dsa_job){ .from = from,
						 .to = memory + i * 1000,
						 .size = 1000 };
	}
	fake_be_impatient(dsa);
	fake->order_count = 6;
	fake->orders[5] = (struct order){ .deed = MUTE };
	CHECK(sgpu_dsa_run(dsa, jobs, 12, 4, false, &error) == SGPU_ETIMEOUT);
	CHECK(strstr(error.text, "wq7.3 did not answer") && fake->stopped);
	for (int i = 0; i < 12; i++) {
		CHECK(jobs[i].done == 0 ||
		      (i < 5 && jobs[i].done == 1000 && memcmp(from, jobs[i].to, 1000) == 0));
	}
	memset(memory, 0x77, 12 * 1000); /* what a core does then is not overwritten */
	CHECK(sgpu_dsa_run(dsa, jobs, 12, 4, false, &error) == SGPU_EUNAVAILABLE);
	sgpu_dsa_close(&dsa);
	fake_end();
	for (int i = 0; i < 12 * 1000; i++) {
		CHECK(memory[i] == 0x77);
	}
	free(memory);
}

static void *run_one(void *argument)
{
	static uint8_t own[4][20000];
	struct sgpu_dsa *dsa = *(struct sgpu_dsa **)argument;
	static _Atomic unsigned number;
	uint8_t *mine = own[number++ % 4];

	for (int i = 0; i < 20; i++) {
		struct sgpu_dsa_job job = { .from = from + i, .to = mine, .size = 20000 };

		memset(mine, 0, 20000);
		if (sgpu_dsa_run(dsa, &job, 1, 2, false, NULL) != SGPU_OK ||
		    memcmp(from + i, mine, 20000) != 0) {
			return argument;
		}
	}
	return NULL;
}

UNIT_TEST(threads_take_turns)
{
	struct sgpu_dsa *dsa = fake_open(4);
	pthread_t threads[4];
	void *failed;

	fill();
	for (int i = 0; i < 4; i++) {
		REQUIRE(pthread_create(&threads[i], NULL, run_one, &dsa) == 0);
	}
	for (int i = 0; i < 4; i++) {
		CHECK(pthread_join(threads[i], &failed) == 0 && !failed);
	}
	fake_close(&dsa);
}

int main(void)
{
	UNIT_RUN(a_descriptor_has_the_bytes_that_the_device_reads);
	UNIT_RUN(the_cpu_computes_the_crc_of_the_published_vectors);
	UNIT_RUN(many_jobs_of_any_size_are_done_at_every_depth);
	UNIT_RUN(a_job_larger_than_a_transfer_takes_several_and_a_crc_goes_on_from_its_seed);
	UNIT_RUN(a_dedicated_queue_never_gets_more_than_it_holds);
	UNIT_RUN(umwait_gives_the_same_where_the_cpu_has_it);
	UNIT_RUN(movdir64b_puts_a_descriptor_into_the_portal);
	UNIT_RUN(a_full_queue_is_asked_again);
	UNIT_RUN(a_queue_that_stays_full_is_left_to_others_and_may_be_tried_again);
	UNIT_RUN(a_copy_goes_on_where_a_page_was_missing);
	UNIT_RUN(the_page_that_was_missing_is_made_present);
	UNIT_RUN(a_crc_begins_again_after_a_fault_and_a_backward_copy_too);
	UNIT_RUN(memory_that_is_not_there_is_an_error_and_no_signal);
	UNIT_RUN(a_device_that_claims_more_bytes_than_it_got_is_not_used_again);
	UNIT_RUN(faults_without_end_end);
	UNIT_RUN(every_status_is_a_sentence_or_unknown);
	UNIT_RUN(a_device_that_lies_about_its_work_does_not_pass_the_proof);
	UNIT_RUN(a_device_that_does_not_answer_is_stopped_and_writes_nothing_afterwards);
	UNIT_RUN(threads_take_turns);
	return unit_done();
}
