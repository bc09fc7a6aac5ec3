#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # bats sets stderr
#
# sgpu-manifest init: what it makes of files, and that it gives nothing away and replaces nothing.

load helpers

# nifti [SLOPE INTERCEPT [DATATYPE BITS]]: a NIfTI-1 file of 5 by 4 by 3 zeros, of i16; numbers are hexadecimal as they
# stand in the file.
nifti() {
	{
		printf '5c010000' && printf '00%.0s' $(seq 36)
		printf '0300''0500''0400''0300''0100''0100''0100''0100'
		printf '00%.0s' $(seq 14) && printf '%s' "${3:-0400}" "${4:-1000}" && printf '00%.0s' $(seq 34)
		printf '0000b043' && printf '%s' "${1:-00000000}" "${2:-00000000}" && printf '00%.0s' $(seq 224)
		printf '6e2b3100' && printf '00%.0s' $(seq 4)
	} | unhex
	head -c "${5:-120}" /dev/zero
}

# through MANIFEST: packs, seals, runs and opens it, into out.
through() {
	[ -e owner.jwk ] || sgpu-seal keygen -q -o owner.jwk
	sgpu-manifest pack "$1" | sgpu-seal seal -k owner.jwk | sgpu-run -k owner.jwk | sgpu-seal open -k owner.jwk -C out
}

@test "init writes a manifest that passes check, for every operation" {
	requires python3
	for op in $(sgpu-manifest ops --json | python3 -c 'import json,sys; print(*[o["name"] for o in json.load(sys.stdin)])'); do
		case $op in
		vector_add) set -- a.x:f32:8 b.x:f32:8 ;;
		squared_error) set -- a.x:f32:4,5 b.x:f32:4,5 ;;
		cross_entropy) set -- a.x:f32:4,5 b.x:u8:4 ;;
		activation_gradient) set -- --param activation=relu a.x:f32:8 b.x:f32:8 ;;
		black_scholes) set -- --param rate=0 --param volatility=1 a.x:f32:10 b.x:f32:10 c.x:f32:10 ;;
		cast) set -- --param dtype=f64 a.x:f32:8 ;;
		gaussian3d) set -- --param sigma=1 a.x:f32:8,8,8 ;;
		map) set -- --param 'expression=x0 / 2' a.x:f32:8 ;;
		histogram) set -- --param min=0 --param max=1 a.x:f32:8 ;;
		reduce) set -- --param operation=sum a.x:f32:8 ;;
		sgd) set -- --param rate=1 a.x:f32:8 b.x:f32:8 ;;
		slice) set -- --param count=4 a.x:f32:8 ;;
		reshape) set -- --param dim0=64 --param dim1=8 a.x:f32:8,8,8 ;;
		max_pool2d) set -- a.x:f32:1,1,8,8 ;;
		max_pool2d_gradient) set -- a.x:f32:1,1,8,8 b.x:f32:1,1,4,4 ;;
		conv2d_gradient) set -- a.x:f32:1,1,8,8 b.x:f32:1,1,3,3 c.x:f32:1,1,6,6 ;;
		gemm) set -- a.x:f32:4,5 b.x:f32:5,6 ;;
		dense) set -- a.x:f32:4,5 b.x:f32:5,6 ;;
		conv2d) set -- a.x:f32:1,1,8,8 b.x:f32:1,1,3,3 ;;
		nearest) set -- a.x:f32:10,4 b.x:f32:3,4 ;;
		morphology3d) set -- a.x:u8:4,4,4 ;;
		*) set -- a.x:f32:8,8,8 ;;
		esac
		run --separate-stderr -0 sgpu-manifest init -q --op "$op" -o "$op.json" "$@"
		run --separate-stderr -0 sgpu-manifest check "$op.json"
	done
}

