/* SPDX-License-Identifier: Apache-2.0
 *
 * What only the CUDA device promises: which GPU a selector means, memory that is cleared, host
 * memory, events, keys, words that kernels write. Runs alone: it asks for more memory than there
 * is.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "crypto/crypto.h"
#include "device/device.h"
#include "cuda_harness.h"

/* ---- selection ---- */
static int open_and_close(const char *selector, struct sgpu_device_info *info,
			  struct sgpu_error *error)
{
	struct sgpu_device *other = NULL;
	int code;

	memset(info, 0, sizeof(*info));
	memset(error, 0, sizeof(*error));
	code = sgpu_device_open(selector, NULL, &other, error);
	if (code == SGPU_OK) {
		code = sgpu_device_get_info(other, info, error);
	}
	sgpu_device_close(&other);
	return code;
}

UNIT_TEST(a_gpu_is_selected_by_index_or_uuid)
{
	struct sgpu_device_info info, same;
	struct sgpu_error error;
	char selector[96];
	int i;

	REQUIRE(open_and_close("cuda:0", &info, &error) == SGPU_OK);
	CHECK(strcmp(info.selector, "cuda:0") == 0 && strncmp(info.uuid, "GPU-", 4) == 0 &&
	      strlen(info.uuid) == 40);
	CHECK(info.name[0] && strstr(info.driver, "CUDA ") && info.confidential[0]);
	CHECK(info.opens_on_device && info.pins_host_memory && info.compute_units > 0);
	CHECK(info.memory_total > 0 && info.memory_free <= info.memory_total &&
	      info.piece % SGPU_CHUNK == 0);
	for (i = 0; i < 3; i++) {
		/* Whole, the first group, and in capitals. */
		snprintf(selector, sizeof(selector), "cuda:%.*s", i == 1 ? 12 : 40, info.uuid);
		if (i == 2) {
			for (char *c = selector + 9; *c; c++) {
				*c = *c >= 'a' && *c <= 'f' ? (char)(*c - 32) : *c;
			}
		}
		CHECK(open_and_close(selector, &same, &error) == SGPU_OK &&
		      strcmp(same.uuid, info.uuid) == 0);
	}
	CHECK(open_and_close("cuda:4096", &same, &error) == SGPU_EUNAVAILABLE);
	CHECK(strstr(error.text, "cuda:4096") && strstr(error.text, "there "));
	CHECK(open_and_close("cuda:99999999999999999999999", &same, &error) == SGPU_EUNAVAILABLE);
	CHECK(open_and_close("cuda:GPU-00000000-1111-2222-3333-444444444444", &same, &error) ==
	      SGPU_EUNAVAILABLE);
	CHECK(open_and_close("cuda:GPU-", &same, &error) == SGPU_EUSAGE);
	CHECK(open_and_close("cuda:GPU-x", &same, &error) == SGPU_EUSAGE);
	CHECK(open_and_close("auto", &same, &error) == SGPU_OK &&
	      strncmp(same.selector, "cuda:", 5) == 0);
}

UNIT_TEST(a_task_of_slurm_takes_its_own_gpu)
{
	struct sgpu_device_info info;
	struct sgpu_error error;

	setenv("SLURM_LOCALID", "840", 1); /* a multiple of 1 to 8 */
	CHECK(open_and_close("cuda", &info, &error) == SGPU_OK &&
	      strcmp(info.selector, "cuda:0") == 0);
	setenv("SLURM_LOCALID", "1", 1);
	CHECK(open_and_close("cuda", &info, &error) == SGPU_OK);
	CHECK(strcmp(info.selector,
		     open_and_close("cuda:1", &info, &error) == SGPU_OK ? "cuda:1" : "") == 0 ||
	      strstr(error.text, "there is 1"));
	setenv("SLURM_LOCALID", "x", 1);
	CHECK(open_and_close("cuda", &info, &error) == SGPU_OK &&
	      strcmp(info.selector, "cuda:0") == 0);
	unsetenv("SLURM_LOCALID");
}

