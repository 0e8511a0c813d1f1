"""Parse a query: its stems in every language that an answer may be in, and the kind of answer it expects."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Collection
from enum import IntFlag

import msgspec

from memoranda.retrieval.analysis.analyser import whole_term
from memoranda.retrieval.analysis.dates import read_dates
from memoranda.retrieval.analysis.languages import is_stop_word, language_of, term
from memoranda.retrieval.analysis.words import Word, chunks, read_chunk


class Expects(IntFlag):
    """What an answer would contain. The first two are the same bits as in `Features`."""

    TEMPORAL = 2
    """When, how long, which day."""
    NUMERAL = 4
    """How many, how old, how far."""
    NAME = 8
    """Who, where, which, what it is called."""


class QueryWord(msgspec.Struct, frozen=True, gc=False):
    """A word of a query. An entry contains it if it contains any of its stems."""

    text: str
    """As written."""
    stems: tuple[str, ...]
    """Its terms in the possible languages, the query's own first; other spellings of an identifier last."""
    stop: bool


class Query(msgspec.Struct, frozen=True):
    """A parsed query."""

    words: tuple[QueryWord, ...]
    language: str
    expects: int = 0
    """Flags of `Expects`."""
    years: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()


def read_query(text: str, languages: Collection[str], *, words_only: bool = False) -> Query:
    """Parse a query for entries in these languages (codes as in `Analysis.language`).

    An identifier is searched as a whole, with and without its hyphen: `GPT-4` and `GPT4`. With `words_only`, dates and
    the expected kind of answer are not read.

    >>> query = read_query("How many houses are in INV-2041?", ["en", "de"])
    >>> [word.stems for word in query.words if not word.stop], Expects(query.expects)
    ([('hous',), ('inv-2041', 'inv2041')], <Expects.NUMERAL: 4>)
    """
    read = _read_cached if len(text) <= _LONGEST_CACHED else _read
    return read(text, tuple(sorted(languages)), words_only)


def idf(frequency: float, documents: int) -> float:
    """Return the inverse document frequency of a term that this many of the documents contain."""
    return math.log(1 + (documents - frequency + 0.5) / (frequency + 0.5))


def _read(text: str, languages: tuple[str, ...], words_only: bool) -> Query:
    pieces = chunks(text)
    language = language_of(pieces)
    under = tuple(dict.fromkeys([language, *languages]))
    # A query of unknown language may be in any of the languages of the entries.
    stop_under = (language,) if language else under
    words = [word for piece in pieces for word in read_chunk(piece)]
    looked_for = tuple([found for word in words if (found := _look_for(word, under, stop_under)).stems])
    if words_only:
        return Query(looked_for, language)
    folded = [word.whole or word.parts[0] for word in words]
    dates = read_dates(folded, (language, "en") if language != "en" else ("en",))
    return Query(looked_for, language, _expectation(text, language), dates.years, dates.months)


# The same query often comes again: in another mode or namespace, or from a client that polls.
_LONGEST_CACHED = 300
_read_cached = functools.lru_cache(maxsize=1_024)(_read)


@functools.lru_cache(maxsize=8_192)
def _look_for(word: Word, under: tuple[str, ...], stop_under: tuple[str, ...]) -> QueryWord:
    if word.whole:
        stems = [whole_term(spelling, language) for spelling in _spellings(word.whole) for language in under]
        return QueryWord(word.text, tuple(dict.fromkeys(filter(None, stems))), False)
    stems = [term(part, language) for part in word.parts for language in under]
    stop = any(is_stop_word(word.parts[0], language) for language in stop_under)
    return QueryWord(word.text, tuple(dict.fromkeys(filter(None, stems))), stop)


_JOINED = re.compile(r"[^\W\d_]+[-_.]?\d+|[^\W\d_]+(?:[-_.&][^\W\d_]+)+")
_BOUNDARY = re.compile(r"(?<=[^\W\d_])(?=\d)")


