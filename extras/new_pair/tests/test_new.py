"""`twincheck new` lays out a pair that runs at once, and never touches what is there."""

import os
import shlex

import pytest
from builders import twincheck
from checkout import Checkout

from twincheck.common.pair.pairs import built_in_models, load_pair, load_pairs
from twincheck.extras.new_pair.command import FILES, lay_out, main


def test_it_says_what_it_made_and_what_to_do_next_and_what_it_made_runs(tmp_path):
    checkout = Checkout(tmp_path)
    text = f"import sys; sys.path[0] = {str(checkout.root)!r}; "
    text += "from twincheck.extras.new_pair.command import main; sys.exit(main(['my_pair']))"
    done = checkout.python("-c", text)
    assert done.returncode == 0, done.stderr
    made = checkout.elsewhere / "my_pair"
    assert sorted(path.name for path in made.iterdir()) == sorted(FILES)
    text = "".join((made / name).read_text() for name in FILES)
    for number in range(1, 6):
        assert f"\n  {number}  " in done.stdout, "each of the five edits"
        assert f" step{number} my_pair\n" in done.stdout
        assert f"{number}. " in text, "the edits are marked in the files"
    done, report = checkout.rows(4, "--model", "my_pair", "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    assert report["rows"]


def test_what_is_there_is_never_touched(tmp_path, capsys):
    made = lay_out("mine", tmp_path)
    (made / "case.py").write_text("my work")
    assert main(["mine", "--folder", str(tmp_path)]) == 2
    assert "there already" in capsys.readouterr().err
    assert (made / "case.py").read_text() == "my work"
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.slow
def test_a_pair_may_be_called_as_a_built_in_model(tmp_path, monkeypatch):
    """Its folder comes first where it stands; `all` stays those that are built in."""
    assert main(["reformer", "--folder", str(tmp_path)]) == 0
    monkeypatch.chdir(tmp_path)
    own = load_pair("reformer")
    assert own.folder == tmp_path / "reformer" and own.hides_built_in
    every = load_pairs(["all", "fastformer"])
    assert all(pair.built_in for pair in every) and len(every) == len(built_in_models())
    said = twincheck("step1", "reformer", folder=tmp_path)
    assert f"{own.folder} is checked, not the built-in model of that name" in said
    monkeypatch.chdir(tmp_path.parent)
    assert load_pair("reformer").built_in


def test_a_folder_that_cannot_be_written_is_named(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["mine", "--folder", str(tmp_path / "file")]) == 2
    assert str(tmp_path / "file") in capsys.readouterr().err


def test_permissions_are_those_of_any_new_folder(tmp_path):
    (tmp_path / "other").mkdir()
    made = lay_out("mine", tmp_path)
    assert os.stat(made).st_mode == os.stat(tmp_path / "other").st_mode


def test_a_name_with_a_space_in_its_folder_is_quoted(tmp_path, capsys):
    assert main(["mine", "--folder", str(tmp_path / "my pairs")]) == 0
    assert shlex.quote(str(tmp_path / "my pairs" / "mine")) in capsys.readouterr().out