@test "init takes parameters, names of arguments and an id" {
	sgpu-manifest init --op gemm --id mine --param transpose_b=true --param alpha=0.5 -o init.json \
		b=second.bin:f32:6,5:64 a=first.bin:f32:4,5
	sgpu-manifest show init.json >shown
	grep -q 'manifest mine' shown
	grep -q 'b=b a=a' shown
	grep -q '"transpose_b":true' shown
	grep -q '"alpha":0.5' shown
	run --separate-stderr -1 sgpu-manifest init --op gaussian3d -o wrong.json a.x:f32:4,4,4
	assert_contains "$stderr" "needs the parameter 'sigma'"
	run --separate-stderr -1 sgpu-manifest init --op gemm -o wrong.json a.x:f32:4,5 b.x:f32:6,7
	assert_no_file wrong.json
	run --separate-stderr -2 sgpu-manifest init -o wrong.json a.x:f32:4
	run --separate-stderr -2 sgpu-manifest init --op copy -o wrong.json a.x:f32:4 b.x:f32:4
	run --separate-stderr -2 sgpu-manifest init --op copy -o wrong.json a.x:f32:4,
	run --separate-stderr -3 sgpu-manifest init --op copy -o wrong.json missing.bin
	assert_no_file wrong.json
}

@test "init tells a misspelt argument from a file whose name holds =" {
	head -c 16 /dev/zero >data
	head -c 16 /dev/zero >a=b
	run --separate-stderr -2 sgpu-manifest init --op copy -o job.json inptu=data:u8:16
	assert_contains "$stderr" "'inptu' is not an argument of 'copy'"
	assert_no_file job.json
	run --separate-stderr -0 sgpu-manifest init --op copy -o job.json a=b:u8:16
	run -0 sgpu-manifest pack -o packed job.json
}

@test "init understands NIfTI-1 headers" {
	nifti >x.nii
	sgpu-manifest init --op scale -o init.json x.nii
	run --separate-stderr -0 sgpu-manifest show init.json
	assert_contains "$output" "i16[3,4,5]"
	run --separate-stderr -0 sgpu-manifest pack -o batch.tar init.json
	assert_contains "$(tar xOf batch.tar locations.json)" '"offset":352'
	truncate -s 471 x.nii
	run --separate-stderr -1 sgpu-manifest init --op scale -o wrong.json x.nii
	assert_contains "$stderr" "less than its header promises"
	gzip x.nii
	run --separate-stderr -1 sgpu-manifest init --op copy -o wrong.json x.nii.gz
	assert_contains "$stderr" "gunzip"
	assert_no_file wrong.json
}

# ---- what travels in the clear ----

@test "all that init writes is HIGH, and --low lowers by name" {
	head -c 16 /dev/zero >a.u8
	sgpu-manifest init --op copy -o high.json a.u8:u8:16
	run -0 grep -c '"sensitivity_level": "HIGH"' high.json
	[ "$output" -eq 2 ]
	run ! grep -q LOW high.json
	sgpu-manifest init --op copy --low input --low output -o low.json a.u8:u8:16
	run -0 grep -c '"sensitivity_level": "LOW"' low.json
	[ "$output" -eq 2 ]
	sgpu-manifest init --op vector_add --low a -o mixed.json b=x:f32:4 a=y:f32:4
	run -0 sgpu-manifest show mixed.json
	assert_contains "$output" "b        HIGH"
	assert_contains "$output" "a        LOW"
	assert_contains "$output" "output   HIGH"
	run --separate-stderr -2 sgpu-manifest init --op copy --low inptu -o wrong.json a.u8:u8:16
	assert_contains "$stderr" "--low: 'inptu' is not an argument of 'copy'"
	run --separate-stderr -1 sgpu-manifest init --op copy --low output -o wrong.json a.u8:u8:16
	assert_contains "$stderr" "HIGH data flow into the LOW output"
	run --separate-stderr -2 sgpu-manifest init --op copy --high -o wrong.json a.u8:u8:16
	assert_no_file wrong.json
}

@test "what init inserts is as secret as its input" {
	nifti 0000003f 00000040 >x.nii
	sgpu-manifest init --op gaussian3d --param sigma=1 -o high.json x.nii
	run ! grep -q LOW high.json
	sgpu-manifest init --op gaussian3d --param sigma=1 --low input --low output -o low.json x.nii
	run ! grep -q HIGH low.json
	run --separate-stderr -2 sgpu-manifest init --op gaussian3d --param sigma=1 --low input_scaled -o wrong.json x.nii
	assert_contains "$stderr" "'input_scaled' is not an argument"
	# What cannot travel so is said at once.
	run --separate-stderr -0 sgpu-manifest init --op copy -o stdin.json input=-:u8:4
	assert_contains "$stderr" "nothing HIGH from standard input"
	run --separate-stderr -0 sgpu-manifest init --op copy --low input --low output -o lower.json input=-:u8:4
	[ -z "$stderr" ]
}

