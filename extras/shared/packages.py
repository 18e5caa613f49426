"""Installed packages with a file that is edited: copies made of links, which change nothing."""

import shutil
import subprocess
from pathlib import Path

from twincheck.common.system.errors import UserError
from twincheck.extras.shared import Kind


def own_file(packages: Path, file: Path, target: Path) -> Path:
    """A copy of packages/file in `target`, in folders of links to what stands beside it.

    Folders and links that are there already stay.  Raises UserError where there is no such file.
    """
    if not (packages / file).is_file():
        raise UserError(Kind.NO_SUCH_FILE(file=str(file), folder=str(packages)))
    for folder in list(file.parents)[-2::-1]:
        own = target / folder
        if own.is_symlink() or not own.exists():
            own.unlink(missing_ok=True)
            own.mkdir()
            for entry in (packages / folder).iterdir():
                if entry.name != "__pycache__":  # an edited file's would be written through it
                    (own / entry.name).symlink_to(entry)
    own = target / file
    if own.is_symlink() or not own.exists():
        own.unlink(missing_ok=True)
        shutil.copyfile(packages / file, own)
    return own


def located(python: str, file: str) -> Path:
    """A file as places name it: by its whole path, or one of a package from the package's name."""
    path = Path(file)
    if path.is_absolute() or not path.parts[1:]:
        return path
    asked = "import importlib.util as u, sys; print(u.find_spec(sys.argv[1]).origin)"
    command = [python, "-c", asked, path.parts[0]]
    cwd = Path(python).parent  # what stands in the user's folder is no package
    answer = subprocess.run(command, capture_output=True, text=True, cwd=cwd).stdout.strip()
    return Path(answer).parent.parent / path if answer else path


def root_of(file: Path) -> Path:
    """The folder that the package of a file is imported from, such as site-packages."""
    folder = file.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def environment_of(python: str, packages: Path, target: Path) -> tuple[str, Path]:
    """(Python, site-packages) of an environment in front of another one.

    What is put into its site-packages, such as `own_file`, is imported in place of what
    `packages`, the other one's folder, has under that name.
    """
    (target / "bin").mkdir(parents=True)
    own = target / "bin" / "python"
    own.symlink_to(Path(python).resolve())
    settings = Path(python).parent.parent / "pyvenv.cfg"
    home = f"home = {Path(python).resolve().parent}\n"
    text = settings.read_text(encoding="utf-8") if settings.is_file() else home
    (target / "pyvenv.cfg").write_text(text, encoding="utf-8")
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    ask = (subprocess.check_output([one, "-c", asked], text=True).strip() for one in (python, own))
    behind, site = map(Path, ask)
    site.mkdir(parents=True)
    lines = (f"import site; site.addsitedir({str(one)!r})\n" for one in {packages: 0, behind: 0})
    (site / "behind.pth").write_text("".join(lines), encoding="utf-8")
    return str(own), site
