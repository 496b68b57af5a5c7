//! Moved timers: handled at their new deadlines, as far as it is known which one is the last.

use super::tale::cases;

const ARMED: &str = "arm 7 at 0 due 1000";

#[test]
fn handled_at_the_old_deadline() {
    cases(
        ARMED,
        "
        move 7 at 500 to 2000; A handles 7 at 1000 told 1000 => Early 7
        move 7 at 500 to 2000 refused; A handles 7 at 1000 =>
        move 7 at 500 to 2000 unanswered; A handles 7 at 1000 =>
        # The answer comes before the handler is called, or then.
        move 7 at 995 to 2000 until 999; A handles 7 at 1000 told 1000 => Early 7
        move 7 at 995 to 2000 until 1000; A handles 7 at 1000 told 1000 =>
        ",
    );
}

#[test]
fn handled_at_the_new_deadline() {
    cases(
        ARMED,
        "
        move 7 at 100 to 500; A handles 7 at 497 => Early 7
        move 7 at 100 to 500; A handles 7 at 498 =>
        move 7 at 100 to 500 refused; A handles 7 at 500 told 500 => Early 7
        # It has no answer, or was asked for only then.
        move 7 at 499 to 500 unanswered; A handles 7 at 500 told 500 =>
        move 7 at 500 to 500 unanswered; A handles 7 at 500 told 500 => Early 7
        ",
    );
}

#[test]
fn moved_twice() {
    cases(
        ARMED,
        "
        # To earlier, and to later again.
        move 7 at 100 to 500; move 7 at 200 to 2000; A handles 7 at 500 told 500 => Early 7
        # Calls that overlap: either may be the last one.
        move 7 at 100 to 500 until 120; move 7 at 110 to 2000 until 130
            A handles 7 at 500 told 500 =>
        move 7 at 100 to 500 until 120; move 7 at 120 to 2000 until 130
            A handles 7 at 500 told 500 =>
        move 7 at 100 to 500 until 120; move 7 at 121 to 2000 until 130
            A handles 7 at 500 told 500 => Early 7
        # A line of the first call is read after those of the second one.
        move 7 at 200 to 500; move 7 at 100 to 2000; A handles 7 at 500 told 500 =>
        # The first one has no answer: it may come to the server after the second one.
        move 7 at 100 to 500 unanswered; move 7 at 200 to 2000; A handles 7 at 500 told 500 =>
        ",
    );
}

#[test]
fn a_paused_node_handles_what_was_moved() {
    // Before its pause the timer was due. Another node has failed, and the timer was moved.
    for pause in ["PauseLong", "PauseShort"] {
        let paused = "B fails 7 at 4200; move 7 at 4300 to 9000";
        cases(
            &format!("{ARMED}; {pause} A from 1000 to 5300; {paused}"),
            "
            A handles 7 at 6300 told 1000; B handles 7 at 9000 told 9000 =>
            A handles 7 at 6301 told 1000; B handles 7 at 9000 told 9000 => Early 7
            ",
        );
    }
    // What was moved before the pause is early after it, too.
    cases(
        ARMED,
        "move 7 at 500 to 9000; PauseShort A from 1000 to 3000
            A handles 7 at 3001 told 1000 => Early 7",
    );
}

#[test]
fn moved_by_its_key() {
    cases(
        "arm 7 key k at 0 due 1000",
        "
        move k at 500 to 2000; A handles 7 at 1000 => Early 7
        move k at 500 to 2000 refused; A handles 7 at 1000 =>
        move k at 500 to 2000; A handles 7 at 2000 told 2000 =>
        # To earlier.
        move k at 100 to 500; A handles 7 at 500 told 500 =>
        move k at 100 to 500 refused; A handles 7 at 500 told 500 => Early 7
        # It was moved before it was armed. That call moves no timer that was not asked for yet.
        move k at -100 to 900 unanswered; A handles 7 at 1001+LATE => Forgotten 7
        move k at 100 to 900 unanswered; A handles 7 at 1001+LATE =>
        # Another timer may have the key: either has one of two deadlines.
        arm 8 key k at 100 due 1500 unanswered; move k at 500 to 2000; A handles 7 at 1000 =>
        arm 8 key k at 100 due 1500 unanswered; move k at 500 to 2000
            A handles 7 at 2000 told 2000 =>
        # The other one is armed at the very moment when the move is asked for.
        arm 8 key k at 300 due 1500 until 500; move k at 500 to 600
            A handles 7 at 600 told 600; A handles 8 at 1500 =>
        ",
    );
    cases(
        "",
        "
        # The other one has surely replaced the first one.
        arm 7 key k at 0 due 600; arm 8 key k at 100 due 1500; move k at 110 to 200
            A handles 8 at 200 => Early 8
        arm 7 key k at 0 due 300; arm 8 key k at 100 due 1500; move k at 110 to 200
            A handles 7 at 200 told 200; A handles 8 at 200 told 200 => Early 7
        ",
    );
}

#[test]
fn moved_after_it_was_handled() {
    cases(
        ARMED,
        "
        # The call was asked for after the handler was called, or before that.
        A handles 7 at 1000; move 7 at 1000 to 2000 => Lost 7
        A handles 7 at 1000; move 7 at 999 to 2000 =>
        A handles 7 at 1000; move 7 at 1010 to 2000 refused =>
        # The handler has failed, and the next one has not.
        A fails 7 at 1000; move 7 at 1010 to 2000 => Lost 7
        .. A handles 7 at 2000 =>
        ",
    );
}

#[test]
fn moved_to_what_is_past() {
    cases(
        ARMED,
        "
        # It can be handled from when the call is answered, at 10,002 ms.
        move 7 at 10000 to 900; B handles 7 at 10002+LATE =>
        move 7 at 10000 to 900; B handles 7 at 10003+LATE => Forgotten 7
        # Without an answer, at any moment.
        move 7 at 10000 to 900 unanswered; B handles 7 at 1001+LATE told 900 =>
        # A move that was refused changes nothing.
        move 7 at 10000 to 900 refused; B handles 7 at 1000+LATE =>
        move 7 at 10000 to 900 refused; B handles 7 at 1001+LATE => Forgotten 7
        ",
    );
}
