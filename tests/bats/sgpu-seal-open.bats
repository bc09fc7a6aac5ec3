#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# sgpu-seal open: which responses it believes, and where their outputs go.
# shellcheck disable=SC2154 # bats sets stderr

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	make_keys
	small_job 5000
	sgpu-manifest pack job.json >packed
}

@test "an X25519 owner opens the response with its private key" {
	sgpu-seal keygen --x25519 -o me.jwk
	sgpu-seal seal -k me.jwk -r runner.pub.jwk packed | sgpu-run -k runner.jwk | sgpu-seal open -k me.jwk -C out
	assert_same out/out.f32 expected.f32
}

@test "secret outputs are for their owner alone, public ones are not" {
	umask 022
	run_job
	run -0 sgpu-seal open -k owner.jwk -C out response
	[ "$(stat -c %a out/out.f32)" = 600 ]
	[ "$(stat -c %a out/bias.copy.f32)" = 644 ]
	[ "$(stat -c %a out)" = 700 ]
}

@test "a batch without secrets goes unsealed, and its response opens without a key" {
	sed 's/HIGH/LOW/' job.json >low.json
	sgpu-manifest pack low.json >low
	sgpu-stage load --files . low | sgpu-run >response
	run -0 --separate-stderr sgpu-seal open -C out response
	assert_contains "$stderr" "no mac"
	assert_same out/out.f32 expected.f32
	run -4 sgpu-seal open -k owner.jwk -C out2 response
	assert_no_file out2
}

@test "one output goes to a file or to standard output" {
	run_job
	run -0 sgpu-seal open -k owner.jwk --only result -o one response
	assert_same one expected.f32
	[ "$(stat -c %a one)" = 600 ]
	sgpu-seal open -k owner.jwk --only bias_copy response | cmp - bias.f32
	sgpu-seal open -k owner.jwk --only result response >two
	assert_same two expected.f32
}

@test "--only with a folder writes those alone" {
	run_job
	run -0 sgpu-seal open -k owner.jwk --only bias_copy -C out response
	[ "$(ls out)" = bias.copy.f32 ]
}

@test "more outputs than files that may be open are refused, and none appears" {
	run_job
	run --separate-stderr -3 bash -c 'ulimit -n 66; sgpu-seal open -k owner.jwk -C out response'
	assert_contains "$stderr" "more files than this process may have open"
	assert_contains "$stderr" "--only"
	assert_no_file out
}

@test "opening replaces no file, unless it is told to" {
	run_job
	mkdir out && echo old >out/out.f32
	run --separate-stderr -3 sgpu-seal open -k owner.jwk -C out response
	assert_contains "$stderr" "'out/out.f32' exists"
	assert_contains "$stderr" "--force"
	[ "$(cat out/out.f32)" = old ]
	assert_no_file out/bias.copy.f32
	run -0 sgpu-seal open --force -k owner.jwk -C out response
	assert_same out/out.f32 expected.f32
	run -0 sgpu-seal open --force -k owner.jwk -C out response
	[ "$(find out | wc -l)" -eq 3 ]
	run --separate-stderr -3 sgpu-seal open -k owner.jwk --only result -o out/out.f32 response
	assert_contains "$stderr" "--force"
	run -0 sgpu-seal open -k owner.jwk --only result --force -o out/out.f32 response
	run -0 sgpu-seal open -k owner.jwk --only result -o /dev/null response
}

@test "an older file does not pass for an output that has failed" {
	requires tar
	local block
	sgpu-seal seal -k owner.jwk packed >sealed
	block=$(tar -tRf sealed | awk '/segments\/scan/ { sub(":", "", $2); print $2 }')
	flip_byte sealed $((block * 512 + 512 + 3000))
	run -5 sgpu-run -k owner.jwk -o response sealed
	mkdir out && echo old >out/out.f32
	# Not without --force, and then nothing else appears, either.
	run --separate-stderr -3 sgpu-seal open -k owner.jwk -C out response
	assert_contains "$stderr" "'out/out.f32' exists"
	[ "$(cat out/out.f32)" = old ]
	assert_no_file out/bias.copy.f32
	run --separate-stderr -5 sgpu-seal open --force -k owner.jwk -C out response
	assert_contains "$stderr" "removed the older 'out/out.f32': output 'result' has failed"
	[ "$(ls out)" = bias.copy.f32 ]
	assert_same out/bias.copy.f32 bias.f32
	# Alone, and in the place that -o names.
	echo old >one
	run --separate-stderr -5 sgpu-seal open --force -k owner.jwk --only result -o one response
	assert_contains "$stderr" "removed the older 'one'"
	assert_no_file one
	run --separate-stderr -5 sgpu-seal open --force -k owner.jwk --only result -o one response
	assert_no_file one
	# A response that does not verify removes nothing.
	echo old >out/out.f32
	block=$(tar -tRf response | awk '/segments\/bias_copy/ { sub(":", "", $2); print $2 }')
	flip_byte response $((block * 512 + 512 + 3000))
	run -4 sgpu-seal open --force -k owner.jwk -C out response
	[ "$(cat out/out.f32)" = old ]
}

