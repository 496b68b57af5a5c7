//! Faults: the steps of durable timers that the simulation can break, to show that it notices.
//!
//! A fault begins with the name of its step in the README. A test of `tests/durable_simulation.rs`
//! sets each, and asserts that a promise is broken in some seed. Without the feature `__faults`
//! [`is_broken`] is a constant `false`, and the broken branches do not exist.

/// A step of durable timers that the simulation can break.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurableFault {
    /// TurnTell: a caller is told that a timer is armed before that is stored.
    ToldBeforeCommit,
    /// TurnPlace: a timer that is armed into the loaded part of the window does not come into it.
    ArmNotPlaced,
    /// TurnPlace: nor does one that is to be tried again.
    RetryNotPlaced,
    /// TurnPlace: a timer comes into the window though a later change of its commit ends it.
    EndedPlaced,
    /// TurnCommit: what handlers have said is stored after the other changes of the commit.
    SettledLast,
    /// GateLetGo: the wheel is not asked. Its timer stays.
    GateNotAsked,
    /// GateLetGo: the wheel's answer does not count.
    GateUnheard,
    /// GateWithdraw: a timer that waits for a call, and is cancelled, is called all the same.
    WithdrawnStays,
    /// GateLetGo: a row whose key is taken goes, though it was handed out.
    KeyTakenBlindly,
    /// KeyReplace: it is not looked at whether the key has still the row that was read.
    ReplacedUnseen,
    /// RowAmend: it is not looked at whether a row that is moved is still due when it was read.
    AmendedUnseen,
    /// GateLetGo: a recurring row that is cancelled while it is handled runs on.
    StruckRunsOn,
    /// TurnLoad: the next slice begins after all rows of the last one's deadline.
    LoadSkipsEqualDeadlines,
    /// TurnLoad: a slice that is full counts as the last one.
    LoadStopsEarly,
    /// TurnLoad: a window that gives rows back keeps its position.
    ShrunkKeepsLoaded,
    /// TurnClaim: the watermark is published before it is stored.
    ClaimedBeforeCommit,
    /// RunAdmit: the watermark is not looked at.
    WatermarkIgnored,
    /// RunAdmit: the system's clock is not looked at.
    ClockIgnored,
    /// RunAdmit: a row that has waited for a place, or for its executor, is not looked at again.
    WaitedUnchecked,
    /// RunAdmit: a row that is sent back comes back, though another has taken its key.
    BackUnasked,
    /// The timers of the window stay where they are when the system's clock is set.
    ClockNotFollowed,
    /// Small steps of the system's clock, as in a slew, are forgotten one by one.
    SlewIgnored,
    /// A turn of the writer, which the store may keep from ending, is not to be seen.
    TurnNotPublished,
    /// SetTell: on a manual clock the writer is not told that the time of day was set.
    SetUntold,
    /// RunSettle: the writer is not told of a handler that has done its work.
    AckLost,
    /// RunSettle: nor of one that has failed.
    RetryLost,
    /// RunSettle: a delivery that is to come later counts as an attempt.
    LaterCounted,
    /// RunSettle: a timer that its handler gives up is tried again.
    GivenUpRetried,
    /// RunAdmit: a timer that has expired is handed out.
    ExpiryIgnored,
    /// LimitEnd: a future whose time limit is over goes on.
    LimitForgotten,
    /// TurnTake: requests are taken however large they are.
    BytesUnbounded,
    /// TurnTake: what handlers say comes behind the calls that wait.
    WordsBehindCalls,
    /// TurnSlice: slices have their full size, however long the store takes for them.
    PaceIgnored,
    /// TurnSlice: the first slice of a kind is taken for the last one.
    SliceLast,
    /// A row that was due by the watermark of an epoch that did not end well is charged with a
    /// crash, whether it was handed out or not.
    WatermarkCharged,
    /// TrialBegin: a suspect is handled before its crash is stored.
    TrialUnstored,
    /// TrialBegin: suspects that go alone go together.
    TrialsTogether,
    /// TrialNote: what was noted is not taken back, though the row was not handed out.
    NoteKept,
    /// TrialNote: a row that is moved after it was noted is not followed, so that it stays charged.
    MovedCharged,
    /// RunAdmit: it is not looked at whether the lease still lasts, and is the same.
    LeaseIgnored,
    /// LeaseCount: the lease is counted from when the store has answered.
    LeaseFromAnswer,
    /// LeaseRelease: a partition is given back while rows of it are being handled.
    LeaseGivenEarly,
    /// LeaseRest: a node that is to own no partition has them rest one by one.
    RestOneByOne,
    /// TurnClaim: rows of a partition are loaded beyond its watermark.
    LoadBeyondClaim,
    /// ScanBelow: rows that come in at the watermark or before it are not looked for.
    BelowNotScanned,
    /// TurnAside: a change that somebody's transaction holds up is forgotten.
    AsideForgotten,
    /// TurnAside: a later change of the same row or key overtakes it.
    AsideOvertaken,
    /// TurnAside: a row is handed out again, though its handler's answer is held up.
    AsideHandedOut,
    /// HoldPlan: a row that is to be held is forgotten.
    HoldForgotten,
    /// HeldRelease: a row that was held is due now, and not when it wanted to be.
    HeldReleasedNow,
    /// RulesRead: what the rules say is not heard.
    PauseIgnored,
    /// RulesFollow: what is paused no more is not released.
    ResumeForgotten,
    /// What is paused is buried, if it has waited for as long as a row without a handler may.
    PausedBuried,
    /// A row that waits for a handler is buried, however short it has waited.
    BuriedEarly,
    /// GiveAway: a partition stays with a node that lacks the kind of rows that wait there.
    GiveAwayIgnored,
    /// HoldPlan: rows are not held, and a program without handlers hands out what it has none for.
    LooksBuries,
    /// TurnFail: what was loaded before the store has failed counts as loaded afterwards.
    HealKeepsLoaded,
    /// TurnFail: the watermark stays published, and counts under another epoch.
    HealKeepsClaim,
    /// TurnFail: what handlers have said in the commit that failed is forgotten.
    HealForgetsAnswers,
    /// TurnFail: what handlers say while the store is away is forgotten.
    HealDeaf,
    /// TurnFail: callers of the commit that failed are told that nothing was stored.
    HealToldUnstored,
    /// TurnFail: what suspects were charged with in the commit that failed is not taken back.
    HealKeepsCharges,
    /// TurnBack: a store that nobody has had meanwhile begins a new epoch.
    HealRaisesEpoch,
    /// TurnBack: deliveries of an epoch that is over are still handed out.
    HealKeepsFence,
    /// A page of a list begins after all rows of the last one's deadline.
    CursorSkips,
    /// A list of a fleet does not look at held rows before it looks at the others.
    ReleasedUnlisted,
    /// TurnBack: leases that others have taken meanwhile go on.
    HealKeepsLeases,
    /// TurnSlice: a timer that a call has carried behind its place is moved again there.
    CarriedAgain,
    /// ThrottleAsk: limits are not asked.
    ThrottleIgnored,
    /// ThrottleHold: a row that is held by a limit comes into no queue.
    QueueForgotten,
    /// ThrottleRelease: a row that goes on counts as a newcomer.
    ReleasedNewcomer,
    /// ThrottleRelease: a row that was to go on, and was moved, keeps its room.
    ReleaseKept,
    /// ThrottleWant: a row that somebody has locked is not counted among those that wait.
    BlockedUncounted,
    /// ThrottleWant: a suspect that waits for a limit is not counted.
    SuspectsUncounted,
    /// ThrottleWant: the store is not told that a node wants no calls any more.
    WantKept,
    /// StopDeliver: a node that stops wants calls for timers that it will not begin.
    StopKeepsWants,
    /// RunSettle: a run that is done leaves no record.
    DoneLost,
    /// TurnCommit: a run leaves its record, though the store refuses the answer of its handler.
    DoneUnfenced,
    /// DoneForget: records are removed before their time.
    DoneForgottenEarly,
    /// A slice of records that cannot be read is taken for the end of the list.
    #[cfg(feature = "redb")]
    UnreadableEndsList,
}

