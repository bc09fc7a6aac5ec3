/* SPDX-License-Identifier: Apache-2.0
 *
 * TDX quotes, of the right layout and signed with keys of our own: what verifies, and that nothing
 * else does.
 */
#include <openssl/sha.h>

#include "tee_maker.h"

enum {
	QUOTE_MAX = 1 << 14,
	HEADER = 48,
	BODY = 584,
	BODY_15 = 648,
	HEAD_5 = 6,
	QE_REPORT = 384,
	QE_DATA = 32,
	AT_BODY = HEADER,
	AT_LENGTH = HEADER + BODY,
	AT_SIGNATURE = AT_LENGTH + 4,
	AT_QE = AT_SIGNATURE + 64 + 64 + 6,
	AT_CHAIN = AT_QE + QE_REPORT + 64 + 2 + QE_DATA + 6,
};

static const uint8_t vendor[16] = { 0x93, 0x9a, 0x72, 0x33, 0xf7, 0x9c, 0x4c, 0xa9,
				    0x94, 0x0a, 0x0d, 0xb3, 0x95, 0x7f, 0x06, 0x07 };
static const uint8_t intel[32] = {
	0xdc, 0x9e, 0x2a, 0x7c, 0x6f, 0x94, 0x8f, 0x17, 0x47, 0x4e, 0x34,
	0xa7, 0xfc, 0x43, 0xed, 0x03, 0x0f, 0x7c, 0x15, 0x63, 0xf1, 0xba,
	0xbd, 0xdf, 0x63, 0x40, 0xc8, 0x2e, 0x0e, 0x54, 0xa8, 0xc5,
};

static struct tee_identity root, platform_ca, pck;
static EVP_PKEY *attestation;
static char *chain_pem;
static size_t chain_size;
static struct sgpu_chain roots;

/* What a test changes before the quote is signed. */
struct quote {
	unsigned version, body_type; /* body_type: of version 5 */
	uint8_t header[HEADER], body[BODY_15], qe[QE_REPORT], qe_data[QE_DATA];
	bool keep_binding; /* leave the enclave's report data as they are */
	uint8_t bytes[QUOTE_MAX];
	size_t size;
};

static void make_all(void)
{
	root = tee_authority("Test SGX Root CA", "P-256", NULL);
	platform_ca = tee_authority("Test PCK Platform CA", "P-256", &root);
	pck = tee_start("Test PCK Certificate", "P-256", &platform_ca, false);
	tee_sign(pck.certificate, platform_ca.key);
	attestation = tee_key("P-256");
	X509 *const certificates[] = { pck.certificate, platform_ca.certificate, root.certificate };
	chain_pem = tee_pem(certificates, 3, &chain_size);
	tee_push(&roots, root.certificate);
}

static void start(struct quote *quote, unsigned version)
{
	memset(quote, 0, sizeof(*quote));
	quote->version = version;
	quote->body_type = 2;
	tee_put16(quote->header, version);
	tee_put16(quote->header + 2, 2);
	tee_put32(quote->header + 4, 0x81);
	memcpy(quote->header + 12, vendor, 16);
	memset(quote->body, 0x11, 16);	     /* TCB */
	memset(quote->body + 16, 0x22, 48);  /* the module's measurement */
	memset(quote->body + 136, 0x33, 48); /* MRTD */
	for (size_t i = 0; i < 4; i++) {
		memset(quote->body + 328 + 48 * i, (int)(0x40 + i), 48);
	}
	memset(quote->body + 520, 0x55, 64); /* report data */
	quote->qe[48] = 0x15;
	memcpy(quote->qe + 128, intel, 32);
	tee_put16(quote->qe + 256, 2);
	memset(quote->qe_data, 0x66, QE_DATA);
}

static uint8_t *put(struct quote *quote, const void *data, size_t size)
{
	uint8_t *at = quote->bytes + quote->size;

	memcpy(at, data, size);
	quote->size += size;
	return at;
}

static void put_number(struct quote *quote, uint32_t value, size_t bytes)
{
	uint8_t number[4];

	tee_put32(number, value);
	put(quote, number, bytes);
}

