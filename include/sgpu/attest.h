/* SPDX-License-Identifier: Apache-2.0
 *
 * Evidence, in three separate steps: collect (RFC 9334's Attester), verify (signature, chain, time,
 * nonce, binding), appraise (by a policy).
 *
 * A quote is a CMW collection in JSON (RFC 9999): our claims as an EAT (RFC 9711), a JWT signed
 * with ES384 whose x5c header holds the certificates, and the platform's native records.
 * sgpu-quote(5) describes every field, and docs/threat-model.md what each part proves. Times are
 * seconds since 1970. The caller keeps ownership of all arguments. */
#ifndef SGPU_ATTEST_H
#define SGPU_ATTEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <sgpu/keys.h>
#include <sgpu/device.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SGPU_EAT_PROFILE "tag:sgpu.dev,2026:measure#2"
#define SGPU_CMW_PROFILE "tag:sgpu.dev,2026:evidence#1"
#define SGPU_TYPE_EAT "application/eat+jwt; eat_profile=\"" SGPU_EAT_PROFILE "\""
#define SGPU_TYPE_TSM "application/vnd.veraison.tsm-report+json"
#define SGPU_TYPE_NVIDIA "application/vnd.veraison.nvidia-gpu-evidence+json"
#define SGPU_TYPE_GRAMINE "application/vnd.sgpu.gramine-quote+json"

enum {
	SGPU_ES384_SIZE = 96, /* bytes of a signature: r || s on P-384 */
	SGPU_NONCE_MIN = 8,
	SGPU_NONCE_MAX = 64,	      /* bytes of a verifier's nonce */
	SGPU_QUOTE_MAX = 1 << 20,     /* bytes of a quote; longer ones are refused */
	SGPU_CHAIN_MAX = 8,	      /* certificates in a chain */
	SGPU_QUOTE_OWNERS_MAX = 1024, /* owners that a quote can name */
};

/* ---- P-384 keys and certificates ---- */
/* Key files are PEM: PKCS#8, or "TSS2 PRIVATE KEY" for a key in a TPM 2.0 (OpenSSL's tpm2
 * provider). */
struct sgpu_signer; /* a private key */
/* Makes a key, in a TPM if `tpm` is set. Errors: SGPU_EUNAVAILABLE without the provider or a TPM,
 * with a hint. */
SGPU_MUST_CHECK int sgpu_signer_generate(bool tpm, struct sgpu_signer **signer,
					 struct sgpu_error *error);
/* Reads a key; path as in sgpu_key_load. Errors: SGPU_EPOLICY (others can read the file),
 * SGPU_EINVALID (another kind of key), SGPU_ESYSTEM, SGPU_EUNAVAILABLE (no provider for a TPM). */
SGPU_MUST_CHECK int sgpu_signer_load(const char *path, struct sgpu_signer **signer,
				     struct sgpu_error *error);
void sgpu_signer_free(struct sgpu_signer **signer);
bool sgpu_signer_in_tpm(const struct sgpu_signer *signer);
/* Writes the private key as PEM, from malloc; free it with sgpu_free_wiped. */
SGPU_MUST_CHECK int sgpu_signer_private_pem(const struct sgpu_signer *signer, char **pem,
					    size_t *size, struct sgpu_error *error);
/* Computes the SHA-256 of the key's DER SubjectPublicKeyInfo, which names the key. */
SGPU_MUST_CHECK int sgpu_signer_fingerprint(const struct sgpu_signer *signer,
					    uint8_t hash[SGPU_SHA256_SIZE],
					    struct sgpu_error *error);

/* Certificates, leaf first: at most SGPU_CHAIN_MAX of a file, and as many that came with a report.
 */
struct sgpu_chain {
	int count;
	struct x509_st *list[2 * SGPU_CHAIN_MAX]; /* X509 of libcrypto */
};
/* Read PEM from a file or from memory; `name` is for messages. The caller clears the chain. Errors:
 * SGPU_EINVALID, SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_chain_load(const char *path, struct sgpu_chain *chain,
				    struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_chain_parse(const char *pem, size_t size, const char *name,
				     struct sgpu_chain *chain, struct sgpu_error *error);
void sgpu_chain_clear(struct sgpu_chain *chain);

/* ---- certificates: an authority, endorsement keys (EKs), their attestation keys (AKs) ---- */
/* Makes a self-signed certificate, of path length 1, for an authority's key. PEM from malloc. */
SGPU_MUST_CHECK int sgpu_ca_create(const struct sgpu_signer *ca, const char *name, int64_t now,
				   unsigned days, char **pem, size_t *size,
				   struct sgpu_error *error);
