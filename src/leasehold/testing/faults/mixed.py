"""Many clients, one mishap after the other, and then the judgement. See `leasehold.testing.faults`."""

from __future__ import annotations

import math
import pickle
import random
import shutil
import time
import zlib
from collections import Counter
from typing import TYPE_CHECKING, Any

from leasehold.domain.nouns import Noun
from leasehold.domain.outcomes import Refused
from leasehold.testing.checker import check
from leasehold.testing.faults.apart import APART
from leasehold.testing.faults.checkers import check_clients
from leasehold.testing.faults.flood_history import FloodEvents, FloodHistory
from leasehold.testing.faults.mishaps import MISHAPS, OF_NETWORKS, Targets
from leasehold.testing.faults.recording import GrantCounter, read, true_clock
from leasehold.testing.faults.sites import SITES, listed
from leasehold.testing.faults.teams import FLOOD, Team, TeamPlan
from leasehold.testing.faults.workloads import TURNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import leasehold
    from leasehold.domain.events import Event
    from leasehold.testing.faults.recording import ClientHistory, Invocation
    from leasehold.testing.faults.sites import Site

SECOND = 1_000_000_000
LEFT = 60.0
"""Seconds after which nothing may be left of what was held."""
FLOOD_TTL = 30.0
"""Seconds: longer than any restart, so that what was acknowledged before it must be there after it."""


class Course(Noun):
    """How a run goes."""

    seconds: float = 60.0
    longest: float = math.inf
    """It ends after so many seconds even with fewer mishaps and grants than these:"""
    mishaps: int = 0
    """How many mishaps at least, however long that takes,"""
    grants: int = 0
    """and how many grants at least."""
    clients: int = 64
    seed: int = 1
    only: Sequence[str] = ()
    """Names of mishaps; all that the store has, if there are none."""
    workloads: Sequence[str] = ()
    """Names of workloads; all, if there are none."""
    flood: int = 0
    """Tasks that flood each server, or the store itself if it has none. See `flood`."""
    lasting: tuple[float, float] = (0.5, 2.0)
    """Seconds that a mishap lasts,"""
    beyond_ttl: float = 0.25
    """but a TTL longer for this part of them."""
    between: tuple[float, float] = (1.0, 3.0)
    """Seconds between two mishaps."""
    ttl: float = 3.0
    share: float = 0.8
    """The part of it that a holder counts on. Clocks may run a tenth faster on one side and slower on the other, and
    (1 - 1/10) / (1 + 1/10) is 0.818."""


