"""What a resource is called, and which names overlap."""

from __future__ import annotations

import enum
import itertools
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import leasehold
from leasehold.domain import keys, names, pools
from leasehold.domain.entries import (
    EXCLUSIVE,
    INTENT_EXCLUSIVE,
    INTENT_SHARED,
    PATTERN_MODES,
    PATTERN_SHARED,
    SHARED,
    SLOTS,
    Claim,
)

HIERARCHICAL = frozenset({"s3", "dir", "file"})
MODES = (EXCLUSIVE, SHARED, SLOTS)
INTENTIONS = (INTENT_EXCLUSIVE, INTENT_SHARED)

untimed = settings(deadline=None)

# ------------------------------------------------------------------------------------ names at random

any_text = st.text(st.characters(codec=None), max_size=40)
steps = st.sampled_from(["a", "b", "ab", "a.py", ".", "..", "", "A", " ", "é", "#", "?", "*", "**", "*.py", "C:", "\\"])
ways = st.lists(steps, max_size=5).map("/".join)
heads = st.sampled_from(
    ["path:", "PATH:", "issue:", "repo:", "s3://", "S3://", "s3:", "dir:", "dir://", "file://", "deploy://", "x:", ""]
)
spelled = st.builds(lambda head, way: head + way, heads, ways)


def parsed_or_refusal(raw: object) -> str | names.BadName:
    try:
        return names.parse(raw)
    except names.BadName as refusal:
        return refusal


def parsed_or_none(raw: object) -> str | None:
    answer = parsed_or_refusal(raw)
    return answer if isinstance(answer, str) else None


name = st.one_of(spelled, any_text).map(parsed_or_none).filter(bool).map(str)
tree_steps = st.lists(st.sampled_from(["a", "b", "ab", ""]), max_size=4).map("/".join)
tree_heads = st.sampled_from(
    ["path:", "path:a/", "issue:", "repo:", "s3://", "s3:", "s3:/", "dir:", "file:///", "x:", ""]
)
tree_name = st.builds(lambda head, way: head + way, tree_heads, tree_steps).map(parsed_or_none).filter(bool).map(str)


def rule_of(raw: object) -> str:
    with pytest.raises(names.BadName) as caught:
        names.parse(raw)
    assert f"({caught.value.rule})" not in str(caught.value), "codes are for programs"
    return caught.value.rule


# ------------------------------------------------------------------------------------- what is accepted


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("github://acme/app/issues/42", "github://acme/app/issues/42"),
        ("GitHub://ACME/App/Issues/42", "github://acme/App/Issues/42"),
        ("deploy://API-Prod", "deploy://api-prod"),
        ("deploy://API?Region=EU", "deploy://api?Region=EU"),
        ("deploy://API#Part/X", "deploy://api#Part/X"),
        ("deploy://Host:8080/A", "deploy://host:8080/A"),
        ("deploy://ÄPI/Ä", "deploy://äpi/Ä"),
        ("deploy://\u0391\u03a3", "deploy://\u03b1\u03c3"),
        ("file:///Etc", "file:///Etc"),
        ("file:///", "file:///"),
        ("git+ssh://H/x", "git+ssh://h/x"),
        ("issue:8057324b", "issue:8057324b"),
        ("ISSUE:42", "issue:42"),
        ("Issue:Ab", "issue:Ab"),
        ("repo:deploy", "repo:deploy"),
        ("REPO:Deploy", "repo:Deploy"),
        ("urn:isbn:12", "urn:isbn:12"),
        ("nightly-report", "nightly-report"),
        ("Nightly Report", "Nightly Report"),
        ("src/A.py", "src/A.py"),
        ("./src//a.py", "./src//a.py"),
        ("/abs/file", "/abs/file"),
        ("../up", "../up"),
        ("C:\\X", "c:\\X"),
        ("10:30", "10:30"),
        ("foo bar:Baz", "foo bar:Baz"),
        ("src/a:B", "src/a:B"),
        ("10:30 http://X", "10:30 http://X"),
        (":x", ":x"),
        ("repo", "repo"),
        ("日本語", "日本語"),
        ("a\u202eb\u200b", "a\u202eb\u200b"),
        ("e\u0301", "e\u0301"),
    ],
)
def test_names_are_accepted_and_normalised(raw: str, expected: str) -> None:
    assert names.parse(raw) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("path:src/auth.rs", "path:src/auth.rs"),
        ("PATH:Src/Auth.rs", "path:Src/Auth.rs"),
        ("path:./src//a.py", "path:src/a.py"),
        ("path:src/", "path:src"),
        ("path:src///", "path:src"),
        ("path:.", "path:."),
        ("path:./", "path:."),
        ("path:./.", "path:."),
        ("path:src/..", "path:."),
        ("path:src/../a", "path:a"),
        ("path:a/b/../../c", "path:c"),
        ("path:.//etc", "path:etc"),
        ("path:...", "path:..."),
        ("path:src\\win\\a.py", "path:src/win/a.py"),
        ("path:src/C:/x", "path:src/C:/x"),
        ("path: a", "path: a"),
        ("path:ab:c", "path:ab:c"),
        ("path:1:/x", "path:1:/x"),
    ],
)
def test_paths_are_normalised(raw: str, expected: str) -> None:
    assert names.parse(raw) == expected


