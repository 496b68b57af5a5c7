//! Steps: what each move does.

use super::promises::Promise;
use super::state::{Charge, Delivery, Fate, Node, Stage, State, TIMERS, Timer, Trial};
use super::{Move, TrialFault, Trials};

impl Trials {
    pub fn make_move(&self, state: &mut State, next: Move) {
        match next {
            Move::LeaseTake { node } => self.lease_take(state, node),
            Move::LeaseRelease { node } => {
                state.releases_left -= 1;
                state.is_released = true;
                let own = &mut state.nodes[node];
                (own.has_right, own.window) = (false, [None; TIMERS]);
                own.trials = [None; TIMERS];
            }
            Move::RightEnds { node } => {
                state.ends_left -= 1;
                state.nodes[node].has_right = false;
            }
            Move::RightEnded { node } => {
                let own = &mut state.nodes[node];
                for timer in 0..TIMERS {
                    if own.window[timer].is_some_and(|delivery| delivery.stage <= Stage::Armed) {
                        own.let_go(timer);
                    }
                }
            }
            Move::Crash { node } => {
                state.crashes_left -= 1;
                state.nodes[node] = Node::FRESH;
            }
            Move::Load { node, timer } => self.load(state, node, timer),
            Move::TrialNote { node } => self.trial_note(state, node),
            Move::TrialAlone { node, timer } => {
                let own = &mut state.nodes[node];
                own.trials[timer] = Some(Trial::Alone);
                set_stage(own, timer, Stage::Armed);
            }
            Move::TrialOver { node, timer } => state.nodes[node].trials[timer] = None,
            Move::Fire { node, timer } => set_stage(&mut state.nodes[node], timer, Stage::Fired),
            Move::SentBack { node, timer } => {
                let own = &mut state.nodes[node];
                if own.has_right_to(timer) {
                    state.backs_left -= 1;
                }
                set_stage(own, timer, Stage::Back);
            }
            Move::Back { node, timer } => self.back(state, node, timer),
            Move::TrialBegin { node, timer } => self.trial_begin(state, node, timer),
            Move::Call { node, timer } => call(state, node, timer),
            Move::TakeBack { node, timer } => self.take_back(state, node, timer),
            Move::Ack { node, timer } => settle(state, node, timer, Fate::Acked),
            Move::Bury { node, timer } => {
                if state.timers[timer].calls_alone < self.bounds.crash_attempts {
                    Promise::BuriedAfterCalls.set_broken(&mut state.broken);
                }
                settle(state, node, timer, Fate::Buried);
            }
            Move::Moved { node, timer } => self.moved(state, node, timer),
            Move::Lock { timer } => {
                state.locks_left -= 1;
                state.timers[timer].is_locked = true;
            }
            Move::Unlock { timer } => state.timers[timer].is_locked = false,
        }
    }

    fn lease_take(&self, state: &mut State, node: usize) {
        for timer in &mut state.timers {
            // The life before has ended. If it gave the lease back, it is no cause of anything.
            if timer.is_charged && !state.is_released {
                timer.charged_lives += 1;
            }
            timer.is_charged = false;
            if let Some(row) = &mut timer.row
                && self.is_broken(TrialFault::AllCharged)
            {
                (row.crashes, timer.is_charged) = (row.crashes + 1, true);
            }
        }
        state.epoch += 1;
        state.is_released = false;
        let own = &mut state.nodes[node];
        (own.epoch, own.has_right) = (state.epoch, true);
    }

    fn load(&self, state: &mut State, node: usize, timer: usize) {
        let Some(row) = state.timers[timer].row else {
            return;
        };
        let own = &mut state.nodes[node];
        let is_kept =
            self.is_broken(TrialFault::LoadedCharged) || self.is_broken(TrialFault::MovedCharged);
        let epoch = own.epoch;
        let charge = own.uncalled[timer].as_mut();
        let crashes = match charge.filter(|charge| charge.epoch == epoch && !is_kept) {
            Some(charge) => {
                charge.due = row.due;
                charge.crashes
            }
            None => row.crashes,
        };
        let stage = match crashes > self.bounds.crash_attempts {
            true => Stage::Armed,
            false => Stage::Waiting,
        };
        own.window[timer] = Some(Delivery {
            due: row.due,
            crashes,
            epoch: own.epoch,
            stage,
        });
        let stored = &state.timers[timer];
        if crashes > stored.charged_lives {
            Promise::ChargedForALife.set_broken(&mut state.broken);
        }
        if crashes > 1 + stored.calls_alone {
            Promise::ChargedForACall.set_broken(&mut state.broken);
        }
    }

    fn trial_note(&self, state: &mut State, node: usize) {
        let group: Vec<usize> = self.group(&state.nodes[node]).collect();
        for timer in group {
            let Some(delivery) = state.nodes[node].window[timer] else {
                continue;
            };
            if state.timers[timer].is_locked {
                continue;
            }
            let Delivery { due, epoch, .. } = delivery;
            let Some(row) = state.in_flight(timer, due, epoch) else {
                state.nodes[node].let_go(timer);
                continue;
            };
            row.crashes = 1;
            state.timers[timer].is_charged = true;
            let own = &mut state.nodes[node];
            self.is_charged_anew(own, timer);
            own.noted[timer] = Some(Charge {
                due,
                crashes: 0,
                epoch,
            });
            own.trials[timer] = Some(Trial::Together);
            set_stage(own, timer, Stage::Armed);
        }
    }

