# SPDX-License-Identifier: Apache-2.0
"""Batches, responses and HPKE against Python: tarfile, cryptography and pyhpke."""
import json
import os
import struct
import sys

import batch_format as b
import sealed_format as f
from small_job import MANIFEST, N
from tap import main, read, sh, test, write

def floats(values):
    return struct.pack(f"<{len(values)}f", *values)


def job():
    """job.json, its files and keys in the current folder; (inputs, expected output)."""
    scan, bias = [i % 251 for i in range(N)], [i % 7 for i in range(N)]
    write("scan.f32", floats(scan))
    write("bias.f32", floats(bias))
    write("job.json", json.dumps(MANIFEST).encode())
    sh("sgpu-seal", "keygen", "-o", "owner.jwk")
    sh("sgpu-seal", "keygen", "--x25519", "-o", "runner.jwk")
    sh("sgpu-seal", "pubkey", "-o", "runner.pub.jwk", "runner.jwk")
    payloads = {"scan": read("scan.f32"), "bias": read("bias.f32")}
    return payloads, floats([a + c for a, c in zip(scan, bias)])


def jwk(path):
    return f.encryption_key(path)


@test
def python_opens_our_batch():
    "Python opens a batch that sgpu-seal sealed: recipients of both kinds, MAC, digests, note, payloads"
    payloads, _ = job()
    sealed = sh("sgpu-seal", "seal", "-k", "owner.jwk", "-r", "runner.pub.jwk",
                data=sh("sgpu-manifest", "pack", "job.json"))
    members = b.load(sealed)
    assert list(members)[:4] == ["seal.json", "batch.json", "manifest.json", "note"]
    for key in ("owner.jwk", "runner.jwk"):
        _, payload, index, batch_key = b.authenticated(members, jwk(key))
        assert b.open_segment(batch_key, payload, index, "scan", members["segments/scan"]) == payloads["scan"]
        assert b.note(batch_key, payload, members["note"])["outputs"] == [{"segment_id": "sum", "path": "sum.f32"}]
        assert b"sum.f32" not in sealed
    assert members["segments/bias"] == payloads["bias"]


@test
def the_example_makes_and_opens_batches():
    "examples/batch.py makes a signed batch that an owner's runner takes, opens its response and names its identity"
    example = [sys.executable, os.path.join(os.path.dirname(__file__), "..", "..", "examples", "batch.py")]
    manifest = {"version": 1, "manifest_id": "example", "segments": [
        {"segment_id": name, "data_location_client": name, "sensitivity_level": "HIGH", "direction": direction,
         "data_type_info": {"dtype": "f32", "shape": [N]}} for name, direction in (("in", "INPUT"), ("out", "OUTPUT"))],
        "operations": [{"gpu_operation_id": "ADD", "kernel": "vector_add",
                        "arguments": {"a": "in", "b": "in", "output": "out"}}]}
    write("job.json", json.dumps(manifest).encode())
    write("in", floats([i % 251 for i in range(N)]))
    sh("sgpu-seal", "keygen", "-o", "owner.jwk")
    write("owners", sh("sgpu-seal", "keyinfo", "--owner", "owner.jwk"))
    write("canonical", sh("sgpu-manifest", "canon", "job.json"))
    os.mkdir("opened")
    write("batch", sh(*example, "make", "owner.jwk", "canonical", "."))
    write("response", sh("sgpu-run", "-k", "owner.jwk", "--owners", "owners", "batch"))
    identity = sh(*example, "open", "owner.jwk", "response", "opened")
    assert read("opened/out") == floats([2 * (i % 251) for i in range(N)])
    # The identity is that of the batch, whoever computes it, and of ours in the same way.
    assert sh(*example, "open", "owner.jwk", "batch", "opened") == identity
    assert read("opened/in") == read("in")
    sh("sgpu-seal", "open", "-k", "owner.jwk", "--batch", "batch", "-C", "ours", "response")
    assert read("ours/out") == read("opened/out")
    write("ours.batch", sh("sgpu-seal", "seal", "-k", "owner.jwk", data=sh("sgpu-manifest", "pack", "job.json")))
    assert sh(*example, "open", "owner.jwk", "ours.batch", "opened") != identity
    assert len(open(example[1], encoding="utf-8").readlines()) <= 90


@test
def runner_takes_pythons_batch():
    "sgpu-run runs a batch that Python made, and Python and sgpu-seal open the response"
    payloads, expected = job()
    manifest = sh("sgpu-manifest", "canon", "job.json")
    batch_key, batch = b.make(manifest.rstrip(b"\n"), payloads, {"sum": len(expected)},
                              [jwk("owner.jwk"), jwk("runner.pub.jwk")])
    for key in ("runner.jwk", "owner.jwk"):
        response = sh("sgpu-run", "-k", key, data=batch)
        members = b.load(response)
        _, payload, index, same = b.authenticated(members, jwk("owner.jwk"))
        assert index["batch_status"] == "OK" and same == batch_key
        assert b.open_segment(batch_key, payload, index, "sum", members["segments/sum"]) == expected
        sh("sgpu-seal", "open", "-k", "owner.jwk", "-C", "out", data=response)
        assert read("out/sum") == expected # a batch without a note says no path
        os.remove("out/sum")


@test
def signatures_verify_both_ways():
    "jwcrypto verifies our signature of a batch, and sgpu-run takes a batch that jwcrypto signed, with either algorithm"
    payloads, expected = job()
    kid = sh("sgpu-seal", "keyinfo", "--owner", "owner.jwk").decode().strip()
    sealed = sh("sgpu-seal", "seal", "-k", "owner.jwk", "-r", "runner.pub.jwk",
                data=sh("sgpu-manifest", "pack", "job.json"))
    assert list(b.signers(json.loads(b.load(sealed)["seal.json"]))) == [kid]
    manifest = sh("sgpu-manifest", "canon", "job.json").rstrip(b"\n")
    for options in ({"kty": "OKP", "crv": "Ed25519"}, {"kty": "EC", "crv": "P-256"}):
        signer = b.jose.JWK.generate(**options)
        _, batch = b.make(manifest, payloads, {"sum": len(expected)}, [jwk("owner.jwk"), jwk("runner.pub.jwk")], signer)
        write("owners", signer.thumbprint().encode() + b"\n")
        response = sh("sgpu-run", "-k", "runner.jwk", "--owners", "owners", data=batch)
        sh("sgpu-seal", "open", "-k", "owner.jwk", "--only", "sum", "-o", "sum", data=response)
        assert read("sum") == expected
        os.remove("sum")
        write("owners", kid.encode() + b"\n")
        sh("sgpu-run", "-k", "runner.jwk", "--owners", "owners", data=batch, status=4)


main()
