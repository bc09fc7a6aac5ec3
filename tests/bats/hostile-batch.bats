#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Batches and responses that somebody has changed on the way. Each change must be refused, with status 1 (malformed)
# or 4 (does not verify), and no output may appear.

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	make_keys
	sgpu-seal keyinfo --owner owner.jwk >owners
	small_job 5000
	sgpu-manifest pack job.json >packed
	sgpu-seal seal -k owner.jwk -r runner.pub.jwk packed >batch.tar
	sgpu-run -k runner.jwk batch.tar >response
}

# unpack FILE DIR
unpack() {
	mkdir "$2" && tar -xf "$1" -C "$2"
}

# repack DIR FILE MEMBER...: the members in this order, as another tar would write them.
repack() {
	local dir=$1 file=$2
	shift 2
	tar --format=ustar --owner=0 --group=0 --mode=0644 --mtime=@0 -C "$dir" -cf "$file" "$@"
}

# refused_response FILE: by every verb that reads one, leaving nothing.
refused_response() {
	local status=0
	sgpu-seal open -q -k owner.jwk -C out "$1" 2>message || status=$?
	if [ "$status" -ne 1 ] && [ "$status" -ne 4 ]; then
		echo "open of '$1': status $status instead of 1 or 4: $(cat message)" >&2
		return 1
	fi
	assert_no_file out
	status=0
	sgpu-seal open -q -k owner.jwk -C out <"$1" 2>message || status=$?
	if [ "$status" -ne 1 ] && [ "$status" -ne 4 ]; then
		echo "open of '$1' by redirection: status $status" >&2
		return 1
	fi
	assert_no_file out
	status=0
	# shellcheck disable=SC2002 # a pipe is the point
	cat "$1" | sgpu-seal open -q -k owner.jwk --only result -o one 2>message || status=$?
	if [ "$status" -ne 1 ] && [ "$status" -ne 4 ] && ! { [ "$status" -eq 6 ] && [ ! -s "$1" ]; }; then
		echo "open of '$1' through a pipe: status $status" >&2
		return 1
	fi
	assert_no_file one
}

# refused_batch FILE: by the runner; a payload that does not verify may also fail its segment, and what depends on it.
refused_batch() {
	local status=0
	rm -f out.response
	sgpu-run -q -k runner.jwk --owners owners -o out.response "$1" 2>message || status=$?
	case $status in
	1 | 4)
		assert_no_file out.response
		;;
	5)
		status=0
		sgpu-seal open -q -k owner.jwk --only result -o one out.response 2>message || status=$?
		if [ "$status" -ne 5 ]; then
			echo "'$1' ran, and opening its result gave $status" >&2
			return 1
		fi
		assert_no_file one
		;;
	*)
		echo "'$1': status $status: $(cat message)" >&2
		return 1
		;;
	esac
}

# refused_head FILE: by what checks index, manifest and members without running.
refused_head() {
	local status=0
	sgpu-seal inspect -k owner.jwk "$1" >shown 2>message || status=$?
	if [ "$status" -ne 1 ] && [ "$status" -ne 4 ]; then
		echo "inspect of '$1': status $status" >&2
		return 1
	fi
	[ ! -s shown ]
	status=0
	sgpu-seal rewrap -k owner.jwk -r runner.pub.jwk -o rewrapped "$1" 2>message || status=$?
	if [ "$status" -ne 1 ] && [ "$status" -ne 4 ]; then
		echo "rewrap of '$1': status $status" >&2
		return 1
	fi
	assert_no_file rewrapped
}

# offset_of FILE MEMBER: where the header of a member stands.
offset_of() {
	local block
	block=$(tar -tRf "$1" | awk -v name="$2" '{ sub(":", "", $2); if ($3 == name) print $2 }')
	echo $((block * 512))
}

@test "a flipped byte in any field of a header is refused" {
	local member at
	for member in seal.json segments/bias_copy; do # the first, and the last, which is not sealed
		# name, mode, uid, gid, size, mtime, checksum, type, link, magic, version, user, group, major, minor, prefix, rest
		for at in 0 50 100 108 116 124 135 136 148 155 156 157 257 263 265 297 329 337 345 511; do
			cp response bad
			flip_byte bad $(($(offset_of response "$member") + at))
			refused_response bad
		done
	done
}

