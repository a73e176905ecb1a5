"""Input that once ended in a traceback, in gigabytes or in foreign escape codes: exit 2, one line, nothing left."""

import io
import resource
import zipfile
from pathlib import Path

import numpy as np
import pytest

from commands import command
from fastfedpg import InputError, cli, memory
from fastfedpg.errors import EnvironmentFailed, printable
from fastfedpg.problems import npz

OWN = """
class Mine(KeyboardInterrupt):
    pass

class Base(BaseException):
    pass

def stops():
    raise SystemExit(3)

def keyboard():
    raise Mine("of my own")

def generator():
    raise GeneratorExit("gone")

def base(number):
    raise Base("of my own")

def algorithm(eta=0.1):
    raise Base("of my own")

def policy(observations, actions, normalise):
    raise Base("of my own")

def oracle(game):
    raise Base("of my own")

class Unsaid(ValueError):
    def __str__(self):
        raise RuntimeError("no words")

def unsaid():
    raise Unsaid

async def later():
    return 3

def escapes():
    raise ValueError("red \\x1b[31m\\nfastfedpg: all is well \\x9b2J \\u202e")
"""


@pytest.fixture(autouse=True)
def _fresh_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(memory, "available", lambda: 2**34)  # on every machine
    Path("refused_code.py").write_text(OWN)
    Path("leaves.py").write_text('raise GeneratorExit("while it is imported")\n')
    np.savez("theta.npz", theta=np.zeros((1, 3)))
    Path("nul.toml").write_text('theta0 = "a\\u0000b.npz"\n')
    Path("named.toml").write_text('[algorithm]\nname = "x\\u001b[31m\\nfastfedpg: y"\n')
    Path("nul-problem.toml").write_text('problem = "a\\u0000b.npz"\n')


PLAYED = "--problem cart-pole --oracle gpomdp"
DEEP = "--problem point-mass --B 2 --K 5"
WORDS = {
    **{f"--{kind} {name}": "does not say what it takes" for kind in ("problem", "algorithm", "oracle", "policy")
       for name in ("builtins:int", "time:time", "builtins:type")},
    f"{PLAYED} --policy mlp --policy-args hidden=9999999x9999999": "needs 727.6 TB of memory, and ",
    f"{PLAYED} --policy fourier --policy-args features=1000000000000": "needs 43.7 TB of memory, and ",
    f"{PLAYED} --policy mlp --policy-args hidden={'9' * 30}": "TB of memory",
    "--seeds 2147483000": "each of 2147483000 seeds needs",
    "--seeds 2000000000": "each of 2000000000 seeds needs",
    "--seeds 2147483000 --theta0 theta.npz": "each of 2147483000 seeds needs",
    f"{PLAYED} --policy mlp --seeds 2147483000": "each of 2147483000 seeds needs",
    f"{PLAYED} --policy mlp --evaluation-episodes 2000000000": "2000000000 episodes of",
    "--problem gym:CartPole-v1 --oracle gpomdp --policy mlp --agents 2000000000": "agents = 2000000000 needs",
    **{f"{DEEP} {more}": said for more, said in {
        "--oracle ppo --policy linear --minibatches 3": "minibatches = 3 does not divide B K = 10: take a number that",
        "--oracle ppo --policy linear --kl-stop 0": "kl_stop = 0; it must be positive",
        "--oracle trpo --policy linear --kl-limit -1": "kl_limit = -1; it must be positive",
        "--oracle trpo --policy linear --optimiser adam": "oracle trpo says itself how long a step is; take sgd",
        "--oracle trpo --policy linear --algorithm heavy_anchor": "algorithm 'heavy_anchor': its first step is by a",
        "--oracle ppo --policy cnn": "policy cnn is for images, a Box of shape (height, width)",
        "--oracle ppo --policy linear --entropy 0.1 --policy-args squash=true": "entropy has no closed form",
        "--oracle gpomdp --policy linear --algorithm fedkl --kl-target 0": "kl_target = 0; it must be positive and",
    }.items()},
    "--out a\0b": "a\\x00b: no name or path has a NUL in it",
    "--problem a\0b.npz": "a NUL",
    "--config a\0b": "a NUL",
    "--config nul.toml": "theta0 is 'a\\x00b.npz'; it must be text, without a NUL",
    "--config nul-problem.toml": "problem is 'a\\x00b.npz'; no name or path has a NUL in it",
    "--config named.toml": "algorithm 'x\\x1b[31m\\nfastfedpg: y': no module",
    "--problem refused_code:stops": "can't be made: SystemExit: 3 (",
    "--problem refused_code.py:keyboard": "can't be made: Mine: of my own (",
    "--problem refused_code:generator": "can't be made: GeneratorExit: gone (",
    "--problem refused_code:base --agents 2": "can't be made: Base: of my own (",
    "--problem leaves:make": "module 'leaves' can't be imported: GeneratorExit: while it is imported (",
    "--problem leaves.py:make": "module 'leaves' can't be imported: GeneratorExit: while it is imported (",
    "--algorithm refused_code:algorithm": "algorithm 'refused_code:algorithm': Base: of my own (",
    "--problem cart-pole --oracle gpomdp --policy refused_code:policy": "policy' can't be made: Base: of my own (",
    "--problem cart-pole --oracle refused_code:oracle --policy linear": "oracle', in its first round: Base: of my",
    "--problem refused_code:unsaid": "can't be made: Unsaid: (what it says is not known: its own __str__ raised",
    "--algorithm refused_code:unsaid": "unsaid': (what it says is not known: its own __str__ raised RuntimeError)",
    "--algorithm refused_code:later": "returns a coroutine; it must return a fastfedpg.Algorithm",
    "--problem refused_code:escapes": "ValueError: red \\x1b[31m fastfedpg: all is well \\x9b2J \\u202e (",
}  # fmt: skip


