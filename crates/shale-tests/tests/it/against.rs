//! Promise: an importer gives nothing that the program which knows the format does not give, and
//! loses nothing without a word, also where an archive was changed.

use std::process::Command;

#[test]
fn changed_archives_are_read_as_their_programs_read_them() {
    let cases = std::env::var("SHALE_AGAINST").unwrap_or_else(|_| "60".to_owned());
    let mut command = Command::new(env!("CARGO_BIN_EXE_shale-against"));
    let output = command.args(["all", &cases, "27"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}
