"""Take the pictures of the page for the documentation: `make pictures`. No tests in here."""

from __future__ import annotations

import sys

import pytest

from tests.kit.browsing import SCREENSHOTS

KEPT = {"-light.png": ".png", "-phone-light.png": "-phone.png"}
"""Pictures that the documentation has, by the end of their name, and what that becomes there."""


def main() -> int:
    """Run the tests that look at every view, and keep the light pictures under the names that pages use."""
    before = set(SCREENSHOTS.glob("*.png"))
    code = pytest.main(["-q", "-p", "no:cacheprovider", "tests/server/dashboard/test_access.py", "-k", "axe or phone"])
    for path in sorted(set(SCREENSHOTS.glob("*.png")) - before):
        end = next((end for end in sorted(KEPT, key=len, reverse=True) if path.name.endswith(end)), None)
        if end is None or code != pytest.ExitCode.OK:
            path.unlink()
        else:
            path.rename(path.with_name(f"dashboard-{path.name.removesuffix(end)}{KEPT[end]}"))
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
