"""Stemming: the index term of a case-folded word in a language."""

from __future__ import annotations

import importlib
import re
import threading
import unicodedata
from bisect import bisect_right
from typing import Protocol, cast

from memoranda.retrieval.analysis.words import LONGEST_WORD

_ALGORITHMS = {
    "en": "english", "de": "german", "fr": "french", "es": "spanish", "it": "italian", "pt": "portuguese",
    "nl": "dutch", "sv": "swedish", "no": "norwegian", "da": "danish", "fi": "finnish", "ru": "russian",
    "tr": "turkish", "hu": "hungarian", "ro": "romanian", "ca": "catalan", "id": "indonesian", "el": "greek",
    "ar": "arabic", "hi": "hindi", "ta": "tamil", "hy": "armenian",
}  # fmt: skip

# The first code point of each script; "" is a range without a stemmer.
_SCRIPTS = [
    (0x0000, "Latin"), (0x0370, "Greek"), (0x0400, "Cyrillic"), (0x0530, "Armenian"), (0x0590, "Hebrew"),
    (0x0600, "Arabic"), (0x0700, ""), (0x0750, "Arabic"), (0x0780, ""), (0x0900, "Devanagari"), (0x0980, ""),
    (0x0B80, "Tamil"), (0x0C00, ""), (0x0E00, "Thai"), (0x0E80, ""), (0x1100, "Hangul"), (0x1200, ""),
    (0x1E00, "Latin"), (0x1F00, "Greek"), (0x2000, ""), (0x3040, "Kana"), (0x3130, "Hangul"), (0x3190, ""),
    (0x31F0, "Kana"), (0x3200, ""), (0x3400, "Han"), (0xA000, ""), (0xAC00, "Hangul"), (0xD7B0, ""), (0xF900, "Han"),
    (0xFB00, ""), (0xFB50, "Arabic"), (0xFE00, ""), (0x20000, "Han"), (0x40000, ""),
]  # fmt: skip
_STARTS = [start for start, _ in _SCRIPTS]

# The language whose rules apply to a word when the text itself is in another script.
_USUAL = {
    "Latin": "en", "Cyrillic": "ru", "Greek": "el", "Arabic": "ar", "Devanagari": "hi", "Tamil": "ta", "Armenian": "hy",
}  # fmt: skip
_SCRIPT_OF = {
    "ru": "Cyrillic", "uk": "Cyrillic", "el": "Greek", "ar": "Arabic", "fa": "Arabic", "hi": "Devanagari",
    "ta": "Tamil", "hy": "Armenian", "he": "Hebrew", "th": "Thai", "zh": "Han", "ja": "Han", "ko": "Hangul",
}  # fmt: skip


def script_of(character: str) -> str:
    """Return the name of a letter's script, or "" if it is unknown."""
    return _SCRIPTS[bisect_right(_STARTS, ord(character)) - 1][1]


def term(word: str, language: str) -> str:
    """Return the term of a case-folded word in a text of this language; the language "" has no rules.

    A language's rules apply to words in its own script. Other words follow the usual language of their script, so the
    English words of a Japanese text are stemmed as English. Accents are removed after stemming: `Café` equals `cafe`.

    >>> term("houses", "en"), term("häuser", "de"), term("deployments", "ja"), term("bought", "en")
    ('hous', 'haus', 'deploy', 'buy')
    """
    cached = _CACHE.get(language, _EMPTY).get(word)
    return _find(word, language) if cached is None else cached


_CACHE_SIZE = 65_536
_CACHE: dict[str, dict[str, str]] = {}
"""The terms of words, by language."""
_EMPTY: dict[str, str] = {}


def _find(word: str, language: str) -> str:
    found = _without_accents(_stem(word, language))
    cache = _CACHE.setdefault(language if language in _ALGORITHMS or language in _SCRIPT_OF else "", {})
    if len(cache) >= _CACHE_SIZE:
        cache.clear()
    if len(word) <= LONGEST_WORD:
        cache[word] = found
    return found


