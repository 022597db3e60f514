//! The nodes and what is free on them, made for being searched.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::messages::{Platform, Span};

/// How many indexes are kept: a trace may ask for another amount of memory in every line.
const MOST_SHAPES: usize = 128;

/// How many spans are noted for an index that nobody asks for, before it is brought up to date all
/// the same.
const MOST_STALE: usize = 512;

/// What one chunk asks of its node. A view makes each shape once: two jobs ask for the same if the
/// numbers of their shapes are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Its number in the view.
    pub number: usize,
    /// What it asks for, by name of the resource, without amounts of 0.
    pub per_chunk: Vec<(String, u64)>,
    /// It takes a wholly empty node, all of it.
    pub exclusive: bool,
}

impl Shape {
    /// How many chunks go on an empty node of this capacity.
    fn most(&self, capacity: &BTreeMap<String, u64>) -> u64 {
        let fit = |(resource, amount): &(String, u64)| capacity.get(resource).map_or(0, |has| has / amount);
        let most = self.per_chunk.iter().map(fit).min().unwrap_or(u64::from(u32::MAX));
        if self.exclusive {
            most.min(1)
        } else {
            most
        }
    }
}

/// The nodes of a platform. For each shape that is asked for it keeps how many chunks go on each
/// node, and brings that up to date on the nodes that changed only.
#[derive(Debug, Clone)]
pub struct Cluster {
    platform: Rc<Platform>,
    /// By name, which is the order of the digest; what is free of each on each node, whether that
    /// is taken whole or not.
    free: BTreeMap<String, Vec<u64>>,
    chunks: Vec<u64>,
    /// Taken whole, or out of service.
    sealed: Vec<bool>,
    down: Vec<bool>,
    /// By the number of the shape.
    rooms: BTreeMap<usize, Room>,
}

impl Cluster {
    /// Makes the empty machine of a platform. Nodes that are in no group have nothing.
    pub fn new(platform: Rc<Platform>) -> Cluster {
        let count = platform.node_count as usize;
        let mut free: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for group in &platform.groups {
            for (resource, amount) in &group.capacity {
                let nodes = free.entry(resource.clone()).or_insert_with(|| vec![0; count]);
                nodes[group.first as usize..=group.last as usize].fill(*amount);
            }
        }
        Cluster {
            platform,
            free,
            chunks: vec![0; count],
            sealed: vec![false; count],
            down: vec![false; count],
            rooms: BTreeMap::new(),
        }
    }

    /// How many nodes there are; they are numbered from 0.
    pub fn node_count(&self) -> usize {
        self.chunks.len()
    }

    /// How many chunks of a shape go on all nodes together now.
    pub fn available(&mut self, shape: &Rc<Shape>) -> u64 {
        self.room(shape).total
    }

    /// Whether so many chunks of a shape go on the nodes now.
    pub fn fits(&mut self, shape: &Rc<Shape>, chunks: u64) -> bool {
        self.available(shape) >= chunks
    }

    /// The lowest-numbered nodes that hold the chunks, each filled as far as it goes; nothing
    /// changes.
    pub fn first_fit(&mut self, shape: &Rc<Shape>, mut chunks: u64) -> Option<Vec<Span>> {
        let room = self.room(shape);
        if chunks > room.total {
            return None;
        }
        let mut spans = Vec::new();
        let mut node = 0;
        while chunks > 0 {
            node = room.next(node);
            let each = room.counts[node].min(chunks);
            chunks -= each;
            append(&mut spans, Span { first: node, last: node, chunks: each });
            node += 1;
        }
        Some(spans)
    }

    /// What is free of a resource on a node; 0 on one that is taken whole or down.
    pub fn free_of(&self, resource: &str, node: usize) -> u64 {
        match self.free.get(resource) {
            Some(free) if !self.sealed[node] => free[node],
            _ => 0,
        }
    }

    /// Whether a node is out of service.
    pub fn is_down(&self, node: usize) -> bool {
        self.down[node]
    }

    /// How many chunks lie on a node that is not taken whole.
    pub fn chunks_on(&self, node: usize) -> u64 {
        self.chunks[node]
    }

    /// Puts chunks on nodes that have room for them.
    pub fn take(&mut self, shape: &Shape, spans: &[Span]) {
        self.put(shape, spans, |has, change| has.wrapping_add(change));
    }

    /// Takes chunks off the nodes that hold them.
    pub fn release(&mut self, shape: &Shape, spans: &[Span]) {
        self.put(shape, spans, |has, change| has.wrapping_sub(change));
    }

    /// Changes what lies on nodes. Arithmetic goes around: a start where there is no room is
    /// undone as soon as the server has refused it.
    fn put(&mut self, shape: &Shape, spans: &[Span], change: fn(u64, u64) -> u64) {
        if shape.exclusive {
            return self.seal(spans, change(0, 1) == 1);
        }
        for span in spans {
            let nodes = span.first..=span.last;
            self.chunks[nodes.clone()].iter_mut().for_each(|has| *has = change(*has, span.chunks));
            for (resource, amount) in &shape.per_chunk {
                // Adding what is taken is taking off what is free.
                let taken = change(0, amount.wrapping_mul(span.chunks));
                if let Some(free) = self.free.get_mut(resource) {
                    free[nodes.clone()].iter_mut().for_each(|has| *has = has.wrapping_sub(taken));
                }
            }
        }
        self.note_change(spans);
    }

