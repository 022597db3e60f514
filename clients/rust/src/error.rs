//! What may go wrong, each in one line.

use crate::messages::ErrorBody;

/// What comes of this library's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a session could not go on.
#[derive(Debug)]
pub enum Error {
    /// A fault of whoever started the program: an endpoint that is none, a file that holds
    /// something else.
    Usage(String),
    /// The server is gone, or never was there.
    Lost(String),
    /// The server does not speak the protocol; the text begins with the field in question.
    Protocol(String),
    /// The server sent an error.
    Refused(ErrorBody),
    /// The dispatcher decided what cannot be, such as to start a job that is not pending.
    Decision(String),
    /// The server told what cannot follow from what it had told before.
    Mirror(String),
    /// Somebody wants the program to end.
    Interrupted,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Usage(text) | Error::Lost(text) | Error::Decision(text) | Error::Mirror(text) => {
                f.write_str(text)
            }
            Error::Protocol(text) => write!(f, "the server does not speak the protocol: {text}"),
            Error::Refused(body) => {
                write!(f, "the server says {}: {}", body.code, body.message)?;
                if let Some(path) = body.path.as_deref().filter(|path| !path.is_empty()) {
                    write!(f, " ({path})")?;
                }
                match body.supported.as_deref() {
                    Some(supported) if !supported.is_empty() => {
                        write!(f, "; expected: {}", supported.join(", "))
                    }
                    _ => Ok(()),
                }
            }
            Error::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Error {}
