//! Faults: the steps of the protocols that a model can break, to show that it notices.
//!
//! A fault begins with the name of its step in the README of the step's room. The tests `broken_*`
//! of loom-tests set a fault and assert that the model fails. Outside loom [`broken`] is a constant
//! `false`, and the broken branches do not exist.

use std::sync::atomic::Ordering;

/// A step of a protocol that loom-tests can break, to show that its models notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// PushPublish: the lane publishes its tail with Relaxed.
    LanePublishRelaxed,
    /// DrainRelease: the shard hands emptied segments back with Relaxed.
    LaneReleaseRelaxed,
    /// A new lane is put on its inbox's list with Relaxed.
    LaneAttachRelaxed,
    /// EndCheck: the shard frees a lane of which it has not taken all messages.
    LaneEndUnread,
    /// EndCheck: the shard frees a lane of which messages wait.
    LaneEndWaiting,
    /// EndCheck: the shard frees a lane that has a recall to settle.
    LaneEndUnsettled,
    /// EndUnlink: the shard takes the first lane out by a store.
    LaneEndStored,
    /// EndFence: no fence between EndUnlink and EndLook.
    LaneEndUnfenced,
    /// EndLook: the shard frees lanes that another thread walks.
    LaneEndUnderWalk,
    /// WalkFence: no fence between WalkEnter and the walk.
    LaneWalkUnfenced,
    /// WalkLeave with Relaxed.
    LaneWalkLeftRelaxed,
    /// UnsureSettle: the shard takes each message that it settles for one that it has skipped.
    LaneUnsureSkipped,
    /// DrainFence: no fence between DrainClaim and DrainRead.
    LaneNoDrainFence,
    /// RecallFence: no fence between RecallMark and RecallConfirm.
    LaneNoRecallFence,
    /// RecallConfirm: no second look at `claimed`.
    LaneClaimIgnored,
    /// ReuseCheck: trim frees segments in which the producer may look.
    LaneTrimTooEarly,
    /// ReuseCheck: the producer reuses a segment with a recall that the shard has not settled.
    LaneReuseUnsettled,
    /// TrimLook: trim frees segments while the producer recalls.
    LaneTrimUnderRecall,
    /// TrimFence: no fence between PassDead and TrimLook.
    LaneTrimUnfenced,
    /// RecallEnter: no fence between RecallEnter and RecallCheck.
    LaneNoEnterFence,
    /// RecallLeave with Relaxed.
    LaneRecallLeftRelaxed,
    /// PushKey: a message's key is not noted.
    LaneKeyForgotten,
    /// PassDead: the shard does not note the recalled messages that it passes over.
    LanePassedUnnoted,
    /// DoubtVouch: messages in doubt that were not vouched for are vouched for with later ones.
    LaneDoubtsLeftOpen,
    /// A queue hands over without an order: the next owner of a lane does not see what the last one
    /// did.
    #[cfg(loom)]
    QueueRelaxed,
    /// ShareDate: the word for timers that share a reading covers only the last of them.
    ReadingForgetsOthers,
    /// ShareSend: a timer in doubt wakes no shard that sleeps until before it is due.
    DoubtWaits,
    /// ShareVouch: a reading vouches for timers that were armed too late for their date.
    ReadingVouchesBlindly,
    /// ShareFile: the shard reads the clock before it claims the messages in doubt.
    DoubtReadTooEarly,
    /// DoubtWord: the word of a later message replaces the word of an earlier one.
    LaneDoubtNotLeast,
    /// DoubtMark: the message is published before it is in doubt.
    LaneDoubtLate,
    /// PushReuse: the bits of doubt of a reused segment are not cleared.
    LaneDoubtKept,
    /// ReuseCheck: a segment is reused when all its messages are read, though the shard may still
    /// stand on it.
    LaneReuseTooEarly,
    /// ReuseEnter: a thread enters the chain though another one has `busy`.
    LaneBusyIgnored,
    /// ReuseLeave: the chain is left with Relaxed.
    LaneBusyRelaxed,
    /// RingFence: a ringer passes no fence between its push and RingLook.
    DoorbellNoRingFence,
    /// SleepFence: the shard passes no fence between SleepAnnounce and SleepLook.
    DoorbellNoSleepFence,
    /// SleepLook: the shard does not look at the lanes again after SleepAnnounce.
    DoorbellNoSecondLook,
    /// SleepLook: the look at the lanes leaves out the deferred tracks.
    LaneUnseenIgnored,
    /// SleepAnnounce: the shard announces its sleep with Relaxed.
    DoorbellAnnounceRelaxed,
    /// RingUnpark: the winner among the ringers does not unpark the shard.
    DoorbellNoUnpark,
    /// ClaimExchange: a store in place of the compare-and-swap.
    ClaimNotAtomic,
    /// ClaimLoad: the claim does not compare the generation.
    ClaimIgnoresGeneration,
    /// ClaimCompare: a worker's claim does not compare the deadline.
    ClaimIgnoresDeadline,
    /// DoomLeave: the first of the two threads that use a DOOMED cell frees it.
    LeaveAlone,
    /// DoomLeave: leaving a DOOMED cell publishes and acquires nothing.
    LeaveRelaxed,
    /// RearmFile: a re-arm that files the timer anew keeps its generation.
    RefileKeepsGeneration,
    /// RunFile: a run files its timer again without looking whether it was cancelled.
    RunFilesBlindly,
    /// RearmHold: a re-arm that meets a pause counts as overwritten, as one that meets a re-arm
    /// does.
    RearmOverPause,
    /// RearmLag: a move leaves the mark that the deadline was rounded up.
    RearmKeepsRounding,
    /// RunLast: the owner does not say that its run is the last one.
    RunLastUnmarked,
    /// ResumeFile: a resume files the timer without looking whether it was cancelled.
    ResumeFilesBlindly,
    /// RunBegin: a run that begins does not compare the generation.
    RunIgnoresGeneration,
    /// RunBegin: a run that begins does not compare the deadline.
    RunIgnoresDeadline,
    /// ClaimExchange: the winner of a claim publishes nothing.
    ClaimRelaxed,
    /// ClaimExchange: the loser of a claim acquires nothing.
    ClaimLostRelaxed,
    /// ArmPublish: arming publishes the content with Relaxed.
    ArmRelaxed,
    /// A magazine that its thread gives to the depot stays in use by the thread.
    MagazineKept,
    /// Fresh cells are handed out with Relaxed.
    FreshRelaxed,
    /// Fresh cells are handed out by a load and a store.
    FreshNotAtomic,
    /// RetireUnlink: a page is retired, and its highest generation is not noted.
    RetireForgetsGeneration,
    /// StripNote: cells that were stripped start at generation 0 again.
    StripForgetsGeneration,
    /// StripZero: a whole page is stripped, though somebody has a cell of it.
    StripAll,
    /// `membarrier` has no effect.
    #[cfg(loom)]
    BarrierSkipped,
    /// When the kernel refuses `membarrier`, nobody waits for threads that have passed a light
    /// fence.
    NotWaitedOut,
    /// When the kernel refuses `membarrier`, it counts as absent at once: other heavy sides do not
    /// wait.
    LeavingSkipped,
    /// A heavy side loads the state of `membarrier` after its own fence, not before.
    AbsentAskedLate,
    /// RetireGather: a page is retired though one of its cells is not gathered.
    RetireIncomplete,
    /// RetireGather: two shards gather pages at one time.
    GatherTogether,
    /// RetireFree: a page is freed at once.
    RetireAtOnce,
    /// PinSweep: the word of a thread that has not ended is freed.
    PinSweptInUse,
    /// PinFence: left out.
    PinUnfenced,
    /// RetireFence: left out.
    RetireUnfenced,
    /// RetireLook comes before RetireFence.
    LookedEarly,
    /// PinStore with Relaxed.
    PinRelaxed,
    /// Unpin with Relaxed.
    UnpinRelaxed,
    /// RetireUnlink comes after RetireLook: a page can be found when its memory is free.
    UnlinkedLate,
    /// A cell is looked up without a pin, though the thread holds no cell of its page.
    LookUpUnguarded,
    /// ScheduleRecheck: `schedule` does not look at `closed` again after it has armed the cell.
    StopNotSeenAfterArm,
    /// ScheduleRecheck: a `schedule` that takes its timer back from a stopped service, and finds it
    /// running, does not count its end.
    RunTakenBackNotCounted,
    /// ScheduleRecheck: such a `schedule` takes its timer from its run even where a stop fires all.
    RunTakenFromFireAll,
    /// RunRecheck: a run that has filed its timer again does not look again whether a stop fires
    /// all.
    RunNotSeenAfterFile,
    /// RunFile of a timer that was paused in its run has no fence before RunRecheck.
    RunPausedWithoutFence,
    /// RunOnce: the run of a timer for a time of day does not see that the timer was cancelled.
    RunUnawareOfCancel,
    /// RunOnce: or that it was paused.
    RunUnawareOfPause,
    /// SetRecheck: a run that has filed its timer by the wall clock does not look whether that was
    /// set meanwhile.
    SetNotSeenAfterFile,
    /// StopTell: the thread of a `stop_async` looks for a waker, and leaves the outcome at a later
    /// instant.
    StopToldTooEarly,
    /// StopAsync: the thread of a `stop_async` acts as one inside a task, and waits for nobody.
    StopAsyncWaitsForNobody,
    /// StopJoin: `stop` does not wait for the turn that a manual clock runs, and the turn does not
    /// look at its mark.
    StopTurnNotAwaited,
    /// StopClaim: a further `stop` does not wait until the first one has claimed everything.
    FurtherStopWaitsForNobody,
    /// A drain ends periodic timers that another stop has begun to fire.
    DrainEndsWhatFires,
    /// StopMark: a further `stop` marks what it would do itself.
    FurtherStopMarksItsOwn,
    /// StopFence: `stop` passes no fence between its mark and its scan of the cells.
    StopNoFence,
    /// FireBegin: a job does not count itself.
    JobNotCounted,
    /// CallFence: a thread that calls the attendant passes no fence before it looks whether the
    /// attendant sleeps.
    AttendantCalledWithoutFence,
    /// AttendFence: the attendant passes no fence before its look at the queues.
    AttendantSleepsWithoutFence,
    /// AttendLook: the attendant does not look at the queues again.
    AttendantSleepsBlindly,
    /// KeepFence: the attendant passes no fence before it looks whether it was deposed.
    AttendantLeavesWithoutFence,
    /// Depose: the thread that deposes the attendant passes no fence before its look at the queues.
    DeposedWithoutFence,
    /// WatchEnd: a shard that ends its watch passes no fence before its last look.
    UnwatchedWithoutFence,
    /// AttendPark: the attendant leaves though it has just been called.
    AttendantLeavesBlindly,
    /// AnnounceNote: an announcement is counted with Relaxed.
    AnnouncedRelaxed,
    /// HearNote: a thread counts what it has heard after it has taken work.
    HeardLate,
    /// HearAgain: a thread that has heard an announcement and finds no work looks no more.
    HeardInVain,
    /// HearAgain: a thread that finds no work passes no fence before it counts.
    HeardInVainUnfenced,
    /// HearNote: a thread passes no fence before it takes work.
    HeardUnfenced,
    /// CountMade comes after CountWork.
    MadeCountedLate,
    /// CountHeard comes before CountWork.
    HeardCountedEarly,
    /// CountHeard: no fence before it.
    CountedUnfenced,
    /// GrainFill: a grain's payloads are published with Relaxed.
    GrainFillRelaxed,
    /// SharedTake: a shared payload is taken by a load and a store.
    GrainTakeNotAtomic,
    /// HelpFence: a helper passes no fence before it looks how far the owner is.
    GrainHelpNoFence,
    /// OwnerShare, HelpShare: a store decides where the shared payloads begin.
    GrainSharedTwice,
    /// SharedTake: a thread that asks for shared payloads steps on, past the end too.
    GrainStepsPastEnd,
    /// JobBegin: a load and a store decide who is a job's first worker.
    JobBegunTwice,
    /// LeftLook: a grain that is claimed counts as filled.
    LeftByClaims,
    /// OfferTake: the look whether something is left to take leaves out runs of periodic timers.
    LeftWithoutRuns,
    /// OfferTake: an offer is taken with Relaxed.
    OfferRelaxed,
    /// OfferLeave: a thread that takes an offer leaves no other.
    OfferNotRenewed,
    /// FireBegin: a worker that helps with a job does not count itself.
    HelperNotCounted,
    /// FireBegin: a worker that helps with a job counts itself in the half of new jobs, not in its
    /// job's.
    HelperInPresentHalf,
    /// AwaitJobs: a thread that waits for jobs looks at only one half of them.
    WaitForOneHalf,
    /// FireEnd: a job says with Relaxed that it has ended.
    JobEndRelaxed,
    /// The thread that drops the contents of a dropped job does not count itself.
    AbandonNotCounted,
    /// CallOwn with Relaxed.
    CallOwnRelaxed,
    /// RunLeave with Relaxed.
    RunLeaveRelaxed,
    /// RunLook: an owner that leaves does not look for calls that came meanwhile.
    RunLeavesBlindly,
    /// CallMark with Relaxed.
    CallMarkRelaxed,
    /// A sleep that is polled with another waker keeps the first one.
    #[cfg(feature = "async")]
    SleepKeepsWaker,
    /// PollClock: a sleep whose timer is gone counts as over.
    #[cfg(feature = "async")]
    SleepTakesGoneForOver,
    /// ResetToPast: a sleep that is moved into the past wakes nobody.
    #[cfg(feature = "async")]
    SleepMovedInSilence,
}

/// Whether a step is broken on purpose: never, outside loom.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) const fn broken(_: Fault) -> bool {
    false
}

#[cfg(loom)]
std::thread_local! {
    /// The step that the running model breaks. loom runs all threads of a model on one OS thread.
    static FAULT: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Breaks one step of a protocol in the models that this thread runs from now on.
#[cfg(loom)]
pub fn set_fault(fault: Option<Fault>) {
    FAULT.set(fault);
}

/// Whether the running model breaks this step.
#[cfg(loom)]
pub(crate) fn broken(fault: Fault) -> bool {
    FAULT.get() == Some(fault)
}

/// The ordering of an access: `normal`, or Relaxed in the model that breaks this step.
#[inline(always)]
pub(crate) fn ordering(normal: Ordering, fault: Fault) -> Ordering {
    if broken(fault) {
        Ordering::Relaxed
    } else {
        normal
    }
}
