"""`fastfedpg advise` and `run --algorithm auto`: what they say, write and refuse."""

import json
import re
import shlex
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from commands import command
from fastfedpg import problems, runtime
from fastfedpg.cli.flags import words_of
from fastfedpg.cli.parse_flags import settings_for
from fastfedpg.cli.run import RunFlags
from fastfedpg.errors import InputError
from fastfedpg.experiment import Config, advised, plan, resume, run
from fastfedpg.experiment.advice_given import Advice
from fastfedpg.experiment.advised import advise
from fastfedpg.experiment.config import from_toml
from fastfedpg.runtime import Schedule

NOISY = ("--oracle", "reinforce", "--B", 1, "--K", 10)


@cache
def of_compromise() -> Advice:
    return advise(Config("compromise"))


@cache
def of_what_is_played() -> Advice:
    return advise(Config("point-mass", agents=2, oracle="gpomdp", policy="linear", B=4, K=10, H=5))


@pytest.fixture(autouse=True)
def _in_a_new_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def alike() -> Path:
    """Four agents with one and the same reward: zeta^2 = 0."""
    rng = np.random.default_rng(0)
    P, reward = rng.dirichlet(np.ones(3), (3, 2)), np.tile(rng.uniform(size=(1, 3, 2)), (4, 1, 1))
    np.savez("alike.npz", P=P, reward=reward, rho=np.full(3, 1 / 3), gamma=0.5)
    return Path("alike.npz")


def test_exact_gradients_that_differ_ask_for_a_correction(rendered, capsys):
    """compromise: two agents who want opposite things; without noise Fast-FedPG's fresh anchor is best."""
    assert command("advise", "compromise", "--H", 10, "--out", "advice.png") == 0
    said = capsys.readouterr().out
    for part in ("drift decides", "--algorithm fast_fedpg", "--H 10", "fedavg_pg", "scaffold_pg", "centralised_pg"):
        assert part in said
    assert "Theorem 2 promises nothing here: tau = 0" in said
    assert "no model: adaptive_anchor, rc_pg;" in said
    assert "sigma^2       0: gradients are exact, and no noise is weighed" in said
    assert "tried: with eta = " in said
    assert Path("advice.png").stat().st_size > 10_000
    assert Path("advice.svg").is_file()
    told = json.loads(Path("advice.json").read_text())
    assert told["chosen"].startswith("fast_fedpg")
    assert told["balance"]["value"] is None, "no noise: the balance is infinite"
    assert told["tried"]["gaps"][round(told["costs"][0]["rounds"])] <= told["target_gap"]
    assert [c["method"] for c in told["costs"]][-1] == "independent_pg"


def test_agents_that_are_alike_ask_for_plain_averaging(capsys):
    assert command("advise", alike(), *NOISY, "--H", 5) == 0
    said = capsys.readouterr().out
    assert re.search(r"zeta\^2 +\S+ in \[0, ", said), "an estimate of a square may be negative, and a square is not"
    assert "no noise is weighed" not in said
    assert "noise decides" in said
    assert re.search("--algorithm (fedavg_pg|minibatch_pg)", pasted(said))
    assert "--B 1" in pasted(said)


def pasted(said: str) -> str:
    """The command that is advised, as it is printed: on one line."""
    return next(line.removeprefix("take: ") for line in said.splitlines() if line.startswith("take: "))


def test_what_is_advised_can_be_pasted(capsys):
    """It runs as it is, with all that was asked: the configuration is what advice gives, for the rounds of its row."""
    asked = (alike().rename("my problem.npz"), *NOISY, "--H", 5, "--target", 0.02)
    assert command("advise", *asked) == 0
    said = capsys.readouterr().out
    words = shlex.split(pasted(said))
    assert words[:4] == ["fastfedpg", "run", "--problem", "my problem.npz"]
    config, _ = settings_for((RunFlags,), "fastfedpg run", words[2:])
    wanted = advise(Config("my problem.npz", oracle="reinforce", B=1, K=10, H=5), 0.02)
    assert config == wanted.config.but(rounds=round(wanted.best.rounds))
    assert command(*words[1:], "--out", "out") == 0
    assert from_toml("out/config.toml").rounds == round(wanted.best.rounds)


