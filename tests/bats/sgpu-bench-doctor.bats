# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # bats sets stderr
#
# sgpu-bench doctor, which looks at trees of files that describe other machines, and at ones that no kernel would make.

load helpers
use_roots

# put PATH TEXT: a file of the tree, with a line feed.
put() {
	mkdir -p "root/${1%/*}"
	printf '%s\n' "$2" >"root/$1"
}

# doctor [OPTION...]: of the machine that the tree describes.
doctor() {
	mkdir -p root
	SGPU_PLATFORM_ROOT=$PWD/root timeout 60 sgpu-bench doctor "$@"
}

# powerless COMMAND...: with that tree, and with no more rights than any user, also for root.
powerless() {
	local drop=()
	[ "$(id -u)" -ne 0 ] || drop=(setpriv --bounding-set -all)
	mkdir -p root
	SGPU_PLATFORM_ROOT=$PWD/root timeout 60 "${drop[@]}" "$@"
}

# says NAME STATUS FOUND: the line of a check.
says() {
	local line
	line=$(grep "^$1 " <<<"$output")
	if [[ $line != "$1 "*" $2 "*"$3"* ]]; then
		printf '%s\n  is not %s with: %s\n' "$line" "$2" "$3" >&2
		return 1
	fi
}

@test "every check has one line, and one with its fix unless it is ok" {
	run -0 --separate-stderr doctor
	[ -z "$stderr" ]
	awk '/^[a-z]/ { if ($2 !~ /^(ok|missing|wrong)$/ || fix) exit 1; fix = $2 != "ok"; next }
		/^ +for [^:]+: ./ { if (!fix) exit 1; fix = 0; next }
		{ exit 1 }' <<<"$output"
	[ "$(grep -c '^[a-z]' <<<"$output")" -ge 30 ]
}

@test "an empty tree has nothing, and what is unknown is said to be" {
	run -0 --separate-stderr doctor
	says tdx missing 'plain machine'
	says reports missing 'there is no /sys/kernel/config/tsm/report'
	says dsa missing 'there is no '
	says swap missing 'unknown: /proc/swaps cannot be read'
	says governor missing 'there is no '
	says kvm missing 'there is no /dev/kvm'
	says tpm missing 'there is no /dev/tpmrm0'
}

@test "an SEV-SNP guest is one, and no TDX guest" {
	put sys/devices/system/cpu/sev/vmpl 0
	put proc/cpuinfo $'processor\t: 0\nflags\t\t: fpu hypervisor sev_snp'
	mkdir -p root/sys/kernel/config/tsm/report
	run -0 --separate-stderr doctor --need snp,tee,reports
	says snp ok 'SEV-SNP guest, virtual (/sys/devices/system/cpu/sev/vmpl)'
	says tee ok 'SEV-SNP guest'
	says tdx missing 'SEV-SNP guest'
	says reports ok /sys/kernel/config/tsm/report
	run -1 --separate-stderr doctor --need snp,tdx
	[[ $stderr == *"needed, and not ok: tdx"* && $stderr != *" snp"* ]]
}

@test "a TDX guest is one, and its shared memory is found" {
	put proc/cpuinfo $'processor\t: 0\nflags\t\t: fpu hypervisor tdx_guest'
	put dev/dma_heap/system_cc_shared ''
	put sys/devices/system/clocksource/clocksource0/current_clocksource tsc
	run -0 --separate-stderr doctor --need tdx,cc-heap,clock
	says tdx ok 'TDX guest'
	says snp missing 'TDX guest'
	says cc-heap ok /dev/dma_heap/system_cc_shared
	says clock ok tsc
}

@test "a processor that could start SEV-SNP guests is no guest" {
	put proc/cpuinfo $'processor\t: 0\nflags\t\t: fpu sev_snp'
	put sys/module/kvm_amd/parameters/sev_snp N
	run -0 --separate-stderr doctor
	says snp missing 'plain machine'
	says snp-host wrong N
	put sys/module/kvm_amd/parameters/sev_snp Y
	run -0 --separate-stderr doctor --need snp-host
	says snp-host ok Y
}

@test "each usual fault of DSA has its own line" {
	put sys/bus/dsa/devices/dsa0/state enabled
	put sys/bus/dsa/devices/dsa0/pasid_enabled 0
	put sys/bus/dsa/devices/wq0.0/state disabled
	put sys/bus/dsa/devices/wq0.0/type kernel
	put sys/bus/dsa/devices/wq0.0/mode dedicated
	run -1 --separate-stderr doctor --need dsa,dsa-pasid,dsa-queue,dsa-type,dsa-shared,dsa-access
	says dsa ok enabled
	says dsa-pasid wrong 0
	[[ $output == *"intel_iommu=on,sm_on"* ]]
	says dsa-queue wrong disabled
	says dsa-type wrong kernel
	says dsa-shared wrong dedicated
	says dsa-access missing 'there is no /dev/dsa/wq*'
	[[ $stderr == *"not ok: dsa-pasid dsa-queue dsa-type dsa-shared dsa-access" ]]
	# One queue that serves is enough.
	put sys/bus/dsa/devices/wq0.1/state enabled
	put sys/bus/dsa/devices/wq0.1/type user
	put sys/bus/dsa/devices/wq0.1/mode shared
	put sys/bus/dsa/devices/dsa0/pasid_enabled 1
	put dev/dsa/wq0.1 ''
	run -0 --separate-stderr doctor --need dsa,dsa-pasid,dsa-queue,dsa-type,dsa-shared,dsa-access
	says dsa-queue ok 'enabled (as wanted in 1 of 2 places)'
}

