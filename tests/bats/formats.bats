#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # bats sets stderr
#
# People's files through the whole way: formats of inputs and outputs, and that the host sees nothing of them.

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	requires python3
	sgpu-seal keygen -q -o owner.jwk
	# make.py: a scan of i16 in big-endian NIfTI-1 with an affine, and what a threshold makes of it.
	cat >make.py <<-'PY'
	import gzip, struct, sys
	voxels = [(7 * i * i) % 501 - 100 for i in range(4 * 3 * 2)]
	def header(order, kind, bits, magic=b"n+1\0", offset=352):
	    h = bytearray(348)
	    struct.pack_into(order + "i", h, 0, 348)
	    struct.pack_into(order + "8h", h, 40, 3, 4, 3, 2, 1, 1, 1, 1)
	    struct.pack_into(order + "hh", h, 70, kind, bits)
	    struct.pack_into(order + "8f", h, 76, -1, 2, 3, 4, 1, 1, 1, 1)
	    struct.pack_into(order + "fff", h, 108, offset, 1, 0)
	    h[123] = 10
	    h[148:156] = b"private!"
	    struct.pack_into(order + "hh", h, 252, 1, 4)
	    struct.pack_into(order + "12f", h, 280, -2, 0, 0, 9, 0, 3, 0, -8, 0, 0, 4, 7)
	    h[344:348] = magic
	    return bytes(h)
	big = header(">", 4, 16) + bytes(4) + struct.pack(">24h", *voxels)
	little = header("<", 4, 16) + bytes(4) + struct.pack("<24h", *voxels)
	open("scan.nii.gz", "wb").write(gzip.compress(big))
	open("scan.nii", "wb").write(little)
	open("big.nii", "wb").write(big)
	open("pair.hdr", "wb").write(header("<", 4, 16, b"ni1\0", 0))
	open("pair.img.gz", "wb").write(gzip.compress(struct.pack("<24h", *voxels)))
	open("raw", "wb").write(struct.pack("<24h", *voxels))
	open("mask.want", "wb").write(header("<", 2, 8) + bytes(4) + bytes(0 <= v <= 99 for v in voxels))
	open("copy.want", "wb").write(little)
	PY
	python3 make.py
}

# job INPUT_FIELDS OUTPUT_FIELDS [LEVEL [KERNEL]]: a manifest for one input and one output, i16[2,3,4].
job() {
	local kernel=${4:-copy} params=
	[ "$kernel" != threshold ] || params='"params": {"low": 0, "high": 99},'
	cat <<-JSON
	{"version": 1, "manifest_id": "formats", "segments": [
	{"segment_id": "in", "direction": "INPUT", "sensitivity_level": "${3:-HIGH}",
	 "data_type_info": {"dtype": "i16", "shape": [2, 3, 4]}, $1},
	{"segment_id": "out", "direction": "OUTPUT", "sensitivity_level": "${3:-HIGH}", $2}],
	"operations": [{"gpu_operation_id": "OP", "kernel": "$kernel", $params "arguments": {"input": "in", "output": "out"}}]}
	JSON
}
file() {
	printf '"data_location_client": "%s", "file": %s' "$1" "$2"
}
# through OPEN_OPTION...: packs, seals, runs and opens job.json.
through() {
	sgpu-manifest pack job.json >packed && sgpu-seal seal -q -k owner.jwk packed >"batch" &&
		sgpu-run -k owner.jwk <"batch" >response && sgpu-seal open -k owner.jwk "$@" response
}
unpack() {
	python3 -c 'import gzip,sys; sys.stdout.buffer.write(gzip.open(sys.argv[1]).read())' "$1"
}

@test "a compressed big-endian scan goes in HIGH, and a mask comes out with its geometry" {
	job "$(file scan.nii.gz '{"format": "nifti"}')" "$(file m/mask.nii.gz '{"format": "nifti.gz", "like": "in"}')" HIGH threshold >job.json
	through -C out
	unpack out/m/mask.nii.gz | assert_same mask.want /dev/stdin
	cp out/m/mask.nii.gz first
	through -C out --force
	assert_same first out/m/mask.nii.gz
	# Neither the scan's geometry nor a name or a format is in what the host has.
	run ! grep -aqE 'private!|nifti|mask.nii|scan.nii|cHJpdmF0ZS' batch response
	tar xOf packed note | grep -q '"format":"nifti.gz"'
}

