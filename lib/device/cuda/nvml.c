/* SPDX-License-Identifier: Apache-2.0
 *
 * What NVIDIA's management library says, if installed. Not every toolkit has its header, so the
 * parts used are declared below. A GPU without confidential computing answers "not supported",
 * which is reported as "off".
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include <device/cuda/gpu.h>

enum { NVML_SUCCESS = 0, NVML_NOT_SUPPORTED = 3, NVML_FEATURE_ENABLED = 1, NVML_DEVTOOLS_ON = 1 };

/* Architectures of GPUs with confidential computing. */
enum { NVML_HOPPER = 9, NVML_BLACKWELL = 10 };
enum {
	NVML_NONCE = 32,
	NVML_REPORT = 0x2000,
	NVML_CEC_REPORT = 0x1000,
	NVML_CHAIN = 0x1000,
	NVML_ATTESTATION_CHAIN = 0x1400,
};

struct nvml_report {
	unsigned cec_present;
	unsigned size, cec_size;
	uint8_t nonce[NVML_NONCE]; /* that of the request */
	uint8_t report[NVML_REPORT];
	uint8_t cec[NVML_CEC_REPORT];
};

struct nvml_certificate {
	unsigned size, attestation_size;
	uint8_t chain[NVML_CHAIN];
	uint8_t attestation_chain[NVML_ATTESTATION_CHAIN]; /* PEM, of the key that signs reports */
};

struct nvml_state {
	unsigned environment; /* 0 unavailable, 1 simulation, 2 production */
	unsigned feature;     /* 1: on */
	unsigned devtools;    /* 1: on */
};

static struct {
	int (*init)(void);
	int (*driver_version)(char *version, unsigned size);
	int (*state)(struct nvml_state *state);
	int (*count)(unsigned *count);
	int (*by_index)(unsigned index, void **gpu);
	int (*by_uuid)(const char *uuid, void **gpu);
	int (*vbios)(void *gpu, char *version, unsigned size);
	int (*architecture)(void *gpu, unsigned *architecture);
	int (*report)(void *gpu, struct nvml_report *report);
	int (*certificate)(void *gpu, struct nvml_certificate *certificate);
	const char *(*text)(int result);
} nvml;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool usable;

static void load(void)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		return;
	}
	(void)sgpu_cuda_find(library, "nvmlSystemGetDriverVersion", &nvml.driver_version);
	(void)sgpu_cuda_find(library, "nvmlSystemGetConfComputeState", &nvml.state);
	(void)sgpu_cuda_find(library, "nvmlDeviceGetCount_v2", &nvml.count);
	(void)sgpu_cuda_find(library, "nvmlDeviceGetHandleByIndex_v2", &nvml.by_index);
	(void)sgpu_cuda_find(library, "nvmlDeviceGetHandleByUUID", &nvml.by_uuid);
	(void)sgpu_cuda_find(library, "nvmlDeviceGetVbiosVersion", &nvml.vbios);
	(void)sgpu_cuda_find(library, "nvmlDeviceGetArchitecture", &nvml.architecture);
	(void)sgpu_cuda_find(library, "nvmlDeviceGetConfComputeGpuAttestationReport", &nvml.report);
	(void)sgpu_cuda_find(library, "nvmlDeviceGetConfComputeGpuCertificate", &nvml.certificate);
	(void)sgpu_cuda_find(library, "nvmlErrorString", &nvml.text);
	usable = sgpu_cuda_find(library, "nvmlInit_v2", &nvml.init) && nvml.init() == NVML_SUCCESS;
}

bool sgpu_cuda_nvml_found(void)
{
	pthread_once(&once, load);
	return usable;
}

/* Getting a handle of each GPU takes as long as loading the library. */
static void *load_beside(void *argument)
{
	unsigned count = 0, i;
	void *gpu;

	(void)argument;
	if (sgpu_cuda_nvml_found() && nvml.count && nvml.by_index &&
	    nvml.count(&count) == NVML_SUCCESS) {
		for (i = 0; i < count; i++) {
			(void)nvml.by_index(i, &gpu);
		}
	}
	return NULL;
}

bool sgpu_cuda_nvml_start(pthread_t *thread)
{
	return sgpu_thread_start(thread, load_beside, NULL, NULL) == SGPU_OK;
}

void sgpu_cuda_confidential(char *state, size_t size)
{
	struct nvml_state answer = { 0, 0, 0 };
	const char *word = "unknown";
	int result;

	if (sgpu_cuda_nvml_found() && nvml.state) {
		result = nvml.state(&answer);
		if (result == NVML_NOT_SUPPORTED ||
		    (result == NVML_SUCCESS && answer.feature != NVML_FEATURE_ENABLED)) {
			word = "off";
		} else if (result == NVML_SUCCESS) {
			word = answer.devtools == NVML_DEVTOOLS_ON ? "devtools" : "on";
		}
	}
	snprintf(state, size, "%s", word);
}

