"""Carried log files on real tables of version 6; `python -m tests.integration.version6` plays all kinds, and kills."""

import pytest

from tests.integration.version6 import Kind, play

pytestmark = pytest.mark.spark


def test_every_view_is_right_at_each_step(spark, tmp_path):
    play(spark, tmp_path / "t", Kind(carry="hard_link"))
