//! A client of the Parley dispatch protocol 1.0: it connects to a server, keeps a mirror of the
//! queue and the nodes, and asks a dispatcher what to do.
//!
//! A dispatcher is one function:
//!
//! ```no_run
//! use parley::{serve, Options, View};
//!
//! let mut first_come = |view: &mut View| {
//!     while let Some(job) = view.queue.head() {
//!         if !view.start(&job)? {
//!             break;
//!         }
//!     }
//!     Ok(())
//! };
//! let end = serve(&mut first_come, &Options { name: "first-come".into(), ..Options::default() })?;
//! # Ok::<(), parley::Error>(())
//! ```

mod cluster;
mod codec;
mod digest;
mod easy;
mod error;
mod limits;
pub mod messages;
pub mod program;
mod queue;
mod releases;
mod rules;
mod session;
#[cfg(test)]
mod tests;
mod ticket;
mod view;
mod wire;

pub use cluster::{Cluster, Shape};
pub use codec::{decode, encode};
pub use easy::Easy;
pub use error::{Error, Result};
pub use messages::Span;
pub use queue::{Job, Queue, RunningJob};
pub use releases::{planned_length, Releases, FOREVER, NEVER, SECOND_US};
pub use rules::{KillOverdue, Periodic};
pub use session::{serve, Dispatcher, Options, VERSION};
pub use view::View;
