//! Values of a key: one value, or a list whose values each make their own experiments.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};

/// Multiplies the experiments: each of them with each of the values.
pub(super) fn spread<E: Clone, T>(all: &mut Vec<E>, values: &Several<T>, set: impl Fn(&mut E, &T)) {
    let with = |one: &E, value: &T| {
        let mut one = one.clone();
        set(&mut one, value);
        one
    };
    *all = all.iter().flat_map(|one| values.0.iter().map(|value| with(one, value))).collect();
}

/// A single value.
pub(super) fn only<T>(value: T) -> Several<T> {
    Several(vec![value])
}

/// One value or a list of values.
pub(super) struct Several<T>(pub(super) Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Several<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SeveralVisitor(PhantomData))
    }
}

struct SeveralVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for SeveralVisitor<T> {
    type Value = Several<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or a list of values")
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Several(vec![T::deserialize(value.into_deserializer())?]))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Several(vec![T::deserialize(value.into_deserializer())?]))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Several(vec![T::deserialize(value.into_deserializer())?]))
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Self::Value, A::Error> {
        Ok(Several(vec![T::deserialize(MapAccessDeserializer::new(table))?]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        let values = Vec::<T>::deserialize(SeqAccessDeserializer::new(list))?;
        if values.is_empty() {
            return Err(A::Error::custom("a list of values needs one at least"));
        }
        Ok(Several(values))
    }
}

/// A value that is written as text with its unit.
pub(super) struct Text<T>(pub(super) T);

impl<'de, T: std::str::FromStr<Err: fmt::Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::experiment::text::deserialize(deserializer).map(Self)
    }
}
