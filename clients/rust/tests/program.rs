//! The programs as they are started: wrong usage is one line and status 2.

use std::process::Command;

#[test]
fn wrong_usage_is_one_line_and_status_two() {
    let broken = std::env::temp_dir().join(format!("parley-rust-ticket-{}", std::process::id()));
    std::fs::write(&broken, "[]").expect("a file");
    let broken = broken.to_str().expect("a path");
    let session = ["--connect", "tcp://127.0.0.1:5", "--session-file", broken];
    for arguments in [
        &[][..],
        &["--connect", "nowhere"],
        &["--connect"],
        &["--nonsense"],
        &["more"],
        &["--interval", "0"],
        &["--interval", "x"],
        &["--interval", "NaN"],
        &["--interval", "1e300"],
        &["--kill-overdue=yes"],
        &session,
    ] {
        for program in [env!("CARGO_BIN_EXE_parley-fifo"), env!("CARGO_BIN_EXE_parley-easy")] {
            let ended = Command::new(program)
                .args(arguments)
                .env_remove("PARLEY_ENDPOINT")
                .env_remove("PARLEY_SESSION")
                .output()
                .expect("a program");
            let said = String::from_utf8_lossy(&ended.stderr);
            assert_eq!((ended.status.code(), said.lines().count()), (Some(2), 1), "{arguments:?}: {said}");
        }
    }
}
