/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects the evidence of this machine. Here are the table of all kinds of records, and the
 * collectors for Gramine and for GPUs. Nothing is judged; a missing record is listed with the
 * reason.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/evp.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "base/json.h"
#include "device/device.h"
#include "attest/collect/evidence.h"
#include "attest/internal.h"
#include "crypto/internal.h"

/* ---- files of the kernel's interfaces, and records as JSON text ---- */
static int path_of(const char *root, const char *name, char path[PATH_MAX],
		   struct sgpu_error *error)
{
	return snprintf(path, PATH_MAX, "%s/%s", root, name) < PATH_MAX
		       ? SGPU_OK
		       : sgpu_fail(error, SGPU_EUSAGE, "path '%s' is too long", root);
}

bool sgpu_evidence_has(const char *root, const char *name)
{
	char path[PATH_MAX];

	return path_of(root, name, path, NULL) == SGPU_OK && access(path, F_OK) == 0;
}

int sgpu_evidence_read(const char *root, const char *name, size_t limit, char **data, size_t *size,
		       struct sgpu_error *error)
{
	char path[PATH_MAX];
	int rc = path_of(root, name, path, error);

	*data = NULL;
	return rc < 0 ? rc : sgpu_read_file(path, limit, data, size, error);
}

int sgpu_evidence_write(const char *root, const char *name, const uint8_t *data, size_t size,
			struct sgpu_error *error)
{
	char path[PATH_MAX];
	int fd, rc = path_of(root, name, path, error);

	if (rc < 0) {
		return rc;
	}
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0) {
		return sgpu_fail_errno(error, "cannot open '%s'", path);
	}
	rc = sgpu_write(fd, path, data, size, error);
	if (close(fd) && !rc) {
		rc = errno == EBUSY ? sgpu_fail(error, SGPU_EUNAVAILABLE,
						"the driver of '%s' is busy", root)
				    : sgpu_fail_errno(error, "cannot write '%s'", path);
	}
	return rc;
}

/* ---- under Gramine: /dev/attestation, virtual files of its library OS. The quote covers the last
 * data written to user_report_data, and is made when it is read ---- */
enum { QUOTE_MAX = 1 << 16, WORD_MAX = 64 };

/* Reads the type of attestation, such as "dcap"; "none", without SGX, is refused. The caller frees
 * *word in any case. */
static int read_type(const char *root, char **word, struct sgpu_error *error)
{
	size_t size = 0;

	if (!sgpu_evidence_has(root, "attestation_type")) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "this process does not run under Gramine: there is no "
				 "'%s/attestation_type'",
				 root);
	}
	int rc = sgpu_evidence_read(root, "attestation_type", WORD_MAX, word, &size, error);
	if (!rc) {
		(*word)[strcspn(*word, "\n")] = '\0';
		if (!strcmp(*word, "none")) {
			rc = sgpu_fail(error, SGPU_EUNAVAILABLE,
				       "Gramine runs without SGX, or without remote "
				       "attestation");
		}
	}
	return rc;
}

static int collect_gramine(const uint8_t report_data[64], struct sgpu_device *device,
			   json_t **document, struct sgpu_error *error)
{
	const char *root = sgpu_evidence_root(SGPU_USUAL_GRAMINE);
	char *word = NULL, *quote = NULL;
	size_t quote_size = 0;
	int rc = read_type(root, &word, error);

	(void)device;
	rc = rc ? rc : sgpu_evidence_write(root, "user_report_data", report_data, 64, error);
	rc = rc ? rc : sgpu_evidence_read(root, "quote", QUOTE_MAX, &quote, &quote_size, error);
	if (!rc && !quote_size) {
		rc = sgpu_fail(error, SGPU_EDEVICE, "Gramine gave an empty quote");
	}
	if (!rc) {
		*document = json_pack("{s:s, s:o}", "attestation_type", word, "quote",
				      sgpu_json_from_bytes(quote, quote_size));
	}
	free(quote);
	free(word);
	return rc;
}

