"""Check that a tag and every file that states a version agree, before anything is published.

python scripts/release_version.py v1.2.0
python scripts/release_version.py --notes v1.2.0     # print what the changelog says about it
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def stated(root: Path = ROOT) -> dict[str, str]:
    """Return the version that each file states."""
    init = (root / "src" / "leasehold" / "__init__.py").read_text(encoding="utf-8")
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    server = json.loads((root / "server.json").read_text(encoding="utf-8"))
    return {
        "pyproject.toml": tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"],
        "src/leasehold/__init__.py": re.findall(r'^__version__ = "(.+)"$', init, re.MULTILINE)[0],
        "CITATION.cff": re.findall(r"^version: (.+)$", citation, re.MULTILINE)[0],
        "clients/typescript/package.json": _version_of(root / "clients" / "typescript" / "package.json"),
        "server.json": server["version"],
        **{f"server.json, {each['registryType']}": each["version"] for each in server["packages"]},
    }


def _version_of(path: Path) -> str:
    return str(json.loads(path.read_text(encoding="utf-8"))["version"])


def notes(version: str, root: Path = ROOT) -> str:
    """Return the part of the changelog about this version."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## \[|\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise SystemExit(f"CHANGELOG.md has no section for {version}. Rename its section Unreleased:\n  ## [{version}]")
    return found[1].strip()


def main(words: list[str]) -> int:
    """Print the notes, or compare all versions with the tag."""
    tag = words[-1]
    version = tag.removeprefix("v")
    if "--notes" in words:
        print(notes(version))
        return 0
    wrong = {file: found for file, found in stated().items() if found != version}
    for file, found in wrong.items():
        print(f"{file} says {found}, and the tag says {version}", file=sys.stderr)
    if not wrong:
        notes(version)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
