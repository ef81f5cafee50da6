"""What a session shows: ID.SECRET, or a secret that alone leads to both."""

from __future__ import annotations

import pytest

from leasehold.domain import keys
from leasehold.errors import InvalidInput
from leasehold.requests import checks

SECRET = "7d9f6f0e-6ad0-4c53-9a55-2f1f8b8f2a10"


def test_a_credential_of_ours_is_an_id_and_a_secret() -> None:
    assert checks.credential("s1.abc") == ("s1", "abc")
    assert checks.credential("run.7.abc") == ("run.7", "abc")
    assert checks.session_id("run.7.abc") == "run.7"
    assert checks.session_id("s1") == "s1"


def test_a_secret_alone_leads_to_the_same_session_each_time_and_to_no_other() -> None:
    id_, proof = checks.credential(f"secret:{SECRET}")
    assert (id_, proof) == checks.credential(f"secret:{SECRET}")
    others = [checks.credential(f"secret:{SECRET}{more}") for more in ("x", ".", ".x", " x")]
    assert len({id_, *(other[0] for other in others)}) == 5
    assert checks.session_id(f"secret:{SECRET}") == id_


def test_the_id_tells_neither_the_secret_nor_the_proof() -> None:
    id_, proof = keys.session_of_secret(SECRET)
    told = {keys.secret_hash(SECRET), keys.secret_hash(proof), proof, SECRET}
    assert not any(each in id_ or id_[1:] in each for each in told)


@pytest.mark.parametrize("session", ["secret:", "secret:short", "secret:" + "x" * 15, "none", ".", "a.", ".b", "", 7])
def test_what_is_neither_is_refused(session: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        checks.credential(session)
    assert refused.value.field == "session"
