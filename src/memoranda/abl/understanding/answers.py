"""Fill the text field that was asked for with the answer, without the phrases around its value."""

from __future__ import annotations

import re

from memoranda.abl.understanding.extraction import STOPS, Extraction
from memoranda.abl.understanding.fields import FieldProfile
from memoranda.abl.understanding.vocabulary import MONEY_WORDS, NO, NOT, NOT_NAMES, UNIT_WORDS, YES, word_set
from memoranda.abl.understanding.words import Utterance, words_of

_EVASIONS = frozenset(
    tuple(phrase.split())
    for phrase in (
        "help/help me/please help/what/huh/pardon/sorry/excuse me/hmm/hm/um/uh/idk/dunno/no idea/i have no idea"
        "/i don't know/i dont know/don't know/i do not know/not sure/i'm not sure/i am not sure/im not sure/never mind"
        "/nevermind/skip/skip it/pass/later/not yet/hello/hi/hey/hi there/hello there/good morning/good afternoon"
        "/good evening/thanks/thank you/ok thanks/whatever/doesn't matter/it doesn't matter"
        "/you choose/you tell me/you decide"
        "/surprise me"
        "/maybe/rather not/i'd rather not/i'd rather not say/prefer not to say/i prefer not to say/repeat/repeat that"
        "/say that again/stop/quit/exit/cancel/wait/one moment/start over/go back/menu/i don't understand"
        "/i do not understand/i don't remember/i can't remember/i forgot/i can't/i cannot/i won't/let me think"
        "/weiss nicht/ich weiss nicht/weiss ich nicht/keine ahnung/hilfe/hallo/guten tag/je ne sais pas/sais pas/aide"
        "/bonjour/no se/no lo se/ayuda/hola/nao sei/ajuda/ola/bom dia"
    ).split("/")
)
_OPENS_EVASION = word_set("i i'm im i'd no not don't ich je keine nao let")
_EVASIVE_OPENINGS = frozenset(phrase for phrase in _EVASIONS if len(phrase) > 1 and phrase[0] in _OPENS_EVASION)
_SENTENCE_WORDS = word_set(
    """
    i i'm i'd i'll i've we we're you he she they it am is are was were do does did have has want wants need know
    think don't can can't could would will should not cancel help why what how because please me this that my
    your book booking no yes looking somewhere anywhere something someone same travel trip hotel flight vacation
    holiday warm cheap go fly visit again here weekend week nothing everything never been talk speak human question
    sorry ok okay actually wait wherever whatever depends there hurry
    """
)
"""Words of sentences, which do not occur in names of people and places."""
_AFTER_NAMES = word_set(
    """
    for on with at next this or oder ou until till tomorrow today tonight then from and but because if in to
    please by via between after before fur pour mit
    """
)
"""Words after a capitalized name that are not part of it."""
_ALTERNATIVES = frozenset({"or", "oder", "ou"})
_BEFORE_NAMES = word_set("from to for on with at the same as if and or but by of not a an in")
_PEOPLE = frozenset({"person", "first name", "last name"})
_I_AM = re.compile(r"\b(?:i['’]?m|i am|ich bin|je suis|soy|sono)\s", re.IGNORECASE)
_NAMED = frozenset({"person", "first name", "last name", "recipient", "place", "origin", "language"})
_OPENING = re.compile(
    r"(?:(?:oh|well|um+|uh+|hm+|ok|okay|yes|yeah|yep|sure|so|hi|hello|hey|please|great|thanks|ja|oui|si|sim"
    r"|actually|sorry|just|simply|i think|i guess|probably)"
    r"(?:[\s,!.…-]+)){1,4}(?=\S)",
    re.IGNORECASE,
)
_LEAD_INS = re.compile(
    r"(?:it['’]?s|it is|it['’]?ll be|it would be|that['’]?s|that is|that would be|this is|they are|make it"
    r"|it['’]?s called|called"
    r"|let['’]?s (?:say|go with|take|do|use)|how about|what about|maybe|perhaps|i(?: would|['’]d) (?:like|prefer|love)"
    r"|i(?: want|['’]ll take|['’]ll have| choose| prefer| need)|we(?: want| need|['’]d like)|(?:the )?answer is"
    r"|es ist|das ist|c['’]est|es|é)\s+(?=\S)",
    re.IGNORECASE,
)
_NAME_LEAD_INS = re.compile(
    r"(?:(?:my|the|her|his|their) (?:full |first |last )?name(?: is|['’]s)|name(?: is|['’]s|:)|i['’]?m|i am|call me"
    r"|(?:(?:pay|send|wire|transfer|give)(?: it| that| money)? )?(?:to|for)|pay|send"
    r"|mein name ist|ich heiße|ich heisse|ich bin|je m['’]appelle|je suis|me llamo|mi nombre es|soy|meu nome é"
    r"|chamo-me|mi chiamo|io sono|sono|il mio nome è)\s+(?=\S)|(?:我叫|我的名字是|私の名前は|名前は)(?=\S)",
    re.IGNORECASE,
)
_TRAVEL = (
    r"(?:(?:we|i)(?:['’]re|['’]m|['’]d like to| want to| would like to| am| are)\s++)?"
    r"(?:go(?:ing)?|travel(?:l?ing)?|fly(?:ing)?|head(?:ing)?|visit(?:ing)?|stay(?:ing)?|off|leav(?:e|ing)|start(?:ing)?)?\s*+"
)
_WANTED = (
    r"(?:(?:quiero|queremos|quisiera|quero|queremos|gostaria de) (?:ir|viajar|visitar)"
    r"|(?:je veux|je voudrais|on veut|nous voulons) (?:aller|partir|visiter)"
    r"|(?:voglio|vorrei|vogliamo) (?:andare|visitare)|vado|andiamo)\s++"
)
_PLACE_LEAD_INS = re.compile(
    r"(?:to )?(?:see|visit|explore)\s+(?=\S)"
    rf"|(?:{_WANTED})?{_TRAVEL}(?:to|in|at|for|near|around|nach|in die|à|a|para|em|en)\s+(?=\S)",
    re.IGNORECASE,
)
_ORIGIN_LEAD_INS = re.compile(rf"{_TRAVEL}(?:from|in|at|near|aus|von|de|desde)\s+(?=\S)", re.IGNORECASE)
_CLOSING = re.compile(
    r"(?:(?<![\s,!.])[\s,!.]++(?:please|pls|thanks|thank you|thx|bitte|danke|merci|gracias|por favor|obrigado|obrigada"
    r"|s['’]il vous plaît|would be (?:great|nice|good)|sounds good|will do|is fine)){1,3}[\s.!]*$|です$",
    re.IGNORECASE,
)
_AND_NOT = re.compile(r"(?<=\w)[\s,(–-]+(?:and )?not\s[^,;.!?\n]{1,60}$", re.IGNORECASE)
"""The end of `Ada, not Eve`."""
_QUOTES = {'"': '"', "'": "'", "“": "”", "„": "“", "«": "»", "\u2018": "\u2019", "`": "`"}
_INITIALS = re.compile(r"\b[A-Za-z]\.[A-Za-z]\.$")
"""The end of `Washington, D.C.`, whose point does not end a sentence."""
_COMMAS = re.compile(r"[,;\n]")
_ANDS = frozenset({"and", "und", "et", "y", "e", "plus", "&"})
_FILLERS = word_set(
    """
    for from to on at in with of and the a an about around until till by is are my our we we're it's i'm i
    starting staying arriving leaving going up only just - = : also please there will be as this next fur pour
    para por und et y am vom bis ab email phone it total us email's
    """
)
"""Words that introduce a value which another field took."""
_LEAD_WORDS = word_set("call me number reach mail address name you can order account reference code write text contact")
_LONGEST_NAME = 7
_LONGEST_ANSWER = 400
"""A longer answer is prose, and no phrase is stripped from it."""
_FEW_WORDS = 4


