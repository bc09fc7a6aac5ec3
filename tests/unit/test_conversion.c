/* SPDX-License-Identifier: Apache-2.0
 *
 * The case conversion: its formulas against sums made by hand, and its guest, which may be missing,
 * forbidden, emulated or stuck.
 */
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

/* Between the guest and the kernel: a KVM with private memory, where this machine's has none. */
static int intercepted_ioctl(int fd, unsigned long request, uintptr_t argument);
#define ioctl(fd, request, argument) intercepted_ioctl((fd), (request), (uintptr_t)(argument))

#include "../../tools/sgpu-bench/conversion_formula.c"
#include "../../tools/sgpu-bench/kvm_guest.c"
#undef ioctl

#include "unit.h"

enum { SIZE = 16 * 4096, CALLS_MAX = 8 };

static bool has_private_memory;
static struct {
	struct memory_attributes calls[CALLS_MAX];
	int count;
	uint32_t slot_flags;
	bool was_there; /* at the last call, the shared page had not been given back */
	struct kvm_guest *guest;
} noted;

static int intercepted_ioctl(int fd, unsigned long request, uintptr_t argument)
{
	if (!has_private_memory) {
		return ioctl(fd, request, argument);
	} else if (request == KVM_CHECK_EXTENSION && argument == CAP_MEMORY_ATTRIBUTES) {
		return ATTRIBUTE_PRIVATE;
	} else if (request == KVM_CHECK_EXTENSION && argument == CAP_VM_TYPES) {
		return 0;
	} else if (request == SET_MEMORY_REGION2) {
		struct memory_region region = *(struct memory_region *)argument;

		noted.slot_flags = region.flags;
		region.flags = 0;
		return ioctl(fd, KVM_SET_USER_MEMORY_REGION, &region);
	} else if (request == SET_MEMORY_ATTRIBUTES && noted.count < CALLS_MAX) {
		noted.calls[noted.count++] = *(struct memory_attributes *)argument;
		noted.was_there = noted.guest->shared[0] == 0xa5;
		return 0;
	}
	return ioctl(fd, request, argument);
}

static const struct conversion_costs costs = { .exit_ns = 1000,
					       .flip_ns = 500,
					       .fault_ns = 10,
					       .clear_ns = 3 };

static double model(enum conversion_terms flow, bool to_private, uint64_t pages,
		    uint64_t page_bytes)
{
	const struct conversion_call call = { to_private, pages, page_bytes };

	return conversion_model(flow, &call, &costs);
}

static uint64_t exits(enum conversion_terms flow, uint64_t pages, uint64_t page_bytes)
{
	const struct conversion_call call = { true, pages, page_bytes };

	return conversion_exits(flow, &call);
}

static bool equal(double a, double b)
{
	return a - b < 1e-6 && b - a < 1e-6;
}

UNIT_TEST(snp_leaves_the_guest_once_for_64_entries)
{
	CHECK(exits(CONVERSION_SNP, 1, 4096) == 1);
	CHECK(exits(CONVERSION_SNP, 64, 4096) == 1);
	CHECK(exits(CONVERSION_SNP, 65, 4096) == 2);
	CHECK(exits(CONVERSION_SNP, 512, 4096) == 8);
	CHECK(exits(CONVERSION_SNP, 64, 2 << 20) == 1); /* an entry is of either size */
	CHECK(exits(CONVERSION_SNP, 1, 1 << 30) == 8);	/* there is none of 1 GiB: 512 of 2 MiB */
	CHECK(exits(CONVERSION_SNP_PAPER, 512, 4096) == 0);
}

UNIT_TEST(tdx_leaves_the_guest_twice_for_any_range)
{
	CHECK(exits(CONVERSION_TDX, 1, 4096) == 2);
	CHECK(exits(CONVERSION_TDX, 512, 2 << 20) == 2);
}

UNIT_TEST(a_call_costs_the_sum_of_its_terms)
{
	CHECK(equal(model(CONVERSION_SNP, true, 64, 4096), 500 + 1000 + 640));
	CHECK(equal(model(CONVERSION_SNP, false, 64, 4096), 500 + 1000 + 640));
	CHECK(equal(model(CONVERSION_SNP, true, 65, 4096), 500 + 2000 + 650));
	CHECK(equal(model(CONVERSION_SNP, true, 512, 2 << 20), 500 + 8000 + 5120));
	CHECK(equal(model(CONVERSION_SNP_PAPER, true, 512, 4096), 500));
	CHECK(equal(model(CONVERSION_TDX, false, 64, 4096), 500 + 2000 + 640));
	CHECK(equal(model(CONVERSION_TDX, true, 64, 4096),
		    500 + 2000 + 640 + 192)); /* accepted: cleared */
	CHECK(equal(model(CONVERSION_TDX, true, 1, 1 << 30), 500 + 2000 + 10 + 3));
}

