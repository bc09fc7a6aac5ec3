#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# sgpu-measure policy and appraise: what is accepted, what is refused and why, and what is written then.
# shellcheck disable=SC2154 # variables that run sets

load helpers

nonce=00112233445566778899aabbccddeeff

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return 1
	sgpu-measure keygen -o CA.pem --authority CA.crt
	sgpu-measure keygen -o EK.pem | sgpu-measure certify -k CA.pem --certificate CA.crt -o EK.crt
	sgpu-measure keygen -o AK.pem | sgpu-measure certify -k EK.pem --certificate EK.crt -o AK.crt
	sgpu-seal keygen --x25519 -o owner.jwk
	sgpu-seal keygen --x25519 -o runner.jwk
	sgpu-seal pubkey -o runner.pub.jwk runner.jwk
	sgpu-measure quote -k AK.pem --certificate AK.crt --nonce "$nonce" --recipient runner.jwk --device cpu -o quote.json
	sgpu-measure policy -q -o policy.json quote.json
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	cp -a "$BATS_FILE_TMPDIR"/. .
}

appraise() {
	sgpu-measure appraise --roots CA.crt --nonce "$nonce" "$@"
}

# wants FILTER [CLAIM]: the policy with that change refuses the quote, for that claim alone.
wants() {
	jq "$1" policy.json >changed.json
	run --separate-stderr -4 appraise --json -p changed.json quote.json
	assert_contains "$stderr" '"code":"EPOLICY"'
	[ "$(jq -r .accepted <<<"$output")" = false ]
	[ "$(jq -r '.reasons | map(.claim) | join(",")' <<<"$output")" = "$2" ]
}

@test "the policy of a quote accepts it, and gives the key to seal to" {
	run -0 --separate-stderr appraise -p policy.json --recipient key.jwk -o ear.json quote.json
	[ -z "$stderr" ]
	assert_contains "$output" "accepted"
	assert_same key.jwk runner.pub.jwk
	small_job 100
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r key.jwk | sgpu-run -k runner.jwk |
		sgpu-seal open -k owner.jwk -C out
	assert_same out/out.f32 expected.f32
}

@test "the result names the policy, and the nonce only when it was compared" {
	requires jq
	appraise -p policy.json -o ear.json quote.json
	[ "$(jq -r '.submods.runner.ear_appraisal_policy_ids[0]' ear.json)" = "tag:sgpu.dev,2026:policy#$(sha256sum <policy.json | cut -c 1-64)" ]
	[ "$(jq -r '.eat_nonce | length' ear.json)" -eq 22 ]
	[ "$(jq -r '.submods.runner.ear_trustworthiness_vector.executables' ear.json)" -eq 2 ]
	sgpu-measure appraise --roots CA.crt -p policy.json -o ear.json quote.json
	[ "$(jq -r .eat_nonce ear.json)" = null ]
	run -0 --separate-stderr appraise -p policy.json -o - quote.json
	[ "$(jq -r .submods.runner.ear_status <<<"$output")" != contraindicated ]
	run -0 --separate-stderr appraise --json -p policy.json -o - quote.json
	[ "$(jq -r .eat_profile <<<"$output")" != null ]
	[ "$(jq -r .accepted <<<"$stderr")" = true ]
}

@test "each member of a policy refuses by itself" {
	requires jq
	wants '.runner.digests = ["'"$(printf '%064d' 0)"'"]' runner.digest
	wants '.runner.digests = []' runner.digest
	wants '.runner.version = "99.0"' runner.swversion
	wants '.runner.debug = false' dbgstat
	wants '.runner.process = true' runner.measured
	wants '.runner.modules = false' runner.modules
	wants '.runner.files = false' runner.files
	wants '.runner.owners = []' runner.owners
	wants '.runner.owners = ["'"$(printf 'A%.0s' {1..43})"'"]' runner.owners
	wants '.runner.sessions = "none"' runner.sessions
	wants '.runner.confinement = true' runner.confinement
	wants '.runner.key = "ephemeral"' runner.key
	wants '.device.driver = "580.65"' device.driver
	wants '.device.confidential = true' device.confidential
	wants '.device.agreement = true' device.agreed
	wants '.platform.at_least = "gramine-direct"' platform.kind
	wants '.platform.at_least = "tdx"' platform.kind,tee
	wants '.platform.report = true' tee
	wants '.platform.migration = false' tee
	wants '.platform.migration = true' tee
	wants '.platform.measurements = ["'"$(printf '%096d' 0)"'"]' tee
	wants '.platform.tcb = "0000000000000000"' tee
	wants '.machines = ["'"$(printf '%064d' 0)"'"]' ueid
	wants '.runner.debug = false | .runner.key = "ephemeral" | .machines = []' dbgstat,runner.key,ueid
}

