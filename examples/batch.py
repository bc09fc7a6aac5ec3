#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The format of sgpu-batch(5), for HIGH segments and a key file with an oct key and a key to sign with:
batch.py make KEY.jwk MANIFEST DIR > BATCH     seals DIR/ID for each input ID; MANIFEST is of 'sgpu-manifest canon'
batch.py open KEY.jwk FILE DIR                 opens the payloads of a batch or a response into DIR, prints the identity"""
import hashlib, hmac, io, json, math, os, sys, tarfile, time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256, SHA512
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap, aes_key_wrap
from jwcrypto import jwk, jws
WIDTH = {"f32": 4, "f64": 8, "f16": 2, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8}
enc = lambda data: urlsafe_b64encode(data).rstrip(b"=").decode()
dec = lambda text: urlsafe_b64decode(text + "=" * (-len(text) % 4))
dump = lambda value: json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
def schedule(key, salt, context):
    out = HKDFExpand(SHA512(), 76, b"c2sp.org/chunked-encryption@v1+AEAD_AES_256_GCM\0" + salt + context).derive(key)
    return AESGCM(out[:32]), lambda k: bytes(a ^ b for a, b in zip(out[32:44], k.to_bytes(12, "big"))), out[44:]
def seal(key, context, data):
    aead, nonce, commitment = schedule(key, salt := os.urandom(24), context)
    chunks = (aead.encrypt(nonce(k), data[k * 16384:][:16384], None) for k in range(len(data) // 16384 + 1))
    return salt + commitment + b"".join(chunks)
def unseal(key, context, sealed):
    aead, nonce, commitment = schedule(key, sealed[:24], context)
    assert len(sealed) >= 72 and (len(sealed) - 56) % 16400 >= 16 and commitment == sealed[24:56], "wrong key or length"
    chunks = (sealed[at:at + 16400] for at in range(56, len(sealed), 16400))
    return b"".join(aead.decrypt(nonce(k), chunk, None) for k, chunk in enumerate(chunks))
def derive(batch_key, batch_id, info):
    return HKDF(SHA256(), 32, batch_id, info.encode()).derive(batch_key)
def segment_key(batch_key, batch_id, manifest_sha256, name, response_id=b""):
    way = "out" if response_id else "in"
    context = b"sgpu v2\0" + batch_id + manifest_sha256 + way[:1].encode() + response_id + name.encode()
    return derive(batch_key, batch_id, f"sgpu v2 segment {way} {name}"), context
def mac(batch_key, batch_id, kind, payload):
    return hmac.digest(derive(batch_key, batch_id, f"sgpu v2 mac {kind}"), payload.encode(), "sha256")
def identity(batch_id, counter, index_sha256):
    return hashlib.sha256(b"sgpu v2 batch\0" + batch_id + counter.to_bytes(8, "big") + index_sha256).digest()
def make(keys, manifest, folder):
    key, batch_id, batch_key = keys["oct"], os.urandom(16), os.urandom(32)
    hashed, counter, segments, members = hashlib.sha256(manifest).digest(), time.time_ns() // 1000, [], []
    for s in (s for s in json.loads(manifest)["segments"] if s["direction"] != "INTERMEDIATE"):
        one = {"segment_id": s["segment_id"], "masking_level": "MASKING_AES_GCM",
               "size": WIDTH[s["data_type_info"]["dtype"]] * math.prod(s["data_type_info"]["shape"])}
        if s["direction"] != "OUTPUT":
            data = open(os.path.join(folder, s["segment_id"]), "rb").read()
            sealed = seal(*segment_key(batch_key, batch_id, hashed, s["segment_id"]), data)
            one |= {"size": len(data), "sealed_size": len(sealed), "header": enc(sealed[:56])}
            members.append(("segments/" + s["segment_id"], sealed))
        segments.append(one)
    index = dump({"manifest_sha256": enc(hashed), "alg": "c2sp.org/chunked-encryption", "aead": "AEAD_AES_256_GCM",
                  "segments": segments})
    wrapped = {"kind": "a256kw", "kid": key.thumbprint(), "ct": enc(aes_key_wrap(dec(key["k"]), batch_key))}
    payload = dump({"version": 2, "kind": "batch", "batch_id": enc(batch_id), "counter": counter,
                    "index_sha256": enc(hashlib.sha256(index).digest()), "recipients": [wrapped]})
    token, own = jws.JWS(payload), keys["OKP"]
    public = {k: v for k, v in own.export_public(as_dict=True).items() if k in ("kty", "crv", "x")}
    token.add_signature(own, protected=dump({"alg": "EdDSA", "jwk": public, "kid": own.thumbprint(),
                                             "typ": "sgpu-batch+jws"}).decode())
    signed = json.loads(token.serialize())
    outer = {"payload": enc(payload), "signatures": [{k: signed[k] for k in ("protected", "signature")}],
             "mac": enc(mac(batch_key, batch_id, "batch", enc(payload)))}
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in [("seal.json", dump(outer)), ("batch.json", index), ("manifest.json", manifest)] + members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
def unpack(keys, path, folder):
    members = {m.name: tar.extractfile(m).read() for tar in [tarfile.open(path)] for m in tar}
    outer = json.loads(members["seal.json"])
    head = json.loads(dec(outer["payload"]))
    batch_id, kind, response = dec(head["batch_id"]), head["kind"], dec(head.get("response_id", ""))
    ct = next(r["ct"] for r in head["recipients"] if r["kid"] == keys["oct"].thumbprint())
    batch_key = aes_key_unwrap(dec(keys["oct"]["k"]), dec(ct))
    assert hmac.compare_digest(mac(batch_key, batch_id, kind, outer["payload"]), dec(outer["mac"])), "mac"
    if not response:
        jws.JWS().deserialize(json.dumps({k: outer[k] for k in ("payload", "signatures")}), keys["OKP"])
    index = members["response.json" if response else "batch.json"]
    assert hashlib.sha256(index).digest() == dec(head["index_sha256"]), "index"
    index = json.loads(index)
    hashed = dec(head["manifest_sha256"] if response else index["manifest_sha256"])
    print(head["identity"] if response else enc(identity(batch_id, head["counter"], dec(head["index_sha256"]))))
    for s in (s for s in index["segments"] if "sealed_size" in s):
        sealed = members["segments/" + s["segment_id"]]
        assert sealed.startswith(dec(s.get("header", "")))
        with open(os.path.join(folder, s["segment_id"]), "wb") as out:
            out.write(unseal(*segment_key(batch_key, batch_id, hashed, s["segment_id"], response), sealed))
verb, key_file, source, folder = sys.argv[1:]
keys = {one["kty"]: jwk.JWK(**one) for one in json.load(open(key_file))["keys"] if one.get("crv") != "X25519"}
make(keys, open(source, "rb").read(), folder) if verb == "make" else unpack(keys, source, folder)
