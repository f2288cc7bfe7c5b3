//! Runs in normal form: enough of all runs that nothing which can be judged is missed.
//!
//! What is judged in a state is its [view](end): what each leader wrote of what is decided. Most steps commute as far as
//! views go, so of all runs that end in one view it is enough to make one. [`Normal`] makes steps of [`Bounds`] only, in an
//! order that it restricts; that no view is lost follows from these rules, each of which turns any run into one with the
//! same view:
//!
//! 1. *No step is ever forced.* So a crash is a replica that takes no further step, and needs no step of its own. A
//!    promise that does not count when its candidate begins to lead only forbids steps; leave it out. A campaign that fails
//!    is made of such promises; leave it out, and count ballots without it.
//! 2. *A leader acts before the next takeover begins.* It executes and seals by what it knows itself, until it promises.
//!    What it writes later than others promised can be written earlier: a replica holds the beginning of a log, however
//!    long the log is.
//! 3. *A replica takes entries at the last moment*: before it promises; or when the run ends; or so that a leader's epoch
//!    opens. Nobody asks before how much it holds, and its leader's log has only become longer.
//! 4. *Streams and replicas take turns.* What one pair of them takes and promises does not depend on another pair. So a
//!    candidate collects promises in a fixed order, its own first, and a pair takes entries without interruption.
//! 5. *Two followers are alike* until one of them has done something: of two mirrored takeovers by them the first is made.
//!    The judge does not ask which replica did something.
//! 6. *Two streams are alike* until something was executed: the first transaction is in stream 0. Each view is judged
//!    together with its [mirror image](mirrored), since the product's code might tell streams apart.
//!
//! (For [`Mistake::Amnesia`], a crash that is not the end of a replica, they need not hold: it is found all the same.)
//!
//! Then states that differ only in what is never asked again are one ([`Normal::forget`]), and the last steps of a run, by
//! which some replicas take what they may, are one step ([`Step::End`]). The views of both searches are compared in
//! `normal_runs_lose_nothing`.

use stateright::{Model, Property};

use super::protocol::{Action, Bounds, Mistake};
use super::state::{Ballot, Entry, NODES, Replica, STREAMS, State};
use super::{Judged, judge, properties};

/// The search through runs in normal form.
#[derive(Clone, Debug)]
pub struct Normal(pub Bounds);

/// Where such a run stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Course {
    pub state: State,
    turn: Turn,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Turn {
    /// The newest leader's, or the candidate's.
    Leader,
    /// A stream of a replica that takes entries.
    Taker(usize, usize),
    /// Nobody's: the run has ended and is judged.
    Over,
}

/// A step of such a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Make(Action),
    /// Per ballot and stream: so much is decided in the end.
    End(Vec<[u8; STREAMS]>),
}

impl Model for Normal {
    type State = Course;
    type Action = Step;

    fn init_states(&self) -> Vec<Course> {
        vec![Course { state: self.0.start(), turn: Turn::Leader }]
    }

    fn actions(&self, course: &Course, steps: &mut Vec<Step>) {
        let ballot = course.state.leads.len() as Ballot;
        let leading = course.state.lead(ballot).leading;
        let mut make = |action| steps.push(Step::Make(action));
        match course.turn {
            Turn::Over => {}
            Turn::Taker(node, stream) => self.take(ballot, leading, node, stream, &mut make),
            Turn::Leader if leading => {
                self.lead(&course.state, ballot, &mut make);
                steps.extend(self.ends(&course.state).into_iter().map(Step::End));
            }
            Turn::Leader => self.campaign(&course.state, ballot, &mut make),
        }
        if self.0.mistake == Some(Mistake::Amnesia) && course.turn != Turn::Over {
            let back = |node| [Step::Make(Action::Crash(node)), Step::Make(Action::Forget(node))];
            steps.extend((0..NODES).flat_map(back));
        }
    }

    fn next_state(&self, course: &Course, step: Step) -> Option<Course> {
        let action = match step {
            Step::Make(action) => action,
            Step::End(decided) => {
                return Some(Course { state: end(&course.state, &decided), turn: Turn::Over });
            }
        };
        let mut state = self.0.step(&course.state, action)?;
        let turn = match action {
            Action::Accept(_, stream, node) if !self.opens(&state, node, stream) => Turn::Taker(node, stream),
            _ => Turn::Leader,
        };
        if turn == Turn::Leader {
            self.forget(&mut state);
        }
        Some(Course { state, turn })
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties()
    }
}

