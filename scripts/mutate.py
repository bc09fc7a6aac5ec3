#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mutate.py [NAME...]: plants the mistakes of tests/mutate/*.txt one at a time, builds, and runs the tests of that part.
mutate.py --check [NAME...]: only names those whose lines do not stand in their file exactly once; exit 1 if there are any.

A mistake that no test notices has survived. Exit status 1 when more than 5 % of the mistakes survive that are not marked
as equivalent, or when one no longer applies to the sources. It works in a copy of the tree, so a run can be interrupted.

  SGPU_MUTATE_JOBS  mistakes at a time (1)
  SGPU_TEST_SEQUENCES  of the test with random commands (20000)
  MAKE_ARGS         for make, such as CC="ccache gcc"

An entry of the table:

  name: seal-nonce-low-bits
  file: lib/batch/sealed.c
  tests: test_seal test_seal_stream        names as for scripts/run-tests.sh
  equivalent: why no test can notice it    only where that is so; then it is built, and not counted
  - a line of the file, as it stands
  + what replaces it; none: the line goes

Lines are compared without leading and trailing blanks; the lines behind - follow each other in the file, once.
"""
import concurrent.futures
import glob
import os
import queue
import shlex
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TIMEOUT = 300  # seconds for the tests of one mistake; one that never ends counts as noticed


def read_table():
    entries = []
    for path in sorted(glob.glob(os.path.join(TOP, "tests/mutate/*.txt"))):
        entry = None
        for number, line in enumerate(open(path, encoding="utf-8"), 1):
            line = line.rstrip("\n")
            if not line.strip() or line.startswith("#"):
                continue
            key, _, value = line.partition(":")
            if key == "name":
                entry = {"name": value.strip(), "where": f"{os.path.basename(path)}:{number}", "old": [], "new": []}
                entries.append(entry)
            elif entry is not None and key in ("file", "tests", "equivalent"):
                entry[key] = value.strip()
            elif entry is not None and line[:1] == "-":
                entry["old"].append(line[1:].strip())
            elif entry is not None and line[:1] == "+":
                entry["new"].append(line[1:].strip())
            else:
                sys.exit(f"mutate.py: {path}:{number}: not understood: {line}")
    names = [entry["name"] for entry in entries]
    for entry in entries:
        if names.count(entry["name"]) > 1 or not entry["old"] or "file" not in entry or "tests" not in entry:
            sys.exit(f"mutate.py: {entry['where']}: '{entry['name']}' is incomplete, or its name stands twice")
    return entries


def find(entry, tree):
    """The text of the file and where the lines stand in it; None when that is not exactly once."""
    path = os.path.join(tree, entry["file"])
    if not os.path.exists(path):
        return None, None
    text = open(path, encoding="utf-8").read()
    stripped = [line.strip() for line in text.split("\n")]
    count = len(entry["old"])
    places = [i for i in range(len(stripped)) if stripped[i:i + count] == entry["old"]]
    return text, places[0] if len(places) == 1 else None


def plant(entry, tree):
    """Changes the file; returns its old text, or None when the mistake does not apply to it."""
    text, at = find(entry, tree)
    if at is None:
        return None
    path = os.path.join(tree, entry["file"])
    count = len(entry["old"])
    lines = text.split("\n")
    indent = lines[at][:len(lines[at]) - len(lines[at].lstrip())]
    lines[at:at + count] = [indent + line for line in entry["new"]]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
    return text


def run(command, tree, timeout=None):
    env = dict(os.environ, SGPU_TEST_JOBS="1")
    env.setdefault("SGPU_TEST_SEQUENCES", "20000")
    try:
        done = subprocess.run(command, cwd=tree, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return 124, "took too long"
    return done.returncode, done.stdout.decode(errors="replace")


def build(tests, tree):
    units = [f"build/unit/{test}" for test in tests if os.path.exists(os.path.join(tree, f"tests/unit/{test}.c"))]
    targets = units + (["programs", "test-programs"] if len(units) < len(tests) else [])
    return run(["make", "-s", "-j2", "CUDA=0", *shlex.split(os.environ.get("MAKE_ARGS", "")), *targets], tree)


def judge(entry, tree):
    """One of "killed", "survived", "equivalent", "does not build", "does not apply", and what was printed."""
    tests = entry["tests"].split()
    old = plant(entry, tree)
    if old is None:
        return "does not apply", ""
    try:
        status, output = build(tests, tree)
        if status != 0:
            return "does not build", output
        if "equivalent" in entry:
            return "equivalent", entry["equivalent"]
        status, output = run(["scripts/run-tests.sh", *tests], tree, TIMEOUT)
        return ("survived" if status == 0 else "killed"), output
    finally:
        with open(os.path.join(tree, entry["file"]), "w", encoding="utf-8") as file:
            file.write(old)


def make_tree(folder, tests):
    """A copy of the tree as git sees it, built, in which the tests pass."""
    os.makedirs(folder)
    files = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=TOP,
                           stdout=subprocess.PIPE, check=True).stdout.decode().split("\0")
    for name in filter(None, files):
        if os.path.isfile(os.path.join(TOP, name)):
            os.makedirs(os.path.dirname(os.path.join(folder, name)) or folder, exist_ok=True)
            shutil.copy2(os.path.join(TOP, name), os.path.join(folder, name))
    vectors = os.path.join(TOP, "../shared/vectors")
    if "SGPU_VECTORS" not in os.environ and os.path.isdir(vectors):
        os.environ["SGPU_VECTORS"] = os.path.abspath(vectors)
    status, output = build(tests, folder)
    if status != 0:
        sys.exit(f"mutate.py: the sources do not build as they are:\n{output}")


def main():
    entries = read_table()
    check = sys.argv[1:2] == ["--check"]
    wanted = sys.argv[1 + check:]
    for name in wanted:
        if name not in [entry["name"] for entry in entries]:
            sys.exit(f"mutate.py: there is no '{name}'")
    entries = [entry for entry in entries if not wanted or entry["name"] in wanted]
    if not entries:
        sys.exit("mutate.py: the table is empty")
    if check:
        stale = [entry for entry in entries if find(entry, TOP)[1] is None]
        for entry in stale:
            print(f"{entry['where']}: '{entry['name']}' does not apply to {entry['file']}")
        return 1 if stale else 0
    tests = sorted({test for entry in entries for test in entry["tests"].split()})
    jobs = int(os.environ.get("SGPU_MUTATE_JOBS", "1"))
    counts = {}
    with tempfile.TemporaryDirectory(prefix="sgpu-mutate-") as work:
        os.chmod(work, 0o755)  # some tests are another user
        trees = queue.Queue()
        for i in range(jobs):
            make_tree(f"{work}/{i}", tests)
            trees.put(f"{work}/{i}")
        status, output = run(["scripts/run-tests.sh", *tests], f"{work}/0")
        if status != 0:
            sys.exit(f"mutate.py: the tests fail without a mistake:\n{output[-4000:]}")

        def one(entry):
            tree = trees.get()
            try:
                return judge(entry, tree)
            finally:
                trees.put(tree)

        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for entry, (result, output) in zip(entries, pool.map(one, entries)):
                counts[result] = counts.get(result, 0) + 1
                more = f" ({output})" if result == "equivalent" else ""
                print(f"{result:15} {entry['name']}: {entry['file']}{more}", flush=True)
                if result == "does not build":
                    print(output[-2000:], flush=True)
    survived, judged = counts.get("survived", 0), counts.get("survived", 0) + counts.get("killed", 0)
    stale = counts.get("does not build", 0) + counts.get("does not apply", 0)
    print(f"{counts.get('killed', 0)} of {judged} killed, {counts.get('equivalent', 0)} equivalent, {stale} stale")
    return 1 if stale or survived * 20 > judged else 0


if __name__ == "__main__":
    sys.exit(main())
