//! What was used longest ago, of things that have a number.

/// Numbers in the order of their last use. Each operation costs the same however many there are.
pub(super) struct Order {
    /// Of each number those before and behind it; the last one is the list's own, before the oldest and behind the
    /// newest.
    links: Vec<Link>,
}

#[derive(Clone, Copy)]
struct Link {
    before: u32,
    behind: u32,
}

/// Of a number that is not in the order.
const NOT_THERE: Link = Link { before: u32::MAX, behind: u32::MAX };

impl Order {
    /// An empty one, of numbers below `count`.
    pub(super) fn new(count: u32) -> Self {
        let mut links = vec![NOT_THERE; count as usize + 1];
        links[count as usize] = Link { before: count, behind: count };
        Self { links }
    }

    /// It was used now.
    pub(super) fn insert(&mut self, number: u32) {
        self.remove(number);
        let own = self.own();
        let newest = self.links[own as usize].before;
        self.links[number as usize] = Link { before: newest, behind: own };
        self.links[newest as usize].behind = number;
        self.links[own as usize].before = number;
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        self.links[number as usize].before != NOT_THERE.before
    }

    /// True when it was there.
    pub(super) fn remove(&mut self, number: u32) -> bool {
        if !self.contains(number) {
            return false;
        }
        let Link { before, behind } =
            std::mem::replace(&mut self.links[number as usize], NOT_THERE);
        self.links[before as usize].behind = behind;
        self.links[behind as usize].before = before;
        true
    }

    /// Puts `new` where `old` is. Requires: `old` is there, `new` is not.
    pub(super) fn replace(&mut self, old: u32, new: u32) {
        let Link { before, behind } = std::mem::replace(&mut self.links[old as usize], NOT_THERE);
        self.links[new as usize] = Link { before, behind };
        self.links[before as usize].behind = new;
        self.links[behind as usize].before = new;
    }

    /// Oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let own = self.own();
        let next = move |number: u32| {
            let behind = self.links[number as usize].behind;
            (behind != own).then_some(behind)
        };
        std::iter::successors(next(own), move |number| next(*number))
    }

    fn own(&self) -> u32 {
        zonal_base::low_u32(self.links.len() - 1)
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
    }
}
