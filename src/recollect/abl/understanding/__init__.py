"""The words of a user in; the values they give to fields, corrections of them, and the intent they show, out."""

from recollect.abl.understanding.coercion import coerce as coerce
from recollect.abl.understanding.corrections import corrections as corrections
from recollect.abl.understanding.extract import extract as extract
from recollect.abl.understanding.intents import Intent as Intent
from recollect.abl.understanding.intents import match_intent as match_intent
from recollect.abl.understanding.validation import validate as validate
from recollect.abl.understanding.wanted import Wanted as Wanted
