/* SPDX-License-Identifier: Apache-2.0
 *
 * Secure copies, measures of device memory, and modules that are loaded by their measure: on a
 * device whose copies may be seen and changed on the way, and whose modules are pretended.
 */
#include "crypto/crypto.h"
#include "channel_check.h"
#include <pthread.h>
#include <stdatomic.h>

#include "fake_backend.h"
#include "secure_harness.h"

static struct sgpu_secure *context;
static struct sgpu_stream *stream;
static struct fake_backend fake;
static const struct sgpu_device_backend *real;

/* ---- a bus that somebody listens on ---- */
static uint8_t needle[64];
static int seen, flip_in, flip_there;
static size_t flip_at;
static pthread_mutex_t bus = PTHREAD_MUTEX_INITIALIZER;

static void look_for_plaintext(const uint8_t *data, uint64_t size)
{
	pthread_mutex_lock(&bus);
	seen += memmem(data, size, needle, sizeof(needle)) != NULL;
	pthread_mutex_unlock(&bus);
}

static int copy_in(struct sgpu_stream *on, const struct sgpu_work *work)
{
	uint8_t *changed = (uint8_t *)(uintptr_t)work->from;
	int rc;

	look_for_plaintext(work->from, work->size);
	if (!flip_in) {
		return real->stream->enqueue(on, work, 1);
	}
	changed[work->size / 2] ^= 1;
	rc = real->stream->enqueue(on, work, 1);
	flip_in = 0;
	return real->stream->sync(on, NULL) == SGPU_OK ? rc : SGPU_EDEVICE;
}

/* By copies: what a GPU has at an address the processor cannot reach. */
static void flip_on_device(struct sgpu_stream *on, sgpu_devptr at)
{
	uint8_t byte = 0;
	const struct sgpu_work out = {
		.kind = SGPU_WORK_COPY_OUT, .in = at, .to = &byte, .size = 1
	};
	const struct sgpu_work in = {
		.kind = SGPU_WORK_COPY_IN, .out = at, .from = &byte, .size = 1
	};

	CHECK(real->stream->enqueue(on, &out, 1) == SGPU_OK &&
	      real->stream->sync(on, NULL) == SGPU_OK);
	byte ^= 1;
	CHECK(real->stream->enqueue(on, &in, 1) == SGPU_OK &&
	      real->stream->sync(on, NULL) == SGPU_OK);
}

/* Alters device memory in place, before it is measured. */
static int enqueue_one(struct sgpu_stream *on, const struct sgpu_work *work)
{
	/* Kernels of the CPU device open what goes there where it lies. */
	if (work->kind == SGPU_WORK_COPY_IN || work->kind == SGPU_WORK_OPEN_FROM) {
		return copy_in(on, work);
	}
	if (work->kind == SGPU_WORK_MEASURE && flip_there) {
		flip_on_device(on, work->in + flip_at);
	}
	return real->stream->enqueue(on, work, 1);
}
FAKE_ENQUEUE(enqueue, enqueue_one)

/* ---- modules ---- */
struct sgpu_device_module {
	struct sgpu_device_object object;
};

static int loads, freed, launches;
static uint8_t loaded_digest[SGPU_KT128_SIZE], argument_seen[24];

static int module_load(struct sgpu_device *on, const void *image, size_t size,
		       struct sgpu_device_module **module, struct sgpu_error *why)
{
	(void)on;
	(void)why;
	sgpu_measure_pages(image, size, NULL, loaded_digest);
	*module = calloc(1, sizeof(**module));
	fake_backend_give(*module, &fake);
	loads++;
	return SGPU_OK;
}

static void module_free(struct sgpu_device_module *module)
{
	freed++;
	free(module);
}