@test "a device that this user may not open is wrong" {
	requires setpriv
	put dev/kvm ''
	chmod 0 root/dev/kvm
	run -1 --separate-stderr powerless bash -c 'sgpu-bench doctor --need kvm'
	says kvm wrong '/dev/kvm: Permission denied'
}

@test "a small limit of locked memory is wrong" {
	requires setpriv
	run -1 --separate-stderr powerless bash -c 'ulimit -l 64 && sgpu-bench doctor --need memlock'
	says memlock wrong '64 KiB'
}

@test "swap is wrong unless it is encrypted or in memory" {
	local head=$'Filename\t\tType\t\tSize\tUsed\tPriority'
	put proc/swaps "$head"
	run -0 --separate-stderr doctor --need swap
	says swap ok none
	mkdir -p root/sys/block/zram0
	put proc/swaps "$head"$'\n/dev/zram0 partition 100 0 100\n/dev/dm-1 partition 100 0 -2'
	run -1 --separate-stderr doctor --need swap
	says swap wrong '/dev/dm-1, of which no encryption is seen'
	put sys/block/dm-1/dm/uuid CRYPT-PLAIN-swap
	run -0 --separate-stderr doctor --need swap
	says swap ok '/dev/dm-1, encrypted or in memory'
	put sys/block/dm-1/dm/uuid CRYPT-INTEGRITY-swap
	run -1 --separate-stderr doctor --need swap
}

@test "swap is not taken for safe by a file's name, and not zram with a disk behind it" {
	local place head=$'Filename\t\tType\t\tSize\tUsed\tPriority'
	put sys/block/dm-1/dm/uuid CRYPT-LUKS2-0-swap
	put sys/block/zram0/backing_dev none
	for place in '/var/zram0.swap file' '/var/zram0 file' '/var/dm-1 file' '/dev/sub/dm-1 partition' \
		'/dev/zram0 file' '/dev/zram1 partition' 'zram0 partition' /dev/zram0; do
		put proc/swaps "$head"$'\n'"$place 100 0 -2"
		run -1 --separate-stderr doctor --need swap
		says swap wrong ', of which no encryption is seen'
	done
	put proc/swaps "$head"$'\n/dev/zram0 partition 100 0 -2'
	run -0 --separate-stderr doctor --need swap
	put sys/block/zram0/backing_dev /dev/sda2
	run -1 --separate-stderr doctor --need swap
	says swap wrong '/dev/zram0, of which no encryption is seen'
}

@test "a table of places to swap to that is cut, or is none, is not believed" {
	local head=$'Filename\t\tType\t\tSize\tUsed\tPriority'
	put sys/block/zram0/backing_dev none
	put proc/swaps "$head$(printf '\n/dev/zram0   %-60s 100 0 -2' partition{1..63} | sed 's/n[0-9]* /n /')"$'\n/dev/sda2 partition 1 0 -2'
	run -1 --separate-stderr doctor --need swap
	says swap missing 'unknown: /proc/swaps cannot be read to its end'
	for text in '' garbage $'Type\n/dev/zram0 partition 100 0 -2'; do
		put proc/swaps "$text"
		run -1 --separate-stderr doctor --need swap
		says swap missing 'or has no headings'
	done
	for text in '' "$head" "$head"$'\n/dev/zram0 part'; do
		printf '%s' "$text" >root/proc/swaps
		run -1 --separate-stderr doctor --need swap
		says swap missing unknown
	done
}

@test "a number below 0 is no number of pages, and an empty file no driver" {
	local pages=sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
	for text in -1 +1 ' 1' 0 1x 18446744073709551616 ''; do
		put $pages "$text"
		run -1 --separate-stderr doctor --need huge-pages
	done
	put $pages 8
	run -0 --separate-stderr doctor --need huge-pages
	for text in '' $'\1NVRM' $'ELF\1' allow; do
		put proc/driver/nvidia/version "$text"
		put proc/sys/kernel/seccomp/actions_avail "$text"
		run -1 --separate-stderr doctor --need gpu-driver,seccomp
		[[ $stderr == *"not ok: gpu-driver seccomp" ]]
	done
	put proc/driver/nvidia/version 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  1.2  Thu Jan  1 00:00:00 UTC 1970'
	put proc/sys/kernel/seccomp/actions_avail 'kill_process kill_thread trap errno user_notif trace log allow'
	run -0 --separate-stderr doctor --need gpu-driver,seccomp
}

