"""What the settings say of signed tokens, and whether they are taken at all: a server without them loads no crypto."""

from __future__ import annotations

from typing import Protocol


class TokenSettings(Protocol):
    """What of the settings speaks about signed tokens."""

    @property
    def jwt(self) -> bool:
        """Whether signed tokens are taken; a secret or public keys say so too."""
        ...

    @property
    def jwt_algorithm(self) -> str:
        """HS256 or RS256; where it is empty, what is set of the two below decides."""
        ...

    @property
    def jwt_secret(self) -> str:
        """What HS256 signs with."""
        ...

    @property
    def jwks(self) -> str:
        """The file or address of the public keys of RS256."""
        ...

    @property
    def jwt_issuer(self) -> str:
        """Who has to have issued a token; where it is empty, anybody with the key."""
        ...

    @property
    def jwt_audience(self) -> str:
        """Whom a token has to be for; where it is empty, only tokens that name nobody are taken."""
        ...


def takes_tokens(settings: TokenSettings) -> bool:
    """Say whether signed tokens are taken beside keys."""
    return bool(settings.jwt or settings.jwt_secret or settings.jwks)