class MixedRun:
    """One run on one store; `apart`: each of its parts on a host of its own."""

    def __init__(self, store: str, course: Course, *, apart: bool = False) -> None:
        self.site: Site = (APART if apart else SITES)[store]()
        self.course = course
        self._chance = random.Random(course.seed)
        known = (OF_NETWORKS if apart else MISHAPS)[store]
        self._mishaps = {name: known[name] for name in (course.only or known)}
        self._teams: list[Team] = []
        self.struck: list[tuple[str, int, int]] = []
        """Each mishap, when it began and when all was well again."""

    def run(self) -> dict[str, Any]:
        """Run, judge, and return the result; the history is kept if a promise was broken."""
        with self.site:
            teams, begun = self._made_teams(), true_clock()
            for team in teams:
                team.start()
            try:
                self._strike(Targets(self.site, teams, self._chance))
                ended = true_clock()
                codes = [team.program.finish() for team in teams]
            finally:
                for team in teams:
                    team.program.kill()
            killed = [name for team in teams for name in team.killed]
            history = read(self.site.folder.glob("history-*.jsonl"))
            flood = FloodHistory.read(self.site.folder.glob("flood-*.txt"))
            violations = self._judge(history, flood, killed)
            if any(codes):
                violations.append(f"broken: processes of clients ended with {codes}")
        result = self._result(history, flood, violations, begun, ended)
        if violations:
            result["kept_in"] = str(self.site.folder)
        else:
            shutil.rmtree(self.site.folder, ignore_errors=True)
        return result

    def _made_teams(self) -> list[Team]:
        course = self.course
        each = 8 if course.clients % 8 == 0 else 1
        workloads = [*(course.workloads or TURNS)]
        plan = TeamPlan(each, workloads, course.ttl, course.share, course.seed)
        self._teams = [Team(self.site, number, plan) for number in range(course.clients // each)]
        flooding = plan._replace(clients=course.flood, ttl=FLOOD_TTL, module=FLOOD)
        floods = range(max(1, len(self.site.servers)) if course.flood else 0)
        return [*self._teams, *(Team(self.site, number, flooding) for number in floods)]

    def _strike(self, targets: Targets) -> None:
        """Strike with one mishap after the other, each kind as often as the others."""
        course, left, counter = self.course, list[str](), GrantCounter(self.site.folder)
        start = time.monotonic()

        def is_over() -> bool:
            past = time.monotonic() - start
            is_enough = len(self.struck) >= course.mishaps and (not course.grants or counter.count() >= course.grants)
            return past >= course.longest or (past >= course.seconds and is_enough)

        while not is_over():
            time.sleep(self._chance.uniform(*course.between))
            if not left:
                left = [*self._mishaps]
                self._chance.shuffle(left)
            name = left.pop()
            begun = true_clock()
            undo = self._mishaps[name](targets)
            longer = course.ttl + 0.5 if self._chance.random() < course.beyond_ttl else 0.0
            time.sleep(self._chance.uniform(*course.lasting) + longer)
            undo()
            self.struck.append((name, begun, true_clock()))
        time.sleep(course.ttl)  # so that the last of them is judged as well

    def _judge(self, history: ClientHistory, flood: FloodHistory, killed: Sequence[str]) -> list[str]:
        lists = {path.stem: listed(path.read_text()) for path in self.site.folder.glob("*list.txt")}
        found = check_clients(history, share=self.course.share, killed=killed, lists=lists) + flood.violations()
        with self.site.judge() as locks:
            if self.site.records_events:
                passing = FloodEvents(flood)
                events = [*passing.others(recorded(locks))]
                found += passing.found
                engines = {str(event.detail["engine"]) for event in events if "engine" in (event.detail or {})}
                found += check(events, dead_engines=dict.fromkeys(engines, 0))  # any engine may have been struck
            left = self._left(locks)
        return [f"{each.kind}: {each.message}" for each in found] + left

    def _left(self, locks: leasehold.Locks) -> list[str]:
        """After all clients have gone and their TTL too, nothing is held and nobody waits."""
        end = time.monotonic() + LEFT
        while True:
            leases, sessions = locks.list(), locks.sessions()
            if not leases and not sessions:
                return []
            if time.monotonic() > end:
                return [f"residue: {leases} {sessions}"]
            time.sleep(0.2)

    def _result(
        self, history: ClientHistory, flood: FloodHistory, violations: list[str], begun: int, ended: int
    ) -> dict[str, Any]:
        calls = history.invocations
        return {
            "store": self.site.name,
            "seconds": round((ended - begun) / SECOND),
            "clients": self.course.clients,
            "seed": self.course.seed,
            "operations": len(calls) + len(history.writings) + flood.calls,
            "grants": sum(each.kind == "granted" for each in calls) + len(flood.fences),
            "unknown": sum(each.reply is None or each.kind == "unknown" for each in calls) + flood.unknown,
            "sections": len(history.sections),
            "writes": len(history.writings),
            "late_writes": sum(each.is_late for each in history.writings),
            "outcomes": dict(sorted(Counter(each.kind for each in calls).items())),
            "faults": self._faults(calls, ended),
            "violations": violations,
        }

    def _faults(self, calls: Sequence[Invocation], ended: int) -> dict[str, Any]:
        """Return how often each mishap struck, and how long after its end every process of clients had a grant.

        `overtaken` counts those after which that had not happened when the next mishap began.
        """
        told: dict[str, Any] = {}
        nexts = [*(begun for _, begun, _ in self.struck[1:]), ended]
        for (name, _, healed), following in zip(self.struck, nexts, strict=True):
            known = told.setdefault(name, {"times": 0, "overtaken": 0, "recovery_ms": []})
            known["times"] += 1
            recovered = _recovered(calls, healed, {team.slot for team in self._teams})
            if recovered is None or recovered > following:
                known["overtaken"] += 1
            else:
                known["recovery_ms"].append(round((recovered - healed) / 1_000_000))
        return dict(sorted(told.items()))


def _recovered(calls: Sequence[Invocation], healed: int, slots: set[str]) -> int | None:
    """Return when the last of these processes had a grant that it asked for after `healed`; None if one never did."""
    first: dict[str, int] = {}
    for call in calls:
        slot = call.client.partition(".")[0]
        if call.kind == "granted" and healed <= call.call and slot not in first:
            first[slot] = call.reply or 0
    return max(first.values()) if first.keys() >= slots else None


def recorded(locks: leasehold.Locks) -> Iterator[Event]:
    """Yield the whole history of a store, oldest first; over git there is none. Pages are packed, as there are many."""
    pages: list[bytes] = []
    before: int | None = None
    while True:
        page = locks.history(limit=10_000, before=before)
        if isinstance(page, Refused) or not page:
            break
        pages.append(zlib.compress(pickle.dumps(page), 1))
        before = page[-1].seq
    while pages:
        yield from reversed(pickle.loads(zlib.decompress(pages.pop())))  # noqa: S301 (our own)
