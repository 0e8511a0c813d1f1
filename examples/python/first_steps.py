"""Facts, notes, corrections and history in one file."""

import memoranda

with memoranda.open("first_steps.db") as memory:
    ada = memory.scope(user="ada")

    # Facts are exact: a key, a JSON value, a version. Overwriting an outdated version raises Conflict.
    fact = ada.set("profile.city", "Lisbon")
    ada.set("profile.city", "Porto", expect=fact.version)
    try:
        ada.set("profile.city", "Madrid", expect=fact.version)
    except memoranda.Conflict as conflict:
        print(f"conflict: {conflict.code}")
    print(f"city: {ada.value('profile.city')}")

    # Notes are found by meaning, offline. Forget a wrong note and remember the right one.
    wrong = ada.remember("The piano tuner comes on Thursday at nine", collection="notes")
    ada.remember("The boiler was serviced in March", collection="notes")
    ada.forget(wrong.id, collection="notes")
    ada.remember("The piano tuner comes on Friday at nine", collection="notes")
    found = ada.recall("When is the piano being tuned?", collection="notes", limit=1)
    print(f"recalled: {found.results[0].content}")

    # Every earlier value is in the history.
    for revision in ada.history("profile.city"):
        print(f"version {revision.version}: {revision.value}, by {revision.origin.actor}")
    print(f"ledger: {'ok' if memory.ledger.verify().ok else 'damaged'}")
