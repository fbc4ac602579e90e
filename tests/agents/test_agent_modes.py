"""Modes and models of an agent's session: they are set the way the agent offers, and to a mode in which it asks."""

from __future__ import annotations

import pytest
from agents_house import House

from semel.acp_stream.choices import explain_no_choice
from semel.gateway.ports import AgentError


@pytest.mark.parametrize(
    ("name", "alone"), [("Kimi Code CLI", "auto"), ("Kimi Code CLI", "yolo"), ("hermes-agent", "dont_ask")]
)
async def test_an_agent_that_opens_its_session_in_a_mode_without_questions_is_put_into_one_with_them(
    house: House, name: str, alone: str
) -> None:
    """The modes of Kimi Code 2.1.0 and Hermes 0.19.0."""
    talk = await house.opened(
        f"""
        m = expect("initialize")
        out(id=m["id"], result={{"agentInfo": {{"name": {name!r}, "version": "1"}}}})
        modes = [{{"id": id, "name": id}} for id in ("default", {alone!r})]
        m = expect("session/new")
        out(id=m["id"], result={{"sessionId": "s1", "modes": {{"currentModeId": {alone!r}, "availableModes": modes}}}})
        m = expect("session/set_mode")
        assert m["params"] == {{"sessionId": "s1", "modeId": "default"}}, m
        out(id=m["id"], result={{}})
        read()
        """
    )
    assert talk.modes and talk.modes["currentModeId"] == "default" and not talk.decides_alone


@pytest.mark.parametrize(("program", "asked"), [("claude-agent-acp", True), ("codex-acp", False)])
async def test_claude_is_asked_to_tell_of_its_retries_and_no_other_agent(
    house: House, program: str, asked: bool
) -> None:
    """Claude's adapter 0.101.0 tells of them only to clients with this capability; Codex spends more tokens then."""
    code = f"""
        m = expect("initialize")
        meta = m["params"]["clientCapabilities"]["_meta"]
        air = {{"version": 1, "capabilities": ["sessionFailure"]}}
        assert meta.get("jetbrains") == ({{"air": air}} if {asked} else None), meta
        out(id=m["id"], result={{}})
        m = expect("session/new"); out(id=m["id"], result={{"sessionId": "s1"}})
        read()
        """
    await house.open(house.agent([*house.fake(code), program]))


async def test_modes_and_models_are_set_and_unknown_ones_are_named(house: House) -> None:
    talk = await house.scripted()
    assert talk.modes and talk.models and talk.modes["currentModeId"] == "auto"
    await talk.set_mode("ask")
    await talk.set_model("slow")
    assert (talk.modes["currentModeId"], talk.models["currentValue"]) == ("ask", "slow")
    with pytest.raises(AgentError, match=r"there is no mode 'yolo'\. There are: auto, ask"):
        await talk.set_mode("yolo")
    with pytest.raises(AgentError, match=r"there is no model 'gpt'\. There are: brisk, slow"):
        await talk.set_model("gpt")


async def test_modes_that_are_only_a_configuration_option_look_like_modes(house: House) -> None:
    talk = await house.opened(
        """
        options = [{"value": "build", "name": "b"}, {"value": "plan", "name": "p"}]
        mode = {"id": "mo", "category": "mode", "type": "select", "currentValue": "build", "options": options}
        hello(new={"sessionId": "s1", "configOptions": [mode], "models": {
            "currentModelId": "m1", "availableModels": [{"modelId": "m1"}, {"modelId": "m2"}]}})
        m = expect("session/set_config_option")
        assert m["params"] == {"sessionId": "s1", "configId": "mo", "value": "plan"}
        out(id=m["id"], result={})
        m = expect("session/set_model")
        out(id=m["id"], error={"code": -32602, "message": "not today"})
        update(sessionUpdate="config_option_update", configOptions=[{**mode, "currentValue": "build"}])
        read()
        """
    )
    assert talk.modes == {
        "currentModeId": "build",
        "availableModes": [{"id": "build", "name": "b"}, {"id": "plan", "name": "p"}],
    }
    await talk.set_mode("plan")
    assert talk.modes["currentModeId"] == "plan"
    with pytest.raises(AgentError, match="not today"):
        await talk.set_model("m2")
    await talk.next()
    assert talk.modes["currentModeId"] == "build" and talk.models and talk.models["currentModelId"] == "m1"


def test_a_model_that_is_offered_in_variants_only_is_refused_with_its_own_variants() -> None:
    """codex-acp 2.6.0 offers 48 of them, and `semel agents check` names the models without their variants."""
    offered = {id: id for id in ("gpt-6[low]", "gpt-5.5[low]", "gpt-5.5[high]", "gpt-5.5-mini[low]")}
    told = explain_no_choice("model", "GPT-5.5", offered)
    assert told == "the model 'GPT-5.5' has variants, so name one: gpt-5.5[low], gpt-5.5[high]"
    told = explain_no_choice("model", "gpt-5.5[lo]", offered)
    assert told.endswith(
        "did you mean gpt-5.5[low]? There are: gpt-6[low], gpt-5.5, gpt-5.5-mini[low]; with variants such as [high]"
    )
