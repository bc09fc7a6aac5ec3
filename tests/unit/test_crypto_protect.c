/* SPDX-License-Identifier: Apache-2.0
 *
 * Key files that are protected by a passphrase.
 */
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>
#include <sgpu/keys.h>

#include "crypto/key.h"
#include "unit.h"

/* What jwcrypto 1.5 made of the key 1, 2, ... 32 and "correct horse". */
#define HEADER                                                                                   \
	"eyJhbGciOiAiUEJFUzItSFM1MTIrQTI1NktXIiwgImVuYyI6ICJBMjU2R0NNIiwgInAyYyI6IDEwMDAsICJwMn" \
	"MiOiAiQUFFQ0F3UUZCZ2NJQ1FvTERBME9EdyIsICJjdHkiOiAiandrK2pzb24ifQ"
#define REST(wrapped)                                                                              \
	"\"ciphertext\":\"L4iXGOpjg6-OugUdjBDY41UpTqywGEIoQf6Roo6arLIIPfIHYm3N3U14-YwZ6qyHMLrMp_h" \
	"R_QqPCHA_wkpP\",\"encrypted_key\":\"" wrapped                                             \
	"\",\"iv\":\"X8yhaedwbwJcz66l\",\"tag\":\"bAE8VpCX8xcLUBWyOa9_vw\""
#define WRAPPED "diaI9aXwee5npPL1AQYL4-NqhXT-S917Yi3PPd1g3oANBkgH1uBu1Q"
static const char vector[] = "{\"protected\":\"" HEADER "\"," REST(WRAPPED) "}\n";

static const char *answer = "correct horse";
static int asked;

static int ask(const char *name, char text[SGPU_PASSPHRASE_MAX], size_t *size,
	       struct sgpu_error *error)
{
	(void)error;
	CHECK(name[0]);
	asked++;
	*size = strlen(answer);
	memcpy(text, answer, *size);
	return 0;
}

/* Loads a file with that text; fills in `error`, too. */
static struct sgpu_error error;
static int load(const char *text, mode_t mode, struct sgpu_key_set *set)
{
	char path[] = "/tmp/sgpu-key-XXXXXX";
	const int fd = mkstemp(path);
	int code = SGPU_ESYSTEM;

	asked = 0;
	if (fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) &&
	    !fchmod(fd, mode)) {
		code = sgpu_key_set_load(path, set, &error);
	}
	close(fd);
	unlink(path);
	return code;
}

UNIT_TEST(a_program_that_asks_for_no_passphrase_says_so)
{
	struct sgpu_key_set set;

	CHECK(load(vector, 0600, &set) == SGPU_EPOLICY && strstr(error.text, "passphrase"));
}

UNIT_TEST(a_file_of_jwcrypto_opens_with_its_passphrase_alone)
{
	struct sgpu_key_set set;

	sgpu_key_ask(ask);
	CHECK(load(vector, 0600, &set) == 0 && asked == 1 && set.locked &&
	      set.key.kind != SGPU_KEY_NONE && set.key.secret[0] == 1 && set.key.secret[31] == 32);
	CHECK(load(vector, 0640, &set) == SGPU_EPOLICY && asked == 0 &&
	      set.key.kind == SGPU_KEY_NONE);
	answer = "correct Horse";
	CHECK(load(vector, 0600, &set) == SGPU_EAUTH && asked == 1 &&
	      set.key.kind == SGPU_KEY_NONE);
	answer = "correct horse";
}

/* Another character, of which a bit differs that counts even at the end of base64url. */
static char other(char c)
{
	return c == 'A' ? 'Q' : 'A';
}

UNIT_TEST(no_character_of_a_protected_file_may_change)
{
	struct sgpu_key_set set;
	char text[sizeof(vector)];

	/* Without the line feed at the end. */
	for (size_t i = 0; i + 2 < sizeof(vector); i++) {
		memcpy(text, vector, sizeof(text));
		text[i] = other(text[i]);
		const int code = load(text, 0600, &set);

		CHECK((code == SGPU_EINVALID || code == SGPU_EAUTH) &&
		      set.key.kind == SGPU_KEY_NONE);
	}
}

/* Loads the vector with another header, so that it never opens. */
static int with_header(const char *alg, const char *enc, long rounds, const char *salt,
		       const char *more)
{
	char header[256], encoded[SGPU_BASE64URL_MAX(sizeof(header))], text[2048];
	struct sgpu_key_set set;

	snprintf(header, sizeof(header),
		 "{\"alg\":\"%s\",\"enc\":\"%s\",\"p2c\":%ld,\"p2s\":\"%s\"%s}", alg, enc, rounds,
		 salt, more);
	sgpu_base64url_encode(header, strlen(header), encoded);
	snprintf(text, sizeof(text), "{\"protected\":\"%s\"," REST(WRAPPED) "}", encoded);
	return load(text, 0600, &set);
}

