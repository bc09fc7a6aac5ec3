#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Memory that a batch of which nothing is known yet may cost: at most four bytes for each of its own, and a little.
# What is only said to follow costs nothing.

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	requires python3 gnu-time no-sanitizer
}

# peak COMMAND...: its exit status, and in the file peak the KiB that it had of memory at most.
peak() {
	local status=0
	/usr/bin/time -q -f %M -o peak "$@" >/dev/null 2>message || status=$?
	return "$status"
}

# make_head KIND FILE: 16 MiB of it, or what KIND says.
make_head() {
	python3 - "$@" <<'END'
import base64, hashlib, io, json, sys, tarfile
kind, path = sys.argv[1:]
size = 16 << 20
def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(',', ':')).encode()
def text(data):
    return base64.urlsafe_b64encode(data).decode().rstrip('=')
def index(manifest, segments):
    return canonical(dict(segments=segments, aead='AEAD_AES_256_GCM', alg='c2sp.org/chunked-encryption',
        manifest_sha256=text(hashlib.sha256(manifest).digest())))
def fill(before, item, behind):
    count = (size - len(before) - len(behind)) // (len(item) + 1)
    return before + b','.join([item] * count) + behind
manifest, payloads, places, response = b'{}', [], None, kind == 'response'
if kind == 'list':
    head = fill(b'[', b'{}', b']')
elif kind in ('segments', 'response'):
    head = fill(b'{"segments":[', b'{}', b']}')
elif kind == 'escaped':
    head = fill(b'{"segm\\u0065nts":[', b'[]', b']}')
elif kind == 'string':
    head = b'{"segments":["' + b'a' * size + b'"]}'
elif kind == 'paths':
    head = index(manifest, [dict(segment_id='s%d' % i + 'x' * 70, masking_level='MASKING_NONE', size=4,
        kt128=text(bytes(32))) for i in range(65536)])
elif kind == 'places':
    head = index(manifest, [])
    places = fill(b'{"locations":[', b'{}', b']}')
elif kind == 'short':
    head = index(manifest, [dict(segment_id='s%d' % i, masking_level='MASKING_NONE', size=4) for i in range(65536)])
elif kind == 'manifest':
    manifest = fill(b'{"segments":[', b'{}', b']}')
    head = index(manifest, [])
elif kind == 'chain':
    count, u8 = 65534, dict(dtype='u8', shape=[4])
    def segment(name, direction, operation, **more):
        return dict(segment_id=name, sensitivity_level='LOW', direction=direction, gpu_operation_id=operation, **more)
    segments = [segment('s%d' % i, 'INTERMEDIATE', 'o%d' % i) for i in range(1, count)]
    segments.insert(0, segment('s0', 'INPUT', 'o1', data_location_client='in', data_type_info=u8))
    segments.append(segment('s%d' % count, 'OUTPUT', 'o%d' % count, data_location_client='out', data_type_info=u8))
    operations = [dict(gpu_operation_id='o%d' % i, kernel='copy', arguments=dict(input='s%d' % (i - 1), output='s%d' % i))
        for i in range(1, count + 1)]
    manifest = canonical(dict(version=1, manifest_id='chain', segments=segments, operations=operations))
    payloads = [('segments/s0', b'abcd')]
    head = index(manifest, [
        dict(segment_id='s0', masking_level='MASKING_NONE', size=4,
            kt128='1TxcQj_ouSETBSZJZ5KqUmUByJyXlPG0jqpGOXlNues'),
        dict(segment_id='s%d' % count, masking_level='MASKING_NONE', size=4)])
elif kind == 'large':
    count = 1 << 30
    def large(name, direction):
        return dict(segment_id=name, data_location_client=name, sensitivity_level='LOW', direction=direction,
            data_type_info=dict(dtype='u8', shape=[count]))
    manifest = canonical(dict(version=1, manifest_id='large', segments=[large('in', 'INPUT'), large('out', 'OUTPUT')],
        operations=[dict(gpu_operation_id='COPY', kernel='copy', arguments=dict(input='in', output='out'))]))
    head = index(manifest, [
        dict(segment_id='in', masking_level='MASKING_NONE', size=count, kt128=text(bytes(32))),
        dict(segment_id='out', masking_level='MASKING_NONE', size=count)])
seal = dict(version=2, kind='batch', batch_id=text(bytes(16)), index_sha256=text(hashlib.sha256(head).digest()))
if response:
    seal.update(kind='response', response_id=text(bytes(16)), identity=text(bytes(32)), manifest_sha256=text(bytes(32)))
else:
    seal.update(counter=1)
outer = canonical(dict(payload=text(canonical(seal))))
members = [('seal.json', outer), ('response.json', head)] if response else \
    [('seal.json', outer), ('batch.json', head), ('manifest.json', manifest)]
with tarfile.open(path, 'w', format=tarfile.USTAR_FORMAT) as tar:
    for name, data in members + ([('locations.json', places)] if places else []) + payloads:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
    if kind == 'large':
        member = tarfile.TarInfo('segments/in')
        member.size = count
        tar.fileobj.write(member.tobuf(tarfile.USTAR_FORMAT) + bytes(4096))
        tar.fileobj.close()
        sys.exit()
