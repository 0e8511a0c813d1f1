"""Patterns of how people talk about themselves in English, each with the line to keep."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["states", "ends"]


class Pattern(NamedTuple):
    """A pattern and its line, in which `{0}` is the first group."""

    topic: str
    said: str
    line: str
    single: bool = False
    core: bool = True
    kind: Kind = "states"


# Parts of patterns. A name does not begin with a lower-case letter, so that "I live in hope" does not name a place.
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
    r"not to (?:say|answer|tell|share|talk)|to (?:say|bother|ask|interrupt|disturb|admit)|talking to you|the way)\b|"
    r"(?:him|her|them|us|myself)$)"
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
# Only what an agent can be asked to do: "always wanted to see Rome" is not an instruction.
_ACT = (
    r"((?:answer|reply|respond|write|use|give|show|tell|ask|call|address|include|add|put|start|end|begin|keep|cite|"
    r"mention|list|explain|send|book|order|suggest|recommend|propose|offer|check|round|format|sign|quote|convert|"
    r"translate|speak|talk|avoid|remind|say|make|schedule|plan|leave|skip|omit|assume|greet|spell|state|provide|"
    r"present|summari[sz]e|confirm|wait|copy|attach|pay|buy|store|save|share|delete|contact|phone|e-?mail) .+)"
)

# A new pattern is one line here, and a sentence or two in the tests.
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
    Pattern("childhood", rf"i grew up in {_PLACE}", "Grew up in {0}", single=True),
    Pattern("birthplace", rf"i was born in {_PLACE}", "Was born in {0}", single=True),
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
    # diets
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
    # preferences and lasting wishes
    Pattern(
        "preference",
        rf"i(?: really| much| usually| generally| strongly| always)? prefer {_NOT_THIS}{_REST}",
        "Prefers {0}",
    ),
    Pattern("preference", rf"my preference is (?:for )?{_NOT_THIS}{_REST}", "Prefers {0}"),
    Pattern("preference", rf"i no longer prefer {_REST}", "Prefers {0}", kind="ends"),
    Pattern(
        "wish", rf"(?:from now on|in (?:the )?future|going forward) ((?:always |never |only )?){_ACT}", "Asks: {0} {1}"
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
        rf"my favou?rite ([\w -]{{2,40}}?) (?:is|are) (?!not\b|no longer\b){_NOT_THIS}{_REST}",
        "Favourite {0}: {1}",
        single=True,
        core=False,
    ),
    Pattern("liking", rf"i no longer (?:like|love|enjoy|adore) {_REST}", "Likes {0}", core=False, kind="ends"),
    Pattern(
        "liking",
        rf"i do(?:n't| not) (?:really )?(?:like|love|enjoy|adore) (\S.*?){_ANY_MORE}",
        "Likes {0}",
        core=False,
        kind="ends",
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
