# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# sgpu-bench on the command line, with the CPU device and cases that take no time.

load helpers

# quick CASE... [OPTION...]: few samples of small sizes.
quick() {
	sgpu-bench run --device cpu --samples 3 --size 64K "$@"
}

# results NAME MEDIAN [MORE [P95]]: a file of results with one measurement, of an earlier version without MORE.
results() {
	cat >"$1" <<END
{"record":"environment","device":"CPU"}
{"record":"measurement","case":"made","variant":"v","parameters":{"size_bytes":4096},"unit":"B/s","status":"passed","n":9,"min_ns":$2,"median_ns":$2,"p95_ns":${4-$2},"mad_ns":1${3-},"spread":1,"cpu_median_ns":5,"bytes":4096,"operations":1}
END
}

@test "list names every case" {
	run -0 --separate-stderr sgpu-bench list
	for case in bandwidth aead-cpu aead-gpu secure-copy digest measure \
		transition channel session sizes app training exitless conversion dsa; do
		[[ $output == *"$case "* ]]
	done
	[[ ${lines[0]} == "case "*" help "*" unit"* ]]
	[ -z "$stderr" ]
}

@test "list --json writes an object a line" {
	requires python3
	run -0 --separate-stderr sgpu-bench list --json
	python3 - "$output" <<'END'
import json, sys
rows = [json.loads(line) for line in sys.argv[1].splitlines()]
by_name = {row["case"]: row for row in rows}
assert len(rows) == len(by_name) >= 11
assert by_name["measure"]["unit"] == "B/s" and by_name["session"]["unit"] == "ns"
END
}

@test "run --json begins with the environment, and every number has its unit in the key" {
	requires python3
	run -0 --separate-stderr quick --json secure-copy digest aead-gpu
	[[ $stderr == *"2 passed, 1 waived, 0 failed"* ]]
	python3 - "$output" <<'END'
import json, sys
environment, *records = [json.loads(line) for line in sys.argv[1].splitlines()]
assert environment["record"] == "environment" and environment["device_selector"] == "cpu"
for key in ("sgpu_version", "date", "processor", "kernel", "operating_system", "device", "device_driver",
            "device_uuid", "device_confidential_computing", "device_timer"):
    assert isinstance(environment[key], str), key
assert environment["processors"] >= 1 and environment["device_memory_bytes"] > 0 and environment["tree"] in (
    "clean", "modified", "unknown")
assert environment["command"].startswith("sgpu-bench run --device cpu --samples 3 --size 64K --json secure-copy digest aead-gpu")
passed = [r for r in records if r["status"] == "passed"]
assert {r["case"] for r in passed} == {"secure-copy", "digest"}
for r in passed:
    assert r["n"] == 3 and 0 < r["min_ns"] <= r["median_ns"] <= r["p95_ns"]
    assert r["parameters"]["size_bytes"] == 65536
    assert r["cpu_median_ns"] >= 0 and r["mad_ns"] >= 0 and r["spread"] >= 0
    assert len(r["samples_ns"]) == 3 and sorted(r["samples_ns"])[1] == r["median_ns"] and r["stopped"] == "count"
    assert r["median_low_ns"] == r["min_ns"] and r["median_high_ns"] == r["p99_ns"] == max(r["samples_ns"])
second = [r for r in passed if r["variant"] == "+ opening on GPU"][0]
assert second["ratio_to"] == "base" and second["ratio_min"] <= second["ratio"] <= second["ratio_p95"]
waived = [r for r in records if r["status"] == "waived"]
assert waived and all(r["reason"] for r in waived)
END
}

@test "a case that fails ends the run with 5, and its record says why" {
	# shellcheck disable=SC2016 # the inner shell expands it
	run -5 --separate-stderr bash -c 'for fd in {3..255}; do eval "exec $fd>&-"; done
		ulimit -n 6
		exec sgpu-bench run --device cpu --samples 3 --size 1K:64K app measure'
	[[ $output == *"failed: cannot make "*": Too many open files"* ]]
	[[ $output == *"| measure "*"| device "* ]]
	[[ $stderr == *"1 passed, 0 waived, 1 failed"* ]]
}

