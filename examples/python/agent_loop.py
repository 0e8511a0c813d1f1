"""Memory around your own agent loop. Replace `answer` with a call to your model."""

import memoranda


def answer(prompt: str) -> str:
    """Fake a language model: repeat what the prompt says about the user."""
    known = [line for line in prompt.splitlines() if line.startswith("- ")]
    return f"I know {len(known)} things about you: " + "; ".join(line.removeprefix("- ") for line in known)


def turn(ada: memoranda.ScopedMemory, message: str) -> str:
    """Answer one message, knowing what was said before."""
    recalled = ada.recall(message, collection="said", limit=3, threshold=0.3)
    facts = [f"- {fact.key.removeprefix('profile.')} is {fact.value}" for fact in ada.list("profile")]
    notes = [f"- earlier you said: {match.content}" for match in recalled.results]
    prompt = "\n".join(["What you know about the user:", *facts, *notes, "", f"User: {message}"])
    ada.remember(message, collection="said")
    return answer(prompt)


with memoranda.open("agent_loop.db") as memory:
    ada = memory.scope(user="ada")
    ada.set("profile.name", "Ada")
    print(turn(ada, "I am allergic to peanuts"))
    print(turn(ada, "Which allergies do I have?"))
