/* SPDX-License-Identifier: Apache-2.0
 *
 * The platform's records in a quote: evidence and claims cannot be mixed, either way.
 */
#include <openssl/evp.h>

#include "test_attest.h"

/* SEV-SNP ABI: ATTESTATION_REPORT. SGX: quote header and report body. */
enum { SNP_SIZE = 1184, SNP_DATA = 80, SNP_POLICY = 8, SGX_SIZE = 432, SGX_DATA = 368, SGX_ATTRIBUTES = 96 };

static struct world w;
static const uint8_t nonce[32] = { 1, 2, 3, 4 };

/* As the header of the library says, computed another way than the library does. */
static void report_data(const struct sgpu_signer *ak, const uint8_t *n, size_t n_size, uint8_t data[64])
{
	uint8_t fingerprint[SGPU_SHA256_SIZE], hash[64];
	EVP_MD_CTX *context = EVP_MD_CTX_new();

	if (sgpu_signer_fingerprint(ak, fingerprint, NULL) ||
	    EVP_Digest(n, n_size, hash, NULL, EVP_sha512(), NULL) != 1 ||
	    EVP_DigestInit_ex(context, EVP_sha512(), NULL) != 1 ||
	    EVP_DigestUpdate(context, "sgpu quote v1\0", 14) != 1 ||
	    EVP_DigestUpdate(context, fingerprint, sizeof(fingerprint)) != 1 ||
	    EVP_DigestUpdate(context, hash, sizeof(hash)) != 1 || EVP_DigestFinal_ex(context, data, NULL) != 1) {
		abort();
	}
	EVP_MD_CTX_free(context);
}

static char *dump(json_t *value)
{
	char *text = json_dumps(value, JSON_COMPACT);

	json_decref(value);
	return text;
}

/* Records as a machine would give them; none is signed. From malloc. */
static char *snp_record(const uint8_t data[64], bool debug)
{
	uint8_t report[SNP_SIZE] = { 2 };

	memcpy(report + SNP_DATA, data, 64);
	report[SNP_POLICY + 2] = debug ? 8 : 0;
	return dump(json_pack("{s:s, s:o}", "provider", "sev_guest\n", "outblob",
			      sgpu_json_from_bytes(report, sizeof(report))));
}

static char *gramine_record(const uint8_t data[64], bool debug)
{
	uint8_t quote[SGX_SIZE + 64] = { 3 };

	memcpy(quote + SGX_DATA, data, 64);
	quote[SGX_ATTRIBUTES] = debug ? 3 : 1;
	return dump(json_pack("{s:s, s:o}", "attestation_type", "dcap", "quote",
			      sgpu_json_from_bytes(quote, sizeof(quote))));
}

static char *gpu_record(const uint8_t data[64])
{
	uint8_t short_nonce[32];
	char hex[65];
	EVP_MD_CTX *context = EVP_MD_CTX_new();

	if (EVP_DigestInit_ex(context, EVP_shake256(), NULL) != 1 || EVP_DigestUpdate(context, data, 64) != 1 ||
	    EVP_DigestFinalXOF(context, short_nonce, sizeof(short_nonce)) != 1) {
		abort();
	}
	EVP_MD_CTX_free(context);
	sgpu_hex_encode(short_nonce, sizeof(short_nonce), hex);
	return dump(json_pack("[{s:s, s:s, s:s, s:s}]", "arch", "HOPPER", "certificate", "", "evidence", "", "nonce",
			      hex));
}

