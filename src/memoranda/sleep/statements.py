"""What a person said in, what it plainly states about them out: by the table of `patterns.py`, no model, English only.

It would rather miss a statement than make one up. It reads clauses one by one and knows little of what stands around
them: no irony, no "yes" to a question, no fact that takes two sentences; but "actually no" takes back the sentence
before. Questions, conditions, stories, texts to work on, mails, other people's words, quotes, code, what holds only for
now, and all that looks like a secret teach nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import chain
from unicodedata import normalize

import msgspec

from memoranda.sleep.interrupt import check_interrupt
from memoranda.sleep.patterns import PATTERNS, Kind, Pattern

LONGEST_SENTENCE = 400
"""Characters; what is longer is a pasted text, and not somebody who tells about themselves."""
LONGEST_VALUE = 120
"""Characters that a line takes over from what was said."""
PORTION = 16_000
"""Characters that a pattern looks at in one go: a search keeps every other thread waiting, about a millisecond for
1,500 of them."""


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was said about the speaker, as a line in the third person."""

    text: str
    topic: str
    single: bool
    """Whether there is one line of this topic at a time: who moves lives somewhere else then."""
    core: bool
    """Whether it is worth every request, or only those that ask for it."""
    kind: Kind = "states"
    """`ends` takes a line back: "I no longer live in Oslo"."""


_COMPILED = tuple((pattern, re.compile(pattern.said, re.IGNORECASE)) for pattern in PATTERNS)

# What is cut out of a message before it is read.
_CODE = re.compile(r"```[^`]*+(?:(?!```)`[^`]*+)*+(?:```)?|~~~[^~]*+(?:(?!~~~)~[^~]*+)*+(?:~~~)?|`[^`\n]*`")
_CITED = re.compile(r"^[^\S\n]*+(?:>|\|).*$", re.MULTILINE)
_OPENING_QUOTE = re.compile("[“„«\"]|(?<!\\w)['\u2018]")
_QUOTES = (
    ("“„«", re.compile("[”“»]"), re.compile("[”“»]"), 0, 2_000),
    ('"', re.compile('"'), re.compile('"'), 0, sys.maxsize),
    ("'\u2018", re.compile("['\u2019\n]"), re.compile(r"['\u2019](?!\w)"), 12, 500),
)
"""For each kind of quote: what opens it, where to look for its end, what ends it, the least and most characters."""
# From "Translate this:" on, and below the head of a mail, the words are those of a text.
_TO_WORK_ON = re.compile(
    r"\b(?:translate|proofread|correct|rephrase|paraphrase|summari[sz]e|rewrite|edit|review|fix|improve|polish|shorten|"
    r"draft|write|compose|continue|complete|analy[sz]e|classify|repeat|read|here is|here's|this is|below is)\b"
    r"[^\n:]{0,160}:.*",
    re.IGNORECASE | re.DOTALL,
)
_TEXTS = r"text|essay|e-?mail|letter|message|resume|résumé|cv|bio|paragraph|sentence|draft|speech|post|review|note"
_GIVEN = re.compile(
    r"^[ \t]*(?:from|to|subject|sent|cc)[ \t]*:.*|^[ \t]*--[^\n]*\bmessage\b.*|\bbegin forwarded message\b.*"
    r"|\b(?:wrote|writes|says|said|replied|asked|asks)\b[^\n:.]{0,60}:.*"
    rf"|\b(?:{_TEXTS})\b[^\n:.]{{0,60}}:[ \t]*\n.*"
    r"|\b(?:translate|proofread|rephrase|paraphrase|summari[sz]e|rewrite|polish|shorten|correct|edit|improve|fix|check)"
    rf" (?:this|these|the following|(?:my|the) (?:{_TEXTS}))\b.*"
    r"|\bmake (?:this|it) (?:more|less|sound|formal|shorter|longer|polite)\b.*"
    r"|\b(?:is|are|does|do) (?:this|these|it) (?:correct|right|sound|read|look)\b[^\n.]{0,60}\?.*"
    r"|\b(?:which (?:one )?is (?:right|correct)|how (?:do|would|can) (?:i|you) say)\b.*",
    re.IGNORECASE | re.DOTALL | re.MULTILINE,
)
_LAUGHS = re.compile(
    r"\b(?:kidding|joking|jk)\b|(?:[.!…]|\s[—–-])\s*not\s*(?:[.!]++\s*)?$", re.IGNORECASE | re.MULTILINE
)
_MADE_UP = re.compile(
    r"\b(?:role-?play\w*|pretend\w*|imagine|suppose|hypothetical\w*|narrator|protagonist|"
    r"(?:story|novel|poem|song|lyrics|dialogue|monologue|scene|screenplay|character|persona) "
    r"(?:about|where|in which|who|that|of|from|for)|act as|you are now)\b",
    re.IGNORECASE,
)
_WINKS = re.compile("[😂🤣😜😉🙃🙄😏]")
_PICTURES = re.compile("[\U0001f1e6-\U0001f1ff\U0001f300-\U0001faff\u2600-\u27bf\ufe0f\u200d]")
_SPACES = re.compile(r"[^\S\n]+")

