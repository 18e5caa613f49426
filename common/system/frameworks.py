"""The two frameworks by name, and the settings of their processes."""

SIDES = ("torch", "paddle")

# The environment of runs on a GPU, unless the user says otherwise: no TF32, and the same result
# every time.
ON_GPU = {
    "NVIDIA_TF32_OVERRIDE": "0",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "FLAGS_use_accuracy_compatible_kernel": "1",
}

# Variables of the environment that a result's last bits can depend on; a sidecar records them.
SETTINGS = ("OMP_NUM_THREADS", "MKL_DEBUG_CPU_TYPE", *ON_GPU)
