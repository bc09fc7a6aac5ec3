/* SPDX-License-Identifier: Apache-2.0
 *
 * What NVIDIA's management library says, if it is there. Its header is not in every toolkit, so what is used of it is
 * declared here. A GPU without confidential computing answers that it is not supported: that is "off".
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <device/cuda/gpu.h>

enum { NVML_SUCCESS = 0, NVML_NOT_SUPPORTED = 3, NVML_FEATURE_ENABLED = 1, NVML_DEVTOOLS_ON = 1 };

struct nvml_state {
	unsigned environment;    /* 0 unavailable, 1 simulation, 2 production */
	unsigned feature;        /* 1: on */
	unsigned devtools;       /* 1: on */
};

static struct {
	int (*init)(void);
	int (*driver_version)(char *version, unsigned size);
	int (*state)(struct nvml_state *state);
} nvml;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool usable;

static bool find(void *library, const char *name, void *function)
{
	void *address = dlsym(library, name);

	memcpy(function, &address, sizeof(address));
	return address != NULL;
}

static void load(void)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		return;
	}
	(void)find(library, "nvmlSystemGetDriverVersion", &nvml.driver_version);
	(void)find(library, "nvmlSystemGetConfComputeState", &nvml.state);
	usable = find(library, "nvmlInit_v2", &nvml.init) && nvml.init() == NVML_SUCCESS;
}

void sgpu_cuda_confidential(char *state, size_t size)
{
	struct nvml_state answer = { 0, 0, 0 };
	const char *word = "unknown";
	int result;

	pthread_once(&once, load);
	if (usable && nvml.state) {
		result = nvml.state(&answer);
		if (result == NVML_NOT_SUPPORTED) {
			word = "off";
		} else if (result == NVML_SUCCESS && answer.feature != NVML_FEATURE_ENABLED) {
			word = "off";
		} else if (result == NVML_SUCCESS) {
			word = answer.devtools == NVML_DEVTOOLS_ON ? "devtools" : "on";
		}
	}
	snprintf(state, size, "%s", word);
}

bool sgpu_cuda_nvml_found(void)
{
	pthread_once(&once, load);
	return usable;
}

void sgpu_cuda_driver_version(char *version, size_t size)
{
	pthread_once(&once, load);
	if (!usable || !nvml.driver_version || nvml.driver_version(version, (unsigned)size) != NVML_SUCCESS) {
		version[0] = '\0';
	}
	version[size - 1] = '\0';
}
