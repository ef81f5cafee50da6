"""Real processes under mixed faults, with `leasehold.testing.faults`: short here, longer with LEASEHOLD_PROVE=1.

`make faults` and `make faults-long` run the same with 64 clients for 3 and 30 minutes.
"""

from __future__ import annotations

import os

import pytest

from leasehold.testing.etcd import QUICK, Etcd
from leasehold.testing.faults import drills
from leasehold.testing.faults.drills import lost_replies, paused, queues
from leasehold.testing.faults.mishaps import MISHAPS
from leasehold.testing.faults.mixed import Course, MixedRun
from leasehold.testing.faults.sites import SITES

IS_PROOF = bool(os.environ.get("LEASEHOLD_PROVE"))
SECONDS = 180.0 if IS_PROOF else 6.0
CLIENTS = 64 if IS_PROOF else 16
TIMES = 50 if IS_PROOF else 4


@pytest.mark.parametrize("store", SITES)
def test_no_promise_is_broken_under_mixed_faults(store: str) -> None:
    clients = CLIENTS // 8 if store == "git" else CLIENTS
    result = MixedRun(store, Course(seconds=SECONDS, clients=clients, seed=1)).run()
    assert result["violations"] == [], result
    assert result["grants"] > 0


def test_holders_that_are_stopped_past_their_ttl_write_nothing() -> None:
    assert paused("sqlite", TIMES)["violations"] == []


def test_the_retry_after_a_dropped_reply_gets_the_same_lease() -> None:
    result = lost_replies("sqlite", TIMES * 10)
    assert result["violations"] == []
    assert result["faults"]["clients: drop"]["times"] == TIMES * 10


def test_nobody_in_a_queue_is_passed_when_others_are_killed() -> None:
    slack = 0.0 if IS_PROOF else 60.0  # a machine that runs other tests may stand still for a while
    assert queues("sqlite", 20 if IS_PROOF else 1, slack)["violations"] == []


def test_a_drill_ends_after_as_many_kills_and_grants_as_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drills, "GRANTS_PER_KILL", 100)
    result = drills.restarts("sqlite", 1)
    assert result["violations"] == []
    assert sum(fault["times"] for fault in result["faults"].values()) >= 1
    assert result["grants"] >= 100


def test_a_recovery_that_takes_long_is_a_violation() -> None:
    faults = {
        "quick": {"times": 1, "overtaken": 0, "recovery_ms": [4_999]},
        "slow": {"times": 2, "overtaken": 0, "recovery_ms": [100, 5_001]},
        "never": {"times": 1, "overtaken": 1, "recovery_ms": []},
    }
    told = drills._slow_recoveries(faults, 5_000)
    assert ["slow" in told[0], "never" in told[1], len(told)] == [True, True, 2]


def test_every_store_has_the_faults_of_its_parts() -> None:
    assert {name for name, mishaps in MISHAPS.items() if "kill server" in mishaps} == {"sqlite", "postgres", "etcd"}
    assert {name for name, mishaps in MISHAPS.items() if "store: drop" in mishaps} == {"postgres", "etcd"}
    assert "full disk" in MISHAPS["sqlite"]
    assert {"replace member", "cut off member"} <= MISHAPS["etcd"].keys()
    assert all("kill clients" in mishaps for mishaps in MISHAPS.values())


def test_a_member_of_etcd_that_lost_its_data_is_replaced() -> None:
    with Etcd(*QUICK, members=3) as cluster:
        lost = cluster.members[0]
        before = lost.status()["header"]["member_id"]
        lost.kill()
        cluster.replace(lost)
        assert lost.status()["header"]["member_id"] != before
        assert all(member.is_healthy() for member in cluster.members)
