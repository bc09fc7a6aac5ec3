/* SPDX-License-Identifier: Apache-2.0
 *
 * Evidence: who signs it, what a quote says, how it is verified, how it is appraised. Three steps that never mix:
 * collect (RFC 9334's Attester), verify (signature, chain, time, nonce, binding), appraise (a policy).
 *
 * A quote is a CMW collection in JSON (RFC 9999): our claims as an EAT (RFC 9711), a JWT signed with ES384 whose x5c
 * header holds the certificates; beside it the platform's native records. sgpu-quote(5) has every field, and
 * docs/threat-model.md what each part proves. Times are seconds since 1970; what a call is given stays the caller's.
 */
#ifndef SGPU_ATTEST_H
#define SGPU_ATTEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <sgpu/channel.h>
#include <sgpu/crypto.h>
#include <sgpu/device.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SGPU_EAT_PROFILE "tag:sgpu.dev,2026:measure#1"
#define SGPU_CMW_PROFILE "tag:sgpu.dev,2026:evidence#1"
#define SGPU_TYPE_EAT "application/eat+jwt; eat_profile=\"" SGPU_EAT_PROFILE "\""
#define SGPU_TYPE_TSM "application/vnd.veraison.tsm-report+json"
#define SGPU_TYPE_NVIDIA "application/vnd.veraison.nvidia-gpu-evidence+json"
#define SGPU_TYPE_GRAMINE "application/vnd.sgpu.gramine-quote+json"

enum {
	SGPU_ES384_SIZE = 96,          /* raw r || s of P-384 */
	SGPU_NONCE_MIN = 8, SGPU_NONCE_MAX = 64, /* bytes of a verifier's nonce */
	SGPU_QUOTE_MAX = 1 << 20,      /* bytes of a quote that is read at all */
	SGPU_CHAIN_MAX = 8,            /* certificates in a chain */
	SGPU_QUOTE_OWNERS_MAX = 1024,  /* whose work a runner may say that it takes */
};

/* ---- P-384 keys and certificates ----
 * Key files are PEM: PKCS#8, or "TSS2 PRIVATE KEY" for a key that lives in a TPM 2.0 (OpenSSL's tpm2 provider). */
struct sgpu_signer; /* a private key */
/* In a TPM when `tpm` is set: SGPU_EUNAVAILABLE without the provider or a TPM, with what to do. */
SGPU_MUST_CHECK int sgpu_signer_generate(bool tpm, struct sgpu_signer **signer, struct sgpu_error *error);
/* path as sgpu_key_load. Errors: SGPU_EPOLICY when others can read it, SGPU_EINVALID (no such key), SGPU_ESYSTEM, and as
 * above for a key in a TPM. */