/// Those that the simulation of a process notices, but for the steps of an outage and of a hold.
#[cfg(feature = "__faults")]
#[doc(hidden)]
pub const DURABLE_FAULTS: [DurableFault; 35] = [
    DurableFault::ToldBeforeCommit,
    DurableFault::ArmNotPlaced,
    DurableFault::RetryNotPlaced,
    DurableFault::EndedPlaced,
    DurableFault::SettledLast,
    DurableFault::GateNotAsked,
    DurableFault::GateUnheard,
    DurableFault::WithdrawnStays,
    DurableFault::KeyTakenBlindly,
    DurableFault::ReplacedUnseen,
    DurableFault::StruckRunsOn,
    DurableFault::LoadSkipsEqualDeadlines,
    DurableFault::LoadStopsEarly,
    DurableFault::ShrunkKeepsLoaded,
    DurableFault::ClaimedBeforeCommit,
    DurableFault::WatermarkIgnored,
    DurableFault::ClockIgnored,
    DurableFault::WaitedUnchecked,
    DurableFault::BackUnasked,
    DurableFault::ClockNotFollowed,
    DurableFault::SlewIgnored,
    DurableFault::TurnNotPublished,
    DurableFault::SetUntold,
    DurableFault::AckLost,
    DurableFault::RetryLost,
    DurableFault::LaterCounted,
    DurableFault::GivenUpRetried,
    DurableFault::ExpiryIgnored,
    DurableFault::BytesUnbounded,
    DurableFault::SliceLast,
    DurableFault::WatermarkCharged,
    DurableFault::TrialUnstored,
    DurableFault::NoteKept,
    DurableFault::MovedCharged,
    DurableFault::CursorSkips,
];

/// Whether a step is broken on purpose: never, without the feature `__faults`.
#[cfg(not(feature = "__faults"))]
#[inline(always)]
pub(crate) const fn is_broken(_: DurableFault) -> bool {
    false
}

#[cfg(feature = "__faults")]
thread_local! {
    /// The step that this thread breaks. On a manual clock it takes the turns, and runs handlers.
    static FAULT: std::cell::Cell<Option<DurableFault>> = const { std::cell::Cell::new(None) };
}

/// Breaks one step in all durable timers that this thread runs from now on.
#[cfg(feature = "__faults")]
#[doc(hidden)]
pub fn set_durable_fault(fault: Option<DurableFault>) {
    FAULT.set(fault);
}

/// Whether this thread breaks this step.
#[cfg(feature = "__faults")]
pub(crate) fn is_broken(fault: DurableFault) -> bool {
    FAULT.get() == Some(fault)
}
