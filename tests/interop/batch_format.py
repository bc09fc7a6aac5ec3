# SPDX-License-Identifier: Apache-2.0
"""An implementation of sgpu-batch(5) that shares nothing with the C one."""
import hashlib
import hmac
import io
import json
import os
import tarfile
import time

from Crypto.Hash import KangarooTwelve
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap, aes_key_wrap
from pyhpke import AEADId, CipherSuite, KDFId, KEMId, KEMKey

from jwcrypto import jwk as jose
from jwcrypto import jws

import sealed_format as f

SUITE = CipherSuite.new(KEMId.DHKEM_X25519_HKDF_SHA256, KDFId.HKDF_SHA256, AEADId.AES256_GCM)
INFO = b"sgpu batch v1"


def canonical(value):
    """RFC 8785 for what an index holds: ASCII names, whole numbers."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def derive(batch_key, batch_id, info):
    return HKDF(SHA256(), 32, batch_id, info.encode()).derive(batch_key)


def context(batch_id, manifest_sha256, response_id, segment_id):
    """response_id: empty for an input."""
    direction = b"o" if response_id else b"i"
    return b"sgpu v1\0" + batch_id + manifest_sha256 + direction + response_id + segment_id.encode()


def mac(batch_key, index):
    bare = {name: value for name, value in index.items() if name != "mac"}
    bare["segments"] = [{name: value for name, value in segment.items() if name != "location"}
                        for segment in index["segments"]]
    key = derive(batch_key, f.unb64url(index["batch_id"]), "sgpu v1 mac")
    return hmac.new(key, canonical(bare), hashlib.sha256).digest()


def signed_digest(index):
    """What an owner signs: the digest of all that whoever carries a batch may not change."""
    bare = {name: value for name, value in index.items() if name not in ("mac", "signatures")}
    bare["segments"] = [{name: value for name, value in segment.items() if name != "location"}
                        for segment in index["segments"]]
    return hashlib.sha256(canonical(bare)).digest()


def sign(index, key):
    """A detached JWS of jwcrypto's by its key."""
    token = jws.JWS(signed_digest(index))
    header = {"alg": "ES256" if key["kty"] == "EC" else "EdDSA", "jwk": key.export_public(as_dict=True),
              "kid": key.thumbprint(), "typ": "sgpu-batch"}
    header["jwk"] = {name: value for name, value in header["jwk"].items() if name in ("crv", "kty", "x", "y")}
    token.add_signature(key, protected=canonical(header).decode())
    head, _, signature = token.serialize(compact=True).split(".")
    return f"{head}..{signature}"


def verify(index, token):
    """The thumbprint of the key in a signature that jwcrypto has verified."""
    head, empty, signature = token.split(".")
    header = json.loads(f.unb64url(head))
    key = jose.JWK(**header["jwk"])
    assert not empty and header["typ"] == "sgpu-batch" and header["kid"] == key.thumbprint()
    whole = jws.JWS()
    whole.deserialize(f"{head}.{f.b64url(signed_digest(index))}.{signature}")
    whole.verify(key)
    return key.thumbprint()


def load(data):
    """The members of an archive, by name, in order."""
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}


def store(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in members.items():
            header = tarfile.TarInfo(name)
            header.size = len(data)
            archive.addfile(header, io.BytesIO(data))
    return out.getvalue()


def private(jwk):
    return KEMKey.from_pyca_cryptography_key(X25519PrivateKey.from_private_bytes(f.unb64url(jwk["d"])))


def public(jwk):
    return KEMKey.from_pyca_cryptography_key(X25519PublicKey.from_public_bytes(f.unb64url(jwk["x"])))


def unwrap(index, jwk):
    """The batch key, by the recipient that the key is."""
    for one in index["recipients"]:
        if one["kid"] != jwk["kid"]:
            continue
        if one["kind"] == "a256kw":
            return aes_key_unwrap(f.unb64url(jwk["k"]), f.unb64url(one["ct"]))
        receiver = SUITE.create_recipient_context(f.unb64url(one["enc"]), private(jwk), info=INFO)
        return receiver.open(f.unb64url(one["ct"]), f.unb64url(index["batch_id"]))
    raise ValueError("no such recipient")


def wrap(batch_key, batch_id, jwk):
    if jwk["kty"] == "oct":
        return {"kind": "a256kw", "kid": jwk["kid"], "ct": f.b64url(aes_key_wrap(f.unb64url(jwk["k"]), batch_key))}
    enc, sender = SUITE.create_sender_context(public(jwk), info=INFO)
    return {"kind": "hpke", "kid": jwk["kid"], "enc": f.b64url(enc), "ct": f.b64url(sender.seal(batch_key, batch_id))}


def open_segment(batch_key, index, segment_id, sealed):
    """Of a batch, or of a response, which is what has an id of its own."""
    batch_id, response_id = f.unb64url(index["batch_id"]), f.unb64url(index.get("response_id", ""))
    key = derive(batch_key, batch_id, f"sgpu v1 segment {'out' if response_id else 'in'} {segment_id}")
    return f.unseal(key, sealed, context(batch_id, f.unb64url(index["manifest_sha256"]), response_id, segment_id))


def make(manifest, payloads, sizes, keys, signer=None):
    """A sealed batch: canonical manifest, payloads of the inputs, sizes of the outputs, keys of the recipients."""
    batch_key, batch_id = os.urandom(32), os.urandom(16)
    digest = hashlib.sha256(manifest).digest()
    members, segments = {}, []
    for segment in json.loads(manifest)["segments"]:
        name, high = segment["segment_id"], segment["sensitivity_level"] == "HIGH"
        if segment["direction"] == "INTERMEDIATE":
            continue
        entry = {"segment_id": name, "masking_level": "MASKING_AES_GCM" if high else "MASKING_NONE"}
        if segment["direction"] == "OUTPUT":
            entry["size"] = sizes[name]
        else:
            data = payloads[name]
            entry.update(size=len(data), location={"inline": True})
            if high:
                key = derive(batch_key, batch_id, f"sgpu v1 segment in {name}")
                sealed = f.seal(key, data, os.urandom(24), context(batch_id, digest, b"", name))
                entry["sealed_size"] = len(sealed)
                data = sealed
            else:
                entry["kt128"] = f.b64url(KangarooTwelve.new(data).read(32))
            members["segments/" + name] = data
        segments.append(entry)
    index = {"version": 1, "batch_id": f.b64url(batch_id), "manifest_sha256": f.b64url(digest),
             "alg": "c2sp.org/chunked-encryption", "aead": "AEAD_AES_256_GCM",
             "counter": time.time_ns() // 1000, "segments": segments,
             "recipients": [wrap(batch_key, batch_id, key) for key in keys]}
    if signer:
        index["signatures"] = [sign(index, signer)]
    index["mac"] = f.b64url(mac(batch_key, index))
    return batch_key, store({"batch.json": canonical(index), "manifest.json": manifest, **members})