def test_the_limit_counts_bytes() -> None:
    assert names.parse("a" * 512) == "a" * 512
    assert names.parse("é" * 256) == "é" * 256
    assert rule_of("é" * 256 + "a") == "too_long"


def test_composed_and_decomposed_letters_are_different_names() -> None:
    assert names.parse("café") != names.parse("cafe\u0301")


def test_a_member_of_a_string_enum_is_its_text() -> None:
    class Target(enum.StrEnum):
        API = "deploy://API"
        PLAIN = "plain"

    assert names.parse(Target.API) == "deploy://api"
    assert [type(names.parse(target)) for target in Target] == [str, str]


@untimed
@given(st.one_of(spelled, any_text))
@example("path:./C:/x")
@example("path:./\\x")
@example("path:a /")
@example("deploy://İ")
def test_parsing_twice_changes_nothing_more(raw: str) -> None:
    once = parsed_or_none(raw)
    assume(once is not None)
    assert names.parse(once) == once


def test_every_character_that_folds_is_folded_for_good() -> None:
    for character in map(chr, range(sys.maxunicode + 1)):
        if character.casefold() != character:
            once = names.parse(f"deploy://x{character}/y")
            assert names.parse(once) == once
            assert once.count("/") == 3


@untimed
@given(heads.filter(bool), ways)
def test_scheme_and_namespace_have_no_case(head: str, way: str) -> None:
    for changed in (head.upper(), head.lower(), head.title()):
        assert parsed_or_none(changed + way) == parsed_or_none(head + way)


# ------------------------------------------------------------------------------- beginnings, and schemes


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("Deploy://API/", "deploy://api/"),
        ("deploy://AP", "deploy://ap"),
        ("deploy://API/Prod", "deploy://api/Prod"),
        ("deploy://API?Region", "deploy://api?Region"),
        ("Deploy://", "deploy://"),
        ("Deploy:/", "deploy:/"),
        ("Deploy:", "deploy:"),
        ("ISSUE:Ab", "issue:Ab"),
        ("PATH:", "path:"),
        ("path:./", "path:"),
        ("path:./src//", "path:src/"),
        ("path:src", "path:src"),
        ("path:src\\lib\\", "path:src/lib/"),
        ("path:docs/../src/a", "path:src/a"),
        ("path:.", "path:."),
        ("path:src/.", "path:src/."),
        ("path:src/..", "path:src/.."),
        ("Deploy", "Deploy"),
        ("Nightly 10:3", "Nightly 10:3"),
        ("my_app:/", "my_app:/"),
    ],
)
def test_a_prefix_is_spelled_as_the_names_that_begin_with_it(raw: str, expected: str) -> None:
    assert names.prefix(raw) == expected
    assert names.prefix(expected) == expected


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        ("my_app://", "bad_scheme"),
        ("path://src", "reserved_scheme"),
        ("repo://", "reserved_scheme"),
        ("path:/", "absolute_path"),
        ("path:/etc", "absolute_path"),
        ("path:C:", "absolute_path"),
        ("path:./C:/x", "absolute_path"),
        ("path:../x", "leaves_root"),
        ("x://" + "İ" * 250, "too_long"),
    ],
)
def test_refuses_what_no_name_begins_with(raw: str, rule: str) -> None:
    with pytest.raises(names.BadName) as caught:
        names.prefix(raw)
    assert caught.value.rule == rule


