//! What a dispatcher sees when it is asked, and the hands with which it decides.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use crate::cluster::{merged, Cluster, Shape};
use crate::messages::*;
use crate::queue::{Job, Queue, RunningJob};
use crate::releases::Releases;
use crate::wire::Wire;
use crate::{Error, Result};

/// The state of the simulation as a dispatcher knows it. A decision takes effect here at once, so
/// that the next one sees it; if the server refuses it, it is undone before the next request is
/// shown.
pub struct View {
    /// The present instant, microseconds since time 0.
    pub now_us: u64,
    pub queue: Queue,
    pub held: BTreeMap<u64, Rc<Job>>,
    pub running: BTreeMap<u64, Rc<RunningJob>>,
    /// The running jobs by the end of their walltime.
    pub releases: Releases,
    pub cluster: Cluster,
    /// Instants of the timers that wait, by number.
    pub timers: BTreeMap<u64, u64>,
    /// The workload holds no further job.
    pub exhausted: bool,
    /// Timers that fired since the last request.
    pub fired: Vec<u64>,
    /// Jobs that ended since the last request, be it to be requeued.
    pub ended: Vec<u64>,
    /// What the server refused of the last decisions.
    pub rejected: Vec<Outcome>,
    /// Counts how often everything known was replaced: whoever keeps something in mind begins anew.
    pub reloads: u64,
    /// What the server said of the session.
    pub welcome: Rc<WelcomeBody>,
    /// Pending and running jobs by the kind of slot that they ask for.
    kinds: HashMap<Kind, usize>,
    shapes: HashMap<Asked, Rc<Shape>>,
    decisions: Vec<Decision>,
    sent: Vec<Sent>,
    timer: u64,
    wire: Option<Rc<RefCell<Wire>>>,
    pub(crate) leaving: Option<Option<String>>,
}

/// Whether chunks are exclusive, and what each asks for.
type Asked = (bool, Vec<(String, u64)>);

/// What jobs compete for where nodes are slots: chunks of one shape, or whole nodes of the same
/// groups.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Kind {
    Chunk(usize),
    Nodes(Vec<bool>),
}

/// A decision on its way, with what it takes to undo it and to do it again.
#[derive(Clone)]
struct Sent {
    id: u64,
    deed: Deed,
}

#[derive(Clone)]
enum Deed {
    Start(Rc<Job>, Vec<Span>),
    Reject(Rc<Job>),
    Hold(Rc<Job>),
    Release(Rc<Job>),
    Wake(u64, u64),
    WakeCancel(u64, u64),
    /// What changes nothing here until an event tells.
    Other,
}

impl View {
    pub(crate) fn new(welcome: Rc<WelcomeBody>, wire: Option<Rc<RefCell<Wire>>>) -> View {
        View {
            now_us: 0,
            queue: Queue::default(),
            held: BTreeMap::new(),
            running: BTreeMap::new(),
            releases: Releases::default(),
            cluster: Cluster::new(Rc::new(welcome.platform.clone())),
            timers: BTreeMap::new(),
            exhausted: false,
            fired: Vec::new(),
            ended: Vec::new(),
            rejected: Vec::new(),
            reloads: 0,
            welcome,
            kinds: HashMap::new(),
            shapes: HashMap::new(),
            decisions: Vec::new(),
            sent: Vec::new(),
            timer: 0,
            wire,
            leaving: None,
        }
    }

    /// The view of a state at an instant, as a dispatcher sees it that is asked there: for trying a
    /// rule without a server.
    ///
    /// # Errors
    /// [`Error::Mirror`] if the state is none.
    pub fn of_state(welcome: WelcomeBody, now_us: u64, state: &State) -> Result<View> {
        let mut view = View::new(Rc::new(welcome), None);
        view.now_us = now_us;
        view.load(state)?;
        Ok(view)
    }

    // -------------------------------------------------------------------------- deciding

