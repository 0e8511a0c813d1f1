"""Tables of words for numbers, days, money and answers, folded: lower case without accents.

English is complete; German, French, Spanish and Portuguese have the common words, Italian the days. A word that means
something else in another of these languages (French "hier", Spanish "once") is left out.
"""

from __future__ import annotations


def word_set(words: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(words.split())


def _many(lines: str) -> dict[str, int]:
    """Read `1 one eins un` lines into word → number."""
    return {word: int(number) for number, *words in map(str.split, lines.splitlines()) for word in words}


SMALL = _many(
    """\
0 zero
1 one eins uno
2 two zwei deux dos dois duas
3 three drei trois tres
4 four vier quatre cuatro quatro
5 five funf fuenf cinq cinco
6 six sechs seis
7 seven sieben siete sete
8 eight acht huit ocho oito
9 nine neun neuf nueve nove
10 ten zehn dix diez dez
11 eleven elf onze
12 twelve zwolf zwoelf douze doce doze
13 thirteen dreizehn treize trece treze
14 fourteen vierzehn quatorze catorce catorze
15 fifteen funfzehn fuenfzehn quinze quince
16 sixteen sechzehn seize dieciseis dezesseis
17 seventeen siebzehn diecisiete dezessete
18 eighteen achtzehn dieciocho dezoito
19 nineteen neunzehn diecinueve dezenove
20 twenty zwanzig vingt vingts veinte vinte
21 veintiuno
22 veintidos
23 veintitres
24 veinticuatro
25 veinticinco
26 veintiseis
27 veintisiete
28 veintiocho
29 veintinueve
30 thirty dreissig dreizig trente treinta trinta
40 forty fourty vierzig quarante cuarenta quarenta
50 fifty funfzig fuenfzig cinquante cincuenta cinquenta
60 sixty sechzig soixante sesenta sessenta
70 seventy siebzig setenta
80 eighty achtzig ochenta oitenta
90 ninety neunzig noventa
200 doscientos doscientas duzentos duzentas
300 trescientos trescientas trezentos trezentas
400 cuatrocientos cuatrocientas quatrocentos quatrocentas
500 quinientos quinientas quinhentos quinhentas
600 seiscientos seiscientas seiscentos seiscentas
700 setecientos setecientas setecentos setecentas
800 ochocientos ochocientas oitocentos oitocentas
900 novecientos novecientas novecentos novecentas"""
)
_GERMAN_UNITS = ("ein", "zwei", "drei", "vier", "funf", "sechs", "sieben", "acht", "neun")
_GERMAN_TENS = ("zwanzig", "dreissig", "vierzig", "funfzig", "sechzig", "siebzig", "achtzig", "neunzig")
SMALL.update(
    (f"{unit}und{tens}", 10 * ten + one)
    for ten, tens in enumerate(_GERMAN_TENS, 2)
    for one, unit in enumerate(_GERMAN_UNITS, 1)
)
SCALES = _many(
    """\
100 hundred hundert cien ciento cento cem
1000 thousand tausend mille mil
1000000 million millions millionen millones milhoes milhao mio"""
)
ARTICLES = word_set("a an ein eine einen einem einer un une una um uma")
"""Articles mean "one" only as a whole answer, or before a scale."""
ORDINALS = _many(
    """\
1 first erste ersten premier premiere primero primera primeiro primeira
2 second zweite zweiten deuxieme segundo segunda
3 third dritte dritten troisieme tercero tercera terceiro terceira
4 fourth vierte vierten quatrieme cuarto
5 fifth funfte cinquieme quinto
6 sixth sechste sixieme
7 seventh siebte septieme
8 eighth achte huitieme
9 ninth neunte neuvieme
10 tenth zehnte dixieme
11 eleventh
12 twelfth
13 thirteenth
14 fourteenth
15 fifteenth
16 sixteenth
17 seventeenth
18 eighteenth
19 nineteenth
20 twentieth
30 thirtieth"""
)
LAST_WORDS = word_set("last letzte letzten dernier derniere ultimo ultima")
SUFFIXES = word_set("st nd rd th er ere eme o º ª")
"""Suffixes of ordinals in digits."""

MONTHS = _many(
    """\
1 january jan januar janner janvier enero janeiro gennaio
2 february feb februar fevrier febrero fevereiro febbraio
3 march mar marz maerz mars marzo marco
4 april apr avril abril aprile
5 may mai mayo maio maggio
6 june jun juni juin junio junho giugno
7 july jul juli juillet julio julho luglio
8 august aug aout agosto
9 september sep sept septembre septiembre setembro settembre
10 october oct okt oktober octobre octubre outubro ottobre
11 november nov novembre noviembre novembro
12 december dec dez dezember decembre diciembre dezembro dicembre"""
)
WEEKDAYS = _many(
    """\
0 monday montag lundi lunes lunedi
1 tuesday dienstag mardi martes martedi
2 wednesday mittwoch mercredi miercoles mercoledi
3 thursday donnerstag jeudi jueves giovedi
4 friday freitag vendredi viernes venerdi
5 saturday samstag sonnabend samedi sabado sabato
6 sunday sonntag dimanche domingo domenica"""
)
SHORT_WEEKDAYS = _many(
    """\
0 mon
1 tue tues
2 wed
3 thu thur thurs
4 fri
5 sat
6 sun"""
)
"""These have other meanings as well, so they need a word such as "on" before them."""
RELATIVE_DAYS = {
    **dict.fromkeys(("today", "tonight", "heute", "hoy", "hoje", "aujourd'hui", "oggi"), 0),
    **dict.fromkeys(("tomorrow", "tmrw", "morgen", "demain", "manana", "amanha", "domani"), 1),
    **dict.fromkeys(("ubermorgen", "uebermorgen", "dopodomani"), 2),
    **dict.fromkeys(("yesterday", "gestern", "ayer", "ontem", "ieri"), -1),
    **dict.fromkeys(("vorgestern", "anteayer", "anteontem"), -2),
}
DAY_UNITS = {
    **dict.fromkeys(("day", "days", "tag", "tage", "tagen", "jour", "jours", "dia", "dias"), (1, 0)),
    **dict.fromkeys(("week", "weeks", "woche", "wochen", "semaine", "semaines", "semana", "semanas"), (7, 0)),
    **dict.fromkeys(("fortnight", "fortnights"), (14, 0)),
    **dict.fromkeys(("month", "months", "monat", "monate", "monaten", "mois", "mes", "meses"), (0, 1)),
    **dict.fromkeys(("year", "years", "jahr", "jahre", "jahren", "ans", "ano", "anos"), (0, 12)),
}
"""Unit → days, months."""
NEXT_WORDS = word_set("next nachsten nachste nachster prochain prochaine proximo proxima prossimo prossima")
PAST_WORDS = word_set("last past previous letzten letzte dernier derniere pasado passado")

NIGHTS = word_set("night nights nite nites nacht nachte nuit nuits noche noches noite noites")
_ADULTS = word_set("adult adults erwachsene erwachsener adulte adultes adulto adultos")
_CHILDREN = word_set(
    """
    child children kid kids kinder enfant enfants nino ninos crianca criancas infant infants baby babies
    """
)
_PEOPLE = word_set(
    """
    guest guests person persons people traveler travelers traveller travellers passenger passengers pax visitor
    visitors attendee attendees participant participants friends us party group headcount personen leute gast gaste
    gaesten personnes personne voyageurs personas persona huespedes pessoas pessoa hospedes
    """
)
PARTS_OF_PEOPLE = _ADULTS | _CHILDREN
COUNTED = {
    "people": _PEOPLE | _ADULTS,
    "adults": _ADULTS,
    "children": _CHILDREN,
    "nights": NIGHTS,
    "days": frozenset(word for word, size in DAY_UNITS.items() if size == (1, 0)),
    "weeks": frozenset(word for word, size in DAY_UNITS.items() if size == (7, 0)),
    "months": frozenset(word for word, size in DAY_UNITS.items() if size == (0, 1)),
    "years": frozenset(word for word, size in DAY_UNITS.items() if size == (0, 12)),
    "hours": word_set("hour hours hrs stunde stunden heure heures hora horas"),
    "minutes": word_set("minute minutes mins minuten minuto minutos"),
    "rooms": word_set("room rooms zimmer chambre chambres habitacion habitaciones quarto quartos"),
}
"""What is counted → the words for it."""
COUNT_NAMES = {word: what for what, words in COUNTED.items() for word in words}
"""A word for what is counted → what it is."""
UNIT_WORDS = frozenset(COUNT_NAMES) | {"old"}

MONEY_SIGNS = frozenset("$€£¥₹")
MONEY_WORDS = word_set(
    """
    dollar dollars bucks usd euro euros eur pound pounds gbp quid franc francs franken chf yen jpy rupees inr
    reais brl pesos mxn cad aud sek nok dkk pln
    """
)

YES = word_set(
    """
    yes yep yeah yup ya y sure ok okay correct right absolutely definitely certainly indeed affirmative true
    confirmed agreed agree exactly ja jawohl klar genau gerne naturlich oui si claro sim certo vale 👍 ✅ 是 是的 对 好
    好的 はい
    """
)
NO = word_set("no nope nah n negative false never nein nee non nao incorrect wrong 👎 不 不是 不要 いいえ")
NOT = word_set(
    """
    not no don't dont doesn't doesnt won't wont can't cannot isn't aren't without never non nor neither nicht
    kein keine keinen ohne pas sans sin sem nao except wouldn't didn't shouldn't wasn't weren't haven't hasn't hadn't
    couldn't mustn't needn't cant isnt arent wasnt havent hasnt didnt couldnt wouldnt shouldnt statt ausser
    sauf excepto exceto salvo
    """
)
"""Words that negate what follows."""
NONE = word_set("no without zero kein keine keinen ohne sans sin sem")
"""Words that say there is none of what follows."""
LANGUAGES = word_set(
    """
    english german french spanish portuguese italian dutch chinese japanese russian arabic polish swedish
    american british deutsch englisch francais espanol portugues italiano
    """
)
_STATES = word_set(
    """
    sorry fine interested here not ok okay looking back the a an at in going i ready done from calling tomorrow today
    maybe later good great tired hungry busy married single late lost new very so too really still already just
    waiting trying happy sad sick ill afraid glad sure unsure confused
    """
)
NOT_NAMES = LANGUAGES | YES | NO | _STATES
"""Words after "I am" that are not a name."""
