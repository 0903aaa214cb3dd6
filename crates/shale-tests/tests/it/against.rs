//! Promise: an importer reads what programs make as those programs do, and changed archives without
//! a panic, a hang, or much memory.

use std::process::Command;

#[test]
fn changed_archives_do_no_harm_and_others_are_read_as_by_their_programs() {
    let cases = std::env::var("SHALE_AGAINST").unwrap_or_else(|_| "20".to_owned());
    let mut command = Command::new(env!("CARGO_BIN_EXE_shale-against"));
    let output = command.args(["all", &cases, "27"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}
