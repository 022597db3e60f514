//! What the dispatchers of this folder have in common as programs: options, one line on what went
//! wrong, an exit status.

use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use crate::{serve, Dispatcher, Error, KillOverdue, Options, Periodic, Result};

/// Decides for one session by a rule, as the arguments of the process say, and returns the exit
/// status: 0 the run is complete, 1 it is not, 2 wrong usage, 130 interrupted.
pub fn run(name: &str, rule: Box<dyn Dispatcher>) -> ExitCode {
    match attempt(name, rule) {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(reason)) => tell(name, &format!("the run ended as {reason}"), 1),
        Err(Error::Usage(text)) => tell(name, &text, 2),
        Err(Error::Interrupted) => tell(name, "interrupted", 130),
        Err(error) => tell(name, &error.to_string(), 1),
    }
}

fn tell(name: &str, text: &str, status: u8) -> ExitCode {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // There is nobody left to be told that nobody can be told.
    let _ = writeln!(std::io::stderr(), "{name}: {line}");
    ExitCode::from(status)
}

/// Returns why the run is not complete, nothing if it is.
fn attempt(name: &str, rule: Box<dyn Dispatcher>) -> Result<Option<String>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        let _ = write!(std::io::stdout(), "usage: {name} [options]\n{HELP}");
        return Ok(None);
    }
    let (options, mut rule) = parse(name, rule, &arguments)?;
    let stop = Arc::clone(&options.stop);
    ctrlc::set_handler(move || stop.store(true, Ordering::Relaxed))
        .map_err(|error| Error::Usage(format!("signals cannot be heard: {error}")))?;
    let end = serve(rule.as_mut(), &options)?;
    Ok(if end.complete() { None } else { Some(end.reason) })
}

const HELP: &str = "  --connect ENDPOINT    where the server listens; PARLEY_ENDPOINT if not given
  --session-file PATH   keeps what it takes to go on after a crash; if it is there, go on
  --interval SECONDS    decide at multiples of so many seconds only
  --kill-overdue        first kill running jobs whose walltime is over
";

/// Reads the command line and puts around the rule what it asks for.
pub fn parse(
    name: &str,
    mut rule: Box<dyn Dispatcher>,
    arguments: &[String],
) -> Result<(Options, Box<dyn Dispatcher>)> {
    let mut options = Options { name: name.into(), actionable: true, ..Options::default() };
    let (mut interval, mut kill) = (None, false);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let (option, given) = match argument.split_once('=') {
            Some((option, value)) if option.starts_with("--") => (option, Some(value.to_string())),
            _ => (argument.as_str(), None),
        };
        let mut value = || {
            let next = given.clone().or_else(|| rest.next().cloned());
            next.ok_or_else(|| Error::Usage(format!("{option} takes a value")))
        };
        match option {
            "--connect" => options.endpoint = Some(value()?),
            "--session-file" => options.session_file = Some(value()?.into()),
            "--interval" => interval = Some(microseconds(&value()?)?),
            "--kill-overdue" if given.is_none() => kill = true,
            _ => return Err(Error::Usage(format!("there is no {argument:?}; --help lists what there is"))),
        }
    }
    if let Some(interval_us) = interval {
        rule = Box::new(Periodic::new(rule, interval_us));
    }
    if kill {
        rule = Box::new(KillOverdue(rule));
    }
    // Either does something while no pending job could start.
    options.actionable = interval.is_none() && !kill;
    Ok((options, rule))
}

/// Reads seconds, be it with a unit: 30, 0.5, 30s.
fn microseconds(text: &str) -> Result<u64> {
    let micros = text.strip_suffix('s').unwrap_or(text).parse().map(|seconds: f64| (seconds * 1e6).round());
    match micros {
        Ok(micros) if (1.0..=9e15).contains(&micros) => Ok(micros as u64),
        _ => Err(Error::Usage(format!("--interval is a number of seconds above 0, not {text:?}"))),
    }
}
