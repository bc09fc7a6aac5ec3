#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# sgpu-measure: quotes with a report of the platform in them, by a configfs-tsm of our own.
# shellcheck disable=SC2154 # variables that run sets

load helpers

nonce=00112233445566778899aabbccddeeff

setup_file() {
	has_compiler || return 0
	cd "$BATS_FILE_TMPDIR" || return 1
	sgpu-measure keygen -o CA.pem --authority CA.crt
	sgpu-measure keygen -o EK.pem | sgpu-measure certify -k CA.pem --certificate CA.crt -o EK.crt
	sgpu-measure keygen -o AK.pem | sgpu-measure certify -k EK.pem --certificate EK.crt -o AK.crt
	compile -D_GNU_SOURCE -shared -fPIC -o fake_tsm.so "$SGPU_TOP/tests/bats/fake_tsm.c"
	if python3 -c 'import cryptography' 2>/dev/null; then
		mkdir amd
		python3 "$SGPU_TOP/tests/bats/fake_tsm.py" init amd
	fi
}

setup() {
	requires cc jq python3 python-cryptography
	cd "$BATS_TEST_TMPDIR" || return 1
	cp -a "$BATS_FILE_TMPDIR"/. .
	mkdir -p tsm root/sys/devices/system/cpu/sev
	echo 0 >root/sys/devices/system/cpu/sev/vmpl
	use_roots
	export SGPU_TSM_ROOT=$PWD/tsm SGPU_GRAMINE_ROOT=$PWD/none SGPU_PLATFORM_ROOT=$PWD/root
}

# quote OPTION...: as a guest of SEV-SNP would make it. A sanitizer wants to be loaded first, and is told that it is not.
quote() {
	FAKE_TSM_DRIVER="python3 '$SGPU_TOP/tests/bats/fake_tsm.py' report '$PWD/amd'" \
		ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD=$PWD/fake_tsm.so \
		sgpu-measure quote -k AK.pem --certificate AK.crt --nonce "$nonce" --device cpu "$@"
}

verify() {
	sgpu-measure verify --roots CA.crt --nonce "$nonce" "$@"
}

@test "a quote carries the platform's report, which verifies to its maker's root" {
	quote -o quote.json
	run -0 --separate-stderr verify --tee-roots amd/ark.crt --json quote.json
	[ -z "$stderr" ]
	run -0 jq -e '.tee | .kind == "snp" and .measurement == "3e" * 48 and .tcb == "d114000000000003" and .vmpl == 0' \
		<<<"$output"
	run -0 verify --json quote.json
	run -0 jq -e 'has("tee") | not' <<<"$output"
	run -0 verify quote.json
	[ -z "$(ls tsm)" ]
}

@test "a report under another root, of another quote, or altered is refused" {
	quote -o quote.json
	quote -o other.json
	mkdir other
	python3 "$SGPU_TOP/tests/bats/fake_tsm.py" init other
	run -4 --separate-stderr verify --tee-roots other/ark.crt quote.json
	assert_contains "$stderr" "chain"
	jq -c --slurpfile other other.json '.["tsm-report"] = $other[0]["tsm-report"]' quote.json >mixed.json
	run -4 verify --tee-roots amd/ark.crt mixed.json
	jq -c '.["tsm-report"][1] |= (.[0:300] + (if .[300:301] == "A" then "B" else "A" end) + .[301:])' quote.json >altered.json
	run -4 verify --tee-roots amd/ark.crt altered.json
	jq -c 'del(.["tsm-report"])' quote.json >without.json
	run -4 verify --tee-roots amd/ark.crt without.json
}

@test "claims of another platform than the report's do not verify" {
	rm -r root # the machine shows nothing of SEV-SNP, so the claims say that it is plain
	quote -o quote.json
	run -0 verify quote.json
	run -4 --separate-stderr verify --tee-roots amd/ark.crt quote.json
	assert_contains "$stderr" "the TEE's report is of 'snp', and the claims say 'plain'"
}

@test "what the kernel does not give is absent with its reason, and the quote is made all the same" {
	for fault in no-provider busy lost-write intruder late-error empty write-error; do
		FAKE_TSM_FAULT=$fault quote -o "$fault.json"
		[ -z "$(ls tsm)" ]
		run -0 verify "$fault.json"
		run -0 jq -e 'has("tsm-report") | not' "$fault.json"
	done
	run -0 sgpu-measure inspect lost-write.json
	assert_contains "$output" "did not take the report's data"
}

appraise() {
	sgpu-measure appraise -p policy.json --roots CA.crt --nonce "$nonce" --tee-roots amd/ark.crt "$@"
}

# lenient PLATFORM: a policy that lets any runner pass that was measured as a file, on that platform.
lenient() {
	jq -n '{version: 1, runner: {digests: "any", debug: true, modules: true, files: true, owners: "any", sessions: "any",
		confinement: false, process: false}, platform: '"$1"'}' >policy.json
}

@test "a policy asks for a platform with a report, and for the guest that was measured" {
	quote -o quote.json
	lenient '{at_least: "snp", measurements: ["3e" * 48], tcb: "d114000000000003", vmpl: 0}'
	run -0 appraise quote.json
	lenient '{at_least: "snp", measurements: ["3f" * 48]}'
	run -4 --separate-stderr appraise quote.json
	assert_contains "$stderr" "measurement"
	# A guest that no policy names is none that is known, whatever its report proves.
	lenient '{at_least: "snp"}'
	run -4 --separate-stderr appraise quote.json
	assert_contains "$stderr" "measurement"
}

@test "a guest under a debugger is told from one that is not" {
	quote -o good.json
	FAKE_TSM_DEBUG=1 quote -o debugged.json
	lenient '{at_least: "snp"}'
	sed -i 's/"debug": true/"debug": false/' policy.json
	# A runner that was measured as a file may be under a debugger in either case.
	run -4 --separate-stderr appraise good.json
	run ! grep -q "guest was started with debugging" <<<"$stderr"
	run -4 --separate-stderr appraise debugged.json
	assert_contains "$stderr" "guest was started with debugging on"
}