void sgpu_cuda_driver_version(char *version, size_t size)
{
	if (!sgpu_cuda_nvml_found() || !nvml.driver_version ||
	    nvml.driver_version(version, (unsigned)size) != NVML_SUCCESS) {
		version[0] = '\0';
	}
	version[size - 1] = '\0';
}

static bool handle_of(const char *uuid, void **gpu)
{
	return sgpu_cuda_nvml_found() && nvml.by_uuid && nvml.by_uuid(uuid, gpu) == NVML_SUCCESS;
}

void sgpu_cuda_vbios(const char *uuid, char *version, size_t size)
{
	void *gpu;

	if (!handle_of(uuid, &gpu) || !nvml.vbios ||
	    nvml.vbios(gpu, version, (unsigned)size) != NVML_SUCCESS) {
		version[0] = '\0';
	}
	version[size - 1] = '\0';
}

/* Fills in why there is no evidence. Outside confidential computing mode some drivers answer "not
 * supported", others "unknown error". */
static int refused(const struct sgpu_device *device, int result, const char *what,
		   struct sgpu_error *error)
{
	const char *text = nvml.text ? nvml.text(result) : NULL;
	bool off = result == NVML_NOT_SUPPORTED || strcmp(device->info.confidential, "off") == 0;

	if (!text) {
		text = "its management library does not say why";
	}
	if (!off) {
		return sgpu_fail(error, SGPU_EDEVICE, "the GPU gives no %s: %s", what, text);
	}
	sgpu_fail(error, SGPU_EUNAVAILABLE,
		  "the GPU gives no %s: it is not in confidential computing mode (NVML: %s)", what,
		  text);
	sgpu_hint(error, "see nvidia-smi conf-compute -f");
	return SGPU_EUNAVAILABLE;
}

/* Returns a malloc'd copy, or NULL. */
static uint8_t *copy_of(const uint8_t *bytes, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	return copy ? memcpy(copy, bytes, size) : NULL;
}

static int fetch(const struct sgpu_device *device, void *gpu, const uint8_t nonce[NVML_NONCE],
		 struct nvml_report *report, struct nvml_certificate *certificate,
		 struct sgpu_error *error)
{
	int result;

	memcpy(report->nonce, nonce, NVML_NONCE);
	result = nvml.report(gpu, report);
	if (result != NVML_SUCCESS) {
		return refused(device, result, "attestation report", error);
	}
	result = nvml.certificate(gpu, certificate);
	if (result != NVML_SUCCESS) {
		return refused(device, result, "certificates", error);
	}
	if (report->size == 0 || report->size > NVML_REPORT || certificate->attestation_size == 0 ||
	    certificate->attestation_size > NVML_ATTESTATION_CHAIN) {
		return sgpu_fail(
			error, SGPU_EDEVICE,
			"the GPU's report of %u bytes or its certificates of %u have no valid size",
			report->size, certificate->attestation_size);
	}
	return SGPU_OK;
}

int sgpu_cuda_evidence(struct sgpu_device *device, const uint8_t nonce[NVML_NONCE],
		       struct sgpu_device_evidence *evidence, struct sgpu_error *error)
{
	struct nvml_report *report = calloc(1, sizeof(*report));
	struct nvml_certificate *certificate = calloc(1, sizeof(*certificate));
	unsigned architecture = 0;
	void *gpu = NULL;
	int rc;

	if (!report || !certificate) {
		rc = sgpu_fail_nomem(error);
	} else if (!handle_of(device->info.uuid, &gpu) || !nvml.report || !nvml.certificate) {
		rc = sgpu_fail(error, SGPU_EUNAVAILABLE,
			       "the GPU gives no attestation report: libnvidia-ml.so.1 cannot be "
			       "used or is too old");
	} else {
		rc = fetch(device, gpu, nonce, report, certificate, error);
	}
	if (rc == SGPU_OK) {
		if (nvml.architecture) {
			(void)nvml.architecture(gpu, &architecture);
		}
		snprintf(evidence->architecture, sizeof(evidence->architecture), "%s",
			 architecture == NVML_HOPPER	  ? "HOPPER"
			 : architecture == NVML_BLACKWELL ? "BLACKWELL"
							  : "UNKNOWN");
		evidence->report = copy_of(report->report, report->size);
		evidence->chain =
			copy_of(certificate->attestation_chain, certificate->attestation_size);
		evidence->report_size = report->size;
		evidence->chain_size = certificate->attestation_size;
		if (!evidence->report || !evidence->chain) {
			sgpu_device_evidence_clear(evidence);
			rc = sgpu_fail_nomem(error);
		}
	}
	free(report);
	free(certificate);
	return rc;
}