static int start_function(struct sgpu_stream *on, struct sgpu_device_module *module,
			  const char *function, const struct sgpu_module_shape *shape,
			  void *const *args, const size_t *sizes, int count, struct sgpu_task *task)
{
	(void)on;
	(void)module;
	(void)task;
	launches += !strcmp(function, "f") && shape->grid[0] == 3 && shape->block[2] == 5 &&
		    count == 3 && sizes[0] == 8 && sizes[1] == 3 && sizes[2] == 8;
	memcpy(argument_seen, args[0], 8);
	memcpy(argument_seen + 8, args[1], 3);
	memcpy(argument_seen + 16, args[2], 8);
	return SGPU_OK;
}

static struct sgpu_device_range range_seen;
static uint64_t written_seen;
static int target_seen[3];

static int module_launch(struct sgpu_stream *on, struct sgpu_device_module *module,
			 const char *function, const struct sgpu_module_shape *shape,
			 void *const *args, const size_t *sizes, int count,
			 const struct sgpu_module_memory *memory, struct sgpu_task *task)
{
	range_seen = memory->ranges[0];
	written_seen = memory->written;
	memcpy(target_seen, memory->target, sizeof(target_seen));
	return memory->count != 1
		       ? SGPU_EDEVICE
		       : start_function(on, module, function, shape, args, sizes, count, task);
}

static void listen_on_the_bus(void)
{
	struct sgpu_device_object *object = (struct sgpu_device_object *)(void *)inner;

	real = object->backend;
	fake_backend_copy(&fake, real);
	fake.stream.enqueue = enqueue;
	fake.module.load = module_load;
	fake.module.free = module_free;
	fake.module.launch = module_launch;
	object->backend = &fake.table;
}

/* Streams of the device go through the table, too. */
static int stream_create(struct sgpu_device *on, struct sgpu_stream **made, struct sgpu_error *why)
{
	int rc = real->stream->create(on, made, why);

	if (rc == SGPU_OK) {
		fake_backend_give(*made, &fake);
	}
	return rc;
}

/* ---- copies ---- */
static void copy_of(uint64_t size)
{
	uint8_t *data = malloc(size + 64), *back = malloc(size + 1);
	sgpu_devptr memory = 0;

	fill(data, size, (unsigned)size);
	for (uint64_t at = 0; at + 64 <= size; at += 7777) {
		memcpy(data + at, needle, 64);
	}
	REQUIRE(sgpu_secure_malloc(context, size, &memory, &error) == SGPU_OK);
	CHECK(sgpu_secure_memcpy(context, data, memory, size, &error) == SGPU_OK);
	CHECK(seen == 0);
	CHECK(size == 0 || get(stream, back, memory, size) == SGPU_OK);
	CHECK(!memcmp(data, back, size));
	sgpu_secure_free(context, &memory);
	free(data);
	free(back);
}

UNIT_TEST(copies_of_any_size_arrive_and_pass_as_ciphertext)
{
	static const uint64_t sizes[] = { 0,	   1,
					  63,	   16383,
					  16384,   16385,
					  300000,  (2 << 20) - 1,
					  2 << 20, (2 << 20) + 1,
					  4 << 20, (7 << 20) + 12345 };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
		copy_of(sizes[i]);
	}
}

UNIT_TEST(the_one_who_listens_would_see_a_plain_copy)
{
	sgpu_devptr memory = 0;

	REQUIRE(sgpu_secure_malloc(context, 1000, &memory, &error) == SGPU_OK);
	CHECK(put(stream, memory, needle, sizeof(needle)) == SGPU_OK && seen == 1);
	seen = 0;
	sgpu_secure_free(context, &memory);
}

UNIT_TEST(a_copy_that_is_altered_on_its_way_is_refused)
{
	uint64_t size = (5 << 20) + 3;
	uint8_t *data = malloc(size), *back = malloc(size);
	sgpu_devptr memory = 0;

	fill(data, size, 4);
	REQUIRE(sgpu_secure_malloc(context, size, &memory, &error) == SGPU_OK);
	flip_in = 1;
	CHECK(sgpu_secure_memcpy(context, data, memory, size, &error) == SGPU_EAUTH);
	CHECK(strstr(error.text, "does not verify"));
	CHECK(get(stream, back, memory, size) == SGPU_OK && all_zero(back, size));
	CHECK(sgpu_secure_memcpy(context, data, memory, size, &error) == SGPU_OK);
	CHECK(get(stream, back, memory, size) == SGPU_OK && !memcmp(data, back, size));
	CHECK(sgpu_secure_memcpy(context, data, memory + 1, size, &error) == SGPU_EUSAGE);
	sgpu_secure_free(context, &memory);
	free(data);
	free(back);
}

