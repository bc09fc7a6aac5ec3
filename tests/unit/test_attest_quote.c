/* SPDX-License-Identifier: Apache-2.0
 *
 * Quotes: what is in them, what verifies, and that every alteration is refused with the code of its
 * class.
 */
#include <sys/prctl.h>

#include "attest/quote.h"
#include "test_attest.h"

static struct world w;
static struct sgpu_device *device;
static struct sgpu_key recipient, owner;
static const uint8_t nonce[32] = { 1, 2, 3, 4 };

static struct sgpu_quote_subject subject(void)
{
	return (struct sgpu_quote_subject){ .nonce = nonce,
					    .nonce_size = sizeof(nonce),
					    .recipient = &recipient,
					    .recipient_ephemeral = true,
					    .owner_key = owner.public_half,
					    .device = device,
					    .allows_modules = true };
}

static struct sgpu_quote_checks checks(void)
{
	return (struct sgpu_quote_checks){ .roots = &w.roots,
					   .nonce = nonce,
					   .nonce_size = sizeof(nonce),
					   .owner_key = owner.public_half,
					   .now = NOW };
}

static int verify(const char *quote, const struct sgpu_quote_checks *c, struct sgpu_error *error)
{
	struct sgpu_quote_result result;
	int code = sgpu_quote_verify(quote, strlen(quote), c, &result, error);

	sgpu_quote_result_clear(&result);
	return code;
}

static char *make(int64_t now)
{
	struct sgpu_quote_subject s = subject();
	struct sgpu_error error = { 0 };
	char *quote = NULL;
	size_t size = 0;

	if (sgpu_quote_create(&s, w.ak, &w.chain, now, &quote, &size, &error)) {
		printf("# %s\n", error.text);
		return NULL;
	}
	return quote;
}

/* The claims of a quote, signed again after `edit` has changed them. */
static char *resign(json_t *claims, const struct sgpu_signer *ak, const struct sgpu_chain *chain,
		    const char *typ)
{
	char *payload = json_dumps(claims, JSON_COMPACT), *token = NULL, *quote = NULL;

	if (!payload || sgpu_jws_sign(ak, chain, typ, payload, strlen(payload), &token, NULL)) {
		abort();
	}
	json_t *collection =
		json_pack("{s:s, s:[s, o, i]}", "__cmwc_t", SGPU_CMW_PROFILE, "eat", SGPU_TYPE_EAT,
			  sgpu_json_from_bytes(token, strlen(token)), 4);
	quote = json_dumps(collection, JSON_COMPACT);
	json_decref(collection);
	free(payload);
	free(token);
	return quote;
}

/* What verifying says of them. */
static int verify_again(json_t *claims, const struct sgpu_signer *ak,
			const struct sgpu_chain *chain, struct sgpu_error *error)
{
	struct sgpu_quote_checks c = checks();
	char *quote = resign(claims, ak, chain, "eat+jwt");
	int code = verify(quote, &c, error);

	free(quote);
	return code;
}

static json_t *claims_of(const char *quote)
{
	json_t *claims = NULL;

	if (sgpu_quote_parse(quote, strlen(quote), &claims, NULL, NULL, NULL)) {
		abort();
	}
	return claims;
}

UNIT_TEST(a_quote_verifies_and_says_what_it_is_of)
{
	uint8_t self[SGPU_KT128_SIZE], claimed[SGPU_KT128_SIZE];
	struct sgpu_quote_checks c = checks();
	struct sgpu_quote_result result;
	struct sgpu_key key;
	struct sgpu_error error = { 0 };
	char *quote = make(NOW);

	REQUIRE(quote && strchr(quote, '\n') == quote + strlen(quote) - 1);
	int code = sgpu_quote_verify(quote, strlen(quote), &c, &result, &error);
	if (code) {
		printf("# %s\n", error.text);
	}
	REQUIRE(!code);
	CHECK(result.nonce_checked && !result.tee_verified && result.certificate_age == 5);
	REQUIRE(!sgpu_quote_recipient(result.claims, &key, NULL));
	CHECK(key.kind == SGPU_KEY_X25519 && !key.secret_known && !strcmp(key.kid, recipient.kid));
	const json_t *runner = json_object_get(json_object_get(result.claims, "submods"), "runner");
	const json_t *own = json_object_get(runner, SGPU_EAT_PROFILE);
	CHECK(!strcmp(json_string_value(json_object_get(runner, "swname")), "test_attest_quote"));
	CHECK(!sgpu_json_bytes(own, "own", "digest", claimed, sizeof(claimed), NULL));
	CHECK(!sgpu_measure_file("/proc/self/exe", self, NULL, NULL) &&
	      !memcmp(self, claimed, sizeof(self)));
	CHECK(!strcmp(json_string_value(json_object_get(own, "key")), "ephemeral"));
	CHECK(json_is_true(json_object_get(own, "modules")));
	CHECK(json_object_get(json_object_get(result.claims, "submods"), "cpu"));
	sgpu_quote_result_clear(&result);
	free(quote);
}

