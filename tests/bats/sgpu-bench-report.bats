# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# sgpu-bench report: the page, what is in it, and what a browser makes of it.

load helpers
load report

@test "a report is one page that loads nothing and runs only its own script" {
	requires python3
	measurement made plain '"size_bytes":4096' 100 >a.json
	run -0 --separate-stderr sgpu-bench report a.json -o a.html
	[ -z "$output$stderr" ]
	python3 - <<'END'
import base64, hashlib, re
page = open("a.html").read()
policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page).group(1)
rules = dict(rule.split(None, 1) for rule in policy.split("; "))
assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
for element in "script", "style":
    text = re.search(r"<%s>(.*?)</%s>" % (element, element), page, re.S).group(1)
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    assert rules[element + "-src"] == "'sha256-%s'" % digest
assert set(rules) == {"default-src", "base-uri", "form-action", "script-src", "style-src"}
# Of the library nothing is looked at: what it would load, the policy refuses.
own = re.sub(r"<script>/\*!\n \* Chart.js.*?/\* SPDX", "", page, 1, re.S)
assert len(own) < len(page) - 150000
assert not re.search(r"(src|srcset|data)\s*=|@import|<link|<iframe|<img|innerHTML|insertAdjacent|document\.write|https?:|url\(", own)
assert len(page) < 300000
END
	sgpu-bench report a.json >b.html
	cmp a.html b.html
	sgpu-bench report - <a.json -o c.html
	grep -q '"standard input"' c.html
}

# Texts that would end the element, begin a comment in which its end counts for nothing, or be script.
hostile_results() {
	python3 - <<'END'
import json
bad = "</script><script>document.title='ran'</script><img src=x onerror=\"document.title='ran'\">"
short = "<!--<script>\u20ac&lt;\"'`"
lines = [
    {"record": "environment", "processor": bad, "device": bad, short: bad, "command": bad, "commit": bad, "date": bad},
    {"record": "measurement", "case": short, "variant": short, "parameters": {short: short, "source": short, "__proto__": "x"},
     "unit": "ns", "status": "passed", "n": 9, "min_ns": 1, "median_ns": 2, "p95_ns": 3, "mad_ns": 0, "spread": 1,
     "cpu_median_ns": 5, "operations": 1, "unknown": bad,
     "ratio_to": short, "ratio": 1, "ratio_min": 1, "ratio_p95": 1, "ratio_mad": 0, "n_samples": [bad, None, 2, {}]},
    {"record": "measurement", "case": short + "2", "variant": "", "parameters": {}, "unit": "ns", "status": "waived",
     "reason": bad},
]
with open("hostile.json", "w") as out:
    for i, line in enumerate(lines):
        out.write(json.dumps(line, ensure_ascii=bool(i % 2)) + "\n")
END
}

@test "hostile texts cannot leave their element, and records come out as they went in" {
	requires python3
	hostile_results
	cp hostile.json $'\xff<script>.json'
	measurement made plain '' 100 >good.json
	sgpu-bench report hostile.json good.json $'\xff<script>.json' -o a.html
	python3 - <<'END'
import html.parser, json
class Page(html.parser.HTMLParser):
    elements, data, inside = [], "", False
    def handle_starttag(self, tag, attributes):
        self.elements.append(tag)
        self.inside = ("id", "results") in attributes
    def handle_data(self, data):
        self.data += data if self.inside else ""
    def handle_endtag(self, tag):
        self.inside = False
page = Page()
page.feed(open("a.html").read())
assert page.elements.count("script") == 2 and "img" not in page.elements
assert "<" not in page.data
files = json.loads(page.data)
assert [f["name"] for f in files] == ["hostile.json", "good.json", "?<script>.json"]
for name, file in ("hostile.json", files[0]), ("good.json", files[1]):
    assert file["text"] == open(name).read()
END
}

@test "hostile texts stay texts in a browser" {
	requires python3 chromium
	hostile_results
	cp hostile.json other.json
	sgpu-bench report hostile.json other.json -o a.html
	browse a.html
	grep -qF '<title>sgpu-bench report</title>' dom.html
	[ "$(grep -oE '<(script|img)' dom.html | wc -l)" -eq 2 ]
	grep -qF "&lt;/script&gt;&lt;script&gt;document.title='ran'" dom.html
	[ "$(grep -oE '<canvas' dom.html | wc -l)" -eq 1 ]
	[ ! -s console ]
}

