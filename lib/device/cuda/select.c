/* SPDX-License-Identifier: Apache-2.0
 *
 * Which GPU a selector means. Indexes and UUIDs are those of the devices that the driver shows:
 * CUDA_VISIBLE_DEVICES has been heeded by then.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <device/cuda/gpu.h>

int sgpu_cuda_uuid(int ordinal, char *text, size_t size, struct sgpu_error *error)
{
	CUdevice handle;
	CUuuid uuid;
	char hex[33];
	CUresult result = sgpu_cu.cuDeviceGet(&handle, ordinal);

	if (result == CUDA_SUCCESS) {
		result = sgpu_cu.cuDeviceGetUuid(&uuid, handle);
	}
	if (result != CUDA_SUCCESS) {
		return sgpu_cuda_fail(error, result, "cannot read a GPU's UUID");
	}
	sgpu_hex_encode(&uuid, sizeof(uuid.bytes), hex);
	snprintf(text, size, "GPU-%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16,
		 hex + 20);
	return SGPU_OK;
}

/* A step of a job that runs several tasks on a node, all of which see all its GPUs, spreads them
 * over these. */
static int by_task(void)
{
	const char *local = getenv("SLURM_LOCALID");
	uint64_t rank;

	if (!local ||
	    sgpu_parse_u64(local, "SLURM_LOCALID", 0, INT32_MAX, &rank, NULL) != SGPU_OK) {
		return 0;
	}
	return (int)(rank % (uint64_t)sgpu_cu.count);
}

static int by_index(const char *selector, const char *word, int *ordinal, struct sgpu_error *error)
{
	uint64_t index;

	if (sgpu_parse_u64(word, "the device", 0, UINT64_MAX, &index, NULL) != SGPU_OK ||
	    index >= (uint64_t)sgpu_cu.count) {
		sgpu_fail(error, SGPU_EUNAVAILABLE, "no device '%s': there %s %d", selector,
			  sgpu_cu.count == 1 ? "is" : "are", sgpu_cu.count);
		return sgpu_hint(
			error,
			"indexes start at 0 and count the GPUs that CUDA_VISIBLE_DEVICES leaves");
	}
	*ordinal = (int)index;
	return SGPU_OK;
}

static int by_uuid(const char *selector, const char *word, int *ordinal, struct sgpu_error *error)
{
	char uuid[64];
	int i, code, found = 0;

	for (i = 0; i < sgpu_cu.count; i++) {
		code = sgpu_cuda_uuid(i, uuid, sizeof(uuid), error);
		if (code < 0) {
			return code;
		}
		if (strncasecmp(uuid, word, strlen(word)) == 0) {
			*ordinal = i;
			found++;
		}
	}
	if (found == 1) {
		return SGPU_OK;
	}
	if (found > 1) {
		return sgpu_fail(error, SGPU_EUSAGE, "'%s' fits %d GPUs: give more of the UUID",
				 selector, found);
	}
	sgpu_fail(error, SGPU_EUNAVAILABLE, "no device '%s': no visible GPU has such a UUID",
		  selector);
	return sgpu_hint(error, "nvidia-smi -L lists them; CUDA_VISIBLE_DEVICES may hide some");
}

int sgpu_cuda_select(const char *selector, int *ordinal, struct sgpu_error *error)
{
	const char *word = strchr(selector, ':');

	if (!word) {
		*ordinal = by_task();
		return SGPU_OK;
	}
	word++;
	return strncasecmp(word, "GPU-", 4) == 0 ? by_uuid(selector, word, ordinal, error)
						 : by_index(selector, word, ordinal, error);
}
