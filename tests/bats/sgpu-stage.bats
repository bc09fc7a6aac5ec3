# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2030,SC2031 # each test is a process of its own
#
# sgpu-stage: regions on the command line.

load helpers

# job.json with variables of the client on the segments that are LOW.
exporting_job() {
	small_job "$@"
	sed -e '/"segment_id": "bias",/s/"sensitivity_level"/"client_dma_input_pinned_host_ptr_var": "BIAS_HOST", "client_dma_input_device_ptr_var": "BIAS_DEV", &/' \
		-e '/"segment_id": "bias_copy",/s/"sensitivity_level"/"client_dma_output_pinned_host_ptr_var": "COPY_HOST", "client_dma_output_buffer_size_var": "COPY_SIZE", &/' \
		job.json >job.new
	mv job.new job.json
}

# sealed_batch [ELEMENTS]: sealed.sgpu and its keys.
sealed_batch() {
	small_job "$@"
	make_keys
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk -o sealed.sgpu
}

# forge NAME: forged.sgpu is packed.sgpu with another variable, and everything that binds it made good again.
forge() {
	rewrite packed.sgpu forged.sgpu "
manifest = manifest.replace(b'BIAS_HOST', sys.stdin.buffer.read())" < <(printf %s "$1")
}

regions() {
	find "$XDG_RUNTIME_DIR" -type f | wc -l
}

no_regions() {
	[ "$(regions)" -eq 0 ] || {
		echo "left: $(find "$XDG_RUNTIME_DIR" -type f)" >&2
		return 1
	}
}

# location SEGMENT FILE: "REGION OFFSET" as locations.json says.
location() {
	tar xOf "$2" locations.json | sed 's/[[,]{/\n&/g' | grep "\"segment_id\":\"$1\"" |
		sed -n 's/.*"handle":"sgpu:\([0-9a-f]*\):\([0-9]*\):[0-9]*".*/\1 \2/p'
}

@test "a staged batch runs and gives the results of the one that was not staged" {
	sealed_batch 5000
	sgpu-stage load sealed.sgpu >staged.sgpu
	[ "$(regions)" -eq 1 ]
	sgpu-run -k runner.jwk <staged.sgpu | sgpu-seal open -k owner.jwk -C out
	assert_same out/out.f32 expected.f32
	assert_same out/bias.copy.f32 bias.f32
	no_regions
}

@test "payloads lie in one region, on pages of their own, a sealed one at 8 modulo 16" {
	sealed_batch 5000
	sgpu-stage load -o staged.sgpu sealed.sgpu
	read -r scan_region scan_offset <<<"$(location scan staged.sgpu)"
	read -r bias_region bias_offset <<<"$(location bias staged.sgpu)"
	[ "$scan_region" = "$bias_region" ]
	[ $((scan_offset % 4096)) -eq 8 ]
	[ $((bias_offset % 4096)) -eq 0 ]
	tail -c +$((4096 + bias_offset + 1)) "$XDG_RUNTIME_DIR/sgpu/$bias_region" | head -c 20000 | cmp - bias.f32
	tar xOf sealed.sgpu segments/scan |
		cmp - <(tail -c +$((4096 + scan_offset + 1)) "$XDG_RUNTIME_DIR/sgpu/$scan_region" | head -c 20088)
}

@test "a file, a pipe and - give the same region" {
	sealed_batch 400000
	sgpu-stage load -o a.sgpu sealed.sgpu
	sgpu-stage load -o b.sgpu - <sealed.sgpu
	sgpu-stage load -j 1 >c.sgpu < <(cat sealed.sgpu)
	read -r a offset <<<"$(location scan a.sgpu)"
	read -r b _ <<<"$(location scan b.sgpu)"
	read -r c _ <<<"$(location scan c.sgpu)"
	[ "$a" != "$b" ]
	[ "$offset" -eq 8 ]
	cmp -i 4096 "$XDG_RUNTIME_DIR/sgpu/$a" "$XDG_RUNTIME_DIR/sgpu/$b"
	cmp -i 4096 "$XDG_RUNTIME_DIR/sgpu/$a" "$XDG_RUNTIME_DIR/sgpu/$c"
}

