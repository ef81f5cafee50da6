"""One etcd for a whole run of the tests, with a prefix of its own for each test. No tests in here."""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import subprocess
from functools import cache
from typing import TYPE_CHECKING

import pytest

from leasehold.testing.etcd import QUICK, Etcd

if TYPE_CHECKING:
    from pathlib import Path

_numbers = itertools.count()


@cache
def server() -> Etcd:
    """The one that all tests share; it ends with the run, by its id."""
    started = Etcd(*QUICK)
    atexit.register(started.remove)
    return started.__enter__()


def empty(lanes: int | None = 1) -> str:
    """The URL of an empty place in the shared cluster, for a store with so many lanes; None: it does not say."""
    url = f"{server().url}/t{os.getpid()}-{next(_numbers)}"
    return url if lanes is None else f"{url}?lanes={lanes}"


def let_in_users(cluster: Etcd) -> None:
    """From here on only those who say who they are: `ada`, whose password is `secret`."""
    for words in (
        ["user", "add", "root:top"],
        ["user", "grant-role", "root", "root"],
        ["user", "add", "ada:secret"],
        ["role", "add", "locks"],
        ["role", "grant-permission", "locks", "--prefix=true", "readwrite", "leasehold/"],
        ["user", "grant-role", "ada", "locks"],
        ["auth", "enable"],
    ):
        cluster.control(*words)


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine that nobody else has signed, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed here: TLS to etcd was not tried")
    cert, key = folder / "cert.pem", folder / "key.pem"
    words = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    more = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([openssl, "req", *words, *more], check=True, capture_output=True)
    return cert, key
