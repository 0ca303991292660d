//! Which functions of their name records speak of whose text nobody has any more.
//!
//! What tells functions of one name apart are the labelled lines that they hold. A record whose lines nobody holds any more
//! stays without a function, as does one that several would suit. Where the lines of several are equally good, or a record
//! labels none, it stays with the function that stands where it was, which is a guess and said so; so it is where a line of
//! that function is only similar, and another one has the line as it was. Records of different functions get different
//! functions; of two of one annotator for one function the other is set aside, and named.

use super::{Finder, Match, is_region, relocate, voice};
use crate::annotations::Record;
use std::collections::{HashMap, VecDeque};

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Outcome {
    Found(usize, Match),
    /// The same annotator's record with this number says something newer of the function.
    SetAside(usize),
    Lost,
}

struct Seeker<'r> {
    number: usize,
    record: &'r Record,
    /// Functions of its name, the same annotator's own left out.
    free: Vec<usize>,
    /// Those of them that hold something of what it labels, the best first.
    alike: Vec<Alike>,
}

/// A function that holds something of what a record labels.
#[derive(Clone, Copy)]
struct Alike {
    function: usize,
    likeness: relocate::Likeness,
    /// Whether it stands where the record's did and has as many lines.
    fills_its_place: bool,
}

impl Seeker<'_> {
    /// Of the function with most: how much it holds, and by how much that is more than another holds.
    fn best(&self) -> usize {
        self.alike.iter().map(|alike| alike.likeness.points).max().unwrap_or(0)
    }

    fn lead(&self) -> usize {
        let best = self.best();
        let mut points: Vec<usize> = self.alike.iter().map(|alike| alike.likeness.points).collect();
        points.sort_unstable();
        points.pop();
        best - points.last().copied().unwrap_or(0)
    }

    fn likeness(&self, function: usize) -> relocate::Likeness {
        let of = self.alike.iter().find(|alike| alike.function == function);
        of.map(|alike| alike.likeness).unwrap_or_default()
    }

    /// What holds much less holds a line that both functions have.
    fn is_worth_asking(&self, alike: &Alike) -> bool {
        alike.fills_its_place || alike.likeness.points * 2 >= self.best()
    }
}