@test "a flipped byte anywhere before the payloads is refused" {
	local member at size start
	for member in seal.json response.json note; do
		size=$(tar -xOf response "$member" | wc -c)
		start=$(($(offset_of response "$member") + 512))
		for ((at = 0; at < size; at += 101)); do
			cp response bad
			flip_byte bad $((start + at))
			refused_response bad
		done
		cp response bad
		flip_byte bad $((start + size - 1))
		refused_response bad
	done
	for member in seal.json batch.json manifest.json note; do
		size=$(tar -xOf batch.tar "$member" | wc -c)
		start=$(($(offset_of batch.tar "$member") + 512))
		for ((at = 0; at < size; at += 101)); do
			cp batch.tar bad
			flip_byte bad $((start + at))
			refused_batch bad
		done
	done
}

@test "a changed byte of an index is told from a batch that its owner has made wrong" {
	local start
	start=$(($(offset_of batch.tar batch.json) + 512))
	cp batch.tar bad
	flip_byte bad "$start" # no JSON any more
	run -4 sgpu-run -k runner.jwk -o out.response bad
	assert_contains "$output" "batch.json is not the one that seal.json names"
	rewrite batch.tar bad 'manifest += b" "'
	run -4 sgpu-run -k runner.jwk -o out.response bad
	assert_contains "$output" "the mac of seal.json does not verify"
	start=$(($(offset_of batch.tar manifest.json) + 512))
	cp batch.tar bad
	printf ' ' | dd of=bad bs=1 seek="$start" conv=notrunc status=none
	run -4 sgpu-run -k runner.jwk -o out.response bad
	assert_contains "$output" "the manifest is not the one that batch.json names"
	assert_no_file out.response
}

@test "the MAC is of the payload as it lies, so the same JSON in another text does not pass" {
	rewrite batch.tar bad 'raw = data_of(seal["payload"]); seal["payload"] = text(raw.replace(b",", b", ", 1))'
	run -4 sgpu-run -k runner.jwk -o out.response bad
	assert_contains "$output" "the mac of seal.json does not verify"
	rewrite batch.tar bad 'seal["payload"] += "="'
	run -1 sgpu-run -k runner.jwk -o out.response bad
	rewrite batch.tar same 'pass'
	run -0 sgpu-run -k runner.jwk -o out.response same
}

@test "who carries a batch changes where its payloads lie, and nothing else" {
	rewrite batch.tar moved \
		'places = {"locations": [{"segment_id": "bias", "file": "'"$PWD"'/bias/bias.f32", "offset": 0}]}; del members["segments/bias"]'
	mv runner.jwk "$TEST_SHM"
	mkdir bias && mv bias.f32 bias
	run -0 sgpu-run -k "$TEST_SHM/runner.jwk" --owners owners --files bias -o moved.response moved
	run -0 sgpu-seal open -k owner.jwk -C out moved.response
	assert_same out/out.f32 expected.f32
	run -4 sgpu-run -k "$TEST_SHM/runner.jwk" -o refused.tar moved
	assert_contains "$output" "this runner fetches from none"
	# Another payload there is not what the owner sealed.
	flip_byte bias/bias.f32 19999
	run -5 sgpu-run -k "$TEST_SHM/runner.jwk" --owners owners --files bias -o moved.response moved
	assert_contains "$output" "its kt128 is not the one that the batch names"
}

@test "a flipped byte in each part of a sealed payload is refused" {
	local start at
	start=$(($(offset_of response segments/result) + 512))
	# salt, commitment, first chunk, its tag, last chunk, its tag (20000 bytes are 16384 and 3616)
	for at in 0 23 24 55 56 16439 16440 16455 16456 20071 20072 20087; do
		cp response bad
		flip_byte bad $((start + at))
		run -4 sgpu-seal open -k owner.jwk -C out bad
		assert_no_file out
		refused_response bad
	done
}

@test "a flipped byte of a LOW payload is refused, to a file, to a folder and to a pipe" {
	local start
	start=$(($(offset_of response segments/bias_copy) + 512))
	cp response bad
	flip_byte bad $((start + 19999))
	run -4 sgpu-seal open -k owner.jwk -C out bad
	assert_no_file out
	run -4 sgpu-seal open -k owner.jwk --only bias_copy -o one bad
	assert_no_file one
	sgpu-seal open -k owner.jwk --only bias_copy bad 2>message | cat >released || true
	[ ! -s released ]
}

