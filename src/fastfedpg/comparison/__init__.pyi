from .run_cells import compare as compare
from .run_cells import compare_runs as compare_runs
from .spec import Comparison as Comparison
