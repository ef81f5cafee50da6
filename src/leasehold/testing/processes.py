"""Locks whose calls are carried out in a process of their own: many callers, as many processes. Decides nothing.

    locks = in_a_process(leasehold.connect, "sqlite:///tmp/x.db", holder="alice")
    locks.acquire("r", ttl=60)          # asked by another process, with its own connection
    locks.close()                       # the process has ended

Calls and answers go through the child's standard input and output, as pickles, each call in a thread of the child: so
one connection can wait, be asked and be closed at the same time.
"""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

from leasehold.errors import CLOSED, Closed, Unreachable
from leasehold.locks.sync import Locks

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO, Any

    from leasehold.requests.calls import Call, LossSource

_SIZE = struct.Struct("!I")
PATIENCE = 60.0
"""Seconds that a child may take to end once it was asked to."""


def in_a_process(connect: Callable[..., Locks], *arguments: object, **options: Any) -> ProcessLocks:
    """Return the `Locks` of `connect(*arguments, **options)`, in a process of its own."""
    return ProcessLocks(ProcessAnswers(_start(), connect, arguments, options))


class ChildProcess(Protocol):
    """The part of a `Popen` that a process which runs `carry_out` on its standard input and output must have."""

    stdin: IO[bytes] | None
    stdout: IO[bytes] | None
    pid: int

    def wait(self, timeout: float | None = None) -> int: ...  # noqa: D102
    def kill(self) -> None: ...  # noqa: D102


def _start() -> ChildProcess:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(  # noqa: S603 (our own interpreter, our own module)
        [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )


class ProcessLocks(Locks):
    """Locks that live in another process."""

    def __init__(self, answers: ProcessAnswers) -> None:
        holder, space = answers.opened
        super().__init__(answers, holder=holder, space=space)
        self._process = answers

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.child.pid

    def kill(self) -> None:
        """End it at once, as SIGKILL does; callers that wait for an answer get `Unreachable`."""
        self._process.kill()


class ProcessAnswers:
    """Have a child process answer."""

    def __init__(
        self,
        child: ChildProcess,
        connect: Callable[..., Locks],
        arguments: tuple[object, ...],
        options: dict[str, Any],
    ) -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        self.child = child
        self._to_child: IO[bytes] = child.stdin
        self._from_child: IO[bytes] = child.stdout
        self._sending = threading.Lock()
        self._waiting: dict[int, _Slot] = {}
        self._asked = 0
        self._is_closed = False
        self._listener = threading.Thread(target=self._listen, name="processes", daemon=True)
        self._listener.start()
        try:
            self.opened: tuple[str, str] = self._ask((connect, arguments, options))
        except BaseException:
            self.close()
            raise

    def ask(self, call: Call) -> Any:  # noqa: ANN401 (see `calls.Answers`)
        """Return the child's answer to this call."""
        if self._is_closed:
            raise Closed(CLOSED)
        return self._ask(call)

    def _ask(self, message: object) -> Any:  # noqa: ANN401
        slot = _Slot()
        with self._sending:
            self._asked += 1
            number = self._asked
            self._waiting[number] = slot
            try:
                _send(self._to_child, (number, message))
            except OSError:
                self._waiting.pop(number, None)
                raise Unreachable(f"process {self.child.pid} is gone") from None
        return slot.result()

    def _listen(self) -> None:
        while True:
            received = _receive(self._from_child)
            if received is None:
                break
            number, answer, error = received
            self._waiting.pop(number).fill(answer, error)
        gone = Unreachable(f"process {self.child.pid} ended without an answer")
        while self._waiting:
            self._waiting.popitem()[1].fill(None, gone)

    def losses(self) -> LossSource:
        """Raise: a child process reports no losses, and a holder learns of one when it renews."""
        raise Unreachable("a child process reports no losses")

    def kill(self) -> None:
        """End the child at once; also if it is stopped."""
        self._is_closed = True
        self.child.kill()
        self._reap()

    def close(self) -> None:
        """Close the child's locks, which answers every waiting call, and wait until it has ended."""
        if self._is_closed:
            return
        self._is_closed = True
        with self._sending:
            _close(self._to_child)
        self._reap()

    def _reap(self) -> None:
        try:
            self.child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            raise
        finally:
            self._listener.join(PATIENCE)
            _close(self._to_child)
            _close(self._from_child)


class _Slot:
    """One answer to come."""

    def __init__(self) -> None:
        self._is_here = threading.Event()
        self._answer: object = None
        self._error: BaseException | None = None

    def fill(self, answer: object, error: BaseException | None) -> None:
        self._answer, self._error = answer, error
        self._is_here.set()

    def result(self) -> Any:  # noqa: ANN401
        self._is_here.wait()
        if self._error is not None:
            raise self._error
        return self._answer


def _send(stream: IO[bytes], message: object) -> None:
    data = pickle.dumps(message)
    stream.write(_SIZE.pack(len(data)) + data)
    stream.flush()


def _receive(stream: IO[bytes]) -> Any:  # noqa: ANN401 (whatever was sent; None at the end)
    size = stream.read(_SIZE.size)
    if len(size) < _SIZE.size:
        return None
    data = stream.read(_SIZE.unpack(size)[0])
    return pickle.loads(data)  # noqa: S301 (from our own parent or child)


def _close(stream: IO[bytes]) -> None:
    with suppress(OSError):  # the other side is gone already, with something unread
        stream.close()


# ------------------------------------------------------------------------------------------ in the child


class _Child:
    """Open the locks and answer calls until the parent closes the connection."""

    def __init__(self, requests: IO[bytes], answers: IO[bytes]) -> None:
        self._requests = requests
        self._answers = answers
        self._sending = threading.Lock()
        self._callers: list[threading.Thread] = []
        self._locks: Locks | None = None

    def run(self) -> None:
        while True:
            received = _receive(self._requests)
            if received is None:
                break
            number, message = received
            if self._locks is None:
                self._answer(number, partial(self._open, *message))
            else:
                self._in_a_thread(number, message)
        if self._locks is not None:
            self._locks.close()
        for caller in self._callers:
            caller.join()

    def _open(
        self, connect: Callable[..., Locks], arguments: tuple[object, ...], options: dict[str, Any]
    ) -> tuple[str, str]:
        self._locks = connect(*arguments, **options)
        return self._locks.holder, self._locks.space

    def _in_a_thread(self, number: int, call: Call) -> None:
        verb = getattr(self._locks, call.verb)
        caller = threading.Thread(target=self._answer, args=(number, partial(verb, **call.arguments)), daemon=True)
        self._callers = [each for each in self._callers if each.is_alive()]
        self._callers.append(caller)
        caller.start()

    def _answer(self, number: int, work: Callable[[], object]) -> None:
        answer: object = None
        error: Exception | None = None
        try:
            answer = work()
        except Exception as raised:  # noqa: BLE001 (told to the parent)
            error = raised
        with self._sending:
            _send(self._answers, (number, answer, error))


def carry_out() -> None:
    """Carry out the calls that come through standard input, until it is closed."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output must not get between the answers
    _Child(os.fdopen(0, "rb", closefd=False), answers).run()


if __name__ == "__main__":
    carry_out()
