/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys that sign, sets of keys, and signatures of a JWS: against RFC 8037 and RFC 7515, and what is
 * refused.
 */
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "crypto/crypto.h"
#include "crypto/key.h"
#include "unit.h"

static struct sgpu_error error;

/* RFC 8037, appendix A. */
#define ED_D "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"
#define ED_X "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
#define ED_KID "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
#define ED_SIGNED "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc"
#define ED_SIGNATURE \
	"hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
#define ED_PUBLIC "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"" ED_X "\"}"
#define ED_SECRET "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"d\":\"" ED_D "\",\"x\":\"" ED_X "\"}"

/* RFC 7515, appendix A.3. */
#define EC_X "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"
#define EC_Y "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"
#define EC_D "jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI"
#define EC_SIGNED                                                                              \
	"eyJhbGciOiJFUzI1NiJ9."                                                                \
	"eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290" \
	"Ijp0cnVlfQ"
#define EC_SIGNATURE \
	"DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
#define EC_PUBLIC "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"" EC_X "\",\"y\":\"" EC_Y "\"}"
#define EC_SECRET                                                                               \
	"{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"" EC_X "\",\"y\":\"" EC_Y "\",\"d\":\"" EC_D \
	"\"}"

#define OCT "{\"kty\":\"oct\",\"k\":\"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\"}"
#define X25519                                                                 \
	"{\"kty\":\"OKP\",\"crv\":\"X25519\",\"x\":\"hSDwCYkwp1R0i33ctD73Wg2_" \
	"Og0mOBr066SpjqqbTmo\"}"

static int parse(const char *text, struct sgpu_key_set *set)
{
	return sgpu_key_set_parse(text, strlen(text), "test", set, &error);
}

static bool refused(const char *text, const char *word)
{
	static const struct sgpu_key_set none;
	struct sgpu_key_set set;
	const int code = parse(text, &set);

	if (code != SGPU_EINVALID || !strstr(error.text, word) ||
	    memcmp(&set, &none, sizeof(set))) {
		printf("# code %d, text '%s'\n", code, error.text);
		return false;
	}
	return !strstr(error.text, "nWGxne") && !strstr(error.text, "jpsQnn") &&
	       !strstr(error.text, "AAECAw");
}

static bool verifies(const char *jwk, const char *text, const char *signature)
{
	uint8_t raw[SGPU_SIGNATURE_SIZE];
	struct sgpu_key_set set;
	bool good = !parse(jwk, &set) &&
		    !sgpu_base64url_decode(signature, raw, sizeof(raw), &error) &&
		    !sgpu_signing_verify(&set.signing, text, strlen(text), raw, &error);

	for (size_t i = 0; good && i < sizeof(raw); i++) {
		raw[i] ^= 1;
		good = sgpu_signing_verify(&set.signing, text, strlen(text), raw, &error) ==
		       SGPU_EAUTH;
		raw[i] ^= 1;
	}
	return good &&
	       sgpu_signing_verify(&set.signing, text, strlen(text) - 1, raw, &error) == SGPU_EAUTH;
}

UNIT_TEST(published_signatures_verify_and_changed_ones_do_not)
{
	CHECK(verifies(ED_PUBLIC, ED_SIGNED, ED_SIGNATURE));
	CHECK(verifies(EC_PUBLIC, EC_SIGNED, EC_SIGNATURE));
	CHECK(!verifies(ED_PUBLIC, EC_SIGNED, ED_SIGNATURE) &&
	      !verifies(EC_PUBLIC, EC_SIGNED, ED_SIGNATURE));
}

UNIT_TEST(ed25519_signs_as_the_rfc_does_and_has_its_thumbprint)
{
	uint8_t raw[SGPU_SIGNATURE_SIZE];
	char digits[SGPU_BASE64URL_MAX(SGPU_SIGNATURE_SIZE)];
	struct sgpu_key_set set, half;

	REQUIRE(parse(ED_SECRET, &set) == 0);
	CHECK(set.key.kind == SGPU_KEY_NONE && set.signing.secret_known &&
	      !strcmp(set.signing.kid, ED_KID));
	REQUIRE(sgpu_signing_sign(&set.signing, ED_SIGNED, strlen(ED_SIGNED), raw, &error) == 0);
	sgpu_base64url_encode(raw, sizeof(raw), digits);
	CHECK(!strcmp(digits, ED_SIGNATURE));
	REQUIRE(sgpu_key_set_public(&set, &half, &error) == 0);
	CHECK(!half.signing.secret_known && !half.signing.secret[0] &&
	      !strcmp(half.signing.kid, ED_KID));
	CHECK(sgpu_signing_sign(&half.signing, "x", 1, raw, &error) == SGPU_EKEY);
}

