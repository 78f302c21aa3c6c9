//! Every story under `stories/` holds, is blessed, and there are enough of them.

use std::fs;
use std::path::Path;

use ferrule_testkit::{Story, stories_in};

#[test]
fn every_story_holds_and_is_blessed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../stories");
    let mut problems = Vec::new();
    let stories = stories_in(&folder).expect("the stories folder");
    for path in &stories {
        let text = fs::read_to_string(path).expect("a story file");
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let outcome = Story::parse(&text).and_then(|story| Ok((story.run()?, story.blessed()?)));
        match outcome {
            Err(error) => problems.push(format!("{name}: {error}")),
            Ok((findings, blessed)) => {
                problems.extend(findings.iter().map(|finding| format!("{name}: {finding}")));
                if blessed != text {
                    problems.push(format!("{name}: not blessed, run `make bless`"));
                }
            }
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    assert!(stories.len() >= 60, "only {} stories", stories.len());
}
