"""The scripted agent that semel.testing offers."""

from __future__ import annotations

from agents_house import House, turn

from semel.testing.scripted_agent import command, prompt, prompts_given


async def test_a_test_can_say_what_the_agent_does_and_count_what_it_was_given(house: House) -> None:
    log = house.tmp / "log"
    line = command(state=house.state, log=log)
    said = prompt(attempts=[["first", {"die": 9}], ["second"]], resume=["resumed"], name="once/more")
    assert prompts_given(log) == []
    assert (await turn(await house.open(house.agent(line)), said)).text() == "first"
    talk = await house.open(house.agent(line))
    assert (await turn(talk, said)).text() == "second"
    assert (await turn(talk, "[semel: your turn goes on]\n[/semel]")).text() == "resumed"
    given = prompts_given(log)
    assert [one.text == said for one in given] == [True, True, False]
    assert given[0].heard < given[1].heard and given[0].session != talk.memory == given[1].session


async def test_an_instant_agent_answers_at_once(house: House) -> None:
    talk = await house.open(house.agent(command(state=house.state, instant=True)))
    assert (await turn(talk, "x")).text().startswith("pong ")


async def test_a_script_in_a_file_serves_prompts_without_one(house: House) -> None:
    path = house.tmp / "script.json"
    path.write_text('["from the file"]')
    talk = await house.open(house.agent(command(state=house.state, script=path)))
    assert (await turn(talk, "x")).text() == "from the file"
    assert (await turn(talk, prompt("from the prompt"))).text() == "from the prompt"