@test "the case session opens devices, and has its figures of memory apart" {
	requires python3
	run -0 --separate-stderr quick -q --json session
	python3 - "$output" <<'END'
import json, sys
records = [json.loads(line) for line in sys.argv[1].splitlines()][1:]
passed = {(r["parameters"]["what"], r["variant"]) for r in records if r["status"] == "passed"}
for what in ("first of a process", "last of a process", "create", "alloc", "free"):
    assert len([p for p in passed if p[0] == what]) == 2, what
assert ("group", "sealed group") in passed
launch = [r for r in records if r["parameters"]["what"] == "launch"]
assert [r["variant"] for r in launch] == ["bare launch", "sealed, ring"]
assert all(r["operations"] == 64 and r["status"] == "passed" for r in launch)
module, = [r for r in records if r["parameters"]["what"] == "module"]
assert module["status"] == "waived"
END
}

@test "the case sizes measures each way, with the processor time of all processes and with goals" {
	requires python3
	run -0 --separate-stderr quick -q --quick --json --size 1K:64K sizes
	python3 - "$output" <<'END'
import json, sys
points = {}
for line in sys.argv[1].splitlines()[1:]:
    r = json.loads(line)
    points.setdefault(r["parameters"]["what"], {})[r["variant"]] = r
assert set(points) == {"black_scholes", "idle server", "segments", "chains"}
naive = points["black_scholes"].pop("naive")
assert naive["status"] == "passed" or "No module named" in naive["reason"], naive
ways = points["black_scholes"]
assert list(ways) == ["bare calls", "process", "resident, leases", "resident, files", "session", "session, data there", "leases after a pause", "cp"]
for by_way in points.values():
    for r in by_way.values():
        assert r["status"] == "passed" and r["min_ns"] <= r["p90_ns"] <= r["p99_ns"], r
assert all(r["parameters"]["input_bytes"] == 3072 and r["bytes"] == 5120 for r in ways.values())
assert {way: r["goal_ns"] for way, r in ways.items() if "goal_ns" in r and way != "session"} == {
    "process": 1300000, "resident, leases": 150000, "resident, files": 160000}
assert ways["session"]["goal_ns"] - ways["bare calls"]["median_ns"] == 20000
# The enclave is another process, and the process another one yet.
assert all(ways[way]["cpu_median_ns"] > 100000 for way in ("process", "resident, leases", "resident, files"))
segments = points["segments"]
assert abs(segments["one batch"]["goal_ns"] - segments["64 batches"]["median_ns"] / 10) < 1
END
	[ -z "$(find "$XDG_RUNTIME_DIR" -type f)" ]
}

@test "the case sizes is waived where the other programs are not" {
	mkdir alone
	cp "$SGPU_BUILD/bin/sgpu-bench" alone/
	run -0 --separate-stderr alone/sgpu-bench run -q --device cpu --samples 1 --size 5K sizes
	[[ $output == *"waived: there is no '"*"alone/sgpu-seal'"* ]]
}

@test "results stand alone on standard output" {
	run -0 --separate-stderr quick -q measure aead-gpu
	[ -z "$stderr" ]
	[ "${#lines[@]}" -eq 4 ]
}

@test "every case passes or is waived, and leaves nothing behind" {
	run -0 --separate-stderr sgpu-bench run --device cpu --quick --samples 1 --size 1K:64K all
	[[ $stderr != *warning* ]]
	[[ $stderr == *" 0 failed"* ]]
	for case in bandwidth aead-cpu digest measure channel session sizes app; do
		grep -qE "^\| $case .* [0-9.]+ [nmu]?s " <<<"$output"
	done
	[ -z "$(find "$XDG_RUNTIME_DIR" -type f)" ]
}

@test "table has the lines of run, and the machine, from standard input, too" {
	quick -q --json -o a.json secure-copy digest
	run -0 --separate-stderr sgpu-bench table - <a.json
	[[ $output == *"| processors "*"| case "*"| point "*"| variant "*"| result "* ]]
	[[ $output == *"| secure-copy "*"| breakdown, 64 KiB "*"| base "*"| digest "*"| 64 KiB "* ]]
	columns=$(sed -n '/^| case /,$p' <<<"$output" | sed 's/\\|//g; 2d' | awk -F '|' '{ print NF }' | sort -u | wc -l)
	[ "$columns" -eq 1 ]
}

