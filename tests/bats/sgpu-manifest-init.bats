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
		vector_add) set -- a=a.x:f32:8 b=b.x:f32:8 ;;
		squared_error) set -- a.x:f32:4,5 target=b.x:f32:4,5 ;;
		cross_entropy) set -- a.x:f32:4,5 labels=b.x:u8:4 ;;
		activation_gradient) set -- activation=relu activated=a.x:f32:8 gradient=b.x:f32:8 ;;
		black_scholes) set -- rate=0 volatility=1 price=a.x:f32:10 strike=b.x:f32:10 years=c.x:f32:10 ;;
		cast) set -- dtype=f64 a.x:f32:8 ;;
		gaussian3d) set -- sigma=1 a.x:f32:8,8,8 ;;
		histogram) set -- min=0 max=1 a.x:f32:8 ;;
		reduce) set -- operation=sum a.x:f32:8 ;;
		sgd) set -- rate=1 weights=a.x:f32:8 gradient=b.x:f32:8 ;;
		slice) set -- count=4 a.x:f32:8 ;;
		reshape) set -- dim0=64 dim1=8 a.x:f32:8,8,8 ;;
		max_pool2d) set -- a.x:f32:1,1,8,8 ;;
		max_pool2d_gradient) set -- a.x:f32:1,1,8,8 gradient=b.x:f32:1,1,4,4 ;;
		conv2d_gradient) set -- a.x:f32:1,1,8,8 weights=b.x:f32:1,1,3,3 gradient=c.x:f32:1,1,6,6 ;;
		gemm) set -- a=a.x:f32:4,5 b=b.x:f32:5,6 ;;
		dense) set -- a.x:f32:4,5 weights=b.x:f32:5,6 ;;
		conv2d) set -- a.x:f32:1,1,8,8 weights=b.x:f32:1,1,3,3 ;;
		nearest) set -- a=a.x:f32:10,4 b=b.x:f32:3,4 ;;
		morphology3d) set -- a.x:u8:4,4,4 ;;
		concatenate) set -- axis=0 a=a.x:f32:8 b=b.x:f32:8 ;;
		map) set -- 'x + 1' a.x:f32:8 ;;
		*) set -- a.x:f32:8,8,8 ;;
		esac
		run --separate-stderr -0 sgpu-manifest init -q "$op" "$@"
		printf '%s\n' "$output" >"$op.json"
		run --separate-stderr -0 sgpu-manifest check "$op.json"
	done
}

@test "init takes parameters, names of arguments and an id" {
	sgpu-manifest init gemm --id mine transpose_b=true alpha=0.5 \
		b=second.bin:f32:6,5:64 a=first.bin:f32:4,5 >init.json
	sgpu-manifest show init.json >shown
	grep -q '^manifest_id  *mine$' shown
	grep -q 'b=b a=a' shown
	grep -q ' transpose_b=yes ' shown
	grep -q '[ =]alpha=0.5' shown
	run --separate-stderr -1 sgpu-manifest init gaussian3d a.x:f32:4,4,4
	assert_contains "$stderr" "needs the parameter 'sigma'"
	[ -z "$output" ]
	run --separate-stderr -1 sgpu-manifest init gemm a=a.x:f32:4,5 b=b.x:f32:6,7
	run --separate-stderr -2 sgpu-manifest init a.x:f32:4
	run --separate-stderr -2 sgpu-manifest init
	run --separate-stderr -2 sgpu-manifest init copy a.x:f32:4 b.x:f32:4
	assert_contains "$stderr" "'b.x:f32:4' is one file too many"
	run --separate-stderr -2 sgpu-manifest init copy a.x:f32:4,
	run --separate-stderr -3 sgpu-manifest init copy missing.bin
	run --separate-stderr -2 sgpu-manifest init gemm a.x:f32:4,5
	assert_contains "$stderr" "'gemm' has no argument 'input': name each file, NAME=a.x:f32:4,5, of a b [c]"
	run --separate-stderr -2 sgpu-manifest init threshold low=1 low=2 a.x:f32:4
	assert_contains "$stderr" "'low' is given twice"
	run --separate-stderr -2 sgpu-manifest init threshold low= a.x:f32:4
	run --separate-stderr -2 sgpu-manifest init threshold output=x a.x:f32:4
	assert_contains "$stderr" "'output' is an output: -o output=x"
	run --separate-stderr -2 sgpu-manifest init threshold --low input a.x:f32:4 --low tuptuo
	[ -z "$output" ]
}

