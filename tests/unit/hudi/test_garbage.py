"""Python looks for garbage again when a reading is over, and not before an outer one is."""

import gc

import pytest

from etc_policy.hudi.stable_reading import no_garbage_collection


def test_garbage_is_looked_for_again_when_the_outermost_ends():
    assert gc.isenabled()
    with no_garbage_collection():
        with no_garbage_collection():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_garbage_is_looked_for_again_after_an_error():
    with pytest.raises(ValueError), no_garbage_collection():
        raise ValueError
    assert gc.isenabled()


def test_of_two_threads_the_last_one_looks_for_garbage_again():
    first, second = no_garbage_collection(), no_garbage_collection()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()