@test "numbers at the ends of their range are drawn, too" {
	requires python3 chromium
	python3 - <<'END'
import json
first = {"record": "measurement", "variant": "", "parameters": {}, "status": "passed", "n": 200, "mad_ns": 0, "spread": 0,
         "cpu_median_ns": 0, "operations": 1}
far = [10**18 - 128 * (i % 20) for i in range(200)]
with open("a.json", "w") as out:
    for more in ({"case": "wake", "unit": "ns", "min_ns": min(far), "median_ns": 10**18, "p95_ns": 10**18},
                 *({"case": "rate", "variant": str(ns), "parameters": {"size_bytes": size}, "unit": "B/s", "bytes": 2**53 - 1,
                    "min_ns": ns, "median_ns": ns, "p95_ns": ns}
                   for ns in (1e-9, 100) for size in (1, 2, 4))):
        out.write(json.dumps(dict(first, **more)) + "\n")
END
	sgpu-bench report a.json -o a.html
	act a.html <<'END'
	document.querySelectorAll("details").forEach((d) => { d.open = true; });
	setTimeout(() => plots().forEach((p) => tell("plot", Object.values(p.scales).every((s) => s.ticks.length < 200))), 500);
END
	run -0 told
	[[ $output == *"plot true"*"plot true"* && $output != *false* ]]
}

@test "malformed files are refused by line, and nothing is written" {
	measurement made plain '' 100 >good.json
	{
		cat good.json
		echo '{"record":'
	} >bad.json
	run -1 --separate-stderr sgpu-bench report good.json bad.json -o out.html
	[[ $stderr == *"bad.json:2: "* ]]
	assert_no_file out.html
	run -3 sgpu-bench report good.json none.json -o out.html
	assert_no_file out.html
	run -2 sgpu-bench report -o out.html
	run -2 --separate-stderr sgpu-bench report good.json -o good.json
	run -0 sgpu-bench table good.json
	run -3 sgpu-bench report good.json -o good.json/out.html
}

@test "a terminal gets no page" {
	requires pty
	measurement made plain '' 100 >a.json
	run script -qec 'sgpu-bench report a.json; echo "status $?"' /dev/null </dev/null
	[[ $output == *"status 2"* && $output != *doctype* ]]
}

@test "what is swept is drawn as lines, the rest as dots, and sources apart" {
	requires python3 chromium
	{
		environment
		for size in 4096 65536 1048576; do
			measurement swept plain "\"size_bytes\":$size" $((size / 10))
			measurement swept sealed "\"size_bytes\":$size" $((size / 8))
			measurement conversion share "\"pages\":$((size / 4096)),\"source\":\"kvm\"" $((size / 4))
			measurement conversion share "\"pages\":$((size / 4096)),\"source\":\"model\"" $((size / 5))
		done
		measurement dots one '' 100
		measurement dots two '' 1000
		echo '{"record":"measurement","case":"gone","variant":"","parameters":{},"unit":"ns","status":"waived","reason":"no such thing here"}'
	} >a.json
	sgpu-bench report a.json -o a.html
	act a.html <<'END'
	for (const s of document.querySelectorAll("section")) {
		const lines = plots(`#${s.id}`).flatMap((p) => p.data.datasets.filter((set) => set.showLine));
		tell(s.id, plots(`#${s.id}`).length, lines.length, points(`#${s.id}`).length, s.querySelectorAll("tbody tr").length);
	}
	tell([...document.querySelectorAll("#case-conversion figcaption")].map((title) => title.textContent).join());
	tell(document.getElementById("not-measured").textContent);
	tell(document.documentElement.scrollWidth <= innerWidth);
END
	run -0 told
	[[ $output == *"case-swept 1 2 6 6"* ]]
	[[ $output == *"case-conversion 2 2 6 6"* ]]
	[[ $output == *"case-dots 1 0 2 2"* ]]
	[[ $output == *"not-measured 0 0 0 1"* ]]
	[[ $output == *"source: kvm by pages,"*"source: model by pages"* ]]
	[[ $output == *"no such thing here"* && $output == *true ]]
	[ ! -s console ]
}

@test "a plot shows its figures to the pointer" {
	requires python3 chromium
	for size in 4096 65536 1048576; do
		measurement swept plain "\"size_bytes\":$size" $((size / 10))
	done >a.json
	sgpu-bench report a.json -o a.html
	act a.html <<'END'
	const [plot] = plots(), { canvas, tooltip } = plot, marker = plot.getDatasetMeta(0).data[0];
	const say = (what) => tell(what, tooltip.opacity, tooltip.body?.flatMap((b) => b.lines).join("; "));
	/* Past the next frame, for which the library waits, and which a browser without a screen may not draw. */
	plot._eventHandler({ type: "mousemove", x: marker.x, y: marker.y, native: new MouseEvent("mousemove") });
	say("hover");
	tell(canvas.getAttribute("aria-label"));
END
	run -0 told
	[[ $output == *"hover 1 plain, size 4 KiB; 409 ns; n 9, median 409 ns, p95 449 ns"* ]]
	[[ $output == *"swept by size"* ]]
	[ ! -s console ]
}