/* ---- memory ---- */
UNIT_TEST(memory_is_aligned_apart_and_cleared_when_it_is_freed)
{
	static const uint64_t sizes[] = { 0,	 1,	  4095,		 4096,	  4097,
					  65536, 1 << 20, (1 << 20) + 1, 3 << 20, 9 << 20 };
	sgpu_devptr memory[SGPU_ARRAY_LENGTH(sizes)];
	uint8_t *host = malloc(9 << 20);
	size_t i, k;
	int round;

	REQUIRE(begin());
	for (round = 0; round < 4; round++) {
		for (i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
			REQUIRE(sgpu_device_alloc(device, sizes[i], &memory[i], NULL) == SGPU_OK);
			CHECK(memory[i] != 0 && memory[i] % 4096 == 0);
			for (k = 0; k < i; k++) {
				CHECK(memory[i] >= memory[k] + sizes[k] ||
				      memory[k] >= memory[i] + sizes[i]);
				CHECK(memory[i] != memory[k]);
			}
			/* The driver gives out what the round before filled. */
			CHECK(sgpu_copy_out(stream, host, memory[i], sizes[i], NULL) == SGPU_OK);
			CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK);
			CHECK(round == 0 || all_are(host, sizes[i], 0));
			memset(host, 0xa5, sizes[i]);
			CHECK(sgpu_copy_in(stream, memory[i], host, sizes[i], NULL) == SGPU_OK);
		}
		CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK);
		for (i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
			sgpu_device_free(device, &memory[i], sizes[i]);
		}
	}
	finish();
	free(host);
}

UNIT_TEST(too_much_memory_is_refused_and_the_device_goes_on)
{
	struct sgpu_device_config config = { .memory_limit = 1 << 20 };
	struct sgpu_device_info info;
	struct sgpu_error error;
	sgpu_devptr memory;
	int i;

	REQUIRE(sgpu_device_open("cuda", &config, &device, NULL) == SGPU_OK);
	CHECK(sgpu_device_alloc(device, (1 << 20) + 1, &memory, &error) == SGPU_ENOMEM);
	CHECK(memory == 0 && strstr(error.text, "out of device memory") &&
	      strstr(error.text, "1048577"));
	CHECK(sgpu_device_alloc(device, 1 << 20, &memory, NULL) == SGPU_OK);
	CHECK(sgpu_device_get_info(device, &info, NULL) == SGPU_OK && info.memory_total == 1 << 20);
	CHECK(info.memory_free == 0);
	sgpu_device_close(&device);

	REQUIRE(begin());
	CHECK(sgpu_device_alloc(device, UINT64_MAX, &memory, NULL) == SGPU_ENOMEM);
	CHECK(sgpu_device_alloc(device, (uint64_t)1 << 46, &memory, NULL) == SGPU_ENOMEM);
	/* All of it is more than there is: the context takes its part. */
	REQUIRE(sgpu_device_get_info(device, &info, NULL) == SGPU_OK &&
		info.memory_free < info.memory_total);
	for (i = 0; i < 3; i++) {
		CHECK(sgpu_device_alloc(device, info.memory_total, &memory, &error) ==
			      SGPU_ENOMEM &&
		      memory == 0);
		CHECK(strstr(error.text, "available"));
	}
	CHECK(works());
	finish();
}

UNIT_TEST(many_allocations)
{
	enum { COUNT = 5000 };
	static sgpu_devptr memory[COUNT];
	int i, bad = 0;

	REQUIRE(begin());
	for (i = 0; i < COUNT; i++) {
		bad += sgpu_device_alloc(device, 1 + (uint64_t)(i * 37 % 9000), &memory[i], NULL) !=
		       SGPU_OK;
		bad += memory[i] % 4096 != 0;
	}
	for (i = 0; i < COUNT; i += 2) {
		sgpu_device_free(device, &memory[i], 0);
	}
	for (i = 0; i < COUNT; i += 2) {
		bad += sgpu_device_alloc(device, 1 + (uint64_t)(i * 41 % 9000), &memory[i], NULL) !=
		       SGPU_OK;
	}
	CHECK(bad == 0 && works());
	finish();
}