@pytest.mark.parametrize(
    "config",
    [
        Config("random", {"S": 3, "kernel": 0.5}, algorithm="fedavg_pg", eta=1e-5, tau=0.1, participants=2, seeds=3),
        Config("point-mass", oracle="gpomdp", baseline="leave-one-out", policy="mlp", policy_args={"hidden": (4, 3)}),
        Config("compromise", reuse=True, order="arrival", speeds=(1.0, 2.5), reward_range=(-1.0, 2.0)),
        Config("compromise", normalise=True, first_seed=3, runtime="loop"),
    ],
)
def test_flags_for_any_configuration(config):
    read, _ = settings_for((RunFlags,), "fastfedpg run", words_of(config))
    assert read == config


def test_what_is_measured_is_what_there_is():
    """zeta^2 of `compromise` at the uniform policy, by its definition; and the first gap is J - J*."""
    found = of_compromise()
    mdp = problems.compromise()
    g = problems.exact.gradients(mdp, np.zeros(3)).reshape(2, 3)
    assert found.measured.zeta_sq.mean == pytest.approx(np.mean(np.sum((g - g.mean(axis=0)) ** 2, axis=1)))
    assert found.at.gap == pytest.approx(problems.exact.J(mdp, np.zeros((1, 3))) - problems.exact.optimum(mdp).J)


def test_what_can_only_be_played_is_not_tried():
    """No J* is known: rounds are the model's, and that is said."""
    found = of_what_is_played()
    assert found.tried is None
    assert found.trial().startswith("not tried, since no gap is known here: rounds are the model's")
    assert found.summary()["tried"] is None


@pytest.mark.parametrize("problem", [("windy-cliff", {}), ("random", {"kernel": 0.5})])
def test_where_kernels_differ_there_is_no_best_common_policy_to_reckon_with(problem):
    """The mean of the agents' own optima is less than any J: with it in J*'s place no target is where it seems. So the
    first gap is a parabola's, nothing is tried, and neither theorem nor trial is told of."""
    name, args = problem
    found = advise(Config(name, problem_args=args, H=5))
    assert found.tried is None
    assert found.at.gap == pytest.approx(found.measured.norm_sq.mean / (2 * found.measured.L.mean))
    assert found.notes[0].startswith("J* is not known where kernels or starts differ")
    assert found.trial().startswith("not tried, since no gap is known here")
    assert found.by_theorem() == (
        "Theorem 2 promises nothing here: P or rho differ between agents: (12) is about the average MDP"
    )


def test_theorem_2_speaks_where_it_applies():
    """With entropy, and of regulators; not for other server steps, nor of what can only be played."""
    for config in (Config("compromise", tau=0.1, H=5), Config("lqr", H=5)):
        assert advise(config).by_theorem().startswith("Theorem 2 with its own constants promises fast_fedpg this gap")
    assert advise(Config("compromise", tau=0.1, H=5, alpha_g=0.5)).by_theorem().endswith("alpha_g = 0.5, not 1")
    assert of_what_is_played().by_theorem().endswith("of what can only be played neither J* nor (12) is known")


def test_trajectories_are_advised_unless_they_are_given(capsys):
    """A fourth of the usual 16, 16 and 64 are weighed: the command has the one that is best, and K is told."""
    asked = Config("compromise", oracle="gpomdp", H=5, K=10)
    found = advise(asked)
    assert found.best.method.B == found.config.get("oracle.B") != 16
    assert found.best.method.noise == pytest.approx(16 / found.best.method.B)
    assert f"B = {found.best.method.B}" in found.chosen
    assert advise(asked.but(B=16)).config.get("oracle.B") == 16
    assert command("advise", "compromise", "--oracle", "gpomdp", "--H", 5, "--K", 10) == 0
    said = capsys.readouterr().out
    assert f"--B {found.best.method.B}" in pasted(said)
    assert re.search(r"  K +10 steps in a trajectory; the bound on what is cut off asks for \d+", said)


def test_without_noise_it_does_not_decide():
    """FedAvg-PG can be the best without noise, where its drift is within the target."""
    found = of_compromise()
    plain = sorted(found.costs, key=lambda c: c.method.name != "fedavg_pg")
    assert found._replace(costs=plain).reason().startswith("neither noise nor drift decides: without noise")