impl<'r> Finder<'r, '_> {
    /// What becomes of records, given the functions that have the name of each.
    pub(super) fn assigned(&self, named: Vec<(usize, Vec<usize>)>) -> Vec<(usize, Outcome)> {
        let mut outcomes = Vec::new();
        let mut several = Vec::new();
        let mut alone: HashMap<usize, Vec<(usize, relocate::Likeness)>> = HashMap::new();
        for (number, named) in named {
            let record = &self.records[number];
            let (taken, free): (Vec<usize>, Vec<usize>) =
                named.iter().copied().partition(|function| self.is_taken(*function, record));
            if is_region(record) && !free.is_empty() {
                let function =
                    if named.len() == 1 { Some(named[0]) } else { self.overlapping(&free, record) };
                let by_name = |function| Outcome::Found(function, Match::FileAndName);
                outcomes.push((number, function.map_or(Outcome::Lost, by_name)));
                continue;
            }
            let of_taken = taken.iter().map(|function| (self.likeness(record, *function), *function));
            let of_taken = of_taken.max_by_key(|(likeness, function)| (likeness.points, *function));
            let of_taken = of_taken.filter(|(likeness, _)| likeness.points > 0);
            let mut alike: Vec<Alike> = free
                .iter()
                .map(|function| Alike {
                    function: *function,
                    likeness: self.likeness(record, *function),
                    fills_its_place: self.fills_its_place(*function, record),
                })
                .filter(|alike| alike.likeness.points > 0)
                .collect();
            if of_taken.is_none()
                && alike.is_empty()
                && let Some(function) = self.elsewhere(record, &named)
            {
                outcomes.push((number, Outcome::Found(function, Match::FileAndLines)));
                continue;
            }
            let best = alike.iter().map(|alike| alike.likeness.points).max().unwrap_or(0);
            if let Some((likeness, function)) = of_taken
                && likeness.points > best
            {
                let holds = self.taken.get(&(function, voice(record))).copied();
                let is_apart = holds.is_some_and(|holds| are_apart(&self.records[holds], record));
                let stays = is_apart && alike.iter().any(|alike| alike.fills_its_place);
                if !stays {
                    // Lines of another overload may be similar; none of them is there.
                    let is_other = |holds: &usize| {
                        self.has_overloads
                            && likeness.exact == 0
                            && is_apart
                            && !self.is_newer(*holds, number)
                    };
                    let holds = holds.filter(|holds| !is_other(holds));
                    outcomes.push((number, holds.map_or(Outcome::Lost, Outcome::SetAside)));
                    continue;
                }
            }
            if free.is_empty() {
                outcomes.push((number, self.beside_newer(number, &taken)));
            } else if let [function] = named.as_slice() {
                let likeness = alike.first().map(|alike| alike.likeness).unwrap_or_default();
                alone.entry(*function).or_default().push((number, likeness));
            } else if alike.is_empty() && tells(record) {
                outcomes.push((number, Outcome::Lost));
            } else {
                alike.sort_by_key(|alike| {
                    let is_there = self.stands_where_it_was(alike.function, record);
                    (
                        !alike.fills_its_place,
                        std::cmp::Reverse(alike.likeness.points),
                        !is_there,
                        alike.function,
                    )
                });
                several.push(Seeker { number, record, free, alike });
            }
        }
        for (function, numbers) in alone {
            outcomes.extend(self.of_one_function(function, &numbers));
        }
        outcomes.extend(self.of_several(&several));
        outcomes
    }

    fn likeness(&self, record: &Record, function: usize) -> relocate::Likeness {
        let tools = (&self.texts[function], &self.budget);
        relocate::likeness(record, &self.places[function], &self.lines[function], tools)
    }

    /// The annotator says something of the very text of every function of this name, and none of them holds what the record
    /// labels: where one newer record alone stood in its place, it is of an older text of that function; else its own is
    /// gone.
    fn beside_newer(&self, number: usize, taken: &[usize]) -> Outcome {
        let record = &self.records[number];
        let newer = taken.iter().filter_map(|function| self.taken.get(&(*function, voice(record))).copied());
        let mut there = newer.filter(|newer| !are_apart(&self.records[*newer], record));
        match (there.next(), there.next()) {
            (Some(newer), None) if self.is_newer(newer, number) => Outcome::SetAside(newer),
            _ => Outcome::Lost,
        }
    }

    /// By their times, else by their order.
    fn is_newer(&self, newer: usize, older: usize) -> bool {
        let time = |number: usize| self.records[number].time.as_deref().filter(|time| time.ends_with('Z'));
        match (time(newer), time(older)) {
            (Some(newer), Some(older)) if newer.len() == older.len() && newer != older => newer > older,
            _ => newer > older,
        }
    }

    /// The only function that holds all that a record labels, where none of its name holds anything of it.
    fn elsewhere(&self, record: &'r Record, named: &[usize]) -> Option<usize> {
        let holding = self.holding_all(record);
        let mut holding = holding
            .into_iter()
            .filter(|function| !named.contains(function) && !self.is_taken(*function, record));
        holding.next().filter(|_| holding.next().is_none())
    }

    /// The only function of a name is that of its records, unless others show that they know it and one does not. Where
    /// there may have been another one of the name, a record must show that it is its own.
    fn of_one_function(
        &self,
        function: usize,
        numbers: &[(usize, relocate::Likeness)],
    ) -> Vec<(usize, Outcome)> {
        let knowing: Vec<(usize, relocate::Likeness)> = match numbers {
            [_] => Vec::new(),
            several => several.iter().copied().filter(|(_, likeness)| likeness.points > 0).collect(),
        };
        let found = Outcome::Found(function, Match::FileAndName);
        let outcome = |number: usize, likeness: relocate::Likeness| {
            let record = &self.records[number];
            if likeness.points > 0 {
                if !self.has_overloads || !self.budget.spend(knowing.len()) {
                    return found;
                }
                let is_whole = likeness.exact == record.lines.len();
                if self.known_otherwise(function, record).is_some() {
                    // Some lines are no proof where the very text is known to be another function's; all are a hint.
                    return match is_whole {
                        true => Outcome::Found(function, Match::FileAndOther),
                        false => Outcome::Lost,
                    };
                }
                return match self.known_better(function, (number, likeness), &knowing) {
                    None => self.unless_uncertain(function, record, likeness),
                    Some(_) if likeness.exact == 0 => Outcome::Lost,
                    Some(rival) => self.beside_rival(rival, number),
                };
            }
            if self.has_overloads {
                return self.by_name_alone(function, record);
            }
            if record.lines.is_empty() || !self.budget.spend(knowing.len()) {
                return found;
            }
            match knowing.iter().any(|(other, _)| are_apart(&self.records[*other], record)) {
                true => Outcome::Lost,
                false => found,
            }
        };
        numbers.iter().map(|(number, likeness)| (*number, outcome(*number, *likeness))).collect()
    }

    /// By its name, unless neither a line nor its place says that it is not another overload.
    fn unless_uncertain(&self, function: usize, record: &Record, likeness: relocate::Likeness) -> Outcome {
        let is_certain = likeness.between > 0
            || self.fills_its_place(function, record)
            || (likeness.beside > 0 && self.stands_where_it_was(function, record));
        let is_by_hand = record.body_sha256.is_none() && record.range.is_none();
        match is_certain || is_by_hand || !self.has_overloads {
            true => Outcome::Found(function, Match::FileAndName),
            false => Outcome::Found(function, Match::FileAndOther),
        }
    }

    /// The record of another function of which more lines are in this one as they were, where this record's are only
    /// similar, or the other one stands where it stood and this one does not.
    fn known_better(
        &self,
        function: usize,
        (number, likeness): (usize, relocate::Likeness),
        knowing: &[(usize, relocate::Likeness)],
    ) -> Option<usize> {
        let record = &self.records[number];
        let is_better = |other: &Record, of_other: &relocate::Likeness| {
            of_other.exact * record.lines.len() > likeness.exact * other.lines.len()
                && are_apart(other, record)
                && (likeness.exact == 0
                    || (self.stands_where_it_was(function, other)
                        && !self.stands_where_it_was(function, record)))
        };
        let mut better =
            knowing.iter().filter(|(other, of_other)| is_better(&self.records[*other], of_other));
        better.next().map(|(other, _)| *other)
    }

    /// The only function of a record's name, that holds nothing of what it labels.
    fn by_name_alone(&self, function: usize, record: &Record) -> Outcome {
        let knows_a_text = record.body_sha256.is_some() || record.body_sha256_ws.is_some();
        match () {
            () if tells(record) => Outcome::Lost,
            // Who wrote it named the function, not a text.
            () if !knows_a_text && (record.range.is_none() || self.overlap(function, record) > 0) => {
                Outcome::Found(function, Match::FileAndName)
            }
            () if self.known[function] => Outcome::Lost,
            () if !knows_a_text || self.fills_its_place(function, record) => {
                Outcome::Found(function, Match::FileAndPlace)
            }
            () => Outcome::Lost,
        }
    }

    /// Each record asks for the functions that hold what it labels, the best first; who of several records of different
    /// functions holds a function is who knows more of it, then who knows less of all others, then who stands there.
    fn of_several(&self, seekers: &[Seeker<'r>]) -> Vec<(usize, Outcome)> {
        let mut holders: HashMap<usize, Vec<usize>> = HashMap::new();
        let mut asks: Vec<usize> = vec![0; seekers.len()];
        let mut refused: Vec<Option<usize>> = vec![None; seekers.len()];
        let mut waiting: VecDeque<usize> = (0..seekers.len()).collect();
        while let Some(number) = waiting.pop_front() {
            let seeker = &seekers[number];
            let Some(alike) = seeker.alike.get(asks[number]) else { continue };
            let function = alike.function;
            let known = self.known_otherwise(function, seeker.record);
            if known.is_some() || !seeker.is_worth_asking(alike) {
                refused[number] = known.or(refused[number]);
                asks[number] += 1;
                waiting.push_back(number);
                continue;
            }
            let held = holders.entry(function).or_default();
            if !self.budget.spend(held.len()) {
                continue;
            }
            let rivals: Vec<usize> = held
                .iter()
                .copied()
                .filter(|other| are_apart(seekers[*other].record, seeker.record))
                .collect();
            let rank = |seeker: &Seeker<'_>| {
                let is_there = self.stands_where_it_was(function, seeker.record);
                let likeness = seeker.likeness(function);
                (likeness.exact > 0, likeness.points, seeker.lead(), is_there, seeker.number)
            };
            let stronger = rivals.iter().find(|rival| rank(&seekers[**rival]) > rank(seeker));
            let (losers, winner) = match stronger {
                Some(stronger) => (vec![number], *stronger),
                None => {
                    held.retain(|other| !rivals.contains(other));
                    held.push(number);
                    (rivals, number)
                }
            };
            for loser in losers {
                refused[loser] = Some(seekers[winner].number);
                asks[loser] += 1;
                waiting.push_back(loser);
            }
        }
        let of_seeker: HashMap<usize, usize> = holders
            .iter()
            .flat_map(|(function, held)| held.iter().map(|number| (*number, *function)))
            .collect();
        let settled = |number: usize, others: &HashMap<usize, Vec<usize>>| match of_seeker.get(&number) {
            Some(function) => self.unless_ambiguous(seekers, number, *function, others),
            None => match (refused[number], seekers[number].alike.is_empty()) {
                (Some(rival), _) => self.beside_rival(rival, seekers[number].number),
                (None, true) => self.by_place(seekers, number, &holders),
                (None, false) => Outcome::Lost,
            },
        };
        let first: Vec<Outcome> = (0..seekers.len()).map(|number| settled(number, &holders)).collect();
        // A function that another record has by a guess may be anybody's.
        let mut certain = holders.clone();
        for held in certain.values_mut() {
            held.retain(|number| matches!(first[*number], Outcome::Found(_, Match::FileAndName)));
        }
        (0..seekers.len()).map(|number| (seekers[number].number, settled(number, &certain))).collect()
    }

    /// What becomes of a record beside another one that has the function.
    fn beside_rival(&self, rival: usize, number: usize) -> Outcome {
        let is_same_voice = voice(&self.records[rival]) == voice(&self.records[number]);
        if is_same_voice && self.is_newer(rival, number) { Outcome::SetAside(rival) } else { Outcome::Lost }
    }

    /// The record's function, unless another one is as good.
    fn unless_ambiguous(
        &self,
        seekers: &[Seeker<'r>],
        number: usize,
        function: usize,
        holders: &HashMap<usize, Vec<usize>>,
    ) -> Outcome {
        let seeker = &seekers[number];
        let likeness = seeker.likeness(function);
        let is_there = |function: usize| self.stands_where_it_was(function, seeker.record);
        let others = seeker.alike.iter().filter(|other| {
            other.function != function && self.is_open(seekers, seeker, other.function, holders)
        });
        let others: Vec<(usize, bool, bool)> = others
            .map(|other| {
                let points = other.likeness.points;
                (other.function, points >= likeness.points, points * 2 >= likeness.points)
            })
            .collect();
        if others.iter().any(|(_, is_as_good, _)| *is_as_good) {
            let is_only = !others.iter().any(|(other, is_as_good, _)| *is_as_good && is_there(*other));
            return match is_there(function) && is_only {
                true => Outcome::Found(function, Match::FileAndPlace),
                false => Outcome::Lost,
            };
        }
        let has_much = |(other, _, has_half): &(usize, bool, bool)| {
            *has_half || (is_there(*other) && !is_there(function))
        };
        if others.iter().any(has_much) {
            return Outcome::Found(function, Match::FileAndMostLines);
        }
        // One that holds more may be its function, whoever's it was taken for.
        let holds_more = |other: &Alike| {
            other.likeness.points > likeness.points
                && self.known_otherwise(other.function, seeker.record).is_none()
        };
        if seeker.alike.iter().any(holds_more) {
            return Outcome::Found(function, Match::FileAndMostLines);
        }
        // What stands nearer to the record's place may be its function without what was labelled.
        let away = |function: usize| self.away(function, seeker.record);
        let is_nearer = |other: &usize| {
            away(*other) < away(function) && self.known_otherwise(*other, seeker.record).is_none()
        };
        // Another one may stand in the place of its function now.
        let all = seeker.record.lines.len();
        let is_known = likeness.between == all
            || (likeness.exact == all && self.fills_its_place(function, seeker.record));
        match self.has_overloads && (!is_known || seeker.free.iter().any(is_nearer)) {
            true => Outcome::Found(function, Match::FileAndOther),
            false => self.unless_uncertain(function, seeker.record, likeness),
        }
    }

    /// Of functions of which nobody knows the text, where a record labels no line: the only one that fills the place of its
    /// own.
    fn by_place(
        &self,
        seekers: &[Seeker<'r>],
        number: usize,
        holders: &HashMap<usize, Vec<usize>>,
    ) -> Outcome {
        let seeker = &seekers[number];
        let mut there = seeker.free.iter().copied().filter(|function| {
            !self.known[*function]
                && self.is_open(seekers, seeker, *function, holders)
                && self.fills_its_place(*function, seeker.record)
        });
        match (there.next(), there.next()) {
            (Some(function), None) => Outcome::Found(function, Match::FileAndPlace),
            _ => Outcome::Lost,
        }
    }

    /// Whether no record of another function has it.
    fn is_open(
        &self,
        seekers: &[Seeker<'r>],
        seeker: &Seeker<'r>,
        function: usize,
        holders: &HashMap<usize, Vec<usize>>,
    ) -> bool {
        let held = holders.get(&function).map(Vec::as_slice).unwrap_or_default();
        self.known_otherwise(function, seeker.record).is_none()
            && self.budget.spend(held.len())
            && !held.iter().any(|other| are_apart(seekers[*other].record, seeker.record))
    }

    /// The record of another function whose text it has.
    fn known_otherwise(&self, function: usize, record: &Record) -> Option<usize> {
        if !self.budget.spend(self.found[function].len()) {
            return None;
        }
        let texts =
            self.found[function].iter().filter(|(_, how)| *how <= super::Match::TextWithoutWhitespace);
        let mut texts = texts.map(|(number, _)| *number);
        texts.find(|number| are_apart(&self.records[*number], record))
    }

    /// Whether a function stands where the record's did, and has as many lines.
    fn fills_its_place(&self, function: usize, record: &Record) -> bool {
        let count = self.lines[function].count();
        record.range.is_some_and(|(first, last)| last - first + 1 == count)
            && self.stands_where_it_was(function, record)
    }

    /// Whether a function begins where the record's did, moved like the functions around it whose text is known.
    fn stands_where_it_was(&self, function: usize, record: &Record) -> bool {
        self.away(function, record) == Some(0)
    }

    /// How far from there it begins; `None` where the record does not say where its function was.
    fn away(&self, function: usize, record: &Record) -> Option<usize> {
        let (start, _) = record.range?;
        let shifts = self.shifts.get_or_init(|| {
            let mut shifts: Vec<(usize, isize)> = Vec::new();
            for (number, homes) in &self.homes {
                let known = &self.records[*number];
                let is_here = known.file.as_deref().and_then(super::uri::to_path).as_deref()
                    == self.places.iter().find_map(|place| place.file);
                if let ([home], Some((start, _)), true) = (homes.as_slice(), known.range, is_here) {
                    let now = self.places[*home].first_line;
                    shifts.push((start, now.cast_signed() - start.cast_signed()));
                }
            }
            shifts.sort_unstable();
            shifts
        });
        let expected = start.saturating_add_signed(relocate::nearest(shifts, start));
        Some(self.places[function].first_line.abs_diff(expected))
    }
}

/// Whether a record has the text of a line, by which its function could be known.
fn tells(record: &Record) -> bool {
    record.lines.iter().any(|line| !line.text.is_empty())
}

/// Whether two records speak of different functions: of different texts that stood in different places.
fn are_apart(a: &Record, b: &Record) -> bool {
    let (Some((a_first, a_last)), Some((b_first, b_last))) = (a.range, b.range) else { return false };
    let is_same_text = a.body_sha256.is_some() && a.body_sha256 == b.body_sha256;
    let is_pair = match (&a.pair, &b.pair) {
        (Some(a), Some(b)) => a.id == b.id,
        _ => false,
    };
    !is_same_text && !is_pair && !is_region(a) && !is_region(b) && (a_last < b_first || b_last < a_first)
}
