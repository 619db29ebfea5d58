//! LRU list of numbers.

/// Numbers in the order of their last use. Each operation takes constant time.
pub(super) struct Order {
    /// Neighbours of each number in a doubly linked list. Entry 0 is the sentinel, before the
    /// oldest and behind the newest. Number `n` has entry `n + 1`.
    links: Vec<Link>,
    len: usize,
}

#[derive(Clone, Copy)]
struct Link {
    before: u32,
    behind: u32,
}

/// Links of a number that is not in the list.
const NOT_THERE: Link = Link { before: u32::MAX, behind: u32::MAX };

/// Entry of the sentinel.
const OWN: u32 = 0;

impl Order {
    /// An empty list for numbers below `count`.
    pub(super) fn new(count: u32) -> Self {
        let mut order = Self { links: vec![Link { before: OWN, behind: OWN }], len: 0 };
        order.take_numbers_below(count);
        order
    }

    /// Grows the list to numbers below `count`.
    pub(super) fn take_numbers_below(&mut self, count: u32) {
        let links = (count as usize + 1).max(self.links.len());
        self.links.resize(links, NOT_THERE);
    }

    /// Count of the numbers in the list.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Makes the number the newest.
    pub(super) fn insert(&mut self, number: u32) {
        self.remove(number);
        let newest = self.links[OWN as usize].before;
        self.link(number + 1, newest, OWN);
    }

    /// Makes the number the oldest.
    pub(super) fn insert_oldest(&mut self, number: u32) {
        self.remove(number);
        let oldest = self.links[OWN as usize].behind;
        self.link(number + 1, OWN, oldest);
    }

    fn link(&mut self, at: u32, before: u32, behind: u32) {
        self.links[at as usize] = Link { before, behind };
        self.links[before as usize].behind = at;
        self.links[behind as usize].before = at;
        self.len += 1;
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        self.links[number as usize + 1].before != NOT_THERE.before
    }

    /// True when the number was in the list.
    pub(super) fn remove(&mut self, number: u32) -> bool {
        if !self.contains(number) {
            return false;
        }
        let Link { before, behind } =
            std::mem::replace(&mut self.links[number as usize + 1], NOT_THERE);
        self.links[before as usize].behind = behind;
        self.links[behind as usize].before = before;
        self.len -= 1;
        true
    }

    /// Puts `new` in the place of `old`. Requires: `old` is in the list, `new` is not.
    pub(super) fn replace(&mut self, old: u32, new: u32) {
        let Link { before, behind } = self.links[old as usize + 1];
        self.remove(old);
        self.link(new + 1, before, behind);
    }

    /// Least recently used number.
    pub(super) fn oldest(&self) -> Option<u32> {
        self.links[OWN as usize].behind.checked_sub(1)
    }

    /// All numbers, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let next = move |number: u32| self.links[number as usize + 1].behind.checked_sub(1);
        std::iter::successors(self.oldest(), move |number| next(*number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_comes_first_and_a_use_makes_it_the_newest() {
        let mut order = Order::new(5);
        let all = |order: &Order| order.iter().collect::<Vec<_>>();
        assert!(all(&order).is_empty());
        for number in [3, 0, 4] {
            order.insert(number);
        }
        order.insert(3);
        assert_eq!(all(&order), [0, 4, 3]);
        order.replace(4, 1);
        assert_eq!(all(&order), [0, 1, 3]);
        assert!(order.remove(0) && !order.remove(0) && !order.contains(4));
        assert_eq!(all(&order), [1, 3]);
        order.take_numbers_below(9);
        order.insert(8);
        order.insert_oldest(3);
        assert_eq!((all(&order), order.len()), (vec![3, 1, 8], 3));
        assert_eq!(order.oldest(), Some(3));
    }
}
