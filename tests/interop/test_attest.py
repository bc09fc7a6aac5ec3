# SPDX-License-Identifier: Apache-2.0
"""Evidence against cryptography and jwcrypto: certificates, tokens, collections."""
import base64
import copy
import datetime
import hashlib
import json
import os
import threading
import time

from Crypto.Hash import KangarooTwelve
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from jwcrypto import jwk, jws

from tap import main, read, sh, test, write

PROFILE = "tag:sgpu.dev,2026:measure#2"
COLLECTION = "tag:sgpu.dev,2026:evidence#1"
EAT_TYPE = f'application/eat+jwt; eat_profile="{PROFILE}"'
NONCE = bytes(range(32))
# The programs for tests look there.
os.environ["PATH"] = os.environ["SGPU_BUILD"] + "/test/bin:" + os.environ["PATH"]
os.environ["SGPU_TSM_ROOT"] = os.environ["SGPU_GRAMINE_ROOT"] = "/nonexistent"


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64(text):
    assert "=" not in text
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def spki(key):
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def our_machine():
    """A CA, an EK and an AK with their certificates, all made by sgpu-measure."""
    sh("sgpu-measure", "keygen", "-o", "CA.pem", "--authority", "CA.crt")
    for key, issuer in (("EK", "CA"), ("AK", "EK")):
        sh("sgpu-measure", "keygen", "-o", f"{key}.pem", "--request", f"{key}.csr")
        sh("sgpu-measure", "certify", "-k", f"{issuer}.pem", "--certificate", f"{issuer}.crt", "-o", f"{key}.crt", f"{key}.csr")
    sh("sgpu-seal", "keygen", "--x25519", "-o", "runner.jwk")


def our_quote():
    our_machine()
    return sh("sgpu-measure", "quote", "-k", "AK.pem", "--certificate", "AK.crt", "--nonce", NONCE.hex(), "--recipient",
              "runner.jwk", "--device", "cpu", "--runner", "/bin/sh")


def take_apart(quote):
    """The header, claims and certificates of a quote, verified by others."""
    collection = json.loads(quote)
    assert collection["__cmwc_t"] == COLLECTION
    media, value, indicator = collection["eat"]
    assert media == EAT_TYPE and indicator == 4
    token = jws.JWS()
    token.deserialize(unb64(value).decode())
    chain = [x509.load_der_x509_certificate(base64.b64decode(text, validate=True)) for text in token.jose_header["x5c"]]
    token.verify(jwk.JWK.from_pyca(chain[0].public_key()), alg="ES384")
    return token.jose_header, json.loads(token.payload), chain


@test
def others_read_our_certificates():
    "cryptography reads the certificates of our CA, and they say what they should"
    our_machine()
    root = x509.load_pem_x509_certificate(read("CA.crt"))
    leaf, middle, issuer = x509.load_pem_x509_certificates(read("AK.crt"))
    assert issuer == root
    root.verify_directly_issued_by(root)
    middle.verify_directly_issued_by(root)
    leaf.verify_directly_issued_by(middle)
    for certificate, name in ((leaf, "AK"), (middle, "EK")):
        key = spki(serialization.load_pem_private_key(read(f"{name}.pem"), None).public_key())
        assert spki(certificate.public_key()) == key
        assert certificate.subject.get_attributes_for_oid(NameOID.SERIAL_NUMBER)[0].value == hashlib.sha256(key).hexdigest()
    for certificate, length in ((root, 1), (middle, 0)):
        basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
        assert basic.critical and basic.value.ca and basic.value.path_length == length
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    usage = leaf.extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical and usage.value.digital_signature and not usage.value.key_cert_sign
    theirs = leaf.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    assert theirs == middle.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    assert leaf.serial_number != middle.serial_number and leaf.serial_number.bit_length() > 64


@test
def others_read_our_request():
    "cryptography reads our request for a certificate, and its signature"
    our_machine()
    request = x509.load_pem_x509_csr(read("AK.csr"))
    assert request.is_signature_valid
    assert spki(request.public_key()) == spki(serialization.load_pem_private_key(read("AK.pem"), None).public_key())


