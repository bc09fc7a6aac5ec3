# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # bats sets stderr
#
# sgpu-bench graviton and passthrough, which put results beside the figures of papers.

load helpers

# record CASE VARIANT PARAMETERS MEDIAN [MEMBERS]: a measurement that passed.
record() {
	printf '{"record":"measurement","case":"%s","variant":"%s","parameters":{%s},"unit":"ns","status":"passed",' "$1" "$2" "$3"
	printf '"n":9,"min_ns":1,"median_ns":%s,"p95_ns":9e9,"mad_ns":1,"spread":1,"cpu_median_ns":5,"bytes":0' "$4"
	printf '%s}\n' "${5:-,\"operations\":1}"
}

environment() {
	printf '{"record":"environment","device":"%s","processor":"%s"}\n' "${1:-a GPU}" "${2:-a CPU}"
}

# other [DEVICE] [PROCESSOR]: results of a case that the paper has nothing of.
other() {
	environment "$@"
	record made v '' 1
}

# says PLACE WHAT REST: the row of the table that begins so ends so.
says() {
	local line
	line=$(tr -s ' ' <<<"$output" | grep -F "| $1 | $2 |")
	if [[ $line != *"| $3" ]]; then
		printf '%s\n  does not end with: %s\n' "$line" "$3" >&2
		return 1
	fi
}

@test "without records every figure of the paper says that it was not measured" {
	other >none.json
	run -0 --separate-stderr sgpu-bench graviton none.json
	[ -z "$stderr" ]
	[ "$(grep -c '^| table 1 ' <<<"$output")" -eq 6 ]
	[ "$(grep -c '^| table 2 ' <<<"$output")" -eq 6 ]
	[ "$(grep -c '^| table 3 ' <<<"$output")" -eq 7 ]
	[ "$(grep -c '^| figure ' <<<"$output")" -eq 7 ]
	[ "$(grep -cv 'not measured: ' <<<"$output")" -eq 2 ]
	awk -F '|' 'NF != 11 { exit 1 }' <<<"$output"
	says 'table 1' 'CH_DESTROY' "1.00 us | 10.7 ms | 10684 x | | | | not measured: no such record of case 'channel' in these results |"
}

@test "records of several files stand beside the paper's figures, with the ratio that was measured in turns" {
	{
		environment
		record channel channel '"command":"CH_CREATE","graviton_us":2330' 114000
	} >channel.json
	{
		environment
		record session plain '"what":"copy","direction":"h2d","size_bytes":4096' 50000
		record session 'secure copy' '"what":"copy","direction":"h2d","size_bytes":4096' 60000
		record session plain '"what":"launch","launches":256' 256000 ',"operations":256'
		record session secure '"what":"launch","launches":256' 512000 ',"operations":256'
		record session 'bare launch' '"what":"launch","launches":64' 640000 ',"operations":64'
		record session 'sealed, ring' '"what":"launch","launches":64' 1920000 ',"operations":64'
	} >session.json
	{
		environment
		record secure-copy base '"direction":"breakdown","size_bytes":4096' 10000
		record secure-copy '+ opening on GPU' '"direction":"breakdown","size_bytes":4096' 30000 \
			',"operations":1,"ratio_to":"base","ratio":2.5,"ratio_min":2,"ratio_p95":3,"ratio_mad":0.1'
	} >secure-copy.json
	run -0 --separate-stderr sgpu-bench graviton channel.json session.json secure-copy.json
	says 'table 1' 'CH_CREATE' '2.00 us | 2.33 ms | 1165 x | | 114 us | | |'
	says 'table 2' 'secure copy, 4 KB' '20.0 us | 460 us | 23 x | 10.0 us | 30.0 us | 2.5 x | here GHASH; overlapped |'
	says 'section 7.3' 'secure launch' \
		'9.20 us | | 10.0 us | 30.0 us | 3 x | there what is added to a launch; here to the end of the kernel |'
	says 'table 3' 'cuMemFree, big' "not measured: no such record of case 'session' in these results |"
}