/* ---- measures ---- */
UNIT_TEST(a_measure_is_of_what_lies_on_the_device)
{
	static uint8_t data[100000];
	uint8_t here[SGPU_KT128_SIZE], there[SGPU_KT128_SIZE], keyed[SGPU_KT128_SIZE];
	sgpu_devptr memory = 0;

	fill(data, sizeof(data), 6);
	REQUIRE(sgpu_secure_malloc(context, sizeof(data), &memory, &error) == SGPU_OK);
	CHECK(sgpu_secure_memcpy(context, data, memory, sizeof(data), &error) == SGPU_OK);
	CHECK(sgpu_secure_measure(context, memory + 3, 9000, false, there, &error) == SGPU_OK);
	sgpu_measure_pages(data + 3, 9000, NULL, here);
	CHECK(!memcmp(here, there, sizeof(here)));
	CHECK(sgpu_secure_measure(context, memory + 3, 9000, true, keyed, &error) == SGPU_OK);
	CHECK(memcmp(keyed, there, sizeof(keyed)) != 0);
	CHECK(sgpu_secure_measure(context, memory, sizeof(data) + 1, false, there, &error) ==
	      SGPU_EUSAGE);
	sgpu_secure_free(context, &memory);
}

UNIT_TEST(a_module_is_loaded_by_its_measure_alone)
{
	struct sgpu_device *device = sgpu_secure_device(context);
	static uint8_t image[50000];
	uint8_t digest[SGPU_KT128_SIZE];
	struct sgpu_device_module *module = NULL;

	fill(image, sizeof(image), 8);
	sgpu_measure_pages(image, sizeof(image), NULL, digest);
	digest[31] ^= 1;
	CHECK(sgpu_secure_module_load(context, image, sizeof(image), digest, &module, &error) ==
	      SGPU_EPOLICY);
	CHECK(!module && loads == 0);
	digest[31] ^= 1;
	CHECK(sgpu_device_module_load(device, image, sizeof(image), &module, &error) ==
		      SGPU_EPOLICY &&
	      loads == 0);
	CHECK(sgpu_secure_module_load(context, image, sizeof(image), digest, &module, &error) ==
	      SGPU_OK);
	CHECK(loads == 1 && !memcmp(loaded_digest, digest, sizeof(digest)));
	sgpu_device_module_free(&module);
	CHECK(freed == 1 && !module && seen == 0);
}

/* Both copies are compared: the one that is measured, and the one that the driver is given. */
UNIT_TEST(a_module_is_not_loaded_when_one_of_its_copies_differs)
{
	static uint8_t image[50000];
	uint8_t digest_of_it[SGPU_KT128_SIZE], other[SGPU_KT128_SIZE];
	struct sgpu_device_module *module = NULL;
	int before = loads;

	fill(image, sizeof(image), 9);
	sgpu_measure_pages(image, sizeof(image), NULL, digest_of_it);
	/* The measures with and without the change begin alike. */
	flip_at = sizeof(image);
	do {
		image[--flip_at] ^= 1;
		sgpu_measure_pages(image, sizeof(image), NULL, other);
		image[flip_at] ^= 1;
	} while (other[0] != digest_of_it[0]);
	flip_there = 1; /* the device's alone */
	CHECK(sgpu_secure_module_load(context, image, sizeof(image), digest_of_it, &module,
				      &error) == SGPU_EPOLICY);
	/* the host's alone: the device's is flipped back before it is measured */
	image[flip_at] ^= 1;
	CHECK(sgpu_secure_module_load(context, image, sizeof(image), digest_of_it, &module,
				      &error) == SGPU_EPOLICY);
	CHECK(!module && loads == before);
	flip_there = 0;
	image[flip_at] ^= 1;
	CHECK(sgpu_secure_module_load(context, image, sizeof(image), digest_of_it, &module,
				      &error) == SGPU_OK);
	sgpu_device_module_free(&module);
}

