#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes sealed.json on standard output, by the Python implementations in tests/interop. Deterministic."""
import hashlib
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "interop"))
import sealed_format as f  # noqa: E402
import sealed_to_format as to  # noqa: E402

SIZES = [0, 1, 15, 16, 16383, 16384, 16385, 32768, 262143, 262144, 262145, 1048576]
CONTEXTS = [b"", b"sgpu v1\0context", bytes(range(256)) * 16]

vectors = []
for number, size in enumerate(SIZES):
    context = CONTEXTS[number % len(CONTEXTS)]
    key = hashlib.sha256(b"key %d" % number).digest()
    salt = hashlib.sha256(b"salt %d" % number).digest()[:24]
    sealed = f.seal(key, f.pattern(size), salt, context)
    entry = {"key": key.hex(), "context": context.hex(), "size": size, "header": sealed[:56].hex(),
             "sealed_sha256": hashlib.sha256(sealed).hexdigest()}
    if len(sealed) <= 128:
        entry["sealed"] = sealed.hex()
    vectors.append(entry)
sealed_to = []
for number, size in enumerate((0, 100)):
    private, ephemeral, key = (hashlib.sha256(b"%s %d" % (what, number)).digest() for what in (b"private", b"ephemeral", b"file"))
    public = to.pair(private).public_key.to_public_bytes()
    salt = hashlib.sha256(b"to %d" % number).digest()[:24]
    sealed = to.seal(public, f.pattern(size), key, salt, ephemeral=ephemeral)
    sealed_to.append({"private": private.hex(), "public": public.hex(), "key": key.hex(), "size": size, "sealed": sealed.hex()})
json.dump({"plaintext": "byte i is (i * 7 + i / 256) mod 256", "vectors": vectors, "sealed_to": sealed_to}, sys.stdout, indent=1)
print()
