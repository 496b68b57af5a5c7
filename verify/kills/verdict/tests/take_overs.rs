//! Late after a kill or a pause: another node handles within the lease and 1 s.

use super::tale::cases;

const DUE: &str = "arm 7 at 40000 due FROM";
const KILLED: &str = "arm 7 at 40000 due FROM; Kill A from FROM to FROM+10";

#[test]
fn late_after_a_kill_or_a_pause() {
    cases(
        DUE,
        "
        Kill A from FROM to FROM+10; B handles 7 at FROM+LEASE => | take_over 1, paused_over 0, others 0, alone 1
        Kill A from FROM to FROM+10; B handles 7 at FROM+LEASE+1 => SlowTakeOver 7
        PauseLong A from FROM to FROM+TTL+500; B handles 7 at FROM+LEASE => | take_over 0, paused_over 1, others 0, alone 1
        PauseLong A from FROM to FROM+TTL+500; B handles 7 at FROM+LEASE+1 => SlowTakeOver 7
        # What ends no lease.
        PauseShort A from FROM to FROM+10; B handles 7 at FROM+LEASE+1 => | alone 0
        Add A from FROM to FROM+10; B handles 7 at FROM+LEASE+1 => | alone 0
        Stop A from FROM to FROM+10; B handles 7 at FROM+LEASE+1 => | alone 0
        ",
    );
    // Slow ones wait for others of their kind.
    cases(
        "arm 7 Slow at 40000 due FROM",
        "
        Kill A from FROM to FROM+10; B handles 7 at FROM+LEASE+1 =>
        PauseLong A from FROM to FROM+TTL+500; B handles 7 at FROM+LEASE+1 =>
        ",
    );
}

#[test]
fn by_its_deadline() {
    cases(
        "Kill A from FROM to FROM+10",
        "
        # From its deadline on, if that comes after the kill.
        arm 7 at 40000 due FROM+2000; B handles 7 at FROM+2000+LEASE =>
        arm 7 at 40000 due FROM+2000; B handles 7 at FROM+2001+LEASE => SlowTakeOver 7
        # From a second before the kill to a lease after it.
        arm 7 at 40000 due FROM-1000; B handles 7 at FROM+LEASE+1 => SlowTakeOver 7
        arm 7 at 40000 due FROM-1001; B handles 7 at FROM+LEASE+1 =>
        arm 7 at 40000 due FROM+TTL; B handles 7 at FROM+TTL+LEASE+1 => SlowTakeOver 7
        arm 7 at 40000 due FROM+TTL+1; B handles 7 at FROM+TTL+LEASE+2 =>
        # The first call counts.
        arm 7 at 40000 due FROM-500; A fails 7 at FROM-500; B fails 7 at FROM+LEASE
            B handles 7 at FROM+LEASE+100 => | take_over 1
        # It was handled before, and not again.
        arm 7 at 40000 due FROM; A handles 7 at FROM => | take_over 0
        ",
    );
}

#[test]
fn of_another_partition() {
    cases(
        DUE,
        "
        Kill A from FROM to FROM+10 of 4,6; B handles 7 at FROM+LEASE+1 => | take_over 0, others 0
        # Beside a pause that is measured; and it is not known what the node had.
        PauseLong A from FROM to FROM+TTL+500 of 4,6; B handles 7 at FROM+LEASE+1 => | paused_over 0, others 1, alone 1
        PauseLong A from FROM to FROM+TTL+500 of none; B handles 7 at FROM+LEASE+1 => | alone 0
        ",
    );
}

#[test]
fn armed_or_moved_in_the_trouble() {
    cases(
        "PauseLong A from FROM to FROM+5000",
        "
        # Its call was asked for before the pause, and reached the server after it.
        arm 7 at FROM-1 due FROM-1 until FROM+5009; B handles 7 at FROM+5010 =>
        arm 7 at FROM-1 due FROM-1 until FROM+5010; B handles 7 at FROM+5010 =>
        # It was there before the pause.
        arm 7 at FROM-1 due FROM-1 until FROM; B handles 7 at FROM+5010 => SlowTakeOver 7
        ",
    );
    cases(
        KILLED,
        "
        # It counts from the answer on.
        B handles 7 at FROM+LEASE+1; move 7 at FROM to FROM refused => SlowTakeOver 7
        B handles 7 at FROM+LEASE+1; move 7 at FROM to FROM =>
        ",
    );
}

#[test]
fn other_trouble_meanwhile() {
    // How long each trouble shows, in milliseconds.
    for (what, shows) in [
        ("Kill", "TTL-2000"),
        ("PauseLong", "TTL-2000"),
        ("PauseShort", "TTL-2000"),
        ("ServerKilled", "TTL-3000"),
        ("ServerEnded", "TTL-3000"),
        ("Promote", "TTL-3000"),
        ("Add", "2000"),
        ("Stop", "2000"),
        ("Stall", "1000"),
    ] {
        cases(
            &format!("{KILLED}; B handles 7 at FROM+LEASE+1"),
            &format!(
                "
                # It ends, and shows until the kill, or not quite; or it begins in time, or not.
                {what} from FROM-{shows}-10 to FROM-{shows} =>
                {what} from FROM-{shows}-11 to FROM-{shows}-1 => SlowTakeOver 7
                {what} from FROM+LEASE to FROM+LEASE+10 =>
                {what} from FROM+LEASE+1 to FROM+LEASE+10 => SlowTakeOver 7
                "
            ),
        );
    }
    // A timer that is armed when the pause is over waits from then on.
    cases(
        "PauseLong A from FROM to FROM+5000; arm 7 at FROM+5050 due FROM+2000 until FROM+5060
            B handles 7 at FROM+5060+LEASE+1",
        "
        ServerEnded from FROM+5100 to FROM+8000 =>
        ServerEnded from FROM+5060+LEASE to FROM+5060+LEASE+10 =>
        ServerEnded from FROM+5061+LEASE to FROM+5061+LEASE+10 => SlowTakeOver 7
        Snapshot from FROM+5100 to FROM+8000 => SlowTakeOver 7
        ",
    );
    cases(
        DUE,
        "
        # Until a long pause is over.
        PauseLong A from FROM to FROM+TTL+2000; B handles 7 at FROM+LEASE+1
            Stall from FROM+TTL+2000 to FROM+TTL+2500 =>
        PauseLong A from FROM to FROM+TTL+2000; B handles 7 at FROM+LEASE+1
            Stall from FROM+TTL+2001 to FROM+TTL+2501 => SlowTakeOver 7
        # A snapshot that is held is no excuse.
        Kill A from FROM to FROM+10; B handles 7 at FROM+LEASE+1
            Snapshot from FROM to FROM+1000 => SlowTakeOver 7
        ",
    );
}
