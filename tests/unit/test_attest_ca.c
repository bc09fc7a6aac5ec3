/* SPDX-License-Identifier: Apache-2.0
 *
 * The CA and chains of certificates: who gets one, and which chains are believed when.
 */
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "test_attest.h"

static struct world w;

static X509 *leaf_of(const struct sgpu_chain *chain)
{
	return X509_dup(chain->list[0]);
}

static int believe(const struct sgpu_chain *chain, const struct sgpu_chain *roots, int64_t now,
		   struct sgpu_error *error)
{
	uint8_t machine[SGPU_SHA256_SIZE] = { 0 }, expected[SGPU_SHA256_SIZE] = { 0 };
	int code = sgpu_chain_verify(chain->list[0], chain, roots, now, machine, "", error);

	CHECK(code || (!sgpu_signer_fingerprint(w.ek, expected, NULL) &&
		       !memcmp(machine, expected, sizeof(expected))));
	return code;
}

UNIT_TEST(certificates_name_their_keys_and_say_what_they_are_for)
{
	const struct sgpu_chain *chains[] = { &w.roots, &w.machine, &w.chain };
	const struct sgpu_signer *keys[] = { w.ca, w.ek, w.ak };
	uint8_t fingerprint[SGPU_SHA256_SIZE], key_id[SGPU_SHA256_SIZE];
	char hex[2 * SGPU_SHA256_SIZE + 1], serial[128] = "";

	for (int i = 0; i < 3; i++) {
		X509 *leaf = leaf_of(chains[i]);
		unsigned char *spki = NULL;
		REQUIRE(leaf && chains[i]->count == i + 1 &&
			!sgpu_signer_fingerprint(keys[i], fingerprint, NULL));
		sgpu_hex_encode(fingerprint, sizeof(fingerprint), hex);
		/* The authority has a name that people gave it. */
		CHECK(X509_NAME_get_text_by_NID(X509_get_subject_name(leaf), NID_serialNumber,
						serial, sizeof(serial)) == (i ? 64 : -1));
		CHECK(!i || !strcmp(serial, hex));
		int size = i2d_PUBKEY(X509_get0_pubkey(leaf), &spki);
		CHECK(size > 0 && !sgpu_sha256(spki, (size_t)size, key_id, NULL) &&
		      !memcmp(key_id, fingerprint, sizeof(key_id)));
		OPENSSL_free(spki);
		CHECK(X509_get_extension_flags(leaf) & EXFLAG_BCONS &&
		      !(X509_get_extension_flags(leaf) & EXFLAG_CA) == (i == 2));
		CHECK(X509_get_pathlen(leaf) == 1 - i);
		CHECK(X509_get_key_usage(leaf) ==
		      (i == 2 ? KU_DIGITAL_SIGNATURE : KU_KEY_CERT_SIGN | KU_CRL_SIGN));
		CHECK(X509_get0_subject_key_id(leaf) && X509_get0_authority_key_id(leaf));
		X509_free(leaf);
	}
}

UNIT_TEST(serial_numbers_differ)
{
	struct sgpu_chain other;

	REQUIRE(!world_certify(w.ek, &w.machine, w.ak, NOW, 30, &other, NULL));
	X509 *a = leaf_of(&w.chain), *b = leaf_of(&other);
	CHECK(ASN1_INTEGER_cmp(X509_get0_serialNumber(a), X509_get0_serialNumber(b)));
	X509_free(a);
	X509_free(b);
	sgpu_chain_clear(&other);
}

/* What an EK answers to this text. */
static int answer(const char *request, size_t size, struct sgpu_error *error)
{
	char *pem = NULL;
	size_t pem_size = 0;
	int code =
		sgpu_ca_certify(w.ek, &w.machine, request, size, NOW, 30, &pem, &pem_size, error);

	CHECK(!code == !!pem);
	free(pem);
	return code;
}