/* Makes a request for a certificate (PKCS#10), signed by its key. PEM from malloc. */
SGPU_MUST_CHECK int sgpu_request_create(const struct sgpu_signer *signer, char **pem, size_t *size,
					struct sgpu_error *error);
/* Certifies the key that signed a request: as an AK if the issuer's certificate has a path length
 * of 0, as an EK's has, else as an EK. The certificate lasts `days` days (0: at most 30), never
 * longer than the issuer's. *pem: the certificate, then the issuer's chain, from malloc. Errors:
 * SGPU_EINVALID (malformed), SGPU_ESIGNATURE, SGPU_EKEY (the issuer's certificate is another
 * key's), SGPU_EEXPIRED, SGPU_EUSAGE (too many days). */
SGPU_MUST_CHECK int sgpu_ca_certify(const struct sgpu_signer *ca, const struct sgpu_chain *ca_chain,
				    const char *request, size_t request_size, int64_t now,
				    unsigned days, char **pem, size_t *size,
				    struct sgpu_error *error);

/* ---- the platform ---- */
enum sgpu_platform_kind {
	SGPU_PLATFORM_PLAIN,
	SGPU_PLATFORM_GRAMINE_DIRECT,
	SGPU_PLATFORM_GRAMINE_SGX,
	SGPU_PLATFORM_TDX,
	SGPU_PLATFORM_SNP
};
struct sgpu_platform {
	enum sgpu_platform_kind kind;
	const char *seen;		    /* how the platform was recognised */
	bool virtual_machine, reports, gpu; /* reports: configfs-tsm exists */
};
void sgpu_platform_detect(struct sgpu_platform *platform);
const char *sgpu_platform_name(enum sgpu_platform_kind kind); /* for people */
/* The word in quotes and policies: "plain", "gramine-direct", "sgx", "tdx", "snp". */
const char *sgpu_platform_word(enum sgpu_platform_kind kind);
/* A row of the table in docs/threat-model.md. */
struct sgpu_protection {
	const char *row, *enclave_memory, *device_memory, *bus;
	bool protects; /* the host cannot read the runner's memory */
};
const struct sgpu_protection *sgpu_platform_protection(const struct sgpu_platform *platform,
						       bool on_gpu, const char *confidential,
						       bool keys_agreed);

/* ---- the platform's own evidence ---- */
struct sgpu_record {
	const char *label,
		*type; /* static: "tsm-report", "gramine", "nv-gpu-evidence"; media type */
	char *value;   /* bytes of that type, from malloc; NULL: absent */
	size_t size;
	char absent[256]; /* why it is absent */
};
enum { SGPU_RECORDS_MAX = 8 }; /* an array of records ends before the first without a label */
void sgpu_records_clear(struct sgpu_record records[SGPU_RECORDS_MAX]);

/* The content of a verified TSM report of SNP or TDX. */
struct sgpu_tee_report {
	enum sgpu_platform_kind kind;
	uint8_t report_data[64];
	bool debug;
	bool migratable; /* a migration agent, which the host chooses, can read the guest */
	bool sept_ve;	 /* TDX: removing a page interrupts the guest (SEPT_VE_DISABLE is off) */
	uint8_t measurement[48]; /* SNP launch measurement, or TDX MRTD */
	uint8_t rtmr[4][48];	 /* TDX */
	uint64_t tcb;		 /* SNP: reported TCB; TDX: first 8 bytes of the TEE TCB SVN */
	uint32_t version;
	uint32_t vmpl; /* SNP: privilege level of the report's requester, 0 (all rights) to 3 */
};
/* ---- the owners whose batches a runner takes ---- */
struct sgpu_owners {
	char **names; /* thumbprints (RFC 7638, SHA-256), sorted, each once */
	int count;
};
/* Reads a file of thumbprints, one on each line; "#" begins a comment. A file without thumbprints
 * is refused. Messages do not show the content of a wrong line. Errors: SGPU_EINVALID,
 * SGPU_ESYSTEM, SGPU_EPOLICY (the file is another user's, or others can write to it). */