UNIT_TEST(a_module_says_what_it_touches)
{
	static const uint8_t image[8] = { 1 };
	struct sgpu_module_shape shape = { .grid = { 3, 1, 1 }, .block = { 1, 1, 5 } };
	uint8_t digest[SGPU_KT128_SIZE], expected[24] = { 0 };
	uint64_t first = 0x1122334455667788, third = 99;
	void *args[3] = { &first, (void *)(uintptr_t) "abc", &third };
	size_t sizes[3] = { 8, 3, 8 };
	struct sgpu_device_range range = { 0, 1000 };
	const int target[3] = { -1, -1, 0 };
	const struct sgpu_module_memory memory = { &range, 1, 1, target };
	const struct sgpu_module_memory many = { &range, SGPU_MODULE_RANGES_MAX + 1, 1, target };
	struct sgpu_device_module *module = NULL;
	struct sgpu_task task = { 0 };

	sgpu_measure_pages(image, sizeof(image), NULL, digest);
	REQUIRE(sgpu_secure_module_load(context, image, sizeof(image), digest, &module, &error) ==
		SGPU_OK);
	REQUIRE(sgpu_secure_malloc(context, 1000, &range.address, &error) == SGPU_OK);
	CHECK(sgpu_device_module_launch_on(stream, module, "f", &shape, args, sizes, 3, &memory,
					   &task) == SGPU_OK);
	memcpy(expected, &first, 8);
	memcpy(expected + 8, "abc", 3);
	memcpy(expected + 16, &third, 8);
	CHECK(launches == 1 && !memcmp(argument_seen, expected, sizeof(expected)));
	CHECK(range_seen.address == range.address && range_seen.size == 1000 && written_seen == 1);
	CHECK(!memcmp(target_seen, target, sizeof(target)));
	range.size = 1001;
	CHECK(sgpu_device_module_launch_on(stream, module, "f", &shape, args, sizes, 3, &memory,
					   &task) == SGPU_EUSAGE);
	range.size = 10;
	CHECK(sgpu_device_module_launch_on(stream, module, "f", &shape, args, sizes, 3, &many,
					   &task) == SGPU_EUSAGE);
	CHECK(sgpu_device_module_launch_on(stream, module, "f", &shape, args, sizes, 3, NULL,
					   &task) == SGPU_EPOLICY);
	CHECK(launches == 1 && strstr(task.error.text, "ranges") != NULL);
	sgpu_device_module_free(&module);
	sgpu_secure_free(context, &range.address);
}

int main(void)
{
	DEVICE_OR_SKIP();
	memset(needle, 0xd7, sizeof(needle));
	if (!open_inner()) {
		printf("Bail out! no pages\n");
		return 1;
	}
	listen_on_the_bus();
	fake.stream.create = stream_create;
	if (!(context = make_context(NULL)) ||
	    sgpu_stream_create(sgpu_secure_device(context), &stream, &error)) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	UNIT_RUN(copies_of_any_size_arrive_and_pass_as_ciphertext);
	UNIT_RUN(the_one_who_listens_would_see_a_plain_copy);
	UNIT_RUN(a_copy_that_is_altered_on_its_way_is_refused);
	UNIT_RUN(a_measure_is_of_what_lies_on_the_device);
	UNIT_RUN(a_module_is_loaded_by_its_measure_alone);
	UNIT_RUN(a_module_is_not_loaded_when_one_of_its_copies_differs);
	UNIT_RUN(a_module_says_what_it_touches);
	sgpu_stream_free(&stream);
	sgpu_secure_destroy(&context);
	((struct sgpu_device_object *)(void *)inner)->backend = real;
	sgpu_device_close(&inner);
	return unit_done();
}
