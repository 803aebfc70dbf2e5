"""The explorer's server: what it refuses, what it never reads, and what it says of damage."""

import http.client
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import leanformer as lf
from leanformer.app.folders import Folder
from leanformer.app.server import Explorer
from leanformer.runners.base import Failure
from support import tiny_run
from support.architectures import SMALL

MODEL = "farthest-point"


class Quiet(Explorer):
    """Without the model that is counted beforehand."""

    def _warm_up(self) -> None: ...


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("served")
    lf.save_pretrained(lf.build(SMALL["gpt2"]), root / "inside" / "saved")
    tiny_run.described(root / "run")
    return root


@pytest.fixture(scope="module")
def explorer(folder: Path) -> Iterator[Explorer]:
    with Quiet(folder, 0) as found:
        yield found


def get(explorer: Explorer, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", explorer.port, timeout=60)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer.status, dict(answer.getheaders()), answer.read().decode()


def ask(explorer: Explorer, path: str, **asked: str) -> Any:
    status, _, text = get(explorer, f"{path}?{urlencode(asked)}")
    return status, json.loads(text)


def test_it_listens_on_this_machine_only(explorer: Explorer) -> None:
    assert explorer._server.server_address[0] == "127.0.0.1"
    assert explorer.url == f"http://127.0.0.1:{explorer.port}/"


def test_the_page_allows_its_own_code_only(explorer: Explorer) -> None:
    status, headers, text = get(explorer, "/")
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert "script-src 'sha256-" in text
    assert "unsafe" not in text[:2000]
    assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"Host": "evil.example"}, "this server is 127.0.0.1"),
        ({"Host": "127.0.0.1"}, "this server is 127.0.0.1"),
        ({"Origin": "http://evil.example"}, "requests from other sites are refused"),
        ({"Origin": "null"}, "requests from other sites are refused"),
        ({"Sec-Fetch-Site": "cross-site"}, "requests from other sites are refused"),
        ({"Sec-Fetch-Site": "same-site"}, "requests from other sites are refused"),
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/folder"])
def test_other_sites_are_refused(explorer: Explorer, path: str, headers: dict[str, str], message: str) -> None:
    status, _, text = get(explorer, path, **headers)
    assert status == 403
    assert json.loads(text)["error"].startswith(message)


