//! The digest of the state, with which a mirror is held against the server's (R-DIG-1).

use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::messages::Span;
use crate::View;

impl View {
    /// SHA-256 of the state as the mirror has it, over one line a fact, in hexadecimal. It costs as
    /// much as there are jobs and nodes.
    pub fn digest(&self) -> String {
        let mut lines = String::new();
        let mut line = |text: std::fmt::Arguments<'_>| {
            // Writing to a text never fails.
            let _ = writeln!(lines, "{text}");
        };
        line(format_args!("now {}", self.now_us));
        let mut pending: Vec<u64> = self.queue.iter().map(|job| job.number).collect();
        pending.extend(self.held.keys());
        pending.sort_unstable();
        pending.iter().for_each(|number| line(format_args!("pending {number}")));
        self.held.keys().for_each(|number| line(format_args!("held {number}")));
        for (number, running) in &self.running {
            line(format_args!("running {number} {} {}", running.start_us, written(&running.spans)));
        }
        self.cluster.totals().for_each(|(resource, free)| line(format_args!("free {resource} {free}")));
        for down in self.cluster.down_ranges() {
            line(format_args!("down {}-{}", down.first, down.last));
        }
        self.timers.iter().for_each(|(timer, at_us)| line(format_args!("timer {timer} {at_us}")));
        Sha256::digest(lines).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }
}

fn written(spans: &[Span]) -> String {
    let texts: Vec<String> =
        spans.iter().map(|span| format!("{}-{}*{}", span.first, span.last, span.chunks)).collect();
    texts.join(",")
}
