"""One of several who want the same: a process with a clone of its own, told by lines what to ask for."""

from __future__ import annotations

import json
import sys
from typing import Any

import leasehold
from leasehold.domain.leases import Inspection
from leasehold.domain.outcomes import Granted, Released, Renewed
from leasehold.errors import LeaseholdError


def answer(locks: leasehold.Locks, told: dict[str, Any]) -> dict[str, Any]:
    do = told.pop("do")
    if do == "inspect":
        seen = locks.inspect(told["resource"])
        assert isinstance(seen, Inspection)
        return {"holders": [lease.holder for lease in seen.leases], "fences": [lease.fence for lease in seen.leases]}
    if do == "acquire":
        outcome = locks.acquire(told.pop("resources"), **told)
        if isinstance(outcome, Granted):
            return {"lease": outcome.lease.id, "token": outcome.token, "fence": outcome.lease.fence}
        return {"refused": type(outcome).__name__}
    if do == "renew":
        return {"renewed": isinstance(locks.renew(told["lease"], told["token"]), Renewed)}
    released = locks.release(told["lease"], told["token"])
    return {"released": isinstance(released, Released) and released.released}


def main(url: str, holder: str) -> None:
    locks = leasehold.connect(url, holder=holder, threaded=False)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        try:
            said = answer(locks, json.loads(line))
        except LeaseholdError as error:
            said = {"error": error.code, "message": str(error)}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