@test "init tells a misspelt argument from a file whose name holds =" {
	head -c 16 /dev/zero >data
	head -c 16 /dev/zero >a=b
	run --separate-stderr -2 sgpu-manifest init copy inptu=data:u8:16
	assert_contains "$stderr" "'inptu' is no argument or parameter of 'copy'"
	assert_contains "$stderr" "'sgpu-manifest ops copy' shows them; a file of that name is './inptu=data:u8:16'"
	run --separate-stderr -0 sgpu-manifest init copy ./a=b:u8:16
	printf '%s\n' "$output" >job.json
	run -0 sgpu-manifest pack -o packed job.json
}

@test "init understands NIfTI-1 headers" {
	nifti >x.nii
	sgpu-manifest init scale x.nii >init.json
	run --separate-stderr -0 sgpu-manifest show init.json
	[[ $output =~ i16\ +3,\ 4,\ 5 ]]
	run --separate-stderr -0 sgpu-manifest pack -o batch.tar init.json
	assert_contains "$(tar xOf batch.tar locations.json)" '"offset":352'
	truncate -s 471 x.nii
	run --separate-stderr -1 sgpu-manifest init scale x.nii
	[ -z "$output" ]
}

# ---- what travels in the clear ----

@test "all that init writes is HIGH, and --low lowers by name" {
	head -c 16 /dev/zero >a.u8
	sgpu-manifest init copy a.u8:u8:16 >high.json
	run -0 grep -c '"sensitivity_level": "HIGH"' high.json
	[ "$output" -eq 2 ]
	run ! grep -q LOW high.json
	sgpu-manifest init copy --low input --low output a.u8:u8:16 >low.json
	run -0 grep -c '"sensitivity_level": "LOW"' low.json
	[ "$output" -eq 2 ]
	sgpu-manifest init vector_add --low a b=x:f32:4 a=y:f32:4 >mixed.json
	run -0 sgpu-manifest show mixed.json
	assert_contains "$output" "b           HIGH"
	assert_contains "$output" "a           LOW"
	assert_contains "$output" "output      HIGH"
	run --separate-stderr -2 sgpu-manifest init copy --low inptu a.u8:u8:16
	assert_contains "$stderr" "--low: 'inptu' is not an argument of 'copy' that is given"
	run --separate-stderr -1 sgpu-manifest init copy --low output a.u8:u8:16
	assert_contains "$stderr" "HIGH data flow into the LOW output"
	run --separate-stderr -2 sgpu-manifest init copy --high a.u8:u8:16
	[ -z "$output" ]
}

@test "what init inserts is as secret as its input" {
	nifti 0000003f 00000040 >x.nii
	sgpu-manifest init gaussian3d sigma=1 x.nii >high.json
	run ! grep -q LOW high.json
	sgpu-manifest init gaussian3d sigma=1 --low input --low output x.nii >low.json
	run ! grep -q HIGH low.json
	run --separate-stderr -2 sgpu-manifest init gaussian3d sigma=1 --low input_scaled x.nii
	assert_contains "$stderr" "'input_scaled' is not an argument"
}

@test "outputs are named after the input" {
	head -c 16 /dev/zero >a.u8
	sgpu-manifest init copy a.u8:u8:16 >a.json
	run -0 sgpu-manifest show a.json
	assert_contains "$output" " a.copy.u8 "
	sgpu-manifest init -q black_scholes rate=0 volatility=1 price=market.f32:f32:4 strike=k:f32:4 years=t:f32:4 >prices.json
	run -0 sgpu-manifest show prices.json
	assert_contains "$output" " market.black_scholes.call.f32 "
	assert_contains "$output" " market.black_scholes.put.f32 "
}

# ---- types and scalings ----

@test "a scaling of NIfTI is applied by an operation" {
	# 0.5 * value + 2, of i16 zeros but for the first, which is 6.
	nifti 0000003f 00000040 >x.nii
	printf '\6' | dd of=x.nii bs=1 seek=352 conv=notrunc status=none
	run --separate-stderr -0 sgpu-manifest init threshold low=4.5 high=5.5 x.nii
	printf '%s\n' "$output" >job.json
	assert_contains "$stderr" "0.5 * value + 2"
	assert_contains "$(cat job.json)" '"gain": 0.5'
	through job.json
	[ "$(od -An -v -tu1 -w1 out/x.threshold.u8 | tr -d ' \n' | head -c 3)" = 100 ]
	[ "$(od -An -v -tu1 -w1 out/x.threshold.u8 | grep -c 1)" -eq 1 ]
	# The operation itself may be one that scales.
	sgpu-manifest init -q scale gain=2 x.nii >scale.json
	through scale.json
	# 2 * (0.5 * 6 + 2) and 2 * (0.5 * 0 + 2)
	[ "$(od -An -v -tf8 -w16 -N 16 out/x.scale.f64 | tr -s ' ')" = " 10 4" ]
}

