"""The Maven repository of this machine.

It is the environment's ``MAVEN_MIRROR_URL``, else the mirror of ``central`` in Maven's own
``~/.m2/settings.xml``, else Maven Central itself.
"""

import os
import xml.etree.ElementTree as ET
from pathlib import Path

from aggregation.spark.errors import SparkSetupError

CENTRAL = "https://repo1.maven.org/maven2/"
MIRROR_VARIABLE = "MAVEN_MIRROR_URL"


def repository() -> str:
    """Return the URL of the repository for Maven artifacts.

    Raises:
        SparkSetupError: Maven's settings are no XML.

    """
    url = os.environ.get(MIRROR_VARIABLE) or _maven_mirror(Path.home() / ".m2" / "settings.xml")
    return (url or CENTRAL).rstrip("/") + "/"


def _maven_mirror(settings: Path) -> str | None:
    try:
        root = ET.parse(settings).getroot()  # noqa: S314 - the user's own file
    except FileNotFoundError:
        return None
    except ET.ParseError as error:
        raise SparkSetupError(f"{settings}: not XML: {error}") from error
    for mirror in root.iterfind("{*}mirrors/{*}mirror"):
        patterns = (mirror.findtext("{*}mirrorOf") or "").replace(" ", "").split(",")
        if "!central" not in patterns and {"*", "external:*", "central"} & set(patterns):
            return mirror.findtext("{*}url")
    return None
