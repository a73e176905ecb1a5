"""The hand-written C program (`rollouts.c`), compiled for one shape of work into a temporary folder."""

import subprocess
from pathlib import Path

import numpy as np
from work import Timed, Work

from fastfedpg.problems import TabularProblem

COMPILER = "gcc"
FLAGS = ("-std=gnu11", "-O3", "-march=native", "-funroll-loops", "-fopenmp")


class Rollouts:
    """One problem, written to a file once; each run reads it again, which is not in its seconds."""

    def __init__(self, work: Work, problem: TabularProblem, folder: Path, vectors: bool = False) -> None:
        if work.A != 4:
            raise ValueError(f"A = {work.A}; the C program has 4 actions")
        self.work, self.problem, self.folder = work, problem, folder
        shape = [f"-D{name}={getattr(work, name)}" for name in ("S", "B", "K", "H")]
        shape += ["-DVECTORS"] if vectors else []
        self.program = folder / "-".join(["rollouts", *(s[2:] for s in shape)])
        if not self.program.exists():
            source = Path(__file__).with_suffix(".c")
            words = [COMPILER, *FLAGS, *shape, str(source), "-o", str(self.program), "-lmvec", "-lm"]
            subprocess.run(words, check=True)

    def __call__(self, rounds: int, seed: int = 0, theta0: np.ndarray | None = None) -> Timed:
        """Seconds of the rounds alone."""
        seconds, theta, _, _ = self.run(rounds, seed, theta0)
        return Timed(seconds, theta)

    def run(self, rounds: int, seed: int = 0, theta0: np.ndarray | None = None) -> tuple:
        """Seconds, theta, every round's mean gradient, and the alias tables, whose last row is the start."""
        p, d = self.problem, self.work.S * self.work.A
        given, answer = self.folder / "in", self.folder / "out"
        with given.open("wb") as file:
            np.array([seed, rounds, p.N], np.int64).tofile(file)
            for x in ([p.gamma, self.work.eta], np.zeros(d) if theta0 is None else theta0, p.rho, p.P, p.cost):
                np.asarray(x, np.float64).tofile(file)
        subprocess.run([str(self.program), str(given), str(answer)], check=True, stdout=subprocess.DEVNULL)
        numbers = np.fromfile(answer, count=1 + d + rounds * d)
        table = np.fromfile(answer, np.int32, offset=numbers.nbytes).reshape(d + 1, -1)
        return float(numbers[0]), numbers[1 : 1 + d], numbers[1 + d :].reshape(rounds, d), table