UNIT_TEST(a_guest_is_emulated_if_it_is_ten_times_slower)
{
	CHECK(!kvm_guest_is_emulated(1000, 1000));
	CHECK(!kvm_guest_is_emulated(10009, 1000));
	CHECK(kvm_guest_is_emulated(10010, 1000));
	CHECK(kvm_guest_is_emulated(UINT64_MAX, 1000));
}

/* Opens a device that is none: SGPU_EUNAVAILABLE, with its name, and with nothing left open. */
static void refuse(const char *path, const char *why)
{
	const int next = dup(0);
	struct sgpu_error error = { 0 };
	struct kvm_guest g;

	close(next);
	CHECK(kvm_guest_open(&g, path, SIZE, &error) == SGPU_EUNAVAILABLE);
	CHECK(strstr(error.text, path) && strstr(error.text, why));
	CHECK(fcntl(next, F_GETFD) == -1);
}

UNIT_TEST(without_kvm_there_is_no_guest_and_the_reason_names_the_file)
{
	char path[] = "/tmp/sgpu-kvm-XXXXXX";
	const int file = mkstemp(path);
	const uid_t user = geteuid();

	refuse("/nonexistent/kvm", "No such file");
	refuse("/dev/null", "Inappropriate ioctl");
	REQUIRE(file >= 0 && fchmod(file, 0) == 0);
	if (user != 0 || seteuid(65534) == 0) {
		refuse(path, "Permission denied");
		CHECK(seteuid(user) == 0);
	}
	close(file);
	unlink(path);
}

/* Opens the guest that this machine has; conversions go by the port, which works on every one. */
static bool open_guest(struct kvm_guest *g)
{
	struct sgpu_error error = { 0 };

	if (kvm_guest_open(g, KVM_GUEST_DEVICE, SIZE, &error) != SGPU_OK) {
		printf("# %s\n", error.text);
		return false;
	}
	g->has_hypercall = false;
	return true;
}

UNIT_TEST(the_guest_counts_leaves_and_comes_to_its_end)
{
	struct kvm_guest g;
	uint64_t ns = 0;

	if (!open_guest(&g)) {
		SKIP("no guest can be run");
	}
	CHECK(kvm_guest_run(&g, KVM_GUEST_COUNT, 100, &ns, NULL) == SGPU_OK && ns > 0);
	CHECK(kvm_guest_run(&g, KVM_GUEST_CPUID, 10, &ns, NULL) == SGPU_OK);
	CHECK(kvm_guest_run(&g, KVM_GUEST_PORT, 10, &ns, NULL) == SGPU_OK);
	kvm_guest_close(&g);
}

UNIT_TEST(converted_pages_are_clear_when_the_guest_has_accepted_them)
{
	struct kvm_guest g;
	uint64_t ns = 0;

	if (!open_guest(&g)) {
		SKIP("no guest can be run");
	}
	g.bytes = 4096;
	memset(g.shared, 0xa5, 2 * 4096);
	g.to_private = true;
	CHECK(kvm_guest_run(&g, KVM_GUEST_CONVERT, 4096, &ns, NULL) == SGPU_OK);
	CHECK(g.shared[0] == 0 && g.shared[4095] == 0); /* given back */
	CHECK(g.shared[4096] == 0xa5);			/* not converted */
	memset(g.shared, 0xa5, 4096);
	g.to_private = false;
	CHECK(kvm_guest_run(&g, KVM_GUEST_CONVERT, 2048, &ns, NULL) == SGPU_OK);
	CHECK(g.shared[2047] == 0 && g.shared[2048] == 0xa5); /* cleared by the guest itself */
	kvm_guest_close(&g);
}