@untimed
@given(name, st.data())
def test_whatever_a_name_begins_with_is_its_prefix_as_it_is(name: str, data: st.DataObject) -> None:
    begins = name[: data.draw(st.integers(1, len(name)))]
    assert names.prefix(begins) == begins


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("deploy://a", "deploy"),
        ("path:a:b", "path"),
        ("git+ssh://h", "git+ssh"),
        ("job-10:15", "job-10"),
        ("job at 10:15", ""),
        ("10:15", ""),
        (":x", ""),
        ("é:x", ""),
        ("plain", ""),
    ],
)
def test_the_scheme_is_what_a_name_is_split_by(name: str, scheme: str) -> None:
    assert names.scheme(name) == scheme


# -------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("raw", [None, 1, 1.5, True, b"issue:1", bytearray(b"x"), ["issue:1"], {"a": 1}, object(), str])
def test_refuses_what_is_not_text(raw: object) -> None:
    assert rule_of(raw) == "not_text"


def test_refuses_nothing() -> None:
    assert rule_of("") == "empty"


@pytest.mark.parametrize("raw", ["a" * 513, "é" * 257, "path:" + "./" * 300 + "a", "x" * 10_000_000])
def test_refuses_what_is_too_long(raw: str) -> None:
    assert rule_of(raw) == "too_long"


def test_refuses_what_becomes_too_long() -> None:
    raw = "x://" + "İ" * 250
    assert len(raw.encode()) <= 512
    assert rule_of(raw) == "too_long"


@pytest.mark.parametrize("raw", ["a\ud800", "\udfff", "deploy://\udc80"])
def test_refuses_lone_surrogates(raw: str) -> None:
    assert rule_of(raw) == "not_utf8"


@pytest.mark.parametrize("code", [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029])
def test_refuses_control_characters(code: int) -> None:
    assert rule_of(f"a{chr(code)}b") == "control_character"
    assert rule_of(f"path:a{chr(code)}") == "control_character"


@pytest.mark.parametrize("raw", [" ", " a", "a ", "\u00a0a", "a\u3000", "issue: "])
def test_refuses_blanks_at_the_edges(raw: str) -> None:
    assert rule_of(raw) == "blank_edges"


def test_refuses_a_blank_edge_that_tidying_uncovers() -> None:
    assert rule_of("path:src/a /") == "blank_edges"


@pytest.mark.parametrize("raw", ["://x", "1abc://x", "my_app://x", "foo bar://x", "é://x", "a/b://c", "://"])
def test_refuses_a_uri_whose_scheme_is_none(raw: str) -> None:
    assert rule_of(raw) == "bad_scheme"


@pytest.mark.parametrize("raw", ["deploy://", "issue:", "repo:", "path:", "PATH:", "path://", "C:", "x" * 500 + ":"])
def test_refuses_a_scheme_or_namespace_alone(raw: str) -> None:
    assert rule_of(raw) == "empty_rest"


@pytest.mark.parametrize("raw", ["path://src/a", "ISSUE://42", "repo://deploy"])
def test_refuses_uris_that_look_like_the_names_of_a_repository(raw: str) -> None:
    assert rule_of(raw) == "reserved_scheme"


@pytest.mark.parametrize(
    "raw",
    [
        *("path:/etc", "path:/", "path:/..", "path:\\x", "path:\\\\server\\x", "path:\\/x"),
        *("path:C:\\x", "path:C:/x", "path:c:", "path:C:x", "path:C:/../x", "path:./C:/x", "path:a/../C:/x"),
    ],
)
def test_refuses_absolute_paths(raw: str) -> None:
    assert rule_of(raw) == "absolute_path"


@pytest.mark.parametrize("raw", ["path:..", "path:../x", "path:a/../../a", "path:./..", "path:..\\x", "path:a\\..\\.."])
def test_refuses_paths_that_leave_the_root(raw: str) -> None:
    assert rule_of(raw) == "leaves_root"


