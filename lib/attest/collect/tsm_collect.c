/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel's reports of TDX and SEV-SNP guests (Documentation/ABI/testing/configfs-tsm-report).
 * A directory that is made under the root becomes a report over the data in its inblob. close()
 * does not say whether the kernel took these, so its counter of writes is compared before and
 * after, which would also show writes by others.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/json.h"
#include "crypto/crypto.h"
#include "attest/collect/evidence.h"

enum { BLOB_MAX = 1 << 16, LINE_MAX_SIZE = 64 };

/* Reads how many writes the kernel has accepted. */
static int read_generation(const char *report, uint64_t *generation, struct sgpu_error *error)
{
	char *text = NULL;
	size_t size = 0;
	int rc = sgpu_evidence_read(report, "generation", LINE_MAX_SIZE, &text, &size, error);

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
	struct stat status;
	uint64_t random = 0;
	int rc = sgpu_random(&random, sizeof(random), error);

	if (rc) {
		return rc;
	}
	if (stat(root, &status) || !S_ISDIR(status.st_mode)) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "this kernel gives no reports: there is no '%s'", root);
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

/* Reads "auxblob", "outblob" and "provider" into the form of Veraison's tsm-report. TDX has no
 * auxblob: its certificates are in the quote. */
static int read_blobs(const char *report, json_t **document, struct sgpu_error *error)
{
	const char *folder = report;
	char *out = NULL, *aux = NULL, *provider = NULL;
	size_t out_size = 0, aux_size = 0, provider_size = 0;
	struct sgpu_error fault = { 0 };
	int rc = sgpu_evidence_read(folder, "outblob", BLOB_MAX, &out, &out_size, &fault);

	if (rc) {
		rc = sgpu_fail(error, rc == SGPU_ESYSTEM ? SGPU_EDEVICE : rc,
			       "the driver took the data and then gave no report: %s", fault.text);
	} else if (!out_size) {
		rc = sgpu_fail(error, SGPU_EDEVICE, "the driver gave an empty report");
	} else if (sgpu_evidence_has(folder, "auxblob")) {
		rc = sgpu_evidence_read(folder, "auxblob", BLOB_MAX, &aux, &aux_size, error);
	}
	rc = rc ? rc
		: sgpu_evidence_read(folder, "provider", LINE_MAX_SIZE, &provider, &provider_size,
				     error);
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

	rc = rc ? rc : sgpu_evidence_write(report, "inblob", report_data, 64, error);
	rc = rc ? rc : check_generation(report, before + 1, "after writing", error);
	rc = rc ? rc : read_blobs(report, document, error);
	return rc ? rc : check_generation(report, before + 1, "after reading", error);
}

int sgpu_evidence_tsm(const uint8_t report_data[64], struct sgpu_device *device, json_t **document,
		      struct sgpu_error *error)
{
	char directory[PATH_MAX];
	int rc = make_directory(sgpu_evidence_root(SGPU_USUAL_TSM), directory, error);

	(void)device;
	if (!rc) {
		rc = make_report(directory, report_data, document, error);
		/* If this fails, the directory remains and keeps the driver loaded, but nothing
		 * more can be done. */
		(void)rmdir(directory);
	}
	return rc;
}