@test "init never replaces a file" {
	head -c 16 /dev/zero >a.u8
	echo "edited by hand" >job.json
	cp job.json before
	run --separate-stderr -3 sgpu-manifest init --op copy -o job.json a.u8:u8:16
	assert_contains "$stderr" "'job.json' exists"
	assert_same job.json before
	run --separate-stderr -3 sgpu-manifest init --op copy -o a.u8 a.u8:u8:16
	ln -s nowhere link
	run --separate-stderr -3 sgpu-manifest init --op copy -o link a.u8:u8:16
	assert_no_file nowhere
	# What is no file is written to.
	run --separate-stderr -0 sgpu-manifest init --op copy -o /dev/stdout a.u8:u8:16
	assert_contains "$output" '"manifest_id": "copy"'
}

@test "outputs are named after the input" {
	head -c 16 /dev/zero >a.u8
	sgpu-manifest init --op copy -o a.json a.u8:u8:16
	run -0 sgpu-manifest show a.json
	assert_contains "$output" " a.copy.u8 "
	sgpu-manifest init -q --op black_scholes --param rate=0 --param volatility=1 -o prices.json market.f32:f32:4 k:f32:4 t:f32:4
	run -0 sgpu-manifest show prices.json
	assert_contains "$output" " market.black_scholes.call.f32 "
	assert_contains "$output" " market.black_scholes.put.f32 "
}

# ---- types and scalings ----

@test "a scaling of NIfTI is applied by an operation" {
	# 0.5 * value + 2, of i16 zeros but for the first, which is 6.
	nifti 0000003f 00000040 >x.nii
	printf '\6' | dd of=x.nii bs=1 seek=352 conv=notrunc status=none
	run --separate-stderr -0 sgpu-manifest init --op threshold --param low=4.5 --param high=5.5 -o job.json x.nii
	assert_contains "$stderr" "0.5 * value + 2"
	assert_contains "$(cat job.json)" '"gain": 0.5'
	through job.json
	[ "$(od -An -v -tu1 -w1 out/x.threshold.u8 | tr -d ' \n' | head -c 3)" = 100 ]
	[ "$(od -An -v -tu1 -w1 out/x.threshold.u8 | grep -c 1)" -eq 1 ]
	# The operation itself may be one that scales.
	sgpu-manifest init -q --op scale --param gain=2 -o scale.json x.nii
	through scale.json
	# 2 * (0.5 * 6 + 2) and 2 * (0.5 * 0 + 2)
	printf '\0\0\040\101\0\0\200\100' >want
	head -c 8 out/x.scale.f32 | assert_same want /dev/stdin
}

@test "no scaling, or a slope of 0, inserts nothing" {
	nifti >zero.nii
	nifti 00000000 00000040 >intercept.nii
	nifti 0000803f 00000000 >one.nii
	for name in zero intercept one; do
		run --separate-stderr -0 sgpu-manifest init --op copy -o $name.json $name.nii
		[ -z "$stderr" ]
		run ! grep -q scale $name.json
	done
	# A slope of 1 with an intercept is one.
	nifti 0000803f 00000040 >shift.nii
	run --separate-stderr -0 sgpu-manifest init --op copy -o shift.json shift.nii
	run -0 grep -q '"bias": 2' shift.json
}

@test "a scaling that is no number is refused, and the hint takes the stored values" {
	nifti 0000c07f 00000000 >nan.nii
	run --separate-stderr -1 sgpu-manifest init --op copy -o job.json nan.nii
	assert_contains "$stderr" "'nan.nii' has the scaling nan * value + 0, which is no number"
	assert_contains "$stderr" "'nan.nii:i16:3,4,5:352' takes the stored values"
	assert_no_file job.json
	nifti 0000803f 0000807f >inf.nii
	run --separate-stderr -1 sgpu-manifest init --op copy -o job.json inf.nii
	nifti 0000003f 00000040 >x.nii
	run --separate-stderr -0 sgpu-manifest init --op copy -o job.json x.nii:i16:3,4,5:352
	run ! grep -q scale job.json
}