@test "table makes no HTML of a name" {
	results a.json 100
	sed -i 's/"made"/"<img src=x> \&lt;"/; s/"v"/"\&lt;b\&gt;"/' a.json
	run -0 --separate-stderr sgpu-bench table a.json
	[[ $output == *'| \<img src=x\> \&lt; '*'| \&lt;b\&gt; '* ]]
}

@test "an output appears only when the run has come to its end" {
	quick -q --json -o out.json measure
	run -0 sgpu-bench table out.json
	[[ $output == *"| measure "* ]]
	run -2 quick -o none.json no-such-case
	[ ! -e none.json ]
	sgpu-bench run --device cpu --samples 100000 --size 4M -o none.json -q digest &
	pid=$!
	sleep 0.5
	kill -TERM "$pid"
	status=0
	wait "$pid" || status=$?
	[ "$status" -eq 143 ]
	[ ! -e none.json ]
}

@test "a run compares equal to itself" {
	quick -q --json -o a.json secure-copy digest
	run -0 --separate-stderr sgpu-bench compare a.json a.json
	[[ $output == *" % "*"| same "* ]]
	[[ $output != *slower* ]]
	[[ $stderr == *"0 worse"* ]]
	run -0 sgpu-bench compare --ratios a.json a.json
	[[ $output == *"secure-copy + opening on GPU direction=breakdown size_bytes=65536"* ]]
	[[ $output != *"secure-copy base"* ]]
}

# program: the one for jq that the manual shows, as a reader would copy it.
program() {
	mandoc -T ascii "$SGPU_TOP/man/sgpu-bench.1" | sed "s/.$(printf '\b')//g" | sed -n '/^ *def fixed/,/^ *"| .*join(/p' | sed 's/^     //'
}

# rows FILE: those of `table` for measurements that passed.
rows() {
	sgpu-bench table "$1" | tr -s ' ' | sed -n '/^| case /,$p' |
		sed '1d; /^|---/d; /| waived: /d'
}

@test "the manual's program for jq recomputes tables from the records" {
	requires jq mandoc
	program >table.jq
	[ "$(wc -l <table.jq)" -ge 15 ]
	for case in bandwidth digest measure alloc secure-copy; do
		jq -nr -f table.jq "$SGPU_TOP/docs/benchmarks/h200-$case.json" | tr -s ' ' >theirs
		rows "$SGPU_TOP/docs/benchmarks/h200-$case.json" >ours
		[ "$(wc -l <ours)" -ge 16 ]
		diff ours theirs
	done
	# From samples: without the statistics that are recorded, too.
	quick -q --json -o a.json secure-copy
	jq -c 'del(.median_ns, .p95_ns, .spread)' a.json >samples.json
	jq -nr -f table.jq samples.json | tr -s ' ' >theirs
	rows a.json >ours
	[ "$(wc -l <ours)" -eq 2 ]
	diff ours theirs
}

@test "compare ends with 1 when the second run is slower beyond the threshold" {
	requires python3
	results a.json 100
	results b.json 120
	run -1 --separate-stderr sgpu-bench compare a.json b.json
	[[ $output == *"+20.0 %"*"slower, beyond the threshold"* ]]
	run -3 --separate-stderr bash -c 'sgpu-bench compare a.json b.json >/dev/full'
	[[ $stderr == *"standard output"* ]]
	run -0 sgpu-bench compare --threshold 25 a.json b.json
	[[ $output == *slower* ]]
	run -0 sgpu-bench compare b.json a.json
	[[ $output == *faster* ]]
	run -1 --separate-stderr sgpu-bench compare --json a.json b.json
	python3 - "$output" <<'END'
import json, sys
d = json.loads(sys.argv[1])
assert d["verdict"] == "slower" and d["beyond_threshold"] is True and abs(d["change"] - 0.2) < 1e-6
assert d["first_median_ns"] == 100 and d["second_median_ns"] == 120 and d["noise"] > 0
END
}