def _stem(word: str, language: str) -> str:
    script = "Latin" if word.isascii() else script_of(word[0]) if word else ""
    if _SCRIPT_OF.get(language, "Latin") != script:
        language = _USUAL.get(script, "")
    algorithm = _ALGORITHMS.get(language)
    if algorithm is None or len(word) < 3 or len(word) > LONGEST_WORD:
        return word
    if language == "en":
        word = _IRREGULAR.get(word, word)
    # Stemmers have internal state, so threads must take turns.
    with _stemming:
        stemmer = _STEMMERS.get(algorithm)
        if stemmer is None:
            stemmer = _STEMMERS[algorithm] = _make_stemmer(algorithm)
        return stemmer.stemWord(word)


class _Stemmer(Protocol):
    def stemWord(self, word: str, /) -> str: ...


_STEMMERS: dict[str, _Stemmer] = {}
_stemming = threading.Lock()


def _make_stemmer(algorithm: str) -> _Stemmer:
    # The package is compiled and untyped. The second argument turns off its own cache.
    return cast("_Stemmer", importlib.import_module("Stemmer").Stemmer(algorithm, 0))


# Letters that do not decompose, by what people type instead.
_PLAIN_LETTERS = str.maketrans(
    {"ø": "o", "æ": "ae", "œ": "oe", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "\u0131": "i", "\u03c2": "\u03c3"}
)
_ACCENTS = re.compile("[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed]+")


def _without_accents(stem: str) -> str:
    """Return a stem without accents, vowel points and tatweel, so that it is found however it is typed."""
    if stem.isascii():
        return stem
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", stem)).translate(_PLAIN_LETTERS)
    # A lone accent decomposes to a space, which would split the term, because stored terms are joined by spaces.
    return unicodedata.normalize("NFC", "".join(bare.split()))


# Irregular English forms, without those that are more often another word ("rose", "bore", "lay").
_IRREGULAR = {
    form: base
    for base, _, forms in (
        line.partition(":")
        for line in """become:became begin:began,begun break:broke,broken bring:brought build:built buy:bought
        catch:caught
        choose:chose,chosen deal:dealt drink:drank,drunk drive:drove,driven eat:ate,eaten fall:fell,fallen feed:fed
        feel:felt fight:fought find:found fly:flew,flown forget:forgot,forgotten forgive:forgave,forgiven
        freeze:froze,frozen get:got,gotten give:gave,given go:went,gone grow:grew,grown hang:hung hear:heard
        hide:hid,hidden hold:held keep:kept know:knew,known lead:led learn:learnt leave:left lend:lent lose:lost
        make:made mean:meant meet:met pay:paid ride:rode,ridden ring:rang,rung run:ran say:said see:saw,seen sell:sold
        send:sent shake:shook,shaken shoot:shot show:shown sing:sang,sung sink:sank,sunk sit:sat sleep:slept
        speak:spoke,spoken spend:spent stand:stood steal:stole,stolen stick:stuck strike:struck swear:swore,sworn
        swim:swam,swum take:took,taken teach:taught tear:tore,torn tell:told think:thought throw:threw,thrown
        understand:understood wake:woke,woken wear:wore,worn win:won withdraw:withdrew,withdrawn draw:drew,drawn
        write:wrote,written come:came blow:blew,blown dig:dug bend:bent bleed:bled breed:bred creep:crept dream:dreamt
        flee:fled overcome:overcame rebuild:rebuilt seek:sought shine:shone slide:slid spin:spun sweep:swept
        swing:swung weep:wept child:children man:men woman:women foot:feet tooth:teeth mouse:mice goose:geese
        wife:wives life:lives knife:knives wolf:wolves shelf:shelves half:halves loaf:loaves thief:thieves""".split()
    )
    for form in forms.split(",")
}
