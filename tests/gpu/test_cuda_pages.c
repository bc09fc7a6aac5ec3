/* SPDX-License-Identifier: Apache-2.0
 *
 * Who reaches which page on a GPU. A kernel that reaches for one that it may not have ends CUDA for
 * its process, so each such test is a child, made before this process opens the device. Then what
 * the device says of its code and of itself, and what pages cost. Runs alone: it takes all memory
 * of the device. No threads of its kernels share memory: racecheck has nothing to find.
 */
#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/device.h"
#include "unit.h"

#define SECRET ((uint64_t)0x5ec2e75ec2e7)
#define UNTOUCHED ((uint64_t)0x1111111111111111)

static const char ptx[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
			  ".visible .entry peek(.param .u64 from, .param .u64 to)\n"
			  "{\n"
			  "	.reg .b64 %from, %to, %value;\n"
			  "	ld.param.u64 %from, [from];\n"
			  "	ld.param.u64 %to, [to];\n"
			  "	cvta.to.global.u64 %from, %from;\n"
			  "	cvta.to.global.u64 %to, %to;\n"
			  "	ld.global.u64 %value, [%from];\n"
			  "	st.global.u64 [%to], %value;\n"
			  "	ret;\n"
			  "}\n";

static struct sgpu_device *device;
static struct sgpu_stream *stream;
static struct sgpu_pages_info info;
static struct sgpu_error error;

struct room {
	struct sgpu_space *space;
	sgpu_devptr base;
};

static bool open_all(void)
{
	return sgpu_device_open("cuda", NULL, &device, &error) == SGPU_OK &&
	       sgpu_stream_create(device, &stream, &error) == SGPU_OK &&
	       sgpu_device_pages(device, &info, &error) == SGPU_OK;
}

static void close_all(void)
{
	sgpu_stream_free(&stream);
	sgpu_device_close(&device);
}

static bool make_room(struct room *room, uint64_t pages)
{
	return sgpu_space_create(device, pages * info.small, &room->space, &room->base, &error) ==
		       SGPU_OK &&
	       sgpu_space_access(room->space, true, &error) == SGPU_OK;
}

static bool map_one(struct room *room, uint64_t page, uint32_t frame)
{
	return sgpu_page_map(room->space, page * info.small, &frame, 1, info.small, &error) ==
	       SGPU_OK;
}

static bool put(sgpu_devptr to, uint64_t value)
{
	return sgpu_copy_in(stream, to, &value, sizeof(value), NULL) == SGPU_OK &&
	       sgpu_stream_sync(stream, &error) == SGPU_OK;
}

static bool holds(sgpu_devptr from, uint64_t value)
{
	uint64_t found = ~value;

	return sgpu_copy_out(stream, &found, from, sizeof(found), NULL) == SGPU_OK &&
	       sgpu_stream_sync(stream, &error) == SGPU_OK && found == value;
}

/* ---- children ---- */
/* The page of `room` is at 0, of frame 1, that of `other` at 0, of frame 2; both hold the secret
 * and are reachable. */
typedef bool (*arrange_fn)(struct room *room, struct room *other, sgpu_devptr *target);
enum { DELIVERED = 42, FAULTED = 43, ARRANGED_WRONG = 44, TOLD_WRONG = 45 };

/* What a kernel that reads `target` brings home. */
static int peek(sgpu_devptr target)
{
	static const struct sgpu_module_shape shape = { .grid = { 1, 1, 1 }, .block = { 1, 1, 1 } };
	struct sgpu_device_module *module = NULL;
	struct sgpu_task task = { 0 }, copied = { 0 };
	uint64_t value = UNTOUCHED;
	sgpu_devptr to;
	void *args[2] = { &target, &to };
	const size_t sizes[2] = { 8, 8 };
	int synced;

	if (sgpu_device_alloc(device, 8, &to, &error) != SGPU_OK ||
	    sgpu_device_module_load(device, ptx, sizeof(ptx) - 1, &module, &error) != SGPU_OK ||
	    sgpu_device_module_launch_on(stream, module, "peek", &shape, args, sizes, 2, NULL,
					 &task) != SGPU_OK) {
		return ARRANGED_WRONG;
	}
	synced = sgpu_stream_sync(stream, &error);
	if (synced == SGPU_OK && task.code == SGPU_OK) {
		return holds(to, SECRET) ? DELIVERED : TOLD_WRONG;
	}
	printf("# the kernel's end: %s\n", task.error.text);
	/* A device that met a fault gives nothing out any more. */
	if (task.code != SGPU_EDEVICE || synced != SGPU_EDEVICE ||
	    sgpu_copy_out(stream, &value, to, sizeof(value), &copied) != SGPU_EDEVICE ||
	    value != UNTOUCHED) {
		return TOLD_WRONG;
	}
	sgpu_device_module_free(&module);
	return FAULTED;
}

static int in_child(arrange_fn arrange)
{
	struct room room, other;
	sgpu_devptr target = 0;
	int status = 0, result = ARRANGED_WRONG;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		if (!open_all()) {
			_exit(77);
		}
		if (make_room(&room, 8) && make_room(&other, 8) && map_one(&room, 0, 1) &&
		    map_one(&other, 0, 2) && put(room.base, SECRET) && put(other.base, SECRET) &&
		    arrange(&room, &other, &target)) {
			result = peek(target);
		} else {
			printf("# %s\n", error.text);
		}
		close_all(); /* also after a fault, and with spaces in it */
		fflush(stdout);
		_exit(result);
	}
	if (child <= 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
		return -1;
	}
	return WEXITSTATUS(status);
}

