//! Thread name: the names of a service's threads, and of the pool's.

/// The bytes of a name that the system shows: Linux cuts the rest off.
const SHOWN_MAX: usize = if cfg!(any(target_os = "linux", target_os = "android")) {
    15
} else {
    63
};

/// The name of a thread: that of its service, and what it is. If the two are too long for the
/// system, the service's name is cut, so that numbers stay.
pub(super) fn thread_name(service: &str, what: &str) -> String {
    let room = SHOWN_MAX.saturating_sub(what.len() + 1);
    format!("{}-{what}", &service[..service.floor_char_boundary(room)])
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_shown() {
        assert_eq!(thread_name("db", "shard-4095"), "db-shard-4095");
        if SHOWN_MAX == 15 {
            assert_eq!(thread_name("wheelwork", "pool-0"), "wheelwor-pool-0");
            assert_eq!(thread_name("wheelwork", "shard-12"), "wheelw-shard-12");
        }
        // Of letters that take several bytes, none is cut in two.
        let name = thread_name(&"\u{e4}".repeat(40), "shard-1");
        assert!(
            name.ends_with("-shard-1") && name.len() <= SHOWN_MAX,
            "{name}"
        );
    }
}
