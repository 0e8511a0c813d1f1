"""What can be seen in a text without understanding it: a question, a time, a number, names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from memoranda.retrieval.analysis.analysed import Signs
from memoranda.retrieval.analysis.vocabulary import AMBIGUOUS_MONTHS, ARTICLES, TIME_WORDS
from memoranda.retrieval.analysis.words import Word

# What one chunk of a text is, as bits: what a text shows is put together from them.
WHEN = 1
"""It says when by itself."""
UNIT = 2
"""It says when or how long after a number or a word such as "last"."""
BEFORE = 4
FIGURE = 8
"""A number in digits."""
COUNT = 16
"""A number in words."""
MONTH = 32
"""A month, if what stands beside it says so."""
ARTICLE = 64

_DATE = re.compile(
    r"(?:19|20)\d\d(?:-\d\d(?:-\d\d)?|s)?|\d{1,2}[/.-]\d{1,2}[/.-]\d{2,4}|\d{1,2}:\d\d(?::\d\d)?[a-z]*|\d{1,2}[ap]m",
    re.ASCII,
)
# Scripts without spaces: a word for a time, what stands after the digits of one, and numbers in words with what they
# count.
_EAST_MOMENT = re.compile(
    "昨日|今日|明日|昨夜|今朝|今夜|先週|今週|来週|先月|今月|来月|去年|昨年|今年|来年|曜日|昨天|今天|明天|前天|后天|後天|星期|礼拜|"
    "上周|下周|上週|下週|本周|上个月|下个月|上個月|下個月|明年|周末|週末|어제|오늘|내일|그제|모레|지난주|이번주|다음주|지난달|"
    "작년|올해|내년|요일|주말|เมื่อวาน|วันนี้|พรุ่งนี้|ปีที่แล้ว|สัปดาห์|[一二三四五六七八九十][年月日天週周]"
)
_EAST_UNIT = re.compile("[年月日時时分週周天秒년월일시주분]|(?:ヶ|か|カ|个|個|개)[月월]|小时|小時|週間|時間|시간")
_EAST_COUNT = re.compile(
    "[一二三四五六七八九十百千万萬両两兩][年月日天個个人本回次歳岁週周時时分冊匹台枚杯件条條只隻张張位]"
)


def kind_of(words: Sequence[Word], language: str) -> int:
    """Return what a chunk with these words is, in a text of this language."""
    known = _known_kinds(language)
    kind = 0
    for word in words:
        if word.whole and (word.whole[0].isdigit() or word.whole[0] == "#"):
            kind |= WHEN | FIGURE if _DATE.fullmatch(word.whole) else FIGURE
        for part in word.parts:
            kind |= known.get(part, 0)
            if not part.isalpha() and any(map(str.isdecimal, part)):  # most are, and no letter is a digit
                kind |= FIGURE
    return kind


@cache
def _known_kinds(language: str) -> dict[str, int]:
    """Return what each word is that says when, how long or how many in texts of a language, or stands between such."""
    names = TIME_WORDS.get(language) or TIME_WORDS["en"]
    kinds: dict[str, int] = {}
    for kind, words in (
        (WHEN, names.moments),
        (UNIT, names.units),
        (BEFORE, names.before),
        (COUNT, names.numbers),
        (MONTH, AMBIGUOUS_MONTHS if language == "en" else ()),
        (ARTICLE, ARTICLES),
    ):
        for word in words:
            kinds[word] = kinds.get(word, 0) | kind
    return kinds


def kind_of_run(run: str) -> int:
    """Return what a run of a script without spaces is."""
    return (
        (WHEN if _EAST_MOMENT.search(run) else 0)
        | (UNIT if _EAST_UNIT.match(run) else 0)
        | (COUNT if _EAST_COUNT.search(run) else 0)
    )


def read_signs(text: str, kinds: bytes) -> int:
    """Return the signs of a text whose chunks are of these kinds, a byte for each."""
    seen = 0
    for kind in set(kinds):
        seen |= kind
    signs = _QUESTION if asks(text) else 0
    if seen & (FIGURE | COUNT):
        signs |= _NUMERAL
    if seen & WHEN or (seen & (UNIT | MONTH) and _says_when(kinds)):
        signs |= _TEMPORAL
    return signs


# As numbers: an enumeration takes two calls to give one out, which is more than all the rest that is asked of a text.
_QUESTION, _NUMERAL, _TEMPORAL = Signs.QUESTION.value, Signs.NUMERAL.value, Signs.TEMPORAL.value


_UNIT_OR_MONTH = re.compile(b"[" + re.escape(bytes(kind for kind in range(128) if kind & (UNIT | MONTH))) + b"]")


def _says_when(kinds: bytes) -> bool:
    """Say whether a unit or a month has beside it what makes it a time: "two weeks", "during the summer", "in May"."""
    for found in _UNIT_OR_MONTH.finditer(kinds):
        place = found.start()
        kind = kinds[place]
        before = kinds[place - 1] if place else 0
        if before & ARTICLE and not before & BEFORE and place > 1:
            before = kinds[place - 2]
        if kind & UNIT and (before | kind) & (BEFORE | FIGURE | COUNT):
            return True
        after = kinds[place + 1] if place + 1 < len(kinds) else 0
        if kind & MONTH and (before & (BEFORE | FIGURE) or after & FIGURE):
            return True
    return False


_QUESTION_MARKS = frozenset("?\uff1f\u061f\u037e\u2e2e\u2047\u2048\u203d")


def asks(text: str) -> bool:
    """Say whether a text ends in a question, whatever note in brackets, quotation mark or emoji comes after.

    >>> asks("Are you coming? [photo: a boat]"), asks('She asked "why?"'), asks("I asked why? No answer.")
    (True, True, False)
    """
    end = len(text.rstrip())
    if end and text[end - 1] in "])":
        opening = text.rfind("[" if text[end - 1] == "]" else "(", 0, end)
        end = opening if opening > 0 else end
    # What ends a text is short; further back it is the text itself.
    for place in range(end - 1, max(end - 33, -1), -1):
        character = text[place]
        if character in _QUESTION_MARKS:
            return True
        if character.isalnum() or character in ".。":
            return False
    return False


# What a piece of a text has at its edges, as two characters. A name inside a sentence stands after a letter, a comma or
# the like, and a single space.
_NAME, _INSIDE = "N", "i"
BOUNDARY = _INSIDE + _NAME
"""Where one piece after another is written as its edges: a name that does not begin a sentence."""

_CAPITAL = re.compile(r"[^\W\d_a-z]\w*")
_GOING_ON = frozenset("_,;)%'’")
_QUOTED = re.compile(r'"[^"\n]{1,120}"|“[^“”\n]{1,120}”|„[^„“”\n]{1,120}[“”]|«[^«»\n]{1,120}»|「[^「」\n]{1,120}」')


def edges_of(piece: str) -> str:
    """Return whether what stands between two spaces begins with a capital, and whether a sentence may go on after it.

    >>> "".join(map(edges_of, "Yesterday I met Ada Lovelace, who was reading Emma.".split())).count(BOUNDARY)
    3
    """
    name = _CAPITAL.match(piece) if piece[:1].isupper() else None
    last = piece[-1:]
    goes_on = last.isalnum() or last in _GOING_ON
    if name is not None and name[0] != "I":
        return _NAME + _INSIDE if goes_on else _NAME + "-"
    return "-" + _INSIDE if goes_on else "--"


def count_quotations(text: str) -> int:
    """Return how many quotations a text holds."""
    return 0 if text.isascii() and '"' not in text else len(_QUOTED.findall(text))
