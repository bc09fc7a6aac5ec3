#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The attack that once read HIGH data although its owner had appraised with the strictest policy, step by step: a host
# that only carries batches and nonces reads the runner's attestation key through a batch, signs its own claims under a
# genuine report of the hardware, and so gets the key to seal to replaced by its own. Each step is refused by itself, and
# the last one also when the attestation key is handed to the host.
# shellcheck disable=SC2154 # bats sets stderr

load helpers

NONCE=000102030405060708090a0b0c0d0e0f

# The machine's keys, the authority's, and a processor's maker.
setup_file() {
	has_compiler && python3 -c 'import cryptography' 2>/dev/null || return 0
	cd "$BATS_FILE_TMPDIR" || return 1
	sgpu-measure keygen -o ca.pem --authority ca.crt
	sgpu-measure keygen -o ek.pem | sgpu-measure certify -k ca.pem --certificate ca.crt -o ek.crt
	sgpu-measure keygen -o ak.pem | sgpu-measure certify -k ek.pem --certificate ek.crt -o ak.crt
	compile -D_GNU_SOURCE -shared -fPIC -o fake_tsm.so "$SGPU_TOP/tests/bats/fake_tsm.c"
	mkdir amd
	python3 "$SGPU_TOP/tests/bats/fake_tsm.py" init amd
}

# machine/ is the guest of the runner, owner/ the owner's; host/ is where the attacker works.
setup() {
	requires cc jq python3 python-cryptography no-sanitizer
	cd "$BATS_TEST_TMPDIR" || return 1
	mkdir machine owner host tsm
	cp -a "$BATS_FILE_TMPDIR"/{ak.pem,ak.crt,amd,fake_tsm.so} machine
	cp "$BATS_FILE_TMPDIR"/{ca.crt,amd/ark.crt} owner
	mkdir -p root/sys/devices/system/cpu/sev
	echo 0 >root/sys/devices/system/cpu/sev/vmpl
	use_roots
	export SGPU_TSM_ROOT=$PWD/tsm SGPU_GRAMINE_ROOT=$PWD/none SGPU_PLATFORM_ROOT=$PWD/root
	sgpu-seal keygen -o owner/owner.jwk
	sgpu-seal keyinfo --owner owner/owner.jwk >owner/owners
	cp owner/owners machine
	seq 0 99 | floats >owner/x.f32
	cat >owner/job.json <<-'END'
	{ "version": 1, "manifest_id": "chain", "segments": [
	  { "segment_id": "x", "data_location_client": "x.f32", "sensitivity_level": "HIGH", "direction": "INPUT",
	    "data_type_info": { "dtype": "f32", "shape": [100] } },
	  { "segment_id": "y", "data_location_client": "y.f32", "sensitivity_level": "HIGH", "direction": "OUTPUT" } ],
	  "operations": [
	  { "gpu_operation_id": "COPY", "kernel": "copy", "arguments": { "input": "x", "output": "y" } } ] }
	END
	# The strictest policy: this program, these owners, this guest on hardware that proves it.
	sgpu-measure policy -q --build "$SGPU_BUILD/test" --owners owner/owners --at-least snp -o built.json 2>/dev/null
	jq '.platform += {measurements: ["3e" * 48], tcb: "d114000000000003"}' built.json >owner/policy.json
}

teardown() {
	[ -z "${RUNNER:-}" ] || kill -KILL "$RUNNER" 2>/dev/null || true
	[ -z "${DRIVER:-}" ] || kill "$DRIVER" 2>/dev/null || true
	sgpu_teardown
}

# start_runner [OPTION...]: in the guest, whose driver gives genuine reports; it waits for a batch in the pipe.
start_runner() {
	local i
	rm -f pipe host/quote host/response
	mkfifo pipe
	[ -n "${DRIVER:-}" ] || tsm_driver machine/amd
	FAKE_TSM_DRIVER=elsewhere LD_PRELOAD=$PWD/machine/fake_tsm.so \
		sgpu-run --device cpu --owners machine/owners --quote host/quote --nonce "$NONCE" \
		--attestation-key machine/ak.pem --certificate machine/ak.crt "$@" -o host/response pipe 2>message 3>&- &
	RUNNER=$!
	for ((i = 0; i < 2400; i++)); do
		[ ! -e host/quote ] || return 0
		kill -0 "$RUNNER" || break
		sleep 0.05
	done
	cat message >&2
	return 1
}

# ends_with STATUS: the runner does.
ends_with() {
	local ended=0
	wait "$RUNNER" || ended=$?
	RUNNER=
	[ "$ended" -eq "$1" ] || {
		echo "the runner ended with $ended" >&2
		cat message >&2
		return 1
	}
}

appraise() {
	sgpu-measure appraise -p owner/policy.json --roots owner/ca.crt --tee-roots owner/ark.crt --nonce "$NONCE" \
		--recipient owner/recipient.jwk -o owner/ear.json "$@"
}

# refused QUOTE TEXT: the owner ends with exit status 4 and that text, and has nothing to seal to.
refused() {
	echo old >owner/recipient.jwk
	run --separate-stderr -4 appraise "$1"
	assert_contains "$stderr" "$2"
	assert_no_file owner/recipient.jwk
	run -3 sgpu-seal seal -k owner/owner.jwk -r owner/recipient.jwk -o batch.tar /dev/null
	assert_no_file batch.tar
}