    fn trial_begin(&self, state: &mut State, node: usize, timer: usize) {
        let own = &mut state.nodes[node];
        let Some(delivery) = own.window[timer] else {
            return;
        };
        if own.is_on_trial(Some(timer)) && !self.is_broken(TrialFault::Together) {
            set_stage(own, timer, Stage::Back);
            return;
        }
        own.trials[timer] = Some(Trial::Alone);
        let is_locked = state.timers[timer].is_locked;
        let row = state.in_flight(timer, delivery.due, delivery.epoch);
        let Some(row) = row.filter(|_| !is_locked) else {
            set_stage(&mut state.nodes[node], timer, Stage::Back);
            return;
        };
        if !self.is_broken(TrialFault::BegunUnstored) {
            row.crashes = delivery.crashes + 1;
            state.timers[timer].is_charged = true;
        }
        let own = &mut state.nodes[node];
        self.is_charged_anew(own, timer);
        set_stage(own, timer, Stage::Begun);
    }

    /// A row is charged: what was to be taken back is overwritten.
    fn is_charged_anew(&self, own: &mut Node, timer: usize) {
        if !self.is_broken(TrialFault::TakenBackLate) {
            own.uncalled[timer] = None;
        }
    }

    /// A row comes back to the writer, which takes back what it was charged with.
    fn back(&self, state: &mut State, node: usize, timer: usize) {
        let own = &mut state.nodes[node];
        let Some(delivery) = own.window[timer] else {
            return;
        };
        own.let_go(timer);
        if delivery.crashes > 0 {
            own.uncalled[timer] = Some(Charge {
                due: delivery.due,
                crashes: delivery.crashes,
                epoch: delivery.epoch,
            });
        }
        if own.has_right && own.epoch == delivery.epoch {
            own.window[timer] = Some(Delivery {
                stage: Stage::Waiting,
                ..delivery
            });
        }
        if !state.timers[timer].is_locked {
            self.take_back(state, node, timer);
        } else if self.is_broken(TrialFault::HeldUpForgotten) {
            state.nodes[node].uncalled[timer] = None;
        }
    }

    fn take_back(&self, state: &mut State, node: usize, timer: usize) {
        let Some(charge) = state.nodes[node].uncalled[timer].take() else {
            return;
        };
        if self.is_broken(TrialFault::NoteKept) {
            return;
        }
        let epoch = match self.is_broken(TrialFault::TakenBackUnfenced) {
            true => state.epoch,
            false => charge.epoch,
        };
        let due = match state.timers[timer].row {
            Some(row) if self.is_broken(TrialFault::TakenBackAnywhere) => row.due,
            _ => charge.due,
        };
        if let Some(row) = state.in_flight(timer, due, epoch) {
            row.crashes = charge.crashes;
        }
    }

    fn moved(&self, state: &mut State, node: usize, timer: usize) {
        state.moves_left -= 1;
        let Some(row) = &mut state.timers[timer].row else {
            return;
        };
        row.due += 1;
        let own = &mut state.nodes[node];
        own.let_go(timer);
        if let Some(charge) = &mut own.uncalled[timer]
            && charge.epoch == own.epoch
            && !self.is_broken(TrialFault::MovedCharged)
        {
            charge.due = row.due;
        }
    }
}

fn set_stage(own: &mut Node, timer: usize, stage: Stage) {
    if let Some(delivery) = &mut own.window[timer] {
        delivery.stage = stage;
    }
}

fn call(state: &mut State, node: usize, timer: usize) {
    let own = &mut state.nodes[node];
    let Some(delivery) = own.window[timer] else {
        return;
    };
    let stored = &mut state.timers[timer];
    if delivery.crashes > 0 {
        stored.calls_alone += 1;
    } else {
        stored.was_called = true;
    }
    let mut others = (0..TIMERS).filter(|&other| other != timer && own.trials[other].is_some());
    let meets = others.any(|other| {
        own.window[other].is_some_and(|other| {
            other.stage == Stage::Called && (other.crashes > 0 || delivery.crashes > 0)
        })
    });
    if meets && own.trials[timer].is_some() {
        Promise::TrialsApart.set_broken(&mut state.broken);
    }
    set_stage(own, timer, Stage::Called);
}

/// Ends a delivery. What a life says that is over is refused.
fn settle(state: &mut State, node: usize, timer: usize, fate: Fate) {
    let own = &mut state.nodes[node];
    let Some(Delivery { due, epoch, .. }) = own.window[timer] else {
        return;
    };
    own.settled(timer);
    if state.in_flight(timer, due, epoch).is_some() {
        state.timers[timer] = Timer::settled(fate);
    }
}
