"""Planted faults and the search that undoes them (faults/mends.py)."""

import pytest

from faults.mends import UNDONE, main, of_ports


@pytest.mark.slow
def test_a_planted_fault_is_undone(tmp_path, capsys):
    told = tmp_path / "told.json"
    words = ["--only", "own-norm-epsilon", "--seconds", "120", "--json", str(told)]
    assert main(words) == 0
    assert "1 undone" in capsys.readouterr().out
    assert f'"came_to": "{UNDONE}"' in told.read_text(encoding="utf-8")


def test_those_in_ports_are_searched_for_as_a_user_would():
    found = of_ports()
    assert len(found) > 250 and {fault.step for fault in found} == {1, 2, 3, 4, 5}
    assert any("--dtype" in fault.arguments for fault in found)
    assert not any(fault.refused or fault.check for fault in found)
