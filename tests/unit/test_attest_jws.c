/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys, key files and signed tokens: what verifies, and what must not.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test_attest.h"
#include "../harness/token.h"

static struct world w;

static int verify(const char *token, EVP_PKEY *key, struct sgpu_error *error)
{
	char *payload = NULL;
	size_t size = 0;
	struct sgpu_chain chain;
	int code = token_verify(token, strlen(token), key, &payload, &size, &chain, error);

	if (code && (payload || size || chain.count)) {
		printf("# a refused token left something\n");
		return 1;
	}
	free(payload);
	sgpu_chain_clear(&chain);
	return code;
}

/* A well signed token with this header is refused, and says why. */
static int header_refused(const char *header, const char *word)
{
	struct sgpu_error error = { 0 };
	char *token = sign_raw(w.ak, header, "{}");
	int code = verify(token, w.ak->key, &error);

	free(token);
	if (code != SGPU_EINVALID || !strstr(error.text, word)) {
		printf("# %s: code %d, text '%s'\n", header, code, error.text);
		return 0;
	}
	return 1;
}

UNIT_TEST(a_token_verifies_by_its_certificate_and_by_the_key)
{
	char *token = NULL, *payload = NULL;
	uint8_t machine[SGPU_SHA256_SIZE];
	struct sgpu_chain chain;
	size_t size = 0;

	REQUIRE(!sgpu_jws_sign(w.ak, &w.chain, "JWT", "{\"a\":1}", 7, &token, NULL));
	REQUIRE(!token_verify(token, strlen(token), NULL, &payload, &size, &chain, NULL));
	CHECK(size == 7 && !memcmp(payload, "{\"a\":1}", 8));
	CHECK(chain.count == 3 && !X509_cmp(chain.list[0], w.chain.list[0]));
	CHECK(!sgpu_chain_verify(chain.list[0], &chain, &w.roots, NOW, machine, "", NULL));
	sgpu_chain_clear(&chain);
	free(payload);
	CHECK(!verify(token, w.ak->key, NULL));
	CHECK(verify(token, w.ek->key, NULL) == SGPU_ESIGNATURE);
	free(token);
	REQUIRE(!sgpu_jws_sign(w.ak, NULL, NULL, "x", 1, &token, NULL));
	CHECK(!verify(token, w.ak->key, NULL) && verify(token, NULL, NULL) == SGPU_EINVALID);
	free(token);
}

UNIT_TEST(every_altered_character_of_a_token_is_refused)
{
	char *token = NULL;

	REQUIRE(!sgpu_jws_sign(w.ak, &w.chain, "JWT", "{\"a\":1}", 7, &token, NULL));
	size_t length = strlen(token), step = getenv("SGPU_TEST_SMALL") ? 37 : 3;
	for (size_t i = 0; i < length; i += step) {
		char was = token[i];
		token[i] = was == 'A' ? 'B' : 'A';
		int code = verify(token, NULL, NULL);
		CHECK(code == SGPU_EINVALID || code == SGPU_ESIGNATURE);
		token[i] = '=';
		CHECK(verify(token, NULL, NULL) == SGPU_EINVALID);
		token[i] = was;
	}
	for (size_t cut = 0; cut < length; cut += step) {
		char was = token[cut];
		token[cut] = '\0';
		CHECK(verify(token, NULL, NULL) != SGPU_OK);
		token[cut] = was;
	}
	CHECK(!verify(token, NULL, NULL));
	free(token);
}