UNIT_TEST(claims_are_the_same_for_the_same_subject)
{
	struct sgpu_quote_subject s = subject();
	json_t *a = NULL, *b = NULL;

	REQUIRE(!sgpu_quote_claims(&s, NOW, &a, NULL) && !sgpu_quote_claims(&s, NOW, &b, NULL));
	CHECK(json_equal(a, b));
	json_decref(a);
	json_decref(b);
}

UNIT_TEST(the_process_says_itself_whether_it_can_be_looked_into)
{
	struct sgpu_quote_subject s = subject();
	json_t *claims = NULL;

	REQUIRE(!sgpu_quote_claims(&s, NOW, &claims, NULL));
	CHECK(!strcmp(json_string_value(json_object_get(claims, "dbgstat")), "enabled"));
	json_decref(claims);
	REQUIRE(!prctl(PR_SET_DUMPABLE, 0));
	int code = sgpu_quote_claims(&s, NOW, &claims, NULL);
	CHECK(!prctl(PR_SET_DUMPABLE, 1) && !code);
	CHECK(!code && !strcmp(json_string_value(json_object_get(claims, "dbgstat")), "disabled"));
	json_decref(claims);
	/* Nobody knows that of a program that is not running here. */
	s.runner_path = "/bin/sh";
	REQUIRE(!prctl(PR_SET_DUMPABLE, 0));
	code = sgpu_quote_claims(&s, NOW, &claims, NULL);
	CHECK(!prctl(PR_SET_DUMPABLE, 1) && !code);
	CHECK(!code && !strcmp(json_string_value(json_object_get(claims, "dbgstat")), "enabled"));
	json_decref(claims);
}

UNIT_TEST(time_nonce_owner_and_root_each_have_a_code_of_their_own)
{
	static const uint8_t other[32] = { 9 };
	struct sgpu_quote_checks c = checks();
	struct world stranger;
	char *quote = make(NOW);

	REQUIRE(quote && !world_make(&stranger));
	c.now = NOW + 3600;
	CHECK(!verify(quote, &c, NULL));
	c.now = NOW + 3601;
	CHECK(verify(quote, &c, NULL) == SGPU_EEXPIRED);
	c.max_age = 7200;
	CHECK(!verify(quote, &c, NULL));
	c = checks();
	free(quote);
	quote = make(NOW + 60);
	CHECK(!verify(quote, &c, NULL));
	free(quote);
	quote = make(NOW + 61);
	CHECK(verify(quote, &c, NULL) == SGPU_EEXPIRED);
	free(quote);
	quote = make(NOW);
	c.now = NOW + 40LL * DAY;
	c.max_age = 50LL * DAY;
	CHECK(verify(quote, &c, NULL) == SGPU_EEXPIRED);
	c = checks();
	c.nonce = other;
	CHECK(verify(quote, &c, NULL) == SGPU_ENONCE);
	c.nonce = nonce;
	c.nonce_size = 31;
	CHECK(verify(quote, &c, NULL) == SGPU_ENONCE);
	c = checks();
	c.owner_key = other;
	CHECK(verify(quote, &c, NULL) == SGPU_EBINDING);
	c = checks();
	c.roots = &stranger.roots;
	CHECK(verify(quote, &c, NULL) == SGPU_ECHAIN);
	c.roots = NULL;
	CHECK(verify(quote, &c, NULL) == SGPU_EUSAGE);
	/* Without a nonce nothing is compared, and the result says so. */
	c = checks();
	c.nonce = NULL;
	struct sgpu_quote_result result;
	CHECK(!sgpu_quote_verify(quote, strlen(quote), &c, &result, NULL) && !result.nonce_checked);
	sgpu_quote_result_clear(&result);
	world_free(&stranger);
	free(quote);
}