static bool own_page(struct room *room, struct room *other, sgpu_devptr *target)
{
	*target = room->base;
	return sgpu_space_access(other->space, false, &error) == SGPU_OK;
}

static bool inactive(struct room *room, struct room *other, sgpu_devptr *target)
{
	(void)room;
	*target = other->base;
	return sgpu_space_access(other->space, false, &error) == SGPU_OK;
}

static bool active_again(struct room *room, struct room *other, sgpu_devptr *target)
{
	return inactive(room, other, target) &&
	       sgpu_space_access(other->space, true, &error) == SGPU_OK;
}

static bool unmapped(struct room *room, struct room *other, sgpu_devptr *target)
{
	(void)room;
	*target = other->base;
	return sgpu_page_unmap(other->space, 0, info.small, &error) == SGPU_OK;
}

static bool never_mapped(struct room *room, struct room *other, sgpu_devptr *target)
{
	(void)other;
	*target = room->base + info.small;
	return true;
}

/* The frame has gone to a space that is not reachable. */
static bool moved_away(struct room *room, struct room *other, sgpu_devptr *target)
{
	*target = other->base + info.small;
	return sgpu_space_access(other->space, false, &error) == SGPU_OK &&
	       sgpu_page_unmap(room->space, 0, info.small, &error) == SGPU_OK &&
	       map_one(other, 1, 1);
}

static bool moved_here(struct room *room, struct room *other, sgpu_devptr *target)
{
	*target = room->base + 3 * info.small;
	return sgpu_page_unmap(other->space, 0, info.small, &error) == SGPU_OK &&
	       map_one(room, 3, 2);
}

static bool space_is_gone(struct room *room, struct room *other, sgpu_devptr *target)
{
	(void)room;
	*target = other->base;
	sgpu_space_free(&other->space);
	return true;
}

UNIT_TEST(a_kernel_reads_its_own_pages)
{
	CHECK(in_child(own_page) == DELIVERED);
	CHECK(in_child(active_again) == DELIVERED);
	CHECK(in_child(moved_here) == DELIVERED);
}

static void must_fault(arrange_fn arrange)
{
	if (getenv("SGPU_TEST_SMALL")) {
		SKIP("a checker would count the fault as its own find");
	}
	CHECK(in_child(arrange) == FAULTED);
}

UNIT_TEST(a_kernel_does_not_read_a_space_without_access)
{
	must_fault(inactive);
}

UNIT_TEST(a_kernel_does_not_read_an_unmapped_page)
{
	must_fault(unmapped);
}

UNIT_TEST(a_kernel_does_not_read_what_was_never_mapped)
{
	must_fault(never_mapped);
}

