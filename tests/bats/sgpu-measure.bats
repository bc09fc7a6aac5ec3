#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# sgpu-measure: quotes: making, verifying, showing them; what a machine can prove; registers of TDX.
# shellcheck disable=SC2030,SC2031,SC2154 # variables that run sets, and those of one test

load helpers

nonce=00112233445566778899aabbccddeeff

# An authority, a machine with an AK, an owner and a runner: once for the file, since nothing here changes them.
setup_file() {
	cd "$BATS_FILE_TMPDIR" || return 1
	sgpu-measure keygen -o CA.pem --authority CA.crt
	sgpu-measure keygen -o EK.pem | sgpu-measure certify -k CA.pem --certificate CA.crt -o EK.crt
	sgpu-measure keygen -o AK.pem | sgpu-measure certify -k EK.pem --certificate EK.crt -o AK.crt
	sgpu-seal keygen --x25519 -o owner.jwk
	sgpu-seal pubkey -o owner.pub.jwk owner.jwk
	sgpu-seal keygen --x25519 -o runner.jwk
	sgpu-measure quote -k AK.pem --certificate AK.crt --nonce "$nonce" --recipient runner.jwk --device cpu -o quote.json
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	cp -a "$BATS_FILE_TMPDIR"/. .
}

quote() {
	sgpu-measure quote -k AK.pem --certificate AK.crt --device cpu "$@"
}

verify() {
	sgpu-measure verify --roots CA.crt "$@"
}

# base64url without padding, and back.
encode() {
	basenc --base64url -w 0 | tr -d =
}