@test "plain scans, pairs, and LOW data take the same way" {
	local level from
	for level in HIGH LOW; do
		for from in scan.nii big.nii scan.nii.gz pair.hdr pair.img.gz; do
			job "$(file $from '{"format": "nifti"}')" "$(file copy.nii '{"format": "nifti", "like": "in"}')" $level >job.json
			through -C out
			assert_same copy.want out/copy.nii
			rm -r out
		done
	done
	# What lies in its file as it is stays there.
	job "$(file scan.nii '{"format": "nifti"}')" '"data_location_client": "copy"' LOW >job.json
	sgpu-manifest pack job.json >packed
	tar xOf packed locations.json | grep -q '"offset":352'
}

@test "outputs are .npy and .npz, in both orders of axes and as bool" {
	cat >want.py <<-'PY'
	import io, struct, sys, zipfile
	data = open(sys.argv[1], "rb").read()
	if data[:2] == b"PK":
	    data = zipfile.ZipFile(sys.argv[1]).read("arr_0.npy")
	end = 10 + struct.unpack("<H", data[8:10])[0]
	assert data[:8] == b"\x93NUMPY\1\0" and end % 64 == 0
	assert eval(data[10:end]) == eval(sys.argv[2]), data[10:end]
	assert data[end:] == open(sys.argv[3], "rb").read()
	PY
	head -c 376 mask.want | tail -c 24 >mask.raw
	local format
	for format in npy npz; do
		job "$(file scan.nii.gz '{"format": "nifti"}')" "$(file "x.$format" "{\"format\": \"$format\"}")" >job.json
		through -C out
		python3 want.py out/x.$format '{"descr": "<i2", "fortran_order": False, "shape": (2, 3, 4)}' raw
		job "$(file scan.nii.gz '{"format": "nifti"}')" "$(file "y.$format" "{\"format\": \"$format\", \"axes\": \"reversed\"}")" >job.json
		through -C out
		python3 want.py out/y.$format '{"descr": "<i2", "fortran_order": True, "shape": (4, 3, 2)}' raw
		job "$(file scan.nii.gz '{"format": "nifti"}')" "$(file "z.$format" "{\"format\": \"$format\", \"boolean\": true}")" HIGH threshold >job.json
		through -C out
		python3 want.py out/z.$format '{"descr": "|b1", "fortran_order": False, "shape": (2, 3, 4)}' mask.raw
	done
	# They go in again, .npz by member or without.
	job "$(file out/x.npz '{"format": "npz", "member": "arr_0"}')" '"data_location_client": "again"' >job.json
	through -C out
	assert_same raw out/again
	job "$(file out/x.npz '{"format": "npz"}')" '"data_location_client": "more"' >job.json
	through -C out
	assert_same raw out/more
}

@test "one output goes to -o or a pipe in the format of the note" {
	local level
	for level in HIGH LOW; do
		job "$(file scan.nii.gz '{"format": "nifti"}')" "$(file x '{"format": "nifti", "like": "in"}')" $level >job.json
		sgpu-manifest pack job.json | sgpu-seal seal -q -k owner.jwk 2>/dev/null | sgpu-run -k owner.jwk >response
		sgpu-seal open -q -k owner.jwk -o a.npy response
		assert_same copy.want a.npy
		sgpu-seal open -q -k owner.jwk response | assert_same copy.want /dev/stdin
		rm a.npy
	done
}