UNIT_TEST(a_kernel_does_not_read_a_page_mapped_without_access)
{
	must_fault(moved_away);
}

UNIT_TEST(a_kernel_does_not_read_a_space_that_is_gone)
{
	must_fault(space_is_gone);
}

/* ---- what is left ---- */
UNIT_TEST(pages_are_zero_for_whoever_comes_next)
{
	uint32_t each, frames[4], i;
	struct room room;
	int round;

	for (round = 0; round < 2; round++) {
		REQUIRE(open_all() && make_room(&room, 64));
		each = (uint32_t)(info.big / info.small);
		for (i = 0; i < 4; i++) {
			frames[i] = i;
		}
		REQUIRE(sgpu_page_map(room.space, 0, frames, 4, info.small, &error) == SGPU_OK);
		for (i = 0; i < 4; i++) {
			CHECK(holds(room.base + i * info.small, 0) &&
			      holds(room.base + (i + 1) * info.small - 8, 0));
			CHECK(put(room.base + i * info.small, SECRET) &&
			      put(room.base + (i + 1) * info.small - 8, SECRET));
		}
		CHECK(sgpu_page_unmap(room.space, 0, 4 * info.small, &error) == SGPU_OK);
		/* The same frames as a big page: other memory. */
		REQUIRE(sgpu_page_map(room.space, info.big, frames, 1, info.big, &error) ==
			SGPU_OK);
		for (i = 0; i < each; i++) {
			CHECK(holds(room.base + info.big + i * info.small, 0));
		}
		CHECK(put(room.base + 2 * info.big - 8, SECRET));
		CHECK(sgpu_page_unmap(room.space, info.big, info.big, &error) == SGPU_OK);
		REQUIRE(sgpu_page_map(room.space, 0, (const uint32_t[]){ each - 1 }, 1, info.small,
				      &error) == SGPU_OK);
		CHECK(holds(room.base, 0) && holds(room.base + info.small - 8, 0) &&
		      put(room.base, SECRET));
		close_all();
	}
}

UNIT_TEST(all_memory_can_be_pages)
{
	uint32_t each, i, count, *frames;
	struct room room;

	if (getenv("SGPU_TEST_SMALL")) {
		SKIP("it takes all memory, and under a checker files run beside one another");
	}
	REQUIRE(open_all());
	each = (uint32_t)(info.big / info.small);
	count = (uint32_t)(info.total / info.big);
	frames = calloc(count, sizeof(*frames));
	REQUIRE(frames && make_room(&room, (uint64_t)count * each));
	for (i = 0; i < count; i++) {
		frames[i] = i * each;
	}
	CHECK(sgpu_page_map(room.space, 0, frames, count, info.big, &error) == SGPU_OK);
	printf("# %llu MiB in %u pages of %llu MiB\n", (unsigned long long)(info.total >> 20),
	       count, (unsigned long long)(info.big >> 20));
	for (i = 0; i < count; i++) {
		CHECK(put(room.base + i * info.big, i));
	}
	for (i = 0; i < count; i++) {
		CHECK(holds(room.base + i * info.big, i));
	}
	free(frames);
	close_all();
}

/* ---- what the device says of itself ---- */
UNIT_TEST(code_in_memory_is_that_of_the_file)
{
	struct sgpu_device_code list[SGPU_DEVICE_CODE_MAX], file;
	char program[PATH_MAX], path[PATH_MAX + 64], hex[65];
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);

	REQUIRE(length > 0 && open_all());
	program[length] = '\0';
	*strrchr(program, '/') = '\0';
	snprintf(path, sizeof(path), "%s/../lib/sgpu/sgpu-cuda.so", program);
	REQUIRE(sgpu_device_code_digests(device, list, &error) == 1);
	CHECK(sgpu_device_code_of_file(path, &file, &error) == SGPU_OK);
	CHECK(strcmp(list[0].name, file.name) == 0 && list[0].size == file.size && file.size > 0);
	CHECK(memcmp(list[0].digest, file.digest, sizeof(file.digest)) == 0);
	sgpu_hex_encode(file.digest, sizeof(file.digest), hex);
	printf("# %s, %llu bytes: %s\n", file.name, (unsigned long long)file.size, hex);
	close_all();
}

