# SPDX-License-Identifier: Apache-2.0
"""Key files against jwcrypto."""
import json
import os

from jwcrypto import jwa, jwe, jwk

from tap import main, read, sh, test, write


@test
def jwcrypto_reads_ours():
    "jwcrypto reads our keys and computes the same thumbprints"
    sh("sgpu-seal", "keygen", "--no-sign", "-o", "a.jwk")
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
def jwcrypto_reads_our_sets():
    "jwcrypto reads our sets of keys, and we read those that it makes, with Ed25519 and P-256"
    sh("sgpu-seal", "keygen", "-o", "owner.jwk")
    ours = jwk.JWKSet.from_json(read("owner.jwk"))
    known = {key.thumbprint() for key in ours}
    assert known == {key["kid"] for key in json.loads(read("owner.jwk"))["keys"]} and len(known) == 2
    for signing in ({"kty": "OKP", "crv": "Ed25519"}, {"kty": "EC", "crv": "P-256"}):
        keys = jwk.JWKSet()
        keys.add(jwk.JWK.generate(kty="OKP", crv="X25519", use="enc"))
        keys.add(jwk.JWK.generate(use="sig", **signing))
        write("theirs.jwk", keys.export(private_keys=True).encode())
        info = json.loads(sh("sgpu-seal", "keyinfo", "--json", "theirs.jwk"))["keys"]
        assert {key["kid"] for key in info} == {key.thumbprint() for key in keys}
        assert all(key["secret"] for key in info) and {key["use"] for key in info} == {"enc", "sig"}
        half = jwk.JWKSet.from_json(sh("sgpu-seal", "pubkey", "theirs.jwk"))
        assert {key.thumbprint() for key in half} == {key.thumbprint() for key in keys}
        assert not any(key.has_private for key in half)
        os.remove("theirs.jwk")


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
def passphrases_work_both_ways():
    "jwcrypto opens what keygen --passphrase makes, and we open what jwcrypto protects"
    password = "Gr\u00fc\u00dfe aus \u6771\u4eac"
    sh("sgpu-seal", "keygen", "--passphrase-fd", "0", "-o", "owner.jwk", data=password.encode())
    jwa.default_max_pbkdf2_iterations = 10000000
    token = jwe.JWE()
    token.deserialize(read("owner.jwk").decode(), jwk.JWK.from_password(password))
    known = {key.thumbprint() for key in jwk.JWKSet.from_json(token.payload)}
    info = json.loads(sh("sgpu-seal", "keyinfo", "--json", "--passphrase-fd", "0", "owner.jwk", data=password.encode()))
    assert info["passphrase"] and {key["kid"] for key in info["keys"]} == known
    pair = jwk.JWK.generate(kty="OKP", crv="X25519")
    for header in ({}, {"cty": "jwk+json", "kid": "mine"}, {"p2c": 1000}, {"p2c": 20000, "p2s": "AAECAwQFBgc"}):
        token = jwe.JWE(pair.export(), json.dumps({"alg": "PBES2-HS512+A256KW", "enc": "A256GCM", **header}))
        token.add_recipient(jwk.JWK.from_password(password))
        write("pair.jwk", token.serialize().encode())
        write("public.jwk", sh("sgpu-seal", "pubkey", "--passphrase-fd", "0", "pair.jwk", data=password.encode()))
        write("in", os.urandom(1000))
        sh("sgpu-seal", "seal-file", "-r", "public.jwk", "in", "sealed")
        sh("sgpu-seal", "open-file", "-k", "pair.jwk", "--passphrase-fd", "0", "sealed", "out", data=password.encode())
        assert read("out") == read("in")
        sh("sgpu-seal", "keyinfo", "--passphrase-fd", "0", "pair.jwk", data=b"other", status=4)
    for alg, enc in (("PBES2-HS256+A128KW", "A256GCM"), ("PBES2-HS512+A256KW", "A256CBC-HS512")):
        token = jwe.JWE(pair.export(), json.dumps({"alg": alg, "enc": enc}))
        token.add_recipient(jwk.JWK.from_password(password))
        write("pair.jwk", token.serialize().encode())
        sh("sgpu-seal", "keyinfo", "--passphrase-fd", "0", "pair.jwk", data=password.encode(), status=1)


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
