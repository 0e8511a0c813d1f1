"""Sleep-time memory: learn from conversations that have settled, as statements and as lines of memory blocks.

`settle` enqueues a job for each conversation that is over, `run_due` runs the jobs that are due, and a `SleepWorker`
does both periodically; `run_sleep_time` processes one conversation now. `undo` and `forget_conversation` remove what
was learned.

>>> import memoranda
>>> from memoranda.agent.models import Reply
>>> from memoranda.chat import Agent, chat
>>> from memoranda.learning.messages import Message
>>> class Polite:
...     name = "polite:1"
...
...     def reply(self, ask, *, timeout=30.0):
...         return Reply("Noted.")
>>> desk = Agent(id="desk", model=Polite())
>>> memory = memoranda.open(":memory:")
>>> turn = chat(memory, desk, "I live in Faro.", user="ada", conversation_id="c1", message_id="m1")
>>> [one.statement.text for one in extract_by_rules([Message(role="user", text="I live in Faro.")])]
['Lives in Faro']
>>> [job.state for job in settle(memory, delay=0)]
['waiting']
>>> [change.line for ran in run_due(memory, delay=0) for change in ran.consolidated.changes]
['- Lives in Faro']
>>> [job.state for job in sleep_jobs(memory, user="ada")]
['done']
>>> [source.conversation for source in sources_of(memory, "Lives in Faro", user="ada")]
['c1']
>>> [change.change for change in undo(memory, "c1", user="ada")]
['removed']
>>> forget_conversation(memory, "c1", user="ada")
[]
>>> turn = chat(memory, desk, "I prefer trains.", user="ada", conversation_id="c2", message_id="m1")
>>> [change.line for change in run_sleep_time(memory, "c2", user="ada").changes]
['- Prefers trains']
>>> class Reader:
...     name = "reader:1"
...
...     def reply(self, ask, *, timeout=30.0):
...         return Reply(value={"lines": [{"text": "Travels by train", "block": "archival", "messages": [0]}]})
>>> turn = chat(memory, desk, "By train, as always.", user="ada", conversation_id="c2", message_id="m2")
>>> [change.line for change in run_sleep_time(memory, "c2", user="ada", extractor=extract_by_model(Reader())).changes]
['- Travels by train']
>>> SleepWorker(memory, delay=0).look()
[]
>>> memory.close()
"""

from memoranda.learning.extraction import extract_by_model
from memoranda.sleep.undo import forget_conversation, sources_of, undo
from memoranda.sleep.worker import Looked, SleepWorker, extract_by_rules, run_due, run_sleep_time, settle, sleep_jobs

__all__ = [
    "Looked",
    "SleepWorker",
    "extract_by_model",
    "extract_by_rules",
    "forget_conversation",
    "run_due",
    "run_sleep_time",
    "settle",
    "sleep_jobs",
    "sources_of",
    "undo",
]
