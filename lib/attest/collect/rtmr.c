/* SPDX-License-Identifier: Apache-2.0
 *
 * Run-time measurement registers of a TDX guest
 * (Documentation/ABI/testing/sysfs-devices-virtual-misc-tdx_guest): a register is extended by
 * writing a digest to it. The guest's next quote contains its new value.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include <sgpu/attest.h>

#include "attest/collect/evidence.h"

enum { REGISTERS = 4, DIGEST_SIZE = 48 };

/* All at offset 0 and in one call: the kernel takes nothing else. */
static int write_digest(const char *path, unsigned index, const uint8_t digest[DIGEST_SIZE],
			struct sgpu_error *error)
{
	ssize_t done;
	int rc = SGPU_OK, fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT) {
		(void)sgpu_fail(error, SGPU_EUNAVAILABLE, "there is no register '%s'", path);
		return sgpu_hint(error, "this needs a TDX guest with Linux 6.16 or later");
	}
	if (fd < 0 && (errno == EACCES || errno == EPERM) && index < 2) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "register %u is not for software: the kernel lets 2 and 3 "
				 "be extended alone",
				 index);
	}
	if (fd < 0) {
		return sgpu_fail_errno(error, "cannot open '%s'", path);
	}
	done = pwrite(fd, digest, DIGEST_SIZE, 0);
	if (done < 0) {
		rc = sgpu_fail_errno(error, "cannot extend '%s'", path);
	} else if (done != DIGEST_SIZE) {
		rc = sgpu_fail(error, SGPU_EDEVICE, "the kernel took %zd bytes of %d for '%s'",
			       done, DIGEST_SIZE, path);
	}
	if (close(fd) && rc == SGPU_OK) {
		rc = sgpu_fail_errno(error, "cannot extend '%s'", path);
	}
	return rc;
}

int sgpu_rtmr_extend(unsigned index, const uint8_t digest[48], struct sgpu_error *error)
{
	char path[PATH_MAX];
	const char *root = sgpu_evidence_root(SGPU_USUAL_TDX);

	if (index >= REGISTERS) {
		return sgpu_fail(error, SGPU_EUSAGE, "register %u is none of 0 to %d", index,
				 REGISTERS - 1);
	}
	if (snprintf(path, sizeof(path), "%s/rtmr%u:sha384", root, index) >= (int)sizeof(path)) {
		return sgpu_fail(error, SGPU_EUSAGE, "path '%s' is too long", root);
	}
	return write_digest(path, index, digest, error);
}
