/* SPDX-License-Identifier: Apache-2.0
 *
 * Key files, sgpu-keys(5): keys to encrypt with, and keys that sign. libcrypto does the work.
 */
#ifndef SGPU_KEYS_H
#define SGPU_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sgpu/error.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	SGPU_KEY_SIZE = 32,
	SGPU_NONCE_SIZE = 12,
	SGPU_TAG_SIZE = 16,
	SGPU_SHA256_SIZE = 32,
	SGPU_KT128_SIZE = 32, /* bytes of a digest wherever sgpu stores one */
	SGPU_KID_SIZE = 43,   /* characters of an RFC 7638 thumbprint in base64url */
};

/* ---- key files, sgpu-keys(5): JWK (RFC 7517) ---- */
/* Keys to encrypt with; and keys that sign: Ed25519 (RFC 8032), and ECDSA on P-256 with SHA-256
 * (FIPS 186-5). */
enum sgpu_key_kind {
	SGPU_KEY_NONE,
	SGPU_KEY_OCT,
	SGPU_KEY_X25519,
	SGPU_KEY_ED25519,
	SGPU_KEY_P256
};
enum { SGPU_SIGNATURE_SIZE = 64 }; /* bytes, for both kinds, as in JWS: for P-256 r || s */

struct sgpu_key {
	enum sgpu_key_kind kind;
	bool secret_known;	     /* it is not only a public half */
	uint8_t secret[32];	     /* zero if it is not known */
	uint8_t public_half[64];     /* P-256: x || y; oct: zeros; else 32 bytes and zeros */
	char kid[SGPU_KID_SIZE + 1]; /* RFC 7638 thumbprint */
};

const char *sgpu_key_name(
	enum sgpu_key_kind kind); /* "oct", "X25519", "Ed25519", "P-256", "none" */
/* Makes a new key of any kind but P-256. */
SGPU_MUST_CHECK int sgpu_key_generate(enum sgpu_key_kind kind, struct sgpu_key *key,
				      struct sgpu_error *error);
/* Gives the public half. Errors: SGPU_EINVALID for an oct key. */
SGPU_MUST_CHECK int sgpu_key_public(const struct sgpu_key *key, struct sgpu_key *public_key,
				    struct sgpu_error *error);
/* Parses JWK text of a key to encrypt with. When keys are generated, parsed or written, jansson
 * copies their secrets. A program that must leave no secret in freed memory first gives jansson a
 * free function that wipes (json_set_alloc_funcs), as the tools do. A private key whose "x" is not
 * its public key is refused. Errors: SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_key_parse(const char *text, size_t size, const char *name,
				   struct sgpu_key *key, struct sgpu_error *error);
/* Reads the key to encrypt with from a file with a JWK or a JWK Set. A secret key must be in a
 * regular file or pipe of this user or root, without rights for others (SGPU_EPOLICY). The path "-"
 * is standard input, "fd:N" a descriptor. */
SGPU_MUST_CHECK int sgpu_key_load(const char *path, struct sgpu_key *key, struct sgpu_error *error);
/* The same for a private key. Errors: SGPU_EKEY for a public half. */
SGPU_MUST_CHECK int sgpu_key_load_private(const char *path, struct sgpu_key *key,
					  struct sgpu_error *error);
/* Wipes the key. */
void sgpu_key_clear(struct sgpu_key *key);

/* ---- the content of a key file: one JWK or a JWK Set, with at most one key of each use ---- */
struct sgpu_key_set {
	struct sgpu_key key;	 /* to encrypt with; kind SGPU_KEY_NONE: none */
	struct sgpu_key signing; /* the same */
	bool others_write; /* others can write to the file; never true of a set with a secret */
	bool locked;	   /* the file was protected by a passphrase */
};
SGPU_MUST_CHECK int sgpu_key_set_parse(const char *text, size_t size, const char *name,
				       struct sgpu_key_set *set, struct sgpu_error *error);
/* Writes a JWK Set, or a JWK if there is only one key, as a line with its newline. *text is from
 * malloc; free it with sgpu_free_wiped. */
SGPU_MUST_CHECK int sgpu_key_set_text(const struct sgpu_key_set *set, char **text, size_t *size,
				      struct sgpu_error *error);
/* Copies the public halves; a symmetric key has none and is left out. Errors: SGPU_EINVALID if
 * nothing is left. */
SGPU_MUST_CHECK int sgpu_key_set_public(const struct sgpu_key_set *set,
					struct sgpu_key_set *public_set, struct sgpu_error *error);
/* As sgpu_key_load, for all keys of the file. */
SGPU_MUST_CHECK int sgpu_key_set_load(const char *path, struct sgpu_key_set *set,
				      struct sgpu_error *error);
/* Wipes the set. */
void sgpu_key_set_clear(struct sgpu_key_set *set);

/* ---- key files that are protected by a passphrase, sgpu-keys(5) ---- */
enum { SGPU_PASSPHRASE_MAX = 1024 }; /* bytes */
/* Gets the passphrase of the file `name`. Returns 0 or a code, which loading the key returns. */
typedef int sgpu_passphrase(const char *name, char text[SGPU_PASSPHRASE_MAX], size_t *size,
			    struct sgpu_error *error);
/* Has such files opened with what `ask` gets. Called once, before threads. Without it, they are
 * refused with SGPU_EPOLICY. Errors of loading: SGPU_EAUTH for a wrong passphrase. */
void sgpu_key_ask(sgpu_passphrase *ask);
/* Replaces the text of sgpu_key_set_text by its encryption. */
SGPU_MUST_CHECK int sgpu_key_protect(const char *passphrase, size_t length, char **text,
				     size_t *size, struct sgpu_error *error);

#ifdef __cplusplus
}
#endif
#endif
