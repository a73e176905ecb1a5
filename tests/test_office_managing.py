"""The program that judges rules and runs on `offices`: its table, its verdicts, its picture and its refusals."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fastfedpg as ff
from fastfedpg.envs.catalogue.office_rules import fixed
from fastfedpg.envs.catalogue.office_years import Costs
from fastfedpg.envs.catalogue.offices import offices_with

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))  # as a script in that folder has it

from managing import contenders, picture, table

NAMES = {
    "fixed setting": "rule",
    "night setback": "rule",
    "best common rule": "searched",
    "best personal rule": "searched",
}


def judged(learned=(890.0, 910.0), spread=0.0):
    """Years of 1,300, 1,000, 950 and 910 euros, of which 10 are discomfort, in weather that makes 100 more or less.

    Two seeds learned, with these means, and by 4 more in one year and less in the other.
    """
    places, weather = offices_with(2, 0.02, 0.5, spread), np.array([[-100.0, 0.0, 100.0]])
    made = lambda total: Costs(total - 10, np.full_like(total, 10), np.full_like(total, 70), np.full_like(total, 7))
    who = lambda name, kind: contenders.Contender(
        name, kind, lambda place, own: fixed(place.preferred), (None,), places
    )
    found = [
        contenders.Judged(who(name, kind), made(mean + weather))
        for (name, kind), mean in zip(NAMES.items(), (1300, 1000, 950, 910), strict=True)
    ]
    totals = np.array(learned)[:, None] + weather + [[-4.0, 0.0, 4.0]]
    return [*found, contenders.Judged(who("learned", "learned"), made(totals))]


def test_differences_are_taken_in_the_same_weather():
    """The total of one: 100 sqrt(1/3) t_2 = 248. Its difference from setback is the same in every year: +300, ± 0."""
    lines = table.table(judged()).splitlines()
    assert "2 offices, 3 weather years" in lines[0]
    assert lines[3].split() == ["fixed", "setting", "1,290", "10", "1,300", "±", "248", "+300", "±", "0", "70", "7"]
    assert [line[:20].strip() for line in lines[3:]] == [*NAMES, "learned"]
    assert {len(line) for line in lines[1:]} == {89}


def test_verdicts_need_the_whole_interval():
    """Means 890 and 910, v = 10^2 + 4^2 / 3 = 105.3 with 1.1 degrees of freedom: the interval is about ± 103 euros."""
    said = table.verdicts(judged())
    assert [line.rsplit(": ", 1)[1] for line in said] == ["not distinguishable"] * 3
    said = table.verdicts(judged((910.0, 910.0)))  # v = 4^2 / 3, 2 degrees of freedom: ± 9.9
    assert [line.rsplit(": ", 1)[1] for line in said] == ["cheaper", "cheaper", "not distinguishable"]
    assert "learned against the best common rule: -4.2%, -5.3 to -3.2" in said[1]
    assert table.verdicts(judged((970.0, 970.0)))[2].endswith("dearer")


def test_the_picture_says_what_the_table_says(monkeypatch, tmp_path):
    """Every contender has its euros and hours in its bar, and its difference beside it, or an arrow where it is far."""
    monkeypatch.setattr(picture.style, "save", lambda figure, stem: figure)
    figure = picture.picture(judged((970.0, 970.0)), tmp_path / "offices", office=1)
    week, years = figure.subfigs
    assert [axes.get_ylabel().split(",")[0] for axes in week.axes] == ["indoors", "heat pump", "outdoors", "price"]
    bars, gaps = ([text.get_text() for text in axes.texts] for axes in years.axes)
    assert bars[::2] == ["1,300 €", "1,000 €", "970 €", "950 €", "910 €"]
    assert bars[1::2] == ["7 hours too cold or warm"] * 5
    assert gaps == ["+300 €", "0 €", "-30 €", "-50 €", "-90 €"]
    names = [label.get_text().replace("\n", " ") for label in years.axes[0].get_yticklabels()]
    assert names == ["fixed setting", "night setback", "learned", "best common rule", "best personal rule"]


def test_of_a_runs_seeds_the_best_in_the_years_of_the_rules_is_judged_too(monkeypatch, capsys):
    """Three seeds that cost 3, 1 and 2 there; who has one is not chosen from."""
    asked = []

    def years(make, places, own, seeds, told):
        asked.append(tuple(seeds))
        return Costs(np.array([[own - 1.0]]), np.ones((1, 1)), np.zeros((1, 1)), np.zeros((1, 1)))

    monkeypatch.setattr(contenders, "years", years)
    one = judged()[-1].contender
    several = one._replace(name="several", own=(3.0, 1.0, 2.0))
    found = contenders.with_best([one, several], [1000, 1001])
    assert [(who.name, who.own) for who in found] == [
        ("learned", (None,)),
        ("several", (3.0, 1.0, 2.0)),
        ("best of 3: several", (1.0,)),
    ]
    assert asked == [(1000, 1001)] * 3
    assert "several: chosen is seed 2 of 3" in capsys.readouterr().err


def test_what_was_learned_in_own_degrees_is_judged_in_them(tmp_path):
    """A linear policy of which only the thermometer counts: a = 1 indoors, in whose degrees the run was."""
    about = {"policy": "linear", "oracle": "gpomdp", "B": 1, "K": 2, "H": 1, "evaluation_episodes": 1, "rounds": 1}
    acts = []
    for own in (False, True):
        ff.run(ff.Config("offices", {"own_degrees": own}, agents=2, **about), tmp_path / str(own))
        found = contenders.learned("", tmp_path / str(own))
        theta, place = np.zeros(found.own[0].shape[1]), offices_with(1, 0.02, 0.5, 0.0)
        theta[0] = 1.0  # the first output's weight of what is seen first
        rule = found.make(type(place)(place.preferred[0], place.weight[0], None), theta)
        acts.append(np.asarray(rule(jnp.zeros(12).at[0].set(0.3), jax.random.key(0)))[0])
    warmer = place.preferred[0] - 21.5
    np.testing.assert_allclose(acts, [0.3, 0.3 - warmer / 5 + warmer / 4.5], atol=1e-6)


def test_what_can_not_be_judged_is_refused(tmp_path):
    ff.run(ff.Config("compromise", rounds=1), tmp_path / "table")
    with pytest.raises(ff.InputError, match=r"a run on compromise; here runs on offices are judged"):
        contenders.learned("mine", tmp_path / "table")
    with pytest.raises(ff.InputError, match="no such folder"):
        contenders.learned("mine", tmp_path / "nowhere")
    with pytest.raises(ff.InputError, match=r"years = 0; it must lie in \[1, 1000\]"):
        contenders.weather_years(0, 2)
    one, other = (judged(spread=spread)[0].contender for spread in (0.0, 0.2))
    with pytest.raises(ff.InputError, match="agents, least, most and spread must be the same"):
        contenders.same_offices([one, other])
    assert contenders.same_offices([one, one]) is not None
