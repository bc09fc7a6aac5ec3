/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-bench doctor: what this machine has and lacks for confidential work on a GPU, and how to get
 * it. Each row is a check, which looks at the kernel's files or calls the library or the kernel.
 */
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <base/base.h>
#include <host/host.h>
#include <sgpu/attest.h>
#include <sgpu/base.h>
#include <sgpu/device.h>

#include "verbs.h"

enum doctor_status {
	DOCTOR_OK,
	DOCTOR_MISSING,
	DOCTOR_WRONG
}; /* wrong: it is there but not usable */

struct doctor_finding {
	enum doctor_status status;
	char found[192]; /* printable, also if it quotes a file */
};

struct doctor_check {
	const char *name, *serves; /* serves: its purpose */
	const char *fix;	   /* a sentence without its full stop */
	/* NULL: looks at files */
	void (*look)(const struct doctor_check *check, struct doctor_finding *finding);
	/* a glob(7) pattern of files, one of which must pass */
	const char *path;
	bool every;  /* all files must pass */
	bool access; /* a file passes if it may be read and written */
	/* a file passes if its first line is one of these, or has the text after "*" */
	const char *wanted;
	uint64_t least, most; /* or a number from least to most (0: no limit) */
};

enum { LINE = 96 };

static void SGPU_PRINTF(3, 4)
	say(struct doctor_finding *finding, enum doctor_status status, const char *format, ...)
{
	va_list arguments;

	finding->status = status;
	va_start(arguments, format);
	sgpu_message_format(finding->found, sizeof(finding->found), format, arguments);
	va_end(arguments);
}

/* ---- files: untrusted, and maybe not the kernel's ---- */
static const char *root(void)
{
	return sgpu_host_root("");
}

static bool has_word(const char *words, const char *word)
{
	char all[LINE + 3], one[LINE + 3];

	snprintf(all, sizeof(all), " %s ", words);
	snprintf(one, sizeof(one), " %s ", word);
	return words[0] == '*' ? strstr(word, words + 1) != NULL : strstr(all, one) != NULL;
}

static bool serves(const struct doctor_check *check, const char *path, char line[LINE])
{
	const char *name = path + strlen(root());
	char beside[PATH_MAX], word[LINE];
	uint64_t number = 0;

	snprintf(line, LINE, "%s", name);
	if (check->access && access(path, R_OK | W_OK) != 0) {
		snprintf(line, LINE, "%s: %s", name, strerror(errno));
		return false;
	}
	if (!check->wanted && !check->least && !check->most) {
		return true;
	}
	if (!sgpu_peek_line(path, line, LINE)) {
		snprintf(line, LINE, "unknown: %s cannot be read", name);
		return false;
	}
	if (check->wanted) {
		return has_word(check->wanted, line);
	}
	if (sgpu_parse_u64(line, name, check->least, UINT64_MAX, &number, NULL) != SGPU_OK) {
		return false;
	}
	/* A file beside an idle state's says whether the state is disabled. */
	snprintf(beside, sizeof(beside), "%.*sdisable", (int)(strrchr(path, '/') + 1 - path), path);
	return !check->most || number <= check->most ||
	       (sgpu_peek_line(beside, word, LINE) && strcmp(word, "1") == 0);
}

/* The finding quotes a file that has its status. */
static void look_at_files(const struct doctor_check *check, struct doctor_finding *finding)
{
	char pattern[PATH_MAX], lines[2][LINE];
	size_t counts[2] = { 0 };
	glob_t found = { 0 };
	bool ok;

	snprintf(pattern, sizeof(pattern), "%s%s", root(), check->path);
	if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0) {
		say(finding, DOCTOR_MISSING, "there is no %s", check->path);
		globfree(&found);
		return;
	}
	for (size_t i = 0; i < found.gl_pathc; i++) {
		char line[LINE];
		const bool one = serves(check, found.gl_pathv[i], line);

		counts[one]++;
		memcpy(lines[one], line, LINE);
	}
	ok = counts[1] > 0 && (!check->every || counts[0] == 0);
	say(finding, ok ? DOCTOR_OK : DOCTOR_WRONG,
	    found.gl_pathc == 1 ? "%s" : "%s (as wanted in %zu of %zu places)", lines[ok],
	    counts[1], found.gl_pathc);
	globfree(&found);
}

