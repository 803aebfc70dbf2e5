"""Settings: a wrong type or range is one line that names the setting, what is needed and what was given."""

from dataclasses import dataclass
from typing import Any

import pytest

from leanformer import tasks


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        ("ImageClasses", {"img_size": "224"}, "img_size must be a whole number of at least 1 or none, got '224'"),
        ("ImageClasses", {"flip": "yes"}, "flip must be true or false, got 'yes'"),
        ("ImageClasses", {"mixup": "much"}, "mixup must be a number of at least 0, got 'much'"),
        ("ImageClasses", {"mixup": float("nan")}, "mixup must be a number of at least 0, got nan"),
        ("ImageClasses", {"dataset": 7}, "dataset must be a text, got 7"),
        ("ImageClasses", {"shift": True}, "shift must be a whole number of at least 0, got True"),
        ("PixelClasses", {"img_size": 0}, "img_size must be a whole number of at least 1 or none, got 0"),
        ("NextToken", {"length": 64.0}, r"length must be a whole number of at least 2, got 64\.0"),
        ("NextToken", {"most_tokens": "all"}, "most_tokens must be a whole number or none, got 'all'"),
        ("MaskedToken", {"share": "a quarter"}, "share must be a number, got 'a quarter'"),
        ("ByteClasses", {"length": "4k"}, "length must be a whole number of at least 1, got '4k'"),
        ("PairClasses", {"length": 0}, "length must be a whole number of at least 1, got 0"),
        ("SentenceClasses", {"most": 0}, "most must be a whole number of at least 1 or none, got 0"),
        ("SentenceClasses", {"name": ["sst2"]}, r"name must be a text, got \['sst2'\]"),
        ("ListOps", {"train": "many"}, "train must be a whole number of at least 1, got 'many'"),
        ("ListOps", {"max_length": "long"}, "max_length must be a whole number, got 'long'"),
        ("ListOps", {"max_length": 3}, "no expression has more than 500 and fewer than 3 tokens"),
        ("Pathfinder", {"dashes": None}, "dashes must be a whole number, got None"),
        ("Pathfinder", {"dashes": 40}, "dashes must be from 3 to 16, got 40"),
        ("FarthestPoint", {"target": 1}, "target must be one of farthest, nearest, got 1"),
    ],
)
def test_wrong_settings_are_named(task: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        getattr(tasks, task)(**settings)
    assert len(str(raised.value).splitlines()) == 1


def test_settings_of_other_types_are_left_to_the_task() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Cropped(tasks.ImageClasses):
        box: tuple[int, int] = (4, 4)

    assert Cropped(box=(2, 3)).box == (2, 3)
    with pytest.raises(ValueError, match="flip must be true or false, got 1"):
        Cropped(flip=1)  # type: ignore[arg-type]


def test_a_whole_number_is_a_number() -> None:
    assert tasks.ImageClasses(mixup=1).mixup == 1