@test "trainings and applications are found by their names" {
	{
		environment
		for network in cnn autoencoder; do
			record training unsealed "\"network\":\"$network\",\"steps\":100" 2e9 ',"operations":100'
			record training sealed "\"network\":\"$network\",\"steps\":100" 3e9 ',"operations":100'
		done
	} >training.json
	run -0 --separate-stderr sgpu-bench graviton training.json
	says 'figure 10' 'Cifar-10, training' '1.53 x | 20.0 ms | 30.0 ms | 1.5 x | here a step with pictures of 28 by 28 |'
	says 'figure 11' 'Cifar-10, a hardware engine assumed' \
		'1.17 x | | | | not measured: no GPU here has an engine that opens copies, and none is assumed |'
	says 'figure 11' 'MNIST autoencoder' '1.33 x | 20.0 ms | 30.0 ms | 1.5 x | here a step with pictures of 28 by 28 |'
}

@test "what was waived says why, and its text cannot break the table" {
	{
		environment
		printf '{"record":"measurement","case":"session","variant":"","parameters":{"what":"module"},"unit":"ns","status":"waived","reason":"no | GPU"}\n'
	} >waived.json
	run -0 --separate-stderr sgpu-bench graviton waived.json
	says 'table 3' 'cuModuleLoad' 'waived: no \| GPU |'
}

@test "results of two machines are refused" {
	other >one.json
	other 'another GPU' >two.json
	other 'a GPU' 'another CPU' >three.json
	run -1 --separate-stderr sgpu-bench graviton one.json two.json
	[ -z "$output" ]
	[[ $stderr == *"'two.json' has results of another device"* ]]
	run -1 --separate-stderr sgpu-bench graviton one.json three.json
	[[ $stderr == *"'three.json' has results of another processor"* ]]
}

@test "files that hold no results, and none at all, are refused" {
	echo '{"record":' >bad.json
	run -1 --separate-stderr sgpu-bench graviton bad.json
	[ -z "$output" ]
	run -3 --separate-stderr sgpu-bench graviton absent.json
	run -2 --separate-stderr sgpu-bench graviton
	other >none.json
	run -3 --separate-stderr bash -c 'sgpu-bench graviton none.json >/dev/full'
}

@test "a run of the cases on the CPU device has figures for tables 1 to 3" {
	sgpu-bench run -q --device cpu --samples 3 --size 4K:256K --json -o run.json channel session secure-copy
	run -0 --separate-stderr sgpu-bench graviton run.json
	[ "$(grep '^| table 1 ' <<<"$output" | grep -c 'not measured')" -eq 0 ]
	[ "$(grep '^| table 2 ' <<<"$output" | grep -c 'not measured')" -eq 3 ]
	[ "$(grep '^| table 3 ' <<<"$output" | grep -c 'not measured')" -eq 0 ]
	says 'table 3' 'cuModuleLoad' 'waived: no GPU: a module of the CPU device is a shared object |'
}

@test "the records of the documentation have figures for tables 1 and 3 and section 7.3" {
	local records=$SGPU_TOP/docs/benchmarks
	run -0 --separate-stderr sgpu-bench graviton "$records"/h100-{channel,session,secure-copy,app}.json
	[ "$(grep '^| \(table [13]\|section 7.3\) ' <<<"$output" | grep -c 'not measured\|waived')" -eq 0 ]
	[ "$(grep '^| figure 11 *| BlackScholes ' <<<"$output" | grep -c 'not measured')" -eq 0 ]
}

@test "passthrough has rates, those of the documentation's records among them" {
	local records=$SGPU_TOP/docs/benchmarks
	run -0 --separate-stderr sgpu-bench passthrough "$records"/h200-{bandwidth,secure-copy}.json
	[ "$(wc -l <<<"$output")" -eq 5 ]
	[ "$(grep -c ' GB/s ' <<<"$output")" -eq 3 ]
	[[ $output != *"not measured"* ]]
	other >none.json
	run -0 --separate-stderr sgpu-bench passthrough none.json
	[ "$(grep -c 'not measured: ' <<<"$output")" -eq 3 ]
}