@test "payloads that are only referred to are staged from their files" {
	small_job
	make_keys
	sgpu-manifest pack job.json | sgpu-seal seal --by-reference -k owner.jwk -r runner.pub.jwk |
		sgpu-stage load --files . -o staged.sgpu
	rm bias.f32 scan.f32
	[ "$(tar tf staged.sgpu | wc -l)" -eq 5 ]
	sgpu-run -k runner.jwk <staged.sgpu | sgpu-seal open -k owner.jwk -C out
	assert_same out/out.f32 expected.f32
}

# A batch from outside whose digest is a guess at what a file of this machine holds.
@test "no file that a batch names is staged, but from folders of --files" {
	local batch
	small_job
	make_keys
	mkdir data
	cp bias.f32 data
	sgpu-manifest pack -o packed.sgpu job.json
	sgpu-seal seal --by-reference -k owner.jwk -r runner.pub.jwk -o sealed.sgpu packed.sgpu
	for batch in packed.sgpu sealed.sgpu; do
		run --separate-stderr -4 sgpu-stage load -o staged.sgpu $batch
		# shellcheck disable=SC2154
		assert_contains "$stderr" "segment 'bias' is in a file"
		run --separate-stderr -4 sgpu-stage load --files data -o staged.sgpu $batch
		assert_contains "$stderr" "not in a directory that is open to batches"
		assert_no_file staged.sgpu
		no_regions
	done
	run --separate-stderr -4 sgpu-stage load --files /proc -o staged.sgpu packed.sgpu
	run --separate-stderr -3 sgpu-stage load --files missing -o staged.sgpu packed.sgpu
	run -0 sgpu-stage load --files data --files . -o staged.sgpu packed.sgpu
}

@test "HIGH payloads that are not sealed are never staged" {
	small_job
	run --separate-stderr -0 sgpu-stage load --files . -o staged.sgpu <(sgpu-manifest pack job.json)
	# shellcheck disable=SC2154
	assert_contains "$stderr" "'scan' is HIGH and not sealed"
	[ -z "$(location scan staged.sgpu)" ]
	assert_contains "$(tar xOf staged.sgpu locations.json)" 'scan.f32'
	read -r region _ <<<"$(location bias staged.sgpu)"
	[ -n "$region" ]
	[ "$(stat -c %s "$XDG_RUNTIME_DIR/sgpu/$region")" -eq 8192 ]
}

@test "a LOW payload whose digest differs is refused with 4 and leaves nothing" {
	sealed_batch
	flip_byte sealed.sgpu $(($(stat -c %s sealed.sgpu) - 2000))
	run --separate-stderr -4 sgpu-stage load -o staged.sgpu sealed.sgpu
	assert_contains "$stderr" "kt128 of 'bias'"
	assert_no_file staged.sgpu
	no_regions
	small_job
	sgpu-manifest pack -o packed.sgpu job.json
	flip_byte bias.f32 100
	run --separate-stderr -4 sgpu-stage load --files . -o staged.sgpu packed.sgpu
	assert_no_file staged.sgpu
	no_regions
}

@test "a file that is gone, short or no file is refused and leaves nothing" {
	small_job
	sgpu-manifest pack -o packed.sgpu job.json
	truncate -s 100 bias.f32
	run --separate-stderr -1 sgpu-stage load --files . -o staged.sgpu packed.sgpu
	assert_no_file staged.sgpu
	rm bias.f32
	run --separate-stderr -3 sgpu-stage load --files . -o staged.sgpu packed.sgpu
	mkfifo bias.f32
	run --separate-stderr -1 sgpu-stage load --files . -o staged.sgpu packed.sgpu
	assert_no_file staged.sgpu
	no_regions
}

@test "a batch that is cut short is refused and leaves nothing" {
	sealed_batch 3000
	size=$(stat -c %s sealed.sgpu)
	for at in 0 100 512 2048 4096 "$((size / 2))" "$((size - 1024))" "$((size - 1))"; do
		head -c "$at" sealed.sgpu >cut.sgpu
		run --separate-stderr -1 sgpu-stage load -o staged.sgpu cut.sgpu
		assert_no_file staged.sgpu
		run --separate-stderr -1 sgpu-stage load -o staged.sgpu <cut.sgpu
		run --separate-stderr "-$((at ? 1 : 6))" sgpu-stage load -o staged.sgpu < <(cat cut.sgpu)
		assert_no_file staged.sgpu
		no_regions
	done
}

