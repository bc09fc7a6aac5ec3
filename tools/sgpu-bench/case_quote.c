/* SPDX-License-Identifier: Apache-2.0
 *
 * quote: what proving costs. A quote is collected, verified and appraised, as sgpu-measure does it, with a
 * certificate authority made for it; then the parts of collecting by themselves.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sgpu/attest.h>
#include <sgpu/base.h>

#include "cases.h"

enum { DAY = 86400, DAYS = 30, REQUEST_AGE = 600 };

struct proof {
	struct sgpu_bench *bench;
	struct sgpu_signer *ca, *ek, *ak;
	struct sgpu_chain roots, chain;
	char *eks;                 /* public PEM */
	struct sgpu_key recipient;
	uint8_t nonce[32];
	int64_t now;
	char *quote;               /* the last one that was collected */
	size_t quote_size;
	struct sgpu_quote_result result; /* of the last one that was verified */
	struct sgpu_policy *policy;
	bool accepted;
};

/* ---- the authority, the attester's keys and certificate ---- */
static int certify(struct proof *p, struct sgpu_error *error)
{
	char *request = NULL, *pem = NULL;
	size_t request_size = 0, size = 0;
	int rc = sgpu_enroll_request(p->ek, p->ak, p->now, &request, &request_size, error);

	if (rc == SGPU_OK) {
		rc = sgpu_ca_certify(p->ca, &p->roots, p->eks, request, request_size, p->now, DAYS, REQUEST_AGE,
				     &pem, &size, error);
	}
	rc = rc == SGPU_OK ? sgpu_chain_parse(pem, size, "certificate", &p->chain, error) : rc;
	free(request);
	free(pem);
	return rc;
}

static int make_authority(struct proof *p, struct sgpu_error *error)
{
	char *pem = NULL;
	size_t size = 0;
	int rc = sgpu_signer_generate(false, &p->ca, error);

	rc = rc == SGPU_OK ? sgpu_signer_generate(false, &p->ek, error) : rc;
	rc = rc == SGPU_OK ? sgpu_signer_generate(false, &p->ak, error) : rc;
	rc = rc == SGPU_OK ? sgpu_signer_public_pem(p->ek, &p->eks, &size, error) : rc;
	rc = rc == SGPU_OK ? sgpu_ca_create(p->ca, "sgpu-bench", p->now - DAY, DAYS, &pem, &size, error) : rc;
	rc = rc == SGPU_OK ? sgpu_chain_parse(pem, size, "authority", &p->roots, error) : rc;
	free(pem);
	return rc == SGPU_OK ? certify(p, error) : rc;
}

/* ---- collect, verify, appraise ---- */
static struct sgpu_quote_subject subject_of(const struct proof *p)
{
	return (struct sgpu_quote_subject){ .nonce = p->nonce, .nonce_size = sizeof(p->nonce),
					    .recipient = &p->recipient, .recipient_ephemeral = true,
					    .device = p->bench->device };
}

static int collect(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct proof *p = argument;
	const struct sgpu_quote_subject subject = subject_of(p);

	(void)ns;
	free(p->quote);
	return sgpu_quote_create(&subject, p->ak, &p->chain, p->now, &p->quote, &p->quote_size, error);
}

static int verify(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct proof *p = argument;
	const struct sgpu_quote_checks checks = { .roots = &p->roots, .nonce = p->nonce,
						  .nonce_size = sizeof(p->nonce), .now = p->now };

	(void)ns;
	sgpu_quote_result_clear(&p->result);
	return sgpu_quote_verify(p->quote, p->quote_size, &checks, &p->result, error);
}

static int check_verified(void *argument, struct sgpu_error *error)
{
	const struct proof *p = argument;

	return p->result.claims && p->result.nonce_checked ? SGPU_OK :
	       sgpu_fail(error, SGPU_EDIFFERS, "the quote was not verified with its nonce");
}

static int appraise(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct proof *p = argument;
	struct sgpu_appraisal appraisal = { 0 };
	int rc = sgpu_appraise(p->policy, &p->result, p->now, &appraisal, error);

	(void)ns;
	p->accepted = rc == SGPU_OK && appraisal.accepted;
	sgpu_appraisal_clear(&appraisal);
	return rc;
}

static int check_accepted(void *argument, struct sgpu_error *error)
{
	const struct proof *p = argument;

	return p->accepted ? SGPU_OK :
	       sgpu_fail(error, SGPU_EDIFFERS, "the quote was refused by the policy made from it");
}

