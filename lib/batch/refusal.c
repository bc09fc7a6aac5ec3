/* SPDX-License-Identifier: Apache-2.0
 *
 * A refusal, in place of a response. It is not authenticated and, like an index, has only one text.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "tar.h"

enum { JSON_MAX = 4 << 10 }; /* bytes of refusal.json, if all of its text is escaped */

static int make_text(const struct sgpu_batch_refusal *refusal, char **text, size_t *size,
		     struct sgpu_error *error)
{
	json_t *json = json_pack("{s:i, s:s, s:s}", "version", SGPU_BATCH_VERSION, "code",
				 sgpu_error_name(refusal->code), "text", refusal->text);

	if (*refusal->batch_id) {
		json_object_set_new(json, "batch_id", json_string(refusal->batch_id));
	}
	const int rc = json ? sgpu_json_canonical(json, text, size, error) : sgpu_fail_nomem(error);
	json_decref(json);
	return rc;
}

int sgpu_batch_refusal_write(int fd, const char *name, const struct sgpu_batch_refusal *refusal,
			     struct sgpu_error *error)
{
	struct sgpu_tar_member member = { .name = SGPU_REFUSAL_MEMBER };
	char *text = NULL;
	uint8_t *archive = NULL;
	size_t size = 0;
	int rc = make_text(refusal, &text, &member.size, error);

	member.data = text;
	rc = rc ? rc : sgpu_tar_members(&member, 1, &archive, &size, error);
	rc = rc ? rc : sgpu_write(fd, name, archive, size, error);
	rc = rc ? rc : sgpu_tar_end(fd, name, error);
	free(archive);
	free(text);
	return rc;
}

/* Members, order and version need no check: the text is made again, and compared. */
static int parse(const json_t *json, struct sgpu_batch_refusal *refusal, struct sgpu_error *error)
{
	const char *code_name = NULL, *text = NULL;
	uint8_t id[SGPU_BATCH_ID_SIZE];
	int rc = sgpu_json_string(json, SGPU_REFUSAL_MEMBER, "code", &code_name, error);

	rc = rc ? rc : sgpu_json_string(json, SGPU_REFUSAL_MEMBER, "text", &text, error);
	if (!rc && json_object_get(json, "batch_id")) {
		rc = sgpu_json_bytes(json, SGPU_REFUSAL_MEMBER, "batch_id", id, sizeof(id), error);
		sgpu_base64url_encode(id, rc ? 0 : sizeof(id), refusal->batch_id);
	}
	if (rc) {
		return rc;
	}
	refusal->code = sgpu_error_by_name(code_name);
	if (sgpu_exit_status(refusal->code) != sgpu_exit_status(SGPU_EREFUSED) ||
	    strlen(text) >= sizeof(refusal->text)) {
		return sgpu_fail(error, SGPU_EINVALID,
				 SGPU_REFUSAL_MEMBER
				 ": the code is of no refusal, or the text too long");
	}
	strcpy(refusal->text, text);
	return 0;
}

int sgpu_batch_refusal_read(struct sgpu_tar_reader *reader, struct sgpu_batch_refusal *refusal,
			    struct sgpu_error *error)
{
	char text[JSON_MAX], *again = NULL;
	const size_t size = sgpu_min_u64(reader->remaining, sizeof(text));
	const char *member = NULL;
	uint64_t more = 0;
	size_t again_size = 0;
	json_t *json = NULL;

	memset(refusal, 0, sizeof(*refusal));
	int rc = reader->remaining <= sizeof(text)
			 ? sgpu_tar_read(reader, text, size, error)
			 : sgpu_fail(error, SGPU_EINVALID,
				     "'%s': refusal.json is larger than %d bytes", reader->name,
				     JSON_MAX);
	rc = rc ? rc : sgpu_tar_next(reader, &member, &more, error);
	if (!rc && member) {
		rc = sgpu_fail(error, SGPU_EINVALID, "'%s' goes on behind refusal.json",
			       reader->name);
	}
	rc = rc ? rc : sgpu_json_parse(text, size, SGPU_REFUSAL_MEMBER, &json, error);
	rc = rc ? rc : parse(json, refusal, error);
	rc = rc ? rc : make_text(refusal, &again, &again_size, error);
	if (!rc && (again_size != size || memcmp(again, text, size))) {
		rc = sgpu_fail(error, SGPU_EINVALID, "refusal.json is not as sgpu-batch(5) has it");
	}
	free(again);
	json_decref(json);
	return rc;
}
