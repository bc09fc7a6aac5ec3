/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks of sgpu-bench doctor, in the order in which they are printed.
 */
#include <stddef.h>

#include "doctor.h"

enum { LANDLOCK_CREATE_RULESET = 444, MEMFD_SECRET = 447 }; /* the same on all architectures */

#define DSA "/sys/bus/dsa/devices/"
#define CPUS "/sys/devices/system/cpu/cpu[0-9]*/"

const struct doctor_check doctor_checks[] = {
	{ "tee", "memory that the host cannot read", doctor_ask_platform,
	  "run in a TDX or SEV-SNP guest, or in an SGX enclave by Gramine",
	  .wanted = "tdx snp sgx" },
	{ "tdx", "a guest whose memory the host cannot read", doctor_ask_platform,
	  "on a host with TDX, start QEMU with -object tdx-guest,id=t -machine "
	  "confidential-guest-support=t",
	  .wanted = "tdx" },
	{ "snp", "a guest whose memory the host cannot read", doctor_ask_platform,
	  "on a host with SEV-SNP, start QEMU with -object sev-snp-guest,id=s -machine "
	  "confidential-guest-support=s",
	  .wanted = "snp" },
	{ "sgx", "an enclave whose memory the host cannot read", doctor_ask_platform,
	  "on a machine with SGX, start the program with gramine-sgx", .wanted = "sgx" },
	{ "tdx-host", "starting TDX guests here", doctor_look,
	  "enable TDX in the firmware, and load kvm_intel with tdx=1 (Linux 6.16 or newer)",
	  .path = "/sys/module/kvm_intel/parameters/tdx", .wanted = "Y" },
	{ "snp-host", "starting SEV-SNP guests here", doctor_look,
	  "enable SEV-SNP and the RMP table in the firmware, and load kvm_amd with sev_snp=1 "
	  "(Linux 6.11 or newer)",
	  .path = "/sys/module/kvm_amd/parameters/sev_snp", .wanted = "Y" },
	{ "sgx-host", "starting SGX enclaves here", doctor_look,
	  "enable SGX in the firmware, and let this user read and write the device",
	  .path = "/dev/sgx_enclave", .access = true },
	{ "reports", "attestation reports of the platform", doctor_look,
	  "in a guest with CONFIG_TSM_REPORTS, modprobe tdx_guest or sev-guest, and mount configfs",
	  .path = "/sys/kernel/config/tsm/report" },
	{ "gpu", "work on a GPU", doctor_ask_gpu,
	  .fix = "install the NVIDIA driver, and see 'sgpu-run info'" },
	{ "gpu-driver", "work on a GPU", doctor_look,
	  "install the NVIDIA driver, and run modprobe nvidia",
	  .path = "/proc/driver/nvidia/version", .wanted = "*NVRM version: " },
	{ "gpu-cc", "GPU memory and a bus that the host cannot read", doctor_ask_gpu,
	  .wanted = "on",
	  .fix = "on the host, set the GPU's CC mode to on, not devtools, by NVIDIA's "
		 "gpu-admin-tools" },
	{ "iommu", "passing a device to a guest, and DSA from user space", doctor_look,
	  "enable VT-d or AMD-Vi in the firmware; on Intel add intel_iommu=on to the kernel "
	  "command line",
	  .path = "/sys/class/iommu/*" },
	{ "iommu-groups", "passing a device to a guest", doctor_look,
	  "remove iommu=off, intel_iommu=off and amd_iommu=off from the kernel command line",
	  .path = "/sys/kernel/iommu_groups/*" },
	{ "dsa", "copies by an accelerator", doctor_look,
	  "modprobe idxd, and accel-config enable-device dsa0; a guest needs the device passed to "
	  "it",
	  .path = DSA "dsa*/state", .wanted = "enabled" },
	{ "dsa-pasid", "DSA on a program's own addresses (SVA)", doctor_look,
	  "add intel_iommu=on,sm_on to the kernel command line, and enable VT-d and PASID in the "
	  "firmware",
	  .path = DSA "dsa*/pasid_enabled", .wanted = "1" },
	{ "dsa-queue", "copies by an accelerator", doctor_look,
	  "accel-config config-wq with type user, then accel-config enable-wq dsa0/wq0.0",
	  .path = DSA "wq*/state", .wanted = "enabled" },
	{ "dsa-type", "DSA from user space", doctor_look,
	  "accel-config disable-wq dsa0/wq0.0, then config-wq with type and driver-name user",
	  .path = DSA "wq*/type", .wanted = "user" },
	{ "dsa-shared", "a DSA queue for several programs", doctor_look,
	  "accel-config config-wq with mode shared and a threshold, which needs dsa-pasid",
	  .path = DSA "wq*/mode", .wanted = "shared" },
	{ "dsa-access", "DSA from user space", doctor_look,
	  "enable a queue of type user, and let this user read and write /dev/dsa/wq*",
	  .path = "/dev/dsa/wq*", .access = true },
	{ "huge-pages", "large regions with few TLB misses", doctor_look,
	  "sysctl vm.nr_hugepages=1024",
	  .path = "/sys/kernel/mm/hugepages/hugepages-*/nr_hugepages", .least = 1 },
	{ "thp", "large memory with few TLB misses", doctor_look,
	  "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled",
	  .path = "/sys/kernel/mm/transparent_hugepage/enabled", .wanted = "always madvise" },
	{ "memlock", "keys that are never swapped", doctor_ask_lock_limit,
	  "raise RLIMIT_MEMLOCK to 8 MiB or more: ulimit -l, LimitMEMLOCK= or "
	  "/etc/security/limits.conf",
	  .least = 8 << 20 },
	{ "numa", "staging memory near the GPU", doctor_look, "use a kernel with CONFIG_NUMA",
	  .path = "/sys/devices/system/node/node[0-9]*" },
	{ "swap", "plaintext that never reaches a disk", doctor_look_swap,
	  "swapoff -a, or swap to a device that dm-crypt encrypts", .path = "/proc/swaps" },
	{ "core-pattern", "crashes that leave no plaintext on a disk", doctor_look,
	  "sysctl kernel.core_pattern='|/bin/false'; sgpu's own programs leave no core files",
	  .path = "/proc/sys/kernel/core_pattern", .wanted = "|/bin/false |/usr/bin/false" },
	{ "kvm", "guests on this machine", doctor_look,
	  "modprobe kvm_intel or kvm_amd, and give this user the group kvm", .path = "/dev/kvm",
	  .access = true },
	{ "cc-heap", "memory that a guest shares with devices", doctor_look,
	  "in a TDX or SEV-SNP guest, use a kernel with the dma-buf heap system_cc_shared",
	  .path = "/dev/dma_heap/system_cc_shared", .access = true },
	{ "memfd-secret", "keys that the kernel does not map", doctor_ask_call,
	  "use a kernel with CONFIG_SECRETMEM; before Linux 6.5, also add secretmem.enable=1 to "
	  "its command line",
	  .least = MEMFD_SECRET },
	{ "landlock", "programs that open no other files", doctor_ask_call,
	  "use a kernel with CONFIG_SECURITY_LANDLOCK, and put landlock into lsm= of its command "
	  "line",
	  .wanted = "version", .least = LANDLOCK_CREATE_RULESET },
	{ "seccomp", "programs that make no other system calls", doctor_look,
	  "use a kernel with CONFIG_SECCOMP_FILTER",
	  .path = "/proc/sys/kernel/seccomp/actions_avail", .wanted = "*errno" },
	{ "clock", "times that cost no system call", doctor_look,
	  "echo tsc >/sys/devices/system/clocksource/clocksource0/current_clocksource",
	  .path = "/sys/devices/system/clocksource/clocksource0/current_clocksource",
	  .wanted = "tsc kvm-clock hyperv_clocksource_tsc_page arch_sys_counter" },
	{ "governor", "measurements that repeat", doctor_look,
	  "cpupower frequency-set -g performance; in a virtual machine this is the host's",
	  .path = CPUS "cpufreq/scaling_governor", .wanted = "performance", .every = true },
	{ "idle-states", "measurements that repeat, and fast wake-ups", doctor_look,
	  "cpupower idle-set -D 50; in a virtual machine this is the host's",
	  .path = CPUS "cpuidle/state*/latency", .most = 50 /* us */, .every = true },
	{ .name = NULL },
};
