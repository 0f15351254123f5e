"""Java's key stores, made by keytool: this reader reads all that Java's client reads."""

import os
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from agent.errors import ConfigError
from agent.inspection.connection.client_properties import security_of
from agent.inspection.connection.key_stores import open_key_store

KEYTOOL = shutil.which("keytool")
pytestmark = pytest.mark.skipif(
    KEYTOOL is None and os.environ.get("CI") != "true", reason="no JDK: keytool makes the stores"
)
PASSWORD = "changeit"


def keytool(*arguments: str) -> None:
    subprocess.run([str(KEYTOOL), *arguments], check=True, capture_output=True, timeout=120)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a key store and a trust store of each format."""
    folder = tmp_path_factory.mktemp("stores")
    for kind in ("JKS", "PKCS12"):
        own, trust, certificate = (str(folder / f"{kind}.{name}") for name in ("own", "ts", "crt"))
        common = ("-storepass", PASSWORD, "-storetype", kind, "-noprompt")
        # fmt: off
        keytool(
            "-genkeypair", "-keystore", own, *common, "-keypass", PASSWORD, "-alias", "own",
            "-dname", f"CN={kind}", "-keyalg", "RSA", "-keysize", "2048",
        )
        # fmt: on
        keytool("-exportcert", "-keystore", own, *common, "-alias", "own", "-file", certificate)
        keytool("-importcert", "-keystore", trust, *common, "-alias", "ca", "-file", certificate)
    return folder


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
@pytest.mark.parametrize("declared", ["JKS", "PKCS12", None])
def test_a_store_is_read_whatever_its_type_says(folder: Path, kind: str, declared: str) -> None:
    types = (
        {} if declared is None else {f"ssl.{name}store.type": declared for name in ("trust", "key")}
    )
    properties = {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(folder / f"{kind}.ts"),
        "ssl.truststore.password": PASSWORD,
        "ssl.keystore.location": str(folder / f"{kind}.own"),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
    }

    tls = security_of(properties | types, "").tls

    assert isinstance(tls, ssl.SSLContext)
    assert tls.cert_store_stats()["x509"] == 1


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_wrong_password_is_named(folder: Path, kind: str) -> None:
    data = (folder / f"{kind}.own").read_bytes()

    with pytest.raises(ConfigError, match=r"^store: cannot be opened: .*password"):
        open_key_store(data, "wrong", "", "store")


def test_a_wrong_password_of_a_key_is_named(folder: Path) -> None:
    data = (folder / "JKS.own").read_bytes()

    with pytest.raises(ConfigError, match="the password of the key is wrong"):
        open_key_store(data, PASSWORD, "wrong", "store")


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_cut_store_is_an_error(folder: Path, kind: str) -> None:
    data = (folder / f"{kind}.ts").read_bytes()

    for size in range(0, len(data), 97):
        with pytest.raises(ConfigError, match="cannot be opened"):
            open_key_store(data[:size], "", "", "store")


def test_a_key_store_is_no_trust_store(folder: Path) -> None:
    properties = {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(folder / "JKS.own"),
        "ssl.truststore.password": PASSWORD,
    }

    with pytest.raises(ConfigError, match="holds no trusted certificate"):
        security_of(properties, "")


def test_pem_declared_as_a_store_is_named() -> None:
    with pytest.raises(ConfigError, match="found PEM, wanted a Java store or the type PEM"):
        open_key_store(b"-----BEGIN CERTIFICATE-----", "", "", "store")