static int make_policy(struct proof *p, struct sgpu_error *error)
{
	uint64_t ignored = 0;
	char *text = NULL;
	size_t size = 0;
	int rc = collect(p, &ignored, error);

	rc = rc == SGPU_OK ? verify(p, &ignored, error) : rc;
	rc = rc == SGPU_OK ? sgpu_policy_from_claims(p->result.claims, &text, &size, error) : rc;
	rc = rc == SGPU_OK ? sgpu_policy_parse(text, size, "policy", &p->policy, error) : rc;
	free(text);
	return rc;
}

static int measure_quote(struct proof *p, struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		{ .name = "collect", .run = collect, .argument = p },
		{ .name = "verify", .run = verify, .verify = check_verified, .argument = p },
		{ .name = "appraise", .run = appraise, .verify = check_accepted, .argument = p },
	};
	const struct sgpu_bench_point point = { .parameters = { { "what", "quote", 0 } } };

	return sgpu_bench_measure(p->bench, &point, variants, SGPU_ARRAY_LENGTH(variants), error);
}

/* ---- parts ---- */
static int make_claims(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	const struct proof *p = argument;
	const struct sgpu_quote_subject subject = subject_of(p);
	json_t *claims = NULL;
	int rc = sgpu_quote_claims(&subject, p->now, &claims, error);

	(void)ns;
	json_decref(claims);
	return rc;
}

/* What the platform and the device have to say by themselves; what is absent is found out as well. */
static int collect_records(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	const struct proof *p = argument;
	const uint8_t report_data[64] = { 1 };
	struct sgpu_record records[SGPU_RECORDS_MAX];
	int count = sgpu_evidence_collect(report_data, p->bench->device, records);

	(void)ns;
	(void)error;
	sgpu_records_clear(records, count);
	return SGPU_OK;
}

static int sign(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	const struct proof *p = argument;
	uint8_t signature[SGPU_ES384_SIZE];

	(void)ns;
	return sgpu_signer_sign(p->ak, p->quote, p->quote_size, signature, error);
}

static int measure_parts(struct proof *p, struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		{ .name = "claims", .run = make_claims, .argument = p },
		{ .name = "platform's records", .run = collect_records, .argument = p },
		{ .name = "signature", .run = sign, .argument = p },
	};
	const struct sgpu_bench_point point = { .parameters = { { "what", "parts", 0 } } };

	return sgpu_bench_measure(p->bench, &point, variants, SGPU_ARRAY_LENGTH(variants), error);
}

/* ---- the case ---- */
static void end_proof(struct sgpu_bench *bench, uintptr_t what, uint64_t size)
{
	struct proof *p = (struct proof *)what;

	(void)bench, (void)size;
	sgpu_policy_free(&p->policy);
	sgpu_quote_result_clear(&p->result);
	free(p->quote);
	free(p->eks);
	sgpu_chain_clear(&p->chain);
	sgpu_chain_clear(&p->roots);
	sgpu_signer_free(&p->ak);
	sgpu_signer_free(&p->ek);
	sgpu_signer_free(&p->ca);
	sgpu_key_clear(&p->recipient);
}

static int measure_proof(struct sgpu_bench *bench, struct proof *p, struct sgpu_error *error)
{
	int rc = sgpu_random(p->nonce, sizeof(p->nonce), error);

	p->bench = bench;
	p->now = (int64_t)time(NULL);
	rc = rc ? rc : sgpu_key_generate(SGPU_KEY_X25519, &p->recipient, error);
	rc = rc ? rc : make_authority(p, error);
	rc = rc ? rc : make_policy(p, error);
	rc = rc ? rc : measure_quote(p, error);
	return rc ? rc : measure_parts(p, error);
}

static int run(struct sgpu_bench *bench, struct sgpu_error *error)
{
	void *state = NULL;
	int rc = sgpu_bench_new(bench, sizeof(struct proof), &state, error);

	rc = rc ? rc : sgpu_bench_keep(bench, end_proof, (uintptr_t)state, 0, error);
	rc = rc ? rc : measure_proof(bench, state, error);
	rc = rc ? rc : bench_quote_program(bench, error);
	return rc ? rc : bench_quote_agree(bench, error);
}

const struct sgpu_bench_case case_quote = {
	.name = "quote",
	.help = "evidence: collected, verified, appraised, by its parts; keys agreed with the device",
	.unit = SGPU_BENCH_NS,
	.requires = SGPU_BENCH_DEVICE,
	.run = run,
};
