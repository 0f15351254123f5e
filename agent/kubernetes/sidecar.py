"""The sidecar container and its volumes. The Helm chart renders the same.

The pod carries the agent's configuration itself, as an annotation that the downward API mounts as a
file, so that its namespace needs no other object beforehand.
"""

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any

from agent.config.addresses import parse_address
from agent.config.yaml_loader import read_yaml
from agent.errors import ConfigError
from agent.small_files import read_text
from agent.sources.registry import REGISTRY
from agent.sources.source_type import Capability
from agent.wiring.agent_config import WORKLOAD_VARIABLES, AgentConfig, load

NAME = "kafka-rebalance-agent"
"""The container's name; its volumes begin with it."""
LABEL, ANNOTATION = f"{NAME}/sidecar", f"{NAME}/config"
IMAGE = f"{NAME}:{version(NAME)}"
STATE_DIR = f"/var/lib/{NAME}"
USER = 12472

REQUESTS = {"cpu": "2m", "memory": "52Mi"}
"""`benchmarks/footprint.py` measured 0.14 % of a core and 39.5 MiB; plus 30 %."""
_VERSION, _APP_IMAGE = WORKLOAD_VARIABLES["version"], WORKLOAD_VARIABLES["image"]
_VERSION_FIELD = {"fieldPath": "metadata.labels['app.kubernetes.io/version']"}
"""A pod without the label gives an empty text."""
LIMITS = {"memory": "256Mi"}
"""No CPU limit: a throttled sidecar falls behind the log just when much happens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder that the application writes and the agent reads."""

    path: PurePosixPath
    is_read_only: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """One sidecar; its needs of the pod follow from the agent's configuration."""

    config_text: str
    folders: tuple[Folder, ...]
    port: int
    captures: bool = False
    probes: bool = True
    state_dir: str = STATE_DIR
    image: str = IMAGE
    environ: tuple[tuple[str, str], ...] = ()
    secrets: tuple[str, ...] = ()
    is_native: bool = True
    """A container that starts before the application and ends after it (Kubernetes 1.29)."""

    def container(self, app_image: str | None = None) -> dict[str, Any]:
        """Return the container without shared folders; ``app_image`` is the application's."""
        container = {
            "name": NAME,
            "image": self.image,
            "restartPolicy": "Always",
            "env": self._env(app_image),
            "ports": [{"name": "rebalances", "containerPort": self.port}],
            "livenessProbe": self._probe(),
            "resources": {"requests": dict(REQUESTS), "limits": dict(LIMITS)},
            "securityContext": security_context(captures=self.captures),
            "volumeMounts": [
                {"name": f"{NAME}-config", "mountPath": f"/etc/{NAME}", "readOnly": True},
                {"name": f"{NAME}-state", "mountPath": self.state_dir},
                *(
                    {"name": _of_secret(name), "mountPath": f"/run/secrets/{name}"}
                    | {"readOnly": True}
                    for name in self.secrets
                ),
            ],
        }
        unwanted = {"livenessProbe": not self.probes, "restartPolicy": not self.is_native}
        return {key: value for key, value in container.items() if not unwanted.get(key)}

    def _env(self, app_image: str | None) -> list[dict[str, Any]]:
        """Return version and image of the application; the given variables have precedence."""
        given = dict(self.environ)
        found: dict[str, dict[str, Any]] = {_VERSION: {"valueFrom": {"fieldRef": _VERSION_FIELD}}}
        if app_image:
            found[_APP_IMAGE] = {"value": app_image}
        found |= {name: {"value": value} for name, value in given.items()}
        return [{"name": name} | value for name, value in found.items()]

    def volumes(self) -> list[dict[str, Any]]:
        """Return the agent's own volumes."""
        field = {"fieldPath": f"metadata.annotations['{ANNOTATION}']"}
        config = {"items": [{"path": "agent.yaml", "fieldRef": field}]}
        return [
            {"name": f"{NAME}-config", "downwardAPI": config},
            {"name": f"{NAME}-state", "emptyDir": {"sizeLimit": "1Gi"}},
            *({"name": _of_secret(name), "secret": {"secretName": name}} for name in self.secrets),
        ]

    def _probe(self) -> dict[str, Any]:
        # no readiness: a pod must not lose its traffic because its observer is not ready
        request = {"path": "/-/healthy", "port": "rebalances"}
        return {"httpGet": request, "periodSeconds": 30, "timeoutSeconds": 5}


def security_context(*, captures: bool) -> dict[str, Any]:
    """Return the least rights; a capture runs as root, as only root gets its one capability."""
    capabilities = {"drop": ["ALL"]} | ({"add": ["NET_RAW"]} if captures else {})
    return {
        "runAsNonRoot": not captures,
        "runAsUser": 0 if captures else USER,
        "runAsGroup": 0 if captures else USER,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": capabilities,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def read_sidecar(
    path: Path, environ: dict[str, str], where: str | None = None, **chosen: Any
) -> Sidecar:
    """Return the sidecar of an agent's configuration; ``where`` is its name in errors.

    Raises:
        ConfigError: it is invalid, or reads files in a folder that cannot be a volume.

    """
    config = load(path, environ=environ)
    _, port = parse_address(config.web.listen[0], "web.listen[0]")
    return Sidecar(
        config_text=read_text(path),
        folders=_folders(config, where or str(path)),
        port=port,
        captures=any(
            Capability.NET_RAW in REGISTRY.capabilities(source) for source in config.sources
        ),
        probes=config.web.config_file is None,
        state_dir=str(read_yaml(path, environ).get("state_dir", STATE_DIR)),
        environ=tuple(environ.items()),
        **chosen,
    )


def _folders(config: AgentConfig, where: str) -> tuple[Folder, ...]:
    found: dict[PurePosixPath, bool] = {}
    for i, source in enumerate(config.sources):
        for mount in REGISTRY.mounts(source):
            folder = _folder_above(mount.glob, f"{where}: sources[{i}]")
            found[folder] = found.get(folder, True) and mount.is_read_only
    return tuple(Folder(path=folder, is_read_only=only) for folder, only in found.items())


def _folder_above(glob: str, where: str) -> PurePosixPath:
    """Return the deepest folder above all matches of a glob."""
    parts = PurePosixPath(glob).parts[:-1]
    wild = next((i for i, part in enumerate(parts) if set(part) & set("*?[")), len(parts))
    folder = PurePosixPath(*parts[:wild])
    if not folder.is_absolute() or folder == PurePosixPath("/"):
        wanted = "wanted files in a folder that a volume can be, such as /var/log/app/*.log"
        raise ConfigError(f"{where}: found {glob!r}, {wanted}")
    return folder


def _of_secret(name: str) -> str:
    return f"{NAME}-secret-{name}"
