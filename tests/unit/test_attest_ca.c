/* SPDX-License-Identifier: Apache-2.0
 *
 * The CA and chains of certificates: who gets one, and which chains are believed when.
 */
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "test_attest.h"
#include "../harness/token.h"

static struct world w;

static int certify(const char *eks, const char *request, int64_t now, struct sgpu_error *error)
{
	struct sgpu_chain chain = { 0 };
	int code = world_certify(&w, eks, request, strlen(request), now, &chain, error);

	sgpu_chain_clear(&chain);
	return code;
}

static X509 *leaf_of(const struct sgpu_chain *chain)
{
	const unsigned char *next = chain->der[0];

	return d2i_X509(NULL, &next, (long)chain->size[0]);
}

UNIT_TEST(the_certificate_of_an_attestation_key_names_its_machine)
{
	uint8_t fingerprint[SGPU_SHA256_SIZE], key_id[SGPU_SHA256_SIZE];
	char hex[2 * SGPU_SHA256_SIZE + 1], serial[128] = "";
	X509 *leaf = leaf_of(&w.chain);
	unsigned char *spki = NULL;

	REQUIRE(leaf && w.chain.count == 2 && !sgpu_signer_fingerprint(w.ek, fingerprint, NULL));
	sgpu_hex_encode(fingerprint, sizeof(fingerprint), hex);
	CHECK(X509_NAME_get_text_by_NID(X509_get_subject_name(leaf), NID_serialNumber, serial,
					sizeof(serial)) == 64);
	CHECK(!strcmp(serial, hex));
	REQUIRE(!sgpu_signer_fingerprint(w.ak, fingerprint, NULL));
	int size = i2d_PUBKEY(X509_get0_pubkey(leaf), &spki);
	CHECK(size > 0 && !sgpu_sha256(spki, (size_t)size, key_id, NULL) &&
	      !memcmp(key_id, fingerprint, sizeof(key_id)));
	OPENSSL_free(spki);
	CHECK(X509_get_extension_flags(leaf) & EXFLAG_BCONS &&
	      !(X509_get_extension_flags(leaf) & EXFLAG_CA));
	CHECK(X509_get_key_usage(leaf) == KU_DIGITAL_SIGNATURE);
	CHECK(X509_get0_subject_key_id(leaf) && X509_get0_authority_key_id(leaf));
	X509_free(leaf);
}

UNIT_TEST(serial_numbers_differ)
{
	struct sgpu_chain other = { 0 };
	char *request = NULL;
	size_t size = 0;

	REQUIRE(!sgpu_enroll_request(w.ek, w.ak, NOW, &request, &size, NULL));
	REQUIRE(!world_certify(&w, w.eks, request, size, NOW, &other, NULL));
	X509 *a = leaf_of(&w.chain), *b = leaf_of(&other);
	CHECK(ASN1_INTEGER_cmp(X509_get0_serialNumber(a), X509_get0_serialNumber(b)));
	X509_free(a);
	X509_free(b);
	sgpu_chain_clear(&other);
	free(request);
}