UNIT_TEST(attributes_are_set_before_the_old_memory_is_given_back)
{
	struct kvm_guest g;
	uint64_t ns = 0;

	has_private_memory = true;
	memset(&noted, 0, sizeof(noted));
	noted.guest = &g;
	if (!open_guest(&g) || g.private_memory < 0) {
		has_private_memory = false;
		SKIP("KVM has no guest_memfd");
	}
	CHECK(g.has_attributes && noted.slot_flags == HAS_PRIVATE);
	memset(g.shared, 0xa5, 4096);
	g.bytes = 8192;
	g.to_private = true;
	CHECK(kvm_guest_run(&g, KVM_GUEST_CONVERT, 8192, &ns, NULL) == SGPU_OK);
	REQUIRE(noted.count == 1 && noted.was_there);
	CHECK(noted.calls[0].address == PAGES_AT && noted.calls[0].size == 8192);
	CHECK(noted.calls[0].attributes == 8 && noted.calls[0].flags == 0);
	g.to_private = false;
	CHECK(kvm_guest_run(&g, KVM_GUEST_CONVERT, 0, &ns, NULL) == SGPU_OK);
	CHECK(noted.count == 2 && noted.calls[1].attributes == 0);
	has_private_memory = false;
	kvm_guest_close(&g);
}

/* Replaces bytes of the guest's code. */
static bool patch(struct kvm_guest *g, const char old[2], const char new[2])
{
	uint8_t *at = memmem(g->memory, (size_t)(guest_code_end - guest_code), old, 2);

	if (at) {
		memcpy(at, new, 2);
	}
	return at;
}

UNIT_TEST(a_page_that_the_guest_fails_to_clear_is_noticed)
{
	struct kvm_guest g;
	uint64_t ns = 0;

	if (!open_guest(&g)) {
		SKIP("no guest can be run");
	}
	g.bytes = 4096;
	g.to_private = false;
	memset(g.shared, 0xa5, 4096);
	CHECK(patch(&g, "\xf3\xab", "\x90\x90")); /* rep stosl */
	CHECK(kvm_guest_run(&g, KVM_GUEST_CONVERT, 4096, &ns, NULL) == SGPU_EDIFFERS);
	kvm_guest_close(&g);
}

UNIT_TEST(a_conversion_that_nobody_was_asked_for_is_no_figure)
{
	struct sgpu_error error = { 0 };
	struct kvm_guest g;
	uint64_t ns = 0;

	if (!open_guest(&g)) {
		SKIP("no guest can be run");
	}
	g.bytes = 4096;
	g.to_private = true;
	memcpy(g.memory + (guest_request - guest_code), "\x90\x90", 2);
	CHECK(kvm_guest_run(&g, KVM_GUEST_CONVERT, 4096, &ns, &error) == SGPU_EUNAVAILABLE);
	CHECK(strstr(error.text, "hypercall"));
	kvm_guest_close(&g);
}

UNIT_TEST(a_guest_that_hangs_is_stopped_and_runs_again)
{
	struct sgpu_error error = { 0 };
	struct kvm_guest g;
	uint64_t ns = 0;
	uint8_t code[2];

	if (!open_guest(&g)) {
		SKIP("no guest can be run");
	}
	memcpy(code, g.memory, sizeof(code));
	memcpy(g.memory, "\xeb\xfe", sizeof(code)); /* a jump to itself */
	CHECK(kvm_guest_run(&g, KVM_GUEST_COUNT, 1, &ns, &error) == SGPU_EUNAVAILABLE);
	CHECK(strstr(error.text, "hung"));
	memcpy(g.memory, code, sizeof(code));
	CHECK(kvm_guest_run(&g, KVM_GUEST_CPUID, 1, &ns, NULL) == SGPU_OK);
	kvm_guest_close(&g);
}

int main(void)
{
	UNIT_RUN(snp_leaves_the_guest_once_for_64_entries);
	UNIT_RUN(tdx_leaves_the_guest_twice_for_any_range);
	UNIT_RUN(a_call_costs_the_sum_of_its_terms);
	UNIT_RUN(a_guest_is_emulated_if_it_is_ten_times_slower);
	UNIT_RUN(without_kvm_there_is_no_guest_and_the_reason_names_the_file);
	UNIT_RUN(the_guest_counts_leaves_and_comes_to_its_end);
	UNIT_RUN(converted_pages_are_clear_when_the_guest_has_accepted_them);
	UNIT_RUN(attributes_are_set_before_the_old_memory_is_given_back);
	UNIT_RUN(a_page_that_the_guest_fails_to_clear_is_noticed);
	UNIT_RUN(a_conversion_that_nobody_was_asked_for_is_no_figure);
	UNIT_RUN(a_guest_that_hangs_is_stopped_and_runs_again);
	return unit_done();
}
