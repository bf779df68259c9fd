// Package settle schedules side effects that many appends share.
//
// An append is cheap; what hangs on it (a write, a sync, a wake-up) is not.
// So an append only marks a position and returns, and a [Settler] runs the
// effect later, once for all marks it covers. Whoever needs the effect waits
// for a position, not for an effect of his own, and one effect answers
// everybody who waits.
//
// Positions are numbers that only grow; what they count is the owner's
// business (entries appended, bytes written). Position 0 is before everything
// and always settled.
//
//	marked   everything up to here has been appended
//	settled  the effect is known to have covered everything up to here
//
// An effect is a func. It is told how far the marks went just before it began
// and answers how far it came. The package knows no files and no system calls.
//
// Everything here may be used concurrently. Positions live in memory only: what a
// crash leaves is what the effects have done.
//
// # Invariants
//
// Each has a test of the same number in invariants*_test.go.
//
//  1. Settled never passes Marked, and neither ever goes back.
//  2. Snapshot before you promise: upTo is read before the effect begins, so
//     a mark that comes while it runs is not settled by it, unless the effect
//     itself answers that it came further.
//  3. At most one effect of a settler runs at a time, whoever runs it.
//  4. Nobody forgets a mark: under Every and All, while something is unsettled
//     and no final error stands, an effect runs, or the goroutine has been
//     rung, or its timer is armed.
//  5. Every(d): an effect begins at most d after the first unsettled mark (or
//     when the one before ends, if that is later). Later marks do not push it
//     back, and a stream of marks costs one effect a window.
//  6. Every(d) with Leading: the first mark after a quiet window is settled at
//     once. Quiet means that no effect has begun for d. Two effects that
//     nobody demanded begin at least d apart.
//  7. All: an effect begins as soon as the one before has ended, while
//     anything is unsettled.
//  8. Auto: only a demand (Wait, Settle, Urge, Close) runs the effect.
//  9. Demand: under every policy a Wait for a marked position has an effect
//     begun as soon as the running one has ended. One effect answers all whom
//     it covers. A lone caller runs it himself, without changing goroutines.
//  10. Wait answers nil only if Settled has reached the position.
//  11. A Wait for a position that is not marked yet runs nothing; once the
//     position is marked it is settled at once.
//  12. A failed effect, not sticky: those it should have covered learn the
//     error; the marks stay, and are tried again after a back-off that doubles
//     up to ten times Retry, or at once at the next Wait, Settle or Urge.
//  13. A failed effect, sticky: everyone who waits, or will ever wait, for a
//     position past Settled learns that error. No effect runs again.
//  14. A panic in an effect is its error, a *PanicError. So is runtime.Goexit.
//  15. Close settles what is pending, in one attempt, and answers every waiter.
//     When it has returned no effect runs and no goroutine is left. A second
//     Close, also a concurrent one, waits and returns the same.
//  16. An effect that cannot be scheduled is run at once: a mark that comes
//     after Close, when there is no goroutine left, is settled by its caller.
//  17. A waiter whose context ends leaves at once and disturbs nobody. Only one
//     who runs the effect himself stays, for that one effect, and then gets its
//     outcome.
//  18. Mark does not block and does not allocate.
//  19. Every(d) with Window: the d of 5 and 6 is what Window answers when the
//     first unsettled mark opens a window, brought into 0 … d. It is asked once a
//     window: later marks neither ask again nor push the effect back.
//  20. Gather: callers who come back as soon as they are answered become one
//     group. When an effect of half a millisecond or more ends that has released
//     more than one, the next begins when as many wait again as it has released
//     and had queued meanwhile, or after a quarter of the (smoothed) length of an
//     effect; 5, 6, 7 and 9 count from then on. The last to come runs the effect.
//     Urge and Close end a gather at once. After a gather in vain, to which less than
//     half of those came who were missing, the next effects are not gathered for: one,
//     then twice as many each time, up to 64.
//  21. MarkAndWait: the mark and the wait are one step. A lone caller runs the effect,
//     and nobody is rung for it; whoever else marks or waits meanwhile sees what he
//     would after Mark and Wait.
//  22. Gather of Options: before a shorter effect callers are gathered if there are
//     From, until Most wait, or Limit has passed; the rest is as 20.
//  23. Answer: it is told of every effect once, after it and before the next. The
//     callers of 20 and 22 are then the positions: who was marked when the effect
//     ended has queued, and who is marked during Answer is one of those answered.
//  24. Lead runs an effect if a Wait would run it at once, and never waits for one that
//     somebody else runs.
//  25. Fail answers those who wait for what is not marked, and nobody else.
package settle