/* ---- host memory ---- */
UNIT_TEST(host_memory_is_lent_apart_and_cleared_when_it_is_given_back)
{
	enum { COUNT = 60 };
	static const uint64_t sizes[] = { 0, 1, 4096, 5000, 1 << 20, (17 << 20) + 5 };
	uint8_t *memory[COUNT] = { NULL };
	uint64_t size[COUNT];
	struct sgpu_device_info info;
	int i, k, round;
	void *got;

	REQUIRE(begin());
	for (round = 0; round < 200; round++) {
		i = round * 7 % COUNT;
		if (memory[i]) {
			CHECK(all_are(memory[i], size[i], (uint8_t)(i + 1)));
			sgpu_host_free(device, (void **)&memory[i], size[i]);
			CHECK(memory[i] == NULL);
		}
		size[i] = sizes[(unsigned)(round * 5 + i) % SGPU_ARRAY_LENGTH(sizes)];
		REQUIRE(sgpu_host_alloc(device, size[i], &got, NULL) == SGPU_OK);
		memory[i] = got;
		CHECK((uintptr_t)got % 4096 == 0 && all_are(got, size[i], 0));
		memset(got, i + 1, size[i]);
		for (k = 0; k < COUNT; k++) {
			CHECK(k == i || !memory[k] || memory[k] >= memory[i] + size[i] ||
			      memory[i] >= memory[k] + size[k]);
		}
	}
	CHECK(sgpu_host_alloc(device, UINT64_MAX, &got, NULL) == SGPU_ENOMEM && got == NULL);
	CHECK(sgpu_host_alloc(device, (uint64_t)1 << 60, &got, NULL) == SGPU_ENOMEM && got == NULL);
	REQUIRE(sgpu_device_get_info(device, &info, NULL) == SGPU_OK);
	CHECK(info.pins_host_memory); /* what there was is pinned all the same */
	finish();
}

UNIT_TEST(memory_of_the_caller_is_registered_where_the_device_allows_it)
{
	enum { SIZE = 4 << 20 };
	struct sgpu_device_info info;
	struct sgpu_error error = { 0 };
	int fd = memfd_create("region", MFD_CLOEXEC), code;
	uint8_t *write = NULL, *read = NULL, *out = malloc(SIZE);
	sgpu_devptr memory;

	REQUIRE(begin());
	REQUIRE(fd >= 0 && ftruncate(fd, SIZE) == 0);
	write = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	read = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
	REQUIRE(write != MAP_FAILED && read != MAP_FAILED);
	memset(write, 0x77, SIZE);
	REQUIRE(sgpu_device_get_info(device, &info, NULL) == SGPU_OK);
	REQUIRE(sgpu_device_alloc(device, SIZE, &memory, NULL) == SGPU_OK);
	code = sgpu_host_register(device, write, SIZE, &error);
	printf("# registering a memfd: %s\n", code == SGPU_OK ? "done" : error.text);
	CHECK(code == SGPU_OK ? info.registers : code == SGPU_EUNAVAILABLE && error.text[0]);
	if (code == SGPU_OK) {
		CHECK(sgpu_host_register(device, write, SIZE, &error) == SGPU_EUNAVAILABLE);
		CHECK(sgpu_copy_in(stream, memory, write, SIZE, NULL) == SGPU_OK);
		CHECK(sgpu_copy_out(stream, out, memory, SIZE, NULL) == SGPU_OK);
		CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK && all_are(out, SIZE, 0x77));
		sgpu_host_unregister(device, write);
	}
	code = sgpu_host_register(device, read, SIZE, &error);
	printf("# registering a mapping for reading only: %s\n",
	       code == SGPU_OK ? "done" : error.text);
	CHECK(code == SGPU_OK || code == SGPU_EUNAVAILABLE);
	memset(write, 0x78, SIZE);
	CHECK(sgpu_copy_in(stream, memory, read, SIZE, NULL) == SGPU_OK);
	CHECK(sgpu_copy_out(stream, out, memory, SIZE, NULL) == SGPU_OK);
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK && all_are(out, SIZE, 0x78));
	if (code == SGPU_OK) {
		sgpu_host_unregister(device, read);
	}
	CHECK(sgpu_host_register(device, (void *)(uintptr_t)4096, 4096, &error) != SGPU_OK);
	CHECK(works());
	finish();
	munmap(write, SIZE);
	munmap(read, SIZE);
	close(fd);
	free(out);
}

