//! Partial blocks: reads, writes and trims of any byte range, compared with an array of bytes.

use proptest::prelude::*;
use zonal_base::Rng;

use crate::client::{READ, STATUS, TRIM, WRITE_ZEROES};
use crate::{Client, served, settle};

/// Size of the tested part of the volume, in bytes.
const BYTES: u32 = 12 * 4096;

const CELLS: usize = BYTES as usize / 512;

#[derive(Clone, Copy, Debug)]
enum Action {
    Write(u8),
    Zero,
    Trim,
    Read,
    Status,
}

fn actions() -> impl Strategy<Value = Vec<(Action, usize, usize)>> {
    let action = prop_oneof![
        4 => any::<u8>().prop_map(Action::Write),
        1 => Just(Action::Zero),
        1 => Just(Action::Trim),
        3 => Just(Action::Read),
        1 => Just(Action::Status),
    ];
    // Positions near block borders are more frequent.
    let edge =
        (0..12_usize, 0..5_usize).prop_map(|(block, near)| (block * 4096 + near).saturating_sub(2));
    let place = prop_oneof![edge, 0..BYTES as usize];
    prop::collection::vec((action, place.clone(), place), 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_volume_is_a_row_of_bytes(actions in actions()) {
        served(async |served| {
            let mut client = Client::connect(&served.socket()).await;
            client.structured().await;
            client.allocation("a").await;
            client.go("a").await;
            let mut model = vec![0; BYTES as usize];
            for (action, one, other) in actions {
                let range = one.min(other)..one.max(other) + 1;
                let span = (range.start as u64, u32::try_from(range.len()).unwrap());
                match action {
                    Action::Write(byte) => {
                        let data: Vec<u8> = (0..=byte).rev().cycle().take(range.len()).collect();
                        client.written(0, span.0, &data).await;
                        model[range].copy_from_slice(&data);
                    }
                    Action::Zero | Action::Trim => {
                        let is_trim = matches!(action, Action::Trim);
                        let kind = if is_trim { TRIM } else { WRITE_ZEROES };
                        assert_eq!(client.asked((kind, 0), span).await.error, 0);
                        model[range].fill(0);
                    }
                    Action::Read => {
                        let reply = client.asked((READ, 0), span).await;
                        assert!(reply.data == model[range], "{span:?}");
                    }
                    Action::Status => {
                        let reply = client.asked((STATUS, 0), span).await;
                        let mut at = range.start;
                        for (length, flags) in reply.extents {
                            let extent = at..at + length as usize;
                            let is_hole = flags == 3;
                            assert!(!is_hole || model[extent.clone()].iter().all(|byte| *byte == 0));
                            at = extent.end;
                        }
                        assert_eq!(at, range.end);
                    }
                }
            }
            assert!(client.read(0, BYTES).await == model);
        });
    }
}

/// Many clients write to the same few blocks at once, each client its own bytes of a block, and
/// other whole blocks beside them. A read-modify-write must not undo a concurrent write of another
/// client.
#[test]
fn writes_to_parts_of_one_block_lose_nothing_of_each_other() {
    served(async |served| {
        let mut clients =
            [served.client("a").await, served.client("a").await, served.client("a").await];
        let mut rng = Rng::new(7);
        for round in 0..30_u8 {
            // Cells of 512 bytes: some are written alone, and some blocks as a whole.
            let mut model = clients[0].read(0, BYTES).await;
            let mut writes = Vec::new();
            let mut cell = 0;
            while cell < CELLS {
                let is_block = cell % 8 == 0 && rng.one_in(3);
                let cells = if is_block { 8 } else { 1 + zonal_base::index(rng.below(11)) };
                let cells = cells.min(CELLS - cell);
                if is_block || rng.one_in(2) {
                    let range = cell * 512..(cell + cells) * 512;
                    let data = vec![round + 1; range.len()];
                    model[range.clone()].copy_from_slice(&data);
                    writes.push((range.start as u64, data));
                }
                cell += cells;
            }
            let count = writes.len();
            for (number, (offset, data)) in writes.into_iter().enumerate() {
                clients[number % 3].write(0, number as u64, offset, &data).await;
            }
            for number in 0..count {
                assert_eq!(clients[number % 3].reply().await.error, 0);
            }
            settle().await;
            assert!(clients[1].read(0, BYTES).await == model, "round {round}");
        }
    });
}
