"""The verbs about plans and pools, which `Locks` has with all others."""

from __future__ import annotations

from leasehold.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Literal, TypedDict, Unpack, overload

    from leasehold.domain.outcomes import Acquired, Planned, PoolDeclared, Refused
    from leasehold.domain.plans import Plan
    from leasehold.locks.arguments import Duration, Names, Wait
    from leasehold.requests.calls import Answers, Call

    class PlanOptions(TypedDict, total=False):
        """The other arguments of a plan."""

        name: str | None
        reason: str | None
        holder: str | None
        session: str | None
        space: str | None
        token: str | Sequence[str] | None
        trace: str | None
else:
    overload = (
        staticmethod  # only type checkers read overloads; `typing` costs a one-shot command more than its acquire
    )


def _is_firm(firm: object, wait: object) -> bool:
    """Return True for a firm plan. Raises `InvalidInput` for a wait of one that is not."""
    from leasehold.requests import checks  # noqa: PLC0415 (on the way of every call, but not of every import)

    if not checks.flag(firm, "firm") and wait is not True:
        raise InvalidInput("wait", "goes with firm=True: any other plan is announced at once")
    return firm is True


class Planning:
    """Verbs about plans and pools."""

    if TYPE_CHECKING:
        _answers: Answers

        def _call(self, verb: str, given: dict[str, Any]) -> Call:
            """See `CallDefaults`."""

        def acquire(self, resources: Names, *args: Any, **terms: Any) -> Acquired:
            """See `Locks`."""

    @overload
    def plan(  # noqa: D102 (an overload)
        self,
        resources: Names,
        *,
        ttl: Duration,
        firm: Literal[False] = False,
        wait: Wait = True,
        **terms: Unpack[PlanOptions],
    ) -> Planned | Refused: ...

    @overload
    def plan(  # noqa: D102, F811 (an overload)
        self,
        resources: Names,
        *,
        ttl: Duration,
        firm: Literal[True],
        wait: Wait = True,
        **terms: Unpack[PlanOptions],
    ) -> Acquired: ...

    def plan(  # noqa: F811 (its overloads)
        self,
        resources: Names,
        *,
        ttl: Duration,
        name: str | None = None,
        reason: str | None = None,
        holder: str | None = None,
        session: str | None = None,
        space: str | None = None,
        token: str | Sequence[str] | None = None,
        trace: str | None = None,
        firm: bool = False,
        wait: Wait = True,
    ) -> Planned | Acquired:
        """Announce what you are about to touch: a soft claim, which grants nothing and blocks nobody.

        The answer shows the conflict matrix: `plan.overlaps`. A plan of the same session, or one that `token` opens, is
        replaced. An acquire with this token or session takes what it leases out of the plan; `release` ends the plan.

        `firm=True` announces nothing: it is an `acquire` of all of it at once, which takes its place in every queue, is
        refused as a deadlock where it would close one, and waits for as long as `wait` says.
        """
        if _is_firm(firm, wait):
            terms = {"holder": holder, "session": session, "space": space, "token": token, "trace": trace}
            return self.acquire(resources, ttl=ttl, wait=wait, name=name, reason=reason, **terms)
        given = {each: value for each, value in locals().items() if each not in ("firm", "wait")}
        outcome: Planned | Refused = self._answers.ask(self._call("plan", given))
        return outcome

    def plans(
        self, *, space: str | None = None, holder: str | None = None, resource: str | None = None
    ) -> tuple[Plan, ...] | Refused:
        """Return every live plan, the oldest first, with what overlaps; of one space, holder or resource if named."""
        outcome: tuple[Plan, ...] | Refused = self._answers.ask(self._call("plans", locals()))
        return outcome

    def declare_pool(
        self, resource: str, members: Sequence[str] | None, *, by: str, space: str | None = None
    ) -> PoolDeclared | Refused:
        """Declare the members of a pool (`pool://gpu`), each with its labels after it; None shows those declared."""
        outcome: PoolDeclared | Refused = self._answers.ask(self._call("declare_pool", locals()))
        return outcome