/* A quote with one record: named in the claims as `claimed`, sent as `sent`; either may be NULL for none. */
static char *quote_with(const char *label, const char *type, const char *claimed, const char *sent, const char *debug)
{
	struct sgpu_quote_subject s = { .nonce = nonce, .nonce_size = sizeof(nonce) };
	struct sgpu_quote_checks c = { .roots = &w.roots, .now = NOW };
	struct sgpu_quote_result result;
	uint8_t hash[64];
	char *quote = NULL, *payload, *token = NULL;
	size_t size = 0;

	/* Its claims, with the ueid, are those of a quote without records. */
	if (sgpu_quote_create(&s, w.ak, &w.chain, NOW, &quote, &size, NULL) ||
	    sgpu_quote_verify(quote, size, &c, &result, NULL)) {
		abort();
	}
	free(quote);
	json_t *own = json_object_get(result.claims, SGPU_EAT_PROFILE), *records = json_object_get(own, "records");
	if (claimed) {
		EVP_Digest(claimed, strlen(claimed), hash, NULL, EVP_sha512(), NULL);
		json_object_set_new(records, label, json_pack("{s:s, s:o}", "type", type, "sha512",
							      sgpu_json_from_bytes(hash, 64)));
		json_object_del(json_object_get(own, "absent"), label);
	}
	json_object_set_new(result.claims, "dbgstat", json_string(debug));
	payload = json_dumps(result.claims, JSON_COMPACT);
	if (sgpu_jws_sign(w.ak, &w.chain, "eat+jwt", payload, strlen(payload), &token, NULL)) {
		abort();
	}
	json_t *collection = json_pack("{s:s, s:[s, o, i]}", "__cmwc_t", SGPU_CMW_PROFILE, "eat", SGPU_TYPE_EAT,
				       sgpu_json_from_bytes(token, strlen(token)), 4);
	if (sent) {
		json_object_set_new(collection, label, json_pack("[s, o, i]", type,
								 sgpu_json_from_bytes(sent, strlen(sent)), 4));
	}
	sgpu_quote_result_clear(&result);
	free(payload);
	free(token);
	return dump(collection);
}

static int verify(char *quote, struct sgpu_quote_result *found, struct sgpu_error *error)
{
	struct sgpu_quote_checks c = { .roots = &w.roots, .nonce = nonce, .nonce_size = sizeof(nonce), .now = NOW };
	struct sgpu_quote_result result;
	int code = sgpu_quote_verify(quote, strlen(quote), &c, &result, error);

	if (found) {
		*found = result;
	}
	sgpu_quote_result_clear(&result);
	free(quote);
	return code;
}

static void try_record(const char *label, const char *type, char *good, char *other, bool tsm, bool gpu)
{
	struct sgpu_quote_result found;
	struct sgpu_error error = { 0 };

	CHECK(!verify(quote_with(label, type, good, good, "enabled"), &found, &error));
	CHECK(found.tee_present == tsm && found.gpu_evidence_present == gpu && !found.tee_verified);
	/* Left out, put in, exchanged. */
	CHECK(verify(quote_with(label, type, good, NULL, "enabled"), NULL, NULL) == SGPU_EBINDING);
	CHECK(verify(quote_with(label, type, NULL, good, "enabled"), NULL, NULL) == SGPU_EBINDING);
	CHECK(verify(quote_with(label, type, good, other, "enabled"), NULL, NULL) == SGPU_EBINDING);
	/* Named by the claims, and made for another key or nonce all the same. */
	CHECK(verify(quote_with(label, type, other, other, "enabled"), NULL, &error) == SGPU_EBINDING);
	CHECK(strstr(error.text, "another key or nonce"));
	CHECK(verify(quote_with(label, "text/plain", good, good, "enabled"), NULL, NULL) == SGPU_EINVALID);
	CHECK(verify(quote_with(label, type, "{}", "{}", "enabled"), NULL, NULL) == SGPU_EINVALID);
	CHECK(verify(quote_with(label, type, "x", "x", "enabled"), NULL, NULL) == SGPU_EINVALID);
	free(good);
	free(other);
}

UNIT_TEST(a_report_of_an_snp_guest_belongs_to_its_quote_alone)
{
	uint8_t data[64], wrong[64];
	struct sgpu_signer *stranger = NULL;

	REQUIRE(!sgpu_signer_generate(false, &stranger, NULL));
	report_data(w.ak, nonce, sizeof(nonce), data);
	report_data(stranger, nonce, sizeof(nonce), wrong);
	try_record("tsm-report", SGPU_TYPE_TSM, snp_record(data, false), snp_record(wrong, false), true, false);
	report_data(w.ak, nonce, 31, wrong);
	try_record("tsm-report", SGPU_TYPE_TSM, snp_record(data, false), snp_record(wrong, false), true, false);
	sgpu_signer_free(&stranger);
}

