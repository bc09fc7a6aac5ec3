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
INFO = b"sgpu batch v2"


def dump(value):
    """A text of JSON: any does, since texts are hashed and signed as they lie."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def derive(batch_key, batch_id, info):
    return HKDF(SHA256(), 32, batch_id, info.encode()).derive(batch_key)


def context(batch_id, manifest_sha256, response_id, segment_id):
    """response_id: empty for an input."""
    direction = b"o" if response_id else b"i"
    return b"sgpu v2\0" + batch_id + manifest_sha256 + direction + response_id + segment_id.encode()


def mac(batch_key, batch_id, kind, payload):
    return hmac.new(derive(batch_key, batch_id, "sgpu v2 mac " + kind), payload.encode(), hashlib.sha256).digest()


def sign(token, key):
    """Adds a signature of jwcrypto's to a JWS by its key."""
    public = key.export_public(as_dict=True)
    header = {"alg": "ES256" if key["kty"] == "EC" else "EdDSA",
              "jwk": {name: value for name, value in public.items() if name in ("crv", "kty", "x", "y")},
              "kid": key.thumbprint(), "typ": "sgpu-batch+jws"}
    token.add_signature(key, protected=dump(header).decode())


def signers(seal):
    """The thumbprints of the keys whose signatures in seal.json jwcrypto has verified."""
    for one in seal["signatures"]:
        key = jose.JWK(**json.loads(f.unb64url(one["protected"]))["jwk"])
        token = jws.JWS()
        token.deserialize(json.dumps({"payload": seal["payload"], "signatures": [one]}))
        token.verify(key)
        header = json.loads(f.unb64url(one["protected"]))
        assert header["typ"] == "sgpu-batch+jws" and header["kid"] == key.thumbprint()
        yield key.thumbprint()


def authenticated(members, keys):
    """(seal.json, its payload, the index, the batch key), after all digests and the MAC have been checked."""
    seal = json.loads(members["seal.json"])
    payload = json.loads(f.unb64url(seal["payload"]))
    batch_key = unwrap(payload, keys)
    kind = payload["kind"]
    assert mac(batch_key, f.unb64url(payload["batch_id"]), kind, seal["payload"]) == f.unb64url(seal["mac"])
    text = members["response.json" if kind == "response" else "batch.json"]
    assert hashlib.sha256(text).digest() == f.unb64url(payload["index_sha256"])
    index = json.loads(text)
    if kind == "batch":
        assert hashlib.sha256(members["manifest.json"]).digest() == f.unb64url(index["manifest_sha256"])
    if "note_sha256" in index:
        assert hashlib.sha256(members["note"]).digest() == f.unb64url(index["note_sha256"])
    return seal, payload, index, batch_key


def note(batch_key, payload, sealed):
    batch_id = f.unb64url(payload["batch_id"])
    return json.loads(f.unseal(derive(batch_key, batch_id, "sgpu v2 note"), sealed, b"sgpu v2 note\0" + batch_id))


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


def unwrap(payload, jwk):
    """The batch key, by the recipient that the key is."""
    for one in payload["recipients"]:
        if one["kid"] != jwk["kid"]:
            continue
        if one["kind"] == "a256kw":
            return aes_key_unwrap(f.unb64url(jwk["k"]), f.unb64url(one["ct"]))
        receiver = SUITE.create_recipient_context(f.unb64url(one["enc"]), private(jwk), info=INFO)
        return receiver.open(f.unb64url(one["ct"]), f.unb64url(payload["batch_id"]))
    raise ValueError("no such recipient")


def wrap(batch_key, batch_id, jwk):
    if jwk["kty"] == "oct":
        return {"kind": "a256kw", "kid": jwk["kid"], "ct": f.b64url(aes_key_wrap(f.unb64url(jwk["k"]), batch_key))}
    enc, sender = SUITE.create_sender_context(public(jwk), info=INFO)
    return {"kind": "hpke", "kid": jwk["kid"], "enc": f.b64url(enc), "ct": f.b64url(sender.seal(batch_key, batch_id))}


def open_segment(batch_key, payload, index, segment_id, sealed):
    """Of a batch, or of a response, which is what has an id of its own."""
    batch_id, response_id = f.unb64url(payload["batch_id"]), f.unb64url(payload.get("response_id", ""))
    manifest_sha256 = f.unb64url((payload if response_id else index)["manifest_sha256"])
    key = derive(batch_key, batch_id, f"sgpu v2 segment {'out' if response_id else 'in'} {segment_id}")
    return f.unseal(key, sealed, context(batch_id, manifest_sha256, response_id, segment_id))


def make(manifest, payloads, sizes, keys, signer=None):
    """A sealed batch: a manifest, payloads of the inputs, sizes of the outputs, keys of the recipients."""
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
            entry["size"] = len(data)
            if high:
                key = derive(batch_key, batch_id, f"sgpu v2 segment in {name}")
                data = f.seal(key, data, os.urandom(24), context(batch_id, digest, b"", name))
                entry.update(sealed_size=len(data), header=f.b64url(data[:56]))
            else:
                entry["kt128"] = f.b64url(KangarooTwelve.new(data).read(32))
            members["segments/" + name] = data
        segments.append(entry)
    index = dump({"manifest_sha256": f.b64url(digest), "alg": "c2sp.org/chunked-encryption",
                  "aead": "AEAD_AES_256_GCM", "segments": segments})
    payload = dump({"version": 2, "kind": "batch", "batch_id": f.b64url(batch_id), "counter": time.time_ns() // 1000,
                    "index_sha256": f.b64url(hashlib.sha256(index).digest()),
                    "recipients": [wrap(batch_key, batch_id, key) for key in keys]})
    seal = {"payload": f.b64url(payload)}
    if signer:
        token = jws.JWS(payload)
        sign(token, signer)
        signed = json.loads(token.serialize())
        seal["signatures"] = [{name: signed[name] for name in ("protected", "signature")}]
    seal["mac"] = f.b64url(mac(batch_key, batch_id, "batch", seal["payload"]))
    return batch_key, store({"seal.json": dump(seal), "batch.json": index, "manifest.json": manifest, **members})
