"""No `repr` and no error shows a token, a secret or a password: those end up in logs and in tracebacks."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import traceback
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold.config import settings as config
from leasehold.domain.nouns import SECRETS
from leasehold.domain.outcomes import Granted
from leasehold.domain.sessions import SessionStarted
from leasehold.errors import LeaseholdError
from leasehold.testing.conformance.asking import expect

if TYPE_CHECKING:
    from leasehold.locks.sync import Locks
    from tests.kit.shell import Shell

SECRET = "5ecre7-never-shown"
URL = f"etcd://ada:{SECRET}@host:2379?password={SECRET}"


def kinds() -> list[Any]:
    """Every named tuple of the package that has a field for a secret, once."""
    found: dict[str, Any] = {}
    for module in pkgutil.walk_packages(leasehold.__path__, "leasehold."):
        if "__main__" not in module.name and "testing.conformance" not in module.name:
            for name, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
                if kind.__module__ == module.name and hasattr(kind, "_fields"):
                    found[f"{module.name}.{name}"] = kind
    may_leak = SECRETS | {"url"}
    return [kind for kind in found.values() if may_leak & {*kind._fields}]


def test_no_repr_shows_a_secret() -> None:
    hidden = {"url": URL, **dict.fromkeys(SECRETS, SECRET), "headers": (SECRET,), "tokens": (SECRET,)}
    made = [kind(*(hidden.get(field, "") for field in kind._fields)) for kind in kinds()]
    assert len(made) > 20
    assert [each for each in map(repr, made) if SECRET in each] == []


def test_where_the_locks_live_is_shown_without_its_password() -> None:
    assert "host:2379" in repr(config.find(URL))
    assert SECRET not in repr(config.find(URL))


def test_leases_are_shown_without_their_secrets(locks: Locks) -> None:
    started = expect(SessionStarted, locks.start_session(ttl=60, session=f"s1.{SECRET}"))
    granted = expect(Granted, locks.acquire("job", ttl=60, session=started.secret))
    key = locks.create_key(role="agent", name="ci")
    assert key
    with locks.lock("other", session=started.secret) as held:
        shown = repr([started, granted, key, held, held.tenure, locks, locks.lock("more", session=started.secret)])
        secrets = (SECRET, granted.token, held.token, key.credential, key.credential.rpartition("_")[2])
        assert not [secret for secret in secrets if secret in shown]


@pytest.mark.parametrize(
    "argument", [{"session": SECRET}, {"session": f"{SECRET}\n"}, {"token": f"{SECRET}\0"}, {"session": f".{SECRET}"}]
)
def test_no_error_quotes_a_secret(locks: Locks, argument: dict[str, Any]) -> None:
    with pytest.raises(LeaseholdError) as caught:
        locks.renew("l1-" + "0" * 32, **argument)
    told = "".join(traceback.format_exception_only(caught.value)) + repr(caught.value) + repr(caught.value.args)
    assert SECRET not in told


URLS = (
    *(URL, f"http://ada:{SECRET}@host", f"nonsense://a:{SECRET}@b", f"http://127.0.0.1:1?token={SECRET}"),
    *(f"postgresql://ada:{SECRET}@127.0.0.1:1/db", f"postgresql://127.0.0.1:1/db?password={SECRET}"),
    *(f"postgresql://127.0.0.1:1/db?sslpassword={SECRET}", f"postgresql://127.0.0.1:1/db?pass%77ord={SECRET}"),
    *(f"postgres:host=127.0.0.1 port=1 password={SECRET}", f"git+http://127.0.0.1:1/x.git?password={SECRET}"),
    *(f"sqlite:x.db?password={SECRET}", f"ada:{SECRET}@db/locks", f"git+https://{SECRET}@127.0.0.1:1/x.git"),
    *(f"https://{SECRET}@127.0.0.1:1", f"http://127.0.0.1:1?key={SECRET}"),
)


@pytest.mark.parametrize("url", URLS)
def test_no_error_quotes_a_password(url: str) -> None:
    with pytest.raises(LeaseholdError) as caught, leasehold.connect(url) as locks:
        locks.list()
    assert SECRET not in "".join(traceback.format_exception(caught.value, chain=True))


@pytest.mark.parametrize("words", [("acquire", "x"), ("acquire", "x", "--json"), ("doctor",), ("serve", "--port", "0")])
@pytest.mark.parametrize("url", URLS)
def test_no_message_of_the_command_line_shows_a_password(shell: Shell, url: str, words: tuple[str, ...]) -> None:
    done = shell.call(*words, "--url", url)
    assert done.code != 0
    assert SECRET not in done.out + done.err
