"""Make our models known to timm and transformers, in whatever order the libraries are imported.

`arrange`, which `import leanformer` calls, imports neither library:

- one that is imported already gets our models at once;
- for one that is not, a finder waits at the head of `sys.meta_path`. It lets the import take place as usual and adds
  our models right after it. Then it lets go of that library, and it leaves `sys.meta_path` when none is left.

The same finder lets torchvision import where its compiled operators do not fit this build of torch (see
`leanformer.models.torchvision`), for timm and transformers import it, and keeps torch from matrix instructions that the
processor does not have (see `leanformer.foundation.amx`). `register` does all of it now.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from leanformer.foundation.amx import avoid_broken_amx

if TYPE_CHECKING:
    from torch import nn

SAVED, FORMERLY_SAVED = "leanformer_saved", "lean_saved"
"""The entry point in timm's registry that reads a folder written by `save_pretrained`; version 0.1 wrote the second.

Without leanformer, timm says that it does not know this model: the name says what is missing.
"""
FEATURES = ("out_indices", "feature_cls")
"""timm's settings of models that return the features of several layers."""


def arrange() -> None:
    """Register with timm and transformers as soon as each of them is imported; calling it again changes nothing."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        waiting = {library: execute for library, (execute, _) in _LIBRARIES.items() if library not in sys.modules}
        if waiting:
            sys.meta_path.insert(0, _Finder(waiting))
    for library, (_, act) in _LIBRARIES.items():
        if library in sys.modules:
            act()


def register() -> None:
    """Import timm and transformers, and register every family's models with them now."""
    from leanformer.models import families

    with_timm()
    families.register()


# timm: its registry gets functions, which import a family when they are called


def with_timm() -> None:
    """Add the paper's lean image models to timm's registry, and the entry point that reads saved folders."""
    import timm

    from leanformer.models.published import LEAN_MODELS

    entry_points = {name: _entry_point(name) for name, row in LEAN_MODELS.items() if row.vision}
    for name, entry_point in {**entry_points, SAVED: _reader(), FORMERLY_SAVED: _reader()}.items():
        if not timm.is_model(name):
            entry_point.__name__ = entry_point.__qualname__ = name
            setattr(sys.modules[__name__], name, entry_point)  # timm looks the function up by its name
            timm.models.register_model(entry_point)


def _entry_point(name: str) -> Callable[..., nn.Module]:
    def entry_point(pretrained: bool = False, features_only: bool = False, **options: Any) -> nn.Module:
        from leanformer.models.names import create

        if pretrained:
            raise ValueError(f"there are no pretrained weights of {name}: train it, then use lf.load_weights")
        features = {key: options.pop(key) for key in FEATURES if features_only and key in options}
        model = create(name, **_without_timm_settings(options))
        return _with_features(model, features) if features_only else model

    return entry_point


def _reader() -> Callable[..., nn.Module]:
    """An entry point that reads a folder which `save_pretrained` wrote."""

    def saved(
        pretrained: bool = False,
        description: dict[str, Any] | None = None,
        features_only: bool = False,
        **options: Any,
    ) -> nn.Module:
        if description is None:
            raise ValueError(f"{SAVED} reads a folder: timm.create_model('local-dir:FOLDER', pretrained=True)")
        features = {key: options.pop(key) for key in FEATURES if features_only and key in options}
        model = _saved(pretrained, description, options)
        return _with_features(model, features) if features_only else model

    return saved