UNIT_TEST(a_quote_that_another_key_signed_is_refused)
{
	struct sgpu_quote_checks c = checks();
	char *quote = make(NOW), *other = NULL;
	struct world stranger;

	REQUIRE(quote && !world_make(&stranger));
	json_t *claims = claims_of(quote);
	CHECK(!verify_again(claims, w.ak, &w.chain, NULL));
	CHECK(verify_again(claims, stranger.ak, &w.chain, NULL) == SGPU_ESIGNATURE);
	CHECK(verify_again(claims, stranger.ak, &stranger.chain, NULL) == SGPU_ECHAIN);
	/* A CA's key is none for evidence. */
	CHECK(verify_again(claims, w.ca, &w.roots, NULL) == SGPU_ECHAIN);
	other = resign(claims, w.ak, &w.chain, "JWT");
	CHECK(verify(other, &c, NULL) == SGPU_EINVALID);
	free(other);
	/* Another machine's AK under the same CA: the token says which machine it is of. */
	struct sgpu_signer *ek = NULL, *ak = NULL;
	struct sgpu_chain chain = { 0 };
	struct sgpu_chain machine = { 0 };
	size_t size = 0;
	REQUIRE(!sgpu_signer_generate(false, &ek, NULL) && !sgpu_signer_generate(false, &ak, NULL));
	REQUIRE(!world_certify(w.ca, &w.roots, ek, NOW, 30, &machine, NULL) &&
		!world_certify(ek, &machine, ak, NOW, 30, &chain, NULL));
	CHECK(verify_again(claims, ak, &chain, NULL) == SGPU_EBINDING);
	struct sgpu_quote_subject s = subject();
	char *mixed = NULL;
	CHECK(sgpu_quote_create(&s, ak, &w.chain, NOW, &mixed, &size, NULL) == SGPU_EKEY);
	sgpu_signer_free(&ek);
	sgpu_signer_free(&ak);
	sgpu_chain_clear(&machine);
	sgpu_chain_clear(&chain);
	json_decref(claims);
	world_free(&stranger);
	free(quote);
}

/* Every member of the claims is replaced and removed, and well signed again. */
static void walk(json_t *claims, json_t *object, int *bad, int *seen)
{
	const char *key;
	json_t *value;
	void *next;

	json_object_foreach_safe(object, next, key, value)
	{
		json_t *kept = json_incref(value);
		char *name = strdup(key);
		json_object_set_new(object, name, json_pack("{s:i}", "x", 1));
		int code = verify_again(claims, w.ak, &w.chain, NULL);
		*bad += code != SGPU_EINVALID && code != SGPU_EBINDING;
		json_object_set_new(object, name, json_integer(-1));
		if (verify_again(claims, w.ak, &w.chain, NULL) == SGPU_OK) {
			printf("# '%s' may be -1\n", name);
			++*bad;
		}
		json_object_set(object, name, kept);
		if (json_is_object(kept)) {
			walk(claims, kept, bad, seen);
		}
		json_decref(kept);
		free(name);
		++*seen;
	}
}

UNIT_TEST(every_claim_has_its_type_and_unknown_ones_are_refused)
{
	struct sgpu_error error = { 0 };
	char *quote = make(NOW);
	int bad = 0, seen = 0;

	REQUIRE(quote);
	json_t *claims = claims_of(quote);
	walk(claims, claims, &bad, &seen);
	CHECK(bad == 0 && seen > 45);
	json_object_set_new(json_object_get(claims, SGPU_EAT_PROFILE), "more", json_true());
	CHECK(verify_again(claims, w.ak, &w.chain, &error) == SGPU_EINVALID &&
	      strstr(error.text, "'more'"));
	json_object_del(json_object_get(claims, SGPU_EAT_PROFILE), "more");
	json_object_set_new(claims, "nonce", json_string("AAAAAAAAAAAA"));
	CHECK(verify_again(claims, w.ak, &w.chain, &error) == SGPU_EINVALID &&
	      strstr(error.text, "'nonce'"));
	json_decref(claims);
	free(quote);
}

static int raw_refused(const char *payload)
{
	struct sgpu_quote_checks c = checks();
	char *token = NULL;

	if (sgpu_jws_sign(w.ak, &w.chain, "eat+jwt", payload, strlen(payload), &token, NULL)) {
		abort();
	}
	json_t *collection =
		json_pack("{s:s, s:[s, o, i]}", "__cmwc_t", SGPU_CMW_PROFILE, "eat", SGPU_TYPE_EAT,
			  sgpu_json_from_bytes(token, strlen(token)), 4);
	char *quote = json_dumps(collection, JSON_COMPACT);
	int code = verify(quote, &c, NULL);
	json_decref(collection);
	free(token);
	free(quote);
	return code == SGPU_EINVALID;
}

