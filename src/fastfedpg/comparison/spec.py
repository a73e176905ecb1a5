"""What a comparison is asked: the flags, the TOML file and the Python arguments are one frozen dataclass."""

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Literal, get_type_hints

import tomli_w

from fastfedpg.algorithms import ALGORITHMS
from fastfedpg.comparison import tuning
from fastfedpg.errors import InputError, unknown
from fastfedpg.experiment.config import Config, Settings, fit, read_toml, settings_from, table_of_words


def _parse_etas(words: list[str]) -> dict[str, float]:
    """2 is the step size of all methods, name=2 that of one."""
    pairs = [(name or "all", float(value)) for name, _, value in (word.rpartition("=") for word in words)]
    if len(dict(pairs)) < len(pairs):
        raise ValueError("one step size for all, and one for each method that has its own")
    return dict(pairs)


def _write_etas(etas: dict[str, float]) -> list[str]:
    return [f"{v:g}" if k == "all" else f"{k}={v:g}" for k, v in etas.items()]


Etas = Annotated[dict[str, float], table_of_words("ETA|NAME=ETA …", _parse_etas, _write_etas)]


@dataclass(frozen=True)
class Comparison:
    """All that is needed to repeat a comparison."""

    settings: Settings = field(default_factory=lambda: Settings(seeds=8))
    algorithms: tuple[str, ...] = ("fast_fedpg", "fedavg_pg", "scaffold_pg")
    """Methods to compare; differences are to the first, and --rounds are the rounds of the first."""
    eta: Etas = field(default_factory=lambda: {"all": Config().eta})
    """One step size for all, or by method, as in fast_fedpg=2 fedavg_pg=.5; with --tune the middle of the grid."""
    budget: Literal["samples", "rounds", "bytes"] = "samples"
    """What all methods may spend alike: as much as the first does in --rounds rounds."""
    tune: bool = False
    """Choose every method's step size on seeds that are not reported; eta is the middle of the grid."""
    candidates: int = 7
    """Step sizes to try for each method when tuning, each twice the one before."""
    tune_seeds: int = 4
    """Seeds to tune on: those that follow the reported ones."""

    def check(self) -> None:
        """Everything that can be seen without building anything."""
        for name in self.algorithms:
            if name not in ALGORITHMS:
                raise unknown("algorithm", name, ALGORITHMS)
        if len({*self.algorithms}) < len(self.algorithms) or not self.algorithms:
            raise InputError(f"algorithms are {' '.join(self.algorithms) or 'none'}; name each once, and at least one")
        for name in self.eta:
            if name not in ("all", *self.algorithms):
                raise unknown("algorithm in eta", name, self.algorithms)
        if self.tune and not tuning.FEWEST <= self.candidates <= tuning.MOST:
            least, most = tuning.FEWEST, tuning.MOST
            raise InputError(
                f"candidates = {self.candidates}; a fair choice needs at least {least}, and at most {most}"
            )
        if self.tune and {*self.eta} - {"all"}:
            raise InputError("with tune, eta is the middle of one grid for all methods; give one number")
        last = self.settings.first_seed + self.settings.seeds + self.tune_seeds
        if self.tune and not (self.tune_seeds >= 1 and last < 2**31):
            raise InputError(f"tune_seeds = {self.tune_seeds}; it must be at least 1, and all seeds below 2^31")

    @property
    def common_eta(self) -> float:
        """The step size of those methods that have none of their own, and the middle of the grid when tuning."""
        return self.eta.get("all", Config().eta)

    @property
    def without_eta(self) -> list[str]:
        """Methods that were given no step size although others were."""
        return [] if "all" in self.eta else [name for name in self.algorithms if name not in self.eta]

    def config(self, algorithm: str) -> Config:
        """One method's configuration, before the budget says how many rounds it has."""
        eta = self.eta.get(algorithm, self.common_eta)
        return Config(**asdict(self.settings), algorithm=algorithm, eta=eta)

    def to_toml(self) -> str:
        """The comparison as TOML."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "settings"}
        table = {**asdict(self.settings), **own, "algorithms": list(self.algorithms)}
        return tomli_w.dumps({k: v for k, v in table.items() if v is not None and v != {}})


def from_file(path: Path) -> Comparison:
    """A comparison from its TOML file; paths in it are relative to the file's own folder."""
    said, where = read_toml(path), str(path)
    kinds, own = get_type_hints(Comparison), {}
    names = said.pop("algorithms", list(Comparison.algorithms))
    eta = said.pop("eta", Config().eta)
    eta = eta if isinstance(eta, dict) else {"all": eta}
    for name in ("budget", "tune", "candidates", "tune_seeds"):
        if name in said:
            own[name] = fit(f"{where}: {name}", kinds[name], said.pop(name))
    if not (isinstance(names, list) and all(isinstance(n, str) for n in names)):
        raise InputError(f"{where}: algorithms is {names!r}; it must be a list of names")
    etas = {name: fit(f"{where}: eta of {name}", float, value) for name, value in eta.items()}
    settings = settings_from(Settings, {"seeds": 8, **said}, where, path.parent)
    return Comparison(settings, tuple(names), etas, **own)