@test "a flipped byte in padding or in the end blocks is refused" {
	local size at
	size=$(stat -c %s response)
	for at in $((size - 1)) $((size - 512)) $((size - 1024)) $((size - 1024 - 1)) \
		$(($(offset_of response segments/bias_copy) - 1)) $(($(offset_of response note) - 1)); do
		cp response bad
		flip_byte bad "$at"
		refused_response bad
	done
}

@test "a response cut at any record is refused" {
	local size at
	size=$(stat -c %s response)
	for ((at = 0; at < size; at += 512)); do
		head -c "$at" response >bad
		run -1 sgpu-seal open -q -k owner.jwk -C out bad
		assert_no_file out
	done
	for at in 1 511 513 1300 4000 30000 $((size - 1)); do
		head -c "$at" response >bad
		refused_response bad
	done
}

@test "a response cut while it comes through a pipe is malformed, not forged" {
	local start at
	start=$(($(offset_of response segments/result) + 512))
	for at in 0 10 56 5000 16456 20000; do
		run -1 bash -c "head -c $((start + at)) response | sgpu-seal open -q -k owner.jwk -C out"
		assert_no_file out
	done
}

@test "a batch cut at any record is refused by the runner" {
	local size at
	size=$(stat -c %s batch.tar)
	for ((at = 0; at < size; at += 2560)); do
		head -c "$at" batch.tar >bad
		refused_batch bad
	done
	head -c $((size - 512)) batch.tar >bad
	refused_batch bad
}

@test "data behind the end are refused" {
	cat response packed >bad
	refused_response bad
	{ cat response && printf x; } >bad
	refused_response bad
	{ cat response && head -c 2000000 /dev/zero; } >bad
	refused_response bad
}

@test "members that are swapped, missing, repeated, renamed or strange are refused" {
	requires tar
	unpack response parts
	repack parts swapped seal.json response.json note segments/bias_copy segments/result
	refused_response swapped
	repack parts missing seal.json response.json note segments/result
	refused_response missing
	repack parts repeated seal.json response.json note segments/result segments/result segments/bias_copy
	refused_response repeated
	repack parts order response.json seal.json note segments/result segments/bias_copy
	refused_response order
	repack parts unnoted seal.json response.json segments/result segments/bias_copy
	refused_response unnoted
	cp parts/segments/result parts/segments/other
	repack parts renamed seal.json response.json note segments/other segments/bias_copy
	refused_response renamed
	repack parts more seal.json response.json note segments/result segments/bias_copy segments/other
	refused_response more
	ln -sf /etc/passwd parts/segments/link
	repack parts link seal.json response.json note segments/result segments/bias_copy segments/link
	refused_response link
	repack parts folder seal.json response.json note segments
	refused_response folder
	cp parts/segments/result parts/segments/result2 && mv parts/segments/bias_copy parts/segments/keep
	cp parts/segments/result parts/segments/bias_copy
	repack parts replaced seal.json response.json note segments/result segments/bias_copy
	refused_response replaced
}

@test "payloads that change places are refused, even when sizes agree" {
	requires tar
	unpack response parts
	cp parts/segments/bias_copy saved
	head -c 20088 /dev/zero >parts/segments/result
	repack parts zeros seal.json response.json note segments/result segments/bias_copy
	run -4 sgpu-seal open -k owner.jwk -C out zeros
	assert_no_file out
	refused_response zeros
}

@test "a segment taken from another batch of the same owner and manifest is refused" {
	requires tar
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk | tee batch2 |
		sgpu-run -k runner.jwk >response2
	unpack response parts
	unpack response2 parts2
	cp parts2/segments/result parts/segments/result
	repack parts mixed seal.json response.json note segments/result segments/bias_copy
	run -4 sgpu-seal open -k owner.jwk -C out mixed
	refused_response mixed
	unpack batch.tar bparts
	unpack batch2 bparts2
	cp bparts2/segments/scan bparts/segments/scan
	repack bparts bmixed seal.json batch.json manifest.json note segments/scan segments/bias
	refused_batch bmixed
}

