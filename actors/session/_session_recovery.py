"""The session actor, sixth layer: it commits what another room has left.

    RecoverSession   take the session id over, if it may be had
    build            an agent for nothing else, with its key and session id and no spec
    commit           under the token that the other room wrote down, if it did
    release          and the next one, please

The agent is never in the place: a turn that comes meanwhile gets one of its own. What fails is noted in
the ledger, with when it may be tried again, and the session id is let go of.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from greenroom.actors.session._session_base import text_of
from greenroom.actors.session._session_ledger import SessionLedger
from greenroom.actors.session._session_state import Account, LedgerState, Rescue
from greenroom.actors.session.machine import effects as effects_of
from greenroom.messages import (
    BeginTurn,
    EnterStore,
    FailRecovery,
    LeaseTaken,
    RecoverSession,
    RecoveryFailure,
    Rescued,
    SessionDisclaimed,
    SessionRecovered,
)

if TYPE_CHECKING:
    from greenroom.actors.session.machine.effects import Effect

__all__ = ["SessionRecovery"]

logger = logging.getLogger("greenroom.actors")


class SessionRecovery(SessionLedger):
    """Recovers session ids."""

    def _recover_session(self, message: RecoverSession) -> Rescued | None:
        session_id, ledger = message.session_id, self._ledger
        account = ledger.accounts.get(session_id)
        effects: list[Effect] = []
        taken_since = account is not None and account.epoch > message.epoch
        in_use = account is not None and account is self._account_in_use()
        if taken_since or in_use or session_id in ledger.asked or session_id in ledger.rescues:
            # A turn has come first: what it found uncommitted has an owner, who is asked to see to it.
            self._perform(self._state.stage.flush())
            return Rescued(problem=None, settled=False)
        if account is not None:
            effects = self._lose(account)  # others have had it since
        ledger.rescues[session_id] = Rescue(self.defer_reply(), message.tries)
        self._ask_for(
            EnterStore(session_id=session_id, key=self._key),
            lambda entrance, error: LeaseTaken(session_id=session_id, entrance=entrance, error=error),
        )
        self._perform(effects)
        return None

    def _lease_taken(self, message: LeaseTaken) -> None:
        session_id, stage, ledger = message.session_id, self._state.stage, self._ledger
        self._heard_of(session_id, message.entrance)
        lease = None if message.entrance is None else message.entrance.lease
        effects: list[Effect] = []
        if lease is not None and lease.held:
            effects, _ = self._open_account(lease)
        elif lease is None:
            self._disclaim(session_id)
        rescue = ledger.rescues.get(session_id)
        if rescue is not None and stage.generations.nobodys(session_id) and not stage.draining:
            rescue.incarnation = stage.recover(session_id)
            effects.append(effects_of.Build(_turn_of_nobody(session_id), rescue.incarnation))
        elif rescue is not None:
            problem = None if message.error is None else text_of(message.error)
            self._rescue_over(session_id, Rescued(problem=problem, settled=False))
        self._perform(effects)

    def _rescuer_gone(self, incarnation: int, problem: str | None) -> list[Effect]:
        """An agent that was to recover a session id has done what it could, or could not be built."""
        effects: list[Effect] = []
        for session_id, rescue in list(self._ledger.rescues.items()):
            if rescue.incarnation != incarnation:
                continue
            self._say_rescued(session_id, problem)
            account = self._ledger.accounts.get(session_id)
            if problem is not None and account is not None and account is not self._account_in_use():
                effects += self._give_back(account, problem, rescue.tries)
            self._rescue_over(session_id, Rescued(problem=problem, settled=True))
        return effects

    def _rescue_over(self, session_id: str, answer: Rescued) -> None:
        self._answer_behind(self._ledger.rescues.pop(session_id).reply, answer)

    def _give_up_answers(self, ledger: LedgerState) -> None:
        """The actor has failed too often. What it failed on was left out, and may have been an answer of
        the store: wait for none any more. Those that still come do no harm."""
        asked, ledger.asked = ledger.asked, Counter()
        for session_id in asked:
            self._doubt(session_id)
        for account in ledger.accounts.values():
            account.asked = 0
            self._tell_again(account)  # after a pause: the answer to that may be what it fails on
        for session_id, rescue in list(ledger.rescues.items()):
            if not rescue.incarnation:
                self._rescue_over(session_id, Rescued(problem=None, settled=False))
        self._give_up_recording("its session has failed, and with it what the store may have answered")

    def _say_rescued(self, session_id: str, problem: str | None) -> None:
        if problem is None:
            self._event(SessionRecovered(key=self._key, session_id=session_id))
            return
        logger.warning(
            "%s: what another room left uncommitted of %r could not be committed: %s",
            self,
            session_id,
            problem,
        )
        self._event(RecoveryFailure(key=self._key, session_id=session_id, problem=problem))

    def _give_back(self, account: Account, problem: str, tries: int) -> list[Effect]:
        """Leave a session id to whoever tries next; the ledger says when that may be."""
        session_id, policy = account.session_id, self._board.policy
        self._close_account(account)
        self._ledger.doubts[session_id] = 0  # if the ledger cannot be told, it is let go of at least
        self._ask_clerk(
            FailRecovery(
                session_id=session_id,
                epoch=account.epoch,
                problem=problem,
                pause=policy.pause_after(tries + 1),
                most=policy.recover_tries,
            ),
            lambda _, error: SessionDisclaimed(session_id=session_id, error=error),
        )
        return self._state.stage.lose(session_id, account.epoch)


def _turn_of_nobody(session_id: str) -> BeginTurn:
    """What an agent is built for that nobody asked for: its session id, and nothing else."""
    return BeginTurn(
        spec=None,
        signature=None,
        session_id=session_id,
        reject=False,
        timeout=None,
        held=(),
        loop=None,
    )