@test "compare calls ambiguous what exceeds the noise without a gap between the samples" {
	requires python3
	results a.json 100 "" 9000
	results b.json 120
	run -0 --separate-stderr sgpu-bench compare a.json b.json
	[[ $output == *"+20.0 %"*"ambiguous "* ]]
	[[ $stderr == *"1 compared: 0 same, 0 faster, 0 slower, 1 ambiguous; 0 worse"* ]]
	run -0 --separate-stderr sgpu-bench compare --json a.json b.json
	python3 -c 'import json, sys
d = json.loads(sys.argv[1])
assert d["verdict"] == "ambiguous" and d["beyond_threshold"] is False' "$output"
}

@test "too few descriptors for another process are named as the reason" {
	# shellcheck disable=SC2016 # the inner shell expands it
	run --separate-stderr bash -c 'for fd in {3..255}; do eval "exec $fd>&-"; done
		ulimit -n 7
		exec sgpu-bench run --device cpu --samples 3 --size 64K session'
	[[ $output == *"Too many open files"* && $output != *"Invalid argument"* ]]
}

@test "compare names what one run lacks, and ends with 1 when it fails there" {
	results a.json 100
	results b.json 100
	sed -i 's/4096}/8192}/' b.json
	cat a.json b.json | grep -v '"environment"' >both.json
	run -0 sgpu-bench compare both.json a.json
	[[ $output == *"size_bytes=8192"*"only in the first"* ]]
	run -0 sgpu-bench compare a.json both.json
	[[ $output == *"size_bytes=8192"*"only in the second"* ]]
	run -1 --separate-stderr sgpu-bench compare a.json b.json
	[[ $stderr == *"no measurement in common"* ]]
	sed 's/"status":"passed".*/"status":"failed","reason":"broken"}/' a.json >c.json
	run -1 sgpu-bench compare a.json c.json
	[[ $output == *"failed"*"beyond the threshold"* ]]
}

