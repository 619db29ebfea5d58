//! Key map with single flight: where each key lies, and which keys are being fetched.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use zonal_base::{index, low_u32};
use zonal_runtime::Event;

/// Address of a chunk: zone number times chunks per zone, plus the chunk's number in the zone.
pub(super) type ChunkAddress = u32;

/// Key map with four bytes for each key up to the largest, and for each address.
pub(super) struct Map {
    /// [`NOWHERE`], [`UNDER_WAY`], or an address plus [`PLACES`].
    keys: RefCell<Vec<u32>>,
    /// Key at each address, or [`NOTHING`].
    places: RefCell<Vec<u32>>,
    under_way: RefCell<BTreeMap<u64, Rc<Event>>>,
}

const NOWHERE: u32 = 0;
const UNDER_WAY: u32 = 1;
const PLACES: u32 = 2;

/// Entry of an address without a key.
const NOTHING: u32 = u32::MAX;

impl Map {
    /// An empty map. Requires: fewer than 2^32 - 2 addresses.
    pub(super) fn new(places: u64) -> Self {
        assert!(places < u64::from(u32::MAX - PLACES));
        Self {
            keys: RefCell::default(),
            places: RefCell::new(vec![NOTHING; index(places)]),
            under_way: RefCell::default(),
        }
    }

    /// Address of the key. Waits if another thread is fetching the key. `None`: the caller must
    /// fetch the key and call [`Map::insert`]. Requires: a key below 2^32 - 1.
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

    /// Maps the key to the address, and wakes the threads that wait for the key.
    pub(super) fn insert(&self, key: u64, place: ChunkAddress) {
        self.keys.borrow_mut()[index(key)] = place + PLACES;
        self.places.borrow_mut()[place as usize] = low_u32(index(key));
        let landed = self.under_way.borrow_mut().remove(&key);
        if let Some(landed) = landed {
            landed.notify_all();
        }
    }

    /// Key at the address, if any.
    pub(super) fn key_at(&self, place: ChunkAddress) -> Option<u64> {
        let key = self.places.borrow()[place as usize];
        (key != NOTHING).then_some(u64::from(key))
    }

    /// Maps the key to its new address only.
    pub(super) fn moved(&self, key: u64, from: ChunkAddress, to: ChunkAddress) {
        self.keys.borrow_mut()[index(key)] = to + PLACES;
        let mut places = self.places.borrow_mut();
        places[to as usize] = std::mem::replace(&mut places[from as usize], NOTHING);
    }

    /// Forgets the keys at these addresses.
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