# A point after a title or an initial ends no sentence, but those behind it do.
_ENDS = re.compile(
    r"(?<![.!?…])(?:(?<!\bSt)(?<!\bMr)(?<!\bMrs)(?<!\bMs)(?<!\bDr)(?<!\bMt)(?<!\b[A-Z])|[.!?…])([.!?…]++)(?=\s|$)|(\n+)"
)
_CLAUSES = re.compile(
    r"\s*(?:;|\s[—–-]\s|—|\()\s*"
    r"|,?\s+(?:but|because|although|though|whereas|while|so that|so (?=i\b|please\b|can\b|you\b))\s*"
    r"|,\s*(?:and\s+|so\s+|then\s+)?(?=(?:i|i'm|i've|we|you|my|please|can|could|would|what|which|who|is|do|does|thanks|thank)\b)"
    r"|\s+and\s+(?=(?:i|i'm|my|please|we)\b)"
    r"|\s*\)\s*",
    re.IGNORECASE,
)
_MY_OWN = re.compile(r"(?:\w+,? ){0,3}?i\b", re.IGNORECASE)
_MORE_OF_ME = re.compile(r",? and (?=(?:work|live|speak|prefer|lead|manage|love|like|hate|enjoy) )", re.IGNORECASE)
_HENCEFORTH = re.compile(r"\b(from now on|in (?:the )?future|going forward),?(?: please)?", re.IGNORECASE)
_LEAD_IN = re.compile(
    r"(?:(?:hi|hello|hey|well|yes|yeah|yep|no|oh|ok|okay|so|and|also|plus|actually|honestly|personally|fyi|btw|sure|"
    r"great|thanks|thank you|by the way|just so you know|for the record|for context|as i said|in general|generally|"
    r"as you know|good (?:morning|afternoon|evening)|as for me|first of all)(?: there| all| everyone)?\b[\s,:!–-]*)+",
    re.IGNORECASE,
)
_TAKES_BACK = re.compile(r"(?:actually,? no|no,? wait|wait,? no|scratch that|correction)\b", re.IGNORECASE)
_POLITE = re.compile(
    r"(?<![\s,])[\s,]++(?:please|thanks|thank you|thx|by the way|btw|though|too|as well|these days|nowadays|:\))$",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"^(?:if|when|whenever|unless|what if|in case|let's say|say|assuming|maybe|perhaps|as if)\b|\bif i\b"
    r"|\bfor (?:example|instance)\b|\bin (?:my|the|a|this|that) (?:novel|game|dream|story|book|movie|film|scenario)\b"
    r"|\w[\s,;–-]+(?:i meant?|scratch that|or rather|no,? wait)\b",
    re.IGNORECASE,
)
_REPORTED = re.compile(
    r"\b(?<!\bi )(?:said|says|told|wrote|writes|replied|answered|claims|claimed|thinks|texted|asked)\b", re.IGNORECASE
)
_FOR_NOW = re.compile(
    r"\b(?:for now|for the (?:moment|time being)|at the moment|right now|temporarily|today|tonight|tomorrow|until|till|"
    r"this (?:time|once|week|weekend|month|morning|afternoon|evening|year|one)|next (?:week|month|year)|"
    r"lol|haha\w*|yet)\b",
    re.IGNORECASE,
)
_SECRET = re.compile(
    r"\b(?:pass ?words?|pass ?codes?|passphrases?|pin|credit card|card number|cvv|cvc|iban|social security|ssn|"
    r"(?:alarm|door|gate|access|entry|security|safe|verification) codes?|"
    r"api[ -]?key|private key|access token|secrets?|2fa|otp)\b|(?:\d[ -]?){8,}|\b(?:sk|pk|ghp|key)[-_][\w-]{8,}",
    re.IGNORECASE,
)
_UNFIT = re.compile(r"[<>{}\[\]|\\\x00-\x1f\x7f]|https?://|www\.", re.IGNORECASE)
_NAMING = frozenset({"name", "person", "place", "origin", "childhood", "birthplace", "employer"})
"""Topics that need a name. Where all letters are capital, none of them shows one."""
_NO_NAMES = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august "
    "september october november december back maybe later now asap not".split()
)
_THIRD_PERSON = tuple(
    (re.compile(rf"\b{said}\b", re.IGNORECASE), told)
    for said, told in (
        ("i'm|i am", "they are"),
        ("i was", "they were"),
        ("i've|i have", "they have"),
        ("i'll", "they will"),
        ("i'd", "they would"),
        ("i", "they"),
        ("myself", "themselves"),
        ("mine", "theirs"),
        ("my", "their"),
        ("me", "them"),
    )
)
_ADVERB = re.compile(r"^(?:Always|Never|Only)\b")