SGPU_MUST_CHECK int sgpu_signer_load(const char *path, struct sgpu_signer **signer, struct sgpu_error *error);
void sgpu_signer_free(struct sgpu_signer **signer);
bool sgpu_signer_in_tpm(const struct sgpu_signer *signer);
/* PEM from malloc; free the private one with sgpu_free_wiped. */
SGPU_MUST_CHECK int sgpu_signer_private_pem(const struct sgpu_signer *signer, char **pem, size_t *size,
					    struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_signer_public_pem(const struct sgpu_signer *signer, char **pem, size_t *size,
					   struct sgpu_error *error);
/* SHA-256 of the DER SubjectPublicKeyInfo: how a key is named. */
SGPU_MUST_CHECK int sgpu_signer_fingerprint(const struct sgpu_signer *signer, uint8_t hash[SGPU_SHA256_SIZE],
					    struct sgpu_error *error);
/* ES384 over the bytes. */
SGPU_MUST_CHECK int sgpu_signer_sign(const struct sgpu_signer *signer, const void *data, size_t size,
				     uint8_t signature[SGPU_ES384_SIZE], struct sgpu_error *error);

/* Certificates, leaf first. */
struct sgpu_chain {
	int count;
	uint8_t *der[SGPU_CHAIN_MAX]; /* from malloc */
	size_t size[SGPU_CHAIN_MAX];
};
/* PEM, from a file or from memory; `name` is for errors. The caller clears the chain. Errors: SGPU_EINVALID, SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_chain_load(const char *path, struct sgpu_chain *chain, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_chain_parse(const char *pem, size_t size, const char *name, struct sgpu_chain *chain,
				     struct sgpu_error *error);
void sgpu_chain_clear(struct sgpu_chain *chain);

/* ---- JWS (RFC 7515), compact, ES384 alone ---- */
/* *token from malloc. x5c: `chain`, or NULL for none; typ may be NULL. */
SGPU_MUST_CHECK int sgpu_jws_sign(const struct sgpu_signer *signer, const struct sgpu_chain *chain, const char *typ,
				  const void *payload, size_t size, char **token, struct sgpu_error *error);
/* Whether the chain leads to one of the roots at that time (seconds since 1970), as RFC 5280 has it and strictly; the
 * system's roots are not asked. Leaf: P-384, no CA, key usage digitalSignature, no extended key usage but any. Errors:
 * SGPU_ECHAIN, SGPU_EEXPIRED. */
SGPU_MUST_CHECK int sgpu_chain_verify(const struct sgpu_chain *chain, const struct sgpu_chain *roots, int64_t now,
				      struct sgpu_error *error);

/* ---- the small CA ---- */
/* A self-signed certificate for a CA's key. PEM from malloc. */
SGPU_MUST_CHECK int sgpu_ca_create(const struct sgpu_signer *ca, const char *name, int64_t now, unsigned days,
				   char **pem, size_t *size, struct sgpu_error *error);
/* A request for an AK: a PKCS#10 request signed by the AK, inside a JWS signed by the EK. Text from malloc. */
SGPU_MUST_CHECK int sgpu_enroll_request(const struct sgpu_signer *ek, const struct sgpu_signer *ak, int64_t now,
					char **text, size_t *size, struct sgpu_error *error);
/* The CA's answer: a certificate for the AK if the request is signed by one of the EKs it knows (public PEM, several
 * one after another) and by the AK itself, and is at most `max_age` seconds old. Chain PEM (AK, then CA). Errors:
 * SGPU_EPOLICY (unknown EK), SGPU_ESIGNATURE, SGPU_EEXPIRED. */
SGPU_MUST_CHECK int sgpu_ca_certify(const struct sgpu_signer *ca, const struct sgpu_chain *ca_chain,
				    const char *known_eks, const char *request, size_t request_size, int64_t now,
				    unsigned days, unsigned max_age, char **pem, size_t *size,
				    struct sgpu_error *error);

/* ---- the platform ---- */
enum sgpu_platform_kind { SGPU_PLATFORM_PLAIN, SGPU_PLATFORM_GRAMINE_DIRECT, SGPU_PLATFORM_GRAMINE_SGX,
			  SGPU_PLATFORM_TDX, SGPU_PLATFORM_SNP };
struct sgpu_platform {
	enum sgpu_platform_kind kind;
	const char *seen;                /* what told */
	bool virtual_machine, reports, gpu; /* reports: configfs-tsm is there */
};
/* SGPU_PLATFORM_ROOT in the environment names another root of the files that are looked at, for tests. */
void sgpu_platform_detect(struct sgpu_platform *platform);
const char *sgpu_platform_name(enum sgpu_platform_kind kind); /* for people */
/* In quotes and policies: "plain", "gramine-direct", "sgx", "tdx", "snp". */
const char *sgpu_platform_word(enum sgpu_platform_kind kind);
/* A row of the table in docs/threat-model.md. */
struct sgpu_protection {
	const char *row, *enclave_memory, *device_memory, *bus;
	bool protects;                   /* the runner's memory from the host */
};
const struct sgpu_protection *sgpu_platform_protection(const struct sgpu_platform *platform, bool on_gpu,
						       const char *confidential, bool keys_agreed);

/* ---- the platform's own evidence: one file and one row each ---- */
struct sgpu_record {
	char label[32];                  /* "tsm-report", "gramine", "nv-gpu-evidence" */
	const char *type;                /* media type; static */
	char *value;                     /* bytes of that type, from malloc; NULL: absent */
	size_t size;
	char absent[256];                /* why it is absent */
};
enum { SGPU_RECORDS_MAX = 8 };
/* Collects what this machine can give for 64 bytes of report data. Never fails for what is merely absent.
 * SGPU_TSM_ROOT and SGPU_GRAMINE_ROOT in the environment name other trees, for tests. `device` may be NULL. Returns
 * how many records. */
int sgpu_evidence_collect(const uint8_t report_data[64], struct sgpu_device *device, struct sgpu_record *records);
void sgpu_records_clear(struct sgpu_record *records, int count);

/* What a verified TSM report says; the same for SNP and TDX as far as they have it. */
struct sgpu_tee_report {
	enum sgpu_platform_kind kind;
	uint8_t report_data[64];
	bool debug;
	bool migratable;                 /* the host may name another guest that can move this one, and so read it */
	bool sept_ve;                    /* TDX: taking a page away interrupts the guest (SEPT_VE_DISABLE is off) */
	uint8_t measurement[48];         /* SNP launch measurement, or TDX MRTD */
	uint8_t rtmr[4][48];             /* TDX */
	uint64_t tcb;                    /* SNP: reported TCB as it stands; TDX: first 8 bytes of the TEE TCB SVN */
	uint32_t version;
	uint32_t vmpl;                   /* SNP: of the software that asked for it, 0 to 3; 0 has all rights */
};
/* Extends a TDX run-time measurement register (0 to 3; the kernel lets 2 and 3 be extended alone) by 48 bytes.
 * SGPU_TDX_ROOT names another tree, for tests. Errors: SGPU_EUSAGE, SGPU_EUNAVAILABLE, SGPU_ESYSTEM, SGPU_EDEVICE. */
SGPU_MUST_CHECK int sgpu_rtmr_extend(unsigned index, const uint8_t digest[48], struct sgpu_error *error);

/* ---- owners: whose batches a runner takes ---- */
struct sgpu_owners {
	char **names;                    /* thumbprints (RFC 7638, SHA-256), sorted, each once */
	int count;
};
/* Reads a file of thumbprints, one on each line; "#" begins a comment. A file without thumbprints is refused. Messages do
 * not show the content of a wrong line. Errors: SGPU_EINVALID, SGPU_ESYSTEM, SGPU_EPOLICY (the file is another user's, or
 * others can write to it). */
SGPU_MUST_CHECK int sgpu_owners_load(const char *path, struct sgpu_owners *owners, struct sgpu_error *error);
void sgpu_owners_clear(struct sgpu_owners *owners);

/* ---- the quote ---- */
/* What a quote is about; all of it is borrowed. */
struct sgpu_quote_subject {
	const uint8_t *nonce;            /* the verifier's */
	size_t nonce_size;
	const struct sgpu_key *recipient;/* X25519 public: what batches are to be sealed to; NULL: none */
	bool recipient_ephemeral;        /* made by the process that quotes, and nowhere else */
	const uint8_t *owner_key;        /* 32 bytes: the owner's X25519 public key, or NULL */
	const struct sgpu_grant *grant;  /* of the channel made for it, or NULL */
	struct sgpu_device *device;
	const char *runner_path;         /* program that is measured; NULL: this process (/proc/self/exe) */
	bool preemption;                 /* other work of the GPU may run between ours */
	bool allows_modules;             /* of this process; a program that is only measured is said to */
	bool files;                      /* batches may name files of this machine; likewise */
	/* Thumbprints of the signing keys whose work the runner takes; owner_count 0: anybody's. In any order, each
	 * once. */
	const char *const *owners;
	int owner_count;
	/* What confines the process: names with a truth each, or with such an object each. NULL: nothing is claimed. */
	const json_t *confinement;
	const json_t *measurements;      /* array of {label, va, size, digest}, sizes in bytes, or NULL */
};
/* The claims alone: a new object. */
SGPU_MUST_CHECK int sgpu_quote_claims(const struct sgpu_quote_subject *subject, int64_t now, json_t **claims,
				      struct sgpu_error *error);
/* Claims, native records and signature: one line of JSON, from malloc. The records' report data is SHA-512 of
 * "sgpu quote v1" || 0 || SHA-256 of the AK's SubjectPublicKeyInfo || SHA-512 of all claims but `records` and `absent`
 * in canonical JSON, so that the hardware vouches for each claim, and not for the AK alone; and the claims name each
 * record by its SHA-512. */
SGPU_MUST_CHECK int sgpu_quote_create(const struct sgpu_quote_subject *subject, const struct sgpu_signer *ak,
				      const struct sgpu_chain *ak_chain, int64_t now, char **quote, size_t *size,
				      struct sgpu_error *error);

/* A quote's parts, well formed and not verified: the claims, a new reference, and the native records, those that are
 * absent with the reason that the claims give. Clear the records with sgpu_records_clear. For showing a quote, never
 * for trusting it. */
SGPU_MUST_CHECK int sgpu_quote_parse(const char *quote, size_t size, json_t **claims,
				     struct sgpu_record records[SGPU_RECORDS_MAX], int *count,
				     struct sgpu_error *error);

struct sgpu_quote_checks {
	const struct sgpu_chain *roots;  /* of the AK's chain */
	const uint8_t *nonce;            /* expected, or NULL: not compared, and the result says so */
	size_t nonce_size;
	const uint8_t *owner_key;        /* expected, or NULL: not compared */
	/* Of TSM reports; NULL: those are not verified, and said so. */
	const struct sgpu_chain *tee_certificates, *tee_roots;
	int64_t now, max_age;            /* seconds; max_age 0: one hour */
};
/* What verification found, each part by itself. */
struct sgpu_quote_result {
	bool verified;                   /* all that was asked for; without it nothing is appraised */
	json_t *claims;                  /* new reference: what was signed; NULL when the signature does not verify */
	bool nonce_checked;
	struct sgpu_tee_report tee;      /* kind PLAIN: none was verified */
	bool tee_verified;
	bool tee_present, gpu_evidence_present;
	int64_t certificate_age;         /* seconds since the AK's certificate became valid */
};
/* Verifies; judges nothing of what the claims say. Clear the result also after an error. SGX quotes and GPU evidence are
 * bound to the quote, but their own signatures are not verified. Errors: SGPU_EINVALID (malformed, with what and where),
 * SGPU_ESIGNATURE, SGPU_ECHAIN, SGPU_EEXPIRED, SGPU_ENONCE, SGPU_EBINDING. */
SGPU_MUST_CHECK int sgpu_quote_verify(const char *quote, size_t size, const struct sgpu_quote_checks *checks,
				      struct sgpu_quote_result *result, struct sgpu_error *error);
void sgpu_quote_result_clear(struct sgpu_quote_result *result);
/* From verified claims: the recipient's public key; the grant of the channel. Errors: SGPU_EINVALID when there is
 * none. */
SGPU_MUST_CHECK int sgpu_quote_recipient(const json_t *claims, struct sgpu_key *key, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_quote_grant(const json_t *claims, struct sgpu_grant *grant, struct sgpu_error *error);

/* ---- appraisal ---- */
struct sgpu_policy; /* sgpu-policy(5) */
/* `name` is for errors. Errors: SGPU_EINVALID, with the member. */
SGPU_MUST_CHECK int sgpu_policy_parse(const char *text, size_t size, const char *name, struct sgpu_policy **policy,
				      struct sgpu_error *error);
void sgpu_policy_free(struct sgpu_policy **policy);
/* A policy that accepts just this quote's digests, versions, owners and platform. The claims may be a part of some, and
 * unverified: what they do not have the policy does not name. What a report of the hardware says is not in claims, so
 * that for such a platform its measurements are to be added. Text from malloc. */
SGPU_MUST_CHECK int sgpu_policy_from_claims(const json_t *claims, char **text, size_t *size,
					    struct sgpu_error *error);

struct sgpu_appraisal {
	bool accepted;
	json_t *reasons;                 /* all that is not as wanted: array of {"claim", "expected", "got", "text"} */
	json_t *ear;                     /* the result as claims (draft-ietf-rats-ear) */
};
/* Of the result of a verification that returned 0: SGPU_EUSAGE for any other, whose claims are only there to be shown. Returns
 * 0 whether it is accepted or not; clear the appraisal in any case. */
SGPU_MUST_CHECK int sgpu_appraise(const struct sgpu_policy *policy, const struct sgpu_quote_result *result,
				  int64_t now, struct sgpu_appraisal *appraisal, struct sgpu_error *error);
void sgpu_appraisal_clear(struct sgpu_appraisal *appraisal);

/* ---- digests of code ---- */
/* KT128 with SGPU_MEASURE_CUSTOM of a regular file, or of this process's own program. */
SGPU_MUST_CHECK int sgpu_measure_file(const char *path, uint8_t digest[SGPU_CHANNEL_DIGEST_SIZE], uint64_t *size,
				      struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_measure_self(uint8_t digest[SGPU_CHANNEL_DIGEST_SIZE], struct sgpu_error *error);

#ifdef __cplusplus
}
#endif
#endif