UNIT_TEST(a_request_that_its_key_did_not_sign_or_that_was_altered_is_refused)
{
	struct sgpu_error error = { 0 };
	char *request = NULL;
	size_t size = 0;

	REQUIRE(!sgpu_request_create(w.ak, &request, &size, NULL));
	for (size_t i = 40; i + 40 < size; i += getenv("SGPU_TEST_SMALL") ? 61 : 7) {
		char was = request[i];
		request[i] = was == 'A' ? 'B' : 'A';
		int code = answer(request, size, NULL);
		CHECK(code == SGPU_EINVALID || code == SGPU_ESIGNATURE);
		request[i] = was;
	}
	CHECK(!answer(request, size, NULL));
	/* The last letters before the end are of the signature alone. */
	char *end = strstr(request, "\n-----END");
	REQUIRE(end);
	end[-6] = end[-6] == 'A' ? 'B' : 'A';
	CHECK(answer(request, size, &error) == SGPU_ESIGNATURE && strstr(error.text, "key in it"));
	CHECK(answer("", 0, NULL) == SGPU_EINVALID && answer("x", 1, NULL) == SGPU_EINVALID);
	free(request);
	REQUIRE(!sgpu_request_create(w.ek, &request, &size, NULL));
	CHECK(answer(request, size, &error) == SGPU_EINVALID && strstr(error.text, "issuer"));
	free(request);
	struct sgpu_signer small = { .key = EVP_EC_gen("P-256") };
	REQUIRE(small.key && !sgpu_request_create(&small, &request, &size, NULL));
	CHECK(answer(request, size, &error) == SGPU_EINVALID && strstr(error.text, "P-384"));
	EVP_PKEY_free(small.key);
	free(request);
}

/* When what the CA certifies at `now` for so many days ends, in seconds from then; or an error. */
static int64_t lasts(const struct sgpu_signer *issuer, const struct sgpu_chain *above, int64_t now,
		     unsigned days, struct sgpu_error *error)
{
	const struct sgpu_signer *key = issuer == w.ca ? w.ek : w.ak;
	struct sgpu_chain chain;
	int64_t code = world_certify(issuer, above, key, now, days, &chain, error);

	if (!code) {
		X509 *leaf = leaf_of(&chain);
		code = sgpu_certificate_time(X509_get0_notAfter(leaf)) - now;
		X509_free(leaf);
	}
	sgpu_chain_clear(&chain);
	return code;
}

UNIT_TEST(an_issuer_signs_with_its_own_certificate_while_that_is_valid)
{
	struct sgpu_error error = { 0 };
	struct sgpu_chain roots = w.roots;

	CHECK(lasts(w.ek, &w.roots, NOW, 30, NULL) == SGPU_EKEY &&
	      lasts(w.ca, &w.machine, NOW, 30, NULL) == SGPU_EKEY);
	CHECK(lasts(w.ca, &w.roots, NOW + 400LL * DAY, 30, NULL) == SGPU_EEXPIRED &&
	      lasts(w.ca, &w.roots, NOW - 2LL * DAY, 30, NULL) == SGPU_EEXPIRED);
	/* A certificate may not end after its issuer's, by which less than a day is cut off. */
	static const int64_t late = NOW + 335LL * DAY, still = NOW + 335LL * DAY - 1;
	CHECK(lasts(w.ca, &w.roots, late, 30, &error) == SGPU_EUSAGE);
	CHECK(strstr(error.text, "the issuer's certificate ends in 29 days"));
	/* A day that has begun counts, as it does for what may be asked for. */
	CHECK(lasts(w.ca, &w.roots, late + 1, 30, &error) == SGPU_EUSAGE);
	CHECK(strstr(error.text, "the issuer's certificate ends in 29 days"));
	CHECK(lasts(w.ca, &w.roots, still, 30, NULL) == 29LL * DAY + 1);
	/* Without days: 30, or what is left. */
	CHECK(lasts(w.ca, &w.roots, NOW, 0, NULL) == 30LL * DAY &&
	      lasts(w.ek, &w.machine, NOW, 0, NULL) == 30LL * DAY &&
	      lasts(w.ca, &w.roots, late, 0, NULL) == 29LL * DAY);
	/* An EK's may last longer, and an AK's not. */
	CHECK(lasts(w.ca, &w.roots, NOW, 31, NULL) == 31LL * DAY);
	CHECK(lasts(w.ek, &w.machine, NOW, 31, &error) == SGPU_EUSAGE &&
	      strstr(error.text, "30 days"));
	/* A chain that nobody would read is not made. */
	for (w.roots.count = 1; w.roots.count < SGPU_CHAIN_MAX; w.roots.count++) {
		w.roots.list[w.roots.count] = w.roots.list[0];
	}
	CHECK(lasts(w.ca, &w.roots, NOW, 30, NULL) == SGPU_EINVALID);
	w.roots.count--;
	CHECK(lasts(w.ca, &w.roots, NOW, 30, NULL) == 30LL * DAY);
	w.roots = roots;
	char *pem = NULL;
	size_t size = 0;
	CHECK(sgpu_ca_create(w.ca, "", NOW, 1, &pem, &size, NULL) == SGPU_EUSAGE);
	/* An attestation key issues nothing. */
	struct sgpu_chain none;
	CHECK(world_certify(w.ak, &w.chain, w.ek, NOW, 1, &none, NULL) == SGPU_EINVALID);
}

