/* SPDX-License-Identifier: Apache-2.0
 *
 * The guest's code, its life, and how it is run.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <sgpu/io.h>

#include "kvm_guest.h"

/* Interfaces that the headers of older systems lack. */
struct memory_attributes {
	uint64_t address, size, attributes, flags;
};
struct memory_region {
	uint32_t slot, flags;
	uint64_t address, size, host, private_offset;
	uint32_t private_memory, padding;
	uint64_t reserved[14];
};
enum {
	CAP_EXIT_HYPERCALL = 201,
	CAP_MEMORY_ATTRIBUTES = 233,
	CAP_GUEST_MEMFD = 234,
	CAP_VM_TYPES = 235
};
enum {
	SOFTWARE_PROTECTED = 1,
	HAS_PRIVATE = 1 << 2,
	ATTRIBUTE_PRIVATE = 1 << 3,
	MAP_GPA_RANGE = 12,
	ENCRYPTED = 1 << 4
};
#define SET_MEMORY_ATTRIBUTES _IOW(KVMIO, 0xd2, struct memory_attributes)
#define CREATE_GUEST_MEMFD _IOWR(KVMIO, 0xd4, uint64_t[8])
#define SET_MEMORY_REGION2 _IOW(KVMIO, 0x49, struct memory_region)

enum {
	PAGE = 4096,
	CODE_AT = 0x10000,
	CODE_SIZE = 0x10000,
	PAGES_AT = 1 << 30,
	PORT_REQUEST = 0x10,
	PORT_END = 0x11
};
enum { PATIENCE_S = 3, REPEAT_US = 10000, COUNT = 50000, TRIES = 3, EMULATED = 10 };

bool kvm_guest_is_emulated(uint64_t guest_ns, uint64_t host_ns)
{
	return guest_ns / EMULATED > host_ns;
}

int kvm_guest_set_attributes(struct kvm_guest *g, bool to_private, uint64_t bytes,
			     struct sgpu_error *error)
{
	struct memory_attributes a = { PAGES_AT, bytes, to_private ? ATTRIBUTE_PRIVATE : 0, 0 };

	return ioctl(g->vm, SET_MEMORY_ATTRIBUTES, &a) == 0
		       ? SGPU_OK
		       : sgpu_fail_errno(error, "cannot convert pages");
}

int kvm_guest_drop(struct kvm_guest *g, bool private, uint64_t bytes, struct sgpu_error *error)
{
	const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	const int rc = private ? fallocate(g->private_memory, mode, 0, (off_t)bytes)
			       : madvise(g->shared, bytes, MADV_DONTNEED);

	return rc == 0 ? SGPU_OK : sgpu_fail_errno(error, "cannot give a guest's pages back");
}

void kvm_guest_close(struct kvm_guest *g)
{
	const int descriptors[] = { g->vcpu, g->vm, g->private_memory, g->kvm };

	if (g->run != MAP_FAILED) {
		munmap(g->run, g->run_size);
	}
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(descriptors); i++) {
		close(descriptors[i]); /* or -1 */
	}
	if (g->memory != MAP_FAILED) {
		munmap(g->memory, CODE_SIZE + g->size);
	}
}

#if defined(__x86_64__)
/* esi: n; ebx, ecx, edx: address, pages and attributes of a conversion; ebp: 32-bit words to
 * accept. At the end al is 0, or 1 if a word was not clear. */
extern const uint8_t guest_code[], guest_count[], guest_cpuid[], guest_port[], guest_vmcall[],
	guest_vmmcall[], guest_request[], guest_code_end[];
