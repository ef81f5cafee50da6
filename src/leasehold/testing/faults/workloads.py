"""The work of the clients of a run, turn by turn, after Jepsen's lock workloads.

A turn ends by itself, whatever happens. A resource that a lease alone guards must stay intact while no client is paused
past its TTL between its last check of the lease and its write; a write that ended later is marked. A resource that the
fence guards must always stay intact.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from leasehold.domain.outcomes import Refused, Renewed
from leasehold.domain.sessions import SessionStarted
from leasehold.errors import LeaseholdError, LeaseLost, NotAcquired, StaleFence
from leasehold.fencing import Guard
from leasehold.testing.faults.recording import Writing, true_clock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from leasehold.testing.faults.clients import Client, Taken

WAIT = 2.0
SLOTS = 3


def mutex(client: Client) -> None:
    """Wait for one name, stay a moment, renew now and then, release."""
    taken = client.take(_one_of(client, "mutex", 4), WAIT)
    if taken is not None:
        _stay(client, taken)
        client.give_up(taken)


def queue(client: Client) -> None:
    """Wait in a long queue."""
    taken = client.take("queue", WAIT * 2)
    if taken is not None:
        _stay(client, taken)
        client.give_up(taken)


def semaphore(client: Client) -> None:
    """Take one of three slots."""
    taken = client.take(_one_of(client, "slots", 2), WAIT, slots=SLOTS)
    if taken is not None:
        _stay(client, taken, "slots", SLOTS)
        client.give_up(taken)


def shared(client: Client) -> None:
    """Read with others, or write alone."""
    mode = "exclusive" if client.chance.random() < 0.3 else "shared"
    taken = client.take(_one_of(client, "shared", 2), WAIT, mode=mode)
    if taken is not None:
        _stay(client, taken, mode)
        client.give_up(taken)


def several(client: Client) -> None:
    """Take some of five names at once, in any order; a deadlock is no answer to a request that holds nothing."""
    names = client.chance.sample([f"several {each}" for each in "abcde"], client.chance.randint(2, 3))
    taken = client.take(names, WAIT)
    if taken is not None:
        _stay(client, taken)
        client.give_up(taken)


def paths(client: Client) -> None:
    """Take a file, its directory, or the one above."""
    name = client.chance.choice(["path:src", "path:src/a", "path:src/a/1.py", "path:src/a/2.py", "path:src/b.py"])
    taken = client.take(name, WAIT)
    if taken is not None:
        _stay(client, taken)
        client.give_up(taken)


def pool(client: Client) -> None:
    """Take any free member of a pool, and stay with the one that it is."""
    taken = client.take("pool://fleet/1-4", WAIT)
    if taken is not None:
        _stay(client, taken)
        client.give_up(taken)


def sessions(client: Client) -> None:
    """Take two names in a session and end it: both must be gone."""
    started = client.ask("start_session", ttl=client.terms.ttl * 2)
    if not isinstance(started, SessionStarted):
        return
    taken = [
        each
        for number in (1, 2)
        if (each := client.take(f"{_one_of(client, 'session', 3)} {number}", 0, session=started.secret)) is not None
    ]
    for each in taken:
        _stay(client, each)
    client.ask("renew_session", started.secret)
    if client.ask("end_session", started.secret) is None:
        return
    for each in taken:
        if isinstance(client.ask("renew", each.lease, token=each.token), Renewed):
            client.recorder.complain(f"{client.name}: lease {each.lease} outlived its session")


def tries(client: Client) -> None:
    """Try, renew and release one register, without waiting: for the search for a linear order."""
    taken = client.take(_one_of(client, "register", 6))
    if taken is None:
        return
    for _ in range(client.chance.randint(0, 2)):
        taken.renew()
    _stay(client, taken)
    client.give_up(taken)


def keep(client: Client) -> None:
    """Hold a lease with a longer TTL through whatever happens, and release it: it must be there all the time."""
    taken = client.take(f"keep {client.name}", ttl=20.0)
    if taken is None:
        return
    for _ in range(8):
        client.stopping.wait(client.chance.uniform(0, 0.5))
        client.ask("renew", taken.lease, token=taken.token)
    client.give_up(taken)


def identity(client: Client) -> None:
    """Try to renew and to release what others hold, with the token of another lease."""
    mine = client.take(f"identity {client.name}")
    if mine is None:
        return
    leases = client.ask("list")
    others = [each for each in leases or () if each.holder != client.name] if not isinstance(leases, Refused) else []
    for victim in client.chance.sample(others, min(2, len(others))):
        for verb in ("renew", "release"):
            client.ask(verb, victim.id, token=mine.token)  # judged by `checkers.check_identity`
    client.give_up(mine)


def counter(client: Client) -> None:
    """Add one to a number that only the lease guards."""
    _count(client, f"counter {client.chance.randrange(2)}", is_fenced=False)


def fenced_counter(client: Client) -> None:
    """Add one to a number that the fence guards."""
    _count(client, f"fenced {client.chance.randrange(2)}", is_fenced=True)


def _count(client: Client, name: str, *, is_fenced: bool) -> None:
    path = client.folder / f"{name}.txt"
    try:
        with client.locks.lock(name, ttl=client.terms.ttl, wait=WAIT) as held:
            if not is_fenced:
                held.ensure()
            begun = true_clock()
            value = _add_fenced(Guard(path), held.fence) if is_fenced else _add(path, held.ensure)
            done = true_clock()
            try:
                held.ensure()
                is_late = False
            except LeaseLost:
                is_late = True
            client.recorder.wrote(Writing(client.name, name, value, held.fence, begun, done, is_late))
    except (NotAcquired, LeaseholdError):  # lost, refused by the fence, timed out, unreachable: all of it may be
        return


def _add(path: Path, look: Callable[[], object]) -> int:
    """Read, look at the lease once more, write."""
    value = int(path.read_text() or "0") + 1 if path.exists() else 1
    look()
    new = path.with_name(f"{path.name}.{value}.{os.getpid()}.{true_clock()}")
    new.write_text(str(value))
    new.replace(path)
    return value


def _add_fenced(guard: Guard, fence: int) -> int:
    """Read and write, each in a step of its own: a later holder may come in between, and then the write is refused."""
    with guard.admitted(fence):
        value = int(guard.path.read_text()) + 1 if guard.path.exists() else 1
    guard.write(str(value), fence)
    return value


def append_set(client: Client) -> None:
    """Append to a list by writing all of it anew; only the lease guards it."""
    _append(client, "list", is_fenced=False)


def fenced_set(client: Client) -> None:
    """Append to a list by writing all of it anew; the fence guards it."""
    _append(client, "fenced list", is_fenced=True)


def _append(client: Client, name: str, *, is_fenced: bool) -> None:
    taken = client.take(name, WAIT)
    if taken is None or not taken.enter():
        return
    path, begun = client.folder / f"{name}.txt", true_clock()
    guard = Guard(path)
    try:
        if is_fenced:
            with guard.admitted(taken.fence):
                before = path.read_text() if path.exists() else ""
            guard.write(f"{before}{taken.fence}\n", taken.fence)
        elif taken.counts():
            before = path.read_text() if path.exists() else ""
            new = path.with_name(f"{name}.{taken.fence}")
            new.write_text(f"{before}{taken.fence}\n")
            if not taken.counts():
                return
            new.replace(path)
        else:
            return
    except StaleFence:
        return
    late = not taken.counts()
    client.recorder.wrote(Writing(client.name, name, taken.fence, taken.fence, begun, true_clock(), late))
    taken.leave()
    client.give_up(taken)


def _one_of(client: Client, kind: str, count: int) -> str:
    return f"{kind} {client.chance.randrange(count)}"


def _stay(client: Client, taken: Taken, mode: str = "exclusive", slots: int = 1) -> None:
    """Be in the critical section for a moment; sometimes renew in the middle of it."""
    if not taken.enter():
        return
    client.stopping.wait(client.chance.uniform(0, 0.01))
    if client.chance.random() < 0.2:
        taken.renew()
    taken.leave(mode, slots)


TURNS: dict[str, Callable[[Client], None]] = {
    each.__name__: each
    for each in (
        mutex,
        queue,
        semaphore,
        shared,
        several,
        paths,
        pool,
        sessions,
        tries,
        identity,
        counter,
        fenced_counter,
        append_set,
        fenced_set,
        keep,
    )
}
