//! One field's place in a configuration, by its type: how the table of fields reaches the typed struct.
//!
//! A slot can be read as a [`Value`] and filled from one; the decoder, the encoder, the flags and the comparison of
//! two configurations all go through here, so that a field is described once.

use std::collections::BTreeMap;

use super::mode::WrittenMode;
use super::v1alpha1::{FlushFrequency, VModuleItem};
use crate::go::{GoDuration, Quantity};

/// A value on its way into or out of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `true` or `false`.
    Bool(bool),
    /// A 32-bit integer.
    Int32(i32),
    /// A 32-bit integer without sign.
    Uint32(u32),
    /// A 32-bit float.
    Float32(f32),
    /// Text.
    Text(String),
    /// A span of time.
    Duration(GoDuration),
    /// The flush frequency with its spelling.
    Flush(FlushFrequency),
    /// A list of texts.
    TextList(Vec<String>),
    /// Feature gates by name.
    Gates(BTreeMap<String, bool>),
    /// Verbosity per source file pattern.
    VModule(Vec<VModuleItem>),
    /// A Kubernetes quantity.
    Quantity(Quantity),
    /// The field is absent or null.
    Absent,
}

/// A field's place, with the type that decides what may go in.
#[derive(Debug)]
pub enum Slot<'a> {
    /// See [`Value::Bool`].
    Bool(&'a mut bool),
    /// A boolean in which absent differs from false.
    OptionalBool(&'a mut Option<bool>),
    /// See [`Value::Int32`].
    Int32(&'a mut i32),
    /// An integer in which absent differs from zero.
    OptionalInt32(&'a mut Option<i32>),
    /// See [`Value::Uint32`].
    Uint32(&'a mut u32),
    /// See [`Value::Float32`].
    Float32(&'a mut f32),
    /// See [`Value::Text`].
    Text(&'a mut String),
    /// The proxy mode, a [`Value::Text`] outside of its place.
    Mode(&'a mut WrittenMode),
    /// See [`Value::Duration`].
    Duration(&'a mut GoDuration),
    /// A duration in which absent differs from zero.
    OptionalDuration(&'a mut Option<GoDuration>),
    /// See [`Value::Flush`].
    Flush(&'a mut FlushFrequency),
    /// See [`Value::TextList`]; absent differs from empty.
    TextList(&'a mut Option<Vec<String>>),
    /// See [`Value::Gates`].
    Gates(&'a mut BTreeMap<String, bool>),
    /// See [`Value::VModule`].
    VModule(&'a mut Vec<VModuleItem>),
    /// See [`Value::Quantity`].
    Quantity(&'a mut Quantity),
}

impl Slot<'_> {
    /// What the field's type is called in the documentation.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Bool(_) | Self::OptionalBool(_) => "bool",
            Self::Int32(_) | Self::OptionalInt32(_) => "int32",
            Self::Uint32(_) => "uint32",
            Self::Float32(_) => "float32",
            Self::Text(_) | Self::Mode(_) => "string",
            Self::Duration(_) | Self::OptionalDuration(_) => "duration",
            Self::Flush(_) => "duration or nanoseconds",
            Self::TextList(_) => "list of strings",
            Self::Gates(_) => "map of string to bool",
            Self::VModule(_) => "list of {filePattern, verbosity}",
            Self::Quantity(_) => "quantity",
        }
    }

    /// The value that is there.
    pub fn get(&self) -> Value {
        match self {
            Self::Bool(place) => Value::Bool(**place),
            Self::OptionalBool(place) => place.map_or(Value::Absent, Value::Bool),
            Self::Int32(place) => Value::Int32(**place),
            Self::OptionalInt32(place) => place.map_or(Value::Absent, Value::Int32),
            Self::Uint32(place) => Value::Uint32(**place),
            Self::Float32(place) => Value::Float32(**place),
            Self::Text(place) => Value::Text((*place).clone()),
            Self::Mode(place) => Value::Text(place.text().to_owned()),
            Self::Duration(place) => Value::Duration(**place),
            Self::OptionalDuration(place) => place.map_or(Value::Absent, Value::Duration),
            Self::Flush(place) => Value::Flush(**place),
            Self::TextList(place) => (*place).clone().map_or(Value::Absent, Value::TextList),
            Self::Gates(place) => Value::Gates((*place).clone()),
            Self::VModule(place) => Value::VModule((*place).clone()),
            Self::Quantity(place) => Value::Quantity(**place),
        }
    }

    /// Puts a value in; one of another type is handed back.
    pub fn put(&mut self, value: Value) -> Result<(), Value> {
        match (self, value) {
            (Self::Bool(place), Value::Bool(value)) => **place = value,
            (Self::OptionalBool(place), Value::Bool(value)) => **place = Some(value),
            (Self::Int32(place), Value::Int32(value)) => **place = value,
            (Self::OptionalInt32(place), Value::Int32(value)) => **place = Some(value),
            (Self::Uint32(place), Value::Uint32(value)) => **place = value,
            (Self::Float32(place), Value::Float32(value)) => **place = value,
            (Self::Text(place), Value::Text(value)) => **place = value,
            (Self::Mode(place), Value::Text(value)) => **place = WrittenMode::parse(&value),
            (Self::Duration(place), Value::Duration(value)) => **place = value,
            (Self::OptionalDuration(place), Value::Duration(value)) => **place = Some(value),
            (Self::Flush(place), Value::Flush(value)) => **place = value,
            (Self::Flush(place), Value::Duration(every)) => {
                // A flag changes the time and keeps the spelling the file chose.
                place.every = every;
            }
            (Self::TextList(place), Value::TextList(value)) => **place = Some(value),
            (Self::Gates(place), Value::Gates(value)) => **place = value,
            (Self::VModule(place), Value::VModule(value)) => **place = value,
            (Self::Quantity(place), Value::Quantity(value)) => **place = value,
            (_, value) => return Err(value),
        }
        Ok(())
    }
}