@test "a region is taken by the first runner and gone for the second" {
	sealed_batch
	sgpu-stage load -o staged.sgpu sealed.sgpu
	sgpu-run -k runner.jwk staged.sgpu >response.sgpu
	no_regions
	run --separate-stderr -4 sgpu-run -k runner.jwk -o again.sgpu staged.sgpu
	assert_contains "$stderr" "segment 'scan': there is no region"
	assert_no_file again.sgpu
}

@test "a region that is kept serves again until it is released" {
	sealed_batch
	sgpu-stage load --keep -o staged.sgpu sealed.sgpu
	sgpu-run -k runner.jwk -o a.sgpu staged.sgpu
	sgpu-run -k runner.jwk -o b.sgpu staged.sgpu
	sgpu-seal open -k owner.jwk -C out b.sgpu
	assert_same out/out.f32 expected.f32
	read -r region _ <<<"$(location scan staged.sgpu)"
	[ "$(regions)" -eq 1 ]
	sgpu-stage release "$region"
	no_regions
	run --separate-stderr -4 sgpu-run -k runner.jwk -o c.sgpu staged.sgpu
}

@test "--export prints handles for the variables that the manifest names" {
	exporting_job 1000
	make_keys
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk -o sealed.sgpu
	sgpu-stage load --export -o staged.sgpu sealed.sgpu >assignments
	[ "$(wc -l <assignments)" -eq 4 ]
	[ "$(grep -cE "^[A-Z_]+='(sgpu:[0-9a-f]{32}:[0-9]+:4000|4000)'\$" assignments)" -eq 4 ]
	eval "$(cat assignments)"
	# shellcheck disable=SC2153
	[ "$BIAS_HOST" = "$BIAS_DEV" ]
	[ "$COPY_SIZE" = 4000 ]
	read -r region offset <<<"$(location bias staged.sgpu)"
	[ "$BIAS_HOST" = "sgpu:$region:$offset:4000" ]
	read -r region offset <<<"$(location bias_copy staged.sgpu)"
	[ "$COPY_HOST" = "sgpu:$region:$offset:4000" ]
}

@test "an output with a variable is left in the region, which stays" {
	exporting_job 1000
	make_keys
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk | sgpu-stage load -o staged.sgpu
	sgpu-run -k runner.jwk -o response.sgpu staged.sgpu
	[ "$(regions)" -eq 1 ]
	read -r region offset <<<"$(location bias_copy staged.sgpu)"
	tail -c +$((4096 + offset + 1)) "$XDG_RUNTIME_DIR/sgpu/$region" | head -c 4000 | cmp - bias.f32
	sgpu-seal open -k owner.jwk -C out response.sgpu
	assert_same out/bias.copy.f32 bias.f32
	assert_same out/out.f32 expected.f32
}

@test "a batch whose manifest names a variable with a meaning to the shell is refused" {
	requires openssl
	exporting_job 100
	sgpu-manifest pack -o packed.sgpu job.json
	# The same forging with a name that is fine gives a batch that is taken.
	forge FINE_NAME
	run --separate-stderr -0 sgpu-stage load --export --files . -o staged.sgpu forged.sgpu
	assert_contains "$output" "FINE_NAME='sgpu:"
	sgpu-stage release --all
	rm staged.sgpu
	for name in PATH LD_PRELOAD IFS "A'\$(id)'" 'A B' 1A 'A=B' 'A;id'; do
		forge "$name"
		run --separate-stderr -1 sgpu-stage load --export --files . -o staged.sgpu forged.sgpu
		[ -z "$output" ]
		assert_no_file staged.sgpu
		no_regions
	done
}

@test "list shows regions as text and as JSON" {
	run --separate-stderr -0 sgpu-stage list
	[ -z "$output" ]
	run --separate-stderr -0 sgpu-stage list --json
	[ "$output" = "[]" ]
	sealed_batch
	sgpu-stage load --lifetime 2h -o a.sgpu sealed.sgpu
	sgpu-stage load --keep -o b.sgpu sealed.sgpu
	read -r a _ <<<"$(location scan a.sgpu)"
	run --separate-stderr -0 sgpu-stage list
	[ "${#lines[@]}" -eq 3 ]
	assert_contains "$output" "$a"
	assert_contains "$output" kept
	run --separate-stderr -0 sgpu-stage list --json
	assert_contains "$output" "\"region\": \"$a\""
	assert_contains "$output" '"keep": true'
}

