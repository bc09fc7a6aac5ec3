/* SPDX-License-Identifier: Apache-2.0
 *
 * Digests of programs, read in pieces.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/io.h>

#include "attest/internal.h"

enum { PIECE = 1 << 20 };

static int digest_fd(int fd, const char *name, uint8_t digest[SGPU_CHANNEL_DIGEST_SIZE], uint64_t *size,
		     struct sgpu_error *error)
{
	struct sgpu_kt128 *state = NULL;
	uint8_t *piece = malloc(PIECE);
	size_t got = PIECE;
	int code = piece ? sgpu_kt128_create(&state, error) : sgpu_fail_nomem(error);

	*size = 0;
	while (!code && got == PIECE) {
		code = sgpu_read(fd, name, piece, PIECE, &got, error);
		if (!code) {
			sgpu_kt128_update(state, piece, got);
			*size += got;
		}
	}
	if (!code) {
		sgpu_kt128_finish(state, SGPU_MEASURE_CUSTOM, sizeof(SGPU_MEASURE_CUSTOM) - 1, digest,
				  SGPU_CHANNEL_DIGEST_SIZE);
	}
	sgpu_kt128_free(&state);
	free(piece);
	return code;
}

int sgpu_measure_file(const char *path, uint8_t digest[SGPU_CHANNEL_DIGEST_SIZE], uint64_t *size,
		      struct sgpu_error *error)
{
	struct stat status;
	uint64_t ignored;
	/* Neither a pipe that nobody writes to nor a device without an end is waited for: they are no programs. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), code = 0;

	if (fd < 0) {
		return sgpu_fail_errno(error, "cannot open '%s'", path);
	}
	if (fstat(fd, &status) || !S_ISREG(status.st_mode)) {
		code = sgpu_fail(error, SGPU_ESYSTEM, "cannot measure '%s': it is no regular file", path);
	}
	code = code ? code : digest_fd(fd, path, digest, size ? size : &ignored, error);
	close(fd);
	return code;
}

int sgpu_measure_self(uint8_t digest[SGPU_CHANNEL_DIGEST_SIZE], struct sgpu_error *error)
{
	/* The file that was started, even where another has taken its name since. */
	return sgpu_measure_file("/proc/self/exe", digest, NULL, error);
}
