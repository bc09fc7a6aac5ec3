/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects this machine's evidence. Nothing is judged; a missing record is listed with the reason.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "base/json.h"
#include "device/device.h"
#include "attest/quote.h"
#include "host/host.h"
#include "attest/internal.h"
#include "crypto/internal.h"

enum { BLOB_MAX = 1 << 16, LINE_MAX_SIZE = 64 };

/* ---- files, and records as JSON text ---- */
static int path_of(const char *root, const char *name, char path[PATH_MAX],
		   struct sgpu_error *error)
{
	return snprintf(path, PATH_MAX, "%s/%s", root, name) < PATH_MAX
		       ? SGPU_OK
		       : sgpu_fail(error, SGPU_EUSAGE, "path '%s' is too long", root);
}

static bool has(const char *root, const char *name)
{
	char path[PATH_MAX];

	return path_of(root, name, path, NULL) == SGPU_OK && access(path, F_OK) == 0;
}

static int read_text(const char *root, const char *name, size_t limit, char **data, size_t *size,
		     struct sgpu_error *error)
{
	char path[PATH_MAX];
	int rc = path_of(root, name, path, error);

	*data = NULL;
	return rc < 0 ? rc : sgpu_read_file(path, NULL, limit, data, size, error);
}

static int write_data(const char *root, const char *name, const uint8_t report_data[64],
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
	rc = sgpu_write(fd, path, report_data, 64, error);
	return close(fd) && !rc ? sgpu_fail_errno(error, "cannot write '%s'", path) : rc;
}

/* ---- under Gramine: /dev/attestation, files of its library OS. The quote covers the last data
 * written to user_report_data, and is made when it is read ---- */

/* Reads the type of attestation, such as "dcap"; refuses "none", without SGX. The caller always
 * frees *word. */
static int read_type(const char *root, char **word, struct sgpu_error *error)
{
	size_t size = 0;
	int rc = read_text(root, "attestation_type", LINE_MAX_SIZE, word, &size, error);

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
	const char *root = sgpu_host_root(SGPU_USUAL_GRAMINE);
	char *word = NULL, *quote = NULL;
	size_t quote_size = 0;
	int rc = read_type(root, &word, error);

	(void)device;
	rc = rc ? rc : write_data(root, "user_report_data", report_data, error);
	rc = rc ? rc : read_text(root, "quote", BLOB_MAX, &quote, &quote_size, error);
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

/* ---- the kernel's reports of TDX and SEV-SNP guests
 * (Documentation/ABI/testing/configfs-tsm-report). A directory made under the root becomes a report
 * over the data in its inblob. close() does not say whether the kernel took these, so its counter
 * of writes is compared before and after, which also shows writes by others ---- */
/* Reads how many writes the kernel has accepted. */
static int read_generation(const char *report, uint64_t *generation, struct sgpu_error *error)
{
	char *text = NULL;
	size_t size = 0;
	int rc = read_text(report, "generation", LINE_MAX_SIZE, &text, &size, error);

	if (!rc) {
		text[strcspn(text, "\n")] = '\0';
		rc = sgpu_parse_u64(text, "the report's generation", 0, UINT64_MAX - 1, generation,
				    error);
	}
	free(text);
	return rc;
}

static int make_directory(const char *root, char directory[PATH_MAX], struct sgpu_error *error)
{
	uint64_t random = 0;
	int rc = sgpu_random(&random, sizeof(random), error);

	if (rc) {
		return rc;
	}
	if (snprintf(directory, PATH_MAX, "%s/sgpu.%016" PRIx64, root, random) >= PATH_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "path '%s' is too long", root);
	}
	if (!mkdir(directory, 0700)) {
		return SGPU_OK;
	}
	return errno == ENXIO ? sgpu_fail(error, SGPU_EUNAVAILABLE,
					  "no driver gives reports in '%s': this is no TDX or "
					  "SEV-SNP guest, or its driver is not loaded",
					  root)
	       : errno == EBUSY
		       ? sgpu_fail(error, SGPU_EUNAVAILABLE, "the driver of '%s' is busy", root)
		       : sgpu_fail_errno(error, "cannot make a report in '%s'", root);
}

static int check_generation(const char *report, uint64_t expected, const char *when,
			    struct sgpu_error *error)
{
	uint64_t generation = 0;
	int rc = read_generation(report, &generation, error);

	if (rc || generation == expected) {
		return rc;
	}
	return sgpu_fail(
		error, SGPU_EDEVICE,
		generation < expected
			? "the driver did not take the report's data: its generation is %llu %s, "
			  "not %llu"
			: "something else wrote to our report: its generation is %llu %s, not %llu",
		(unsigned long long)generation, when, (unsigned long long)expected);
}

/* Makes a Veraison tsm-report of "auxblob", "outblob" and "provider". TDX has no auxblob: its
 * certificates are in the quote. */
static int read_blobs(const char *report, json_t **document, struct sgpu_error *error)
{
	char *out = NULL, *aux = NULL, *provider = NULL;
	size_t out_size = 0, aux_size = 0, provider_size = 0;
	struct sgpu_error fault = { 0 };
	int rc = read_text(report, "outblob", BLOB_MAX, &out, &out_size, &fault);

	if (rc) {
		rc = sgpu_fail(error, rc == SGPU_ESYSTEM ? SGPU_EDEVICE : rc,
			       "the driver took the data and then gave no report: %s", fault.text);
	} else if (!out_size) {
		rc = sgpu_fail(error, SGPU_EDEVICE, "the driver gave an empty report");
	} else if (has(report, "auxblob")) {
		rc = read_text(report, "auxblob", BLOB_MAX, &aux, &aux_size, error);
	}
	rc = rc ? rc
		: read_text(report, "provider", LINE_MAX_SIZE, &provider, &provider_size, error);
	if (!rc) {
		*document = json_pack("{s:o, s:o, s:s%}", "auxblob",
				      sgpu_json_from_bytes(aux, aux_size), "outblob",
				      sgpu_json_from_bytes(out, out_size), "provider", provider,
				      provider_size);
		rc = *document ? 0
			       : sgpu_fail(error, SGPU_EDEVICE, "the report's provider is no text");
	}
	free(out);
	free(aux);
	free(provider);
	return rc;
}

static int make_report(const char *report, const uint8_t report_data[64], json_t **document,
		       struct sgpu_error *error)
{
	uint64_t before = 0;
	int rc = read_generation(report, &before, error);

	rc = rc ? rc : write_data(report, "inblob", report_data, error);
	rc = rc ? rc : check_generation(report, before + 1, "after writing", error);
	rc = rc ? rc : read_blobs(report, document, error);
	return rc ? rc : check_generation(report, before + 1, "after reading", error);
}

static int collect_tsm(const uint8_t report_data[64], struct sgpu_device *device, json_t **document,
		       struct sgpu_error *error)
{
	char directory[PATH_MAX];
	int rc = make_directory(sgpu_host_root(SGPU_USUAL_TSM), directory, error);

	(void)device;
	if (!rc) {
		rc = make_report(directory, report_data, document, error);
		/* After a failure, the directory keeps the driver loaded; no more can be done. */
		(void)rmdir(directory);
	}
	return rc;
}

/* ---- the GPU's own evidence: an SPDM report that the GPU signs, with its certificates. Its nonce
 * is derived as by other collectors ---- */
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

/* Makes an array of one object per GPU, as Veraison's nvidia-gpu-evidence has it. */
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
	{ "tsm-report", SGPU_TYPE_TSM, collect_tsm },
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