static void get_point(uint8_t point[64])
{
	uint8_t encoded[65];
	size_t size = 0;

	tee_need(EVP_PKEY_get_octet_string_param(attestation, "pub", encoded, sizeof(encoded),
						 &size) == 1 &&
			 size == sizeof(encoded),
		 "point");
	memcpy(point, encoded + 1, 64);
}

static void finish(struct quote *quote)
{
	size_t body_size = quote->version == 5 && quote->body_type == 3 ? BODY_15 : BODY;
	uint8_t point[64], hashed[64 + QE_DATA], signature[64];

	get_point(point);
	memcpy(hashed, point, 64);
	memcpy(hashed + 64, quote->qe_data, QE_DATA);
	if (!quote->keep_binding) {
		SHA256(hashed, sizeof(hashed), quote->qe + 320);
	}
	put(quote, quote->header, HEADER);
	if (quote->version == 5) {
		put_number(quote, quote->body_type, 2);
		put_number(quote, (uint32_t)body_size, 4);
	}
	put(quote, quote->body, body_size);
	tee_ecdsa(attestation, EVP_sha256(), quote->bytes, quote->size, signature, 32);
	size_t qe_size = QE_REPORT + 64 + 2 + QE_DATA + 6 + chain_size;
	put_number(quote, (uint32_t)(64 + 64 + 6 + qe_size), 4);
	put(quote, signature, 64);
	put(quote, point, 64);
	put_number(quote, 6, 2);
	put_number(quote, (uint32_t)qe_size, 4);
	put(quote, quote->qe, QE_REPORT);
	tee_ecdsa(pck.key, EVP_sha256(), quote->qe, QE_REPORT, signature, 32);
	put(quote, signature, 64);
	put_number(quote, QE_DATA, 2);
	put(quote, quote->qe_data, QE_DATA);
	put_number(quote, 5, 2);
	put_number(quote, (uint32_t)chain_size, 4);
	put(quote, chain_pem, chain_size);
}

static struct quote quote;
static struct sgpu_tee_report result;
static struct sgpu_error error;

static int verify_at(int64_t now)
{
	return tee_verify("tdx_guest\n", quote.bytes, quote.size, "", 0, NULL, &roots, now, &result,
			  &error);
}

static int verify(void)
{
	return verify_at(TEE_NOW);
}

/* A good quote, but for some bits of one byte, which its signature covers. */
static int verify_with(uint8_t *at, uint8_t bits, unsigned version)
{
	const size_t offset = (size_t)(at - (uint8_t *)&quote);

	start(&quote, version);
	((uint8_t *)&quote)[offset] ^= bits;
	finish(&quote);
	return verify();
}

UNIT_TEST(versions_4_and_5_verify_and_say_what_they_hold)
{
	for (unsigned kind = 0; kind < 3; kind++) {
		start(&quote, kind ? 5 : 4);
		quote.body_type = kind == 2 ? 3 : 2;
		finish(&quote);
		CHECK(verify() == SGPU_OK);
		CHECK(result.kind == SGPU_PLATFORM_TDX && result.version == quote.version &&
		      !result.debug);
		CHECK(!memcmp(result.report_data, quote.body + 520, 64) &&
		      !memcmp(result.measurement, quote.body + 136, 48));
		CHECK(!memcmp(result.rtmr, quote.body + 328, sizeof(result.rtmr)));
		CHECK(result.tcb == UINT64_C(0x1111111111111111));
	}
}

UNIT_TEST(a_guest_that_can_be_debugged_or_moved_is_told)
{
	/* Each bit of that byte is one kind of it, most of them for later. */
	for (unsigned bit = 0; bit < 8; bit++) {
		CHECK(verify_with(&quote.body[120], (uint8_t)(1 << bit), 4) == SGPU_OK &&
		      result.debug && !result.migratable);
	}
	CHECK(verify_with(&quote.body[123], 1 << 5, 4) == SGPU_OK && !result.debug &&
	      result.migratable && result.sept_ve);
	CHECK(verify_with(&quote.body[123], 1 << 4, 4) == SGPU_OK && !result.migratable &&
	      !result.sept_ve);
}

