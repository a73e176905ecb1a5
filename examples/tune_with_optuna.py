"""Step size and local steps by Optuna: python examples/tune_with_optuna.py --trials 20

Trials run on seeds of their own. What they find best is run on others, and only those numbers are reported.
"""

import argparse

import numpy as np
import optuna

import fastfedpg as ff

SEEDS, TUNED_ON = 4, 1000


def gap(result: ff.Result) -> float:
    """The mean over seeds of the logarithm of the last gap: a factor counts the same everywhere."""
    return float(np.log(result.final("gap")).mean())


def config(trial: optuna.trial.BaseTrial, rounds: int, first_seed: int) -> ff.Config:
    """A run of Fast-FedPG with what Optuna suggests; whatever H is, local steps play as much: H B is 320."""
    H = trial.suggest_categorical("H", [5, 10, 20, 40])
    eta = trial.suggest_float("eta", 0.25, 32, log=True)
    sampled = {"oracle": "gpomdp", "baseline": "leave-one-out", "B": 320 // H, "K": 30}
    return ff.Config("compromise-grid", eta=eta, H=H, rounds=rounds, seeds=SEEDS, first_seed=first_seed, **sampled)


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--trials", type=int, default=20)
    flags.add_argument("--rounds", type=int, default=40)
    given = flags.parse_args()

    def objective(trial: optuna.Trial) -> float:
        try:
            return gap(ff.run(config(trial, given.rounds, TUNED_ON)))
        except ff.Diverged:
            raise optuna.TrialPruned from None

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(objective, n_trials=given.trials)
    best = study.best_trial
    print(f"best of {given.trials}: eta = {best.params['eta']:.3g}, H = {best.params['H']}")
    fresh = ff.run(config(optuna.trial.FixedTrial(best.params), given.rounds, 0))
    print(f"gap on seeds 0 to {SEEDS - 1}, geometric mean: {np.exp(gap(fresh)):.4g}")


if __name__ == "__main__":
    main()
