"""The agent with a recording of its sources' signals: ``taped_agent TAPE run ...``."""

import sys
from pathlib import Path

from agent.cli import main
from tests.soak.tape import recording

if __name__ == "__main__":
    with recording(Path(sys.argv.pop(1))):
        main(prog_name="rebalance-agent")