@test "list tells what is wrong with a region" {
	sealed_batch
	sgpu-stage load -o a.sgpu sealed.sgpu
	read -r a _ <<<"$(location scan a.sgpu)"
	chmod 0644 "$XDG_RUNTIME_DIR/sgpu/$a"
	run --separate-stderr -0 sgpu-stage list
	assert_contains "$output" refused
	assert_contains "$stderr" "mode is 0644"
	run --separate-stderr -4 sgpu-run -k runner.jwk -o response.sgpu a.sgpu
	assert_contains "$stderr" "its mode is 0644, not 0600"
	run --separate-stderr -0 sgpu-stage release --all
	no_regions
}

@test "release takes regions by id, or all" {
	sealed_batch
	for i in 1 2 3; do
		sgpu-stage load -o "$i.sgpu" sealed.sgpu
	done
	read -r a _ <<<"$(location scan 1.sgpu)"
	run --separate-stderr -0 sgpu-stage release "$a"
	[ "$(regions)" -eq 2 ]
	run --separate-stderr -3 sgpu-stage release "$a"
	assert_contains "$stderr" "$a"
	run --separate-stderr -1 sgpu-stage release ../../etc/passwd
	run --separate-stderr -2 sgpu-stage release
	run --separate-stderr -2 sgpu-stage release --all "$a"
	[ "$(regions)" -eq 2 ]
	run --separate-stderr -0 sgpu-stage release --all --json
	[ "$output" = '{"released":2}' ]
	no_regions
}

@test "an expired region is refused by the runner and removed by the next load" {
	sealed_batch
	sgpu-stage load --lifetime 1s -o a.sgpu sealed.sgpu
	sleep 2
	run --separate-stderr -4 sgpu-run -k runner.jwk -o response.sgpu a.sgpu
	assert_contains "$stderr" "it has expired"
	run --separate-stderr -0 sgpu-stage list
	assert_contains "$output" expired
	sgpu-stage load -o b.sgpu sealed.sgpu
	[ "$(regions)" -eq 1 ]
}

@test "a loader that is told to stop dies by that signal and leaves nothing" {
	sealed_batch 100000
	mkfifo feed
	for signal in KILL TERM; do
		sgpu-stage load -o staged.sgpu <feed 2>messages &
		loader=$!
		exec 5>feed
		head -c 600000 sealed.sgpu >&5
		# Until the first piece has arrived, the handler may not be there yet.
		while [ -d "/proc/$loader" ] && ! grep -q 'SigCgt.*[1-9a-f]' "/proc/$loader/status"; do :; done
		while [ -d "/proc/$loader" ] && [ -z "$(find "/proc/$loader/fd" -lname '*(deleted)')" ]; do :; done
		kill -s "$signal" "$loader"
		status=0
		wait "$loader" || status=$?
		exec 5>&-
		[ "$status" -eq $((128 + $(kill -l "$signal"))) ]
		assert_no_file staged.sgpu
		no_regions
	done
}

@test "when the batch cannot be written the region goes too" {
	sealed_batch
	run --separate-stderr -3 bash -c 'sgpu-stage load sealed.sgpu >/dev/full'
	no_regions
	run --separate-stderr -3 sgpu-stage load -o sealed.sgpu/staged.sgpu sealed.sgpu
	no_regions
}

@test "a file system that is full is an error and leaves nothing" {
	requires root mount
	sealed_batch 400000
	cat >full.sh <<'END'
set -eu
mkdir small
mount -t tmpfs -o size=1m,mode=0700 tmpfs small
export XDG_RUNTIME_DIR=$PWD/small
status=0
sgpu-stage load -o staged.sgpu sealed.sgpu || status=$?
[ "$status" -eq 3 ]
[ ! -e staged.sgpu ]
[ -z "$(find small -type f)" ]
# One that others fill up meanwhile.
mount -o remount,size=5m small
dd if=/dev/zero of=small/other bs=1k count=2500 status=none
status=0
sgpu-stage load -o staged.sgpu sealed.sgpu || status=$?
[ "$status" -eq 3 ]
[ "$(find small -type f)" = small/other ]
END
	run -0 unshare --mount bash full.sh
}

