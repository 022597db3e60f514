//! A dispatcher's side of a session, over as many connections as it takes.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::codec::bind;
use crate::messages::*;
use crate::ticket::TicketFile;
use crate::wire::Wire;
use crate::{limits, Error, Result, View};

/// The version of this library.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The version of the protocol that is spoken here.
const PROTOCOL_VERSION: &str = "1.0";

/// Whoever decides.
pub trait Dispatcher {
    /// Starts, rejects or kills jobs by way of the view.
    ///
    /// # Errors
    /// Whatever ends the session.
    fn decide(&mut self, view: &mut View) -> Result<()>;
}

impl<F: FnMut(&mut View) -> Result<()>> Dispatcher for F {
    fn decide(&mut self, view: &mut View) -> Result<()> {
        self(view)
    }
}

/// How to reach a server, and as whom.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the server listens; `None` takes it from `PARLEY_ENDPOINT`.
    pub endpoint: Option<String>,
    /// The dispatcher's name, as the server is told.
    pub name: String,
    /// To be asked only where a pending job could start; for a dispatcher that does nothing else.
    pub actionable: bool,
    /// Which scenario, where a server offers several.
    pub scenario: Option<String>,
    /// Asks that each reply be carried out as a whole or not at all.
    pub atomic: bool,
    /// Asks that jobs may be brought in.
    pub submit: bool,
    /// Keeps what it takes to go on after a crash.
    pub session_file: Option<PathBuf>,
    /// How long to wait for a server to appear.
    pub patience: Duration,
    /// Ends the session as soon as somebody sets it.
    pub stop: Arc<AtomicBool>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            endpoint: None,
            name: "parley".into(),
            actionable: false,
            scenario: None,
            atomic: false,
            submit: false,
            session_file: None,
            patience: Duration::from_secs(60),
            stop: Arc::default(),
        }
    }
}

/// Decides for a server until its run is over, and returns how it ended.
///
/// # Errors
/// Any [`Error`]: no endpoint is known, the server did not appear, went away, sent an error or what
/// it cannot, or the dispatcher failed.
pub fn serve(dispatcher: &mut dyn Dispatcher, options: &Options) -> Result<SessionEndBody> {
    let named = options.endpoint.clone().or_else(|| std::env::var("PARLEY_ENDPOINT").ok());
    let Some(endpoint) = named.filter(|endpoint| !endpoint.is_empty()) else {
        let text = "where is the server? pass an endpoint, or set PARLEY_ENDPOINT";
        return Err(Error::Usage(text.into()));
    };
    let file = TicketFile(options.session_file.clone());
    let ticket = file.find()?;
    let mut session = Session { dispatcher, options, file, ticket, waited_for: false };
    loop {
        match session.converse(&endpoint) {
            Ok(end) => {
                session.file.forget();
                return Ok(end);
            }
            Err(_) if options.stop.load(Ordering::Relaxed) => return Err(Error::Interrupted),
            Err(Error::Lost(_)) if session.waited_for => {}
            Err(Error::Refused(body)) => {
                if body.code == "session.over" {
                    session.file.forget();
                }
                return Err(Error::Refused(body));
            }
            Err(error) => return Err(error),
        }
    }
}

struct Session<'a> {
    dispatcher: &'a mut dyn Dispatcher,
    options: &'a Options,
    file: TicketFile,
    ticket: Option<Resume>,
    /// The server holds the session for whoever resumes it.
    waited_for: bool,
}