/* Whether a swap device is zram without a backing disk, or of dm-crypt. */
static bool is_safe(const char *place)
{
	const char *name =
		strncmp(place, "/dev/", 5) == 0 && !strchr(place + 5, '/') ? place + 5 : "";
	const bool is_zram = strncmp(name, "zram", 4) == 0;
	char path[PATH_MAX], line[LINE];

	snprintf(path, sizeof(path), "%s/sys/block/%s/%s", root(), name,
		 is_zram ? "backing_dev" : "dm/uuid");
	if (sgpu_peek_line(path, line, LINE)) {
		return is_zram ? strcmp(line, "none") == 0
			       : strncmp(line, "CRYPT-LUKS", 10) == 0 ||
					 strncmp(line, "CRYPT-PLAIN-", 12) == 0;
	}
	*strrchr(path, '/') = '\0'; /* zram without support for backing disks has no such file */
	return is_zram && errno == ENOENT && access(path, F_OK) == 0;
}

/* A truncated text is refused, as it could lack a disk. */
static void look_swap(const struct doctor_check *check, struct doctor_finding *finding)
{
	char text[4096], path[PATH_MAX], *rest = NULL, *line;

	snprintf(path, sizeof(path), "%s%s", root(), check->path);
	if (!sgpu_peek(path, text, sizeof(text)) || strlen(text) == sizeof(text) - 1 ||
	    strncmp(text, "Filename", 8) != 0 || text[strlen(text) - 1] != '\n') {
		say(finding, DOCTOR_MISSING,
		    "unknown: %s cannot be read to its end, or has no headings", check->path);
		return;
	}
	say(finding, DOCTOR_OK, "none");
	(void)strtok_r(text, "\n", &rest); /* the headings */
	while (finding->status == DOCTOR_OK && (line = strtok_r(NULL, "\n", &rest))) {
		char place[LINE] = "", type[LINE] = "";
		const bool safe = sscanf(line, "%95s %95s", place, type) == 2 &&
				  strcmp(type, "partition") == 0 && is_safe(place);

		say(finding, safe ? DOCTOR_OK : DOCTOR_WRONG, "%s%s", place,
		    safe ? ", encrypted or in memory" : ", of which no encryption is seen");
	}
}

/* ---- of this machine itself, even if another root is set ---- */
static void ask_platform(const struct doctor_check *check, struct doctor_finding *finding)
{
	struct sgpu_platform platform;

	sgpu_platform_detect(&platform);
	say(finding,
	    strstr(check->wanted, sgpu_platform_word(platform.kind)) ? DOCTOR_OK : DOCTOR_MISSING,
	    "%s%s (%s)", sgpu_platform_name(platform.kind),
	    platform.virtual_machine ? ", virtual" : "", platform.seen);
}

/* Checks the GPU that "cuda" selects, or with `wanted` its CC mode. */
static void ask_gpu(const struct doctor_check *check, struct doctor_finding *finding)
{
	struct sgpu_platform platform;
	struct sgpu_device_info info;
	struct sgpu_error error = { 0 };
	struct sgpu_device *device = NULL;
	const bool opens = sgpu_device_open("cuda", NULL, &device, &error) == SGPU_OK &&
			   sgpu_device_get_info(device, &info, &error) == SGPU_OK;

	sgpu_device_close(&device);
	sgpu_platform_detect(&platform);
	if (check->wanted) {
		const char *state = opens ? info.confidential : "unknown: no GPU could be opened";

		say(finding,
		    strcmp(state, check->wanted) == 0 ? DOCTOR_OK
		    : strcmp(state, "devtools") == 0  ? DOCTOR_WRONG
						      : DOCTOR_MISSING,
		    "%s", state);
	} else if (opens) {
		say(finding, DOCTOR_OK, "%s, %s", info.name, info.driver);
	} else {
		say(finding, platform.gpu ? DOCTOR_WRONG : DOCTOR_MISSING, "%s", error.text);
	}
}