UNIT_TEST(other_versions_types_and_vendors_are_named)
{
	CHECK(verify_with(&quote.header[0], 4 ^ 3, 4) == SGPU_EINVALID &&
	      strstr(error.text, "version 3 is unknown"));
	CHECK(verify_with(&quote.header[4], 0x81, 4) == SGPU_EINVALID &&
	      strstr(error.text, "TEE type"));
	CHECK(verify_with(&quote.header[2], 2 ^ 3, 4) == SGPU_EINVALID &&
	      strstr(error.text, "key is of type 3"));
	CHECK(verify_with(&quote.header[12], 1, 4) == SGPU_EINVALID &&
	      strstr(error.text, "vendor"));
	start(&quote, 5);
	quote.body_type = 1;
	finish(&quote);
	CHECK(verify() == SGPU_EINVALID && strstr(error.text, "type 1 is unknown"));
}

UNIT_TEST(no_byte_before_the_certificates_can_be_altered)
{
	start(&quote, 4);
	finish(&quote);
	for (size_t i = 0; i < AT_CHAIN; i += tee_step(37)) {
		quote.bytes[i] ^= 1;
		int rc = verify();
		CHECK(rc == SGPU_EINVALID || rc == SGPU_ESIGNATURE || rc == SGPU_EBINDING);
		CHECK(result.kind == SGPU_PLATFORM_PLAIN);
		quote.bytes[i] ^= 1;
	}
	CHECK(verify() == SGPU_OK);
}

UNIT_TEST(no_shorter_quote_is_taken)
{
	start(&quote, 4);
	finish(&quote);
	size_t whole = quote.size;
	for (size_t size = 0; size < whole; size += tee_step(97)) {
		quote.size = size;
		CHECK(verify() == SGPU_EINVALID);
	}
	quote.size = whole;
	CHECK(verify() == SGPU_OK);
}

UNIT_TEST(lengths_that_lie_are_refused)
{
	static const size_t lengths[] = { AT_LENGTH, AT_SIGNATURE + 64 + 64 + 2, AT_CHAIN - 4 };
	static const uint32_t lies[] = { 0, 1, 0x7fffffff, 0xffffffff };

	start(&quote, 4);
	finish(&quote);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(lengths); i++) {
		uint8_t saved[4];

		memcpy(saved, quote.bytes + lengths[i], 4);
		for (size_t k = 0; k < SGPU_ARRAY_LENGTH(lies); k++) {
			tee_put32(quote.bytes + lengths[i], lies[k]);
			CHECK(verify() == SGPU_EINVALID);
		}
		memcpy(quote.bytes + lengths[i], saved, 4);
	}
	tee_put16(quote.bytes + AT_QE + QE_REPORT + 64, 0xffff);
	CHECK(verify() == SGPU_EINVALID);
}

UNIT_TEST(only_zeros_may_follow)
{
	start(&quote, 4);
	finish(&quote);
	quote.size += 100;
	CHECK(verify() == SGPU_OK);
	quote.bytes[quote.size - 1] = 1;
	CHECK(verify() == SGPU_EINVALID && strstr(error.text, "follow it"));
}

UNIT_TEST(only_intels_quoting_enclave_counts)
{
	CHECK(verify_with(&quote.qe[128], 1, 4) == SGPU_EPOLICY &&
	      strstr(error.text, "another enclave"));
	CHECK(verify_with(&quote.qe[256], 2 ^ 1, 4) == SGPU_EPOLICY &&
	      strstr(error.text, "another enclave"));
	CHECK(verify_with(&quote.qe[48], 2, 4) == SGPU_EPOLICY && strstr(error.text, "debugger"));
	CHECK(verify_with(&quote.qe[48], 4, 4) == SGPU_OK);
}

UNIT_TEST(the_enclave_vouches_for_its_own_key)
{
	uint8_t bound[32];

	start(&quote, 4);
	quote.keep_binding = true;
	finish(&quote);
	CHECK(verify() == SGPU_EBINDING);
	/* All of it counts. */
	start(&quote, 4);
	finish(&quote);
	memcpy(bound, quote.qe + 320, sizeof(bound));
	start(&quote, 4);
	memcpy(quote.qe + 320, bound, sizeof(bound));
	quote.qe[351] ^= 1;
	quote.keep_binding = true;
	finish(&quote);
	CHECK(verify() == SGPU_EBINDING);
	CHECK(verify_with(&quote.qe[352], 1, 4) == SGPU_EBINDING);
}

