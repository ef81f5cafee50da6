"""A FastAPI job that only one caller runs at a time, and whose late writes the file itself refuses.

    pip install fastapi uvicorn
    STATE=state.json uvicorn app:app

A second caller is answered 409 with the holder, its work and the time after which to ask again.
"""

from __future__ import annotations

import json
import os

from fastapi import FastAPI
from fastapi.responses import JSONResponse

import leasehold
from leasehold.fencing import Guard

app = FastAPI()
locks = leasehold.connect(holder="reports")


@app.post("/reports/{name}")
def build(name: str, version: int) -> object:
    """Build a report under its lease, and publish it with the fence."""
    try:
        with locks.lock(f"report:{name}", ttl="1m", name=f"build version {version}") as lease:
            report = {"name": name, "version": version}
            lease.ensure()  # stop early if the lease was lost
            Guard(os.environ["STATE"]).write(json.dumps(report), fence=lease.fence)
            return {"built": report, "fence": lease.fence}
    except leasehold.NotAcquired as refused:
        return JSONResponse({"refused": str(refused)}, status_code=409)
    except (leasehold.LeaseLost, leasehold.StaleFence) as late:
        return JSONResponse({"too late": str(late)}, status_code=409)
