"""The lines of a transcript: what was said in a session, in a file that can be replayed."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypeAlias

from pydantic import Field
from typing_extensions import TypedDict

from parley_protocol.messages import ProgramDict
from parley_protocol.scalars import Natural, Positive, Text


class TranscriptScenario(TypedDict):
    """What was simulated."""

    name: Annotated[Text, Field(description="What it is called.")]
    digest: Annotated[Text, Field(description="The same for the same inputs and rules.")]


class TranscriptHeader(TypedDict):
    """The first line."""

    transcript: Annotated[Literal[1], Field(description="Version of the format.")]
    protocol: Annotated[Text, Field(description="Version of the protocol.")]
    scenario: Annotated[TranscriptScenario, Field(description="What was simulated.")]
    software: Annotated[ProgramDict, Field(description="Who the server was.")]


class TranscriptMessage(TypedDict):
    """One message, in the order in which they were sent and received."""

    n: Annotated[Positive, Field(description="Counts the messages of the file, from 1.")]
    dir: Annotated[
        Literal["<", ">"],
        Field(description="<: from the client to the server; >: from the server to the client."),
    ]
    now_us: Annotated[Natural, Field(description="The instant of simulated time.")]
    bytes: Annotated[
        str,
        Field(
            description="The frame in lower-case hexadecimal, its token replaced.",
            pattern="^([0-9a-f]{2})*$",
        ),
    ]
    view: Annotated[
        dict[str, Any] | None, Field(description="The same to be read; nil: it is no message.")
    ]
    masked: NotRequired[
        Annotated[
            list[Text], Field(description="Paths of the texts that were replaced by empty ones.")
        ]
    ]
    charged_us: NotRequired[
        Annotated[
            Positive,
            Field(description="Simulated time that the reply before this message was charged."),
        ]
    ]


class TranscriptFooter(TypedDict):
    """The last line."""

    messages: Annotated[Natural, Field(description="How many there are.")]
    sha256: Annotated[
        str,
        Field(
            description="Of all lines before this one, their line feeds included.",
            pattern="^[0-9a-f]{64}$",
        ),
    ]


TranscriptLine: TypeAlias = TranscriptHeader | TranscriptMessage | TranscriptFooter