@test "a manifest that disagrees with a file is refused when it is packed" {
	refused() {
		run --separate-stderr "-${2:-1}" sgpu-manifest pack -o packed "${@:3}" job.json
		assert_contains "$stderr" "$1"
		assert_no_file packed
	}
	local out='"data_location_client": "o"'
	job "$(file scan.nii.gz '{"format": "npy"}')" "$out" >job.json
	refused "'scan.nii.gz' is nifti, not npy"
	job "$(file scan.nii.gz '{"format": "nifti"}')" "$out" | sed 's/2, 3, 4/4, 3, 2/' >job.json
	refused "'scan.nii.gz' holds i16[2,3,4], the manifest states i16[4,3,2]"
	job "$(file scan.nii.gz '{"format": "nifti"}')" "$out" | sed 's/2, 3, 4/1, 2, 3, 4/' >job.json
	sgpu-manifest pack -o fine job.json
	job "$(file raw '{"format": "nifti"}')" "$out" >job.json
	refused "'raw' is data of no known kind, not an array"
	head -c 60 scan.nii.gz >short.nii.gz
	job "$(file short.nii.gz '{"format": "nifti"}')" "$out" >job.json
	refused "'short.nii.gz' is damaged: its compressed data: cut short"
	job '"data_location_client": "raw"' "$(file o '{"format": "nifti", "like": "in"}')" >job.json
	refused "'raw' is data of no known kind"
	job '"data_location_client": "raw"' "$(file o '{"format": "npy", "boolean": true}')" >job.json
	refused "'out': the format does not have this type"
	job '"data_location_client": "raw"' "$(file o '{"format": "nifti"}')" | sed 's/i16/f16/' >job.json
	refused "'out': NIfTI has no type f16"
	job "$(file scan.nii.gz '{"format": "nifti"}')" "$out" LOW >job.json
	refused "'scan.nii.gz' is unpacked, and has no place" 2 --at in=sgpu:0123456789abcdef0123456789abcdef:0:4096
	ln -s /etc/passwd passwd.nii
	job "$(file passwd.nii '{"format": "nifti"}')" "$out" >job.json
	refused "leads outside the manifest's directory" 4
}

@test "fields that a direction does not have are reported with their places" {
	check() {
		run --separate-stderr -1 sgpu-manifest check job.json
		assert_contains "$stderr" "$1"
	}
	job "$(file scan.nii '{"format": "nifti", "like": "in"}')" '"data_location_client": "o"' >job.json
	check "/segments/0/file/like: this field is for outputs"
	job "$(file scan.nii '{"format": "nifti.gz"}')" '"data_location_client": "o"' >job.json
	check "/segments/0/file/format: 'nifti.gz' is not one of nifti, npy, npz, idx"
	job '"data_location_client": "raw"' "$(file o '{"format": "npz", "member": "a"}')" >job.json
	check "/segments/1/file/member: this field is for inputs"
	job '"data_location_client": "raw"' "$(file o '{"format": "npz", "axes": "F", "boolean": 1}')" >job.json
	check "/segments/1/file/axes: 'F' is not one of reversed"
	check "/segments/1/file/boolean: 1 is not a truth value"
	job '"data_location_client": "raw"' "$(file o '{"format": "nifti", "like": "on"}')" >job.json
	check "/segments/1/file/like: 'on' is not a segment of this manifest"
	job '"data_location_client": "raw"' "$(file o '{"format": "nifti", "like": "out"}')" >job.json
	check "/segments/1/file/like: 'out' is not an INPUT"
	job "$(file scan.nii '{"format": "nifti"}')" '"data_location_client": "o"' | sed 's/4\]}/4], "offset": 352}/' >job.json
	check "/segments/0/file/format: a file with a format has no offset"
	job "$(file scan.nii '{}')" '"data_location_client": "o"' >job.json
	check "/segments/0/file: missing field 'format'"
}

@test "a file that changed after it was packed is not sealed" {
	job "$(file scan.nii.gz '{"format": "nifti"}')" '"data_location_client": "o"' >job.json
	sgpu-manifest pack -o packed job.json
	cp scan.nii.gz whole
	head -c 100 whole >scan.nii.gz
	run --separate-stderr -1 sgpu-seal seal -k owner.jwk -o batch packed
	assert_contains "$stderr" "scan.nii.gz' is damaged"
	python3 -c 'import gzip; gzip.open("scan.nii.gz", "wb").write(gzip.open("whole").read() + b"x")'
	run --separate-stderr -1 sgpu-seal seal -k owner.jwk -o batch packed
	assert_contains "$stderr" "it goes on after the last element"
	mv scan.nii scan.nii.gz
	truncate -s 398 scan.nii.gz
	run --separate-stderr -1 sgpu-seal seal -k owner.jwk -o batch packed
	assert_contains "$stderr" "less than the 400 that its header promises"
	assert_no_file batch
}

