"""The table of the stage with a store. `stage_cells.py` tells how it is to be read."""

from __future__ import annotations

from tests.actors.stage_cells import parsed

__all__ = ["TABLE"]

CELLS = """
begin
  empty idle dirty flushing flushing-failed committing retained resumed resumed-intended
  resumed-beside rescuing rescuing-late rescuer-committing rescuer-stuck
    enter new => builder=new building=the-store
  leaving
    enter new => builder=new building=the-store leaving=-
  entering-and-line entering-and-other-line entering-for-nobody-and-line held-and-line
  building-and-line building-and-other-line turn-and-line recording-and-line
    wait new => waiting=w,new
  failed-entering
    refuse new: failed
  draining-entering draining-held draining-recording draining-rescuing
    refuse new: closed
  *
    wait new => waiting=new
begin, any agent
  empty idle dirty flushing flushing-failed committing retained resumed resumed-intended
  resumed-beside rescuing rescuing-late rescuer-committing rescuer-stuck
    enter new => builder=new building=the-store
  leaving
    enter new => builder=new building=the-store leaving=-
  entering-and-line entering-and-other-line entering-for-nobody-and-line held-and-line
  building-and-line building-and-other-line turn-and-line recording-and-line
    wait new => waiting=w,new
  failed-entering
    refuse new: failed
  draining-entering draining-held draining-recording draining-rescuing
    refuse new: closed
  *
    wait new => waiting=new
begin, other spec
  empty idle dirty flushing flushing-failed leaving committing retained resumed resumed-intended
  resumed-beside rescuing rescuing-late rescuer-committing rescuer-stuck
    enter new => builder=new building=the-store
  entering-and-line entering-and-other-line entering-for-nobody-and-line held-and-line
  building-and-line building-and-other-line turn-and-line recording-and-line
    wait new => waiting=w,new
  failed-entering
    refuse new: failed
  draining-entering draining-held draining-recording draining-rescuing
    refuse new: closed
  *
    wait new => waiting=new
begin or reject
  empty idle dirty flushing flushing-failed committing retained resumed resumed-intended
  resumed-beside rescuing rescuing-late rescuer-committing rescuer-stuck
    enter new => builder=new building=the-store
  leaving
    enter new => builder=new building=the-store leaving=-
  failed-entering
    refuse new: failed
  draining-entering draining-held draining-recording draining-rescuing
    refuse new: closed
  *
    refuse new: busy
begin, same caller
  empty idle dirty flushing flushing-failed committing retained resumed resumed-intended
  resumed-beside rescuing rescuing-late rescuer-committing rescuer-stuck
    enter new => builder=new building=the-store
  leaving
    enter new => builder=new building=the-store leaving=-
  entering entering-for-nobody entering-and-evict entering-and-close entering-idle
  entering-idle-for-nobody entering-other-spec entering-dirty entering-flushing entering-leaving held
  held-idle held-for-nobody building building-resumed
    wait new => waiting=new
  entering-and-line entering-and-other-line entering-for-nobody-and-line held-and-line
  building-and-line building-and-other-line
    wait new => waiting=w,new
  failed-entering
    refuse new: failed
  draining-entering draining-held draining-recording draining-rescuing
    refuse new: closed
  *
    refuse new: self
begin, long line
  empty idle dirty flushing flushing-failed committing retained resumed resumed-intended
  resumed-beside rescuing rescuing-late rescuer-committing rescuer-stuck
    enter new => builder=new building=the-store
  leaving
    enter new => builder=new building=the-store leaving=-
  failed-entering
    refuse new: failed
  draining-entering draining-held draining-recording draining-rescuing
    refuse new: closed
  *
    refuse new: overloaded
end, completed
  turn turn-again turn-at-once turn-and-line turn-and-evict turn-and-close turn-and-flush turn-resumed
  rescuing-beside rescuer-in-line
    record t => recording=completed
  *
    nothing
end, not completed
  turn turn-again turn-at-once turn-and-line turn-and-evict turn-and-close turn-and-flush turn-resumed
  rescuing-beside rescuer-in-line
    record t as not completed => recording=not-completed
  *
    nothing
end, discard
  turn turn-again turn-at-once turn-and-line turn-and-evict turn-and-close turn-and-flush turn-resumed
  rescuing-beside rescuer-in-line
    record t => recording=completed/discard
  *
    nothing
end of another turn
  *
    nothing
withdraw the turn
  turn turn-again turn-at-once turn-and-line turn-and-evict turn-and-close turn-and-flush turn-resumed
  rescuing-beside rescuer-in-line
    record t as not completed => recording=not-completed
  *
    nothing
withdraw the builder
  entering entering-and-other-line entering-and-evict entering-and-close entering-idle
  entering-other-spec entering-dirty entering-flushing entering-leaving held held-idle building
  building-and-other-line building-resumed
    - => builder=-
  entering-and-line held-and-line building-and-line
    - => builder=w waiting=-
  *
    nothing
withdraw who waits
  entering-and-line entering-and-other-line entering-for-nobody-and-line held-and-line
  building-and-line building-and-other-line turn-and-line recording-and-line
    - => waiting=-
  *
    nothing
withdraw nobody
  *
    nothing
expire the turn
  *
    nothing
expire the builder
  entering entering-and-other-line entering-and-evict entering-and-close entering-idle
  entering-other-spec entering-dirty entering-flushing entering-leaving held held-idle building
  building-and-other-line building-resumed
    refuse t: timeout => builder=-
  entering-and-line held-and-line building-and-line
    refuse t: timeout => builder=w waiting=-
  *
    nothing
expire who waits
  entering-and-line entering-and-other-line entering-for-nobody-and-line held-and-line
  building-and-line building-and-other-line turn-and-line recording-and-line
    refuse w: timeout => waiting=-
  *
    nothing
expire nobody
  *
    nothing
built
  building building-and-line building-and-other-line
    insert 1; grant t => agent=1 builder=- building=- known=yes turn=t
  building-resumed
    insert 1; grant t => agent=1 builder=- building=- known=yes segments=1..2/s2@1 turn=t
  committing
    release 99 (discard) => leavers=1:committing/release/discard/0,99:tearing/release/discard/0
  retained
    release 99 (discard) => leavers=1:retained/release/discard/0,99:tearing/release/discard/0
  rescuer-committing
    release 99 (discard) => leavers=1:committing/release/recovery/0,99:tearing/release/discard/0
  rescuer-stuck
    release 99 (discard) => leavers=1:tearing/release/recovery/0/in-vain,99:tearing/release/discard/0
  rescuer-in-line
    release 99 (discard) => leavers=2:committing/release/recovery/0,99:tearing/release/discard/0
  draining-entering draining-held draining-recording
    close 99 (discard) => leavers=99:tearing/close/discard/0
  draining-rescuing
    close 99 (discard) => leavers=99:tearing/close/discard/1
  *
    release 99 (discard) => leavers=99:tearing/release/discard/0
build failed
  building building-resumed
    refuse t: build => builder=- building=-
  building-and-line building-and-other-line
    refuse t: build; enter w => builder=w building=the-store waiting=-
  *
    nothing
built late
  committing
    release 99 (discard) => leavers=1:committing/release/discard/0,99:tearing/release/discard/0
  retained
    release 99 (discard) => leavers=1:retained/release/discard/0,99:tearing/release/discard/0
  rescuer-committing
    release 99 (discard) => leavers=1:committing/release/recovery/0,99:tearing/release/discard/0
  rescuer-stuck
    release 99 (discard) => leavers=1:tearing/release/recovery/0/in-vain,99:tearing/release/discard/0
  rescuer-in-line
    release 99 (discard) => leavers=2:committing/release/recovery/0,99:tearing/release/discard/0
  draining-entering draining-held draining-recording
    close 99 (discard) => leavers=99:tearing/close/discard/0
  draining-rescuing
    close 99 (discard) => leavers=99:tearing/close/discard/1
  *
    release 99 (discard) => leavers=99:tearing/release/discard/0
adopt
  empty
    number 1; insert 1 => agent=1 incarnations=1 known=yes signature=a
  idle
    number 2; release 1 (explicit); insert 2 (explicit) => agent=2 incarnations=2
      leavers=1:tearing/release/explicit/0
  dirty
    number 2; insert 2 (explicit); 1 commits to 1 of s@1 => agent=2 flying=1..1/s1@1! incarnations=2
      leavers=1:committing/release/explicit/0 segments=1..1/s1@1!
  flushing
    number 2; insert 2 (explicit) => agent=2 incarnations=2 leavers=1:committing/release/explicit/0
  flushing-failed
    number 2; insert 2 (explicit); 1 commits to 1 of s@1 => agent=2 flying=1..1/s1@1! incarnations=2
      leavers=1:committing/release/explicit/0
  leaving
    number 2; insert 2 (explicit) => agent=2 incarnations=2 leavers=1:committing/release/explicit/0
      leaving=-
  committing retained
    number 2; insert 2 (discard) => agent=2 incarnations=2 last_reason=-
  resumed
    number 1; insert 1 => agent=1 incarnations=1 known=yes segments=1..2/r2@1 signature=a
  resumed-intended
    number 1; insert 1 => agent=1 incarnations=1 known=yes segments=1..1/r1@1!,1..2/r2@1 signature=a
  resumed-beside
    number 2; release 1 (explicit); insert 2 (explicit) => agent=2 incarnations=2
      leavers=1:tearing/release/explicit/0 segments=2..2/r2@1
  rescuing rescuing-late
    number 2; insert 2 => agent=2 incarnations=2 known=yes segments=2..2/r2@1 signature=a
  rescuer-committing
    number 2; insert 2 => agent=2 incarnations=2 known=yes signature=a
  rescuer-stuck
    number 2; insert 2 => agent=2 flying=2..2/r2@1! incarnations=2 known=yes segments=2..2/r2@1!
      signature=a
  *
    nothing
release
  idle resumed-beside
    yes; release 1 (idle) => agent=- last_reason=idle leavers=1:tearing/release/idle/0
  dirty
    yes; 1 commits to 1 of s@1 => flying=1..1/s1@1! leaving=idle segments=1..1/s1@1!
  flushing
    yes => leaving=idle
  flushing-failed
    yes; 1 commits to 1 of s@1 => flying=1..1/s1@1! leaving=idle
  *
    no
evict
  empty entering-and-evict entering-and-close turn-and-evict turn-and-close recording-and-evict
  recording-and-close leaving committing retained resumed resumed-intended rescuing rescuing-late
  rescuer-committing rescuer-stuck draining-rescuing
    nothing
  idle resumed-beside
    release 1 (explicit) => agent=- last_reason=explicit leavers=1:tearing/release/explicit/0
  dirty
    1 commits to 1 of s@1 => flying=1..1/s1@1! leaving=explicit segments=1..1/s1@1!
  flushing
    - => leaving=explicit
  flushing-failed
    1 commits to 1 of s@1 => flying=1..1/s1@1! leaving=explicit
  *
    - => _wish=release/explicit
close
  empty
    end life 0; resources 0 => closing=1 ending=0:explicit life=1
  entering-and-close turn-and-close recording-and-close
    nothing
  idle
    close 1 (explicit); end life 0 => agent=- ending=0:explicit known=-
      leavers=1:tearing/close/explicit/0 life=1
  dirty
    end life 0; 1 commits to 1 of s@1 => agent=- ending=0:explicit flying=1..1/s1@1! known=-
      leavers=1:committing/close/explicit/0 life=1 life_began=1 segments=1..1/s1@1!
  flushing
    end life 0 => agent=- ending=0:explicit known=- leavers=1:committing/close/explicit/0 life=1
      life_began=1
  flushing-failed
    end life 0; 1 commits to 1 of s@1 => agent=- ending=0:explicit flying=1..1/s1@1! known=-
      leavers=1:committing/close/explicit/0 life=1 life_began=1
  leaving
    end life 0 => agent=- ending=0:explicit known=- leavers=1:committing/close/explicit/0 leaving=-
      life=1 life_began=1
  committing
    end life 0 => ending=0:explicit known=- last_reason=- leavers=1:committing/close/explicit/0 life=1
      life_began=1
  retained
    end life 0 => ending=0:explicit known=- last_reason=- leavers=1:retained/close/explicit/0 life=1
      life_began=1
  resumed resumed-intended rescuing rescuing-late
    end life 0; resources 0 => closing=1 ending=0:explicit life=1 life_began=2
  resumed-beside
    close 1 (explicit); end life 0 => agent=- ending=0:explicit known=-
      leavers=1:tearing/close/explicit/0 life=1 life_began=2
  rescuer-committing
    end life 0 => ending=0:explicit leavers=1:committing/close/recovery/0 life=1 life_began=2
  rescuer-stuck
    end life 0 => ending=0:explicit life=1 life_began=2
  draining-rescuing
    end life 1; resources 1 => closing=2 ending=0:shutdown,1:explicit life=2
  *
    - => _wish=close/explicit
close, interrupt
  empty
    end life 0; resources 0 => closing=1 ending=0:explicit life=1
  entering-and-close
    nothing
  turn turn-again turn-at-once turn-and-line turn-and-evict turn-and-flush turn-resumed recording
  recording-not-completed recording-discard recording-again recording-and-line recording-and-evict
  recording-and-flush recording-resumed rescuing-beside rescuer-in-line draining-recording
    interrupt 1 => _wish=close/explicit
  turn-and-close recording-and-close
    interrupt 1
  idle
    close 1 (explicit); end life 0 => agent=- ending=0:explicit known=-
      leavers=1:tearing/close/explicit/0 life=1
  dirty
    end life 0; 1 commits to 1 of s@1 => agent=- ending=0:explicit flying=1..1/s1@1! known=-
      leavers=1:committing/close/explicit/0 life=1 life_began=1 segments=1..1/s1@1!
  flushing
    end life 0 => agent=- ending=0:explicit known=- leavers=1:committing/close/explicit/0 life=1
      life_began=1
  flushing-failed
    end life 0; 1 commits to 1 of s@1 => agent=- ending=0:explicit flying=1..1/s1@1! known=-
      leavers=1:committing/close/explicit/0 life=1 life_began=1
  leaving
    end life 0 => agent=- ending=0:explicit known=- leavers=1:committing/close/explicit/0 leaving=-
      life=1 life_began=1
  committing
    end life 0 => ending=0:explicit known=- last_reason=- leavers=1:committing/close/explicit/0 life=1
      life_began=1
  retained
    end life 0 => ending=0:explicit known=- last_reason=- leavers=1:retained/close/explicit/0 life=1
      life_began=1
  resumed resumed-intended rescuing rescuing-late
    end life 0; resources 0 => closing=1 ending=0:explicit life=1 life_began=2
  resumed-beside
    close 1 (explicit); end life 0 => agent=- ending=0:explicit known=-
      leavers=1:tearing/close/explicit/0 life=1 life_began=2
  rescuer-committing
    end life 0 => ending=0:explicit leavers=1:committing/close/recovery/0 life=1 life_began=2
  rescuer-stuck
    end life 0 => ending=0:explicit life=1 life_began=2
  draining-rescuing
    end life 1; resources 1 => closing=2 ending=0:shutdown,1:explicit life=2
  *
    - => _wish=close/explicit
torn down
  rescuer-stuck
    - => leavers=-
  *
    nothing
torn down, unknown
  *
    nothing
resources closed
  draining-rescuing
    life 0 over (shutdown) => closing=- ending=-
  *
    nothing
resources closed, unknown
  *
    nothing
flush
  entering-dirty dirty
    1 commits to 1 of s@1 => flush_to=1 flying=1..1/s1@1! segments=1..1/s1@1!
  entering-leaving turn-again recording-again recording-and-close leaving committing
    - => flush_to=1
  building-resumed resumed resumed-intended resumed-beside rescuing rescuing-late
    gave up => tries=1
  turn-resumed recording-resumed rescuing-beside rescuer-committing rescuer-stuck
    - => flush_to=2
  flushing-failed retained
    1 commits to 1 of s@1 => flush_to=1 flying=1..1/s1@1!
  rescuer-in-line
    - => flush_to=3
  draining-rescuing
    gave up => tries=2
  *
    nothing
offer
  building-resumed
    none => guests=99 segments=99..2/s2@1
  resumed resumed-beside rescuing rescuing-beside rescuing-late draining-rescuing
    none => guests=99 segments=99..2/r2@1
  resumed-intended
    none => guests=99 segments=99..1/r1@1!,nobody..2/r2@1
  rescuer-stuck
    none => flying=99..2/r2@1! guests=99 segments=99..2/r2@1!
  *
    nothing
complete elsewhere
  empty entering entering-and-line entering-and-other-line entering-for-nobody
  entering-for-nobody-and-line held held-and-line held-for-nobody building building-and-line
  building-and-other-line draining-held
    generation 1 => generation=1 known=yes segments=nobody..1
  entering-dirty turn-again turn-and-flush recording-again recording-and-close recording-and-flush
  dirty draining-recording
    generation 2 => generation=2 segments=1..1/s1@1,nobody..2
  entering-flushing entering-leaving flushing flushing-failed leaving committing retained
  draining-entering
    generation 2 => generation=2 segments=1..1/s1@1!,nobody..2
  building-resumed
    generation 3 => generation=3 known=yes segments=nobody..2/s2@1,nobody..3
  turn-resumed recording-resumed
    generation 3 => generation=3 segments=1..2/s2@1,nobody..3
  resumed rescuing rescuing-late draining-rescuing
    generation 3 => generation=3 known=yes segments=nobody..2/r2@1,nobody..3
  resumed-intended
    generation 3 => generation=3 known=yes segments=nobody..1/r1@1!,nobody..2/r2@1,nobody..3
  resumed-beside rescuing-beside
    generation 3 => generation=3 segments=nobody..2/r2@1,nobody..3
  rescuer-committing
    generation 3 => generation=3 known=yes segments=1..2/r2@1!,nobody..3
  rescuer-stuck
    generation 3 => generation=3 known=yes segments=nobody..2/r2@1!,nobody..3
  rescuer-in-line
    generation 4 => generation=4 segments=1..1/s1@1,2..3/r2@1,nobody..4
  *
    generation 1 => generation=1 segments=nobody..1
complete elsewhere, the agent
  empty entering entering-and-line entering-and-other-line entering-for-nobody
  entering-for-nobody-and-line held held-and-line held-for-nobody building building-and-line
  building-and-other-line draining-held
    generation 1 => generation=1 guests=99 known=yes segments=99..1
  entering-dirty turn-again turn-and-flush recording-again recording-and-close recording-and-flush
  dirty draining-recording
    generation 2 => generation=2 segments=1..1/s1@1,1..2
  entering-flushing entering-leaving flushing flushing-failed leaving draining-entering
    generation 2 => generation=2 segments=1..1/s1@1!,1..2
  building-resumed
    generation 3 => generation=3 guests=99 known=yes segments=nobody..2/s2@1,99..3
  turn-resumed recording-resumed
    generation 3 => generation=3 segments=1..2/s2@1,1..3
  committing retained
    generation 2 => generation=2 guests=99 segments=1..1/s1@1!,99..2
  resumed rescuing rescuing-late draining-rescuing
    generation 3 => generation=3 guests=99 known=yes segments=nobody..2/r2@1,99..3
  resumed-intended
    generation 3 => generation=3 guests=99 known=yes segments=nobody..1/r1@1!,nobody..2/r2@1,99..3
  resumed-beside rescuing-beside
    generation 3 => generation=3 segments=nobody..2/r2@1,1..3
  rescuer-committing
    generation 3 => generation=3 guests=99 known=yes segments=1..2/r2@1!,99..3
  rescuer-stuck
    generation 3 => generation=3 guests=99 known=yes segments=nobody..2/r2@1!,99..3
  rescuer-in-line
    generation 4 => generation=4 segments=1..1/s1@1,2..3/r2@1,1..4
  *
    generation 1 => generation=1 segments=1..1
committed
  entering-flushing entering-leaving flushing draining-entering
    - => committed=1 flying=- segments=-
  leaving
    release 1 (idle) => agent=- committed=1 flying=- last_reason=idle leavers=1:tearing/release/idle/0
      leaving=- segments=-
  committing
    release 1 (discard) => committed=1 flying=- leavers=1:tearing/release/discard/0 segments=-
  rescuer-committing
    release 1 (recovery) => committed=2 flying=- leavers=1:tearing/release/recovery/0 segments=-
  rescuer-stuck
    - => committed=2 flying=- segments=- started=- stuck=- tries=-
  *
    nothing
commit failed
  entering-flushing flushing draining-entering
    gave up => flush_to=- flying=- tries=1
  entering-leaving
    gave up => flying=- tries=1
  leaving
    gave up; retain 1 (idle); pause 1 => agent=- flying=- last_reason=idle
      leavers=1:retained/release/idle/0 leaving=- tries=1
  committing
    gave up; retain 1 (discard); pause 1 => flying=- leavers=1:retained/release/discard/0 tries=1
  rescuer-committing
    gave up; release 1 (recovery) => flying=- leavers=1:tearing/release/recovery/0/in-vain
      segments=nobody..2/r2@1! tries=1
  rescuer-stuck
    gave up => flying=- started=- stuck=- tries=2
  *
    nothing
start commit
  entering-flushing entering-leaving flushing leaving committing rescuer-committing draining-entering
    go => started=yes
  rescuer-stuck
    not now => flying=- stuck=-
  *
    not now
commit stuck
  entering-flushing flushing draining-entering
    gave up => flush_to=- stuck=yes tries=1
  entering-leaving
    gave up => stuck=yes tries=1
  leaving
    gave up; retain 1 (idle) => agent=- last_reason=idle leavers=1:retained/release/idle/0 leaving=-
      stuck=yes tries=1
  committing
    gave up; retain 1 (discard) => leavers=1:retained/release/discard/0 stuck=yes tries=1
  rescuer-committing
    gave up; release 1 (recovery) => flying=nobody..2/r2@1! leavers=1:tearing/release/recovery/0/in-vain
      segments=nobody..2/r2@1! stuck=yes tries=1
  *
    nothing
retry
  retained
    1 commits to 1 of s@1 => flying=1..1/s1@1! leavers=1:committing/release/discard/0
  *
    nothing
fail
  entering entering-and-evict entering-and-close entering-idle entering-other-spec entering-dirty
  entering-flushing entering-leaving held held-idle building building-resumed
    refuse t: failed => builder=- failed=yes
  entering-and-line entering-and-other-line held-and-line building-and-line building-and-other-line
    refuse t: failed; refuse w: failed => builder=- failed=yes waiting=-
  entering-for-nobody-and-line turn-and-line recording-and-line
    refuse w: failed => failed=yes waiting=-
  failed-entering
    nothing
  *
    - => failed=yes
drain
  empty
    end life 0; resources 0 => closing=1 draining=yes ending=0:shutdown life=1
  entering entering-and-evict entering-and-close entering-idle entering-other-spec held held-idle
  building
    refuse t: closed => builder=- draining=yes
  entering-and-line entering-and-other-line held-and-line building-and-line building-and-other-line
    refuse t: closed; refuse w: closed => builder=- draining=yes waiting=-
  entering-for-nobody-and-line turn-and-line recording-and-line
    refuse w: closed => draining=yes waiting=-
  entering-dirty
    refuse t: closed; 1 commits to 1 of s@1 => builder=- draining=yes flush_to=1 flying=1..1/s1@1!
      segments=1..1/s1@1!
  entering-flushing
    refuse t: closed => builder=- draining=yes try_again=yes
  entering-leaving
    refuse t: closed => builder=- draining=yes flush_to=1 try_again=yes
  building-resumed
    refuse t: closed; gave up => builder=- draining=yes tries=1
  turn-again recording-again recording-and-close
    - => draining=yes flush_to=1
  turn-resumed recording-resumed rescuing-beside
    - => draining=yes flush_to=2
  idle
    close 1 (shutdown); end life 0 => agent=- draining=yes ending=0:shutdown known=-
      leavers=1:tearing/close/shutdown/0 life=1
  dirty
    end life 0; 1 commits to 1 of s@1 => agent=- draining=yes ending=0:shutdown flush_to=1
      flying=1..1/s1@1! known=- leavers=1:committing/close/shutdown/0 life=1 life_began=1
      segments=1..1/s1@1!
  flushing
    end life 0 => agent=- draining=yes ending=0:shutdown known=- leavers=1:committing/close/shutdown/0
      life=1 life_began=1 try_again=yes
  flushing-failed
    end life 0; 1 commits to 1 of s@1 => agent=- draining=yes ending=0:shutdown flush_to=1
      flying=1..1/s1@1! known=- leavers=1:committing/close/shutdown/0 life=1 life_began=1
  leaving
    end life 0 => agent=- draining=yes ending=0:shutdown flush_to=1 known=-
      leavers=1:committing/close/shutdown/0 leaving=- life=1 life_began=1 try_again=yes
  committing
    end life 0 => draining=yes ending=0:shutdown flush_to=1 known=- last_reason=-
      leavers=1:committing/close/shutdown/0 life=1 life_began=1 try_again=yes
  retained
    end life 0; 1 commits to 1 of s@1 => draining=yes ending=0:shutdown flush_to=1 flying=1..1/s1@1!
      known=- last_reason=- leavers=1:committing/close/shutdown/0 life=1 life_began=1
  resumed resumed-intended rescuing rescuing-late
    end life 0; resources 0; gave up => closing=1 draining=yes ending=0:shutdown life=1 life_began=2
      tries=1
  resumed-beside
    close 1 (shutdown); end life 0; gave up => agent=- draining=yes ending=0:shutdown known=-
      leavers=1:tearing/close/shutdown/0 life=1 life_began=2 tries=1
  rescuer-committing
    end life 0 => draining=yes ending=0:shutdown flush_to=2 leavers=1:committing/close/recovery/0 life=1
      life_began=2 try_again=yes
  rescuer-stuck
    end life 0 => draining=yes ending=0:shutdown flush_to=2 life=1 life_began=2 try_again=yes
  rescuer-in-line
    - => draining=yes flush_to=3
  draining-entering draining-held draining-recording draining-rescuing
    nothing
  *
    - => draining=yes
force
  draining-entering
    end life 0 => agent=- building=- ending=0:shutdown known=- leavers=1:committing/close/shutdown/0
      life=1 life_began=1
  draining-held
    end life 0; resources 0 => building=- closing=1 ending=0:shutdown entries=- life=1
  draining-recording draining-rescuing
    nothing
abandon
  draining-entering
    gave up => abandoned=yes flush_to=- stuck=yes
  draining-held draining-rescuing
    - => abandoned=yes
  draining-recording
    gave up => abandoned=yes flush_to=-
begin at once
  empty committing retained resumed resumed-intended rescuing rescuing-late rescuer-committing
  rescuer-stuck
    enter new => builder=new building=the-store
  leaving
    enter new => builder=new building=the-store leaving=-
  entering-and-line entering-and-other-line entering-for-nobody-and-line held-and-line
  building-and-line building-and-other-line turn-and-line recording-and-line
    wait new => waiting=w,new
  idle dirty flushing flushing-failed resumed-beside
    hit => turn=new
  failed-entering
    refuse new: failed
  draining-entering draining-held draining-recording draining-rescuing
    refuse new: closed
  *
    wait new => waiting=new
end at once
  turn turn-at-once
    rested => generation=1 segments=1..1 turn=-
  turn-again
    rested => generation=2 segments=1..1/s1@1,1..2 turn=-
  turn-and-line
    over t; enter w => builder=w building=the-store generation=1 segments=1..1 turn=- waiting=-
  turn-and-evict
    over t; 1 commits to 1 => _wish=- flying=1..1 generation=1 leaving=explicit segments=1..1 turn=-
  turn-and-close
    over t; end life 0; 1 commits to 1 => _wish=- agent=- ending=0:explicit flying=1..1 generation=1
      known=- leavers=1:committing/close/explicit/0 life=1 life_began=1 segments=1..1 turn=-
  turn-and-flush
    over t; 1 commits to 1 of s@1 => flying=1..1/s1@1! generation=2 segments=1..1/s1@1!,1..2 turn=-
  turn-resumed
    rested => generation=3 segments=1..2/s2@1,1..3 turn=-
  rescuing-beside
    rested => generation=3 segments=nobody..2/r2@1,1..3 turn=-
  rescuer-in-line
    over t; 1 commits to 1 of s@1 => flying=1..1/s1@1! generation=4 segments=1..1/s1@1!,2..3/r2@1,1..4
      turn=-
  *
    nothing
entered
  entering entering-and-line entering-and-other-line
    build 1 for t => building=1 incarnations=1 signature=a
  entering-for-nobody entering-idle-for-nobody failed-entering
    - => building=-
  entering-for-nobody-and-line
    enter w => builder=w waiting=-
  entering-and-evict entering-and-close entering-idle entering-dirty entering-flushing
  entering-leaving
    grant t reused => builder=- building=- turn=t
  entering-other-spec
    release 1 (spec); build 2 for t => agent=- building=2 incarnations=2 last_reason=spec
      leavers=1:tearing/release/spec/0 signature=b
  held held-and-line
    build 1 for t => building=1 entries=- incarnations=1 signature=a
  held-idle
    grant t reused => builder=- building=- entries=- turn=t
  held-for-nobody
    - => building=- entries=-
  draining-entering
    end life 0 => agent=- building=- ending=0:shutdown known=- leavers=1:committing/close/shutdown/0
      life=1 life_began=1
  draining-held
    end life 0; resources 0 => building=- closing=1 ending=0:shutdown entries=- life=1
  *
    nothing
entered, stale
  entering entering-and-line entering-and-other-line
    build 1 for t => building=1 incarnations=1 signature=a
  entering-for-nobody entering-idle-for-nobody failed-entering
    - => building=-
  entering-for-nobody-and-line
    enter w => builder=w waiting=-
  entering-and-evict entering-and-close entering-idle
    release 1 (coherence); build 2 for t => agent=- building=2 incarnations=2 last_reason=coherence
      leavers=1:tearing/release/coherence/0
  entering-other-spec
    release 1 (coherence); build 2 for t => agent=- building=2 incarnations=2 last_reason=coherence
      leavers=1:tearing/release/coherence/0 signature=b
  entering-dirty
    build 2 for t; 1 commits to 1 of s@1 => agent=- building=2 flying=1..1/s1@1! incarnations=2
      last_reason=coherence leavers=1:committing/release/coherence/0 segments=1..1/s1@1!
  entering-flushing entering-leaving
    build 2 for t => agent=- building=2 incarnations=2 last_reason=coherence
      leavers=1:committing/release/coherence/0
  held held-and-line
    build 1 for t => building=1 entries=- incarnations=1 signature=a
  held-idle
    release 1 (coherence); build 2 for t => agent=- building=2 entries=- incarnations=2
      last_reason=coherence leavers=1:tearing/release/coherence/0
  held-for-nobody
    - => building=- entries=-
  draining-entering
    end life 0 => agent=- building=- ending=0:shutdown known=- leavers=1:committing/close/shutdown/0
      life=1 life_began=1
  draining-held
    end life 0; resources 0 => building=- closing=1 ending=0:shutdown entries=- life=1
  *
    nothing
entered, held
  entering entering-and-line entering-and-other-line entering-and-evict entering-and-close
  entering-idle entering-other-spec entering-dirty entering-flushing entering-leaving
    enter later 1 => entries=1
  entering-for-nobody entering-idle-for-nobody failed-entering
    - => building=-
  entering-for-nobody-and-line
    enter w => builder=w waiting=-
  held held-and-line held-idle
    enter later 2 => entries=2
  held-for-nobody
    - => building=- entries=-
  draining-entering
    end life 0 => agent=- building=- ending=0:shutdown known=- leavers=1:committing/close/shutdown/0
      life=1 life_began=1
  draining-held
    end life 0; resources 0 => building=- closing=1 ending=0:shutdown entries=- life=1
  *
    nothing
entered, away
  entering entering-idle entering-other-spec entering-dirty entering-flushing entering-leaving
    refuse t: store => builder=- building=-
  entering-and-line entering-and-other-line
    refuse t: store; enter w => builder=w waiting=-
  entering-for-nobody entering-idle-for-nobody failed-entering
    - => building=-
  entering-for-nobody-and-line
    enter w => builder=w waiting=-
  entering-and-evict
    refuse t: store; release 1 (explicit) => _wish=- agent=- builder=- building=- last_reason=explicit
      leavers=1:tearing/release/explicit/0
  entering-and-close
    refuse t: store; close 1 (explicit); end life 0 => _wish=- agent=- builder=- building=-
      ending=0:explicit known=- leavers=1:tearing/close/explicit/0 life=1
  held held-idle
    refuse t: store => builder=- building=- entries=-
  held-and-line
    refuse t: store; enter w => builder=w entries=- waiting=-
  held-for-nobody
    - => building=- entries=-
  draining-entering
    end life 0 => agent=- building=- ending=0:shutdown known=- leavers=1:committing/close/shutdown/0
      life=1 life_began=1
  draining-held
    end life 0; resources 0 => building=- closing=1 ending=0:shutdown entries=- life=1
  *
    nothing
enter again
  entering entering-and-line entering-and-other-line entering-and-evict entering-and-close
  entering-idle entering-other-spec entering-dirty entering-flushing entering-leaving held
  held-and-line held-idle
    enter t
  entering-for-nobody entering-idle-for-nobody failed-entering
    - => building=-
  entering-for-nobody-and-line
    enter w => builder=w waiting=-
  held-for-nobody
    - => building=- entries=-
  draining-entering
    end life 0 => agent=- building=- ending=0:shutdown known=- leavers=1:committing/close/shutdown/0
      life=1 life_began=1
  draining-held
    end life 0; resources 0 => building=- closing=1 ending=0:shutdown entries=- life=1
  *
    nothing
recorded
  recording
    over t => generation=1 recording=- segments=1..1/s1@1 turn=-
  recording-not-completed
    over t => recording=- turn=-
  recording-discard
    over t; 1 commits to 1 of s@1 => agent=- flying=1..1/s1@1! generation=1 last_reason=discard
      leavers=1:committing/release/discard/0 recording=- segments=1..1/s1@1! turn=-
  recording-again
    over t => generation=2 recording=- segments=1..2/s2@1 turn=-
  recording-and-line
    over t; enter w => builder=w building=the-store generation=1 recording=- segments=1..1/s1@1 turn=-
      waiting=-
  recording-and-evict
    over t; 1 commits to 1 of s@1 => _wish=- flying=1..1/s1@1! generation=1 leaving=explicit
      recording=- segments=1..1/s1@1! turn=-
  recording-and-close
    over t; end life 0; 1 commits to 2 of s@1 => _wish=- agent=- ending=0:explicit flying=1..2/s2@1!
      generation=2 known=- leavers=1:committing/close/explicit/0 life=1 life_began=2 recording=-
      segments=1..2/s2@1! turn=-
  recording-and-flush
    over t; 1 commits to 2 of s@1 => flying=1..2/s2@1! generation=2 recording=- segments=1..2/s2@1!
      turn=-
  recording-resumed
    over t => generation=3 recording=- segments=1..3/s3@1 turn=-
  draining-recording
    over t; end life 0; 1 commits to 2 of s@1 => agent=- ending=0:shutdown flying=1..2/s2@1!
      generation=2 known=- leavers=1:committing/close/shutdown/0 life=1 life_began=2 recording=-
      segments=1..2/s2@1! turn=-
  *
    nothing
recorded, not now
  recording
    over t => generation=1 recording=- segments=1..1/s1@1 turn=-
  recording-not-completed
    over t => recording=- turn=-
  recording-discard
    over t; 1 commits to 1 of s@1 => agent=- flying=1..1/s1@1! generation=1 last_reason=discard
      leavers=1:committing/release/discard/0 recording=- segments=1..1/s1@1! turn=-
  recording-again
    over t => generation=2 recording=- segments=1..2/s2@1 turn=-
  recording-and-line
    over t; enter w => builder=w building=the-store generation=1 recording=- segments=1..1/s1@1 turn=-
      waiting=-
  recording-and-evict
    over t; 1 commits to 1 of s@1 => _wish=- flying=1..1/s1@1! generation=1 leaving=explicit
      recording=- segments=1..1/s1@1! turn=-
  recording-and-close
    over t; end life 0; 1 commits to 2 of s@1 => _wish=- agent=- ending=0:explicit flying=1..2/s2@1!
      generation=2 known=- leavers=1:committing/close/explicit/0 life=1 life_began=2 recording=-
      segments=1..2/s2@1! turn=-
  recording-and-flush
    over t; 1 commits to 2 of s@1 => flying=1..2/s2@1! generation=2 recording=- segments=1..2/s2@1!
      turn=-
  recording-resumed
    over t => generation=3 recording=- segments=1..3/s3@1 turn=-
  draining-recording
    over t; end life 0; 1 commits to 2 of s@1 => agent=- ending=0:shutdown flying=1..2/s2@1!
      generation=2 known=- leavers=1:committing/close/shutdown/0 life=1 life_began=2 recording=-
      segments=1..2/s2@1! turn=-
  *
    nothing
recorded, lost
  recording recording-not-completed recording-discard
    over t; release 1 (coherence) => agent=- last_reason=coherence
      leavers=1:tearing/release/coherence/0 recording=- turn=-
  recording-again recording-and-flush
    over t; release 1 (coherence) => agent=- committed=1 last_reason=coherence
      leavers=1:tearing/release/coherence/0 recording=- segments=- turn=-
  recording-and-line
    over t; release 1 (coherence); enter w => agent=- builder=w building=the-store
      last_reason=coherence leavers=1:tearing/release/coherence/0 recording=- turn=- waiting=-
  recording-and-evict
    over t; release 1 (coherence) => _wish=- agent=- last_reason=coherence
      leavers=1:tearing/release/coherence/0 recording=- turn=-
  recording-and-close
    over t; close 1 (explicit); end life 0 => _wish=- agent=- committed=1 ending=0:explicit known=-
      leavers=1:tearing/close/explicit/0 life=1 life_began=1 recording=- segments=- turn=-
  draining-recording
    over t; close 1 (shutdown); end life 0 => agent=- committed=1 ending=0:shutdown known=-
      leavers=1:tearing/close/shutdown/0 life=1 life_began=1 recording=- segments=- turn=-
  recording-resumed
    over t; release 1 (coherence) => agent=- committed=2 last_reason=coherence
      leavers=1:tearing/release/coherence/0 recording=- segments=- turn=-
  *
    nothing
resume
  entering-dirty turn-again turn-and-flush recording-again recording-and-close recording-and-flush
  dirty draining-recording
    none => generation=3 segments=1..1/s1@1,nobody..2/q1@1!,nobody..3/q2@1
  entering-flushing entering-leaving flushing flushing-failed leaving committing retained
  draining-entering
    none => generation=3 segments=1..1/s1@1!,nobody..2/q1@1!,nobody..3/q2@1
  building-resumed
    none => generation=4 segments=nobody..2/s2@1,nobody..3/q1@1!,nobody..4/q2@1
  turn-resumed recording-resumed
    none => generation=4 segments=1..2/s2@1,nobody..3/q1@1!,nobody..4/q2@1
  resumed resumed-beside rescuing rescuing-beside rescuing-late draining-rescuing
    none => generation=4 segments=nobody..2/r2@1,nobody..3/q1@1!,nobody..4/q2@1
  resumed-intended
    none => generation=4 segments=nobody..1/r1@1!,nobody..2/r2@1,nobody..3/q1@1!,nobody..4/q2@1
  rescuer-committing
    none => generation=4 segments=1..2/r2@1!,nobody..3/q1@1!,nobody..4/q2@1
  rescuer-stuck
    none => generation=4 segments=nobody..2/r2@1!,nobody..3/q1@1!,nobody..4/q2@1
  rescuer-in-line
    none => generation=5 segments=1..1/s1@1,2..3/r2@1,nobody..4/q1@1!,nobody..5/q2@1
  *
    none => generation=2 segments=nobody..1/q1@1!,nobody..2/q2@1
lose
  entering-dirty turn-again turn-and-flush recording-again recording-and-close recording-and-flush
  dirty flushing-failed draining-recording
    - => committed=1 segments=-
  building-resumed turn-resumed recording-resumed
    - => committed=2 segments=-
  retained
    release 1 (discard) => committed=1 leavers=1:tearing/release/discard/0 segments=-
  rescuer-in-line
    2 commits to 2 of r@1 => committed=1 flying=2..3/r2@1! segments=2..3/r2@1!
  *
    nothing
lose, the other
  resumed resumed-intended resumed-beside rescuing rescuing-beside rescuing-late draining-rescuing
    - => committed=2 segments=-
  rescuer-in-line
    release 2 (recovery) => committed=2 leavers=2:tearing/release/recovery/0 segments=1..3/s1@1
  *
    nothing
lose, an older epoch
  *
    nothing
recover
  empty entering entering-and-line entering-and-other-line entering-for-nobody
  entering-for-nobody-and-line held held-and-line held-for-nobody resumed resumed-intended
  draining-held
    rescuer 1 => incarnations=1 rescuers=1:q
  rescuing draining-rescuing
    rescuer 2 => incarnations=2 rescuers=1:r,2:q
  rescuing-beside
    rescuer 3 => incarnations=3 rescuers=2:r,3:q
  rescuer-in-line
    rescuer 3 => incarnations=3 rescuers=3:q
  *
    rescuer 2 => incarnations=2 rescuers=2:q
rescuer built
  rescuing
    1 commits to 2 of r@1 => flying=1..2/r2@1! leavers=1:committing/release/recovery/0 rescuers=-
      segments=1..2/r2@1!
  rescuing-beside
    2 commits to 2 of r@1 => flying=2..2/r2@1! leavers=2:committing/release/recovery/0 rescuers=-
      segments=2..2/r2@1!
  draining-rescuing
    1 commits to 2 of r@1 => flying=1..2/r2@1! leavers=1:committing/close/recovery/1 rescuers=-
      segments=1..2/r2@1!
rescuer failed
  *
    - => rescuers=-
rescuer given up
  rescuing draining-rescuing
    - => late=1 rescuers=-
  rescuing-beside
    - => late=2 rescuers=-
commit lost
  entering-flushing entering-leaving draining-entering
    - => committed=1 flying=- segments=-
  flushing
    release 1 (coherence) => agent=- committed=1 flying=- last_reason=coherence
      leavers=1:tearing/release/coherence/0 segments=-
  leaving
    release 1 (idle) => agent=- committed=1 flying=- last_reason=idle leavers=1:tearing/release/idle/0
      leaving=- segments=-
  committing
    release 1 (discard) => committed=1 flying=- leavers=1:tearing/release/discard/0 segments=-
  rescuer-committing
    release 1 (recovery) => committed=2 flying=- leavers=1:tearing/release/recovery/0 segments=-
  rescuer-stuck
    - => committed=2 flying=- segments=- started=- stuck=-
  *
    nothing
"""

TABLE = parsed(CELLS)
"""For each input the outcome by state."""
