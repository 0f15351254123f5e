"""``rebalance-agent check-config``: a configuration, checked and with its defaults."""

from pathlib import Path

import click
import yaml

from agent.cli.config_options import config_options
from agent.errors import ConfigError
from agent.wiring.agent_config import Overrides, effective
from agent.wiring.config_faults import check_file


@click.command(epilog="\b\nExample:\n  rebalance-agent check-config -c agent.yaml\n")
@config_options(required=True)
def check_config(config_file: Path, overrides: Overrides) -> None:
    """Check a configuration, log rules too, and print it with its defaults, secrets hidden.

    All faults are printed at once. Flags and the environment count as for `run`. The web
    configuration, certificates and files of secrets are read, too, and addresses are bound for a
    moment. Needs no broker and touches no state.
    """
    checked = check_file(config_file, overrides)
    if checked.config is None or checked.faults:
        raise ConfigError("\n".join(checked.faults))
    click.echo(yaml.safe_dump(effective(checked.config), sort_keys=False), nl=False)
