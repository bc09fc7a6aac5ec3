/* SPDX-License-Identifier: Apache-2.0
 *
 * The queues of this machine. In a confidential VM the accelerator is outside of what is trusted,
 * and what it is told to reach is private memory: none is opened there.
 */
#include <sys/mman.h>

#include <sgpu/attest.h>

#include "dsa/queue.h"

static void *map(int fd)
{
	return mmap(NULL, 4096, PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
}

int sgpu_dsa_open(unsigned modes, struct sgpu_dsa **dsa, struct sgpu_error *error)
{
	struct sgpu_dsa_place place = { .devices = "/sys/bus/dsa/devices",
					.nodes = "/dev/dsa",
					.map = map,
					.timeout_ns = 1000000000 };
	struct sgpu_platform platform;

	*dsa = NULL;
	sgpu_platform_detect(&platform);
	sgpu_dsa_cpu_detect(&place.cpu);
	if (platform.kind != SGPU_PLATFORM_PLAIN || place.cpu.tdx) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "the accelerator is not trusted in a confidential VM or enclave");
	}
	return sgpu_dsa_open_in(&place, modes, dsa, error);
}
