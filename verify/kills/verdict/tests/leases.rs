//! Handled again: only after a failure, or if something has ended the lease before.

use super::tale::cases;

/// A timer that was handled at 10 s; and 4 s later by a second node.
const HANDLED: &str = "arm 7 at 0 due 10000; A handles 7 at 10000";
const AGAIN: &str = "arm 7 at 0 due 10000; A handles 7 at 10000; B handles 7 at 14000";

#[test]
fn by_one_node_or_under_one_lease() {
    cases(
        HANDLED,
        "
        A handles 7 at 10100 => Doubled 7
        # No trouble is a reason for that.
        .. PauseLong A from 10050 to 10060; ServerKilled from 10050 to 10060
            Stall from 10050 to 10060 => Doubled 7
        B1 handles 7 at 14000; PauseLong A from 10001 to 14000 => Doubled 7
        # A failure of the second handler does not excuse it.
        A fails 7 at 10100 => Doubled 7
        # The first node has lost the lease, and has taken it again.
        A3 handles 7 at 14000 => Doubled 7
        .. ServerKilled from 10000 to 12000 => | again 1
        ",
    );
    cases(
        "",
        "
        # The first handler has failed before, or at the same moment.
        arm 7 at 0 due 10000; A fails 7 at 10000 until 10099; A handles 7 at 10100 told 10000 =>
        arm 7 at 0 due 10000; A fails 7 at 10000 until 10100
            A handles 7 at 10100 told 10000 => Doubled 7
        arm 7 at 0 due 10000; A fails 7 at 10000; B handles 7 at 10051 => | again 0
        # In its transaction: its table says how often it was done.
        arm 7 InTransaction at 0 due 10000; A handles 7 at 10000; A handles 7 at 10100
            B handles 7 at 14000; done 7 1 =>
        ",
    );
}

#[test]
fn by_another_node() {
    cases(
        AGAIN,
        "
        => Doubled 7 | again 0
        # Killed at some moment from the first call to the second one.
        Kill A from 9990 to 10000 => | again 1
        Kill A from 9990 to 9999 => Doubled 7
        Kill A from 14000 to 14010 => | again 1
        Kill A from 14001 to 14010 => Doubled 7
        Kill B from 12000 to 12010 => Doubled 7
        Kill C from 12000 to 12010 => Doubled 7
        # The machine stood still.
        Stall from 1000 to 10000-LEASE => | again 1
        Stall from 1000 to 9999-LEASE => Doubled 7
        Stall from 14000 to 15000 => | again 1
        Stall from 14001 to 15000 => Doubled 7
        # What ends no lease.
        Add A from 10500 to 11000 => Doubled 7
        Stop A from 10500 to 11000 => Doubled 7
        Snapshot A from 10500 to 11000 => Doubled 7
        ",
    );
    for what in ["PauseLong", "PauseShort"] {
        cases(
            AGAIN,
            &format!(
                "
                # From a lease before the first call, with a millisecond to note it.
                {what} A from 1000 to 9999-LEASE => | again 1
                {what} A from 1000 to 9998-LEASE => Doubled 7
                {what} A from 14000 to 15000 => | again 1
                {what} A from 14001 to 15000 => Doubled 7
                {what} B from 11000 to 13000 => | again 1
                {what} C from 11000 to 13000 => Doubled 7
                "
            ),
        );
    }
    for what in ["ServerKilled", "ServerEnded", "Promote"] {
        cases(
            AGAIN,
            &format!(
                "
                {what} from 1000 to 8000-LEASE => | again 1
                {what} from 1000 to 7999-LEASE => Doubled 7
                {what} from 14000 to 15000 => | again 1
                {what} from 14001 to 15000 => Doubled 7
                "
            ),
        );
    }
}

#[test]
fn a_node_handles_after_another_one() {
    cases(
        "arm 7 at 0 due 10000; B handles 7 at 13500",
        "
        A handles 7 at 15001 => Doubled 7
        # It was paused before its first instruction.
        PauseLong A from 10000 to 15000; A handles 7 at 15001 => | again 1
        # That is no reason for the other one to handle it twice.
        .. B handles 7 at 16000 => Doubled 7
        # It was paused only when the other node had the lease, or long before its handler.
        PauseShort A from 13501 to 15000; A handles 7 at 15000 => Doubled 7
        PauseShort A from 10000 to 14998-LEASE; A handles 7 at 15000 => Doubled 7
        ",
    );
}
