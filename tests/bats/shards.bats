#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Splitting a manifest into shards, and merging their responses.

load helpers

# bats sets it.
stderr=""

# parts: four copies, independent of each other, in parts.json.
parts() {
	printf '\1\2\3\4' >a.u8
	{
		printf '{"version":1,"manifest_id":"parts","segments":[{"segment_id":"a","sensitivity_level":"LOW",'
		printf '"direction":"INPUT","data_location_client":"a.u8","gpu_operation_id":"P1","data_type_info":'
		printf '{"dtype":"u8","shape":[4]}}'
		for i in 1 2 3 4; do
			printf ',{"segment_id":"o%d","sensitivity_level":"LOW","direction":"OUTPUT",' $i
			printf '"data_location_client":"o%d.u8"}' $i
		done
		printf '],"operations":[{"gpu_operation_id":"P0","kernel":"copy","arguments":{"input":"a","output":"o1"}}'
		for i in 2 3 4; do
			printf ',{"gpu_operation_id":"P%d","kernel":"copy","arguments":{"input":"a","output":"o%d"}}' $((i - 1)) $i
		done
		printf ']}'
	} >parts.json
}

@test "split writes independent parts that can be packed by themselves" {
	parts
	run --separate-stderr -0 sgpu-manifest split parts.json
	[ "${#lines[@]}" -eq 4 ]
	for shard in shard-000.json shard-001.json shard-002.json shard-003.json; do
		sgpu-manifest pack -o batch.tar $shard
	done
	rm shard-*
	run --separate-stderr -0 sgpu-manifest split -n 2 parts.json
	[ "${#lines[@]}" -eq 2 ]
	[ "$(grep -c '"kernel"' shard-000.json)" -eq 2 ]
	[ "$(grep -c '"kernel"' shard-001.json)" -eq 2 ]
	grep -q '"parts.1"' shard-001.json
	mv shard-000.json first.json
	cp shard-001.json second.json
	run --separate-stderr -3 sgpu-manifest split -n 3 parts.json
	assert_contains "$stderr" "'./shard-001.json' exists"
	assert_no_file shard-000.json shard-002.json
	assert_same second.json shard-001.json
	rm shard-001.json
	sgpu-manifest split -n 2 parts.json >/dev/null
	assert_same first.json shard-000.json
	run --separate-stderr -2 sgpu-manifest split -n 0 parts.json
}

@test "split keeps together what an edge joins" {
	small_job
	sgpu-manifest split -n 9 job.json >shards 2>messages
	[ "$(wc -l <shards)" -eq 2 ]
	grep -q 'no more than 2 independent parts' messages
	grep -q '"ADD"' shard-000.json
	grep -q '"COPY"' shard-000.json
	grep -q '"PUBLISH"' shard-001.json
	run ! grep -q '"ADD"' shard-001.json
}

@test "merge reports on all responses and notices what is missing" {
	parts
	sgpu-manifest split -n 2 parts.json >/dev/null
	for i in 0 1; do
		sgpu-manifest pack shard-00$i.json | sgpu-stage load --files . | sgpu-run >r$i.tar
	done
	run --separate-stderr -0 sgpu-manifest merge -m parts.json r0.tar r1.tar
	[ "$(grep -c ' OK ' <<<"$output")" -eq 4 ]
	run --separate-stderr -5 sgpu-manifest merge -m parts.json r0.tar
	[[ $output =~ missing\ +o[0-9],\ o[0-9] ]]
	assert_contains "$stderr" "2 are missing"
	sed 's/"o3"/"o5"/g' parts.json >other.json
	run --separate-stderr -1 sgpu-manifest merge -m other.json r0.tar r1.tar
	assert_contains "$stderr" "'r1.tar' has the output 'o3', which 'other.json' lacks"
	run --separate-stderr -1 sgpu-manifest merge r0.tar r0.tar
	assert_contains "$stderr" "both have the output"
	head -c 1600 r1.tar >cut.tar
	run --separate-stderr -1 sgpu-manifest merge r0.tar cut.tar
	run --separate-stderr -2 sgpu-manifest merge
}

@test "merge exits 5 when a shard's output failed and says why" {
	parts
	sgpu-seal keygen -o "$TEST_SHM/owner.jwk"
	sgpu-seal keyinfo --owner "$TEST_SHM/owner.jwk" >owners
	sgpu-manifest split -n 2 parts.json >/dev/null
	sgpu-manifest pack shard-000.json | sgpu-stage load --files . | sgpu-run >r0.tar
	sgpu-manifest pack shard-001.json | sgpu-seal seal -k "$TEST_SHM/owner.jwk" --by-reference -o b1.tar
	printf '\1\2\3\5' >a.u8
	run --separate-stderr -5 sgpu-run -k "$TEST_SHM/owner.jwk" --owners owners --files . -o r1.tar b1.tar
	run --separate-stderr -5 sgpu-manifest merge -m parts.json r0.tar r1.tar
	[ "$(grep -c ' OK ' <<<"$output")" -eq 2 ]
	[ "$(grep -c ' E[A-Z]* ' <<<"$output")" -eq 2 ]
	assert_contains "$stderr" "2 of 4 outputs failed"
	run --separate-stderr -5 sgpu-manifest merge --json r1.tar
	assert_contains "$output" '"failed": 2'
}

@test "the responses of all shards open into one directory" {
	parts
	sgpu-seal keygen -o owner.jwk
	sgpu-manifest split -n 2 parts.json >/dev/null
	for i in 0 1; do
		sgpu-manifest pack shard-00$i.json | sgpu-seal seal -k owner.jwk | sgpu-run -k owner.jwk | sgpu-seal open -k owner.jwk -C out
	done
	for i in 1 2 3 4; do
		assert_same a.u8 out/o$i.u8
	done
}