UNIT_TEST(other_algorithms_rounds_and_salts_are_refused_before_anybody_is_asked)
{
	static const char alg[] = "PBES2-HS512+A256KW", enc[] = "A256GCM", salt[] = "AAECAwQFBgc";
	static const char *const bad[] = {
		"{}",
		"{\"protected\":\"" HEADER "\"," REST(WRAPPED) ",\"header\":{\"enc\":\"A256GCM\"}}",
		"{\"protected\":\"" HEADER "\"," REST(WRAPPED) ",\"header\":5}",
		"{\"protected\":\"" HEADER "\"," REST(WRAPPED) ",\"header\":{\"crit\":[]}}",
		"{\"protected\":\"" HEADER "\"," REST(WRAPPED) ",\"aad\":\"\"}",
		"{\"protected\":\"" HEADER "\"," REST(WRAPPED "AAAA") "}",
		"{\"protected\":\"\"," REST(WRAPPED) "}",
		"{\"protected\":5," REST(WRAPPED) "}",
		"[\"encrypted_key\"]",
	};
	struct sgpu_key_set set;

	CHECK(with_header(alg, enc, 1000, salt, "") == SGPU_EAUTH && asked == 1);
	CHECK(with_header(alg, enc, 1000, salt, ",\"typ\":\"JOSE\",\"kid\":\"x\"") == SGPU_EAUTH);
	CHECK(with_header("PBES2-HS256+A128KW", enc, 1000, salt, "") == SGPU_EINVALID && !asked);
	CHECK(with_header(alg, "A128GCM", 1000, salt, "") == SGPU_EINVALID && !asked);
	CHECK(with_header(alg, enc, 999, salt, "") == SGPU_EINVALID && !asked);
	CHECK(with_header(alg, enc, -1, salt, "") == SGPU_EINVALID && !asked);
	CHECK(with_header(alg, enc, 10000001, salt, "") == SGPU_EINVALID && !asked);
	CHECK(with_header(alg, enc, 4294968296, salt, "") == SGPU_EINVALID && !asked);
	CHECK(with_header(alg, enc, 1000, "AAECAwQFBg", "") == SGPU_EINVALID && !asked);
	CHECK(with_header(alg, enc, 1000, salt, ",\"crit\":[]") == SGPU_EINVALID && !asked);
	CHECK(with_header(alg, enc, 1000, salt, ",\"zip\":\"DEF\"") == SGPU_EINVALID && !asked);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		CHECK(load(bad[i], 0600, &set) == SGPU_EINVALID && !asked);
	}
}

UNIT_TEST(what_is_protected_comes_back_and_each_time_is_other)
{
	struct sgpu_key_set set = { .key.kind = SGPU_KEY_NONE }, back;
	char *text[2] = { NULL, NULL }, header[256] = "";
	size_t size = 0;

	REQUIRE(!sgpu_key_generate(SGPU_KEY_X25519, &set.key, NULL) &&
		!sgpu_key_generate(SGPU_KEY_ED25519, &set.signing, NULL));
	for (int i = 0; i < 2; i++) {
		REQUIRE(sgpu_key_set_text(&set, &text[i], &size, NULL) == 0);
		REQUIRE(sgpu_key_protect(answer, strlen(answer), &text[i], &size, NULL) == 0);
		CHECK(strlen(text[i]) == size);
	}
	json_t *one = json_loads(text[0], 0, NULL), *two = json_loads(text[1], 0, NULL), *read;
	const char *key, *encoded;
	json_t *value;

	json_object_foreach (one, key, value) {
		CHECK(!json_equal(value, json_object_get(two, key)));
	}
	encoded = json_string_value(json_object_get(one, "protected"));
	REQUIRE(sgpu_base64url_decode(encoded, header, strlen(encoded) * 3 / 4, NULL) == 0);
	read = json_loads(header, 0, NULL);
	CHECK(json_integer_value(json_object_get(read, "p2c")) >= 600000 &&
	      json_string_length(json_object_get(read, "p2s")) == 22);
	CHECK(load(text[0], 0600, &back) == 0 && back.locked);
	back.locked = false;
	CHECK(!memcmp(&set.key, &back.key, sizeof(set.key)) &&
	      !memcmp(&set.signing, &back.signing, sizeof(set.signing)));
	json_decref(read);
	json_decref(one);
	json_decref(two);
	free(text[0]);
	free(text[1]);
}

int main(void)
{
	UNIT_RUN(a_program_that_asks_for_no_passphrase_says_so);
	UNIT_RUN(a_file_of_jwcrypto_opens_with_its_passphrase_alone);
	UNIT_RUN(no_character_of_a_protected_file_may_change);
	UNIT_RUN(other_algorithms_rounds_and_salts_are_refused_before_anybody_is_asked);
	UNIT_RUN(what_is_protected_comes_back_and_each_time_is_other);
	return unit_done();
}
