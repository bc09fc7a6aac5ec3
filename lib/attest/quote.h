/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files on quotes; sgpu-quote(5) describes every field.
 */
#ifndef SGPU_ATTEST_QUOTE_H
#define SGPU_ATTEST_QUOTE_H

#include "attest/internal.h"

/* The token and each submodule have sgpu's own claims in an object of the profile's name. */
#define SGPU_OWN SGPU_EAT_PROFILE
#define SGPU_PLATFORM_WORDS "plain gramine-direct sgx tdx snp"
#define SGPU_EAT_TYP "eat+jwt"
enum {
	SGPU_UEID_SIZE = 33,
	SGPU_UEID_RAND = 1 /* RFC 9711, section 4.2.1.1 */,
	SGPU_CMW_EVIDENCE = 4
};

SGPU_MUST_CHECK int sgpu_quote_check_nonce(const uint8_t *nonce, size_t size,
					   struct sgpu_error *error);

/* ---- tables of the members of JSON from outside ---- */
enum sgpu_member_kind {
	SGPU_MEMBER_TEXT,
	SGPU_MEMBER_INTEGER,
	SGPU_MEMBER_TRUTH,
	SGPU_MEMBER_TRUTHS, /* a boolean, or an object */
	SGPU_MEMBER_BYTES,  /* base64url */
	SGPU_MEMBER_HEX,
	SGPU_MEMBER_OBJECT,
	SGPU_MEMBER_ARRAY,
	SGPU_MEMBER_LIST, /* an array, or the text "any" */
	SGPU_MEMBER_ANY,
};
/* One member; a table ends with a path that is NULL. */
struct sgpu_member {
	const char *path; /* "a/b"; a last "*" is each item, or each member without a row */
	enum sgpu_member_kind kind;
	bool optional;
	/* Least and most bytes of a text or in base64url, or items of an array. max: exact bytes in
	 * hexadecimal; most members of an object (0: any). */
	size_t min, max;
	const char *words; /* all values that a text may have, separated by blanks */
};
#define NEEDED(path, type, ...)                                            \
	{                                                                  \
		path, SGPU_MEMBER_##type, .optional = false, ##__VA_ARGS__ \
	}
#define OPTIONAL(path, type, ...)                                         \
	{                                                                 \
		path, SGPU_MEMBER_##type, .optional = true, ##__VA_ARGS__ \
	}
/* Parses JSON from outside; `where` and the place begin the message. Errors: SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_document_parse(const char *text, size_t size, const char *where,
					json_t **document, struct sgpu_error *error);
/* Errors: SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_members_check(const json_t *object, const char *where,
				       const struct sgpu_member *table, struct sgpu_error *error);
/* Returns the value at a path, in which a number selects an item of an array; NULL: none. */
const json_t *sgpu_member_at(const json_t *object, const char *path);

/* Errors: SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_claims_check(const json_t *claims, struct sgpu_error *error);
/* Returns sgpu's own claims in an object, or NULL. */
const json_t *sgpu_claims_own(const json_t *object);
/* Returns the device's submodule, or NULL; *name receives its name. */
const json_t *sgpu_claims_device_of(const json_t *claims, const char **name);

SGPU_MUST_CHECK int sgpu_quote_report_data(const json_t *claims, const uint8_t ak[SGPU_SHA256_SIZE],
					   uint8_t report_data[64], struct sgpu_error *error);
void sgpu_quote_ueid(const uint8_t machine[SGPU_SHA256_SIZE], uint8_t ueid[SGPU_UEID_SIZE]);

/* ---- a platform's evidence: where it comes from, and whether it belongs to a quote ---- */
/* Collects a record as a new object or array. After a failure, the error's text says why the record
 * is absent. */
typedef int sgpu_evidence_collector(const uint8_t report_data[64], struct sgpu_device *device,
				    json_t **document, struct sgpu_error *error);
/* A row for each record that a quote may have. */
enum { SGPU_EVIDENCE_SOURCES = 3 };
_Static_assert(2 * (int)SGPU_EVIDENCE_SOURCES < (int)SGPU_RECORDS_MAX,
	       "a quote may hold each and call each absent");
extern const struct sgpu_evidence_source {
	const char *label, *type;
	sgpu_evidence_collector *collect;
} sgpu_evidence_sources[SGPU_EVIDENCE_SOURCES];

/* Absent records are listed, too. */
void sgpu_evidence_collect(const uint8_t data[64], struct sgpu_device *device,
			   struct sgpu_record *records);

/* Derives the nonce of a GPU's report from report data by SHAKE256. */
enum { SGPU_GPU_NONCE_SIZE = 32 };
SGPU_MUST_CHECK int sgpu_gpu_nonce(const uint8_t report_data[64],
				   uint8_t nonce[SGPU_GPU_NONCE_SIZE], struct sgpu_error *error);

/* Checks that the record carries this report data, and verifies a TSM record if `checks` has roots
 * for it. *report: of other records, only whether others can read the runner's memory (debug).
 * Errors: SGPU_EBINDING (made for something else), those of sgpu_tsm_verify. */
SGPU_MUST_CHECK int sgpu_record_check(const struct sgpu_record *record,
				      const uint8_t report_data[64],
				      const struct sgpu_quote_checks *checks,
				      struct sgpu_tee_report *report, struct sgpu_error *error);

/* ---- policies ---- */
bool sgpu_policy_needs_report(const json_t *platform);

/* A part's result in the values of AR4SI: whether the policy demanded something, and whether the
 * demand was met. */
enum sgpu_finding { SGPU_NOT_ASKED = 0, SGPU_AFFIRMED = 2, SGPU_WARNED = 32, SGPU_REFUSED = 96 };
struct sgpu_findings {
	enum sgpu_finding identity, configuration, executables, hardware, runtime;
	enum sgpu_finding device_configuration, device_executables, device_hardware;
};

/* Makes the result as claims (draft-ietf-rats-ear); NULL if out of memory. */
json_t *sgpu_ear_claims(const json_t *policy, const struct sgpu_quote_result *result,
			const struct sgpu_findings *findings, bool accepted, int64_t now);

enum { SGPU_HEX_SIZE = 2 * 48 + 1, SGPU_REASON_SIZE = 256 };
/* Names the first lack of confinement, at any depth; NULL: there is none. */
const char *sgpu_confinement_lack(const json_t *confinement, char text[SGPU_REASON_SIZE]);
/* Writes the last 32 of the `size` bytes of a claim, a digest or a ueid, in hexadecimal. Returns
 * false and writes "none" if it is no such claim. */
bool sgpu_judge_hex(const json_t *text, size_t size, char hex[SGPU_HEX_SIZE]);

#endif
