"""Hooks of MkDocs: generated pages, pages and files from outside `docs/`, the menu, and the texts for language models.

The pages link to each other and to files of the repository as they lie there, so that they work where the repository is
shown. Here such a link is led to the copy that the site has of the file.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).resolve().parent))

import tables

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BESIDE = {
    "README.md": "project/readme.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "examples/README.md": "project/examples.md",
    "clients/typescript/README.md": "project/typescript.md",
}
"""Pages outside `docs/`, with their place on the site."""
ORIGINS = {target: origin for origin, target in BESIDE.items()}
SEARCH_AS_A_FILE = "javascripts/iframe-worker.js"
FENCED = re.compile(r"(^ *```.*?^ *```)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
ENTRY = re.compile(r"\[([^\]]+)\]\(([^)#\s]+\.md)\)")
FOR_MODELS = "llms.txt"
FOR_MODELS_WHOLE = "llms-full.txt"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make the menu from the index: its sections, in its order, and after them what it does not name."""
    config.nav = menu()
    return config


def menu() -> list[Any]:
    """Return the menu: every page of the index below the heading under which it stands."""
    sections: dict[str, list[Any]] = {"Start": [{"All pages": "index.md"}, {"README": BESIDE["README.md"]}]}
    section = "Project"
    for line in (DOCS / "index.md").read_text(encoding="utf-8").splitlines():
        section = line[3:] if line.startswith("## ") else section
        if line.startswith(("- ", "  [")):
            entries = sections.setdefault(section, [])
            entries += [{title: path} for title, path in ENTRY.findall(line) if not path.startswith("..")]
    sections["Reference"] += list(tables.pages())
    sections["Decisions"] = [path.relative_to(DOCS).as_posix() for path in sorted((DOCS / "adr").glob("0*.md"))]
    sections["Project"] = [target for origin, target in BESIDE.items() if origin != "README.md"]
    return [{name: entries} for name, entries in sections.items()]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, the pages from outside, and every file that a page links to."""
    for path, text in tables.pages().items():
        files.append(File.generated(config, path, content=text))
    for origin, target in BESIDE.items():
        files.append(File.generated(config, target, abs_src_path=str(ROOT / origin)))
    files.append(
        File.generated(config, SEARCH_AS_A_FILE, abs_src_path=str(Path(__file__).with_name("iframe-worker.js")))
    )
    for path in sorted({found for page in files.documentation_pages() for found in _linked(page)}):
        files.append(File.generated(config, f"source/{path}", abs_src_path=str(ROOT / path)))
    return files


def _linked(page: File) -> set[str]:
    """Return the files of the repository, outside `docs/`, to which a page links."""
    origin = _origin(page.src_uri)
    targets = {_resolved(origin, target) for _, _, target in LINK.findall(FENCED.sub("", page.content_string))}
    return {path for path in targets if path and (ROOT / path).is_file() and _place(path).startswith("source/")}


def on_page_markdown(markdown: str, *, page: Page, **_more: object) -> str:
    """Lead the links of a page to the site's copies of what they mean in the repository."""
    parts = FENCED.split(markdown)
    return "".join(part if number % 2 else _led(part, page.file.src_uri) for number, part in enumerate(parts))


def _led(text: str, place: str) -> str:
    def lead(found: re.Match[str]) -> str:
        bang, words, target = found.groups()
        path = _resolved(_origin(place), target)
        if path is None:
            return found.group()
        if not (ROOT / path).is_file() and path not in _generated():
            return str(words)  # a folder: the site has no page for it
        anchor = target.partition("#")[2]
        there = os.path.relpath(_place(path), Path(place).parent)
        return f"{bang}[{_led(words, place)}]({there}{'#' + anchor if anchor else ''})"

    return LINK.sub(lead, text)


def _origin(place: str) -> str:
    """Return where a page of the site lies in the repository."""
    return ORIGINS.get(place, f"docs/{place}")


def _generated() -> set[str]:
    return {f"docs/{path}" for path in tables.pages()}


def _place(path: str) -> str:
    """Return where a file of the repository lies on the site."""
    return BESIDE.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else f"source/{path}")


def _resolved(origin: str, target: str) -> str | None:
    """Return the path in the repository to which a link leads; None: to a place on the web or on its own page."""
    file = target.partition("#")[0]
    if "://" in target or target.startswith("mailto:") or not file:
        return None
    return os.path.normpath(Path(origin).parent / file)


def on_post_build(config: MkDocsConfig) -> None:
    """Write the texts for language models: an index of all pages, and all of them in one file."""
    site = Path(config.site_dir)
    pages = dict(_sources())
    for path, text in pages.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text, encoding="utf-8")
    (site / FOR_MODELS).write_text(index_for_models(pages), encoding="utf-8")
    whole = "\n\n".join(f"<!-- {path} -->\n\n{text.strip()}" for path, text in pages.items())
    (site / FOR_MODELS_WHOLE).write_text(f"{whole}\n", encoding="utf-8")


def index_for_models(pages: dict[str, str]) -> str:
    """Return the index of all pages in the form of llmstxt.org, whose last section is what a short context can skip."""
    lines = ["# Leasehold", "", "> A lock service for agents: leases with fences, fair queues and deadlock detection."]
    last = "Decisions"
    for section in sorted(menu(), key=lambda each: last in each):
        for name, entries in section.items():
            lines += ["", f"## {'Optional' if name == last else name}", ""]
            for entry in entries:
                path = entry if isinstance(entry, str) else next(iter(entry.values()))
                title, first = summary(pages[path])
                lines.append(f"- [{title}]({path}): {first}")
    return "\n".join((*lines, ""))


def _sources() -> list[tuple[str, str]]:
    """Return every page as it was written, by its place on the site."""
    own = [(path.relative_to(DOCS).as_posix(), path) for path in sorted(DOCS.rglob("*.md"))]
    beside = [(target, ROOT / origin) for origin, target in BESIDE.items()]
    written = [(place, path.read_text(encoding="utf-8")) for place, path in (*beside, *own)]
    return [*written, *tables.pages().items()]


def summary(text: str) -> tuple[str, str]:
    """Return the title of a page and the first sentence of its first paragraph."""
    title = next(line[2:] for line in text.splitlines() if line.startswith("# "))
    paragraphs = [
        part
        for part in FENCED.sub("", text).split("\n\n")
        if part.strip() and not part.lstrip().startswith(("#", "!", "|", "<!--", "Status:", "**Status:**"))
    ]
    plain = LINK.sub(r"\2", " ".join(paragraphs[0].removeprefix("**Context.**").split())) if paragraphs else ""
    return title, re.split(r"(?<=[.?])\s", plain)[0]