/* ---- the GPU's own evidence: an SPDM report that the GPU signs, with its certificates. Its nonce
 * of 32 bytes is derived from the 64 of the report data by SHAKE256, as other collectors do ---- */
int sgpu_gpu_nonce(const uint8_t report_data[64], uint8_t nonce[SGPU_GPU_NONCE_SIZE],
		   struct sgpu_error *error)
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	int done = context && EVP_DigestInit_ex(context, EVP_shake256(), NULL) == 1 &&
		   EVP_DigestUpdate(context, report_data, 64) == 1 &&
		   EVP_DigestFinalXOF(context, nonce, SGPU_GPU_NONCE_SIZE) == 1;

	EVP_MD_CTX_free(context);
	return done ? SGPU_OK : sgpu_crypto_fail(error, "SHAKE256");
}

/* Makes an array with one object per GPU, in the form of Veraison's nvidia-gpu-evidence. */
static json_t *gpu_json(const struct sgpu_device_evidence *evidence,
			const uint8_t nonce[SGPU_GPU_NONCE_SIZE])
{
	char hex[2 * SGPU_GPU_NONCE_SIZE + 1];

	sgpu_hex_encode(nonce, SGPU_GPU_NONCE_SIZE, hex);
	return json_pack("[{s:s, s:o, s:o, s:s}]", "arch", evidence->architecture, "certificate",
			 sgpu_base64_json(evidence->chain, evidence->chain_size), "evidence",
			 sgpu_base64_json(evidence->report, evidence->report_size), "nonce", hex);
}

static int collect_gpu(const uint8_t report_data[64], struct sgpu_device *device, json_t **document,
		       struct sgpu_error *error)
{
	struct sgpu_device_evidence evidence = { 0 };
	uint8_t nonce[SGPU_GPU_NONCE_SIZE];

	if (!device) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "no device was asked");
	}
	int rc = sgpu_gpu_nonce(report_data, nonce, error);
	rc = rc ? rc : sgpu_device_get_evidence(device, nonce, &evidence, error);
	*document = rc ? NULL : gpu_json(&evidence, nonce);
	sgpu_device_evidence_clear(&evidence);
	return rc;
}

const struct sgpu_evidence_source sgpu_evidence_sources[SGPU_EVIDENCE_SOURCES] = {
	{ "tsm-report", SGPU_TYPE_TSM, sgpu_evidence_tsm },
	{ "gramine", SGPU_TYPE_GRAMINE, collect_gramine },
	{ "nv-gpu-evidence", SGPU_TYPE_NVIDIA, collect_gpu },
};

void sgpu_evidence_collect(const uint8_t data[64], struct sgpu_device *device,
			   struct sgpu_record *records)
{
	memset(records, 0, SGPU_RECORDS_MAX * sizeof(*records));
	for (int i = 0; i < SGPU_EVIDENCE_SOURCES; i++) {
		const struct sgpu_evidence_source *source = &sgpu_evidence_sources[i];
		struct sgpu_record *record = &records[i];
		struct sgpu_error error = { 0 };
		json_t *document = NULL;

		record->label = source->label;
		record->type = source->type;
		int rc = source->collect(data, device, &document, &error);
		if (!rc) {
			rc = document ? sgpu_json_canonical(document, &record->value, &record->size,
							    &error)
				      : sgpu_fail_nomem(&error);
		}
		json_decref(document);
		if (rc) {
			snprintf(record->absent, sizeof(record->absent), "%.255s", error.text);
		}
	}
}

void sgpu_records_clear(struct sgpu_record records[SGPU_RECORDS_MAX])
{
	for (int i = 0; i < SGPU_RECORDS_MAX; i++) {
		free(records[i].value);
		records[i] = (struct sgpu_record){ .label = NULL };
	}
}