@test
def others_verify_our_quote():
    "jwcrypto verifies our quote by its certificates, and the claims are what was measured"
    header, claims, chain = take_apart(our_quote())
    assert header["alg"] == "ES384" and header["typ"] == "eat+jwt" and set(header) == {"alg", "typ", "x5c"}
    chain[0].verify_directly_issued_by(chain[1])
    chain[1].verify_directly_issued_by(chain[2])
    assert chain[2] == x509.load_pem_x509_certificate(read("CA.crt"))
    assert unb64(claims["eat_nonce"]) == NONCE and abs(claims["iat"] - time.time()) < 60
    assert unb64(claims["ueid"]) == b"\x01" + hashlib.sha256(spki(chain[1].public_key())).digest()
    recipient = json.loads(read("runner.jwk"))
    assert claims["cnf"]["jwk"]["x"] == recipient["x"] and "d" not in claims["cnf"]["jwk"]
    runner = claims["submods"]["runner"][PROFILE]
    digest = KangarooTwelve.new(custom=b"sgpu measure v1")
    digest.update(read("/bin/sh"))
    assert unb64(runner["digest"]) == digest.read(32) and runner["size"] == len(read("/bin/sh"))
    assert claims["dbgstat"] in ("enabled", "disabled") and claims["swname"] == "sgpu"
    assert isinstance(claims["swversion"], list)


def report_data(claims, ak):
    """What a record of the hardware is made over, sgpu-quote(5). Keys are ASCII and numbers whole, so that sorting is enough
    for RFC 8785."""
    covered = copy.deepcopy(claims)
    for member in ("records", "absent"):
        covered[PROFILE].pop(member, None)
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return hashlib.sha512(b"sgpu quote v1\0" + hashlib.sha256(spki(ak)).digest() + hashlib.sha512(text).digest()).digest()


def gramine():
    """A tree as Gramine shows it, whose quote is over what is written to it."""
    os.mkdir("gramine")
    write("gramine/attestation_type", b"dcap")
    write("gramine/user_report_data", b"")
    os.mkfifo("gramine/quote")
    os.environ["SGPU_GRAMINE_ROOT"] = os.path.abspath("gramine")

    def serve():
        while len(read("gramine/user_report_data")) < 64:
            time.sleep(0.01)
        write("gramine/quote", bytes(368) + read("gramine/user_report_data") + bytes(64))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


@test
def others_compute_what_the_hardware_vouches_for():
    "the report data are a hash over all claims and the key: others compute the same"
    server = gramine()
    try:
        quote = our_quote()
    finally:
        os.environ["SGPU_GRAMINE_ROOT"] = "/nonexistent"
    server.join()
    _, claims, chain = take_apart(quote)
    assert read("gramine/user_report_data") == report_data(claims, chain[0].public_key())
    assert set(claims[PROFILE]["records"]) == {"gramine"}


def their_machine():
    """A CA, an EK and an AK by cryptography: the private key of the AK and its chain, leaf first."""
    now = datetime.datetime.now(datetime.timezone.utc)
    ca, ek, ak = (ec.generate_private_key(ec.SECP384R1()) for _ in range(3))
    usage = {"digital_signature": False, "content_commitment": False, "key_encipherment": False, "data_encipherment": False,
             "key_agreement": False, "key_cert_sign": False, "crl_sign": False, "encipher_only": False, "decipher_only": False}

    def named(text):
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def make(subject, key, length, name, issuer):
        is_ca = length is not None
        return (x509.CertificateBuilder().subject_name(named(subject)).issuer_name(named(name)).public_key(key)
                .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
                .not_valid_after(now + datetime.timedelta(days=2))
                .add_extension(x509.BasicConstraints(is_ca, length), critical=True)
                .add_extension(x509.KeyUsage(**{**usage, "key_cert_sign" if is_ca else "digital_signature": True}), critical=True)
                .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
                .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key()), critical=False)
                .sign(issuer, hashes.SHA384()))

    root = make("their CA", ca.public_key(), 1, "their CA", ca)
    middle = make("their EK", ek.public_key(), 0, "their CA", ca)
    leaf = make("their AK", ak.public_key(), None, "their EK", ek)
    write("roots.crt", root.public_bytes(serialization.Encoding.PEM))
    return ak, [leaf, middle, root]


