/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys and certificates for tests of TEE reports.
 */
#include "tee_maker.h"

void tee_need(int good, const char *what)
{
	if (!good) {
		fprintf(stderr, "cannot make test material: %s\n", what);
		abort();
	}
}

EVP_PKEY *tee_key(const char *kind)
{
	EVP_PKEY *key = !strcmp(kind, "RSA") ? EVP_RSA_gen(2048) : EVP_EC_gen(kind);

	tee_need(key != NULL, kind);
	return key;
}

static void tee_add(X509 *certificate, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX context;

	X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
	tee_need(extension && X509_add_ext(certificate, extension, -1), value);
	X509_EXTENSION_free(extension);
}

void tee_add_raw(X509 *certificate, const char *number, const void *data, size_t size)
{
	ASN1_OBJECT *object = OBJ_txt2obj(number, 1);
	ASN1_OCTET_STRING *value = ASN1_OCTET_STRING_new();

	tee_need(object && value && ASN1_OCTET_STRING_set(value, data, (int)size), number);
	X509_EXTENSION *extension = X509_EXTENSION_create_by_OBJ(NULL, object, 0, value);
	tee_need(extension && X509_add_ext(certificate, extension, -1), number);
	X509_EXTENSION_free(extension);
	ASN1_OCTET_STRING_free(value);
	ASN1_OBJECT_free(object);
}

void tee_sign_by(X509 *certificate, EVP_PKEY *key, const EVP_MD *digest)
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	EVP_PKEY_CTX *parameters = NULL;
	bool rsa = EVP_PKEY_is_a(key, "RSA");

	tee_need(context && EVP_DigestSignInit(context, &parameters, digest, NULL, key) == 1,
		 "signature");
	if (rsa) {
		tee_need(EVP_PKEY_CTX_set_rsa_padding(parameters, RSA_PKCS1_PSS_PADDING) == 1 &&
				 EVP_PKEY_CTX_set_rsa_pss_saltlen(parameters, 48) == 1,
			 "PSS");
	}
	tee_need(X509_sign_ctx(certificate, context) > 0, "certificate");
	EVP_MD_CTX_free(context);
}

void tee_sign(X509 *certificate, EVP_PKEY *key)
{
	tee_sign_by(certificate, key, EVP_PKEY_is_a(key, "RSA") ? EVP_sha384() : EVP_sha256());
}

struct tee_identity tee_start(const char *name, const char *kind, const struct tee_identity *issuer,
			      bool ca)
{
	static long serial;
	struct tee_identity made = { tee_key(kind), X509_new() };
	X509_NAME *subject = made.certificate ? X509_get_subject_name(made.certificate) : NULL;
	X509 *above = issuer ? issuer->certificate : made.certificate;

	tee_need(subject && X509_set_version(made.certificate, 2) &&
			 X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
						    (const unsigned char *)name, -1, -1, 0),
		 name);
	tee_need(ASN1_INTEGER_set(X509_get_serialNumber(made.certificate), ++serial) &&
			 ASN1_TIME_set(X509_getm_notBefore(made.certificate), TEE_FROM) &&
			 ASN1_TIME_set(X509_getm_notAfter(made.certificate), TEE_TO) &&
			 X509_set_issuer_name(made.certificate, X509_get_subject_name(above)) &&
			 X509_set_pubkey(made.certificate, made.key),
		 name);
	if (ca) {
		tee_add(made.certificate, above, NID_basic_constraints, "critical,CA:TRUE");
		tee_add(made.certificate, above, NID_key_usage, "critical,keyCertSign,cRLSign");
	}
	return made;
}

struct tee_identity tee_authority(const char *name, const char *kind,
				  const struct tee_identity *issuer)
{
	struct tee_identity made = tee_start(name, kind, issuer, true);

	tee_sign(made.certificate, issuer ? issuer->key : made.key);
	return made;
}

void tee_free(struct tee_identity *identity)
{
	EVP_PKEY_free(identity->key);
	X509_free(identity->certificate);
}

uint8_t *tee_der(X509 *certificate, size_t *size)
{
	unsigned char *der = NULL;
	int length = i2d_X509(certificate, &der);

	tee_need(length > 0, "DER");
	uint8_t *copy = malloc((size_t)length);
	tee_need(copy != NULL, "memory");
	memcpy(copy, der, (size_t)length);
	OPENSSL_free(der);
	*size = (size_t)length;
	return copy;
}

void tee_push(struct sgpu_chain *chain, X509 *certificate)
{
	X509_up_ref(certificate);
	chain->list[chain->count++] = certificate;
}

char *tee_pem(X509 *const *certificates, size_t count, size_t *size)
{
	BIO *bio = BIO_new(BIO_s_mem());
	char *data = NULL;

	for (size_t i = 0; i < count; i++) {
		tee_need(PEM_write_bio_X509(bio, certificates[i]), "PEM");
	}
	*size = (size_t)BIO_get_mem_data(bio, &data);
	char *copy = malloc(*size + 1);
	tee_need(copy != NULL, "memory");
	memcpy(copy, data, *size);
	copy[*size] = '\0';
	BIO_free(bio);
	return copy;
}

void tee_ecdsa(EVP_PKEY *key, const EVP_MD *digest, const void *data, size_t size,
	       uint8_t *signature, int half)
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	uint8_t der[160];
	const uint8_t *next = der;
	size_t length = sizeof(der);

	tee_need(EVP_DigestSignInit(context, NULL, digest, NULL, key) == 1 &&
			 EVP_DigestSign(context, der, &length, data, size) == 1,
		 "ECDSA");
	ECDSA_SIG *parts = d2i_ECDSA_SIG(NULL, &next, (long)length);
	tee_need(parts && BN_bn2binpad(ECDSA_SIG_get0_r(parts), signature, half) > 0 &&
			 BN_bn2binpad(ECDSA_SIG_get0_s(parts), signature + half, half) > 0,
		 "ECDSA");
	ECDSA_SIG_free(parts);
	EVP_MD_CTX_free(context);
}

void tee_put16(uint8_t *at, unsigned value)
{
	at[0] = (uint8_t)value;
	at[1] = (uint8_t)(value >> 8);
}

void tee_put32(uint8_t *at, uint32_t value)
{
	tee_put16(at, value & 0xffff);
	tee_put16(at + 2, value >> 16);
}

/* The record of such a report, from malloc. */
static char *tee_record(const char *provider, const void *outblob, size_t size, const void *auxblob,
			size_t auxblob_size)
{
	json_t *record = json_pack(
		"{s:o, s:o, s:s}", "outblob", sgpu_json_from_bytes(outblob, size), "auxblob",
		sgpu_json_from_bytes(auxblob, auxblob_size), "provider", provider);
	char *text = json_dumps(record, JSON_COMPACT);

	tee_need(text != NULL, "record");
	json_decref(record);
	return text;
}

int tee_verify(const char *provider, const void *outblob, size_t size, const void *auxblob,
	       size_t auxblob_size, const struct sgpu_chain *given, const struct sgpu_chain *roots,
	       int64_t now, struct sgpu_tee_report *report, struct sgpu_error *error)
{
	char *text = tee_record(provider, outblob, size, auxblob, auxblob_size);

	memset(error, 0, sizeof(*error));
	int rc =
		sgpu_tsm_verify(text, strlen(text),
				&(struct sgpu_quote_checks){
					.tee_certificates = given, .tee_roots = roots, .now = now },
				report, error);
	free(text);
	return rc;
}

size_t tee_step(size_t small)
{
	return getenv("SGPU_TEST_SMALL") ? small : 1;
}
