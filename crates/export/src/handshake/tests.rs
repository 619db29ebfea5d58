//! Handshake: the replies to every option, in order and out of order.

use proptest::prelude::*;

use super::*;

fn offers() -> Vec<Offer> {
    let offer = |name: &str, size| Offer { name: name.into(), description: "d".into(), size };
    vec![offer("a", 1 << 20), offer("bb", 2 << 20)]
}

/// The replies to all of `input`, and the last step.
fn answer_to(input: &[u8]) -> (Vec<u8>, Step) {
    let (mut handshake, mut output) = (Handshake::new(), BytesMut::new());
    let (mut at, offers) = (0, offers());
    loop {
        let (taken, step) = handshake.advance(&input[at..], &offers, &mut output);
        at += taken;
        if step != Step::Next {
            return (output.to_vec(), step);
        }
    }
}

/// The client's flags, then these options.
fn client(options: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut input = vec![0, 0, 0, 3];
    for (option, data) in options {
        input.put_u64(OPTION_MAGIC);
        input.put_u32(*option);
        input.put_u32(low_u32(data.len()));
        input.put_slice(data);
    }
    input
}

fn answers(expected: &[(u32, u32, &[u8])]) -> Vec<u8> {
    let mut output = BytesMut::new();
    for (option, kind, data) in expected {
        reply(&mut output, *option, *kind, |output| output.put_slice(data));
    }
    output.to_vec()
}

/// A name with its length, then `rest`.
fn named(name: &str, rest: &[u8]) -> Vec<u8> {
    let length = low_u32(name.len()).to_be_bytes();
    [&length[..], name.as_bytes(), rest].concat()
}

/// An export name and context queries.
fn meta(name: &str, queries: &[&str]) -> Vec<u8> {
    let count = low_u32(queries.len()).to_be_bytes();
    let queries: Vec<u8> = queries.iter().flat_map(|query| named(query, &[])).collect();
    named(name, &[&count[..], &queries].concat())
}

/// Compares the kind of the error only: its text is for people.
#[track_caller]
fn check_refused(options: &[(u32, Vec<u8>)], kind: u32) {
    let (output, step) = answer_to(&client(options));
    let (option, _) = options.last().unwrap();
    let mut last = &output[..];
    let mut fields = Fields(&output);
    while let Some(20) = fields.bytes(20).map(<[u8]>::len) {
        let begin = output.len() - fields.0.len() - 20;
        last = &output[begin..];
        let length = u32::from_be_bytes(last[16..20].try_into().unwrap());
        fields.bytes(length as usize).unwrap();
    }
    assert_eq!(last[8..12], option.to_be_bytes());
    assert_eq!((&last[12..16], step), (&kind.to_be_bytes()[..], Step::More));
}

#[test]
fn the_server_greets_with_what_the_protocol_fixes() {
    let mut output = BytesMut::new();
    Handshake::greet(&mut output);
    assert_eq!(&output[..], b"NBDMAGICIHAVEOPT\0\x03");
}

#[test]
fn an_export_is_chosen_by_name_and_described_in_the_old_way() {
    let mut input = vec![0, 0, 0, 1];
    input.extend(&client(&[(option::EXPORT_NAME, b"bb".to_vec())])[4..]);
    let (output, step) = answer_to(&input);
    let agreed = Negotiated { export: 1, structured: false, allocation: false };
    assert_eq!(step, Step::Agreed(agreed));
    let golden = [0, 0, 0, 0, 0, 0x20, 0, 0, 0b1001, 0b0110_1101];
    assert_eq!((&output[..10], output.len()), (&golden[..], 10 + 124));
    assert_eq!(output[10..], [0; 124]);

    input[3] = 3;
    let (output, step) = answer_to(&input);
    assert_eq!((output.as_slice(), step), (&golden[..], Step::Agreed(agreed)), "without zeros");
}

#[test]
fn the_empty_name_is_that_of_the_first_export() {
    for (name, export) in [("", 0), ("a", 0), ("bb", 1)] {
        let (_, step) = answer_to(&client(&[(option::GO, named(name, &[0, 0]))]));
        let agreed = Negotiated { export, structured: false, allocation: false };
        assert_eq!(step, Step::Agreed(agreed), "{name:?}");
    }
}

#[test]
fn exports_are_listed_with_their_descriptions() {
    let expected = answers(&[
        (option::LIST, answer::SERVER, b"\0\0\0\x01ad"),
        (option::LIST, answer::SERVER, b"\0\0\0\x02bbd"),
        (option::LIST, answer::ACK, b""),
    ]);
    assert_eq!(answer_to(&client(&[(option::LIST, vec![])])), (expected, Step::More));
}

