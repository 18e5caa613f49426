"""The two frameworks by name, and the settings of their processes."""

# The two sides of a check, under the names that their logs have: the reference's and the
# candidate's, whatever computes them.
SIDES = ("torch", "paddle")
# What may compute a side: a framework as it is, or Paddle's static graph of the same file.
BACKENDS = ("torch", "paddle", "paddle-static")


def framework_of(backend: str) -> str:
    """The framework of a backend, torch or paddle."""
    return backend.partition("-")[0]


def is_graph(backend: str) -> bool:
    """Return whether a backend makes a graph of the model, inside of which nothing is seen."""
    return backend != framework_of(backend)


# The environment of runs on a GPU, unless the user says otherwise: no TF32, and the same result
# every time.
ON_GPU = {
    "NVIDIA_TF32_OVERRIDE": "0",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "FLAGS_use_accuracy_compatible_kernel": "1",
}

# Variables of the environment that a result's last bits can depend on; a sidecar records them.
SETTINGS = ("OMP_NUM_THREADS", "MKL_DEBUG_CPU_TYPE", *ON_GPU)
