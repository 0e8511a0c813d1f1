"""The words of a user in; the values they give to fields, corrections of them, and the intent they show, out."""

from memoranda.abl.understanding.coercion import coerce as coerce
from memoranda.abl.understanding.corrections import corrections as corrections
from memoranda.abl.understanding.extract import extract as extract
from memoranda.abl.understanding.intents import Intent as Intent
from memoranda.abl.understanding.intents import match_intent as match_intent
from memoranda.abl.understanding.validation import validate as validate
from memoranda.abl.understanding.wanted import Wanted as Wanted
