//! Placement map: the devices of a node, the buckets of each, and which of them missed
//! invalidations.
//!
//! 1. The roster is written to every device of the node when it changes: at a start with other
//!    devices than before, and when a device is isolated or joins again. No change takes effect
//!    before it is on flash.
//! 2. A start compares all rosters. A device that the newest roster omits, or marks as offline, has
//!    missed removals and is wiped. Devices that were used apart (split brain) are refused.
//! 3. Buckets of missing devices move to new devices, or else to all others. Apart from these, only
//!    the buckets that a new device needs are moved.
//!
//! The layout is in `docs/formats/roster.md`: little-endian, versioned, golden bytes in the tests
//! below.

use zonal_cache::{BUCKETS, PlacementEpochs, ROSTER_BYTES_MAX};

/// Identity of a log, or of one state of the roster.
pub(crate) type Id = [u8; 16];

/// Maximum number of devices of a node: they fit the roster, and no machine has more slots.
pub(crate) const DEVICES_MAX: usize = 128;

/// Devices and placement of a node, as stored on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Roster {
    /// Version counter: higher than that of the roster it was derived from.
    number: u64,
    id: Id,
    members: Vec<Member>,
    buckets: Vec<Bucket>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    log: Id,
    shard_count: u16,
    /// Offline: receives no removals, and must be wiped or replayed before use.
    is_away: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bucket {
    /// Index of its device in `members`.
    member: usize,
    /// Placement epoch: the generation since which the bucket is on that device.
    since: u64,
}

/// State of a device as found at a start.
#[derive(Clone, Debug)]
pub(crate) struct DeviceRecord {
    pub(crate) log: Id,
    pub(crate) shard_count: u16,
    /// True if the device was just formatted.
    pub(crate) is_new: bool,
    pub(crate) roster: Option<Roster>,
}

/// Membership agreed at a start.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MembershipOutcome {
    pub(crate) roster: Roster,
    /// True if the roster differs from that on some device, and must be written.
    pub(crate) is_news: bool,
    /// By device: it missed removals, and must be wiped.
    pub(crate) is_emptied: Vec<bool>,
    /// By device: its log identity in the roster, which is new for a wiped device.
    pub(crate) logs: Vec<Id>,
}

/// Split brain: two devices were used apart, and neither knows which removals it missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SplitBrain {
    pub(crate) one: usize,
    pub(crate) other: usize,
}

/// State of a device relative to the newest roster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberState {
    /// It has missed no removals.
    Current,
    /// It is blank.
    New,
    /// It has missed removals.
    Behind,
}

/// Agrees on the roster from what was found. Requires: `generation` is higher than that of any
/// record, and nothing was written since it was drawn. The random ids are for a new roster, and for
/// the logs of wiped devices.
pub(crate) fn agree_membership(
    found: &[DeviceRecord],
    generation: u64,
    (id, new_logs): (Id, &[Id]),
) -> Result<MembershipOutcome, SplitBrain> {
    let newest = (0..found.len())
        .filter(|at| found[*at].roster.is_some())
        .max_by_key(|at| found[*at].roster.as_ref().map_or(0, |roster| roster.number));
    let Some(holder) = newest else { return Ok(first(found, generation, id)) };
    let newest = found[holder].roster.as_ref().expect("it was chosen for it");
    let mut standings = Vec::with_capacity(found.len());
    for (at, device) in found.iter().enumerate() {
        let standing = newest.standing_of(device, found);
        standings.push(standing.ok_or(SplitBrain { one: holder, other: at })?);
    }
    let is_emptied: Vec<bool> =
        standings.iter().map(|standing| *standing == MemberState::Behind).collect();
    let has = |device: &DeviceRecord| device.roster.as_ref() == Some(newest);
    if found.len() == newest.members.len() && found.iter().all(has) && !is_emptied.contains(&true) {
        let logs = found.iter().map(|device| device.log).collect();
        return Ok(MembershipOutcome { roster: newest.clone(), is_news: false, is_emptied, logs });
    }
    let members = found.iter().zip(&is_emptied).zip(new_logs).map(|((device, empty), new_log)| {
        let log = if *empty { *new_log } else { device.log };
        Member { log, shard_count: device.shard_count, is_away: false }
    });
    let members: Vec<Member> = members.collect();
    let logs = members.iter().map(|member| member.log).collect();
    // Members are matched to their old entries: a wiped device keeps its buckets, with a new epoch.
    let was = |device: &DeviceRecord| newest.members.iter().position(|old| old.log == device.log);
    let was: Vec<Option<usize>> = found.iter().map(was).collect();
    let homes = newest.buckets.iter().map(|bucket| {
        let member = was.iter().position(|was| *was == Some(bucket.member))?;
        let since = if is_emptied[member] { generation } else { bucket.since };
        Some(Bucket { member, since })
    });
    let buckets = spread_over(&members, homes.collect(), generation);
    let number = newest.number + 1;
    let roster = Roster { number, id, members, buckets };
    Ok(MembershipOutcome { roster, is_news: true, is_emptied, logs })
}

