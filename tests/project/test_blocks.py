"""Every fenced block of every page is run, or checked as what it is; how is decided by its language.

`console` is typed into a shell, and compared with what is printed. `python` is run. In `sh`, and in the commands of job
files, each call of our programs has to be one that our own parser understands. Data is parsed. Whatever else a block
may be stands in `OTHERWISE`, with where it is tried.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from leasehold.cli.command_line import parse
from leasehold.cli.entry.table import VERBS
from leasehold.config import settings
from leasehold.config.identity.agents import SYSTEMS
from leasehold.guard.editors.adapters import ADAPTERS
from leasehold.guard.install.targets import TARGETS
from tests.kit.documents import DOCUMENTS, Block, blocks, examples, pattern, run
from tests.kit.shell import PATIENCE, ROOT, Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DOCS = ROOT / "docs"
TYPED = [
    path
    for path in DOCUMENTS
    if path.name not in ("README.md", "cli.md") and any(block.language == "console" for block in blocks(path))
]
"""Pages whose `console` blocks are typed from top to bottom, in one shell; `test_docs` types two others in parts."""
CLONE = (
    "git init --quiet --bare remote.git",
    "git clone --quiet remote.git clone 2>&1; cd clone",
    "git -c user.name=ada -c user.email=ada@example.com commit --quiet --allow-empty --message first",
    "git push --quiet origin HEAD",
)
SERVED = ("leasehold serve --port 7421 > serving.log 2>&1 &", "until grep -q Serving serving.log; do sleep 0.1; done")
KEY = ("leasehold keys create ci --role admin --key-file ci.key", "KEY=$(cat ci.key)")
BEFORE = {"git.md": CLONE, "http.md": (*KEY, *SERVED), "action-llama.md": SERVED}
"""What is typed before a page, where it says in words what has to be there."""
OTHERWISE = {
    ("clients/typescript/README.md", "ts"): "tests/project/test_typescript.py",
    ("docs/how-to/moving/fireflow.md", "ts"): "tests/project/test_typescript.py",
    ("docs/how-to/fencing.md", "sql"): "tests/project/test_fencing_postgres.py",
    ("docs/how-to/postgresql.md", "sql"): "tests/stores/postgres/test_opening.py",
    ("docs/how-to/proxies.md", "nginx"): "tests/acceptance/test_behind_proxies.py",
    ("docs/how-to/proxies.md", "haproxy"): "tests/acceptance/test_behind_proxies.py",
}
"""Blocks that are tried where there is a database, a proxy or node."""
OURS = {"leasehold", "rlock", "runlock", "rlock-heartbeat"}
OTHERS = {
    *(
        "cd",
        "curl",
        "docker",
        "etcd",
        "etcdctl",
        "export",
        "git",
        "helm",
        "kubectl",
        "ln",
        "mkdir",
        "openssl",
        "podman",
    ),
    *("python3", "sqlite3", ".venv/bin/python"),
}
"""Programs of others that a page may call."""
INSTALLS = re.compile(r"\b(?:pip|pipx|uv tool) install\b")
SYSTEM_OF = {
    "azure": "Azure",
    "buildkite": "Buildkite",
    "circleci": "CircleCI",
    "github": "GitHub",
    "gitlab": "GitLab",
    "jenkins": "Jenkins",
}
"""The label in the table of the system that a page is about."""
JOBS = sorted((DOCS / "how-to" / "ci").glob("*.md"))
AGENTS = sorted((DOCS / "how-to" / "agents").glob("*.md"))
PLAIN = [
    (path, block)
    for path in (*DOCUMENTS, ROOT / "clients" / "typescript" / "README.md", ROOT / "SECURITY.md")
    for block in blocks(path)
    if block.language not in ("console", "python")
]


# ---------------------------------------------------------------------------------------------- it is run


@pytest.mark.parametrize("page", TYPED, ids=[page.stem for page in TYPED])
def test_a_page_can_be_typed_from_top_to_bottom(shell: Shell, page: Path) -> None:
    typed = [each for block in blocks(page) if block.language == "console" for each in examples(block.text)]
    first = BEFORE.get(page.name, ())
    printed = run(shell, [*first, *(each.command for each in typed)])
    for example, told in zip(typed, printed[len(first) :], strict=True):
        assert "Traceback" not in told, example
        if example.expected:
            assert pattern(example.expected).fullmatch(told), f"$ {example.command}\n{told}"


@pytest.mark.parametrize("page", JOBS, ids=[page.stem for page in JOBS])
def test_the_job_of_a_page_deploys_under_the_lease(shell: Shell, page: Path) -> None:
    deploy = shell.home / "deploy.sh"
    deploy.write_text("#!/bin/sh\necho deployed with fence $LEASEHOLD_FENCE\n")
    deploy.chmod(0o755)
    told = [line for block in blocks(page) for line in lines_of(block) if line.startswith("leasehold run ")]
    assert told
    for line in told:
        assert "deployed with fence 1\n" in shell.sh(line).out


# --------------------------------------------------------------------------------------------- or checked


@pytest.mark.parametrize(
    ("path", "block"), PLAIN, ids=[f"{path.relative_to(ROOT)}:{block.line}" for path, block in PLAIN]
)
def test_a_block_that_is_not_run_is_what_it_says(path: Path, block: Block) -> None:
    place = path.relative_to(ROOT).as_posix()
    if (place, block.language) in OTHERWISE:
        assert (ROOT / OTHERWISE[place, block.language]).exists()
        return
    assert block.language in KINDS, f"{place}:{block.line} is {block.language or 'nothing'}; name its language"
    KINDS[block.language](block)
    for line in lines_of(block):
        check(line)


def lines_of(block: Block) -> Iterator[str]:
    """Every command of a block: of a shell, or of the steps of a job."""
    if block.language == "sh":
        yield from block.text.replace("\\\n", " ").splitlines()
    elif block.language == "yaml":
        for text in strings(yaml.safe_load(block.text)):
            yield from text.splitlines()
    elif block.language == "groovy":
        yield from re.findall(r"\bsh '([^']+)'", block.text)


def strings(value: Any) -> Iterator[str]:  # noqa: ANN401 (whatever YAML has)
    if isinstance(value, dict):
        for each in value.values():
            yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)
    elif isinstance(value, str) and re.match(r"(?:leasehold|pip|pipx|make) ", value):
        yield value


def check(line: str) -> None:
    """Each command of this line is one that exists: ours, a target of make, an extra, or a known program."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.commenters = "#"
    words.whitespace_split = True
    command: list[str] = []
    for word in [*words, ";"]:
        if word and set(word) <= set("();|&"):
            one_command(command, line)
            command = []
        else:
            command.append(word)


