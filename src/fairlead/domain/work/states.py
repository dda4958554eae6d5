"""A state machine as a table: which transition leads from which state to which."""

import enum
from collections.abc import Mapping
from typing import Generic, TypeVar

State = TypeVar("State", bound=enum.StrEnum)
Transition = TypeVar("Transition", bound=enum.StrEnum)


class IllegalTransitionError(Exception):
    """A transition was asked for that the state does not have: a programmer's error, never the caller's."""


class StateMachine(Generic[State, Transition]):
    """The states of one kind of work. `noun` names that work in errors, such as "run"."""

    def __init__(self, noun: str, transitions: Mapping[tuple[State, Transition], State]) -> None:
        self._noun = noun
        self._transitions = transitions

    def advance(self, state: State, transition: Transition) -> State:
        """Follow the table; IllegalTransitionError where it has no row."""
        try:
            return self._transitions[state, transition]
        except KeyError:
            raise IllegalTransitionError(f"a {self._noun} that is {state} cannot {transition}") from None

    def states_before(self, transition: Transition) -> tuple[State, ...]:
        """The states in which work can take a transition: what storage repeats in its WHERE."""
        return tuple(state for state, possible in self._transitions if possible is transition)
