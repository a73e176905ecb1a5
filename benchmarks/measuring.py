"""What the benchmarks share: ratios with their intervals, and the name of the machine."""

import os
import platform
import subprocess
from pathlib import Path

import jax
import numpy as np


def ratio(ours: np.ndarray, other: np.ndarray) -> tuple[float, float, float]:
    """The ratio of the medians, and its 95% bootstrap interval over rounds."""
    rng = np.random.default_rng(0)
    draw = rng.integers(len(ours), size=(4000, len(ours)))
    every = np.median(ours[draw], axis=1) / np.median(other[draw], axis=1)
    low, high = np.quantile(every, (0.025, 0.975))
    return float(np.median(ours) / np.median(other)), float(low), float(high)


def machine(compiler: str) -> dict[str, str]:
    """What the numbers were measured on."""
    about = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = [line.split(":", 1)[1].strip() for line in about.splitlines() if line.startswith("model name")]
    says = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    load = "/".join(f"{x:.1f}" for x in os.getloadavg())
    return {
        "processor": models[0] if models else platform.processor() or platform.machine(),
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "jax": jax.__version__,
        "numpy": np.__version__,
        "compiler": says.splitlines()[0],
        "load at the start": load,
    }
