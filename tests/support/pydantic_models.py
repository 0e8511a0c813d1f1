"""Pydantic models as users write them, with instances of each and values that it rejects."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from ipaddress import IPv4Address, IPv6Network
from pathlib import PurePosixPath
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar
from uuid import UUID

from pydantic import (
    AliasChoices,
    AnyUrl,
    AwareDatetime,
    Base64Bytes,
    BaseModel,
    ByteSize,
    ConfigDict,
    Discriminator,
    Field,
    FiniteFloat,
    HttpUrl,
    Json,
    JsonValue,
    NaiveDatetime,
    PastDate,
    PositiveInt,
    RootModel,
    SecretStr,
    StringConstraints,
    Tag,
    computed_field,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel
from typing_extensions import TypedDict

T = TypeVar("T")


class User(BaseModel):
    id: int
    name: str = "Jane Doe"
    signed_up: datetime | None = None
    friends: list[int] = []


class Address(BaseModel):
    street: str
    city: str
    zip_code: Annotated[str, StringConstraints(pattern=r"^\d{5}$")]


class Customer(BaseModel):
    name: Annotated[str, Field(min_length=1, max_length=80)]
    home: Address
    work: Address | None = None


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


class Size(IntEnum):
    SMALL = 1
    LARGE = 2


class Lid(Enum):
    NONE = None
    ROUND = "round"


class Product(BaseModel):
    color: Color = Color.RED
    size: Size
    lid: Lid = Lid.NONE
    price: Annotated[Decimal, Field(max_digits=8, decimal_places=2, ge=0)]


class OrderLine(BaseModel):
    sku: Annotated[str, Field(pattern=r"^[A-Z]{3}-[0-9]+$")]
    quantity: PositiveInt
    discount: Annotated[float, Field(ge=0, lt=1)] = 0.0


class Order(BaseModel):
    number: UUID
    lines: Annotated[list[OrderLine], Field(min_length=1)]
    status: Literal["open", "paid", "shipped"] = "open"
    placed: datetime


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Employee(BaseModel):
    name: str
    manager: Employee | None = None


class Chapter(BaseModel):
    title: str
    notes: list[Note] = []


class Note(BaseModel):
    text: str
    about: Chapter | None = None


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


class Owner(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


class AnyPet(RootModel[Annotated[Cat | Dog, Field(discriminator="kind")]]):
    pass


class ByMail(BaseModel):
    email: str


class ByPhone(BaseModel):
    phone: str


class Contact(RootModel[ByMail | ByPhone]):
    pass


class Settings(RootModel[dict[str, int]]):
    pass


def _shape(value: Any) -> str:
    return "circle" if "radius" in value else "square"


class Circle(BaseModel):
    radius: float


class Square(BaseModel):
    side: float


class Drawing(BaseModel):
    shapes: list[
        Annotated[
            Annotated[Circle, Tag("circle")] | Annotated[Square, Tag("square")],
            Discriminator(lambda one: _shape(one if isinstance(one, dict) else one.__dict__)),
        ]
    ]


class Times(BaseModel):
    moment: datetime
    aware: AwareDatetime
    naive: NaiveDatetime
    day: date
    past: PastDate
    clock: time
    pause: timedelta


class Pauses(BaseModel):
    pauses: list[timedelta]
    usual: timedelta = timedelta(minutes=90)


class Network(BaseModel):
    site: HttpUrl
    other: AnyUrl
    address: IPv4Address
    network: IPv6Network
    size: ByteSize = ByteSize(1024)


class Blob(BaseModel):
    raw: bytes
    coded: Base64Bytes
    path: PurePosixPath


class Anything(BaseModel):
    payload: JsonValue
    extra: Any = None
    text: Json[list[int]]


class Point(NamedTuple):
    x: float
    y: float


class Places(BaseModel):
    at: tuple[float, float]
    corner: Point
    path: tuple[int, ...] = ()
    seen: set[str] = set()
    codes: frozenset[int] = frozenset()
    last: Annotated[deque[int], Field(max_length=3)] = deque()


class Movie(TypedDict, total=False):
    title: str
    year: int


@dataclass
class Seat:
    row: int
    letter: Literal["A", "B"] = "A"


class Ticket(BaseModel):
    movie: Movie
    seat: Seat


class Page(BaseModel, Generic[T]):
    items: list[T]
    next: str | None = None


class Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    first_name: str
    last_seen_at: datetime | None = None


class Aliased(BaseModel):
    full_name: str = Field(alias="fullName")
    age: int = Field(validation_alias=AliasChoices("age", "years"), serialization_alias="age")


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", title="A closed thing")

    a: int


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")

    a: int


class Numbers(BaseModel):
    scores: dict[str, float]
    by_day: dict[date, int] = {}
    nested: dict[str, list[Address]] = {}


class Ratio(BaseModel):
    share: FiniteFloat
    whole: int | float | None
    exact: Annotated[int, Field(multiple_of=5)] = 5


class Secret(BaseModel):
    name: str
    token: SecretStr = SecretStr("")


class Rectangle(BaseModel):
    width: int
    height: int

    @computed_field
    @property
    def area(self) -> int:
        return self.width * self.height


class Checked(BaseModel):
    low: int
    high: int

    @field_validator("low")
    @classmethod
    def _not_negative(cls, low: int) -> int:
        return abs(low)

    @model_validator(mode="after")
    def _in_order(self) -> Checked:
        assert self.low <= self.high
        return self


class Described(BaseModel):
    """What is known about a customer."""

    language: str = Field(default="en", title="Language", description="Preferred language", examples=["en", "pt"])
    old: str | None = Field(default=None, deprecated=True)


class Base(BaseModel):
    id: int


class Derived(Base):
    extra: str = ""


class Empty(BaseModel):
    pass


class Steps(BaseModel):
    steps: list[Step]
    answer: str


class Step(BaseModel):
    explanation: str
    output: str


class Expression(BaseModel):
    op: Literal["add", "mul"]
    left: Expression | int
    right: Expression | int


class Keyed(BaseModel):
    weights: dict[Literal["a", "b"], int]
    choice: Literal["x", 1, True, None]


SEVEN = UUID(int=7)
ZONE = timezone(timedelta(hours=2))
HOME = Address(street="Rua 1", city="Porto", zip_code="40000")

# A class, instances of it, and values that it refuses.
MODELS: list[tuple[type[BaseModel], list[Any], list[Any]]] = [
    (
        User,
        [User(id=1), User(id=1, signed_up=datetime(2026, 1, 2, 3, 4, 5), friends=[2])],
        [{}, {"id": "one"}, {"id": 1, "x": 1}, {"id": 1, "signed_up": "soon"}],
    ),
    (Address, [HOME], [{"street": "a", "city": "b", "zip_code": "4000"}]),
    (
        Customer,
        [Customer(name="Ada", home=HOME), Customer(name="Ada", home=HOME, work=HOME)],
        [{"name": "", "home": HOME.model_dump()}, {"name": "Ada", "home": {**HOME.model_dump(), "x": 1}}],
    ),
    (
        Product,
        [Product(size=Size.SMALL, price=Decimal("9.50")), Product(color=Color.BLUE, size=Size.LARGE, price=Decimal(3))],
        [{"size": 3, "price": 1}, {"size": 1, "price": -1}, {"size": 1, "price": 1, "color": "green"}],
    ),
    (
        Order,
        [
            Order(
                number=UUID(int=7), lines=[OrderLine(sku="ABC-1", quantity=2)], placed=datetime(2026, 1, 2, tzinfo=UTC)
            )
        ],
        [
            {"number": "seven", "lines": [{"sku": "ABC-1", "quantity": 2}], "placed": "2026-01-02T00:00:00Z"},
            {"number": str(SEVEN), "lines": [], "placed": "2026-01-02T00:00:00Z"},
            {"number": str(SEVEN), "lines": [{"sku": "abc", "quantity": 2}], "placed": "2026-01-02T00:00:00Z"},
        ],
    ),
    (
        Tree,
        [Tree(value=1, children=[Tree(value=2, children=[Tree(value=3)])])],
        [{"value": 1, "children": [{"value": "two"}]}, {"value": 1, "x": 1}, {"value": 1, "children": [{"x": 1}]}],
    ),
    (Employee, [Employee(name="a", manager=Employee(name="b"))], [{"name": "a", "manager": {"x": 1}}]),
    (
        Chapter,
        [Chapter(title="t", notes=[Note(text="n", about=Chapter(title="u"))])],
        [{"title": "t", "notes": [{"text": "n", "about": {"title": 1}}]}],
    ),
    (
        Owner,
        [Owner(pet=Cat(kind="cat", lives=9)), Owner(pet=Dog(kind="dog", tricks=["sit"]))],
        [
            {"pet": {"kind": "cat", "tricks": []}},
            {"pet": {"kind": "fox"}},
            {"pet": {"kind": "cat", "lives": 9, "x": 1}},
        ],
    ),
    (AnyPet, [AnyPet(Cat(kind="cat", lives=9))], [{"kind": "dog"}, {"kind": "cat", "lives": 9, "x": 1}, [], None]),
    (
        Contact,
        [Contact(ByMail(email="e")), Contact(ByPhone(phone="p"))],
        [{}, {"fax": "f"}, {"email": "e", "fax": "f"}],
    ),
    (Settings, [Settings({"a": 1})], [{"a": "one"}, [1]]),
    (Drawing, [Drawing(shapes=[Circle(radius=1), Square(side=2)])], [{"shapes": [{"radius": "x"}]}, {"shapes": [{}]}]),
    (
        Times,
        [
            Times(
                moment=moment,
                aware=datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=ZONE),
                naive=datetime(2026, 1, 2, 3, 4),
                day=date(2026, 1, 2),
                past=date(2020, 1, 2),
                clock=clock,
                pause=timedelta(days=1, seconds=30),
            )
            for moment in (datetime(2026, 1, 2, 3, 4, 5), datetime(2026, 1, 2, tzinfo=UTC))
            for clock in (time(3, 4), time(3, 4, 5, 6), time(3, 4, tzinfo=UTC))
        ],
        [],
    ),
    (
        Pauses,
        [Pauses(pauses=[timedelta(0), timedelta(days=-1, seconds=3), timedelta(microseconds=5), timedelta(weeks=60)])],
        [{"pauses": ["a while"]}, {"pauses": ["P"]}, {"pauses": ["PT"]}],
    ),
    (
        Network,
        [
            Network(
                site=HttpUrl("https://example.org"),
                other=AnyUrl("ftp://example.org/a"),
                address=IPv4Address("10.0.0.1"),
                network=IPv6Network("::/64"),
            )
        ],
        [{"site": "no", "other": "ftp://example.org/a", "address": "10.0.0.1", "network": "::/64"}],
    ),
    (
        Blob,
        [Blob(raw=b"x", coded=b"YWJj", path=PurePosixPath("/tmp/a"))],
        [{"raw": 1, "coded": "YWJj", "path": "a"}],
    ),
    (
        Anything,
        [Anything.model_validate({"payload": {"a": [1, None]}, "text": "[1]"})],
        [{"payload": 1, "text": [1]}, {"text": "[1]"}],
    ),
    (
        Places,
        [Places(at=(1, 2), corner=Point(0, 0)), Places(at=(1, 2), corner=Point(0, 0), path=(1, 2, 3), seen={"a"})],
        [
            {"at": [1], "corner": [0, 0]},
            {"at": [1, 2, 3], "corner": [0, 0]},
            {"at": [1, 2], "corner": [0, 0], "seen": [1]},
        ],
    ),
    (
        Ticket,
        [Ticket(movie={"title": "M"}, seat=Seat(row=3))],
        [{"movie": {"titel": "M"}, "seat": {"row": 3}}, {"movie": {}, "seat": {"row": 3, "letter": "C"}}],
    ),
    (Page[Address], [Page[Address](items=[HOME], next="n")], [{"items": [{"street": "a"}]}]),
    (Page[int], [Page[int](items=[1])], [{"items": ["a"]}]),
    (Camel, [Camel(first_name="Ada", last_seen_at=datetime(2026, 1, 2))], [{"first_name": "Ada"}]),
    (Aliased, [Aliased.model_validate({"fullName": "Ada", "age": 3})], [{"full_name": "Ada", "age": 3}]),
    (Closed, [Closed(a=1)], [{"a": 1, "b": 2}]),
    (Open, [Open(a=1), Open.model_validate({"a": 1, "b": [2]})], [{"b": 2}]),
    (
        Numbers,
        [Numbers(scores={"a": 1.5}, by_day={date(2026, 1, 2): 3}, nested={"n": [HOME]})],
        [{"scores": {"a": "x"}}, {"scores": {}, "nested": {"n": [{"street": "s"}]}}],
    ),
    (
        Ratio,
        [Ratio(share=0.5, whole=None), Ratio(share=1, whole=2.5, exact=10)],
        [{"share": 1, "whole": 1, "exact": 7}],
    ),
    (Secret, [Secret(name="n")], [{"token": "t"}]),
    (Rectangle, [Rectangle(width=2, height=3)], [{"width": 2}, {"width": 2, "height": 3, "area": 6}]),
    (Checked, [Checked(low=1, high=2)], [{"low": "a", "high": 2}]),
    (Described, [Described(), Described(language="pt", old="x")], [{"language": 1}]),
    (Derived, [Derived(id=1, extra="x")], [{"extra": "x"}, {"id": 1, "x": 1}]),
    (Empty, [Empty()], [{"a": 1}]),
    (
        Steps,
        [Steps(steps=[Step(explanation="e", output="o")], answer="a")],
        [{"steps": [{"output": "o"}], "answer": "a"}],
    ),
    (
        Expression,
        [Expression(op="add", left=1, right=Expression(op="mul", left=2, right=3))],
        [{"op": "sub", "left": 1, "right": 2}, {"op": "add", "left": 1, "right": {"op": "add", "left": 1}}],
    ),
    (
        Keyed,
        [Keyed(weights={"a": 1}, choice=None), Keyed(weights={}, choice=1)],
        [{"weights": {"c": 1}, "choice": "x"}],
    ),
]