UNIT_TEST(a_chain_is_believed_in_its_time_and_under_its_root_alone)
{
	struct sgpu_error error = { 0 };
	struct world other;
	struct sgpu_chain none = { 0 }, leaf_as_root = w.chain, alone = w.chain, ek = w.machine;

	REQUIRE(!world_make(&other));
	CHECK(!believe(&w.chain, &w.roots, NOW, NULL));
	CHECK(!believe(&w.chain, &w.roots, NOW - 5, NULL));
	CHECK(believe(&w.chain, &w.roots, NOW - 6, NULL) == SGPU_EEXPIRED);
	CHECK(!believe(&w.chain, &w.roots, NOW + 30LL * DAY - 6, NULL));
	CHECK(believe(&w.chain, &w.roots, NOW + 30LL * DAY + 1, &error) == SGPU_EEXPIRED);
	CHECK(strstr(error.text, "certificate 1"));
	/* Same name, another key. */
	CHECK(believe(&w.chain, &other.roots, NOW, NULL) == SGPU_ECHAIN);
	CHECK(believe(&other.chain, &w.roots, NOW, NULL) == SGPU_ECHAIN);
	CHECK(believe(&w.chain, &none, NOW, NULL) == SGPU_ECHAIN);
	CHECK(believe(&none, &w.roots, NOW, NULL) == SGPU_ECHAIN);
	/* A leaf in place of a root makes no chain. */
	leaf_as_root.count = 1;
	CHECK(believe(&w.chain, &leaf_as_root, NOW, NULL) == SGPU_ECHAIN);
	/* The root need not be in the chain, and the endorsement key's certificate must. */
	alone.count = 2;
	CHECK(!believe(&alone, &w.roots, NOW, NULL));
	alone.count = 1;
	CHECK(believe(&alone, &w.roots, NOW, NULL) == SGPU_ECHAIN);
	/* The endorsement key's is no root. */
	ek.count = 1;
	CHECK(believe(&w.chain, &ek, NOW, NULL) == SGPU_ECHAIN);
	/* What signs certificates signs no evidence. */
	CHECK(believe(&w.roots, &w.roots, NOW, &error) == SGPU_ECHAIN &&
	      strstr(error.text, "signatures"));
	CHECK(believe(&w.machine, &w.roots, NOW, &error) == SGPU_ECHAIN &&
	      strstr(error.text, "signatures"));
	world_free(&other);
}