UNIT_TEST(a_report_comes_in_confidential_computing_mode_alone)
{
	struct sgpu_device_evidence evidence;
	struct sgpu_device_info about;
	uint8_t nonce[32] = { 1, 2, 3 };
	int code;

	REQUIRE(open_all() && sgpu_device_get_info(device, &about, &error) == SGPU_OK);
	printf("# VBIOS '%s'\n", about.vbios);
	code = sgpu_device_get_evidence(device, nonce, &evidence, &error);
	if (strcmp(about.confidential, "on") == 0) {
		CHECK(code == SGPU_OK && evidence.report_size > 32 && evidence.chain_size > 0);
		CHECK(code != SGPU_OK || strstr((char *)evidence.chain, "BEGIN CERTIFICATE"));
	} else if (strcmp(about.confidential, "off") == 0) {
		printf("# %s\n", error.text);
		CHECK(code == SGPU_EUNAVAILABLE && error.text[0] && !evidence.report &&
		      !evidence.chain);
	}
	sgpu_device_evidence_clear(&evidence);
	close_all();
}

/* ---- what it costs ---- */
static double since(uint64_t begin)
{
	return (double)(sgpu_now_ns() - begin) / 1e3;
}

static void time_pages(const char *what, uint64_t page_size, uint32_t count)
{
	double first, again, off, on, unmapped_in;
	uint32_t frames[64], each = (uint32_t)(page_size / info.small), i;
	struct room room;
	uint64_t begin;
	int bad = 0;

	REQUIRE(make_room(&room, (uint64_t)count * each));
	for (i = 0; i < count; i++) {
		frames[i] = (i + 1) * each + (uint32_t)(info.big / info.small) * 8;
	}
	begin = sgpu_now_ns();
	bad += sgpu_page_map(room.space, 0, frames, count, page_size, &error) != SGPU_OK;
	first = since(begin);
	begin = sgpu_now_ns();
	bad += sgpu_page_unmap(room.space, 0, count * page_size, &error) != SGPU_OK;
	unmapped_in = since(begin);
	begin = sgpu_now_ns();
	bad += sgpu_page_map(room.space, 0, frames, count, page_size, &error) != SGPU_OK;
	again = since(begin);
	begin = sgpu_now_ns();
	bad += sgpu_space_access(room.space, false, &error) != SGPU_OK;
	off = since(begin);
	begin = sgpu_now_ns();
	bad += sgpu_space_access(room.space, true, &error) != SGPU_OK;
	on = since(begin);
	CHECK(bad == 0);
	printf("# %u %s: first map %.0f us, unmap %.0f us, map again %.0f us, access off %.0f us, "
	       "on %.0f us\n",
	       count, what, first, unmapped_in, again, off, on);
	sgpu_space_free(&room.space);
}

UNIT_TEST(figures)
{
	REQUIRE(open_all());
	time_pages("small page", info.small, 1);
	time_pages("small pages", info.small, 8);
	time_pages("small pages", info.small, 64);
	time_pages("big page", info.big, 1);
	time_pages("big pages", info.big, 8);
	close_all();
}

int main(void)
{
	int there = in_child(own_page);

	if (there == 77) {
		printf("1..0 # SKIP there is no GPU that maps pages\n");
		return 0;
	}
	UNIT_RUN(a_kernel_reads_its_own_pages);
	UNIT_RUN(a_kernel_does_not_read_a_space_without_access);
	UNIT_RUN(a_kernel_does_not_read_an_unmapped_page);
	UNIT_RUN(a_kernel_does_not_read_what_was_never_mapped);
	UNIT_RUN(a_kernel_does_not_read_a_page_mapped_without_access);
	UNIT_RUN(a_kernel_does_not_read_a_space_that_is_gone);
	UNIT_RUN(pages_are_zero_for_whoever_comes_next);
	UNIT_RUN(all_memory_can_be_pages);
	UNIT_RUN(code_in_memory_is_that_of_the_file);
	UNIT_RUN(a_report_comes_in_confidential_computing_mode_alone);
	UNIT_RUN(figures);
	return unit_done();
}
