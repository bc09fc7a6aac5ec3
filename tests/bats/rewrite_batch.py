#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# rewrite_batch.py FROM TO CODE: a batch or a response that was changed by CODE, Python over these: seal and payload, the
# contents of seal.json and of its payload; index; manifest, bytes; places, the contents of locations.json; members, all
# members by name. What names a changed member by its digest is made good again; MAC and signatures are not.
import base64, copy, hashlib, io, json, sys, tarfile


def text(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def data_of(encoded):
    return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))


def dump(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


source, target, code = sys.argv[1:]
with tarfile.open(source) as tar:
    members = {m.name: tar.extractfile(m).read() for m in tar.getmembers()}
name = "response.json" if "response.json" in members else "batch.json"
seal, index = json.loads(members["seal.json"]), json.loads(members[name])
payload = json.loads(data_of(seal["payload"]))
manifest = members.get("manifest.json")
places = json.loads(members.get("locations.json", b"null"))
before = copy.deepcopy((payload, index, places))
exec(code)
if manifest != members.get("manifest.json"):
    members["manifest.json"] = manifest
    index["manifest_sha256"] = text(hashlib.sha256(manifest).digest())
if index != before[1]:
    members[name] = dump(index)
if payload["index_sha256"] == before[0]["index_sha256"]:
    payload["index_sha256"] = text(hashlib.sha256(members[name]).digest())
if payload != before[0]:
    seal["payload"] = text(dump(payload))
members["seal.json"] = dump(seal)
if places != before[2]:
    members["locations.json"] = dump(places)
order = ["seal.json", name, "manifest.json", "note", "locations.json"]
with tarfile.open(target, "w", format=tarfile.USTAR_FORMAT) as tar:
    for one in [n for n in order if n in members] + [n for n in members if n not in order]:
        info = tarfile.TarInfo(one)
        info.size = len(members[one])
        tar.addfile(info, io.BytesIO(members[one]))
