"""``rebalance-agent check-config``: a configuration, checked and with its defaults."""

from collections import Counter
from pathlib import Path

import click
import yaml

from agent.wiring.agent_config import effective, load
from agent.wiring.sources import make_sources
from agent.wiring.web import WebWiring


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

    The web configuration and its certificates are read, too. Needs no broker and touches no state.
    """
    config = load(config_file)
    make_sources(config, {})
    WebWiring(config.web, Counter())
    click.echo(yaml.safe_dump(effective(config), sort_keys=False), nl=False)
