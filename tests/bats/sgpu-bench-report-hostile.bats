# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # bats sets stderr
#
# sgpu-bench report: files that are large, odd or made to mislead, and what becomes of the page.

load helpers
load report

@test "members of any kind that nothing checks leave a page whole" {
	requires python3 chromium
	local bad='{"toString":1,"valueOf":1}'
	{
		environment "\"date\":null,\"tree\":$bad,\"quick\":$bad,\"kernel\":[$bad],\"platform\":$bad,\"device_driver\":$bad" \
			"\"command\":$bad,\"commit\":$bad,\"deep\":[[$bad]],\"toString\":5"
		measurement made plain '"toString":5' 100 "\"ratio\":$bad" "\"median_high_ns\":$bad" "\"other\":$bad"
		measurement made odd '"__proto__":"x"' 100
		echo "{\"record\":\"measurement\",\"case\":\"gone\",\"variant\":\"\",\"parameters\":{},\"unit\":\"ns\"," \
			"\"status\":\"waived\",\"reason\":\"r\",\"operations\":$bad,\"samples_ns\":[$bad]}"
		echo "{\"record\":\"end\",\"seconds\":$bad}"
	} >a.json
	measurement made good '' 100 >b.json
	sgpu-bench report a.json b.json -o a.html
	act a.html <<'END'
	const row = (name) => [...document.querySelectorAll("#machines tr")].find((r) => r.cells[0].textContent === name).cells[1].textContent;
	tell("machine", row("platform"), "|", row("deep"));
	tell("sections", [...document.querySelectorAll("section")].map((s) => s.id).join());
	tell("files", [...document.querySelectorAll("#files td")].map((c) => c.textContent).join("|"));
END
	run -0 told
	[[ $output == *"machine toString: 1; valueOf: 1 | 0: 0: toString: 1; valueOf: 1"* ]]
	[[ $output == *"sections machines,case-made,case-gone,not-measured,files"* ]]
	[[ $output == *"files a.json|Test CPU|–|–|–|3|b.json"* ]]
	[ ! -s console ]
}

@test "a page whose script fails says so" {
	requires chromium
	measurement made plain '' 100 >a.json
	sgpu-bench report a.json | sed 's/"text":/"others":/' >a.html
	browse a.html
	grep -q 'role="alert"[^<]*This page is not complete: its script failed (.*sgpu-bench table FILE' dom.html
	grep -q Uncaught console
}

# The browser gets a small stack in place of very many records.
@test "a page has more records and parameters than a call can have arguments" {
	requires python3 chromium
	python3 - <<'END'
import json
first = {"record": "measurement", "unit": "ns", "status": "passed", "n": 9, "min_ns": 1, "median_ns": 2, "p95_ns": 3, "mad_ns": 0,
         "spread": 0, "cpu_median_ns": 0, "operations": 1, "variant": "", "parameters": {}}
def write(name, records):
    with open(name, "w") as out:
        out.writelines(json.dumps(dict(first, **more)) + "\n" for more in records)
write("a.json", ({"case": "many", "variant": str(i)} for i in range(4000)))
write("b.json", ({"case": "many", "variant": "b%d" % i} for i in range(4000)))
write("c.json", ({"case": "gone", "variant": str(i), "status": "waived", "reason": "r"} for i in range(8000)))
write("d.json", ({"case": "keys", "variant": str(i), "parameters": {"p%d_%d" % (i, k): k for k in range(8)}} for i in range(2000)))
write("e.json", ({"case": "lines", "variant": str(i // 2), "parameters": {"size_bytes": 1 + i % 2}} for i in range(4000)))
END
	sgpu-bench report a.json b.json c.json d.json e.json -o a.html
	browse a.html --js-flags=--stack-size=100
	[ "$(grep -o '<tr>' dom.html | wc -l)" -gt 22000 ]
	[ ! -s console ]
}

@test "text that turns or hides text is refused" {
	local c file verb
	measurement made plain '' 100 >good.json
	for c in 202e 2066 200e 2028 feff; do
		measurement made "a\\u${c}b" '' 100 >variant.json
		environment "\"kernel\":\"a\\u${c}b\"" | cat - good.json >environment.json
		echo "{\"record\":\"measurement\",\"case\":\"c\",\"variant\":\"\",\"parameters\":{},\"unit\":\"ns\"," \
			"\"status\":\"failed\",\"reason\":\"\\u$c\"}" >reason.json
		for file in variant environment reason; do
			for verb in table report graviton; do
				run -1 --separate-stderr sgpu-bench "$verb" "$file.json"
				[[ -z $output && $stderr == *"$file.json:1: "*"control characters"* ]]
			done
			run -1 --separate-stderr sgpu-bench compare good.json "$file.json"
			[[ -z $output && $stderr == *"$file.json:1: "*"control characters"* ]]
		done
	done
}

@test "a file's name cannot turn the page's text" {
	requires chromium
	measurement made plain '' 100 >$'a\xe2\x80\xaeb.json'
	sgpu-bench report $'a\xe2\x80\xaeb.json' -o a.html
	browse a.html
	grep -q '<td>a?b.json</td>' dom.html
}

@test "figures that no machine has are refused" {
	measurement made plain '' 100 >good.json
	for median in 1e-300 9e-10 1.1e18; do
		sed "s/\"median_ns\":100/\"median_ns\":$median/" good.json >bad.json
		run -1 --separate-stderr sgpu-bench report good.json bad.json -o a.html
		[[ $stderr == *"bad.json:1: 'median_ns' is not 0, nor a number from 1e-9 to 1e18"* ]]
		run -1 sgpu-bench compare --json bad.json good.json
	done
	sed 's/\("[a-z0-9_]*_ns":\)[0-9]*/\11e-9/g' good.json >least.json
	sed 's/\("[a-z0-9_]*_ns":\)[0-9]*/\11e18/g' good.json >most.json
	run -0 --separate-stderr sgpu-bench report least.json most.json -o a.html
	run sgpu-bench compare --json least.json most.json
	[[ $output == *'"change":'*'"noise":'* || $output == *'"noise":'*'"change":'* ]]
}
