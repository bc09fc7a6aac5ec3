#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Evidence of a GPU, channels on it, and what holds of the runner that works on one.
# shellcheck disable=SC2154 # bats sets stderr

load ../bats/helpers
load ../bats/authority

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	requires gpu
	cp "$BATS_FILE_TMPDIR"/{ak.pem,ak.crt,ca.crt} .
	sgpu-measure policy -q --build "$SGPU_BUILD" --owners any --at-least plain -o policy.json 2>/dev/null
}

teardown() {
	[ -z "${RUNNER:-}" ] || kill -KILL "$RUNNER" 2>/dev/null || true
	sgpu_teardown
}

# code_of FILE: the digest of device code in a policy.
code_of() {
	tr -d ' \n' <"$1" | sed 's/.*"code":\["\([0-9a-f]*\)"\].*/\1/'
}

# start_runner: one that has written its quote and waits for a batch; its process id in $RUNNER.
start_runner() {
	local i
	mkfifo pipe
	sgpu-run --device cuda --quote quote --nonce "$NONCE" --attestation-key ak.pem --certificate ak.crt -o response \
		pipe 2>message 3>&- &
	RUNNER=$!
	for ((i = 0; i < 600; i++)); do
		[ ! -e quote ] || return 0
		kill -0 "$RUNNER" || break
		sleep 0.05
	done
	cat message >&2
	return 1
}

appraise() {
	sgpu-measure appraise -p policy.json --roots ca.crt --nonce "$NONCE" "$@" quote
}

@test "a quote of the GPU names its code, driver and firmware, and verifies" {
	make_keys
	sgpu-measure quote -k ak.pem --certificate ak.crt --nonce "$NONCE" --device cuda -o quote
	run -0 sgpu-measure verify --roots ca.crt --nonce "$NONCE" quote
	sgpu-measure inspect quote >said
	cat said
	grep -q "$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)" said
	grep -q "$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)" said
	grep -q "$(nvidia-smi --query-gpu=vbios_version --format=csv,noheader | head -n 1)" said
	# What this quote says is accepted, and other device code is not.
	sgpu-measure policy -q -o policy.json quote
	appraise
	sed -i "s/$(code_of policy.json)/$(printf '%064d' 0)/" policy.json
	run --separate-stderr -4 appraise
	assert_contains "$stderr" "device.code"
}

@test "a batch is sealed to a runner on the GPU that proved itself, which is filtered" {
	local i task
	make_keys
	small_job 100000
	start_runner
	exec 7<>pipe
	for ((i = 0; i < 100; i++)); do
		! grep -q '^Seccomp:[[:space:]]*2$' "/proc/$RUNNER/status" || break
		sleep 0.05
	done
	for task in "/proc/$RUNNER/task"/*/status; do
		grep -q '^Seccomp:[[:space:]]*2$' "$task"
		grep -q '^NoNewPrivs:[[:space:]]*1$' "$task"
	done
	appraise --recipient recipient.jwk
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r recipient.jwk >&7
	exec 7>&-
	wait "$RUNNER"
	RUNNER=
	sgpu-seal open -k owner.jwk -C out response
	assert_same out/out.f32 expected.f32
}

@test "a runner whose device code the policy does not know gets nothing" {
	sed -i "s/$(code_of policy.json)/$(printf '%064d' 0)/" policy.json
	start_runner
	run --separate-stderr -4 appraise --recipient recipient.jwk
	assert_contains "$stderr" "device.code"
	assert_no_file recipient.jwk
}

@test "the example ends as without evidence" {
	requires fashion-mnist
	DEVICE=cuda run --separate-stderr -0 "$SGPU_TOP/examples/attested/run.sh" here
	assert_contains "$output" "policy         accepted"
	assert_contains "$output" "as without"
}

@test "info says of the GPU what a quote does" {
	requires jq
	sgpu-run --info --json >told
	jq -e '.devices[] | select(.selector == "cuda:0") | .available and .opens_on_device and
		(.key_agreement.agreed or .confidential_computing == "on") and (.key_agreement.text | length > 0)' told
	jq -e '.hardening.filtered_system_calls and .hardening.no_attaching' told
	jq -e '.platform.nvidia_driver' told
}

@test "pages of one owner are refused to the other, and measured as on the CPU device" {
	cat >script <<-END
		owner alice
		owner bob
		create 1 directory 16 owner alice
		create 2 directory 17 owner bob
		pde 1 0 18
		pde 2 0 19
		pte 1 0 0 32 33
		expect done
		pte 2 0 0 32
		expect foreign
		pte 1 0 0 none
		expect locked
		measure 1 0 4096
		destroy 1
		pte 2 0 0 32
		expect done
		measure 2 0 4096
	END
	"$SGPU_BUILD/examples/channel" cuda <script >on-cuda
	"$SGPU_BUILD/examples/channel" cpu <script >on-cpu
	[ "$(grep -c '^ *digest' on-cuda)" -eq 2 ]
	[ "$(grep '^ *digest' on-cuda)" = "$(grep '^ *digest' on-cpu)" ]
}

@test "data have the digest that the CPU device gives" {
	small_job 300000
	[ "$(sgpu-measure memory --device cuda scan.f32)" = "$(sgpu-measure memory --device cpu scan.f32)" ]
}
