"""``rebalance-agent completion``: the completion script of a shell."""

import click
from click.shell_completion import get_completion_class

_PROGRAM = "rebalance-agent"


@click.command(
    epilog="\b\nExamples:\n"
    '  eval "$(rebalance-agent completion bash)"\n'
    "  rebalance-agent completion fish > ~/.config/fish/completions/rebalance-agent.fish\n"
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL."""
    script = get_completion_class(shell)
    if script is None:
        raise click.UsageError(f"no completion for {shell!r}")
    complete = script(ctx.find_root().command, {}, _PROGRAM, "_REBALANCE_AGENT_COMPLETE")
    click.echo(complete.source())