UNIT_TEST(only_es384_and_no_header_that_brings_a_key_is_taken)
{
	CHECK(header_refused("{\"alg\":\"none\"}", "'none'"));
	CHECK(header_refused("{\"alg\":\"HS256\"}", "'HS256'"));
	CHECK(header_refused("{\"alg\":\"HS384\"}", "'HS384'"));
	CHECK(header_refused("{\"alg\":\"ES256\"}", "'ES256'"));
	CHECK(header_refused("{\"alg\":\"es384\"}", "'es384'"));
	CHECK(header_refused("{\"alg\":384}", "not a string"));
	CHECK(header_refused("{}", "missing"));
	CHECK(header_refused("[]", "not an object"));
	CHECK(header_refused("{\"alg\":\"ES384\",\"alg\":\"ES384\"}", "this name twice"));
	CHECK(header_refused("{\"alg\":\"ES384\",\"crit\":[\"exp\"]}", "'crit'"));
	CHECK(header_refused("{\"alg\":\"ES384\",\"b64\":false}", "'b64'"));
	CHECK(header_refused("{\"alg\":\"ES384\",\"jwk\":{}}", "'jwk'"));
	CHECK(header_refused("{\"alg\":\"ES384\",\"jku\":\"https://example.org\"}", "'jku'"));
	CHECK(header_refused("{\"alg\":\"ES384\",\"x5u\":\"https://example.org\"}", "'x5u'"));
	CHECK(header_refused("{\"alg\":\"ES384\",\"typ\":1}", "not a string"));
	CHECK(header_refused("{\"alg\":\"ES384\",\"x5c\":[]}", "/x5c"));
	CHECK(header_refused("{\"alg\":\"ES384\",\"x5c\":\"AAAA\"}", "/x5c"));
	CHECK(header_refused("{\"alg\":\"ES384\",\"x5c\":[1]}", "/x5c"));
	CHECK(header_refused("{\"alg\":\"ES384\",\"x5c\":[\"AAA\"]}", "padding"));
	CHECK(header_refused("{\"alg\":\"ES384\",\"x5c\":[\"A-_A\"]}", "base64"));
	CHECK(header_refused("{\"alg\":\"ES384\",\"x5c\":[\"AAAA\"]}", "malformed"));
	CHECK(header_refused("{\"alg\":\"ES384\",\"x5c\":[\"A\",\"A\",\"A\",\"A\",\"A\",\"A\","
			     "\"A\",\"A\",\"A\"]}",
			     "/x5c"));
	CHECK(header_refused("{\"alg\":\"ES384\",\"x5c\":[[[[[[[[[[[[[[[[[[[["
			     "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
			     "deep"));
}

UNIT_TEST(a_signature_has_exactly_96_bytes)
{
	const char *body = "eyJhbGciOiJFUzM4NCJ9.e30.";
	struct sgpu_error error = { 0 };
	uint8_t raw[128] = { 0 };
	char token[512];

	for (size_t size = 0; size <= 128; size += 16) {
		strcpy(token, body);
		sgpu_base64url_encode(raw, size, token + strlen(token));
		int code = verify(token, w.ek->key, &error);
		/* r and s that are zero have the right size and are no signature. */
		CHECK(size == SGPU_ES384_SIZE ? code == SGPU_ESIGNATURE
					      : code == SGPU_EINVALID && strstr(error.text, "96"));
	}
	CHECK(verify("a.b", NULL, NULL) == SGPU_EINVALID &&
	      verify("", NULL, NULL) == SGPU_EINVALID);
	CHECK(verify("....", NULL, NULL) == SGPU_EINVALID);
	char *huge = malloc(SGPU_QUOTE_MAX + 2);
	memset(huge, 'A', SGPU_QUOTE_MAX + 1);
	huge[SGPU_QUOTE_MAX + 1] = '\0';
	CHECK(verify(huge, NULL, NULL) == SGPU_EINVALID);
	free(huge);
}

static void put(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || fchmod(fd, mode) ||
	    close(fd)) {
		abort();
	}
}

static int load(const char *path, struct sgpu_error *error)
{
	struct sgpu_signer *signer = NULL;
	int code = sgpu_signer_load(path, &signer, error);

	sgpu_signer_free(&signer);
	return code;
}

