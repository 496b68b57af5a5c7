//! Prints the public interface of a crate, an item a line, from the JSON that rustdoc has written.
//! Left out is what says nothing of its own: blanket, automatic and derived implementations.

use public_api::Builder;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("takes the path of a JSON file");
        return ExitCode::from(2);
    };
    let interface = Builder::from_rustdoc_json(&path)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build();
    match interface {
        Ok(interface) => {
            print!("{interface}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{path}: {error}");
            ExitCode::FAILURE
        }
    }
}
