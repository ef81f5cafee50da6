"""The TypeScript client: its own tests by node's runner on a real server, its types, and that both languages agree."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.compat import fireflow
from leasehold.flow import SyncFlowLockService
from tests.compat.test_fireflow import KEYS, LONG
from tests.kit.documents import blocks
from tests.kit.serving import serving
from tests.kit.shell import ROOT, SOURCE

if TYPE_CHECKING:
    from pathlib import Path

CLIENT = ROOT / "clients" / "typescript"
PATIENCE = 240.0


def node(*words: str, give: str | None = None, **env: str) -> str:
    found = shutil.which("node")
    assert found is not None, "node is needed: version 20 or newer"
    done = subprocess.run(
        [found, *words],
        cwd=CLIENT,
        env={**os.environ, **env},
        input=give,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("file", ["client", "locks", "holding", "flow"])
def test_its_own_tests(file: str) -> None:
    command = json.dumps([sys.executable, "-m", "leasehold.cli"])
    told = node("--test", f"test/{file}.test.js", LEASEHOLD_COMMAND=command, PYTHONPATH=str(SOURCE))
    assert "# fail 0" in told
    assert "# skipped 0" in told


def test_npm_runs_the_tests_and_nothing_else() -> None:
    """Of a whole folder, node runs everything, and waits for ever for what reads its input."""
    tests = sorted(f"test/{file.name}" for file in (CLIENT / "test").glob("*.test.js"))
    script = json.loads((CLIENT / "package.json").read_text())["scripts"]["test"]
    assert script.split() == ["node", "--test", *tests]


def test_the_types_are_made_from_the_openapi_document() -> None:
    done = subprocess.run(
        [sys.executable, CLIENT / "generate.py", "--check"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the client with its tools, installed by npm; the clone stays as it is."""
    place = tmp_path_factory.mktemp("npm") / "clients" / "typescript"
    shutil.copytree(CLIENT, place, ignore=shutil.ignore_patterns("node_modules", "dist", "*.tgz"))
    shutil.copy(ROOT / "LICENSE", place.parents[1])
    npm(place, "install")
    return place


def test_programs_in_typescript_check(package: Path) -> None:
    node(str(package / "node_modules" / ".bin" / "tsc"), "--project", str(package))


def test_both_languages_call_a_key_by_the_same_name() -> None:
    keys = [
        *KEYS,
        *(f"a{chr(code)}" for code in (*range(0x20), 0x7F, 0x85, 0xA0, 0x1680, 0x2003, 0x2028, 0x3000, 0xFEFF)),
    ]
    told = json.loads(node("test/names.mjs", give=json.dumps(keys)))
    assert told == [fireflow.name_of(key) for key in keys]


def test_flows_in_both_languages_exclude_each_other(tmp_path: Path) -> None:
    script = """
    import { FlowLockService } from "@leasehold/client";
    const service = new FlowLockService(process.env.URL);
    const got = await service.acquire("shared", 60000, 0);
    const again = await service.acquire("mine", 60000, 0);
    console.log(JSON.stringify({ taken: got.acquired, mine: again.lockId }));
    """
    with serving(tmp_path) as server, SyncFlowLockService.connect(server.url) as service:
        assert service.acquire("shared", LONG, 0)["acquired"]
        told = json.loads(node("--input-type=module", "-e", script, URL=server.url))
        assert told["taken"] is False
        assert service.acquire("mine", LONG, 0)["acquired"] is False
        assert service.release("mine", told["mine"]) == {"released": True}  # an id is an id in both


def test_the_package_is_as_it_will_be_published() -> None:
    package = json.loads((CLIENT / "package.json").read_text())
    assert package["name"] == "@leasehold/client"
    assert package["version"] == leasehold.__version__
    assert "dependencies" not in package
    imported = [each["import"]["types"] for each in package["exports"].values()]
    assert all((CLIENT / each).exists() for each in imported)


STRICT = {
    "target": "es2022",
    "lib": ["es2023", "esnext.disposable", "dom", "dom.iterable"],
    "module": "nodenext",
    "moduleResolution": "nodenext",
    "strict": True,
    "exactOptionalPropertyTypes": True,
    "noUncheckedIndexedAccess": True,
    "noPropertyAccessFromIndexSignature": True,
    "skipLibCheck": False,
    "types": ["node"],
    "outDir": "out",
}


DEPLOY = "declare function deploy(what: { fence: number; signal: AbortSignal }): Promise<void>;"
"""What the example of the page calls."""


def npm(folder: Path, *words: str) -> str:
    """Run npm there; without npm or a registry, say that types and the packed package were not tried."""
    found = shutil.which("npm")
    if found is None:
        pytest.skip("NOT RUN: npm is not installed, so types and the packed package were not tried")
    done = subprocess.run(
        [found, *words, "--no-audit", "--no-fund", "--loglevel=error"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if any(code in done.stderr for code in ("ENOTFOUND", "ECONNREFUSED", "EAI_AGAIN", "E404", "ETIMEDOUT")):
        pytest.skip(f"NOT RUN: no registry of packages can be reached: {done.stderr[:200]}")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_packed_package_works_in_a_strict_project_of_either_kind(package: Path, tmp_path: Path) -> None:
    """As somebody would who installs it: `import` and `require`, with types and without our tools."""
    app = tmp_path / "app"
    packed = npm(package, "pack").split()[-1]
    app.mkdir()
    (app / "package.json").write_text('{"private": true, "type": "module"}')
    (app / "tsconfig.json").write_text(json.dumps({"compilerOptions": STRICT, "include": ["*.ts", "*.cts"]}))
    for name in ("main.ts", "common.cts"):
        shutil.copy(CLIENT / "test" / "scratch.ts", app / name)
    example = next(block.text for block in blocks(CLIENT / "README.md") if block.language == "ts")
    (app / "readme.ts").write_text(f"{DEPLOY}\n{example}")
    npm(app, "install", str(package / packed), "typescript", "@types/node")
    node(str(app / "node_modules" / "typescript" / "bin" / "tsc"), "--project", str(app))
    with serving(tmp_path) as server:
        for name in ("main.js", "common.cjs"):
            told = json.loads(node(str(app / "out" / name), server.url))
            assert told == {"ttl": 600, "released": True, "code": "invalid"}, name
