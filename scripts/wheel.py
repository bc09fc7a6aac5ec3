#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wheel.py FOLDER: writes the Python package as a wheel, the same bytes from the same sources, and prints its path.

A wheel of pure Python is a zip file with three files of metadata (packaging.python.org, "Binary distribution format").
"""
import base64
import glob
import hashlib
import os
import re
import sys
import zipfile

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def text(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as file:
        return file.read()


def main(folder):
    version = re.search(r'SGPU_VERSION "(.*)"', text("include/sgpu/version.h"))[1].replace("-dev", ".dev0")
    about = f"sgpu-{version}.dist-info"
    files = {path: text(f"python/{path}") for path in sorted(glob.glob("sgpu/*.py", root_dir=f"{TOP}/python"))}
    files[f"{about}/LICENSE"] = text("LICENSE")
    files[f"{about}/METADATA"] = f"""\
Metadata-Version: 2.1
Name: sgpu
Version: {version}
Summary: Run GPU jobs on data that the host may not see
License: Apache-2.0
Classifier: Operating System :: POSIX :: Linux
Requires-Python: >=3.9
Requires-Dist: numpy>=1.22
Description-Content-Type: text/markdown

{text("python/README.md")}"""
    files[f"{about}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: sgpu\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = ""
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content.encode())}\n"
    files[f"{about}/RECORD"] = f"{record}{about}/RECORD,,\n"
    path = os.path.join(folder, f"sgpu-{version}-py3-none-any.whl")
    with zipfile.ZipFile(path, "w") as wheel:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)  # of 1980: the bytes do not depend on the time
            entry.external_attr = 0o100644 << 16
            wheel.writestr(entry, content)
    print(path)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: wheel.py FOLDER")
    main(sys.argv[1])