@test "outputs go into folders below, which are made, and to their id without a location" {
	sed -e 's|"out.f32"|"a/b//./out.f32"|' -e 's|"data_location_client": "bias.copy.f32"|"data_location_client": "-"|' \
		job.json >deep.json
	sgpu-manifest pack deep.json | sgpu-seal seal -k owner.jwk | sgpu-run -k owner.jwk >response
	run -0 sgpu-seal open -k owner.jwk -C out response
	assert_same out/a/b/out.f32 expected.f32
	assert_same out/bias_copy bias.f32
	[ "$(stat -c %a out/a/b)" = 700 ]
}

@test "an output that cannot be written is called by its own name" {
	sed "s|\"out.f32\"|\"$(printf 'n%.0s' {1..256})\"|" job.json >long.json
	sgpu-manifest pack long.json | sgpu-seal seal -k owner.jwk | sgpu-run -k owner.jwk >response
	run --separate-stderr -3 sgpu-seal open -k owner.jwk -C out response
	assert_contains "$stderr" "'out/nnn"
	[[ $stderr != */proc/* ]]
	assert_no_file out
}

@test "no output below a folder takes the place of the key or the response" {
	cp owner.jwk before
	for name in owner.jwk response; do
		sed "s|\"out.f32\"|\"$name\"|" job.json >sly.json
		sgpu-manifest pack sly.json | sgpu-seal seal -k owner.jwk | sgpu-run -k owner.jwk -o response
		run --separate-stderr -2 sgpu-seal open -k owner.jwk -C . response
		assert_contains "$stderr" "would replace"
		assert_same owner.jwk before
		assert_no_file bias.copy.f32
		sgpu-seal inspect -k owner.jwk response >shown
	done
}

@test "a path that goes up inside the folder is read as the check of manifests reads it" {
	sed 's|"out.f32"|"a/..//b/./c/../out.f32"|' job.json >up.json
	sgpu-manifest pack up.json | sgpu-seal seal -k owner.jwk | sgpu-run -k owner.jwk >response
	run -0 sgpu-seal open -k owner.jwk -C out response
	assert_same out/b/out.f32 expected.f32
	[ "$(find out -type f | wc -l)" -eq 2 ]
	[ ! -e out/a ]
}

@test "no output leaves the folder, neither by its path nor through a link" {
	local path
	for path in ../out.f32 a/../../out.f32 /tmp/sgpu-never.f32 ..; do
		sed "s|\"out.f32\"|\"$path\"|" job.json >outside.json
		sgpu-manifest pack --allow-outside outside.json >p || continue
		sgpu-seal seal -k owner.jwk p | sgpu-run -k owner.jwk >response
		run ! sgpu-seal open -k owner.jwk -C out response
		assert_no_file out out.f32 /tmp/sgpu-never.f32
		run -0 sgpu-seal open -k owner.jwk --only result -o one response
		assert_same one expected.f32
	done
	sed 's|"out.f32"|"sub/out.f32"|' job.json >sub.json
	sgpu-manifest pack sub.json | sgpu-seal seal -k owner.jwk | sgpu-run -k owner.jwk >response
	mkdir target out && ln -s ../target out/sub
	run -4 sgpu-seal open -k owner.jwk -C out response
	[ -z "$(ls target)" ]
	[ "$(ls out)" = sub ]
	rm out/sub && mkdir out/sub && echo mine >precious && ln -s ../../precious out/sub/out.f32
	run -4 sgpu-seal open -k owner.jwk -C out response
	[ "$(cat precious)" = mine ]
	rm out/sub/out.f32 && mkfifo out/sub/out.f32
	run -4 sgpu-seal open -k owner.jwk -C out response
}

@test "two outputs for one path are refused" {
	sed 's|"bias.copy.f32"|"out.f32"|' job.json >same.json
	run -1 sgpu-manifest pack same.json
}

@test "--batch demands the response to this very batch" {
	run_job
	run -0 sgpu-seal open -k owner.jwk --batch sealed -C out response
	rm -r out
	sgpu-seal seal -k owner.jwk -r runner.pub.jwk packed >sealed2
	run -4 sgpu-seal open -k owner.jwk --batch sealed2 -C out response
	assert_no_file out
	run -4 sgpu-seal open -k owner.jwk --batch packed -C out response
	run -1 sgpu-seal open -k owner.jwk --batch response -C out response
	run -3 sgpu-seal open -k owner.jwk --batch absent -C out response
	assert_no_file out
}

@test "--batch believes no batch that the owner's key did not sign" {
	# A recipient of the batch makes another, with the same keys to open it, and answers it.
	sgpu-seal keygen -q --no-sign -o mute.jwk
	sgpu-seal keygen -q --x25519 -o reader.jwk
	sgpu-seal pubkey -o reader.pub.jwk reader.jwk
	sgpu-seal seal -q -k mute.jwk -r reader.pub.jwk -r runner.pub.jwk -o forged packed
	sgpu-run -k runner.jwk -o response forged
	run --separate-stderr -4 sgpu-seal open -k reader.jwk -k owner.jwk --batch forged -C out response
	assert_contains "$stderr" "'forged' is not signed by a key of yours"
	assert_no_file out
	# Nor one whose signature somebody spoilt.
	sgpu-seal seal -q -k owner.jwk -r runner.pub.jwk -o sealed packed
	sgpu-run -k runner.jwk -o response sealed
	rewrite sealed spoilt "
letters = seal['signatures'][0]['signature']
seal['signatures'][0]['signature'] = letters[:10] + ('B' if letters[10] == 'A' else 'A') + letters[11:]"
	run --separate-stderr -4 sgpu-seal open -k owner.jwk --batch spoilt -C out response
	assert_no_file out
	# The batch of another owner takes their public key, which opens nothing by itself.
	sgpu-seal keygen -q -o other.jwk
	sgpu-seal pubkey -o other.pub.jwk other.jwk
	sgpu-seal seal -q -k other.jwk -r reader.pub.jwk -r runner.pub.jwk -o theirs packed
	sgpu-run -k runner.jwk -o response theirs
	run -4 sgpu-seal open -k reader.jwk -k owner.jwk --batch theirs -C out response
	run -2 sgpu-seal open -k other.pub.jwk --batch theirs -C out response
	assert_no_file out
	run -0 sgpu-seal open -k reader.jwk -k other.pub.jwk --batch theirs -C out response
}

@test "--batch believes an unsigned batch only where nobody else can write" {
	sgpu-seal keygen -q --no-sign -o mute.jwk
	sgpu-seal seal -q -k mute.jwk -r runner.pub.jwk -o sealed packed
	sgpu-run -k runner.jwk -o response sealed
	for mode in 666 664; do
		chmod $mode sealed
		run --separate-stderr -4 sgpu-seal open -k mute.jwk --batch sealed -C out response
		assert_contains "$stderr" "others can write to 'sealed'"
		assert_no_file out
	done
	chmod 644 sealed
	run -0 sgpu-seal open -k mute.jwk --batch sealed -C out response
}

# repack FILE: an archive of the members in the folder "parts", as they were listed in FILE.
repack() {
	tar -tf "$1" >members
	tar -cf - --format=ustar --owner=0 --group=0 --numeric-owner -C parts -T members
}

@test "outputs of two runs of one batch do not mix" {
	requires tar
	run_job
	sgpu-run -k runner.jwk sealed >again
	run ! cmp -s response again
	mkdir parts
	tar -xf response -C parts
	repack response >whole
	run -0 sgpu-seal open -k owner.jwk -C out whole
	tar -xf again -C parts segments/result
	repack response >mixed
	run -4 --separate-stderr sgpu-seal open --json -k owner.jwk -C mixed.out mixed
	assert_contains "$stderr" '"code":"EAUTH"'
	assert_no_file mixed.out
	# Nor does the index of the one go with the outputs of the other.
	tar -xf again -C parts
	tar -xf response -C parts response.json
	repack response >mixed
	run -4 sgpu-seal open -k owner.jwk -C mixed.out mixed
	assert_no_file mixed.out
}

@test "a response that names a file of its reader is refused before the file is looked at" {
	requires python3
	run_job
	printf 'my diary' >diary
	# Anybody can write where payloads are.
	rewrite response forged "
places = {'locations': [{'segment_id': 'result', 'file': '$PWD/diary', 'offset': 0}]}
del members['segments/result']"
	for place in diary absent; do
		[ $place = diary ] || rm diary
		run -4 --separate-stderr sgpu-seal open -k owner.jwk -C out forged
		assert_contains "$stderr" "is in a file"
		assert_no_file out
	done
	run -4 sgpu-seal inspect forged
}

@test "a response that fails takes nothing away from a file that it was appended to" {
	requires tar
	run_job
	local block
	block=$(tar -tRf response | awk '/segments\/result/ { sub(":", "", $2); print $2 }')
	flip_byte response $((block * 512 + 512 + 18000))
	printf before >log
	run -4 bash -c 'sgpu-seal open -k owner.jwk --only result response >>log'
	[ "$(cat log)" = before ]
	run -4 bash -c 'sgpu-seal open -k owner.jwk --only result response >fresh'
	[ ! -s fresh ]
	# A pipe has the chunks that verified, and no byte of the one that did not.
	sgpu-seal open -k owner.jwk --only result response 2>message | cat >released || true
	[ "$(stat -c %s released)" -le 16384 ]
	cmp released <(head -c "$(stat -c %s released)" expected.f32)
}

@test "an owner's key under which anybody can sign is refused" {
	local x
	for x in AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAIA \
		7P_______________________________________38 JuiVj8KyJ7BFw_SJ8u-Y8NXfrAXTxjM5sTgCiG1T_IU; do
		printf '{"crv":"Ed25519","kty":"OKP","x":"%s"}\n' "$x" >low.jwk
		run -1 --separate-stderr sgpu-seal keyinfo low.jwk
		assert_contains "$stderr" "point of small order"
	done
}

# as_refusal FILE: an archive whose one member is that text.
as_refusal() {
	mkdir -p member
	cp "$1" member/refusal.json
	tar -C member --format=ustar --owner=root:0 --group=root:0 -cf - refusal.json
}

@test "a refusal is shown as what it is, and a hostile one as nothing" {
	local text big
	printf '{"code":"EKEY","text":"\\u001b[2J no\\u202e key\\n","version":2}' >hostile
	as_refusal hostile >refusal
	# It is shown only in its one form, in which other characters than controls stand for themselves.
	run -1 --separate-stderr sgpu-seal open -k owner.jwk -C out refusal
	printf '{"code":"EKEY","text":"\\u001b[2J no\xe2\x80\xae key\\n","version":2}' >hostile
	as_refusal hostile >refusal
	for options in "-k owner.jwk -C out" "-k owner.jwk" "-C out" "-k owner.jwk -C out --batch packed"; do
		# shellcheck disable=SC2086
		run -4 --separate-stderr sgpu-seal open $options refusal
		assert_contains "$stderr" "not authenticated: the runner's side says EKEY: "
		assert_contains "$stderr" '\x1b[2J no\xe2\x80\xae key\x0a'
		assert_plain "$stderr"
		[ -z "$output" ]
	done
	run -4 --separate-stderr sgpu-seal open --json -k owner.jwk -C out refusal
	assert_plain "$stderr"
	[ "$(wc -l <<<"$stderr")" -eq 2 ]
	big=$(head -c 512 /dev/zero | tr '\0' x)
	for text in '{"code":"OK","text":"x","version":2}' '{"code":"EKEY","text":"'"$big"'","version":2}' \
		'{"code":"EKEY","more":1,"text":"x","version":2}' '{"code":"EKEY","text":"x","version":2} '; do
		printf '%s' "$text" >hostile
		as_refusal hostile >refusal
		run -1 --separate-stderr sgpu-seal open -k owner.jwk -C out refusal
	done
	printf '{"code":"EKEY","text":"x","version":2}' >hostile
	as_refusal hostile >refusal
	run -4 sgpu-seal open -k owner.jwk -C out refusal
	# A whole response behind a refusal, and a refusal in a response.
	run_job
	for order in "refusal response" "response refusal"; do
		for file in $order; do
			head -c $((($(stat -c %s "$file") / 512 - 2) * 512)) "$file"
		done >both
		head -c 1024 /dev/zero >>both
		run -1 --separate-stderr sgpu-seal open -k owner.jwk -C out both
	done
	assert_no_file out
}

@test "open reads a pipe to its end, whatever it thinks of it" {
	sgpu-seal keygen -o other.jwk
	run_job
	repeat 400000 response
	# shellcheck disable=SC2016
	run -0 bash -c 'cat response | sgpu-seal open -k other.jwk -C out 2>/dev/null; echo "${PIPESTATUS[*]}"'
	[ "$output" = "0 4" ]
	# But not a file, nor once it is told to stop.
	mkfifo pipe
	sgpu-seal open -k other.jwk -C out pipe 2>said 3>&- &
	local opener=$!
	exec 8>pipe
	cat response >&8
	wait_for grep -q 'none of the keys' said
	kill -TERM $opener
	local status=0
	wait $opener || status=$?
	exec 8>&-
	[ "$status" -eq 143 ]
}
