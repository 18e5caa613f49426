"""The gradient of grid_sample for a grid alone, each framework in a process of its own."""

import subprocess
import sys

PROGRAM = {
    "torch": """
import torch
image, grid = torch.ones(1, 1, 4, 4), torch.zeros(1, 3, 3, 2, requires_grad=True)
torch.nn.functional.grid_sample(image, grid, align_corners=True).sum().backward()
""",
    "paddle": """
import paddle
image, grid = paddle.ones([1, 1, 4, 4]), paddle.zeros([1, 3, 3, 2])
grid.stop_gradient = False
paddle.nn.functional.grid_sample(image, grid, align_corners=True).sum().backward()
""",
}
status = {
    name: subprocess.run([sys.executable, "-W", "ignore", "-c", text], stderr=subprocess.DEVNULL)
    for name, text in PROGRAM.items()
}
for name, done in status.items():
    print(f"{name:6} ends with status {done.returncode}")
sys.exit(status["torch"].returncode != status["paddle"].returncode)