def test_settings_that_are_given_stay():
    found = advise(Config("compromise", H=3, eta=0.5))
    assert found.config.get("H") == 3
    assert found.config.eta == 0.5
    assert {c.method.H for c in found.costs} == {1, 3}


def test_a_private_problem_cant_be_sampled(capsys):
    assert command("advise", "private", "--agents", 2, "--parameters", 3) == 2
    assert "problem 'private' can't be sampled here" in capsys.readouterr().err


def test_too_few_samples_say_how_many_it_takes(capsys):
    """4 estimates leave open on which side of an anchor's noise zeta^2 lies, and it matters; 64 tell."""
    flags = ("random", "--oracle", "gpomdp", "--baseline", "leave-one-out", "--B", 2, "--K", 10, "--H", 20)
    assert command("advise", *flags, "--target", 0.1, "--replicas", 4) == 2
    said = capsys.readouterr().err
    assert "4 estimates of each agent are too few to tell: zeta^2 =" in said
    assert int(said.split("--replicas ")[1].split()[0]) >= 8
    assert command("advise", *flags, "--target", 0.1, "--replicas", 64) == 0
    assert command("advise", *flags, "--replicas", 3) == 2
    assert "3 replicas; an interval needs at least 4" in capsys.readouterr().err


@pytest.mark.long
def test_where_noise_hides_the_gradient_more_is_asked_and_larger_steps_are_tried():
    """compromise, two trajectories: by 8 estimates neither ||grad J||^2 nor L can be told from 0, and their upper ends
    gave steps of which 400 rounds did not reach the target. Now 32 are asked, what is hidden is said with how many it
    would take, and larger steps are tried: what is advised comes near the target in the rounds that are said."""
    found = advise(Config("compromise", oracle="gpomdp", B=2))
    assert found.measured.replicas == 32
    assert "can't be told from noise by 32 estimates of each agent" in found.notes[0]
    assert found.config.eta > 3 * max(c.eta for c in found.costs[1:])
    planned = plan(found.config.but(rounds=round(found.best.rounds)))
    first, *_, last = runtime.simulate_records(planned.problem, planned.algorithm, Schedule(planned.config.rounds, 8))
    assert np.mean(last.evaluation.gap) < 0.03 * np.mean(first.evaluation.gap)


def test_a_target_that_is_met_at_the_start_is_refused(capsys):
    for given in (("--target", 5), ("--oracle", "gpomdp", "--B", 2, "--replicas", 4, "--target", 0.3)):
        assert command("advise", "compromise", *given) == 2
        assert "is met where the problem begins: the first gap is 0.13" in capsys.readouterr().err


def test_a_method_without_local_steps_is_not_said_to_correct():
    """centralised_pg has no drift to correct."""
    found = of_compromise()
    assert found.reason().startswith("drift decides")
    plain = sorted(found.costs, key=lambda c: c.method.name != "centralised_pg")
    assert found._replace(costs=plain).reason().startswith("neither noise nor drift decides")


def test_words_and_picture_are_on_one_side():
    """SCAFFOLD-PG's correction has an H-th of an anchor's noise, an anchor with 4 B a fourth; 1 is the border.

    By Fast-FedPG's anchor alone a third of all advice on the stored comparisons was drawn on the side that it spoke
    against.
    """
    found = of_compromise()
    first = found.costs[0]

    def told(balance, **changes):
        cost = first._replace(method=first.method._replace(**changes))
        at = found.at._replace(sigma_sq=1.0)
        return found._replace(balance=balance, at=at, costs=[cost, *found.costs[1:]])

    scaffold, fast = {"name": "scaffold_pg", "H": 10}, {"name": "fast_fedpg", "B_over_B0": 1.0}
    assert told((0.5, 0.2, 0.8), **scaffold).own_balance == pytest.approx((5, 2, 8))
    assert told((0.5, 0.2, 0.8), **scaffold).reason().startswith("drift decides")
    assert told((0.5, 0.05, 0.9), **scaffold).reason().startswith("noise or drift, it can't be told")
    assert told((1.5, 0.9, 2.0), **fast).own_balance == pytest.approx((1.5, 0.9, 2.0))
    assert told((1.5, 0.9, 2.0), **fast).reason().startswith("noise or drift, it can't be told")
    assert told((1.5, 0.9, 2.0), name="fast_fedpg", B_over_B0=0.25).reason().startswith("drift decides")
    assert told((30.0, 9.0, 50.0), name="minibatch_pg").reason().startswith("neither noise nor drift decides")
    assert told((0.3, 0.1, 0.5), name="minibatch_pg").reason().startswith("noise decides")
    assert told((5.0, 3.0, 9.0), name="fedavg_pg", H=1).reason().startswith("neither noise nor drift decides")
    assert told((0.3, 0.1, 0.5), name="fedavg_pg", H=5).reason().startswith("noise decides")


