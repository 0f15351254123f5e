"""Programs that are written in Go, built once into the user's cache.

`python -m tests.deploy.go_tools helm` prints the path of one.
"""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from agent.lab.artifacts import appear_once, default_cache

TOOLS = {
    "actionlint": "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12",
    "helm": "helm.sh/helm/v3/cmd/helm@v3.22.0",
    "jsonnet": "github.com/google/go-jsonnet/cmd/jsonnet@v0.22.0",
    "kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0",
    "kustomize": "sigs.k8s.io/kustomize/kustomize/v5@v5.8.1",
}
_BUILD_WITHIN_S = 1500.0
"""Helm takes two to four minutes on two cores; once."""


def run_go(*arguments: str, **environ: str) -> str:
    go = shutil.which("go")
    if go is None:
        if os.environ.get("CI") == "true":
            pytest.fail("go is missing: it builds the tools")
        pytest.skip("go is missing: it builds the tools")
    done = subprocess.run(
        [go, *arguments],
        capture_output=True,
        text=True,
        timeout=_BUILD_WITHIN_S,
        check=False,
        env=os.environ | environ,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def tool(name: str) -> Path:
    """Return one of `TOOLS`, built if it has to be."""
    version = TOOLS[name].rpartition("@")[2]
    target = default_cache() / "go" / f"{name}-{version}"
    with appear_once(target) as folder:
        if folder is not None:
            run_go("install", TOOLS[name], GOBIN=str(folder))
    return target / name


if __name__ == "__main__":
    sys.stdout.write(f"{tool(sys.argv[1])}\n")
