//! Which code measures a job.

use crate::job::Job;
use crate::store::Store;
use crate::workload::Workload;
use crate::{arms, beside, fires, idle, killed};
use wheelwork_kit::line::Figures;

pub(crate) fn measure(job: &Job) -> Result<Figures, String> {
    let mut store = Store::new(job)?;
    match job.workload {
        Workload::ArmBulk => arms::measure(job, &store, 0),
        Workload::Arm => arms::measure(job, &store, job.count),
        Workload::FireAck => fires::measure(job, &store, job.timers(), 1),
        Workload::Lateness => {
            let count = job.timers() as f64 * job.time().as_secs_f64();
            fires::measure(job, &store, count as u64, job.time().as_millis() as u64)
        }
        Workload::Idle => idle::measure(job, &mut store),
        Workload::Killed => killed::measure(job, &store),
        Workload::BesideRandom | Workload::BesideHot => beside::measure(job, &store),
    }
}