@test "a place that has an output, or no room, gets no file" {
	job "$(file scan.nii.gz '{"format": "nifti"}')" "$(file x.nii.gz '{"format": "nifti.gz", "like": "in"}')" >job.json
	through -C out
	run --separate-stderr -3 sgpu-seal open -k owner.jwk -C out response
	assert_contains "$stderr" "exists"
	if [ -c /dev/full ]; then
		run --separate-stderr -3 sgpu-seal open -k owner.jwk -o /dev/full response
		assert_contains "$stderr" "No space left"
	fi
	# An altered payload leaves nothing.
	python3 - <<-'PY'
	data = bytearray(open("response", "rb").read())
	at = data.index(b"segments/out") + 512 + 60
	data[at] ^= 1
	open("response", "wb").write(data)
	PY
	run --separate-stderr -4 sgpu-seal open -k owner.jwk -C other response
	[ ! -e other ]
}

@test "an output whose size only the run knows has no format, and names are in any language" {
	job "$(file scan.nii.gz '{"format": "nifti"}')" "$(file 'o' '{"format": "npy"}')" HIGH threshold | sed 's/"high": 99/"high": 99, "mode": "indices"/' >job.json
	run --separate-stderr -1 sgpu-manifest pack -o packed job.json
	assert_contains "$stderr" "has a size that only the run knows"
	cp scan.nii.gz 扫描.nii.gz
	sgpu-manifest init -q threshold low=0 high=99 扫描.nii.gz >扫描.json
	mv -f 扫描.json job.json
	through -C out
	head -c 376 mask.want | tail -c 24 | assert_same out/扫描.threshold.u8 /dev/stdin
	LC_ALL=C.UTF-8 run --separate-stderr -3 sgpu-manifest init copy 图像.nii
	assert_contains "$stderr" "cannot open '图像.nii'"
}

@test "init takes a file of any format" {
	job "$(file scan.nii.gz '{"format": "nifti"}')" "$(file x.npz '{"format": "npz"}')" >job.json
	through -C .
	local from
	for from in scan.nii.gz pair.hdr pair.img.gz x.npz x.npz:arr_0; do
		rm -f job.json
		sgpu-manifest init -q copy $from >job.json
		through -o got --force
		assert_same raw got
	done
	sgpu-manifest init -q copy x.npz:arr_0 | tr -d ' \n' | grep -q '"file":{"format":"npz","member":"arr_0"}'
	run --separate-stderr -1 sgpu-manifest init copy x.npz:b
	assert_contains "$stderr" "'x.npz' has no array 'b'; it has: arr_0"
}

@test "HIGH data in files go into a region, and shards keep what their outputs are like" {
	local at
	at=$(sgpu-stage pin 4096 2>/dev/null) || skip "no region can be made here"
	job "$(file scan.nii.gz '{"format": "nifti"}')" "$(file x.nii '{"format": "nifti", "like": "in"}')" >job.json
	sgpu-manifest pack --at in="$at" job.json | sgpu-seal seal -q -k owner.jwk -o batch
	sgpu-run -k owner.jwk <"batch" | sgpu-seal open -k owner.jwk -C out
	assert_same copy.want out/x.nii
	sgpu-stage release "$(cut -d: -f2 <<<"$at")"
	python3 - <<-'PY'
	import json
	job = json.load(open("job.json"))
	for name in ("two", "three"):
	    for segment in job["segments"][:2]:
	        other = dict(segment, segment_id=name + segment["segment_id"])
	        if "out" in other["segment_id"]:
	            other["data_location_client"] = name + ".nii"
	            other["file"] = {"format": "nifti", "like": "in" if name == "two" else "threein"}
	        job["segments"].append(other)
	    job["operations"].append({"gpu_operation_id": name, "kernel": "copy", "arguments": {"input": name + "in", "output": name + "out"}})
	json.dump(job, open("jobs.json", "w"))
	PY
	sgpu-manifest split -q jobs.json
	ls shard-*.json >shards
	[ "$(wc -l <shards)" -eq 2 ]
	xargs sgpu-manifest check <shards
}