__asm__(".pushsection .rodata\n.code32\nguest_code:\n"
	"guest_count:	dec %esi;	jnz guest_count;	jmp guest_end\n"
	"guest_cpuid:	xor %eax, %eax;	cpuid;	dec %esi;	jnz guest_cpuid;	jmp "
	"guest_end\n"
	"guest_port:	out %al, $0x10;	dec %esi;	jnz guest_port\n"
	"guest_end:	xor %eax, %eax;	out %al, $0x11\n"
	"guest_vmcall:	mov $12, %eax;	vmcall;	jmp guest_accept\n"
	"guest_vmmcall:	mov $12, %eax;	vmmcall;	jmp guest_accept\n"
	"guest_request:	out %al, $0x10\n"
	"guest_accept:	cld;	xor %eax, %eax\n"
	"		mov %ebx, %edi;	mov %ebp, %ecx;	rep stosl\n"
	"		mov %ebx, %edi;	mov %ebp, %ecx;	xor %eax, %eax;	repe scasl\n"
	"		setne %al;	out %al, $0x11\n"
	"guest_code_end:\n.code64\n.popsection\n");

static const uint8_t *find_program(const struct kvm_guest *g, enum kvm_guest_program program)
{
	return program == KVM_GUEST_COUNT   ? guest_count
	       : program == KVM_GUEST_CPUID ? guest_cpuid
	       : program == KVM_GUEST_PORT  ? guest_port
	       : !g->has_hypercall	    ? guest_request
	       : __builtin_cpu_is("amd")    ? guest_vmmcall
					    : guest_vmcall;
}

/* As QEMU does: the memory that the pages had in their old state is given back. */
static int convert(struct kvm_guest *g, struct sgpu_error *error)
{
	int rc = g->has_attributes ? kvm_guest_set_attributes(g, g->to_private, g->bytes, error)
				   : SGPU_OK;

	if (rc == SGPU_OK && (g->to_private || g->private_memory >= 0)) {
		rc = kvm_guest_drop(g, !g->to_private, g->bytes, error);
	}
	return rc;
}

static struct kvm_run *volatile watched;

/* The signal interrupts KVM_RUN, since the main thread, which gets it, runs the guest; the flag
 * stops one that begins after it. */
static void stop_guest(int number)
{
	(void)number;
	watched->immediate_exit = 1;
}

/* Enters the guest until it ends. KVM may answer a hypercall by itself, as one that it does not
 * know. */
static int enter(struct kvm_guest *g, bool converts, struct sgpu_error *error)
{
	struct kvm_run *run = g->run;
	bool has_asked = false;
	int rc = SGPU_OK;

	while (rc == SGPU_OK) {
		if (ioctl(g->vcpu, KVM_RUN, 0) != 0) {
			rc = errno != EINTR ? sgpu_fail_errno(error, "cannot run a guest")
			     : sgpu_io_interrupted()
				     ? sgpu_fail(error, SGPU_ECANCELED, "interrupted")
			     : run->immediate_exit
				     ? sgpu_fail(error, SGPU_EUNAVAILABLE, "the guest hung")
				     : SGPU_OK;
		} else if (run->exit_reason == KVM_EXIT_IO && run->io.port == PORT_END) {
			return converts && !has_asked
				       ? sgpu_fail(error, SGPU_EUNAVAILABLE,
						   "KVM does not pass a guest's hypercall on")
			       : ((uint8_t *)run)[run->io.data_offset] == 0
				       ? SGPU_OK
				       : sgpu_fail(
						 error, SGPU_EDIFFERS,
						 "a page that the guest has cleared is not clear");
		} else if (run->exit_reason == KVM_EXIT_IO ||
			   run->exit_reason == KVM_EXIT_HYPERCALL) {
			has_asked = true;
			rc = converts ? convert(g, error) : SGPU_OK;
			if (run->exit_reason == KVM_EXIT_HYPERCALL) {
				run->hypercall.ret = 0;
			}
		} else {
			rc = sgpu_fail(error, SGPU_EUNAVAILABLE, "the guest stopped with exit %u",
				       run->exit_reason);
		}
	}
	return rc;
}

