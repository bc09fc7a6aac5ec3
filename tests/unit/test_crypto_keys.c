/* SPDX-License-Identifier: Apache-2.0
 *
 * Key files: what is read, what is refused, and that both ends agree.
 */
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/keys.h>

#include "unit.h"

/* RFC 7748, section 6.1. */
#define ALICE_D "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo"
#define ALICE_X "hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo"
#define OCT_K "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"

static int parse(const char *text, struct sgpu_key *key, struct sgpu_error *error)
{
	return sgpu_key_parse(text, strlen(text), "test", key, error);
}

static int refused(const char *text, const char *word)
{
	struct sgpu_error error = { 0 };
	struct sgpu_key key;
	static const struct sgpu_key none;
	int code = parse(text, &key, &error);

	if (code != SGPU_EINVALID || !strstr(error.text, word) ||
	    memcmp(&key, &none, sizeof(key))) {
		printf("# code %d, text '%s'\n", code, error.text);
		return 0;
	}
	/* A message must not hold what it is about. */
	return !strstr(error.text, "dwdtCnMY") && !strstr(error.text, "AAECAwQF");
}

UNIT_TEST(a_symmetric_key_has_its_bytes_and_thumbprint)
{
	struct sgpu_key key;

	REQUIRE(parse("{\"kty\":\"oct\",\"k\":\"" OCT_K "\"}\n", &key, NULL) == 0);
	CHECK(key.kind == SGPU_KEY_OCT);
	for (unsigned i = 0; i < 32; i++) {
		CHECK(key.secret[i] == i);
	}
	CHECK(!strcmp(key.kid, "WqjPPRvAP8oYbAqCwMErhzTg-Quaz-vLx_cef07yhOs"));
	sgpu_key_clear(&key);
	CHECK(key.secret[31] == 0 && !key.kid[0]);
}

UNIT_TEST(an_x25519_key_has_both_halves_and_the_public_one_the_same_thumbprint)
{
	struct sgpu_key key, half, text_half;
	char *text;
	size_t size;

	REQUIRE(parse("{\"crv\":\"X25519\",\"d\":\"" ALICE_D "\",\"kty\":\"OKP\",\"x\":\"" ALICE_X
		      "\"}",
		      &key, NULL) == 0);
	CHECK(key.kind == SGPU_KEY_X25519 && key.secret[0] == 0x77 && key.public_half[0] == 0x85);
	REQUIRE(sgpu_key_public(&key, &half, NULL) == 0);
	CHECK(half.kind == SGPU_KEY_X25519 && !half.secret_known && !strcmp(half.kid, key.kid) &&
	      half.secret[0] == 0);
	REQUIRE(sgpu_key_set_text(&(struct sgpu_key_set){ .key = half }, &text, &size, NULL) == 0);
	CHECK(size == strlen(text) && text[size - 1] == '\n' && !strstr(text, "\"d\""));
	CHECK(parse(text, &text_half, NULL) == 0 && !memcmp(&text_half, &half, sizeof(half)));
	CHECK(sgpu_key_generate(SGPU_KEY_P256, &half, NULL) == SGPU_EUSAGE);
	CHECK(!sgpu_key_generate(SGPU_KEY_OCT, &key, NULL) &&
	      !sgpu_key_generate(SGPU_KEY_OCT, &half, NULL));
	CHECK(memcmp(key.secret, half.secret, 32) && strcmp(key.kid, half.kid) &&
	      strlen(key.kid) == SGPU_KID_SIZE);
	sgpu_free_wiped(&text, size);
}

static int allocations_left;

static void *allocate_some(size_t size)
{
	return allocations_left-- > 0 ? malloc(size) : NULL;
}

/* jansson allocates even while it prints, so memory may run out after the key has been taken. */
UNIT_TEST(a_key_has_its_whole_text_or_none_when_memory_runs_out)
{
	struct sgpu_key_set set = { .key.kind = SGPU_KEY_NONE };
	int rc = SGPU_ENOMEM, many;

	REQUIRE(sgpu_key_generate(SGPU_KEY_X25519, &set.key, NULL) == 0);
	json_set_alloc_funcs(allocate_some, free);
	for (many = 0; rc && many < 1000; many++) {
		char *text = NULL;
		size_t size = 1;

		allocations_left = many;
		rc = sgpu_key_set_text(&set, &text, &size, NULL);
		CHECK(rc ? rc == SGPU_ENOMEM && !text && !size : size > 100 && text[0] == '{');
		free(text);
	}
	json_set_alloc_funcs(malloc, free);
	CHECK(rc == SGPU_OK && many > 2);
}

