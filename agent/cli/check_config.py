"""``rebalance-agent check-config``: a configuration, checked and with its defaults."""

from pathlib import Path

import click
import yaml

from agent.errors import ConfigError
from agent.wiring.agent_config import effective
from agent.wiring.config_faults import check_file


@click.command(epilog="\b\nExample:\n  rebalance-agent check-config -c agent.yaml\n")
@click.option(
    "-c",
    "--config.file",
    "config_file",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="REBALANCE_AGENT_CONFIG_FILE",
    show_envvar=True,
    required=True,
    help="The configuration, in YAML.",
)
def check_config(config_file: Path) -> None:
    """Check a configuration, log rules too, and print it with its defaults, secrets hidden.

    All faults are printed at once. The web configuration, certificates and files of secrets are
    read, too. Needs no broker and touches no state.
    """
    checked = check_file(config_file)
    if checked.config is None or checked.faults:
        raise ConfigError("\n".join(checked.faults))
    click.echo(yaml.safe_dump(effective(checked.config), sort_keys=False), nl=False)
