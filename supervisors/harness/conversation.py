"""The conversation of one run with its model, and the settings that an agent inherits for it."""

from dataclasses import dataclass

from storage.model import Agent, ReasoningEffort, Template
from supervisors.engine.run import ActiveRun, Ask
from supervisors.engine.run_log import RunLog
from supervisors.harness.call_content import CallContent
from supervisors.harness.final_answers import FinalAnswers
from supervisors.harness.inbox_updates import InboxUpdates
from supervisors.harness.live_text import LiveText
from supervisors.harness.span_recorder import OpenSpan, SpanRecorder
from supervisors.harness.transcript_recorder import TranscriptRecorder
from supervisors.harness.usage_recorder import UsageRecorder
from supervisors.llm.port import ChatMessage, ChatRole, Model, ModelRequest
from supervisors.tools.toolkit import ToolDefinition
from supervisors.wake.context import WakeContext
from supervisors.wake.instruction import system_message
from supervisors.wake.message import first_message


@dataclass(frozen=True, slots=True)
class Conversation:
    """One run's conversation; only `messages` changes. `root` is the parent of the spans of all steps.

    `model` is its name at the provider, `qualified_model` is that name after `<provider>/`.
    """

    run: ActiveRun
    log: RunLog
    ask: Ask
    agent: Agent
    provider: Model
    provider_name: str
    model: str
    tools: tuple[ToolDefinition, ...]
    max_turns: int | None
    reasoning_effort: str
    thinking_max_tokens: int
    recorder: SpanRecorder
    root: OpenSpan
    content: CallContent | None  # None: content is not recorded
    usage_recorder: UsageRecorder
    inbox_updates: InboxUpdates
    final_answers: FinalAnswers
    messages: list[ChatMessage]
    transcript: TranscriptRecorder | None = None  # None: nothing is carried from run to run
    live_text: LiveText | None = None  # None: nobody may see what the model writes

    @property
    def qualified_model(self) -> str:
        return f"{self.provider_name}/{self.model}"

    def length(self) -> int:
        """Return the number of characters in all messages."""
        return sum(len(message.text) for message in self.messages)

    def request(self) -> ModelRequest:
        """Return the model request of the next turn."""
        return ModelRequest(
            self.model,
            tuple(self.messages),
            self.tools,
            self.reasoning_effort,
            self.thinking_max_tokens,
            self.live_text.add if self.live_text else None,
        )


def first_messages(context: WakeContext) -> list[ChatMessage]:
    """Return the system message, and the first message to the agent."""
    return [
        ChatMessage(ChatRole.SYSTEM, system_message(context.facts)),
        ChatMessage(ChatRole.USER, first_message(context)),
    ]


def effective_max_turns(agent: Agent, template: Template | None, default: int) -> int | None:
    """Return the agent's turn limit, else its template's, else the default; None if that is negative."""
    limit = agent.max_turns or (template.max_turns if template else 0) or default
    return None if limit < 0 else limit


def effective_reasoning_effort(agent: Agent, template: Template | None) -> str:
    """Return the agent's effort, else its template's; blank if none is sent to the model."""
    effort = agent.reasoning_effort or (template.default_reasoning_effort if template else "")
    return "" if effort == ReasoningEffort.NONE else effort
