//! Where each key lies, and which keys are being fetched.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use zonal_base::{index, low_u32};
use zonal_runtime::Event;

/// A chunk's place on the drive: its zone times the chunks of a zone, and which of them.
pub(super) type ChunkAddress = u32;

/// Four bytes for each key up to the largest, and for each place.
pub(super) struct Map {
    /// [`NOWHERE`], [`UNDER_WAY`], or a place and [`PLACES`].
    keys: RefCell<Vec<u32>>,
    /// Which key lies there.
    places: RefCell<Vec<u32>>,
    under_way: RefCell<BTreeMap<u64, Rc<Event>>>,
}

const NOWHERE: u32 = 0;
const UNDER_WAY: u32 = 1;
const PLACES: u32 = 2;

/// No key lies here.
const NOTHING: u32 = u32::MAX;

impl Map {
    /// Requires: fewer than 2^32 - 2 places.
    pub(super) fn new(places: u64) -> Self {
        assert!(places < u64::from(u32::MAX - PLACES));
        Self {
            keys: RefCell::default(),
            places: RefCell::new(vec![NOTHING; index(places)]),
            under_way: RefCell::default(),
        }
    }

    /// The key's place, after a fetch of somebody else's if there is one. `None`: it is the caller's to fetch and to
    /// [`Map::insert`]. Requires: a key below 2^32 - 1.
    pub(super) async fn find(&self, key: u64, pin: impl Fn(ChunkAddress)) -> Option<ChunkAddress> {
        loop {
            let state = self.keys.borrow().get(index(key)).copied().unwrap_or(NOWHERE);
            match state {
                NOWHERE => {
                    let mut keys = self.keys.borrow_mut();
                    if keys.len() <= index(key) {
                        keys.resize(index(key) + 1, NOWHERE);
                    }
                    keys[index(key)] = UNDER_WAY;
                    return None;
                }
                UNDER_WAY => {
                    let landed = self.under_way.borrow_mut().entry(key).or_default().clone();
                    landed.wait().await;
                }
                found => {
                    pin(found - PLACES);
                    return Some(found - PLACES);
                }
            }
        }
    }

    /// The key lies there now.
    pub(super) fn insert(&self, key: u64, place: ChunkAddress) {
        self.keys.borrow_mut()[index(key)] = place + PLACES;
        self.places.borrow_mut()[place as usize] = low_u32(index(key));
        let landed = self.under_way.borrow_mut().remove(&key);
        if let Some(landed) = landed {
            landed.notify_all();
        }
    }

    /// Which key lies there, if one does.
    pub(super) fn key_at(&self, place: ChunkAddress) -> Option<u64> {
        let key = self.places.borrow()[place as usize];
        (key != NOTHING).then_some(u64::from(key))
    }

    /// The key lies there now, and no longer where it was.
    pub(super) fn moved(&self, key: u64, from: ChunkAddress, to: ChunkAddress) {
        self.keys.borrow_mut()[index(key)] = to + PLACES;
        let mut places = self.places.borrow_mut();
        places[to as usize] = std::mem::replace(&mut places[from as usize], NOTHING);
    }

    /// Nothing lies in these places any more.
    pub(super) fn clear(&self, places: std::ops::Range<ChunkAddress>) {
        let (mut keys, mut held) = (self.keys.borrow_mut(), self.places.borrow_mut());
        for place in places {
            let key = std::mem::replace(&mut held[place as usize], NOTHING);
            if key != NOTHING {
                keys[key as usize] = NOWHERE;
            }
        }
    }
}
