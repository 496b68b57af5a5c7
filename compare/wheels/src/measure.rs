//! Which code measures a job.

use crate::job::Job;
use crate::name::Name;
use crate::rounds;
use crate::subjects::bitwheel::BitWheel;
use crate::subjects::btree::Btree;
use crate::subjects::delay_queue::Queue;
use crate::subjects::heap::Heap;
use crate::subjects::hhwt::Hhwt;
use crate::subjects::nexus::Nexus;
use crate::subjects::queue;
use crate::subjects::schemes::{HashedWheel, LinkedWheel, OneWheel, OrderedList, UnorderedList};
use crate::subjects::wheelwork::Wheelwork;
use wheelwork_kit::line::Figures;
use wheelwork_kit::system;

pub(crate) fn measure(job: &Job) -> Result<Figures, String> {
    // The last core: the first one has more to do for the system.
    system::pin(0);
    match job.subject {
        Name::Wheelwork => rounds::measure::<Wheelwork>(job),
        Name::WheelworkDelayqueue => rounds::measure::<queue::Queue>(job),
        Name::NexusTimer => rounds::measure::<Nexus>(job),
        // Of uniform delays up to 60,000 ticks, a slot of the last gear gets a fifteenth.
        Name::Bitwheel => match job.timers {
            ..=1_000 => rounds::measure::<BitWheel<128>>(job),
            1_001..=10_000 => rounds::measure::<BitWheel<1_024>>(job),
            10_001..=100_000 => rounds::measure::<BitWheel<8_192>>(job),
            _ => rounds::measure::<BitWheel<81_920>>(job),
        },
        Name::Hhwt => rounds::measure::<Hhwt>(job),
        Name::Delayqueue => rounds::measure::<Queue>(job),
        Name::UnorderedList => rounds::measure::<UnorderedList>(job),
        Name::OrderedList => rounds::measure::<OrderedList>(job),
        Name::Heap => rounds::measure::<Heap>(job),
        Name::Btree => rounds::measure::<Btree>(job),
        Name::OneWheel => rounds::measure::<OneWheel>(job),
        Name::HashedWheel => rounds::measure::<HashedWheel>(job),
        Name::LinkedWheel => rounds::measure::<LinkedWheel>(job),
    }
}