/* The text of a set, and that it reads as the same again. */
static char *text_of(const struct sgpu_key_set *set)
{
	struct sgpu_key_set again;
	char *text = NULL;
	size_t size = 0;

	if (sgpu_key_set_text(set, &text, &size, &error)) {
		abort();
	}
	CHECK(sgpu_key_set_parse(text, size, "test", &again, &error) == 0 &&
	      !memcmp(set, &again, sizeof(again)));
	return text;
}

UNIT_TEST(a_set_has_one_key_of_each_use_and_survives_its_text)
{
	static const char *const texts[] = { OCT,
					     X25519,
					     ED_PUBLIC,
					     EC_SECRET,
					     "{\"keys\":[" OCT "]}",
					     "{\"keys\":[" OCT "," ED_SECRET "]}",
					     "{\"keys\":[" EC_PUBLIC "," X25519 "]}" };
	struct sgpu_key_set set, half;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(texts); i++) {
		REQUIRE(parse(texts[i], &set) == 0);
		free(text_of(&set));
	}
	REQUIRE(parse("{\"keys\":[" OCT "," ED_SECRET "]}", &set) == 0);
	CHECK(set.key.kind == SGPU_KEY_OCT && sgpu_key_set_secret(&set));
	REQUIRE(sgpu_key_set_public(&set, &half, &error) == 0);
	CHECK(half.key.kind == SGPU_KEY_NONE && !sgpu_key_set_secret(&half));
	char *text = text_of(&half);
	CHECK(!strstr(text, "keys") && !strstr(text, "\"d\"") && !strstr(text, "AAECAw"));
	free(text);
	REQUIRE(parse("{\"keys\":[" EC_PUBLIC "," X25519 "]}", &set) == 0);
	CHECK(!sgpu_key_set_secret(&set));
	REQUIRE(parse(OCT, &set) == 0);
	CHECK(sgpu_key_set_public(&set, &half, &error) == SGPU_EINVALID);
}

UNIT_TEST(what_is_no_set_of_keys_is_refused_by_name)
{
	CHECK(refused("{\"keys\":[]}", "array of 1 to 2"));
	CHECK(refused("{\"keys\":{}}", "array of 1 to 2"));
	CHECK(refused("{\"keys\":[5]}", "not an object"));
	CHECK(refused("{\"keys\":[" OCT "],\"more\":1}", "alone"));
	CHECK(refused("{\"keys\":[" OCT "," OCT "]}", "two keys to encrypt with"));
	CHECK(refused("{\"keys\":[" ED_PUBLIC "," EC_SECRET "]}", "two keys to sign with"));
	CHECK(refused("{\"keys\":[" OCT "," X25519 "," ED_PUBLIC "]}", "array of 1 to 2"));
	CHECK(refused("{\"keys\":[{\"keys\":[" OCT "]}]}", "set of keys"));
	CHECK(refused("{\"kty\":\"EC\",\"crv\":\"P-384\",\"x\":\"" EC_X "\",\"y\":\"" EC_Y "\"}",
		      "P-256"));
	CHECK(refused("{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"" EC_X "\"}", "'y' is missing"));
	CHECK(refused("{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"" EC_X "\",\"y\":\"" EC_X "\"}",
		      "point"));
	CHECK(refused("{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"" EC_X "\",\"y\":\"" EC_Y
		      "\",\"d\":\"" ED_D "\"}",
		      "not the one of 'd'"));
	CHECK(refused("{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"d\":\"" EC_D "\",\"x\":\"" ED_X "\"}",
		      "not the one of 'd'"));
	CHECK(refused("{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"use\":\"enc\",\"x\":\"" ED_X "\"}",
		      "'use' is not 'sig'"));
	CHECK(refused("{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"alg\":\"ES256\",\"x\":\"" ED_X "\"}",
		      "'alg' is 'ES256'"));
	CHECK(refused("{\"kty\":\"OKP\",\"crv\":\"X25519\",\"use\":\"sig\",\"x\":\"" ED_X "\"}",
		      "'use' is not 'enc'"));
	CHECK(refused("{\"kty\":\"RSA\"}", "'RSA'"));
}