    /// Starts a pending job now on the lowest nodes that hold it, and tells whether there are such;
    /// if not, nothing has changed.
    ///
    /// # Errors
    /// [`Error::Decision`] if the job is not pending.
    pub fn start(&mut self, job: &Rc<Job>) -> Result<bool> {
        match self.cluster.first_fit(&job.shape, job.chunks) {
            Some(spans) => self.start_on(job, &spans).map(|()| true),
            None => Ok(false),
        }
    }

    /// Starts a pending job now on the nodes of the spans, which must have room for it.
    ///
    /// # Errors
    /// [`Error::Decision`] if the job is not pending.
    pub fn start_on(&mut self, job: &Rc<Job>, spans: &[Span]) -> Result<()> {
        self.require_pending(job)?;
        let spans = merged(spans);
        self.run(job, spans.clone(), self.now_us);
        let (id, kind) = (self.next_id(), "start".into());
        let allocation = Some(vec![spans.clone()]);
        let start = Start { id, kind, job: job.number, allocation };
        self.decide(Decision::Start(start), Deed::Start(Rc::clone(job), spans));
        Ok(())
    }

    /// Removes a pending job for good.
    ///
    /// # Errors
    /// [`Error::Decision`] if the job is not pending.
    pub fn reject(&mut self, job: &Rc<Job>, reason: Option<&str>) -> Result<()> {
        self.require_pending(job)?;
        self.take_from_queue(job);
        let (id, kind, reason) = (self.next_id(), "reject".into(), reason.map(String::from));
        let reject = Reject { id, kind, job: job.number, reason };
        self.decide(Decision::Reject(reject), Deed::Reject(Rc::clone(job)));
        Ok(())
    }

    /// Ends a running job at this instant; its nodes are free when its end is told.
    pub fn kill(&mut self, job: &Job) {
        let kill = Kill { id: self.next_id(), kind: "kill".into(), job: job.number };
        self.decide(Decision::Kill(kill), Deed::Other);
    }

    /// Ends a running job at this instant; it is pending again when that is told.
    pub fn requeue(&mut self, job: &Job) {
        let requeue = Requeue { id: self.next_id(), kind: "requeue".into(), job: job.number };
        self.decide(Decision::Requeue(requeue), Deed::Other);
    }

    /// Takes a pending job out of the queue until it is released.
    ///
    /// # Errors
    /// [`Error::Decision`] if the job is not pending.
    pub fn hold(&mut self, job: &Rc<Job>, reason: Option<&str>) -> Result<()> {
        self.require_pending(job)?;
        self.take_from_queue(job);
        self.held.insert(job.number, Rc::clone(job));
        let (id, kind, reason) = (self.next_id(), "hold".into(), reason.map(String::from));
        let hold = Hold { id, kind, job: job.number, reason };
        self.decide(Decision::Hold(hold), Deed::Hold(Rc::clone(job)));
        Ok(())
    }

    /// Puts a held job back in its place in the queue.
    ///
    /// # Errors
    /// [`Error::Decision`] if the job is not held.
    pub fn release(&mut self, job: &Rc<Job>) -> Result<()> {
        if self.held.remove(&job.number).is_none() {
            return Err(Error::Decision(format!("job {} ({}) is not held", job.number, job.name)));
        }
        self.join(Rc::clone(job));
        let release = Release { id: self.next_id(), kind: "release".into(), job: job.number };
        self.decide(Decision::Release(release), Deed::Release(Rc::clone(job)));
        Ok(())
    }

    /// Asks to be asked at an instant after now, and returns the timer's number.
    pub fn call_at(&mut self, at_us: u64) -> u64 {
        self.timer += 1;
        let timer = self.timer;
        self.timers.insert(timer, at_us);
        let wake = Wake { id: self.next_id(), kind: "wake".into(), timer, at_us };
        self.decide(Decision::Wake(wake), Deed::Wake(timer, at_us));
        timer
    }

    /// Gives up a timer that waits.
    ///
    /// # Errors
    /// [`Error::Decision`] if it does not.
    pub fn cancel(&mut self, timer: u64) -> Result<()> {
        let Some(at_us) = self.timers.remove(&timer) else {
            return Err(Error::Decision(format!("no timer {timer} waits")));
        };
        let cancel = WakeCancel { id: self.next_id(), kind: "wake.cancel".into(), timer };
        self.decide(Decision::WakeCancel(cancel), Deed::WakeCancel(timer, at_us));
        Ok(())
    }

