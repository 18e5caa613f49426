"""The package two folders above, for a process whose path must have nothing else of its folder.

Another Python's packages stand beside an installed one, and a model's own file called common
would be hidden by the folder of that name below it.
"""

import os

__file__ = os.path.join(os.path.dirname(__file__), *[os.pardir] * 2, "__init__.py")
with open(__file__, "rb") as _file:
    exec(compile(_file.read(), __file__, "exec"))