static EVP_PKEY *key_of(const struct sgpu_signer *signer)
{
	char *pem = NULL;
	size_t size = 0;

	if (sgpu_signer_private_pem(signer, &pem, &size, NULL)) {
		abort();
	}
	BIO *bio = BIO_new_mem_buf(pem, (int)size);
	EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
	BIO_free(bio);
	sgpu_free_wiped(&pem, size);
	return key;
}

static void extend(X509 *certificate, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX context;

	X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
	if (!extension || X509_add_ext(certificate, extension, -1) != 1) {
		abort();
	}
	X509_EXTENSION_free(extension);
}

static const EVP_MD *(*digest_of_leaf)(void) = EVP_sha384;
static int64_t end_of_leaf = NOW + DAY;

/* What a hostile holder of a key can issue: a certificate for `key`. issuer NULL: its own. */
static X509 *make_certificate(const struct sgpu_signer *issuer_key, X509 *issuer, EVP_PKEY *key,
			      const char *usage, const char *basic, const char *purpose)
{
	EVP_PKEY *signer = key_of(issuer_key);
	X509 *made = X509_new(), *read;
	unsigned char *der = NULL;

	issuer = issuer ? issuer : made;
	X509_set_version(made, X509_VERSION_3);
	X509_set_pubkey(made, key);
	ASN1_INTEGER_set(X509_get_serialNumber(made), 77);
	X509_NAME_add_entry_by_NID(X509_get_subject_name(made), NID_commonName, MBSTRING_ASC,
				   (const unsigned char *)"forged", -1, -1, 0);
	X509_set_issuer_name(made, X509_get_subject_name(issuer));
	ASN1_TIME_set(X509_getm_notBefore(made), NOW - 1);
	ASN1_TIME_set(X509_getm_notAfter(made), end_of_leaf);
	extend(made, issuer, NID_basic_constraints, basic);
	extend(made, issuer, NID_key_usage, usage);
	if (purpose) {
		extend(made, issuer, NID_ext_key_usage, purpose);
	}
	extend(made, issuer, NID_subject_key_identifier, "hash");
	extend(made, issuer, NID_authority_key_identifier, "keyid:always");
	X509_sign(made, signer, digest_of_leaf());
	const size_t size = (size_t)i2d_X509(made, &der);
	read = sgpu_certificate_parse(der, size);
	OPENSSL_free(der);
	EVP_PKEY_free(signer);
	X509_free(made);
	return read;
}

/* Whether such a leaf is believed, put before the chain that it comes from. */
static int forge_for(const struct sgpu_signer *issuer_key, const struct sgpu_chain *above,
		     EVP_PKEY *key, const char *usage, const char *basic, const char *purpose)
{
	X509 *issuer = leaf_of(above);
	struct sgpu_chain chain = { .count = 1 };

	chain.list[0] = make_certificate(issuer_key, issuer, key, usage, basic, purpose);
	for (int i = 0; i < above->count; i++) {
		chain.list[chain.count++] = above->list[i];
	}
	int code = believe(&chain, &w.roots, NOW, NULL);
	X509_free(chain.list[0]);
	X509_free(issuer);
	return code;
}

static int forge(const struct sgpu_signer *issuer_key, const struct sgpu_chain *above,
		 EVP_PKEY *key, const char *usage, const char *basic)
{
	return forge_for(issuer_key, above, key, usage, basic, NULL);
}

/* Not even in a file of roots: only authorities are any. */
UNIT_TEST(a_certificate_that_is_no_authority_is_no_root_of_its_own)
{
	struct sgpu_chain alone = { .count = 1 }, both = w.roots;
	EVP_PKEY *key = key_of(w.ek);

	alone.list[0] = both.list[both.count++] = make_certificate(
		w.ek, NULL, key, "critical,digitalSignature", "critical,CA:FALSE", NULL);
	CHECK(believe(&alone, &alone, NOW, NULL) == SGPU_ECHAIN);
	CHECK(believe(&alone, &both, NOW, NULL) == SGPU_ECHAIN);
	/* What stands beside the authority takes nothing from it. */
	CHECK(!believe(&w.chain, &both, NOW, NULL));
	sgpu_chain_clear(&alone);
	EVP_PKEY_free(key);
}