    /// Notes when a pending job is expected to start, microseconds since time 0.
    pub fn annotate(&mut self, job: &Job, expected_start_us: u64) {
        let (id, kind) = (self.next_id(), "annotate".into());
        let expected_start_us = Some(expected_start_us);
        let annotate = Annotate { id, kind, job: job.number, expected_start_us, reason: None };
        self.decide(Decision::Annotate(annotate), Deed::Other);
    }

    /// Brings in a job, now or then. The capability must be granted.
    pub fn submit(&mut self, job: NewJob, at_us: Option<u64>) {
        let submit = Submit { id: self.next_id(), kind: "submit".into(), job, at_us };
        self.decide(Decision::Submit(submit), Deed::Other);
    }

    /// Ends the whole run here.
    pub fn stop(&mut self, reason: Option<&str>) {
        let stop = Stop { id: self.next_id(), kind: "stop".into(), reason: reason.map(String::from) };
        self.decide(Decision::Stop(stop), Deed::Other);
    }

    /// Says bye in the place of a reply: the run ends unfinished.
    pub fn leave(&mut self, reason: Option<&str>) {
        self.leaving = Some(reason.map(String::from));
    }

    /// Asks whether the server is there.
    ///
    /// # Errors
    /// Those of a session.
    pub fn ping(&mut self) -> Result<()> {
        self.aside("ping", Empty {}).map(|_| ())
    }

    /// Asks for more time, before half of the deadline has passed, and returns how much there is
    /// from now on, milliseconds.
    ///
    /// # Errors
    /// Those of a session.
    pub fn progress(&mut self, note: Option<&str>) -> Result<u64> {
        let body = self.aside("progress", ProgressBody { note: note.map(String::from) })?;
        crate::codec::bind::<ProgressAckBody>(body, "body").map(|body| body.deadline_ms)
    }

    fn aside<B: serde::Serialize>(&mut self, kind: &str, body: B) -> Result<serde_json::Value> {
        match &self.wire {
            Some(wire) => wire.borrow_mut().aside(kind, body),
            None => Err(Error::Usage("there is no server to be asked".into())),
        }
    }

    /// Hands over what was decided since the last call.
    pub fn take_decisions(&mut self) -> Vec<Decision> {
        std::mem::take(&mut self.decisions)
    }

    /// Whether all jobs, pending and running, ask for the same kind of slot, so that a job fits if
    /// as many slots are free as it asks for chunks.
    pub fn counts_slots(&self) -> bool {
        self.kinds.len() <= 1
    }

    fn next_id(&self) -> u64 {
        self.decisions.len() as u64
    }

    fn decide(&mut self, decision: Decision, deed: Deed) {
        self.sent.push(Sent { id: self.next_id(), deed });
        self.decisions.push(decision);
    }

    fn require_pending(&self, job: &Rc<Job>) -> Result<()> {
        if self.queue.holds(job) {
            return Ok(());
        }
        Err(Error::Decision(format!("job {} ({}) is not pending", job.number, job.name)))
    }

    // -------------------------------------------------------------- following the server

    /// Takes in a request: outcomes of the last decisions, then events (R-STATE-2).
    pub(crate) fn update(&mut self, request: &DecisionRequestBody) -> Result<()> {
        self.now_us = request.now_us;
        self.fired.clear();
        self.ended.clear();
        self.rejected.clear();
        if let Some(state) = &request.state {
            let refused = request.outcomes.iter().filter(|outcome| outcome.status != "applied");
            self.rejected.extend(refused.cloned());
            self.load(state)?;
            self.note(&request.events);
        } else if request.outcomes.iter().any(|outcome| outcome.at_us.is_some()) {
            self.catch_up(&request.outcomes, &request.events)?;
        } else {
            self.follow(&request.outcomes, &request.events)?;
        }
        self.sent.clear();
        Ok(())
    }

