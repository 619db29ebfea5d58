//! Accounts by bucket and prefix: which of them cause the requests and bytes.
//!
//! A table has the figures of 256 prefixes, and the sum of all others (Space-Saving, Metwally et al.
//! 2005). A prefix that has no row takes that of the prefix with the fewest requests. Its figures
//! begin then: they are exact from there on. `earlier_max` bounds the requests that it had before.
//! So each prefix with more than one request in 256 has a row.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashTable;

/// Rows of a table.
const ROWS: usize = 256;

/// What a row is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountUnit {
    /// A bucket and the first parts of the key, this many at most, each with its `/`. 0: a bucket.
    Prefix(u8),
    /// An object.
    Object,
}

impl Default for AccountUnit {
    fn default() -> Self {
        Self::Prefix(1)
    }
}

impl AccountUnit {
    /// Name of the row of an object.
    #[must_use]
    pub fn row_of(self, bucket: &str, key: &str) -> String {
        format!("{bucket}/{}", self.of(key))
    }

    /// The part of the key that belongs to the name of its row.
    fn of(self, key: &str) -> &str {
        match self {
            Self::Object => key,
            Self::Prefix(parts) => {
                let ends = key.bytes().enumerate().filter(|(_, byte)| *byte == b'/');
                let end = ends.take(parts.into()).last().map_or(0, |(at, _)| at + 1);
                &key[..end]
            }
        }
    }
}

/// Figures of a prefix since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Requests of clients.
    pub requests: u64,
    /// Those that read an object.
    pub reads: u64,
    /// Reads that were answered without bytes from an origin.
    pub served_by_cache: u64,
    /// Bytes of objects that were sent to clients.
    pub served_bytes: u64,
    /// Requests to an origin, without retries and hedges.
    pub origin_requests: u64,
    /// Bytes of objects that were requested from an origin.
    pub origin_bytes: u64,
}

impl Figures {
    /// Adds other figures.
    pub fn add(&mut self, more: &Self) {
        self.requests += more.requests;
        self.reads += more.reads;
        self.served_by_cache += more.served_by_cache;
        self.served_bytes += more.served_bytes;
        self.origin_requests += more.origin_requests;
        self.origin_bytes += more.origin_bytes;
    }
}

/// Row of a prefix in its table. It may be given to another prefix.
#[derive(Clone, Copy, Debug)]
pub struct AccountRow {
    at: usize,
    generation: u64,
}

/// Accounts that one thread or one origin writes.
#[derive(Debug)]
pub struct Accounts(Mutex<Table>);

#[derive(Debug)]
struct Table {
    unit: AccountUnit,
    rows: Vec<Row>,
    /// Positions of the rows, by name.
    by_name: HashTable<usize>,
    hasher: RandomState,
    /// No row has fewer calls than `least`, and none before `cursor` has exactly as many.
    least: u64,
    cursor: usize,
    /// Number of the next generation.
    next_generation: u64,
    /// Figures of all prefixes that have no row.
    others: Figures,
    /// Name that is being looked up.
    name: String,
}

#[derive(Debug)]
struct Row {
    name: String,
    generation: u64,
    /// Calls of [`Accounts::note`] for the prefix, and at most `earlier_max` too many.
    calls: u64,
    earlier_max: u64,
    figures: Figures,
}

impl Accounts {
    /// An empty table.
    #[must_use]
    pub fn new(unit: AccountUnit) -> Self {
        Self(Mutex::new(Table {
            unit,
            rows: Vec::new(),
            by_name: HashTable::new(),
            hasher: RandomState::new(),
            least: 0,
            cursor: 0,
            next_generation: 0,
            others: Figures::default(),
            name: String::new(),
        }))
    }

    /// Adds figures of a request for an object, or with an empty key for its bucket.
    pub fn note(&self, bucket: &str, key: &str, figures: &Figures) -> AccountRow {
        self.table().note(bucket, key, figures)
    }