static void ask_lock_limit(const struct doctor_check *check, struct doctor_finding *finding)
{
	struct rlimit limit = { .rlim_cur = 0 };

	(void)getrlimit(RLIMIT_MEMLOCK, &limit);
	say(finding, limit.rlim_cur >= check->least ? DOCTOR_OK : DOCTOR_WRONG,
	    limit.rlim_cur == RLIM_INFINITY ? "no limit" : "%" PRIu64 " KiB",
	    (uint64_t)limit.rlim_cur >> 10);
}

/* landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) and memfd_secret(0), which
 * takes one argument, change nothing. */
static void ask_call(const struct doctor_check *check, struct doctor_finding *finding)
{
	const long got = syscall((long)check->least, NULL, (size_t)0, 1u);

	if (got < 0) {
		say(finding, errno == ENOSYS ? DOCTOR_MISSING : DOCTOR_WRONG, "%s",
		    strerror(errno));
		return;
	}
	if (!check->wanted) {
		close((int)got);
	}
	say(finding, DOCTOR_OK, check->wanted ? "version %ld" : "the kernel has it", got);
}

/* ---- the checks, in the order of printing ---- */
enum { LANDLOCK_CREATE_RULESET = 444, MEMFD_SECRET = 447 }; /* the same on all architectures */

#define DSA "/sys/bus/dsa/devices/"
#define CPUS "/sys/devices/system/cpu/cpu[0-9]*/"