def is_evasive(said: Utterance, first: int, last: int) -> bool:
    """Say whether words avoid an answer: `I don't know`, `help`, `hello`."""
    words = tuple([word for word in said.words[first:last] if word not in STOPS])
    if not words or words in _EVASIONS:
        return True
    return any(words[:length] in _EVASIVE_OPENINGS for length in (2, 3, 4))


def free_answer(profile: FieldProfile, said: Utterance) -> str:
    """Return a whole message as the answer to an open question, unless all of it avoids an answer.

    Names, places, codes and lists need words of their form; any other text may be anything.
    """
    words = tuple([word for word in said.words if word not in STOPS])
    fits = profile.kind == "text" and profile.role in ("free", "question", "plain") and not profile.many
    if not fits or words in _EVASIONS or not any(map(str.isalnum, said.text)):
        return ""
    return said.text.strip()


def tidy(text: str) -> str:
    """Return a value without surrounding spaces, quotes and punctuation.

    >>> tidy(' "Lisbon". '), tidy("St. Gallen,"), tidy("Washington, D.C.")
    ('Lisbon', 'St. Gallen', 'Washington, D.C.')
    """
    text = text.strip()
    if not _INITIALS.search(text):
        text = text.rstrip(".,;:!…").strip()
    if len(text) > 1 and _QUOTES.get(text[0]) == text[-1]:
        text = text[1:-1].strip()
    return text