int kvm_guest_run(struct kvm_guest *g, enum kvm_guest_program program, uint32_t n, uint64_t *ns,
		  struct sgpu_error *error)
{
	const struct kvm_regs regs = {
		.rip = CODE_AT + (uint64_t)(find_program(g, program) - guest_code),
		.rflags = 2,
		.rsi = n,
		.rbx = PAGES_AT,
		.rcx = g->bytes / PAGE,
		.rdx = g->to_private ? ENCRYPTED : 0,
		.rbp = n / 4,
	};
	const struct itimerval patience = { { 0, REPEAT_US }, { PATIENCE_S, 0 } },
			       none = { { 0, 0 }, { 0, 0 } };
	const struct sigaction action = { .sa_handler = stop_guest };
	struct sigaction before;
	uint64_t begin;
	int rc;

	if (ioctl(g->vcpu, KVM_SET_REGS, &regs) != 0) {
		return sgpu_fail_errno(error, "cannot prepare a guest");
	}
	watched = g->run;
	g->run->immediate_exit = 0;
	sigaction(SIGALRM, &action, &before);
	setitimer(ITIMER_REAL, &patience, NULL);
	begin = sgpu_now_ns();
	rc = enter(g, program == KVM_GUEST_CONVERT, error);
	*ns = sgpu_now_ns() - begin;
	setitimer(ITIMER_REAL, &none, NULL);
	sigaction(SIGALRM, &before, NULL);
	return rc;
}

static bool has(const struct kvm_guest *g, int capability, int bit)
{
	const int value = ioctl(g->kvm, KVM_CHECK_EXTENSION, capability);

	return value > 0 && (value & bit);
}

/* What the kernel has of private memory, and the guest's memory. */
static int add_memory(struct kvm_guest *g, struct sgpu_error *error)
{
	struct kvm_enable_cap hypercall = { .cap = CAP_EXIT_HYPERCALL,
					    .args = { 1 << MAP_GPA_RANGE } };
	const uint64_t wanted[8] = { g->size }; /* then flags, and what is reserved */
	struct kvm_userspace_memory_region code = { .guest_phys_addr = CODE_AT,
						    .memory_size = CODE_SIZE };
	struct memory_region pages = { .slot = 1, .address = PAGES_AT, .size = g->size };
	const size_t size = CODE_SIZE + g->size;

	g->private_memory =
		has(g, CAP_GUEST_MEMFD, 1) ? ioctl(g->vm, CREATE_GUEST_MEMFD, wanted) : -1;
	g->has_attributes =
		g->private_memory >= 0 &&
		ioctl(g->vm, KVM_CHECK_EXTENSION, CAP_MEMORY_ATTRIBUTES) & ATTRIBUTE_PRIVATE;
	g->has_hypercall = has(g, CAP_EXIT_HYPERCALL, 1 << MAP_GPA_RANGE) &&
			   ioctl(g->vm, KVM_ENABLE_CAP, &hypercall) == 0;
	g->memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (g->memory == MAP_FAILED) {
		return sgpu_fail_nomem(error);
	}
	memcpy(g->memory, guest_code, (size_t)(guest_code_end - guest_code));
	g->shared = g->memory + CODE_SIZE;
	code.userspace_addr = (uintptr_t)g->memory;
	pages.host = (uintptr_t)g->shared;
	pages.flags = g->has_attributes ? HAS_PRIVATE : 0;
	pages.private_memory = g->has_attributes ? (uint32_t)g->private_memory : 0;
	/* The older call takes the beginning of the newer one's structure. */
	return ioctl(g->vm, KVM_SET_USER_MEMORY_REGION, &code) == 0 &&
			       ioctl(g->vm,
				     g->has_attributes ? SET_MEMORY_REGION2
						       : KVM_SET_USER_MEMORY_REGION,
				     &pages) == 0
		       ? SGPU_OK
		       : sgpu_fail_errno(error, "cannot give a guest memory");
}

