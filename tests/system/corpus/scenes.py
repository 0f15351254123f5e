"""All scenes by name, as versions.yaml names them."""

from collections.abc import Callable, Mapping

from tests.system.corpus import java_scenes, other_scenes, streams_scenes
from tests.system.corpus.take import Take

SCENES: Mapping[str, Callable[[Take], None]] = {
    name: scene
    for module in (java_scenes, other_scenes, streams_scenes)
    for name, scene in vars(module).items()
    if getattr(scene, "__module__", None) == module.__name__ and not name.startswith("_")
}