@test "a malformed file of results is refused with its line" {
	results good.json 100
	for line in '{' '{}' '{"record":"measurement"}' 'x' "$(printf '{"record":"measurement","case":"\\u001b[2J"}')"; do
		{
			cat good.json
			echo "$line"
		} >bad.json
		run -1 --separate-stderr sgpu-bench compare good.json bad.json
		[[ $stderr == *"bad.json:3: "* ]]
		run -1 --separate-stderr sgpu-bench table bad.json
		[[ $stderr == *"bad.json:3: "* ]]
	done
	: >empty.json
	run -1 --separate-stderr sgpu-bench table empty.json
	[[ $stderr == *"'empty.json' is empty"* ]]
	echo >blank.json
	run -1 --separate-stderr sgpu-bench table blank.json
	[[ $stderr == *"no measurements"* ]]
	run -3 sgpu-bench table none.json
}

@test "files that cannot be written are told before anything is measured" {
	touch no-folder
	run -3 --separate-stderr sgpu-bench run --device cpu --samples 3 --size 64K -o no-folder/a.json digest
	[[ $stderr == *no-folder* ]]
	[[ $stderr != *digest* ]]
}

@test "benchmarks.sh measures each case once, writes its table in place, and says what it could not measure" {
	local commit
	commit=$(sgpu-bench -V | sed -n '1s/.*, commit \([^-]*\).*/\1/p')
	run_it() { "$SGPU_TOP/scripts/benchmarks.sh" --device cpu --quick --name "bats$$" --docs "$PWD/docs.md" "$@"; }
	printf 'Before.\n\n<!-- bats%s-secure-copy -->\nstale\n<!-- end -->\n\nAfter.\n' $$ >docs.md
	run -0 --separate-stderr run_it secure-copy
	[[ $stderr == *"sgpu-bench run secure-copy --device cpu"* ]]
	run -0 --separate-stderr run_it secure-copy aead-gpu
	[[ $stderr != *"run secure-copy"* && $output == *"could not be measured: 1 aead-gpu: waived: no GPU"* ]]
	run -0 cat docs.md
	[[ $output == "Before."*"commit $commit"*":"*"| up, "*" | plain "*" | at rest "*" x; live "*" x |"*"<!-- end -->"*"After."* && $output != *stale* ]]
	[ -s "docs/bats$$-secure-copy.json" ]
	grep -q '"status":"waived"' "docs/bats$$-aead-gpu.json"
	echo '{"record":"measurement","status":"passed"}' >"docs/bats$$-aead-gpu.json"
	run run_it aead-gpu
	[[ $output == *"could not be measured: 1 aead-gpu: waived: no GPU"* ]]
	run ! grep waived "docs/bats$$-aead-gpu.json"
	run -2 run_it --seconds soon secure-copy
	rm -f "$SGPU_BUILD/benchmarks/bats$$-"*
}

@test "wrong command lines end with 2" {
	run -2 --separate-stderr sgpu-bench run all measure
	[[ $stderr == *"unknown case 'all'"* ]]
	run -2 --separate-stderr sgpu-bench run no-such-case
	[[ $stderr == *"unknown case 'no-such-case'"* ]]
	run -2 --separate-stderr sgpu-bench run bandwith
	[[ $stderr == *"did you mean 'bandwidth'?"* ]]
	run -2 sgpu-bench run measure measure
	run -2 sgpu-bench run --samples 0 measure
	run -2 sgpu-bench run --samples 3 --time 1s measure
	run -2 sgpu-bench run --time -1 measure
	run -2 sgpu-bench run --size 4M:1M measure
	run -2 sgpu-bench run --size : measure
	run -2 sgpu-bench run --size 12345678901234567890123456789012:1 measure
	run -2 sgpu-bench run --device gpu measure
	run -2 sgpu-bench list extra
	run -2 sgpu-bench compare one
	run -2 sgpu-bench compare --threshold x a b
	run -2 sgpu-bench compare --threshold -5 a b
	run -2 sgpu-bench table
	run -2 sgpu-bench
}

@test "the case exitless measures the ways, with requests that are all in the model" {
	requires python3
	run -0 --separate-stderr quick -q --quick --json exitless
	python3 - "$output" <<'END'
import json, sys
environment, *records = [json.loads(line) for line in sys.argv[1].splitlines()]
assert environment["processors"] >= 1 and environment["load_average"] >= 0
points = {}
for r in records:
    assert r["status"] in ("passed", "waived"), r
    p = r["parameters"]
    assert p["exit_cycles"] == 7110 and p["processors"] == environment["processors"]
    points.setdefault(p["what"], {})[r["variant"]] = r
assert set(points) == {"empty call", "server alone"}
for by_way in points.values():
    assert set(by_way) == {"queue", "direct", "exit, the paper's", "exit, this VM's"}
    assert by_way["direct"]["status"] == by_way["exit, the paper's"]["status"] == "passed"
    assert (by_way["queue"]["status"] == "passed") == (environment["processors"] > 1)
    assert (by_way["exit, this VM's"]["status"] == "passed") == (environment["vm_exit_cycles"] is not None)
    for r in by_way.values():
        if r["status"] == "passed":
            assert r["operations_per_second"] > 0
# Time that is lost by counting cycles is lost on any machine.
empty = points["empty call"]["exit, the paper's"]
assert empty["min_ns"] / empty["operations"] >= 7110 / environment["cycles_per_second"] * 1e9 * 0.99
END
}

@test "exitless on one processor says what cannot be measured" {
	requires python3
	# shellcheck disable=SC2016 # Python's
	run -0 --separate-stderr python3 -c 'import os, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
os.execvp(sys.argv[1], sys.argv[1:])' sgpu-bench run -q --device cpu --samples 3 --quick --json exitless
	python3 - "$output" <<'END'
import json, sys
environment, *records = [json.loads(line) for line in sys.argv[1].splitlines()]
assert environment["processors"] == 1
queue = [r for r in records if r["variant"] == "queue"]
assert queue and all(r["status"] == "waived" and "one processor" in r["reason"] for r in queue)
assert {r["variant"] for r in records if r["status"] == "passed"} >= {"direct", "exit, the paper's"}
END
}
