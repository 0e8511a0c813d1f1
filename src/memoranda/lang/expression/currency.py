"""An amount, a currency and a locale in, the price as people of that place write it out."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

import msgspec

from memoranda.lang.expression.wording import number_word

_NO_BREAK, _NARROW = "\N{NO-BREAK SPACE}", "\N{NARROW NO-BREAK SPACE}"


class _Style(msgspec.Struct, frozen=True):
    group: str
    point: str
    symbol_first: bool
    grouping: int = 3
    """Digits of each group above the first three; two in India."""


_ENGLISH = _Style(",", ".", symbol_first=True)
_GERMAN = _Style(".", ",", symbol_first=False)
_STYLES = {
    "en": _ENGLISH,
    "en-IN": _Style(",", ".", symbol_first=True, grouping=2),
    "hi": _Style(",", ".", symbol_first=True, grouping=2),
    "ja": _ENGLISH,
    "zh": _ENGLISH,
    "ko": _ENGLISH,
    "de": _GERMAN,
    "es": _GERMAN,
    "it": _GERMAN,
    "da": _GERMAN,
    "tr": _Style(".", ",", symbol_first=True),
    "pt": _Style(".", ",", symbol_first=True),
    "nl": _Style(".", ",", symbol_first=True),
    "fr": _Style(_NARROW, ",", symbol_first=False),
    "sv": _Style(_NO_BREAK, ",", symbol_first=False),
    "pl": _Style(_NO_BREAK, ",", symbol_first=False),
    "ru": _Style(_NO_BREAK, ",", symbol_first=False),
    "de-CH": _Style("’", ".", symbol_first=True),
}
_SYMBOLS = {
    "USD": "$",
    "EUR": "€",
    "GBP": "£",
    "JPY": "¥",
    "INR": "₹",
    "KRW": "₩",
    "CNY": "CN¥",
    "BRL": "R$",
    "CAD": "CA$",
    "AUD": "A$",
    "MXN": "MX$",
    "ILS": "₪",
    "VND": "₫",
}
_DIGITS = {"JPY": 0, "KRW": 0, "VND": 0, "CLP": 0, "ISK": 0, "BHD": 3, "KWD": 3, "OMR": 3, "TND": 3, "JOD": 3}


def format_money(amount: int | float, code: str, locale: str) -> str:
    """Return `$1,234.50` for 1234.5, USD and en-US; an unknown locale is read as English, a currency keeps its code."""
    code = code.strip().upper()[:3]
    style = _STYLES.get(locale) or _STYLES.get(locale.replace("_", "-").partition("-")[0].lower()) or _ENGLISH
    digits = _DIGITS.get(code, 2)
    try:
        exact = abs(Decimal(repr(amount))).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    except InvalidOperation:
        # Beyond 28 digits nobody counts cents.
        return f"{code} {number_word(amount)}"
    whole, _, cents = f"{exact:f}".partition(".")
    figure = style.group.join(_groups(whole, style.grouping)) + (style.point + cents if cents else "")
    sign = "-" if amount < 0 and exact else ""
    symbol = _SYMBOLS.get(code, code)
    if not style.symbol_first:
        return f"{sign}{figure}{_NO_BREAK}{symbol}"
    apart = _NO_BREAK if symbol == code or style.point == "," else ""
    return f"{sign}{symbol}{apart}{figure}"


def _groups(whole: str, size: int) -> list[str]:
    head, groups = whole[:-3], [whole[-3:]]
    while head:
        groups.insert(0, head[-size:])
        head = head[:-size]
    return groups
