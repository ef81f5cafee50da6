"""The Helm chart, the manifest and the compose file as data: rendered by Helm's own library. No tests in here.

`python -m tests.kit.charts` writes the manifest anew from the chart.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from typing import Any

import pytest
import yaml

from tests.kit.shell import ROOT

CHART = ROOT / "deploy" / "helm" / "leasehold"
MANIFEST = ROOT / "deploy" / "kubernetes" / "leasehold.yaml"
COMPOSE = ROOT / "deploy" / "compose.yaml"
PLAIN = {"database": {"existingSecret": "leasehold"}}
"""The values of the manifest."""
VERSIONS = ("1.28", "1.37")
"""The oldest and the newest version of Kubernetes for which manifests are checked."""
OF_HELM = ("app.kubernetes.io/managed-by", "helm.sh/chart")
"""Labels that only a release of Helm has."""
HEAD = """\
# Two servers on one PostgreSQL: see docs/how-to/kubernetes.md. The secret `leasehold` has its URL under `url`.
# Written from deploy/helm/leasehold with its usual values: python -m tests.kit.charts
"""
NOT_RUN = "NOT RUN: {0} is not installed, so {1}. Install the tools of development (`make test` does): pip install {0}"


@cache
def helm() -> Any:  # noqa: ANN401 (a module)
    """Helm's library; without it the test is skipped, and the summary says why."""
    try:
        import helm_python
    except ImportError:
        pytest.skip(NOT_RUN.format("helm-python-sdk", "the Helm chart was not rendered"))
    return helm_python


def rendered(values: dict[str, Any] | None = None, name: str = "leasehold") -> list[dict[str, Any]]:
    """What the chart makes of these values: the objects, in the order of its files."""
    chart = helm().Chart.load(CHART)
    texts = chart.render(PLAIN | (values or {}), name=name, namespace="locks")
    files = sorted(file for file in texts if file.endswith(".yaml"))
    return [part for file in files for part in yaml.safe_load_all(texts[file]) if part]


def only(kind: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The one object of this kind."""
    (found,) = [part for part in parts if part["kind"] == kind]
    return found


def check(part: dict[str, Any]) -> None:
    """An object is what the API of Kubernetes takes, without a field that it does not know."""
    try:
        import kubernetes_validate  # type: ignore[import-untyped]
    except ImportError:
        pytest.skip(NOT_RUN.format("kubernetes-validate", "no manifest was compared with the API of Kubernetes"))
    for version in VERSIONS:
        kubernetes_validate.validate(part, version, strict=True)


def compose(text: str) -> dict[str, Any]:
    """The compose file as Compose reads it: merged, with its variables replaced, and no field that is unknown."""
    try:
        from compose_spec import PyCompose
    except ImportError:
        pytest.skip(NOT_RUN.format("compose-spec", "the compose file was not checked"))
    merged = yaml.safe_dump(yaml.safe_load(re.sub(r"\$\{(\w+)(:\?[^}]*)?\}", r"value-of-\1", text)))
    checked: dict[str, Any] = PyCompose.from_yaml(merged).to_dict()
    return checked


def without_helm(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same objects for `kubectl apply`: without the labels of a release of Helm."""
    for part in parts:
        for label in OF_HELM:
            part["metadata"]["labels"].pop(label)
    return parts


def main() -> int:
    """Write the manifest."""
    parts = without_helm(rendered())
    texts = [yaml.safe_dump(part, sort_keys=False, width=200) for part in parts]
    MANIFEST.write_text(HEAD + "---\n".join(texts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
