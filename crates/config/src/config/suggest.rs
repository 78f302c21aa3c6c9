//! "Did you mean …?": the known word closest to a misspelt one.
//!
//! Used for flags, subcommands, configuration fields and feature gates alike.

/// Suggestions made for one input: a file full of unknown words is no file of typos, and finding the closest word takes time.
pub const MAX_SUGGESTIONS: usize = 20;

/// The closest known word, if one is close enough to be worth a guess.
pub fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = word.to_lowercase();
    // One slip in every three letters is a typo, more is another word.
    let allowed = (wanted.chars().count() / 3).clamp(1, 4);
    known
        .into_iter()
        .map(|candidate| (distance(&wanted, &candidate.to_lowercase()), candidate))
        .filter(|(slips, candidate)| *slips <= allowed && *slips < candidate.chars().count())
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, candidate)| candidate)
}

/// Edit distance in which swapping two neighbours counts as one slip.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // Words of absurd length are no typos, and the table below is quadratic.
    if a.len() > 80 || b.len() > 80 {
        return usize::MAX;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (row, &left) in a.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, &right) in b.iter().enumerate() {
            let replaced = above[column] + usize::from(left != right);
            let mut best = replaced.min(above[column + 1] + 1).min(current[column] + 1);
            let swapped = row > 0 && column > 0 && left == b[column - 1] && a[row - 1] == right;
            if swapped {
                best = best.min(before[column - 1] + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut above, current);
    }
    above.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn finds_the_word_that_was_meant() {
        let known = ["bind-address", "proxy-mode", "cluster-cidr", "v"];
        assert_eq!(closest("proxy-mod", known), Some("proxy-mode"));
        assert_eq!(closest("proxymode", known), Some("proxy-mode"));
        assert_eq!(closest("clsuter-cidr", known), Some("cluster-cidr"));
        assert_eq!(closest("Bind-Address", known), Some("bind-address"));
        assert_eq!(closest("frobnicate", known), None);
        assert_eq!(closest("", known), None);
    }
}
