"""What the user's words say: values of fields, corrections of them, and intents."""
