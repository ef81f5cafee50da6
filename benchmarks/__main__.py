"""``python -m benchmarks [--smoke] [name …]``: measure, and print each figure beside its peer.

All figures are written to build/benchmarks.json, and drawn in build/benchmarks.svg. If one fails, the others are
measured all the same, and the exit code is 1. QUICK=1 measures the most important ones in three minutes.
"""

from __future__ import annotations

import signal
import sys
import traceback
from pathlib import Path

from benchmarks import (
    core,
    hooks,
    lanes,
    observing,
    over_etcd,
    over_git,
    postgres,
    processes,
    servers,
    serving,
    startup,
)
from benchmarks.report import Figure, is_quick, machine, show, subject, write_json, write_svg


def _core(*, smoke: bool) -> list[Figure]:
    seconds = 0.5 if smoke else 3.0
    return [core.engine_against_sqlite(seconds), core.release_with_waiters(100 if smoke else 1_000)]


def _many(*, smoke: bool) -> list[Figure]:
    return core.many_leases(5_000, 0.5, 1) if smoke else core.many_leases()


def _startup(*, smoke: bool) -> list[Figure]:
    return startup.one_shot(3 if smoke else 10 if is_quick() else 30)


BENCHMARKS = {
    "core": _core,
    "many": _many,
    "startup": _startup,
    "hooks": hooks.decisions,
    "git": over_git.acquiring,
    "processes": processes.taking_turns,
    "processes-on-stores": processes.on_network_stores,
    **serving.BENCHMARKS,
    **observing.BENCHMARKS,
    **postgres.BENCHMARKS,
    **over_etcd.BENCHMARKS,
    **lanes.BENCHMARKS,
    **servers.BENCHMARKS,
}


QUICK = ("startup", "hooks", "processes", "http", "alone", "hand-off")
"""What is measured in three minutes."""
WRITTEN = Path("build", "benchmarks")


def main() -> int:
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(f"{__doc__.splitlines()[0]}\n\nThere are {', '.join(BENCHMARKS)}; see docs/explanation/benchmarks.md.")
        return 0
    smoke = "--smoke" in sys.argv
    names = [word for word in sys.argv[1:] if word != "--smoke"] or list(QUICK if is_quick() else BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
        return 2
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # not without clearing up
    print(f"{subject()}; {machine()}")
    found: dict[str, list[Figure]] = {}
    failed: list[str] = []
    for name in names:
        print(f"{name}{' (smoke: the figures mean nothing)' if smoke else ''}:", flush=True)
        try:
            found[name] = BENCHMARKS[name](smoke=smoke)
        except Exception:  # noqa: BLE001 (told here and by the exit code; the other figures of a long run still count)
            traceback.print_exc()
            failed.append(name)
            continue
        show(found[name])
        write_json(WRITTEN.with_suffix(".json"), found)
        write_svg(WRITTEN.with_suffix(".svg"), found)
    if failed:
        print(f"*** NOT MEASURED, see above: {', '.join(failed)} ***", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
