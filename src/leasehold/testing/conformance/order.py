"""Order: first come first served within a priority; no barging, no starvation (spec 3.4)."""

from __future__ import annotations

from leasehold.domain.outcomes import Granted, Held
from leasehold.testing.conformance.asking import (
    LONG,
    Asking,
    Connect,
    at_once,
    expect,
    holders_of,
    needs_fifo,
    queue_of,
    release,
    take,
    wait_for,
)


def _serve_all(connect: Connect, asked: dict[str, Asking[object]]) -> list[str]:
    """Let each release its lease as soon as it gets it; return the holders in the order of their fences."""
    closer = connect(holder="closer")

    def serve(asking: Asking[object]) -> int:
        granted = expect(Granted, asking.answer())
        release(closer, granted)
        return granted.lease.fence

    fences = dict(zip(at_once(serve, asked.values()), asked, strict=True))
    return [fences[fence] for fence in sorted(fences)]


class Order:
    """The order in which waiters are served."""

    def test_order_of_arrival(self, connect: Connect) -> None:
        """First come, first served, whichever connection they came by."""
        needs_fifo(connect)
        holder = connect(holder="holder")
        held = take(holder, "r")
        names = ["first", "second", "third", "fourth"]
        asked = {name: wait_for(connect(holder=name), "r") for name in names}
        assert queue_of(holder, "r") == names
        release(holder, held)
        assert _serve_all(connect, asked) == names

    def test_order_of_priority(self, connect: Connect) -> None:
        """A larger priority is served first; within one it is first come, first served."""
        needs_fifo(connect)
        holder = connect(holder="holder")
        held = take(holder, "r")
        arrivals = [("low", -5), ("one", 0), ("two", 0), ("high", 7), ("higher", 9), ("three", 0)]
        asked = {name: wait_for(connect(holder=name), "r", priority=priority) for name, priority in arrivals}
        expected = ["higher", "high", "one", "two", "three", "low"]
        assert queue_of(holder, "r") == expected
        release(holder, held)
        assert _serve_all(connect, asked) == expected

    def test_order_is_not_jumped_by_a_try(self, connect: Connect) -> None:
        """A caller that does not wait cannot pass waiters, also if the resource could be shared."""
        needs_fifo(connect)
        holder, writer, reader = connect(holder="holder"), connect(holder="writer"), connect(holder="reader")
        held = take(holder, "r", mode="shared")
        asking = wait_for(writer, "r")
        refusal = expect(Held, reader.acquire("r", ttl=LONG, mode="shared"))
        assert [(each.holder, each.state) for each in refusal.blockers] == [("writer", "waiting")]
        release(holder, held)
        expect(Granted, asking.answer())

    def test_order_is_not_jumped_by_a_part(self, connect: Connect) -> None:
        """A free resource is kept for a waiting request for several, though it does not hold it yet."""
        needs_fifo(connect)
        holder, both, one = connect(holder="holder"), connect(holder="both"), connect(holder="one")
        held = take(holder, "b")
        asking = wait_for(both, ["a", "b"])
        expect(Held, one.acquire("a", ttl=LONG))
        release(holder, held)
        expect(Granted, asking.answer())

    def test_order_does_not_starve_a_writer(self, connect: Connect) -> None:
        """Readers that come after a waiting writer wait behind it."""
        needs_fifo(connect)
        holder = connect(holder="holder")
        held = take(holder, "r", mode="shared")
        writer = wait_for(connect(holder="writer"), "r")
        readers = [wait_for(connect(holder=name), "r", mode="shared") for name in ("reader 1", "reader 2")]
        assert holders_of(holder, "r") == ["holder"]
        release(holder, held)
        written = expect(Granted, writer.answer())
        assert not any(asking.is_over for asking in readers)
        release(holder, written)
        assert all(expect(Granted, asking.answer()).lease.fence > written.lease.fence for asking in readers)

    def test_order_lets_readers_in_together(self, connect: Connect) -> None:
        """Readers that are next are all served by one release; the writer behind them waits for all of them."""
        holder = connect(holder="holder")
        held = take(holder, "r")
        readers = [wait_for(connect(holder=name), "r", mode="shared") for name in ("reader 1", "reader 2")]
        writer = wait_for(connect(holder="writer"), "r")
        release(holder, held)
        read = [expect(Granted, asking.answer()) for asking in readers]
        assert holders_of(holder, "r") == ["reader 1", "reader 2"]
        release(holder, read[1])
        assert not writer.is_over
        release(holder, read[0])
        expect(Granted, writer.answer())

    def test_order_does_not_starve_who_wants_several(self, connect: Connect) -> None:
        """Others that come later for one of them wait behind."""
        needs_fifo(connect)
        holder = connect(holder="holder")
        a, b = take(holder, "a"), take(holder, "b")
        both = wait_for(connect(holder="both"), ["a", "b"])
        later = wait_for(connect(holder="later"), "a")
        release(holder, a)
        assert queue_of(holder, "a") == ["both", "later"]
        release(holder, b)
        granted = expect(Granted, both.answer())
        release(holder, granted)
        assert expect(Granted, later.answer()).lease.fence > granted.lease.fence

    def test_order_goes_on_past_who_gave_up(self, connect: Connect) -> None:
        """A closed connection in the middle of the queue costs nobody behind it the turn."""
        needs_fifo(connect)
        holder, gone = connect(holder="holder"), connect(holder="gone")
        held = take(holder, "r")
        first = wait_for(connect(holder="first"), "r")
        wait_for(gone, "r")
        last = wait_for(connect(holder="last"), "r")
        gone.close()
        release(holder, held)
        assert _serve_all(connect, {"first": first, "last": last}) == ["first", "last"]

    def test_order_of_slots(self, connect: Connect) -> None:
        """A semaphore is first come first served as well, and a try does not get past those who wait."""
        needs_fifo(connect)
        holder = connect(holder="holder")
        first, second = take(holder, "pool", slots=2), take(holder, "pool", slots=2)
        names = ["one", "two"]
        asked = [wait_for(connect(holder=name), "pool", slots=2) for name in names]
        release(holder, first)
        expect(Granted, asked[0].answer())
        expect(Held, connect(holder="late").acquire("pool", ttl=LONG, slots=2))
        release(holder, second)
        expect(Granted, asked[1].answer())
        assert holders_of(holder, "pool") == names
