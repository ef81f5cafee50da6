"""One fault many times: what the issue of a fault kit calls "must hold", each at the volume that there is time for.

==============  ===================================================================================================
`restarts`      grants over kill-restarts: no fence twice or inverted, no acknowledged grant lost
`paused`        holders stopped past their TTL: no stale write through the fence, and the SDK raises before the next
`lost-replies`  replies dropped after the commit: the retry gets the same lease and fence, and there are no orphans
`partitions`    every proxy silent for a while: no overlap, and recovery within a TTL and two seconds
`wires`         the same with a host for each part, whose wires lose all packets, both ways or one way
`queues`        many waiters, a tenth of them killed in each round: no inversion; a dead waiter costs 2 s at most
==============  ===================================================================================================
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import leasehold
from leasehold.domain.outcomes import Granted, Refused
from leasehold.errors import LeaseholdError, LeaseLost, StaleFence, StoreError
from leasehold.fencing import Guard
from leasehold.testing.checker import check
from leasehold.testing.faults.mixed import Course, MixedRun, recorded
from leasehold.testing.faults.programs import PATIENCE, Program
from leasehold.testing.faults.sites import SITES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasehold.testing.faults.sites import Site

HOLDER = "leasehold.testing.faults.drills"
TTL, TTL_OVER_GIT = 1.0, 10.0
"""Seconds for which a holder that is stopped has its lease. Over git, each of its steps takes up to some seconds."""
AT_ONCE = 8
GRANTS_PER_KILL = 5_000
FLOODING = 2_048
"""Tasks that flood each server."""
LONGEST = 2.0
"""Seconds that a dead waiter may cost the others, and that a recovery may take beyond a TTL."""


def restarts(store: str, times: int, longest: float = math.inf) -> dict[str, Any]:
    """Kill and start again, until there were so many kills and 5,000 times as many grants, or for so many seconds."""
    kills = {
        "sqlite": ["kill server", "kill clients"],
        "postgres": ["kill server", "crash of PostgreSQL"],
        "etcd": ["kill server", "kill member"],
        "git": ["kill clients"],
    }
    course = Course(
        seconds=1,
        longest=longest,
        mishaps=times,
        grants=times * GRANTS_PER_KILL,
        clients=16,
        only=kills[store],
        workloads=["keep", "tries"],
        flood=FLOODING,
        lasting=(0.05, 0.3),
        beyond_ttl=0,
        between=(2.0, 8.0),
    )
    return MixedRun(store, course).run()


def partitions(store: str, times: int, seconds: float = 60.0, slack: float = 0.0) -> dict[str, Any]:
    """Let a proxy be silent for so long, again and again. `slack` is what a busy machine may add to a recovery."""
    ways = ["clients: silent", "clients: mute", "clients: deaf"]
    if store in ("postgres", "etcd"):
        ways += ["store: silent", "store: mute", "store: deaf"]
    if store == "etcd":
        ways += ["cut off member"]
    if store == "git":
        raise LeaseholdError("git is reached through no proxy")
    course = Course(seconds=1, mishaps=times, clients=16, only=ways, lasting=(seconds, seconds), beyond_ttl=0)
    longest = course.ttl + LONGEST + slack
    result = MixedRun(store, course._replace(between=(longest, longest + 1))).run()  # so that each recovery is seen
    result["violations"] += _slow_recoveries(result["faults"], longest * 1_000)
    return result


def wires(store: str, times: int, seconds: float = 60.0, slack: float = 0.0) -> dict[str, Any]:
    """Cut the wire of a host for so long, again and again: of clients, of a server, of a store. See `namespaces`."""
    if store == "git":
        raise LeaseholdError("git is reached through no network")
    course = Course(seconds=1, mishaps=times, clients=16, lasting=(seconds, seconds), beyond_ttl=0)
    longest = course.ttl + LONGEST + slack
    result = MixedRun(store, course._replace(between=(longest, longest + 1)), apart=True).run()
    result["violations"] += _slow_recoveries(result["faults"], longest * 1_000)
    return result


def _slow_recoveries(faults: dict[str, Any], longest_ms: float) -> list[str]:
    """Return the recoveries that took longer, or were not seen before the next fault."""
    return [
        f"recovery: {max(fault['recovery_ms'], default=0):,} ms, and {fault['overtaken']} not seen, after {name}"
        for name, fault in faults.items()
        if fault["overtaken"] or max(fault["recovery_ms"]) > longest_ms
    ]


# ------------------------------------------------------------------------------------------- holders that are paused


def paused(store: str, times: int) -> dict[str, Any]:
    """Stop holders past their TTL, let others write meanwhile, and continue the holders."""
    wrong: list[str] = []
    begun = monotonic()
    with SITES[store]() as site:
        url = site.urls()[0][1]
        share = [times // AT_ONCE + (number < times % AT_ONCE) for number in range(AT_ONCE)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            pausing = [pool.submit(_pause_often, site, url, number, count) for number, count in enumerate(share)]
            for each in pausing:
                wrong += each.result()
    shutil.rmtree(site.folder, ignore_errors=True)
    return _told(store, begun, times, {"stop the holder past its TTL": times}, wrong)


def _pause_often(site: Site, url: str, number: int, times: int) -> list[str]:
    return [wrong for turn in range(times) for wrong in _pause_once(site, url, f"paused {number} {turn}")]


def _pause_once(site: Site, url: str, name: str) -> list[str]:
    path = site.folder / f"{name}.txt"
    # A holder of its own machine: over git, the processes of one state directory wait for one that is stopped.
    state = {"XDG_STATE_HOME": str(site.folder / f"state of {name}")}
    holder = Program([HOLDER, url, name, str(path)], site.folder / "holders.log", state)
    holder.start()
    try:
        first = int(holder.announced())
        holder.stop()
        with leasehold.connect(url, holder="other") as locks:
            granted = locks.acquire(name, ttl=600, wait=60)
            if not isinstance(granted, Granted):
                return [f"{name}: a stopped holder kept it: {granted}"]
            Guard(path).write("other", granted.lease.fence)
            holder.go_on()
            said = json.loads(holder.announced())
            locks.release(granted)
        found = [] if granted.lease.fence > first else [f"fence: {granted.lease.fence} came after {first}"]
        if said != ["LeaseLost", "StaleFence"]:
            found.append(f"{name}: a holder that was stopped past its TTL heard {said}")
        if path.read_text() != "other":
            found.append(f"{name}: a stale write got through the fence")
        return found
    finally:
        holder.kill()


def hold(url: str, name: str, path: Path) -> None:
    """Be such a holder: take the lease, print its fence, and be stopped; then check the lease, and write."""
    said = []
    with leasehold.connect(url, holder="holder") as locks:
        lock = locks.lock(name, ttl=TTL_OVER_GIT if url.startswith("git") else TTL)
        held = lock.acquire()
        guard = Guard(path)
        guard.write("holder", held.fence)
        sys.stdout.write(f"{held.fence}\n")
        sys.stdout.flush()
        end = monotonic() + PATIENCE
        while guard.highest == held.fence and monotonic() < end:
            sleep(0.005)  # a process that is stopped here notices nothing
        for step in (held.ensure, lambda: guard.write("stale", held.fence)):
            try:
                step()
                said.append("nothing")
            except (LeaseLost, StaleFence) as error:
                said.append(type(error).__name__)
    sys.stdout.write(f"{json.dumps(said)}\n")
    sys.stdout.flush()


# ------------------------------------------------------------------------------------- replies that nobody gets


def lost_replies(store: str, times: int) -> dict[str, Any]:
    """Drop one reply after the other, of a server to its client or of the store to the server."""
    if store == "git":
        raise LeaseholdError("git is reached through no proxy")
    begun, wrong, struck = monotonic(), list[str](), dict[str, int]()
    with SITES[store]() as site, leasehold.connect(site.servers[0].url, holder="client") as locks:
        proxies = {"clients: drop": site.servers[0].proxy}
        proxies |= {f"store: drop ({number})": proxy for number, proxy in enumerate(site.store_proxies)}
        asked = 0
        while sum(struck.values()) < times and asked < times * 2:
            way = [*proxies][asked % len(proxies)]
            before = proxies[way].dropped
            proxies[way].go("drop-once")
            wrong += _ask_and_release(locks, f"lost {asked}")
            struck[way] = struck.get(way, 0) + proxies[way].dropped - before
            proxies[way].go("pass")
            asked += 1  # in vain if the server just then talks to another member of the store
        if sum(struck.values()) < times:
            wrong.append(f"broken: of {asked} replies only {sum(struck.values())} could be dropped")
        with site.judge() as judge:
            left = judge.list()
            assert not isinstance(left, Refused), left
            wrong += [f"residue: {lease}" for lease in left]
            events = [*recorded(judge)]
        wrong += [f"{each.kind}: {each.message}" for each in check(events, finished=True)]
        names = [event.resources for event in events if event.kind == "granted"]
        wrong += [f"retry: {name} was granted twice" for name in names if names.count(name) > 1]
    shutil.rmtree(site.folder, ignore_errors=True)
    return _told(store, begun, asked, struck, wrong)


def _ask_and_release(locks: leasehold.Locks, name: str) -> list[str]:
    granted = _until_known(lambda: locks.acquire(name, ttl=600, request_id=name))
    if not isinstance(granted, Granted):
        return [f"retry: {name} got {granted}"]
    return [] if _until_known(lambda: locks.release(granted)) is not None else [f"retry: {name} was not released"]


def _until_known(ask: Callable[[], object]) -> object:
    """Ask again while nobody knows what became of it; None: nobody ever did."""
    for _ in range(10):
        try:
            return ask()
        except StoreError:
            continue
    return None


# ------------------------------------------------------------------------------------------- queues with dead waiters

WAITERS, IN_EACH = 20, 5


def queues(store: str, times: int, slack: float = 0.0) -> dict[str, Any]:
    """Run rounds of a hundred waiters, a tenth of them killed while they wait. `slack` as for `partitions`."""
    if store == "git":
        raise LeaseholdError("over git the order of a queue is best effort")
    begun, wrong, gaps = monotonic(), list[str](), [0.0]
    with SITES[store]() as site, leasehold.connect(site.servers[0].url, holder="first") as locks:
        urls = [server.url for server in site.servers]
        crowd = [_waiters(site, urls[number % len(urls)], number) for number in range(WAITERS)]
        try:
            for each in crowd:
                each.announced()
            for turn in range(times):
                dead = _queue_once(locks, crowd, turn)
                crowd = [
                    _waiters(site, urls[number % len(urls)], number) if number in dead else each
                    for number, each in enumerate(crowd)
                ]
                for number in dead:
                    crowd[number].announced()
        finally:
            for each in crowd:
                each.kill()
        with site.judge() as judge:
            events = [*recorded(judge)]
    for turn in range(times):
        at = [event.at_us for event in events if event.kind == "granted" and f"queue {turn}" in event.resources]
        gaps += [(after - before) / 1_000 for before, after in pairwise(at)]
    wrong += [f"{each.kind}: {each.message}" for each in check(events)]
    wrong += [f"dead waiter: {gap:,.0f} ms until the next grant" for gap in gaps if gap > (LONGEST + slack) * 1_000]
    shutil.rmtree(site.folder, ignore_errors=True)
    killed = {"kill waiting clients": times * WAITERS // 10 * IN_EACH}
    told = _told(store, begun, times * WAITERS * IN_EACH, killed, wrong)
    return {**told, "longest_gap_ms": round(max(gaps))}


def _waiters(site: Site, url: str, number: int) -> Program:
    program = Program([HOLDER, "wait", url, f"{number}"], site.folder / "waiters.log")
    program.start()
    return program


def _queue_once(locks: leasehold.Locks, crowd: Sequence[Program], turn: int) -> list[int]:
    """Run one round. Return the numbers of the waiters that were killed."""
    name, dead = f"queue {turn}", [(turn * 2) % WAITERS, (turn * 2 + 1) % WAITERS]
    held = locks.acquire(name, ttl=600)
    assert isinstance(held, Granted), held
    for each in crowd:
        assert each.running.stdin is not None
        each.running.stdin.write(f"{name}\n")
        each.running.stdin.flush()
    end = monotonic() + PATIENCE
    while len(_waiting(locks, name)) < WAITERS * IN_EACH and monotonic() < end:
        sleep(0.05)
    for number in dead:
        crowd[number].kill()
    locks.release(held)
    for number, each in enumerate(crowd):
        if number not in dead:
            each.announced()
    return dead


def _waiting(locks: leasehold.Locks, name: str) -> Sequence[object]:
    seen = locks.inspect(name)
    return () if isinstance(seen, Refused) else seen.waiting


def wait(url: str, number: str) -> None:
    """Be some of those waiters: for each name on standard input, wait for it, release it, and say that."""
    opened = [leasehold.connect(url, holder=f"waiter {number}-{each}") for each in range(IN_EACH)]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        threads = [threading.Thread(target=_wait_once, args=(locks, line.strip())) for locks in opened]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sys.stdout.write("done\n")
        sys.stdout.flush()


def _wait_once(locks: leasehold.Locks, name: str) -> None:
    granted = locks.acquire(name, ttl=60, wait=PATIENCE * 2)
    assert isinstance(granted, Granted), granted
    locks.release(granted)


# ------------------------------------------------------------------------------------------------------------ all


def _told(store: str, begun: float, operations: int, struck: dict[str, int], wrong: list[str]) -> dict[str, Any]:
    faults = {name: {"times": count, "recovery_ms": []} for name, count in struck.items()}
    told = {"store": store, "seconds": round(monotonic() - begun), "operations": operations}
    return {**told, "faults": faults, "violations": wrong}


DRILLS: dict[str, Callable[[str, int], dict[str, Any]]] = {
    "restarts": restarts,
    "paused": paused,
    "lost-replies": lost_replies,
    "partitions": partitions,
    "wires": wires,
    "queues": queues,
}
TIMES = {"restarts": 200, "paused": 200, "lost-replies": 1_000, "partitions": 4, "wires": 9, "queues": 20}
"""The volumes that must hold; over git a tenth."""


if __name__ == "__main__":
    if sys.argv[1] == "wait":
        wait(*sys.argv[2:])
    else:
        hold(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