decode() {
	local text
	text=$(tr -d '\n')
	while [ $((${#text} % 4)) -ne 0 ]; do
		text=$text=
	done
	printf %s "$text" | basenc --base64url -d
}

# claims QUOTE: what was signed. forge QUOTE FILTER: the same quote with altered claims, and the old signature.
claims() {
	jq -r '.eat[1]' "$1" | decode | cut -d . -f 2 | decode
}

forge() {
	local token payload
	token=$(jq -r '.eat[1]' "$1" | decode)
	payload=$(claims "$1" | jq -c "$2" | tr -d '\n' | encode)
	token=$(printf '%s.%s.%s' "${token%%.*}" "$payload" "${token##*.}" | encode)
	jq -c --arg token "$token" '.eat[1] = $token' "$1"
}

# refused CODE ARGUMENTS...: verify ends with 4 and that code, and says nothing on standard output.
refused() {
	local code=$1
	shift
	run --separate-stderr -4 sgpu-measure verify --json "$@"
	assert_contains "$stderr" "\"code\":\"$code\""
	[ -z "$output" ]
}

# owned: a quote of a run, which names an owner. The run fails, since no batch comes.
owned() {
	run ! sgpu-run --device cpu --quote owned.json --nonce "$nonce" --attestation-key AK.pem --certificate AK.crt \
		--owner owner.pub.jwk -o response /dev/null
}

# ---- quote and verify ----

@test "a quote verifies with its nonce and its owner's key, and each check is told" {
	owned
	run -0 --separate-stderr verify --nonce "$nonce" --owner owner.jwk owned.json
	[ -z "$stderr" ]
	[ "${#lines[@]}" -eq 9 ]
	for check in signature chain time nonce owner binding; do
		grep -Eq "^$check +verified: " <<<"$output"
	done
	for check in tsm_report sgx_quote gpu_evidence; do
		grep -Eq "^$check +absent: .+" <<<"$output"
	done
}

@test "verify reads standard input, and its JSON has checks and claims" {
	requires jq
	run -0 --separate-stderr bash -c "sgpu-measure verify --json --roots CA.crt --nonce $nonce - <quote.json"
	[ "$(jq -r .verified <<<"$output")" = true ]
	[ "$(jq -r .checks.nonce.state <<<"$output")" = verified ]
	[ "$(jq -r .checks.owner.state <<<"$output")" = "not checked" ]
	[ "$(jq -r .checks.tsm_report.state <<<"$output")" = absent ]
	[ -n "$(jq -r .checks.tsm_report.text <<<"$output")" ]
	[ "$(jq -cS .claims <<<"$output")" = "$(claims quote.json | jq -cS .)" ]
}

@test "a quote of version 1 is refused by its type" {
	requires jq
	local old=$SGPU_TOP/tests/fuzz/corpus/quote/cpu
	# One that only says to be of that version, too.
	jq -c '.eat[0] |= sub("#2"; "#1")' quote.json >label.json
	forge label.json '.dbgstat = 5 | .ueid = "A"' >hostile.json
	echo '{"version": 1}' >policy.json
	for quote in "$old" label.json hostile.json; do
		for verb in "verify --roots CA.crt" "appraise -p policy.json --roots CA.crt" policy inspect; do
			# shellcheck disable=SC2086 # it is several words
			run --separate-stderr -1 sgpu-measure $verb "$quote"
			assert_contains "$stderr" "'eat' has the type"
			[ -z "$output" ]
		done
	done
}

@test "another nonce is ENONCE" {
	refused ENONCE --roots CA.crt --nonce "${nonce}00" quote.json
	refused ENONCE --roots CA.crt --nonce ff112233445566778899aabbccddeeff quote.json
	run --separate-stderr -4 verify --nonce "${nonce}00" quote.json
	assert_contains "$stderr" "made for another nonce"
}

@test "another owner, or none where one is demanded, is EBINDING" {
	owned
	refused EBINDING --roots CA.crt --owner runner.jwk owned.json
	refused EBINDING --roots CA.crt --owner owner.jwk quote.json
	verify quote.json
}

@test "another root is ECHAIN" {
	sgpu-measure keygen -o other.pem --authority other.crt
	refused ECHAIN --roots other.crt quote.json
	assert_contains "$output$stderr" "leads to none of the roots given"
	# One of several is enough.
	cat other.crt CA.crt >both.crt
	sgpu-measure verify --roots both.crt quote.json
}

@test "roots and a policy that others can write to decide nothing" {
	echo '{"version": 1}' >policy
	for mode in 666 664; do
		chmod $mode CA.crt
		run -4 --separate-stderr sgpu-measure verify --roots CA.crt --nonce "$nonce" quote.json
		assert_contains "$stderr" "others can write to 'CA.crt'"
		chmod 644 CA.crt
		chmod $mode policy
		run -4 --separate-stderr sgpu-measure appraise -p policy --roots CA.crt --nonce "$nonce" quote.json
		assert_contains "$stderr" "others can write to 'policy'"
		chmod 644 policy
	done
	requires root
	chown 65534 CA.crt
	run -4 --separate-stderr sgpu-measure verify --roots CA.crt --nonce "$nonce" quote.json
	assert_contains "$stderr" "(user 65534"
	chown 0 CA.crt
	chown 65534 policy
	run -4 --separate-stderr sgpu-measure appraise -p policy --roots CA.crt --nonce "$nonce" quote.json
	assert_contains "$stderr" "(user 65534"
}

@test "an old quote is EEXPIRED, and how old it may be can be said" {
	sleep 2
	refused EEXPIRED --roots CA.crt --max-age 1s quote.json
	verify --max-age 1h quote.json
}

@test "altered claims are ESIGNATURE" {
	requires jq
	forge quote.json '.iat += 1' >forged.json
	refused ESIGNATURE --roots CA.crt forged.json
	forge quote.json '.submods.runner.dbgstat = "disabled"' >forged.json
	refused ESIGNATURE --roots CA.crt forged.json
	# The same bytes, signed by nobody new, still verify: the forging itself does no harm.
	forge quote.json . >same.json
	verify same.json
}

@test "a record that was moved from elsewhere is EBINDING" {
	requires jq
	jq -c '. + {"gramine": ["application/vnd.sgpu.gramine-quote+json", "e30", 4]}' quote.json >mixed.json
	refused EBINDING --roots CA.crt mixed.json
}

@test "roots for the hardware's report demand one" {
	refused EPOLICY --roots CA.crt --tee-roots CA.crt quote.json
	run -2 verify --tee-certificates CA.crt quote.json
}

@test "the private half of a key is not in the quote, and its public half is" {
	requires jq
	d=$(jq -r .d runner.jwk)
	claims quote.json >plain
	run ! grep -q -- "$d" plain
	[ "$(jq -r .cnf.jwk.x plain)" = "$(jq -r .x runner.jwk)" ]
	[ "$(jq -r '.submods.runner[.eat_profile].key' plain)" = stored ]
	[ "$(jq -r '.submods.runner[.eat_profile].measured' plain)" = file ]
	sgpu-seal pubkey -o runner.pub.jwk runner.jwk
	quote --nonce "$nonce" --recipient runner.pub.jwk -o q2
	[ "$(claims q2 | jq -c .cnf)" = "$(jq -c .cnf plain)" ]
}

@test "the runner's digest is that of the program beside it, or of the one named" {
	requires jq
	own() {
		claims "$1" | jq -r '.submods.runner[.eat_profile].digest' | decode | od -An -tx1 -v | tr -d ' \n'
	}
	beside=$(sgpu-measure policy -q --build "$SGPU_BUILD" --owners any | jq -r '.runner.digests[0]')
	[ "${#beside}" -eq 64 ]
	[ "$(own quote.json)" = "$beside" ]
	printf 'another program' >program
	quote --nonce "$nonce" --runner program -o other.json
	# By another implementation of KT128, customisation "sgpu measure v1".
	[ "$(own other.json)" = f9e9362ce6633b5e833e50c5976d55a4863855932b9e5eb6508416567e5a0a08 ]
	run --separate-stderr -3 quote --nonce "$nonce" --runner no-such-program -o none.json
	assert_no_file none.json
}

# fake_gramine [REPORT_DATA]: a tree as Gramine shows it. Its quote is over what was written, or over these bytes.
fake_gramine() {
	rm -rf gramine
	mkdir gramine
	printf dcap >gramine/attestation_type
	: >gramine/user_report_data
	mkfifo gramine/quote
	{
		while [ "$(stat -c %s gramine/user_report_data)" -lt 64 ]; do sleep 0.02; done
		{
			head -c 368 /dev/zero
			if [ -n "${1:-}" ]; then printf %s "$1" | unhex; else cat gramine/user_report_data; fi
			head -c 64 /dev/zero
		} >gramine/quote
	} 3>&- &
	use_roots
	export SGPU_GRAMINE_ROOT=$PWD/gramine
}

@test "the platform's record is made over the AK and all claims, as the page says" {
	requires jq openssl
	fake_gramine
	quote --nonce "$nonce" -o sgx.json
	wait
	ak=$(openssl pkey -in AK.pem -pubout -outform DER | sha256sum | cut -c 1-64)
	hash=$(claims sgx.json | jq -cjS 'del(.[.eat_profile].records, .[.eat_profile].absent)' | sha512sum | cut -c 1-128)
	data=$({ printf 'sgpu quote v1\0' && printf %s "$ak$hash" | unhex; } | sha512sum | cut -c 1-128)
	[ "$(od -An -tx1 -v gramine/user_report_data | tr -d ' \n')" = "$data" ]
	run -0 verify --nonce "$nonce" sgx.json
	assert_contains "$output" "sgx_quote      not checked"
	run -0 sgpu-measure inspect sgx.json
	assert_contains "$output" '"label": "gramine"'
	[ "$(sgpu-measure inspect --json sgx.json | jq -r '.records[] | select(.label == "gramine") | .value' | decode |
		jq -r .quote | decode | od -An -tx1 -v -j 368 -N 64 | tr -d ' \n')" = "$data" ]
	# Without the record that the claims name, and with another.
	jq -c 'del(.gramine)' sgx.json >without.json
	refused EBINDING --roots CA.crt without.json
	jq -c --arg v "$(printf {} | encode)" '.gramine[1] = $v' sgx.json >other.json
	refused EBINDING --roots CA.crt other.json
}

@test "a platform's record over other bytes is not put into a quote" {
	fake_gramine "$(printf '%0128d' 0)"
	run --separate-stderr -4 quote --json --nonce "$nonce" -o sgx.json
	wait
	assert_contains "$stderr" '"EBINDING"'
	assert_no_file sgx.json
}

@test "hostile quotes are malformed, whoever reads them" {
	requires jq
	: >empty
	printf '{}' >braces
	printf '[' >open
	head -c 2000000 /dev/zero | tr '\0' ' ' >long
	head -c 10000 /dev/urandom >noise
	jq -c '.eat[1] = "a.b.c"' quote.json >token
	jq -c '.eat[2] = 8' quote.json >kind
	jq -c '.eat[0] = "text/plain"' quote.json >media
	jq -c '.unknown = ["a/b", "", 4]' quote.json >unknown
	sed 's/^{/{"eat":["a","b",4],/' quote.json >twice
	forge quote.json '.surprise = 1' >member
	forge quote.json 'del(.eat_nonce)' >missing
	forge quote.json '.eat_nonce = "AAAA"' >short
	forge quote.json '.iat = -1' >negative
	forge quote.json '.submods.runner.dbgstat = "off"' >word
	for file in empty braces open long noise token kind media unknown twice member missing short negative word CA.crt; do
		run --separate-stderr -1 verify "$file"
		[ "$(wc -l <<<"$stderr")" -le 2 ]
		[ -z "$output" ]
		run -1 sgpu-measure inspect "$file"
	done
}

@test "a quote appears when it is whole, and not before" {
	run -3 quote --nonce "$nonce" -o /dev/full
	run -3 quote --nonce "$nonce" -o AK.crt/folder
	run -3 bash -c "sgpu-measure quote -k AK.pem --certificate AK.crt --nonce $nonce --device cpu >/dev/full"
	run -3 quote --nonce "$nonce" --device cuda:99 -o new.json
	assert_no_file new.json
	chmod 0644 AK.pem
	run -4 quote --nonce "$nonce" -o new.json
	chmod 0600 AK.pem
	sgpu-measure keygen -o other.pem >/dev/null
	run --separate-stderr -4 sgpu-measure quote --json -k other.pem --certificate AK.crt --nonce "$nonce" -o new.json
	assert_contains "$stderr" '"EKEY"'
	sgpu-seal keygen -o symmetric.jwk
	run -1 quote --nonce "$nonce" --recipient symmetric.jwk -o new.json
	run -1 quote --nonce "$nonce" --recipient AK.crt -o new.json
	assert_no_file new.json
}

@test "what makes no sense is a usage error" {
	run -2 quote
	run -2 quote --nonce 00112233445566
	run -2 quote --nonce "$(printf '%0130d' 0)"
	run -2 quote --nonce 001122334455667
	run -2 quote --nonce 00112233445566gg
	run -2 quote --nonce "$nonce" extra
	run -2 quote --nonce "$nonce" -o AK.crt
	run -2 quote --nonce "$nonce" -o runner.jwk --recipient runner.jwk
	run -2 quote --nonce "$nonce" --device toaster
	run -2 sgpu-measure quote --certificate AK.crt --nonce "$nonce"
	run -2 sgpu-measure quote -k AK.pem --nonce "$nonce"
	run -2 sgpu-measure quote -k - --certificate AK.crt --recipient - --nonce "$nonce"
	run -2 sgpu-measure verify quote.json
	run -2 verify a b
	run -2 verify --max-age 0s quote.json
	run -2 verify --max-age 10ms quote.json
	run -2 verify --nonce xyz quote.json
	run -2 sgpu-measure verify --roots -
	run -2 sgpu-measure verify --unknown
	run -2 sgpu-measure inspect a b
	run -3 verify no-such-file
	run -3 sgpu-measure verify --roots no-such-file quote.json
	run -1 sgpu-measure verify --roots quote.json quote.json
	run -3 sgpu-measure inspect no-such-file
	run -3 bash -c 'sgpu-measure verify --roots CA.crt quote.json >/dev/full'
	run -3 bash -c 'sgpu-measure verify --json --roots CA.crt quote.json >/dev/full'
	run -3 bash -c 'sgpu-measure inspect quote.json >/dev/full'
}

# ---- inspect ----

@test "inspect says that nothing was verified, first of all" {
	run -0 sgpu-measure inspect quote.json
	[ "${lines[1]}" = '  "verified": false,' ]
	[ "$(jq -r .claims.eat_nonce <<<"$output" | decode | od -An -tx1 -v | tr -d ' \n')" = "$nonce" ]
	# Nobody knows how a file will be run: the worse is said.
	jq -e '.claims.submods.runner | .dbgstat == "enabled" and
		(."tag:sgpu.dev,2026:measure#2" | .measured == "file" and .modules and .key == "stored")' <<<"$output"
	run -0 sgpu-measure inspect --json quote.json
	assert_contains "$output" '"verified":false'
	jq -j .authority.pem <<<"$output" | cmp - <(openssl x509 -in CA.crt)
	[ "$(jq -r .authority.sha256 <<<"$output")" = "$(openssl x509 -in CA.crt -outform DER | sha256sum | cut -d ' ' -f 1)" ]
}

@test "inspect shows a quote that would not verify" {
	requires jq
	forge quote.json '.eat_nonce = "_____________w"' >forged.json
	run -0 sgpu-measure inspect forged.json
	assert_contains "$output" '"eat_nonce": "_____________w"'
	# A reason that is cut inside of a character.
	forge quote.json ".[.eat_profile].absent.gramine = \"é\" * 200" >long.json
	run -0 sgpu-measure inspect --json long.json
	[ "$(jq -r '.records[] | select(.label == "gramine").absent | .[:2]' <<<"$output")" = "??" ]
}

@test "control characters of a quote do not reach the terminal" {
	requires jq
	evil='\u001b[31mred\u009b2J\u007f\nnonce            forged'
	own='."tag:sgpu.dev,2026:measure#2"'
	forge quote.json "$own.platform.seen = \"$evil\" | $own.absent.gramine = \"$evil\" |
		.submods.runner.swname = \"$evil\" | .submods.cpu$own.name = \"$evil\" | .submods.cpu$own.agreement = \"$evil\"" >evil.json
	sgpu-measure inspect evil.json >shown
	run ! grep -qP '[\x00-\x09\x0b-\x1f\x7f-\xff]' shown
	run ! grep -q '^nonce' shown
	sgpu-measure inspect --json evil.json >shown
	run ! grep -qP '[\x00-\x09\x0b-\x1f\x80-\xff]' shown
	run --separate-stderr -4 verify evil.json
	run ! grep -qP '[\x00-\x09\x0b-\x1f\x7f-\xff]' <<<"$stderr"
}

# plain: what comes through it is printable ASCII alone.
plain() {
	! grep -qaP '[^\x20-\x7e\n]'
}

@test "8-bit control characters and overrides of direction are escaped, in names and in quotes" {
	requires jq
	forge quote.json '.submods.runner.swname = "a\u202eb\u009bc"' >odd.json
	sgpu-measure inspect odd.json | plain
	dir=$(printf 'd\xe2\x80\xae\x9b31m')
	mkdir "$dir"
	cp "$SGPU_BUILD"/bin/sgpu-{measure,run} "$dir"
	"./$dir/sgpu-run" --info 2>/dev/null | plain
	for verb in inspect "verify --roots" "policy --build x --owners" "appraise -p"; do
		# shellcheck disable=SC2086
		run --separate-stderr sgpu-measure $verb "$dir/none"
		[ "$status" -ne 0 ]
		plain <<<"$stderr"
	done
}
