#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Whose work a runner takes: signatures of owners, and sgpu-run --owners.
# shellcheck disable=SC2154 # bats sets stderr

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	make_keys 2>/dev/null
	small_job 5000
	sgpu-seal keyinfo --owner owner.jwk >owners
	sgpu-manifest pack job.json >packed
	sgpu-seal seal -k owner.jwk -r runner.pub.jwk packed >sealed
}

# refused TEXT BATCH: the runner refuses it so, and leaves no response.
refused() {
	run --separate-stderr -4 sgpu-run -k runner.jwk --owners owners -o response "$2"
	assert_contains "$stderr" "$1"
	assert_no_file response
}

@test "a batch that an owner signed runs, also staged, and no other does" {
	run -0 sgpu-run -k runner.jwk --owners owners -o response sealed
	run -0 sgpu-seal open -k owner.jwk --batch sealed -C out response
	assert_same out/out.f32 expected.f32
	sgpu-stage load sealed >staged
	run -0 sgpu-run -k runner.jwk --owners owners -o response staged
	rm response
	sgpu-seal keygen -q --no-sign -o mute.jwk
	sgpu-seal seal -k mute.jwk -r runner.pub.jwk packed >unsigned
	refused "not signed" unsigned
	sgpu-seal keygen -q -o stranger.jwk
	sgpu-seal seal -k stranger.jwk -r runner.pub.jwk packed >foreign
	refused "$(sgpu-seal keyinfo --owner stranger.jwk)" foreign
	refused "none of the owners" foreign
	sgpu-seal keyinfo --owner stranger.jwk >>owners
	run -0 sgpu-run -k runner.jwk --owners owners -o response foreign
}

@test "without --owners anybody who knows the runner's public key can send work" {
	sgpu-seal keygen -q --no-sign -o mute.jwk
	sgpu-seal seal -k mute.jwk -r runner.pub.jwk packed | sgpu-run -k runner.jwk | sgpu-seal open -k mute.jwk -C out
	assert_same out/out.f32 expected.f32
}

@test "a batch that is not signed by an owner is refused before a file or a region of it is looked at" {
	requires strace python3
	local -x ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 # the leak checker would trace, too
	mkdir data
	cp bias.f32 data/bias.f32
	sed 's|"bias.f32"|"data/bias.f32"|' job.json >filed.json
	sgpu-seal keygen -q -o stranger.jwk
	sgpu-manifest pack filed.json | sgpu-seal seal --by-reference -k stranger.jwk -r runner.pub.jwk >foreign
	run --separate-stderr -4 strace -f -o trace -e trace=%file sgpu-run --device cpu -k runner.jwk --owners owners \
		--files data -o response foreign
	assert_contains "$stderr" "none of the owners"
	run ! grep -q 'bias.f32' trace
}

@test "a key that only signs can stand beside the one that opens" {
	requires python3
	sgpu-seal keygen -q --no-sign -o mute.jwk
	python3 -c 'import json; keys = json.load(open("owner.jwk"))["keys"]
json.dump(next(key for key in keys if key.get("use") == "sig"), open("sign.jwk", "w"))'
	sgpu-seal seal -k mute.jwk -k sign.jwk -r runner.pub.jwk packed >both
	run -0 sgpu-run -k runner.jwk --owners owners -o response both
	run -0 sgpu-seal open -k mute.jwk -C out response
}

@test "rewrap signs again with a key that can, and says so when the signature is gone" {
	sgpu-seal keygen -q --no-sign -o mute.jwk
	run --separate-stderr -0 sgpu-seal rewrap -k owner.jwk -r mute.jwk -o again sealed
	[ -z "$stderr" ]
	run -0 sgpu-run -k runner.jwk --owners owners -o response again
	rm response
	run --separate-stderr -0 sgpu-seal rewrap -k runner.jwk -r mute.jwk -o gone sealed
	assert_contains "$stderr" "not signed any more"
	refused "not signed" gone
}

@test "rewrap signs no batch that the same key has not signed, whoever made it for its owner" {
	sgpu-seal keygen -q --x25519 --sign -o both.jwk
	sgpu-seal pubkey -q -o both.pub.jwk both.jwk
	sgpu-seal keyinfo --owner both.jwk >owners
	sgpu-seal keygen -q --x25519 -o host.jwk
	# The host's batch: the owner opens it, and so could rewrap it in good faith.
	sgpu-seal seal -k host.jwk -r both.pub.jwk -r runner.pub.jwk packed >planted
	run --separate-stderr -0 sgpu-seal rewrap -k both.jwk -r runner.pub.jwk -o again planted
	assert_contains "$stderr" "had not signed the batch"
	refused "not signed" again
	# A former recipient puts its own batch in the place of the owner's, under the owner's key and signature.
	sgpu-seal seal -k owner.jwk -k both.jwk -r host.jwk packed >sealed
	sgpu-seal rewrap -q -k host.jwk -r runner.pub.jwk -o stolen sealed 2>/dev/null
	run --separate-stderr -0 sgpu-seal rewrap -k owner.jwk -r runner.pub.jwk -o again stolen
	assert_contains "$stderr" "had not signed the batch"
	refused "not signed" again
}

