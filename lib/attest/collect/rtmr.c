/* SPDX-License-Identifier: Apache-2.0
 *
 * Run-time measurement registers of a TDX guest: a register is extended by writing a digest to it,
 * in one call (Documentation/ABI/testing/sysfs-devices-virtual-misc-tdx_guest).
 */
#include <errno.h>
#include <stdio.h>

#include <sgpu/attest.h>

#include "attest/collect/evidence.h"

enum { REGISTERS = 4, DIGEST_SIZE = 48 };

int sgpu_rtmr_extend(unsigned index, const uint8_t digest[48], struct sgpu_error *error)
{
	const char *root = sgpu_evidence_root(SGPU_USUAL_TDX);
	char name[24];

	if (index >= REGISTERS) {
		return sgpu_fail(error, SGPU_EUSAGE, "register %u is none of 0 to %d", index,
				 REGISTERS - 1);
	}
	snprintf(name, sizeof(name), "rtmr%u:sha384", index);
	errno = 0;
	const int rc = sgpu_evidence_write(root, name, digest, DIGEST_SIZE, error);
	if (rc && errno == ENOENT) {
		(void)sgpu_fail(error, SGPU_EUNAVAILABLE, "there is no register '%s/%s'", root,
				name);
		return sgpu_hint(error, "this needs a TDX guest with Linux 6.16 or later");
	}
	if (rc && (errno == EACCES || errno == EPERM) && index < 2) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "register %u is not for software: the kernel lets 2 and 3 "
				 "be extended alone",
				 index);
	}
	return rc;
}
