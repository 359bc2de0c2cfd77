"""The document that leases on disks and on object stores share."""

import json
from dataclasses import asdict

import pytest

from etc_policy.run.lease_document import LeaseDocument, read_document
from etc_policy.run.lock_holder import Owner

C = "20260101100006000"
GOOD = asdict(LeaseDocument(Owner("t"), 60.0))


@pytest.mark.parametrize(
    "changed", [{}, {"instant": C, "found": "17"}, {"made": ""}, {"made": "18", "ended": True, "released": True}]
)
def test_it_is_read_as_it_was_written(changed):
    document = LeaseDocument(Owner("t"), **changed)
    assert read_document(document.as_bytes()) == document


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"null",
        b'{"owner": 1}',
        b"\xff",
        b"[" * 100_000,
        f"{C} token boot 17".encode(),
        *(
            json.dumps({**GOOD, **changed}).encode()
            for changed in ({"valid_seconds": 1e9}, {"valid_seconds": "x"}, {"valid_seconds": -1})
        ),
        *(
            json.dumps({**GOOD, **changed}).encode()
            for changed in ({"more": 1}, {"nonce": 1}, {"made": 18}, {"found": None})
        ),
        *(
            json.dumps({**GOOD, "instant": instant}).encode()
            for instant in ("a//b", "../../x", "1\0", "1\n", "\n::error::x", "\u0661", "1" * 18)
        ),
        LeaseDocument(Owner("t")).as_bytes()[:-1],
    ],
    ids=range(22),
)
def test_what_etc_has_not_written_is_no_document(content):
    assert read_document(content) is None
    assert read_document(json.dumps(GOOD).encode()) is not None


def test_another_inflight_file_is_another_run():
    document = LeaseDocument(Owner("t"), instant=C, found="17", made="18")
    assert [document.is_of(C, made) for made in ("", "17", "18", "19")] == [True, True, True, False]
    assert not document.is_of("20260101100007000", "18")
