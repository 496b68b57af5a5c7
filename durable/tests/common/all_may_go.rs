//! A gate that lets all rows go: none was handed out.

#![allow(dead_code, reason = "each test uses a part")]

use wheelwork_durable::DurableId;
use wheelwork_durable::contract::Gate;

pub struct AllMayGo;

impl Gate for AllMayGo {
    fn let_go(&mut self, _: DurableId) -> bool {
        true
    }
}