@untimed
@given(
    st.one_of(
        any_text,
        spelled,
        st.binary(),
        st.none(),
        st.integers(),
        st.floats(),
        st.lists(any_text),
        st.dictionaries(any_text, st.none()),
    )
)
def test_parsing_raises_nothing_but_bad_name(raw: object) -> None:
    answer = parsed_or_refusal(raw)
    if isinstance(answer, names.BadName):
        assert answer.rule.isidentifier()
    else:
        assert 1 <= len(answer.encode()) <= 512
        assert answer == answer.strip()


@untimed
@given(any_text.map(lambda text: text * 50))
def test_a_refusal_is_short_and_inert(raw: str) -> None:
    refusal = parsed_or_refusal(raw)
    assume(isinstance(refusal, names.BadName))
    assert str(refusal).isascii()
    assert str(refusal).isprintable()
    assert len(str(refusal)) < 800


def test_a_refusal_says_culprit_and_what_is_allowed() -> None:
    with pytest.raises(names.BadName) as caught:
        names.parse("path:/etc/\u202e")
    text = str(caught.value)
    assert caught.value.rule == "absolute_path"
    assert "absolute_path" not in text
    assert "'path:/etc/\\u202e'" in text
    assert "path:src/a.py" in text
    assert isinstance(caught.value, ValueError)


def test_a_refusal_survives_pickling() -> None:
    with pytest.raises(names.BadName) as caught:
        names.parse("")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.rule, str(copy)) == ("empty", str(caught.value))


# --------------------------------------------------------------------------------------- spaces, schemes


@pytest.mark.parametrize("raw", ["default", "org/project", "Org/Project", "a" * 128])
def test_spaces_are_taken_as_written(raw: str) -> None:
    assert names.check_space(raw) == raw


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        (None, "not_text"),
        (b"default", "not_text"),
        ("", "empty"),
        ("a" * 129, "too_long"),
        ("é" * 65, "too_long"),
        ("a\x00b", "control_character"),
        (" a", "blank_edges"),
        ("a\ud800", "not_utf8"),
    ],
)
def test_refuses_bad_spaces(raw: object, rule: str) -> None:
    with pytest.raises(names.BadName, match="space") as caught:
        names.check_space(raw)
    assert caught.value.rule == rule


def test_hierarchical_schemes_have_no_case() -> None:
    assert names.check_hierarchical(["S3", "dir"]) == {"s3", "dir"}
    assert names.check_hierarchical(()) == frozenset()
    assert names.check_hierarchical({"git+ssh"}) == {"git+ssh"}


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        ("s3", "not_a_list"),
        (None, "not_a_list"),
        ({"s3": True}, "not_a_list"),
        ([1], "not_text"),
        ([""], "empty"),
        (["s3://"], "bad_scheme"),
        (["3s"], "bad_scheme"),
        (["é"], "bad_scheme"),
        (["my_app"], "bad_scheme"),
        (["s3", " dir"], "blank_edges"),
        (["repo"], "fixed_scheme"),
        (["Path"], "fixed_scheme"),
        (["issue"], "fixed_scheme"),
    ],
)
def test_refuses_bad_hierarchical_schemes(raw: object, rule: str) -> None:
    with pytest.raises(names.BadName) as caught:
        names.check_hierarchical(raw)
    assert caught.value.rule == rule


# ------------------------------------------------------------------------------------------------ claims


def nodes_of(*wanted: str) -> list[str]:
    return [keys.node("default", node) for node in wanted]


def footprint(name: str, mode: str = EXCLUSIVE) -> dict[str, str]:
    return {claim.node: claim.mode for claim in names.claims("default", name, mode, HIERARCHICAL)}


def conflict(a: dict[str, str], b: dict[str, str], *, meet: bool = True) -> bool:
    """`meet`: whether the names do, where a pattern and something else lie in one directory."""
    return any(not compatible(a[node], b[node], meet=meet) for node in a.keys() & b.keys())


def compatible(a: str, b: str, *, meet: bool = True) -> bool:
    if {a, b} <= {SHARED, INTENT_SHARED, PATTERN_SHARED}:
        return True
    if not {a, b}.isdisjoint(PATTERN_MODES) and {a, b} <= {*INTENTIONS, *PATTERN_MODES}:
        return not meet
    return a in INTENTIONS and b in INTENTIONS


