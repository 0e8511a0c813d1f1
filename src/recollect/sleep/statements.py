"""What a person said in, what it plainly states about them out: a table of patterns, no model, English only.

It would rather miss a statement than make one up. It reads clauses one by one and knows nothing of what stands around
them: no irony, no "yes" to a question, no fact that takes two sentences. Questions, conditions, stories, texts to work
on, other people's words, quotes, code, what holds only for now, and all that looks like a secret teach nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec

LONGEST_SENTENCE = 400
"""Characters; what is longer is a pasted text, and not somebody who tells about themselves."""
LONGEST_VALUE = 120
"""Characters that a line takes over from what was said."""

Kind = Literal["states", "ends"]


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


class Pattern(NamedTuple):
    """How something is said, and the line that is made of it: `{0}` stands for what the first group holds."""

    topic: str
    said: str
    line: str
    single: bool = False
    core: bool = True
    kind: Kind = "states"


# What patterns are made of. A name begins with a letter that is not small, so that "I live in hope" names no place.
_NAME = r"(?-i:[^\W\d_a-zà-öø-ÿ])[\w'’.-]*"
_LINK = r"(?:de|da|do|dos|das|del|della|di|du|la|le|les|van|von|der|den|al|el|of|the|upon|on|and|&|sur|en)"
_NAMES = rf"{_NAME}(?:(?:,? | {_LINK} | {_LINK} {_LINK} ){_NAME}){{0,4}}"
_PLACE = rf"((?:the )?{_NAMES})"
_PERSON = rf"({_NAME}(?: (?:(?:de|da|van|von|der|den|al|el|bin|di|la) ){{0,2}}{_NAME}){{0,3}})"
_REST = r"(\S.*)"
_TAIL = r"(?: (?:now|with|since|near|for|as|in|where|these days|together|again|too|and)\b.*)?"
_I_AM = r"i(?:'m| am)"
_NOW = r"(?: (?:currently|now|still|mostly|mainly|also))?"
_ANY_MORE = r",? (?:any ?more|any longer)"
_NOT_THIS = (
    r"(?!(?:it|that|this|these|those|how|what|when|where|your|you|one|option|something|another|neither|either|both|"
    r"the (?:idea|sound|look|first|second|third|last|other|former|latter|\w+ one)|"
    r"not to (?:say|answer|tell|share|talk))\b)"
)
_ONES = "wife|husband|partner|son|daughter|brother|sister|mother|father|boss|manager|assistant|dog|cat|doctor|dentist"
_DIETS = "vegetarian|vegan|pescatarian|coeliac|celiac|diabetic|lactose intolerant|gluten intolerant|teetotal"
_TEAMS = "team|department|group|branch|office|unit|division|crew|choir|club|project|programme|program|lab"
_HEADS = (
    "head|director|lead|leader|manager|owner|founder|co-founder|chief|chair|chairman|chairwoman|secretary|treasurer|"
    "captain|principal|dean|editor|curator|president|vice president|ceo|cto|cfo|coo"
)
_OCCUPATIONS = (
    "accountant|actor|actress|actuary|analyst|anaesthetist|archaeologist|architect|archivist|artist|astronomer|baker|"
    "barista|barber|beekeeper|biologist|bookkeeper|botanist|bricklayer|builder|butcher|carer|carpenter|cashier|chef|"
    "chemist|cleaner|coach|composer|conductor|consultant|courier|curator|dancer|dentist|designer|detective|developer|"
    "dietitian|diplomat|director|doctor|driver|ecologist|economist|editor|electrician|engineer|farmer|firefighter|"
    "fisherman|florist|freelancer|gardener|geologist|glazier|goldsmith|grocer|hairdresser|historian|illustrator|"
    "instructor|interpreter|jeweller|jeweler|joiner|journalist|judge|landlord|lawyer|lecturer|librarian|lifeguard|"
    "locksmith|machinist|manager|mason|mathematician|mechanic|meteorologist|midwife|miner|musician|nanny|notary|"
    "novelist|nurse|optician|painter|paramedic|pensioner|pharmacist|philosopher|photographer|physician|physicist|"
    "physiotherapist|pianist|pilot|plumber|poet|porter|postman|potter|priest|producer|professor|programmer|"
    "psychologist|publisher|radiologist|receptionist|researcher|retiree|roofer|sailor|salesman|saleswoman|scientist|"
    "sculptor|secretary|singer|sociologist|solicitor|statistician|steward|stewardess|student|surgeon|surveyor|tailor|"
    "teacher|technician|therapist|tiler|translator|tutor|typist|vet|veterinarian|violinist|waiter|waitress|"
    "watchmaker|weaver|welder|writer|zoologist"
)
_AN_OCCUPATION = (
    r"(an? (?!(?:bit|big|bad|terrible|good|great|huge|poor|decent|keen|failed|former|retired|would-be|better|worse)\b)"
    rf"(?:[\w-]+ ){{0,3}}?(?:{_OCCUPATIONS})(?: (?:at|in|for|with|from|by|of) .+)?)"
)
_LANGUAGES = (
    "Afrikaans|Albanian|Amharic|Arabic|Armenian|Basque|Bengali|Bulgarian|Cantonese|Catalan|Chinese|Croatian|Czech|"
    "Danish|Dutch|English|Estonian|Farsi|Finnish|French|Galician|Georgian|German|Greek|Gujarati|Hebrew|Hindi|"
    "Hungarian|Icelandic|Indonesian|Irish|Italian|Japanese|Kazakh|Korean|Kurdish|Latvian|Lithuanian|Macedonian|Malay|"
    "Maltese|Mandarin|Marathi|Mongolian|Nepali|Norwegian|Pashto|Persian|Polish|Portuguese|Punjabi|Romanian|Russian|"
    "Serbian|Slovak|Slovenian|Somali|Spanish|Swahili|Swedish|Tagalog|Tamil|Telugu|Thai|Turkish|Ukrainian|Urdu|Uzbek|"
    "Vietnamese|Welsh|Yoruba|Zulu"
)
_SPOKEN = rf"((?:{_LANGUAGES})(?:(?:,? and |, )(?:{_LANGUAGES}))*)"
_ZONE = (
    r"((?:Africa|America|Antarctica|Asia|Atlantic|Australia|Europe|Indian|Pacific)/[A-Z][\w+-]*(?:/[A-Z][\w+-]*)?"
    r"|(?:UTC|GMT)(?: ?[+\u2212-] ?\d{1,2}(?::\d\d)?)?"
    r"|(?-i:[CEW]ES?T|MSK|[BIJKSEC]ST|SGT|HKT|A[ECW][SD]T|NZ[SD]T|[ECMP][SD]T|AK[SD]T|HST|BRT|ART|SAST|[WCE]AT|PKT)"
    r"|(?:Eastern|Central|Mountain|Pacific|(?:Central|Eastern|Western) European|British|Greenwich Mean|Moscow|Indian|"
    r"Japan|Singapore|Australian Eastern)(?: Standard| Summer| Daylight)? time)"
)
_IN_ZONE = rf"(?:the )?{_ZONE}(?: time(?: ?zone)?)?"
# Only what somebody can be asked to do: "always wanted to see Rome" is no wish for the next answer.
_ACT = (
    r"((?:answer|reply|respond|write|use|give|show|tell|ask|call|address|include|add|put|start|end|begin|keep|cite|"
    r"mention|list|explain|send|book|order|suggest|recommend|propose|offer|check|round|format|sign|quote|convert|"
    r"translate|speak|talk|avoid|remind|say|make|schedule|plan|leave|skip|omit|assume|greet|spell|state|provide|"
    r"present|summari[sz]e|confirm|wait|copy|attach|pay|buy|store|save|share|delete|contact|phone|e-?mail) .+)"
)

# The whole table. A new way to say something is one line here, and a sentence or two in the tests.
PATTERNS = (
    # names
    Pattern("name", rf"my (?:full |first )?name(?:'s| is) {_PERSON}", "Is called {0}", single=True),
    Pattern("name", rf"(?:please |just |you can )?call me {_PERSON}", "Is called {0}", single=True),
    Pattern("name", rf"(?:{_I_AM} called|i go by) {_PERSON}", "Is called {0}", single=True),
    Pattern(
        "person",
        rf"my ({_ONES})(?:'s name is|(?:'s| is) (?:called|named)) {_PERSON}",
        "Their {0} is called {1}",
        core=False,
    ),
    Pattern(
        "person",
        rf"my ({_ONES}),? {_PERSON},? (?:is|was|has|will|works|lives|likes|wants|needs|can|plays)\b.*",
        "Their {0} is called {1}",
        core=False,
    ),
    # places
    Pattern("place", rf"(?:i|we){_NOW} live{_NOW} (in|near) {_PLACE}{_TAIL}", "Lives {0} {1}", single=True),
    Pattern("place", rf"{_I_AM}{_NOW} (?:based|living) in {_PLACE}{_TAIL}", "Lives in {0}", single=True),
    Pattern(
        "place", rf"(?:i|we)(?:'ve| have)?(?: just| recently)? moved to {_PLACE}{_TAIL}", "Lives in {0}", single=True
    ),
    Pattern("place", rf"i no longer live in {_PLACE}", "Lives in {0}", kind="ends"),
    Pattern("place", rf"i do(?:n't| not) live in {_PLACE}{_ANY_MORE}", "Lives in {0}", kind="ends"),
    Pattern("origin", rf"(?:{_I_AM}|i come)(?: originally)? from {_PLACE}", "Comes from {0}", single=True),
    Pattern("childhood", rf"i (?:was born|grew up) in {_PLACE}", "Grew up in {0}", single=True),
    # time zones
    Pattern("zone", rf"my time ?zone(?:'s| is) {_IN_ZONE}", "Time zone: {0}", single=True),
    Pattern("zone", rf"{_I_AM}{_NOW} (?:in|on) {_IN_ZONE}", "Time zone: {0}", single=True),
    Pattern("zone", rf"i{_NOW} (?:live|work){_NOW} in {_IN_ZONE}", "Time zone: {0}", single=True),
    # roles
    Pattern("role", rf"i{_NOW} work{_NOW} as ((?:an? |the ).+)", "Works as {0}", single=True),
    Pattern(
        "role",
        r"my (?:role|job title|profession|occupation) is (?:that of )?((?:an? |the ).+)",
        "Works as {0}",
        single=True,
    ),
    Pattern("role", rf"{_I_AM}{_NOW} {_AN_OCCUPATION}", "Works as {0}", single=True),
    Pattern(
        "role", rf"{_I_AM}{_NOW} the ((?:[\w-]+ ){{0,2}}?(?:{_HEADS}) (?:of|at|for) .+)", "Is the {0}", single=True
    ),
    Pattern("duty", rf"my (?:job|role) is to {_REST}", "Their role is to {0}"),
    Pattern("duty", rf"i (?:lead|manage|head|run) (?:the|our) ([\w &-]{{1,60}}?(?:{_TEAMS}))", "Leads the {0}"),
    Pattern("duty", rf"{_I_AM}{_NOW} (?:responsible for|in charge of) {_REST}", "Is responsible for {0}"),
    Pattern("employer", rf"i{_NOW} work{_NOW} (?:at|for) ((?:the |an? )?{_NAMES}){_TAIL}", "Works at {0}", single=True),
    Pattern(
        "employer",
        rf"{_I_AM}{_NOW} (?:employed (?:at|by)|working (?:at|for)) ((?:the |an? )?{_NAMES}){_TAIL}",
        "Works at {0}",
        single=True,
    ),
    Pattern("employer", rf"i no longer work (?:at|for) ((?:the |an? )?{_NAMES})", "Works at {0}", kind="ends"),
    Pattern(
        "employer",
        rf"i do(?:n't| not) work (?:at|for) ((?:the |an? )?{_NAMES}){_ANY_MORE}",
        "Works at {0}",
        kind="ends",
    ),
    Pattern("employer", rf"{_I_AM}{_NOW} (self-employed|retired|unemployed)", "Is {0}", single=True),
    # languages
    Pattern("language", rf"i(?: only| also)? speak (?:fluent |some |a little |a bit of )?{_SPOKEN}", "Speaks {0}"),
    Pattern(
        "mother tongue",
        rf"my (?:native language|first language|mother tongue) is {_SPOKEN}",
        "Native language: {0}",
        single=True,
    ),
    Pattern(
        "answers",
        rf"(?:please )?(?:always )?(?:answer|reply|respond|(?:talk|speak|write) to me) (?:only )?in {_SPOKEN}",
        "Wants answers in {0}",
        single=True,
    ),
    # what somebody eats
    Pattern("diet", rf"{_I_AM}{_NOW} (?:an? )?({_DIETS})((?: (?:except|but|on|at|when|unless|and) .+)?)", "Is {0}{1}"),
    Pattern("diet", rf"{_I_AM} no longer (?:an? )?({_DIETS})", "Is {0}", kind="ends"),
    Pattern("diet", rf"{_I_AM} not (?:an? )?({_DIETS}){_ANY_MORE}", "Is {0}", kind="ends"),
    Pattern(
        "diet",
        rf"i (?:do(?:n't| not)|never|no longer|can(?:'t|not)) (eat|drink) {_NOT_THIS}{_REST}",
        "Does not {0} {1}",
    ),
    Pattern(
        "allergy", rf"{_I_AM}(?: badly| very| severely| mildly)? allergic to {_NOT_THIS}{_REST}", "Allergic to {0}"
    ),
    # preferences and standing wishes
    Pattern(
        "preference",
        rf"i(?: really| much| usually| generally| strongly| always)? prefer {_NOT_THIS}{_REST}",
        "Prefers {0}",
    ),
    Pattern("preference", rf"my preference is (?:for )?{_NOT_THIS}{_REST}", "Prefers {0}"),
    Pattern("preference", rf"i no longer prefer {_REST}", "Prefers {0}", kind="ends"),
    Pattern(
        "wish", rf"(?:from now on|in (?:the )?future|going forward) ((?:always |never |only )?){_ACT}", "Asks: {0}{1}"
    ),
    Pattern("wish", rf"(?:please,? )?(always|never) {_ACT}", "Asks: {0} {1}"),
    Pattern("wish", rf"i want you to (always|never) {_ACT}", "Asks: {0} {1}"),
    Pattern("wish", rf"please (?:do not|don't) {_ACT}", "Asks: do not {0}"),
    Pattern(
        "wish",
        r"(?:please )?keep (?:your |the |all )?"
        r"(answers|replies|responses|messages|summaries|explanations|e-?mails) (\S.*)",
        "Asks: keep {0} {1}",
    ),
    # likes, favourites and notes: for the archive
    Pattern(
        "favourite {0}",
        rf"my favou?rite ([\w -]{{2,40}}?) (?:is|are) {_NOT_THIS}{_REST}",
        "Favourite {0}: {1}",
        single=True,
        core=False,
    ),
    Pattern(
        "liking", rf"i (?:really |absolutely )?(?:like|love|enjoy|adore) {_NOT_THIS}{_REST}", "Likes {0}", core=False
    ),
    Pattern(
        "disliking",
        r"i (?:really |absolutely )?(?:do(?:n't| not) (?:really )?like|dislike|hate|can(?:'t|not) stand|detest) "
        rf"{_NOT_THIS}{_REST}",
        "Dislikes {0}",
        core=False,
    ),
    Pattern(
        "note",
        rf"(?:please )?(?:remember|don't forget|do not forget)(?: that|:) (?!time\b){_REST}",
        "Asked to keep in mind: {0}",
        core=False,
    ),
)

_COMPILED = tuple((pattern, re.compile(pattern.said, re.IGNORECASE)) for pattern in PATTERNS)

# What is cut out of a message before it is read.
_CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`", re.DOTALL)
_CITED = re.compile(r"^\s*(?:>|\|).*$", re.MULTILINE)
_QUOTED = re.compile(r"[“„«][^”“»]{0,2000}[”“»]|\"[^\"]*\"|(?<!\w)['\u2018][^'\u2019\n]{12,500}['\u2019](?!\w)")
# From "Translate this:" on, the words are those of a text.
_TO_WORK_ON = re.compile(
    r"\b(?:translate|proofread|correct|rephrase|paraphrase|summari[sz]e|rewrite|edit|review|fix|improve|polish|shorten|"
    r"draft|write|compose|continue|complete|analy[sz]e|classify|repeat|read|here is|here's|this is|below is)\b"
    r"[^\n:]{0,160}:.*",
    re.IGNORECASE | re.DOTALL,
)
_MADE_UP = re.compile(
    r"\b(?:role-?play\w*|pretend\w*|imagine|suppose|hypothetical\w*|narrator|protagonist|"
    r"(?:story|novel|poem|song|lyrics|dialogue|monologue|scene|screenplay|character|persona) "
    r"(?:about|where|in which|who|that|of|from|for)|act as|you are now)\b",
    re.IGNORECASE,
)

_ENDS = re.compile(r"(?<!\bSt)(?<!\bMr)(?<!\bMrs)(?<!\bMs)(?<!\bDr)(?<!\bMt)(?<!\b[A-Z])([.!?…]+)(?=\s|$)|\n+")
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
_POLITE = re.compile(
    r"[\s,]+(?:please|thanks|thank you|thx|by the way|btw|though|too|as well|these days|nowadays|:\))$", re.IGNORECASE
)
_OPEN = re.compile(
    r"^(?:if|when|whenever|unless|what if|in case|let's say|say|assuming|maybe|perhaps|as if)\b|\bif i\b",
    re.IGNORECASE,
)
_REPORTED = re.compile(
    r"\b(?<!\bi )(?:said|says|told|wrote|writes|replied|answered|claims|claimed|thinks|texted|asked)\b", re.IGNORECASE
)
_FOR_NOW = re.compile(
    r"\b(?:for now|for the (?:moment|time being)|at the moment|right now|temporarily|today|tonight|tomorrow|until|till|"
    r"this (?:time|once|week|weekend|month|morning|afternoon|evening|year|one)|next (?:week|month|year)|"
    r"kidding|lol|haha\w*|joking)\b",
    re.IGNORECASE,
)
_SECRET = re.compile(
    r"\b(?:pass ?words?|pass ?codes?|passphrases?|pin|credit card|card number|cvv|cvc|iban|social security|ssn|"
    r"api[ -]?key|private key|access token|secrets?|2fa|otp)\b|(?:\d[ -]?){8,}|\b(?:sk|pk|ghp|key)[-_][\w-]{8,}",
    re.IGNORECASE,
)
_UNFIT = re.compile(r"[<>{}\[\]|\\\x00-\x1f\x7f]|https?://|www\.", re.IGNORECASE)
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
    own = _own_words(text)
    if _MADE_UP.search(own):
        return []
    return [found for clause in _clauses(own) if (found := _stated(clause)) is not None]


def _own_words(text: str) -> str:
    """Return a message without what only stands in it: code, quotes, and the texts that it asks to work on."""
    text = text.replace("\r\n", "\n").replace("’", "'")
    for foreign in (_CODE, _CITED, _QUOTED, _TO_WORK_ON):
        text = foreign.sub(" ", text)
    return text


def _clauses(text: str) -> Iterator[str]:
    for sentence in _sentences(text):
        whole = _HENCEFORTH.sub(r"\1", sentence)
        if _MY_OWN.match(whole):
            whole = _MORE_OF_ME.sub("; I ", whole)
        for clause in _CLAUSES.split(whole):
            said = clause.strip(" \t,.!…")
            said = _LEAD_IN.sub("", said, count=1) if _LEAD_IN.match(said) else said
            while (shorter := _POLITE.sub("", said)) != said:
                said = shorter
            if said:
                yield said


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences that may state something: no question, no condition, nobody else's words, no secret."""
    begin = 0
    for end in [*_ENDS.finditer(text), None]:
        sentence = text[begin : end.start() if end else len(text)].strip(" \t\n-*•")
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
        if not _fits(pattern, held):
            return None
        line = pattern.line.format(*held)
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
    if pattern.topic in ("name", "person") and held[-1].casefold() in _NO_NAMES:
        return False
    whole = " ".join(held)
    return bool(held[0] or len(held) > 1) and len(whole) <= LONGEST_VALUE and not _UNFIT.search(whole)
