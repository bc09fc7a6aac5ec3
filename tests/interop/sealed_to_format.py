# SPDX-License-Identifier: Apache-2.0
"""Files that are sealed to a public key, sgpu-sealed(5), by pyhpke."""
import hashlib

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from pyhpke import AEADId, CipherSuite, KDFId, KEMId, KEMKey, KEMKeyPair

import sealed_format as f

SUITE = CipherSuite.new(KEMId.DHKEM_X25519_HKDF_SHA256, KDFId.HKDF_SHA256, AEADId.AES256_GCM)
MAGIC, INFO, HEADER = b"sgpu-sealed-to/1", b"sgpu sealed-to v1", 128


def pair(private):
    key = X25519PrivateKey.from_private_bytes(private)
    return KEMKeyPair(KEMKey.from_pyca_cryptography_key(key), KEMKey.from_pyca_cryptography_key(key.public_key()))


def thumbprint(public):
    return hashlib.sha256(b'{"crv":"X25519","kty":"OKP","x":"%s"}' % f.b64url(public).encode()).digest()


def seal(public, data, file_key, salt, context=b"", ephemeral=None):
    """ephemeral: a private key, for vectors."""
    head = MAGIC + thumbprint(public)
    receiver = KEMKey.from_pyca_cryptography_key(X25519PublicKey.from_public_bytes(public))
    enc, sender = SUITE.create_sender_context(receiver, info=INFO, eks=pair(ephemeral) if ephemeral else None)
    return head + enc + sender.seal(file_key, head) + f.seal(file_key, data, salt, context)


def unseal(private, sealed, context=b""):
    if sealed[:48] != MAGIC + thumbprint(pair(private).public_key.to_public_bytes()):
        raise ValueError("no such file, or for another key")
    receiver = SUITE.create_recipient_context(sealed[48:80], pair(private).private_key, info=INFO)
    return f.unseal(receiver.open(sealed[80:HEADER], sealed[:48]), sealed[HEADER:], context)
