#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# report-page.sh DIRECTORY: writes head.html and tail.html there, which stand before and after the data in a page of
# `sgpu-bench report`, from Chart.js (Debian's libjs-chart.js) and the files of tools/sgpu-bench/report, which are joined in
# any order. The page loads nothing, and runs only its own script: its policy names the digests of script and style.
# Without Chart.js both files are empty and old, so that make tries again.
set -euo pipefail
export LC_ALL=C
to=$1
from=$(dirname "$0")/../tools/sgpu-bench/report
library=/usr/share/javascript/chart.js/chart.min.js
[ -r "$library" ] || {
	: | tee "$to/head.html" >"$to/tail.html"
	exec touch -d @0 "$to/tail.html"
}

# digest FILE: as a policy names an inline script or style.
digest() {
	sha256sum "$1" | cut -c 1-64 | tr a-f A-F | basenc --base16 -d | base64 -w 0
}

cat "$library" "$from"/*.js >"$to/report.js"
{
	cat <<END
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; base-uri 'none'; form-action 'none'; \
style-src 'sha256-$(digest "$from/report.css")'; script-src 'sha256-$(digest "$to/report.js")'">
END
	printf '<style>'
	cat "$from/report.css"
	printf '</style>\n'
	cat "$from/report.html"
	printf '<script type="application/json" id="results">'
} >"$to/head.html"
{
	printf '</script>\n<script>'
	cat "$to/report.js"
	printf '</script>\n</body>\n</html>\n'
} >"$to/tail.html"