def _saved(pretrained: bool, description: dict[str, Any], options: Mapping[str, Any]) -> nn.Module:
    from leanformer.architecture import Architecture
    from leanformer.models.families import build, family
    from leanformer.models.preprocessing import CLASSES, for_images, set_preprocessing
    from leanformer.models.weights import load_adapted

    wanted, stated = _without_timm_settings(options), dict(options.get("pretrained_cfg") or {})
    classes = wanted.pop("num_classes", None) if pretrained else None
    saved = Architecture.from_dict(description)
    if sizes := [f"{key}={value!r}" for key, value in wanted.items() if key in family(saved.family).reserved]:
        raise ValueError(
            f"a saved model has the sizes it was made with: leave out {', '.join(sizes)}, or use lf.create"
        )
    architecture = saved.with_options(**wanted)
    model = build(architecture)
    if pretrained:
        load_adapted(model, stated["file"], saved)
    if classes not in (None, getattr(model, "num_classes", None)):  # a new head, as timm's own models get it
        cast(Any, model).reset_classifier(classes)
        stated.pop(CLASSES, None)
    set_preprocessing(model, for_images(stated, architecture))
    return model


def _with_features(model: nn.Module, settings: Mapping[str, Any]) -> nn.Module:
    """timm's own wrapper, which returns the features of several layers."""
    from timm.models import build_model_with_cfg

    from leanformer.models.families import of

    usual = getattr(of(model), "feature_settings", None)
    if usual is None:
        raise ValueError(f"timm has no features_only form of a {type(model).__name__}")
    stated = cast(Any, model).pretrained_cfg
    try:
        return build_model_with_cfg(
            lambda **_: model,
            SAVED,
            pretrained=False,
            pretrained_cfg=stated if isinstance(stated, dict) else stated.to_dict(),
            feature_cfg={**usual, **settings},
            features_only=True,
        )
    except (AssertionError, IndexError, KeyError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        asked = ", ".join(f"{key}={value!r}" for key, value in {**usual, **settings}.items() if key in FEATURES)
        raise ValueError(f"features_only: timm cannot give the features of {asked}: {reason}") from error


def _without_timm_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in options.items()
        if key not in ("pretrained_cfg", "pretrained_cfg_overlay", "cache_dir")
    }


# transformers: its Auto classes get classes, so our modules must be imported


def with_transformers() -> None:
    """Add language models, ours and those of installed packages, to the Auto classes of transformers."""
    from leanformer.models import families

    families.register(without="leanformer.models.timm.")


# The finder


Execute = Callable[[Loader, ModuleType], None]
"""Runs a module's code, and what is to be done with it."""


def _then(act: Callable[[], None]) -> Execute:
    def execute(loader: Loader, module: ModuleType) -> None:
        loader.exec_module(module)
        act()

    return execute


def _torchvision(loader: Loader, module: ModuleType) -> None:
    from leanformer.models.torchvision import execute

    execute(loader, module)


def _torch(loader: Loader, module: ModuleType) -> None:
    avoid_broken_amx()
    loader.exec_module(module)


_LIBRARIES: Mapping[str, tuple[Execute, Callable[[], None]]] = {
    "torch": (_torch, avoid_broken_amx),
    "torchvision": (_torchvision, lambda: None),  # one that is imported already is in order
    "timm": (_then(with_timm), with_timm),
    "transformers": (_then(with_transformers), with_transformers),
}
"""By library: how to import it, and what to do where it is imported already."""


class _Finder(MetaPathFinder):
    """Finds the libraries as the other finders do, and has them executed by `_LIBRARIES`."""

    def __init__(self, waiting: Mapping[str, Execute]) -> None:
        self.waiting = dict(waiting)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.waiting:
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        specs = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = cast(Loader, _Watched(spec.loader, self))
        return spec

    def done(self, library: str) -> None:
        self.waiting.pop(library, None)
        if not self.waiting and self in sys.meta_path:
            sys.meta_path.remove(self)


class _Watched:
    """A library's own loader, but for the execution of the module; the module never sees it."""

    def __init__(self, loader: Loader, finder: _Finder) -> None:
        self._loader, self._finder = loader, finder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        execute = self._finder.waiting.get(module.__name__)
        if execute is None:  # done since the module was looked for
            return self._loader.exec_module(module)
        execute(self._loader, module)
        self._finder.done(module.__name__)
        return None
