/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the payloads of a response lie in a file.
 */
#ifndef SGPU_RUN_PLACE_H
#define SGPU_RUN_PLACE_H

#include <sgpu/batch.h>

/* The offsets of the payloads of a response that begins at `begin`, by segment of the response; 0:
 * it has none there. */
SGPU_MUST_CHECK int sgpu_place_payloads(const struct sgpu_batch *response, uint64_t begin,
					uint64_t *places, struct sgpu_error *error);

struct sgpu_moved {
	uint64_t from, to, size;
};
/* Moves payloads within a file. They are in order, and do not overlap, neither before nor
 * afterwards. */
SGPU_MUST_CHECK int sgpu_place_move(int fd, const char *name, const struct sgpu_moved *list,
				    int count, struct sgpu_error *error);

#endif
