"""README.md and README_cn.md of an exported repository."""

from twincheck.common.system.extras import languages
from twincheck.extras.publish.source import PROGRAMS

_PAGES = {"README.md": "readme_en.txt", "README_cn.md": "readme_cn.txt"}


def pages(published, settings, programs, licence: str) -> dict[str, str]:
    """File name -> text, of what was published and is in the repository."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )
    chinese = next((one.LANGUAGE.said for one in languages() if one.CODE == "zh"), str)
    environment.filters["chinese"] = chinese
    told = {"published": published, "settings": settings, "samples": settings.samples}
    return {
        name: environment.from_string((PROGRAMS / file).read_text(encoding="utf-8")).render(
            **told, programs=programs, licence=licence
        )
        for name, file in _PAGES.items()
    }
