/* SPDX-License-Identifier: Apache-2.0
 *
 * A minimal guest over /dev/kvm: one processor in 32-bit protected mode without paging, and memory
 * whose pages are converted between private and shared.
 */
#ifndef BENCH_KVM_GUEST_H
#define BENCH_KVM_GUEST_H

#include <sgpu/bench.h>

#define KVM_GUEST_DEVICE "/dev/kvm"

struct kvm_guest {
	int kvm, vm, vcpu, private_memory; /* descriptors; the last is a guest_memfd, or negative */
	struct kvm_run *run;
	size_t run_size;
	uint8_t *memory, *shared; /* the guest's code, and behind it the shared pages */
	uint64_t size;		  /* bytes of the pages that are converted */
	bool has_attributes; /* the guest has private pages, those of the guest_memfd; else only
				shared ones */
	bool has_hypercall;  /* it asks for conversions by hypercall; else by a port */
	uint64_t bytes;	     /* a conversion is of so much... */
	bool to_private;     /* ...in this direction */
};

enum kvm_guest_program {
	KVM_GUEST_COUNT,   /* counts down from n */
	KVM_GUEST_CPUID,   /* leaves the guest n times for the kernel */
	KVM_GUEST_PORT,	   /* leaves the guest n times for this process */
	KVM_GUEST_CONVERT, /* asks for the conversion of g->bytes; then accepts n bytes: clears and
			      reads them */
};

/* Errors: SGPU_EUNAVAILABLE, with what is missing; *g then needs no closing. */
SGPU_MUST_CHECK int kvm_guest_open(struct kvm_guest *g, const char *path, uint64_t size,
				   struct sgpu_error *error);
void kvm_guest_close(struct kvm_guest *g);
/* Runs a program; *ns is the time from the first entry to the last exit. A guest that does not end
 * within seconds is stopped. Errors: SGPU_EUNAVAILABLE; SGPU_EDIFFERS: an accepted page was not
 * clear; SGPU_ECANCELED. */
SGPU_MUST_CHECK int kvm_guest_run(struct kvm_guest *g, enum kvm_guest_program program, uint32_t n,
				  uint64_t *ns, struct sgpu_error *error);
/* Whether a guest that counts so slowly is carried out by software. */
bool kvm_guest_is_emulated(uint64_t guest_ns, uint64_t host_ns);
/* Compares how fast guest and host count: SGPU_EUNAVAILABLE if the guest is emulated, so that its
 * times say nothing. */
SGPU_MUST_CHECK int kvm_guest_check_speed(struct kvm_guest *g, struct sgpu_error *error);

/* The host's parts of a conversion, of the first `bytes`: it notes whose they are, and gives memory
 * back. */
SGPU_MUST_CHECK int kvm_guest_set_attributes(struct kvm_guest *g, bool to_private, uint64_t bytes,
					     struct sgpu_error *error);
SGPU_MUST_CHECK int kvm_guest_drop(struct kvm_guest *g, bool private, uint64_t bytes,
				   struct sgpu_error *error);

#endif