@test "what the kernel puts in brackets is what is chosen" {
	put sys/kernel/mm/transparent_hugepage/enabled 'always madvise [never]'
	run -0 --separate-stderr doctor
	says thp wrong never
	put sys/kernel/mm/transparent_hugepage/enabled 'always [madvise] never'
	run -0 --separate-stderr doctor --need thp
}

@test "every processor counts, and idle states that are turned off do not" {
	put sys/devices/system/cpu/cpu0/cpufreq/scaling_governor performance
	put sys/devices/system/cpu/cpu1/cpufreq/scaling_governor powersave
	put sys/devices/system/cpu/cpu0/cpuidle/state0/latency 0
	put sys/devices/system/cpu/cpu0/cpuidle/state1/latency 170
	put sys/devices/system/cpu/cpu0/cpuidle/state1/disable 0
	run -0 --separate-stderr doctor
	says governor wrong 'powersave (as wanted in 1 of 2 places)'
	says idle-states wrong '170 (as wanted in 1 of 2 places)'
	put sys/devices/system/cpu/cpu1/cpufreq/scaling_governor performance
	put sys/devices/system/cpu/cpu0/cpuidle/state1/disable 1
	run -0 --separate-stderr doctor --need governor,idle-states
}

@test "names that no check has are a usage error, which names the nearest" {
	for need in zzz 'tdx,zzz' 'tdx,' ',' ''; do
		run -2 --separate-stderr doctor --need "$need"
		[ -z "$output" ]
		[[ $stderr == *"unknown check '${need#tdx,}'"* || $need == , ]]
	done
	run -2 --separate-stderr doctor --need tee,landlok
	[[ $stderr == *"unknown check 'landlok'"*"did you mean 'landlock'?"* ]]
}

@test "--json has an object a line, with the fix where there is one" {
	requires python3
	put sys/kernel/mm/transparent_hugepage/enabled '[never]'
	put sys/devices/system/clocksource/clocksource0/current_clocksource tsc
	run -1 --separate-stderr doctor --json --need thp,clock
	[[ $stderr == *'"error"'*thp* ]]
	python3 - "$output" <<'END'
import json, sys
rows = {row["name"]: row for row in map(json.loads, sys.argv[1].splitlines())}
assert len(rows) == len(sys.argv[1].splitlines()) >= 30
for row in rows.values():
    assert row.keys() == {"name", "serves", "status", "found", "fix"}, row
    assert row["status"] in ("ok", "missing", "wrong") and row["found"]
    assert (row["fix"] is None) == (row["status"] == "ok"), row
assert rows["thp"]["status"] == "wrong" and rows["thp"]["found"] == "never"
assert rows["clock"]["status"] == "ok"
END
}

@test "what is no text, no line or no file is not believed, and nothing hangs" {
	local path paths=(proc/cpuinfo proc/swaps sys/devices/system/cpu/cpu0/cpufreq/scaling_governor
		sys/bus/dsa/devices/wq0.0/state sys/devices/system/cpu/cpu0/cpuidle/state0/latency
		sys/devices/system/clocksource/clocksource0/current_clocksource proc/driver/nvidia/version
		dev/attestation/attestation_type sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages)

	for kind in fifo directory huge endless binary unended loop; do
		rm -rf root
		for path in "${paths[@]}"; do
			mkdir -p "root/${path%/*}"
			case $kind in
			fifo) mkfifo "root/$path" ;;
			directory) mkdir "root/$path" ;;
			huge) truncate -s 1T "root/$path" ;;
			endless) ln -s /dev/zero "root/$path" ;;
			binary) printf '\033]0;x\007\033[2J\0\377%s\n' "$path" >"root/$path" ;;
			unended) printf '9999999999999999999999999999999[tsc' >"root/$path" ;;
			loop) ln -s "${path##*/}" "root/$path" ;;
			esac
		done
		run --separate-stderr -0 doctor
		[ "$(tr -d '[:print:]\n' <<<"$output" | wc -c)" -eq 0 ]
		if grep '^\(tdx\|snp\|clock\|governor\|dsa-queue\) * ok' <<<"$output"; then
			return 1
		fi
	done
}

@test "standard output that cannot be written is an error" {
	run -3 --separate-stderr bash -c 'sgpu-bench doctor >/dev/full'
	[[ $stderr == *"standard output"* ]]
	run -3 --separate-stderr bash -c 'SGPU_PLATFORM_ROOT=/nowhere sgpu-bench doctor --need kvm >/dev/full'
	[[ $stderr == *"standard output"* ]]
}