impl Judged for Normal {
    fn judged<'a>(&'a self, course: &'a Course) -> Option<(&'a Bounds, &'a State)> {
        (course.turn == Turn::Over).then_some((&self.0, &course.state))
    }

    fn verdict(&self, course: &Course) -> Result<(), &'static str> {
        let Some((bounds, view)) = self.judged(course) else { return Ok(()) };
        judge(bounds, view).and_then(|()| judge(bounds, &mirrored(view)))
    }
}

impl Normal {
    fn take(&self, ballot: Ballot, leading: bool, node: usize, stream: usize, make: &mut impl FnMut(Action)) {
        (1..=ballot).for_each(|of| make(Action::Accept(of, stream, node)));
        if !leading {
            make(Action::Promise(ballot, stream, node));
        }
    }

    /// The newest leader goes on, or loses its place.
    fn lead(&self, state: &State, ballot: Ballot, make: &mut impl FnMut(Action)) {
        let lead = state.lead(ballot);
        // Rule 6.
        let streams = if ballot == 1 && lead.executed.is_empty() { 1 } else { STREAMS };
        (0..streams).for_each(|stream| make(Action::Execute(ballot, stream)));
        (0..STREAMS).for_each(|stream| make(Action::Seal(ballot, stream)));
        let unopened =
            (0..STREAMS).find(|stream| lead.decided(*stream).len() <= lead.taken[*stream] as usize);
        if let Some(stream) = unopened.filter(|_| self.0.transactions.1 > 0) {
            for node in (0..NODES).filter(|node| *node != lead.node as usize) {
                self.take(ballot, true, node, stream, make);
            }
        }
        // Rule 5: 1 and 2 have done nothing before the second ballot.
        let candidates = if ballot == 1 { NODES - 1 } else { NODES };
        (0..candidates).for_each(|node| make(Action::Campaign(node)));
    }

    /// Whether the stream has just been opened by what this replica took.
    fn opens(&self, state: &State, node: usize, stream: usize) -> bool {
        let ballot = state.leads.len() as Ballot;
        let lead = state.lead(ballot);
        let last = state.replicas[node].accepted[stream].0 == ballot;
        lead.leading && last && lead.decided(stream).len() > lead.taken[stream] as usize
    }

    /// The candidate collects promises: both of its own streams', then the others'.
    fn campaign(&self, state: &State, ballot: Ballot, make: &mut impl FnMut(Action)) {
        let lead = state.lead(ballot);
        let candidate = lead.node as usize;
        let promised = |node: usize, stream: usize| lead.promises[node][stream].is_some();
        let mut order = [candidate, 0, 0];
        (0..NODES).filter(|node| *node != candidate).enumerate().for_each(|(at, node)| order[at + 1] = node);
        if let Some(half) = order.into_iter().find(|node| promised(*node, 0) && !promised(*node, 1)) {
            return self.take(ballot, false, half, 1, make);
        }
        if !promised(candidate, 0) {
            return self.take(ballot, false, candidate, 0, make);
        }
        let [_, first, second] = order;
        // Rule 5: with replica 0 as candidate of ballot 2 the others are alike.
        let mirrored = ballot == 2 && candidate == 0 && !promised(first, 0);
        if !promised(second, 0) {
            if !promised(first, 0) {
                self.take(ballot, false, first, 0, make);
            }
            if !mirrored {
                self.take(ballot, false, second, 0, make);
            }
        }
        make(Action::Lead(ballot));
    }

    /// Per ballot, how much of its leader's streams may be decided in the end; but for what the state before could end
    /// in, too.
    fn ends(&self, state: &State) -> Vec<Vec<[u8; STREAMS]>> {
        let newest = state.lead(state.leads.len() as Ballot);
        let begun = newest.executed.is_empty();
        let mut ends = vec![Vec::new()];
        for (at, lead) in state.leads.iter().enumerate() {
            let lens = [0, 1].map(|stream| {
                let now = lead.decided[stream];
                let first = now.max(lead.taken[stream]).max(1);
                let most =
                    if self.takers(state, at as Ballot + 1, stream) { lead.log[stream].len() } else { 0 };
                let more = (first..=most as u8).filter(move |len| *len != now);
                std::iter::once(now).chain(more).collect::<Vec<u8>>()
            });
            let pairs = lens[0].iter().flat_map(|a| lens[1].iter().map(move |b| [*a, *b]));
            let pairs: Vec<_> = pairs.collect();
            ends = ends
                .iter()
                .flat_map(|end: &Vec<_>| pairs.iter().map(move |pair| [&end[..], &[*pair]].concat()))
                .collect();
        }
        // Either the leader has just begun, and something of what it began with is decided; or it has just sealed
        // something, and that is decided.
        ends.retain(|end| {
            let decided = end.last().expect("one for each ballot");
            let news = |stream: usize| {
                let sealed = newest.sealed(stream) == newest.clock();
                if begun {
                    decided[stream] > 0
                } else {
                    sealed && decided[stream] as usize == newest.log[stream].len()
                }
            };
            (0..STREAMS).any(news)
        });
        ends
    }