    /// Adds figures that became known later.
    pub fn add(&self, row: AccountRow, figures: &Figures) {
        let mut table = self.table();
        match table.rows.get_mut(row.at).filter(|of| of.generation == row.generation) {
            Some(of) => of.figures.add(figures),
            None => table.others.add(figures),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn note(&mut self, bucket: &str, key: &str, figures: &Figures) -> AccountRow {
        self.name.clear();
        self.name.push_str(bucket);
        self.name.push('/');
        self.name.push_str(self.unit.of(key));
        let hash = self.hasher.hash_one(self.name.as_str());
        let found = self.by_name.find(hash, |at| self.rows[*at].name == self.name);
        let at = match found {
            Some(at) => *at,
            None => self.take_row(hash),
        };
        let row = &mut self.rows[at];
        row.calls += 1;
        row.figures.add(figures);
        AccountRow { at, generation: row.generation }
    }

    /// Gives `name` a row: a new one, or that of the prefix with the fewest calls.
    fn take_row(&mut self, hash: u64) -> usize {
        let generation = self.next_generation;
        self.next_generation += 1;
        let at = match self.rows.len() {
            ROWS => {
                let at = self.fewest_calls();
                let row = &mut self.rows[at];
                let old = self.hasher.hash_one(row.name.as_str());
                if let Ok(entry) = self.by_name.find_entry(old, |of| *of == at) {
                    entry.remove();
                }
                self.others.add(&row.figures);
                row.name.clone_from(&self.name);
                (row.generation, row.earlier_max) = (generation, row.calls);
                row.figures = Figures::default();
                at
            }
            at => {
                let (calls, earlier_max, figures) = (0, 0, Figures::default());
                let name = self.name.clone();
                self.rows.push(Row { name, generation, calls, earlier_max, figures });
                at
            }
        };
        let (rows, hasher) = (&self.rows, &self.hasher);
        self.by_name.insert_unique(hash, at, |of| hasher.hash_one(rows[*of].name.as_str()));
        at
    }

    /// Row with the fewest calls. Calls only grow, so each pass over the rows finds all that have
    /// as few.
    fn fewest_calls(&mut self) -> usize {
        loop {
            let rest = &self.rows[self.cursor..];
            if let Some(behind) = rest.iter().position(|row| row.calls <= self.least) {
                self.cursor += behind + 1;
                return self.cursor - 1;
            }
            self.cursor = 0;
            self.least = self.fewest();
        }
    }

    fn fewest(&self) -> u64 {
        self.rows.iter().map(|row| row.calls).min().unwrap_or(0)
    }
}

/// Figures of one prefix, over all tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixAccount {
    /// `bucket/prefix`; of an object `bucket/key`.
    pub name: String,
    /// Since the prefix has rows.
    pub figures: Figures,
    /// At most this many requests, of clients and to origins, were before that. 0: none.
    pub earlier_max: u64,
}

/// Accounts of several tables, summed up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountSummary {
    /// The prefixes with most requests, of clients and to origins: 256 at most, the first has most.
    pub prefixes: Vec<PrefixAccount>,
    /// Sum of all others.
    pub others: Figures,
}

