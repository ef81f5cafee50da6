"""A real Chromium that looks at the dashboard, and says so loudly where there is none. No tests in here.

`python -m tests.kit.browsing` finds one, or tries to install one where that is allowed (`make browser`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.kit.shell import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request

    from tests.kit.serving import Running

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
CHOICE = "LEASEHOLD_TEST_BROWSER"
MISSING = (
    "NOT RUN: there is no Chromium here, so the dashboard was not tested in a browser. "
    f"Install one (`make browser` tries: apt-get install chromium), or name it in {CHOICE}."
)
PATIENCE_MS = 60_000
SCREENSHOTS = Path(os.environ.get("LEASEHOLD_SCREENSHOTS", ROOT / "build" / "screenshots"))
"""Where pictures of the page go; `make pictures` puts them into the documentation."""
INSTALLING = 300
"""How long an installation may take, in seconds."""

expect.set_options(timeout=PATIENCE_MS)


def find() -> str | None:
    """Where a Chromium is: the one that was named, the system's, or Playwright's own."""
    named = os.environ.get(CHOICE)
    if named:
        return shutil.which(named)
    for name in NAMES:
        if found := shutil.which(name):
            return found
    own = Path.home() / ".cache" / "ms-playwright"
    return next((str(path) for path in sorted(own.glob("chromium-*/chrome-linux*/chrome"))), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser, until the end of the block; without one the tests are skipped, and the summary says why."""
    path = find()
    if path is None:
        pytest.skip(MISSING)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Watch:
    """What must not happen on any page: errors in the console, and requests to anybody else."""

    def __init__(self, page: Page, origin: str) -> None:
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        self._origin = origin
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", self._asked)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def _asked(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("blob", "data") and f"{parts.scheme}://{parts.netloc}" != self._origin:
            self.elsewhere.append(request.url)


@contextmanager
def looking(
    browser: Browser, server: Running, *, view: str = "now", key: str | None = None, calm: bool = True, **settings: Any
) -> Iterator[Page]:
    """The page in a browser of its own, signed in and live; at the end nothing bad may have happened in it."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **settings})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    watch = Watch(page, server.url)
    try:
        page.goto(f"{server.url}/#{view}")
        if key or server.key:
            sign_in(page, key or server.key or "")
        expect(page.locator("#link")).to_have_attribute("data-state", "live")
        yield page
        assert not watch.elsewhere
        assert not calm or not watch.errors, watch.errors
    finally:
        context.close()


def sign_in(page: Page, key: str) -> None:
    """Type a key, and press the button."""
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_role("button", name="Sign in").click()


def row(page: Page, resource: str) -> Locator:
    """The row of a lease."""
    return page.locator(".lease:not([hidden])").filter(
        has=page.locator(".cell.resource").get_by_text(resource, exact=True)
    )


def picture(page: Page, name: str) -> None:
    """A screenshot for people to look at."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png", scale="css")


# ------------------------------------------------------------------------------------------- make browser


def _install() -> None:
    """Where we may, and for a bounded time."""
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        return
    print("There is no Chromium yet: trying apt-get install chromium ...", flush=True)
    for words in (["update", "-q"], ["install", "-y", "-q", "--no-install-recommends", "chromium"]):
        try:
            env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            done = subprocess.run([apt, *words], env=env, timeout=INSTALLING, check=False, stdout=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            print(f"apt-get {words[0]} took longer than {INSTALLING} s", file=sys.stderr)
            return
        if done.returncode:
            print(f"apt-get {words[0]} ended with {done.returncode}", file=sys.stderr)


def main() -> int:
    """Find a browser, or try to get one; the tests go on without, and say so."""
    if find() is None:
        _install()
    path = find()
    print(f"The dashboard is tested in {path}" if path else MISSING, file=sys.stdout if path else sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
