# SPDX-License-Identifier: Apache-2.0
"""Key files against jwcrypto."""
import json
import os

from jwcrypto import jwk

from tap import main, read, sh, test, write


@test
def jwcrypto_reads_ours():
    "jwcrypto reads our keys and computes the same thumbprints"
    sh("sgpu-seal", "keygen", "-o", "a.jwk")
    sh("sgpu-seal", "keygen", "--x25519", "-o", "b.jwk")
    sh("sgpu-seal", "pubkey", "-o", "c.jwk", "b.jwk")
    for path in ("a.jwk", "b.jwk", "c.jwk"):
        text = read(path)
        key = jwk.JWK.from_json(text)
        assert key.thumbprint() == json.loads(text)["kid"], path
    half = jwk.JWK.from_json(read("b.jwk")).export_public(as_dict=True)
    ours = json.loads(read("c.jwk"))
    assert all(half[name] == ours[name] for name in ("kty", "crv", "x"))


@test
def ours_reads_jwcrypto():
    "sgpu-seal reads keys that jwcrypto made, with their optional members"
    for number, options in enumerate(({}, {"kid": "mine"}, {"use": "enc"}, {"alg": "A256KW"}, {"use": "enc", "alg": "A256GCM"})):
        key = jwk.JWK.generate(kty="oct", size=256, **options)
        write(f"oct{number}.jwk", key.export().encode())
        write("in", os.urandom(1000))
        sh("sgpu-seal", "seal-file", "-k", f"oct{number}.jwk", "in", "sealed")
        sh("sgpu-seal", "open-file", "-k", f"oct{number}.jwk", "sealed", "out")
        assert read("out") == read("in")
    pair = jwk.JWK.generate(kty="OKP", crv="X25519", kid="mine", use="enc")
    write("pair.jwk", pair.export().encode())
    half = json.loads(sh("sgpu-seal", "pubkey", "pair.jwk"))
    assert half["x"] == pair.export_public(as_dict=True)["x"] and half["kid"] == pair.thumbprint()


@test
def other_kinds_are_refused():
    "keys of other kinds and sizes that jwcrypto makes are refused"
    for number, options in enumerate(({"kty": "RSA", "size": 2048}, {"kty": "EC", "crv": "P-256"},
                                      {"kty": "OKP", "crv": "Ed25519"}, {"kty": "OKP", "crv": "X448"},
                                      {"kty": "oct", "size": 128}, {"kty": "oct", "size": 512})):
        write(f"k{number}", jwk.JWK.generate(**options).export().encode())
        sh("sgpu-seal", "seal-file", "-k", f"k{number}", "/dev/null", "out", status=1)
        assert not os.path.exists("out")


main()