UNIT_TEST(registered_optional_members_are_taken)
{
	struct sgpu_key key;

	CHECK(parse("{\"kty\":\"oct\",\"k\":\"" OCT_K
		    "\",\"kid\":\"mine\",\"use\":\"enc\",\"alg\":\"A256KW\","
		    "\"key_ops\":[\"wrapKey\",\"unwrapKey\"],\"ext\":true}",
		    &key, NULL) == 0);
	CHECK(strlen(key.kid) == SGPU_KID_SIZE);
	/* Escapes are JSON like any other. */
	CHECK(parse("{\"kty\":\"oct\",\"k\":\"\\u0041AECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\"}",
		    &key, NULL) == 0);
}

UNIT_TEST(what_is_no_key_is_refused_by_name)
{
	CHECK(refused("", "not a JSON Web Key"));
	CHECK(refused("[]", "not an object"));
	CHECK(refused("{}", "'kty' is missing"));
	CHECK(refused("{\"kty\":7}", "'kty' is not a string"));
	CHECK(refused("{\"kty\":\"RSA\"}", "'RSA'"));
	CHECK(refused("{\"kty\":\"OKP\",\"x\":\"" ALICE_X "\"}", "'crv' is missing"));
	CHECK(refused("{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"" ALICE_X "\"}", "'Ed25519'"));
	CHECK(refused("{\"kty\":\"EC\",\"crv\":\"P-384\",\"x\":\"" ALICE_X "\"}", "'P-384'"));
	CHECK(refused("{\"keys\":[]}", "a set of keys"));
	CHECK(refused("{\"kty\":\"oct\",\"k\":\"" OCT_K "\",\"k\":\"" OCT_K "\"}",
		      "not a JSON Web Key"));
	CHECK(refused("{\"kty\":\"oct\",\"k\":\"" OCT_K "\"} x", "not a JSON Web Key"));
	CHECK(refused("{\"kty\":\"oct\",\"k\":\"" OCT_K "\",}", "test:1:"));
	CHECK(refused("{\"kty\":\"oct\",\"k\":\"" OCT_K "\n\"}", "not a JSON Web Key"));
}

UNIT_TEST(members_of_the_wrong_shape_are_refused_by_name)
{
	CHECK(refused("{\"kty\":\"oct\"}", "'k' is missing"));
	CHECK(refused("{\"kty\":\"oct\",\"k\":5}", "'k' is not a string"));
	CHECK(refused("{\"kty\":\"oct\",\"k\":\"AAECAwQFBgcICQoLDA0ODw\"}", "22 base64url"));
	CHECK(refused("{\"kty\":\"oct\",\"k\":\"" OCT_K "=\"}", "44 base64url"));
	CHECK(refused("{\"kty\":\"oct\",\"k\":\"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9\"}",
		      "'k'"));
	CHECK(refused("{\"kty\":\"oct\",\"k\":\"+AECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\"}",
		      "base64url"));
	CHECK(refused("{\"kty\":\"oct\",\"k\":\"" OCT_K "\",\"oth\":1}", "'oth'"));
	CHECK(refused("{\"kty\":\"oct\",\"k\":\"" OCT_K "\",\"x\":\"" ALICE_X "\"}", "'x'"));
	CHECK(refused("{\"kty\":\"oct\",\"k\":\"" OCT_K "\",\"use\":\"sig\"}", "'use'"));
	CHECK(refused("{\"kty\":\"oct\",\"k\":\"" OCT_K "\",\"alg\":\"HS256\"}", "'HS256'"));
	CHECK(refused("{\"kty\":\"oct\",\"k\":\"" OCT_K "\",\"key_ops\":[\"a\",\"a\"]}",
		      "'key_ops'"));
	CHECK(refused("{\"kty\":\"oct\",\"k\":\"" OCT_K "\",\"ext\":\"yes\"}", "'ext'"));
	CHECK(refused("{\"kty\":\"oct\",\"k\":\"" OCT_K "\",\"kid\":1}", "'kid'"));
	CHECK(refused("{\"kty\":\"OKP\",\"crv\":\"X25519\",\"d\":\"" ALICE_D "\"}",
		      "'x' is missing"));
	CHECK(refused("{\"kty\":\"OKP\",\"crv\":\"X25519\",\"x\":\"" ALICE_D "\",\"d\":\"" ALICE_D
		      "\"}",
		      "public half is not the one of 'd'"));
	/* Something that looks like the reader's own marks. */
	CHECK(refused("{\"kty\":\"oct\",\"k\":\"#9#########################################\"}",
		      "'k'"));
}

/* 0, 1, two of order 8, p - 1, p, p + 1, and two of them with the bit that X25519 ignores (RFC
 * 7748, section 5). */