static const struct doctor_check checks[] = {
	{ "tee", "memory that the host cannot read",
	  "run in a TDX or SEV-SNP guest, or in an SGX enclave by Gramine", .wanted = "tdx snp sgx",
	  .look = ask_platform },
	{ "tdx", "a guest whose memory the host cannot read",
	  "on a host with TDX, start QEMU with -object tdx-guest,id=t -machine "
	  "confidential-guest-support=t",
	  .wanted = "tdx", .look = ask_platform },
	{ "snp", "a guest whose memory the host cannot read",
	  "on a host with SEV-SNP, start QEMU with -object sev-snp-guest,id=s -machine "
	  "confidential-guest-support=s",
	  .wanted = "snp", .look = ask_platform },
	{ "sgx", "an enclave whose memory the host cannot read",
	  "on a machine with SGX, start the program with gramine-sgx", .wanted = "sgx",
	  .look = ask_platform },
	{ "tdx-host", "starting TDX guests here",
	  "enable TDX in the firmware, and load kvm_intel with tdx=1 (Linux 6.16 or newer)",
	  .path = "/sys/module/kvm_intel/parameters/tdx", .wanted = "Y" },
	{ "snp-host", "starting SEV-SNP guests here",
	  "enable SEV-SNP and the RMP table in the firmware, and load kvm_amd with sev_snp=1 "
	  "(Linux 6.11 or newer)",
	  .path = "/sys/module/kvm_amd/parameters/sev_snp", .wanted = "Y" },
	{ "sgx-host", "starting SGX enclaves here",
	  "enable SGX in the firmware, and let this user read and write the device",
	  .path = "/dev/sgx_enclave", .access = true },
	{ "reports", "attestation reports of the platform",
	  "in a guest with CONFIG_TSM_REPORTS, modprobe tdx_guest or sev-guest, and mount configfs",
	  .path = "/sys/kernel/config/tsm/report" },
	{ "tpm", "an attestation key that no copy of the disk has",
	  "give this user the group tss, and install OpenSSL's provider tpm2",
	  .path = "/dev/tpmrm0", .access = true },
	{ "gpu", "work on a GPU", .fix = "install the NVIDIA driver, and see 'sgpu-run --info'",
	  .look = ask_gpu },
	{ "gpu-driver", "work on a GPU", "install the NVIDIA driver, and run modprobe nvidia",
	  .path = "/proc/driver/nvidia/version", .wanted = "*NVRM version: " },
	{ "gpu-cc", "GPU memory and a bus that the host cannot read", .wanted = "on",
	  .fix = "on the host, set the GPU's CC mode to on, not devtools, by NVIDIA's "
		 "gpu-admin-tools",
	  .look = ask_gpu },
	{ "iommu", "passing a device to a guest, and DSA from user space",
	  "enable VT-d or AMD-Vi in the firmware; on Intel add intel_iommu=on to the kernel "
	  "command line",
	  .path = "/sys/class/iommu/*" },
	{ "iommu-groups", "passing a device to a guest",
	  "remove iommu=off, intel_iommu=off and amd_iommu=off from the kernel command line",
	  .path = "/sys/kernel/iommu_groups/*" },
	{ "dsa", "copies by an accelerator",
	  "modprobe idxd, and accel-config enable-device dsa0; a guest needs the device passed to "
	  "it",
	  .path = DSA "dsa*/state", .wanted = "enabled" },
	{ "dsa-pasid", "DSA on a program's own addresses (SVA)",
	  "add intel_iommu=on,sm_on to the kernel command line, and enable VT-d and PASID in the "
	  "firmware",
	  .path = DSA "dsa*/pasid_enabled", .wanted = "1" },
	{ "dsa-queue", "copies by an accelerator",
	  "accel-config config-wq with type user, then accel-config enable-wq dsa0/wq0.0",
	  .path = DSA "wq*/state", .wanted = "enabled" },
	{ "dsa-type", "DSA from user space",
	  "accel-config disable-wq dsa0/wq0.0, then config-wq with type and driver-name user",
	  .path = DSA "wq*/type", .wanted = "user" },
	{ "dsa-shared", "a DSA queue for several programs",
	  "accel-config config-wq with mode shared and a threshold, which needs dsa-pasid",
	  .path = DSA "wq*/mode", .wanted = "shared" },
	{ "dsa-access", "DSA from user space",
	  "enable a queue of type user, and let this user read and write /dev/dsa/wq*",
	  .path = "/dev/dsa/wq*", .access = true },
	{ "huge-pages", "large regions with few TLB misses", "sysctl vm.nr_hugepages=1024",
	  .path = "/sys/kernel/mm/hugepages/hugepages-*/nr_hugepages", .least = 1 },
	{ "thp", "large memory with few TLB misses",
	  "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled",
	  .path = "/sys/kernel/mm/transparent_hugepage/enabled", .wanted = "always madvise" },
	{ "memlock", "keys that are never swapped",
	  "raise RLIMIT_MEMLOCK to 8 MiB or more: ulimit -l, LimitMEMLOCK= or "
	  "/etc/security/limits.conf",
	  .least = 8 << 20, .look = ask_lock_limit },
	{ "numa", "staging memory near the GPU", "use a kernel with CONFIG_NUMA",
	  .path = "/sys/devices/system/node/node[0-9]*" },
	{ "swap", "plaintext that never reaches a disk",
	  "swapoff -a, or swap to a device that dm-crypt encrypts", .path = "/proc/swaps",
	  .look = look_swap },
	{ "core-pattern", "crashes that leave no plaintext on a disk",
	  "sysctl kernel.core_pattern='|/bin/false'; sgpu's own programs leave no core files",
	  .path = "/proc/sys/kernel/core_pattern", .wanted = "|/bin/false |/usr/bin/false" },
	{ "kvm", "guests on this machine",
	  "modprobe kvm_intel or kvm_amd, and give this user the group kvm", .path = "/dev/kvm",
	  .access = true },
	{ "cc-heap", "memory that a guest shares with devices",
	  "in a TDX or SEV-SNP guest, use a kernel with the dma-buf heap system_cc_shared",
	  .path = "/dev/dma_heap/system_cc_shared", .access = true },
	{ "memfd-secret", "keys that the kernel does not map",
	  "use a kernel with CONFIG_SECRETMEM; before Linux 6.5, also add secretmem.enable=1 to "
	  "its command line",
	  .least = MEMFD_SECRET, .look = ask_call },
	{ "landlock", "programs that open no other files",
	  "use a kernel with CONFIG_SECURITY_LANDLOCK, and put landlock into lsm= of its command "
	  "line",
	  .wanted = "version", .least = LANDLOCK_CREATE_RULESET, .look = ask_call },
	{ "seccomp", "programs that make no other system calls",
	  "use a kernel with CONFIG_SECCOMP_FILTER",
	  .path = "/proc/sys/kernel/seccomp/actions_avail", .wanted = "*errno" },
	{ "clock", "times that cost no system call",
	  "echo tsc >/sys/devices/system/clocksource/clocksource0/current_clocksource",
	  .path = "/sys/devices/system/clocksource/clocksource0/current_clocksource",
	  .wanted = "tsc kvm-clock hyperv_clocksource_tsc_page arch_sys_counter" },
	{ "governor", "measurements that repeat",
	  "cpupower frequency-set -g performance; in a virtual machine this is the host's",
	  .path = CPUS "cpufreq/scaling_governor", .wanted = "performance", .every = true },
	{ "idle-states", "measurements that repeat, and fast wake-ups",
	  "cpupower idle-set -D 50; in a virtual machine this is the host's",
	  .path = CPUS "cpuidle/state*/latency", .most = 50 /* us */, .every = true },
	{ .name = NULL },
};