UNIT_TEST(only_intels_module_counts)
{
	CHECK(verify_with(&quote.body[64], 1, 4) == SGPU_EPOLICY && strstr(error.text, "module"));
	CHECK(verify_with(&quote.body[112], 1, 4) == SGPU_EPOLICY && strstr(error.text, "module"));
}

UNIT_TEST(a_chain_to_another_root_is_refused)
{
	struct tee_identity other = tee_authority("Test SGX Root CA", "P-256", NULL);
	struct sgpu_chain saved = roots, wrong = { 0 };

	start(&quote, 4);
	finish(&quote);
	tee_push(&wrong, other.certificate);
	roots = wrong;
	CHECK(verify() == SGPU_ECHAIN);
	memset(&roots, 0, sizeof(roots));
	CHECK(verify() == SGPU_ECHAIN && strstr(error.text, "no trusted root"));
	roots = saved;
	sgpu_chain_clear(&wrong);
	tee_free(&other);
}

UNIT_TEST(certificates_out_of_their_time_are_expired)
{
	start(&quote, 4);
	finish(&quote);
	CHECK(verify_at(TEE_TO + 1) == SGPU_EEXPIRED);
	CHECK(verify_at(TEE_FROM - 1) == SGPU_EEXPIRED);
}

UNIT_TEST(certificates_of_another_form_are_refused)
{
	char *saved = chain_pem;
	size_t saved_size = chain_size;
	X509 *const alone[] = { pck.certificate };
	struct tee_identity wide = tee_start("Test PCK Certificate", "P-384", &platform_ca, false);

	struct tee_identity weak = tee_start("Test PCK Certificate", "P-256", &platform_ca, false);

	tee_sign(wide.certificate, platform_ca.key);
	/* The platform's own key, by a certificate whose digest others can make fit. */
	tee_need(X509_set_pubkey(weak.certificate, pck.key), "key");
	tee_sign_by(weak.certificate, platform_ca.key, EVP_sha1());
	X509 *const wider[] = { wide.certificate, platform_ca.certificate, root.certificate };
	X509 *const weaker[] = { weak.certificate, platform_ca.certificate, root.certificate };
	char *parts[] = { tee_pem(alone, 1, &chain_size), strdup("no certificate"),
			  tee_pem(wider, 3, &chain_size), tee_pem(weaker, 3, &chain_size) };
	const int expected[] = { SGPU_ECHAIN, SGPU_EINVALID, SGPU_ECHAIN, SGPU_ECHAIN };
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(parts); i++) {
		chain_pem = parts[i];
		chain_size = strlen(parts[i]);
		start(&quote, 4);
		finish(&quote);
		CHECK(verify() == expected[i]);
		free(parts[i]);
	}
	chain_pem = saved;
	chain_size = saved_size;
	tee_free(&wide);
	tee_free(&weak);
}

int main(void)
{
	make_all();
	UNIT_RUN(versions_4_and_5_verify_and_say_what_they_hold);
	UNIT_RUN(a_guest_that_can_be_debugged_or_moved_is_told);
	UNIT_RUN(other_versions_types_and_vendors_are_named);
	UNIT_RUN(no_byte_before_the_certificates_can_be_altered);
	UNIT_RUN(no_shorter_quote_is_taken);
	UNIT_RUN(lengths_that_lie_are_refused);
	UNIT_RUN(only_zeros_may_follow);
	UNIT_RUN(only_intels_quoting_enclave_counts);
	UNIT_RUN(the_enclave_vouches_for_its_own_key);
	UNIT_RUN(only_intels_module_counts);
	UNIT_RUN(a_chain_to_another_root_is_refused);
	UNIT_RUN(certificates_out_of_their_time_are_expired);
	UNIT_RUN(certificates_of_another_form_are_refused);
	sgpu_chain_clear(&roots);
	free(chain_pem);
	EVP_PKEY_free(attestation);
	tee_free(&root);
	tee_free(&platform_ca);
	tee_free(&pck);
	return unit_done();
}