UNIT_TEST(a_public_key_of_low_order_is_refused)
{
	static const char *const low[] = {
		"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		"AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		"4Ot6fDtBuK4WVuP68Z_EatoJjeucMrH9hmIFFl9JuAA",
		"X5yVvKNQjCSx0LFVnIPvWwREXMRYHI6G2CJO3dCfEVc",
		"7P_______________________________________38",
		"7f_______________________________________38",
		"7v_______________________________________38",
		"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAIA",
		"AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAIA",
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(low); i++) {
		char text[160];

		snprintf(text, sizeof(text), "{\"kty\":\"OKP\",\"crv\":\"X25519\",\"x\":\"%s\"}",
			 low[i]);
		CHECK(refused(text, "'x' is a point of low order"));
	}
}

/* One entry of an access control list. */
static size_t put_entry(uint8_t *at, unsigned tag, unsigned permissions, uint32_t id)
{
	const uint8_t entry[8] = { (uint8_t)tag,	 0,
				   (uint8_t)permissions, 0,
				   (uint8_t)id,		 (uint8_t)(id >> 8),
				   (uint8_t)(id >> 16),	 (uint8_t)(id >> 24) };

	memcpy(at, entry, sizeof(entry));
	return sizeof(entry);
}

/* -1: this file system has no lists. Else how a key loads that the list lets `user`, the group and
 * others read. */
static int load_with_list(uint32_t user, unsigned group, unsigned other)
{
	static const char secret[] = "{\"kty\":\"oct\",\"k\":\"" OCT_K "\"}";
	uint8_t list[64] = { 2 };
	char path[] = "/dev/shm/sgpu-key-XXXXXX";
	struct sgpu_key key;
	size_t size = 4;
	int fd = mkstemp(path), code = 1;

	size += put_entry(list + size, 0x01, 4, UINT32_MAX);
	size += put_entry(list + size, 0x02, 4, user);
	size += put_entry(list + size, 0x04, group, UINT32_MAX);
	size += put_entry(list + size, 0x10, 4, UINT32_MAX);
	size += put_entry(list + size, 0x20, other, UINT32_MAX);
	if (fd >= 0 && write(fd, secret, strlen(secret)) == (ssize_t)strlen(secret) &&
	    !fchmod(fd, 0400) && !fsetxattr(fd, "system.posix_acl_access", list, size, 0)) {
		code = sgpu_key_load(path, &key, NULL);
		sgpu_key_clear(&key);
	}
	close(fd);
	unlink(path);
	return code;
}

UNIT_TEST(a_list_that_lets_in_this_user_alone_keeps_a_key_secret)
{
	int code = load_with_list(geteuid(), 0, 0);

	if (code == 1) {
		printf("# no access control lists on /dev/shm\n");
		return;
	}
	CHECK(code == SGPU_OK && load_with_list(0, 0, 0) == SGPU_OK);
	CHECK(load_with_list(geteuid() + 1, 0, 0) == SGPU_EPOLICY);
	CHECK(load_with_list(geteuid(), 4, 0) == SGPU_EPOLICY);
	CHECK(load_with_list(geteuid(), 0, 4) == SGPU_EPOLICY);
}

UNIT_TEST(a_key_comes_from_a_pipe_by_descriptor)
{
	static const char secret[] = "{\"kty\":\"oct\",\"k\":\"" OCT_K "\"}";
	struct sgpu_key key;
	char name[32];
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	REQUIRE(write(fds[1], secret, strlen(secret)) == (ssize_t)strlen(secret));
	close(fds[1]);
	snprintf(name, sizeof(name), "fd:%d", fds[0]);
	CHECK(sgpu_key_load(name, &key, NULL) == 0 && key.secret[31] == 31);
	CHECK(fcntl(fds[0], F_GETFD) >= 0); /* the caller's own stays open */
	close(fds[0]);
	CHECK(sgpu_key_load(name, &key, NULL) == SGPU_ESYSTEM);
	CHECK(sgpu_key_load("fd:x", &key, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_key_load("/nonexistent/key", &key, NULL) == SGPU_ESYSTEM);
	CHECK(sgpu_key_load("/tmp", &key, NULL) == SGPU_ESYSTEM);
	CHECK(sgpu_key_load("/dev/zero", &key, NULL) != 0);
	CHECK(dup(0) == fds[0]); /* none of the loader's does */
	close(fds[0]);
}

int main(void)
{
	UNIT_RUN(a_symmetric_key_has_its_bytes_and_thumbprint);
	UNIT_RUN(an_x25519_key_has_both_halves_and_the_public_one_the_same_thumbprint);
	UNIT_RUN(a_key_has_its_whole_text_or_none_when_memory_runs_out);
	UNIT_RUN(registered_optional_members_are_taken);
	UNIT_RUN(what_is_no_key_is_refused_by_name);
	UNIT_RUN(members_of_the_wrong_shape_are_refused_by_name);
	UNIT_RUN(a_public_key_of_low_order_is_refused);
	UNIT_RUN(a_list_that_lets_in_this_user_alone_keeps_a_key_secret);
	UNIT_RUN(a_key_comes_from_a_pipe_by_descriptor);
	return unit_done();
}
