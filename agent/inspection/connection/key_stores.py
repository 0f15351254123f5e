"""Java's key stores (JKS, PKCS12) as PEM: trusted certificates, and a key with its chain.

Java detects the format by content, whatever its type, and so does this module. JKS is Sun's
own format: certificates in plain, keys under a cipher of SHA-1. PKCS12 needs the extra ``stores``.
"""

import base64
import hashlib
import hmac
import struct
import textwrap
from collections.abc import Iterator
from typing import NamedTuple

from agent.errors import ConfigError

_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_PEM_MARK = b"-----BEGIN"
_VERSION_2 = 2
_KEY_ENTRY, _CERTIFICATE_ENTRY = 1, 2
_DIGEST_BYTES = 20
_SALT = b"Mighty Aphrodite"
"""Sun's constant in the digest over a store."""
_SUN_CIPHER = bytes.fromhex("060a2b060104012a02110101")
"""The object identifier 1.3.6.1.4.1.42.2.17.1.1 of JKS's cipher, in DER."""


class KeyStore(NamedTuple):
    """The content of a store, in PEM."""

    trusted: str
    """Certificates of authorities."""
    key: str
    """The private key and its chain, or empty."""


def open_key_store(data: bytes, password: str, key_password: str, where: str) -> KeyStore:
    """Return the content of a store in any format.

    Raises:
        ConfigError: the password is wrong, or the bytes are no store.

    """
    if _PEM_MARK in data:
        raise ConfigError(f"{where}: found PEM, wanted a Java store or the type PEM")
    try:
        if data.startswith(_JKS_MAGIC):
            return _open_jks(data, password, key_password or password)
        return _open_pkcs12(data, password or key_password)
    except (ValueError, struct.error, IndexError) as error:
        raise ConfigError(f"{where}: cannot be opened: {error}") from error
    except ImportError as error:
        text = "PKCS12 needs the extra 'stores'; keytool and openssl pkcs12 make PEM of it"
        raise ConfigError(f"{where}: {text}") from error


def _open_pkcs12(data: bytes, password: str) -> KeyStore:
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - an extra
        Encoding,
        NoEncryption,
        PrivateFormat,
    )
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12  # noqa: PLC0415

    store = load_pkcs12(data, password.encode() if password else None)
    others = [
        each.certificate.public_bytes(Encoding.PEM).decode() for each in store.additional_certs
    ]
    if store.key is None or store.cert is None:
        return KeyStore("".join(others), "")
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    own = store.cert.certificate.public_bytes(Encoding.PEM).decode()
    return KeyStore("".join(others), "".join([key, own, *others]))


def _open_jks(data: bytes, password: str, key_password: str) -> KeyStore:
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password:
        expected = hashlib.sha1(password.encode("utf-16-be") + _SALT + body).digest()  # noqa: S324 - JKS's
        if not hmac.compare_digest(expected, digest):
            raise ValueError("the password is wrong, or the file is damaged")
    trusted, keys = list[str](), list[str]()
    for key, chain in _jks_entries(_Reader(body)):
        certificates = [_pem("CERTIFICATE", each) for each in chain]
        if key is None:
            trusted += certificates
        else:
            keys.append(_pem("PRIVATE KEY", _decrypt(key, key_password)) + "".join(certificates))
    return KeyStore("".join(trusted), keys[0] if keys else "")


class _Reader:
    """Reads a JKS store; every count and length is checked against the rest."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, size: int = 4) -> int:
        return int.from_bytes(self.take(size), "big")

    def block(self, size: int = 4) -> bytes:
        return self.take(self.number(size))

    def take(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise ValueError("the file is cut")
        self._at += size
        return self._data[self._at - size : self._at]


def _jks_entries(reader: _Reader) -> Iterator[tuple[bytes | None, list[bytes]]]:
    """Return each entry's encrypted key, or None, and its certificates."""
    reader.take(4)
    version = reader.number()
    if version != _VERSION_2:
        raise ValueError(f"found JKS version {version}, wanted 2")
    for _ in range(reader.number()):
        tag = reader.number()
        reader.block(2)  # the alias
        reader.take(8)  # its time
        if tag == _CERTIFICATE_ENTRY:
            yield None, [_certificate(reader)]
        elif tag == _KEY_ENTRY:
            key = reader.block()
            yield key, [_certificate(reader) for _ in range(reader.number())]
        else:
            raise ValueError(f"found an entry of type {tag}, wanted a certificate or a key")


def _certificate(reader: _Reader) -> bytes:
    reader.block(2)  # its type, X.509
    return reader.block()


def _decrypt(key: bytes, password: str) -> bytes:
    """Return the PKCS8 key of Sun's EncryptedPrivateKeyInfo: salt, key XOR SHA-1 chain, digest."""
    start = key.find(_SUN_CIPHER)
    if start < 0:
        raise ValueError("the key is under a cipher that is not JKS's")
    data = _octets(key[start + len(_SUN_CIPHER) :])
    secret = password.encode("utf-16-be")
    block, cipher, digest = data[:_DIGEST_BYTES], data[20:-20], data[-_DIGEST_BYTES:]
    stream = b""
    while len(stream) < len(cipher):
        block = hashlib.sha1(secret + block).digest()  # noqa: S324 - JKS's
        stream += block
    plain = bytes(a ^ b for a, b in zip(cipher, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + plain).digest(), digest):  # noqa: S324 - JKS's
        raise ValueError("the password of the key is wrong")
    return plain


def _octets(der: bytes) -> bytes:
    """Return the OCTET STRING after an algorithm's parameters: these are NULL or missing."""
    start = 2 if der.startswith(b"\x05\0") else 0
    if der[start] != 0x04:
        raise ValueError("the key is damaged")
    size, at = der[start + 1], start + 2
    if size & 0x80:
        count = size & 0x7F
        size, at = int.from_bytes(der[at : at + count], "big"), at + count
    return der[at : at + size]


def _pem(label: str, der: bytes) -> str:
    body = "\n".join(textwrap.wrap(base64.b64encode(der).decode(), 64))
    return f"-----BEGIN {label}-----\n{body}\n-----END {label}-----\n"
