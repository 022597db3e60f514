//! One session's socket: a message out, a message in.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use crate::codec::{bind, decode, encode};
use crate::messages::{Answer, ByeBody, ErrorBody, Question};
use crate::{Error, Result};

/// How often who waits looks whether the server is still there, and whether to go on, milliseconds.
const TICK_MS: i32 = 200;

/// A connection and what every message repeats.
pub struct Wire {
    endpoint: String,
    socket: zmq::Socket,
    monitor: zmq::Socket,
    /// Set by whoever wants the program to end.
    stop: Arc<AtomicBool>,
    session: Option<String>,
    epoch: Option<u64>,
    /// Of the server's last message.
    pub seq: u64,
    most_bytes: u64,
}

impl Wire {
    /// Connects to a server, be it not there yet.
    pub fn connect(endpoint: &str, stop: Arc<AtomicBool>) -> Result<Wire> {
        let wrong = |error: zmq::Error| {
            let like = "it looks like tcp://127.0.0.1:5555";
            Error::Usage(format!("'{endpoint}' is no endpoint to connect to ({error}); {like}"))
        };
        let context = zmq::Context::new();
        let socket = context.socket(zmq::DEALER).map_err(wrong)?;
        socket.set_linger(1000).map_err(wrong)?;
        socket.set_rcvtimeo(TICK_MS).map_err(wrong)?;
        socket.set_sndtimeo(TICK_MS).map_err(wrong)?;
        socket
            .monitor("inproc://monitor", i32::from(zmq::SocketEvent::DISCONNECTED.to_raw()))
            .map_err(wrong)?;
        let monitor = context.socket(zmq::PAIR).map_err(wrong)?;
        monitor.set_linger(0).map_err(wrong)?;
        monitor.connect("inproc://monitor").map_err(wrong)?;
        socket.connect(endpoint).map_err(wrong)?;
        let endpoint = endpoint.into();
        Ok(Wire {
            endpoint,
            socket,
            monitor,
            stop,
            session: None,
            epoch: None,
            seq: 0,
            most_bytes: 1 << 24,
        })
    }

    /// Speaks in the session of a welcome from now on.
    pub fn join(&mut self, welcome: &Answer, most_bytes: u64) {
        self.session.clone_from(&welcome.session);
        self.epoch = welcome.epoch;
        self.most_bytes = most_bytes;
    }

    /// Sends a hello and returns the answer to it, waiting for the server to appear.
    pub fn greet<B: Serialize>(&mut self, body: B, patience: Duration) -> Result<Answer> {
        self.send("hello", body, None)?;
        self.receive(Some(Instant::now() + patience))
    }

    /// Sends a message and returns the answer to it, waiting as long as the server lives.
    pub fn ask<B: Serialize>(&mut self, kind: &str, body: B, re: u64) -> Result<Answer> {
        self.send(kind, body, Some(re))?;
        self.receive(None)
    }

    /// Asks something while a request waits for its reply, and returns the body of the answer.
    pub fn aside<B: Serialize>(&mut self, kind: &str, body: B) -> Result<Value> {
        let due = match kind {
            "ping" => "pong",
            "progress" => "progress.ack",
            _ => "state.snapshot",
        };
        let answer = self.ask(kind, body, self.seq)?;
        if answer.kind == due {
            return Ok(answer.body);
        }
        Err(Error::Protocol(format!("a {due} was due, the server sent {:?}", answer.kind)))
    }

    /// Says bye where the server waits for this side and nothing else is left to be said: the
    /// session would wait for a resume otherwise. The answer changes nothing any more.
    pub fn leave(&mut self) {
        let body = ByeBody { reason: Some("cannot go on".into()) };
        if self.send("bye", body, Some(self.seq)).is_ok() {
            let _ = self.receive(Some(Instant::now() + Duration::from_secs(5)));
        }
    }

    fn send<B: Serialize>(&self, kind: &str, body: B, re: Option<u64>) -> Result<()> {
        let (session, epoch) = (self.session.clone(), self.epoch);
        let frame = encode(&Question { v: 1, kind: kind.into(), session, epoch, re, body })?;
        if frame.len() as u64 > self.most_bytes {
            let bytes = frame.len();
            return Err(Error::Decision(format!(
                "a {kind} of {bytes} bytes is more than the server takes"
            )));
        }
        match self.socket.send_multipart([&b""[..], &frame], 0) {
            Ok(()) => Ok(()),
            Err(error) => Err(Error::Lost(format!("the server at {} is gone ({error})", self.endpoint))),
        }
    }

    fn receive(&mut self, until: Option<Instant>) -> Result<Answer> {
        let frames = self.wait(until)?;
        let frame = frames.last().map(Vec::as_slice).unwrap_or_default();
        let answer: Answer = bind(decode(frame)?, "message")?;
        if answer.v != 1 {
            return Err(Error::Protocol("v: is not 1".into()));
        }
        self.seq = answer.seq.unwrap_or(self.seq);
        if answer.kind == "error" {
            return Err(Error::Refused(bind::<ErrorBody>(answer.body, "body")?));
        }
        if answer.session.is_none() || answer.epoch.is_none() || answer.seq.is_none() {
            return Err(Error::Protocol(format!("a {} without session, epoch or seq", answer.kind)));
        }
        if self.session.is_some() && (answer.session != self.session || answer.epoch != self.epoch) {
            return Err(Error::Protocol("a message of another session or epoch".into()));
        }
        Ok(answer)
    }

    /// Waits for a message: to the first for a while, to the others as long as the server lives.
    fn wait(&self, until: Option<Instant>) -> Result<Vec<Vec<u8>>> {
        loop {
            match self.socket.recv_multipart(0) {
                Ok(frames) => return Ok(frames),
                Err(zmq::Error::EAGAIN | zmq::Error::EINTR) => {}
                Err(error) => return Err(Error::Lost(format!("{}: {error}", self.endpoint))),
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            match until {
                Some(until) if Instant::now() > until => {
                    return Err(Error::Lost(format!("no server answered at {}", self.endpoint)));
                }
                Some(_) => {}
                None => self.look_for_server()?,
            }
        }
    }

    /// ZeroMQ connects again by itself, but as another client: what is waited for never comes.
    fn look_for_server(&self) -> Result<()> {
        while self.monitor.recv_multipart(zmq::DONTWAIT).is_ok() {
            if self.socket.poll(zmq::POLLIN, 0).unwrap_or(0) == 0 {
                return Err(Error::Lost(format!("the server at {} is gone", self.endpoint)));
            }
        }
        Ok(())
    }
}
