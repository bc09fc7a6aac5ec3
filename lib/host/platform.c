/* SPDX-License-Identifier: Apache-2.0
 *
 * Detects the kind of machine by signs that need no privileges, the most specific first, and says
 * what each kind protects. This proves nothing: a host can fake every sign.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/attest.h>
#include <sgpu/base.h>

#include "host/host.h"

#define GRAMINE_TYPE "/dev/attestation/attestation_type"
/* Only guests have these two; older kernels have only the device. */
#define SNP_VMPL "/sys/devices/system/cpu/sev/vmpl"
#define SNP_DEVICE "/dev/sev-guest"

/* A path that is too long becomes "", which is no file. */
static const char *under_root(const char *path, char whole[PATH_MAX])
{
	return snprintf(whole, PATH_MAX, "%s%s", sgpu_host_root(""), path) < PATH_MAX ? whole : "";
}

static bool exists(const char *path)
{
	char whole[PATH_MAX];

	return access(under_root(path, whole), F_OK) == 0;
}

/* Whether the first processor in /proc/cpuinfo has a flag, given with a blank on both sides. The
 * flag sev_snp shows no guest: hosts have it, too. */
static bool cpu_flag(const char *flag)
{
	char text[16384], whole[PATH_MAX], *line;

	(void)sgpu_peek(under_root("/proc/cpuinfo", whole), text, sizeof(text) - 1);
	line = strstr(text, "flags");
	if (!line) {
		return false;
	}
	memcpy(line + strcspn(line, "\n"), " ", 2);
	return strstr(line, flag) != NULL;
}

static enum sgpu_platform_kind detect_kind(const char **seen)
{
	char line[64], whole[PATH_MAX];

	if (sgpu_peek_line(under_root(GRAMINE_TYPE, whole), line, sizeof(line)) && line[0]) {
		*seen = GRAMINE_TYPE;
		return strcmp(line, "none") == 0 ? SGPU_PLATFORM_GRAMINE_DIRECT
						 : SGPU_PLATFORM_GRAMINE_SGX;
	}
	if (exists(SNP_VMPL) || exists(SNP_DEVICE)) {
		*seen = exists(SNP_VMPL) ? SNP_VMPL : SNP_DEVICE;
		return SGPU_PLATFORM_SNP;
	}
	if (cpu_flag(" tdx_guest ")) {
		*seen = "/proc/cpuinfo";
		return SGPU_PLATFORM_TDX;
	}
	*seen = "no sign of TDX, SEV-SNP or SGX";
	return SGPU_PLATFORM_PLAIN;
}

void sgpu_platform_detect(struct sgpu_platform *platform)
{
	platform->kind = detect_kind(&platform->seen);
	platform->virtual_machine = cpu_flag(" hypervisor ");
	platform->reports = exists("/sys/kernel/config/tsm/report/.");
	platform->gpu = exists("/dev/nvidiactl") || exists("/proc/driver/nvidia/version");
}

/* Platforms of equal rank differ, but none is better than another. */
static const struct {
	const char *name, *word;
	int rank;
} kinds[] = {
	[SGPU_PLATFORM_PLAIN] = { "plain machine", "plain", 0 },
	[SGPU_PLATFORM_GRAMINE_DIRECT] = { "Gramine without SGX", "gramine-direct", 1 },
	[SGPU_PLATFORM_GRAMINE_SGX] = { "SGX by Gramine", "sgx", SGPU_RANK_TEE },
	[SGPU_PLATFORM_TDX] = { "TDX guest", "tdx", SGPU_RANK_TEE },
	[SGPU_PLATFORM_SNP] = { "SEV-SNP guest", "snp", SGPU_RANK_TEE },
};

int sgpu_platform_rank(const char *word)
{
	for (size_t i = 0; word && i < SGPU_ARRAY_LENGTH(kinds); i++) {
		if (!strcmp(word, kinds[i].word)) {
			return kinds[i].rank;
		}
	}
	return -1;
}

const char *sgpu_platform_name(enum sgpu_platform_kind kind)
{
	return (size_t)kind < SGPU_ARRAY_LENGTH(kinds) ? kinds[kind].name : "unknown";
}

const char *sgpu_platform_word(enum sgpu_platform_kind kind)
{
	return (size_t)kind < SGPU_ARRAY_LENGTH(kinds) ? kinds[kind].word : "unknown";
}

#define PLAIN "yes (development only)"
#define DRIVER "through the driver, yes"
#define KEY_CROSSES "ciphertext; the key too, which was not agreed with the device"
#define KEY_AGREED "ciphertext; keys sealed to a key that the device made"
#define PART "it is a part of the runner's memory"
#define GUEST "SGX by Gramine, TDX or SEV-SNP guest, "
#define OPEN_GPU "GPU without confidential computing"

/* With the CPU device, where nothing crosses a bus, and with a GPU, before and after keys are
 * agreed. */
static const struct sgpu_protection protections[] = {
	{ "plain machine, CPU device", PLAIN, "yes, " PART, "nothing crosses a bus", false },
	{ "plain machine, GPU", PLAIN, DRIVER, KEY_CROSSES, false },
	{ "plain machine, GPU", PLAIN, DRIVER, KEY_AGREED, false },
	{ GUEST "CPU device", "no", "no, " PART, "nothing crosses a bus", true },
	{ GUEST OPEN_GPU, "no", DRIVER, KEY_CROSSES, true },
	{ GUEST OPEN_GPU, "no", DRIVER, KEY_AGREED, true },
	{ "TDX or SEV-SNP guest, GPU in CC mode", "no", "no", "nothing", true },
};

/* A GPU's development mode ("devtools") protects nothing, so only "on" counts. */
const struct sgpu_protection *sgpu_platform_protection(const struct sgpu_platform *platform,
						       bool on_gpu, const char *confidential,
						       bool keys_agreed)
{
	bool machine = platform->kind == SGPU_PLATFORM_TDX || platform->kind == SGPU_PLATFORM_SNP;
	bool guest = machine || platform->kind == SGPU_PLATFORM_GRAMINE_SGX;

	return on_gpu && machine && strcmp(confidential, "on") == 0
		       ? &protections[6]
		       : &protections[(guest ? 3 : 0) + (on_gpu ? 1 + keys_agreed : 0)];
}