def test_a_target_below_the_floor_says_the_floor(capsys):
    """At a step size that is given the floor is a number; a target a little above twice what it leaves is fine."""
    given = (alike(), *NOISY, "--H", 5, "--eta", 0.05)
    assert command("advise", *given, "--target", 1e-9) == 2
    said = capsys.readouterr().err
    assert "target = 1e-09 is below the noise floor at eta = 0.05" in said
    least = float(said.split("at eta = 0.05, ")[1].split(":")[0])
    agents = int(re.search(r"by the model ([\d,]+) agents of their kind, or", said)[1].replace(",", ""))
    assert agents == pytest.approx(4 * least / 1e-9, rel=0.2), "at a small step the floor is one over N"
    assert re.search(r"or [\d,]+ trajectories in an estimate \(--B\), would be enough", said)
    assert command("advise", *given, "--target", 1.05 * least) == 0
    assert command("advise", *given[:-2], "--target", 1e-12) == 2
    assert "that 10,000,000 rounds can reach" in capsys.readouterr().err
    assert command("advise", "compromise", "--target", -1) == 2
    assert "target = -1; it must be a positive number" in capsys.readouterr().err


def test_a_picture_that_is_there_stays(capsys):
    Path("mine.png").write_text("")
    assert command("advise", "compromise", "--out", "mine") == 2
    assert "mine.png already there" in capsys.readouterr().err
    assert Path("mine.png").read_text() == ""


def test_auto_follows_the_advice_and_writes_down_why(capsys):
    assert (
        command("run", "--problem", alike(), *NOISY, "--H", 5, "--algorithm", "auto", "--rounds", 3, "--out", "a") == 0
    )
    config = from_toml("a/config.toml")
    chosen = config.algorithm
    said = f"note: auto: {chosen}, with eta = {config.eta:g}, H = 5, B = 1, since noise decides"
    assert said in capsys.readouterr().err
    assert chosen in ("fedavg_pg", "minibatch_pg")
    assert f"# Algorithm auto chose {chosen}: noise decides" in Path("a/config.toml").read_text()
    told = json.loads(Path("a/summary.json").read_text())["advice"]
    assert told["chosen"] == chosen
    assert told["measured"]["zeta_sq"]["low"] < 0 < told["measured"]["sigma_sq"]["low"]
    assert (
        command("run", "--problem", "compromise", "--algorithm", "auto", "--out", "a", "--overwrite", "--rounds", 2)
        == 0
    )
    assert json.loads(Path("a/summary.json").read_text())["advice"]["chosen"].startswith("fast_fedpg")
    assert command("run", "--problem", "compromise", "--out", "a", "--overwrite", "--rounds", 2) == 0
    assert not Path("a/advice.json").exists(), "a run that asked for no advice leaves none of an earlier run"


def test_a_resumed_run_does_not_decide_anew(monkeypatch):
    """Interrupted after its first round: what goes on has the algorithm and the reasons that were written down."""
    config = Config("compromise", algorithm="auto", rounds=4, H=10, checkpoint_rounds=1)

    def stop(done, record=None):
        if done >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(config, "out", report=stop, note=lambda words: None)
    before = json.loads(Path("out/advice.json").read_text())

    def never(*given):
        raise AssertionError("decided anew")

    monkeypatch.setattr(advised, "advise", never)
    resume("out", note=lambda words: None)
    told = json.loads(Path("out/summary.json").read_text())
    assert told["state"] == "finished"
    assert told["advice"] == before
    assert told["algorithm"] == "fast_fedpg"


def test_auto_refuses_what_advice_refuses():
    with pytest.raises(InputError, match="can't be sampled"):
        run(Config("private", agents=2, parameters=3, algorithm="auto"))