@test "what a policy leaves out it refuses" {
	requires jq
	for member in digests debug modules files owners sessions confinement process; do
		wants "del(.runner.$member)" "$(jq -r --arg m "$member" '{digests: "runner.digest", debug: "dbgstat",
			process: "runner.measured"}[$m] // "runner.\($m)"' <<<null)"
	done
	wants 'del(.runner.key)' runner.key
	wants 'del(.platform)' platform.kind,tee
	echo '{"version": 1}' >policy.json
	wants . "runner.digest,runner.measured,dbgstat,runner.modules,runner.files,runner.owners,runner.sessions,runner.confinement,\
runner.key,platform.kind,tee"
}

@test "a key to seal to needs a nonce, or the word that it does without" {
	local rest=(--roots CA.crt -p policy.json --recipient key.jwk)
	run --separate-stderr -2 sgpu-measure appraise "${rest[@]}" quote.json
	assert_contains "$stderr" "--recipient needs --nonce"
	assert_no_file key.jwk
	run -0 sgpu-measure appraise "${rest[@]}" --no-nonce quote.json
	assert_contains "$output" "nonce          not checked"
	assert_same key.jwk runner.pub.jwk
	run -2 appraise "${rest[@]}" --no-nonce quote.json
	run -0 sgpu-measure appraise --roots CA.crt -p policy.json quote.json
}

@test "the machine that inspect shows is one that a policy takes" {
	requires jq
	machine=$(sgpu-measure inspect quote.json | jq -r .machine)
	jq --arg machine "$machine" '.machines = [$machine]' policy.json >one.json
	run -0 appraise -p one.json quote.json
}