def their_quote(ak, chain, claims, alg="ES384", **header):
    fields = {"alg": alg, "typ": "eat+jwt", **header}
    fields.setdefault("x5c", [base64.b64encode(c.public_bytes(serialization.Encoding.DER)).decode() for c in chain])
    token = jws.JWS(json.dumps(claims))
    token.add_signature(jwk.JWK.from_pyca(ak), protected=json.dumps(fields))
    value = b64(token.serialize(compact=True).encode())
    return json.dumps({"__cmwc_t": COLLECTION, "eat": [EAT_TYPE, value, 4]}).encode()


def check(quote, status, nonce=NONCE):
    sh("sgpu-measure", "verify", "--roots", "roots.crt", "--nonce", nonce.hex(), data=quote, status=status)


@test
def ours_verifies_their_quote():
    "sgpu-measure verifies a quote that jwcrypto signed under a CA that cryptography made"
    ak, chain = their_machine()
    _, claims, _ = take_apart(our_quote())
    claims["ueid"] = b64(b"\x01" + hashlib.sha256(spki(chain[1].public_key())).digest())
    check(their_quote(ak, chain, claims), 0)
    # pretty text, other order: the same
    quote = json.loads(their_quote(ak, chain, dict(reversed(claims.items()))))
    check(json.dumps(quote, indent=4).encode(), 0)
    check(their_quote(ak, chain, claims), 4, nonce=bytes(32))
    check(their_quote(ec.generate_private_key(ec.SECP384R1()), chain, claims), 4)
    check(their_quote(ak, chain[:2], claims), 0)
    check(their_quote(ak, chain[:1], claims), 4)
    for member, value, status in (("iat", int(time.time()) - 7200, 4), ("iat", int(time.time()) + 600, 4), ("iat", 1.5, 1),
                                  ("eat_profile", "tag:example.org,2026:x", 1), ("eat_nonce", b64(bytes(7)), 1),
                                  ("nonce", "x" * 12, 1), ("ueid", b64(b"\x01" + bytes(32)), 4), ("dbgstat", "maybe", 1)):
        check(their_quote(ak, chain, {**claims, member: value}), status)
    for member in claims:
        short = copy.deepcopy(claims)
        del short[member]
        check(their_quote(ak, chain, short), 1)


@test
def ours_refuses_their_tricks():
    "algorithms, headers and chains that are not ours are refused"
    ak, chain = their_machine()
    _, claims, _ = take_apart(our_quote())
    claims["ueid"] = b64(b"\x01" + hashlib.sha256(spki(chain[1].public_key())).digest())
    check(their_quote(ak, chain, claims, kid="x"), 0)
    for header in ({"jwk": {"kty": "oct", "k": "AA"}}, {"jku": "https://example.org/"}, {"x5u": "https://example.org/"},
                   {"x5t": "AA"}, {"typ": "JWT"}, {"x5c": []}):
        check(their_quote(ak, chain, claims, **header), 1)
    check(their_quote(ec.generate_private_key(ec.SECP256R1()), chain, claims, alg="ES256"), 1)
    _, others = their_machine()  # roots.crt is another CA's now
    check(their_quote(ak, chain, claims), 4)
    assert others
    quote = json.loads(their_quote(ak, chain, claims))
    text = unb64(quote["eat"][1]).decode().split(".")
    text[0] = b64(json.dumps({"alg": "none", "typ": "eat+jwt"}).encode())
    quote["eat"][1] = b64((text[0] + "." + text[1] + ".").encode())
    check(json.dumps(quote).encode(), 1)


@test
def ours_certifies_their_key():
    "sgpu-measure certifies an AK whose request others made, if the AK signed it"
    our_machine()
    ak = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "anything")])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(ak, hashes.SHA384())
    sign = ("sgpu-measure", "certify", "-k", "EK.pem", "--certificate", "EK.crt", "-o", "theirs.crt", "request")
    write("request", request.public_bytes(serialization.Encoding.PEM))
    sh(*sign)
    leaf, ek, _ = x509.load_pem_x509_certificates(read("theirs.crt"))
    leaf.verify_directly_issued_by(ek)
    assert leaf.subject.rfc4514_string().count("anything") == 0
    os.unlink("theirs.crt")
    bad = bytearray(request.public_bytes(serialization.Encoding.DER))
    bad[-1] ^= 1
    write("request", b"-----BEGIN CERTIFICATE REQUEST-----\n" + base64.encodebytes(bad) + b"-----END CERTIFICATE REQUEST-----\n")
    sh(*sign, status=4)
    assert not os.path.exists("theirs.crt")


main()
