//! What a dispatcher must keep to take its session up again after a crash.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::messages::Resume;
use crate::{Error, Result};

/// Where the ticket of a session lies for the time that it is open; without a path in memory only.
pub struct TicketFile(pub Option<PathBuf>);

/// A session and the token that proves whose it is.
#[derive(Serialize, Deserialize)]
struct Ticket {
    session: String,
    token: String,
}

impl TicketFile {
    /// The ticket of a session that broke off: that of the environment, which a server sets that
    /// starts a dispatcher again (R-RES-12), or that of the file.
    pub fn find(&self) -> Result<Option<Resume>> {
        let named = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
        if let (Some(session), Some(token)) = (named("PARLEY_SESSION"), named("PARLEY_TOKEN")) {
            return Ok(Some(Resume { session, token }));
        }
        let Some(path) = &self.0 else { return Ok(None) };
        let content = match std::fs::read(path) {
            Ok(content) => content,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::Usage(format!("{}: {error}", path.display()))),
        };
        match serde_json::from_slice(&content) {
            Ok(Ticket { session, token }) => Ok(Some(Resume { session, token })),
            Err(_) => Err(Error::Usage(format!(
                "{}: not the file of a session; remove it to begin anew",
                path.display()
            ))),
        }
    }

    /// Notes the ticket of the session that is open now; only the user may read it.
    pub fn keep(&self, ticket: &Resume) -> Result<()> {
        let Some(path) = &self.0 else { return Ok(()) };
        write(path, ticket)
            .map_err(|error| Error::Usage(format!("{}: cannot be written: {error}", path.display())))
    }

    /// The session is over: there is nothing to take up.
    pub fn forget(&self) {
        if let Some(path) = &self.0 {
            // One that is not there any more need not be removed.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn write(path: &Path, ticket: &Resume) -> std::io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let mut options = std::fs::OpenOptions::new();
    options.create(true).write(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let Resume { session, token } = ticket.clone();
    options.open(&new)?.write_all(&serde_json::to_vec(&Ticket { session, token })?)?;
    std::fs::rename(&new, path)
}