#[test]
fn an_answer_is_laid_out_as_the_protocol_says() {
    let golden = [
        0, 3, 0xE8, 0x89, 4, 0x55, 0x65, 0xA9, // magic
        0, 0, 0, 8, // option
        0, 0, 0, 1, // acknowledged
        0, 0, 0, 0, // no data
    ];
    let (output, _) = answer_to(&client(&[(option::STRUCTURED_REPLY, vec![])]));
    assert_eq!(output, golden);
}

#[test]
fn a_client_is_told_what_it_asks_of_an_export() {
    let wanted =
        [3, info::NAME, info::DESCRIPTION, info::BLOCK_SIZE].map(u16::to_be_bytes).concat();
    let (output, step) = answer_to(&client(&[(option::INFO, named("a", &wanted))]));
    let export = [0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0b1001, 0b0110_1101];
    let sizes = [0, 3, 0, 0, 0, 1, 0, 0, 0x10, 0, 2, 0, 0, 0];
    let expected = answers(&[
        (option::INFO, answer::INFO, &export),
        (option::INFO, answer::INFO, b"\0\x01a"),
        (option::INFO, answer::INFO, b"\0\x02d"),
        (option::INFO, answer::INFO, &sizes),
        (option::INFO, answer::ACK, b""),
    ]);
    assert_eq!((output, step), (expected, Step::More));
}

#[test]
fn block_status_needs_structured_replies_and_the_same_export() {
    let structured = (option::STRUCTURED_REPLY, vec![]);
    let set = |name| (option::SET_META_CONTEXT, meta(name, &["x:y", allocation::NAME]));
    let go = (option::GO, named("bb", &[0, 0]));
    for (options, structured, allocation) in [
        (vec![structured.clone(), set("bb"), go.clone()], true, true),
        (vec![structured.clone(), set("a"), go.clone()], true, false),
        (vec![structured.clone(), set("bb"), set("none"), go.clone()], true, false),
        (vec![set("bb"), structured.clone(), go.clone()], true, false),
        (vec![structured, go.clone()], true, false),
        (vec![go], false, false),
    ] {
        let (output, step) = answer_to(&client(&options));
        assert_eq!(step, Step::Agreed(Negotiated { export: 1, structured, allocation }));
        // DF is offered only with structured replies.
        let export =
            [0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0b1001, 0b0110_1101 | u8::from(structured) << 7];
        let described =
            answers(&[(option::GO, answer::INFO, &export), (option::GO, answer::ACK, b"")]);
        assert!(output.ends_with(&described), "{output:?}");
    }
}

#[test]
fn contexts_are_listed_and_set() {
    let structured = (option::STRUCTURED_REPLY, vec![]);
    let there_is = |option, id| {
        let context = [&[0, 0, 0, id][..], allocation::NAME.as_bytes()].concat();
        let acknowledged = (option::STRUCTURED_REPLY, answer::ACK, &b""[..]);
        answers(&[
            acknowledged,
            (option, answer::META_CONTEXT, &context),
            (option, answer::ACK, b""),
        ])
    };
    let (lists, sets) = (option::LIST_META_CONTEXT, option::SET_META_CONTEXT);
    for (option, queries, found) in [
        (lists, &[][..], true),
        (lists, &["base:"], true),
        (lists, &["qemu:x", "base:allocation"], true),
        (lists, &["qemu:x"], false),
        (sets, &["base:allocation", "base:allocation"], true),
        (sets, &["base:"], false),
        (sets, &[], false),
    ] {
        let (output, _) = answer_to(&client(&[structured.clone(), (option, meta("a", queries))]));
        let id = u8::from(option == sets);
        assert_eq!(output == there_is(option, id), found, "{option} {queries:?}");
    }
}