@test "no scaling, or a slope of 0, inserts nothing" {
	nifti >zero.nii
	nifti 00000000 00000040 >intercept.nii
	nifti 0000803f 00000000 >one.nii
	for name in zero intercept one; do
		run --separate-stderr -0 sgpu-manifest init copy $name.nii
		printf '%s\n' "$output" >$name.json
		[ -z "$stderr" ]
		run ! grep -q scale $name.json
	done
	# A slope of 1 with an intercept is one.
	nifti 0000803f 00000040 >shift.nii
	run --separate-stderr -0 sgpu-manifest init copy shift.nii
	printf '%s\n' "$output" >shift.json
	run -0 grep -q '"bias": 2' shift.json
}

@test "a scaling that is no number is refused, and a type that is stated takes the stored values" {
	nifti 0000c07f 00000000 >nan.nii
	run --separate-stderr -1 sgpu-manifest init copy nan.nii
	assert_contains "$stderr" "'nan.nii' has the scaling nan * value + 0, which is no number"
	
	[ -z "$output" ]
	nifti 0000803f 0000807f >inf.nii
	run --separate-stderr -1 sgpu-manifest init copy inf.nii
	nifti 0000003f 00000040 >x.nii
	run --separate-stderr -0 sgpu-manifest init copy x.nii:i16:3,4,5:352
	printf '%s\n' "$output" >job.json
	run ! grep -q scale job.json
}

@test "a cast stands before an operation that takes another type" {
	head -c 64 /dev/zero >a.u8
	run --separate-stderr -0 sgpu-manifest init -q gaussian3d sigma=1 a.u8:u8:4,4,4
	printf '%s\n' "$output" >job.json
	run -0 sgpu-manifest show job.json
	assert_contains "$output" 'cast        input=input output=input_f32'
	through job.json
	[ "$(wc -c <out/a.gaussian3d.f32)" -eq 256 ]
	# i32 needs f64, which holds all of it; where an operation has none, the cast has to be asked for.
	sgpu-manifest init -q softmax a.u8:i32:4,4 >wide.json
	run -0 grep -q '"dtype": "f64"' wide.json
	run --separate-stderr -1 sgpu-manifest init black_scholes rate=0 volatility=1 price=a.u8:i32:4 strike=b.x:f32:4 years=c.x:f32:4
	assert_contains "$stderr" "'a.u8' has values of i32; 'price' of 'black_scholes' takes f32, and no cast to these keeps every value"
	run --separate-stderr -0 sgpu-manifest init black_scholes rate=0 volatility=1 --cast f32 price=a.u8:i32:4 strike=b.x:f32:4 years=c.x:f32:4
	assert_contains "$stderr" "'a.u8' has values of i32, which are cast to f32"
	# 64 bits are cast where the file has been looked at, and all of its values are ones of f64.
	sgpu-manifest init -q softmax a.u8:i64:4,2 >wide.json
	run -0 grep -q '"dtype": "f64"' wide.json
	{ head -c 8 /dev/zero && printf '\1\0\0\0\0\0\040\0'; } >odd.i64
	run --separate-stderr -1 sgpu-manifest init softmax odd.i64:i64:1,2
	run --separate-stderr -2 sgpu-manifest init softmax --cast f23 odd.i64:i64:1,2
	# Two files, one of f64: both in f64.
	sgpu-manifest init -q gemm a=a.u8:u8:4,4 b=b.x:f64:4,4 >both.json
	run -0 grep -q '"dtype": "f64"' both.json
	# Nothing is inserted where nothing is needed.
	sgpu-manifest init -q gaussian3d sigma=1 a.u8:f32:4,2,2 >none.json
	run ! grep -q '"cast"' none.json
}