@test "a cast stands before an operation that takes another type" {
	head -c 64 /dev/zero >a.u8
	run --separate-stderr -0 sgpu-manifest init -q --op gaussian3d --param sigma=1 -o job.json a.u8:u8:4,4,4
	run -0 sgpu-manifest show job.json
	assert_contains "$output" 'cast        input=input output=input_f32'
	through job.json
	[ "$(wc -c <out/a.gaussian3d.f32)" -eq 256 ]
	# i32 needs f64, which holds all of it; where an operation has none, it is said that values are rounded.
	sgpu-manifest init -q --op softmax -o wide.json a.u8:i32:4,4
	run -0 grep -q '"dtype": "f64"' wide.json
	run --separate-stderr -0 sgpu-manifest init --op black_scholes --param rate=0 --param volatility=1 -o price.json a.u8:i32:4 b.x:f32:4 c.x:f32:4
	assert_contains "$stderr" "'a.u8' has values of i32, which the operation '"
	assert_contains "$stderr" "_F32' casts to f32, rounded"
	# Two files, one of f64: both in f64.
	sgpu-manifest init -q --op gemm -o both.json a.u8:u8:4,4 b.x:f64:4,4
	run -0 grep -q '"dtype": "f64"' both.json
	# Nothing is inserted where nothing is needed.
	sgpu-manifest init -q --op gaussian3d --param sigma=1 -o none.json a.u8:f32:4,2,2
	run ! grep -q '"cast"' none.json
}

@test "a cast that would make other data of it is refused with the reason" {
	run --separate-stderr -1 sgpu-manifest init --op morphology3d -o job.json a.x:f32:4,4,4
	assert_contains "$stderr" "'a.x' has values of f32, and 'input' of 'morphology3d' takes u8"
	assert_contains "$stderr" "threshold"
	assert_no_file job.json
}

