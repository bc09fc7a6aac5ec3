#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill-matrix.py [--count N] [--seed N] [--from LIST] [--first] OUT [PART...]: which unit test notices which generated mistake?

Mistakes of five kinds are drawn over the parts of lib: a condition negated, a statement dropped, a limit off by one, two
arguments swapped, a comparison narrowed to a prefix. All are compiled in at once, and a variable of the environment picks
one, so the tree is built once. Each mistake is tried with the test programs that reach it, the quickest first: with all of
them, or with --first until one notices it.

OUT gets a line of JSON for each mistake: what it is, and the tests that failed with it. --from takes the mistakes of such
a file, as far as their lines still exist. Prints per part how many were drawn, reached and killed, and which tests killed
none. MAKE_ARGS is for make, such as CC="ccache gcc".
"""
import argparse
import collections
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PARTS = "attest base batch channel crypto device dsa files host manifest ops remote ring run stage transfer".split()
PICK = "sgpu_mistake(%d)"
HEADER = "#ifndef __CUDACC__\n_Bool sgpu_mistake(int number);\n#endif\n"
SOURCE = """
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
static int chosen = -1;
static unsigned char none[%(count)d], *reached = none;
__attribute__((constructor)) static void choose(void)
{
	const char *number = getenv("SGPU_MISTAKE"), *path = getenv("SGPU_MISTAKES_REACHED");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *map = fd >= 0 ? mmap(NULL, %(count)d, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
	chosen = number ? atoi(number) : -1;
	reached = map == MAP_FAILED ? none : map;
	if (fd >= 0) {
		close(fd);
	}
}
_Bool sgpu_mistake(int number)
{
	reached[number] = 1;
	return number == chosen;
}
"""


def balanced(text):
    depth = 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if depth < 0:
            return False
    return depth == 0


def mistakes_of(line):
    """The mistakes that a line of a function allows: (kind, the line with %s for the expression that picks it)."""
    if "%" in line or '"' in line or line.endswith("\\"):
        return
    condition = re.match(r"^(\t+(?:\} else )?if \()(.*)(\) \{)$", line)
    if condition and balanced(condition.group(2)):
        head, body, tail = condition.groups()
        yield "negate", f"{head}%s ? !({body}) : ({body}){tail}"
        for found in re.finditer(r" (<=|>=|<|>) ", body):
            other = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}[found.group(1)]
            yield "limit", f"{head}%s ? ({body[:found.start(1)]}{other}{body[found.end(1):]}) : ({body}){tail}"
    statement = re.match(r"^(\t+)((?:[a-z_]\w*\(.*\)|\*?[a-z_][\w>.\[\]-]* [|&+-]?= .*);)$", line)
    if statement and balanced(statement.group(2)) and not re.match(r"(return|va_\w+|if|for|while|switch)\b", statement.group(2)):
        yield "drop", f"{statement.group(1)}if (!%s) {{ {statement.group(2)} }}"
    for found in re.finditer(r"(?<=[\w)\]] [+-] )1\b", line):
        if line.startswith("\t") and not re.match(r"^\t+(case|static|const|[A-Z_]+ =)", line) and "[" not in line:
            yield "limit", f"{line[:found.start()]}!%s{line[found.end():]}"
    for found in re.finditer(r"\b(?:memcmp|strncmp|sgpu_equal)\([^()]*, ([\w>.-]+(?:\(\w+\))?)\)", line):
        yield "prefix", f"{line[:found.start(1)]}(%s ? 1 : {found.group(1)}){line[found.end(1):]}"
    for found in re.finditer(r"\b([a-z_]\w*)\((\w+), (\w+)\)", line):
        name, a, b = found.groups()
        if line.startswith("\t") and a != b and not re.match(r"sizeof|if|for|while|return", name):
            yield "swap", f"{line[:found.start()]}(%s ? {name}({b}, {a}) : {found.group()}){line[found.end():]}"


def candidates(parts):
    names = subprocess.run(["git", "ls-files", *[f"lib/{part}" for part in parts]], cwd=TOP, stdout=subprocess.PIPE,
                           check=True).stdout.decode().split()
    for name in sorted(n for n in names if n.endswith(".c") and "/cuda/" not in n):
        seen, inside = collections.Counter(), False
        for number, line in enumerate(open(os.path.join(TOP, name), encoding="utf-8").read().split("\n")):
            inside = line == "{" or (inside and line != "}")
            for kind, text in mistakes_of(line) if inside else ():
                seen[kind, text] += 1
                yield {"file": name, "kind": kind, "line": line.strip(), "text": text, "which": seen[kind, text],
                       "at": number}


def identity(mistake):
    return tuple(mistake[key] for key in ("file", "kind", "text", "which"))


def plant(tree, drawn, bad):
    """Writes the files with all mistakes that are not bad; one a line."""
    by_file = collections.defaultdict(dict)
    for number, mistake in enumerate(drawn):
        if number not in bad:
            by_file[mistake["file"]][mistake["at"]] = mistake["text"].replace("%s", PICK % number)
    for name in {mistake["file"] for mistake in drawn}:
        lines = open(os.path.join(TOP, name), encoding="utf-8").read().split("\n")
        for at, text in by_file[name].items():
            lines[at] = text
        with open(os.path.join(tree, name), "w", encoding="utf-8") as file:
            file.write("\n".join(lines))


def build(tree, drawn):
    """Builds the unit tests; returns the mistakes that do not compile."""
    with open(f"{tree}/mistakes.h", "w", encoding="utf-8") as file:
        file.write(HEADER)
    with open(f"{tree}/lib/base/mistakes.c", "w", encoding="utf-8") as file:
        file.write(SOURCE % {"count": len(drawn)})
    bad = set()
    while True:
        plant(tree, drawn, bad)
        command = ["make", "-s", "-k", "-j2", "CUDA=0", "DEPS=0", f"CPPFLAGS=-include {tree}/mistakes.h -w",
                   *shlex.split(os.environ.get("MAKE_ARGS", "")), "units"]
        done = subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        output = done.stdout.decode(errors="replace")
        wrong = {(name, int(at) - 1) for name, at in re.findall(r"^(lib/\S+?):(\d+):\d+: error", output, re.M)}
        more = {n for n, m in enumerate(drawn) if (m["file"], m["at"]) in wrong} - bad
        if done.returncode == 0 or not more:
            if done.returncode:
                sys.exit(f"kill-matrix.py: it does not build:\n{output[-3000:]}")
            return bad
        bad |= more


def run(tree, program, timeout, **variables):
    """The names of the tests that failed, or the program's where it did not end as it should; and whether any ran."""
    name = os.path.basename(program)
    env = dict(os.environ, SGPU_BUILD=f"{tree}/build", SGPU_TEST_SMALL="1", SGPU_TEST_SEQUENCES="2000", **variables)
    try:
        done = subprocess.run([program], cwd=tree, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return [f"{name}: took too long"]
    failed = [f"{name}: {test}" for test in re.findall(r"^not ok \d+ - (\S+)", done.stdout.decode(errors="replace"), re.M)]
    return failed or ([f"{name}: died"] if done.returncode not in (0, 77) else [])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from", dest="list")
    parser.add_argument("--first", action="store_true")
    parser.add_argument("out")
    parser.add_argument("parts", nargs="*", metavar="part")
    options = parser.parse_args()
    found = list(candidates(options.parts or PARTS))
    if options.list:
        wanted = {identity(json.loads(line)) for line in open(options.list, encoding="utf-8")}
        drawn = [mistake for mistake in found if identity(mistake) in wanted]
        print(f"{len(drawn)} of {len(wanted)} still exist")
    else:
        kinds, lines = collections.defaultdict(list), {}
        for mistake in random.Random(options.seed).sample(found, len(found)):
            kinds[mistake["kind"]].append(mistake)
        while len(lines) < options.count and any(kinds.values()):
            for kind in sorted(kinds):  # as many of each kind, as far as there are
                mistake = kinds[kind].pop() if kinds[kind] else None
                if mistake and len(lines) < options.count:
                    lines.setdefault((mistake["file"], mistake["at"]), mistake)
        drawn = list(lines.values())
    with tempfile.TemporaryDirectory(prefix="sgpu-kill-") as work:
        tree = f"{work}/tree"
        subprocess.run(f"mkdir {tree} && git ls-files -z | tar -c --null -T - | tar -x -C {tree}", cwd=TOP, shell=True,
                       check=True)
        bad = build(tree, drawn)
        programs, reached, tests = {}, collections.defaultdict(list), {}
        for name in sorted(os.listdir(f"{tree}/build/unit")):
            program = f"{tree}/build/unit/{name}"
            if not name.startswith("test_") or not os.access(program, os.X_OK) or "." in name:
                continue
            with open(f"{work}/reached", "wb") as file:
                file.write(bytes(len(drawn)))
            start = time.monotonic()
            failed = run(tree, program, 600, SGPU_MISTAKES_REACHED=f"{work}/reached")
            if failed:
                print(f"# left out, since it fails without a mistake: {failed[0]}", flush=True)
                continue
            programs[name] = time.monotonic() - start
            source = open(f"{TOP}/tests/unit/{name}.c", encoding="utf-8").read()
            tests.update({f"{name}: {test}": 0 for test in re.findall(r"UNIT_RUN\((\w+)\)", source)})
            for number, one in enumerate(open(f"{work}/reached", "rb").read()):
                if one:
                    reached[number].append(name)
        counts = collections.defaultdict(collections.Counter)
        with open(options.out, "w", encoding="utf-8") as out:
            for number, mistake in enumerate(drawn):
                killers = []
                for name in sorted(reached[number], key=programs.get) if number not in bad else ():
                    if killers and options.first:
                        break
                    killers += run(tree, f"{tree}/build/unit/{name}", 10 + 5 * programs[name], SGPU_MISTAKE=str(number))
                state = "unbuilt" if number in bad else "killed" if killers else "lives" if reached[number] else "unreached"
                counts[mistake["file"].split("/")[1]][state] += 1
                for test in killers:
                    tests[test] = tests.get(test, 0) + 1
                print(json.dumps(dict(mistake, state=state, by=killers)), file=out, flush=True)
    for part, count in sorted(counts.items()):
        print(f"{part:10} {count['killed']:4} killed {count['lives']:4} live {count['unreached']:4} unreached {count['unbuilt']:4} unbuilt")
    for test in sorted(test for test, kills in tests.items() if not kills and not options.first):
        print(f"kills none: {test}")


if __name__ == "__main__":
    main()