/* ---- events and tasks ---- */
UNIT_TEST(an_event_that_is_polled_finds_the_tasks_before_it_ended)
{
	enum { COUNT = 2000, BYTES = 100000 };
	static struct sgpu_task tasks[COUNT];
	struct sgpu_stream *streams[2];
	struct sgpu_event *events[2];
	sgpu_devptr memory;
	uint64_t before = sgpu_now_ns();
	bool done;
	int bad = 0;

	REQUIRE(begin() && sgpu_stream_create(device, &streams[0], NULL) == SGPU_OK);
	streams[1] = stream;
	REQUIRE(sgpu_device_alloc(device, 2 * BYTES, &memory, NULL) == SGPU_OK);
	for (int i = 0; i < COUNT; i++) {
		bad += sgpu_device_clear(streams[i % 2], memory + i % 2 * BYTES, BYTES,
					 &tasks[i]) != SGPU_OK;
	}
	for (int s = 0; s < 2; s++) {
		REQUIRE(sgpu_event_create(device, &events[s], NULL) == SGPU_OK &&
			sgpu_event_record(streams[s], events[s]) == SGPU_OK);
	}
	for (int s = 1; s >= 0; s--) {
		for (done = false; !done;) {
			REQUIRE(sgpu_event_query(events[s], &done, NULL) == SGPU_OK);
		}
		for (int i = s; i < COUNT; i += 2) {
			bad += tasks[i].code != SGPU_OK || tasks[i].begin_ns < before ||
			       tasks[i].end_ns < tasks[i].begin_ns;
			bad += i >= 2 && tasks[i].begin_ns < tasks[i - 2].end_ns;
		}
		sgpu_event_free(&events[s]);
	}
	CHECK(bad == 0);
	sgpu_stream_free(&streams[0]);
	finish();
}

UNIT_TEST(an_event_outlives_its_stream_which_another_gets)
{
	struct sgpu_stream *streams[2];
	struct sgpu_event *event;
	struct sgpu_task task = { 0 };
	sgpu_devptr memory;
	bool done = false;

	REQUIRE(begin() && sgpu_stream_create(device, &streams[0], NULL) == SGPU_OK);
	REQUIRE(sgpu_device_alloc(device, 1 << 20, &memory, NULL) == SGPU_OK);
	REQUIRE(sgpu_event_create(device, &event, NULL) == SGPU_OK);
	CHECK(sgpu_device_clear(streams[0], memory, 1 << 20, &task) == SGPU_OK);
	CHECK(sgpu_event_record(streams[0], event) == SGPU_OK);
	sgpu_stream_free(&streams[0]);
	CHECK(task.code == SGPU_OK && task.end_ns != 0);
	REQUIRE(sgpu_stream_create(device, &streams[1], NULL) == SGPU_OK);
	task = (struct sgpu_task){ 0 };
	CHECK(sgpu_device_clear(streams[1], memory, 1 << 20, &task) == SGPU_OK);
	CHECK(sgpu_event_query(event, &done, NULL) == SGPU_OK && done);
	CHECK(sgpu_stream_wait(streams[1], event) == SGPU_OK);
	sgpu_stream_free(&streams[1]);
	CHECK(task.code == SGPU_OK && task.end_ns != 0);
	sgpu_event_free(&event);
	finish();
}

/* ---- what a launch is given ---- */
static int (*set_bytes)(uint64_t address, unsigned char value, size_t size, void *native);
static int (*copy_bytes)(void *to, uint64_t from, size_t size, void *native);

static bool find_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *set, *copy;

	set = library ? dlsym(library, "cuMemsetD8Async") : NULL;
	copy = library ? dlsym(library, "cuMemcpyDtoHAsync_v2") : NULL;
	memcpy(&set_bytes, &set, sizeof(set));
	memcpy(&copy_bytes, &copy, sizeof(copy));
	return set && copy;
}

static int use_words(struct sgpu_launch *launch, void *argument)
{
	uint64_t status = (uintptr_t)launch->status, counters = (uintptr_t)launch->counters;
	unsigned *host = argument;
	int failed = 0;

	failed |=
		copy_bytes(host, counters, SGPU_LAUNCH_COUNTERS * sizeof(unsigned), launch->native);
	failed |=
		set_bytes(counters, 0xff, SGPU_LAUNCH_COUNTERS * sizeof(unsigned), launch->native);
	failed |= set_bytes(status, 0xff, 8, launch->native);
	failed |= set_bytes(status + 8, 1, 8, launch->native);
	return failed ? SGPU_EDEVICE : SGPU_OK;
}