UNIT_TEST(malformed_quotes_are_refused)
{
	struct sgpu_quote_checks c = checks();
	char *quote = make(NOW), *deep = malloc(200001), *huge = malloc(SGPU_QUOTE_MAX + 2);

	REQUIRE(quote);
	CHECK(raw_refused("{}") && raw_refused("[]") && raw_refused("") && raw_refused("x") &&
	      raw_refused("null"));
	CHECK(raw_refused("{\"iat\":1,\"iat\":1}"));
	memset(deep, '[', 200000);
	deep[200000] = '\0';
	CHECK(raw_refused(deep) && verify(deep, &c, NULL) == SGPU_EINVALID);
	memset(huge, ' ', SGPU_QUOTE_MAX + 1);
	huge[SGPU_QUOTE_MAX + 1] = '\0';
	CHECK(verify(huge, &c, NULL) == SGPU_EINVALID);
	CHECK(verify("", &c, NULL) == SGPU_EINVALID && verify("{}", &c, NULL) == SGPU_EINVALID);
	CHECK(verify("{\"__cmwc_t\":\"x\"}", &c, NULL) == SGPU_EINVALID);
	CHECK(verify("{\"__cmwc_t\":\"" SGPU_CMW_PROFILE "\"}", &c, NULL) == SGPU_EINVALID);
	size_t length = strlen(quote), step = getenv("SGPU_TEST_SMALL") ? 211 : 23;
	for (size_t i = 0; i < length - 1; i += step) {
		char was = quote[i];
		quote[i] = was == 'A' ? 'B' : 'A';
		CHECK(verify(quote, &c, NULL) != SGPU_OK);
		quote[i] = '\0';
		CHECK(verify(quote, &c, NULL) == SGPU_EINVALID);
		quote[i] = was;
	}
	CHECK(!verify(quote, &c, NULL));
	free(quote);
	free(deep);
	free(huge);
}

UNIT_TEST(a_subject_that_makes_no_sense_is_refused)
{
	struct sgpu_quote_subject s = subject();
	struct sgpu_key oct;
	json_t *claims = NULL;

	s.nonce_size = 7;
	CHECK(sgpu_quote_claims(&s, NOW, &claims, NULL) == SGPU_EUSAGE && !claims);
	s.nonce_size = 65;
	CHECK(sgpu_quote_claims(&s, NOW, &claims, NULL) == SGPU_EUSAGE);
	s = subject();
	REQUIRE(!sgpu_key_generate(SGPU_KEY_OCT, &oct, NULL));
	s.recipient = &oct;
	CHECK(sgpu_quote_claims(&s, NOW, &claims, NULL) == SGPU_EUSAGE);
	s = subject();
	s.runner_path = "/nonexistent";
	CHECK(sgpu_quote_claims(&s, NOW, &claims, NULL) == SGPU_ESYSTEM && !claims);
}

UNIT_TEST(a_quote_belongs_to_its_owner)
{
	struct sgpu_quote_subject s = subject();
	struct sgpu_quote_checks c = checks();
	uint8_t digest[32] = { 4 }, right[SGPU_SHA256_SIZE];
	struct sgpu_quote_result result;
	char *quote = NULL;
	size_t size = 0;

	REQUIRE(!sgpu_quote_create(&s, w.ak, &w.chain, NOW, &quote, &size, NULL));
	REQUIRE(!sgpu_quote_verify(quote, size, &c, &result, NULL));
	json_t *own = json_object_get(result.claims, SGPU_EAT_PROFILE);
	REQUIRE(!sgpu_json_bytes(own, "own", "owner_key_hash", right, sizeof(right), NULL));
	json_object_set_new(own, "owner_key_hash", sgpu_json_from_bytes(digest, sizeof(digest)));
	CHECK(verify_again(result.claims, w.ak, &w.chain, NULL) == SGPU_EBINDING);
	/* All of the hash counts. */
	right[sizeof(right) - 1] ^= 1;
	json_object_set_new(own, "owner_key_hash", sgpu_json_from_bytes(right, sizeof(right)));
	CHECK(verify_again(result.claims, w.ak, &w.chain, NULL) == SGPU_EBINDING);
	json_object_del(own, "owner_key_hash");
	CHECK(verify_again(result.claims, w.ak, &w.chain, NULL) == SGPU_EBINDING);
	sgpu_quote_result_clear(&result);
	free(quote);
}