@test "a note of somebody else makes no other file than the output's" {
	local row
	job '"data_location_client": "raw"' "$(file x.nii '{"format": "nifti", "axes": "reversed"}')" LOW >job.json
	sgpu-manifest pack job.json >packed
	# A packed batch has its note in the clear, and seal takes it as it is.
	while read -r row; do
		rewrite packed changed "
note = json.loads(members['note'])
file = note['outputs'][0]['file']
$row
members['note'] = dump(note)
index['note_sha256'] = text(hashlib.sha256(members['note']).digest())"
		sgpu-seal seal -q -k owner.jwk changed 2>/dev/null | sgpu-run -k owner.jwk >response
		run --separate-stderr -1 sgpu-seal open -k owner.jwk -C out response
		assert_contains "$stderr" "note: "
		[ ! -e out ]
		run --separate-stderr -1 sgpu-seal open -k owner.jwk -o x response
		assert_no_file x
	done <<-'ROWS'
	file['shape'] = [2, 3, 5]
	file['shape'] = [2, 3, 2, 2, 1]
	file['shape'] = [2, 3, -4]
	file['shape'] = [2, 3, '4']
	file['shape'] = 24
	file['shape'] = [1 << 62, 3, 4]
	file['dtype'] = 'f32'
	file['dtype'] = 'none'
	file['format'] = 'raw'
	file['format'] = '../../x.nii'
	file['format'] = 7
	file['axes'] = 'forward'
	file['boolean'] = 'yes'
	file['header'] = 'no base64url!'
	file['more'] = 1
	del file['dtype']
	note['outputs'][0]['file'] = []
	ROWS
}

@test "few elements are printed as people write them, and give back their values" {
	requires python3
	python3 -c 'import struct, sys; sys.stdout.buffer.write(struct.pack("<8f", 100, 1 / 3, 1e-5, 1e16, -0.0, 123456792, float("nan"), 2**-149))' >f32
	[ "$(sgpu run -q copy f32:f32:8)" = "100 0.33333334 1e-05 1e+16 -0 123456792 nan 1e-45" ]
	python3 -c 'import struct, sys; sys.stdout.buffer.write(struct.pack("<3d", 1 / 3, 1e15, -1e300))' >f64
	[ "$(sgpu run -q copy f64:f64:3)" = "0.3333333333333333 1000000000000000 -1e+300" ]
	[ "$(sgpu run -q --json copy f64:f64:3 2>/dev/null)" = '{"dtype":"f64","values":[0.3333333333333333,1000000000000000,-1e+300]}' ]
	[ "$(sgpu run -q --json copy f32:f32:8 2>/dev/null)" = '{"dtype":"f32","values":[100,0.33333334,1e-05,1e+16,-0,123456792,"nan",1e-45]}' ]
	head -c 64 /dev/zero >some
	[ "$(sgpu run -q copy some:u8:64 | wc -w)" -eq 64 ]
	head -c 65 /dev/zero >many
	run --separate-stderr -2 sgpu run -q copy many:u8:65
	assert_contains "$stderr" "-o FILE names its file"
}

@test "files of several outputs are in this directory or below, or refused" {
	mkdir -p here/below
	head -c 12 /dev/zero >here/zeros
	cd here
	local words="black_scholes price=zeros:f32:3 strike=zeros:f32:3 years=zeros:f32:3 rate=0 volatility=1"
	# shellcheck disable=SC2086 # words
	run --separate-stderr -2 sgpu run -q $words -o output_call=../call.npy -o output_put=put.npy
	assert_contains "$stderr" "'../call.npy'"
	assert_no_file put.npy ../call.npy call.npy
	# shellcheck disable=SC2086
	sgpu run -q $words -o output_call=below/call.npy -o output_put=put.npy
	[ -s below/call.npy ]
	[ -s put.npy ]
}
