/* SPDX-License-Identifier: Apache-2.0
 *
 * Digests of programs.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crypto/crypto.h"
#include "attest/internal.h"

static int digest_place(const struct sgpu_file_place *program, uint64_t size,
			uint8_t digest[SGPU_KT128_SIZE], struct sgpu_error *error)
{
	struct sgpu_kt128 *state = NULL;
	int rc = sgpu_kt128_create(&state, error);

	rc = rc ? rc : sgpu_kt128_update_file(state, NULL, program, NULL, size, error);
	if (rc == SGPU_OK) {
		sgpu_kt128_finish(state, SGPU_MEASURE_CUSTOM, sizeof(SGPU_MEASURE_CUSTOM) - 1,
				  digest, SGPU_KT128_SIZE);
	}
	sgpu_kt128_free(&state);
	return rc;
}

int sgpu_measure_file(const char *path, uint8_t digest[SGPU_KT128_SIZE], uint64_t *size,
		      struct sgpu_error *error)
{
	/* A pipe that nobody writes to, or a device, may block or never end: neither is a program.
	 */
	const struct sgpu_file_place program = {
		open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), path, 0
	};
	struct stat status;
	int rc;

	if (program.fd < 0) {
		return sgpu_fail_errno(error, "cannot open '%s'", path);
	}
	if (fstat(program.fd, &status) != 0 || !S_ISREG(status.st_mode)) {
		rc = sgpu_fail(error, SGPU_ESYSTEM, "cannot measure '%s': it is no regular file",
			       path);
	} else {
		rc = digest_place(&program, (uint64_t)status.st_size, digest, error);
	}
	if (rc == SGPU_OK && size) {
		*size = (uint64_t)status.st_size;
	}
	close(program.fd);
	return rc;
}