/// The first roster. A single used device had all buckets from the beginning, and needs no stored
/// roster while it is alone. If several devices were used before, all buckets get a new epoch,
/// because their history is unknown.
fn first(found: &[DeviceRecord], generation: u64, id: Id) -> MembershipOutcome {
    let member = |device: &DeviceRecord| Member {
        log: device.log,
        shard_count: device.shard_count,
        is_away: false,
    };
    let members: Vec<Member> = found.iter().map(member).collect();
    let mut used = (0..found.len()).filter(|at| !found[*at].is_new);
    let alone = used.next().filter(|_| used.next().is_none());
    let home = alone.map(|member| Bucket { member, since: 0 });
    let buckets = spread_over(&members, vec![home; BUCKETS], generation);
    let roster = Roster { number: 1, id, members, buckets };
    let is_emptied = vec![false; found.len()];
    let logs = found.iter().map(|device| device.log).collect();
    MembershipOutcome { roster, is_news: 1 < found.len(), is_emptied, logs }
}

/// Gives each member a share of the buckets, in proportion to its shards. Unassigned buckets are
/// moved first.
fn spread_over(members: &[Member], mut homes: Vec<Option<Bucket>>, since: u64) -> Vec<Bucket> {
    let shards: usize = members.iter().map(|member| usize::from(member.shard_count)).sum();
    let part = |member: &Member| usize::from(member.shard_count) * BUCKETS;
    let least: Vec<usize> = members.iter().map(|member| part(member) / shards).collect();
    let most: Vec<usize> = members.iter().map(|member| part(member).div_ceil(shards)).collect();
    let mut has = vec![0; members.len()];
    homes.iter().flatten().for_each(|bucket| has[bucket.member] += 1);
    // The member with the least relative to its share. The offset keeps the difference positive.
    let poorest = |has: &[usize]| {
        (0..members.len()).min_by_key(|at| (has[*at] + BUCKETS - least[*at], *at)).unwrap_or(0)
    };
    for home in homes.iter_mut().filter(|home| home.is_none()) {
        let member = poorest(&has);
        *home = Some(Bucket { member, since });
        has[member] += 1;
    }
    for home in homes.iter_mut().flatten() {
        let (from, to) = (home.member, poorest(&has));
        let is_too_much = most[from] < has[from] && has[to] < most[to];
        if is_too_much || (least[from] < has[from] && has[to] < least[to]) {
            has[from] -= 1;
            has[to] += 1;
            *home = Bucket { member: to, since };
        }
    }
    homes.into_iter().flatten().collect()
}

impl Roster {
    /// State of a device relative to this roster. `None` if the device was used apart.
    fn standing_of(&self, device: &DeviceRecord, all: &[DeviceRecord]) -> Option<MemberState> {
        if let Some(own) = &device.roster
            && own.id != self.id
        {
            // The device's roster is older, not diverged, if a device of it also holds the newest
            // roster. A device used alone would have dropped the others from its roster.
            let was_with =
                |other: &DeviceRecord| own.members.iter().any(|known| known.log == other.log);
            let has_newest = |other: &DeviceRecord| other.roster.as_ref() == Some(self);
            if !all.iter().any(|other| has_newest(other) && was_with(other)) {
                return None;
            }
        }
        Some(match self.members.iter().find(|member| member.log == device.log) {
            Some(Member { is_away: false, .. }) => MemberState::Current,
            None if device.is_new => MemberState::New,
            _ => MemberState::Behind,
        })
    }

