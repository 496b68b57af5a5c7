//! How timers end: handled, kept, or buried. What was armed is not lost, what was not armed is not
//! handled, and what is done in a transaction is done once.

use super::tale::cases;

#[test]
fn never_handled() {
    cases(
        "",
        "
        arm 7 at 0 due 1000 => Lost 7
        # A handler that fails, or does not end, has not handled it.
        .. A fails 7 at 1000 => Lost 7
        .. A starts 7 at 1060 => Lost 7
        # It was never surely armed.
        arm 7 at 0 due 1000 unanswered =>
        .. doubt 7 at 10 =>
        # It was cancelled, or may have been.
        arm 7 at 0 due 1000; cancel 7 at 500 => | unknown 0
        arm 7 at 0 due 1000; cancel 7 at 500 unanswered => | unknown 1
        arm 7 at 0 due 1000; cancel 7 at 500 refused => Lost 7 | unknown 0
        ",
    );
}

#[test]
fn never_handled_and_its_key_was_cancelled_or_replaced() {
    cases(
        "arm 7 key k at 0 due 1000",
        "
        # Before it was armed, while it was armed, and after that.
        cancel k at -3 => Lost 7
        cancel k at -1 =>
        cancel k at 1 =>
        cancel k at 500 =>
        cancel k at 500 refused => Lost 7
        .. cancel k at 600 unanswered =>
        # Another timer had the key then.
        arm 8 key k at -100 due 1000; cancel k at -50 => Lost 7
        # By a timer that was armed before, at the same time, or after it: one of the two.
        arm 8 key k at -3 due 1000 => Lost 7 | unknown 1
        arm 8 key k at -2 due 1000 => Lost 7 | unknown 1
        arm 8 key k at -1 due 1000; A handles 8 at 1000 => | unknown 1
        arm 8 key k at 1 due 1000; A handles 8 at 1000 => | unknown 1
        arm 8 key k at 500 due 1000; A handles 8 at 1000 => | unknown 1
        # By a timer that may be there; it was rolled back.
        arm 8 key k at 500 due 1000 unanswered =>
        .. rollback 8 at 510 => Lost 7
        ",
    );
}

#[test]
fn orders() {
    cases(
        "arm 7 order at 0 due 1000 unanswered",
        "
        =>
        # Its transaction has committed, though the answer was lost.
        stored 7 => Lost 7
        .. A handles 7 at 1000 =>
        rollback 7 at 2 =>
        .. A starts 7 at 1000 => HandledRolledBack 7
        A handles 7 at 1000 => HandledRolledBack 7
        .. stored 7 =>
        # Nobody was told its id: it is known by its number alone.
        stored 7; left 7 => Left 7
        ",
    );
    cases(
        "",
        "
        # Of a timer that needs no transaction the answer was lost.
        arm 7 at 0 due 1000 unanswered; A handles 7 at 1000 =>
        arm 7 order Unknown at 0 due 1000 unanswered =>
        .. stored 7 => Lost 7
        .. dead 7 =>
        ",
    );
}

#[test]
fn stored_at_the_end() {
    cases(
        "arm 7 at 0 due 1000",
        "
        left 7 => Left 7
        # Another one's row.
        A handles 7 at 1000; left 8 =>
        # Handled, or cancelled, and stored.
        .. left 7 => Left 7
        .. arm 8 at 0 due 1000; cancel 8 at 500 => Left 7, Left 8
        ",
    );
}

#[test]
fn buried_with_attempts_left() {
    for kind in ["Plain", "Flaky", "Batch", "Slow"] {
        let buried = format!("arm 7 {kind} at 0 due 1000; A fails 7 at 1000; dead 7 => Buried 7");
        cases("", &buried);
    }
    for kind in ["Doomed", "Unknown"] {
        let ends = "=> Lost 7 \n .. dead 7 => | dead 1";
        cases(&format!("arm 7 {kind} at 0 due 1000"), ends);
    }
    cases(
        "",
        "
        arm 7 InTransaction at 0 due 1000; dead 7 => Buried 7
        # Another one's letter.
        arm 7 at 0 due 1000; A handles 7 at 1000; dead 8 =>
        ",
    );
}

#[test]
fn once_in_its_transaction() {
    cases(
        "arm 7 InTransaction at 0 due 1000",
        "
        => Lost 7
        A handles 7 at 1000 => OnceInTransaction 7
        .. done 7 1 =>
        .. done 7 2 => OnceInTransaction 7
        # It was cancelled, after its transaction was rolled back.
        A handles 7 at 1000; cancel 7 at 1010 =>
        .. done 7 1 => HandledCancelled 7
        # By a handler that has failed; the second attempt has said Ok.
        A fails 7 at 1000; done 7 1 => OnceInTransaction 7
        .. B handles 7 at 1060 =>
        ",
    );
}