def list_items(text: str) -> list[str]:
    """Return the items of `a, b and c`.

    >>> list_items("sauna, pool and a bar")
    ['sauna', 'pool', 'a bar']
    """
    items: list[list[str]] = [[]]
    for part in _COMMAS.split(text):
        items.append([])
        for word in part.split():
            if word.casefold() in _ANDS:
                items.append([])
            else:
                items[-1].append(word)
    return [item for words in items if (item := tidy(" ".join(words)))]


def take_text(extraction: Extraction, profile: FieldProfile, first: int, last: int, text: str) -> None:
    """Give a text to a field; to a list field, its items."""
    value = list_items(text) if profile.many else text
    if value:
        extraction.take(profile, first, last, value)


def take_answers(extraction: Extraction, profiles: list[FieldProfile]) -> None:
    """Fill the text field that was asked for with the whole answer, or with what other fields left."""
    for profile in profiles:
        if profile.asked and extraction.is_open(profile):
            _take_answer(extraction, profile)


def _take_answer(extraction: Extraction, profile: FieldProfile) -> None:
    said = extraction.said
    if profile.role in ("free", "question"):
        _take_whole(extraction, profile)
    elif is_evasive(said, 0, len(said.words)):
        return
    elif 1 in extraction.taken or extraction.request is not None or extraction.asking is not None:
        rests = [(rest, value) for rest in _free_runs(extraction) if (value := _value_in(extraction, profile, *rest))]
        if len(rests) == 1:
            (first, last), value = rests[0]
            if profile.role != "plain" or last - first <= _FEW_WORDS:
                take_text(extraction, profile, first, last, value)
    elif value := _value_in(extraction, profile, 0, len(said.words)):
        take_text(extraction, profile, 0, len(said.words), value)


def _take_whole(extraction: Extraction, profile: FieldProfile) -> None:
    """Fill a field for prose, even if other fields took a day or a number from it: those can be asked for again."""
    said = extraction.said
    rests = _free_runs(extraction, requests=True)
    if is_evasive(said, 0, len(said.words)) or (profile.role == "free" and not rests):
        return
    if extraction.values:
        if not any(_is_informative(extraction, *rest) for rest in rests):
            return
        rests = [rest for rest in rests if rest[1] - rest[0] > 1 and _is_delimited(extraction, *rest)]
        if len(rests) == 1:
            take_text(extraction, profile, *rests[0], tidy(said.part(*rests[0])))
            return
        extraction.values.clear()
    take_text(extraction, profile, 0, len(said.words), said.text.strip())


def _is_informative(extraction: Extraction, first: int, last: int) -> bool:
    """Say whether words have a meaning of their own, beyond introducing what another field took."""
    words = extraction.said.words[first:last]
    return sum(1 for word in words if word not in _FILLERS and word not in _LEAD_WORDS) > 1


def _is_delimited(extraction: Extraction, first: int, last: int) -> bool:
    """Say whether words are enclosed by punctuation or the ends of the text."""
    said = extraction.said
    return (first == 0 or said.words[first - 1] in STOPS) and (last == len(said.words) or said.words[last] in STOPS)