UNIT_TEST(claims_are_quoted_again_for_another_nonce)
{
	static const uint8_t later[16] = { 7, 7 };
	struct sgpu_quote_renewal renewal = { .nonce = later, .nonce_size = sizeof(later) };
	struct sgpu_quote_subject s = subject();
	struct sgpu_quote_checks c = checks();
	struct sgpu_quote_result result;
	struct sgpu_signer *other = NULL;
	uint8_t right[SGPU_SHA256_SIZE], alike[SGPU_SHA256_SIZE];
	json_t *claims = NULL, *before;
	struct sgpu_key key;
	char *quote = NULL;
	size_t size = 0;

	REQUIRE(!sgpu_quote_claims(&s, 0, &claims, NULL));
	before = json_deep_copy(claims);
	REQUIRE(!sgpu_quote_renew(claims, &renewal, w.ak, &w.chain, NOW, &quote, &size, NULL));
	CHECK(json_equal(claims, before));
	CHECK(verify(quote, &c, NULL) == SGPU_ENONCE);
	c.nonce = later;
	c.nonce_size = sizeof(later);
	REQUIRE(!sgpu_quote_verify(quote, size, &c, &result, NULL));
	CHECK(result.nonce_checked && !sgpu_quote_recipient(result.claims, &key, NULL) &&
	      !strcmp(key.kid, recipient.kid));
	sgpu_quote_result_clear(&result);
	free(quote);
	/* What has changed since is said. */
	json_object_set_new(claims, "dbgstat", json_string("disabled"));
	renewal.debugged = true;
	REQUIRE(!sgpu_quote_renew(claims, &renewal, w.ak, &w.chain, NOW, &quote, &size, NULL));
	REQUIRE(!sgpu_quote_verify(quote, size, &c, &result, NULL));
	CHECK(!strcmp(json_string_value(json_object_get(result.claims, "dbgstat")), "enabled"));
	sgpu_quote_result_clear(&result);
	free(quote);
	/* What is no nonce, no claims or another's certificate. */
	renewal.nonce_size = SGPU_NONCE_MIN - 1;
	CHECK(sgpu_quote_renew(claims, &renewal, w.ak, &w.chain, NOW, &quote, &size, NULL) ==
		      SGPU_EUSAGE &&
	      !quote);
	renewal.nonce_size = sizeof(later);
	/* Another key is refused, also one whose fingerprint begins as the right one does. */
	CHECK(!sgpu_quote_check_key(w.ak, &w.chain, NULL));
	REQUIRE(!sgpu_signer_fingerprint(w.ak, right, NULL));
	do {
		sgpu_signer_free(&other);
		REQUIRE(!sgpu_signer_generate(false, &other, NULL) &&
			!sgpu_signer_fingerprint(other, alike, NULL));
	} while (alike[0] != right[0]);
	CHECK(sgpu_quote_check_key(other, &w.chain, NULL) == SGPU_EKEY);
	CHECK(sgpu_quote_renew(claims, &renewal, other, &w.chain, NOW, &quote, &size, NULL) ==
		      SGPU_EKEY &&
	      !quote);
	json_object_set_new(claims, "unknown", json_true());
	CHECK(sgpu_quote_renew(claims, &renewal, w.ak, &w.chain, NOW, &quote, &size, NULL) ==
		      SGPU_EINVALID &&
	      !quote);
	sgpu_signer_free(&other);
	json_decref(before);
	json_decref(claims);
}

int main(void)
{
	if (world_make(&w) || sgpu_key_generate(SGPU_KEY_X25519, &recipient, NULL) ||
	    sgpu_key_generate(SGPU_KEY_X25519, &owner, NULL) ||
	    sgpu_device_open("cpu", &(struct sgpu_device_config){ .jobs = 1 }, &device, NULL)) {
		printf("Bail out! cannot make keys or open the CPU device\n");
		return 1;
	}
	setenv("SGPU_TSM_ROOT", "/nonexistent", 1);
	setenv("SGPU_GRAMINE_ROOT", "/nonexistent", 1);
	UNIT_RUN(a_quote_verifies_and_says_what_it_is_of);
	UNIT_RUN(claims_are_the_same_for_the_same_subject);
	UNIT_RUN(the_process_says_itself_whether_it_can_be_looked_into);
	UNIT_RUN(time_nonce_owner_and_root_each_have_a_code_of_their_own);
	UNIT_RUN(a_quote_that_another_key_signed_is_refused);
	UNIT_RUN(every_claim_has_its_type_and_unknown_ones_are_refused);
	UNIT_RUN(malformed_quotes_are_refused);
	UNIT_RUN(a_subject_that_makes_no_sense_is_refused);
	UNIT_RUN(claims_are_quoted_again_for_another_nonce);
	UNIT_RUN(a_quote_belongs_to_its_owner);
	sgpu_device_close(&device);
	world_free(&w);
	return unit_done();
}