    /// Takes in outcomes of decisions that took no time, then events.
    fn follow(&mut self, outcomes: &[Outcome], events: &[Event]) -> Result<()> {
        // Backwards: a decision about a job may stand on one before it.
        for outcome in outcomes.iter().rev().filter(|outcome| outcome.status != "applied") {
            let deed = self.sent_as(outcome)?;
            self.undo(&deed, outcome.code.as_deref().unwrap_or_default())?;
            self.rejected.push(outcome.clone());
        }
        self.rejected.reverse();
        events.iter().try_for_each(|event| self.take(event))
    }

    /// Takes in what happened while decisions were on their way, and then they. Until then they
    /// hold nothing: a node may go down and come back meanwhile, and the start on it take effect
    /// none the less. They do so behind the events of their instant, save for the ends that they
    /// bring themselves.
    fn catch_up(&mut self, outcomes: &[Outcome], events: &[Event]) -> Result<()> {
        let sent = self.sent.clone();
        sent.iter().rev().try_for_each(|sent| self.undo(&sent.deed, ""))?;
        let effect = outcomes.iter().filter_map(|outcome| outcome.at_us).max().unwrap_or(0);
        let own: HashSet<u64> = sent
            .iter()
            .filter_map(|sent| match &sent.deed {
                Deed::Start(job, _) => Some(job.number),
                _ => None,
            })
            .collect();
        let mut settled = false;
        for event in events {
            let ends_own = matches!(event, Event::JobEnded(end) if own.contains(&end.job));
            if !settled && (event.at_us() > effect || ends_own) {
                settled = true;
                self.settle(outcomes)?;
            }
            self.take(event)?;
        }
        if settled {
            Ok(())
        } else {
            self.settle(outcomes)
        }
    }

    fn settle(&mut self, outcomes: &[Outcome]) -> Result<()> {
        for outcome in outcomes {
            if outcome.status == "applied" {
                let deed = self.sent_as(outcome)?;
                self.redo(&deed, outcome.at_us.unwrap_or(self.now_us));
            } else {
                self.rejected.push(outcome.clone());
            }
        }
        Ok(())
    }

    /// Lets a request say of the decisions that were beyond the limits, the last so many of those
    /// made, that they are refused.
    pub(crate) fn take_back(&self, request: &mut DecisionRequestBody, kept_back: usize) {
        let at_us = request.outcomes.iter().find_map(|outcome| outcome.at_us);
        for sent in &self.sent[self.sent.len().saturating_sub(kept_back)..] {
            request.outcomes.push(Outcome {
                id: sent.id,
                status: "rejected".into(),
                code: Some("limit.decisions".into()),
                at_us,
                ..Outcome::default()
            });
        }
    }

    fn sent_as(&self, outcome: &Outcome) -> Result<Deed> {
        match self.sent.binary_search_by_key(&outcome.id, |sent| sent.id) {
            Ok(at) => Ok(self.sent[at].deed.clone()),
            Err(_) => {
                Err(mirror(format!("the server tells of decision {}, which was not sent", outcome.id)))
            }
        }
    }

    /// Lets a decision that was undone take effect at an instant.
    fn redo(&mut self, deed: &Deed, at_us: u64) {
        match deed {
            Deed::Start(job, spans) => self.run(job, spans.clone(), at_us),
            Deed::Reject(job) => self.take_from_queue(job),
            Deed::Hold(job) => {
                self.take_from_queue(job);
                self.held.insert(job.number, Rc::clone(job));
            }
            Deed::Release(job) => {
                self.held.remove(&job.number);
                self.join(Rc::clone(job));
            }
            Deed::Wake(timer, at) => {
                self.timers.insert(*timer, *at);
            }
            Deed::WakeCancel(timer, _) => {
                self.timers.remove(timer);
            }
            Deed::Other => {}
        }
    }

