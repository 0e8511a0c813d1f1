"""The memory steps of a machine in, what memory keeps and gives out."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

import msgspec

from memoranda.errors import Denied, UsageError
from memoranda.mashin.permissions import Need
from memoranda.mashin.runtime.governing import Act, Given, governed, values_of, whole
from memoranda.mashin.runtime.plan import Recall, Remember
from memoranda.mashin.runtime.work import Outside, Taking
from memoranda.model import effect
from memoranda.model.duration import not_a_duration, parse_duration
from memoranda.model.text import quote


def remember(taking: Taking, step: Remember) -> Any:
    """Put content into a collection."""
    given = values_of(taking, step.config)
    collection, namespace = _name(given, "collection"), _namespace(given)
    sends = {"content": given["content"], "metadata": given.get("metadata")}
    ttl = given.get("ttl")
    if ttl is not None and not isinstance(ttl, str):
        raise not_a_duration(ttl)
    seconds = None if ttl is None else parse_duration(ttl)

    def perform(outside: Outside, sent: dict[str, Any]) -> Given:
        _require_no_other_approval(
            outside, effect.Remember(scope=outside.scope, collection=collection, namespace=namespace or "", items=())
        )
        kept = outside.memory.at(outside.scope).remember(
            sent["content"],
            collection=collection,
            metadata=sent["metadata"],
            namespace=namespace or "",
            ttl=seconds,
            source=taking.work.id,
        )
        return Given(told(kept.id, kept.expires_at), {"id": kept.id})

    def told(id: str | None, expires_at: datetime | None) -> dict[str, Any]:
        return {
            "id": id,
            "collection": collection,
            "namespace": namespace,
            "stored": id is not None,
            "expires_at": msgspec.to_builtins(expires_at),
        }

    about = {"effect": "remember", "collection": collection}
    act = Act(
        need=Need("memory.write"),
        spends="writes",
        sends=sends,
        about=about,
        shows={"namespace": namespace, "ttl": ttl},
        perform=perform,
        in_tests=lambda _: told(None, None),
    )
    return governed(taking, act)


def recall(taking: Taking, step: Recall) -> Any:
    """Find entries of a collection by meaning."""
    given = values_of(taking, step.config)
    collection, namespace = _name(given, "collection"), _namespace(given)
    if namespace is None and taking.work.behaviour.without_namespace == "unnamed":
        namespace = ""
    query = given["query"]
    if not isinstance(query, str) or not query.strip():
        raise UsageError(f"the query {quote(query)} is no text that says something", hint="Pass text", value=query)
    limit, threshold = whole(given.get("limit", 5)), given.get("threshold", 0.0)
    filter = _filter(given["filter"]) if "filter" in given else None

    def perform(outside: Outside, sent: dict[str, Any]) -> Given:
        _require_no_other_approval(outside, effect.Recall(scope=outside.scope, collection=collection, query=""))
        found = outside.memory.at(outside.scope).recall(
            sent["query"],
            collection=collection,
            namespace=namespace,
            limit=limit,
            threshold=threshold,
            filter=filter,
            mode=taking.work.behaviour.recall,
        )
        results = [{"content": one.content, "metadata": one.metadata, "score": one.score} for one in found.results]
        return Given({"results": results, "count": found.count}, {"ids": [one.id for one in found.results]})

    about = {"effect": "recall", "collection": collection}
    act = Act(
        need=Need("memory.read"),
        spends=None,
        sends={"query": query},
        about=about,
        shows={"namespace": namespace or None, "filter": given.get("filter"), "limit": limit},
        perform=perform,
        in_tests=lambda _: {"results": [], "count": 0},
    )
    value = governed(taking, act)
    found = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    results: Any = found.get("results")
    if isinstance(results, list):
        # What a test assumes, and what a guard has left, may have another number of results.
        taking.about["count"] = len(cast("list[Any]", results))
        return {**found, "count": taking.about["count"]}
    return cast("Any", value)


def _require_no_other_approval(outside: Outside, wanted: effect.Remember | effect.Recall) -> None:
    """Refuse what somebody else's policy holds for approval: it would happen when nobody goes on with this run."""
    if outside.memory.level(wanted) == "approve":
        raise Denied(
            f"{wanted.capability} needs approval for `{outside.memory.actor}`, whoever runs the machine",
            hint=f"Allow it, and write `requires approval for {wanted.capability}` in the machine: then the run waits",
            capability=wanted.capability,
        )


def _filter(given: Any) -> dict[str, Any]:
    """Return a filter that compares each value as it is: what comes from outside must not become an operator."""
    if not isinstance(given, dict):
        raise UsageError(f"the filter {quote(given)} is no map", hint="Write it as `{ name: value }`", value=given)
    names = cast("dict[str, Any]", given)
    for name in names:
        if name.startswith("$"):
            raise UsageError(f"a filter names metadata, and {quote(name)} is none", hint="Leave it out", value=name)
    return {name: {"$eq": value} if isinstance(value, dict) else value for name, value in names.items()}


def _name(given: dict[str, Any], key: str) -> str:
    value = given.get(key)
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{quote(value)} is no name of a {key}", hint=f"Give the {key} as text", value=value)
    return value


def _namespace(given: dict[str, Any]) -> str | None:
    # One that was written down but has no value would look through what belongs to others.
    return _name(given, "namespace") if "namespace" in given else None
