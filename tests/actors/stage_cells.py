"""The table of the stage: for every input, the states, what is to be done in them, and what has changed.

    input
      states in which it has one and the same outcome; "*" are all that are not named
        what is to be done => what has changed

"nothing" is what comes late, or twice. `stage_play.py` has the states, the inputs and the words, and
`test_stage.py` compares.
"""

from __future__ import annotations

__all__ = ["TABLE"]


def parsed(text: str) -> dict[str, dict[str, str]]:
    """For each input the outcome by state."""
    table: dict[str, dict[str, str]] = {}
    row: dict[str, str] = {}
    states: list[str] = []
    behind_outcome = True
    for line in text.strip().splitlines():
        depth, words = len(line) - len(line.lstrip()), line.strip()
        if depth == 0:
            row = table[words] = {}
        elif depth == 2:
            states = words.split() if behind_outcome else states + words.split()
        elif depth == 4:
            assert not row.keys() & set(states), f"twice: {states}"
            row.update(dict.fromkeys(states, words))
        else:
            row.update({state: f"{row[state]} {words}" for state in states})
        behind_outcome = depth != 2
    return table


CELLS = """
begin
  empty orphan resources
    build 1 for new => builder=new building=1 incarnations=1 signature=a
  known committing closing retained retained-stuck tearing
    build 2 for new => builder=new building=2 incarnations=2
  building building-for-nobody building-and-evict building-and-close building-the-next turn
  turn-again turn-and-evict turn-and-close turn-and-flush turn-and-commit
    wait new => waiting=new
  building-and-line turn-and-line turn-and-other-line
    wait new => waiting=w,new
  idle dirty flushing flushing-more stuck retained-beside
    hit => turn=new
  leaving
    grant new reused => leaving=- turn=new
  failed failed-in-turn
    refuse new: failed
  draining-turn draining-build draining-commit drained
    refuse new: closed
begin, any agent
  empty orphan resources
    build 1 for new => builder=new building=1 incarnations=1
  known committing closing retained retained-stuck tearing
    build 2 for new => builder=new building=2 incarnations=2 signature=-
  building building-for-nobody building-and-evict building-and-close building-the-next turn
  turn-again turn-and-evict turn-and-close turn-and-flush turn-and-commit
    wait new => waiting=new
  building-and-line turn-and-line turn-and-other-line
    wait new => waiting=w,new
  idle dirty flushing flushing-more stuck retained-beside
    hit => turn=new
  leaving
    grant new reused => leaving=- turn=new
  failed failed-in-turn
    refuse new: failed
  draining-turn draining-build draining-commit drained
    refuse new: closed
begin, other spec
  empty orphan resources
    build 1 for new => builder=new building=1 incarnations=1 signature=b
  known committing closing retained retained-stuck tearing
    build 2 for new => builder=new building=2 incarnations=2 signature=b
  building building-for-nobody building-and-evict building-and-close building-the-next turn
  turn-again turn-and-evict turn-and-close turn-and-flush turn-and-commit
    wait new => waiting=new
  building-and-line turn-and-line turn-and-other-line
    wait new => waiting=w,new
  idle
    release 1 (spec); build 2 for new => agent=- builder=new building=2 incarnations=2
      last_reason=spec leavers=1:tearing/release/spec/0 signature=b
  dirty
    build 2 for new; 1 commits to 1 => agent=- builder=new building=2 flying=1..1 incarnations=2
      last_reason=spec leavers=1:committing/release/spec/0 signature=b
  flushing flushing-more
    build 2 for new => agent=- builder=new building=2 incarnations=2 last_reason=spec
      leavers=1:committing/release/spec/0 signature=b
  stuck
    retain 1 (spec); build 2 for new => agent=- builder=new building=2 incarnations=2 last_reason=spec
      leavers=1:retained/release/spec/0 signature=b
  leaving
    build 2 for new => agent=- builder=new building=2 incarnations=2 last_reason=spec
      leavers=1:committing/release/spec/0 leaving=- signature=b
  retained-beside
    release 2 (spec); build 3 for new => agent=- builder=new building=3 incarnations=3
      last_reason=spec leavers=1:retained/release/discard/0,2:tearing/release/spec/0 signature=b
  failed failed-in-turn
    refuse new: failed
  draining-turn draining-build draining-commit drained
    refuse new: closed
begin or reject
  empty orphan resources
    build 1 for new => builder=new building=1 incarnations=1 signature=a
  known committing closing retained retained-stuck tearing
    build 2 for new => builder=new building=2 incarnations=2
  idle dirty flushing flushing-more stuck retained-beside
    hit => turn=new
  leaving
    grant new reused => leaving=- turn=new
  failed failed-in-turn
    refuse new: failed
  draining-turn draining-build draining-commit drained
    refuse new: closed
  *
    refuse new: busy
begin, same caller
  empty orphan resources
    build 1 for new => builder=new building=1 incarnations=1 signature=a
  known committing closing retained retained-stuck tearing
    build 2 for new => builder=new building=2 incarnations=2
  building building-for-nobody building-and-evict building-and-close building-the-next
    wait new => waiting=new
  building-and-line
    wait new => waiting=w,new
  turn turn-again turn-and-line turn-and-other-line turn-and-evict turn-and-close turn-and-flush
  turn-and-commit
    refuse new: self
  idle dirty flushing flushing-more stuck retained-beside
    hit => turn=new
  leaving
    grant new reused => leaving=- turn=new
  failed failed-in-turn
    refuse new: failed
  draining-turn draining-build draining-commit drained
    refuse new: closed
begin, long line
  empty orphan resources
    build 1 for new => builder=new building=1 incarnations=1 signature=a
  known committing closing retained retained-stuck tearing
    build 2 for new => builder=new building=2 incarnations=2
  idle dirty flushing flushing-more stuck retained-beside
    hit => turn=new
  leaving
    grant new reused => leaving=- turn=new
  failed failed-in-turn
    refuse new: failed
  draining-turn draining-build draining-commit drained
    refuse new: closed
  *
    refuse new: overloaded
end, completed
  turn failed-in-turn
    rested => generation=1 segments=1..1 turn=-
  turn-again
    rested => generation=2 segments=1..2 turn=-
  turn-and-line
    over t; grant w reused => generation=1 segments=1..1 turn=w waiting=-
  turn-and-other-line
    over t; build 2 for w; 1 commits to 1 => agent=- builder=w building=2 flying=1..1 generation=1
      incarnations=2 last_reason=spec leavers=1:committing/release/spec/0 segments=1..1 signature=b
      turn=- waiting=-
  turn-and-evict
    over t; 1 commits to 1 => _wish=- flying=1..1 generation=1 leaving=explicit segments=1..1 turn=-
  turn-and-close
    over t; end life 0; 1 commits to 1 => _wish=- agent=- ending=0:explicit flying=1..1 generation=1
      known=- leavers=1:committing/close/explicit/0 life=1 life_began=1 segments=1..1 turn=-
  turn-and-flush
    over t; 1 commits to 2 => flying=1..2 generation=2 segments=1..2 turn=-
  turn-and-commit
    rested => generation=2 segments=1..1,1..2 turn=-
  draining-turn
    over t; end life 0; 1 commits to 2 => agent=- ending=0:shutdown flying=1..2 generation=2 known=-
      leavers=1:committing/close/shutdown/0 life=1 life_began=2 segments=1..2 turn=-
  *
    nothing
end, not completed
  turn turn-again turn-and-commit failed-in-turn
    rested => turn=-
  turn-and-line
    over t; grant w reused => turn=w waiting=-
  turn-and-other-line
    over t; release 1 (spec); build 2 for w => agent=- builder=w building=2 incarnations=2
      last_reason=spec leavers=1:tearing/release/spec/0 signature=b turn=- waiting=-
  turn-and-evict
    over t; release 1 (explicit) => _wish=- agent=- last_reason=explicit
      leavers=1:tearing/release/explicit/0 turn=-
  turn-and-close
    over t; close 1 (explicit); end life 0 => _wish=- agent=- ending=0:explicit known=-
      leavers=1:tearing/close/explicit/0 life=1 turn=-
  turn-and-flush
    over t; 1 commits to 1 => flying=1..1 turn=-
  draining-turn
    over t; end life 0; 1 commits to 1 => agent=- ending=0:shutdown flying=1..1 known=-
      leavers=1:committing/close/shutdown/0 life=1 life_began=1 turn=-
  *
    nothing
end, discard
  turn failed-in-turn
    over t; 1 commits to 1 => agent=- flying=1..1 generation=1 last_reason=discard
      leavers=1:committing/release/discard/0 segments=1..1 turn=-
  turn-again turn-and-flush
    over t; 1 commits to 2 => agent=- flying=1..2 generation=2 last_reason=discard
      leavers=1:committing/release/discard/0 segments=1..2 turn=-
  turn-and-line
    over t; build 2 for w; 1 commits to 1 => agent=- builder=w building=2 flying=1..1 generation=1
      incarnations=2 last_reason=discard leavers=1:committing/release/discard/0 segments=1..1 turn=-
      waiting=-
  turn-and-other-line
    over t; build 2 for w; 1 commits to 1 => agent=- builder=w building=2 flying=1..1 generation=1
      incarnations=2 last_reason=discard leavers=1:committing/release/discard/0 segments=1..1
      signature=b turn=- waiting=-
  turn-and-evict
    over t; 1 commits to 1 => _wish=- agent=- flying=1..1 generation=1 last_reason=discard
      leavers=1:committing/release/discard/0 segments=1..1 turn=-
  turn-and-close
    over t; end life 0; 1 commits to 1 => _wish=- agent=- ending=0:explicit flying=1..1 generation=1
      known=- leavers=1:committing/close/explicit/0 life=1 life_began=1 segments=1..1 turn=-
  turn-and-commit
    over t => agent=- generation=2 last_reason=discard leavers=1:committing/release/discard/0
      segments=1..1,1..2 turn=-
  draining-turn
    over t; end life 0; 1 commits to 2 => agent=- ending=0:shutdown flying=1..2 generation=2 known=-
      leavers=1:committing/close/shutdown/0 life=1 life_began=2 segments=1..2 turn=-
  *
    nothing
end of another turn
  *
    nothing
withdraw the turn
  turn turn-again turn-and-commit failed-in-turn
    over t => turn=-
  turn-and-line
    over t; grant w reused => turn=w waiting=-
  turn-and-other-line
    over t; release 1 (spec); build 2 for w => agent=- builder=w building=2 incarnations=2
      last_reason=spec leavers=1:tearing/release/spec/0 signature=b turn=- waiting=-
  turn-and-evict
    over t; release 1 (explicit) => _wish=- agent=- last_reason=explicit
      leavers=1:tearing/release/explicit/0 turn=-
  turn-and-close
    over t; close 1 (explicit); end life 0 => _wish=- agent=- ending=0:explicit known=-
      leavers=1:tearing/close/explicit/0 life=1 turn=-
  turn-and-flush
    over t; 1 commits to 1 => flying=1..1 turn=-
  draining-turn
    over t; end life 0; 1 commits to 1 => agent=- ending=0:shutdown flying=1..1 known=-
      leavers=1:committing/close/shutdown/0 life=1 life_began=1 turn=-
  *
    nothing
withdraw the builder
  building building-and-evict building-and-close building-the-next
    - => builder=-
  building-and-line
    - => builder=w waiting=-
  *
    nothing
withdraw who waits
  building-and-line turn-and-line turn-and-other-line
    - => waiting=-
  building-the-next
    - => builder=-
  *
    nothing
withdraw nobody
  *
    nothing
expire the turn
  *
    nothing
expire the builder
  building building-and-evict building-and-close
    refuse t: timeout => builder=-
  building-and-line
    refuse t: timeout => builder=w waiting=-
  building-the-next
    refuse w: timeout => builder=-
  *
    nothing
expire who waits
  building-and-line turn-and-line turn-and-other-line
    refuse w: timeout => waiting=-
  building-the-next
    refuse w: timeout => builder=-
  *
    nothing
expire nobody
  *
    nothing
built
  building building-and-line building-and-evict building-and-close
    insert 1; grant t => agent=1 builder=- building=- known=yes turn=t
  building-for-nobody
    insert 1 => agent=1 building=- known=yes
  building-the-next
    insert 2 (spec); grant w (spec) => agent=2 builder=- building=- last_reason=- turn=w
  committing
    release 99 (discard) => leavers=1:committing/release/discard/0,99:tearing/release/discard/0
  closing
    release 99 (discard) => leavers=1:committing/close/explicit/0,99:tearing/release/discard/1
  retained retained-beside retained-stuck
    release 99 (discard) => leavers=1:retained/release/discard/0,99:tearing/release/discard/0
  tearing
    release 99 (discard) => leavers=1:tearing/release/idle/0,99:tearing/release/discard/0
  resources
    release 99 (discard) => leavers=99:tearing/release/discard/1
  draining-turn
    close 99 (discard) => leavers=99:tearing/close/discard/0
  draining-build
    insert 1; close 1 (shutdown); end life 0 => building=- ending=0:shutdown
      leavers=1:tearing/close/shutdown/0 life=1
  draining-commit
    close 99 (discard) => leavers=1:committing/close/shutdown/0,99:tearing/close/discard/1
  drained
    close 99 (discard) => leavers=99:tearing/close/discard/1
  *
    release 99 (discard) => leavers=99:tearing/release/discard/0
build failed
  building
    refuse t: build => builder=- building=-
  building-and-line
    refuse t: build; build 2 for w => builder=w building=2 incarnations=2 waiting=-
  building-for-nobody
    - => building=-
  building-and-evict
    refuse t: build => _wish=- builder=- building=-
  building-and-close
    refuse t: build; end life 0; resources 0 => _wish=- builder=- building=- closing=1
      ending=0:explicit life=1
  building-the-next
    refuse w: build => builder=- building=-
  draining-build
    end life 0; resources 0 => building=- closing=1 ending=0:shutdown life=1
  *
    nothing
built late
  building-the-next
    release 99 (discard) => leavers=1:committing/release/spec/0,99:tearing/release/discard/0
  committing
    release 99 (discard) => leavers=1:committing/release/discard/0,99:tearing/release/discard/0
  closing
    release 99 (discard) => leavers=1:committing/close/explicit/0,99:tearing/release/discard/1
  retained retained-beside retained-stuck
    release 99 (discard) => leavers=1:retained/release/discard/0,99:tearing/release/discard/0
  tearing
    release 99 (discard) => leavers=1:tearing/release/idle/0,99:tearing/release/discard/0
  resources
    release 99 (discard) => leavers=99:tearing/release/discard/1
  draining-turn draining-build
    close 99 (discard) => leavers=99:tearing/close/discard/0
  draining-commit
    close 99 (discard) => leavers=1:committing/close/shutdown/0,99:tearing/close/discard/1
  drained
    close 99 (discard) => leavers=99:tearing/close/discard/1
  *
    release 99 (discard) => leavers=99:tearing/release/discard/0
adopt
  empty resources
    number 1; insert 1 => agent=1 incarnations=1 known=yes signature=a
  known tearing
    number 2; insert 2 (idle) => agent=2 incarnations=2 last_reason=-
  orphan
    number 1; insert 1 => agent=1 incarnations=1 signature=a
  idle
    number 2; release 1 (explicit); insert 2 (explicit) => agent=2 incarnations=2
      leavers=1:tearing/release/explicit/0
  dirty
    number 2; insert 2 (explicit); 1 commits to 1 => agent=2 flying=1..1 incarnations=2
      leavers=1:committing/release/explicit/0
  flushing flushing-more
    number 2; insert 2 (explicit) => agent=2 incarnations=2 leavers=1:committing/release/explicit/0
  stuck
    number 2; retain 1 (explicit); insert 2 (explicit) => agent=2 incarnations=2
      leavers=1:retained/release/explicit/0
  leaving
    number 2; insert 2 (explicit) => agent=2 incarnations=2 leavers=1:committing/release/explicit/0
      leaving=-
  committing retained retained-stuck
    number 2; insert 2 (discard) => agent=2 incarnations=2 last_reason=-
  closing
    number 2; insert 2 => agent=2 incarnations=2 known=yes
  retained-beside
    number 3; release 2 (explicit); insert 3 (explicit) => agent=3 incarnations=3
      leavers=1:retained/release/discard/0,2:tearing/release/explicit/0
  *
    nothing
release
  idle
    yes; release 1 (idle) => agent=- last_reason=idle leavers=1:tearing/release/idle/0
  dirty failed
    yes; 1 commits to 1 => flying=1..1 leaving=idle
  flushing flushing-more
    yes => leaving=idle
  stuck
    yes; retain 1 (idle) => agent=- last_reason=idle leavers=1:retained/release/idle/0
  retained-beside
    yes; release 2 (idle) => agent=- last_reason=idle
      leavers=1:retained/release/discard/0,2:tearing/release/idle/0
  *
    no
evict
  building building-and-line building-for-nobody building-the-next turn turn-again turn-and-line
  turn-and-other-line turn-and-flush turn-and-commit failed-in-turn draining-turn draining-build
    - => _wish=release/explicit
  idle
    release 1 (explicit) => agent=- last_reason=explicit leavers=1:tearing/release/explicit/0
  dirty failed
    1 commits to 1 => flying=1..1 leaving=explicit
  flushing flushing-more
    - => leaving=explicit
  stuck
    retain 1 (explicit) => agent=- last_reason=explicit leavers=1:retained/release/explicit/0
  retained-beside
    release 2 (explicit) => agent=- last_reason=explicit
      leavers=1:retained/release/discard/0,2:tearing/release/explicit/0
  *
    nothing
close
  empty
    end life 0; resources 0 => closing=1 ending=0:explicit life=1
  known
    end life 0; resources 0 => closing=1 ending=0:explicit known=- last_reason=- life=1 life_began=1
  orphan
    end life 0; resources 0 => closing=1 ending=0:explicit known=- life=1 life_began=1
  building-and-close turn-and-close
    nothing
  idle
    close 1 (explicit); end life 0 => agent=- ending=0:explicit known=-
      leavers=1:tearing/close/explicit/0 life=1
  dirty
    end life 0; 1 commits to 1 => agent=- ending=0:explicit flying=1..1 known=-
      leavers=1:committing/close/explicit/0 life=1 life_began=1
  flushing
    end life 0 => agent=- ending=0:explicit known=- leavers=1:committing/close/explicit/0 life=1
      life_began=1
  flushing-more
    end life 0 => agent=- ending=0:explicit known=- leavers=1:committing/close/explicit/0 life=1
      life_began=2
  stuck
    retain 1 (explicit); end life 0 => agent=- ending=0:explicit known=-
      leavers=1:retained/close/explicit/0 life=1 life_began=1
  leaving
    end life 0 => agent=- ending=0:explicit known=- leavers=1:committing/close/explicit/0 leaving=-
      life=1 life_began=1
  committing
    end life 0 => ending=0:explicit known=- last_reason=- leavers=1:committing/close/explicit/0 life=1
      life_began=1
  closing
    end life 1; resources 1 => closing=1 ending=0:explicit,1:explicit life=2
  retained retained-stuck
    end life 0 => ending=0:explicit known=- last_reason=- leavers=1:retained/close/explicit/0 life=1
      life_began=1
  retained-beside
    close 2 (explicit); end life 0 => agent=- ending=0:explicit known=-
      leavers=1:retained/close/explicit/0,2:tearing/close/explicit/0 life=1 life_began=1
  tearing
    end life 0 => ending=0:explicit known=- last_reason=- life=1
  resources
    end life 1; resources 1 => closing=2 ending=0:explicit,1:explicit life=2
  failed
    end life 0; 1 commits to 1 => agent=- ending=0:explicit failed=- flying=1..1 known=-
      leavers=1:committing/close/explicit/0 life=1 life_began=1
  draining-commit
    end life 1; resources 1 => closing=1 ending=0:shutdown,1:explicit life=2
  drained
    end life 1; resources 1 => closing=1 ending=1:explicit life=2
  *
    - => _wish=close/explicit
close, interrupt
  empty
    end life 0; resources 0 => closing=1 ending=0:explicit life=1
  known
    end life 0; resources 0 => closing=1 ending=0:explicit known=- last_reason=- life=1 life_began=1
  orphan
    end life 0; resources 0 => closing=1 ending=0:explicit known=- life=1 life_began=1
  building building-and-line building-for-nobody building-and-evict building-the-next draining-build
    - => _wish=close/explicit
  building-and-close
    nothing
  turn turn-again turn-and-line turn-and-other-line turn-and-evict turn-and-flush turn-and-commit
  failed-in-turn draining-turn
    interrupt 1 => _wish=close/explicit
  turn-and-close
    interrupt 1
  idle
    close 1 (explicit); end life 0 => agent=- ending=0:explicit known=-
      leavers=1:tearing/close/explicit/0 life=1
  dirty
    end life 0; 1 commits to 1 => agent=- ending=0:explicit flying=1..1 known=-
      leavers=1:committing/close/explicit/0 life=1 life_began=1
  flushing
    end life 0 => agent=- ending=0:explicit known=- leavers=1:committing/close/explicit/0 life=1
      life_began=1
  flushing-more
    end life 0 => agent=- ending=0:explicit known=- leavers=1:committing/close/explicit/0 life=1
      life_began=2
  stuck
    retain 1 (explicit); end life 0 => agent=- ending=0:explicit known=-
      leavers=1:retained/close/explicit/0 life=1 life_began=1
  leaving
    end life 0 => agent=- ending=0:explicit known=- leavers=1:committing/close/explicit/0 leaving=-
      life=1 life_began=1
  committing
    end life 0 => ending=0:explicit known=- last_reason=- leavers=1:committing/close/explicit/0 life=1
      life_began=1
  closing
    end life 1; resources 1 => closing=1 ending=0:explicit,1:explicit life=2
  retained retained-stuck
    end life 0 => ending=0:explicit known=- last_reason=- leavers=1:retained/close/explicit/0 life=1
      life_began=1
  retained-beside
    close 2 (explicit); end life 0 => agent=- ending=0:explicit known=-
      leavers=1:retained/close/explicit/0,2:tearing/close/explicit/0 life=1 life_began=1
  tearing
    end life 0 => ending=0:explicit known=- last_reason=- life=1
  resources
    end life 1; resources 1 => closing=2 ending=0:explicit,1:explicit life=2
  failed
    end life 0; 1 commits to 1 => agent=- ending=0:explicit failed=- flying=1..1 known=-
      leavers=1:committing/close/explicit/0 life=1 life_began=1
  draining-commit
    end life 1; resources 1 => closing=1 ending=0:shutdown,1:explicit life=2
  drained
    end life 1; resources 1 => closing=1 ending=1:explicit life=2
torn down
  tearing
    - => known=- leavers=-
  *
    nothing
torn down, unknown
  *
    nothing
resources closed
  resources
    life 0 over (explicit) => closing=- ending=-
  *
    nothing
resources closed, unknown
  *
    nothing
flush
  known building-the-next turn-again turn-and-commit stuck leaving committing closing retained-stuck
    - => flush_to=1
  orphan
    gave up => tries=1
  dirty retained retained-beside failed
    1 commits to 1 => flush_to=1 flying=1..1
  *
    nothing
offer
  orphan
    none => guests=99 segments=99..1
  *
    nothing
complete elsewhere
  empty building building-and-line building-for-nobody building-and-evict building-and-close
  resources draining-build drained
    generation 1 => generation=1 known=yes segments=nobody..1
  known orphan
    generation 2 => generation=2 segments=nobody..2
  turn turn-and-line turn-and-other-line turn-and-evict turn-and-close idle tearing failed-in-turn
    generation 1 => generation=1 segments=nobody..1
  flushing-more
    generation 3 => generation=3 segments=1..1,1..2,nobody..3
  closing draining-commit
    generation 2 => generation=2 known=yes segments=1..1,nobody..2
  *
    generation 2 => generation=2 segments=1..1,nobody..2
complete elsewhere, the agent
  empty building building-and-line building-for-nobody building-and-evict building-and-close
  resources draining-build drained
    generation 1 => generation=1 guests=99 known=yes segments=99..1
  known
    generation 2 => generation=2 guests=99 segments=99..2
  orphan
    generation 2 => generation=2 guests=99 segments=nobody..1,99..2
  building-the-next committing retained retained-stuck
    generation 2 => generation=2 guests=99 segments=1..1,99..2
  turn turn-and-line turn-and-other-line turn-and-evict turn-and-close idle failed-in-turn
    generation 1 => generation=1 segments=1..1
  turn-again turn-and-flush dirty failed draining-turn
    generation 2 => generation=2 segments=1..2
  turn-and-commit flushing stuck leaving
    generation 2 => generation=2 segments=1..1,1..2
  flushing-more
    generation 3 => generation=3 segments=1..1,1..3
  closing draining-commit
    generation 2 => generation=2 guests=99 known=yes segments=1..1,99..2
  retained-beside
    generation 2 => generation=2 segments=1..1,2..2
  tearing
    generation 1 => generation=1 guests=99 segments=99..1
committed
  building-the-next
    release 1 (spec) => committed=1 flying=- leavers=1:tearing/release/spec/0 segments=-
  turn-and-commit flushing
    - => committed=1 flying=- segments=-
  flushing-more
    1 commits to 2 => committed=1 flying=1..2 segments=1..2
  stuck
    - => committed=1 flying=- segments=- stuck=- tries=-
  leaving
    release 1 (idle) => agent=- committed=1 flying=- last_reason=idle leavers=1:tearing/release/idle/0
      leaving=- segments=-
  committing
    release 1 (discard) => committed=1 flying=- leavers=1:tearing/release/discard/0 segments=-
  closing
    close 1 (explicit) => committed=1 flying=- leavers=1:tearing/close/explicit/0 segments=-
  retained-stuck
    release 1 (discard) => committed=1 flying=- leavers=1:tearing/release/discard/0 segments=- stuck=-
      tries=-
  draining-commit
    close 1 (shutdown) => committed=1 flying=- leavers=1:tearing/close/shutdown/0 segments=-
  *
    nothing
commit failed
  building-the-next
    gave up; retain 1 (spec); pause 1 => flying=- leavers=1:retained/release/spec/0 tries=1
  turn-and-commit
    gave up => flying=- tries=1
  flushing flushing-more
    gave up => flush_to=- flying=- tries=1
  stuck
    gave up => flying=- stuck=- tries=2
  leaving
    gave up; retain 1 (idle); pause 1 => agent=- flying=- last_reason=idle
      leavers=1:retained/release/idle/0 leaving=- tries=1
  committing
    gave up; retain 1 (discard); pause 1 => flying=- leavers=1:retained/release/discard/0 tries=1
  closing
    gave up; retain 1 (explicit); pause 1 => flying=- leavers=1:retained/close/explicit/0 tries=1
  retained-stuck
    gave up; pause 2 => flying=- stuck=- tries=2
  draining-commit
    gave up; close 1 (shutdown) => flush_to=- flying=- leavers=1:tearing/close/shutdown/0 tries=1
  *
    nothing
start commit
  building-the-next flushing flushing-more leaving committing closing draining-commit
    go => started=yes
  turn-and-commit
    not now => flying=-
  stuck
    not now => flying=- stuck=-
  retained-stuck
    not now; pause 1 => flying=- stuck=-
  *
    not now
commit stuck
  building-the-next
    gave up; retain 1 (spec) => leavers=1:retained/release/spec/0 stuck=yes tries=1
  turn-and-commit
    gave up => stuck=yes tries=1
  flushing flushing-more
    gave up => flush_to=- stuck=yes tries=1
  leaving
    gave up; retain 1 (idle) => agent=- last_reason=idle leavers=1:retained/release/idle/0 leaving=-
      stuck=yes tries=1
  committing
    gave up; retain 1 (discard) => leavers=1:retained/release/discard/0 stuck=yes tries=1
  closing
    gave up; retain 1 (explicit) => leavers=1:retained/close/explicit/0 stuck=yes tries=1
  draining-commit
    gave up; close 1 (shutdown) => flush_to=- leavers=1:tearing/close/shutdown/0 stuck=yes tries=1
  *
    nothing
retry
  retained retained-beside
    1 commits to 1 => flying=1..1 leavers=1:committing/release/discard/0
  *
    nothing
fail
  building building-and-evict building-and-close
    refuse t: failed => builder=- failed=yes
  building-and-line
    refuse t: failed; refuse w: failed => builder=- failed=yes waiting=-
  building-the-next
    refuse w: failed => builder=- failed=yes
  turn-and-line turn-and-other-line
    refuse w: failed => failed=yes waiting=-
  failed failed-in-turn
    nothing
  *
    - => failed=yes
drain
  empty
    end life 0; resources 0 => closing=1 draining=yes ending=0:shutdown life=1
  known
    end life 0; resources 0 => closing=1 draining=yes ending=0:shutdown flush_to=1 known=-
      last_reason=- life=1 life_began=1
  orphan
    end life 0; resources 0; gave up => closing=1 draining=yes ending=0:shutdown known=- life=1
      life_began=1 tries=1
  building building-and-evict building-and-close
    refuse t: closed => builder=- draining=yes
  building-and-line
    refuse t: closed; refuse w: closed => builder=- draining=yes waiting=-
  building-for-nobody turn turn-and-evict turn-and-close turn-and-flush failed-in-turn
    - => draining=yes
  building-the-next
    refuse w: closed => builder=- draining=yes flush_to=1 try_again=yes
  turn-again
    - => draining=yes flush_to=1
  turn-and-line turn-and-other-line
    refuse w: closed => draining=yes waiting=-
  turn-and-commit
    - => draining=yes flush_to=1 try_again=yes
  idle
    close 1 (shutdown); end life 0 => agent=- draining=yes ending=0:shutdown known=-
      leavers=1:tearing/close/shutdown/0 life=1
  dirty
    end life 0; 1 commits to 1 => agent=- draining=yes ending=0:shutdown flush_to=1 flying=1..1
      known=- leavers=1:committing/close/shutdown/0 life=1 life_began=1
  flushing
    end life 0 => agent=- draining=yes ending=0:shutdown known=- leavers=1:committing/close/shutdown/0
      life=1 life_began=1 try_again=yes
  flushing-more
    end life 0 => agent=- draining=yes ending=0:shutdown known=- leavers=1:committing/close/shutdown/0
      life=1 life_began=2 try_again=yes
  stuck
    close 1 (shutdown); end life 0 => agent=- draining=yes ending=0:shutdown flush_to=1 known=-
      leavers=1:tearing/close/shutdown/0 life=1 life_began=1 try_again=yes
  leaving
    end life 0 => agent=- draining=yes ending=0:shutdown flush_to=1 known=-
      leavers=1:committing/close/shutdown/0 leaving=- life=1 life_began=1 try_again=yes
  committing
    end life 0 => draining=yes ending=0:shutdown flush_to=1 known=- last_reason=-
      leavers=1:committing/close/shutdown/0 life=1 life_began=1 try_again=yes
  closing
    end life 1; resources 1 => closing=1 draining=yes ending=0:explicit,1:shutdown flush_to=1 life=2
      try_again=yes
  retained
    end life 0; 1 commits to 1 => draining=yes ending=0:shutdown flush_to=1 flying=1..1 known=-
      last_reason=- leavers=1:committing/close/shutdown/0 life=1 life_began=1
  retained-beside
    close 2 (shutdown); end life 0; 1 commits to 1 => agent=- draining=yes ending=0:shutdown
      flush_to=1 flying=1..1 known=- leavers=1:committing/close/shutdown/0,2:tearing/close/shutdown/0
      life=1 life_began=1
  retained-stuck
    end life 0 => draining=yes ending=0:shutdown flush_to=1 known=- last_reason=-
      leavers=1:retained/close/shutdown/0 life=1 life_began=1 try_again=yes
  tearing
    end life 0 => draining=yes ending=0:shutdown known=- last_reason=- life=1
  resources
    end life 1; resources 1 => closing=2 draining=yes ending=0:explicit,1:shutdown life=2
  failed
    end life 0; 1 commits to 1 => agent=- draining=yes ending=0:shutdown failed=- flush_to=1
      flying=1..1 known=- leavers=1:committing/close/shutdown/0 life=1 life_began=1
  draining-turn draining-build draining-commit drained
    nothing
force
  draining-turn
    over t; interrupt 1; end life 0; 1 commits to 1 => agent=- ending=0:shutdown flying=1..1 known=-
      leavers=1:committing/close/shutdown/0 life=1 life_began=1 turn=-
  draining-build draining-commit drained
    nothing
abandon
  draining-turn
    gave up => abandoned=yes flush_to=-
  draining-build drained
    - => abandoned=yes
  draining-commit
    gave up; close 1 (shutdown) => abandoned=yes flush_to=- leavers=1:tearing/close/shutdown/0
      stuck=yes
"""

TABLE = parsed(CELLS)
"""For each input the outcome by state."""
