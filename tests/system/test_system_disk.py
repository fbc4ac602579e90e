"""A gateway on a disk that fills up: it says so, loses nothing it accepted, and goes on when there is room."""

from __future__ import annotations

import resource
from pathlib import Path

from system_house import DEMO, House, opened, script, until


def limit(house: House, size: int) -> None:
    """No file of the gateway may grow beyond this: SQLite takes it for a full disk, and the log is full, too."""
    assert house.process is not None
    _, hard = resource.prlimit(house.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(house.process.pid, resource.RLIMIT_FSIZE, (size if size >= 0 else hard, hard))


def test_a_full_disk_refuses_with_its_reason_and_wedges_no_session(tmp_path: Path) -> None:
    with opened(House(tmp_path, "[gateway]\nmax_live_agents = 1\n" + DEMO)) as house:
        house.say("demo:web:a", "hello")
        house.idle("demo:web:a")
        go = tmp_path / "go"
        house.say("demo:web:running", script("before ", {"wait": str(go)}, "after"))
        until(lambda: house.texts("demo:web:running"), "a turn runs")
        house.say("demo:web:starting", "hello")
        until(lambda: (house.session("demo:web:starting") or {}).get("turn"), "another waits for its agent")
        limit(house, 0)
        accepted, refused = [], []
        for n in range(200):
            got = house.post("/v1/sessions/demo:web:a/messages", {"text": f"{n}" + "y" * 9000, "id": f"k{n}"})
            (accepted if got.status_code == 202 else refused).append((n, got))
            if len(refused) == 3:
                break
        for _, got in refused:
            assert got.status_code == 503 and got.headers["retry-after"], got.text
            assert "reached the size that a file may have" in got.json()["detail"]
            assert "ulimit -f" in got.json()["detail"], "what to do"
        assert house.request("GET", "/healthz").status_code == 200, "reading goes on"
        until(lambda: house.request("GET", "/readyz").status_code == 503, "it is not ready")
        detail = house.request("GET", "/readyz").json()["detail"]
        assert detail.startswith("The ledger has reached the size that a file may have here (SQLite: ")
        assert "File too large" in detail and "ulimit -f" in detail and str(tmp_path) not in detail
        assert "to do: raise the limit on the size of files ('ulimit -f'" in house.cli("doctor", rc=1).stdout
        assert len(house.texts("demo:web:a", "user")) == 1 + len(accepted)
        go.touch()
        until(lambda: house.get("/v1/status")["turns"] == 0, "the running turn could not go on")
        limit(house, -1)
        for n, _ in refused:
            text = f"{n}" + "y" * 9000
            until(
                lambda text=text, n=n: (  # type: ignore[misc]
                    house.post("/v1/sessions/demo:web:a/messages", {"text": text, "id": f"k{n}"}).status_code == 202
                ),
                "it is accepted when there is room",
            )
        until(lambda: house.request("GET", "/readyz").status_code == 200, "it is ready again")
        for session in ("a", "running", "starting"):
            house.idle(f"demo:web:{session}")
        heard = [text.rstrip("y") for text in house.texts("demo:web:a", "user")]
        assert sorted(heard[1:], key=int) == [str(n) for n, _ in (*accepted, *refused)], "each was heard once"
        assert "after" in "".join(house.texts("demo:web:running", "agent"))
        assert house.texts("demo:web:starting")


def test_a_gateway_that_takes_only_small_messages_is_not_ready(tmp_path: Path) -> None:
    with opened(House(tmp_path, DEMO)) as house:
        house.say("demo:web:a", "hello")
        house.idle("demo:web:a")
        assert house.request("GET", "/readyz").status_code == 200
        ledger = tmp_path / "data" / "ledger.db"
        limit(house, max(ledger.stat().st_size, Path(f"{ledger}-wal").stat().st_size) + 1_000_000)
        until(lambda: house.request("GET", "/readyz").status_code == 503, "it is not ready")
        assert house.post("/v1/sessions/demo:web:a/messages", {"text": "small", "id": "s"}).status_code == 202
        detail = house.request("GET", "/readyz").json()["detail"]
        assert "takes no large message: a file of the ledger has " in detail and "ulimit -f" in detail
        assert f"not ready: {detail}" in house.cli("status").stdout
        limit(house, -1)
        until(lambda: house.request("GET", "/readyz").status_code == 200, "it is ready again")