@pytest.mark.parametrize("words", WORDS)
def test_one_line_and_nothing_left(words, capsys):
    given = words.split(" ")
    before = sorted(p.name for p in Path().iterdir() if p.name != "__pycache__")
    usual = () if "--problem" in words else ("--problem", "compromise")
    out = () if "--out" in words else ("--out", "out")
    assert command("run", *usual, *out, "--rounds", 1, *given) == 2
    said = capsys.readouterr().err
    assert WORDS[words] in said
    assert said.startswith("fastfedpg: ")
    assert said.count("\n") == 1
    assert printable(said[:-1]) == said[:-1]
    assert sorted(p.name for p in Path().iterdir() if p.name != "__pycache__") == before


def test_ctrl_c_in_somebodys_code_is_ctrl_c(capsys):
    Path("refused_code.py").write_text("def make():\n    raise KeyboardInterrupt\n")
    assert command("run", "--problem", "refused_code.py:make", "--out", "out") == 130


SHAPES = {"P": (2, 2, 2), "reward": (2, 2, 2), "rho": (2,), "gamma": ()}


def large_npz(path, **shapes):
    """Zeros of any shape, of which a compressed megabyte says gigabytes; beyond 64 MB the file only claims them."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, shape in {**SHAPES, **shapes}.items():
            head = io.BytesIO()
            about = {"descr": "<f8", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(head, about)
            size = min(8 * int(np.prod(shape, dtype=float)), 2**26)
            archive.writestr(f"{name}.npy", head.getvalue() + bytes(size))


LARGE = {
    "P (27000, 2, 16000)": ({"P": (27000, 2, 16000)}, "P has shape (27000, 2, 16000): axis 0 (states) has length"),
    "P of 10^15": ({"P": (10**5, 10**5, 10**5)}, "P, of shape (100000, 100000, 100000), needs"),
    "gamma": ({"gamma": (30_000_000,)}, "gamma has shape (30000000,); it can't have more than"),
    "rho": ({"rho": (900_000_000,)}, "rho has shape (900000000,): axis 0 (states) has length"),
}


@pytest.mark.parametrize("which", LARGE)
def test_the_shapes_in_a_file_are_looked_at_before_it_is_expanded(which, capsys, monkeypatch):
    """7 GB in the first: neither they nor a tenth of them are taken, also where there would be room."""
    monkeypatch.setattr(memory, "available", lambda: 2**40)
    shapes, says = LARGE[which]
    large_npz("large.npz", **shapes)
    assert Path("large.npz").stat().st_size < 2**20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert command("run", "--problem", "large.npz", "--out", "out") == 2
    assert says in capsys.readouterr().err
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024
    assert not Path("out").exists()


def test_theta0_too(capsys):
    with zipfile.ZipFile("theta.npz", "w") as archive:
        head = io.BytesIO()
        about = {"descr": "<f8", "fortran_order": False, "shape": (900_000_000,)}
        np.lib.format.write_array_header_1_0(head, about)
        archive.writestr("theta.npy", head.getvalue())
    assert command("run", "--problem", "compromise", "--theta0", "theta.npz", "--out", "out") == 2
    assert "theta.npz: theta has shape (900000000,); it must be" in capsys.readouterr().err


def test_a_header_without_an_end_is_not_read_to_its_end():
    """A header of 4 GB of spaces, as its length says; only as much as is allowed is read."""
    with zipfile.ZipFile("long.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        head = np.lib.format.MAGIC_PREFIX + b"\x02\x00" + (2**32 - 1).to_bytes(4, "little")
        archive.writestr("theta.npy", head + b" " * 2**26)
    with pytest.raises(InputError, match="header is longer than 10000 bytes"):
        npz.read_npz("long.npz", ("theta",))


def test_names_from_a_file_are_printed_and_not_obeyed(capsys):
    """In what is said of a problem, in progress and in an error."""
    P = np.full((2, 2, 2), 0.5)
    evil = "a\x1b[2J\nresults: elsewhere\x9b31m\u202e"
    np.savez(
        "evil.npz", P=P, reward=np.stack([np.eye(2)] * 2), rho=[0.5, 0.5], gamma=0.9, name=evil, agents=[evil, "b"]
    )
    assert command("show", "evil.npz", "--out", "picture") == 0
    assert command("run", "--problem", "evil.npz", "--rounds", 1, "--out", "out\x1b[31m\nx") == 0
    assert command("runs", ".") == 0
    assert command("run", "--problem", "evil.npz", "--policy", "qq\x1b[31m", "--out", "other") == 2
    captured = capsys.readouterr()
    for line in (captured.out + captured.err).splitlines():
        assert printable(line) == line
        assert not line.startswith("results: elsewhere")
    assert "out\\x1b[31m\\nx" in captured.out


def test_a_narrow_terminal_is_told_no_more_lines_than_there_are(capsys, monkeypatch):
    """Without room for a table each run is a block of lines of its own."""
    monkeypatch.setenv("COLUMNS", "30")
    Path("x\x1b[31m\nfake").mkdir()
    Path("x\x1b[31m\nfake/config.toml").write_text('[algorithm]\nname = "x:y\\n1,000 FAKE finished run"\n')
    assert command("runs", ".") == 0
    said = capsys.readouterr().out
    assert "\n1,000 FAKE" not in said
    assert "\nfake" not in said
    assert "x\\x1b[31m\\nfake" in said
    assert "x:y\\n1,000 FAKE" in said


NAMES = {"name": np.array("n" * 201), "agents": np.array(["a", "b" * 300]), "states": np.array(["s" * 10_000, "t"])}


@pytest.mark.parametrize("which", NAMES)
def test_a_name_in_a_file_has_an_end(which, capsys):
    """100,000 letters once took a minute to draw."""
    P = np.full((2, 2, 2), 0.5)
    np.savez("long.npz", P=P, reward=np.stack([np.eye(2)] * 2), rho=[0.5, 0.5], gamma=0.9, **{which: NAMES[which]})
    assert command("show", "long.npz", "--out", "picture") == 2
    said = capsys.readouterr().err
    assert "letters; it can have 200" in said
    assert which in said
    assert not Path("picture.png").exists()


def test_what_is_printable():
    assert printable("α, é, 日本, — and 👍") == "α, é, 日本, — and 👍"
    assert printable("\x00\x1b\x7f\x85\x9b\n\r\t\u202e\u2066\u2028\udc80") == (
        "\\x00\\x1b\\x7f\\x85\\x9b\\n\\r\\t\\u202e\\u2066\\u2028\\udc80"
    )
    assert str(InputError("a\nb")) == "a\\nb"
    assert str(EnvironmentFailed("a\x1bb")) == "a\\x1bb"


def test_a_log_has_one_line_for_a_record(capsys):
    import logging

    handler = logging.StreamHandler(stream := io.StringIO())
    handler.setFormatter(cli.consoles.LogFormatter("%(message)s"))
    log = logging.Logger("of a test")
    log.addHandler(handler)
    try:
        raise ValueError("one\ntwo \x1b[31m")
    except ValueError as error:
        log.exception("refused: %s", error)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "refused: one\\ntwo \\x1b[31m"
    assert all(line.startswith("  ") for line in lines[1:])
    assert "\x1b" not in stream.getvalue()