SGPU_MUST_CHECK int sgpu_owners_load(const char *path, struct sgpu_owners *owners,
				     struct sgpu_error *error);
void sgpu_owners_clear(struct sgpu_owners *owners);

/* ---- the quote ---- */
/* The subject of a quote; everything is borrowed. */
struct sgpu_quote_subject {
	const uint8_t *nonce; /* the verifier's */
	size_t nonce_size;
	const struct sgpu_key *recipient; /* X25519 public key to seal batches to; NULL: none */
	bool recipient_ephemeral; /* this process made that key, which exists nowhere else */
	const uint8_t *owner_key; /* 32 bytes: the owner's X25519 public key, or NULL */
	struct sgpu_device *device;
	const char *runner_path; /* program to measure; NULL: this process (/proc/self/exe) */
	bool preemption;	 /* the GPU may run other work in between */
	bool allows_modules;	 /* batches may bring code; always claimed with runner_path */
	bool files;		 /* batches may name files here; likewise */
	const char *sessions;	 /* whose are taken: "none" (or NULL), "owners", "any"; likewise */
	/* Thumbprints of the signing keys whose batches the runner takes, sorted, each once;
	 * owner_count 0: anybody's batches. */
	const char *const *owners;
	int owner_count;
	/* How the process is confined: an object whose members are booleans, or objects of
	 * booleans. NULL: no claim. */
	const json_t *confinement;
};
/* Returns "disabled" if no process of this user can debug this one, else "enabled". Static. */
const char *sgpu_debug_status(void);
/* Makes only the claims, as a new object. */
SGPU_MUST_CHECK int sgpu_quote_claims(const struct sgpu_quote_subject *subject, int64_t now,
				      json_t **claims, struct sgpu_error *error);
/* Makes a quote of claims, native records and signature: one line of JSON, from malloc. The
 * records' report data is the SHA-512 of "sgpu quote v1" || 0 || SHA-256 of the AK's
 * SubjectPublicKeyInfo || SHA-512 of all claims except `records` and `absent` in canonical JSON.
 * The hardware thus vouches for each claim, not only for the AK. The claims name each record by its
 * SHA-512. */
SGPU_MUST_CHECK int sgpu_quote_create(const struct sgpu_quote_subject *subject,
				      const struct sgpu_signer *ak,
				      const struct sgpu_chain *ak_chain, int64_t now, char **quote,
				      size_t *size, struct sgpu_error *error);

/* Checks that the chain certifies the key, so that others can verify its signatures. Errors:
 * SGPU_EKEY (the certificate is another key's), SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_quote_check_key(const struct sgpu_signer *ak,
					 const struct sgpu_chain *ak_chain,
					 struct sgpu_error *error);
/* What a renewed quote states anew; it takes all else from earlier claims. */
struct sgpu_quote_renewal {
	const uint8_t *nonce; /* the verifier's */
	size_t nonce_size;
	bool debugged; /* the process that made the claims can be debugged by now */
};
/* Makes a quote, for a new nonce and time, of claims that sgpu_quote_claims made, perhaps in
 * another process; only this process needs the attestation key. Evidence that only a device's
 * driver can collect, such as a GPU's, is absent. */
SGPU_MUST_CHECK int sgpu_quote_renew(const json_t *claims, const struct sgpu_quote_renewal *renewal,
				     const struct sgpu_signer *ak,
				     const struct sgpu_chain *ak_chain, int64_t now, char **quote,
				     size_t *size, struct sgpu_error *error);

/* Takes a quote apart without verifying it, only to show it. *claims: a new reference. records:
 * those in the quote, then those that the claims name as absent; clear them with
 * sgpu_records_clear. ak: 32 bytes for the AK's fingerprint. Both may be NULL. */
SGPU_MUST_CHECK int sgpu_quote_parse(const char *quote, size_t size, json_t **claims,
				     struct sgpu_record *records, uint8_t *ak,
				     struct sgpu_error *error);