def one_command(words: list[str], line: str) -> None:
    while words and re.match(r"[A-Za-z_]+=", words[0]):
        words = words[1:]
    if not words:
        return
    if words[0] in OURS:
        assert words[0] != "leasehold" or parse(words[1:], VERBS) is not None or "--help" in words, line
    elif words[0] == "make":
        makefile = (ROOT / "Makefile").read_text()
        assert all("=" in word or f"\n{word}:" in makefile for word in words[1:]), line
    elif INSTALLS.search(line):
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        assert all(name in extras for group in re.findall(r"\[([\w,]+)\]", line) for name in group.split(",")), line
    else:
        assert words[0] in OTHERS, f"{words[0]} in {line!r} is no program that a page may call"


def is_a_script(block: Block) -> None:
    done = subprocess.run(
        ["/bin/bash", "-n"], input=block.text, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr


def has_steps(block: Block) -> None:
    assert list(lines_of(block))


def is_toml(block: Block) -> None:
    told = tomllib.loads(block.text)
    told = told.get("tool", {}).get("leasehold", told)
    assert set(told) <= set(settings.KEYS), "these are no settings"


def is_json(block: Block) -> None:
    for part in block.text.split("\n\n"):
        json.loads(re.sub(r",\s*…|…(?=\s*[\]}])", "", part))


def is_nothing_to_type(block: Block) -> None:
    assert not re.search(r"^(?:\$|leasehold|make|pip|curl) ", block.text, re.MULTILINE), "what is typed is no text"


KINDS = {
    "sh": is_a_script,
    "yaml": lambda block: yaml.safe_load(block.text),
    "groovy": has_steps,
    "toml": is_toml,
    "json": is_json,
    "text": is_nothing_to_type,
}


# ------------------------------------------------------------------- pages of agents and CI agree with the tables


def words_of(page: Path) -> str:
    return " ".join(page.read_text().split())


def test_every_agent_and_every_ci_system_has_a_page() -> None:
    assert [page.stem for page in AGENTS] == sorted(ADAPTERS)
    recognised = {each.label for each in SYSTEMS if each.words}
    assert {SYSTEM_OF[page.stem] for page in JOBS} == recognised


@pytest.mark.parametrize("page", AGENTS, ids=[page.stem for page in AGENTS])
def test_the_page_of_an_agent_says_what_the_tables_say(page: Path) -> None:
    adapter, target, text = ADAPTERS[page.stem], TARGETS[page.stem], words_of(page)
    assert page.read_text().startswith(f"# {adapter.title}\n")
    files = {target.hooks.project, target.servers.project, f"~/{target.hooks.user}", f"~/{target.servers.user}"} - {""}
    named = set(re.findall(r"`((?:~/)?[\w./-]+\.(?:json|toml|ts))`", text))
    assert files <= named <= files | {"copilot-setup-steps.yml"}
    events = [event for event, _ in target.events] or list(adapter.moments)
    told = text.partition("calls Leasehold at ")[2].partition(". ## ")[0]
    assert re.findall(r"`([\w.]+)`", told) == events
    assert " ".join(target.todo.split()) in text
    ends = [event for event, moment in adapter.moments.items() if "end" in moment]
    assert set(re.findall(r"`([\w.]+)`", text.partition("**The end.**")[2].partition("- **")[0])) == set(ends)
    assert page.stem == "opencode" or f"`{adapter.session[0]}`" in text


@pytest.mark.parametrize("page", JOBS, ids=[page.stem for page in JOBS])
def test_the_page_of_a_ci_system_says_by_what_a_job_is_known(page: Path) -> None:
    system = next(each for each in SYSTEMS if each.label == SYSTEM_OF[page.stem])
    text = words_of(page)
    for name in system.ids[0]:
        assert f"`{name}`" in text, name
    shown = re.sub(r"\\\{\w+\\\}", r"[\\w-]+", re.escape(f"{system.label} {system.words}"))
    assert re.search(f"`{shown} #[0-9a-f]{{8}}`", text), shown