def _spellings(whole: str) -> tuple[str, ...]:
    """Return an identifier and its other spellings.

    >>> _spellings("gpt4"), _spellings("inv-2041"), _spellings("node.js"), _spellings("#12"), _spellings("2023-05-08")
    (('gpt4', 'gpt-4'), ('inv-2041', 'inv2041'), ('node.js', 'nodejs'), ('#12', '12'), ('2023-05-08',))
    """
    if whole.startswith("#"):
        return whole, whole[1:]
    if not _JOINED.fullmatch(whole):
        return (whole,)
    if whole.isalnum():
        return whole, _BOUNDARY.sub("-", whole)
    return whole, "".join(character for character in whole if character.isalnum())


def _expectation(text: str, language: str) -> int:
    """Return the kinds of answer that a question in this language expects, as flags of `Expects`."""
    asked = _ASKED.get(language) or _ASKED["en"]
    folded = text.casefold()
    return sum(flag for flag, pattern in zip((2, 4, 8), asked, strict=True) if pattern.search(folded))


# Patterns that ask for a time, a number and a name. They match whole words, except in scripts without spaces.
_QUESTIONS = {
    "en": (
        # "when" inside a sentence joins two of them, unless a question follows it.
        r"^\W*when|when(?=\W*$)|when(?:'s|’s)|"
        r"when (?:did|do|does|is|was|were|are|will|has|have|had|should|can|could|would)|"
        r"(?:since|until|till|by) when|how long|how (?:recent|soon|late|early)(?:ly)?|"
        r"how many (?:minutes|hours|days|weeks|months|years)|"
        r"(?:what|which) (?:day|date|year|month|week|time|season|weekday|hour|decade|century)",
        r"how (?:many|much|often|old|long|far|tall|big|large|fast|heavy|high|deep|wide|expensive|frequently)|"
        r"what (?:number|age|amount|price|percentage|share|score|size|distance|quantity)|number of|count of",
        r"who|whos|whom|whose|where|which(?! (?:day|date|year|month|week|time|hour))|names?|named|called|titled?|"
        r"what (?:kind|type|sort|brand|city|country|book|movie|film|song|company|place|town|restaurant|language|artist|"
        r"band|author)s?",
    ),
    "de": (
        r"wann|seit wann|bis wann|wie lange|(?:an )?welche[mnrs]? (?:tag|datum|jahr|monat|woche|uhrzeit)|wie spät",
        r"wie ?viele?|wie (?:oft|alt|lange|weit|groß|gross|hoch|teuer|schwer|schnell|tief)",
        r"wer|wem|wen|wessen|wo|wohin|woher|welche[mnrs]?|namen?|heißt|heisst|hieß|genannt|titel",
    ),
    "fr": (
        r"quand|depuis quand|combien de temps|quel(?:le)? (?:jour|date|année|mois|heure|semaine)",
        r"combien|à quelle (?:distance|fréquence)|quel (?:âge|nombre|prix|montant)",
        r"qui|où|d'où|quel(?:le)?s?|lequel|laquelle|nom|appelle|appelée?|nommée?|titre",
    ),
    "es": (
        r"cu[aá]ndo|desde cu[aá]ndo|cu[aá]nto tiempo|qu[eé] (?:d[ií]a|fecha|año|mes|hora|semana)",
        r"cu[aá]nt[oa]s?|cada cu[aá]nto|qu[eé] (?:edad|precio|n[uú]mero|distancia)",
        r"qui[eé]n(?:es)?|d[oó]nde|ad[oó]nde|cu[aá]l(?:es)?|nombre|llama|llamad[oa]|t[ií]tulo",
    ),
    "it": (
        r"quando|da quanto(?: tempo)?|quanto tempo|che (?:giorno|data|anno|mese|ora|settimana)",
        r"quant[oaie]|ogni quanto|che (?:età|prezzo|numero)",
        r"chi|dove|dov'è|qual[ei]?|nome|chiama|chiamat[oa]|titolo",
    ),
    "pt": (
        r"quando|h[aá] quanto tempo|quanto tempo|que (?:dia|data|ano|m[eê]s|hora|semana)",
        r"quant[oa]s?|com que frequ[eê]ncia|qual (?:a idade|o preço)|que (?:idade|n[uú]mero)",
        r"quem|onde|aonde|qual|quais|nome|chama|chamad[oa]|t[ií]tulo",
    ),
    "nl": (
        r"wanneer|sinds wanneer|hoe lang|hoelang|hoe laat|welke? (?:dag|datum|jaar|maand|week|tijd)",
        r"hoeveel|hoe (?:vaak|oud|lang|ver|groot|hoog|duur|zwaar|snel)",
        r"wie|wiens|waar|waarheen|welke?|naam|heet|heette|genaamd|genoemd|titel",
    ),
    "sv": (
        r"när|sedan när|hur länge|vilke[nt] (?:dag|datum|år|månad|vecka|tid)",
        r"hur (?:många|mycket|ofta|gammal|gamla|lång|långt|länge|stor|hög|dyr)",
        r"vem|vems|vilka|^\W*var|vart|varifrån|vilken|vilket|namn|namnet|heter|hette|kallas|titel",
    ),
    "no": (
        r"når|siden når|hvor lenge|hvilke[nt] (?:dag|dato|år|måned|uke|tid)",
        r"hvor (?:mange|mye|ofte|gammel|lang|langt|lenge|stor|høy|dyr)",
        r"hvem|hvor(?! (?:mange|mye|ofte|gammel|lang|langt|lenge|stor|høy|dyr))|"
        r"hvilken|hvilket|hvilke|navn|navnet|heter|het|kalles|tittel",
    ),
    "da": (
        r"hvornår|siden hvornår|hvor længe|hvilke[nt] (?:dag|dato|år|måned|uge|tid)",
        r"hvor (?:mange|meget|ofte|gammel|lang|langt|længe|stor|høj|dyr)",
        r"hvem|hvor(?! (?:mange|meget|ofte|gammel|lang|langt|længe|stor|høj|dyr))|"
        r"hvilken|hvilket|hvilke|navn|navnet|hedder|hed|kaldes|titel",
    ),
    "fi": (
        r"milloin|koska|kuinka kauan|mistä lähtien|minä (?:päivänä|vuonna)|missä kuussa|mihin aikaan",
        r"kuinka (?:monta|paljon|usein|vanha|pitkä|kaukana|suuri|kauan)|montako|paljonko|miten (?:monta|usein)",
        r"kuka|ketkä|kenen|kenet|missä|minne|mistä|mikä|mitkä|kumpi|nimi|nimeltään|otsikko",
    ),
    "ru": (
        r"когда|каких пор|как долго|сколько времени|сколько лет|как давно|"
        r"в (?:каком|какой|какое) (?:году|месяце|день|время)|какого числа|во сколько",
        r"сколько|как (?:часто|далеко|много)|насколько|какого (?:возраста|размера)",
        r"кто|кого|кому|кем|где|куда|откуда|какой|какая|какие|какое|который|которая|имя|зовут|звали|называется|название",
    ),
    "zh": (
        r"什么时候|什麼時候|何时|何時|哪天|哪一天|哪年|哪一年|几点|幾點|多久|几月|幾月|几号|多长时间",
        r"多少|几[个次岁本人天年]|幾[個次歲本人天年]|多大|多远|多遠|多高|多久|多重",
        r"谁|誰|哪里|哪裡|哪儿|哪个|哪個|哪些|什么名字|叫什么|叫什麼|名字|名称|名稱",
    ),
    "ja": (
        r"いつ|何時|何日|何月|何年|何曜日|どのくらい|どれくらい|どれぐらい",
        r"いくつ|いくら|何[人個回歳本冊匹枚台杯件時日年]|どのくらい|どれくらい|どれだけ",
        r"誰|だれ|どこ|どの|どちら|どっち|名前|何という|タイトル",
    ),
    "ko": (
        r"언제|며칠|몇 ?시|몇 ?년|몇 ?월|무슨 ?요일|얼마나 오래",
        r"몇|얼마|얼마나",
        r"누구|누가|어디|어느|어떤|이름|제목",
    ),
}  # fmt: skip


def _whole_words(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{pattern})\b")


_UNSPACED = frozenset({"zh", "ja", "ko"})
_ASKED = {
    language: tuple(re.compile(pattern) if language in _UNSPACED else _whole_words(pattern) for pattern in patterns)
    for language, patterns in _QUESTIONS.items()
}
