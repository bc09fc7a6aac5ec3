/* SPDX-License-Identifier: Apache-2.0
 *
 * Crypto against the published vectors: Wycheproof, and HPKE's own.
 */
#include <openssl/evp.h>

#include <sgpu/keys.h>

#include "crypto/internal.h"
#include "unit.h"
#include "vectors.h"

static const uint8_t base[32] = { 9 }; /* of X25519 */

static char path[4096];

/* One case of AES-256-GCM with one provider. */
static void check_gcm(const char *provider, const json_t *test)
{
	size_t key_size, nonce_size, size, ct_size, tag_size;
	uint8_t *key = vectors_member(test, "key", &key_size),
		*nonce = vectors_member(test, "iv", &nonce_size);
	uint8_t *message = vectors_member(test, "msg", &size),
		*ct = vectors_member(test, "ct", &ct_size);
	uint8_t *tag = vectors_member(test, "tag", &tag_size), *out = malloc(size + 1),
		made[SGPU_TAG_SIZE];
	struct sgpu_aead *aead = NULL;
	int valid = vectors_is(test, "result", "valid");

	CHECK(key_size == 32 && nonce_size == 12 && ct_size == size && tag_size == 16);
	CHECK(sgpu_aead_create(provider, key, &aead, NULL) == 0);
	if (aead && valid) {
		CHECK(sgpu_aead_seal(aead, nonce, message, size, out, made) == 0);
		CHECK(!memcmp(out, ct, size) && !memcmp(made, tag, 16));
	}
	if (aead) {
		memset(out, 0xff, size + 1);
		int code = sgpu_aead_open(aead, nonce, ct, size, out, tag);
		CHECK(code == (valid ? 0 : SGPU_EAUTH));
		for (size_t i = 0; i < size; i++) {
			CHECK(out[i] == (valid ? message[i] : 0));
		}
	}
	sgpu_aead_free(&aead);
	free(key);
	free(nonce);
	free(message);
	free(ct);
	free(tag);
	free(out);
}

/* Whether this one is of a kind that is checked. */
static bool check_aes(const json_t *group, const json_t *test)
{
	if (json_integer_value(json_object_get(group, "keySize")) != 256 ||
	    json_integer_value(json_object_get(group, "ivSize")) != 96 ||
	    !vectors_is(test, "aad", "")) {
		return false;
	}
	for (const char *const *name = sgpu_aead_providers(); *name; name++) {
		check_gcm(*name, test);
	}
	return true;
}

static void each_test(const char *name, unsigned least,
		      bool (*check)(const json_t *group, const json_t *test))
{
	size_t i, j;
	json_t *group, *test;
	unsigned count = 0;

	if (!vectors_path(name, path, sizeof(path))) {
		SKIP("no such file in SGPU_VECTORS");
	}
	json_t *root = json_load_file(path, 0, NULL);
	json_array_foreach (json_object_get(root, "testGroups"), i, group) {
		json_array_foreach (json_object_get(group, "tests"), j, test) {
			count += check(group, test);
		}
	}
	CHECK(count > least);
	json_decref(root);
}

UNIT_TEST(wycheproof_aes_256_gcm_passes_with_every_provider)
{
	each_test("wycheproof_aes_gcm_test.json", 40, check_aes);
}

/* HKDF-SHA512 is there as the expand step alone; extract is an HMAC. */
static int hkdf_sha512(const uint8_t *ikm, size_t ikm_size, const uint8_t *salt, size_t salt_size,
		       const uint8_t *info, size_t info_size, uint8_t *out, size_t size)
{
	static const uint8_t zeros[64];
	uint8_t prk[64];
	size_t length = 0;

	if (!EVP_Q_mac(NULL, "HMAC", NULL, "SHA512", NULL, salt_size ? salt : zeros,
		       salt_size ? salt_size : 64, ikm, ikm_size, prk, sizeof(prk), &length)) {
		return SGPU_ESYSTEM;
	}
	return sgpu_hkdf_expand(SGPU_SHA512_SIZE, prk, sizeof(prk), info, info_size, out, size,
				NULL);
}

static void check_hkdf(const json_t *test, int is_512)
{
	size_t ikm_size, salt_size, info_size, okm_size;
	size_t size = (size_t)json_integer_value(json_object_get(test, "size"));
	uint8_t *ikm = vectors_member(test, "ikm", &ikm_size),
		*salt = vectors_member(test, "salt", &salt_size);
	uint8_t *info = vectors_member(test, "info", &info_size),
		*okm = vectors_member(test, "okm", &okm_size);
	uint8_t *out = malloc(size + 1);
	int code = is_512 ? hkdf_sha512(ikm, ikm_size, salt, salt_size, info, info_size, out, size)
			  : sgpu_hkdf_sha256(ikm, ikm_size, salt, salt_size, info, info_size, out,
					     size, NULL);

	if (vectors_is(test, "result", "valid")) {
		CHECK(code == 0 && okm_size == size && !memcmp(out, okm, size));
	} else {
		CHECK(code != 0);
	}
	free(ikm);
	free(salt);
	free(info);
	free(okm);
	free(out);
}

static bool check_sha256(const json_t *group, const json_t *test)
{
	(void)group;
	check_hkdf(test, 0);
	return true;
}

