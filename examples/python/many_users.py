"""One database for many users and agents, each with access only to what they may see."""

import memoranda

with memoranda.open("many_users.db") as memory:
    memory.scope(user="ada").set("profile.city", "Lisbon")
    memory.scope(user="bob").set("profile.city", "Oslo")

    # Scopes are isolated: a search in Ada's finds nothing of Bob's.
    print(f"ada sees: {[fact.value for fact in memory.scope(user='ada').list()]}")

    # An agent gets a policy. What it does not allow is refused, and the refusal is in the ledger.
    desk = memory.acting_as("desk-agent", policy=memoranda.Policy.of(allow=("memory.read",)))
    print(f"desk-agent reads: {desk.scope(user='ada').value('profile.city')}")
    try:
        desk.scope(user="ada").set("profile.city", "Rome")
    except memoranda.Denied as denied:
        print(f"desk-agent is refused: {denied.code}")

    # Erasing a user removes facts, notes, history and their texts in the ledger, and returns a receipt.
    receipt = memory.erase(user="bob")
    print(f"erased: {receipt.removed['facts']} fact of bob")
    print(f"bob's city: {memory.scope(user='bob').value('profile.city')}")
    print(f"refused so far: {sum(event.decision == 'deny' for event in memory.ledger.events())}")
