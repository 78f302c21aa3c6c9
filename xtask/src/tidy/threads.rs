//! The program starts its threads in one place, so that each has a name and none is started past what that place does for it.
//!
//! Tests may start theirs as they like.

use crate::finding::Finding;
use crate::tree::SourceFile;

const PRODUCT: [&str; 3] = ["crates/ferrule/src/", "crates/backends/src/", "crates/relay/src/"];
const STARTS: [&str; 2] = ["thread::Builder", "thread::spawn("];

/// Every other place that starts a thread.
pub fn findings(files: &[SourceFile]) -> Vec<Finding> {
    let is_product = |file: &&SourceFile| PRODUCT.iter().any(|folder| file.path.starts_with(folder));
    let product = files.iter().filter(is_product).filter(|file| file.is_rust() && !is_test(&file.path));
    product.flat_map(starts).collect()
}

fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// Tests come last in a file.
fn starts(file: &SourceFile) -> Vec<Finding> {
    let product = file.numbered_lines().take_while(|(_, line)| *line != "#[cfg(test)]");
    let started = product.filter(|(_, line)| STARTS.iter().any(|start| line.contains(start)));
    let message = "starts a thread; use `ferrule_kernel::threads::spawn`, the one place for it";
    started.map(|(number, _)| Finding::new(&file.path, number, message)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_in(path: &str, text: &str) -> usize {
        findings(&[SourceFile { path: path.to_owned(), text: text.to_owned() }]).len()
    }

    #[test]
    fn threads_are_started_in_one_place() {
        let text = "let thread = std::thread::spawn(work);\nthread::Builder::new().spawn(work)?;\n";
        assert_eq!(found_in("crates/backends/src/nftables/watch.rs", text), 2);
        assert_eq!(found_in("crates/kernel/src/threads.rs", text), 0);
        assert_eq!(found_in("crates/ferrule/src/run/drift/tests.rs", text), 0);
        assert_eq!(found_in("crates/testkit/src/program.rs", text), 0);
    }

    #[test]
    fn tests_start_theirs_as_they_like() {
        let text =
            "threads::spawn(\"name\", work)\n#[cfg(test)]\nmod tests {\n    std::thread::spawn(work);\n}\n";
        assert_eq!(found_in("crates/ferrule/src/run/drift.rs", text), 0);
    }
}
