"""Measure how well conditioned a transformer's attention is, redesign it leaner, prove whether the leaner model holds.

The names below are the public interface; each is imported when it is first used. Importing the package also arranges
that timm's registry gets the paper's lean models, and the Auto classes of transformers our language models, as soon as
these libraries are imported.
"""

from typing import TYPE_CHECKING

from leanformer.foundation.registry import lazily as _lazily
from leanformer.models.registration import arrange as _arrange_registration

__version__ = "0.2.0"

_HOMES = {
    "Architecture": "architecture",
    "architecture_of": "models.names",
    "attention_blocks": "models.families",
    "bench": "experiments.benching",
    "Bench": "costs.speed",
    "build": "models.families",
    "compare": "experiments.comparison",
    "Comparison": "experiments.comparison_records",
    "create": "models.names",
    "Data": "tasks",
    "describe": "models.families",
    "design": "designing.plan",
    "DesignPlan": "designing.plan",
    "explore": "app.explore",
    "export": "models.exporting",
    "Exported": "models.exporting",
    "FAMILIES": "models.families",
    "Family": "models.base",
    "Forecast": "experiments.forecast",
    "from_pretrained": "models.weights",
    "generate": "models.generation",
    "glue": "experiments.glue",
    "Glue": "experiments.glue",
    "Grid": "experiments.grid",
    "HeadsMeasurement": "conditioning.heads",
    "inherit": "inheriting.inherit",
    "Inheritance": "inheriting.record",
    "judge": "experiments.judged_scores",
    "lightning_callback": "conditioning.callbacks",
    "Limits": "designing.plan",
    "load_weights": "models.weights",
    "Loaded": "models.loading",
    "measure": "experiments.measuring",
    "Measurement": "conditioning.measurement",
    "Metric": "tasks",
    "probe": "conditioning.probing",
    "Probe": "conditioning.probing",
    "query_key_ranks": "conditioning.query_key",
    "Ranks": "conditioning.measurement",
    "Recipe": "experiments.recipe",
    "RECIPES": "experiments.recipes",
    "register": "models.registration",
    "Result": "training.result",
    "Run": "training.run",
    "save_pretrained": "models.weights",
    "Setting": "costs.setting",
    "status": "experiments.status",
    "Status": "experiments.status",
    "Stage": "architecture",
    "Sweep": "experiments.sweep_records",
    "sweep": "experiments.sweep",
    "Task": "tasks",
    "task": "tasks",
    "TASKS": "tasks",
    "track": "conditioning.tracking",
    "train": "training.loop",
    "trainer_callback": "conditioning.callbacks",
    "Training": "training.settings",
    "write_run": "training.run",
}
__all__ = ["__version__", *_HOMES]  # noqa: PLE0604

if TYPE_CHECKING:
    from leanformer.app.explore import explore as explore
    from leanformer.architecture import Architecture as Architecture
    from leanformer.architecture import Stage as Stage
    from leanformer.conditioning.callbacks import lightning_callback as lightning_callback
    from leanformer.conditioning.callbacks import trainer_callback as trainer_callback
    from leanformer.conditioning.heads import HeadsMeasurement as HeadsMeasurement
    from leanformer.conditioning.measurement import Measurement as Measurement
    from leanformer.conditioning.measurement import Ranks as Ranks
    from leanformer.conditioning.probing import Probe as Probe
    from leanformer.conditioning.probing import probe as probe
    from leanformer.conditioning.query_key import query_key_ranks as query_key_ranks
    from leanformer.conditioning.tracking import track as track
    from leanformer.costs.setting import Setting as Setting
    from leanformer.costs.speed import Bench as Bench
    from leanformer.designing.plan import DesignPlan as DesignPlan
    from leanformer.designing.plan import Limits as Limits
    from leanformer.designing.plan import design as design
    from leanformer.experiments.benching import bench as bench
    from leanformer.experiments.comparison import compare as compare
    from leanformer.experiments.comparison_records import Comparison as Comparison
    from leanformer.experiments.forecast import Forecast as Forecast
    from leanformer.experiments.glue import Glue as Glue
    from leanformer.experiments.glue import glue as glue
    from leanformer.experiments.grid import Grid as Grid
    from leanformer.experiments.judged_scores import judge as judge
    from leanformer.experiments.measuring import measure as measure
    from leanformer.experiments.recipe import Recipe as Recipe
    from leanformer.experiments.recipes import RECIPES as RECIPES
    from leanformer.experiments.status import Status as Status
    from leanformer.experiments.status import status as status
    from leanformer.experiments.sweep import sweep as sweep
    from leanformer.experiments.sweep_records import Sweep as Sweep
    from leanformer.inheriting.inherit import inherit as inherit
    from leanformer.inheriting.record import Inheritance as Inheritance
    from leanformer.models.base import Family as Family
    from leanformer.models.exporting import Exported as Exported
    from leanformer.models.exporting import export as export
    from leanformer.models.families import FAMILIES as FAMILIES
    from leanformer.models.families import attention_blocks as attention_blocks
    from leanformer.models.families import build as build
    from leanformer.models.families import describe as describe
    from leanformer.models.generation import generate as generate
    from leanformer.models.loading import Loaded as Loaded
    from leanformer.models.names import architecture_of as architecture_of
    from leanformer.models.names import create as create
    from leanformer.models.registration import register as register
    from leanformer.models.weights import from_pretrained as from_pretrained
    from leanformer.models.weights import load_weights as load_weights
    from leanformer.models.weights import save_pretrained as save_pretrained
    from leanformer.tasks import TASKS as TASKS
    from leanformer.tasks import Data as Data
    from leanformer.tasks import Metric as Metric
    from leanformer.tasks import Task as Task
    from leanformer.tasks import task as task
    from leanformer.training.loop import train as train
    from leanformer.training.result import Result as Result
    from leanformer.training.run import Run as Run
    from leanformer.training.run import write_run as write_run
    from leanformer.training.settings import Training as Training

__getattr__, __dir__ = _lazily(__name__, _HOMES)

_arrange_registration()
