# SPDX-License-Identifier: Apache-2.0
"""An implementation of sgpu-sealed(5) that shares nothing with the C one. The tests use it as the other side."""
import base64
import json

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA512
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

CHUNK, TAG, HEADER = 16384, 16, 56
LABEL = b"c2sp.org/chunked-encryption@v1+AEAD_AES_256_GCM\0"


def schedule(key, salt, context=b""):
    """(key, base nonce, commitment) of a segment."""
    out = HKDFExpand(SHA512(), 76, LABEL + salt + context).derive(key)
    return out[:32], out[32:44], out[44:]


def nonce(base, index):
    return (int.from_bytes(base, "big") ^ index).to_bytes(12, "big")


def seal(key, data, salt, context=b""):
    aead_key, base, commitment = schedule(key, salt, context)
    aead = AESGCM(aead_key)
    out = [salt, commitment]
    for index in range(len(data) // CHUNK + 1):
        out.append(aead.encrypt(nonce(base, index), data[index * CHUNK:(index + 1) * CHUNK], None))
    return b"".join(out)


def unseal(key, sealed, context=b""):
    if len(sealed) < HEADER + TAG or (len(sealed) - HEADER) % (CHUNK + TAG) < TAG:
        raise ValueError("not a sealed length")
    aead_key, base, commitment = schedule(key, sealed[:24], context)
    if commitment != sealed[24:HEADER]:
        raise ValueError("commitment")
    aead = AESGCM(aead_key)
    out = []
    for index, at in enumerate(range(HEADER, len(sealed), CHUNK + TAG)):
        out.append(aead.decrypt(nonce(base, index), sealed[at:at + CHUNK + TAG], None))
    return b"".join(out)


def b64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64url(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def encryption_key(path):
    """The JWK that is no signing key, of a file that holds one key or a set."""
    with open(path, encoding="utf-8") as file:
        jwk = json.load(file)
    return next(key for key in jwk.get("keys", [jwk]) if key.get("use") != "sig")


def oct_key(path):
    return unb64url(encryption_key(path)["k"])


def pattern(size):
    """Bytes that the C tests make too: byte i is (i * 7 + i / 256) mod 256."""
    return bytes((i * 7 + (i >> 8)) & 255 for i in range(size))
