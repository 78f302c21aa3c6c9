//! Tests that go through everything a file goes through.

mod random_input;
