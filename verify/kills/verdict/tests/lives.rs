//! Lives: all that may become of a timer, in one ledger. Nothing is broken.

use super::tale::cases;

/// What goes on without trouble.
const CALM: &str = "
    arm 1 at 0 due 1000; A handles 1 at 1000; cancel 1 at 1500 refused
    arm N at 0 due 1000; A handles N at 1004
    arm 2 at 0 due 1000; cancel 2 at 500; cancel 2 at 600 refused
    arm 3 Flaky at 0 due 1000; A fails 3 at 1000; cancel 3 at 1010
    arm 4 Flaky at 0 due 1000; A fails 4 at 1000; A fails 4 at 1051; A handles 4 at 1102
    arm 5 at 0 due 1000; move 5 at 500 to 1500; A handles 5 at 1500
    arm 6 at 0 due 2000; move 6 at 500 to 800; A handles 6 at 800; move 6 at 801 to 1000 refused
    arm N+10 key k at 0 due 1000; arm N+11 key k at 500 due 1200; A handles N+11 at 1200
    arm N+12 key k at 1300 due 1500; move k at 1350 to 1600; cancel k at 1400
    cancel k at 1500 refused
    arm N+20 order at 0 due 1000; stored N+20; A handles N+20 at 1000
    arm N+21 order at 0 due 1000 unanswered; rollback N+21 at 2
    arm N+22 order at 0 due 1000 unanswered; stored N+22; A handles N+22 at 1000
    arm N+23 order at 0 due 1000 unanswered
    arm 30 InTransaction at 0 due 1000; A handles 30 at 1000; A handles 30 at 1051; done 30 1
    arm 40 Doomed at 0 due 1000; A fails 40 at 1000; A fails 40 at 1051; A fails 40 at 1102
    dead 40
    arm 41 Unknown at 0 due 1000; dead 41
    arm 50 at 0 due 1000 unanswered; doubt 50 at 10
    arm 51 at 0 due 1000; cancel 51 at 500 unanswered";

/// A node is killed while it handles, and another one is paused before its handler: another node
/// handles first, and a timer is cancelled meanwhile. Later the node has the lease again.
const TROUBLED: &str = "
    arm 60 at 20000 due 21000; A starts 60 at 21000; Kill A from 21000 to 21010
    B handles 60 at 21010+TTL
    arm 61 at 40000 due 41000; arm 62 at 40000 due 41000; PauseLong A from 41000 to 43000+TTL
    B handles 61 at 41100+TTL; A handles 61 at 43001+TTL
    B fails 62 at 41100+TTL; cancel 62 at 41110+TTL; A handles 62 at 43001+TTL told 41000
    arm 63 at 60000 due 61000; A3 handles 63 at 61000";

#[test]
fn no_life_breaks_a_promise() {
    // Again: 60 after the kill, 61 and 62 after the pause. N + 10 was replaced, and 51 may have
    // been cancelled. Calm and not to be found is N alone. In trouble are twice each of 60, 61 and
    // 62.
    let verdict = cases(
        &format!("{CALM}\n{TROUBLED}"),
        "=> | again 3, after_pause 1, unknown 2, dead 2, in_transaction 1, alone 2
         => | calm 1, calm_found 16, troubled 6, take_over 1, paused_over 2, others 0",
    );
    assert_eq!(verdict.calm.quantile_ns(1.0) / 100_000, 40);
}
