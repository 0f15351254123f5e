import bcrypt
import pytest

from agent.errors import ConfigError
from agent.web.basic_auth import Credentials, Users, parse_credentials


def hashed(password: bytes) -> str:
    return bcrypt.hashpw(password, bcrypt.gensalt(4)).decode()


@pytest.mark.parametrize("prefix", ["$2a$", "$2b$", "$2y$"])
def test_a_right_password_of_every_kind_of_hash(prefix: str) -> None:
    users = Users({"a": hashed(b"secret").replace("$2b$", prefix)}, "f: users")

    assert users.verify(Credentials("a", b"secret"))


@pytest.mark.parametrize(
    "shown",
    [
        Credentials("a", b""),
        Credentials("a", b"Secret"),
        Credentials("b", b"secret"),
        Credentials("", b"secret"),
        Credentials("a", b"secret\0more"),
    ],
)
def test_what_is_wrong_stays_wrong(shown: Credentials) -> None:
    users = Users({"a": hashed(b"secret"), "c": hashed(b"other")}, "f: users")

    assert [users.verify(shown), users.is_verified(shown), users.verify(shown)] == [False] * 3


def test_a_right_password_is_remembered_and_no_other() -> None:
    users = Users({"a": hashed(b"secret"), "b": hashed(b"other")}, "f: users")
    before = users.is_verified(Credentials("a", b"secret"))

    users.verify(Credentials("a", b"secret"))

    assert not before
    assert users.is_verified(Credentials("a", b"secret"))
    assert not users.is_verified(Credentials("a", b"other"))
    assert not users.is_verified(Credentials("b", b"secret"))


def test_bytes_after_the_72nd_do_not_count() -> None:
    users = Users({"a": hashed(b"x" * 72)}, "f: users")

    assert users.verify(Credentials("a", b"x" * 73))
    assert not users.verify(Credentials("a", b"x" * 71))


@pytest.mark.parametrize("costs", [(4, 5), (5, 4)])
def test_an_unknown_name_costs_what_the_dearest_known_one_does(
    costs: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = [bcrypt.hashpw(b"p", bcrypt.gensalt(cost)) for cost in costs]
    users = Users({str(i): each.decode() for i, each in enumerate(hashes)}, "f: users")
    asked = list[bytes]()

    def is_right(_: bytes, against: bytes) -> bool:
        asked.append(against)
        return True

    monkeypatch.setattr(bcrypt, "checkpw", is_right)

    known = users.verify(Credentials("?", b"p"))

    assert (known, asked) == (False, [max(hashes, key=lambda each: each[4:6])])


@pytest.mark.parametrize(
    "text",
    [
        "secret",
        "",
        "$2y$10$short",
        "$2x$10$abcdefghijklmnopqrstuuQ0eS7rBbFhLVJ8qzHnF8yG2R1x9d5mK",
        "$2y$03$abcdefghijklmnopqrstuuQ0eS7rBbFhLVJ8qzHnF8yG2R1x9d5mK",
        "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
    ],
)
def test_what_is_no_hash_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Users({"ann": text}, "web.yaml: basic_auth_users")

    wanted = "wanted a bcrypt hash such as `htpasswd -nBC 10 NAME` prints"
    assert str(refused.value) == f"web.yaml: basic_auth_users.ann: {wanted}"


@pytest.mark.parametrize(
    ("header", "shown"),
    [
        ("Basic YTpiOmM=", Credentials("a", b"b:c")),
        ("basic YTo=", Credentials("a", b"")),
        ("Basic YQ==", None),
        ("Basic /zph", None),
        ("Basic YTpi?", None),
        ("Bearer YTpi", None),
        ("Basic", None),
        ("", None),
    ],
)
def test_credentials_of_a_header(header: str, shown: Credentials | None) -> None:
    assert parse_credentials(header) == shown
