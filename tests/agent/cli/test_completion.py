"""The completion scripts, in the shells themselves."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
ASKS = {
    "bash": (
        "source <(rebalance-agent completion bash); COMP_WORDS=(rebalance-agent in); COMP_CWORD=1; "
        '_rebalance_agent_completion rebalance-agent; echo "${COMPREPLY[@]}"'
    ),
    "fish": 'rebalance-agent completion fish | source; complete --do-complete "rebalance-agent in"',
    # zsh completes at a terminal alone: what its function gets, and that it is one
    "zsh": (
        "rebalance-agent completion zsh | zsh --no-exec && "
        'COMP_WORDS="rebalance-agent in" COMP_CWORD=1 _REBALANCE_AGENT_COMPLETE=zsh_complete '
        "rebalance-agent"
    ),
}


@pytest.mark.process
@pytest.mark.parametrize("shell", sorted(ASKS))
def test_a_shell_completes_commands(shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        assert os.environ.get("CI") != "true", f"{shell} is missing"
        pytest.skip(f"{shell} is missing (Debian: apt-get install {shell})")

    done = subprocess.run(
        [program, "-c", ASKS[shell]],
        env=os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert {"ingest", "inject"} <= set(done.stdout.split())