@pytest.mark.parametrize(
    "plain", ["nightly-report", "src/a/b", "github://acme/app/issues/42", "urn:a/b", "repo", "/a/b"]
)
@pytest.mark.parametrize("mode", MODES)
def test_most_names_claim_only_themselves(plain: str, mode: str) -> None:
    assert names.claims("default", plain, mode) == (Claim(keys.node("default", plain), mode),)


def test_a_path_marks_its_ancestors_and_one_stripe() -> None:
    claims = names.claims("default", "path:a/b/c", EXCLUSIVE)
    own, *ancestors, stripe = claims
    assert own == Claim(keys.node("default", "path:a/b/c"), EXCLUSIVE)
    assert [claim.node for claim in ancestors] == nodes_of("path:a/b", "path:a", "path:.")
    assert {claim.mode for claim in (*ancestors, stripe)} == {INTENT_EXCLUSIVE}
    assert stripe.node in footprint("repo:x")


def test_the_whole_tree_marks_only_a_stripe() -> None:
    own, stripe = names.claims("default", "path:.", EXCLUSIVE)
    assert own == Claim(keys.node("default", "path:."), EXCLUSIVE)
    assert stripe.node in footprint("repo:x")


def test_an_issue_marks_one_stripe() -> None:
    own, stripe = names.claims("default", "issue:a/b", EXCLUSIVE)
    assert own == Claim(keys.node("default", "issue:a/b"), EXCLUSIVE)
    assert stripe.mode == INTENT_EXCLUSIVE
    assert stripe.node in footprint("repo:x")


@pytest.mark.parametrize("mode", MODES)
def test_the_repository_claims_all_stripes_and_nothing_else(mode: str) -> None:
    claims = names.claims("default", "repo:deploy", mode)
    assert len({claim.node for claim in claims}) == names.STRIPES
    assert {claim.mode for claim in claims} == {mode}
    assert claims == names.claims("default", "repo:other", mode)


def test_leases_spread_over_all_stripes() -> None:
    used = {names.claims("default", f"issue:{number}", EXCLUSIVE)[-1].node for number in range(1_000)}
    assert used == footprint("repo:x").keys()


@untimed
@given(st.one_of(name, tree_name))
@example("repo:0")
@example("repo:#0")
def test_nobody_can_name_a_stripe(name: str) -> None:
    assert keys.node("default", name) not in footprint("repo:x")


@pytest.mark.parametrize(
    ("mode", "intention"), [(EXCLUSIVE, INTENT_EXCLUSIVE), (SLOTS, INTENT_EXCLUSIVE), (SHARED, INTENT_SHARED)]
)
def test_readers_mark_ancestors_as_readers(mode: str, intention: str) -> None:
    own, *above = names.claims("default", "path:a/b", mode)
    assert own.mode == mode
    assert {claim.mode for claim in above} == {intention}


@pytest.mark.parametrize(
    ("tree_member", "lineage"),
    [
        ("s3://bucket/a/b", ["s3://bucket/a/b", "s3://bucket/a", "s3://bucket"]),
        ("s3://bucket/a/", ["s3://bucket/a", "s3://bucket"]),
        ("s3://bucket//a", ["s3://bucket/a", "s3://bucket"]),
        ("s3://bucket", ["s3://bucket"]),
        ("s3://bucket/", ["s3://bucket"]),
        ("dir:x/y", ["dir:x/y", "dir:x"]),
        ("dir:x/", ["dir:x"]),
        ("dir:/x", ["dir:/x", "dir:"]),
        ("file:///etc/x", ["file:///etc/x", "file:///etc", "file://"]),
        ("file:///", ["file://"]),
    ],
)
def test_hierarchical_names_mark_their_ancestors(tree_member: str, lineage: list[str]) -> None:
    claims = names.claims("default", tree_member, EXCLUSIVE, HIERARCHICAL)
    assert [claim.node for claim in claims] == nodes_of(*lineage)
    assert [claim.mode for claim in claims] == [EXCLUSIVE] + [INTENT_EXCLUSIVE] * (len(lineage) - 1)


def test_undeclared_schemes_have_no_ancestors() -> None:
    assert len(names.claims("default", "s3://bucket/a/b", EXCLUSIVE)) == 1
    assert len(names.claims("default", "s3://bucket/a/b", EXCLUSIVE, {"dir"})) == 1


