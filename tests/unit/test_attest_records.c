/* SPDX-License-Identifier: Apache-2.0
 *
 * The platform's records in a quote: evidence and claims cannot be mixed, either way.
 */
#include <openssl/evp.h>

#include "test_attest.h"

/* SEV-SNP ABI: ATTESTATION_REPORT. SGX: quote header and report body. */
enum {
	SNP_SIZE = 1184,
	SNP_DATA = 80,
	SNP_POLICY = 8,
	SGX_SIZE = 432,
	SGX_DATA = 368,
	SGX_ATTRIBUTES = 96
};

static struct world w;
static struct sgpu_device *device;
static struct sgpu_key recipient;
static const uint8_t nonce[32] = { 1, 2, 3, 4 };

/* Claims without what they say of the records, in canonical JSON: the keys are ASCII, so that any
 * sorted text is. */
static char *covered(const json_t *claims)
{
	json_t *copy = json_deep_copy(claims), *own = json_object_get(copy, SGPU_EAT_PROFILE);

	json_object_del(own, "records");
	json_object_del(own, "absent");
	char *text = json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(copy);
	return text;
}

/* As the header of the library says, computed another way than the library does. */
static void report_data(const struct sgpu_signer *ak, const json_t *claims, uint8_t data[64])
{
	uint8_t fingerprint[SGPU_SHA256_SIZE], hash[64];
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	char *text = covered(claims);

	if (sgpu_signer_fingerprint(ak, fingerprint, NULL) ||
	    EVP_Digest(text, strlen(text), hash, NULL, EVP_sha512(), NULL) != 1 ||
	    EVP_DigestInit_ex(context, EVP_sha512(), NULL) != 1 ||
	    EVP_DigestUpdate(context, "sgpu quote v1\0", 14) != 1 ||
	    EVP_DigestUpdate(context, fingerprint, sizeof(fingerprint)) != 1 ||
	    EVP_DigestUpdate(context, hash, sizeof(hash)) != 1 ||
	    EVP_DigestFinal_ex(context, data, NULL) != 1) {
		abort();
	}
	EVP_MD_CTX_free(context);
	free(text);
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

	if (EVP_DigestInit_ex(context, EVP_shake256(), NULL) != 1 ||
	    EVP_DigestUpdate(context, data, 64) != 1 ||
	    EVP_DigestFinalXOF(context, short_nonce, sizeof(short_nonce)) != 1) {
		abort();
	}
	EVP_MD_CTX_free(context);
	sgpu_hex_encode(short_nonce, sizeof(short_nonce), hex);
	return dump(json_pack("[{s:s, s:s, s:s, s:s}]", "arch", "HOPPER", "certificate", "",
			      "evidence", "", "nonce", hex));
}

/* What a quote of this process claims, the ueid with it; nothing of the records. */
static json_t *claims_with(const char *debug)
{
	static const char *const owners[] = { "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
					      "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBA" };
	json_t *confinement = json_pack("{s:b, s:{s:b}}", "seccomp", 1, "modules", "process", 0);
	struct sgpu_quote_subject s = { .nonce = nonce,
					.nonce_size = sizeof(nonce),
					.recipient = &recipient,
					.recipient_ephemeral = true,
					.device = device,
					.owners = owners,
					.owner_count = 2,
					.confinement = confinement,
					.owner_key = nonce };
	struct sgpu_quote_checks c = { .roots = &w.roots, .now = NOW };
	struct sgpu_quote_result result;
	char *quote = NULL;
	size_t size = 0;

	if (sgpu_quote_create(&s, w.ak, &w.chain, NOW, &quote, &size, NULL) ||
	    sgpu_quote_verify(quote, size, &c, &result, NULL)) {
		abort();
	}
	json_t *claims = json_deep_copy(result.claims);
	json_object_set_new(claims, "dbgstat", json_string(debug));
	sgpu_quote_result_clear(&result);
	json_decref(confinement);
	free(quote);
	return claims;
}

/* A quote of these claims with one record: named in them as `claimed`, sent as `sent`; either may
 * be NULL for none. */
static char *quote_of(json_t *claims, const char *label, const char *type, const char *claimed,
		      const char *sent)
{
	json_t *own = json_object_get(claims, SGPU_EAT_PROFILE),
	       *records = json_object_get(own, "records");
	char *payload, *token = NULL;
	uint8_t hash[64];

	if (claimed) {
		EVP_Digest(claimed, strlen(claimed), hash, NULL, EVP_sha512(), NULL);
		json_object_set_new(records, label,
				    json_pack("{s:s, s:o}", "type", type, "sha512",
					      sgpu_json_from_bytes(hash, 64)));
		json_object_del(json_object_get(own, "absent"), label);
	}
	payload = json_dumps(claims, JSON_COMPACT);
	if (sgpu_jws_sign(w.ak, &w.chain, "eat+jwt", payload, strlen(payload), &token, NULL)) {
		abort();
	}
	json_t *collection =
		json_pack("{s:s, s:[s, o, i]}", "__cmwc_t", SGPU_CMW_PROFILE, "eat", SGPU_TYPE_EAT,
			  sgpu_json_from_bytes(token, strlen(token)), 4);
	if (sent) {
		json_object_set_new(
			collection, label,
			json_pack("[s, o, i]", type, sgpu_json_from_bytes(sent, strlen(sent)), 4));
	}
	json_decref(claims);
	free(payload);
	free(token);
	return dump(collection);
}