UNIT_TEST(a_request_of_an_unknown_machine_or_an_old_one_is_refused)
{
	struct sgpu_signer *stranger = NULL;
	struct sgpu_error error = { 0 };
	char *request = NULL, *foreign = NULL, *pem = NULL, *both = NULL;
	size_t size = 0;

	REQUIRE(!sgpu_signer_generate(false, &stranger, NULL) &&
		!sgpu_signer_public_pem(stranger, &pem, &size, NULL));
	REQUIRE(!sgpu_enroll_request(w.ek, w.ak, NOW, &request, &size, NULL));
	REQUIRE(!sgpu_enroll_request(stranger, w.ak, NOW, &foreign, &size, NULL));
	CHECK(!certify(w.eks, request, NOW, NULL) && !certify(w.eks, request, NOW + 600, NULL));
	CHECK(certify(w.eks, request, NOW + 601, NULL) == SGPU_EEXPIRED);
	CHECK(!certify(w.eks, request, NOW - 60, NULL) &&
	      certify(w.eks, request, NOW - 61, NULL) == SGPU_EEXPIRED);
	CHECK(certify(w.eks, foreign, NOW, &error) == SGPU_EPOLICY && strstr(error.text, "known"));
	CHECK(certify(pem, request, NOW, NULL) == SGPU_EPOLICY &&
	      certify("", request, NOW, NULL) == SGPU_EINVALID);
	REQUIRE(asprintf(&both, "%s%s", pem, w.eks) > 0);
	CHECK(!certify(both, request, NOW, NULL) && !certify(both, foreign, NOW, NULL));
	CHECK(certify(w.eks, "x", NOW, NULL) == SGPU_EINVALID);
	sgpu_signer_free(&stranger);
	free(request);
	free(foreign);
	free(both);
	free(pem);
}

UNIT_TEST(an_altered_request_is_refused)
{
	char *request = NULL;
	size_t size = 0;

	REQUIRE(!sgpu_enroll_request(w.ek, w.ak, NOW, &request, &size, NULL));
	for (size_t i = 0; i + 1 < size; i += getenv("SGPU_TEST_SMALL") ? 61 : 7) {
		char was = request[i];
		request[i] = was == 'A' ? 'B' : 'A';
		int code = certify(w.eks, request, NOW, NULL);
		CHECK(code == SGPU_EINVALID || code == SGPU_ESIGNATURE || code == SGPU_EPOLICY);
		request[i] = was;
	}
	CHECK(!certify(w.eks, request, NOW, NULL));
	free(request);
}

/* The request of `ak`, in a token that the EK signed although the AK did not sign what is inside.
 */
UNIT_TEST(a_request_that_the_attestation_key_did_not_sign_is_refused)
{
	uint8_t fingerprint[SGPU_SHA256_SIZE];
	char kid[64], header[256], *payload = NULL, *request = NULL;
	struct sgpu_error error = { 0 };
	size_t size = 0;

	REQUIRE(!sgpu_enroll_request(w.ek, w.ak, NOW, &request, &size, NULL));
	REQUIRE(!token_verify(request, size - 1, w.eks, &payload, &size, NULL, NULL));
	free(request);
	REQUIRE(!sgpu_signer_fingerprint(w.ek, fingerprint, NULL));
	sgpu_base64url_encode(fingerprint, sizeof(fingerprint), kid);
	snprintf(header, sizeof(header),
		 "{\"alg\":\"ES384\",\"typ\":\"sgpu-enrolment+jwt\",\"kid\":\"%s\"}", kid);
	request = sign_raw(w.ek, header, payload);
	CHECK(!certify(w.eks, request, NOW, NULL));
	free(request);
	char *inside = strstr(payload, "\"pkcs10\":\"");
	REQUIRE(inside);
	char *end = strchr(inside + 10, '"');
	end[-12] = end[-12] == 'A' ? 'B' : 'A';
	request = sign_raw(w.ek, header, payload);
	CHECK(certify(w.eks, request, NOW, &error) == SGPU_ESIGNATURE &&
	      strstr(error.text, "attestation key"));
	free(request);
	request =
		sign_raw(w.ek, header,
			 "{\"type\":\"sgpu enrolment v1\",\"iat\":1800000000,\"pkcs10\":\"AAAA\"}");
	CHECK(certify(w.eks, request, NOW, NULL) == SGPU_EINVALID);
	free(request);
	request = sign_raw(
		w.ek, header,
		"{\"type\":\"sgpu enrolment v1\",\"iat\":1800000000.5,\"pkcs10\":\"AAAA\"}");
	CHECK(certify(w.eks, request, NOW, NULL) == SGPU_EINVALID);
	free(request);
	REQUIRE(!sgpu_enroll_request(w.ek, w.ek, NOW, &request, &size, NULL));
	CHECK(certify(w.eks, request, NOW, &error) == SGPU_EINVALID &&
	      strstr(error.text, "endorsement"));
	free(request);
	free(payload);
}