@test "without an attacker the quote is accepted, and the batch runs" {
	start_runner
	appraise host/quote
	sgpu-manifest pack owner/job.json | sgpu-seal seal -k owner/owner.jwk -r owner/recipient.jwk >pipe
	ends_with 0
	sgpu-seal open -k owner/owner.jwk -C owner/out host/response
	assert_same owner/out/y.f32 owner/x.f32
}

# send_refused: the host's batch, of which the runner need not read the rest.
send_refused() {
	cat host/batch >pipe || [ "$?" -eq 141 ]
	ends_with 4
}

decode() {
	basenc --base64url -d 2>/dev/null || true
}

# batch_of KEY FILE [OPTION...]: sealed to the runner with that key; its LOW payload is the file.
batch_of() {
	cat >host/job.json <<-END
	{ "version": 1, "manifest_id": "read", "segments": [
	  { "segment_id": "a", "data_location_client": "$2", "sensitivity_level": "LOW", "direction": "INPUT",
	    "data_type_info": { "dtype": "u8", "shape": [$(stat -c %s "$2")] } },
	  { "segment_id": "b", "sensitivity_level": "LOW", "direction": "OUTPUT" } ],
	  "operations": [
	  { "gpu_operation_id": "COPY", "kernel": "copy", "arguments": { "input": "a", "output": "b" } } ] }
	END
	jq -r '.eat[1]' host/quote | decode | cut -d . -f 2 | decode | jq -c .cnf.jwk >host/runner.pub.jwk
	sgpu-manifest pack --allow-outside host/job.json |
		sgpu-seal seal -q -k "$1" -r host/runner.pub.jwk "${@:3}" >host/batch
}

@test "a batch of the host is refused: the runner takes work of its owners alone" {
	# Of a key of its own, with a signature of its own, and with none.
	sgpu-seal keygen -o host/signed.jwk
	sgpu-seal keygen --x25519 -o host/bare.jwk
	for key in signed bare; do
		start_runner
		batch_of "host/$key.jwk" "$PWD/owner/x.f32"
		send_refused
		assert_contains "$(cat message)" "owner"
		assert_no_file host/response
	done
}

# reads_nothing: no byte of the attestation key is in what the host gets.
reads_nothing() {
	local line
	while read -r line; do
		run ! grep -qaF -e "$line" message host/response
	done < <(grep -v -e ----- machine/ak.pem)
}

@test "no batch reads the attestation key, be it of the host or of an owner" {
	sgpu-seal keygen -o host/host.jwk
	mkdir machine/data
	cp owner/x.f32 machine/data
	start_runner
	batch_of host/host.jwk "$PWD/machine/ak.pem" --by-reference
	send_refused
	assert_no_file host/response
	# An owner's batch is taken, and no folder is open to it, or one without the key.
	start_runner
	batch_of owner/owner.jwk "$PWD/machine/ak.pem" --by-reference
	send_refused
	assert_contains "$(cat message)" "is in a file"
	assert_no_file host/response
	start_runner --files machine/data
	batch_of owner/owner.jwk "$PWD/machine/ak.pem" --by-reference
	cat host/batch >pipe
	ends_with 5
	reads_nothing
	# An operator who opens the folder of the keys is told, and nothing is started.
	sgpu-run --info | grep -q '^  confined_files  *yes$' || skip "needs Landlock"
	run --separate-stderr -4 sgpu-run --device cpu --owners machine/owners --files machine --quote host/new \
		--nonce "$NONCE" --attestation-key machine/ak.pem --certificate machine/ak.crt -o host/response pipe
	assert_contains "$stderr" "a run can read the key 'machine/ak.pem' again"
	assert_no_file host/new
}

@test "with the attestation key the host signs another recipient under a genuine report: refused" {
	start_runner
	sgpu-seal keygen --x25519 -o host/host.jwk
	forge() {
		python3 "$SGPU_TOP/tests/bats/forge_quote.py" host/quote machine/ak.pem host/host.jwk "$@"
	}
	forge >host/forged
	refused host/forged "other claims or another key"
	run --separate-stderr -4 appraise --json host/forged
	assert_contains "$stderr" '"EBINDING"'
	# Another genuine report of this machine, over claims of its own, does not fit them either.
	mv host/quote host/first
	kill -TERM "$RUNNER"
	wait "$RUNNER" || true
	start_runner
	forge host/first >host/forged
	refused host/forged "other claims or another key"
	# Without the report there is no hardware that vouches.
	forge without >host/forged
	refused host/forged "no report of the hardware"
	appraise host/quote
	kill -TERM "$RUNNER"
}

@test "with the attestation key the host starts a guest of its own, which is not the owner's" {
	cp -a machine host/machine
	sed 's/b"\\x3e" \* 48/b"\\x66" * 48/' "$SGPU_TOP/tests/bats/fake_tsm.py" >host/other_guest.py
	sgpu-seal keygen --x25519 -o host/host.jwk
	# A program of the host says what it likes; its report says which guest said it.
	FAKE_TSM_DRIVER="python3 '$PWD/host/other_guest.py' report '$PWD/machine/amd'" LD_PRELOAD=$PWD/machine/fake_tsm.so \
		sgpu-measure quote -k machine/ak.pem --certificate machine/ak.crt --nonce "$NONCE" --device cpu \
		--runner "$SGPU_BUILD/bin/sgpu-enclave" --recipient host/host.jwk -o host/quote
	refused host/quote "the guest is not one that the policy knows"
}