static char *quote_with(const char *label, const char *type, const char *claimed, const char *sent,
			const char *debug)
{
	return quote_of(claims_with(debug), label, type, claimed, sent);
}

/* What a genuine record is made over, and what one of other claims is. */
static void report_data_of(const char *debug, uint8_t data[64], uint8_t wrong[64])
{
	json_t *claims = claims_with(debug);

	report_data(w.ak, claims, data);
	json_object_set_new(claims, "iat", json_integer(NOW - 1));
	report_data(w.ak, claims, wrong);
	json_decref(claims);
}

static int verify(char *quote, struct sgpu_quote_result *found, struct sgpu_error *error)
{
	struct sgpu_quote_checks c = {
		.roots = &w.roots, .nonce = nonce, .nonce_size = sizeof(nonce), .now = NOW
	};
	struct sgpu_quote_result result;
	int code = sgpu_quote_verify(quote, strlen(quote), &c, &result, error);

	if (found) {
		*found = result;
	}
	sgpu_quote_result_clear(&result);
	free(quote);
	return code;
}

static void try_record(const char *label, const char *type, char *good, char *other, bool tsm,
		       bool gpu)
{
	struct sgpu_quote_result found;
	struct sgpu_error error = { 0 };

	CHECK(!verify(quote_with(label, type, good, good, "enabled"), &found, &error));
	CHECK(found.tee_present == tsm && found.gpu_evidence_present == gpu && !found.tee_verified);
	/* Left out, put in, exchanged. */
	CHECK(verify(quote_with(label, type, good, NULL, "enabled"), NULL, NULL) == SGPU_EBINDING);
	CHECK(verify(quote_with(label, type, NULL, good, "enabled"), NULL, NULL) == SGPU_EBINDING);
	CHECK(verify(quote_with(label, type, good, other, "enabled"), NULL, NULL) == SGPU_EBINDING);
	/* Named by the claims, and made over other claims all the same. */
	CHECK(verify(quote_with(label, type, other, other, "enabled"), NULL, &error) ==
	      SGPU_EBINDING);
	CHECK(strstr(error.text, "other claims or another key"));
	CHECK(verify(quote_with(label, "text/plain", good, good, "enabled"), NULL, NULL) ==
	      SGPU_EINVALID);
	CHECK(verify(quote_with(label, type, "{}", "{}", "enabled"), NULL, NULL) == SGPU_EINVALID);
	CHECK(verify(quote_with(label, type, "x", "x", "enabled"), NULL, NULL) == SGPU_EINVALID);
	free(good);
	free(other);
}

UNIT_TEST(a_report_of_an_snp_guest_belongs_to_its_quote_alone)
{
	uint8_t data[64], wrong[64];
	struct sgpu_signer *stranger = NULL;
	json_t *claims = claims_with("enabled");

	REQUIRE(!sgpu_signer_generate(false, &stranger, NULL));
	report_data_of("enabled", data, wrong);
	try_record("tsm-report", SGPU_TYPE_TSM, snp_record(data, false), snp_record(wrong, false),
		   true, false);
	report_data(stranger, claims, wrong);
	try_record("tsm-report", SGPU_TYPE_TSM, snp_record(data, false), snp_record(wrong, false),
		   true, false);
	/* All of it counts, from the first byte to the last. */
	for (size_t at = 0; at < sizeof(data); at += sizeof(data) - 1) {
		memcpy(wrong, data, sizeof(wrong));
		wrong[at] ^= 1;
		try_record("tsm-report", SGPU_TYPE_TSM, snp_record(data, false),
			   snp_record(wrong, false), true, false);
	}
	sgpu_signer_free(&stranger);
	json_decref(claims);
}

UNIT_TEST(a_quote_by_gramine_and_evidence_of_a_gpu_belong_to_their_quote_alone)
{
	uint8_t data[64], wrong[64];

	report_data_of("enabled", data, wrong);
	try_record("gramine", SGPU_TYPE_GRAMINE, gramine_record(data, false),
		   gramine_record(wrong, false), false, false);
	try_record("nv-gpu-evidence", SGPU_TYPE_NVIDIA, gpu_record(data), gpu_record(wrong), false,
		   true);
}

