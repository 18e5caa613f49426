"""What a model's file takes from the workbench: `from twincheck import choose, named`.

The instruments themselves are in common/sides; torch_side.py and paddle_side.py are twins.
"""

from twincheck.common.sides.paddle_side import *  # noqa: F403
from twincheck.common.sides.session import current  # noqa: F401
