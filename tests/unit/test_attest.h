/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of evidence share: a CA, an endorsement key, an attestation key and its chain,
 * made anew each time.
 */
#ifndef TEST_ATTEST_H
#define TEST_ATTEST_H

#include <sgpu/attest.h>
#include <sgpu/base.h>

#include "base/json.h"
#include "attest/quote.h"
#include "unit.h"

#define NOW 1800000000
#define DAY 86400

struct world {
	struct sgpu_signer *ca, *ek, *ak;
	struct sgpu_chain roots, machine, chain; /* of the CA, the EK and the AK */
};

/* What the issuer certifies at the request of the key. */
static inline int world_certify(const struct sgpu_signer *issuer, const struct sgpu_chain *above,
				const struct sgpu_signer *key, int64_t now, unsigned days,
				struct sgpu_chain *chain, struct sgpu_error *error)
{
	char *pem = NULL, *request = NULL;
	size_t pem_size = 0, size = 0;
	int code = sgpu_request_create(key, &request, &size, error);

	memset(chain, 0, sizeof(*chain));
	code = code ? code
		    : sgpu_ca_certify(issuer, above, request, size, now, days, &pem, &pem_size,
				      error);
	code = code ? code : sgpu_chain_parse(pem, pem_size, "chain", chain, error);
	free(request);
	free(pem);
	return code;
}

static inline int world_make(struct world *world)
{
	char *pem = NULL;
	size_t size = 0;

	memset(world, 0, sizeof(*world));
	int code = sgpu_signer_generate(false, &world->ca, NULL) ||
		   sgpu_signer_generate(false, &world->ek, NULL) ||
		   sgpu_signer_generate(false, &world->ak, NULL) ||
		   sgpu_ca_create(world->ca, "test CA", NOW - DAY, 365, &pem, &size, NULL) ||
		   sgpu_chain_parse(pem, size, "root", &world->roots, NULL) ||
		   world_certify(world->ca, &world->roots, world->ek, NOW - 10, 200,
				 &world->machine, NULL) ||
		   world_certify(world->ek, &world->machine, world->ak, NOW - 5, 30, &world->chain,
				 NULL);
	free(pem);
	return code;
}

static inline void world_free(struct world *world)
{
	sgpu_signer_free(&world->ca);
	sgpu_signer_free(&world->ek);
	sgpu_signer_free(&world->ak);
	sgpu_chain_clear(&world->roots);
	sgpu_chain_clear(&world->machine);
	sgpu_chain_clear(&world->chain);
}

/* A token of any header and payload, signed well with ES384. From malloc. */
static inline char *sign_raw(const struct sgpu_signer *signer, const char *header,
			     const char *payload)
{
	uint8_t signature[SGPU_ES384_SIZE];
	char *token = malloc(2 * (strlen(header) + strlen(payload)) + 512);
	EVP_MD_CTX *context = sgpu_signer_context(signer);

	sgpu_base64url_encode(header, strlen(header), token);
	strcat(token, ".");
	sgpu_base64url_encode(payload, strlen(payload), token + strlen(token));
	if (!context ||
	    !sgpu_ecdsa_sign(context, token, strlen(token), signature, SGPU_ES384_SIZE / 2)) {
		abort();
	}
	EVP_MD_CTX_free(context);
	strcat(token, ".");
	sgpu_base64url_encode(signature, sizeof(signature), token + strlen(token));
	return token;
}

#endif