UNIT_TEST(a_key_file_comes_back_as_the_same_key_and_is_refused_when_others_can_read_it)
{
	char path[] = "/tmp/test_attest.XXXXXX", *pem = NULL;
	uint8_t a[SGPU_SHA256_SIZE], b[SGPU_SHA256_SIZE];
	struct sgpu_signer *back = NULL;
	struct sgpu_error error = { 0 };
	size_t size = 0;

	close(mkstemp(path));
	REQUIRE(!sgpu_signer_private_pem(w.ak, &pem, &size, NULL));
	CHECK(strstr(pem, "-----BEGIN PRIVATE KEY-----") == pem && size == strlen(pem));
	put(path, pem, 0600);
	REQUIRE(!sgpu_signer_load(path, &back, NULL));
	CHECK(!sgpu_signer_in_tpm(back));
	CHECK(!sgpu_signer_fingerprint(w.ak, a, NULL) && !sgpu_signer_fingerprint(back, b, NULL) &&
	      !memcmp(a, b, sizeof(a)));
	sgpu_signer_free(&back);
	put(path, pem, 0640);
	CHECK(load(path, &error) == SGPU_EPOLICY && strstr(error.text, "0640"));
	put(path, "-----BEGIN PUBLIC KEY-----\n", 0600);
	CHECK(load(path, &error) == SGPU_EINVALID && strstr(error.text, "no private key"));
	put(path, "-----BEGIN ENCRYPTED PRIVATE KEY-----\n", 0600);
	CHECK(load(path, &error) == SGPU_EINVALID && strstr(error.text, "encrypted"));
	put(path, "nothing\n", 0600);
	CHECK(load(path, &error) == SGPU_EINVALID);
	memcpy(pem + 60, "AAAA", 4);
	put(path, pem, 0600);
	CHECK(load(path, &error) == SGPU_EINVALID);
	/* P-256, made for this test with `openssl genpkey`. */
	put(path,
	    "-----BEGIN PRIVATE KEY-----\n"
	    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg/+6lSGLNNO5yhes/\n"
	    "FmMkVvXc9e5we6eB3eP6jkaYRa+hRANCAAS1+rAIKyM1nB5ovFwZMQma81MP7dgo\n"
	    "/DTp8fs+dBLbrvJc85qulq1hPLa3ETm+8vkwQnNlZBBKqdSCw7mk/43P\n"
	    "-----END PRIVATE KEY-----\n",
	    0600);
	CHECK(load(path, &error) == SGPU_EINVALID && strstr(error.text, "P-384"));
	CHECK(load("/nonexistent", &error) == SGPU_ESYSTEM);
	unlink(path);
	sgpu_free_wiped(&pem, size);
}

UNIT_TEST(a_program_is_measured_as_its_file)
{
	uint8_t self[SGPU_KT128_SIZE], file[SGPU_KT128_SIZE];
	static const uint8_t zero[SGPU_KT128_SIZE];
	uint64_t size = 0;
	char path[4096];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

	REQUIRE(length > 0);
	path[length] = '\0';
	CHECK(!sgpu_measure_file("/proc/self/exe", self, NULL, NULL) &&
	      !sgpu_measure_file(path, file, &size, NULL));
	CHECK(!memcmp(self, file, sizeof(self)) && memcmp(self, zero, sizeof(self)) && size > 4096);
	CHECK(sgpu_measure_file("/nonexistent", file, &size, NULL) == SGPU_ESYSTEM);
	/* It has no end. */
	CHECK(sgpu_measure_file("/dev/zero", file, &size, NULL) == SGPU_ESYSTEM);
}

int main(void)
{
	if (world_make(&w)) {
		printf("Bail out! cannot make keys\n");
		return 1;
	}
	UNIT_RUN(a_token_verifies_by_its_certificate_and_by_the_key);
	UNIT_RUN(every_altered_character_of_a_token_is_refused);
	UNIT_RUN(only_es384_and_no_header_that_brings_a_key_is_taken);
	UNIT_RUN(a_signature_has_exactly_96_bytes);
	UNIT_RUN(a_key_file_comes_back_as_the_same_key_and_is_refused_when_others_can_read_it);
	UNIT_RUN(a_program_is_measured_as_its_file);
	world_free(&w);
	return unit_done();
}
