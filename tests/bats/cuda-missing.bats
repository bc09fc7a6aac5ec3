#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What the CUDA device says when something that it rests on is missing, and how to get it.

load helpers

# bats sets it.
stderr=""

# info_of LIBRARIES: the cuda device of `sgpu-run --info --json`, one field a line, with this folder searched first.
info_of() {
	LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "${RUNNER:-sgpu-enclave}" --info --json | python3 -c '
import json, sys
info = json.load(sys.stdin)
cuda = [d for d in info["devices"] if d["selector"] == "cuda"][0]
assert not cuda["available"] and "cpu" in cuda["hint"]
print(cuda["missing"])
print(cuda["hint"])
for part in info["cuda"]:
    print(part["name"], part["found"], part["text"], part["hint"])'
}

# fake_driver FOLDER VERSION CUINIT: a libcuda.so.1 that serves a CUDA and answers cuInit with a code. It has every name
# that the plugin looks for.
fake_driver() {
	mkdir -p "$1"
	{
		cat <<-END
		int cuDriverGetVersion(int *version) { *version = $2; return 0; }
		int cuInit(unsigned flags) { return flags ? 1 : $3; }
		int cuGetErrorName(int code, const char **text) { *text = code == $3 ? "CUDA_ERROR_OF_TEST" : ""; return 0; }
		int cuGetErrorString(int code, const char **text) { *text = code == $3 ? "what the test says" : ""; return 0; }
		END
		python3 - "$SGPU_BUILD/lib/sgpu/sgpu-cuda.so" <<-'END'
		import re, sys
		names = set(re.findall(rb"(?<=\0)cu[A-Z][A-Za-z0-9]+(?:_v[0-9]+)?(?=\0)", open(sys.argv[1], "rb").read()))
		for name in sorted(names - {b"cuDriverGetVersion", b"cuInit", b"cuGetErrorName", b"cuGetErrorString"}):
		    print("int " + name.decode() + "(void) { return 1; }")
		END
	} >fake.c
	compile -w -shared -fPIC -o "$1/libcuda.so.1" fake.c
}

needs_plugin() {
	[ -e "$SGPU_BUILD/lib/sgpu/sgpu-cuda.so" ] || skip "needs a build with CUDA"
	[ -z "${SGPU_SANITIZE:-}" ] || skip "a sanitizer wants to be loaded first"
}

# other_place: a copy of the program without what stands beside it.
other_place() {
	mkdir -p other/bin other/lib/sgpu
	cp "$SGPU_BUILD/bin/sgpu-enclave" other/bin/
	RUNNER=$PWD/other/bin/sgpu-enclave
}

@test "a program without its plugin has the CPU device, and says what is missing" {
	requires python3
	other_place
	run -0 info_of .
	[[ $output == *"sgpu-cuda.so' is missing"* || $output == *"this build has no CUDA device"* ]]
}

@test "a plugin that is none, or of another version, is not used" {
	requires python3 cc
	other_place
	echo junk >other/lib/sgpu/sgpu-cuda.so
	run -0 info_of .
	assert_contains "$output" "cannot be loaded"
	echo 'int something;' >none.c
	compile -shared -fPIC -o other/lib/sgpu/sgpu-cuda.so none.c
	run -0 info_of .
	assert_contains "$output" "another version"
	echo 'struct { unsigned abi, size; const char *version; void *rest; } sgpu_cuda_plugin = { 9999, 0, "9.9", 0 };' >old.c
	compile -shared -fPIC -o other/lib/sgpu/sgpu-cuda.so old.c
	run -0 info_of .
	assert_contains "$output" "another version"
}

@test "a plugin that was cut short is not used" {
	requires python3 cc
	other_place
	echo 'int something = 5;' >none.c
	compile -shared -fPIC -o whole.so none.c
	for bytes in 1000 4096 $(($(stat -c %s whole.so) / 2)); do
		head -c "$bytes" whole.so >other/lib/sgpu/sgpu-cuda.so
		run -0 info_of .
		assert_contains "$output" "sgpu-cuda.so' was cut short"
	done
}

@test "a driver that is too old says which CUDA it serves and which is needed" {
	requires python3 cc
	needs_plugin
	fake_driver fake 11040 0
	run -0 info_of "$PWD/fake"
	assert_contains "$output" "too old"
	assert_contains "$output" "CUDA 11.4"
	assert_contains "$output" "update the NVIDIA driver"
}

@test "a library that is no driver's is told" {
	requires python3 cc
	needs_plugin
	mkdir fake
	echo 'int something;' >none.c
	compile -shared -fPIC -o fake/libcuda.so.1 none.c
	run -0 info_of "$PWD/fake"
	assert_contains "$output" "tells no version"
	echo 'int cuDriverGetVersion(int *version) { *version = 99000; return 0; }' >none.c
	compile -shared -fPIC -o fake/libcuda.so.1 none.c
	run -0 info_of "$PWD/fake"
	assert_contains "$output" "has no 'cu"
}

@test "no GPU, hidden GPUs and other failures to initialise are told apart" {
	requires python3 cc
	needs_plugin
	unset CUDA_VISIBLE_DEVICES
	fake_driver fake 99000 100
	run -0 info_of "$PWD/fake"
	assert_contains "$output" "shows no GPU"
	CUDA_VISIBLE_DEVICES=7 run -0 info_of "$PWD/fake"
	assert_contains "$output" "CUDA_VISIBLE_DEVICES is '7'"
	fake_driver fake 99000 999
	run -0 info_of "$PWD/fake"
	assert_contains "$output" "CUDA_ERROR_OF_TEST (what the test says)"
	sed -i 's/^int cuGetErrorName.*/int cuGetErrorName(int code, const char **text) { return 1; }/' fake.c
	compile -w -shared -fPIC -o fake/libcuda.so.1 fake.c
	run -0 info_of "$PWD/fake"
	assert_contains "$output" "CUDA error 999"
}

@test "auto takes the CPU device without a word, and cpu never looks for a driver" {
	requires python3 cc
	needs_plugin
	fake_driver fake 99000 100
	small_job 100
	make_keys
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk >batch.tar
	LD_LIBRARY_PATH=$PWD/fake run --separate-stderr -0 sgpu-run -k runner.jwk -o response batch.tar
	run ! grep -v '^sgpu-run: batch ' <<<"$stderr" # the line that every batch has
	LD_LIBRARY_PATH=$PWD/fake run --separate-stderr -3 sgpu-run --device cuda -k runner.jwk -o none batch.tar
	assert_contains "$stderr" "shows no GPU"
	assert_no_file none
	if command -v strace >/dev/null && strace -o trace true 2>/dev/null; then
		strace -f -o trace sgpu-run --device cpu -k runner.jwk -o again batch.tar
		run -1 grep -E 'sgpu-cuda|libcuda|libnvidia' trace
	fi
}