UNIT_TEST(a_certificate_for_other_purposes_signs_no_evidence)
{
	static const char usage[] = "critical,digitalSignature", basic[] = "critical,CA:FALSE";
	EVP_PKEY *key = key_of(w.ak);

	CHECK(forge_for(w.ek, &w.machine, key, usage, basic, "serverAuth,clientAuth") ==
	      SGPU_ECHAIN);
	CHECK(forge_for(w.ek, &w.machine, key, usage, basic, "critical,codeSigning") ==
	      SGPU_ECHAIN);
	CHECK(forge_for(w.ek, &w.machine, key, usage, basic, "1.2.3.4.5") == SGPU_ECHAIN);
	CHECK(!forge_for(w.ek, &w.machine, key, usage, basic, "anyExtendedKeyUsage"));
	EVP_PKEY_free(key);
}

UNIT_TEST(a_chain_with_a_leaf_or_a_wrong_key_in_it_is_refused)
{
	EVP_PKEY *key = key_of(w.ak), *small = EVP_EC_gen("P-256");

	CHECK(!forge(w.ek, &w.machine, key, "critical,digitalSignature", "critical,CA:FALSE"));
	/* An attestation key issues nothing. */
	CHECK(forge(w.ak, &w.chain, key, "critical,digitalSignature", "critical,CA:FALSE") ==
	      SGPU_ECHAIN);
	/* Signed by somebody else than who is named. */
	CHECK(forge(w.ca, &w.machine, key, "critical,digitalSignature", "critical,CA:FALSE") ==
	      SGPU_ECHAIN);
	CHECK(forge(w.ek, &w.machine, small, "critical,digitalSignature", "critical,CA:FALSE") ==
	      SGPU_ECHAIN);
	CHECK(forge(w.ek, &w.machine, key, "critical,keyAgreement", "critical,CA:FALSE") ==
	      SGPU_ECHAIN);
	CHECK(forge(w.ek, &w.machine, key, "critical,digitalSignature,keyCertSign",
		    "critical,CA:TRUE") == SGPU_ECHAIN);
	CHECK(forge(w.ek, &w.machine, key, "critical,digitalSignature,cRLSign",
		    "critical,CA:TRUE") == SGPU_ECHAIN);
	EVP_PKEY_free(key);
	EVP_PKEY_free(small);
}

UNIT_TEST(a_leaf_that_lasts_too_long_or_is_not_an_endorsement_keys_is_refused)
{
	static const char usage[] = "critical,digitalSignature", basic[] = "critical,CA:FALSE";
	EVP_PKEY *key = key_of(w.ak);
	struct sgpu_chain machine = w.machine;

	/* It began a second ago; a minute is for the clocks of who made it. */
	end_of_leaf = NOW - 1 + 30LL * DAY + 60;
	CHECK(!forge(w.ek, &w.machine, key, usage, basic));
	end_of_leaf++;
	CHECK(forge(w.ek, &w.machine, key, usage, basic) == SGPU_ECHAIN);
	/* No longer than its endorsement key's, to the second. */
	REQUIRE(!world_certify(w.ca, &w.roots, w.ek, NOW - 5, 10, &w.machine, NULL));
	end_of_leaf = NOW - 5 + 10LL * DAY;
	CHECK(!forge(w.ek, &w.machine, key, usage, basic));
	end_of_leaf++;
	CHECK(forge(w.ek, &w.machine, key, usage, basic) == SGPU_ECHAIN);
	sgpu_chain_clear(&w.machine);
	w.machine = machine;
	end_of_leaf = NOW + DAY;
	/* The authority certifies no attestation keys itself. */
	CHECK(forge(w.ca, &w.roots, key, usage, basic) == SGPU_ECHAIN);
	EVP_PKEY_free(key);
}

