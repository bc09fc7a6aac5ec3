/* SPDX-License-Identifier: Apache-2.0
 *
 * quote: what proving costs. A quote is collected, verified and appraised, as sgpu-measure does it,
 * with a certificate authority made for it; then the parts of collecting by themselves; and keys
 * are agreed with the device.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sgpu/attest.h>
#include <sgpu/base.h>
#include <sgpu/seal.h>

#include "cases.h"

enum { DAY = 86400, DAYS = 30, REQUEST_AGE = 600 };

struct proof {
	struct sgpu_bench *bench;
	struct sgpu_signer *ca, *ek, *ak;
	struct sgpu_chain roots, chain;
	char *eks; /* public PEM */
	struct sgpu_key recipient;
	uint8_t nonce[32];
	int64_t now;
	uint8_t program[SGPU_CHANNEL_DIGEST_SIZE];
	char *quote; /* the last one that was collected */
	size_t quote_size;
	struct sgpu_quote_result result; /* of the last one that was verified */
	struct sgpu_policy *policy;
};

/* ---- the authority, the attester's keys and certificate ---- */
static int certify(struct proof *p, struct sgpu_error *error)
{
	char *request = NULL, *pem = NULL;
	size_t request_size = 0, size = 0;
	int rc = sgpu_enroll_request(p->ek, p->ak, p->now, &request, &request_size, error);

	if (rc == SGPU_OK) {
		rc = sgpu_ca_certify(p->ca, &p->roots, p->eks, request, request_size, p->now, DAYS,
				     REQUEST_AGE, &pem, &size, error);
	}
	rc = rc ? rc : sgpu_chain_parse(pem, size, "certificate", &p->chain, error);
	free(request);
	free(pem);
	return rc;
}

static int make_authority(struct proof *p, struct sgpu_error *error)
{
	char *pem = NULL;
	size_t size = 0;
	int rc = sgpu_signer_generate(false, &p->ca, error);

	rc = rc ? rc : sgpu_signer_generate(false, &p->ek, error);
	rc = rc ? rc : sgpu_signer_generate(false, &p->ak, error);
	rc = rc ? rc : sgpu_signer_public_pem(p->ek, &p->eks, &size, error);
	rc = rc ? rc
		: sgpu_ca_create(p->ca, "sgpu-bench", p->now - DAY, DAYS + 1, &pem, &size, error);
	rc = rc ? rc : sgpu_chain_parse(pem, size, "authority", &p->roots, error);
	free(pem);
	return rc == SGPU_OK ? certify(p, error) : rc;
}

/* ---- collect, verify, appraise ---- */
static struct sgpu_quote_subject subject_of(const struct proof *p)
{
	return (struct sgpu_quote_subject){ .nonce = p->nonce,
					    .nonce_size = sizeof(p->nonce),
					    .recipient = &p->recipient,
					    .recipient_ephemeral = true,
					    .device = p->bench->device };
}

static int collect(void *argument, struct sgpu_error *error)
{
	struct proof *p = argument;
	const struct sgpu_quote_subject subject = subject_of(p);

	free(p->quote);
	return sgpu_quote_create(&subject, p->ak, &p->chain, p->now, &p->quote, &p->quote_size,
				 error);
}

static int verify(void *argument, struct sgpu_error *error)
{
	struct proof *p = argument;
	const struct sgpu_quote_checks checks = {
		.roots = &p->roots, .nonce = p->nonce, .nonce_size = sizeof(p->nonce), .now = p->now
	};

	int rc;

	sgpu_quote_result_clear(&p->result);
	rc = sgpu_quote_verify(p->quote, p->quote_size, &checks, &p->result, error);
	return rc || (p->result.claims && p->result.nonce_checked)
		       ? rc
		       : sgpu_fail(error, SGPU_EDIFFERS,
				   "the quote was not verified with its nonce");
}

static int appraise(void *argument, struct sgpu_error *error)
{
	const struct proof *p = argument;
	struct sgpu_appraisal appraisal = { 0 };
	int rc = sgpu_appraise(p->policy, &p->result, p->now, &appraisal, error);

	if (rc == SGPU_OK && !appraisal.accepted) {
		rc = sgpu_fail(error, SGPU_EDIFFERS,
			       "the quote was refused by the policy made from it");
	}
	sgpu_appraisal_clear(&appraisal);
	return rc;
}

static int make_policy(struct proof *p, struct sgpu_error *error)
{
	char *text = NULL;
	size_t size = 0;
	int rc = collect(p, error);

	rc = rc ? rc : verify(p, error);
	rc = rc ? rc : sgpu_policy_from_claims(p->result.claims, &text, &size, error);
	rc = rc ? rc : sgpu_policy_parse(text, size, "policy", &p->policy, error);
	free(text);
	return rc;
}

/* ---- parts ---- */
static int make_claims(void *argument, struct sgpu_error *error)
{
	const struct proof *p = argument;
	const struct sgpu_quote_subject subject = subject_of(p);
	json_t *claims = NULL;
	int rc = sgpu_quote_claims(&subject, p->now, &claims, error);

	json_decref(claims);
	return rc;
}