static int add_processor(struct kvm_guest *g, struct sgpu_error *error)
{
	const int size = ioctl(g->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	struct kvm_sregs s;

	g->run_size = size > 0 ? (size_t)size : 0;
	g->vcpu = ioctl(g->vm, KVM_CREATE_VCPU, 0);
	g->run = mmap(NULL, g->run_size, PROT_READ | PROT_WRITE, MAP_SHARED, g->vcpu, 0);
	if (g->vcpu < 0 || g->run == MAP_FAILED || ioctl(g->vcpu, KVM_GET_SREGS, &s) != 0) {
		return sgpu_fail_errno(error, "cannot make a guest's processor");
	}
	s.cs = (struct kvm_segment){ .limit = UINT32_MAX,
				     .selector = 8,
				     .type = 11,
				     .present = 1,
				     .db = 1,
				     .s = 1,
				     .g = 1 };
	s.ds = s.cs;
	s.ds.selector = 16;
	s.ds.type = 3;
	s.es = s.fs = s.gs = s.ss = s.ds;
	s.cr0 |= 1;
	return ioctl(g->vcpu, KVM_SET_SREGS, &s) == 0
		       ? SGPU_OK
		       : sgpu_fail_errno(error, "cannot set protected mode");
}

int kvm_guest_open(struct kvm_guest *g, const char *path, uint64_t size, struct sgpu_error *error)
{
	int rc;

	*g = (struct kvm_guest){ .vm = -1,
				 .vcpu = -1,
				 .private_memory = -1,
				 .run = MAP_FAILED,
				 .memory = MAP_FAILED,
				 .size = size };
	g->kvm = open(path, O_RDWR | O_CLOEXEC);
	if (g->kvm < 0 || ioctl(g->kvm, KVM_GET_API_VERSION, 0) != KVM_API_VERSION) {
		rc = sgpu_fail(error, SGPU_EUNAVAILABLE, "no guest: '%s': %s", path,
			       strerror(errno));
	} else {
		g->vm = ioctl(g->kvm, KVM_CREATE_VM,
			      has(g, CAP_VM_TYPES, 1 << SOFTWARE_PROTECTED) ? SOFTWARE_PROTECTED
									    : 0);
		rc = g->vm >= 0 ? add_memory(g, error)
				: sgpu_fail_errno(error, "cannot make a guest");
	}
	rc = rc ? rc : add_processor(g, error);
	if (rc != SGPU_OK) {
		kvm_guest_close(g);
		return SGPU_EUNAVAILABLE;
	}
	return SGPU_OK;
}
#else
int kvm_guest_open(struct kvm_guest *g, const char *path, uint64_t size, struct sgpu_error *error)
{
	(void)g, (void)size;
	return sgpu_fail(error, SGPU_EUNAVAILABLE, "no guest: '%s' would run one of x86-64", path);
}

int kvm_guest_run(struct kvm_guest *g, enum kvm_guest_program program, uint32_t n, uint64_t *ns,
		  struct sgpu_error *error)
{
	(void)g, (void)program, (void)n, (void)ns;
	return sgpu_fail(error, SGPU_EUNAVAILABLE, "no guest of x86-64");
}
#endif

int kvm_guest_check_speed(struct kvm_guest *g, struct sgpu_error *error)
{
	uint64_t guest = UINT64_MAX, host = UINT64_MAX;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < TRIES; i++) {
		uint64_t begin = sgpu_now_ns(), ns;

		for (uint32_t n = COUNT; n > 0; n--) {
			__asm__ volatile("" : "+r"(n)); /* so that the loop remains */
		}
		ns = sgpu_now_ns() - begin;
		host = ns < host ? ns : host;
		rc = kvm_guest_run(g, KVM_GUEST_COUNT, COUNT, &ns, error);
		guest = ns < guest ? ns : guest;
	}
	if (rc == SGPU_OK && kvm_guest_is_emulated(guest, host)) {
		rc = sgpu_fail(error, SGPU_EUNAVAILABLE,
			       "the guest is emulated: it counts %llu times slower than the host",
			       (unsigned long long)(guest / (host ? host : 1)));
	}
	return rc;
}
