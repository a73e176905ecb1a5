"""Episodes as pictures: one frame for each step or for so many, small enough for a GIF."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from fastfedpg.envs.environments import Frames, Play
from fastfedpg.errors import missing_extra
from fastfedpg.policies import Policy

BODY, GOAL, GREY = "#0072B2", "#D55E00", "#999999"  # Okabe and Ito's: told apart by colour-blind eyes
PIXELS = 320

Update = Callable[[np.ndarray], None]
Scene = Callable[[Any, Any, Any], Update]
"""scene(axes, task, all tasks): draws what stands still, and gives what moves the rest to an observation."""


def filmed(play: Play, scene: Scene) -> Frames:
    """The `frames` of environments whose observations show all there is to see.

    The first frame is the observation before the first step; with every = 1 there is one frame more than steps.
    """

    def frames(
        tasks: Any, policy: Policy, theta: np.ndarray, agent: int, seed: int, K: int, every: int = 1
    ) -> list[np.ndarray]:
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError:
            raise missing_extra("a film", "matplotlib", "plot") from None
        task = jax.tree.map(lambda x: x[agent], tasks)
        played = play(policy, task, jax.numpy.asarray(theta), jax.random.key(seed), 1, K)
        steps = int(np.sum(played.alive[0]))
        figure = Figure(figsize=(PIXELS / 100, PIXELS / 100), dpi=100)
        canvas = FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1), aspect="equal")
        axes.set_axis_off()
        update = scene(axes, task, tasks)
        clock = axes.text(0.03, 0.03, "", transform=axes.transAxes, color=GREY, fontsize=9)
        pictures = []
        for k, observation in enumerate(np.asarray(played.observations[0, : steps + 1])):
            update(observation)  # of every step: what it draws may be a trail
            if k % every:
                continue
            clock.set_text(f"step {k}")
            canvas.draw()
            pictures.append(np.asarray(canvas.buffer_rgba())[..., :3].copy())
        return pictures

    return frames


def mass(axes: Any, task: Any, tasks: Any) -> Update:
    """The point mass with its trail, this agent's goal, the others' in grey, and the shelter."""
    axes.set(xlim=(-1.6, 1.6), ylim=(-1.6, 1.6))
    axes.plot(*np.transpose(tasks), "x", color=GREY, markersize=6)
    axes.plot(1, 0, "s", color="#009E73", markersize=16, alpha=0.6)
    axes.annotate("shelter", (1, -0.2), ha="center", va="top", fontsize=9)
    axes.plot(*task, "*", color=GOAL, markersize=16)
    trail = axes.plot([], [], "-", color=BODY, alpha=0.4)[0]
    body = axes.plot([], [], "o", color=BODY, markersize=10)[0]
    seen: list[np.ndarray] = []

    def update(observation: np.ndarray) -> None:
        seen.append(observation[:2])
        trail.set_data(*np.transpose(seen))
        body.set_data(observation[:1], observation[1:2])

    return update


def cart(axes: Any, task: Any, tasks: Any) -> Update:
    """The cart and its pole on the track, with this agent's target, and the others' in grey."""
    axes.set(xlim=(-2.7, 2.7), ylim=(-2.2, 3.2))
    axes.plot([-2.4, 2.4], [0, 0], color="black", linewidth=1)
    axes.vlines([-2.4, 2.4], -0.15, 0.15, color="black")
    axes.plot(tasks, np.full(len(tasks), -0.35), "^", color=GREY, markersize=6)
    axes.plot(task, -0.35, "^", color=GOAL, markersize=14)
    axes.annotate("target", (float(task), -0.6), ha="center", va="top", fontsize=9)
    body = axes.plot([], [], "s", color=BODY, markersize=22)[0]
    pole = axes.plot([], [], color="black", linewidth=5, solid_capstyle="round")[0]

    def update(observation: np.ndarray) -> None:
        x, _, angle, _ = observation
        body.set_data([x], [0])
        pole.set_data([x, x + 1.5 * np.sin(angle)], [0, 1.5 * np.cos(angle)])

    return update


def rod(axes: Any, task: Any, tasks: Any) -> Update:
    """The pendulum, with this agent's target angle, and the others' in grey; positive angles are to the left."""
    axes.set(xlim=(-1.4, 1.4), ylim=(-1.4, 1.4))
    axes.plot(-1.15 * np.sin(tasks), 1.15 * np.cos(tasks), "o", color=GREY, markersize=4)
    axes.plot([0, -1.15 * np.sin(task)], [0, 1.15 * np.cos(task)], "--", color=GOAL)
    axes.plot(-1.15 * np.sin(task), 1.15 * np.cos(task), "*", color=GOAL, markersize=14)
    body = axes.plot([], [], color=BODY, linewidth=10, solid_capstyle="round")[0]
    axes.plot(0, 0, "o", color="black", markersize=5)

    def update(observation: np.ndarray) -> None:
        body.set_data([0, -observation[1]], [0, observation[0]])

    return update