static bool check_sha512(const json_t *group, const json_t *test)
{
	(void)group;
	check_hkdf(test, 1);
	return true;
}

UNIT_TEST(wycheproof_hkdf_sha256_passes)
{
	each_test("wycheproof_hkdf_sha256_test.json", 50, check_sha256);
}

UNIT_TEST(wycheproof_hkdf_sha512_passes)
{
	each_test("wycheproof_hkdf_sha512_test.json", 50, check_sha512);
}

static bool check_x25519(const json_t *group, const json_t *test)
{
	static const uint8_t zeros[32];
	size_t size;
	uint8_t *private_key = vectors_member(test, "private", &size),
		*public_key = vectors_member(test, "public", &size);
	uint8_t *shared = vectors_member(test, "shared", &size), out[32];
	int code = sgpu_x25519(private_key, NULL, public_key, out, NULL);

	if (!memcmp(shared, zeros, 32)) {
		CHECK(code == SGPU_EAUTH); /* HPKE wants these refused */
	} else {
		CHECK(code == 0 && !memcmp(out, shared, 32));
	}
	(void)group;
	free(private_key);
	free(public_key);
	free(shared);
	return true;
}

UNIT_TEST(wycheproof_x25519_passes_and_low_orders_are_refused)
{
	each_test("wycheproof_x25519_test.json", 400, check_x25519);
}

/* The file's state: the context, and the encryption being read. */
struct hpke_file {
	uint8_t *info, *secret, *public_key, *enc, *aad, *ct;
	size_t info_size, secret_size, public_size, enc_size, aad_size, ct_size;
	uint64_t sequence;
	unsigned count;
};

static void take(uint8_t **bytes, size_t *size, const char *text)
{
	free(*bytes);
	*bytes = vectors_hex(text, size);
}

static void check_hpke(struct hpke_file *file, const char *plaintext)
{
	size_t size;
	uint8_t *expected = vectors_hex(plaintext, &size), *out = malloc(file->ct_size + 1);
	struct sgpu_key key = { .kind = SGPU_KEY_X25519, .secret_known = true };

	CHECK(file->secret_size == 32 && file->enc_size == 32 && file->ct_size == size + 16);
	memcpy(key.secret, file->secret, 32);
	REQUIRE(sgpu_x25519(file->secret, NULL, base, key.public_half, NULL) == 0);
	CHECK(sgpu_hpke_open(&key, file->enc, file->info, file->info_size, file->aad,
			     file->aad_size, file->ct, file->ct_size, out,
			     NULL) == (file->sequence ? SGPU_EAUTH : 0));
	CHECK(file->sequence || !memcmp(out, expected, size));
	file->count++;
	free(expected);
	free(out);
}

static void hpke_line(struct hpke_file *file, char *line)
{
	unsigned long long sequence;
	uint8_t derived[32];

	line[strcspn(line, "\r\n")] = '\0';
	char *value = strstr(line, " = ");
	if (sscanf(line, "# encryptions[%llu]", &sequence) == 1) {
		file->sequence = sequence;
	}
	if (!value) {
		return;
	}
	*value = '\0';
	value += 3;
	if (!strcmp(line, "info")) {
		take(&file->info, &file->info_size, value);
	} else if (!strcmp(line, "skRm")) {
		take(&file->secret, &file->secret_size, value);
	} else if (!strcmp(line, "pkRm")) {
		take(&file->public_key, &file->public_size, value);
		CHECK(sgpu_x25519(file->secret, NULL, base, derived, NULL) == 0 &&
		      !memcmp(derived, file->public_key, 32));
	} else if (!strcmp(line, "enc")) {
		take(&file->enc, &file->enc_size, value);
	} else if (!strcmp(line, "aad")) {
		take(&file->aad, &file->aad_size, value);
	} else if (!strcmp(line, "ct")) {
		take(&file->ct, &file->ct_size, value);
	} else if (!strcmp(line, "pt")) {
		check_hpke(file, value);
	}
}

UNIT_TEST(the_first_published_hpke_message_opens_and_no_later_one)
{
	struct hpke_file file = { .info = NULL };
	char line[8192];

	if (!vectors_path("hpke_base_x25519_sha256_aes256gcm.txt", path, sizeof(path))) {
		SKIP("no hpke_base_x25519_sha256_aes256gcm.txt in SGPU_VECTORS");
	}
	FILE *stream = fopen(path, "r");
	REQUIRE(stream);
	while (fgets(line, sizeof(line), stream)) {
		hpke_line(&file, line);
	}
	fclose(stream);
	CHECK(file.count >= 256);
	free(file.info);
	free(file.secret);
	free(file.public_key);
	free(file.enc);
	free(file.aad);
	free(file.ct);
}

int main(void)
{
	UNIT_RUN(wycheproof_aes_256_gcm_passes_with_every_provider);
	UNIT_RUN(wycheproof_hkdf_sha256_passes);
	UNIT_RUN(wycheproof_hkdf_sha512_passes);
	UNIT_RUN(wycheproof_x25519_passes_and_low_orders_are_refused);
	UNIT_RUN(the_first_published_hpke_message_opens_and_no_later_one);
	return unit_done();
}
