"""The capacity model says what the real rules do, for as many agents as there is time to simulate."""

from __future__ import annotations

import json
import math
import os

import pytest

from leasehold.testing.capacity import SimulatedAgents, Workload, batch_size, main, needed

AGENTS = 100_000 if os.environ.get("LEASEHOLD_PROVE") else 2_000


def test_a_simulation_with_the_real_rules_confirms_the_model() -> None:
    workload = Workload(AGENTS, cycles_per_hour=30, session_ttl=60, leases_per_agent=2, spaces=64)
    counted = SimulatedAgents(workload).run(60)
    plan = needed(workload, commands_per_lane=10_000)
    assert counted.commands == pytest.approx(plan.commands, rel=0.1)
    assert counted.records == pytest.approx(plan.records, rel=0.1)
    assert counted.busiest_lane < 0.5  # 64 spaces in 4 lanes


def test_a_plan_leaves_room_for_bursts() -> None:
    small = needed(Workload(2_000, 60, session_ttl=60, leases_per_agent=3), commands_per_lane=10_000)
    assert (small.lanes, small.servers) == (1, 1)
    large = needed(Workload(1_000_000, 60, session_ttl=60), commands_per_lane=20_000)
    assert large.lanes == math.ceil(2 * large.commands / 20_000) > 1
    assert large.servers == large.lanes
    assert needed(Workload(1_000_000, 60, session_ttl=60), commands_per_lane=20_000, lanes_per_server=2).servers == 5


def test_a_slow_disk_makes_batches_larger_and_a_lane_no_narrower() -> None:
    assert batch_size(10, commit=0.001, each=0.00005) == 1
    assert batch_size(10_000, commit=0.001, each=0.00005) == pytest.approx(20)
    assert batch_size(10_000, commit=0.010, each=0.00005) == pytest.approx(200)
    assert batch_size(20_000, commit=0.001, each=0.00005) == math.inf


def test_it_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--agents", "20", "--seconds", "30"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["needs"]["servers"] == 1
    assert told["simulated"]["commands"] > 0
