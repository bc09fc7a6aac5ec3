#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""forge_quote.py QUOTE AK.pem KEY.jwk [without|RECORDS]: a quote that names KEY as the recipient, signed by a stolen
attestation key. Its records are those of QUOTE, none of the hardware (without), or those of the quote in RECORDS."""
import base64
import hashlib
import json
import sys

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

OWN = "tag:sgpu.dev,2026:measure#2"


def decode(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


quote = json.load(open(sys.argv[1]))
key = serialization.load_pem_private_key(open(sys.argv[2], "rb").read(), None)
mine = json.load(open(sys.argv[3]))
records = sys.argv[4] if len(sys.argv) > 4 else None
header, payload, _ = decode(quote["eat"][1]).decode().split(".")
claims = json.loads(decode(payload))
claims["cnf"] = {"jwk": {name: mine[name] for name in ("kty", "crv", "x", "kid")}}
if records == "without":
    del quote["tsm-report"]
    del claims[OWN]["records"]["tsm-report"]
    claims[OWN]["absent"]["tsm-report"] = "none"
elif records:
    record = json.load(open(records))["tsm-report"]
    quote["tsm-report"] = record
    claims[OWN]["records"]["tsm-report"]["sha512"] = encode(hashlib.sha512(decode(record[1])).digest())
payload = encode(json.dumps(claims, separators=(",", ":")).encode())
signed = f"{header}.{payload}"
r, s = utils.decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA384())))
signature = encode(r.to_bytes(48, "big") + s.to_bytes(48, "big"))
quote["eat"][1] = encode(f"{signed}.{signature}".encode())
print(json.dumps(quote, separators=(",", ":")))
