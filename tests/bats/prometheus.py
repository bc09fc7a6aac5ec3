#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# prometheus.py [NAME[{LABEL="VALUE",...}]...]: reads standard input strictly in Prometheus' text format 0.0.4, and prints the
# values of the samples that are asked for. What is no such text is an error, with its line.
import math, re, sys

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"'
SAMPLE = re.compile(r"(%s)(?:\{((?:%s)(?:,%s)*)\})? (\S+)" % (NAME, LABEL, LABEL))


def labels_of(text):
    pairs = re.findall(LABEL, text or "")
    names = [name for name, _ in pairs]
    assert len(set(names)) == len(names), "a label twice"
    return tuple(sorted(pairs))


def parse(lines):
    """{(name, labels): value}; metrics come in one block each, after their TYPE."""
    samples, seen, kind, current = {}, set(), None, None
    for number, line in enumerate(lines, 1):
        try:
            if line.startswith("# TYPE "):
                _, _, current, kind = line.split(" ")
                assert re.fullmatch(NAME, current) and current not in seen
                assert kind in ("counter", "gauge")
                seen.add(current)
            else:
                match = SAMPLE.fullmatch(line)
                assert match, "no sample"
                name, labels, value = match[1], labels_of(match[2]), float(match[7])
                assert name == current, "not where its metric is"
                assert kind != "counter" or (name.endswith("_total") and value >= 0 and math.isfinite(value))
                assert (name, labels) not in samples, "twice"
                samples[name, labels] = value
        except Exception as error:
            sys.exit("line %d: %r: %s" % (number, line, error))
    return samples


text = sys.stdin.read()
assert text.endswith("\n"), "the last line has no end"
samples = parse(text[:-1].split("\n"))
for wanted in sys.argv[1:]:
    match = re.fullmatch(r"(%s)(?:\{(.*)\})?" % NAME, wanted)
    name, labels = match[1], set(labels_of(match[2]))
    values = [v for (n, l), v in samples.items() if n == name and labels <= set(l)]
    print(wanted, *["%g" % v for v in values])
