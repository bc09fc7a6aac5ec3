/* SPDX-License-Identifier: Apache-2.0
 *
 * A record of configfs-tsm, as sgpu-measure and others write it, and which format its report is in.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/json.h"
#include "attest/internal.h"
#include "attest/verify/tsm_report.h"

/* A member in base64url; one that may be missing is then empty. *data from malloc. */
static int read_blob(const json_t *record, const char *key, bool optional, uint8_t **data,
		     size_t *size, struct sgpu_error *error)
{
	const char *text = NULL;

	*data = NULL;
	*size = 0;
	if (optional && !json_object_get(record, key)) {
		return SGPU_OK;
	}
	int rc = sgpu_json_string(record, "TSM report", key, &text, error);
	return rc == SGPU_OK
		       ? sgpu_base64url_read(text, json_string_length(json_object_get(record, key)),
					     key, data, size, error)
		       : rc;
}

/* The kernel ends the name with a newline. */
static bool provider_is(const char *provider, const char *name)
{
	size_t length = strlen(name);

	return !strncmp(provider, name, length) &&
	       (!provider[length] || !strcmp(provider + length, "\n"));
}

static int verify_record(const json_t *record, const struct sgpu_tsm_trust *trust,
			 struct sgpu_tee_report *report, struct sgpu_error *error)
{
	static const char *const members[] = { "auxblob", "outblob", "provider", NULL };
	uint8_t *outblob = NULL, *auxblob = NULL;
	size_t outblob_size = 0, auxblob_size = 0;
	const char *provider = NULL;
	int rc = sgpu_json_only(record, "TSM report", members, error);

	if (rc == SGPU_OK) {
		rc = sgpu_json_string(record, "TSM report", "provider", &provider, error);
	}
	if (rc == SGPU_OK) {
		rc = read_blob(record, "outblob", false, &outblob, &outblob_size, error);
	}
	if (rc == SGPU_OK) {
		rc = read_blob(record, "auxblob", true, &auxblob, &auxblob_size, error);
	}
	if (rc == SGPU_OK && provider_is(provider, "sev_guest")) {
		rc = sgpu_snp_verify((struct sgpu_bytes){ outblob, outblob_size },
				     (struct sgpu_bytes){ auxblob, auxblob_size }, trust, report,
				     error);
	} else if (rc == SGPU_OK && provider_is(provider, "tdx_guest")) {
		rc = sgpu_tdx_verify((struct sgpu_bytes){ outblob, outblob_size }, trust, report,
				     error);
	} else if (rc == SGPU_OK) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "TSM report: provider '%.*s' is neither 'sev_guest' nor "
			       "'tdx_guest'",
			       (int)(strcspn(provider, "\n") < 24 ? strcspn(provider, "\n") : 24),
			       provider);
	}
	free(outblob);
	free(auxblob);
	return rc;
}

int sgpu_tsm_verify(const char *record, size_t size, const struct sgpu_chain *certificates,
		    const struct sgpu_chain *roots, int64_t now, struct sgpu_tee_report *report,
		    struct sgpu_error *error)
{
	const struct sgpu_tsm_trust trust = { certificates, roots, now };
	struct sgpu_error inner = { 0 };
	json_t *document = NULL;

	memset(report, 0, sizeof(*report));
	if (size > SGPU_QUOTE_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "TSM report: longer than %d bytes",
				 SGPU_QUOTE_MAX);
	}
	if (sgpu_json_parse(record, size, &document, NULL, NULL, &inner)) {
		return sgpu_fail(error, SGPU_EINVALID, "TSM report: %s", inner.text);
	}
	int rc = json_is_object(document)
			 ? verify_record(document, &trust, report, error)
			 : sgpu_fail(error, SGPU_EINVALID, "TSM report: not an object");
	json_decref(document);
	if (rc != SGPU_OK) {
		memset(report, 0, sizeof(*report));
	}
	return rc;
}
