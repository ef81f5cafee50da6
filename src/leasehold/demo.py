"""See it work: three processes compete for one resource. Run it with ``python -m leasehold.demo``.

Each process opens the same database by itself; there is no server. The first line of each change shows who holds the
resource with which fence, and who waits, in the order in which they will be served.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import leasehold

AGENTS = ("coder-1", "coder-2", "coder-3")
ROUNDS = 3
RESOURCE = "deploy://api-prod"


def main() -> int:
    """Start the agents, show what happens, and tell how it went."""
    with tempfile.TemporaryDirectory(prefix="leasehold-demo-") as folder:
        url = f"sqlite://{Path(folder) / 'leasehold.db'}"
        print(f"{len(AGENTS)} processes, {ROUNDS} deploys each, one resource: {RESOURCE}\n")
        with leasehold.connect(url, holder="onlooker") as locks:
            command = [sys.executable, "-m", __spec__.name, url]
            agents = [subprocess.Popen([*command, name]) for name in AGENTS]  # noqa: S603 (this very program)
            try:
                _show(locks, agents)
            finally:
                for agent in agents:
                    agent.kill()
                    agent.wait()
            return _summary(locks, agents)


def _show(locks: leasehold.Locks, agents: list[subprocess.Popen[bytes]]) -> None:
    """One line for each change of who holds and who waits."""
    shown = ""
    while any(agent.poll() is None for agent in agents):
        seen = locks.inspect(RESOURCE)
        if isinstance(seen, leasehold.Inspection):
            waiting = ", ".join(waiter.holder for waiter in seen.waiting) or "nobody"
            line = "".join(f"held by {lease.holder} (fence {lease.fence})" for lease in seen.leases) or "free"
            if (line := f"  {line:<28} waiting: {waiting}") != shown:
                print(line, flush=True)
                shown = line
        time.sleep(0.02)


def _summary(locks: leasehold.Locks, agents: list[subprocess.Popen[bytes]]) -> int:
    events = locks.history(resource=RESOURCE, kinds=("granted", "released"), limit=1_000)
    if isinstance(events, leasehold.Refused):
        print(events.message)
        return 1
    order = [(event.kind, event.fence) for event in reversed(events)]
    fences = [fence for kind, fence in order if kind == "granted"]
    took_turns = order == [(kind, fence) for fence in fences for kind in ("granted", "released")]
    print(f"\n{len(fences)} grants, fences {', '.join(map(str, fences))}")
    print("never two at a time" if took_turns and fences == sorted(fences) else "SOMETHING WENT WRONG: two at a time")
    done = took_turns and len(fences) == ROUNDS * len(AGENTS) and all(agent.returncode == 0 for agent in agents)
    return 0 if done else 1


def _work(url: str, name: str) -> int:
    """What one agent does: take the lease, work, give it back, and so on."""
    with leasehold.connect(url, holder=name, threaded=False) as locks:
        for _ in range(ROUNDS):
            outcome = locks.acquire(RESOURCE, ttl="10s", wait="1m", name="deploy api-prod")
            if not isinstance(outcome, leasehold.Granted):
                print(f"  {name}: {outcome}")
                return 1
            time.sleep(random.uniform(0.2, 0.5))  # noqa: S311 (the work that it does under the lease)
            locks.release(outcome.lease.id, outcome.token)
    return 0


if __name__ == "__main__":
    sys.exit(main() if len(sys.argv) == 1 else _work(*sys.argv[1:]))
