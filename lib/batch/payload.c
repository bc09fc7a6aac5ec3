/* SPDX-License-Identifier: Apache-2.0
 *
 * The inline payloads after the head, in the order of the index.
 */
#include <stdio.h>
#include <string.h>

#include "index.h"
#include "tar.h"

enum { MEMBER_MAX = 9 + SGPU_ID_MAX + 1 };

static void member_name(const struct sgpu_batch *batch, int segment, char name[MEMBER_MAX])
{
	snprintf(name, MEMBER_MAX, "segments/%.*s", SGPU_ID_MAX, batch->segments[segment].id);
}

int sgpu_batch_next_payload(struct sgpu_tar_reader *reader, const struct sgpu_batch *batch,
			    int *segment, struct sgpu_error *error)
{
	const char *member = NULL;
	uint64_t size = 0;
	*segment = -1;
	int rc = sgpu_tar_next(reader, &member, &size, error);
	if (rc) {
		return rc;
	}
	while (reader->cursor < batch->segment_count &&
	       batch->segments[reader->cursor].location.kind != SGPU_LOCATION_INLINE) {
		reader->cursor++;
	}
	const bool wanted = reader->cursor < batch->segment_count;
	if (!wanted) {
		return member ? sgpu_fail(error, SGPU_EINVALID, "'%s': '%s' does not belong there",
					  reader->name, member)
			      : 0;
	}
	char name[MEMBER_MAX];
	member_name(batch, reader->cursor, name);
	if (!member) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s': '%s' is missing", reader->name, name);
	}
	if (strcmp(member, name)) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s': '%s' stands where '%s' belongs",
				 reader->name, member, name);
	}
	const uint64_t payload = sgpu_batch_payload_size(batch, reader->cursor);
	if (size != payload) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s': '%s' has %llu bytes instead of %llu",
				 reader->name, name, (unsigned long long)size,
				 (unsigned long long)payload);
	}
	*segment = reader->cursor++;
	return 0;
}

int sgpu_batch_payload_begin(int fd, const char *name, const struct sgpu_batch *batch, int segment,
			     struct sgpu_error *error)
{
	char member[MEMBER_MAX];
	member_name(batch, segment, member);
	return sgpu_tar_header(fd, name, member, sgpu_batch_payload_size(batch, segment), error);
}

int sgpu_batch_payload_header(const struct sgpu_batch *batch, int segment,
			      uint8_t block[SGPU_TAR_BLOCK], struct sgpu_error *error)
{
	char member[MEMBER_MAX];
	member_name(batch, segment, member);
	return sgpu_tar_make_header(member, sgpu_batch_payload_size(batch, segment), block, error);
}