/* ---- the attestation key is stolen, and the report is genuine ---- */
struct forgery {
	json_t *claims;
	const char *label, *type;
	char *record;
	int bound, malformed, other; /* how claims that were changed were refused */
};

/* Signs the claims as they stand now, beside the report over what they were. */
static void try_forgery(struct forgery *f)
{
	char *quote = quote_of(json_deep_copy(f->claims), f->label, f->type, f->record, f->record);
	struct sgpu_quote_checks c = { .roots = &w.roots, .now = NOW };
	struct sgpu_quote_result result;
	int code = sgpu_quote_verify(quote, strlen(quote), &c, &result, NULL);

	f->bound += code == SGPU_EBINDING;
	f->malformed += code == SGPU_EINVALID;
	f->other += code != SGPU_EBINDING && code != SGPU_EINVALID;
	sgpu_quote_result_clear(&result);
	free(quote);
}

/* Another value that a claim of its kind could have; NULL for those that hold others. */
static json_t *another(const json_t *value)
{
	static const char *const words[][2] = { { "enabled", "disabled" },
						{ "process", "file" },
						{ "ephemeral", "stored" },
						{ "plain", "snp" },
						{ "tdx", "snp" } };
	const char *text = json_string_value(value);

	if (json_is_boolean(value)) {
		return json_boolean(!json_is_true(value));
	}
	if (json_is_integer(value)) {
		return json_integer(json_integer_value(value) - 1);
	}
	for (size_t i = 0; text && i < SGPU_ARRAY_LENGTH(words); i++) {
		if (!strcmp(text, words[i][0]) || !strcmp(text, words[i][1])) {
			return json_string(words[i][!strcmp(text, words[i][0])]);
		}
	}
	if (text && *text) {
		char *copy = strdup(text);
		copy[0] = copy[0] == 'C' ? 'D' : 'C';
		json_t *made = json_string(copy);
		free(copy);
		return made;
	}
	return NULL;
}

/* Each value below is changed by itself, or left out. */
static void forge_below(struct forgery *f, json_t *value)
{
	const char *key;
	json_t *item;
	size_t i;

	json_array_foreach (value, i, item) {
		json_t *changed = another(item), *kept = json_incref(item);
		if (changed) {
			json_array_set_new(value, i, changed);
			try_forgery(f);
			json_array_set(value, i, kept);
		}
		forge_below(f, kept);
		json_decref(kept);
	}
	/* A copy of the names, since they come and go. */
	json_t *names = json_array();
	json_object_foreach (value, key, item) {
		json_array_append_new(names, json_string(key));
	}
	json_array_foreach (names, i, item) {
		const char *name = json_string_value(item);
		json_t *kept = json_incref(json_object_get(value, name)), *changed = another(kept);
		if (!strcmp(name, "records") || !strcmp(name, "absent")) {
			json_decref(kept);
			continue;
		}
		json_object_del(value, name);
		try_forgery(f);
		if (changed) {
			json_object_set_new(value, name, changed);
			try_forgery(f);
		}
		json_object_set(value, name, kept);
		forge_below(f, kept);
		json_decref(kept);
	}
	json_decref(names);
}

UNIT_TEST(a_stolen_key_changes_no_claim_under_a_genuine_report)
{
	uint8_t data[64], wrong[64];

	report_data_of("enabled", data, wrong);
	struct forgery kinds[] = {
		{ .label = "tsm-report", .type = SGPU_TYPE_TSM, .record = snp_record(data, false) },
		{ .label = "gramine",
		  .type = SGPU_TYPE_GRAMINE,
		  .record = gramine_record(data, false) },
		{ .label = "nv-gpu-evidence",
		  .type = SGPU_TYPE_NVIDIA,
		  .record = gpu_record(data) },
	};
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(kinds); i++) {
		struct forgery *f = &kinds[i];
		f->claims = claims_with("enabled");
		try_forgery(f); /* unchanged: this one verifies */
		CHECK(f->other == 1 && !f->bound && !f->malformed);
		forge_below(f, f->claims);
		printf("# %s: %d claims refused as not bound, %d as malformed\n", f->label,
		       f->bound, f->malformed);
		CHECK(f->other == 1 && f->bound >= 40);
		json_decref(f->claims);
		free(f->record);
	}
}

