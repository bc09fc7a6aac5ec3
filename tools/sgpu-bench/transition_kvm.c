/* SPDX-License-Identifier: Apache-2.0
 *
 * Leaving a guest of this machine's own: for the kernel, which answers CPUID, and for this process,
 * as a device does that is written in user space.
 */
#include "kvm_guest.h"
#include "made.h"
#include "transition.h"

enum { PAGE = 4096, EXITS = 256 /* so that the first entry and the last exit hardly count */ };

static int leave_for_kernel(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	return kvm_guest_run(argument, KVM_GUEST_CPUID, EXITS, ns, error);
}

static int leave_for_process(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	return kvm_guest_run(argument, KVM_GUEST_PORT, EXITS, ns, error);
}

int bench_transition_kvm(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct kvm_guest guest;
	const struct sgpu_bench_variant variants[] = {
		{ .name = "kvm, kernel", .run = leave_for_kernel, .argument = &guest },
		{ .name = "kvm, process", .run = leave_for_process, .argument = &guest },
	};
	const struct sgpu_bench_point point = {
		.parameters = { { "what", "exit", 0 }, { "source", "kvm", 0 } },
		.operations = EXITS,
	};
	int rc = kvm_guest_open(&guest, KVM_GUEST_DEVICE, PAGE, error);

	if (rc == SGPU_OK) {
		rc = kvm_guest_check_speed(&guest, error);
		if (rc == SGPU_OK) {
			rc = sgpu_bench_measure(bench, &point, variants,
						SGPU_ARRAY_LENGTH(variants), error);
			kvm_guest_close(&guest);
			return rc == SGPU_EUNAVAILABLE ? SGPU_OK : rc; /* its record says why */
		}
		kvm_guest_close(&guest);
	}
	return bench_or_waive(bench, &point, NULL, rc, error);
}