    /// A copy with one member changed.
    pub(crate) fn with(&self, change: Change, id: Id) -> Self {
        let mut next = Self { number: self.number + 1, id, ..self.clone() };
        for (at, member) in next.members.iter_mut().enumerate() {
            match change {
                Change::Away(log) if log == member.log => member.is_away = true,
                Change::In(log) if log == member.log => member.is_away = false,
                Change::Emptied { log, as_log, since } if log == member.log => {
                    (member.log, member.is_away) = (as_log, false);
                    let own = next.buckets.iter_mut().filter(|bucket| bucket.member == at);
                    own.for_each(|bucket| bucket.since = since);
                }
                Change::Away(_) | Change::In(_) | Change::Emptied { .. } => (),
            }
        }
        next
    }

    /// Logs of the devices that receive all removals.
    pub(crate) fn present(&self) -> impl Iterator<Item = Id> {
        self.members.iter().filter(|member| !member.is_away).map(|member| member.log)
    }

    /// By bucket: the log of its device.
    pub(crate) fn homes(&self) -> impl Iterator<Item = Id> {
        self.buckets.iter().map(|bucket| self.members[bucket.member].log)
    }

    /// By bucket: its placement epoch.
    pub(crate) fn since(&self) -> PlacementEpochs {
        PlacementEpochs::since(self.buckets.iter().map(|bucket| bucket.since).collect())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&narrow(self.members.len()).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.id);
        for Member { log, shard_count, is_away } in &self.members {
            out.extend_from_slice(log);
            out.extend_from_slice(&shard_count.to_le_bytes());
            out.extend_from_slice(&u16::from(*is_away).to_le_bytes());
        }
        for Bucket { member, since } in &self.buckets {
            out.extend_from_slice(&since.to_le_bytes());
            out.push(narrow(*member).to_le_bytes()[0]);
        }
        assert!(out.len() <= ROSTER_BYTES_MAX);
        out
    }

    /// `None` when the bytes are not a roster of this version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        if u16::from_le_bytes(take(&mut rest)?) != VERSION {
            return None;
        }
        let member_count = usize::from(u16::from_le_bytes(take(&mut rest)?));
        let [0, 0, 0, 0] = take(&mut rest)? else { return None };
        let (number, id) = (u64::from_le_bytes(take(&mut rest)?), take(&mut rest)?);
        let mut members = Vec::new();
        for _ in 0..member_count {
            let log = take(&mut rest)?;
            let shard_count = u16::from_le_bytes(take(&mut rest)?);
            let is_away = match u16::from_le_bytes(take(&mut rest)?) {
                0 => false,
                1 => true,
                _ => return None,
            };
            members.push(Member { log, shard_count, is_away });
        }
        let mut buckets = Vec::with_capacity(BUCKETS);
        for _ in 0..BUCKETS {
            let since = u64::from_le_bytes(take(&mut rest)?);
            let [member] = take(&mut rest)?;
            let member = Some(usize::from(member)).filter(|member| *member < members.len())?;
            buckets.push(Bucket { member, since });
        }
        rest.is_empty().then_some(Self { number, id, members, buckets })
    }
}

/// Change of one member, named by its log.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// The member is offline: it receives no removals.
    Away(Id),
    /// The member receives removals, and missed none.
    In(Id),
    /// The member was wiped and has a new log. `since`: the new placement epoch of its buckets.
    Emptied { log: Id, as_log: Id, since: u64 },
}

const VERSION: u16 = 1;

// Offsets in bytes: 0 version, 2 member_count, 4 zeros, 8 number, 16 id; by member: 0 log,
// 16 shard_count, 18 is_away; by bucket: 0 since, 8 member.
const _: () = assert!(32 + 20 * DEVICES_MAX + 9 * BUCKETS <= ROSTER_BYTES_MAX);

fn narrow(n: usize) -> u16 {
    u16::try_from(n).expect("no more than DEVICES_MAX")
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(*taken)
}

#[cfg(test)]
mod tests;