UNIT_TEST(a_ca_signs_with_its_own_certificate_while_that_is_valid)
{
	struct sgpu_signer *ca = w.ca;
	char *request = NULL;
	size_t size = 0;

	REQUIRE(!sgpu_enroll_request(w.ek, w.ak, NOW, &request, &size, NULL));
	w.ca = w.ek;
	CHECK(certify(w.eks, request, NOW, NULL) == SGPU_EKEY);
	w.ca = ca;
	free(request);
	REQUIRE(!sgpu_enroll_request(w.ek, w.ak, NOW + 400LL * DAY, &request, &size, NULL));
	CHECK(certify(w.eks, request, NOW + 400LL * DAY, NULL) == SGPU_EEXPIRED);
	free(request);
	/* A leaf may not end after its CA, by which less than a day is cut off. */
	static const int64_t late = NOW + 335LL * DAY, still = NOW + 335LL * DAY - 1;
	struct sgpu_error error = { 0 };
	REQUIRE(!sgpu_enroll_request(w.ek, w.ak, late, &request, &size, NULL));
	struct sgpu_chain chain = { 0 };
	CHECK(world_certify(&w, w.eks, request, size, late, &chain, &error) == SGPU_EUSAGE);
	CHECK(strstr(error.text, "the CA's certificate ends in 29 days"));
	/* A day that has begun counts, as it does for what may be asked for. */
	CHECK(world_certify(&w, w.eks, request, size, late + 1, &chain, &error) == SGPU_EUSAGE);
	CHECK(strstr(error.text, "the CA's certificate ends in 29 days"));
	REQUIRE(!world_certify(&w, w.eks, request, size, still, &chain, NULL));
	X509 *leaf = leaf_of(&chain);
	CHECK(ASN1_TIME_cmp_time_t(X509_get0_notAfter(leaf), NOW + 364LL * DAY) == 0);
	X509_free(leaf);
	sgpu_chain_clear(&chain);
	/* A chain that nobody would read is not made. */
	struct sgpu_chain roots = w.roots;
	for (w.roots.count = 1; w.roots.count < SGPU_CHAIN_MAX; w.roots.count++) {
		w.roots.der[w.roots.count] = w.roots.der[0];
		w.roots.size[w.roots.count] = w.roots.size[0];
	}
	CHECK(world_certify(&w, w.eks, request, size, still, &chain, NULL) == SGPU_EINVALID);
	w.roots.count--;
	CHECK(!world_certify(&w, w.eks, request, size, still, &chain, NULL));
	w.roots = roots;
	sgpu_chain_clear(&chain);
	free(request);
	char *pem = NULL;
	CHECK(sgpu_ca_create(w.ca, "", NOW, 1, &pem, &size, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_ca_create(w.ca, "x", NOW, 0, &pem, &size, NULL) == SGPU_EUSAGE);
}

UNIT_TEST(a_chain_is_believed_in_its_time_and_under_its_root_alone)
{
	struct sgpu_error error = { 0 };
	struct world other;
	struct sgpu_chain none = { 0 }, leaf_as_root = w.chain, alone = w.chain;

	REQUIRE(!world_make(&other));
	CHECK(!sgpu_chain_verify(&w.chain, &w.roots, NOW, NULL));
	CHECK(!sgpu_chain_verify(&w.chain, &w.roots, NOW - 5, NULL));
	CHECK(sgpu_chain_verify(&w.chain, &w.roots, NOW - 6, NULL) == SGPU_EEXPIRED);
	CHECK(!sgpu_chain_verify(&w.chain, &w.roots, NOW + 30LL * DAY - 6, NULL));
	CHECK(sgpu_chain_verify(&w.chain, &w.roots, NOW + 30LL * DAY + 1, &error) == SGPU_EEXPIRED);
	CHECK(strstr(error.text, "certificate 1"));
	/* Same name, another key. */
	CHECK(sgpu_chain_verify(&w.chain, &other.roots, NOW, NULL) == SGPU_ECHAIN);
	CHECK(sgpu_chain_verify(&other.chain, &w.roots, NOW, NULL) == SGPU_ECHAIN);
	CHECK(sgpu_chain_verify(&w.chain, &none, NOW, NULL) == SGPU_ECHAIN);
	CHECK(sgpu_chain_verify(&none, &w.roots, NOW, NULL) == SGPU_ECHAIN);
	/* A leaf in place of a root makes no chain. */
	leaf_as_root.count = 1;
	CHECK(sgpu_chain_verify(&w.chain, &leaf_as_root, NOW, NULL) == SGPU_ECHAIN);
	alone.count = 1;
	CHECK(!sgpu_chain_verify(&alone, &w.roots, NOW, NULL));
	/* A CA's certificate signs certificates, no evidence. */
	CHECK(sgpu_chain_verify(&w.roots, &w.roots, NOW, &error) == SGPU_ECHAIN &&
	      strstr(error.text, "signatures"));
	world_free(&other);
}

UNIT_TEST(a_leaf_cannot_issue_certificates)
{
	struct sgpu_signer *ak = w.ak, *inner = NULL, *ca = w.ca;
	struct sgpu_chain chain = { 0 }, roots = w.roots;
	char *request = NULL;
	size_t size = 0;

	REQUIRE(!sgpu_signer_generate(false, &inner, NULL));
	REQUIRE(!sgpu_enroll_request(w.ek, inner, NOW, &request, &size, NULL));
	w.ca = ak;
	w.roots = w.chain;
	CHECK(world_certify(&w, w.eks, request, size, NOW, &chain, NULL) == SGPU_EINVALID);
	w.ca = ca;
	w.roots = roots;
	sgpu_chain_clear(&chain);
	sgpu_signer_free(&inner);
	free(request);
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

/* What a hostile holder of a key can issue: a leaf for `key`, put before the chain that it comes
 * from. */
static int forge_for(const struct sgpu_signer *issuer_key, const struct sgpu_chain *above,
		     EVP_PKEY *key, const char *usage, const char *basic, const char *purpose)
{
	X509 *issuer = leaf_of(above), *made = X509_new();
	EVP_PKEY *signer = key_of(issuer_key);
	struct sgpu_chain chain = { .count = 1 };
	unsigned char *der = NULL;

	X509_set_version(made, X509_VERSION_3);
	X509_set_pubkey(made, key);
	ASN1_INTEGER_set(X509_get_serialNumber(made), 77);
	X509_set_issuer_name(made, X509_get_subject_name(issuer));
	ASN1_TIME_set(X509_getm_notBefore(made), NOW - 1);
	ASN1_TIME_set(X509_getm_notAfter(made), NOW + DAY);
	extend(made, issuer, NID_basic_constraints, basic);
	extend(made, issuer, NID_key_usage, usage);
	if (purpose) {
		extend(made, issuer, NID_ext_key_usage, purpose);
	}
	extend(made, issuer, NID_subject_key_identifier, "hash");
	extend(made, issuer, NID_authority_key_identifier, "keyid:always");
	X509_NAME_add_entry_by_NID(X509_get_subject_name(made), NID_commonName, MBSTRING_ASC,
				   (const unsigned char *)"forged", -1, -1, 0);
	X509_sign(made, signer, digest_of_leaf());
	chain.size[0] = (size_t)i2d_X509(made, &der);
	chain.der[0] = der;
	for (int i = 0; i < above->count; i++) {
		chain.der[chain.count] = above->der[i];
		chain.size[chain.count++] = above->size[i];
	}
	int code = sgpu_chain_verify(&chain, &w.roots, NOW, NULL);
	OPENSSL_free(der);
	EVP_PKEY_free(signer);
	X509_free(made);
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
	X509 *made = X509_new();
	unsigned char *der = NULL;

	X509_set_version(made, X509_VERSION_3);
	X509_set_pubkey(made, key);
	ASN1_INTEGER_set(X509_get_serialNumber(made), 78);
	X509_NAME_add_entry_by_NID(X509_get_subject_name(made), NID_commonName, MBSTRING_ASC,
				   (const unsigned char *)"by itself", -1, -1, 0);
	X509_set_issuer_name(made, X509_get_subject_name(made));
	ASN1_TIME_set(X509_getm_notBefore(made), NOW - 1);
	ASN1_TIME_set(X509_getm_notAfter(made), NOW + DAY);
	extend(made, made, NID_basic_constraints, "critical,CA:FALSE");
	extend(made, made, NID_key_usage, "critical,digitalSignature");
	extend(made, made, NID_subject_key_identifier, "hash");
	extend(made, made, NID_authority_key_identifier, "keyid:always");
	X509_sign(made, key, EVP_sha384());
	alone.size[0] = (size_t)i2d_X509(made, &der);
	alone.der[0] = der;
	both.der[both.count] = alone.der[0];
	both.size[both.count++] = alone.size[0];
	CHECK(sgpu_chain_verify(&alone, &alone, NOW, NULL) == SGPU_ECHAIN);
	CHECK(sgpu_chain_verify(&alone, &both, NOW, NULL) == SGPU_ECHAIN);
	/* What stands beside the authority takes nothing from it. */
	CHECK(!sgpu_chain_verify(&w.chain, &both, NOW, NULL));
	OPENSSL_free(der);
	X509_free(made);
	EVP_PKEY_free(key);
}

UNIT_TEST(a_certificate_for_other_purposes_signs_no_evidence)
{
	static const char usage[] = "critical,digitalSignature", basic[] = "critical,CA:FALSE";
	EVP_PKEY *key = key_of(w.ek);

	CHECK(forge_for(w.ca, &w.roots, key, usage, basic, "serverAuth,clientAuth") == SGPU_ECHAIN);
	CHECK(forge_for(w.ca, &w.roots, key, usage, basic, "critical,codeSigning") == SGPU_ECHAIN);
	CHECK(forge_for(w.ca, &w.roots, key, usage, basic, "1.2.3.4.5") == SGPU_ECHAIN);
	CHECK(!forge_for(w.ca, &w.roots, key, usage, basic, "anyExtendedKeyUsage"));
	EVP_PKEY_free(key);
}

UNIT_TEST(a_chain_with_a_leaf_or_a_wrong_key_in_it_is_refused)
{
	EVP_PKEY *key = key_of(w.ek), *small = EVP_EC_gen("P-256");

	CHECK(!forge(w.ca, &w.roots, key, "critical,digitalSignature", "critical,CA:FALSE"));
	/* An attestation key issues nothing. */
	CHECK(forge(w.ak, &w.chain, key, "critical,digitalSignature", "critical,CA:FALSE") ==
	      SGPU_ECHAIN);
	/* Signed by somebody else than who is named. */
	CHECK(forge(w.ek, &w.roots, key, "critical,digitalSignature", "critical,CA:FALSE") ==
	      SGPU_ECHAIN);
	CHECK(forge(w.ca, &w.roots, small, "critical,digitalSignature", "critical,CA:FALSE") ==
	      SGPU_ECHAIN);
	CHECK(forge(w.ca, &w.roots, key, "critical,keyAgreement", "critical,CA:FALSE") ==
	      SGPU_ECHAIN);
	CHECK(forge(w.ca, &w.roots, key, "critical,digitalSignature,keyCertSign",
		    "critical,CA:TRUE") == SGPU_ECHAIN);
	CHECK(forge(w.ca, &w.roots, key, "critical,digitalSignature,cRLSign", "critical,CA:TRUE") ==
	      SGPU_ECHAIN);
	EVP_PKEY_free(key);
	EVP_PKEY_free(small);
}

UNIT_TEST(a_chain_of_a_low_security_level_is_refused)
{
	EVP_PKEY *key = key_of(w.ek);

	/* Two files with one SHA-1 can be made; SHA-224 is the least that gives 112 bits. */
	digest_of_leaf = EVP_sha1;
	CHECK(forge(w.ca, &w.roots, key, "critical,digitalSignature", "critical,CA:FALSE") ==
	      SGPU_ECHAIN);
	digest_of_leaf = EVP_sha224;
	CHECK(!forge(w.ca, &w.roots, key, "critical,digitalSignature", "critical,CA:FALSE"));
	digest_of_leaf = EVP_sha384;
	CHECK(!forge(w.ca, &w.roots, key, "critical,digitalSignature", "critical,CA:FALSE"));
	EVP_PKEY_free(key);
}

UNIT_TEST(pem_files_hold_certificates_and_nothing_else)
{
	char *pem = NULL, *twice = NULL;
	struct sgpu_chain chain;
	size_t size = 0;

	REQUIRE(!sgpu_ca_create(w.ca, "x", NOW, 1, &pem, &size, NULL));
	CHECK(!sgpu_chain_parse(pem, size, "x", &chain, NULL) && chain.count == 1);
	sgpu_chain_clear(&chain);
	CHECK(sgpu_chain_parse("", 0, "x", &chain, NULL) == SGPU_EINVALID && !chain.count);
	CHECK(sgpu_chain_parse("hello\n", 6, "x", &chain, NULL) == SGPU_EINVALID);
	CHECK(sgpu_chain_parse(w.eks, strlen(w.eks), "x", &chain, NULL) == SGPU_EINVALID);
	CHECK(sgpu_chain_parse(pem, size / 2, "x", &chain, NULL) == SGPU_EINVALID);
	REQUIRE(asprintf(&twice, "%s%s%s%s%s%s%s%s%s", pem, pem, pem, pem, pem, pem, pem, pem,
			 pem) > 0);
	CHECK(sgpu_chain_parse(twice, strlen(twice), "x", &chain, NULL) == SGPU_EINVALID &&
	      !chain.count);
	CHECK(!sgpu_chain_parse(twice, 8 * size, "x", &chain, NULL) && chain.count == 8);
	sgpu_chain_clear(&chain);
	memcpy(twice + size + 100, "!!!!", 4);
	CHECK(sgpu_chain_parse(twice, 3 * size, "x", &chain, NULL) == SGPU_EINVALID);
	free(twice);
	free(pem);
}

int main(void)
{
	if (world_make(&w)) {
		printf("Bail out! cannot make keys\n");
		return 1;
	}
	UNIT_RUN(the_certificate_of_an_attestation_key_names_its_machine);
	UNIT_RUN(serial_numbers_differ);
	UNIT_RUN(a_request_of_an_unknown_machine_or_an_old_one_is_refused);
	UNIT_RUN(an_altered_request_is_refused);
	UNIT_RUN(a_request_that_the_attestation_key_did_not_sign_is_refused);
	UNIT_RUN(a_ca_signs_with_its_own_certificate_while_that_is_valid);
	UNIT_RUN(a_chain_is_believed_in_its_time_and_under_its_root_alone);
	UNIT_RUN(a_leaf_cannot_issue_certificates);
	UNIT_RUN(a_chain_with_a_leaf_or_a_wrong_key_in_it_is_refused);
	UNIT_RUN(a_certificate_that_is_no_authority_is_no_root_of_its_own);
	UNIT_RUN(a_certificate_for_other_purposes_signs_no_evidence);
	UNIT_RUN(a_chain_of_a_low_security_level_is_refused);
	UNIT_RUN(pem_files_hold_certificates_and_nothing_else);
	world_free(&w);
	return unit_done();
}
