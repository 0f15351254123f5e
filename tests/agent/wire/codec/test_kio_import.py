import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module", ["agent.sources.proxy.source", "agent.inspection.connection.broker_pool"]
)
def test_an_agent_imports_no_test_library(module: str) -> None:
    """kio would take hypothesis along wherever it is installed, as it is here."""
    code = f"import sys, {module}; print([m for m in sys.modules if m.startswith('hypothesis')])"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"