@test "init and the whole way work with every scan of a package of them" {
	requires brain-mri
	local scan name count=0
	for scan in /usr/share/mricron/templates/*.nii.gz; do
		name=$(basename "$scan" .nii.gz)
		# One of each type shows the most, where all take long.
		case ${SGPU_TEST_SMALL:+small}:$name in
		:* | small:AICHAmc | small:inia19-*) ;;
		*) continue ;;
		esac
		gunzip -c "$scan" >"$name.nii"
		sgpu-manifest init -q --op gaussian3d --param sigma=1.5 -o "$name.json" "$name.nii"
		through "$name.json"
		[ -s "out/$name.gaussian3d.f32" ]
		rm -r out "$name.nii"
		count=$((count + 1))
	done
	[ "$count" -ge "$([ -n "${SGPU_TEST_SMALL:-}" ] && echo 3 || echo 12)" ]
}

@test "a type that is none says what there are, and guesses none" {
	head -c 16 /dev/zero >a.u8
	local type typed
	typed=$(sgpu-manifest init -q --op copy a.u8:u8:16 | tr -d ' \n')
	for type in uint8:16 float32 u8; do
		run --separate-stderr -3 sgpu-manifest init --op copy -o job.json "a.u8:$type"
		assert_contains "$stderr" "FILE:DTYPE:SHAPE, SHAPE as in 181,217,181, DTYPE one of f32 f64 f16 i8 u8 i16 u16 i32 u32 i64 u64"
	done
	# A type of other bits, or of another sign, would be a wrong result without a word.
	for type in uint16 int64 i128 f8 bf16 c64 float int byte; do
		run --separate-stderr -3 sgpu-manifest init --op copy -o job.json "a.u8:$type:4"
		run --separate-stderr -1 sgpu-manifest init --op cast --param "dtype=$type" -o job.json a.u8:u8:16
		[[ $stderr != *"did you mean"* ]]
		printf %s "${typed/'"dtype":"u8"'/"\"dtype\":\"$type\""}" >typed.json
		run --separate-stderr -1 sgpu-manifest check typed.json
		assert_contains "$stderr" "'$type' is not one of"
		[[ $stderr != *"did you mean"* ]]
	done
	assert_no_file job.json
}

# ---- what is shown ----

@test "numbers are written as they were given" {
	head -c 16 /dev/zero >a.u8
	sgpu-manifest init --op scale --param gain=0.58 --param bias=-1e-7 -o job.json a.u8:u8:16
	run -0 grep -q '"gain": 0.58,\?$' job.json
	run -0 sgpu-manifest show job.json
	assert_contains "$output" '{"gain":0.58,"bias":-1e-7}'
	run -0 sgpu-manifest show --json job.json
	assert_contains "$output" '"gain": 0.58'
	sed -i 's/0.58/"0.57999999999999996"/' job.json
	run -0 grep -q '"0.57999999999999996"' job.json # a string stays what it is
	sed -i 's/"gain": "0.5[0-9]*"/"gain": 1, "x\\"0.57999999999999996": 0.58/' job.json
	run -1 sgpu-manifest show job.json
}

@test "messages show numbers as they were given" {
	echo '{ "version": 0.58, "manifest_id": "x", "segments": [], "operations": [] }' >job.json
	run --separate-stderr -1 sgpu-manifest check job.json
	assert_contains "$stderr" "/version: 0.58 is not a version"
}

@test "columns align behind wide characters and accents" {
	mkdir 脳スキャン
	head -c 16 /dev/zero >脳スキャン/a.u8
	sgpu-manifest init --op copy -o job.json 脳スキャン/a.u8:u8:16
	run -0 sgpu-manifest show job.json
	# The segments' rows: in the column behind the location, where each wide character takes two.
	printf '%s\n' "$output" | awk '/^SEGMENT/ { on = 1 } on && !NF { exit } on' |
		sed 's/脳/__/; s/ス/__/; s/キ/__/; s/ャ/__/; s/ン/__/' >rows
	awk 'NR == 1 { at = index($0, "WRITTEN BY") } NR > 1 && substr($0, at - 1, 1) != " " { exit 1 }
		NR > 1 && substr($0, at, 1) == " " { exit 1 }' rows
	[ "$(wc -l <rows)" -eq 3 ]
}

@test "a name that is not ASCII keeps its stem in the output's name" {
	local name
	for name in $'\xe6\x89\xab\xe6\x8f\x8f' $'\xe5\x9b\xbe\xe5\x83\x8f' $'Scan M\xc3\xbcller #1'; do
		head -c 16 /dev/zero >"$name.u8"
		sgpu-manifest init -q --op copy "$name.u8:u8:16" >"$name.json"
		[ "$(jq -r '.segments[1].data_location_client' "$name.json")" = "$name.copy.u8" ]
		through "$name.json"
		[ -s "out/$name.copy.u8" ]
	done
	# One that is nearly too long for a file.
	name=$(printf '\xe6\x89\xab%.0s' {1..83})
	head -c 16 /dev/zero >"$name.u8"
	sgpu-manifest init -q --op threshold -o long.json "$name.u8:u8:16"
	sgpu-manifest check long.json
	jq -r '.segments[1].data_location_client' long.json | iconv -f UTF-8 -t UTF-8 | grep -qx "${name:0:159}.threshold.u8"
}

@test "no table shows what would turn the direction of writing" {
	head -c 16 /dev/zero >$'a\xe2\x80\xaeb'
	sgpu-manifest init --op copy -o job.json $'a\xe2\x80\xaeb:u8:16'
	run -0 sgpu-manifest show job.json
	assert_contains "$output" 'a\xe2\x80\xaeb'
	LC_ALL=C.UTF-8 run -0 sgpu-manifest show job.json
	assert_contains "$output" 'a\xe2\x80\xaeb'
	assert_plain "$output"
	run -0 sgpu-manifest show --json job.json
	assert_contains "$output" 'a\u202Eb'
	case $output in *$'\xe2\x80\xae'*) false ;; esac
}

@test "places in a manifest that is not written name init" {
	run --separate-stderr -1 sgpu-manifest init --op threshold --param lwo=1 -o job.json a.u8:u8:16
	[[ $stderr =~ "the manifest that init made:"[0-9]+:[0-9]+": /operations/0/params/lwo: " ]]
	assert_no_file job.json
}
