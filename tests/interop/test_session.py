# SPDX-License-Identifier: Apache-2.0
"""The beginning of a session, sgpu-session(5), against cryptography, pyhpke and jwcrypto."""
import hashlib
import json
import os
import struct
import subprocess

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from jwcrypto import jwk as jose
from jwcrypto import jws
from pyhpke import KEMKey

import batch_format as b
import sealed_format as f
from tap import main, read, sh, test, write


class Pipe:
    """A session with sgpu-enclave over pipes."""

    def __init__(self, *options):
        self.process = subprocess.Popen(["sgpu-enclave", "--session", "--device", "cpu", *options],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def ask(self, message):
        self.process.stdin.write(struct.pack("<I", len(message)) + message)
        self.process.stdin.flush()
        size, = struct.unpack("<I", self.process.stdout.read(4))
        return self.process.stdout.read(size)

    def end(self):
        self.process.communicate()


def hello(challenge, key, owner, kind):
    """(the text, its secret)"""
    secret = os.urandom(32)
    runner = KEMKey.from_jwk({"kty": "OKP", "crv": "X25519", "x": f.b64url(challenge[:32])})
    enc, sender = b.SUITE.create_sender_context(runner, info=b"sgpu session v1")
    public = key.public_key().public_bytes_raw()
    payload = {"enc": f.b64url(enc), "key": f.b64url(public), "nonce": f.b64url(challenge[32:]),
               "owner": owner.thumbprint(), "runner": f.b64url(challenge[:32]),
               "secret": f.b64url(sender.seal(secret, aad=public))}
    header = {"alg": kind, "jwk": {n: v for n, v in owner.export_public(as_dict=True).items() if n in ("crv", "kty", "x", "y")},
              "kid": owner.thumbprint(), "typ": "sgpu-session+jws"}
    token = jws.JWS(b.dump(payload))
    token.add_signature(owner, protected=b.dump(header).decode())
    return token.serialize().encode(), secret


def derive(key, salt, info):
    return HKDF(SHA256(), 32, salt, info).derive(key)


def opens(owner, kind):
    """Opens a session, as far as the answer to the empty group."""
    write("owners", owner.thumbprint().encode())
    pipe = Pipe("-k", "runner.jwk", "--owners", "owners")
    challenge = pipe.ask(b"\0")
    assert challenge[:32] == f.unb64url(json.loads(read("runner.jwk"))["x"])
    key = X25519PrivateKey.generate()
    text, secret = hello(challenge, key, owner, kind)
    grant = pipe.ask(text)
    assert len(grant) == 136, grant
    own = KEMKey.from_pyca_cryptography_key(key)
    cek = b.SUITE.create_recipient_context(grant[56:88], own, info=b"sgpu channel v1").open(grant[88:], aad=grant[:56])
    salt = hashlib.sha256(text + grant).digest()
    group, answer = (AESGCM(derive(secret + derive(cek, grant[40:56], b"sgpu channel " + use), salt, b"sgpu session " + use))
                     for use in (b"group", b"answer"))
    nonce = struct.pack(">IQ", struct.unpack("<I", grant[4:8])[0], 1)
    empty = group.encrypt(nonce, b"", None)
    reply = pipe.ask(struct.pack("<I", 1 | 6 << 8) + grant[:4] * 2 + struct.pack("<QI", 1, len(empty)) + empty)
    assert reply[:8] == struct.pack("<Q", 1)
    assert answer.decrypt(nonce, reply[8:], None) == bytes(4)
    pipe.end()


@test
def python_opens_a_session():
    "Python opens a session with a hello that jwcrypto signed by Ed25519 and by ES256"
    sh("sgpu-seal", "keygen", "--x25519", "-o", "runner.jwk")
    opens(jose.JWK.generate(kty="OKP", crv="Ed25519"), "EdDSA")
    opens(jose.JWK.generate(kty="EC", crv="P-256"), "ES256")


main()