UNIT_TEST(a_chain_of_a_low_security_level_is_refused)
{
	EVP_PKEY *key = key_of(w.ak);

	/* Two files with one SHA-1 can be made; SHA-224 is the least that gives 112 bits. */
	digest_of_leaf = EVP_sha1;
	CHECK(forge(w.ek, &w.machine, key, "critical,digitalSignature", "critical,CA:FALSE") ==
	      SGPU_ECHAIN);
	digest_of_leaf = EVP_sha224;
	CHECK(!forge(w.ek, &w.machine, key, "critical,digitalSignature", "critical,CA:FALSE"));
	digest_of_leaf = EVP_sha384;
	CHECK(!forge(w.ek, &w.machine, key, "critical,digitalSignature", "critical,CA:FALSE"));
	EVP_PKEY_free(key);
}

UNIT_TEST(pem_files_hold_certificates_and_nothing_else)
{
	char *pem = NULL, *twice = NULL, *request = NULL;
	struct sgpu_chain chain;
	size_t size = 0;

	REQUIRE(!sgpu_request_create(w.ak, &request, &size, NULL));
	REQUIRE(!sgpu_ca_create(w.ca, "x", NOW, 1, &pem, &size, NULL));
	CHECK(!sgpu_chain_parse(pem, size, "x", &chain, NULL) && chain.count == 1);
	sgpu_chain_clear(&chain);
	CHECK(sgpu_chain_parse("", 0, "x", &chain, NULL) == SGPU_EINVALID && !chain.count);
	CHECK(sgpu_chain_parse("hello\n", 6, "x", &chain, NULL) == SGPU_EINVALID);
	CHECK(sgpu_chain_parse(request, strlen(request), "x", &chain, NULL) == SGPU_EINVALID);
	CHECK(sgpu_chain_parse(pem, size / 2, "x", &chain, NULL) == SGPU_EINVALID);
	REQUIRE(asprintf(&twice, "%s%s%s%s%s%s%s%s%s", pem, pem, pem, pem, pem, pem, pem, pem,
			 pem) > 0);
	CHECK(sgpu_chain_parse(twice, strlen(twice), "x", &chain, NULL) == SGPU_EINVALID &&
	      !chain.count);
	CHECK(!sgpu_chain_parse(twice, 8 * size, "x", &chain, NULL) && chain.count == 8);
	sgpu_chain_clear(&chain);
	memcpy(twice + size + 100, "!!!!", 4);
	CHECK(sgpu_chain_parse(twice, 3 * size, "x", &chain, NULL) == SGPU_EINVALID);
	free(request);
	free(twice);
	free(pem);
}

int main(void)
{
	if (world_make(&w)) {
		printf("Bail out! cannot make keys\n");
		return 1;
	}
	UNIT_RUN(certificates_name_their_keys_and_say_what_they_are_for);
	UNIT_RUN(serial_numbers_differ);
	UNIT_RUN(a_request_that_its_key_did_not_sign_or_that_was_altered_is_refused);
	UNIT_RUN(an_issuer_signs_with_its_own_certificate_while_that_is_valid);
	UNIT_RUN(a_chain_is_believed_in_its_time_and_under_its_root_alone);
	UNIT_RUN(a_chain_with_a_leaf_or_a_wrong_key_in_it_is_refused);
	UNIT_RUN(a_certificate_that_is_no_authority_is_no_root_of_its_own);
	UNIT_RUN(a_certificate_for_other_purposes_signs_no_evidence);
	UNIT_RUN(a_leaf_that_lasts_too_long_or_is_not_an_endorsement_keys_is_refused);
	UNIT_RUN(a_chain_of_a_low_security_level_is_refused);
	UNIT_RUN(pem_files_hold_certificates_and_nothing_else);
	world_free(&w);
	return unit_done();
}
