"""``rebalance-agent inject``: the sidecar in Kubernetes' manifests."""

import tempfile
from pathlib import Path
from typing import TextIO

import click
import yaml

from agent.errors import ConfigError
from agent.kubernetes.manifests import inject as inject_into
from agent.kubernetes.sidecar import IMAGE, read_sidecar

_DEFAULT_LOGS = ("/var/log/app/*.log",)
_MANIFESTS_MAX_CHARS = 16 << 20
"""Ten times what etcd takes of one object, and minutes to parse."""
_EPILOG = """\b
Examples:
  rebalance-agent inject -f pod.yaml | kubectl apply -f -
  rebalance-agent inject -f deployment.yaml --logs '/srv/payments/log/*.log' --container app
  rebalance-agent inject -f pod.yaml -c agent.yaml --secret rebalance-hub
  kubectl get deployment payments -o yaml | rebalance-agent inject -f - | kubectl apply -f -
"""


@click.command(epilog=_EPILOG)
@click.option(
    "-f",
    "--filename",
    "manifest",
    required=True,
    metavar="FILE",
    type=click.File(encoding="utf-8"),
    help="Manifests, in YAML or JSON; - is stdin.",
)
@click.option(
    "-c",
    "--config.file",
    "config_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The agent's configuration.  [default: one that reads --logs]",
)
@click.option(
    "--logs",
    multiple=True,
    metavar="GLOB",
    help=f"The application's log files; may be repeated.  [default: {_DEFAULT_LOGS[0]}]",
)
@click.option(
    "--container",
    "containers",
    multiple=True,
    metavar="NAME",
    help="The container that writes the logs, in a pod of several; may be repeated.",
)
@click.option(
    "--image", default=IMAGE, show_default=True, help="The agent's image, by tag or digest."
)
@click.option(
    "--env",
    "environ",
    multiple=True,
    metavar="NAME=VALUE",
    help="A variable that the configuration names; may be repeated.",
)
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="NAME",
    help="A Secret of the namespace, as files in /run/secrets/NAME; may be repeated.",
)
@click.option("--plain", is_flag=True, help="An ordinary container, for Kubernetes before 1.29.")
def inject(  # noqa: PLR0913 - click passes options by name
    manifest: TextIO,
    config_file: Path | None,
    logs: tuple[str, ...],
    containers: tuple[str, ...],
    image: str,
    environ: tuple[str, ...],
    secrets: tuple[str, ...],
    plain: bool,
) -> None:
    """Add the sidecar to each pod of the manifests, and print all of them.

    Pods, Deployments, StatefulSets, DaemonSets, ReplicaSets, Jobs, CronJobs and Lists of them;
    other kinds pass unchanged. If the logs are in a volume of the application, the sidecar shares
    it; else their folder becomes an emptyDir. A second run changes nothing; comments are lost.
    """
    if config_file is not None and logs:
        raise click.UsageError("--logs and --config.file: give one of them")
    variables = dict(_variable(text) for text in environ)
    chosen = {"image": image, "secrets": secrets, "is_native": not plain}
    with tempfile.TemporaryDirectory() as folder:
        path, where = config_file or Path(folder, "agent.yaml"), None
        if config_file is None:
            sources = [{"type": "logs", "paths": list(logs or _DEFAULT_LOGS)}]
            path.write_text(yaml.safe_dump({"sources": sources}, sort_keys=False), encoding="utf-8")
            where = "--logs"
        sidecar = read_sidecar(path, variables, where, **chosen)
    text = inject_into(_read(manifest), sidecar, containers, manifest.name, _warn)
    click.echo(text, nl=False)


def _warn(note: str) -> None:
    click.echo(f"Warning: {note}", err=True)


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"found {text!r}, wanted NAME=VALUE", param_hint="--env")
    return name, value


def _read(manifest: TextIO) -> str:
    try:
        text = manifest.read(_MANIFESTS_MAX_CHARS + 1)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{manifest.name}: is not UTF-8: {error}") from error
    if len(text) > _MANIFESTS_MAX_CHARS:
        raise ConfigError(f"{manifest.name}: is longer than 16 MiB, so it is no manifest")
    return text
