"""Add to the package: the links of a published README, a man page, completions and a bill of materials (SBOM).

They are made at each build, so none of them can go stale. `LEASEHOLD_REPOSITORY` is the address of the repository,
which the release workflow knows; without it the README keeps its links, and no address is published.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

REPOSITORY = "LEASEHOLD_REPOSITORY"
IMAGE = re.compile(r"!\[([^\]]*)\]\((?!\w+://)([^)\s]+)\)")
LINK = re.compile(r"\[([^\]]+)\]\((?!\w+://|#)([^)\s]+)\)")
COMPLETIONS = {
    "bash": "share/bash-completion/completions/leasehold",
    "zsh": "share/zsh/site-functions/_leasehold",
    "fish": "share/fish/vendor_completions.d/leasehold.fish",
}


class CustomMetadataHook(MetadataHookInterface):
    """The README and the addresses, as they are published."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the fields that `pyproject.toml` declares dynamic."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        repository = os.environ.get(REPOSITORY, "").rstrip("/")
        if repository:
            text = absolute(text, f"{repository}/{{}}/v{metadata['version']}")
            metadata["urls"] = {
                "Source": repository,
                "Documentation": f"{repository}/blob/v{metadata['version']}/docs/index.md",
                "Changelog": f"{repository}/blob/v{metadata['version']}/CHANGELOG.md",
                "Issues": f"{repository}/issues",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def absolute(text: str, place: str) -> str:
    """Return a page whose links lead to the repository: from a package index, relative ones lead nowhere."""
    text = IMAGE.sub(lambda found: f"![{found[1]}]({place.format('raw')}/{found[2]})", text)
    return LINK.sub(lambda found: f"[{found[1]}]({place.format('blob')}/{found[2]})", text)


class CustomBuildHook(BuildHookInterface[Any]):
    """The man page, the completions and the SBOM of a wheel, made from the sources."""

    _made: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write them into a temporary folder, and name them."""
        if self.target_name != "wheel" or version == "editable":
            return
        sys.path[:0] = [str(Path(self.root, "src")), str(Path(self.root, "scripts"))]
        from manual import page  # noqa: PLC0415

        from leasehold.cli.commands.completion import SCRIPTS  # noqa: PLC0415

        made = self._made = Path(tempfile.mkdtemp())
        shared = {COMPLETIONS[shell]: script() for shell, script in SCRIPTS.items()}
        shared["share/man/man1/leasehold.1"] = page(self.metadata.version)
        for place, text in shared.items():
            build_data["shared_data"][_written(made / place, text)] = place
        parts = json.dumps(bill(Path(self.root, "pyproject.toml")), indent=2)
        build_data["sbom_files"].append(_written(made / "leasehold.cdx.json", f"{parts}\n"))

    def finalize(self, _version: str, _build_data: dict[str, Any], _artifact_path: str) -> None:
        """Remove the folder."""
        if self._made is not None:
            shutil.rmtree(self._made)


def _written(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def bill(pyproject: Path) -> dict[str, Any]:
    """Return the bill of materials (CycloneDX 1.6): the package, what it needs, and what each extra adds."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    needs = [(each, "required") for each in project["dependencies"]]
    for each in project["optional-dependencies"].values():
        needs += [(need, "optional") for need in each if not need.startswith("leasehold")]
    own = f"pkg:pypi/leasehold@{project['version']}"
    parts = [_part(need, scope) for need, scope in needs]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": own,
                "name": "leasehold",
                "version": project["version"],
                "purl": own,
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": parts,
        "dependencies": [{"ref": own, "dependsOn": [part["bom-ref"] for part in parts]}],
    }


def _part(need: str, scope: str) -> dict[str, Any]:
    name = re.split(r"[^\w.-]", need)[0].lower()
    purl = f"pkg:pypi/{name}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "purl": purl,
        "scope": scope,
        "properties": [{"name": "leasehold:requirement", "value": need}],
    }