def statements_in(text: str) -> list[Statement]:
    """Return what a message of a person plainly states about them, in the order it was said.

    >>> [one.text for one in statements_in("Hi! I live in Porto, and I prefer trains to planes. Is it far?")]
    ['Lives in Porto', 'Prefers trains to planes']
    """
    portions: list[str] = []
    for own in _own_words(text):
        if portions:
            check_interrupt()
        if _MADE_UP.search(own) or _LAUGHS.search(own):
            return []
        portions.append(own)
    found: list[list[Statement]] = []
    for sentence in chain.from_iterable(map(_sentences, portions)):
        if len(portions) > 1:
            check_interrupt()
        if found and _TAKES_BACK.match(sentence):
            found.pop()
        found.append([stated for clause in _clauses(sentence) if (stated := _stated(clause)) is not None])
    return [stated for sentence in found for stated in sentence]


def _own_words(text: str) -> Iterator[str]:
    """Yield a message in portions, without code, quotes, and the texts that it asks to work on."""
    text = normalize("NFC", text.replace("\r\n", "\n").replace("’", "'").replace("\ufeff", ""))
    text = _WINKS.sub(" haha ", text)
    text = _unquoted(_CITED.sub(" ", _CODE.sub(" ", text)))
    for portion in _portions(text):
        own, orders = _TO_WORK_ON.subn(" ", portion)
        own, heads = _GIVEN.subn(" ", own)
        yield _SPACES.sub(" ", _PICTURES.sub(" ", own)).replace("e.g.", "for example")
        if orders or heads:
            # From there on the words are those of a text, to the end of the message.
            return


def _portions(text: str) -> Iterator[str]:
    """Yield a long text in pieces that end with a line, else with a sentence, else with a word."""
    begin = 0
    while len(text) - begin > PORTION:
        last = begin + PORTION
        cuts = (text.rfind(end, begin, last) + len(end) for end in ("\n", ". ", " "))
        end = next((cut for cut in cuts if cut > begin + PORTION // 2), last)
        yield text[begin:end]
        begin = end
    yield text[begin:]


def _unquoted(text: str) -> str:
    """Return a text with a space in place of each quote.

    Not a pattern: one would look for the end again from each opening mark that has none.
    """
    pieces: list[str] = []
    ends = [-1] * len(_QUOTES)
    done = place = 0
    while found := _OPENING_QUOTE.search(text, place):
        place = found.end()
        kind = next(number for number, quotes in enumerate(_QUOTES) if found[0] in quotes[0])
        _, stop, closing, least, most = _QUOTES[kind]
        if ends[kind] < place:
            stopped = stop.search(text, place)
            ends[kind] = stopped.start() if stopped else len(text)
        if least <= ends[kind] - place <= most and (closed := closing.match(text, ends[kind])):
            pieces.append(text[done : found.start()])
            done = place = closed.end()
    return " ".join([*pieces, text[done:]])


def _clauses(sentence: str) -> Iterator[str]:
    whole = _HENCEFORTH.sub(r"\1", sentence)
    if _MY_OWN.match(whole):
        whole = _MORE_OF_ME.sub("; I ", whole)
    for clause in _CLAUSES.split(whole):
        said = clause.strip(" \t,.!…:")
        said = _LEAD_IN.sub("", said, count=1) if _LEAD_IN.match(said) else said
        while (shorter := _POLITE.sub("", said)) != said:
            said = shorter
        if said:
            yield said


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences that may state something: no question, no condition, nobody else's words, no secret."""
    begin = 0
    for end in [*_ENDS.finditer(text), None]:
        sentence = text[begin : end.start(end.lastindex or 0) if end else len(text)].strip(" \t\n-*•")
        begin = end.end() if end else len(text)
        asked = end is not None and "?" in (end[1] or "")
        if not sentence or asked or len(sentence) > LONGEST_SENTENCE:
            continue
        if any(doubt.search(sentence) for doubt in (_OPEN, _REPORTED, _FOR_NOW, _SECRET)):
            continue
        yield sentence


def _stated(clause: str) -> Statement | None:
    """Return what the first pattern that fits makes of a clause."""
    for pattern, said in _COMPILED:
        found = said.fullmatch(clause)
        if found is None:
            continue
        held = [_third_person(group or "") for group in found.groups()]
        if not _fits(pattern, held) or (pattern.topic in _NAMING and clause.isupper()):
            return None
        line = " ".join(pattern.line.format(*held).split())
        return Statement(
            text=line,
            topic=pattern.topic.format(*(group.casefold() for group in held)),
            single=pattern.single,
            core=pattern.core,
            kind=pattern.kind,
        )
    return None


def _third_person(said: str) -> str:
    # The words of a name are nobody's pronouns, and none of these begins one.
    for first, third in _THIRD_PERSON:
        said = first.sub(third, said)
    return _ADVERB.sub(lambda found: found[0].lower(), said.rstrip(" ,.;:!"))


def _fits(pattern: Pattern, held: list[str]) -> bool:
    if pattern.topic in _NAMING and held[-1].casefold() in _NO_NAMES:
        return False
    whole = " ".join(held)
    return bool(held[0] or len(held) > 1) and len(whole) <= LONGEST_VALUE and not _UNFIT.search(whole)