@test "a folder that others can use is refused with 4" {
	sealed_batch
	mkdir -m 0755 "$XDG_RUNTIME_DIR/sgpu"
	run --separate-stderr -4 sgpu-stage load -o staged.sgpu sealed.sgpu
	assert_contains "$stderr" "0755"
	assert_no_file staged.sgpu
	run --separate-stderr -4 sgpu-stage list
	rmdir "$XDG_RUNTIME_DIR/sgpu"
	mkdir elsewhere
	ln -s "$PWD/elsewhere" "$XDG_RUNTIME_DIR/sgpu"
	run --separate-stderr -4 sgpu-stage load -o staged.sgpu sealed.sgpu
	assert_no_file staged.sgpu
}

@test "a batch with nothing to stage passes without a region" {
	cat >job.json <<'END'
{ "version": 1, "manifest_id": "none",
  "segments": [
    { "segment_id": "scan", "data_location_client": "scan.f32", "sensitivity_level": "HIGH", "direction": "INPUT",
      "gpu_operation_id": "C", "data_type_info": { "dtype": "f32", "shape": [4] } },
    { "segment_id": "out", "data_location_client": "out.f32", "sensitivity_level": "HIGH", "direction": "OUTPUT",
      "gpu_operation_id": "C" } ],
  "operations": [
    { "gpu_operation_id": "C", "kernel": "copy", "arguments": { "input": "scan", "output": "out" } } ] }
END
	head -c 16 /dev/zero >scan.f32
	sgpu-manifest pack -o packed.sgpu job.json
	sgpu-stage load -q --files . -o staged.sgpu packed.sgpu
	assert_same packed.sgpu staged.sgpu
	no_regions
}

@test "input and output may not be the same file" {
	sealed_batch
	cp sealed.sgpu copy.sgpu
	run --separate-stderr -2 sgpu-stage load -o sealed.sgpu sealed.sgpu
	assert_same sealed.sgpu copy.sgpu
	no_regions
}

@test "the output takes the place of no payload" {
	sealed_batch
	sgpu-manifest pack -o packed.sgpu job.json
	cp bias.f32 before
	run --separate-stderr -2 sgpu-stage load --files . -o ./bias.f32 packed.sgpu
	assert_same bias.f32 before
	no_regions
}

@test "options that make no sense are usage errors" {
	sealed_batch
	for option in "--lifetime=0" "--lifetime=-1s" "--lifetime=x" "--lifetime=11000d" "--node=-1" "--node=x" \
		"--jobs=x" "--jobs=99999" "--nonsense"; do
		run --separate-stderr -2 sgpu-stage load "$option" -o staged.sgpu sealed.sgpu
		assert_no_file staged.sgpu
	done
	run --separate-stderr -2 sgpu-stage load sealed.sgpu sealed.sgpu
	run --separate-stderr -2 sgpu-stage list sealed.sgpu
	run --separate-stderr -2 sgpu-stage load --export sealed.sgpu
	[ -z "$output" ]
	assert_contains "$stderr" "-o"
	run --separate-stderr -3 sgpu-stage load -o staged.sgpu absent.sgpu
	no_regions
}

@test "a NUMA node that is not there is refused" {
	sealed_batch
	run --separate-stderr sgpu-stage load --node 999 -o staged.sgpu sealed.sgpu
	# shellcheck disable=SC2154
	[ "$status" -eq 2 ] || [ "$status" -eq 3 ]
	# A kernel without NUMA has no node to name.
	case $stderr in
	*999* | *NUMA*) ;;
	*) false ;;
	esac
	assert_no_file staged.sgpu
	no_regions
}

@test "a folder on a disk is warned of" {
	[ "$(stat -f -c %T "$BATS_TEST_TMPDIR")" != tmpfs ] || skip "the test folder is in memory"
	sealed_batch
	mkdir -m 0700 disk
	XDG_RUNTIME_DIR=$PWD/disk run --separate-stderr -0 sgpu-stage list
	assert_contains "$stderr" "not in memory"
	XDG_RUNTIME_DIR=$PWD/disk run --separate-stderr -0 sgpu-stage load -o staged.sgpu sealed.sgpu
	assert_contains "$stderr" "not in memory"
	[ -n "$(location bias staged.sgpu)" ]
}

# ---- pinned regions ----

# slice HANDLE OFFSET SIZE: the handle of a part.
slice() {
	printf '%s:%s:%s' "${1%:*:*}" "$2" "$3"
}