/* ---- the verb ---- */
struct request {
	bool needed[SGPU_ARRAY_LENGTH(checks)];
};

static int take_need(void *values, const char *text)
{
	struct request *request = values;
	char name[LINE];
	int i;

	do {
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, ","), text);
		for (i = 0; checks[i].name && strcmp(checks[i].name, name) != 0; i++) {
		}
		if (!checks[i].name) {
			return cli_unknown("unknown check", name, "", checks, sizeof(*checks));
		}
		request->needed[i] = true;
		text += strcspn(text, ",");
	} while (*text++ == ',');
	return 0;
}

const struct cli_option doctor_options[] = {
	{ "need", 0, "NAME,...", "end with 1 unless all of these are ok", CLI_TAKE(take_need) },
	CLI_END,
};

static int print_finding(const struct doctor_check *check, const struct doctor_finding *finding)
{
	static const char *const words[] = { "ok", "missing", "wrong" };
	const char *fix = finding->status == DOCTOR_OK ? NULL : check->fix;

	if (cli_json) {
		return cli_print_json(json_pack("{s:s, s:s, s:s, s:s, s:s?}", "name", check->name,
						"serves", check->serves, "status",
						words[finding->status], "found", finding->found,
						"fix", fix),
				      stdout, JSON_COMPACT);
	}
	printf("%-17s  %-7s  %s\n", check->name, words[finding->status], finding->found);
	if (fix) {
		printf("%28sfor %s: %s\n", "", check->serves, fix);
	}
	return 0;
}

int verb_doctor(int argc, char **argv)
{
	struct request request = { { false } };
	char lacking[1024] = "", **arguments;
	int status = cli_read(argc, argv, &request, &arguments);

	for (size_t i = 0; status == 0 && checks[i].name; i++) {
		struct doctor_finding finding;

		(checks[i].look ? checks[i].look : look_at_files)(&checks[i], &finding);
		status = print_finding(&checks[i], &finding);
		if (finding.status != DOCTOR_OK && request.needed[i]) {
			snprintf(lacking + strlen(lacking), sizeof(lacking) - strlen(lacking),
				 " %s", checks[i].name);
		}
	}
	return status || !lacking[0] ? status
				     : cli_fail(SGPU_EDIFFERS, "needed, and not ok:%s", lacking);
}