UNIT_TEST(a_stolen_key_names_no_other_recipient_under_a_genuine_report)
{
	struct sgpu_error error = { 0 };
	uint8_t data[64], wrong[64];
	struct sgpu_key mine;

	REQUIRE(!sgpu_key_generate(SGPU_KEY_X25519, &mine, NULL));
	report_data_of("enabled", data, wrong);
	char *record = snp_record(data, false);
	json_t *claims = claims_with("enabled");
	json_t *jwk = json_object_get(json_object_get(claims, "cnf"), "jwk");
	json_object_set_new(jwk, "x", sgpu_json_from_bytes(mine.public_half, 32));
	json_object_set_new(jwk, "kid", json_string(mine.kid));
	CHECK(verify(quote_of(claims, "tsm-report", SGPU_TYPE_TSM, record, record), NULL, &error) ==
	      SGPU_EBINDING);
	CHECK(strstr(error.text, "other claims"));
	free(record);
}

UNIT_TEST(claims_may_not_deny_a_debug_mode_that_a_record_shows)
{
	struct sgpu_error error = { 0 };
	uint8_t data[64], data_on[64], wrong[64];

	report_data_of("disabled", data, wrong);
	report_data_of("enabled", data_on, wrong);
	for (int debug = 0; debug < 2; debug++) {
		char *snp = snp_record(data, debug), *sgx = gramine_record(data, debug);
		char *snp_on = snp_record(data_on, debug);
		CHECK(verify(quote_with("tsm-report", SGPU_TYPE_TSM, snp, snp, "disabled"), NULL,
			     &error) == (debug ? SGPU_EBINDING : SGPU_OK));
		CHECK(verify(quote_with("gramine", SGPU_TYPE_GRAMINE, sgx, sgx, "disabled"), NULL,
			     &error) == (debug ? SGPU_EBINDING : SGPU_OK));
		CHECK(!verify(quote_with("tsm-report", SGPU_TYPE_TSM, snp_on, snp_on, "enabled"),
			      NULL, NULL));
		free(snp);
		free(snp_on);
		free(sgx);
	}
}

UNIT_TEST(a_report_that_nobody_signed_does_not_verify_with_roots)
{
	struct sgpu_quote_checks c = { .roots = &w.roots, .tee_roots = &w.roots, .now = NOW };
	struct sgpu_quote_result result;
	uint8_t data[64], wrong[64];

	report_data_of("enabled", data, wrong);
	char *record = snp_record(data, false),
	     *quote = quote_with("tsm-report", SGPU_TYPE_TSM, record, record, "enabled");
	CHECK(sgpu_quote_verify(quote, strlen(quote), &c, &result, NULL) != SGPU_OK &&
	      !result.tee_verified);
	sgpu_quote_result_clear(&result);
	free(record);
	free(quote);
}

UNIT_TEST(what_is_absent_is_named_with_its_reason)
{
	struct sgpu_record records[SGPU_RECORDS_MAX];
	json_t *claims = NULL;
	int named = 0;
	char *quote = quote_with("tsm-report", SGPU_TYPE_TSM, NULL, NULL, "enabled");

	REQUIRE(!sgpu_quote_parse(quote, strlen(quote), &claims, records, NULL, NULL));
	for (int i = 0; records[i].label; i++) {
		CHECK(!records[i].value && records[i].absent[0] && records[i].type);
		named += !strcmp(records[i].label, "tsm-report") ||
			 !strcmp(records[i].label, "gramine");
	}
	CHECK(named == 2);
	sgpu_records_clear(records);
	json_decref(claims);
	free(quote);
}

UNIT_TEST(unknown_records_are_refused)
{
	CHECK(verify(quote_with("more", "text/plain", "x", "x", "enabled"), NULL, NULL) ==
	      SGPU_EINVALID);
	CHECK(verify(quote_with("more", "text/plain", "x", NULL, "enabled"), NULL, NULL) ==
	      SGPU_EBINDING);
}

int main(void)
{
	setenv("SGPU_TSM_ROOT", "/nonexistent", 1);
	setenv("SGPU_GRAMINE_ROOT", "/nonexistent", 1);
	if (world_make(&w) || sgpu_key_generate(SGPU_KEY_X25519, &recipient, NULL) ||
	    sgpu_device_open("cpu", &(struct sgpu_device_config){ .jobs = 1 }, &device, NULL)) {
		printf("Bail out! cannot make keys or open the CPU device\n");
		return 1;
	}
	UNIT_RUN(a_report_of_an_snp_guest_belongs_to_its_quote_alone);
	UNIT_RUN(a_quote_by_gramine_and_evidence_of_a_gpu_belong_to_their_quote_alone);
	UNIT_RUN(a_stolen_key_changes_no_claim_under_a_genuine_report);
	UNIT_RUN(a_stolen_key_names_no_other_recipient_under_a_genuine_report);
	UNIT_RUN(claims_may_not_deny_a_debug_mode_that_a_record_shows);
	UNIT_RUN(a_report_that_nobody_signed_does_not_verify_with_roots);
	UNIT_RUN(what_is_absent_is_named_with_its_reason);
	UNIT_RUN(unknown_records_are_refused);
	sgpu_device_close(&device);
	world_free(&w);
	return unit_done();
}
