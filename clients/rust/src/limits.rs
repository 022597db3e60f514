//! How much goes into one reply (R-LIM-2).

use crate::messages::{Decision, Limits};

/// What a reply is made of beside its decisions: maps and arrays, and bytes at most.
const REPLY_CONTAINERS: u64 = 3;
const REPLY_BYTES: u64 = 512;

/// More than a decision of any kind takes without its spans and texts.
const DECISION_BYTES: u64 = 160;

/// More than a span takes: an array of three integers.
const SPAN_BYTES: u64 = 28;

/// How many decisions one reply may hold; those behind are taken for refused, and may be made again
/// at the next request.
pub(crate) fn within(decisions: &[Decision], limits: &Limits) -> usize {
    let most = limits.decisions.min(limits.array_items).min(decisions.len() as u64) as usize;
    let (mut containers, mut bytes) = (REPLY_CONTAINERS, REPLY_BYTES);
    for (at, decision) in decisions[..most].iter().enumerate() {
        let (more, size) = cost(decision);
        containers += more;
        bytes += size;
        if containers > limits.containers || bytes > limits.message_bytes {
            return at;
        }
    }
    most
}

/// The maps and arrays of a decision, and no fewer bytes than it takes.
fn cost(decision: &Decision) -> (u64, u64) {
    let text =
        |text: &Option<String>| (1, DECISION_BYTES + text.as_ref().map_or(0, |text| text.len() as u64));
    match decision {
        Decision::Start(start) => {
            let groups = start.allocation.iter().flatten().count() as u64;
            let spans = start.allocation.iter().flatten().flatten().count() as u64;
            (2 + groups + spans, DECISION_BYTES + 5 * groups + SPAN_BYTES * spans)
        }
        Decision::Submit(_) => {
            // What cannot be written is refused where it is written to be sent.
            let size = crate::encode(decision).map_or(0, |bytes| bytes.len() as u64);
            (size, size)
        }
        Decision::Reject(reject) => text(&reject.reason),
        Decision::Hold(hold) => text(&hold.reason),
        Decision::Stop(stop) => text(&stop.reason),
        Decision::Annotate(annotate) => text(&annotate.reason),
        _ => (1, DECISION_BYTES),
    }
}
