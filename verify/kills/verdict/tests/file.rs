//! Files: a timer's process is killed, and the next one goes on. Lives are nodes here. The first
//! one is killed at 5 s, the second one at 8 s.

use super::tale::cases;

const KILLED: &str = "Kill A from 5000 to 5010; Kill B from 8000 to 8010";

/// With a timer that is due at 1 s.
const ARMED: &str =
    "Kill A from 5000 to 5010; Kill B from 8000 to 8010; arm 7 Sealed at 0 due 1000";

/// With a timer of whose arming nobody knows.
const IN_DOUBT: &str = "Kill A from 5000 to 5010; Kill B from 8000 to 8010
    arm 7 Sealed key k at 0 due 6000 unanswered";

#[test]
fn handled_or_cancelled() {
    cases(
        ARMED,
        "
        => Lost 7
        # A run that broke off has timers that are still to come.
        broken off =>
        A seals 7 at 1000 =>
        cancel 7 at 500 =>
        # Twice across a kill, but not in one life.
        A seals 7 at 1000; B seals 7 at 5100 => | again 1
        .. B seals 7 at 5200 => Doubled 7
        # By the clock that the handler has read: a millisecond is told apart.
        A seals 7 at 999 => Early 7
        A seals 7 at 1001 by -1 => Altered 7
        A seals 7 at 1001 by 1 => Altered 7
        A seals 7 at 1000; altered 9 at 1001 => Altered 0
        ",
    );
}

#[test]
fn what_was_cancelled_is_not_handled_but_in_an_earlier_life() {
    cases(
        KILLED,
        "
        # Before and after, in one life.
        arm 7 Sealed at 0 due 400; cancel 7 at 500; A seals 7 at 499 => HandledCancelled 7
        arm 7 Sealed at 0 due 400; cancel 7 at 500; A seals 7 at 503 => HandledCancelled 7
        # In an earlier life: its ack may have been cut off. In a later one not.
        arm 7 Sealed at 0 due 1000; A seals 7 at 1000; cancel 7 at 5100 by B => | after_kill 1
        .. C seals 7 at 8100 => HandledCancelled 7
        ",
    );
}

#[test]
fn a_cancel_without_an_answer_may_have_been_done() {
    cases(
        ARMED,
        "
        cancel 7 at 500 unanswered =>
        # It is asked again. Twice it cannot be done.
        .. cancel 7 at 5100 by B refused =>
        .. cancel 7 at 5200 by B; cancel 7 at 5300 by B => HandledCancelled 7
        ",
    );
}

#[test]
fn a_cancel_is_refused_only_when_it_is_late() {
    cases(
        &format!("{KILLED}; arm 7 Sealed at 0 due 4000"),
        "
        cancel 7 at 1990 refused; A seals 7 at 4000 => Refused 7
        cancel 7 at 2000 refused; A seals 7 at 4000 =>
        # It was handled, though early; or cancelled.
        A seals 7 at 1000; cancel 7 at 1500 refused => Early 7, Early 7
        cancel 7 at 1000; cancel 7 at 1500 refused =>
        ",
    );
}

#[test]
fn an_arm_without_an_answer_may_have_been_done() {
    cases(
        IN_DOUBT,
        "
        =>
        B seals 7 at 6000 =>
        # What was found is to be handled; what was not found is not.
        arm 7 Sealed key k at 0 due 6000 until 5100 => Lost 7
        .. B seals 7 at 6000 =>
        absent 7 at 5100 =>
        .. B seals 7 at 6000 => HandledAbsent 7
        ",
    );
}

#[test]
fn what_is_left_at_the_end() {
    cases(
        IN_DOUBT,
        "
        # In doubt, and not due long ago: it is cancelled then.
        found 7 at 8100; cancel 7 at 8200 by C =>
        # Due long ago. One that was handled waits for its ack.
        found 7 at 16000 =>
        found 7 at 16001; B seals 7 at 6000 =>
        found 7 at 16001 => Left 7
        # Found not to be there.
        absent 7 at 5100; found 7 at 8100 => HandledAbsent 7
        ",
    );
    cases(ARMED, "cancel 7 at 500; found 7 at 8100 => LeftCancelled 7");
}
