"""Step 2, torch side: read the real data with the framework's DataLoader, predict, and score.

python -m step2_metric.torch.metric REQUEST.json
"""

import sys

if __name__ == "__main__":  # --help needs no framework
    from twincheck.common.system.start import begin_side

    begin_side("torch", __doc__)

from twincheck.common.pair.case_hooks import data_cases
from twincheck.common.sides.backend_torch import side
from twincheck.common.sides.worker import Script, main
from twincheck.step2_metric.metric import metric

SCRIPT = Script(side, "metric_all", metric, cases=data_cases)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
