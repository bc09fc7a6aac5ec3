/* SPDX-License-Identifier: Apache-2.0
 *
 * What the CUDA device rests on, found or missing, for people.
 */
#include <stdio.h>
#include <string.h>

#include <device/cuda/gpu.h>
#include <ops/cuda/ops_cuda.h>

static void driver(struct sgpu_device_part *part)
{
	struct sgpu_error error = { 0 };
	char version[64];

	snprintf(part->name, sizeof(part->name), "driver");
	part->found = sgpu_cuda_driver_load(&error) == SGPU_OK;
	if (part->found) {
		sgpu_cuda_driver_version(version, sizeof(version));
		snprintf(part->text, sizeof(part->text),
			 "libcuda.so.1%s%s, serves CUDA %d.%d, shows %d GPU%s",
			 version[0] ? ", driver " : "", version, sgpu_cu.version / 1000,
			 sgpu_cu.version % 1000 / 10, sgpu_cu.count, sgpu_cu.count == 1 ? "" : "s");
		return;
	}
	snprintf(part->text, sizeof(part->text), "%.*s", (int)sizeof(part->text) - 1, error.text);
	snprintf(part->hint, sizeof(part->hint), "%s", error.hint);
}

static void management(struct sgpu_device_part *part)
{
	snprintf(part->name, sizeof(part->name), "NVML");
	part->found = sgpu_cuda_nvml_found();
	if (part->found) {
		snprintf(part->text, sizeof(part->text), "libnvidia-ml.so.1");
		return;
	}
	snprintf(part->text, sizeof(part->text),
		 "libnvidia-ml.so.1 cannot be used: whether a GPU is in confidential "
		 "computing mode is not known");
	snprintf(part->hint, sizeof(part->hint),
		 "it comes with the NVIDIA driver (Debian: libnvidia-ml1)");
}

static void products(struct sgpu_device_part *part)
{
	char text[512] = "";

	snprintf(part->name, sizeof(part->name), "cuBLAS");
	part->found = sgpu_cuda_cublas_status(text, sizeof(text));
	snprintf(part->text, sizeof(part->text), "%.*s", (int)sizeof(part->text) - 1, text);
	if (!part->found) {
		snprintf(part->hint, sizeof(part->hint),
			 "products of matrices are computed without it, more slowly");
	}
}

int sgpu_cuda_parts(struct sgpu_device_part *parts)
{
	memset(parts, 0, 3 * sizeof(*parts));
	driver(&parts[0]);
	management(&parts[1]);
	products(&parts[2]);
	return 3;
}
