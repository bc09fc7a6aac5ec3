#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reports of SEV-SNP for tests, with keys of their own.

fake_tsm.py init FOLDER                             makes keys, and ark.crt, the root to trust
fake_tsm.py report FOLDER INBLOB OUTBLOB AUXBLOB    what fake_tsm.c runs as FAKE_TSM_DRIVER
"""
import datetime
import os
import ssl
import struct
import sys

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

REPORT_SIZE, SIGNED_SIZE = 0x4A0, 0x2A0
TCB = bytes([3, 0, 0, 0, 0, 0, 20, 209])
CHIP = bytes(range(64))
GUIDS = {
    "ark": "c0b406a4a803495297433fb6014cd0ae",
    "ask": "4ab7b379bbac4fe4a02f05aef327c782",
    "vcek": "63da758de6644564adc5f4b93be8accd",
}
NUMBER = "1.3.6.1.4.1.3704.1."


def der(tag, *parts):
    content = b"".join(parts)
    size = len(content)
    long = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag]) + (bytes([size]) if size < 128 else bytes([0x80 + len(long)]) + long) + content


# Identifiers of algorithms, RFC 4055: RSASSA-PKCS1-v1_5 and RSASSA-PSS, both with SHA-384.
RSA = bytes.fromhex("2a864886f70d0101")
SHA384 = der(0x30, der(6, bytes.fromhex("608648016503040202")), der(5))
PKCS1 = der(0x30, der(6, RSA, b"\x0c"), der(5))
MGF1 = der(0x30, der(6, RSA, b"\x08"), SHA384)
PSS = der(0x30, der(6, RSA, b"\x0a"), der(0x30, der(0xA0, SHA384), der(0xA1, MGF1), der(0xA2, der(2, b"\x30"))))


def certificate(name, key, issuer, issuer_key, extensions):
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    # Before release 41, cryptography knows no PSS for certificates: what it is to sign is taken from another signature.
    content = builder.sign(issuer_key, hashes.SHA384()).tbs_certificate_bytes[4:].replace(PKCS1, PSS, 1)
    signed = der(0x30, content)
    pss = padding.PSS(mgf=padding.MGF1(hashes.SHA384()), salt_length=48)
    return der(0x30, signed, PSS, der(3, b"\0", issuer_key.sign(signed, pss, hashes.SHA384())))


def small_number(value):
    return bytes([2, 1, value]) if value < 128 else bytes([2, 2, 0, value])


def init(folder):
    ark, ask = (rsa.generate_private_key(65537, 2048) for _ in range(2))
    vcek = ec.generate_private_key(ec.SECP384R1())
    authority = [(x509.BasicConstraints(ca=True, path_length=None), True)]
    versions = {"3.1": TCB[0], "3.2": TCB[1], "3.3": TCB[6], "3.8": TCB[7]}
    values = [(number, small_number(value)) for number, value in versions.items()] + [("4", CHIP)]
    leaf = [(x509.UnrecognizedExtension(x509.ObjectIdentifier(NUMBER + number), value), False) for number, value in values]
    made = {
        "ark": certificate("ARK-Test", ark, "ARK-Test", ark, authority),
        "ask": certificate("SEV-Test", ask, "ARK-Test", ark, authority),
        "vcek": certificate("SEV-VCEK", vcek, "SEV-Test", ask, leaf),
    }
    for name, one in made.items():
        with open(os.path.join(folder, name + ".crt"), "w") as file:
            file.write(ssl.DER_cert_to_PEM_cert(one))
    with open(os.path.join(folder, "vcek.key"), "wb") as file:
        file.write(vcek.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                      serialization.NoEncryption()))


def table(folder):
    """Guids, offsets and lengths, then the certificates in DER."""
    entries, rest = b"", b""
    start = 24 * (len(GUIDS) + 1)
    for name, guid in GUIDS.items():
        with open(os.path.join(folder, name + ".crt")) as file:
            one = ssl.PEM_cert_to_DER_cert(file.read())
        entries += bytes.fromhex(guid) + struct.pack("<II", start + len(rest), len(one))
        rest += one
    return entries + bytes(24) + rest


def report(folder, inblob, outblob, auxblob):
    with open(inblob, "rb") as file:
        data = file.read()
    with open(os.path.join(folder, "vcek.key"), "rb") as file:
        key = serialization.load_pem_private_key(file.read(), None)
    policy = 0x30000 | (0x80000 if os.environ.get("FAKE_TSM_DEBUG") else 0)
    made = bytearray(REPORT_SIZE)
    struct.pack_into("<I", made, 0, 3)
    struct.pack_into("<Q", made, 8, policy)
    struct.pack_into("<I", made, 0x34, 1)
    made[0x50:0x90] = data.ljust(64, b"\0")
    made[0x90:0xC0] = b"\x3e" * 48
    made[0x180:0x188] = TCB
    made[0x1A0:0x1E0] = CHIP
    signature = utils.decode_dss_signature(key.sign(bytes(made[:SIGNED_SIZE]), ec.ECDSA(hashes.SHA384())))
    for place, value in zip((0x2A0, 0x2E8), signature):
        made[place:place + 48] = value.to_bytes(48, "little")
    with open(outblob, "wb") as file:
        file.write(made)
    with open(auxblob, "wb") as file:
        file.write(table(folder))


if __name__ == "__main__":
    {"init": init, "report": report}[sys.argv[1]](*sys.argv[2:])