/* ---- signatures of a JWS ---- */
#define TYP "sgpu-batch+jws"
static const char payload[] = "dGhlIHBheWxvYWQgYXMgaXQgbGllcw";

static int verify(json_t *entry, const char *typ, const char *text, struct sgpu_key *named)
{
	const int code = sgpu_signature_key(entry, typ, named, &error);

	CHECK(!code || named->kind == SGPU_KEY_NONE);
	return code ? code : sgpu_signature_verify(entry, text, named, &error);
}

UNIT_TEST(signatures_of_both_kinds_come_back)
{
	static const char *const secrets[] = { ED_SECRET, EC_SECRET };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(secrets); i++) {
		struct sgpu_key named;
		struct sgpu_key_set set;
		json_t *entry = NULL;
		REQUIRE(parse(secrets[i], &set) == 0);
		REQUIRE(sgpu_signature_make(&set.signing, TYP, payload, &entry, &error) == 0);
		CHECK(verify(entry, TYP, payload, &named) == 0);
		CHECK(!strcmp(named.kid, set.signing.kid) && !named.secret_known);
		CHECK(verify(entry, TYP, "dGhlIHBheWxvYWQgYXMgaXQgbGllcx", &named) == SGPU_EAUTH);
		CHECK(verify(entry, TYP, "dGhlIHBheWxvYWQgYXMgaXQgbGllc", &named) == SGPU_EAUTH);
		CHECK(verify(entry, "sgpu-batch", payload, &named) == SGPU_EINVALID);
		CHECK(verify(entry, TYP "x", payload, &named) == SGPU_EINVALID);
		json_decref(entry);
	}
}

UNIT_TEST(a_signature_with_any_character_changed_is_refused)
{
	static const char *const members[] = { "protected", "signature" };
	struct sgpu_key named;
	struct sgpu_key_set set;
	json_t *entry = NULL;
	int missed = 0;

	REQUIRE(parse(EC_SECRET, &set) == 0);
	REQUIRE(sgpu_signature_make(&set.signing, TYP, payload, &entry, &error) == 0);
	for (size_t m = 0; m < SGPU_ARRAY_LENGTH(members); m++) {
		char *text = strdup(json_string_value(json_object_get(entry, members[m])));
		for (size_t i = 0; text[i]; i++) {
			const char old = text[i];
			text[i] = old == 'A' ? 'B' : 'A';
			json_object_set_new(entry, members[m], json_string(text));
			/* Another header may name another key; it may not be this one. */
			missed += verify(entry, TYP, payload, &named) == 0;
			text[i] = old;
		}
		json_object_set_new(entry, members[m], json_stringn(text, strlen(text) - 1));
		CHECK(verify(entry, TYP, payload, &named) == SGPU_EINVALID);
		json_object_set_new(entry, members[m], json_string(""));
		CHECK(verify(entry, TYP, payload, &named) == SGPU_EINVALID);
		json_object_set_new(entry, members[m], json_string(text));
		free(text);
	}
	CHECK(missed == 0 && verify(entry, TYP, payload, &named) == 0);
	json_decref(entry);
	entry = json_string("a..b");
	CHECK(verify(entry, TYP, payload, &named) == SGPU_EINVALID);
	json_decref(entry);
}

/* A header that somebody else wrote, beside a signature of the right length. */
static bool header_refused(const char *header)
{
	struct sgpu_key named;
	char text[SGPU_PROTECTED_MAX];

	sgpu_base64url_encode(header, strlen(header), text);
	json_t *entry = json_pack("{s:s, s:s}", "protected", text, "signature", ED_SIGNATURE);
	const int code = verify(entry, TYP, payload, &named);
	json_decref(entry);
	return code == SGPU_EINVALID;
}

