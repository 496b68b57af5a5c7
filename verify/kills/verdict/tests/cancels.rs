//! What was cancelled, or replaced, is not handled.

use super::tale::cases;

/// Cancelled from 500 ms to 502 ms.
const CANCELLED: &str = "arm 7 at 0 due 400; cancel 7 at 500";

#[test]
fn a_cancelled_timer() {
    cases(
        CANCELLED,
        "
        # Handled after its cancel, or before it.
        A handles 7 at 503 => HandledCancelled 7
        A handles 7 at 498 => HandledCancelled 7
        # Its handler has failed before the answer of the cancel, after it, or does not end.
        A fails 7 at 500 =>
        A fails 7 at 501 until 503 => HandledCancelled 7
        A starts 7 at 450 => HandledCancelled 7
        # Its node was paused only then, or was killed: that is no pause.
        A handles 7 at 503; PauseLong A from 504 to 4000 => HandledCancelled 7
        A handles 7 at 503; Kill A from 495 to 510 => HandledCancelled 7
        # Cancelled twice. Of calls that overlap it is not known which one was the first.
        cancel 7 at 503 => HandledCancelled 7
        cancel 7 at 502 =>
        cancel 7 at 503 refused; cancel 7 at 600 unanswered =>
        move 7 at 503 to 900 => HandledCancelled 7
        dead 7 => Buried 7, HandledCancelled 7
        ",
    );
}

#[test]
fn a_cancel_that_does_not_say_true() {
    cases(
        "arm 7 at 0 due 400",
        "
        cancel 7 at 500 refused; A handles 7 at 503 =>
        cancel 7 at 500 unanswered; A handles 7 at 503 =>
        ",
    );
}

#[test]
fn cancelled_after_the_handler_under_the_last_lease_has_failed() {
    cases(
        "arm 7 at 0 due 400",
        "
        # The first node was paused in its handler, which goes on when the second one has failed.
        A handles 7 at 400 until 1302+TTL; PauseLong A from 401 to 1301+TTL
            B fails 7 at 500+TTL; cancel 7 at 510+TTL =>
        # It was paused before its handler, which is called when the second one has failed.
        PauseLong A from 401 to 1301+TTL; B fails 7 at 500+TTL
            A handles 7 at 1302+TTL told 400; cancel 7 at 1310+TTL =>
        # It was for the second node to fail.
        A fails 7 at 400; B handles 7 at 500; cancel 7 at 510 => HandledCancelled 7
        # Lines of two threads come in any order: the second attempt has not failed.
        A handles 7 at 460; A fails 7 at 400; cancel 7 at 510 => HandledCancelled 7
        ",
    );
}

/// Another node has cancelled it while its own one was paused.
#[test]
fn cancelled_in_a_pause() {
    cases(
        "arm 7 at 0 due 1000; PauseLong A from 1000 to 5300; B fails 7 at 4200; cancel 7 at 4300",
        "
        A handles 7 at 6300 told 1000 => | after_pause 1
        # Long after the pause, and by a node that was not paused.
        A handles 7 at 6301 told 1000 => HandledCancelled 7
        B handles 7 at 5300 => HandledCancelled 7
        ",
    );
}

#[test]
fn cancelled_and_committed_or_dead() {
    cases(
        "",
        "
        # The transaction of its handler was rolled back, though it had said Ok.
        arm 7 InTransaction at 0 due 400; A handles 7 at 400; cancel 7 at 500 =>
        .. done 7 1 => HandledCancelled 7
        arm 7 Unknown at 0 due 400; dead 7 =>
        .. cancel 7 at 500 refused =>
        .. cancel 7 at 600 => HandledCancelled 7
        ",
    );
}

/// Cancelled by its key, from 500 ms to 502 ms.
const KEY_CANCELLED: &str = "arm 7 key k at 0 due 400; cancel k at 500";

#[test]
fn a_cancelled_key() {
    cases(
        KEY_CANCELLED,
        "
        =>
        A handles 7 at 503 => HandledCancelled 7
        # Twice; but when a second timer has the key, or the second cancel has no answer.
        cancel k at 503 => HandledCancelled 7
        arm 8 key k at 503 due 900; cancel k at 506 =>
        cancel k at 600 unanswered =>
        # The first cancel counts.
        A handles 7 at 600; cancel k at 700 => HandledCancelled 7, HandledCancelled 7
        # Another timer is armed with the key, until the cancel is answered, or then.
        arm 8 key k at 501 due 900; A handles 7 at 503; A handles 8 at 900 =>
        arm 8 key k at 502 due 900; A handles 7 at 503; A handles 8 at 900 => HandledCancelled 7
        # Of another timer with the key it is not known whether it is there; it was rolled back.
        arm 8 key k at 100 due 900 unanswered; A handles 7 at 503 =>
        .. rollback 8 at 110 => HandledCancelled 7
        ",
    );
    cases(
        "",
        "
        # The key of another timer.
        arm 7 key k at 0 due 400; cancel m at 500; A handles 7 at 503 =>
        # The timer itself was armed while the cancel went on, or before.
        arm 7 key k at 400 due 400 until 500; cancel k at 500; A handles 7 at 503 =>
        arm 7 key k at 400 due 400 until 499; cancel k at 500
            A handles 7 at 503 => HandledCancelled 7
        # The second one may have come first: the first one may have been cancelled.
        arm 7 key k at 0 due 400; arm 8 key k at 2 due 900; cancel k at 500; A handles 8 at 900 =>
        # The second one has surely replaced the first one, which is handled though.
        arm 7 key k at 0 due 400; arm 8 key k at 300 due 900; cancel k at 500
            A handles 7 at 503 =>
        .. A handles 8 at 900 => HandledCancelled 8
        ",
    );
}

#[test]
fn handled_though_replaced() {
    // A watermark is up to 200 ms ahead of 502 ms.
    for (due, broken) in [(703, "HandledReplaced 7"), (702, "")] {
        cases(
            &format!(
                "arm 7 key k at 0 due {due}; arm 8 key k at 500 due 1500; A handles 8 at 1500"
            ),
            &format!(
                "
                =>
                A handles 7 at 703 => {broken}
                # It was replaced twice: the first time counts.
                arm 9 key k at 1600 due 1800; A handles 9 at 1800; A handles 7 at 1900 => {broken}
                # Before it was replaced, and before its deadline.
                I handles 7 at 400 => Early 7
                "
            ),
        );
    }
}

#[test]
fn it_is_not_known_whether_it_was_replaced() {
    cases(
        "arm 7 key k at 0 due 900; A handles 7 at 900",
        "
        # Both are armed at one time: which was the second?
        arm 8 key k at 2 due 1500; A handles 8 at 1500 =>
        # The other call has no answer, or was rolled back.
        arm 8 key k at 500 due 1500 unanswered =>
        .. rollback 8 at 502 =>
        # The other one has another key, or none.
        arm 8 key m at 500 due 1500; A handles 8 at 1500 =>
        arm 8 at 500 due 1500; A handles 8 at 1500 =>
        # It was replaced after it was handled.
        arm 8 key k at 950 due 1500; A handles 8 at 1500 =>
        ",
    );
}
