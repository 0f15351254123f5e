from tools.check_versions import (
    LISTS,
    PACKAGES,
    Newer,
    Package,
    find_newer,
    parse,
    read_dialects,
    read_recordings,
)

_KAFKAJS = Package("npm", "kafkajs", ("kafkajs",))


def test_releases_beyond_the_dialects_are_newer() -> None:
    found = find_newer(_KAFKAJS, ["2.2.4", "2.3.0", "3.0.0"], {"kafkajs-1-2": (2, 2)}, {})

    assert list(found) == [
        Newer("kafkajs", "2.3.0", "dialects", "2.2"),
        Newer("kafkajs", "3.0.0", "dialects", "2.2"),
    ]


def test_releases_beyond_the_recordings_are_newer_patches_are_not() -> None:
    found = find_newer(
        _KAFKAJS, ["2.1.9", "2.2.0", "2.2.4"], {"kafkajs-1-2": (2, 2)}, {"kafkajs-1-2": (2, 1, 3)}
    )

    assert [each.release for each in found] == ["2.2.0", "2.2.4"]


def test_candidates_are_not_compared() -> None:
    assert parse("v1.22.2") == (1, 22, 2)
    assert parse("4.4.0-rc1") is None
    assert parse("2.0.0b1") is None


def test_every_dialect_of_a_client_belongs_to_a_package() -> None:
    """ruby-kafka's registry is none of the four; java-client-closed is any version's."""
    prefixes = tuple(prefix for package in PACKAGES for prefix in package.dialects)

    others = {name for name in read_dialects() if not name.startswith(prefixes)}
    assert others == {"ruby-kafka-1", "java-client-closed"}


def test_every_recording_has_a_package_and_every_package_a_registry() -> None:
    prefixes = tuple(prefix for package in PACKAGES for prefix in package.dialects)

    assert all(name.startswith(prefixes) for name in read_recordings())
    assert {package.registry for package in PACKAGES} == set(LISTS)
