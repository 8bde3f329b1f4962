"""Errors of GPUs by name."""

from __future__ import annotations

from launcher.state.xids import xid_text


def test_a_well_known_error_has_its_name_and_another_its_number() -> None:
    assert ("Xid 79, fallen off the bus", "Xid 11") == (xid_text(79), xid_text(11))