@test "runs of two dates are told apart, and why their figures should not be quoted" {
	requires python3 chromium
	{
		environment '"date":"2026-01-01T00:00:00Z"' '"commit":"0123456"' '"tree":"clean"'
		measurement made plain '' 1000
	} >before.json
	{
		environment '"date":"2026-02-02T00:00:00Z"' '"commit":"0123456-changed"'
		measurement made plain '' 2000
	} >after.json
	sgpu-bench report before.json after.json -o a.html
	act a.html <<'END'
	document.querySelectorAll("#case-made tbody tr").forEach((row) => tell(row.cells[1].textContent, row.cells[2].textContent));
	document.querySelectorAll("#summary .run").forEach((run) => tell(run.textContent));
END
	run -0 told
	[[ $output == *"Test CPU, 2026-01-01 1 µs"*"Test CPU, 2026-02-02 2 µs"* ]]
	[[ $output == *"1 passed, 0 waived, 0 failed. verified"*"unverified"*"the tree was not clean"* ]]
	[ ! -s console ]
}

@test "values that make no line are single points" {
	requires python3 chromium
	{
		environment
		measurement copy plain '"size_bytes":4096' 100
		measurement copy sealed '"size_bytes":8192' 200
	} >a.json
	sgpu-bench report a.json -o a.html
	act a.html <<'END'
	tell([...document.querySelectorAll("#case-copy figcaption")].map((title) => title.textContent).join());
END
	run -0 told
	[ "$output" = "copy" ]
	[ ! -s console ]
}

@test "the records beside docs/benchmarks.md are drawn, each case that has figures" {
	requires python3 chromium
	sgpu-bench report "$SGPU_TOP"/docs/benchmarks/*.json -o a.html
	act a.html <<'END'
	tell([...document.querySelectorAll("section")].filter((s) => s.querySelector("canvas")).map((s) => s.id.slice("case-".length)).join("\n"));
END
	told >drawn
	[ ! -s console ]
	run ! grep -F 'its script failed (U' dom.html
	cat "$SGPU_TOP"/docs/benchmarks/*.json | python3 -c '
import json, sys
records = [json.loads(line) for line in sys.stdin]
print("\n".join(sorted({r["case"] for r in records if r.get("status") == "passed"})))' >cases
	[ "$(wc -l <cases)" -ge 10 ]
	run ! grep -vxFf drawn cases
}

@test "files of one machine with different cases make one run" {
	requires python3 chromium
	for case in one two three; do
		{
			environment '"commit":"0123456"'
			measurement "$case" plain '' 100
		} >"$case.json"
	done
	{
		environment '"commit":"0123456"'
		measurement one plain '' 100
	} | sed 's/Test CPU/Other CPU/' >other.json
	sgpu-bench report one.json two.json three.json other.json -o a.html
	act a.html <<'END'
	document.querySelectorAll("#summary .run").forEach((run) => tell(run.querySelector("h3").textContent, run.querySelector("p").textContent));
	tell([...document.querySelectorAll("#contents a")].map((a) => a.textContent).join());
END
	run -0 told
	[[ $output == *"Test CPU 3 passed, 0 waived, 0 failed. verified"*"Other CPU 1 passed"* ]]
	[[ $output == *"Machines,one,two,three,Files"* ]]
}

@test "a page fits a telephone, and a printer gets every table" {
	requires python3 chromium
	{
		environment
		for i in $(seq 30); do
			measurement a-long-name-of-a-case "a variant with a long name" "\"a_long_parameter\":\"number $i of them all, and more\"" $((100 * i))
		done
	} >a.json
	sgpu-bench report a.json -o a.html
	act a.html <<'END'
	const say = (...what) => parent.postMessage(what.join(" "), "*");
	say("width", innerWidth, "fits", document.documentElement.scrollWidth <= innerWidth);
	say("folded", document.querySelectorAll("details:not([open])").length);
	dispatchEvent(new Event("beforeprint"));
	say("folded", document.querySelectorAll("details:not([open])").length);
END
	# A browser's window may have a least width, a frame has none.
	mv acted.html inner.html
	cat >acted.html <<'END'
<!doctype html><pre id="told"></pre>
<script>addEventListener("message", (event) => document.getElementById("told").append(event.data + "\n"));</script>
<iframe src="inner.html" style="width: 360px; height: 800px; border: 0"></iframe>
END
	run -0 told
	[[ $output == *"width 360 fits true"*"folded 2"*"folded 0"* ]]
}

@test "colours can be told from the page, in both modes" {
	requires python3
	python3 - "$SGPU_TOP/tools/sgpu-bench/report/report.css" <<'END'
import re, sys
def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
def contrast(a, b):
    a, b = sorted((luminance(a), luminance(b)))
    return (b + 0.05) / (a + 0.05)
modes = [dict(re.findall(r"--(\w+): (#\w{6})", block)) for block in re.findall(r":root \{(.*?)\}", open(sys.argv[1]).read(), re.S)]
assert len(modes) == 2
for mode in modes:
    # WCAG 2.2: 4.5 for text, 3 for what is drawn.
    for name in "text", "soft", "link", "bad", "good":
        assert contrast(mode[name], mode["page"]) >= 4.5, name
        assert contrast(mode[name], mode["panel"]) >= 4.5, name
    for name in ["c%d" % i for i in range(8)]:
        assert contrast(mode[name], mode["page"]) >= 3, name
END
}
