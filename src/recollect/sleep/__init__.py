"""Sleep-time memory: conversations that have settled in, memory blocks that know what was said in them out.

`settle` asks for a job for each conversation that is over, `run_due` does what is due, and a `SleepWorker` does both
again and again; `run_sleep_time` does one conversation at once. `undo` and `forget_conversation` take back what was
learned.
"""

from recollect.sleep.extracting import extract_by_model, extract_by_rules
from recollect.sleep.sleeping import Looked, SleepWorker, run_due, run_sleep_time, settle, sleep_jobs
from recollect.sleep.taking_back import forget_conversation, sources_of, undo

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