impl AccountSummary {
    /// Sums up tables.
    pub fn of<'a>(tables: impl IntoIterator<Item = &'a Accounts>) -> Self {
        let mut summary = Self::default();
        let mut by_name = HashMap::<String, (u64, PrefixAccount, u64)>::new();
        let mut floors = 0;
        for table in tables {
            let table = table.table();
            summary.others.add(&table.others);
            // A prefix without a row in a full table may have had as many requests there.
            let floor = if table.rows.len() == ROWS { table.fewest() } else { 0 };
            floors += floor;
            for row in &table.rows {
                let new = || {
                    let account = PrefixAccount {
                        name: row.name.clone(),
                        figures: Figures::default(),
                        earlier_max: 0,
                    };
                    (0, account, 0)
                };
                let (calls, account, known_floors) =
                    by_name.entry(row.name.clone()).or_insert_with(new);
                *calls += row.calls;
                *known_floors += floor;
                account.figures.add(&row.figures);
                account.earlier_max += row.earlier_max;
            }
        }
        let mut all: Vec<_> = by_name.into_values().collect();
        all.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.name.cmp(&b.1.name)));
        for (_, account, _) in all.iter().skip(ROWS) {
            summary.others.add(&account.figures);
        }
        let prefixes = all.into_iter().take(ROWS).map(|(_, account, known_floors)| {
            let earlier_max = account.earlier_max + floors - known_floors;
            PrefixAccount { earlier_max, ..account }
        });
        summary.prefixes = prefixes.collect();
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_base::Rng;

    const ONE: Figures = Figures {
        requests: 1,
        reads: 1,
        served_by_cache: 0,
        served_bytes: 0,
        origin_requests: 0,
        origin_bytes: 0,
    };

    #[test]
    fn a_row_is_of_a_bucket_a_prefix_or_an_object() {
        for (unit, key, expected) in [
            (AccountUnit::Prefix(0), "a/b/c", ""),
            (AccountUnit::Prefix(1), "a/b/c", "a/"),
            (AccountUnit::Prefix(2), "a/b/c", "a/b/"),
            (AccountUnit::Prefix(9), "a/b/c", "a/b/"),
            (AccountUnit::Prefix(1), "object", ""),
            (AccountUnit::Prefix(1), "//x", "/"),
            (AccountUnit::Prefix(1), "ä/ö", "ä/"),
            (AccountUnit::Object, "a/b/c", "a/b/c"),
        ] {
            assert_eq!(unit.of(key), expected, "{unit:?} {key}");
        }
    }

    #[test]
    fn figures_of_a_few_prefixes_are_exact_and_tables_are_summed_up() {
        let tables = [0; 2].map(|_| Accounts::new(AccountUnit::default()));
        let row = tables[0].note("b", "logs/1", &ONE);
        tables[0].add(row, &Figures { served_bytes: 10, ..Figures::default() });
        tables[1].note("b", "logs/2", &ONE);
        tables[1].note("b", "top", &ONE);
        let AccountSummary { prefixes, others } = AccountSummary::of(&tables);
        let seen: Vec<_> = prefixes
            .iter()
            .map(|of| {
                (of.name.as_str(), of.figures.requests, of.figures.served_bytes, of.earlier_max)
            })
            .collect();
        assert_eq!(seen, [("b/logs/", 2, 10, 0), ("b/", 1, 0, 0)]);
        assert_eq!(others, Figures::default());
    }

    /// Against exact counts: nothing is lost, bounds hold, and what is frequent has a row.
    #[test]
    fn of_many_prefixes_the_frequent_ones_have_rows_and_all_figures_add_up() {
        let mut rng = Rng::new(3);
        for prefixes in [100_u64, 256, 257, 5000] {
            let tables = [0; 3].map(|_| Accounts::new(AccountUnit::default()));
            let mut exact = HashMap::<String, u64>::new();
            let mut late = Vec::new();
            const REQUESTS: u64 = 200_000;
            for _ in 0..REQUESTS {
                // A prefix is the rarer, the higher its number.
                let prefix = rng.below(rng.clone().below(prefixes) + 1);
                let table = &tables[usize::try_from(rng.below(3)).unwrap()];
                let row = table.note("b", &format!("{prefix}/x"), &ONE);
                *exact.entry(format!("b/{prefix}/")).or_default() += 1;
                late.push((table, row));
                if 100 < late.len() {
                    for (table, row) in late.drain(..) {
                        table.add(row, &Figures { served_bytes: 7, ..Figures::default() });
                    }
                }
            }
            let AccountSummary { prefixes: rows, others } = AccountSummary::of(&tables);
            assert_eq!(rows.len() as u64, prefixes.min(256));
            let mut sum = others;
            rows.iter().for_each(|of| sum.add(&of.figures));
            assert_eq!((sum.requests, sum.reads), (REQUESTS, REQUESTS));
            assert!(7 * (REQUESTS - 101) <= sum.served_bytes && sum.served_bytes <= 7 * REQUESTS);
            for of in &rows {
                let exact = exact[&of.name];
                let bounds = of.figures.requests..=of.figures.requests + of.earlier_max;
                assert!(bounds.contains(&exact), "{exact} in {bounds:?}");
            }
            let is_listed = |name: &String| rows.iter().any(|of| of.name == *name);
            let frequent = exact.iter().filter(|(_, n)| REQUESTS / 256 * 3 < **n);
            assert!(frequent.clone().count() > 0 || prefixes > 256);
            for (name, n) in frequent {
                assert!(is_listed(name), "{name} had {n}");
            }
            if prefixes <= 256 {
                assert!(rows.iter().all(|of| of.earlier_max == 0) && others == Figures::default());
            }
        }
    }

    #[test]
    fn a_row_that_another_prefix_took_gets_nothing_of_the_first_one() {
        let accounts = Accounts::new(AccountUnit::default());
        let first = accounts.note("b", "0/x", &ONE);
        for n in 1..=2 * ROWS {
            accounts.note("b", &format!("{n}/x"), &ONE);
        }
        accounts.add(first, &Figures { served_bytes: 5, ..Figures::default() });
        let AccountSummary { prefixes, others } = AccountSummary::of([&accounts]);
        assert!(prefixes.iter().all(|of| of.figures.served_bytes == 0));
        assert_eq!(others.served_bytes, 5);
        assert!(prefixes.iter().all(|of| of.earlier_max != 0), "they took the rows of others");
    }
}