    /// Takes a decision back that was refused with a code, or has not taken effect yet.
    fn undo(&mut self, deed: &Deed, code: &str) -> Result<()> {
        let gone = code == "job.unknown" || code == "job.not_pending";
        match deed {
            Deed::Start(job, _) => {
                self.end(job.number)?;
                self.return_unless(gone, job);
            }
            Deed::Hold(job) => {
                self.held.remove(&job.number);
                self.return_unless(gone, job);
            }
            Deed::Reject(job) => self.return_unless(gone, job),
            Deed::Release(job) => {
                self.take_from_queue(job);
                if !gone {
                    self.held.insert(job.number, Rc::clone(job));
                }
            }
            Deed::Wake(timer, _) => {
                self.timers.remove(timer);
            }
            Deed::WakeCancel(timer, at_us) => {
                if code != "timer.unknown" {
                    self.timers.insert(*timer, *at_us);
                }
            }
            Deed::Other => {}
        }
        Ok(())
    }

    fn return_unless(&mut self, gone: bool, job: &Rc<Job>) {
        if !gone {
            self.join(Rc::clone(job));
        }
    }

    /// Takes in of events what the full state beside them does not say.
    fn note(&mut self, events: &[Event]) {
        for event in events {
            match event {
                Event::JobEnded(end) => self.ended.push(end.job),
                Event::TimerFired(fired) => self.fired.push(fired.timer),
                _ => {}
            }
        }
    }