/* Gives the certificate at the end of a quote's chain, without verifying anything: *pem from
 * malloc, and the SHA-256 of its DER. */
SGPU_MUST_CHECK int sgpu_quote_authority(const char *quote, size_t size, char **pem,
					 uint8_t digest[SGPU_SHA256_SIZE],
					 struct sgpu_error *error);

struct sgpu_quote_checks {
	const struct sgpu_chain *roots; /* trusted, for the AK's chain */
	const uint8_t *nonce; /* expected, or NULL: not compared, and the result says so */
	size_t nonce_size;
	const uint8_t *owner_key; /* expected, or NULL: not compared */
	/* For TSM reports. tee_roots NULL: these are not verified, and the result says so. */
	const struct sgpu_chain *tee_certificates, *tee_roots;
	int64_t now, max_age; /* seconds; max_age 0: one hour */
};
/* The result of verification, part by part. */
struct sgpu_quote_result {
	bool verified;	/* all checks passed; only then can the quote be appraised */
	json_t *claims; /* new reference: what was signed; NULL if the signature is wrong */
	uint8_t ak[SGPU_SHA256_SIZE]; /* the fingerprint of the key that signed them */
	bool nonce_checked;
	struct sgpu_tee_report tee; /* kind PLAIN: none was verified */
	bool tee_verified;
	bool tee_present, gpu_evidence_present;
	int64_t certificate_age; /* seconds since the AK's certificate became valid */
};
/* Verifies a quote; does not judge its claims. Clear the result also after an error. SGX quotes and
 * GPU evidence are bound to the quote, but their own signatures are not verified. Errors:
 * SGPU_EINVALID (malformed, with the place), SGPU_ESIGNATURE, SGPU_ECHAIN, SGPU_EEXPIRED,
 * SGPU_ENONCE, SGPU_EBINDING. */
SGPU_MUST_CHECK int sgpu_quote_verify(const char *quote, size_t size,
				      const struct sgpu_quote_checks *checks,
				      struct sgpu_quote_result *result, struct sgpu_error *error);
void sgpu_quote_result_clear(struct sgpu_quote_result *result);
/* Gives the recipient's public key from verified claims. Errors: SGPU_EINVALID if there is none. */
SGPU_MUST_CHECK int sgpu_quote_recipient(const json_t *claims, struct sgpu_key *key,
					 struct sgpu_error *error);

/* ---- appraisal ---- */
/* Parses a policy, sgpu-policy(5), as a new object with a further member "id": a URI with the hash
 * of its text. `name` is for messages. Errors: SGPU_EINVALID, which names the member. */
SGPU_MUST_CHECK int sgpu_policy_parse(const char *text, size_t size, const char *name,
				      json_t **policy, struct sgpu_error *error);
/* Makes a policy, as a new object, that accepts these digests and owners, and at least these
 * versions and this platform. The claims may be unverified. The measurements in a hardware report
 * are not claims: the caller adds them. Errors: SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_policy_from_claims(const json_t *claims, json_t **policy,
					    struct sgpu_error *error);

struct sgpu_appraisal {
	bool accepted;
	json_t *reasons; /* all differences: array of {"claim", "expected", "got", "text"} */
	json_t *ear;	 /* the result as claims (draft-ietf-rats-ear) */
};
/* Appraises the result of a verification that returned 0; any other result is SGPU_EUSAGE. Returns
 * 0 whether the quote is accepted or not. Clear the appraisal in any case. */
SGPU_MUST_CHECK int sgpu_appraise(const json_t *policy, const struct sgpu_quote_result *result,
				  int64_t now, struct sgpu_appraisal *appraisal,
				  struct sgpu_error *error);
void sgpu_appraisal_clear(struct sgpu_appraisal *appraisal);

/* ---- digests of code ---- */
/* Computes the KT128, with SGPU_MEASURE_CUSTOM, of a regular file. "/proc/self/exe" is the running
 * program, even if another file has its name by now. */
SGPU_MUST_CHECK int sgpu_measure_file(const char *path, uint8_t digest[SGPU_KT128_SIZE],
				      uint64_t *size, struct sgpu_error *error);

#ifdef __cplusplus
}
#endif
#endif