/* Which the claims include. */
static int digest_program(void *argument, struct sgpu_error *error)
{
	const struct proof *p = argument;
	uint8_t digest[SGPU_CHANNEL_DIGEST_SIZE];
	int rc = sgpu_measure_file("/proc/self/exe", digest, NULL, error);

	return rc || memcmp(digest, p->program, sizeof(digest)) == 0
		       ? rc
		       : sgpu_fail(error, SGPU_EDIFFERS,
				   "the program has another digest than before");
}

/* What the platform and the device have to say by themselves; what is absent is found out as well.
 */
static int collect_records(void *argument, struct sgpu_error *error)
{
	const struct proof *p = argument;
	const uint8_t report_data[64] = { 1 };
	struct sgpu_record records[SGPU_RECORDS_MAX];
	int count = sgpu_evidence_collect(report_data, p->bench->device, records);

	(void)error;
	sgpu_records_clear(records, count);
	return SGPU_OK;
}

static int sign(void *argument, struct sgpu_error *error)
{
	const struct proof *p = argument;
	uint8_t signature[SGPU_ES384_SIZE];

	return sgpu_signer_sign(p->ak, p->quote, p->quote_size, signature, error);
}

static int measure_steps(struct proof *p, struct sgpu_error *error)
{
	const struct sgpu_bench_variant whole[] = {
		{ .name = "collect", .work = collect, .argument = p },
		{ .name = "verify", .work = verify, .argument = p },
		{ .name = "appraise", .work = appraise, .argument = p },
	}, parts[] = {
		{ .name = "claims", .work = make_claims, .argument = p },
		{ .name = "program's digest", .work = digest_program, .argument = p },
		{ .name = "platform's records", .work = collect_records, .argument = p },
		{ .name = "signature", .work = sign, .argument = p },
	};
	const struct sgpu_bench_point quote = { .parameters = { { "what", "quote", 0 } } };
	const struct sgpu_bench_point of_parts = { .parameters = { { "what", "parts", 0 } } };
	const int rc = sgpu_bench_measure(p->bench, &quote, whole, SGPU_ARRAY_LENGTH(whole), error);

	return rc ? rc
		  : sgpu_bench_measure(p->bench, &of_parts, parts, SGPU_ARRAY_LENGTH(parts), error);
}

/* ---- keys agreed with the device ---- */
struct agreeing {
	struct sgpu_bench *bench;
	bool bare;
};

/* A device is opened until a segment's key is on it, which goes there bare, or sealed to a key of
 * the device. */
static int open_with_key(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	const struct agreeing *a = argument;
	const struct sgpu_device_config config = { .jobs = a->bench->options.jobs,
						   .bare_keys = a->bare };
	const struct sgpu_sealed_keys keys = { .key = { 1 } }; /* nothing is sealed with it */
	struct sgpu_device *device = NULL;
	struct sgpu_stream *stream = NULL;
	struct sgpu_device_key *key = NULL;
	uint64_t begin = sgpu_now_ns();
	int rc = sgpu_device_open(a->bench->info.selector, &config, &device, error);

	rc = rc ? rc : sgpu_stream_create(device, &stream, error);
	rc = rc ? rc : sgpu_device_key_load(stream, &keys, &key, error);
	rc = rc ? rc : sgpu_stream_sync(stream, error);
	*ns = sgpu_now_ns() - begin;
	sgpu_device_key_free(&key);
	sgpu_stream_free(&stream);
	sgpu_device_close(&device);
	return rc;
}

static int measure_agreeing(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct agreeing bare = { bench, true }, agreed = { bench, false };
	const struct sgpu_bench_variant variants[] = {
		{ .name = "bare keys", .run = open_with_key, .argument = &bare },
		{ .name = "keys agreed", .run = open_with_key, .argument = &agreed },
	};
	const struct sgpu_bench_point point = { .parameters = { { "what", "agree", 0 } } };
	struct sgpu_device_agreement agreement;
	int rc = sgpu_device_agree(bench->device, &agreement, error);

	if (rc == SGPU_OK && !agreement.agreed) {
		sgpu_bench_waive(bench, &point, NULL, "%s", agreement.text);
		return SGPU_OK;
	}
	return rc ? rc
		  : sgpu_bench_measure(bench, &point, variants, SGPU_ARRAY_LENGTH(variants), error);
}

/* ---- the case ---- */
static void clear(struct proof *p)
{
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

static int run(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct proof p = { .bench = bench, .now = (int64_t)time(NULL) };
	int rc = sgpu_random(p.nonce, sizeof(p.nonce), error);

	rc = rc ? rc : sgpu_key_generate(SGPU_KEY_X25519, &p.recipient, error);
	rc = rc ? rc : sgpu_measure_file("/proc/self/exe", p.program, NULL, error);
	rc = rc ? rc : make_authority(&p, error);
	rc = rc ? rc : make_policy(&p, error);
	rc = rc ? rc : measure_steps(&p, error);
	clear(&p);
	return rc ? rc : measure_agreeing(bench, error);
}

const struct sgpu_bench_case case_quote = {
	.name = "quote",
	.help = "evidence: collected, verified, appraised, by its parts; keys agreed with the "
		"device",
	.unit = SGPU_BENCH_NS,
	.requires = SGPU_BENCH_DEVICE,
	.run = run,
};