UNIT_TEST(a_quote_by_gramine_and_evidence_of_a_gpu_belong_to_their_quote_alone)
{
	uint8_t data[64], wrong[64];

	report_data(w.ak, nonce, sizeof(nonce), data);
	report_data(w.ak, nonce, 8, wrong);
	try_record("gramine", SGPU_TYPE_GRAMINE, gramine_record(data, false), gramine_record(wrong, false), false,
		   false);
	try_record("nv-gpu-evidence", SGPU_TYPE_NVIDIA, gpu_record(data), gpu_record(wrong), false, true);
}

UNIT_TEST(claims_may_not_deny_a_debug_mode_that_a_record_shows)
{
	struct sgpu_error error = { 0 };
	uint8_t data[64];

	report_data(w.ak, nonce, sizeof(nonce), data);
	for (int debug = 0; debug < 2; debug++) {
		char *snp = snp_record(data, debug), *sgx = gramine_record(data, debug);
		CHECK(verify(quote_with("tsm-report", SGPU_TYPE_TSM, snp, snp, "disabled"), NULL, &error) ==
		      (debug ? SGPU_EBINDING : SGPU_OK));
		CHECK(verify(quote_with("gramine", SGPU_TYPE_GRAMINE, sgx, sgx, "disabled"), NULL, &error) ==
		      (debug ? SGPU_EBINDING : SGPU_OK));
		CHECK(!verify(quote_with("tsm-report", SGPU_TYPE_TSM, snp, snp, "enabled"), NULL, NULL));
		free(snp);
		free(sgx);
	}
}

UNIT_TEST(a_report_that_nobody_signed_does_not_verify_with_roots)
{
	struct sgpu_quote_checks c = { .roots = &w.roots, .tee_roots = &w.roots, .now = NOW };
	struct sgpu_quote_result result;
	uint8_t data[64];

	report_data(w.ak, nonce, sizeof(nonce), data);
	char *record = snp_record(data, false), *quote = quote_with("tsm-report", SGPU_TYPE_TSM, record, record,
								    "enabled");
	CHECK(sgpu_quote_verify(quote, strlen(quote), &c, &result, NULL) != SGPU_OK && !result.tee_verified);
	sgpu_quote_result_clear(&result);
	free(record);
	free(quote);
}

UNIT_TEST(what_is_absent_is_named_with_its_reason)
{
	struct sgpu_record records[SGPU_RECORDS_MAX];
	json_t *claims = NULL;
	int count = 0, named = 0;
	char *quote = quote_with("tsm-report", SGPU_TYPE_TSM, NULL, NULL, "enabled");

	REQUIRE(!sgpu_quote_parse(quote, strlen(quote), &claims, records, &count, NULL));
	for (int i = 0; i < count; i++) {
		CHECK(!records[i].value && records[i].absent[0] && records[i].type);
		named += !strcmp(records[i].label, "tsm-report") || !strcmp(records[i].label, "gramine");
	}
	CHECK(named == 2);
	sgpu_records_clear(records, count);
	json_decref(claims);
	free(quote);
}

UNIT_TEST(unknown_records_are_refused)
{
	CHECK(verify(quote_with("more", "text/plain", "x", "x", "enabled"), NULL, NULL) == SGPU_EINVALID);
	CHECK(verify(quote_with("more", "text/plain", "x", NULL, "enabled"), NULL, NULL) == SGPU_EBINDING);
}

int main(void)
{
	setenv("SGPU_TSM_ROOT", "/nonexistent", 1);
	setenv("SGPU_GRAMINE_ROOT", "/nonexistent", 1);
	if (world_make(&w)) {
		printf("Bail out! cannot make keys\n");
		return 1;
	}
	UNIT_RUN(a_report_of_an_snp_guest_belongs_to_its_quote_alone);
	UNIT_RUN(a_quote_by_gramine_and_evidence_of_a_gpu_belong_to_their_quote_alone);
	UNIT_RUN(claims_may_not_deny_a_debug_mode_that_a_record_shows);
	UNIT_RUN(a_report_that_nobody_signed_does_not_verify_with_roots);
	UNIT_RUN(what_is_absent_is_named_with_its_reason);
	UNIT_RUN(unknown_records_are_refused);
	world_free(&w);
	return unit_done();
}