# pinned_batch [ELEMENTS]: scan and bias in $IN, the batch in sealed.sgpu.
pinned_batch() {
	small_job "$@"
	make_keys
	IN=$(sgpu-stage pin 600000)
	sgpu-manifest pack --at "scan=$(slice "$IN" 8 500000)" --at "bias=$(slice "$IN" 524288 30000)" job.json |
		sgpu-seal seal -k owner.jwk -r runner.pub.jwk -o sealed.sgpu
}

@test "payloads are sealed into a pinned region, again and again, and a runner takes them from there" {
	pinned_batch 5000
	tar tf sealed.sgpu | run -1 grep segments/
	[ "$(location scan sealed.sgpu)" = "$(cut -d : -f 2 <<<"$IN") 8" ]
	run -1 grep -qF "$(head -c 64 scan.f32 | tail -c 32)" "$XDG_RUNTIME_DIR"/sgpu/*
	for i in 1 2; do
		sgpu-run -k runner.jwk sealed.sgpu | sgpu-seal open -k owner.jwk -C "out$i"
		assert_same "out$i/out.f32" expected.f32
		assert_same "out$i/bias.copy.f32" bias.f32
		sgpu-manifest pack --at "scan=$(slice "$IN" 8 500000)" job.json |
			sgpu-seal seal -k owner.jwk -r runner.pub.jwk >sealed.sgpu
	done
	[ "$(regions)" -eq 1 ]
}

@test "results go to a handle, and the response names it; elsewhere it is refused with the segment's name" {
	requires jq
	pinned_batch 5000
	OUT=$(sgpu-stage pin --results 1M)
	sgpu-run -k runner.jwk -o "$OUT" sealed.sgpu >response
	[ "$(stat -c %s response)" -lt 10000 ]
	tar xOf response locations.json | jq -e --arg id "$(cut -d : -f 2 <<<"$OUT")" \
		'[.locations[].handle | startswith("sgpu:" + $id)] == [true, true]'
	sgpu-seal open -k owner.jwk -C out response
	assert_same out/out.f32 expected.f32
	assert_same out/bias.copy.f32 bias.f32
	printf x | dd of="$XDG_RUNTIME_DIR/sgpu/$(cut -d : -f 2 <<<"$OUT")" bs=1 seek=8000 conv=notrunc status=none
	run --separate-stderr -4 sgpu-seal open -k owner.jwk -C altered response
	assert_contains "$stderr" "'result'"
	assert_no_file altered
	mkdir -m 700 other
	run --separate-stderr -3 env XDG_RUNTIME_DIR="$PWD/other" sgpu-seal open -k owner.jwk -C nowhere response
	assert_contains "$stderr" "output 'result': there is no region"
	# 20000 bytes in two chunks, sealed, up to a multiple of 64; then 20000.
	run -0 sgpu-run -q -k runner.jwk -o "$(slice "$OUT" 0 $((20096 + 20000)))" sealed.sgpu
	run --separate-stderr -1 sgpu-run -k runner.jwk -o "$(slice "$OUT" 0 $((20096 + 19999)))" sealed.sgpu
	assert_contains "$stderr" "segment 'bias_copy': its result may have 20000 bytes, and 19999 are left"
	run --separate-stderr -1 sgpu-run -k runner.jwk -o sgpu:00:0:1 sealed.sgpu
	assert_contains "$stderr" "is not a handle"
}

@test "places that overlap are refused by pack, by seal, and before the batch is recorded, with both names" {
	pinned_batch 5000
	sgpu-seal keyinfo --owner owner.jwk >owners
	local out runner=(sgpu-run -k runner.jwk --owners owners --state state)
	run --separate-stderr -1 sgpu-manifest pack --at "scan=$(slice "$IN" 8 30000)" --at "bias=$(slice "$IN" 20095 30000)" job.json
	assert_contains "$stderr" "segments 'scan' and 'bias' would use the same bytes of region"
	sgpu-manifest pack --at "scan=$(slice "$IN" 8 30000)" --at "bias=$(slice "$IN" 20096 30000)" job.json >packed
	sed 's/:20096:20000/:20095:20000/' packed >overlaps
	run --separate-stderr -1 sgpu-seal seal -k owner.jwk -r runner.pub.jwk overlaps
	assert_contains "$stderr" "segments 'scan' and 'bias' would use the same bytes"
	out=$(sgpu-stage pin --results 100000)
	sgpu-manifest pack --at "bias_copy=$(slice "$out" 20000 20000)" job.json |
		sgpu-seal seal -k owner.jwk -r runner.pub.jwk >sealed.sgpu
	run --separate-stderr -1 "${runner[@]}" -o "$out" sealed.sgpu
	assert_contains "$stderr" "segments 'result' and 'bias_copy' would use the same bytes"
	run -0 "${runner[@]}" -o "$(slice "$out" 50000 50000)" sealed.sgpu
	# Whoever carries the batch moves a result onto the last byte of an input.
	exporting_job 5000
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk >sealed.sgpu
	sgpu-stage load --export -o staged sealed.sgpu
	sed 's/:40960:20000/:40479:20000/' staged >moved
	run --separate-stderr -1 "${runner[@]}" moved
	assert_contains "$stderr" "segments 'bias' and 'bias_copy' would use the same bytes"
	run -0 "${runner[@]}" staged
}

@test "a packed batch that names its manifest by the hash may have places for results" {
	small_job 5000
	make_keys
	local out
	out=$(sgpu-stage pin --results 100000)
	sgpu-manifest pack --by-hash --manifest-out manifest.json --at "result=$out" job.json |
		sgpu-seal seal -k owner.jwk -r runner.pub.jwk >sealed.sgpu
	sgpu-run -q -k runner.jwk --manifest manifest.json sealed.sgpu >response
	[ "$(location result response)" = "$(cut -d : -f 2 <<<"$out") 0" ]
	sgpu-seal open -q -k owner.jwk -C out response
	assert_same out/out.f32 expected.f32
}

@test "a region that is cut short while it is filled is an error with its name, and pack fills none in vain" {
	small_job 5000
	make_keys
	IN=$(sgpu-stage pin 600000)
	file=$XDG_RUNTIME_DIR/sgpu/$(cut -d : -f 2 <<<"$IN")
	cp "$file" before
	mv scan.f32 away
	run --separate-stderr -3 sgpu-manifest pack --at "bias=$IN" job.json
	assert_same "$file" before
	mv away scan.f32
	sgpu-manifest pack --at "scan=$IN" job.json >packed
	# The region is filled before the first byte of the batch is written.
	run -3 bash -c 'sgpu-seal seal -k owner.jwk -r runner.pub.jwk packed >/dev/full'
	run -1 cmp -s "$file" before
	sgpu-stage release --all
	run --separate-stderr -3 sgpu-seal seal -k owner.jwk -r runner.pub.jwk packed
	assert_contains "$stderr" "segment 'scan': there is no region"
	# What the machine lacks is no fault of the batch.
	mkdir another
	cd another
	pinned_batch 5000
	sgpu-seal keyinfo --owner owner.jwk >owners
	# With fewer files than admission opens, the batch can come again. With one fewer than the
	# run opens, the batch was recorded, and its segments fail.
	code=3
	for ((files = 8; code == 3; files++)); do
		code=0
		prlimit --nofile=$files:$files sgpu-run -q --device cpu -k runner.jwk --owners owners --state st \
			-o response sealed.sgpu 2>errors || code=$?
	done
	run ! grep -q 'taken before' errors
	[ "$code" -eq 0 ] || [ "$code" -eq 5 ]
}

@test "a place of the environment is taken, and --at wins" {
	requires jq
	exporting_job 5000
	make_keys
	eval "$(sgpu-stage pin --as BIAS_HOST 100K)"
	eval "$(sgpu-stage pin --as COPY_HOST --results 100K)"
	export BIAS_HOST COPY_HOST
	other=$(sgpu-stage pin 100K)
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk >sealed.sgpu
	[ "$(location bias sealed.sgpu)" = "$(cut -d : -f 2 <<<"$BIAS_HOST") 0" ]
	sgpu-run -k runner.jwk sealed.sgpu >response
	[ "$(location bias_copy response)" = "$(cut -d : -f 2 <<<"$COPY_HOST") 0" ]
	sgpu-seal open -k owner.jwk -C out response
	assert_same out/bias.copy.f32 bias.f32
	sgpu-manifest pack --at "bias=$other" job.json >packed
	[ "$(location bias packed)" = "$(cut -d : -f 2 <<<"$other") 0" ]
	run --separate-stderr -1 env BIAS_HOST=0x7f0000000000 sgpu-manifest pack job.json
	assert_contains "$stderr" "the variable 'BIAS_HOST' has no handle"
	[[ $stderr != *0x7f* ]]
}

@test "a handle that is not right is refused with its own text, before the batch is recorded" {
	requires root
	pinned_batch 5000
	sgpu-seal keyinfo --owner owner.jwk >owners
	local id file runner=(sgpu-run -k runner.jwk --owners owners --state state)
	id=$(cut -d : -f 2 <<<"$IN")
	file=$XDG_RUNTIME_DIR/sgpu/$id
	cp -p "$file" good
	# refused_as TEXT
	refused_as() {
		run --separate-stderr -4 "${runner[@]}" -o response sealed.sgpu
		assert_contains "$stderr" "$1"
		assert_no_file response
	}
	chown 54321 "$file"
	refused_as "it belongs to another user"
	chown 0 "$file"
	truncate -s -4096 "$file"
	refused_as "not what its metadata say"
	cp good "$file"
	printf 'x' | dd of="$file" conv=notrunc status=none
	refused_as "its metadata are damaged"
	rm "$file"
	refused_as "there is no region"
	cp -p good "$file"
	OUT=$(sgpu-stage pin --results 1M)
	run --separate-stderr -4 "${runner[@]}" -o "$IN" sealed.sgpu
	assert_contains "$stderr" "is for inputs, and a result cannot be there"
	sed "s/$id/$(cut -d : -f 2 <<<"$OUT")/g" sealed.sgpu >swapped.sgpu
	run --separate-stderr -4 "${runner[@]}" swapped.sgpu
	assert_contains "$stderr" "is for results, and an input cannot be there"
	sed 's/:524288:/:580001:/' sealed.sgpu >far.sgpu
	run --separate-stderr -4 "${runner[@]}" far.sgpu
	assert_contains "$stderr" "20000 bytes at 580001 are not in region '$id', which has 600000"
	# Nothing of all this was recorded.
	run -0 "${runner[@]}" -o response sealed.sgpu
	sgpu-seal open -k owner.jwk -C out response
	assert_same out/out.f32 expected.f32
	run --separate-stderr -4 "${runner[@]}" -o again sealed.sgpu
	assert_contains "$stderr" "taken"
}

@test "places that cannot be are refused by pack" {
	small_job 5000
	local handle
	handle=$(sgpu-stage pin 1M)
	for at in nothing "nobody=$handle" "sum=$handle"; do
		run --separate-stderr -2 sgpu-manifest pack --at "$at" job.json
		assert_contains "$stderr" "is not SEGMENT=HANDLE of an input or output"
	done
	run --separate-stderr -1 sgpu-manifest pack --at "scan=$(slice "$handle" 0 20055)" job.json
	assert_contains "$stderr" "the place of segment 'scan' has 20055 bytes, and"
	run --separate-stderr -1 sgpu-manifest pack --at "scan=$(slice "$handle" 00 90000)" job.json
	assert_contains "$stderr" "is not a handle"
	run --separate-stderr -2 sgpu-stage pin 0
	run --separate-stderr -2 sgpu-stage pin --as 1X 4K
	run --separate-stderr -2 sgpu-stage pin --as LD_PRELOAD 4K
	run --separate-stderr -2 sgpu-stage pin
}

@test "a packed batch says where sealed payloads go in one way, and no other batch does" {
	small_job 5000
	make_keys
	IN=$(sgpu-stage pin 600000)
	sgpu-manifest pack --at "scan=$IN" job.json >packed
	tar xOf packed locations.json | grep -qF "\"at\":\"$(slice "$IN" 0 20088)\""
	# seals_not FROM TO TEXT
	seals_not() {
		sed "s/$1/$2/" packed >changed
		run --separate-stderr -1 sgpu-seal seal -k owner.jwk -r runner.pub.jwk changed
		assert_contains "$stderr" "$3"
	}
	seals_not '"at":' '"ta":' "unknown member 'ta'"
	seals_not ':0:20088"' ':0:20087"' "the handle has 20087 bytes, the payload 20088"
	sgpu-seal seal -k owner.jwk -r runner.pub.jwk packed >sealed.sgpu
	sed 's/"handle":"\(sgpu:[^"]*\)"/"at":"\1"    /' sealed.sgpu >changed
	run --separate-stderr -1 sgpu-run -k runner.jwk changed
	assert_contains "$stderr" "none of file, handle, lease"
	sgpu-stage release --all
	run --separate-stderr -3 sgpu-seal seal -k owner.jwk -r runner.pub.jwk packed
	assert_contains "$stderr" "there is no region"
}