UNIT_TEST(a_header_has_one_form)
{
#define JWK "\"jwk\":{\"crv\":\"Ed25519\",\"kty\":\"OKP\",\"x\":\"" ED_X "\"}"
#define END "\",\"typ\":\"" TYP "\"}"
	CHECK(!header_refused("{\"alg\":\"EdDSA\"," JWK ",\"kid\":\"" ED_KID END)); /* EAUTH */
	CHECK(header_refused("{\"alg\":\"none\"," JWK ",\"kid\":\"" ED_KID END));
	CHECK(header_refused("{\"alg\":\"ES256\"," JWK ",\"kid\":\"" ED_KID END));
	CHECK(header_refused("{\"alg\":\"EdDSA\"," JWK ",\"typ\":\"" TYP "\"}"));
	CHECK(header_refused("{\"alg\":\"EdDSA\"," JWK ",\"kid\":\"" EC_X END));
	CHECK(header_refused("{\"alg\":\"EdDSA\"," JWK ",\"kid\":\"" ED_KID "\"}"));
	CHECK(header_refused("{\"alg\":\"EdDSA\",\"crit\":[\"x\"]," JWK ",\"kid\":\"" ED_KID END));
	CHECK(header_refused("{\"alg\":\"EdDSA\",\"b64\":false," JWK ",\"kid\":\"" ED_KID END));
	CHECK(header_refused("{\"alg\":\"EdDSA\", " JWK ",\"kid\":\"" ED_KID END));
	CHECK(header_refused("{\"alg\":\"EdDSA\",\"kid\":\"" ED_KID END));
	CHECK(header_refused("[]") && header_refused("5") && header_refused(""));
}

/* ---- files ---- */
static int load_as(const char *text, mode_t mode, uid_t owner, struct sgpu_key_set *set)
{
	char path[] = "/tmp/sgpu-key-XXXXXX";
	int fd = mkstemp(path), code = SGPU_ESYSTEM;

	if (fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) &&
	    !fchmod(fd, mode) && (owner == geteuid() || !fchown(fd, owner, (gid_t)-1))) {
		code = sgpu_key_set_load(path, set, &error);
	}
	close(fd);
	unlink(path);
	return code;
}

UNIT_TEST(a_key_that_signs_is_as_secret_as_any)
{
	struct sgpu_key_set set;
	struct sgpu_key key;

	CHECK(load_as(ED_SECRET, 0600, geteuid(), &set) == 0);
	CHECK(load_as(OCT, 0400, geteuid(), &set) == 0);
	CHECK(load_as(ED_SECRET, 0604, geteuid(), &set) == SGPU_EPOLICY &&
	      set.signing.kind == SGPU_KEY_NONE);
	CHECK(load_as(OCT, 0602, geteuid(), &set) == SGPU_EPOLICY &&
	      strstr(error.hint, "chmod 600"));
	CHECK(load_as("{\"keys\":[" X25519 "," ED_SECRET "]}", 0640, geteuid(), &set) ==
	      SGPU_EPOLICY);
	CHECK(load_as("{\"keys\":[" X25519 "," ED_PUBLIC "]}", 0644, geteuid(), &set) == 0);
	CHECK(sgpu_key_load("/dev/null", &key, &error) == SGPU_EINVALID);
}

UNIT_TEST(a_secret_of_another_user_is_refused)
{
	struct sgpu_key_set set;

	if (geteuid() != 0) {
		SKIP("needs root");
	}
	CHECK(load_as(OCT, 0600, 4711, &set) == SGPU_EPOLICY &&
	      strstr(error.text, "another user (4711)"));
	CHECK(load_as(ED_SECRET, 0600, 4711, &set) == SGPU_EPOLICY);
	CHECK(load_as(ED_PUBLIC, 0644, 4711, &set) == 0);
}

int main(void)
{
	UNIT_RUN(published_signatures_verify_and_changed_ones_do_not);
	UNIT_RUN(ed25519_signs_as_the_rfc_does_and_has_its_thumbprint);
	UNIT_RUN(a_set_has_one_key_of_each_use_and_survives_its_text);
	UNIT_RUN(what_is_no_set_of_keys_is_refused_by_name);
	UNIT_RUN(signatures_of_both_kinds_come_back);
	UNIT_RUN(a_signature_with_any_character_changed_is_refused);
	UNIT_RUN(a_header_has_one_form);
	UNIT_RUN(a_key_that_signs_is_as_secret_as_any);
	UNIT_RUN(a_secret_of_another_user_is_refused);
	return unit_done();
}