@untimed
@given(st.one_of(name, tree_name), st.sampled_from(MODES))
def test_own_nodes_come_first_and_no_node_twice(name: str, mode: str) -> None:
    claims = names.claims("default", name, mode, HIERARCHICAL)
    assert claims[0].mode == mode
    assert len({claim.node for claim in claims}) == len(claims)
    intends = [claim.mode in INTENTIONS for claim in claims]
    assert intends == sorted(intends)


@untimed
@given(tree_name, tree_name)
def test_spaces_share_no_node(a: str, b: str) -> None:
    elsewhere = {claim.node for claim in names.claims("org/project", b, EXCLUSIVE, HIERARCHICAL)}
    assert elsewhere.isdisjoint(footprint(a))


# ---------------------------------------------------------------------------------------------- overlaps


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("path:src", "path:src/auth.rs"),
        ("path:src", "path:src/a/b/c"),
        ("path:.", "path:src/a"),
        ("path:a", "path:a"),
        ("repo:deploy", "repo:migration"),
        ("repo:deploy", "path:."),
        ("repo:deploy", "path:src/a.py"),
        ("repo:deploy", "issue:42"),
        ("issue:42", "issue:42"),
        ("s3://bucket", "s3://bucket/a/b"),
        ("s3://bucket/a", "s3://bucket/a/"),
        ("s3://bucket//a", "s3://bucket/a/b"),
        ("dir:x", "dir:x/y"),
        ("file:///", "file:///etc/x"),
        ("plain", "plain"),
    ],
)
def test_these_overlap(a: str, b: str) -> None:
    for one, other in ((a, b), (b, a)):
        assert names.overlaps(one, other, HIERARCHICAL)
        assert conflict(footprint(one), footprint(other))
        assert conflict(footprint(one, SHARED), footprint(other, EXCLUSIVE))
        assert not conflict(footprint(one, SHARED), footprint(other, SHARED))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("path:src", "path:src2"),
        ("path:src/a", "path:src/b"),
        ("path:src/a", "path:src/ab"),
        ("path:42", "issue:42"),
        ("issue:a", "issue:a/b"),
        ("issue:1", "issue:2"),
        ("path:src", "src"),
        ("repo:deploy", "repo"),
        ("repo:deploy", "deploy://x"),
        ("repo:deploy", "dir:x"),
        ("s3://bucket", "s3://bucket2"),
        ("s3://bucket/a", "s3:bucket/a"),
        ("s3:/", "s3://bucket"),
        ("file:///etc", "file://etc"),
        ("dir:/x", "dir:x"),
        ("github://acme", "github://acme/app"),
        ("plain", "plain/x"),
    ],
)
def test_these_do_not_overlap(a: str, b: str) -> None:
    for one, other in ((a, b), (b, a)):
        assert not names.overlaps(one, other, HIERARCHICAL)
        assert not conflict(footprint(one), footprint(other))


def test_only_declared_schemes_overlap() -> None:
    assert not names.overlaps("s3://bucket", "s3://bucket/a")
    assert not names.overlaps("s3://bucket/a", "s3://bucket/a/")
    assert names.overlaps("s3://bucket", "s3://bucket/a", {"s3"})


def test_many_issues_at_one_stripe_do_not_conflict() -> None:
    crowd = [footprint(f"issue:{number}") for number in range(names.STRIPES + 1)]
    assert not any(conflict(a, b) for a, b in itertools.combinations(crowd, 2))


@settings(untimed, max_examples=500)
@given(st.one_of(tree_name, name), st.one_of(tree_name, name), st.sampled_from(MODES), st.sampled_from(MODES))
def test_claims_conflict_exactly_when_names_overlap(a: str, b: str, mode_of_a: str, mode_of_b: str) -> None:
    meet = names.overlaps(a, b, HIERARCHICAL)
    expected = meet and (mode_of_a, mode_of_b) != (SHARED, SHARED)
    assert conflict(footprint(a, mode_of_a), footprint(b, mode_of_b), meet=meet) == expected