impl Session<'_> {
    /// Decides over one connection until the run is over.
    fn converse(&mut self, endpoint: &str) -> Result<SessionEndBody> {
        self.waited_for = false;
        let mut wire = Wire::connect(endpoint, Arc::clone(&self.options.stop))?;
        let welcome = self.greet(&mut wire)?;
        let wire = Rc::new(RefCell::new(wire));
        let view = View::new(Rc::new(welcome), Some(Rc::clone(&wire)));
        let end = self.play(&wire, view);
        match &end {
            Ok(_) | Err(Error::Lost(_) | Error::Interrupted) => {}
            Err(Error::Refused(body)) if body.fatal => {}
            Err(_) => wire.borrow_mut().leave(),
        }
        end
    }

    fn play(&mut self, wire: &Rc<RefCell<Wire>>, mut view: View) -> Result<SessionEndBody> {
        let seq = wire.borrow().seq;
        let mut message = wire.borrow_mut().ask("ready", Empty {}, seq)?;
        let mut kept_back = 0;
        while message.kind == "decision.request" {
            message = self.answer(wire, &mut view, message.body, &mut kept_back)?;
        }
        if message.kind == "session.end" {
            return bind(message.body, "body");
        }
        Err(Error::Protocol(format!("a request was due, the server sent {:?}", message.kind)))
    }

    fn hello(&self) -> HelloBody {
        let options = self.options;
        HelloBody {
            versions: vec![PROTOCOL_VERSION.into()],
            client: Program {
                name: options.name.clone(),
                version: VERSION.into(),
                language: Some("rust".into()),
            },
            capabilities: Some(Capabilities {
                state: Some("events".into()),
                decisions: options.atomic.then(|| "atomic".into()),
                submit: options.submit.then_some(true),
            }),
            ask: options.actionable.then(|| "actionable".into()),
            wants: None,
            scenario: options.scenario.clone(),
            resume: self.ticket.clone(),
        }
    }

    /// Says hello and takes in the welcome.
    fn greet(&mut self, wire: &mut Wire) -> Result<WelcomeBody> {
        let mut answer = wire.greet(self.hello(), self.options.patience)?;
        if answer.kind != "welcome" {
            return Err(Error::Protocol(format!("a welcome was due, the server sent {:?}", answer.kind)));
        }
        let welcome: WelcomeBody = bind(std::mem::take(&mut answer.body), "body")?;
        if welcome.version != PROTOCOL_VERSION {
            return Err(Error::Protocol(format!("version {:?} was not offered", welcome.version)));
        }
        require_groups(&welcome.platform)?;
        wire.join(&answer, welcome.limits.message_bytes);
        let session = answer.session.unwrap_or_default();
        let ticket = Resume { session, token: welcome.token.clone() };
        self.file.keep(&ticket)?;
        self.ticket = Some(ticket);
        self.waited_for = welcome.policy.on_disconnect == "wait";
        Ok(welcome)
    }

    /// Lets the dispatcher decide on a request, and returns what the server says to that.
    ///
    /// `kept_back` is how many decisions of the last reply went beyond the limits.
    fn answer(
        &mut self,
        wire: &Rc<RefCell<Wire>>,
        view: &mut View,
        body: Value,
        kept_back: &mut usize,
    ) -> Result<Answer> {
        let began = Instant::now();
        let due = wire.borrow().seq;
        let mut request: DecisionRequestBody = bind(body, "body")?;
        view.take_back(&mut request, *kept_back);
        view.update(&request)?;
        if request.state_digest.as_ref().is_some_and(|digest| *digest != view.digest()) {
            // The mirror has drifted: it begins anew from the state (R-DIG-2).
            let body = wire.borrow_mut().aside("state.request", Empty {})?;
            view.load(&bind::<StateSnapshotBody>(body, "body")?.state)?;
        }
        self.dispatcher.decide(view)?;
        if let Some(reason) = view.leaving.take() {
            let seq = wire.borrow().seq;
            return wire.borrow_mut().ask("bye", ByeBody { reason }, seq);
        }
        let mut decisions = view.take_decisions();
        let keep = limits::within(&decisions, &view.welcome.limits);
        *kept_back = decisions.len() - keep;
        decisions.truncate(keep);
        let compute_us = Some(began.elapsed().as_micros() as u64);
        let reply = DecisionReplyBody { decisions, state_version: request.state_version, compute_us };
        let answer = wire.borrow_mut().ask("decision.reply", reply, due);
        answer
    }
}

/// More than any machine has; a mirror keeps some bytes for each.
const MOST_NODES: u64 = 1 << 27;

/// Refuses a platform that is none, before a mirror of it is made.
fn require_groups(platform: &Platform) -> Result<()> {
    if !(1..=MOST_NODES).contains(&platform.node_count) {
        return Err(Error::Protocol("body.platform.node_count: is no number of nodes".into()));
    }
    let outside = |group: &NodeGroup| group.first > group.last || group.last >= platform.node_count;
    match platform.groups.iter().position(outside) {
        None => Ok(()),
        Some(at) => {
            Err(Error::Protocol(format!("body.platform.groups.{at}: is not of the nodes of the platform")))
        }
    }
}
