#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sealed.py seal|open KEY.jwk IN OUT: the format of sgpu-sealed(5), whole files in memory, without context."""
import base64, json, os, sys
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA512
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

def schedule(key, salt, context=b""):
    out = HKDFExpand(SHA512(), 76, b"c2sp.org/chunked-encryption@v1+AEAD_AES_256_GCM\0" + salt + context).derive(key)
    nonce = lambda k: bytes(a ^ b for a, b in zip(out[32:44], k.to_bytes(12, "big")))
    return AESGCM(out[:32]), nonce, out[44:]
def seal(key, data, salt):
    aead, nonce, commitment = schedule(key, salt)
    chunks = (aead.encrypt(nonce(k), data[k * 16384:][:16384], None) for k in range(len(data) // 16384 + 1))
    return salt + commitment + b"".join(chunks)
def unseal(key, sealed):
    aead, nonce, commitment = schedule(key, sealed[:24])
    assert len(sealed) >= 72 and (len(sealed) - 56) % 16400 >= 16 and commitment == sealed[24:56], "wrong key or length"
    chunks = (sealed[at:at + 16400] for at in range(56, len(sealed), 16400))
    return b"".join(aead.decrypt(nonce(k), chunk, None) for k, chunk in enumerate(chunks))
verb, jwk, source, target = sys.argv[1:]
keys, data = json.load(open(jwk)), open(source, "rb").read()
key = base64.urlsafe_b64decode(next(one["k"] for one in keys.get("keys", [keys]) if "k" in one) + "=")
open(target, "wb").write(seal(key, data, os.urandom(24)) if verb == "seal" else unseal(key, data))
