//! Any text as a story: it runs or names a line, and blessing is settled after once.
#![no_main]

use ferrule_testkit::Story;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(story) = Story::parse(text) else { return };
    let Ok(blessed) = story.blessed() else { return };
    let again = Story::parse(&blessed).and_then(|story| story.blessed());
    assert_eq!(again.as_deref(), Ok(blessed.as_str()));
});
