"""The example of docs/runs.md runs as it stands."""

import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "runs.md"


def test_the_example_of_the_page_runs(rendered, tmp_path, monkeypatch, capsys):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"<!-- example: python -->\n```python\n(.*?)```", PAGE.read_text(), flags=re.S)
    names: dict = {}
    exec(compile(example, "runs.md", "exec"), names)
    said = capsys.readouterr().out
    assert said.startswith("Result: 50 rounds in 51 records, 3 seeds\nmean gap ")
    assert names["learned"].evaluate().mean == pytest.approx(names["result"].final("return_mean")[0], rel=1e-12)
    assert (tmp_path / "gap.png").read_bytes()[:4] == b"\x89PNG"
    with np.load(tmp_path / "policy.npz") as file:
        assert file["choices"].tolist() == [5]
