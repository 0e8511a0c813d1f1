"""ABL agents: what they remember, the rules they keep, and the steps they take.

`load` compiles an agent, `agent.start` begins a session, `session.say` takes a turn. `parse` and `check` look at a
text without running it; `evaluate` and `render` run a single expression or template.

>>> import memoranda
>>> text = '''
... AGENT: Porter
... GOAL: "Know the guests"
... FLOW:
...   ask:
...     REASONING: false
...     GATHER:
...       - guest_name:
...         prompt: "Who are you?"
...     RESPOND: "Welcome, {{guest_name}}."
...     THEN: COMPLETE
... '''
>>> check(text), parse(text).name.text
((), 'Porter')
>>> with memoranda.open(":memory:") as memory:
...     porter = load(text, memory=memory)
...     session = porter.start(user="ada")
...     later = resume(memory, session.id, agent=porter)
...     session.opening.messages, later.say("I am Ada").messages
(['Who are you?'], ['Welcome, Ada.'])
"""

from memoranda.abl.agent import Agent, check, load, parse, resume
from memoranda.abl.behaviour import Behaviour
from memoranda.abl.expression.compiler import evaluate, render
from memoranda.abl.session import Session, Turn

__all__ = ["Agent", "Behaviour", "Session", "Turn", "check", "evaluate", "load", "parse", "render", "resume"]
