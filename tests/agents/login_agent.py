"""An ACP agent that demands a login, written from the protocol alone: `python login_agent.py KIND`.

KIND: "key" (codex-acp 2.6.0: a method whose key is OPENAI_API_KEY, told as a provider in `_meta`, and a status when it
is logged in; with CODEX_HOME, it keeps the key there), "words" (the older codex adapter: the variable stands in the
description), "status" (claude-agent-acp 0.101.0: a status before an internal error, logins in a terminal), "plain"
(no methods), "wrong" (refuses every key), "node" (a crash of Node.js), "modes" (starts in the mode "auto"), "prompt"
(opens a session, and refuses the first prompt), "prompt-key" (the same, with a method that has a key),
"prompt-key-late" (the same, after two seconds), "prompt-401" (the same in Gemini CLI's words), "root" (Claude Code
started as root with a mode that it refuses then), "option" (lists models twice, and knows only
session/set_config_option). To a client that shows pages, "key" offers one more method: it has a page opened, and waits
for the client's consent.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

KIND = sys.argv[1]
LOGINS: dict[str, list[dict[str, Any]]] = {
    "key": [
        {"id": "api-key", "name": "API Key", "_meta": {"api-key": {"provider": "openai"}}},
        {"id": "chat-gpt", "name": "ChatGPT", "description": "Use ChatGPT to authenticate "},
    ],
    "words": [{"id": "openai-api-key", "name": "Use OPENAI_API_KEY", "description": "Requires OPENAI_API_KEY."}],
    "wrong": [{"id": "k", "name": "Key", "type": "env_var", "vars": [{"name": "OPENAI_API_KEY"}]}],
    "status": [
        {
            "id": "claude-ai-login",
            "name": "Claude",
            "type": "terminal",
            "args": ["login", "--browser"],
            "env": {"A": "b"},
        }
    ],
    "plain": [],
    "root": [],
    "prompt-key": [{"id": "k", "name": "Key", "type": "env_var", "vars": [{"name": "OPENAI_API_KEY"}]}],
    "prompt-key-late": [{"id": "k", "name": "Key", "type": "env_var", "vars": [{"name": "OPENAI_API_KEY"}]}],
    "prompt-401": [{"id": "k", "name": "Key", "type": "env_var", "vars": [{"name": "OPENAI_API_KEY"}]}],
    "prompt": [{"id": "in", "name": "Log in", "description": "Run `agent login`"}],
}
PAGE = {"id": "device", "name": "ChatGPT (device code)", "description": "Open a page and enter a code"}
MODELS = {"currentModelId": "small", "availableModels": [{"modelId": m, "name": m} for m in ("small", "large")]}
MODES = {"currentModeId": "auto", "availableModes": [{"id": m, "name": m} for m in ("auto", "default", "plan")]}
OPTION = {
    "id": "llm", "category": "model", "type": "select", "currentValue": "small",
    "options": [{"value": m, "name": m} for m in ("small", "large")],
}  # fmt: skip


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def refuse(id: Any, code: int, message: str) -> None:
    send(id=id, error={"code": code, "message": message})


def main() -> None:
    if sys.argv[2:]:  # the login in a terminal
        print("logged in with", " ".join(sys.argv[2:]), os.environ.get("A"))
        return
    kept = Path(os.environ.get("CODEX_HOME", os.devnull)) / "auth.json"
    logged_in = kept.exists() or KIND in ("modes", "option", "prompt", "prompt-key", "prompt-key-late", "prompt-401")
    for line in sys.stdin:
        call = json.loads(line)
        id, method, params = call.get("id"), call.get("method"), call.get("params", {})
        if method == "initialize":
            if KIND == "node":
                sys.stderr.write(
                    "node:internal/modules/cjs/loader:1386\n  throw err;\n  ^\n\nError: Cannot find module 'pi'\n"
                    "    at Function._resolveFilename (node:internal:1383:15) {\n  code: 'MODULE_NOT_FOUND',\n"
                    "  requireStack: []\n}\n\nNode.js v24.21.0\n"
                )
                sys.exit(1)
            name = "claude-agent-acp" if KIND in ("modes", "status", "root") else "login-agent"
            info = {"name": name, "version": "1"}
            logins = LOGINS.get(KIND, [])
            if KIND == "key" and params["clientCapabilities"].get("elicitation", {}).get("url") is not None:
                logins = [*logins, PAGE]
            send(id=id, result={"protocolVersion": 1, "agentInfo": info, "authMethods": logins})
        elif method == "authenticate" and params["methodId"] == PAGE["id"]:
            page = {"mode": "url", "url": "https://openai.test/device", "message": "Enter this code: ABCD-1234"}
            send(id=f"page of {id}", method="elicitation/create", params={"requestId": id, **page})
        elif str(id).startswith("page of ") and call.get("result") == {"action": "accept"}:
            send(id=int(id.removeprefix("page of ")), result={})
        elif method == "authenticate":
            if KIND == "wrong" or not os.environ.get("OPENAI_API_KEY", "").strip():
                refuse(id, -32603, "the key was not accepted")
            else:
                logged_in = True
                if KIND == "key":
                    status = {"kind": "api_key", "label": "A key"}
                    if kept.parent.is_dir():
                        status["detail"] = os.environ["OPENAI_API_KEY"]
                    send(method="_auth/status_update", params={"authStatus": status})
                if kept.parent.is_dir():
                    kept.write_text(json.dumps({"OPENAI_API_KEY": os.environ["OPENAI_API_KEY"]}))
                send(id=id, result={})
        elif method == "session/new" and not logged_in:
            if KIND == "root":
                words = "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons"
                sys.stderr.write(f"{words}\n")
                sys.stderr.flush()
                refuse(id, -32603, "Internal error: Claude Code process exited with code 1")
            elif KIND == "status":
                status = {"authStatus": {"kind": "none", "label": "Not logged in"}}
                send(method="_auth/status_update", params=status)
                refuse(id, -32603, "Internal error")
            else:
                refuse(id, -32000, "Authentication required")
        elif method == "session/new":
            offers: dict[str, Any] = {"modes": MODES} if KIND == "modes" else {}
            if os.environ.get("ANTHROPIC_AUTH_TOKEN"):  # with which claude-agent-acp 0.101.0 works
                send(method="_auth/status_update", params={"authStatus": {"kind": "none", "label": "Not logged in"}})
            if KIND == "option":
                offers = {"models": MODELS, "configOptions": [OPTION]}
            send(id=id, result={"sessionId": "s1", **offers})
        elif method == "session/prompt":
            time.sleep(2 if KIND == "prompt-key-late" else 0)
            if KIND == "prompt-401":
                error = {"code": 401, "message": "The key is unknown.", "status": "UNAUTHENTICATED"}
                refuse(id, 401, json.dumps({"error": error}))
            else:
                refuse(id, -32000, "Authentication required")
        elif method == "session/set_mode" or (method == "session/set_config_option" and params["configId"] == "llm"):
            send(id=id, result={})
            sys.stderr.write(json.dumps([method, params]) + "\n")
        elif id is not None and method is not None:
            refuse(id, -32601, f"Method not found: {method}")


main()
