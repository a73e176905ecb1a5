"""An agent's environment, built from what was sent."""

import contextlib
import inspect
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from fastfedpg.errors import printable
from fastfedpg.gym_workers.faults import Refused, Wrong, blamed


def made(specification: Any, arguments: dict[str, Any], render_mode: str | None = None) -> Any:
    """The environment of a specification, with arguments of its own."""
    import gymnasium

    return gymnasium.make(specification, render_mode=render_mode, **{"disable_env_checker": True, **arguments})


def made_quietly(specification: Any, arguments: dict[str, Any], render_mode: str | None = None) -> Any:
    """The same, without Gymnasium's word on spaces of a suite's own that are rounded to float32."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*precision lowered by casting")
        return made(specification, arguments, render_mode)


def together(specification: Any, count: int = 1, render_mode: str | None = None) -> Any:
    """The vector environment that a specification has of its own; to be drawn, one environment."""
    import gymnasium

    if render_mode:
        return made(specification, {}, render_mode)
    try:
        return gymnasium.make_vec(specification, count, "vector_entry_point")
    except (gymnasium.error.DependencyNotInstalled, ModuleNotFoundError):
        raise
    except Exception as why:
        raise Refused(f"its own vector environment can't be built: {blamed(why)}; vectors=false does without") from why


def is_together(made: Any) -> bool:
    """Whether this makes a vector environment with as many in it as are asked for."""
    return getattr(made, "func", None) is together


def is_environment(x: Any) -> bool:
    """Whether this is an environment of Gymnasium's, or several as one."""
    import gymnasium

    return isinstance(x, gymnasium.Env | gymnasium.vector.VectorEnv)


@contextlib.contextmanager
def without_deprecations(what: Any) -> Iterator[None]:
    """While MuJoCo loads a model: no word about 'settotalmass', which is in Gymnasium's files and not the user's."""
    if "mujoco" not in f"{getattr(what, 'entry_point', '')}" and "mujoco" not in sys.modules:
        yield
        return
    try:
        import mujoco  # type: ignore[import-untyped]
    except ImportError:
        yield
        return

    def heard(message: str) -> None:
        if "settotalmass" not in message:
            sys.stderr.write(f"WARNING: {printable(message)}\n")

    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(heard)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


def build(given: tuple[Any, Any], count: int = 0, render: bool = False) -> Any:
    """An environment: of a specification or a factory, with the reward's wrapper around it; or `count` together."""
    import gymnasium

    made, reward = given
    how: dict[str, Any] = {"render_mode": "rgb_array"} if render else {}
    with without_deprecations(made):
        try:
            if isinstance(made, gymnasium.envs.registration.EnvSpec):
                env = gymnasium.make(made, disable_env_checker=True, **how)
            elif count:
                env = made(count)
            else:
                takes = inspect.signature(made).parameters if how else {}
                any_name = any(p.kind is p.VAR_KEYWORD for p in takes.values())
                env = made(**how) if any_name or "render_mode" in takes else made()
        except (gymnasium.error.DependencyNotInstalled, ModuleNotFoundError) as why:
            extra = next((x for x in ("mujoco", "box2d") if x in f"{why}".lower()), "")
            raise Refused(f"{why}" + f"; it comes with: pip install 'fastfedpg[{extra}]'" * bool(extra)) from None
    if not is_environment(env):
        raise Wrong(f"its factory returned {type(env).__name__}, which is no gymnasium.Env and no VectorEnv")
    if reward is None:
        return env
    try:
        wrapped = reward(env)
        if not is_environment(wrapped):
            raise Wrong(f"its reward wrapper returned {type(wrapped).__name__}, which is no gymnasium.Env")
    except BaseException:
        env.close()
        raise
    return wrapped