    /// Lets an event happen.
    fn take(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::JobSubmitted(event) => {
                let job = self.job(&event.job)?;
                self.join(job);
            }
            Event::JobEnded(event) => {
                self.ended.push(event.job);
                let running = self.end(event.job)?;
                if event.status == "requeued" {
                    self.join(Rc::clone(&running.job));
                }
            }
            Event::JobStarted(event) => {
                let spans = self.spans_of(&event.allocation)?;
                let Some(job) = self.queue.iter().find(|job| job.number == event.job).cloned() else {
                    let text = "the server started job";
                    return Err(mirror(format!("{text} {}, which is not pending here", event.job)));
                };
                self.run(&job, spans, event.at_us);
            }
            Event::TimerFired(event) => {
                self.fired.push(event.timer);
                self.timers.remove(&event.timer);
            }
            Event::NodeDown(event) => self.set_down(&event.nodes, true)?,
            Event::NodeUp(event) => self.set_down(&event.nodes, false)?,
            Event::WorkloadExhausted(_) => self.exhausted = true,
            Event::SessionStart(_) | Event::Unknown(_) => {}
        }
        Ok(())
    }

    fn set_down(&mut self, nodes: &[NodeRange], down: bool) -> Result<()> {
        for NodeRange(first, last) in nodes {
            self.require_nodes(*first, *last)?;
            self.cluster.set_down(*first, *last, down);
        }
        Ok(())
    }

    fn require_nodes(&self, first: usize, last: usize) -> Result<()> {
        if first <= last && last < self.cluster.node_count() {
            return Ok(());
        }
        Err(mirror(format!("there are no nodes {first} to {last}")))
    }

    /// Moves a job from the queue to its nodes.
    fn run(&mut self, job: &Rc<Job>, spans: Vec<Span>, at_us: u64) {
        self.cluster.take(&job.shape, &spans);
        self.queue.remove(job);
        let running = Rc::new(RunningJob { job: Rc::clone(job), start_us: at_us, spans });
        self.releases.add(&running);
        self.running.insert(job.number, running);
    }

    /// Takes a job off its nodes.
    fn end(&mut self, number: u64) -> Result<Rc<RunningJob>> {
        let Some(running) = self.running.remove(&number) else {
            return Err(mirror(format!("job {number} ended, which does not run here")));
        };
        self.cluster.release(&running.job.shape, &running.spans);
        self.releases.remove(&running);
        self.forget_kind(&running.job);
        Ok(running)
    }

    fn join(&mut self, job: Rc<Job>) {
        self.note_kind(&job);
        self.queue.add(job);
    }

    fn take_from_queue(&mut self, job: &Job) {
        self.queue.remove(job);
        self.forget_kind(job);
    }

    fn kind(&self, job: &Job) -> Kind {
        if job.shape.exclusive {
            return Kind::Nodes(self.cluster.kinds_of_nodes(&job.shape));
        }
        Kind::Chunk(job.shape.number)
    }

    fn note_kind(&mut self, job: &Job) {
        *self.kinds.entry(self.kind(job)).or_default() += 1;
    }

    fn forget_kind(&mut self, job: &Job) {
        let kind = self.kind(job);
        if let Some(count) = self.kinds.get_mut(&kind) {
            *count -= 1;
            if *count == 0 {
                self.kinds.remove(&kind);
            }
        }
    }

    /// Begins anew from a full state (R-RES-10).
    pub(crate) fn load(&mut self, state: &State) -> Result<()> {
        self.queue = Queue::default();
        (self.held, self.running, self.timers) = Default::default();
        (self.releases, self.kinds) = Default::default();
        self.cluster = Cluster::new(Rc::new(self.welcome.platform.clone()));
        let held: HashSet<u64> = state.held.iter().copied().collect();
        for wire in &state.pending {
            let job = self.job(wire)?;
            if held.contains(&job.number) {
                self.held.insert(job.number, job);
            } else {
                self.join(job);
            }
        }
        for entry in &state.running {
            let job = self.job(&entry.job)?;
            let spans = self.spans_of(&entry.allocation)?;
            self.note_kind(&job);
            self.run(&job, spans, entry.start_us);
        }
        for NodeRun(first, last, _, service) in &state.nodes {
            if service == "down" {
                self.set_down(&[NodeRange(*first, *last)], true)?;
            }
        }
        self.timers = state.timers.iter().map(|entry| (entry.timer, entry.at_us)).collect();
        self.timer = self.timers.keys().next_back().copied().unwrap_or(self.timer).max(self.timer);
        self.exhausted = state.exhausted;
        self.reloads += 1;
        Ok(())
    }

    fn spans_of(&self, allocation: &[Vec<Span>]) -> Result<Vec<Span>> {
        let [spans] = allocation else {
            let groups = allocation.len();
            return Err(mirror(format!("an allocation of {groups} groups; this client knows one")));
        };
        spans.iter().try_for_each(|span| self.require_nodes(span.first, span.last))?;
        Ok(merged(spans))
    }

    fn job(&mut self, wire: &JobDescription) -> Result<Rc<Job>> {
        let [group] = wire.request.as_slice() else {
            let (job, groups) = (wire.job, wire.request.len());
            let text = "groups of chunks; this client knows one";
            return Err(mirror(format!("job {job} asks for {groups} {text}")));
        };
        Ok(Rc::new(Job {
            number: wire.job,
            name: wire.name.clone(),
            submit_us: wire.submit_us,
            walltime_us: wire.walltime_us,
            chunks: group.chunks,
            shape: self.shape(group),
            user: wire.user.clone(),
            group: wire.group.clone(),
            queue: wire.queue.clone(),
            partition: wire.partition.clone(),
            attributes: wire.attributes.clone(),
        }))
    }

    /// The one object of a shape; amounts of 0 ask for nothing.
    fn shape(&mut self, group: &ChunkGroup) -> Rc<Shape> {
        let asked = group.per_chunk.iter().filter(|(_, amount)| **amount > 0);
        let per_chunk: Vec<_> = asked.map(|(resource, amount)| (resource.clone(), *amount)).collect();
        let number = self.shapes.len();
        let exclusive = group.exclusive;
        let made = self.shapes.entry((exclusive, per_chunk)).or_insert_with_key(|(_, per_chunk)| {
            Rc::new(Shape { number, per_chunk: per_chunk.clone(), exclusive })
        });
        Rc::clone(made)
    }
}

fn mirror(text: String) -> Error {
    Error::Mirror(text)
}

#[cfg(test)]
impl View {
    /// Lets the last decision have another id, as a recorded dispatcher numbered it.
    pub(crate) fn renumber_last(&mut self, id: u64) {
        if let Some(sent) = self.sent.last_mut() {
            sent.id = id;
        }
    }

    /// Lets a job be pending that nobody submitted.
    pub(crate) fn queue_up(&mut self, wire: &JobDescription) -> Rc<Job> {
        let job = self.job(wire).expect("one group");
        self.join(Rc::clone(&job));
        job
    }
}