def _value_in(extraction: Extraction, profile: FieldProfile, first: int, last: int) -> str:
    """Return the value in some words, or an empty string if they are not a value of this field."""
    said = extraction.said
    whole = first == 0 and last == len(said.words)
    text = said.text if whole else said.part(first, last)
    value = _strip_phrases(text, profile)
    if not value or (not whole and is_evasive(said, first, last)):
        return ""
    if not any(map(str.isalnum, value)):
        return ""
    if profile.role in _PEOPLE and (found := _I_AM.search(text)) and _is_state(text[found.end() :]):
        return ""
    if profile.role in _NAMED:
        value = tidy(_AND_NOT.sub("", value))
        return _name_in(value, digits=profile.role in ("place", "origin"))
    if profile.role == "code" and words_of(value)[0] in NOT:
        return ""
    if profile.role == "code" and not any(map(str.isdecimal, value)):
        return value if value.isupper() and value.isalnum() and len(value) > 1 else ""
    return "" if not whole and all(map(_is_slight, words_of(value))) else value


def _is_state(text: str) -> bool:
    """Say whether the text after "I am" is not a name: `tired`, `Ada's husband`, `calling for Ada`."""
    first, *_ = words_of(text) or [""]
    return first in NOT_NAMES or first.endswith("'s") or (first.endswith("ing") and text.lstrip()[:1].islower())


def _is_slight(word: str) -> bool:
    return word in _FILLERS or word in MONEY_WORDS or word in YES or word in NO


def _name_in(value: str, *, digits: bool) -> str:
    """Return the name of a person or a place that an answer is or begins with, or an empty string.

    A name has a few words, and may have lower-case words inside: `Rio de Janeiro`. A capitalized name may be followed
    by something else, `Barcelona next weekend`, but not by an alternative: `Lisbon or Porto`.
    """
    said = Utterance(value)
    if (not digits and said.digits) or said.words[0] in _BEFORE_NAMES or not any(map(str.isalpha, value)):
        return ""
    for place, word in enumerate(said.words):
        if place and word in _ALTERNATIVES:
            return ""
        if place and word in _AFTER_NAMES and said.is_capitalized(0) and not _goes_on(said, place):
            return tidy(said.part(0, place))
        if word in UNIT_WORDS or place >= _LONGEST_NAME or (word in _SENTENCE_WORDS and not _is_in_name(said, place)):
            return ""
    return value


def _goes_on(said: Utterance, place: int) -> bool:
    """Say whether a name continues after "and": `Trinidad and Tobago`."""
    after = said.word(place + 1)
    return (
        said.words[place] == "and" and after != "" and after not in _SENTENCE_WORDS and said.is_capitalized(place + 1)
    )


def _is_in_name(said: Utterance, place: int) -> bool:
    """Say whether a word of sentences is part of a name: `Will Smith`, `Frankfurt am Main`."""
    word = said.words[place]
    if word == "am":
        return place + 1 < len(said.words) and said.is_capitalized(place + 1)
    return word in ("will", "can", "do") and said.is_capitalized(place)


def _strip_phrases(text: str, profile: FieldProfile) -> str:
    value = tidy(text).rstrip("? ")
    if len(value) > _LONGEST_ANSWER:
        return value
    for pattern in (_OPENING, *_LEADS.get(profile.role, (_LEAD_INS,))):
        found = pattern.match(value)
        if found:
            value = value[found.end() :]
    return tidy(_CLOSING.sub("", value))


_LEADS = {
    "person": (_LEAD_INS, _NAME_LEAD_INS),
    "first name": (_LEAD_INS, _NAME_LEAD_INS),
    "last name": (_LEAD_INS, _NAME_LEAD_INS),
    "place": (_LEAD_INS, _PLACE_LEAD_INS),
    "origin": (_LEAD_INS, _ORIGIN_LEAD_INS),
    "recipient": (_LEAD_INS, _NAME_LEAD_INS),
}


def _free_runs(extraction: Extraction, *, requests: bool = False) -> list[tuple[int, int]]:
    """Return the runs of words that no field took, without the fillers before taken words."""
    words = extraction.said.words
    found: list[tuple[int, int]] = []
    first = 0
    for place, word in enumerate([*words, "."]):
        spent = place == len(words) or extraction.taken[place]
        if (
            spent
            or word in STOPS
            or not extraction.is_statement(place)
            or (extraction.is_request(place) and not requests)
        ):
            last = place
            while spent and last > first and words[last - 1] in _FILLERS:
                last -= 1
            if last > first:
                found.append((first, last))
            first = place + 1
    return found
