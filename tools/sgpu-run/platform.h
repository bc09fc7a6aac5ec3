/* SPDX-License-Identifier: Apache-2.0
 *
 * What kind of machine this process sees itself on. It decides nothing: a host that lies could make it say anything,
 * and only attested evidence proves it.
 */
#ifndef SGPU_RUN_PLATFORM_H
#define SGPU_RUN_PLATFORM_H

#include <stdbool.h>

enum platform_kind { PLATFORM_PLAIN, PLATFORM_GRAMINE_DIRECT, PLATFORM_GRAMINE_SGX, PLATFORM_TDX, PLATFORM_SNP };

struct platform {
	enum platform_kind kind;
	const char *seen;       /* where that was seen */
	bool virtual_machine;
	bool reports;           /* the kernel gives attestation reports (configfs tsm) */
	bool gpu;               /* an NVIDIA GPU's driver is there */
};

void platform_detect(struct platform *platform);

/* What holds for the platform and a device whose memory is the runner's own, or a GPU. */
struct protection {
	const char *row;              /* "plain machine, CPU device" */
	const char *enclave_memory;   /* may the host read it? */
	const char *device_memory;
	const char *bus;              /* what a recorder on the bus sees */
	bool protects;                /* the host is kept from the enclave's memory */
};

/* `confidential` is the device's state as sgpu_device_info has it: "" on the CPU, "on" for a GPU in confidential
 * computing mode. With its development tools on, that mode protects nothing. */
const struct protection *platform_protection(const struct platform *platform, bool on_gpu, const char *confidential);

#endif
