#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# sgpu-seal on batches and responses: seal, open, inspect, rewrap.

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	make_keys
	small_job 5000
	sgpu-manifest pack job.json >packed
}

# run_job: sealed and response from packed.
run_job() {
	sgpu-seal seal -k owner.jwk -r runner.pub.jwk packed >sealed &&
		sgpu-run -k runner.jwk sealed >response
}

@test "a sealed batch runs, and its owner opens the response" {
	run_job
	run -0 sgpu-seal open -k owner.jwk -C out response
	assert_same out/out.f32 expected.f32
	assert_same out/bias.copy.f32 bias.f32
	[ "$(find out -type f | wc -l)" -eq 2 ]
}

@test "the pipeline works as one line" {
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk | sgpu-run -k runner.jwk |
		sgpu-seal open -k owner.jwk -C out
	assert_same out/out.f32 expected.f32
}

@test "one shared key takes the place of three" {
	sgpu-seal seal -k owner.jwk packed | sgpu-run -k owner.jwk | sgpu-seal open -k owner.jwk -C out
	assert_same out/out.f32 expected.f32
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

@test "every container lists with tar, and a LOW payload comes out of it" {
	requires tar
	run_job
	local file
	for file in packed sealed response; do
		run -0 --separate-stderr tar -tvf "$file"
		[ -z "$stderr" ]
		assert_contains "$output" manifest.json
	done
	tar -xOf sealed segments/bias | cmp - bias.f32
	tar -xOf response segments/bias_copy | cmp - bias.f32
	run -0 tar -tf sealed
	[ "$output" = "batch.json
manifest.json
segments/scan
segments/bias" ]
}

@test "the secret is nowhere in a sealed batch or its response" {
	requires tar
	printf 'attack at dawn, attack at dawn, attack at dawn!!' >scan.f32
	head -c $((20000 - 48)) /dev/zero >>scan.f32
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk >sealed
	run -1 grep -c "attack at dawn" sealed
	sgpu-run -k owner.jwk sealed >response
	run -1 grep -c "attack at dawn" response
	run -1 grep -c "$PWD/scan.f32" sealed
}

@test "sealing twice gives other bytes for the same secret" {
	sgpu-seal seal -k owner.jwk packed >a
	sgpu-seal seal -k owner.jwk packed >b
	run -1 cmp -s a b
}

@test "the number of jobs and the kind of the ends do not change the plaintext" {
	small_job 300000
	sgpu-manifest pack job.json >packed
	local jobs
	for jobs in 1 2 7; do
		sgpu-seal seal -j "$jobs" -k owner.jwk packed >sealed
		sgpu-seal seal -j "$jobs" -k owner.jwk <packed | cat >sealed.pipe
		[ "$(stat -c %s sealed)" -eq "$(stat -c %s sealed.pipe)" ]
		sgpu-run -k owner.jwk sealed.pipe >response
		sgpu-seal open -j "$jobs" -k owner.jwk -C "out$jobs" response
		assert_same "out$jobs/out.f32" expected.f32
		sgpu-seal open -j "$jobs" -k owner.jwk --only result <response | cmp - expected.f32
	done
}

@test "appending to a file gives the same as a pipe" {
	printf 'before' >log
	sgpu-seal seal -k owner.jwk packed >>log
	tail -c +7 log >sealed
	run -0 sgpu-seal inspect -k owner.jwk sealed
}

@test "--by-reference leaves the public payload where it is" {
	requires tar
	sgpu-seal seal --by-reference -k owner.jwk -r runner.pub.jwk packed >sealed
	run -0 tar -tf sealed
	[ "$output" = "batch.json
manifest.json
segments/scan" ]
	mv runner.jwk "$TEST_SHM"
	sgpu-seal keyinfo --owner owner.jwk >owners
	sgpu-run -k "$TEST_SHM/runner.jwk" --owners owners --files . sealed | sgpu-seal open -k owner.jwk -C out
	assert_same out/bias.copy.f32 bias.f32
}

@test "a batch without secrets can be sealed, and then has a mac" {
	sed 's/HIGH/LOW/' job.json >low.json
	sgpu-manifest pack low.json >low
	sgpu-seal seal -k owner.jwk low >sealed
	run -0 sgpu-seal inspect -k owner.jwk sealed
	assert_contains "$output" verified
	sgpu-run -k owner.jwk sealed | sgpu-seal open -k owner.jwk -C out
	assert_same out/out.f32 expected.f32
}

# other_digest FILE INDEX BYTE: changes one byte of every digest of a payload.
other_digest() {
	python3 - "$@" <<-'END'
	import base64, io, json, sys, tarfile
	name, index, byte = sys.argv[1], sys.argv[2], int(sys.argv[3])
	with tarfile.open(name) as tar:
	    members = [(m.name, tar.extractfile(m).read()) for m in tar.getmembers()]
	with tarfile.open(name, "w", format=tarfile.USTAR_FORMAT) as tar:
	    for member, data in members:
	        if member == index:
	            value = json.loads(data)
	            for segment in value["segments"]:
	                if "kt128" in segment:
	                    digest = bytearray(base64.urlsafe_b64decode(segment["kt128"] + "="))
	                    digest[byte] ^= 1
	                    segment["kt128"] = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
	            data = json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
	        info = tarfile.TarInfo(member)
	        info.size = len(data)
	        tar.addfile(info, io.BytesIO(data))
	END
}

@test "digests of public payloads are compared whole: to the first byte and to the last" {
	requires python3
	sed 's/HIGH/LOW/' job.json >low.json
	sgpu-manifest pack low.json >low
	sgpu-stage load --files . <low | sgpu-run >response
	local byte
	for byte in 0 31; do
		cp packed changed
		other_digest changed batch.json $byte
		run --separate-stderr -4 sgpu-seal seal -k owner.jwk -o sealed changed
		assert_contains "$stderr" "kt128"
		assert_no_file sealed
		cp response changed
		other_digest changed response.json $byte
		run --separate-stderr -4 sgpu-seal open -C out changed
		assert_no_file out
		sgpu-stage load --files . <low >changed
		other_digest changed batch.json $byte
		run --separate-stderr -5 sgpu-run -o failed changed
		assert_contains "$stderr" "its kt128 is not the one"
	done
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

@test "a key is needed to seal, and -r alone is warned about" {
	run -2 sgpu-seal seal -o sealed packed
	assert_no_file sealed
	run -0 --separate-stderr sgpu-seal seal -r runner.pub.jwk -o sealed packed
	assert_contains "$stderr" "without -k"
}

@test "sealing a sealed batch is refused, with the way to do it" {
	sgpu-seal seal -k owner.jwk packed >sealed
	run -1 sgpu-seal seal -k owner.jwk -o twice sealed
	assert_contains "$output" rewrap
	assert_no_file twice
}

@test "a missing payload, key or batch is a system error and leaves nothing" {
	run -3 sgpu-seal seal -k owner.jwk -o sealed absent
	assert_no_file sealed
	run -3 sgpu-seal seal -k absent.jwk -o sealed packed
	assert_no_file sealed
	rm scan.f32
	run -3 sgpu-seal seal -k owner.jwk -o sealed packed
	assert_contains "$output" scan.f32
	assert_no_file sealed
}

@test "a key that others can read is refused" {
	chmod 0644 owner.jwk
	run -4 sgpu-seal seal -k owner.jwk -o sealed packed
	assert_no_file sealed
}

@test "input equal to output is refused" {
	cp packed same
	run -2 sgpu-seal seal -k owner.jwk -o same same
	assert_same packed same
	run -2 bash -c 'sgpu-seal seal -k owner.jwk -o same <same'
	assert_same packed same
	run_job
	run -2 sgpu-seal open -k owner.jwk --only result -o response response
	run -2 sgpu-seal rewrap -k owner.jwk -r owner.jwk -o sealed sealed
	cp scan.f32 before
	run -2 sgpu-seal seal -k owner.jwk -o scan.f32 packed
	assert_contains "$output" "payload of 'scan'"
	run -2 bash -c 'sgpu-seal seal -k owner.jwk packed >>scan.f32'
	run -2 sgpu-seal seal -k owner.jwk --by-reference -o bias.f32 packed
	assert_same before scan.f32
}

@test "no output takes the place of a key" {
	run_job
	mkdir keys
	cp -- *.jwk keys
	for command in "seal -k owner.jwk -o owner.jwk packed" "seal -k owner.jwk -o ./owner.jwk packed" \
		"seal -k owner.jwk -r runner.pub.jwk -o runner.pub.jwk packed" \
		"open -k owner.jwk --only result -o owner.jwk response" \
		"rewrap -k owner.jwk -r runner.pub.jwk -o owner.jwk sealed" \
		"seal-file -k owner.jwk -o owner.jwk scan.f32" "seal-file -k owner.jwk scan.f32 owner.jwk" \
		"pubkey -k runner.jwk -o runner.jwk"; do
		# shellcheck disable=SC2086 # words on purpose
		run --separate-stderr -2 sgpu-seal $command
		assert_contains "$stderr" "both input and output"
	done
	run --separate-stderr -2 bash -c 'sgpu-seal seal -k fd:7 -o owner.jwk packed 7<owner.jwk'
	ln owner.jwk other.jwk
	run --separate-stderr -2 sgpu-seal seal -k owner.jwk -o other.jwk packed
	cp sealed sealed.copy
	run --separate-stderr -2 sgpu-seal open -k owner.jwk --batch sealed --only result -o sealed response
	assert_same sealed sealed.copy
	for key in owner runner runner.pub; do
		assert_same $key.jwk keys/$key.jwk
	done
}

@test "a staged batch can be inspected and rewrapped, and still runs" {
	sgpu-seal seal -k owner.jwk -r runner.pub.jwk packed | sgpu-stage load >staged
	run -0 sgpu-seal inspect -k owner.jwk staged
	assert_contains "$output" "region "
	sgpu-seal keygen -o new.jwk
	sgpu-seal rewrap -k owner.jwk -r new.jwk staged | sgpu-run -k runner.jwk | sgpu-seal open -k new.jwk -C out
	assert_same out/out.f32 expected.f32
}

@test "an output that cannot be written leaves nothing" {
	run_job
	run -3 sgpu-seal open -k owner.jwk -C packed/out response
	run -3 sgpu-seal seal -k owner.jwk -o packed/sealed packed
	run -3 sgpu-seal seal -k owner.jwk -o new/folder/ packed
	assert_no_file new
	run -3 bash -c 'sgpu-seal seal -k owner.jwk packed >/dev/full'
	run -3 bash -c 'sgpu-seal open -k owner.jwk --only result response >/dev/full'
}

@test "usage errors are told and end with 2" {
	run_job
	run -2 sgpu-seal seal -k
	run -2 sgpu-seal seal --none
	run -2 sgpu-seal seal -k owner.jwk packed packed
	run -2 sgpu-seal seal -k owner.jwk -j 0 packed
	run -2 sgpu-seal seal -k owner.jwk -j x packed
	run -2 sgpu-seal open -k owner.jwk -C out -o one response
	run -2 sgpu-seal open response
	assert_contains "$output" "-k"
	run -2 sgpu-seal open -k owner.jwk response
	assert_contains "$output" "result, bias_copy"
	run -2 sgpu-seal open -k owner.jwk --only nothing response
	assert_contains "$output" "result, bias_copy"
	run -2 sgpu-seal open --batch sealed response
	run -2 sgpu-seal rewrap -k owner.jwk sealed
	run -2 sgpu-seal rewrap -r owner.jwk sealed
	run -2 sgpu-seal inspect --context xy sealed
	assert_no_file out one
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
	sgpu-manifest pack same.json >p || skip "the manifest is refused already"
	sgpu-seal seal -k owner.jwk p | sgpu-run -k owner.jwk >response
	run -1 sgpu-seal open -k owner.jwk -C out response
	assert_no_file out
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
	# shellcheck disable=SC2154 # bats sets it
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
	requires tar
	run_job
	mkdir parts
	tar -xf response -C parts
	printf 'my diary' >diary
	sed -i "s|\"location\":{\"inline\":true}|\"location\":{\"file\":\"$PWD/diary\",\"offset\":0}|" parts/response.json
	repack response >forged
	for place in diary absent; do
		[ $place = diary ] || rm diary
		run -4 --separate-stderr sgpu-seal open -k owner.jwk -C out forged
		assert_contains "$stderr" "is in a file"
		assert_no_file out
	done
	run -4 sgpu-seal inspect forged
}

@test "inspect tells a batch from a response, checks the mac, and shows no secret" {
	run_job
	run -0 sgpu-seal inspect packed
	assert_contains "$output" unsealed
	run -0 sgpu-seal inspect sealed
	assert_contains "$output" "not checked"
	run -0 sgpu-seal inspect -k owner.jwk sealed
	assert_contains "$output" "verified"
	assert_contains "$output" "the key given"
	run -0 sgpu-seal inspect <response
	[ "${lines[0]}" = response ]
	tee /dev/null <sealed | sgpu-seal inspect -k runner.jwk >shown
	assert_contains "$(cat shown)" verified
	run -4 sgpu-seal inspect -k owner.jwk packed
}

@test "inspect --json gives one object" {
	requires jq
	run_job
	sgpu-seal inspect --json -k owner.jwk sealed | jq -e '.kind == "batch" and .mac == "verified" and
		(.segments | length) == 4 and (.recipients | length) == 2' >/dev/null
	sgpu-seal inspect --json response | jq -e '.kind == "response" and .segments[0].status == "OK"' >/dev/null
	[ "$(sgpu-seal inspect --json sealed | wc -l)" -eq 1 ]
}

@test "inspect knows bare sealed data by its length, and by its key" {
	sgpu-seal seal-file -k owner.jwk scan.f32 scan.sealed
	run -0 sgpu-seal inspect scan.sealed
	assert_contains "$output" "plaintext 20000"
	run -0 sgpu-seal inspect -k owner.jwk scan.sealed
	assert_contains "$output" fit
	tee /dev/null <scan.sealed | sgpu-seal inspect >shown
	assert_contains "$(cat shown)" "plaintext 20000"
	sgpu-seal keygen -o other.jwk
	run -4 sgpu-seal inspect -k other.jwk scan.sealed
	run -4 sgpu-seal inspect -k owner.jwk --context 00 scan.sealed
	sgpu-seal seal-file --context 00ff -k owner.jwk scan.f32 bound.sealed
	run -0 sgpu-seal inspect -k owner.jwk --context 00ff bound.sealed
	printf x >short
	run -1 sgpu-seal inspect short
}

@test "rewrap adds and removes recipients and touches no payload" {
	requires tar
	run_job
	sgpu-seal keygen -o new.jwk
	run -4 sgpu-seal open -k new.jwk -C out response
	sgpu-seal rewrap -k owner.jwk -r new.jwk -o response2 response
	run -0 sgpu-seal open -k new.jwk -C out response2
	assert_same out/out.f32 expected.f32
	run -0 sgpu-seal open -k owner.jwk -C out1 response2
	tar -xOf response segments/result >before
	tar -xOf response2 segments/result >after
	assert_same before after
	local kid
	kid=$(sgpu-seal inspect response2 | awk '/the key given/ || /a256kw/ { print $2; exit }')
	sgpu-seal rewrap -k new.jwk --remove "$kid" <response2 >response3
	run -4 sgpu-seal open -k owner.jwk -C out2 response3
	assert_no_file out2
	run -0 sgpu-seal open -k new.jwk -C out3 response3
	run -2 sgpu-seal rewrap -k new.jwk --remove "$kid" -o response4 response3
	assert_no_file response4
}

@test "rewrap --only leaves the new recipients alone, and a batch still runs" {
	run_job
	sgpu-seal keygen --x25519 -o second.jwk
	sgpu-seal pubkey -o second.pub.jwk second.jwk
	sgpu-seal rewrap -k runner.jwk --only --add second.pub.jwk -r owner.jwk -o moved sealed
	run -4 sgpu-run -k runner.jwk -o refused.tar moved
	assert_no_file refused.tar
	sgpu-run -k second.jwk moved | sgpu-seal open -k owner.jwk -C out
	assert_same out/out.f32 expected.f32
}

@test "rewrap needs a key that is a recipient, and somebody must be left" {
	run_job
	sgpu-seal keygen -o new.jwk
	run -4 sgpu-seal rewrap -k new.jwk -r new.jwk -o changed sealed
	run -4 sgpu-seal rewrap -k owner.jwk -r new.jwk -o changed packed
	sgpu-seal seal -k owner.jwk packed >alone
	local kid
	kid=$(sgpu-seal inspect alone | awk '/recipient/ { print $2 }')
	run -2 sgpu-seal rewrap -k owner.jwk --remove "$kid" -o changed alone
	assert_no_file changed
}

@test "failed segments are named, the others are written, and the status is 5" {
	requires tar
	# A secret input damaged on its way fails what depends on it and nothing else.
	sgpu-seal seal -k owner.jwk -r runner.pub.jwk packed >sealed
	local block
	block=$(tar -tRf sealed | awk '/segments\/scan/ { sub(":", "", $2); print $2 }')
	flip_byte sealed $((block * 512 + 512 + 3000))
	run -5 sgpu-run -q -k runner.jwk -o response sealed
	run -5 --separate-stderr sgpu-seal open -k owner.jwk -C out response
	assert_contains "$stderr" "'result' has failed"
	assert_same out/bias.copy.f32 bias.f32
	assert_no_file out/out.f32
	run -5 sgpu-seal open -k owner.jwk --only result -o one response
	assert_no_file one
	run -0 sgpu-seal open -k owner.jwk --only bias_copy -o one response
	assert_same one bias.f32
}

@test "-v says which cipher ran, and --json gives a record on standard error" {
	run -0 --separate-stderr sgpu-seal seal -v -k owner.jwk -o sealed packed
	assert_contains "$stderr" "AES-256-GCM by"
	run -0 --separate-stderr sgpu-seal seal --json -k owner.jwk -o sealed packed
	[ -z "$output" ]
	assert_contains "$stderr" '"provider"'
	if command -v jq >/dev/null; then
		printf '%s\n' "$stderr" | jq -e '.sealed == 1 and .bytes_in == 40000' >/dev/null
	fi
	run -3 --separate-stderr sgpu-seal seal --json -k owner.jwk absent
	assert_contains "$stderr" '{"error":{"code":"ESYSTEM"'
}

@test "each provider opens what the other sealed" {
	local provider
	run_job
	for provider in openssl ipsec-mb; do
		SGPU_AEAD=$provider sgpu-seal seal -k owner.jwk -o "sealed.$provider" packed || continue
		sgpu-run -k owner.jwk "sealed.$provider" >response
		SGPU_AEAD=openssl sgpu-seal open -k owner.jwk -C "out.$provider" response
		assert_same "out.$provider/out.f32" expected.f32
	done
	[ -f out.openssl/out.f32 ]
}

@test "killed while sealing or opening, it leaves nothing" {
	run_job
	mkfifo slow
	sgpu-seal seal -q -k owner.jwk -o made.sealed slow &
	local pid=$!
	exec 9>slow
	head -c 700 packed >&9
	kill -TERM "$pid"
	local status=0
	wait "$pid" || status=$?
	exec 9>&-
	[ "$status" -eq 143 ]
	assert_no_file made.sealed
	sgpu-seal open -q -k owner.jwk -C out <slow &
	pid=$!
	exec 9>slow
	head -c 10000 response >&9
	kill -INT "$pid" || true
	kill -TERM "$pid"
	status=0
	wait "$pid" || status=$?
	exec 9>&-
	[ "$status" -ge 129 ]
	assert_no_file out
}

@test "empty payloads and exact chunks come through" {
	local n
	for n in 1 4096 4097; do
		small_job "$n"
		sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk | sgpu-run -k owner.jwk |
			sgpu-seal open -k owner.jwk -C "out$n"
		assert_same "out$n/out.f32" expected.f32
	done
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

@test "a key comes from a descriptor, or from standard input if that is free" {
	sgpu-seal seal -k fd:7 packed 7<owner.jwk >sealed
	run -0 sgpu-seal inspect -k owner.jwk sealed
	sgpu-seal inspect -k - sealed <owner.jwk >shown
	assert_contains "$(cat shown)" verified
	run -2 bash -c 'sgpu-seal inspect -k - <owner.jwk'
}

@test "a batch with nothing HIGH is sealed with a warning, and refused under --require-high" {
	# shellcheck disable=SC2154 # bats sets stderr
	run --separate-stderr -0 sgpu-seal seal -k owner.jwk --require-high -o sealed packed
	case $stderr in *"travels in the clear"*) false ;; esac
	sed 's/"HIGH"/"LOW"/' job.json >low.json
	sgpu-manifest pack -o open low.json
	run --separate-stderr -0 sgpu-seal seal -k owner.jwk -o sealed open
	assert_contains "$stderr" "warning: no segment of 'open' is HIGH: everything in it travels in the clear"
	run --separate-stderr -4 sgpu-seal seal -k owner.jwk --require-high -o refused open
	assert_contains "$stderr" "no segment of 'open' is HIGH"
	assert_no_file refused
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