    fn seal(&mut self, spans: &[Span], sealed: bool) {
        for span in spans {
            self.sealed[span.first..=span.last].fill(sealed);
        }
        self.note_change(spans);
    }

    /// Takes nodes on which nothing runs out of service, or returns them, empty.
    pub(crate) fn set_down(&mut self, first: usize, last: usize, down: bool) {
        self.down[first..=last].fill(down);
        self.seal(&[Span { first, last, chunks: 1 }], down);
    }

    /// Notes that what is free on nodes is not what it was.
    fn note_change(&mut self, spans: &[Span]) {
        let Cluster { free, chunks, sealed, rooms, .. } = self;
        for room in rooms.values_mut() {
            room.stale.extend_from_slice(spans);
            if room.stale.len() > MOST_STALE {
                room.refresh(free, chunks, sealed);
            }
        }
    }

    fn room(&mut self, shape: &Rc<Shape>) -> &Room {
        let Cluster { free, chunks, sealed, rooms, platform, .. } = self;
        if !rooms.contains_key(&shape.number) && rooms.len() >= MOST_SHAPES {
            rooms.pop_first();
        }
        let room = rooms.entry(shape.number).or_insert_with(|| Room::new(shape, platform));
        if !room.stale.is_empty() {
            room.refresh(free, chunks, sealed);
        }
        room
    }

    /// Tells for each group of nodes whether an empty one takes a chunk of the shape.
    pub(crate) fn kinds_of_nodes(&self, shape: &Shape) -> Vec<bool> {
        self.platform.groups.iter().map(|group| shape.most(&group.capacity) > 0).collect()
    }

    /// What is free of each resource in all, by name.
    pub fn totals(&self) -> impl Iterator<Item = (&str, u64)> {
        self.free.iter().map(|(resource, free)| {
            let open = free.iter().zip(&self.sealed).filter(|(_, sealed)| !**sealed);
            (resource.as_str(), open.map(|(amount, _)| amount).sum())
        })
    }

    /// The ranges of nodes out of service, ascending.
    pub(crate) fn down_ranges(&self) -> Vec<Span> {
        let mut ranges = Vec::new();
        for node in (0..self.node_count()).filter(|node| self.down[*node]) {
            append(&mut ranges, Span { first: node, last: node, chunks: 1 });
        }
        ranges
    }
}

/// The index of one shape: how many chunks of it each node takes now.
#[derive(Debug, Clone)]
struct Room {
    shape: Rc<Shape>,
    /// What each node takes when it is empty.
    full: Vec<u64>,
    counts: Vec<u64>,
    /// One bit a node, set where a chunk fits.
    usable: Vec<u64>,
    total: u64,
    stale: Vec<Span>,
}

impl Room {
    fn new(shape: &Rc<Shape>, platform: &Platform) -> Room {
        let count = platform.node_count as usize;
        let mut full = vec![0; count];
        for group in &platform.groups {
            full[group.first as usize..=group.last as usize].fill(shape.most(&group.capacity));
        }
        Room {
            shape: Rc::clone(shape),
            full,
            counts: vec![0; count],
            usable: vec![0; count.div_ceil(64)],
            total: 0,
            stale: vec![Span { first: 0, last: count - 1, chunks: 0 }],
        }
    }

    fn refresh(&mut self, free: &BTreeMap<String, Vec<u64>>, chunks: &[u64], sealed: &[bool]) {
        let asked: Vec<(Option<&Vec<u64>>, u64)> =
            self.shape.per_chunk.iter().map(|(resource, amount)| (free.get(resource), *amount)).collect();
        for span in std::mem::take(&mut self.stale) {
            for node in span.first..=span.last {
                let count = match chunks[node] {
                    _ if sealed[node] => 0,
                    0 => self.full[node],
                    _ if self.shape.exclusive => 0,
                    _ => {
                        // More than a node has is less than nothing: see `put`.
                        let fit = |(free, amount): &(Option<&Vec<u64>>, u64)| {
                            free.map_or(0, |free| (free[node] as i64).max(0) as u64 / amount)
                        };
                        asked.iter().map(fit).min().unwrap_or(u64::from(u32::MAX))
                    }
                };
                self.set(node, count);
            }
        }
    }

    fn set(&mut self, node: usize, count: u64) {
        self.total = self.total - self.counts[node] + count;
        self.counts[node] = count;
        let bit = 1 << (node % 64);
        if count > 0 {
            self.usable[node / 64] |= bit;
        } else {
            self.usable[node / 64] &= !bit;
        }
    }

    /// The first usable node from one on; there must be one.
    fn next(&self, node: usize) -> usize {
        let mut word = node / 64;
        let mut set = self.usable[word] >> (node % 64) << (node % 64);
        while set == 0 {
            word += 1;
            set = self.usable[word];
        }
        word * 64 + set.trailing_zeros() as usize
    }
}

/// Adds a span behind others, joined with the last if they can be one.
fn append(spans: &mut Vec<Span>, span: Span) {
    match spans.last_mut() {
        Some(last) if last.last + 1 == span.first && last.chunks == span.chunks => last.last = span.last,
        _ => spans.push(span),
    }
}

/// Joins neighbouring spans with equally many chunks a node; they must ascend.
pub(crate) fn merged(spans: &[Span]) -> Vec<Span> {
    let mut joined = Vec::with_capacity(spans.len());
    spans.iter().for_each(|span| append(&mut joined, *span));
    joined
}