@test "a recipient that the host adds makes the signature fail" {
	requires python3
	sgpu-seal keygen -q --no-sign -o host.jwk
	sgpu-seal rewrap -q -k runner.jwk -r host.jwk -o stolen sealed 2>/dev/null
	# The signature of the owner, put back into the batch with one more recipient.
	python3 - <<-'END'
	import io, json, tarfile
	def load(name):
	    with tarfile.open(name) as tar:
	        return [(m.name, tar.extractfile(m).read()) for m in tar.getmembers()]
	signed = json.loads(load("sealed")[0][1])["signatures"]
	with tarfile.open("forged", "w", format=tarfile.USTAR_FORMAT) as tar:
	    for name, data in load("stolen"):
	        if name == "seal.json":
	            data = json.dumps({**json.loads(data), "signatures": signed}).encode()
	        info = tarfile.TarInfo(name)
	        info.size = len(data)
	        tar.addfile(info, io.BytesIO(data))
	END
	refused "does not verify: the batch was altered" forged
	run --separate-stderr -4 sgpu-seal rewrap -k owner.jwk -r runner.pub.jwk -o again forged
	assert_no_file again
	run -0 sgpu-seal inspect forged
	assert_contains "$output" "verified                  no"
}

@test "inspect shows who signed, and seal --json too" {
	kid=$(cat owners)
	run -0 sgpu-seal inspect sealed
	assert_contains "$output" "kid                       $kid"
	run -0 sgpu-seal inspect --json sealed
	assert_contains "$output" "\"signatures\":[{\"kid\":\"$kid\",\"kind\":\"Ed25519\",\"verified\":true}]"
	run --separate-stderr -0 sgpu-seal seal --json -k owner.jwk -o again packed
	assert_contains "$stderr" "\"signed_by\":[\"$kid\"]"
}

@test "a file of owners has thumbprints, and nothing of a wrong one is shown" {
	run --separate-stderr -1 sgpu-run -k runner.jwk --owners owner.jwk -o response sealed
	secret=$(grep -o '"k":"[^"]*' owner.jwk | cut -d'"' -f4)
	case $stderr in *"$secret"*) false ;; esac
	: >empty
	run --separate-stderr -1 sgpu-run -k runner.jwk --owners empty -o response sealed
	run --separate-stderr -3 sgpu-run -k runner.jwk --owners missing -o response sealed
	run --separate-stderr -2 sgpu-run -k runner.jwk --owners owners -o owners sealed
	assert_no_file response
	{
		echo '# the owners'
		echo "  $(cat owners) # me"
		echo
	} >commented
	run -0 sgpu-run -k runner.jwk --owners commented -o response sealed
}

@test "a file of owners that others can write to decides nothing" {
	for mode in 666 664 602; do
		chmod $mode owners
		refused "others can write to 'owners'" sealed
	done
	chmod 644 owners
	run -0 sgpu-run -q -k runner.jwk --owners owners -o response sealed
	rm response
	run -0 sgpu-run -q -k runner.jwk --owners <(cat owners) -o response sealed
	rm response
	requires root
	chown 65534 owners
	refused "(user 65534" sealed
	run -4 sgpu-measure policy --build "$SGPU_BUILD" --owners owners --at-least plain -o policy.json
	assert_no_file policy.json
}

@test "a public key that others can write to names no recipient and verifies nothing" {
	sgpu-manifest pack job.json >packed
	for mode in 666 664 602; do
		chmod $mode runner.pub.jwk
		run --separate-stderr -4 sgpu-seal seal -q -k owner.jwk -r runner.pub.jwk -o again packed
		assert_contains "$stderr" "others can write to key 'runner.pub.jwk'"
		run -4 sgpu-seal rewrap -q -k owner.jwk -r - -o again sealed <runner.pub.jwk
		assert_no_file again
	done
	chmod 644 runner.pub.jwk
	run -0 sgpu-seal seal -q -k owner.jwk -r runner.pub.jwk -o again packed
	sgpu-seal pubkey -o owner.pub.jwk owner.jwk
	sgpu-run -k runner.jwk --owners owners -o response sealed
	chmod 666 owner.pub.jwk
	run -4 sgpu-seal open -q -k owner.jwk -k owner.pub.jwk --batch sealed -C out response
	assert_no_file out
	chmod 644 owner.pub.jwk
	run -0 sgpu-seal open -q -k owner.jwk -k owner.pub.jwk --batch sealed -C out response
	requires root
	chown 65534 runner.pub.jwk
	run -4 sgpu-seal seal -q -k owner.jwk -r runner.pub.jwk -o more packed
	assert_no_file more
}