@settings(untimed, max_examples=500)
@given(tree_name, tree_name, st.sets(st.sampled_from(sorted(HIERARCHICAL))))
def test_claims_and_overlaps_agree_whatever_is_declared(a: str, b: str, declared: set[str]) -> None:
    print_of_a = {claim.node: claim.mode for claim in names.claims("default", a, EXCLUSIVE, declared)}
    print_of_b = {claim.node: claim.mode for claim in names.claims("default", b, EXCLUSIVE, declared)}
    meet = names.overlaps(a, b, declared)
    assert conflict(print_of_a, print_of_b, meet=meet) == meet


@untimed
@given(st.one_of(tree_name, name), st.one_of(tree_name, name))
def test_overlap_has_no_direction_and_everything_overlaps_itself(a: str, b: str) -> None:
    assert names.overlaps(a, b, HIERARCHICAL) == names.overlaps(b, a, HIERARCHICAL)
    assert names.overlaps(a, a, HIERARCHICAL)


# ------------------------------------------------------------------------------------------------- shown


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("path:src/a.py", "path:src/a.py"),
        ("c:\\x", "c:\\x"),
        ("日本語 ü", "日本語 ü"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\tc\x7f\x9b", "a\\nb\\tc\\x7f\\x9b"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u200f\u2066b", "a\\u200f\\u2066b"),
        ("a\u200bb\ufeff", "a\\u200bb\\ufeff"),
        ("a\u00a0b", "a\\xa0b"),
        ("a\u2028b", "a\\u2028b"),
        ("a\ufe0fb\u3164", "a\\ufe0fb\\u3164"),
        ("a\U000e0101\U000e0041", "a\\U000e0101\\U000e0041"),
        ("a\ud800", "a\\ud800"),
    ],
)
def test_shown_is_inert(name: str, expected: str) -> None:
    assert names.shown(name) == expected


@untimed
@given(any_text)
def test_whatever_is_shown_is_printable_and_stays_so(text: str) -> None:
    once = names.shown(text)
    assert once.isprintable()
    assert names.shown(once) == once


# ---------------------------------------------------------------------------------------------- start-up


@pytest.mark.parametrize("module", ["domain.names", "domain.durations"])
def test_importing_it_brings_nothing_slow_along(module: str) -> None:
    slow = ["typing", "re", "enum", "dataclasses", "functools", "json", "urllib", "unicodedata", "decimal"]
    source = str(Path(leasehold.__file__).parents[1])
    script = (
        f"import sys; sys.path.insert(0, {source!r}); import leasehold; before = set(sys.modules); "
        f"import leasehold.{module}; print(*sorted((set(sys.modules) - before) & set({slow!r})))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


# ------------------------------------------------------------------------------------------------ pools


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("pool://ports/3000-3002", ["3000", "3001", "3002"]),
        ("pool://staging/b,a", ["b", "a"]),
        ("pool://p/1-2,x,2", ["1", "2", "x"]),
        ("pool://p/g-0", ["g-0"]),
    ],
)
def test_a_pool_names_its_members_in_their_order(name: str, members: list[str]) -> None:
    assert [pools.value(each) for each in pools.members(name)] == members
    assert names.parse(name) == name
    assert {claim.node for each in pools.members(name) for claim in names.claims("s", each, EXCLUSIVE)} == {
        claim.node for claim in names.claims("s", name, EXCLUSIVE)
    }


@pytest.mark.parametrize(
    ("one", "other", "do_meet"),
    [
        ("pool://p/1-5", "pool://p/5-9", True),
        ("pool://p/1-5", "pool://p/6-9", False),
        ("pool://p/1-5", "pool://q/1-5", False),
        ("pool://p/1-5", "pool://p/3", True),
        ("pool://p", "pool://p/3", True),
        ("pool://p?label=x", "pool://q", False),
    ],
)
def test_pools_overlap_where_they_share_a_member(one: str, other: str, do_meet: bool) -> None:
    assert names.overlaps(one, other) is names.overlaps(other, one) is do_meet


def test_pools_are_no_tree() -> None:
    with pytest.raises(names.BadName, match="in their own way"):
        names.check_hierarchical(["pool"])


@pytest.mark.parametrize("name", ["pool:ports", "pool:./src//a.py", "POOL:ports/1-3", "pool:/ports/1", "pool://a//b"])
def test_a_pool_that_is_spelled_otherwise_is_refused(name: str) -> None:
    with pytest.raises(names.BadName, match="pool://NAME"):
        names.parse(name)
