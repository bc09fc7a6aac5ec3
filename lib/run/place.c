/* SPDX-License-Identifier: Apache-2.0
 *
 * A response is a tar: its index and its manifest, then the payloads, each behind a header and
 * filled up to whole blocks.
 */
#include "base/io.h"
#include "run/outputs.h"

#include <stdlib.h>

#include <sgpu/base.h>

#include "batch/index.h"
#include "batch/tar.h"

enum { BUFFER = 1 << 20 };

int sgpu_place_payloads(const struct sgpu_batch *response, uint64_t begin, uint64_t *places,
			struct sgpu_error *error)
{
	char *text = NULL;
	size_t size = 0;
	int rc = sgpu_batch_text(response, &text, &size, error);
	uint64_t at;

	free(text);
	if (rc != SGPU_OK) {
		return rc;
	}
	at = begin + SGPU_TAR_BLOCK + sgpu_tar_padded(size) + SGPU_TAR_BLOCK +
	     sgpu_tar_padded(response->manifest_size);
	for (int i = 0; i < response->segment_count; i++) {
		places[i] = 0;
		if (response->segments[i].location.kind == SGPU_LOCATION_INLINE) {
			places[i] = at + SGPU_TAR_BLOCK;
			at = places[i] + sgpu_tar_padded(sgpu_batch_payload_size(response, i));
		}
	}
	return SGPU_OK;
}

/* From the end that the other place does not overlap with. */
static int move_one(int fd, const char *name, const struct sgpu_moved *moved, uint8_t *buffer,
		    struct sgpu_error *error)
{
	const bool up = moved->to > moved->from;
	int rc = SGPU_OK;

	for (uint64_t done = 0; rc == SGPU_OK && done < moved->size;) {
		size_t count = moved->size - done < BUFFER ? (size_t)(moved->size - done) : BUFFER,
		       got = 0;
		uint64_t at = up ? moved->size - done - count : done;

		rc = sgpu_pread(fd, name, buffer, count, moved->from + at, &got, error);
		if (rc == SGPU_OK && got < count) {
			rc = sgpu_fail(error, SGPU_ESYSTEM, "'%s' was cut short", name);
		}
		if (rc == SGPU_OK) {
			rc = sgpu_pwrite(fd, name, buffer, count, moved->to + at, error);
		}
		done += count;
	}
	return rc;
}

/* Those that go up begin with the last, those that go down with the first: each then finds its new
 * place free. */
int sgpu_place_move(int fd, const char *name, const struct sgpu_moved *list, int count,
		    struct sgpu_error *error)
{
	uint8_t *buffer = NULL;
	bool moves = false;
	int rc = SGPU_OK;

	for (int i = 0; i < count; i++) {
		moves |= list[i].to != list[i].from;
	}
	if (!moves) {
		return SGPU_OK;
	}
	buffer = malloc(BUFFER);
	rc = buffer ? SGPU_OK : sgpu_fail_nomem(error);
	for (int i = count; rc == SGPU_OK && i-- > 0;) {
		rc = list[i].to > list[i].from ? move_one(fd, name, &list[i], buffer, error)
					       : SGPU_OK;
	}
	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = list[i].to < list[i].from ? move_one(fd, name, &list[i], buffer, error)
					       : SGPU_OK;
	}
	sgpu_free_wiped(&buffer, BUFFER);
	return rc;
}