UNIT_TEST(a_launch_has_clear_counters_and_its_words_become_the_outcome)
{
	enum { COUNT = 300 };
	static unsigned host[COUNT][SGPU_LAUNCH_COUNTERS];
	static struct sgpu_task tasks[COUNT];
	int i, bad = 0;

	REQUIRE(find_driver() && begin());
	memset(host, 0xee, sizeof(host));
	for (i = 0; i < COUNT; i++) {
		bad += sgpu_device_launch_on(stream, use_words, host[i], NULL, 0, &tasks[i]) !=
		       SGPU_OK;
	}
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK);
	for (i = 0; i < COUNT; i++) {
		bad += tasks[i].code != -1 || tasks[i].actual != 0x0101010101010101u ||
		       !tasks[i].error.text[0];
		bad += !all_are((const uint8_t *)host[i], sizeof(host[i]), 0);
	}
	CHECK(bad == 0);
	finish();
}

/* ---- keys ---- */
UNIT_TEST(a_key_serves_every_stream_at_once_and_many_live_together)
{
	enum { KEYS = 100, SIZE = 3 * SGPU_CHUNK + 5, SEALED = SIZE + 4 * SGPU_TAG_SIZE };
	static struct sgpu_device_key *keys[KEYS];
	static struct sgpu_sealed_keys schedule[KEYS];
	static struct sgpu_task tasks[KEYS];
	struct sgpu_stream *other;
	struct sgpu_aead *aead = NULL;
	sgpu_devptr in, out;
	uint8_t *plain = calloc(1, SIZE), *sealed = malloc(SEALED), *got = malloc(SEALED);
	int i, round, bad = 0;

	REQUIRE(begin() && sgpu_stream_create(device, &other, NULL) == SGPU_OK);
	REQUIRE(sgpu_device_alloc(device, SIZE, &in, NULL) == SGPU_OK &&
		sgpu_device_alloc(device, (uint64_t)SEALED * KEYS, &out, NULL) == SGPU_OK);
	memset(plain, 0x42, SIZE);
	REQUIRE(sgpu_copy_in(stream, in, plain, SIZE, NULL) == SGPU_OK &&
		sgpu_stream_sync(stream, NULL) == SGPU_OK);
	for (round = 0; round < 3; round++) {
		for (i = 0; i < KEYS; i++) {
			memset(&schedule[i], i + round, sizeof(schedule[i]));
			bad += sgpu_device_key_load(stream, &schedule[i], &keys[i], NULL) !=
			       SGPU_OK;
			bad += sgpu_device_seal_chunks(other, keys[i], 0, true, in, SIZE,
						       out + (uint64_t)i * SEALED,
						       &tasks[i]) != SGPU_OK;
		}
		REQUIRE(sgpu_stream_sync(other, NULL) == SGPU_OK);
		for (i = 0; i < KEYS; i++) {
			bad += tasks[i].code != SGPU_OK;
			bad += sgpu_copy_out(stream, got, out + (uint64_t)i * SEALED, SEALED,
					     NULL) != SGPU_OK;
			bad += sgpu_stream_sync(stream, NULL) != SGPU_OK;
			REQUIRE(sgpu_aead_create(NULL, schedule[i].key, &aead, NULL) == SGPU_OK &&
				sgpu_seal_chunks(aead, &schedule[i], 0, true, plain, SIZE,
						 sealed) == SGPU_OK);
			sgpu_aead_free(&aead);
			bad += memcmp(got, sealed, SEALED) != 0;
			sgpu_device_key_free(&keys[i]);
		}
	}
	CHECK(bad == 0);
	sgpu_stream_free(&other);
	finish();
	free(plain);
	free(sealed);
	free(got);
}

int main(void)
{
	CUDA_OR_SKIP();
	UNIT_RUN(a_gpu_is_selected_by_index_or_uuid);
	UNIT_RUN(a_task_of_slurm_takes_its_own_gpu);
	UNIT_RUN(memory_is_aligned_apart_and_cleared_when_it_is_freed);
	UNIT_RUN(too_much_memory_is_refused_and_the_device_goes_on);
	UNIT_RUN(many_allocations);
	UNIT_RUN(host_memory_is_lent_apart_and_cleared_when_it_is_given_back);
	UNIT_RUN(memory_of_the_caller_is_registered_where_the_device_allows_it);
	UNIT_RUN(an_event_that_is_polled_finds_the_tasks_before_it_ended);
	UNIT_RUN(an_event_outlives_its_stream_which_another_gets);
	UNIT_RUN(a_launch_has_clear_counters_and_its_words_become_the_outcome);
	UNIT_RUN(a_key_serves_every_stream_at_once_and_many_live_together);
	return unit_done();
}
