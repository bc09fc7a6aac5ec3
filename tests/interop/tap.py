# SPDX-License-Identifier: Apache-2.0
"""Tests that print TAP: functions marked with @test run in the order of the file, each in a folder of its own."""
import os
import subprocess
import sys
import tempfile
import traceback

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
tests = []


def test(function):
    tests.append(function)
    return function


def sh(*command, data=None, status=0):
    """Runs a command; returns its standard output. Any other exit status is a failure of the test."""
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    if done.returncode != status:
        raise AssertionError(f"{' '.join(command)}: exit status {done.returncode}, not {status}: "
                             f"{done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def main():
    bad = 0
    for number, function in enumerate(tests, 1):
        with tempfile.TemporaryDirectory(prefix="sgpu-interop-") as folder:
            os.chdir(folder)
            os.umask(0o077)
            try:
                function()
                print(f"ok {number} - {function.__doc__}")
            except Exception:  # any failure is the test's
                bad += 1
                print(f"not ok {number} - {function.__doc__}")
                print("# " + traceback.format_exc().replace("\n", "\n# "))
            os.chdir("/")
        sys.stdout.flush()
    print(f"1..{len(tests)}")
    sys.exit(1 if bad else 0)