def test_its_own_page_is_answered(explorer: Explorer) -> None:
    own = {"Host": f"localhost:{explorer.port}", "Origin": f"http://localhost:{explorer.port}"}
    assert get(explorer, "/api/folder", **own, **{"Sec-Fetch-Site": "same-origin"})[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_but_get_is_answered(explorer: Explorer, method: str) -> None:
    status, _, text = get(explorer, "/api/folder", method)
    assert (status, json.loads(text)) == (405, {"error": "only GET is answered"})


@pytest.mark.parametrize("path", ["/etc/passwd", "/../x", "/api", "/api/", "/index.html"])
def test_other_paths_are_not_there(explorer: Explorer, path: str) -> None:
    assert get(explorer, path)[0] == 404


@pytest.mark.parametrize("place", ["..", "../x", "/etc/passwd", "a\0b", "x" * 10_000, "link", "link/x.json", "nothing"])
@pytest.mark.parametrize("path", ["/api/study", "/api/run", "/api/record"])
def test_places_outside_the_folder_are_not_there(explorer: Explorer, folder: Path, path: str, place: str) -> None:
    outside = folder.parent / "outside-of-it"
    outside.mkdir(exist_ok=True)
    (outside / "x.json").write_text('{"kind": "measurement"}')
    if not (folder / "link").is_symlink():
        (folder / "link").symlink_to(outside)
    assert ask(explorer, path, place=place) == (400, {"error": "there is nothing of that name in this folder"})


def test_what_is_missing_in_a_request_is_said(explorer: Explorer) -> None:
    assert ask(explorer, "/api/study") == (400, {"error": "the request lacks 'place'"})


def test_models_are_listed_names_or_saved_in_the_folder(explorer: Explorer, folder: Path) -> None:
    listed = ask(explorer, "/api/folder")[1]
    assert listed["models"] == ["inside/saved"]
    assert [run["state"] for run in listed["runs"]] == ["queued"]
    status, model = ask(explorer, "/api/model", model="saved:inside/saved")
    assert (status, model["family"], model["caches"]) == (200, "gpt2", True)
    assert model["stages"][0]["heads"] == 4
    for name in (
        "saved:../x",
        "saved:link",
        "saved:run",
        "/etc",
        "../../x",
        "os:system",
        str(folder / "inside" / "saved"),
    ):
        status, said = ask(explorer, "/api/model", model=name)
        assert status == 400, name
        assert "error" in said


def test_settings_are_checked(explorer: Explorer) -> None:
    status, said = ask(explorer, "/api/formula", model=MODEL, precision="int1")
    assert (status, said["error"]) == (400, "precision must be one of float32, bfloat16, got 'int1'")
    assert ask(explorer, "/api/formula", model=MODEL, tokens="9e9")[0] == 400
    assert ask(explorer, "/api/emit", model=MODEL, form="xml", stages="1x1x1x2")[0] == 400
    assert ask(explorer, "/api/emit", model=MODEL, form="yaml", stages="1x1x1x2;rm")[0] == 400
    assert "depth: 1" in ask(explorer, "/api/emit", model=MODEL, form="yaml", stages="1x1x1x2")[1]["text"]


def test_code_of_strangers_is_not_run(tmp_path: Path, explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task and a family that records name by a module of theirs are not imported."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "stranger.py").write_text("raise SystemExit('run')\n")
    root = tmp_path / "root"
    written = json.loads((tiny_run.described(root / "arm" / "seed-0") / "run.json").read_text())
    written["task"]["kind"] = "stranger:Task"
    written["architecture"]["family"] = "stranger:Family"
    (root / "arm" / "seed-0" / "run.json").write_text(json.dumps(written))
    saved = {"architecture": {**SMALL["gpt2"].to_dict(), "family": "stranger:Family"}}
    (root / "saved").mkdir()
    (root / "saved" / "config.json").write_text(json.dumps(saved))
    with Quiet(root, 0) as found:
        assert ask(found, "/api/run", place="arm/seed-0")[1]["settings"]["task"]["kind"] == "stranger:Task"
        status, said = ask(found, "/api/model", model="saved:saved")
    assert (status, said["error"]) == (400, "this model belongs to no installed family")
    assert "stranger" not in sys.modules


def test_damage_is_said_and_the_rest_is_shown(tmp_path: Path) -> None:
    for name, text in {"a": "{", "b": "[]", "c": '{"kind": "comparison"}', "d": "\0"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "comparison.json").write_text(text)
    (tmp_path / "pipe").mkdir()
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with Quiet(tmp_path, 0) as found:
        listed = ask(found, "/api/folder")[1]["studies"]
        assert [study["place"] for study in listed] == ["a", "b", "c", "d"]
        assert listed[0]["problem"] == "comparison.json is damaged (ValueError)"
        for name in "abcd":
            status, said = ask(found, "/api/study", place=name)
            assert status == 400
            assert "comparison.json" in said["error"]


def test_a_folder_that_is_made_later_is_found(tmp_path: Path) -> None:
    with Quiet(tmp_path / "runs", 0) as found:
        assert ask(found, "/api/folder")[1]["exists"] is False
        assert "does not exist yet" in ask(found, "/api/study", place="")[1]["error"]
        tiny_run.described(tmp_path / "runs" / "one")
        listed = ask(found, "/api/folder")[1]
        assert (listed["exists"], listed["runs"][0]["place"]) == (True, "one")


def test_links_and_closed_folders_are_not_searched(tmp_path: Path) -> None:
    root = tmp_path / "root"
    tiny_run.described(root / "one")
    tiny_run.described(tmp_path / "other")
    tiny_run.described(root / "one" / "checkpoints" / "x")
    (root / "circle").symlink_to(root)
    (root / "away").symlink_to(tmp_path / "other")
    assert [run["place"] for run in Folder(root).search().runs] == ["one"]


@pytest.mark.parametrize("name", ["diverged.json", "timing.jsonl", "result.json"])
def test_a_link_among_the_files_of_a_run_is_not_followed(tmp_path: Path, name: str) -> None:
    root = tmp_path / "root"
    run = tiny_run.described(root / "arm" / "seed-0")
    Failure(text="secret").write(tmp_path / "outside.json")
    (run / name).symlink_to(tmp_path / "outside.json")
    with Quiet(root, 0) as found:
        for path, place in (("/api/run", "arm/seed-0"), ("/api/study", "")):
            status, said = ask(found, path, place=place)
            assert (status, "link that leads out" in said["error"]) == (400, True)
            assert "secret" not in str(said)


def test_a_port_that_is_taken_is_said(explorer: Explorer, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"port {explorer.port} cannot be used: Address already in use; choose"):
        Explorer(tmp_path, explorer.port)


# Measuring on demand


def test_a_saved_model_is_measured_on_demand(explorer: Explorer) -> None:
    status, found = ask(explorer, "/api/measure", place="inside/saved")
    assert (status, found["kind"], found["place"]) == (200, "measurement", "inside/saved")
    kappas = [layer["kappa"]["median"] for layer in found["record"]["layers"]]
    measured = lf.measure(explorer.path / "inside" / "saved", 4, random=True, progress=False)
    assert kappas == [layer.kappa.median for layer in measured.layers]


def test_what_is_not_a_saved_model_is_not_measured(explorer: Explorer, folder: Path, tmp_path: Path) -> None:
    assert ask(explorer, "/api/measure", place="run") == (
        400,
        {"error": "run is not a saved model: it has no config.json"},
    )
    assert ask(explorer, "/api/measure", place="../inside")[0] == 400
    linked = folder / "linked"
    linked.mkdir()
    (tmp_path / "weights").write_bytes(b"")
    (linked / "config.json").write_text("{}")
    (linked / "model.safetensors").symlink_to(tmp_path / "weights")
    status, said = ask(explorer, "/api/measure", place="linked")
    assert (status, "link that leads out of the folder" in said["error"]) == (400, True)
