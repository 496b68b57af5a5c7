//! When timers are handled: never early, and not forgotten.

use super::tale::cases;

#[test]
fn handled_early() {
    cases(
        "",
        "
        # The clocks are read to 2 ms.
        arm 7 at 0 due 1000; A handles 7 at 997 => Early 7
        arm 7 at 0 due 1000; A handles 7 at 998 =>
        # The handler is told of another deadline, though it is called in time.
        arm 7 at 0 due 1000; A handles 7 at 1000 told 997 => Early 7
        arm 7 at 0 due 1000; A handles 7 at 1000 told 998 =>
        # Each is within 2 ms of another, and the call is not within 2 ms of the deadline.
        arm 7 at 0 due 1000; A handles 7 at 997 told 998 => Early 7
        # Again, before it is due again.
        arm 7 at 0 due 1000; A fails 7 at 1000; A handles 7 at 1097 told 1100 => Early 7
        arm 7 at 0 due 1000; A fails 7 at 1000; A handles 7 at 1098 told 1100 =>
        # By the server's clock.
        arm 7 at 0 due 1000; A handles 7 at 1000 until 1002 clock 999999 => Early 7
        arm 7 at 0 due 1000; A handles 7 at 1000 until 1002 clock 1000000 =>
        # After a delay, from when the call was asked for.
        arm 7 at 500 in 1000; A handles 7 at 1497 told 1497 => Early 7
        arm 7 at 500 in 1000; A handles 7 at 1498 told 1498 =>
        # The server's clock is set: from 500 ms on it is 100 ms ahead.
        ahead 100 at 500; arm 7 at 0 due 1000; A handles 7 at 897 => Early 7
        ahead 100 at 500; arm 7 at 0 due 1000; A handles 7 at 898 =>
        ",
    );
}

#[test]
fn handled_though_paused() {
    cases(
        "",
        "
        KindPaused from 1000 to 4000; arm 7 Batch at 0 due 1201; A handles 7 at 3999
            => HandledPaused 7
        # It was resumed; or it is of another kind; or a node might have claimed it before.
        KindPaused from 1000 to 4000; arm 7 Batch at 0 due 1201; A handles 7 at 4000 =>
        KindPaused from 1000 to 4000; arm 7 at 0 due 1201; A handles 7 at 3999 =>
        KindPaused from 1000 to 4000; arm 7 Batch at 0 due 1200; A handles 7 at 3999 =>
        ",
    );
}

#[test]
fn forgotten() {
    cases(
        "",
        "
        arm 7 at 0 due 1000; A handles 7 at 1000+LATE =>
        arm 7 at 0 due 1000; A handles 7 at 1001+LATE => Forgotten 7
        # In trouble, too. A cancel without an answer is no move.
        .. ServerKilled from 1000 to 6000 => Forgotten 7
        .. cancel 7 at 500 unanswered => Forgotten 7
        # Slow ones wait for others of their kind.
        arm 7 Slow at 0 due 1000; A handles 7 at 1001+LATE =>
        # A move that was asked for then changes nothing.
        arm 7 at 0 due 1000; A fails 7 at 1001+LATE; move 7 at 1011+LATE to 1101+LATE
            A handles 7 at 1101+LATE => Forgotten 7
        # Due before it was armed: from when its call is answered, at 10,002 ms.
        arm 7 at 10000 due 1000; B handles 7 at 10002+LATE =>
        arm 7 at 10000 due 1000; B handles 7 at 10003+LATE => Forgotten 7
        # Without an answer, from when it was asked for.
        arm 7 at 10000 due 1000 unanswered; B handles 7 at 10000+LATE =>
        arm 7 at 10000 due 1000 unanswered; B handles 7 at 10001+LATE => Forgotten 7
        ",
    );
}