#[test]
fn what_is_not_an_option_is_refused_and_the_next_is_taken() {
    let structured = (option::STRUCTURED_REPLY, vec![]);
    let (go, info) = (option::GO, option::INFO);
    check_refused(&[(option::STARTTLS, vec![])], answer::ERR_UNSUP);
    check_refused(&[(11, vec![])], answer::ERR_UNSUP);
    check_refused(&[(0xFFFF_FFFF, vec![1; 100])], answer::ERR_UNSUP);
    check_refused(&[(option::LIST, vec![0])], answer::ERR_INVALID);
    check_refused(&[(option::STRUCTURED_REPLY, vec![0])], answer::ERR_INVALID);
    check_refused(&[(go, named("none", &[0, 0]))], answer::ERR_UNKNOWN);
    check_refused(&[(go, vec![])], answer::ERR_INVALID);
    check_refused(&[(go, named("a", &[0, 2, 0, 0]))], answer::ERR_INVALID);
    check_refused(&[(info, named("a", &[0, 0, 0]))], answer::ERR_INVALID);
    check_refused(&[(info, vec![0xFF, 0xFF, 0xFF, 0xFF, b'a'])], answer::ERR_INVALID);
    let set = |data| (option::SET_META_CONTEXT, data);
    check_refused(&[set(meta("a", &[]))], answer::ERR_INVALID);
    check_refused(&[structured.clone(), set(meta("none", &[]))], answer::ERR_UNKNOWN);
    check_refused(&[structured.clone(), set(named("a", &[0, 0, 0, 9]))], answer::ERR_INVALID);
    let endless = vec![0; OPTION_BYTES_MAX + 1];
    check_refused(&[structured, (option::INFO, endless)], answer::ERR_TOO_BIG);
}

#[test]
fn a_breach_of_the_protocol_ends_the_connection() {
    let good = client(&[(option::LIST, vec![])]);
    let mut wrong_magic = good.clone();
    wrong_magic[4] ^= 1;
    let mut unknown_flag = good.clone();
    unknown_flag[3] |= 4;
    let mut not_fixed = good;
    not_fixed[3] = 2;
    let long_name = client(&[(option::EXPORT_NAME, vec![0; OPTION_BYTES_MAX + 1])]);
    let no_name = client(&[(option::EXPORT_NAME, b"none".to_vec())]);
    let no_end = client(&vec![(option::LIST, vec![]); 1025]);
    for input in [wrong_magic, unknown_flag, not_fixed, long_name, no_name, no_end] {
        assert_eq!(answer_to(&input).1, Step::Close);
    }
}

#[test]
fn a_client_that_gives_up_is_told_so() {
    let expected = answers(&[(option::ABORT, answer::ACK, b"")]);
    assert_eq!(answer_to(&client(&[(option::ABORT, vec![])])), (expected, Step::Close));
}

/// A mixture of valid options and random bytes.
fn any_input() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![Just("a"), Just("bb"), Just(""), Just("none")];
    let data = prop_oneof![
        Just(vec![]),
        (name.clone(), prop::collection::vec(0..5_u8, 0..4)).prop_map(|(name, items)| {
            let mut rest = vec![0, u8::try_from(items.len()).unwrap()];
            rest.extend(items.iter().flat_map(|item| [0, *item]));
            named(name, &rest)
        }),
        (name, any::<bool>())
            .prop_map(|(name, asks)| { meta(name, if asks { &[allocation::NAME] } else { &[] }) }),
        prop::collection::vec(any::<u8>(), 0..40),
        Just(vec![7; OPTION_BYTES_MAX + 5]),
    ];
    let options =
        prop::collection::vec((0..13_u32, data), 0..8).prop_map(|options| client(&options));
    prop_oneof![
        4 => options.clone(),
        2 => (options, any::<prop::sample::Index>(), any::<u8>()).prop_map(|(mut bytes, at, byte)| {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            bytes
        }),
        1 => prop::collection::vec(any::<u8>(), 0..200),
    ]
}

proptest! {
    #[test]
    fn however_options_are_cut_they_are_answered_alike(
        input in any_input(),
        cuts in prop::collection::vec(1..60_usize, 0..40),
    ) {
        let (expected, expected_step) = answer_to(&input);
        let (mut handshake, mut output) = (Handshake::new(), BytesMut::new());
        let (offers, mut buffered, mut came) = (offers(), Vec::new(), 0);
        let mut cuts = cuts.into_iter();
        let end = loop {
            let before = output.len();
            let (taken, step) = handshake.advance(&buffered, &offers, &mut output);
            buffered.drain(..taken);
            prop_assert!(output.len() - before < 1024, "an answer is short");
            match step {
                Step::Next => {}
                Step::More if came == input.len() => break step,
                Step::More => {
                    let bound = OPTION_HEADER_BYTES + OPTION_BYTES_MAX;
                    prop_assert!(buffered.len() < bound, "it waits for what it will refuse");
                    let more = cuts.next().unwrap_or(usize::MAX).min(input.len() - came);
                    buffered.extend_from_slice(&input[came..came + more]);
                    came += more;
                }
                Step::Agreed(_) | Step::Close => break step,
            }
        };
        prop_assert_eq!((output.to_vec(), end), (expected, expected_step));
    }
}