END
}

# What a runner has in any case, and 4 MiB.
empty_peak() {
	printf x >nothing
	peak sgpu-run nothing || true
	echo $(($(cat peak) + 4096))
}

@test "an index costs at most four bytes a byte, whatever is in it" {
	local kind base kib size
	base=$(empty_peak)
	for kind in list segments escaped string paths short manifest; do
		make_head "$kind" "$kind.tar"
		size=$(($(stat -c %s "$kind.tar") / 1024))
		run -1 peak sgpu-run -q -o response "$kind.tar"
		kib=$(cat peak)
		echo "$kind: $kib KiB for $size, at most $((base + 4 * size))" >&2
		[ "$kib" -le $((base + 4 * size)) ]
		assert_no_file response
		rm "$kind.tar"
	done
}

@test "who opens or inspects a response is not made to take more either" {
	local base kib size
	base=$(empty_peak)
	make_head response head.tar
	size=$(($(stat -c %s head.tar) / 1024))
	run -1 peak sgpu-seal open -q -C out head.tar
	[ "$(cat peak)" -le $((base + 4 * size)) ]
	run -1 peak sgpu-seal inspect head.tar
	[ "$(cat peak)" -le $((base + 4 * size)) ]
	assert_contains "$(cat message)" "response.json"
}

@test "a payload that is said to be large costs no memory while it does not come" {
	local base bits
	base=$(empty_peak)
	cat >job.json <<-'END'
		{ "version": 1, "manifest_id": "low", "segments": [
		  { "segment_id": "in", "data_location_client": "in.u8", "sensitivity_level": "LOW", "direction": "INPUT",
		    "data_type_info": { "dtype": "u8", "shape": [1024] } },
		  { "segment_id": "out", "data_location_client": "out.u8", "sensitivity_level": "LOW", "direction": "OUTPUT",
		    "data_type_info": { "dtype": "u8", "shape": [1024] } } ],
		  "operations": [ { "gpu_operation_id": "COPY", "kernel": "copy",
		    "arguments": { "input": "in", "output": "out" } } ] }
	END
	head -c 1024 /dev/zero >in.u8
	sgpu-manifest pack job.json | sgpu-stage load --files . | sgpu-run >response
	# seal.json names the index by its digest: whoever lies about a size writes both.
	for bits in 40 52; do
		python3 - "$bits" <<-'END'
			import base64, hashlib, json, sys, tarfile
			size, data, at = 1 << int(sys.argv[1]), open('response', 'rb').read(), 0
			index = tarfile.open('response').extractfile('response.json').read()
			index = index.replace(b'size_bytes":1024', b'size_bytes":%d' % size)
			def text(data):
			    return base64.urlsafe_b64encode(data).decode().rstrip('=')
			def sealed(body):
			    payload = json.loads(base64.urlsafe_b64decode(json.loads(body)["payload"] + "=="))
			    payload["index_sha256"] = text(hashlib.sha256(index).digest())
			    return json.dumps({"payload": text(json.dumps(payload).encode())}).encode()
			with open('lie', 'wb') as out:
			    while data[at]:
			        header = bytearray(data[at:at + 512])
			        length = int(header[124:135], 8)
			        body = data[at + 512:at + 512 + length]
			        body = sealed(body) if header.startswith(b'seal.json') else index if header.startswith(b'response') else body
			        payload = header.startswith(b'segments/')
			        header[124:136] = b'\x80\0\0\0' + (size if payload else len(body)).to_bytes(8, 'big')
			        header[148:156] = b' ' * 8
			        header[148:156] = b'%06o\0 ' % sum(header)
			        out.write(header + body + bytes(0 if payload else -len(body) % 512))
			        at += 512 + length + -length % 512
		END
		# shellcheck disable=SC2002 # a pipe is the point: it has no size
		cat lie | run -1 peak sgpu-seal open -q -C out
		assert_contains "$(cat message)" "ends after 1024 of"
		[ "$(cat peak)" -le "$base" ]
		assert_no_file out
	done
}

@test "a runner takes no memory for a payload that is said to be large and does not come" {
	local base
	base=$(empty_peak)
	make_head large large.tar
	# shellcheck disable=SC2002
	cat large.tar | run -1 peak sgpu-run -q -o response
	assert_contains "$(cat message)" "cut short"
	echo "$(cat peak) KiB, $base KiB" >&2
	[ "$(cat peak)" -le $((base + 16384)) ]
	assert_no_file response
}

@test "a chain of as many operations as there can be runs in 200 MiB" {
	make_head chain chain.tar
	local kib
	peak sgpu-run -q -o response chain.tar
	kib=$(cat peak)
	echo "$kib KiB" >&2
	[ "$kib" -le $((200 * 1024)) ]
	sgpu-seal open -q --only s65534 -o out response
	[ "$(cat out)" = abcd ]
}

@test "the library never exits: nothing in it aborts" {
	run grep -rnE --include='*.c' --include='*.h' --include='*.cu' '(^|[^a-z_])abort\(' "$SGPU_TOP/lib"
	[ "$status" -eq 1 ]
}
