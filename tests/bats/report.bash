# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What tests of sgpu-bench report share: results to draw, and a browser without a screen.

# environment MEMBER...: the first line of a file.
environment() {
	printf '{"record":"environment","processor":"Test CPU","processors":2,"device":"CPU device","device_selector":"cpu"'
	[ $# -eq 0 ] || printf ',%s' "$@"
	printf '}\n'
}

# measurement CASE VARIANT PARAMETERS MEDIAN [MEMBER...]: a measurement of times that passed, of $N samples.
measurement() {
	printf '{"record":"measurement","case":"%s","variant":"%s","parameters":{%s},"unit":"ns","status":"passed","n":%s,' "$1" "$2" "$3" "${N:-9}"
	printf '"min_ns":%s,"median_ns":%s,"p95_ns":%s,"mad_ns":%s,"spread":0.1,"cpu_median_ns":5,"operations":1' \
		$(($4 * 95 / 100)) "$4" $(($4 * 11 / 10)) $(($4 / 100))
	[ $# -lt 5 ] || printf ',%s' "${@:5}"
	printf '}\n'
}

# browse PAGE [OPTION...]: its elements after the script ran, in dom.html. What the browser's console was told goes to the file
# console. The options are the browser's.
browse() {
	timeout 120 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$PWD/profile" \
		--enable-logging=stderr --virtual-time-budget=5000 --window-size="${WINDOW:-1200,900}" "${@:2}" \
		--dump-dom "file://$PWD/$1" 2>browser.log >dom.html || return 1
	grep -F CONSOLE browser.log >console || true
}

# act PAGE <SCRIPT: writes acted.html, the page with a script that acts on it and writes lines to an element "told". The
# page's own policy would not let it run.
act() {
	{
		sed -e '/Content-Security-Policy/d' -e '/^<\/body>/,$d' "$1"
		cat <<'END'
<pre id="told"></pre><script>
function tell(...what) { document.getElementById("told").append(what.join(" ") + "\n"); }
const plots = (selector = "body") => [...document.querySelectorAll(`${selector} canvas`)].map((c) => Chart.getChart(c));
const points = (selector) => plots(selector).flatMap((p) => p.data.datasets.flatMap((set) => set.data));
addEventListener("load", () => setTimeout(() => {
END
		cat
		echo '}, 100));</script></body></html>'
	} >acted.html
}

# told: what that script wrote.
told() {
	browse acted.html
	python3 -c '
import html, re
print(html.unescape(re.search(r"<pre id=\"told\">(.*?)</pre>", open("dom.html").read(), re.S).group(1)), end="")'
}
