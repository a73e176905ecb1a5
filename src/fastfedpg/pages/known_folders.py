"""Which kind of folder a page is asked for, and the part that tells of it."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from fastfedpg.errors import InputError
from fastfedpg.experiment import own_files, run_folder
from fastfedpg.experiment.clock import Clock
from fastfedpg.pages import claims_part, comparison_part, run_part, study_part
from fastfedpg.pages.blocks import Part
from fastfedpg.pages.sections import Say
from fastfedpg.verify import report

PartOf: TypeAlias = Callable[[Path, Clock | None, float, Say], Part]

KINDS: dict[str, PartOf] = {
    own_files.STUDY[0]: study_part.part,
    own_files.CLAIMS: claims_part.others,
    run_folder.COMPARISON: comparison_part.part,
    comparison_part.RUNS: comparison_part.part,
    "config.toml": run_part.part,
    report.FILE: claims_part.paper,
}
"""What makes the part of a folder, by the file that says what the folder is."""


def part_of(folder: Path) -> PartOf:
    """What makes this folder's part; a folder of nothing that is known is refused."""
    if not folder.exists():
        raise InputError(f"{folder}: no such folder")
    if not folder.is_dir():
        raise InputError(f"{folder}: not a folder; name the folder of a run, a comparison, a study or a verification")
    found = next((make for name, make in KINDS.items() if (folder / name).is_file()), None)
    if found is None and study_part.is_stored(folder):
        found = study_part.part
    if found is None:
        raise InputError(
            f"{folder}: neither a run nor a comparison, a study or a verification: none of "
            f"{', '.join(KINDS)} is in it (fastfedpg runs {folder} lists what is below it)"
        )
    return found