@test "a cast that would make other data of it is refused with the reason" {
	run --separate-stderr -1 sgpu-manifest init morphology3d a.x:f32:4,4,4
	assert_contains "$stderr" "'a.x' has values of f32; 'input' of 'morphology3d' takes u8, and no cast to these keeps every value"
	assert_contains "$stderr" "--cast TYPE casts all the same"
	[ -z "$output" ]
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
		sgpu-manifest init -q gaussian3d sigma=1.5 "$name.nii" >"$name.json"
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
	typed=$(sgpu-manifest init -q copy a.u8:u8:16 | tr -d ' \n')
	for type in uint8:16 float32 u8; do
		run --separate-stderr sgpu-manifest init copy "a.u8:$type"
		[ "$status" -ne 0 ]
		assert_contains "$stderr" "FILE:DTYPE:SHAPE, SHAPE as in 181,217,181, DTYPE one of f32 f64 f16 i8 u8 i16 u16 i32 u32 i64 u64"
	done
	# A type of other bits, or of another sign, would be a wrong result without a word.
	for type in uint16 int64 i128 f8 bf16 c64 float int byte; do
		run --separate-stderr -3 sgpu-manifest init copy "a.u8:$type:4"
		run --separate-stderr -1 sgpu-manifest init cast "dtype=$type" a.u8:u8:16
		[[ $stderr != *"did you mean"* ]]
		printf %s "${typed/'"dtype":"u8"'/"\"dtype\":\"$type\""}" >typed.json
		run --separate-stderr -1 sgpu-manifest check typed.json
		assert_contains "$stderr" "'$type' is not one of"
		[[ $stderr != *"did you mean"* ]]
	done
	[ -z "$output" ]
}

# ---- what is shown ----

@test "numbers are written as they were given" {
	head -c 16 /dev/zero >a.u8
	sgpu-manifest init scale gain=0.58 bias=-1e-7 a.u8:u8:16 >job.json
	run -0 grep -q '"gain": 0.58,\?$' job.json
	run -0 sgpu-manifest show job.json
	assert_contains "$output" 'gain=0.58 bias=-1e-07'
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
	sgpu-manifest init copy 脳スキャン/a.u8:u8:16 >job.json
	run -0 sgpu-manifest show job.json
	# The segments' rows: in the column behind the location, where each wide character takes two.
	printf '%s\n' "$output" | awk '/^segment_id/ { on = 1 } on && !NF { exit } on' |
		sed 's/脳/__/; s/ス/__/; s/キ/__/; s/ャ/__/; s/ン/__/' >rows
	awk 'NR == 1 { at = index($0, "writer") } NR > 1 && substr($0, at - 1, 1) != " " { exit 1 }
		NR > 1 && substr($0, at, 1) == " " { exit 1 }' rows
	[ "$(wc -l <rows)" -eq 3 ]
}

@test "a name that is not ASCII keeps its stem in the output's name" {
	local name
	for name in $'\xe6\x89\xab\xe6\x8f\x8f' $'\xe5\x9b\xbe\xe5\x83\x8f' $'Scan M\xc3\xbcller #1'; do
		head -c 16 /dev/zero >"$name.u8"
		sgpu-manifest init -q copy "$name.u8:u8:16" >"$name.json"
		[ "$(jq -r '.segments[1].data_location_client' "$name.json")" = "$name.copy.u8" ]
		through "$name.json"
		[ -s "out/$name.copy.u8" ]
	done
	# One that is nearly too long for a file.
	name=$(printf '\xe6\x89\xab%.0s' {1..83})
	head -c 16 /dev/zero >"$name.u8"
	sgpu-manifest init -q threshold "$name.u8:u8:16" >long.json
	sgpu-manifest check long.json
	jq -r '.segments[1].data_location_client' long.json | iconv -f UTF-8 -t UTF-8 | grep -qx "${name:0:159}.threshold.u8"
}

@test "no table shows what would turn the direction of writing" {
	head -c 16 /dev/zero >$'a\xe2\x80\xaeb'
	sgpu-manifest init copy $'a\xe2\x80\xaeb:u8:16' >job.json
	run -0 sgpu-manifest show job.json
	assert_contains "$output" 'a\xe2\x80\xaeb'
	LC_ALL=C.UTF-8 run -0 sgpu-manifest show job.json
	assert_contains "$output" 'a\xe2\x80\xaeb'
	assert_plain "$output"
	run -0 sgpu-manifest show --json job.json
	assert_contains "$output" 'a\u202Eb'
	case $output in *$'\xe2\x80\xae'*) false ;; esac
}

@test "what is wrong with a manifest that nobody has seen is said without places in it" {
	run --separate-stderr -1 sgpu-manifest init threshold low=3 high=2 a.u8:u8:16
	[ "$stderr" = "sgpu-manifest: error: low: 3 is above 'high', 2" ]
}
