"""What `twincheck new --loader` writes: the libraries' own loaders carry the weights."""

from collections.abc import Mapping

# Of packages whose from_pretrained reads the reference's folder only when it is told to.
_TOLD = {"paddlenlp": ("convert_from_torch=True", "reads torch's files where it is told to")}

_CASE = """

# Each side reads the folder that the reference writes by its own class's from_pretrained.
load = "from_pretrained"
"""
_MODEL = '''

def load(model, folder):
    """{package} {why}."""
    {returned}type({part}).from_pretrained(folder, {options})
'''


def loader_lines(packages: Mapping[str, str], attributes: Mapping[str, str]) -> dict[str, str]:
    """File -> the lines that are added to its end.

    packages    side -> the module that its model is named in, such as paddlenlp.transformers
    attributes  side -> the name under which a module of the pair's own keeps the library's model;
                "" where `build` returns the library's own
    """
    lines = {"case.py": _CASE}
    for side, module in packages.items():
        package = module.split(".")[0]
        if package in _TOLD:
            options, why = _TOLD[package]
            name = attributes[side]
            part = f"model.{name}" if name else "model"
            returned = f"{part} = " if name else "return "
            lines[f"{side}_model.py"] = _MODEL.format(
                package=package, why=why, returned=returned, part=part, options=options
            )
    return lines
