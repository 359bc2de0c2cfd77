"""The text that versions of etc share in the local lease."""

import pytest

from etc_policy.run.file_lease import RunMark

C, TOKEN, BOOT = "20260101100006000", "0f" * 16, "6b1c7f0e-7d5c-4a57-9d2b-2f0c3f1d9f11"
MARKED = f"{C} {TOKEN} {BOOT} -"


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("", RunMark()),
        (f"{C} {TOKEN} - -", RunMark(C, TOKEN)),
        (MARKED, RunMark(C, TOKEN, BOOT)),
        (f"{C} {TOKEN} {BOOT} 17", RunMark(C, TOKEN, BOOT, found="17")),
        (f"{MARKED} 18", RunMark(C, TOKEN, BOOT, made="18")),
        (f"{MARKED} ", RunMark(C, TOKEN, BOOT, made="")),
        (f"{MARKED} ended", RunMark(C, TOKEN, BOOT, ended=True)),
        (f"{MARKED} 18 ended", RunMark(C, TOKEN, BOOT, made="18", ended=True)),
        (f"{MARKED}  ended", RunMark(C, TOKEN, BOOT, made="", ended=True)),
    ],
)
def test_the_text_that_is_on_disk(text, mark):
    assert mark.text == text
    assert RunMark.parse(text) == mark


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        (C, RunMark(C)),
        (f"{C} {TOKEN}", RunMark(C, TOKEN)),
        (f"{C} {TOKEN} ended", RunMark(C, TOKEN, ended=True)),
        (f"{MARKED} 18 of-a-later-etc", RunMark(C, TOKEN, BOOT, made="18")),
        ("ended", RunMark(ended=True)),
    ],
)
def test_a_text_of_another_version_is_read_as_far_as_it_is_known(text, mark):
    assert RunMark.parse(text) == mark
