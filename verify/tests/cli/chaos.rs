//! `chaos`.

use wheelwork_kit::said::{Said, assert_wrong, call};

fn chaos(words: &str) -> Said {
    call(env!("CARGO_BIN_EXE_chaos"), words)
}

#[test]
fn wrong_arguments_are_one_line() {
    assert_wrong(
        "chaos",
        chaos,
        &[
            "--minutes 0",
            "--minutes 20000",
            "--seed x",
            "--tick 1ms",
            "much",
        ],
    );
}

/// It has two threads that may print.
#[test]
#[cfg(target_os = "linux")]
fn an_output_that_nobody_takes_ends_it_without_a_panic() {
    let args = ["--minutes", "0.02"];
    wheelwork_kit::said::assert_ends_without_a_panic(env!("CARGO_BIN_EXE_chaos"), "chaos", &args);
}
