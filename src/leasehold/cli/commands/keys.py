"""keys create, list, rotate, revoke: the API keys of this store's servers."""

from __future__ import annotations

from pathlib import Path

from leasehold.cli.commands.acquire import write_secret
from leasehold.cli.context import accepted
from leasehold.cli.output import moment, step
from leasehold.cli.terminal.columns import table, width_of_terminal
from leasehold.domain.api_keys import KeyCreated, KeyRevoked, KeyRotated
from leasehold.domain.names import shown
from leasehold.domain.outcomes import Refused
from leasehold.domain.timestamps import FOREVER
from leasehold.errors import InvalidInput
from leasehold.wire import shapes as wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.cli.context import Context


def create(context: Context) -> int:
    """Create a key and print it once."""
    values = context.values
    where = _unused_file(context)
    # From the first key on, servers require one, so an admin should have one, too.
    known = () if values["role"] == "admin" else context.locks.keys()
    is_first = not isinstance(known, Refused) and all(each.role != "admin" for each in known)
    is_careless = is_first and values["role"] != "admin"
    outcome = accepted(
        context.locks.create_key(
            role=values["role"], name=values["name"], space=context.space, prefixes=tuple(values["prefix"] or ())
        )
    )
    if is_careless:
        make = context.suggest("keys create", "NAME", more=" --role admin")
        said = "Careful: servers require a key from everyone now, and no admin has one yet"
        context.out.warn(f"{said}\n{step('make one for an admin', make)}")
    if where is None:
        return context.end(outcome, outcome.credential)
    _write(context, where, outcome)
    told = {"key": wire.encoded("Key", outcome.key), "key_file": where}  # the secret is in the file alone
    return context.end(outcome, f"Key {outcome.key.id} of {shown(outcome.key.name)}, {outcome.key.role}", told)


def rotate(context: Context) -> int:
    """Create another key of the same principal and print it once."""
    values = context.values
    where = _unused_file(context)
    outcome = accepted(context.locks.rotate_key(values["key"], overlap=values["overlap"]))
    until = f"{outcome.before.id} counts until {moment(outcome.before.until_us)}"
    if where is None:
        context.out.warn(f"Key {outcome.key.id} of {shown(outcome.key.name)}; {until}")
        return context.end(outcome, outcome.credential)
    _write(context, where, outcome)
    told = {"key": wire.encoded("Key", outcome.key), "before": wire.encoded("Key", outcome.before), "key_file": where}
    return context.end(outcome, f"Key {outcome.key.id} of {shown(outcome.key.name)}; {until}", told)


def _write(context: Context, where: str, outcome: KeyCreated | KeyRotated) -> None:
    try:
        write_secret(where, outcome.credential, "key_file")
    except InvalidInput:
        context.locks.revoke_key(outcome.key.id)  # no one will ever know it
        raise


def _unused_file(context: Context) -> str | None:
    """Return --key-file. Raises InvalidInput for one with contents: a lost key cannot be shown again."""
    path: str | None = context.values["key_file"]
    if path is not None and Path(path).is_file() and Path(path).stat().st_size:
        raise InvalidInput("key_file", f"{shown(path)} is there, perhaps with a key: name another, or remove it")
    return path


def list_keys(context: Context) -> int:
    """Print every key, without its secret."""
    found = accepted(context.locks.keys())
    rows: list[tuple[str, ...]] = [
        (
            each.id,
            each.role,
            each.space,
            each.name,
            moment(each.created_us),
            "" if each.until_us >= FOREVER else moment(each.until_us),
            " ".join(each.prefixes),
        )
        for each in found
    ]
    heads = ("KEY", "ROLE", "SPACE", "NAME", "SINCE", "UNTIL", "PREFIXES")
    text = table(rows, heads, width_of_terminal()) if rows else "No keys."
    return context.end(found, text, {"keys": wire.encoded("Key[]", found)})


def revoke(context: Context) -> int:
    """Revoke a key."""
    id_ = context.values["key"]
    outcome: KeyRevoked | Refused = context.locks.revoke_key(id_)
    if isinstance(outcome, KeyRevoked) and not outcome.revoked:
        outcome = Refused("not_found", "", f"there is no key {id_}")
    return context.end(outcome, f"Revoked {shown(id_)}; servers notice within a second")