@test "a note, an index, a manifest or a seal of another batch is refused" {
	requires tar
	sed 's/small-job/other-job/' job.json >job2.json
	sgpu-manifest pack job2.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk | tee batch2 |
		sgpu-run -k runner.jwk >response2
	local member
	unpack response parts
	unpack response2 parts2
	for member in seal.json response.json note; do
		rm -rf mixed && cp -r parts mixed && cp "parts2/$member" mixed/
		repack mixed bad seal.json response.json note segments/result segments/bias_copy
		run -4 sgpu-seal open -k owner.jwk -C out bad
		refused_response bad
	done
	unpack batch.tar bparts
	unpack batch2 bparts2
	for member in seal.json batch.json manifest.json note; do
		rm -rf mixed && cp -r bparts mixed && cp "bparts2/$member" mixed/
		repack mixed bad seal.json batch.json manifest.json note segments/scan segments/bias
		run -4 sgpu-run -k runner.jwk -o refused.tar bad
		refused_head bad
	done
	assert_no_file refused.tar
}

@test "an edited index is refused: labels, sizes, statuses, ids" {
	local edit
	for edit in 'index["segments"][0]["masking_level"] = "MASKING_NONE"' \
		'index["segments"][1]["kt128"] = text(bytes(32))' \
		'index["segments"][0]["actual_output_data_size_bytes"] -= 1' \
		'index["segments"][1]["segment_id"] = "result"' \
		'index["segments"].reverse()' \
		'index["batch_status"] = "ALL_FAILED"' \
		'index["timings"] = {"kernel": 1}' \
		'payload["identity"] = text(bytes(32))' \
		'payload["response_id"] = text(bytes(16))' \
		'payload["recipients"].pop(); seal.pop("mac")' \
		'payload.pop("recipients"); seal.pop("mac")' \
		'seal["mac"] = text(bytes(32))'; do
		rewrite response bad "$edit"
		cmp -s response bad && return 1
		refused_response bad
	done
}

@test "a response without its mac does not pass for one of a batch that had none" {
	rewrite response bad 'payload.pop("recipients"); seal.pop("mac")'
	refused_response bad
	run -1 sgpu-seal open --only bias_copy bad
	assert_contains "$output" "no recipients"
}

@test "a payload that has shrunk or gone is refused before anything is written" {
	truncate -s 19999 scan.f32
	run -1 sgpu-seal seal -q -k owner.jwk -o sealed packed
	assert_no_file sealed
	rm scan.f32
	run -3 sgpu-seal seal -q -k owner.jwk -o sealed packed
	assert_no_file sealed
	sgpu-seal seal -q -k owner.jwk packed >streamed 2>message || true
	[ ! -s streamed ]
}

@test "an unsealed batch does not run, and secrets travel sealed or not at all" {
	run -4 sgpu-run -k runner.jwk -o refused.tar packed
	assert_no_file refused.tar
	# The same batch with the secret inline, in the clear.
	rewrite packed clear \
		'places["locations"] = places["locations"][1:]; members["segments/scan"] = open("scan.f32", "rb").read()'
	run -4 sgpu-seal seal -q -k owner.jwk -o sealed clear
	assert_no_file sealed
	run -4 sgpu-run -k runner.jwk -o refused.tar clear
	assert_no_file refused.tar
}

@test "a header that claims far more than follows costs no memory" {
	requires tar no-sanitizer
	unpack response parts
	truncate -s 63M parts/response.json
	repack parts large seal.json response.json
	run -1 bash -c 'ulimit -v 62000; head -c 5000 large | sgpu-seal inspect -'
	assert_contains "$output" "cut short"
	truncate -s 70M parts/response.json
	repack parts larger seal.json response.json
	run -1 sgpu-seal inspect larger
	assert_contains "$output" "larger than"
}

@test "who has too little memory for a text ends for that, and makes no other text of it" {
	local limit
	requires python3 no-sanitizer
	# shellcheck disable=SC2016
	rewrite batch.tar large 'import re
manifest = re.sub(rb"\"manifest_id\":\"[^\"]*\"", b"\"manifest_id\":\"" + b"A" * 40000000 + b"\"", manifest)'
	run -1 sgpu-seal inspect large
	assert_contains "$output" "a manifest_id is 1 to 128 characters"
	for limit in 140000 160000 180000 200000; do
		run -3 timeout 60 bash -c "ulimit -v $limit; sgpu-seal inspect large"
		assert_contains "$output" "out of memory"
	done
}