@test "keys and programs that the policy has revoked are refused by name, before all else" {
	requires jq
	local shown machine ak program form
	shown=$(sgpu-measure inspect quote.json)
	machine=$(jq -r .machine <<<"$shown")
	ak=$(jq -r .attestation_key <<<"$shown")
	program=$(sgpu-measure policy -q quote.json | jq -r '.runner.digests[0]')
	# They are those that the machine's administrator and the authority have of the keys.
	[ "$machine" = "$(openssl pkey -in EK.pem -pubout -outform DER | sha256sum | cut -d ' ' -f 1)" ]
	[ "$ak" = "$(openssl x509 -in AK.crt -noout -pubkey | openssl pkey -pubin -outform DER | sha256sum | cut -d ' ' -f 1)" ]
	wants '.revoked = ["'"$machine"'"]' ueid
	wants '.revoked = ["'"$ak"'"]' "attestation key"
	wants '.revoked = ["'"$program"'"]' runner.digest
	# Whatever the policy would say of the rest.
	wants '{version: 1, revoked: ["'"$program"'", "'"$machine"'"]}' ueid,runner.digest
	jq '.revoked = ["'"$ak"'"]' policy.json >changed.json
	touch key.jwk
	run --separate-stderr -4 appraise -p changed.json --recipient key.jwk -o ear.json quote.json
	assert_contains "$stderr" "the attestation key is revoked: 'attestation key' is '$ak'"
	assert_no_file key.jwk
	[ "$(jq -r '.submods.runner.ear_status' ear.json)" = contraindicated ]
	[ "$(jq -r '."tag:sgpu.dev,2026:measure#2".revoked[0].got' ear.json)" = "$ak" ]
	# One for the same machine is judged as before.
	sgpu-measure keygen -o AK2.pem | sgpu-measure certify -k EK.pem --certificate EK.crt -o AK2.crt
	sgpu-measure quote -k AK2.pem --certificate AK2.crt --nonce "$nonce" --recipient runner.jwk --device cpu -o second.json
	run -0 appraise -p changed.json second.json
	jq '.revoked = ["'"$machine"'"]' policy.json >changed.json
	run -4 appraise -p changed.json second.json
	# A key has one fingerprint, however its file writes the point.
	for form in compressed hybrid; do
		openssl pkey -in EK.pem -ec_conv_form "$form" -out short.pem
		run ! cmp -s short.pem EK.pem
		chmod 0600 short.pem
		rm -f AK2.*
		openssl req -new -subj / -key short.pem | sgpu-measure certify -k CA.pem --certificate CA.crt -o short.crt
		sgpu-measure keygen -o AK2.pem | sgpu-measure certify -k short.pem --certificate short.crt -o AK2.crt
		sgpu-measure quote -k AK2.pem --certificate AK2.crt --nonce "$nonce" \
			--recipient runner.jwk --device cpu -o third.json
		run --separate-stderr -4 appraise -p changed.json third.json
		assert_contains "$stderr" "the machine's endorsement key is revoked"
	done
}

@test "what is no quote is named by its file" {
	requires jq
	small_job 10
	sgpu-manifest pack job.json >job.batch
	jq -c 'del(.eat)' quote.json >part.json
	for verb in "appraise -p policy.json --roots CA.crt" "verify --roots CA.crt" inspect policy; do
		# shellcheck disable=SC2086 # a verb and its options
		run --separate-stderr -1 sgpu-measure $verb job.batch
		assert_contains "$stderr" "error: 'job.batch' is a batch or a response, not a quote"
		# shellcheck disable=SC2086
		run --separate-stderr -1 sgpu-measure $verb part.json
		assert_contains "$stderr" "error: 'part.json': quote: 'eat'"
	done
	run --separate-stderr -1 sgpu-measure inspect <policy.json
	assert_contains "$stderr" "error: 'standard input': quote: "
}

@test "a quote without a recipient has no key to give" {
	requires jq
	sgpu-measure quote -k AK.pem --certificate AK.crt --nonce "$nonce" --device cpu -o bare.json
	jq 'del(.runner.key)' policy.json >nothing.json
	run -1 appraise -p nothing.json --recipient key.jwk bare.json
	assert_no_file key.jwk
}

@test "an AK that was certified too long ago is refused" {
	sleep 2
	requires jq
	jq '.certificate_age = 1' policy.json >young.json
	run --separate-stderr -4 appraise -p young.json quote.json
	assert_contains "$stderr" "certified too long ago"
	jq '.certificate_age = 86400' policy.json >old.json
	appraise -p old.json quote.json
}

@test "a refusal gives every reason, no key, and a result that says so" {
	requires jq
	echo old >key.jwk
	appraise -p policy.json -o ear.json quote.json
	[ "$(jq -r .submods.runner.ear_status ear.json)" != contraindicated ]
	jq '.runner.debug = false | .machines = [] | .runner.version = "99"' policy.json >strict.json
	run --separate-stderr -4 appraise -p strict.json --recipient key.jwk -o ear.json quote.json
	[ "$(grep -c '^sgpu-measure: error: ' <<<"$stderr")" -eq 3 ]
	assert_contains "$output" "policy         not accepted"
	assert_no_file key.jwk
	[ "$(jq -r .submods.runner.ear_status ear.json)" = contraindicated ]
	run -4 appraise -p strict.json --recipient new.jwk quote.json
	assert_no_file new.jwk
}

# older: what an earlier run wrote, which said "accepted".
older() {
	appraise -p policy.json --recipient key.jwk -o ear.json quote.json
	[ -s key.jwk ] && [ -s ear.json ]
}

@test "an older key goes also behind a link of the user's own, and no file behind another user's" {
	older
	mkdir keys
	mv key.jwk keys/
	ln -s keys/key.jwk current.jwk
	run -3 appraise -p no-such-file --recipient current.jwk quote.json
	[ -L current.jwk ]
	assert_no_file keys/key.jwk
	requires root setpriv
	echo mine >keys/file
	chmod 711 "$TEST_SHM"
	mkdir "$TEST_SHM/shared"
	chmod 1777 "$TEST_SHM/shared"
	setpriv --reuid=65534 --regid=65534 --clear-groups ln -s "$PWD/keys" "$TEST_SHM/shared/way"
	for option in --recipient -o; do
		run --separate-stderr -4 appraise -p policy.json $option "$TEST_SHM/shared/way/file" quote.json
		assert_contains "$stderr" "of another user"
		[ "$(cat keys/file)" = mine ]
	done
	run -4 appraise -p policy.json -o "$TEST_SHM/shared/way/none/file" quote.json
	assert_no_file keys/none
}

@test "an older key and an older result are gone whatever ends the run" {
	local both=(--recipient key.jwk -o ear.json)
	older
	run -2 appraise "${both[@]}" quote.json
	assert_no_file key.jwk ear.json
	older
	run -2 sgpu-measure appraise -p policy.json "${both[@]}" quote.json
	assert_no_file key.jwk ear.json
	older
	run -2 appraise -p policy.json "${both[@]}" quote.json more
	assert_no_file key.jwk ear.json
	older
	run -3 appraise -p no-such-file "${both[@]}" quote.json
	assert_no_file key.jwk ear.json
	older
	run -3 appraise -p policy.json "${both[@]}" no-such-file
	assert_no_file key.jwk ear.json
	older
	run -3 sgpu-measure appraise --roots no-such-file --nonce "$nonce" -p policy.json "${both[@]}" quote.json
	assert_no_file key.jwk ear.json
	older
	run -1 appraise -p CA.crt "${both[@]}" quote.json
	assert_no_file key.jwk ear.json
	older
	run -4 appraise --tee-roots CA.crt -p policy.json "${both[@]}" quote.json
	assert_no_file key.jwk ear.json
	# A fault of the command line, before or behind their names: a script's nonce may be empty.
	older
	run -2 sgpu-measure appraise --nonce "" --roots CA.crt -p policy.json "${both[@]}" quote.json
	assert_no_file key.jwk ear.json
	older
	run -2 appraise -p policy.json "${both[@]}" --max-age never --no-such-option quote.json
	assert_no_file key.jwk ear.json
	older
	ln -s key.jwk link
	run -4 sgpu-measure appraise --roots CA.crt --nonce "${nonce}00" -p policy.json --recipient link -o ear.json quote.json
	assert_no_file key.jwk ear.json
}

@test "what is read is not taken for an older result" {
	for name in policy.json quote.json CA.crt; do
		run --separate-stderr -2 appraise -p policy.json --recipient "$name" quote.json
		assert_contains "$stderr" "both input and output"
		run -2 appraise -p policy.json -o "./$name" quote.json
		[ -s "$name" ]
	done
	run -2 appraise -p policy.json --recipient CA.pem a CA.pem
	[ -s CA.pem ]
}

@test "what does not verify is not appraised" {
	requires jq
	run --separate-stderr -4 sgpu-measure appraise --json --roots CA.crt --nonce "${nonce}00" -p policy.json \
		--recipient key.jwk -o ear.json quote.json
	assert_contains "$stderr" '"ENONCE"'
	assert_no_file key.jwk ear.json
	[ -z "$output" ]
	jq -c '.eat[1] |= "A" + .' quote.json >broken.json
	run -1 appraise -p policy.json --recipient key.jwk broken.json
	assert_no_file key.jwk
}

@test "a policy that is malformed is told with its place, and nothing is appraised" {
	requires jq
	: >empty
	printf '{"version": 1' >open
	echo '{"version": 2}' >later
	echo '{"version": 1, "runer": {}}' >unknown
	echo '{"version": 1, "version": 1}' >twice
	echo '{"version": 1, "runner": {"digests": ["00"]}}' >short
	echo '{"version": 1, "runner": {"digests": "00"}}' >text
	echo '{"version": 1, "runner": {"debug": "no"}}' >word
	echo '{"version": 1, "runner": {"key": "any"}}' >key
	echo '{"version": 1, "platform": {"at_least": "sev"}}' >platform
	echo '{"version": 1, "platform": {"report": false, "tcb": "0000000000000000"}}' >both
	echo '{"version": 1, "certificate_age": -1}' >negative
	echo '{"version": 1, "device": {"driver": "new"}}' >driver
	head -c 10000 /dev/urandom >noise
	head -c 1000000 /dev/zero | tr '\0' ' ' >long
	for file in empty open later unknown twice short text word key platform both negative driver noise long CA.crt; do
		run --separate-stderr -1 appraise -p "$file" --recipient key.jwk -o ear.json quote.json
		assert_contains "$stderr" "$file"
		[ -z "$output" ]
		assert_no_file ear.json key.jwk
	done
}

@test "a policy from a quote says that nothing was verified" {
	run --separate-stderr -0 sgpu-measure policy quote.json
	assert_contains "$stderr" "nothing of the quote was verified"
	assert_contains "$output" '"digests"'
	run -1 sgpu-measure policy -o new.json CA.crt
	assert_no_file new.json
	run -3 sgpu-measure policy -o /dev/full quote.json
}

# A folder as a build has it, with this runner.
fake_build() {
	mkdir -p build/bin
	cp "$SGPU_BUILD/bin/sgpu-enclave" build/bin/
}

@test "the policy of a build has its digests, and wants them of a process that nobody looks into" {
	requires jq
	fake_build
	sgpu-measure policy -q --build build --owners any --at-least plain -o from-build.json
	[ "$(jq -c .runner.digests from-build.json)" = "$(jq -c .runner.digests policy.json)" ]
	[ "$(jq -c '.runner | [.debug, .modules, .files, .confinement, .owners, .process, .key]' from-build.json)" = \
		'[false,false,false,true,"any",true,"ephemeral"]' ]
	[ "$(jq -c .device.code from-build.json)" = '[]' ]
	# A quote that sgpu-measure made is of a file, and refused for that.
	run --separate-stderr -4 appraise -p from-build.json quote.json
	assert_contains "$stderr" "the digest is of a file"
	run ! grep -q "not a program that the policy knows" <<<"$stderr"
}

@test "the policy of a build names owners, and the platforms that a report proves" {
	requires jq
	fake_build
	printf '%s\n# ours\n%sA\n' "$(printf 'A%.0s' {1..43})" "$(printf 'B%.0s' {1..42})" >owners
	run --separate-stderr -0 sgpu-measure policy --build build --owners owners -o owned.json
	assert_contains "$stderr" "measurements"
	[ "$(jq -c '.runner.owners | length' owned.json)" -eq 2 ]
	[ "$(jq -c 'has("platform")' owned.json)" = false ]
	run -4 --separate-stderr appraise -p owned.json quote.json
	assert_contains "$stderr" "the runner takes work of anybody"
	assert_contains "$stderr" "no report of the TEE proves the platform"
	sgpu-measure policy -q --build build --owners owners --at-least plain -o plain.json
	[ "$(jq -c .platform plain.json)" = '{"at_least":"plain"}' ]
	sgpu-seal keygen -o mine.jwk
	run --separate-stderr -1 sgpu-measure policy --build build --owners mine.jwk -o new.json
	run -1 grep -qF -e "$(jq -r .k mine.jwk)" <<<"$stderr"
	run -3 sgpu-measure policy --build build --owners no-such-file -o new.json
	run -2 sgpu-measure policy --build build --owners owners -o owners
	assert_no_file new.json
}

@test "device code is measured in the file of a build, without a GPU" {
	requires jq
	[ -e "$SGPU_BUILD/lib/sgpu/sgpu-cuda.so" ] || skip "needs a build with the CUDA device"
	run -0 --separate-stderr sgpu-measure policy --build "$SGPU_BUILD" --owners any
	[ "$(jq -r '.device.code | length' <<<"$output")" -eq 1 ]
	run ! grep -q "will not be accepted" <<<"$stderr"
}

@test "a build that is none is told" {
	run -3 sgpu-measure policy --build no-such-folder --owners any
	mkdir -p broken/bin broken/lib/sgpu
	echo run >broken/bin/sgpu-enclave
	echo 'no code' >broken/lib/sgpu/sgpu-cuda.so
	run --separate-stderr -1 sgpu-measure policy --build broken --owners any -o new.json
	assert_contains "$stderr" "sgpu-cuda.so"
	: >broken/lib/sgpu/sgpu-cuda.so
	run -1 sgpu-measure policy --build broken --owners any -o new.json
	assert_no_file new.json
}

@test "what makes no sense is a usage error" {
	run -2 sgpu-measure policy --build x quote.json
	run -2 sgpu-measure policy a b
	run --separate-stderr -2 sgpu-measure policy --build x
	assert_contains "$stderr" "the file of owners is missing"
	run -2 sgpu-measure policy --build x --owners any --at-least sev
	run -2 sgpu-measure policy --owners any quote.json
	run -2 sgpu-measure policy --at-least plain quote.json
	run -2 sgpu-measure policy -o quote.json quote.json
	run -2 appraise quote.json
	run -2 sgpu-measure appraise -p policy.json quote.json
	run -2 appraise -p - -
	run -2 appraise -p policy.json -o x --recipient x quote.json
	ln -s x dangling
	run -2 appraise -p policy.json -o dangling --recipient x quote.json
	run -2 appraise -p policy.json -o policy.json quote.json
	run -2 appraise -p policy.json --recipient CA.crt quote.json
	run -2 appraise -p policy.json a b
	run -3 appraise -p no-such-file quote.json
	run -3 appraise -p policy.json -o /dev/full quote.json
	run -3 appraise -p policy.json --recipient /dev/full quote.json
	run -3 appraise -p policy.json --recipient CA.crt/folder quote.json
	sed "/END CERTIFICATE/q" AK.crt >leaf.crt
	run --separate-stderr -4 sgpu-measure appraise --roots leaf.crt -p policy.json quote.json
	run -3 bash -c "sgpu-measure appraise --roots CA.crt -p policy.json quote.json >/dev/full"
	assert_no_file x
}

@test "the signed digests of a release give the policy of its build, and no others do" {
	local member
	sgpu-seal keygen -q -o project.jwk
	sgpu-seal pubkey -o project.pub.jwk project.jwk
	chmod go-w project.pub.jwk
	sgpu-measure release --build "$SGPU_BUILD" -k project.jwk -o digests.json
	sgpu-measure policy -q --build "$SGPU_BUILD" --owners any -o of-build.json
	sgpu-measure policy -q --release digests.json -k project.pub.jwk --owners any -o of-release.json
	cmp of-build.json of-release.json
	jq -r .payload digests.json | tr -- -_ +/ | base64 -d 2>/dev/null | jq -e --argjson size \
		"$(stat -c %s "$SGPU_BUILD/bin/sgpu-enclave")" '.files[0] | .name == "sgpu-enclave" and .size == $size'
	refused() {
		run --separate-stderr "$1" sgpu-measure policy -q --release "${2:-changed.json}" -k "${4:-project.pub.jwk}" --owners any
		assert_contains "$stderr" "$3"
		[ -z "$output" ]
	}
	# Another key, another payload, the last byte of the signature, a signature for something else.
	sgpu-seal keygen -q -o other.jwk
	refused -4 digests.json "is not signed by" other.jwk
	sgpu-measure release --build "$SGPU_BUILD" -k other.jwk -o other.json
	refused -4 other.json "is not signed by"
	jq '.payload |= sub("^."; "f")' digests.json >changed.json
	refused -4 changed.json "does not verify"
	jq '.signatures[0].signature |= (.[:-3] + (if .[-3:-2] == "A" then "B" else "A" end) + .[-2:])' digests.json >changed.json
	refused -4 changed.json "does not verify"
	jq '.signatures = []' digests.json >changed.json
	refused -4 changed.json "is not signed by"
	for member in payload signatures; do
		jq "del(.$member)" digests.json >changed.json
		run ! sgpu-measure policy -q --release changed.json -k project.pub.jwk --owners any
	done
	jq '.more = 1' digests.json >changed.json
	refused -1 changed.json "unknown member 'more'"
	chmod go+w project.pub.jwk
	refused -4 digests.json "others can write to key"
	run -2 sgpu-measure policy --release digests.json --owners any
	run -2 sgpu-measure policy --release digests.json -k project.jwk --build "$SGPU_BUILD" --owners any
	run -2 sgpu-measure release --build "$SGPU_BUILD"
	# make release writes them beside the source's archive, and says so if it has no key.
	run -0 make -s -C "$SGPU_TOP" -n release RELEASE_KEY=project.jwk DEPS=0
	assert_contains "$output" ".digests.json"
}