    /// Whether a follower may take more of this stream.
    fn takers(&self, state: &State, ballot: Ballot, stream: usize) -> bool {
        (0..NODES).any(|node| self.0.may_accept(state, ballot, stream, node))
    }

    /// Drops what no later step and no judge asks for.
    fn forget(&self, state: &mut State) {
        let ballot = state.leads.len() as Ballot;
        let last = ballot as usize == self.0.ballots;
        // Of two logs of one ballot that were promised the longer one decides, and holds all that is in the other.
        let promises = &mut state.lead_mut(ballot).promises;
        for (a, b, stream) in [(0, 1), (0, 2), (1, 2)].iter().flat_map(|(a, b)| [(*a, *b, 0), (*a, *b, 1)]) {
            if let (Some(one), Some(other)) = (promises[a][stream], promises[b][stream])
                && one.0 == other.0
            {
                (promises[a][stream], promises[b][stream]) = (Some(one.max(other)), Some(one.max(other)));
            }
        }
        // Who promised the last ballot is never asked again what it holds.
        for replica in state.replicas.iter_mut().filter(|_| last) {
            for stream in 0..STREAMS {
                if replica.promised[stream] == ballot {
                    replica.accepted[stream] = (0, 0);
                }
            }
        }
        if !state.lead(ballot).leading {
            return;
        }
        // What nobody can take, promise or find decided of an old leader's log.
        for of in 1..ballot {
            let mut lens = state.lead(of).decided;
            for (stream, len) in lens.iter_mut().enumerate() {
                if self.takers(state, of, stream) {
                    *len = state.lead(of).log[stream].len() as u8;
                }
                let held = state.replicas.iter().map(|replica| replica.accepted[stream]);
                *len = held.filter(|(whose, _)| *whose == of).map(|(_, len)| len).fold(*len, u8::max);
            }
            cut(state, of, lens);
        }
    }
}

/// What is judged: per ballot what is decided, and the transactions that may be in it or missing from it. Later ones
/// are above every mark.
pub fn end(state: &State, decided: &[[u8; STREAMS]]) -> State {
    let nobody = Replica { up: true, promised: [0; STREAMS], accepted: [(0, 0); STREAMS] };
    let mut view = State { replicas: [nobody; NODES], leads: state.leads.clone(), crashes: 0 };
    for (at, lens) in decided.iter().enumerate() {
        let lead = view.lead_mut(at as Ballot + 1);
        lead.decided = *lens;
        (lead.node, lead.taken, lead.promises) = (0, [0; STREAMS], Default::default());
        cut(&mut view, at as Ballot + 1, *lens);
        let lead = view.lead_mut(at as Ballot + 1);
        if *lens == [0; STREAMS] {
            (lead.leading, lead.base) = (false, 0);
        }
    }
    while view.leads.last().is_some_and(|lead| !lead.leading) {
        view.leads.pop();
    }
    view
}

/// A view with its streams exchanged.
pub fn mirrored(view: &State) -> State {
    let mut view = view.clone();
    for lead in &mut view.leads {
        lead.log.swap(0, 1);
        lead.decided.swap(0, 1);
        lead.executed.iter_mut().for_each(|stream| *stream = 1 - *stream);
    }
    view
}

/// Cuts a leader's log, and the transactions above it.
fn cut(state: &mut State, ballot: Ballot, lens: [u8; STREAMS]) {
    let lead = state.lead_mut(ballot);
    let mut most = lead.base;
    for (log, len) in lead.log.iter_mut().zip(lens) {
        log.truncate(len as usize);
        for entry in log {
            if let Entry::Batch { epoch, closed, .. } = *entry
                && epoch == ballot
            {
                most = most.max(closed);
            }
        }
    }
    lead.executed.truncate((most - lead.base) as usize);
}
